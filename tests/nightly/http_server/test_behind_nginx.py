"""Behind a real nginx, with the configuration and the program that docs/deployment.md shows. Real time."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
from http2 import open_http2
from http_raw import Events, Raw, call_tool
from http_wire import request_for
from inside_http import open_http_client, parse_target
from nginx import NAME, Nginx, blocks, replaced, running_nginx

from trio_mcp import (
    Context,
    HttpCall,
    HttpServerParameters,
    HttpServerSettings,
    HttpSettings,
    HttpStatusError,
    Limits,
    OnProgress,
    Revision,
    Server,
    Shutdown,
    SqliteStore,
    open_client,
    serve_http,
)

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="nginx and its sockets are those of Unix"),
]

NGINX: Final = blocks("nginx")
LOGGING: Final = {"io.modelcontextprotocol/logLevel": "debug"}


def page_settings() -> HttpServerSettings:
    """Return the settings of the program on the page, for the name by which this machine knows itself."""
    page: dict[str, Any] = {"__name__": "orders"}
    exec(blocks("python")[0], page)
    settings = page["settings"]
    assert isinstance(settings, HttpServerSettings)
    return attrs.evolve(settings, allowed_hosts={NAME}, allow_anonymous=True)  # `Orders` only looks


class Orders:
    """A server, and what its handlers did."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.callers: list[tuple[str | None, str]] = []
        self.go_on = trio.Event()
        self.server: Server[Any] = Server("orders")

        @self.server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @self.server.tool
        async def greet(ctx: Context) -> str:
            async with ctx.progress(total=3) as progress:
                for _ in range(3):
                    await progress.advance()
            answer = await ctx.elicit("who are you?", str)
            return f"hello {answer.value}"

        @self.server.tool
        async def speak_and_wait(ctx: Context) -> str:
            await ctx.log("info", "first")
            await self.go_on.wait()
            return "last"

        @self.server.tool
        async def hang(ctx: Context, text: str = "") -> str:
            self.log.append("began")
            try:
                if text:
                    await ctx.log("info", text)
                await trio.sleep_forever()
            finally:
                self.log.append("ended")
            raise AssertionError

    async def authenticate(self, call: HttpCall) -> str | None:
        """Note who calls."""
        self.callers.append((call.client, call.scheme))
        await trio.lowlevel.checkpoint()
        return None


@attrs.frozen
class Behind:
    """A server behind nginx.

    Attributes:
        nginx: The proxy.
        orders: The server.
        raw: Sends requests through the proxy, over HTTP/1.1.
        direct: The URL of the server itself.
    """

    nginx: Nginx
    orders: Orders
    raw: Raw
    direct: str


@asynccontextmanager
async def behind_nginx(
    folder: Path, upstream: str = "unix", change: Callable[[str], str] = str, **settings: Any
) -> AsyncGenerator[Behind]:
    """Serve behind nginx while the block runs, over a Unix socket or over TCP."""
    orders, shutdown = Orders(), Shutdown()
    options: dict[str, Any] = {"settings": attrs.evolve(page_settings(), **settings)}
    if upstream == "unix":
        options |= {"unix_path": folder / "mcp.sock", "unix_mode": 0o660}
    else:
        options |= {"port": 0, "settings": attrs.evolve(options["settings"], trusted_proxies={"127.0.0.1"})}
    async with trio.open_nursery() as nursery:
        (direct,) = await nursery.start(
            partial(serve_http, orders.server, authenticate=orders.authenticate, shutdown=shutdown, **options)
        )
        lines = {"server unix:/run/orders/mcp.sock;": f"server unix:{folder}/mcp.sock;"}
        if upstream == "tcp":
            port = direct.split(":")[2].split("/")[0]
            lines = {
                "server unix:/run/orders/mcp.sock;": "",
                "# server 127.0.0.1:8000;": f"server 127.0.0.1:{port};",
            }
        async with (
            running_nginx(folder, change(replaced(NGINX[0], lines))) as nginx,
            open_http_client(HttpSettings(ssl_context=nginx.context())) as client,
        ):
            yield Behind(nginx, orders, Raw(client, parse_target(nginx.url)), direct)
        shutdown.drain()


def parameters_for(nginx: Nginx) -> HttpServerParameters:
    return HttpServerParameters(nginx.url, http=HttpSettings(ssl_context=nginx.context()))


def note(progress: list[float]) -> OnProgress:
    return lambda report: progress.append(report.progress)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.01)


@pytest.mark.parametrize("upstream", ["unix", "tcp"])
async def test_every_revision_through_a_proxy(tmp_path: Path, upstream: str) -> None:
    """TLS to nginx; calls, progress and questions in both eras. Nothing of it fails and nothing is tried twice."""
    with trio.fail_after(60):
        async with behind_nginx(tmp_path, upstream) as behind:
            for revision in list(Revision)[1:]:
                progress: list[float] = []
                async with open_client(
                    parameters_for(behind.nginx),
                    revision=revision,
                    on_elicit=lambda question: {"value": "Ann"},
                ) as client:
                    assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
                    if revision >= Revision.V2025_06_18:  # older ones cannot ask users
                        greeted = await client.call_tool("greet", on_progress=note(progress))
                        assert (greeted.text, progress[-1]) == ("hello Ann", 3), revision
            statuses = {line.split()[1][0] for line in behind.nginx.log()}
            assert statuses <= {"2"}


