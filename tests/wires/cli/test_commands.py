"""Each command, at a server over HTTP: what it prints, and its exit status."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from commands import Run
from inside_cli import Exit, Failure, Options, _converse
from patient_clock import PatientClock

ESCAPES = ("\x1b", "\x07", "\x9b", "\u202e")


def test_list_shows_everything_there_is(run: Run, shop: str) -> None:
    """One line for each, with its first sentence."""
    done = run("list", shop)
    assert (done.status, done.err) == (0, "")
    assert "tools\n  add(a, b)  " in done.out
    assert "\nresources\n  shop://hours  When the shop is open.\n" in done.out
    assert "\ntemplates\n  shop://books/{title}  One of the books.\n" in done.out
    assert done.out.endswith("\nprompts\n  review(title, tone?)  Review a book.\n")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tools", "add"), ("resources", "hours"), ("templates", "book"), ("prompts", "review")],
)
def test_list_shows_one_kind(run: Run, shop: str, kind: str, name: str) -> None:
    """For people without a headline; for programs as the server lists them."""
    done = run("list", shop, kind)
    assert (done.status, done.out.splitlines()[0].startswith(kind)) == (0, False)
    plain = json.loads(run("list", shop, kind, "--json").out)
    assert plain[0]["name"] == name
    raw = run("list", "--raw", shop, kind).out
    assert raw.count("\n") == 1
    assert json.loads(raw) == plain


def test_list_as_json_has_all_kinds(run: Run, shop: str) -> None:
    """By their words."""
    assert list(json.loads(run("list", shop, "--json").out)) == ["tools", "resources", "templates", "prompts"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_call_prints_structured_output_as_json(run: Run, shop: str, era: str) -> None:
    """The arguments are what the schema says; options stand anywhere."""
    done = run(
        "call", shop, "order", "title=7", "--era", era, "copies=2", "tags=a", "to.street=Via", "to.floor=3"
    )
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out) == {
        "title": "7",
        "copies": 2,
        "gift": False,
        "tags": ["a"],
        "weights": [],
        "to": {"street": "Via", "floor": 3},
        "size": [1, 1],
        "note": None,
        "kind": "paper",
    }


def test_both_eras_print_the_same_number(run: Run, shop: str) -> None:
    """The older one has nothing but objects around it."""
    for era in ("modern", "legacy"):
        assert run("call", shop, "add", "a=20", "b=22", "--era", era).out == "42\n"
    raw = json.loads(run("call", shop, "add", "a=20", "b=22", "--era", "legacy", "--raw").out)
    assert raw["structuredContent"] == {"result": 42}


def test_call_takes_arguments_as_json(
    run: Run, shop: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As an option, or from standard input."""
    assert run("call", shop, "add", "--json", '{"a": 20, "b": 22.5}').out == "42.5\n"
    given = tmp_path / "given.json"
    given.write_text('{"a": 20, "b": 22}')
    with given.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run("call", shop, "add", "--json", "-", "--era", "modern").out == "42\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "--json", "[1]"), "--json must be a JSON object"),
        (("add", "--json", '{"a" 1}'), "--json must be a JSON object: Expecting ':' delimiter: line 1 column 6"),
        (("add", "--json", "{}", "a=1"), "the arguments are given by --json or as key=value, not both"),
        (("add", "a=one"), "a: expected number, not 'one'"),
        (("add", "a"), "'a' must be key=value"),
        (("order", "titel=Dune"), "the tool has no parameter 'titel'; it has title, copies"),
        (("add", "a=1e400"), "a: expected number, not '1e400'"),
        (("add", "--json", '{"a": [1e999]}'), "--json.a[0]: inf is not a number in JSON"),
        (("add", "--json", '{"a": "\\ud800"}'), "--json.a: has half a surrogate pair, which is no text in UTF-8"),
        (("add\udcff", "a=1"), "TOOL: has half a surrogate pair, which is no text in UTF-8"),
    ],
)
def test_a_mistake_in_the_arguments_is_told(run: Run, shop: str, words: tuple[str, ...], message: str) -> None:
    """With the exit status for usage, and nothing on standard output."""
    done = run("call", shop, *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"trio-mcp: {message}")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("read", "file:///\udcff"), "URI"),
        (("prompt", "p\udcff"), "NAME"),
        (("prompt", "p", "a=\udcff"), "a"),
        (("listen", "file:///\udcff"), "URI"),
    ],
)
def test_what_is_no_text_is_a_mistake(run: Run, shop: str, words: tuple[str, ...], place: str) -> None:
    """Python keeps a byte of a command line that is not UTF-8 as half a surrogate pair."""
    done = run(words[0], shop, *words[1:])
    assert (done.status, done.out) == (2, "")
    assert done.err == f"trio-mcp: {place}: has half a surrogate pair, which is no text in UTF-8\n"


