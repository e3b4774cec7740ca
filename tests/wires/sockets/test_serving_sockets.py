"""Servers at TCP ports and Unix sockets: who is served, what connections share, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from line_sockets import ENOUGH, KINDS, Kind, connect, serving_at
from patient_clock import pass_time
from raw import initialize
from shared.sockets_serving_sockets import House
from wires import wait_lost

from trio_mcp import (
    ConnectionLost,
    Context,
    Limits,
    RequestError,
    RunningServer,
    Server,
    Shutdown,
    StreamChannel,
    open_client,
    serve_tcp,
    serve_unix,
)


@KINDS
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_clients_of_both_eras_are_served_at_once(era: Any, kind: Kind, tmp_path: Path) -> None:
    """One lifespan for all connections; it is left after the last of them."""
    house = House()
    async with serving_at(kind, house.server, tmp_path) as url:
        async with open_client(url, era=era) as one, open_client(url) as other:
            for client in (one, other, one):
                assert (await client.call_tool("who")).is_error is not True
        assert house.log == ["entered"]
    assert house.log == ["entered", "left"]


async def test_the_principal_of_a_unix_socket_is_its_process(tmp_path: Path) -> None:
    """As the system reports it; over TCP nobody is known."""
    house = House()
    async with serving_at("unix", house.server, tmp_path) as url, open_client(url) as client:
        expected = f"uid={os.getuid()} gid={os.getgid()} pid={os.getpid()}" if sys.platform == "linux" else "None"
        assert (await client.call_tool("who")).text == expected
    async with serving_at("tcp", house.server, tmp_path) as url, open_client(url) as client:
        assert (await client.call_tool("who")).text == "None"


async def test_where_the_system_tells_no_credentials_there_is_no_principal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And everything else is as it is."""
    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    async with serving_at("unix", House().server, tmp_path) as url, open_client(url) as client:
        assert (await client.call_tool("who")).text == "None"


@KINDS
async def test_nothing_is_kept_of_what_a_client_that_has_left_had_subscribed_to(
    kind: Kind, tmp_path: Path
) -> None:
    """max_kept_bytes is for all connections together."""
    house = House()

    @house.server.resource("x://watched")
    async def watched() -> str:
        raise AssertionError

    def kept() -> int:
        (statistics,) = house.server.statistics()
        return statistics["bytes"].of.get("subscriptions", 0)

    async with serving_at(kind, house.server, tmp_path) as url, open_client(url) as other:
        async with open_client(url, era="legacy") as client:
            await client.request("resources/subscribe", {"uri": "x://watched"})
            assert kept() > 0
        while kept():
            await trio.sleep(0.01)
        await other.ping()


@KINDS
async def test_draining_answers_what_came_and_takes_nobody_new(kind: Kind, tmp_path: Path) -> None:
    """The client sees an orderly end, and then there is no server."""
    house, shutdown = House(Limits(drain_timeout=30)), Shutdown()
    async with serving_at(kind, house.server, tmp_path, shutdown=shutdown) as url:
        async with connect(url) as idle, open_client(url) as client, trio.open_nursery() as nursery:
            answers: list[str] = []

            async def call() -> None:
                answers.append((await client.call_tool("wait", {"seconds": 20})).text)

            nursery.start_soon(call)
            await house.begun.wait()
            shutdown.drain()
            assert await idle.wait_end() == b""
            await pass_time(20)
        assert answers == ["done"]
        with pytest.raises(ConnectionLost, match="could not connect"):
            async with open_client(url):
                raise AssertionError
        while house.log != ["entered", "left"]:
            await trio.sleep(0.01)


@KINDS
@pytest.mark.parametrize("how", ["too slow", "abort"])
async def test_what_does_not_end_in_time_is_cancelled(how: str, kind: Kind, tmp_path: Path) -> None:
    """After `drain_timeout` with an answer, and by an abort at once and without one."""
    house, shutdown = House(Limits(drain_timeout=20)), Shutdown()
    async with serving_at(kind, house.server, tmp_path, shutdown=shutdown) as url, open_client(url) as client:
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                if how == "abort":
                    await wait_lost(lambda: client.call_tool("wait", {"seconds": 60}))
                else:
                    with pytest.raises(RequestError, match="serving ended"):
                        await client.call_tool("wait", {"seconds": 60})

            nursery.start_soon(call)
            await house.begun.wait()
            (shutdown.abort if how == "abort" else shutdown.drain)()
            if how == "too slow":
                await pass_time(20)
        while house.log != ["entered", "cancelled", "left"]:
            await trio.sleep(0.01)


@KINDS
async def test_cancelling_runs_the_cleanup_of_handlers(kind: Kind, tmp_path: Path) -> None:
    house = House()
    async with serving_at(kind, house.server, tmp_path) as url, trio.open_nursery() as nursery:

        async def call() -> None:
            async with open_client(url) as client:
                await wait_lost(lambda: client.call_tool("wait", {"seconds": 60}))

        nursery.start_soon(call)
        await house.begun.wait()
        async with trio.open_nursery() as other:
            (url,) = await other.start(partial(serve_tcp, House().server, port=0))
            other.cancel_scope.cancel()
        assert house.log == ["entered"], "another server's end is not this one's"
        nursery.cancel_scope.cancel()
    assert house.log == ["entered", "cancelled", "left"]