async def test_the_transport_of_2024_through_a_proxy(tmp_path: Path) -> None:
    """HTTP+SSE: its two paths in the same location. Giving up and leaving are noticed."""

    def change(text: str) -> str:
        return replaced(text, {"location /mcp {": "location ~ ^/(mcp|sse|messages)$ {"})

    with trio.fail_after(30):
        async with behind_nginx(tmp_path, change=change, sse=True) as behind:
            url = behind.nginx.url.replace("/mcp", "/sse")
            http = HttpSettings(ssl_context=behind.nginx.context())
            parameters = HttpServerParameters(url, transport="sse", http=http)
            async with open_client(parameters, revision=Revision.V2024_11_05) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "hang")
                    await until(lambda: behind.orders.log == ["began"])
                    nursery.cancel_scope.cancel()
                await until(lambda: behind.orders.log == ["began", "ended"])
                assert behind.orders.server._application.changes.receivers == 1
            await until(lambda: behind.orders.server._application.changes.receivers == 0)


@pytest.mark.parametrize("http", ["1.1", "2"])
@pytest.mark.parametrize("forgotten", [False, True], ids=["off", "forgotten"])
async def test_streams_are_not_buffered(tmp_path: Path, http: str, *, forgotten: bool) -> None:
    """What a handler says arrives before it ends, also where only `X-Accel-Buffering` says so; over HTTP/2, too."""

    def change(text: str) -> str:
        return replaced(text, {"proxy_buffering off;": ""} if forgotten else {})

    message = call_tool("speak_and_wait", _meta=LOGGING)
    with trio.fail_after(30):
        async with behind_nginx(tmp_path, change=change) as behind:
            if http == "2":
                async with open_http2(behind.nginx.port, behind.nginx.context(), NAME) as wire:
                    await wire.post("/mcp", headers_of(message), json.dumps(message).encode())
                    head = await wire.head()
                    assert (head[":status"], head["content-type"]) == ("200", "text/event-stream")
                    assert b"first" in await wire.data()
                    behind.orders.go_on.set()
                    assert b"last" in await wire.body()
                await until(lambda: "HTTP/2.0 200" in behind.nginx.log())
            else:
                async with behind.raw.open(message) as response:
                    events = Events(response)
                    assert (await events.message())["params"]["data"] == "first"
                    behind.orders.go_on.set()
                    assert (await events.message())["result"]["content"][0]["text"] == "last"


def headers_of(message: dict[str, Any]) -> dict[str, str]:
    """Return what belongs into the head of a modern request."""
    return {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": message["method"],
        "Mcp-Name": message["params"]["name"],
    }


@pytest.mark.parametrize("http", ["1.1", "2"])
@pytest.mark.parametrize("text", ["", "hello"], ids=["json", "stream"])
async def test_a_client_that_goes_cancels_its_handler(tmp_path: Path, http: str, text: str) -> None:
    """It goes from nginx, and nginx goes from us: before anything was said, and in the middle of a stream."""
    message = call_tool("hang", _meta=LOGGING, text=text)
    with trio.fail_after(30):
        async with behind_nginx(tmp_path) as behind:
            log = behind.orders.log
            if http == "2":
                async with open_http2(behind.nginx.port, behind.nginx.context(), NAME) as wire:
                    number = await wire.post("/mcp", headers_of(message), json.dumps(message).encode())
                    await until(lambda: log == ["began"])
                    if text:
                        await wire.head()
                    await wire.reset(number)
                    await until(lambda: log == ["began", "ended"])
                    # The connection is as good as new.
                    other = call_tool("add", a=1, b=1)
                    await wire.post("/mcp", headers_of(other), json.dumps(other).encode())
                    assert (await wire.head())[":status"] == "200"
            else:
                heard = trio.Event()
                async with open_client(parameters_for(behind.nginx), on_log=lambda _: heard.set()) as client:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(partial(client.call_tool, "hang", {"text": text}, meta=LOGGING))
                        await until(lambda: log == ["began"])
                        if text:
                            await heard.wait()
                        nursery.cancel_scope.cancel()
                    await until(lambda: log == ["began", "ended"])
                    assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


LIES: Final = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "gopher",
    "Forwarded": "for=203.0.113.9;proto=gopher",
}


async def from_address(address: str, port: int, request: bytes, context: Any = None) -> bytes:
    """Send a request from another address of this machine; return what begins the answer."""
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    await sock.bind((address, 0))
    await sock.connect(("127.0.0.1", port))
    stream: Any = trio.SocketStream(sock)
    if context is not None:
        stream = trio.SSLStream(stream, context, server_hostname=NAME, https_compatible=True)
    try:
        await stream.send_all(request)
        return bytes(await stream.receive_some())
    finally:
        await trio.aclose_forcefully(stream)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of this machine on Linux alone")
