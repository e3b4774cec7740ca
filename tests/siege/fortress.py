"""The server that is besieged, a program of its own: ``python fortress.py '{"http": "lean"}'``.

It serves with the settings that a server has by default. It prints where it is; then each line that it reads is a
question how things stand, which it answers by a line of JSON. It ends as any server does, by SIGTERM.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import resource
import signal
import sys
import time
from collections import Counter
from functools import partial
from typing import Any, Final

import attrs
import trio

from trio_mcp import (
    Context,
    Endpoint,
    HttpCall,
    HttpRefused,
    HttpServerSettings,
    Server,
    run_until_signal,
    serve_http,
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
    if token == GOOD:
        return "friend"
    if token == SLOW:
        await trio.sleep(60)
    raise HttpRefused(401, "who are you?", [(b"www-authenticate", b"Bearer")])


class MallInfo(ctypes.Structure):
    """What glibc says of its allocator; see mallinfo(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


BLOCK: Final = 64
"""What a block of Python's own allocator weighs, about."""


def in_use() -> int:
    """Return what lives in this process, in bytes, about. What the allocators have and nobody uses does not count."""
    gc.collect()
    blocks = sys.getallocatedblocks() * BLOCK
    try:
        tell = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):  # another C library
        return blocks
    tell.restype = MallInfo
    told: Any = tell()
    return blocks + int(told.uordblks) + int(told.hblkhd)


def report() -> dict[str, Any]:
    """Return how things stand."""
    memory = in_use()
    found = [each for each in gc.get_objects() if type(each) is Endpoint]
    statistics: dict[str, Any] = attrs.asdict(found[0].statistics()) if found else {}
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


async def serve(options: dict[str, Any], **more: Any) -> None:
    """Serve, and answer questions."""
    async with trio.open_nursery() as nursery:

        async def serving(*, task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
            await serve_http(
                server,
                port=0,
                http=options["http"],
                settings=HttpServerSettings(sse=options["sse"]),
                authenticate=authenticate if options["authenticates"] else None,
                task_status=task_status,
                **more,
            )
            nursery.cancel_scope.cancel()

        (url,) = await nursery.start(serving)
        nursery.start_soon(answer_questions)
        print(url.partition("://")[2].partition(":")[2].partition("/")[0], flush=True)


def main(said: str) -> None:
    """Serve until a signal comes."""
    options: dict[str, Any] = {
        "http": "hypercorn",
        "sse": False,
        "authenticates": False,
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
