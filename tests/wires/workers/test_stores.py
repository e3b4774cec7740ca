"""Two processes with one store are one server, and a session outlives its process. Real processes, real time.

One case of each kind; all of them, behind nginx and with Redis too, are in tests/nightly/workers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from http_raw import Events, call_tool, modern
from inside_endpoint import TURN
from session_calls import (
    ASKS,
    STREAM,
    answers_to,
    begin,
    cancel,
    counting,
    legacy,
    read_progress,
    said_by,
    tool,
    updated,
)
from store_group import open_store_group
from worker_group import text_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Unix sockets, and processes as Linux has them"),
]


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Serve a file by the command line; return how that ends, and what it says."""
    (folder / "server.py").write_text("from trio_mcp import Server\nserver = Server('x')\n")
    command = [sys.executable, "-m", "trio_mcp", "run", "server.py", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_a_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """In one line, by the command line."""
    (tmp_path / "text").write_text("no database, but a text")
    over_http = ("--transport", "http", "--port", "0", "--store")
    assert run(tmp_path, "--store", "x") == (2, "trio-mcp: --store does not go with --transport stdio\n")
    assert run(tmp_path, *over_http, "redis://x:y") == (2, "trio-mcp: --store: url: it cannot be read\n")
    for store, problem in (("none/x", "No such file or directory: "), ("text", "text: file is not a database")):
        status, said = run(tmp_path, *over_http, store)
        assert status == 1
        assert said.startswith(f"trio-mcp: the store cannot be used: {problem}")
        assert said.count("\n") == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "left"])
async def test_a_session_outlives_its_process(how: signal.Signals) -> None:
    """With what was set in it. What its client follows is told as changed; and the stream of a call ends with why."""
    async with open_store_group("sqlite", nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a, **{"X-User": "ann"})
            await at_b.send(legacy("resources/subscribe", uri="thing://1"), session)
            assert text_of(await at_b.send(tool("who"), session)) == str(a.pid)
            gate = str(group.gate("never"))
            async with a.connected() as c, c.open(counting(7, to=6, half=3, gate=gate), session) as stream:
                seen = await read_progress(Events(stream), 3)
                if how == signal.SIGKILL:
                    await a.end(how)
                else:
                    async with b.connected() as d:
                        assert (await d.send(cancel(7), session)).status == 202
                    assert await a.end(how) == 0
            assert (await at_b.send(tool("who"), {**session, "X-User": "bob"})).status == 404
            assert text_of(await at_b.send(tool("who"), session)) == str(b.pid)
            async with b.connected() as c, c.open(None, {**session, **STREAM}, method="GET") as stream:
                events = Events(stream)
                told = [await events.message()]
                while told[-1]["method"] != "notifications/resources/updated":
                    told.append(await events.message())
                assert updated(told[-1]) == "thing://1"
            async with b.connected() as c, c.open(tool("ask", token="t"), session) as stream:
                assert (await Events(stream).message())["id"] > TURN, (
                    "a late answer to another one finds no question"
                )
            if how == signal.SIGKILL:
                resuming = {**session, **STREAM, "Last-Event-ID": seen[-1].last_event_id}
                rest = await at_b.send(None, resuming, method="GET")
                assert rest.message["id"] == 7
                assert "ended before it was done" in rest.error["message"]
            assert (await at_b.send(None, session, method="DELETE")).status == 204
            assert (await at_b.send(legacy("ping"), session)).status == 404


async def test_whoever_is_asked_is_the_server() -> None:
    """A handler is asked through another process, and changes are heard in all."""
    async with open_store_group("sqlite", nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b, b.connected() as c:
            listen = modern("subscriptions/listen", notifications={"resourceSubscriptions": ["thing://1"]})
            async with c.open(listen) as stream:
                events = Events(stream)
                assert (await events.message())["method"] == "notifications/subscriptions/acknowledged"
                await at_a.send(call_tool("touch", thing="1"))
                with trio.fail_after(60):
                    assert updated(await events.message()) == "thing://1"
            asked, answer = dict[str, Any](), dict[str, Any]()
            for raw, value in ((at_a, "Ann"), (at_b, "Bob"), (at_b, "")):
                request = modern("tools/call", _meta=ASKS, name="ask", arguments={"token": "t"}, **asked)
                answer = (await raw.send(request)).message
                asked = answers_to(answer["result"], value) if value else {}
            assert said_by(answer) == f"Ann Bob {a.pid}"