@pytest.mark.parametrize("upstream", ["unix", "tcp"])
async def test_only_the_proxy_says_who_calls(tmp_path: Path, upstream: str) -> None:
    """The real address and scheme are known through nginx, whatever the client writes; an untrusted address is not believed."""
    with trio.fail_after(30):
        async with behind_nginx(tmp_path, upstream) as behind:
            request = request_for(call_tool("add", a=1, b=1), LIES)
            answer = await from_address("127.0.0.2", behind.nginx.port, request, behind.nginx.context())
            assert b" 200 " in answer
            assert behind.orders.callers == [("127.0.0.2", "https")]
            if upstream == "tcp":
                port = int(behind.direct.split(":")[2].split("/")[0])
                assert b" 200 " in await from_address("127.0.0.3", port, request)
                assert behind.orders.callers[1:] == [("127.0.0.3", "http")]


async def test_the_name_that_clients_call_is_checked(tmp_path: Path) -> None:
    """nginx passes it on."""
    with trio.fail_after(30):
        async with behind_nginx(tmp_path) as behind:
            request = request_for(call_tool("add", a=1, b=1), {"Host": "evil.example.com"})
            answer = await from_address("127.0.0.1", behind.nginx.port, request, behind.nginx.context())
            assert b" 421 " in answer


def listens(path: Path) -> bool:
    """Whether somebody does; a socket that is bound is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as attempt:
        try:
            attempt.connect(str(path))
        except OSError:
            return False
    return True


async def test_the_program_on_the_page(tmp_path: Path) -> None:
    """It serves both eras; SIGTERM ends it in good order; while it is away calls fail, and then go well again."""
    path = tmp_path / "mcp.sock"
    program = replaced(blocks("python")[0], {"/run/orders/mcp.sock": str(path), '"mcp.example.com"': f'"{NAME}"'})
    configuration = replaced(NGINX[0], {"server unix:/run/orders/mcp.sock;": f"server unix:{path} max_fails=0;"})
    run = partial(trio.run_process, [sys.executable, "-W", "error", "-c", program])
    with trio.fail_after(60):
        async with running_nginx(tmp_path, configuration) as nginx, trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(run)
            await until(partial(listens, path))
            async with (
                open_client(parameters_for(nginx), era="modern") as modern,
                open_client(parameters_for(nginx), era="legacy") as legacy,
            ):
                for client in (modern, legacy):
                    assert (await client.call_tool("count", {"title": "Dune"})).text == "4"
                process.terminate()
                assert await process.wait() == 0
                assert not path.exists()
                with pytest.raises(HttpStatusError) as caught:
                    await modern.call_tool("count", {"title": "Dune"})
                assert caught.value.status == 502
                again: trio.Process = await nursery.start(run)
                await until(partial(listens, path))
                for client in (modern, legacy):
                    assert (await client.call_tool("count", {"title": "Emma"})).text == "4"
            again.terminate()


async def test_sessions_are_served_in_several_places(tmp_path: Path) -> None:
    """The second configuration of the page: requests in turn, to servers that share a store."""
    servers = [Orders(), Orders()]
    shutdown = Shutdown()
    upstream = NGINX[1]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number, orders in enumerate(servers, 1):
                path = tmp_path / f"mcp-{number}.sock"
                await nursery.start(
                    partial(
                        serve_http, orders.server, unix_path=path, settings=page_settings(), shutdown=shutdown,
                        authenticate=orders.authenticate, store=SqliteStore(tmp_path / "orders.db"),
                    )
                )  # fmt: skip
                upstream = replaced(upstream, {f"/run/orders-{number}/mcp.sock": str(path)})
            configuration = upstream + NGINX[0].partition("}\n")[2]
            async with running_nginx(tmp_path, configuration) as nginx:
                for era in ("legacy", "modern"):
                    async with open_client(
                        parameters_for(nginx), era=era, on_elicit=lambda question: {"value": "Ann"}
                    ) as client:
                        for _ in range(5):
                            assert (await client.call_tool("greet")).text == "hello Ann"
            shutdown.drain()
    assert all(orders.callers for orders in servers)


def test_the_numbers_on_the_page_fit_together() -> None:
    """nginx gives up after the server where it should, and systemd after both."""
    settings, limits = HttpServerSettings(), Limits()
    (unit,) = blocks("ini")

    def number(name: str, text: str = NGINX[0]) -> int:
        found = re.findall(rf"^\s*{name}[\s=]+(\d+)", text, re.MULTILINE)
        assert len(found) == 1, name
        return int(found[0])

    assert number("client_max_body_size") * 1024 * 1024 == settings.max_body_bytes
    assert number("keepalive_timeout") < settings.idle_timeout
    assert number("proxy_read_timeout") > 2 * settings.keep_alive_interval
    assert number("TimeoutStopSec", unit) > limits.drain_timeout + 2 * limits.goodbye_timeout
    assert number("LimitNOFILE", unit) > settings.max_connections
