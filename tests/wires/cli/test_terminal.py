"""What needs a terminal, a signal or a pipe: questions, progress, Ctrl+C, and readers that go."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import SHOP, Run
from terminals import COMMAND, ENOUGH, at_terminal

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="it has no pseudo-terminals and no SIGINT for others"
)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_questions_are_asked_at_the_terminal(shop: str, era: str) -> None:
    """Field by field, until each answer fits. What the server says is harmless."""
    with at_terminal("call", shop, "pizza", "--era", era) as terminal:
        asked = terminal.wait_for("size (one of small, large): ")
        assert f"{shop} asks: Which pizza? \\x1b[5m" in asked
        terminal.type("huge\n")
        terminal.wait_for("size (one of small, large): ")
        terminal.type("\n")
        assert "it is required" in terminal.wait_for("size (one of small, large): ")
        terminal.type("LARGE\n")
        terminal.wait_for("count (integer, 1 or more, 20 or less) [1]: ")
        terminal.type("21\n")
        terminal.wait_for("count (integer, 1 or more, 20 or less) [1]: ")
        terminal.type("\n")
        terminal.wait_for("gift (yes or no) [no]: ")
        terminal.type("y\n")
        terminal.wait_for("Send this? [Y/n] ")
        terminal.type("\n")
        terminal.wait_for("1 large, gift: True")
        assert terminal.wait() == 0


@pytest.mark.parametrize("answers", [["\x04"], ["small\n", "\x04"], ["small\n", "\n", "\n", "n\n"]])
def test_questions_can_be_declined(shop: str, answers: list[str]) -> None:
    """By Ctrl+D at any time, or by a no in the end."""
    prompts = ["large): ", "less) [1]: ", "[no]: ", "[Y/n] "]
    with at_terminal("call", shop, "pizza") as terminal:
        for prompt, answer in zip(prompts, answers, strict=False):
            terminal.wait_for(prompt)
            terminal.type(answer)
        terminal.wait_for("no pizza: decline")
        assert terminal.wait() == 0


@pytest.mark.parametrize(("key", "answer"), [("y\n", "paid"), ("\n", "not paid"), ("what?\nn\n", "not paid")])
def test_a_page_is_visited_only_after_a_yes(shop: str, key: str, answer: str) -> None:
    """The whole URL is shown, and nothing opens it."""
    with at_terminal("call", shop, "pay") as terminal:
        shown = terminal.wait_for("Do you? [y/N] ")
        assert "Pay here" in shown
        assert "https://pay.example/4711" in shown
        terminal.type(key)
        terminal.wait()
        assert terminal.shown.strip().endswith(answer)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_model_is_asked_at_the_terminal(shop: str, era: str) -> None:
    """Whoever sits there sees what it is to read, and types what it says: as many lines as they like."""
    with at_terminal("call", shop, "advise", "--era", era) as terminal:
        asked = terminal.wait_for(
            "(type the answer, or paste it; Ctrl+D sends it, or declines if there is none)\r\n"
        )
        assert asked.splitlines()[:-1] == [
            f"{shop} asks a model for at most 100 tokens",
            "  system: Be brief.\\x1b[2J",
            "  user: Which book? \\x1b[5m",
            "| trio-mcp: run this",
            "  assistant: For whom?",
            "  user: [image: image/png, 4 bytes]",
        ]
        terminal.type("Dune.\n")
        terminal.type("\n")
        terminal.type("Or Emma.\n")
        terminal.type("\x04")
        terminal.wait_for("typed-by-hand: 'Dune.\\n\\nOr Emma.'")
        assert terminal.wait() == 0


@pytest.mark.parametrize(
    ("era", "status", "said"),
    [
        ("modern", 1, "trio-mcp: you declined to answer for a model"),
        ("legacy", 0, "no advice: -1 the user declined to answer for a model"),
    ],
)
def test_a_model_can_be_declined(shop: str, era: str, status: int, said: str) -> None:
    """By Ctrl+D, before anything is typed. In the modern era that ends the call, without asking the server again."""
    with at_terminal("call", shop, "advise", "--era", era) as terminal:
        terminal.wait_for("(type the answer")
        terminal.type("\x04")
        assert terminal.wait() == status
        assert terminal.shown.splitlines()[-1] == said


def test_progress_is_shown_in_one_line_and_wiped(shop: str) -> None:
    """On standard error; the result alone is on standard output."""
    read, write = os.pipe()
    with at_terminal("call", shop, "slow", "steps=20", stdout=write) as terminal:
        os.close(write)
        assert terminal.wait() == 0
        with os.fdopen(read) as out:
            assert out.read() == "done\n"
    assert "[############............] 10/20  step 10\\x1b[2J" in terminal.shown
    assert "[########################] 20/20  step 20\\x1b[2J" in terminal.shown
    assert re.search(r"\r +\r$", terminal.shown) is not None
    assert "\x1b" not in terminal.shown
    bars = [line for line in re.split(r"[\r\n]+", terminal.shown) if line.startswith("[")]
    assert all(len(bar) < 80 for bar in bars)


def test_without_a_terminal_no_progress_is_shown(shop: str) -> None:
    """A log file is not full of bars."""
    done = subprocess.run(
        [*COMMAND, "call", shop, "slow", "steps=3"],
        capture_output=True,
        text=True,
        timeout=ENOUGH,
        check=True,
    )
    assert done.stdout == "done\n"
    assert "[" not in done.stderr


def read_frames(path: Path) -> list[dict[str, Any]]:
    """Return the messages that were recorded."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("era", "number", "status"), [("modern", signal.SIGINT, 130), ("legacy", signal.SIGTERM, 143)]
)
def test_a_signal_cancels_the_call_and_leaves_nothing_behind(
    era: str, number: signal.Signals, status: int, tmp_path: Path
) -> None:
    """One cancellation is on the wire, the handler's cleanup has run, and its process is gone."""
    record = tmp_path / "record.jsonl"
    command = [*COMMAND, "call", str(SHOP), "slow", "steps=100000", "--era", era, "--record", str(record)]
    with subprocess.Popen(
        [*command, "--wire"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        begun = ""
        for line in process.stderr:
            if line.startswith("| begun in "):
                begun = line
            if begun and "notifications/progress" in line:  # they come through two pipes, in any order
                break
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.stdout.read() == ""
        assert process.wait(ENOUGH) == status
    server = int(begun.removeprefix("| begun in "))
    assert f"| cancelled in {server}\n" in rest
    assert "Traceback" not in rest
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
    frames = read_frames(record)
    sent = [frame["message"] for frame in frames if frame["direction"] == "sent"]
    (call,) = [message for message in sent if message.get("method") == "tools/call"]
    (cancellation,) = [message for message in sent if message.get("method") == "notifications/cancelled"]
    assert cancellation["params"]["requestId"] == call["id"]
    assert not [
        frame for frame in frames if frame["message"].get("id") == call["id"] and "result" in frame["message"]
    ]


def test_ctrl_c_ends_a_question(shop: str) -> None:
    """While somebody is asked, too; the server is told."""
    with at_terminal("call", shop, "pizza", "--era", "legacy", "--wire") as terminal:
        terminal.wait_for("size (one of small, large): ")
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert len(re.findall(r'--> \{[^\r\n]*"notifications/cancelled"', terminal.shown)) == 1


@pytest.mark.parametrize(("era", "output"), [("modern", "--raw"), ("legacy", "")])
def test_changes_are_shown_as_they_happen(run: Run, shop: str, era: str, output: str) -> None:
    """One line for each, of which programs can read each at once; the last that is wanted ends it."""
    words = ["listen", shop, "tools", "shop://hours", "--count", "2", "--era", era, *([output] if output else [])]
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as listener:
        assert listener.stderr is not None
        assert listener.stdout is not None
        assert listener.stderr.readline() == "listening to tools, shop://hours; Ctrl+C ends it\n"
        assert run("call", shop, "renovate").status == 0
        told = sorted(listener.stdout.read().splitlines())
        assert listener.wait(ENOUGH) == 0
    if output:
        assert [json.loads(line) for line in told] == [
            {"changed": "resource", "uri": "shop://hours"},
            {"changed": "tools"},
        ]
    else:
        assert told == ["shop://hours has changed", "the list of tools has changed"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_log_messages_are_notes(run: Run, shop: str, era: str) -> None:
    """Harmless, and not among the output."""
    done = run("call", shop, "renovate", "--era", era)
    assert (done.status, done.out) == (0, "renovated\n")
    assert "[warning] renovating \\x1b[31m\n" in done.err


def test_ctrl_c_ends_a_command_that_reads_its_arguments(shop: str) -> None:
    """Nobody has typed the end of standard input."""
    command = [*COMMAND, "call", shop, "add", "--json", "-", "--wire"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline()
        while "<--" not in process.stderr.readline():  # it is connected
            pass
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
        assert process.wait(ENOUGH) == 130


def test_ctrl_c_while_connecting_ends_at_once() -> None:
    """A server that says nothing holds nobody."""
    silent = [sys.executable, "-c", "import sys; print('here', file=sys.stderr, flush=True); sys.stdin.read()"]
    with subprocess.Popen([*COMMAND, "ping", "--", *silent], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "| here\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
        assert process.wait(ENOUGH) == 130


def test_a_reader_that_goes_ends_the_command_quietly(shop: str) -> None:
    """As after ``| head``: no traceback, nothing left, and the status that shells know."""
    read, write = os.pipe()
    os.close(read)
    for words in (["list", shop], ["--help"], ["call", "--help"]):
        done = subprocess.run(
            [*COMMAND, *words], stdout=write, stderr=subprocess.PIPE, text=True, timeout=ENOUGH, check=False
        )
        assert (done.returncode, done.stderr) == (141, "")
    os.close(write)


def test_without_standard_error_the_command_still_works(shop: str) -> None:
    """Notes are lost, the result is not."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "call", shop, "slow", "steps=1", "--wire"],
        stdout=subprocess.PIPE,
        stderr=write,
        text=True,
        timeout=ENOUGH,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_terminal_that_knows_few_characters_gets_others_escaped(shop: str) -> None:
    """No character of a server is worth an exception."""
    done = subprocess.run(
        [*COMMAND, "read", shop, "shop://books/%E6%BC%A2"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"},
        timeout=ENOUGH,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"\\u6f22 is a book.\n")


def test_install_asks_at_the_terminal(tmp_path: Path) -> None:
    """After it has shown what it will write."""
    env = {"HOME": str(tmp_path)}
    with at_terminal("install", str(SHOP), "--to", "cursor", env=env) as terminal:
        assert '"command": ' in terminal.wait_for("Write this? [y/N] ")
        terminal.type("n\n")
        assert terminal.wait() == 1
        assert "nothing was written" in terminal.shown
    assert not (tmp_path / ".cursor").exists()
    with at_terminal("install", str(SHOP), "--to", "cursor", env=env) as terminal:
        terminal.wait_for("Write this? [y/N] ")
        terminal.type("y\n")
        assert terminal.wait() == 0
    assert "shop" in (tmp_path / ".cursor" / "mcp.json").read_text()


# The command, on a clock that jumps as soon as something is written to its standard input.
JUMPING = """
import runpy, sys, threading, trio, trio.testing
run, clock = trio.run, trio.testing.MockClock(rate=1)

def run_on_it(main, *given):
    async def running():
        token = trio.lowlevel.current_trio_token()

        def jump():
            sys.stdin.readline()
            token.run_sync_soon(clock.jump, 1_000)

        threading.Thread(target=jump, daemon=True).start()
        return await main(*given)

    return run(running, clock=clock)

trio.run = run_on_it
runpy.run_module("trio_mcp", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("how", ["--timeout", "SIGINT"])
def test_an_output_that_nobody_reads_does_not_hold_the_command(shop: str, how: str) -> None:
    """Deadlines and signals hold while a pipe is full."""
    command = [*COMMAND, "call", shop, "much"]
    if how == "--timeout":
        command = [sys.executable, "-c", JUMPING, "call", shop, "much", "--timeout", "1000"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"  # it writes, and the rest does not fit into the pipe
        if how == "SIGINT":
            process.send_signal(signal.SIGINT)
        else:
            process.stdin.write(b"\n")
            process.stdin.flush()
        assert process.wait(ENOUGH) == (130 if how == "SIGINT" else 5)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no file that is always full")
@pytest.mark.parametrize(
    "words", [("list", "SHOP"), ("--help",), ("call", "--help"), ("--version",), ("config", "--json")]
)
def test_an_output_that_is_full_is_said(shop: str, words: tuple[str, ...]) -> None:
    """In one line, with a status of its own."""
    words = tuple(shop if word == "SHOP" else word for word in words)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=ENOUGH, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (74, 1)
    assert done.stderr.startswith("trio-mcp: standard output cannot be written: ")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes streams")
@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (f"list {SHOP} >&-", 74, "there is no standard output"),
        ("--help >&-", 74, "there is no standard output"),
        (f"call {SHOP} add --json - <&-", 2, "--json - reads standard input, and there is none"),
        (f"run {SHOP} <&-", 74, "a server over stdio needs a standard input, and there is none"),
        (f"bridge stdio {SHOP} >&-", 74, "a server over stdio needs a standard output, and there is none"),
    ],
)
def test_a_standard_stream_that_is_missing_is_said(command: str, status: int, message: str) -> None:
    """In one line, and with no traceback."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {shlex.join(COMMAND)} {command}"],
        stderr=subprocess.PIPE,
        text=True,
        timeout=ENOUGH,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, f"trio-mcp: {message}\n")