def test_call_prints_text_that_is_harmless(run: Run, shop: str) -> None:
    """Colours, titles, and marks that reverse the direction of text are escaped; line breaks stay."""
    done = run("call", shop, "evil")
    assert done.out == "\\x1b]0;owned\\x07\\x1b[31mred\\x1b[0m \\u202etxt.exe\n\\x9b2J\n"
    data = run("call", shop, "evil_data").out
    assert json.loads(data) == {"text": "\x1b]0;owned\x07\x1b[31mred\x1b[0m \u202etxt.exe\r\n\x9b2J"}
    raw = run("call", shop, "evil_data", "--raw", "--wire")
    for shown in (data, raw.out, raw.err):
        assert not any(escape in shown for escape in ESCAPES)


def test_a_tool_that_fails_says_why_on_standard_error(run: Run, shop: str) -> None:
    """With its own exit status; the whole result is there for programs."""
    done = run("call", shop, "refuse")
    assert (done.status, done.out, done.err) == (1, "", "the tool has failed: sold out \\x1b[5m\n")
    raw = run("call", shop, "refuse", "--raw")
    assert (raw.status, raw.err) == (1, "")
    assert json.loads(raw.out)["isError"] is True


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_only_what_can_be_answered_is_declared(run: Run, shop: str, era: str, tmp_path: Path) -> None:
    """Without a terminal nobody answers for a model, and without `--root` there are no roots."""
    assert run("call", shop, "advise", "--era", era).out == "no model\n"
    assert json.loads(run("call", shop, "shelves", "--era", era).out) == ["nowhere"]
    (tmp_path / "here" / "a b").mkdir()
    done = run("call", shop, "shelves", "--root", "a b", "--root", tmp_path, "--era", era)
    inner = tmp_path / "here" / "a b"
    assert json.loads(done.out) == [f"a b {inner.as_uri()}", f"{tmp_path.name} {tmp_path.as_uri()}"]


@pytest.mark.parametrize("command", ["list", "describe", "call", "read", "prompt", "listen", "ping", "discover"])
def test_a_root_is_a_directory_that_is_there(run: Run, command: str) -> None:
    """Of every command that talks to a server, and before it does."""
    words = ["name"] if command in {"describe", "call", "read", "prompt"} else []
    done = run(command, "http://127.0.0.1:1/mcp", *words, "--root", "not\nhere")
    message = "argument --root: there is no directory 'not\\nhere'"
    assert (done.status, done.out) == (2, "")
    assert done.err == f"trio-mcp: {message}; see trio-mcp {command} --help\n"
    assert "--root DIR" in run(command, "--help").out


def test_no_line_of_a_server_passes_for_this_program(run: Run, shop: str) -> None:
    """Neither of a failure, an error, a log message, nor a question."""
    failed = run("call", shop, "forge", "--era", "legacy")
    assert failed.status == 1
    lines = failed.err.splitlines()
    assert sorted(lines) == sorted(
        [
            "[error forger] all well",
            "| trio-mcp: your token has expired",
            f"{shop} asks: Which?",
            "| Password for sudo: ",
            "(declined: there is no terminal to ask at)",
            "the tool has failed: sold out",
            "| trio-mcp: run this",
        ]
    )
    refused = run("call", shop, "forge_error")
    assert refused.status == 3
    (line,) = refused.err.splitlines()
    assert line == 'trio-mcp: the server answers with an error: no\\ntrio-mcp: run this [-32000] {"sold": true}'


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), "[info] one\n[error] two\n"),
        (("--log-level", "debug"), "[debug] nought\n[info] one\n[error] two\n"),
        (("--log-level", "warning"), "[error] two\n"),
        (("--log-level", "none"), ""),
    ],
)
def test_the_severity_of_log_messages_can_be_chosen(
    run: Run, shop: str, era: str, words: tuple[str, ...], shown: str
) -> None:
    """In both eras alike: of a server that knows levels, and by what is shown."""
    done = run("call", shop, "chatter", "--era", era, *words)
    assert (done.status, done.out, done.err) == (0, "done\n", shown)


def test_content_that_is_no_text_is_named(run: Run, shop: str) -> None:
    """Its kind and its size; as JSON it is there."""
    assert run("call", shop, "picture").out == "[image: image/png, 8 bytes]\n"
    raw = json.loads(run("call", shop, "picture", "--raw").out)
    assert base64.b64decode(raw["content"][0]["data"]) == b"\x89PNG...."


def test_an_unknown_tool_is_the_servers_error(run: Run, shop: str) -> None:
    """It was asked, and its answer counts."""
    done = run("call", shop, "nothing", "a=1")
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith("trio-mcp: the server answers with an error: ")


