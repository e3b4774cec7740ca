"""What is measured of this library: ``python ours.py stdio|tcp|unix|websocket|hypercorn|lean|sse|lean-sse``.

``hypercorn-protected`` and ``lean-protected`` demand a token, which stands behind the URL;
``hypercorn-verifying`` and ``lean-verifying`` verify it with each request. ``asgi-hypercorn`` and
``asgi-anycorn`` serve the ASGI application on a host of others. ``stdio-recorded`` and ``lean-recorded`` make a
record of each request, which nobody writes; ``stdio-traced`` and ``lean-traced`` make spans and metrics.
``lean-sqlite`` and ``lean-redis`` keep sessions in a store, which no other process has joined.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import trio

from trio_mcp import Context, Limits, Server

if TYPE_CHECKING:  # what is served over stdio starts without it
    from trio_mcp import ResourceServer

server = Server("ours", limits=Limits(max_subscriptions=4_000))
ended_at: dict[str, int] = {}


@server.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
async def report(text: str, ctx: Context) -> str:
    """Say it again, and report progress once."""
    await ctx.report_progress(1, 1)
    return text


@server.tool
async def flood(count: int, ctx: Context) -> str:
    """Report progress so many times."""
    for step in range(1, count + 1):
        await ctx.report_progress(step, count)
    return "done"


@server.tool
async def shout(count: int, ctx: Context) -> str:
    """Send so many log messages."""
    for _ in range(count):
        await ctx.info("a message")
    return "done"


@server.tool
async def blob(size: int) -> str:
    """Return so much text."""
    return "x" * size


@server.tool
async def swallow(text: str) -> str:
    """Return how long a text is."""
    return str(len(text))


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user."""
    return (await ctx.elicit("What is your name?", str)).value


@server.tool
async def sample(ctx: Context) -> str:
    """Ask the model."""
    return (await ctx.sample("Say something.", max_tokens=10)).text


@server.tool
async def hold(key: str, ctx: Context) -> str:
    """Wait for ever, and note when that ends."""
    try:
        await ctx.report_progress(1)
        await trio.sleep_forever()
    finally:
        ended_at[key] = time.monotonic_ns()


@server.tool
async def ended() -> str:
    """Tell when those that waited ended."""
    said = json.dumps(ended_at)
    ended_at.clear()
    return said


@server.tool
async def touch() -> str:
    """Say that a resource has changed."""
    await server.resource_updated("bench://watched")
    return "done"


def add_filler(number: int) -> None:
    """Add one of the tools that make the list long."""

    async def filler(name: str, count: int, ratio: float, tags: list[str], dry_run: bool = False) -> str:  # noqa: FBT001, FBT002
        """Do nothing, at some length.

        Args:
            name: What it is done to.
            count: How often.
            ratio: How much of it.
            tags: What to call it.
            dry_run: Whether to do even less.
        """
        return f"{name} {count} {ratio} {tags} {dry_run}"

    server.tool(name=f"filler_{number}")(filler)


for filler_number in range(39):
    add_filler(filler_number)


@server.resource("bench://text/{size}")
async def text_of(size: int) -> str:
    """A text of this size."""
    return "x" * size


@server.resource("bench://binary/{size}")
async def binary_of(size: int) -> bytes:
    """Bytes of this size."""
    return b"\0" * size


@server.resource("bench://watched")
async def watched() -> str:
    """What changes."""
    return "as it was"


@server.prompt
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def protection(*, verifying: bool) -> tuple[ResourceServer, str]:
    """Return what protects the server by signed tokens, and a token, as the end of a URL.

    Args:
        verifying: Whether each request costs what the first one with a token does: all is remembered of it, and
            good for no time.
    """
    from trio_mcp import JwtVerifier, ResourceServer
    from trio_mcp.testing import AuthorizationServer

    issuer, resource = "https://login.test", "https://bench.test/mcp"
    login = AuthorizationServer(issuer=issuer, algorithm="RS256")
    verifier = JwtVerifier(issuer, jwks=login.jwks())
    options: dict[str, Any] = {"keep_for": 1e-9} if verifying else {}
    auth = ResourceServer(
        resource, authorization_servers=[issuer], verifier=verifier, scopes={"bench"}, **options
    )
    return auth, "#" + login.issue(scopes={"bench"}, resource=resource, lifetime=86_400)


