"""The process that is soaked, a program of its own: ``python soaked.py '{"folder": "/tmp/x", "seed": 1}'``.

It serves over every transport at once, ends and begins serving at random, and has clients of its own, whose servers
are child processes that die at random. First it prints where it serves. Then each line that it reads is a command,
which it answers by a line of JSON about how things stand: `busy` and `idle` begin and end what happens at random.
With ``--child`` it is a server over stdio instead.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, final

sys.path.extend([str(Path(__file__).parents[2] / "support"), str(Path(__file__).parents[1] / "siege")])

import attrs
import trio
from children import children
from living import in_use, lent, objects_of_ours
from visitor import Places, visit_for_ever

from trio_mcp import (
    Context,
    HttpServerSettings,
    Limits,
    ResourceServer,
    Server,
    Shutdown,
    SocketServerSettings,
    run_until_signal,
    serve_http,
    serve_tcp,
    serve_unix,
    serve_websocket,
)

SOON: Final = 6.0
"""Seconds after which what nobody uses any more is gone: short, so that idling shows it."""

RESTARTS: Final = 12.0
"""Seconds between two restarts of something that serves, on average."""

VISITORS: Final = 5
"""Clients in this process."""

RESOURCE: Final = "http://localhost/mcp"
ISSUER: Final = "https://login.example.com"

server: Server[Any] = Server("soaked", limits=Limits(parked_timeout=SOON, drain_timeout=1.0))


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def wait(seconds: float) -> str:
    """Wait a while."""
    await trio.sleep(seconds)
    return "waited"


@server.tool
async def count(to: int, ctx: Context[Any]) -> int:
    """Count, and report each number."""
    async with ctx.progress(total=to) as progress:
        for _ in range(to):
            await progress.advance()
            await ctx.log("info", "counting")
    return to


@server.tool
async def ask(ctx: Context[Any], times: int = 1) -> int:
    """Ask the user, again and again."""
    return sum([bool(await ctx.elicit("Is that right?", bool)) for _ in range(times)])


@server.tool
def nap(seconds: float) -> str:
    """Block a thread for a while."""
    time.sleep(min(seconds, 0.2))
    return "awake"


@server.tool
async def repeat(text: str, times: int) -> str:
    """Say much."""
    return text * times


@server.tool
async def change(number: int) -> str:
    """Change something that others may follow."""
    await server.resource_updated(f"page://{number % 8}")
    server.list_changed("tools")
    return "changed"


@server.tool
async def fail() -> str:
    """Fail."""
    raise ValueError("as was asked for")


@server.tool
async def die() -> str:
    """End this process at once, if it is a child of its client."""
    if CHILD in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@server.resource("page://{number}")
async def page(number: int) -> str:
    """A page."""
    return f"page {number}"


@server.prompt
def review(title: str) -> str:
    """Write a review."""
    return f"Write a review of {title[:100]}."


async def vouch(token: str) -> dict[str, Any] | None:
    """Vouch for the tokens of clients."""
    await trio.lowlevel.checkpoint()
    if not token.startswith("friend"):
        return None
    return {"iss": ISSUER, "sub": token, "aud": RESOURCE, "exp": time.time() + 60}


# What serves.

CHILD: Final = "--child"

Serve = Callable[..., Awaitable[None]]

HTTP: Final = HttpServerSettings(
    sse=True,
    websocket=True,
    session_idle_timeout=SOON,
    idle_timeout=SOON,
    message_timeout=SOON,
    send_timeout=SOON,
    keep_alive_interval=SOON / 3,
)
SOCKETS: Final = SocketServerSettings(message_timeout=SOON, idle_timeout=SOON, send_timeout=SOON)


@final
class Service:
    """Something that serves at one place, and is restarted now and then.

    Attributes:
        restarts: How often it was.
    """

    def __init__(self, serve: Serve, **options: Any) -> None:
        self._serve = partial(serve, server, **options)
        self._takes_port = "path" not in options
        self._shutdown = Shutdown()
        self.restarts = 0

    async def serving(self, *, task_status: trio.TaskStatus[str]) -> None:
        """Serve without end, each time at the same place."""
        port, told = 0, False
        while True:
            self._shutdown = Shutdown()
            async with trio.open_nursery() as nursery:
                where = {"port": port} if self._takes_port else {}
                (url,) = await nursery.start(partial(self._serve, shutdown=self._shutdown, **where))
                if self._takes_port:
                    port = int(url.rpartition(":")[2].partition("/")[0])
                if not told:
                    task_status.started(url)
                    told = True
            self.restarts += 1

    def restart(self, *, at_once: bool) -> None:
        """End it, in good order or not; it begins again by itself."""
        (self._shutdown.abort if at_once else self._shutdown.drain)()


def services(folder: Path) -> dict[str, Service]:
    """Return all that serve, by name."""
    guard = ResourceServer(RESOURCE, authorization_servers=[ISSUER], verifier=vouch, keep_for=SOON / 3)
    return {
        "lean": Service(serve_http, http="lean", settings=HTTP),
        "hypercorn": Service(serve_http, http="hypercorn", settings=HTTP),
        "protected": Service(serve_http, http="lean", settings=HTTP, auth=guard),
        "websocket": Service(serve_websocket, settings=HTTP),
        "tcp": Service(serve_tcp, settings=SOCKETS),
        "unix": Service(serve_unix, path=folder / "soaked", settings=SOCKETS),
    }


# How things stand.


def resident() -> int:
    """Return what of this process is in memory, in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(served: dict[str, Service], odd: Counter[str], *, looks_at_objects: bool) -> dict[str, Any]:
    """Return how things stand."""
    seconds = time.process_time()
    trio_says = trio.lowlevel.current_statistics()
    return {
        "resident": resident(),
        "in_use": in_use(),
        "tasks": trio_says.tasks_living,
        "files": len(os.listdir("/proc/self/fd")),
        "children": len(children()),
        "listeners": server._application.changes.receivers,
        "restarts": sum(each.restarts for each in served.values()),
        "pools": lent(server),
        "objects": objects_of_ours() if looks_at_objects else {},
        "odd": odd,
        "seconds": seconds,
    }