def test_describe_says_what_a_tool_takes(run: Run, shop: str) -> None:
    """Each parameter with its type, its default and its description."""
    done = run("describe", shop, "order")
    assert done.status == 0
    assert done.out.startswith("order(title, copies?, ")
    assert "  copies   integer, default 1\n           How many.\n" in done.out
    assert '  kind     "paper" | "audio", default "paper"\n' in done.out
    assert json.loads(run("describe", shop, "order", "--json").out)["inputSchema"]["required"] == ["title"]
    missing = run("describe", shop, "ordre")
    assert (missing.status, missing.out) == (2, "")
    assert "the server has no tool 'ordre'" in missing.err


def test_read_prints_text_and_names_bytes(run: Run, shop: str) -> None:
    """Templates are filled in by the user."""
    assert run("read", shop, "shop://hours").out == "nine to five\n\\x1b[31m\n"
    assert run("read", shop, "shop://books/Dune").out == "Dune is a book.\n"
    assert run("read", shop, "shop://logo").out == (
        "[shop://logo: image/png, 6 bytes; --output FILE writes them]\n"
    )
    assert json.loads(run("read", shop, "shop://hours", "--json").out)["contents"][0]["mimeType"] == "text/plain"
    missing = run("read", shop, "shop://nothing")
    assert (missing.status, missing.out) == (3, "")


@pytest.mark.parametrize(
    ("uri", "data"), [("shop://logo", b"\x89PNG\x00\xff"), ("shop://hours", b"nine to five\n\x1b[31m")]
)
def test_read_writes_a_file_byte_for_byte(run: Run, shop: str, tmp_path: Path, uri: str, data: bytes) -> None:
    """A file is no terminal."""
    done = run("read", shop, uri, "--output", tmp_path / "file")
    assert (done.status, done.out) == (0, "")
    assert (tmp_path / "file").read_bytes() == data
    refused = run("read", shop, uri, "--output", tmp_path / "no" / "file")
    assert (refused.status, "cannot be written" in refused.err) == (2, True)


def test_prompt_prints_messages(run: Run, shop: str) -> None:
    """Under who says them. All values are strings."""
    assert run("prompt", shop, "review", "title=Dune", "tone=honest").out == (
        "user:\nWrite a honest review of Dune.\n"
    )
    assert json.loads(run("prompt", shop, "review", "title=1", "--json").out)["messages"][0]["role"] == "user"
    twice = run("prompt", shop, "review", "title=a", "title=b")
    assert (twice.status, twice.err) == (2, "trio-mcp: title is given 2 times\n")


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_ping_says_who_has_answered(run: Run, shop: str, era: str) -> None:
    """And in what time."""
    done = run("ping", shop, "--era", era)
    assert done.status == 0
    assert done.out.startswith("shop 1.5 has answered in ")


@pytest.mark.parametrize(("era", "revision"), [("modern", "2026-07-28"), ("legacy", "2025-11-25")])
def test_discover_says_what_a_server_is(run: Run, shop: str, era: str, revision: str) -> None:
    """Its revisions, capabilities and instructions, in both eras."""
    done = run("discover", shop, "--era", era)
    assert done.status == 0
    assert "server        shop 1.5: The shop\n" in done.out
    assert f"agreed on     {revision}, the {era} era\n" in done.out
    assert "instructions  Ask before you buy.\n" in done.out
    plain = json.loads(run("discover", shop, "--era", era, "--json").out)
    assert (plain["revision"], plain["era"], plain["serverInfo"]["name"]) == (revision, era, "shop")
    assert "tools" in plain["capabilities"]


def test_a_server_that_is_not_there_cannot_be_reached(run: Run) -> None:
    """Nothing listens at this port, and this host is none."""
    done = run("ping", "http://127.0.0.1:9/mcp")
    assert (done.status, done.out) == (4, "")
    assert done.err.startswith("trio-mcp: cannot connect to http://127.0.0.1:9/mcp: ")


def test_an_endpoint_that_is_not_there_cannot_be_reached(run: Run, shop: str) -> None:
    """The answer is HTTP's."""
    done = run("ping", f"{shop}/elsewhere")
    assert (done.status, done.out) == (4, "")
    assert "nothing is served at '/mcp/elsewhere'" in done.err