def watch(kind: str) -> None:
    """Let what the server does be seen, by those who do nothing with it."""
    if kind == "recorded":
        access = logging.getLogger("trio_mcp.access")
        access.addHandler(logging.NullHandler())
        access.setLevel(logging.INFO)
    elif kind == "traced":
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider

        from trio_mcp.otel import Telemetry

        meters = MeterProvider(metric_readers=[InMemoryMetricReader()])
        server.middleware = (Telemetry(tracer_provider=TracerProvider(), meter_provider=meters),)


def store_of(kind: str) -> Any:
    """Return a store that nobody else has; `None` for other kinds. A Redis ends with this process."""
    folder = Path(tempfile.mkdtemp())
    if kind == "sqlite":
        from trio_mcp import SqliteStore

        return SqliteStore(folder / "bench.db")
    if kind == "redis":
        import subprocess

        from trio_mcp import RedisStore

        path = folder / "redis.sock"
        run = f"redis-server --port 0 --save '' --unixsocket {path} >/dev/null & cat; kill $!"
        subprocess.Popen(["/bin/sh", "-c", run], stdin=subprocess.PIPE)
        while not path.exists():
            time.sleep(0.01)
        return RedisStore(f"unix://{path}")
    return None


def serve_on(host: str) -> None:
    """Serve the ASGI application on a host that is not ours, as it comes."""
    import importlib

    from trio_mcp import HttpServerSettings, McpASGI

    hosting: Any = importlib.import_module("benchmarks.peers.hosting")  # it has no types
    settings = HttpServerSettings(max_requests=3_000, max_requests_per_principal=3_000)
    hosting.serve(McpASGI(server, settings), host, "/mcp")


async def main(binding: str) -> None:
    """Serve, and say where."""
    async with trio.open_nursery() as nursery:
        # What is served over stdio starts without these, here as in the programs of the others.
        if binding == "websocket":
            from trio_mcp import serve_websocket

            urls = await nursery.start(partial(serve_websocket, server, port=0))
            print(urls[0], flush=True)
        elif binding in {"tcp", "unix"}:
            from trio_mcp import SocketServerSettings, serve_tcp, serve_unix

            sockets = SocketServerSettings(max_connections=2_000, max_connections_per_address=2_000)
            if binding == "tcp":
                serve = partial(serve_tcp, server, port=0, settings=sockets)
            else:
                serve = partial(serve_unix, server, Path(tempfile.mkdtemp()) / "socket", settings=sockets)
            print(*await nursery.start(serve), flush=True)
        else:
            from trio_mcp import HttpServerSettings, serve_http

            host, _, kind = binding.partition("-")
            is_sse = "sse" in (host, kind)
            settings = HttpServerSettings(
                max_connections=4_000,  # of which one address gets half
                max_requests=3_000,
                max_requests_per_principal=3_000,
                sse=is_sse,
            )
            http: Literal["lean", "hypercorn"] = "lean" if host == "lean" else "hypercorn"
            is_protected = kind in ("protected", "verifying")
            auth, token = protection(verifying=kind == "verifying") if is_protected else (None, "")
            store = store_of(kind)
            serve_it = partial(serve_http, server, port=0, http=http, settings=settings, auth=auth, store=store)
            urls = await nursery.start(serve_it)
            print((urls[0].replace("/mcp", "/sse") if is_sse else urls[0]) + token, flush=True)


if __name__ == "__main__":
    watch(sys.argv[1].partition("-")[2])
    if sys.argv[1].startswith("stdio"):
        server.run()
    elif sys.argv[1].startswith("asgi-"):
        serve_on(sys.argv[1].removeprefix("asgi-"))
    else:
        trio.run(main, sys.argv[1])
