"""Configurations, the command line, docstrings, and files of ours that somebody else may have written."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import trio
from fuzzing import ending, target, text_of
from inside_cli import (
    COMMANDS,
    Failure,
    first_sentence,
    json_text,
    read_arguments,
    short_numbers,
    type_name,
    without_secrets,
)
from inside_parsers import (
    FileTokenStore,
    _in_words,
    _object,
    _Reader,
    _Replay,
    read_command_line,
    read_json,
    read_object,
    servers_in,
    signature_of,
)
from inside_schema import parse_docstring
from inside_wire import decode, is_array, is_object

from trio_mcp import ConfigError, open_sqlite_event_store
from trio_mcp.testing import Recording

SECRET: Final = "hunter2-hunter2"
CONFIG_TOKENS: Final = (
    "mcpServers", "servers", "command", "args", "env", "cwd", "url", "headers", "type", "transport", "disabled", "enabled", "stdio", "http",
    "sse", "ws", "http://a/", "ws://a/", "unix:///x", "${A}", "${env:A}", "${A:-b}", "$${", "${", "}", SECRET, "Authorization", "--api-key",
)  # fmt: skip


@target(
    "mcp.json",
    ConfigError,
    shape="json",
    tokens=CONFIG_TOKENS,
    hard=(
        ('{"mcpServers":{', '"a":1,', '"b":{}}}'), ('{"mcpServers":{"a":{"command":"x","args":[', "1,", "1]}}}"), ('{"mcpServers":{"a":{"command":"', "${A}", '"}}}'),
        ('{"mcpServers":{"a":{"command":"', "${", '"}}}'), ('{"mcpServers":{"', "a", '":{}}}'), ("{", '"a":1,', '"b":1}'), ('{"mcpServers":{"a":{"url":"http://', "a.", '"}}}'),
    ),
    seeds=lambda: [
        '{"mcpServers":{"a":{"command":"python","args":["x","${A}"],"env":{"B":"${env:A}"},"cwd":"/"}}}',
        '{"servers":{"b":{"type":"http","url":"https://a/mcp","headers":{"Authorization":"Bearer ${A:-x}"}},"c":{"url":"wss://a/"},"d":{"disabled":true}}}',
        '{"mcpServers":{"a":{"command":"x"},"a":{"url":"unix:///x","type":"unix"}}}',
        '{"mcpServers":{"a":{"url":"tcp://a:1"},"b":{"url":"http://a","transport":"sse","type":"sse"}}}',
    ],
)  # fmt: skip
def read_mcp_json(data: bytes) -> None:
    try:
        plain: Any = json.loads(data.decode("utf-8-sig"))
        document: Any = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return
    if is_object(plain):
        shown = [(name, without_secrets(entry), entry) for name, entry in servers_in(plain).items()]
        for _, hidden, _ in shown:
            _in_words(hidden)
            json_text(hidden)
    try:
        entries = _Reader("a file", {"A": SECRET}, None).document(document, where="it")
    except ConfigError as error:
        text = str(error)
        assert SECRET not in text or SECRET.encode() in data or _is_elsewhere(document)
        assert len(text) <= 200_000 + 8 * len(data)
        raise
    assert all(name for name in entries)


def _objects_in(value: Any) -> list[dict[str, Any]]:
    """Return the members of an object that are objects."""
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return [cast("dict[str, Any]", each) for each in members.values() if isinstance(each, dict)]


def _is_elsewhere(document: Any) -> bool:
    """Whether a reference is in what may be quoted: only values of `args`, `env` and `headers` may not."""
    entries = [entry for servers in _objects_in(document) for entry in _objects_in(servers)]
    return any(
        "$" in json.dumps(value, default=str)
        for entry in entries
        for name, value in entry.items()
        if name not in {"args", "env", "headers"}
    )


# The command line.


@target(
    "arguments",
    Failure,
    shape="text",
    tokens=('{"properties":{"a":', '{"type":"', "string", "integer", "array", "object", "null", '"items":', '{"$ref":"#"}', '"anyOf":[', "\na=", "\na.b=", "\nb=1", "[1]", "1.0", "true", "=", ".", '"additionalProperties":false', '"const":', '"enum":['),
    hard=(("{}\n", "a", "=1"), ("{}\na=", "[", ""), ("{}\n", "a=1\n", ""), ('{"properties":{"a":{"$ref":"#"}}}\n', "a.", "a=1"), ('{"anyOf":[', '{"$ref":"#"},', "{}]}\na=1")),
    seeds=lambda: [
        '{"properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"integer"}},"c":{"type":"object","properties":{"d":{"anyOf":[{"type":"number"},{"type":"null"}]}}}}}\na=x\nb=1\nb=2\nc.d=5',
        '{"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}}}\nx=abc',
        '{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]}\na=1', '{"required":["a"],"properties":{"a":{"enum":[1,"x",null]}},"additionalProperties":false}\na=x\nb=1',
    ],
)  # fmt: skip
def read_command_line_arguments(data: bytes) -> None:
    head, _, rest = text_of(data).partition("\n")
    try:
        schema = decode(head.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    if not is_object(schema):
        return
    assert isinstance(type_name(schema, schema), str)
    assert len(signature_of("name", schema)) <= 8 * len(head) + 100
    with contextlib.suppress(Failure):
        read_object(rest, "x")
    read = read_arguments(rest.split("\n"), schema)
    assert json_text(read)
    # As it is sent: what indents it for people writes two spaces for each level of each line.
    assert len(json_text(short_numbers(read), indent=None)) <= 20 * len(data) + 100


@target(
    "command lines",
    SystemExit,
    Failure,
    shape="text",
    tokens=(*(f"{name}\n" for name in COMMANDS), "--", "--help", "--json", "--timeout\n", "1e999", "nan", "-1", "--header\n", "a: b", "--config\n", "x.py", "http://a", "--port\n", "=", "--era\n", "-"),
    hard=("a\n", "call\na\n", "--", "-"),
    seeds=lambda: ["list\nhttp://a\n--json", "call\nx.py\nadd\na=1\nb=2", "run\nx.py\n--http\n--port\n8000", "ping\n--\npython\nx.py", "--help", "lst"],
)  # fmt: skip
def read_command_lines(data: bytes) -> None:
    words = text_of(data).replace("\0", "").split("\n")
    if words and words[0].startswith("-"):
        return  # help and version are printed, which needs the process's own streams
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        if not {"-h", "--help"} & set(words) and not any(word.startswith(("--h", "-h")) for word in words):
            name, options = read_command_line(words)
            assert name in COMMANDS
            assert options is not None


@target(
    "shown values",
    shape="json",
    tokens=("\x1b[31m", "\u202e", "\n", "\t", "type", "anyOf", "$ref", "#", "array", "items", "const", "enum", "properties", "required"),
    hard=("[", ('"', "\u202e", '"'), ("[", "1.0,", "1]"), ('{"anyOf":[', '{"$ref":"#"},', "1]}"), ('{"required":[', '"a",', '"b"],"properties":{"b":{}}}'), ('{"properties":{', '"a":1,', '"b":1}}')),
    seeds=lambda: ['{"a":[1.0,"\\u202e",null,{"b":"\\n"}]}', '{"type":"array","items":{"anyOf":[{"const":1},{"enum":["a"]},{"type":["null","string"]}]}}', '{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}'],
)  # fmt: skip
def read_shown_values(data: bytes) -> None:
    value = ending(lambda: decode(data), ValueError, RecursionError)
    if isinstance(value, type):
        return
    for indent in (None, 2):
        text = json_text(short_numbers(value), indent=indent)
        assert text.replace("\n", "").isprintable()
    if is_object(value):
        assert len(type_name(value, value)) <= 100_000 + 20 * len(data)
        signature_of("a", value)
    if isinstance(value, str):
        assert len(first_sentence(value)) <= len(value)
    if all(mark not in data for mark in (b"e", b"E", b".")):
        assert decode(json_text(value).encode()) == value


# Files.


@target(
    "token files",
    ValueError,
    shape="json",
    tokens=("{", "}", '"a"', ":", "\ufeff", "null"),
    hard=("[", ("{", '"a":"b",', '"c":"d"}'), " "),
    seeds=lambda: ['{"a":"b"}', "{}", "[1]", '{"a":1}', "\ufeff{}"],
)
def read_token_files(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        path = Path(folder) / "tokens.json"
        path.write_bytes(data)
        path.chmod(0o600)
        store = FileTokenStore(path)
        kept = store._read()
        assert all(type(each) is str for key, entry in kept.items() for each in (key, entry.value))
        store._write(kept, 0, None)
        assert store._read() == kept


_FOLDER: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None


@target(
    "configured servers",
    Failure,
    shape="json",
    tokens=CONFIG_TOKENS,
    hard=("[", ('{"mcpServers":{', '"a":{},', '"b":{}}}'), '{"a":'),
    seeds=lambda: ['{"mcpServers":{"a":{"command":"x"}}}', "", "[", "\ufeff{}", '{"servers":5}'],
)
def read_configured_servers(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        path = Path(folder) / "mcp.json"
        path.write_bytes(data)
        value = read_json(path)
    if value is not None:
        for entry in servers_in(value).values():
            assert _in_words(without_secrets(entry)) is not None


# What a store keeps for streams that are taken up again.

SESSION: Final = "0123456789abcdef"
TABLES: Final = (
    "",  # as the store makes it
    "CREATE TABLE events (position INTEGER PRIMARY KEY AUTOINCREMENT, session, stream, number, data)",
    "CREATE TABLE events (position INTEGER PRIMARY KEY, session TEXT, stream TEXT, number TEXT, data TEXT, at TEXT)",
    "CREATE VIEW events AS SELECT 1 AS position, 'a' AS session, 1 AS stream, 1 AS number, 'x' AS data, 0 AS at",
    "CREATE TABLE events (a)",
)
"""What the file may have had before."""

Cell: TypeAlias = str | int | float | bytes | None


@target(
    "stored events",
    sqlite3.Error,
    OSError,
    shape="json",
    tokens=(SESSION, '"1_0"', "1.5", "1e999", "null", "-1", "9223372036854775807", "9223372036854775808", "SQLite format 3\0", '"b:x"', "[0,[", "2"),
    hard=(("[0,[", f'["{SESSION}",1,1,"b:x"],', f'["{SESSION}",1,2,"b:x"]]]'),),
    seeds=lambda: [
        f'[0,[["{SESSION}",1,1,"b:x"],["{SESSION}",1,2,"b:y"],["{SESSION}",2,1,"b:z"]]]',
        f'[0,[["{SESSION}",1,1.5,"b:x"],["{SESSION}",1,"1_0",1000000000000]]]',
        f'[1,[["{SESSION}",1,"1_0","x"],["{SESSION}",1,"a",null]]]',
        f'[2,[["{SESSION}",1,"09","b:x"]]]', f'[2,[["{SESSION}",1,"5",null]]]', "[3,[]]", "[4,[]]", "", "SQLite format 3\0",
    ],
)  # fmt: skip
def read_stored_events(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        path = Path(folder) / "events"
        given = ending(lambda: decode(data), ValueError, RecursionError)
        if is_array(given) and len(given) == 2 and is_array(given[1]):
            with contextlib.suppress(sqlite3.Error, OverflowError):
                _write_events(path, given[0], given[1])
        else:
            path.write_bytes(data)
        trio.run(_read_events, path)


def _write_events(path: Path, table: object, rows: Sequence[object]) -> None:
    """Write what somebody else may have written."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        made = TABLES[table % len(TABLES)] if isinstance(table, int) else ""
        database.execute(
            made
            or "CREATE TABLE events (position INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, "
            "stream INTEGER NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL, at REAL NOT NULL DEFAULT 9e9)"
        )
        for row in rows:
            cells = [_cell(cell) for cell in row] if is_array(row) else []
            database.execute("INSERT INTO events (session, stream, number, data) VALUES (?, ?, ?, ?)", cells[:4])


