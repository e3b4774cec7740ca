"""`_printable` and `_logs`: what others wrote forges no line of a log and moves no terminal."""

from __future__ import annotations

import ast
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_base import (
    MASK,
    MAX_LINES,
    MAX_PRINTED,
    SECRET_PART,
    Log,
    printable,
    printable_lines,
    secrets_in,
    shown,
    shown_process,
    without_secrets,
)
from inside_schema import InvalidValue, expected
from inside_wire import InvalidData, located, show

import trio_mcp
from trio_mcp import (
    AskRefused,
    AuthorizationFailed,
    AuthorizationRefused,
    ClientUnknown,
    ConfigError,
    ConnectionLost,
    HttpRefused,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
    ResourceNotFound,
    ServerUnavailable,
    SessionLost,
    SkillChanged,
    TaskCancelled,
    ToolError,
)

PACKAGE: Final = Path(trio_mcp.__file__).parent

NASTY: Final = "a\nERROR root: forged\r\x1b[2J\x9b2J\x00\x7f\u2028\u2029\u202e\u2066\u200b\ud800é"
SHOWN: Final = r"a\nERROR root: forged\r\x1b[2J\x9b2J\x00\x7f\u2028\u2029\u202e\u2066\u200b\ud800é"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("reserve Dune, 2 copies: 12 €", "reserve Dune, 2 copies: 12 €"),
        (r"C:\new", r"C:\new"),
        (NASTY, SHOWN),
        ("x" * MAX_PRINTED, "x" * MAX_PRINTED),
        ("x" * (MAX_PRINTED + 1), "x" * MAX_PRINTED + "…"),
        ("\0" * MAX_PRINTED, r"\x00" * (MAX_PRINTED // 4) + "…"),
    ],
)
def test_what_is_not_printable_is_shown_as_python_spells_it(text: str, shown: str) -> None:
    """A reader sees what was there, and nothing obeys it; an honest text stays as it is."""
    assert printable(text) == shown


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_whatever_comes_is_one_printable_line_of_bounded_length(text: str, limit: int) -> None:
    """There is no character that gets through, and none at which this fails."""
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit + 1
    assert printable(shown, limit) == shown


def test_lines_of_others_cannot_pass_for_ours() -> None:
    """A failure of a tool may have several lines; none but the first begins at the margin."""
    assert printable_lines("one\ntwo\r\n\x1b[2J") == "one\n    two\\r\n    \\x1b[2J"
    many = printable_lines("\n".join(map(str, range(MAX_LINES * 3)))).split("\n")
    assert len(many) == MAX_LINES + 1
    assert many[0] == "0"
    assert many[-1].strip() == str(MAX_LINES * 3 - 1)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_what_has_no_text_is_shown_as_far_as_it_goes() -> None:
    """Python cannot spell lists in lists in lists, nor long numbers; saying so must not fail in turn."""
    for value in (nested(100_000), 10**5_000):
        kind = type(value).__name__
        assert shown(value) == f"<{kind}, which cannot be shown>"
        assert str(RequestError(1, "refused", value)) == f"refused [1] <{kind}, which cannot be shown>"


# Exceptions.


