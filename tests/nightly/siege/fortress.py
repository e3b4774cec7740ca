"""The server that is besieged, a program of its own: ``python fortress.py '{"host": "lean"}'``.

It serves with the settings that a server has by default. It prints where it is; then each line that it reads is a
question how things stand, which it answers by a line of JSON. It ends as any server does, by SIGTERM.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import signal
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import attrs
import trio
from living import in_use

from trio_mcp import (
    Context,
    Endpoint,
    HttpCall,
    HttpRefused,
    HttpServerSettings,
    ResourceServer,
    Server,
    run_until_signal,
    serve_http,
    serve_tcp,
    serve_unix,
    serve_websocket,
)

MIB: Final = 1024 * 1024
MUCH: Final = "x" * (8 * MIB)
GOOD: Final = "Bearer friend"
SLOW: Final = "Bearer slow"
ALLOWED_BYTES: Final = 6_000 * MIB
"""More address space than this server gets from nobody, so that what goes wrong costs the machine nothing else."""

ITEMS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "unlike": {"type": "array", "uniqueItems": True},
        "chosen": {"enum": [{"a": list(range(50))}, *map(str, range(50))]},
        "either": {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["a"]}]},
        },
        "rest": {"type": "object", "unevaluatedProperties": False},
    },
}

server: Server[Any] = Server("fortress", version="1.0")


@attrs.frozen
class Order:
    """Copies of a book that somebody wants."""

    title: str
    copies: int


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def order(order: Order, notes: list[str] | None = None) -> Order:
    """Order a book."""
    return order


@server.tool
async def pick(numbers: set[int] | None = None, named: dict[int, str] | None = None) -> int:
    """Count what is different."""
    return len(numbers or ()) + len(named or ())


@server.tool(input_schema=ITEMS)
async def check(arguments: dict[str, Any]) -> str:
    """Take what fits a schema."""
    return f"{len(arguments)} members"


@server.tool
async def wait(seconds: float, note: str = "") -> str:
    """Wait a while."""
    await trio.sleep(seconds)
    return "waited"


@server.tool
async def ask(ctx: Context, note: str = "") -> str:
    """Ask the user."""
    answer = await ctx.elicit("Is that right?", bool)
    return "yes" if answer else "no"


@server.tool
async def much() -> str:
    """Say very much."""
    return MUCH


@server.tool
async def chatter(ctx: Context, count: int = 1_000_000, size: int = 10_000) -> str:
    """Log without end."""
    for _ in range(count):
        await ctx.log("info", "x" * size)
    return "done"


@server.tool
def nap(seconds: float = 0.0) -> str:
    """Block a thread for a while."""
    time.sleep(min(seconds, 2.0))
    return "awake"


server.add_resource("book://about", "Two books.")


@server.resource("book://{title}/line/{number}")
async def line(title: str, number: int) -> str:
    """A line of a book."""
    return f"line {number} of {title[:100]}"


@server.resource("shelf://{+path}")
async def shelf(path: str) -> str:
    """A place in the shelf."""
    return path[:100]


@server.prompt
def review(title: str) -> str:
    """Write a review."""
    return f"Write a review of {title[:100]}."


@server.completion("review", "title")
async def complete_title(typed: str) -> list[str]:
    """Complete a title."""
    return [title for title in ("Dune", "Emma") if title.startswith(typed)]


async def authenticate(call: HttpCall) -> str | None:
    """Let in who is a friend; think long about some of the others."""
    token = call.headers.get("authorization")
    if token is not None and token.startswith(GOOD):
        return token
    if token == SLOW:
        await trio.sleep(60)
    raise HttpRefused(401, "who are you?", [(b"www-authenticate", b"Bearer")])


RESOURCE: Final = "http://localhost/mcp"
ISSUER: Final = "https://login.example.com"


async def vouch(token: str) -> dict[str, Any] | None:
    """Vouch for the tokens of friends, and for one of somebody who is let in and is none."""
    await trio.lowlevel.checkpoint()
    if not token.startswith(("friend", "enemy")):
        return None
    return {"iss": ISSUER, "sub": token, "aud": RESOURCE, "exp": time.time() + 3600}


endpoints: list[Endpoint] = []


def find_endpoint() -> None:
    """Find the endpoint, among what the garbage collector leaves out since serving has begun."""
    gc.unfreeze()
    endpoints[:] = [each for each in gc.get_objects() if type(each) is Endpoint]
    gc.freeze()


def report() -> dict[str, Any]:
    """Return how things stand."""
    memory = in_use()
    statistics: dict[str, Any] = (
        attrs.asdict(endpoints[0].statistics())
        if endpoints
        else {kind: attrs.asdict(pool) for run in server.statistics() for kind, pool in run.items()}
    )
    statistics["connections"] = sum(type(each).__qualname__ == "Peer" for each in gc.get_objects())
    return {
        "memory": memory,
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "fds": len(os.listdir("/proc/self/fd")),
        "statistics": statistics,
        "names": tasks().most_common(5),
    }


def tasks() -> Counter[str]:
    """Return what the tasks are that live."""
    names: Counter[str] = Counter()
    waiting = [trio.lowlevel.current_root_task()]
    while waiting:
        task = waiting.pop()
        if task is not None:
            names[task.name.split(" ")[0][:60]] += 1
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return names


async def answer_questions() -> None:
    """Answer each line that comes."""
    async with trio.lowlevel.FdStream(os.dup(0)) as questions:
        async for _ in questions:
            print(json.dumps(report()), flush=True)


def serve_at(options: dict[str, Any], **more: Any) -> Awaitable[None]:
    """Serve by the host that is asked for."""
    host: str = options["host"]
    if host == "unix":
        return serve_unix(server, options["path"], mode=0o666, **more)
    if host in ("tcp", "tls"):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if host == "tls":
            context.load_cert_chain(options["certificate"])
        return serve_tcp(server, port=0, ssl_context=context if host == "tls" else None, **more)
    more["authenticate"] = authenticate if options["authenticates"] else None
    more["auth"] = (
        ResourceServer(RESOURCE, authorization_servers=[ISSUER], verifier=vouch) if options["protected"] else None
    )
    if host == "websocket":
        return serve_websocket(server, port=0, **more)
    before, _, http = host.rpartition("-")
    settings = HttpServerSettings(sse=options["sse"], websocket=before == "websocket")
    return serve_http(server, port=0, http=cast("Literal['hypercorn', 'lean']", http), settings=settings, **more)


async def serve(options: dict[str, Any], **more: Any) -> None:
    """Serve, and answer questions."""
    async with trio.open_nursery() as nursery:

        async def serving(*, task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
            await serve_at(options, task_status=task_status, **more)
            nursery.cancel_scope.cancel()

        (url,) = await nursery.start(serving)
        find_endpoint()
        nursery.start_soon(answer_questions)
        at = options["path"] if options["host"] == "unix" else url.rpartition(":")[2].partition("/")[0]
        print(at, flush=True)


def main(said: str) -> None:
    """Serve until a signal comes."""
    options: dict[str, Any] = {
        "host": "hypercorn",
        "sse": False,
        "authenticates": False,
        "protected": False,
        "files": 4096,
        **json.loads(said),
    }
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")  # as most programs begin
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # who runs the siege may be interrupted; this is then ended in order
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files: int = options["files"] if hard == resource.RLIM_INFINITY else min(options["files"], hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    resource.setrlimit(resource.RLIMIT_AS, (ALLOWED_BYTES, ALLOWED_BYTES))
    run_until_signal(partial(serve, options))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "{}")