@attrs.define
class Random:
    """What happens at random in this process."""

    places: Places
    served: dict[str, Service]
    seed: str
    odd: Counter[str] = attrs.field(factory=Counter[str])

    async def happen(self, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        """Let it happen until the scope is cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started(nursery.cancel_scope)
            nursery.start_soon(self._restart)
            for number in range(VISITORS):
                chance = random.Random(f"{self.seed}/own {number}")
                nursery.start_soon(visit_for_ever, self.places, chance, self.odd)

    async def _restart(self) -> None:
        chance = random.Random(f"{self.seed}/restarts")
        while True:
            await trio.sleep(chance.expovariate(1 / RESTARTS))
            chance.choice(list(self.served.values())).restart(at_once=chance.random() < 0.3)


async def main(options: dict[str, Any], shutdown: Shutdown) -> None:
    """Serve until a signal comes, and do what is told."""
    served = services(Path(options["folder"]))
    async with trio.open_nursery() as nursery:
        urls: dict[str, str] = {}
        for name, service in served.items():
            urls[name] = await nursery.start(service.serving)
        child = [sys.executable, __file__, CHILD, options["mark"]]
        happening = Random(Places(urls, child), served, str(options["seed"]))
        print(json.dumps({"urls": urls, "child": child}), flush=True)
        nursery.start_soon(_end, shutdown, nursery.cancel_scope)
        scope: trio.CancelScope | None = None
        async with trio.lowlevel.FdStream(os.dup(0)) as commands:
            async for command in commands:
                if command.startswith(b"busy"):
                    scope = await nursery.start(happening.happen)
                elif command.startswith(b"idle") and scope is not None:
                    scope.cancel()
                said = report(served, happening.odd, looks_at_objects=command.startswith(b"all"))
                print(json.dumps(said), flush=True)


async def _end(shutdown: Shutdown, scope: trio.CancelScope) -> None:
    await shutdown.wait_drain()
    scope.cancel()


if __name__ == "__main__":
    if CHILD in sys.argv:
        server.run()
    else:
        arguments = json.loads(sys.argv[1])
        run_until_signal(lambda shutdown: main(arguments, shutdown))