async def test_a_server_with_own_listeners_shares_one_lifespan(tmp_path: Path) -> None:
    """`Server.open` is the public way to what `serve_tcp` does."""
    house = House()

    async def serve(running: RunningServer[Any], stream: trio.SocketStream) -> None:
        await running.serve_channel(StreamChannel(stream, stream))

    with trio.fail_after(ENOUGH):
        async with house.server.open() as running, trio.open_nursery() as nursery:
            (listener,) = await nursery.start(
                partial(trio.serve_tcp, partial(serve, running), 0, host="127.0.0.1")
            )
            port = listener.socket.getsockname()[1]
            async with open_client(f"tcp://127.0.0.1:{port}") as one, open_client(f"tcp://localhost:{port}"):
                assert (await one.call_tool("who")).text == "None"
            assert house.log == ["entered"]
            nursery.cancel_scope.cancel()
    assert house.log == ["entered", "left"]


# The file of a Unix socket.


@pytest.mark.parametrize("mode", [0o600, 0o660])
async def test_the_mode_is_as_asked(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "it"
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_unix, House().server, path, mode=mode))
        assert stat.S_IMODE(path.stat().st_mode) == mode
        nursery.cancel_scope.cancel()
    assert not path.exists()


async def test_what_a_killed_server_has_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()
    assert path.exists()
    async with serving_at("unix", House().server, tmp_path) as url, open_client(url) as client:
        await client.ping()


@pytest.mark.parametrize("what", ["server", "file"])
async def test_what_is_in_use_is_left_alone(what: str, tmp_path: Path) -> None:
    path = tmp_path / "it"
    async with trio.open_nursery() as nursery:
        if what == "server":
            await nursery.start(serve_unix, House().server, path)
        else:
            path.write_text("dear diary")
        with pytest.raises(OSError, match=r"another server listens there|is no socket") as caught:
            await serve_unix(House().server, path)
        assert caught.value.errno == errno.EADDRINUSE
        if what == "server":
            async with open_client(f"unix://{path}") as client:
                await client.ping()
        else:
            assert path.read_text() == "dear diary"
        nursery.cancel_scope.cancel()


async def test_a_server_that_ends_leaves_its_successors_socket(tmp_path: Path) -> None:
    path, first, second = tmp_path / "it", Shutdown(), Shutdown()
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_unix, House().server, path, shutdown=first))
            path.unlink()
            await nursery.start(partial(serve_unix, House().server, path, shutdown=second))
            first.drain()
            async with open_client(f"unix://{path}") as client:
                await client.ping()
            second.drain()
    assert not path.exists()


async def test_the_file_is_removed_although_the_program_has_changed_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    async with trio.open_nursery() as nursery:
        shutdown = Shutdown()
        await nursery.start(partial(serve_unix, House().server, "it.sock", shutdown=shutdown))
        assert (tmp_path / "it.sock").exists()
        monkeypatch.chdir(tmp_path / "elsewhere")
        shutdown.drain()
    assert not (tmp_path / "it.sock").exists()


PROGRAM = """
import sys, trio_mcp
server = trio_mcp.Server("program")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

server.run("unix", path=sys.argv[1])
"""


async def test_a_program_serves_until_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "it"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], env=environment)
    try:
        with trio.fail_after(ENOUGH):
            while not path.exists():
                await trio.sleep(0.02)
            async with open_client(f"unix://{path}") as client:
                assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"
                process.send_signal(signal.SIGTERM)
                with pytest.raises(ConnectionLost):
                    while True:
                        with suppress(RequestError):  # it is about to end
                            await client.call_tool("add", {"a": 1, "b": 2})
            assert await trio.to_thread.run_sync(process.wait) == 0
    finally:
        process.kill()
        process.wait()
    assert not path.exists()


@KINDS
async def test_who_leaves_a_question_open_fails_no_tool(
    kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that hears of it before it is cancelled is no error of its author."""
    server: Server[Any] = Server("asking")
    ended: list[BaseException] = []

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        try:
            return str(await ctx.elicit("Is that right?", bool))
        except BaseException as error:
            ended.append(error)
            raise

    with trio.fail_after(ENOUGH), caplog.at_level("INFO"):
        async with serving_at(kind, server, tmp_path) as url:
            async with connect(url) as line:
                opening = initialize("2025-11-25")
                opening["params"]["capabilities"] = {"elicitation": {}}
                await line.send(opening, {"jsonrpc": "2.0", "method": "notifications/initialized"})
                assert "result" in await line.receive()
                for id in range(1, 21):
                    asking: dict[str, Any] = {"name": "ask", "arguments": {}}
                    await line.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": asking})
                    assert (await line.receive())["method"] == "elicitation/create"
            while len(ended) < 20:
                await trio.sleep(0.01)
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