def kinds_of(parent: type[McpError]) -> Iterator[type[McpError]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from kinds_of(kind)


ERRORS: Final[list[Exception]] = [
    McpError(NASTY),
    LocalProtocolError(NASTY),
    RemoteProtocolError(NASTY),
    RequestError(-32000, NASTY, {NASTY: [NASTY]}),
    AskRefused(-1, NASTY),
    HttpStatusError(500, NASTY, body=NASTY),
    SessionLost(404, NASTY, body=NASTY),
    AuthorizationRefused(401, NASTY, body=NASTY, scope=NASTY, error=NASTY),
    AuthorizationFailed(NASTY, error=NASTY),
    ClientUnknown(NASTY, issuer=NASTY),
    ToolError(NASTY),
    ResourceNotFound(NASTY, uri=NASTY),
    ConnectionLost(NASTY, stderr=[NASTY, "x" * 100_000]),
    InvalidData(located(NASTY, [(show(NASTY), show(NASTY))])),
    expected("a number", NASTY),
    InvalidValue([(NASTY, NASTY)]),
    InvalidData([(NASTY, NASTY)]),
    HttpRefused(400, NASTY),
    ConfigError(NASTY, [NASTY, NASTY]),
    ServerUnavailable(NASTY, "failed", NASTY),
    TaskCancelled(NASTY, NASTY),
    SkillChanged(NASTY, NASTY, NASTY),
]


def test_errors_can_be_printed(subtests: pytest.Subtests) -> None:
    """A printed error, or one that ends the program, shows text of the other side on a terminal."""
    for error in ERRORS:
        with subtests.test(error=error):
            first, *others = str(error).split("\n")
            assert first.isprintable()
            for line in others:
                assert line.isprintable()
                assert line.startswith("    ")
            assert len(str(error)) < 20_000
            assert repr(error).isascii() or repr(error).isprintable()


def test_every_kind_of_error_makes_its_text_printable() -> None:
    """One that says things in its own way says so here, and is in the table above."""
    own = {kind for kind in kinds_of(McpError) if "__str__" in vars(kind) and kind.__module__ == "trio_mcp"}
    assert own <= {type(error) for error in ERRORS} | {trio_mcp.Lagged}  # which says a number


def test_what_was_sent_can_still_be_read_as_it_was() -> None:
    """The text is for people; a program finds what the other side has said."""
    assert RequestError(1, NASTY, NASTY).message == NASTY
    assert HttpStatusError(500, "m", body=NASTY).body == NASTY
    assert ToolError(NASTY).args[0] == NASTY


# The log.


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a handler of the usual kind writes of our loggers."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("trio_mcp")
    logger.addHandler(handler)
    try:
        yield written
    finally:
        logger.removeHandler(handler)


@pytest.mark.parametrize(
    ("template", "arguments", "shown"),
    [
        ("refused %s", (NASTY,), f"refused {SHOWN}"),
        ("refused %.3s", (NASTY,), r"refused a\n"),
        ("refused %.3r of %d in %g s", ("\n\n", 2, 0.5), r"refused '\n of 2 in 0.5 s"),
        ("refused: %s", (ValueError(NASTY),), f"refused: {SHOWN}"),
        ("refused: %s", ({"a": NASTY[0]},), "refused: {'a': 'a'}"),
        ("refused %r", (10**5_000,), "refused <int, which cannot be shown>"),
        ("refused: %s", ("x" * 5_000,), f"refused: {'x' * MAX_PRINTED}…"),
        ("refused", (), "refused"),
    ],
)
def test_a_record_is_one_printable_line(
    written: io.StringIO, template: str, arguments: tuple[Any, ...], shown: str
) -> None:
    """A path with `%0a` in it looked like two records, the second of them the caller's own words."""
    Log("trio_mcp.http").warning(template, *arguments)
    assert written.getvalue() == f"WARNING trio_mcp.http: {shown}\n"


def test_a_traceback_forges_no_record(written: io.StringIO) -> None:
    """The text of an exception may be untrusted: every line of a traceback is indented."""
    try:
        try:
            raise KeyError(NASTY)
        except KeyError:
            raise ExceptionGroup(NASTY, [ValueError(NASTY)]) from None
    except ExceptionGroup:
        Log("trio_mcp.http").exception("failed")
    first, *others = written.getvalue().removesuffix("\n").split("\n")
    assert first == "ERROR trio_mcp.http: failed"
    assert any("ERROR root: forged" in line for line in others)
    for line in others:
        assert line.isprintable()
        assert line.startswith("    ")


def test_a_record_names_the_line_that_wrote_it(caplog: pytest.LogCaptureFixture) -> None:
    """Formatters can show it, and programs filter by it."""
    log = Log("trio_mcp.http")
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        for write in (log.debug, log.info, log.warning, log.error, log.exception):
            write("here")
        log.log(logging.WARNING, "here")
    assert {(record.module, record.funcName) for record in caplog.records} == {
        ("test_printable", "test_a_record_names_the_line_that_wrote_it")
    }
    assert [record.levelno for record in caplog.records] == [10, 20, 30, 40, 40, 30]


def called(call: ast.Call) -> str:
    """Return what is called, if that is a name, or a member of what has one."""
    function = call.func
    owner = ""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = f"{function.value.id}."
    return owner + (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", ""))


def test_every_logger_of_the_package_is_made_where_texts_become_printable() -> None:
    """What is logged by any other would reach the log as an untrusted peer has written it."""
    found = set[str]()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if re.search(r"\b(logging|getLogger|print|warnings)\b", source) is None:
            continue  # it need not be looked at more closely
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and called(node) in {
                "logging.getLogger", "getLogger", "logging.Logger", "logging.warning", "logging.error",
                "logging.info", "logging.debug", "logging.exception", "logging.log", "print", "warnings.warn",
            }:  # fmt: skip
                found.add(path.name)
            if isinstance(node, ast.ImportFrom) and node.module == "logging":
                found.add(path.name)
    assert found == {"_logs.py", "_audit.py"}  # of the second, test_audit shows the same


def test_templates_of_records_are_constants() -> None:
    """A message that is put together before it is logged has no arguments that could be made printable."""
    looked_at = 0
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if "_log." not in source:
            continue  # it need not be looked at more closely
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not called(node).startswith("_log."):
                continue
            looked_at += 1
            template = node.args[1 if called(node) == "_log.log" else 0]
            assert isinstance(template, ast.Constant), f"{path.name}, line {node.lineno}"
    assert looked_at > 50


# What others quote of our secrets.


@given(st.text("ab%", max_size=30), st.text("ab%", max_size=60))
def test_secrets_are_masked_whole_and_in_parts(secret: str, text: str) -> None:
    """Each character is masked that belongs to a part of the secret that is long enough, and no other."""
    size = min(len(secret), SECRET_PART)
    if size < 4:
        return
    is_masked = [False] * len(text)
    for at in range(len(text) - size + 1):
        if text[at : at + size] in secret:
            is_masked[at : at + size] = [True] * size
    expected = re.sub(
        "0+", MASK, "".join("0" if masked else c for c, masked in zip(text, is_masked, strict=True))
    )
    shown = without_secrets(text, [secret])
    if quote(secret, safe="") == secret == quote_plus(secret):
        assert shown == expected
    else:  # as it is encoded it was looked for as well
        assert not any(secret[at : at + size] in shown for at in range(len(secret) - size + 1))


def test_short_secrets_are_masked_as_words() -> None:
    """Else a password of one letter would make every text unreadable."""
    assert without_secrets("the resource s, and s2: s", ["s"]) == "the resource ***, and s2: ***"
    assert without_secrets("nothing", [""]) == "nothing"
    assert without_secrets("nothing", []) == "nothing"


def test_secrets_are_masked_in_json_however_they_are_encoded() -> None:
    value = {"error": ["code=a%2Fb%2Bcd", {"a/b+cd": 1}], "a/b+cd": None, "n": 7, "t": True}
    assert without_secrets(value, ["a/b+cd"]) == {
        "error": ["code=***", {"***": 1}],
        "***": None,
        "n": 7,
        "t": True,
    }
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert without_secrets(deep, ["a/b+cd"]) == MASK


def test_which_header_fields_are_secrets() -> None:
    fields = [
        (b"Authorization", b"Bearer t0ken"),
        (b"authorization", b"Basic bWU6cGFzcw=="),
        (b"Authorization", b"Basic !"),
        (b"proxy-authorization", b"t0ken"),
        (b"Cookie", b"a=b; c=d"),
        (b"X-Api-Key", b"k3y"),
        (b"DPoP", b"pr00f"),
        (b"Accept", b"text/html"),
        (b"Mcp-Session-Id", b"7"),
        (b"Mcp-Param-Token", b"of a tool's argument"),
        (b"X-Author", b"Jane Austen"),
        (b"Idempotency-Key", b"1"),
    ]
    assert secrets_in(fields) == ("t0ken", "bWU6cGFzcw==", "pass", "!", "", "t0ken", "b", "d", "k3y", "pr00f")


@pytest.mark.parametrize(
    ("command", "arguments", "name"),
    [
        ("/venv/bin/python", ["bad_print.py", "--token", "abc"], "/venv/bin/python bad_print.py"),
        ("python3.13", ["-X", "dev", "-m", "weather.server", "me"], "python3.13 -m weather.server"),
        ("python", ["-P", "-m", "trio_mcp", "run", "my notes.py:server"], "python my notes.py:server"),
        ("uv", ["run", "--with", "trio", "server.py"], "uv server.py"),
        (r"C:\node\node.exe", [r"C:\my servers\index.mjs"], r"C:\node\node.exe C:\my servers\index.mjs"),
        ("npx", ["-y", "@acme/server", "/home/me"], "npx"),
        ("git", ["commit", "-m", "s3cret"], "git"),
        ("python", ["-m", "a b", "--password", "hunter2.py"], "python"),
        ("python", ["-c", "print(1)", "https://me:pw@host/x.py", "API_KEY=abc.py"], "python"),
        ("serve --token=abc", ["x.rb"], "serve --token=… x.rb"),
    ],
)
def test_a_process_is_named_by_what_runs_in_it(command: str, arguments: list[str], name: str) -> None:
    """Four servers in Python are told apart; nothing else of the arguments is shown, for it may be a secret."""
    assert shown_process(command, arguments) == name