def _cell(value: object) -> Cell:
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        return text[2:].encode() if text.startswith("b:") else text
    return value if isinstance(value, (int, float)) else None


async def _read_events(path: Path) -> None:
    async with open_sqlite_event_store(path, max_session_events=3) as store:
        after = 0
        while events := await store.read(SESSION, 1, after, 2):  # as a stream does that is taken up again
            assert len(events) <= 2
            for number, event in events:
                assert type(number) is int
                assert number > after
                assert type(event) is bytes
                after = number
        after = min(
            after, 1 << 62
        )  # a stream that is appended to counts for itself, and not on from what is there
        await store.append(SESSION, 1, [(number, b"x" * 10) for number in range(after + 1, after + 5)])
        await store.forget(SESSION)
        assert not await store.read(SESSION, 1, 0, 10)


# Records of a wire.


@target(
    "recordings",
    ValueError,
    shape="json",
    tokens=('"direction":"sent"', '"direction":"received"', '"message":', '"at":', '"time":', "\n", "1e999", "NaN", "***", "9" * 320, '"id":1', '"method":"a"', '"cursor"', '"requestState"', '"progressToken"', "\u2028"),
    hard=(('{"direction":"sent","message":', "[", ""), ('{"direction":"', "a", '"}'), "\n", ('{"direction":"sent","message":{', '"id":1,', '"method":"a"}}'), '{"direction":"sent","message":1}\n'),
    seeds=lambda: [
        ('{"time":"2026-01-01T00:00:00+00:00","at":0.5,"direction":"sent","message":{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"a"}}}\n'
        '{"at":1,"direction":"received","message":{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"b"}}}'),
        '{"direction":"sent","message":"no JSON"}', '{"direction":[],"message":1}', '{"direction":"sent","message":1,"at":"x"}', "[]", "1", "",
    ],
)  # fmt: skip
def read_recordings(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        path = Path(folder) / "calls.jsonl"
        path.write_bytes(data)
        recording = Recording.read(path)
        again = Path(folder) / "again.jsonl"
        again.write_text("".join(f"{frame.line()}\n" for frame in recording.frames), encoding="utf-8")
        assert repr(Recording.read(again)) == repr(recording)  # NaN is not equal to itself
    turned = recording.seen_by("client", "server")
    assert turned.seen_by("server", "client") == recording or "nan" in repr(recording)
    for frame in recording.frames:
        replay = _Replay(cast("Any", None), ())
        with contextlib.suppress(RecursionError):  # as it says
            same = replay._matcher.differences(frame.message, frame.message)
            assert not same or "NaN" in frame.line()
            replay._note(frame.message, frame.message)
            replay.today(frame.message)


# Docstrings.


@target(
    "docstrings",
    shape="text",
    tokens=("\nArgs:\n", "Returns:\n", "    a: b\n", "    a (int): b\n", "Parameters\n----------\n", "a : int\n", ":param a: b\n", ":returns: x\n", "list[str]", " | ", "[", "]", "- ", "1. ", "\n\n", "\t", ":", "Raises:\n", "  "),
    hard=(
        "a", " ", "\n", ("a", " ", "x"), ("\nArgs:\n    a (", ")", "b"), ("\nReturns:\n    a", "[]|a", " x"), ("\nArgs:\n", "    a: b\n", ""), (":a", " ", "x"), "Args:\n", ("\nParameters\n---\n", "a : int\n    b\n", ""),
        ":param a: b\n", ("\nReturns:\n", "    a\n", ""), "- a\n", ("\nReturns:\n    a", "|a", " x"), ("\nReturns:\n    a[", "]", " x"), "\n\n a", ("\nArgs:\n", "   a (", ")"),
    ),
    seeds=lambda: [
        "Do it.\n\n    More.\n\nArgs:\n    a: What.\n        Goes on.\n    *b (int): Other.\n\nReturns:\n    dict[str, int] | None: What.\n\nRaises:\n    ValueError: Never.",
        "Do it.\n\nParameters\n----------\na : int\n    What.\nb, c\n    Others.\n\nReturns\n-------\nint\n    What.\n\nNotes\n-----\nx",
        "Do it.\n\n:param int a: What.\n    Goes on.\n:returns: x\n:rtype: int\n:raises ValueError: y",
    ],
)  # fmt: skip
def read_docstrings(data: bytes) -> None:
    text = text_of(data)
    read = parse_docstring(text)
    size = len(text.expandtabs()) + 8
    assert len(read.summary) <= size
    assert len(read.returns or "") <= size
    assert sum(map(len, read.arguments.values())) <= size * (1 + text.count(","))
    assert "\n" not in read.first_paragraph
