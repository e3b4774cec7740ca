"""What the contract says where there are sockets: servers that hang, that crash and that end, clients that crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from http_process import HttpProcess
from wires import wait_lost
from witness_lines import ENOUGH, HTTP_LINES, SCRIPT, SOCKET_LINES, WEBSOCKET_LINES, Diary, Witness

from trio_mcp import ConnectionLost, Limits, RemoteProtocolError, RequestError

SOCKETS = pytest.mark.parametrize(("binding", "revision"), [*HTTP_LINES, *SOCKET_LINES, *WEBSOCKET_LINES])


@contextmanager
def a_witness(
    binding: str, revision: str, folder: Path, *, drain_timeout: float = 1, **settings: float
) -> Generator[Witness]:
    """Run one of its own, for a test that it does not survive."""
    diary = Diary(folder / "diary")
    limits = {"drain_timeout": drain_timeout}
    how = {"tcp": ("tcp",), "unix": ("unix", str(folder / "socket"))}.get(binding, ())
    process = HttpProcess(
        SCRIPT,
        {**settings, "websocket": True},
        {"DIARY": str(diary.path), "LIMITS": json.dumps(limits)},
        how,
    )
    try:
        yield Witness(binding, revision, diary, process)
    finally:
        process.kill()


@SOCKETS
async def test_a_server_that_hangs_holds_nobody(binding: str, revision: str, tmp_path: Path) -> None:
    """Promise 3: deadlines, cancellation and leaving are over in time, and when it goes on everything is in order."""
    limits = Limits(goodbye_timeout=0.5)
    with a_witness(binding, revision, tmp_path) as witness:
        async with witness.open(limits=limits) as client:
            await client.call_tool("echo", {"text": "x"})
            os.kill(witness.process.pid, signal.SIGSTOP)
            for _ in range(2):
                begin = trio.current_time()
                with trio.move_on_after(0.5) as scope:
                    await client.call_tool("echo", {"text": "x" * 300_000})
                assert scope.cancelled_caught
                assert trio.current_time() - begin < 1.5
            begin = trio.current_time()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "echo", {"text": "x" * 300_000})
                    await trio.sleep(0.2)
                    scope.cancel()
            assert trio.current_time() - begin < 1.2
            begin = trio.current_time()
        assert trio.current_time() - begin < 3
        os.kill(witness.process.pid, signal.SIGCONT)
        async with witness.open() as client:
            assert (await client.call_tool("echo", {"text": "as before"})).text == "as before"
        await witness.wait_alone()


@SOCKETS
async def test_connecting_to_a_server_that_hangs_fails_by_itself(
    binding: str, revision: str, tmp_path: Path
) -> None:
    """Promise 7."""
    limits = Limits(connect_timeout=0.5, discover_timeout=0.3, goodbye_timeout=0.3)
    with a_witness(binding, revision, tmp_path) as witness:
        os.kill(witness.process.pid, signal.SIGSTOP)
        begin = trio.current_time()
        with pytest.raises((ConnectionLost, RemoteProtocolError), match=r"_timeout|silent"):
            async with witness.open(limits=limits):
                raise AssertionError
        assert trio.current_time() - begin < 3


@SOCKETS
async def test_the_crash_of_the_server_fails_every_call(binding: str, revision: str, tmp_path: Path) -> None:
    """Promise 7: those who wait and those who come later learn it, and leaving does not wait for the dead."""
    with a_witness(binding, revision, tmp_path) as witness:
        async with witness.open() as client:
            losses: list[ConnectionLost] = []

            async def lose() -> None:
                losses.append(await wait_lost(lambda: client.call_tool("sleep", {"seconds": 60, "name": "x"})))

            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(lose)
                await witness.diary.wait_for("started x")
                losses.append(await wait_lost(lambda: client.call_tool("die", {"status": 3})))
            losses.append(await wait_lost(client.ping))
            begin = trio.current_time()
        assert trio.current_time() - begin < 2.5
        assert witness.process.wait() == 3
    assert len(losses) == 5


CLIENT = """
import sys, trio, trio_mcp
async def main(url, revision, era):
    async with trio_mcp.open_client(url, revision=revision, era=era) as client:
        await client.call_tool("sleep", {"seconds": 60, "name": "it"})
trio.run(main, *sys.argv[1:])
"""


@SOCKETS
async def test_the_crash_of_a_client_ends_its_handlers(binding: str, revision: str, tmp_path: Path) -> None:
    """Promises 4 and 8: in a session, which is not told, when the session has been idle for too long."""
    with a_witness(binding, revision, tmp_path, session_idle_timeout=0.5) as witness, trio.fail_after(ENOUGH):
        scheme = "ws" if binding == "websocket" else "http"
        url = f"{scheme}://127.0.0.1:{witness.process.port}/{'sse' if binding == 'sse' else 'mcp'}"
        if binding in {"tcp", "unix"}:
            url = witness.process.url
        arguments = [url, revision, "sse" if binding == "sse" else "auto"]
        process = subprocess.Popen([sys.executable, "-c", CLIENT, *arguments])
        await witness.diary.wait_for("started it")
        process.kill()
        process.wait()
        await witness.diary.wait_for("cancelled it")
        await witness.wait_alone()


@SOCKETS
@pytest.mark.parametrize(
    ("seconds", "drain_timeout", "outcome", "last_words"),
    [
        (0.6, 1_000, "slept", "finished it"),
        (60, 0.3, "serving ended before the request was done", "cancelled it"),
    ],
    ids=["done in time", "takes too long"],
)
async def test_a_server_that_is_asked_to_end_answers_what_came(
    seconds: float,
    drain_timeout: float,
    outcome: str,
    last_words: str,
    binding: str,
    revision: str,
    tmp_path: Path,
) -> None:
    """What is done within `drain_timeout` has its result, the rest is told so, and then it ends."""
    with a_witness(binding, revision, tmp_path, drain_timeout=drain_timeout) as witness:
        outcomes: list[str] = []

        async def call() -> None:
            try:
                outcomes.append((await client.call_tool("sleep", {"seconds": seconds, "name": "it"})).text)
            except (RequestError, ConnectionLost) as error:
                outcomes.append(str(error))

        async with witness.open() as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await witness.diary.wait_for("started it")
                begin = trio.current_time()
                witness.process.terminate()
            assert trio.current_time() - begin < 6
        assert witness.process.wait() == 0
    assert [text.startswith(outcome) for text in outcomes] == [True], outcomes
    assert witness.diary.lines[-2:] == [last_words, "lifespan ends"]


@SOCKETS
async def test_an_answer_that_comes_too_late_is_nobodys(witness: Witness) -> None:
    """Given up in the very moment in which it is answered, over and over; no other call gets its answer."""
    async with witness.open() as client:
        for n in range(60):
            with trio.move_on_after(n / 5_000):
                assert (await client.call_tool("echo", {"text": f"early {n}"})).text == f"early {n}"
        for n in range(5):
            assert (await client.call_tool("echo", {"text": f"late {n}"})).text == f"late {n}"
        assert client.statistics().calls == 0
    witness.tape.check_endings()
    assert all(count == 1 for count in witness.goodbyes().values())
    await witness.wait_alone()