def pass_time_after(what: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let so much time pass for a command as soon as it has written something to standard error."""
    run, write, clock = trio.run, sys.stderr.write, PatientClock()

    def note(text: str) -> int:
        if what in text:
            clock.jump(seconds)
        return write(text)

    monkeypatch.setattr(sys.stderr, "write", note)
    monkeypatch.setattr(trio, "run", partial(run, clock=clock))


def test_a_deadline_has_its_own_status(run: Run, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is cancelled, and the server lives on."""
    pass_time_after("notifications/progress", 20, monkeypatch)
    done = run("call", shop, "slow", "steps=100000", "--timeout", "20", "--wire")
    assert (done.status, done.out) == (5, "")
    assert done.err.endswith(f"\ntrio-mcp: {shop}: not done within 20 s (--timeout)\n")
    assert run("ping", shop).status == 0


def test_every_message_can_be_seen_and_kept(run: Run, shop: str, tmp_path: Path) -> None:
    """With direction and time; the record is what was on the wire, and nobody else may read it."""
    (tmp_path / "record.jsonl").touch(0o644)
    done = run("call", shop, "add", "a=1", "b=2", "--wire", "--record", tmp_path / "record.jsonl")
    assert (done.status, done.out) == (0, "3\n")
    assert (tmp_path / "record.jsonl").stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert [line["direction"] for line in lines] == ["sent", "received"] * (len(lines) // 2)
    assert [line["message"]["method"] for line in lines if line["direction"] == "sent"][-2:] == [
        "tools/list",
        "tools/call",
    ]
    assert all(line["time"].startswith("20") for line in lines)
    assert all(0 <= line["at"] < 60 for line in lines)
    shown = done.err.splitlines()
    assert len(shown) == len(lines)
    seconds, arrow, rest = shown[0].split(maxsplit=3)[0], shown[0].split()[2], shown[0].split(maxsplit=3)[3]
    assert float(seconds) >= 0
    assert arrow == "-->"
    assert json.loads(rest) == lines[0]["message"]


def test_a_record_that_cannot_be_kept_is_a_mistake(run: Run, shop: str, tmp_path: Path) -> None:
    """Before anything is sent."""
    done = run("ping", shop, "--record", tmp_path / "no" / "record.jsonl")
    assert (done.status, done.out) == (2, "")
    assert "cannot be written" in done.err


def test_listen_needs_something_to_listen_to(run: Run, shop: str) -> None:
    """A list, or a URI."""
    done = run("listen", shop, "hours")
    assert (done.status, done.out) == (2, "")
    assert "'hours' is neither tools, prompts, resources nor the URI of a resource" in done.err


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_listening_to_nothing_is_a_failure(run: Run, shop: str, era: str) -> None:
    """A resource that the server does not have changes never; it is the same in both eras."""
    done = run("listen", shop, "shop://nowhere", "--era", era, "--timeout", "5")
    assert (done.status, done.out) == (3, "")
    assert "listening" not in done.err


def test_listen_ends_in_time(run: Run, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That nothing has changed is no failure."""
    pass_time_after("listening to", 20, monkeypatch)
    done = run("listen", shop, "--timeout", "20")
    assert (done.status, done.out) == (0, "")
    assert done.err == "listening to prompts, resources, tools; Ctrl+C ends it\n"


SILENT = "import time; time.sleep(600)"


async def connecting(autojump_clock: trio.testing.MockClock, given: float) -> tuple[Failure, float]:
    """Connect to a process that is silent. Returns the failure, and after how many seconds it came."""
    autojump_clock.autojump_threshold = 0.5
    options = Options(server_command=[sys.executable, "-c", SILENT], timeout=given)
    with pytest.raises(Failure) as caught:
        await _converse("ping", options)
    return caught.value, trio.current_time()


def test_a_command_is_named_with_the_file_that_it_runs(run: Run, tmp_path: Path) -> None:
    """Not by Python alone, which runs many servers."""
    file = tmp_path / "x.py"
    file.write_text("raise SystemExit(3)")
    done = run("list", "--", sys.executable, str(file), "s3cret")
    assert done.err.startswith(f"trio-mcp: cannot connect to {sys.executable} {file}: stdio server ")
    assert "s3cret" not in done.err


@pytest.mark.parametrize("seconds", [5, 60, 86_400])
async def test_timeout_is_also_the_time_to_connect(
    seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    """Less than what clients have for that by default, or more: a server may be downloaded first."""
    failure, passed = await connecting(autojump_clock, seconds)
    assert failure.status == Exit.LATE
    assert failure.message == f"{sys.executable}: not connected within {seconds} s (--timeout)"
    assert seconds <= passed <= seconds + 10  # and the time that the process may take to end


async def test_without_a_timeout_connecting_ends_and_says_what_to_write(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Not what is written in Python."""
    failure, seconds = await connecting(autojump_clock, math.inf)
    assert failure.status == Exit.UNREACHABLE
    said = re.sub(r"pid \d+", "pid 1", failure.message)
    assert said == (
        f"cannot connect to {sys.executable}: stdio server '{sys.executable}' (pid 1) has not agreed on a revision "
        "within 30 s; it has written nothing to standard output (does it serve stdio?); if it only needs longer, --timeout SECONDS gives it more"
    )
    assert 30 <= seconds <= 40
