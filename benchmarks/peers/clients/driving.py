"""What clients under measurement have in common: obeying the harness, keeping calls in flight, checking.

It runs in the environment of each client, so it imports nothing but the standard library. A client gives
``connect(job, target)``, an async context manager whose value has ``call`` and ``list_tools``.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

FILLER = "The quick brown fox jumps over the lazy dog. 0123456789 "
OnProgress = Callable[[float], None]


class Connection(Protocol):
    """What a client offers here."""

    async def call(self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None) -> str:
        """Call a tool and return the text of its result."""
        ...

    async def list_tools(self) -> int:
        """Ask for the tools and return how many there are."""
        ...

    async def give_up(self, name: str, arguments: Mapping[str, Any], seconds: float) -> None:
        """Call a tool, and give the call up at a deadline; return where the caller goes on."""
        ...


class Group(Protocol):
    """A nursery or a task group."""

    def start_soon(self, function: Callable[[], Awaitable[None]], /) -> object:
        """Start a task."""
        ...


class WrongAnswerError(Exception):
    """The server's answer is not what it must be."""


def text_of(size: int) -> str:
    """Return a text of so many bytes."""
    return (FILLER * (size // len(FILLER) + 1))[:size]


def counted(latencies: list[int]) -> list[tuple[int, int]]:
    """Return how often each latency was seen, with ten binary digits of each."""
    counts: dict[int, int] = {}
    for latency in latencies:
        shift = max(0, latency.bit_length() - 10)
        rounded = latency >> shift << shift
        counts[rounded] = counts.get(rounded, 0) + 1
    return sorted(counts.items())


@contextmanager
def on_cores(cores: Any) -> Any:
    """Start what is started meanwhile on these cores."""
    if cores is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def serving(job: Mapping[str, Any]) -> Any:
    """Start the server of a job, where it is one that listens, and give its address."""
    if job["transport"] in ("stdio", "memory"):
        yield None
        return
    with on_cores(job["server_cores"]):
        process = subprocess.Popen(
            job["command"],
            cwd=job["cwd"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.PIPE,
        )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
    finally:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def load_server(program: str) -> Any:
    """Return the server of a program, to be served in this process."""
    path = Path(__file__).parents[1] / "servers" / program
    spec = importlib.util.spec_from_file_location("served", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["served"] = module  # its annotations are looked up there
    spec.loader.exec_module(module)
    return module.server


def make_call(connection: Connection, options: Mapping[str, Any]) -> Callable[[], Awaitable[None]]:
    """Return what is done again and again."""
    what, size = options["what"], options.get("size", 100)
    text = text_of(size)
    name, arguments, expected = {
        "echo": ("echo", {"text": text}, text),
        "report": ("report", {"text": text}, text),
        "blob": ("blob", {"size": size}, "x" * size),
        "swallow": ("swallow", {"text": text}, str(size)),
        "tools": ("", {}, ""),
    }[what]

    async def call() -> None:
        answer = await connection.call(name, arguments)
        if answer != expected:
            raise WrongAnswerError(f"wrong answer: {answer[:200]!r}")

    async def list_tools() -> None:
        count = await connection.list_tools()
        if count != options["count"]:
            raise WrongAnswerError(f"{count} tools instead of {options['count']}")

    return list_tools if what == "tools" else call


async def keep_calling(
    connection: Connection,
    options: Mapping[str, Any],
    seconds: float,
    open_group: Callable[[], AbstractAsyncContextManager[Group, Any]],
) -> dict[str, Any]:
    """Keep so many calls in flight for so long."""
    call = make_call(connection, options)
    latencies: list[int] = []
    clock = time.perf_counter_ns
    began = clock()
    end = began + int(seconds * 1e9)

    async def again() -> None:
        before = clock()
        while True:
            await call()
            after = clock()
            latencies.append(after - before)
            if after >= end:
                return
            before = after

    cpu = time.process_time()
    async with open_group() as group:
        for _ in range(options["in_flight"]):
            group.start_soon(again)
    took = (clock() - began) / 1e9
    cpu = time.process_time() - cpu
    size = options.get("size", 1) if options["what"] in ("blob", "swallow") else 1
    return {
        "value": len(latencies) * size * options.get("scale", 1) / took,
        "operations": len(latencies),
        "seconds": took,
        "latencies": counted(latencies),
        "facts": {"cpu_us": cpu / len(latencies) * 1e6},
    }


async def receive_flood(connection: Connection, options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Have a tool report progress, in runs of so many, for so long."""
    received = 0
    clock = time.perf_counter
    cpu = time.process_time()
    began = clock()
    while clock() - began < seconds or not received:
        seen: list[float] = []
        await connection.call("flood", {"count": options["count"]}, seen.append)
        if seen != list(range(1, options["count"] + 1)):
            raise WrongAnswerError(f"{len(seen)} reports instead of {options['count']}, or not in order")
        received += len(seen)
    took = clock() - began
    cpu = time.process_time() - cpu
    return {
        "value": received / took,
        "operations": received,
        "seconds": took,
        "latencies": [],
        "facts": {"cpu_us": cpu / received * 1e6},
    }


COMPUTING = 0.018
"""For how many seconds the caller computes once it has given up."""
DEADLINE = 0.02
PATIENCE = 2.0


async def keep_giving_up(connection: Connection, seconds: float) -> dict[str, Any]:
    """Give up calls and go on computing, and see when the server learns of each: both read one clock."""
    latencies: list[int] = []
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < seconds or not latencies:
        key = str(number)
        number += 1
        await connection.give_up("hold", {"key": key}, DEADLINE)
        at = time.monotonic_ns()
        while time.monotonic_ns() - at < COMPUTING * 1e9:
            pass
        ended: dict[str, int] = {}
        while key not in ended:
            if time.monotonic_ns() - at > PATIENCE * 1e9:
                raise WrongAnswerError(f"the server was not told within {PATIENCE} s")
            ended = json.loads(await connection.call("ended", {}))
        latencies.append(max(0, ended[key] - at))
    return {
        "value": sorted(latencies)[len(latencies) // 2] / 1e6,
        "operations": len(latencies),
        "seconds": time.monotonic() - began,
        "latencies": counted(latencies),
        "facts": {},
    }


async def obey(
    connect: Callable[[Mapping[str, Any], Any], AbstractAsyncContextManager[Connection]],
    open_group: Callable[[], AbstractAsyncContextManager[Group, Any]],
    run_sync: Callable[[Callable[[], str]], Awaitable[str]],
) -> None:
    """Do what the harness says until it says nothing more."""
    connection: Connection | None = None
    tools = 0
    async with AsyncExitStack() as stack:
        while line := await run_sync(sys.stdin.readline):
            job = json.loads(line)
            answer: dict[str, Any] = {}
            try:
                if job["do"] == "open":
                    if job["cores"] is not None and hasattr(os, "sched_setaffinity"):
                        os.sched_setaffinity(0, job["cores"])
                    address = stack.enter_context(serving(job))
                    with on_cores(job["server_cores"]):
                        connection = await stack.enter_async_context(connect(job, address))
                    if job["settle"]:
                        await keep_calling(
                            connection, {"what": "echo", "in_flight": 16}, job["settle"], open_group
                        )
                    tools = await connection.list_tools()
                elif connection is not None:
                    answer = await measure(connection, job, open_group)
                    answer["facts"]["tools"] = tools
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


async def measure(
    connection: Connection,
    job: Mapping[str, Any],
    open_group: Callable[[], AbstractAsyncContextManager[Group, Any]],
) -> dict[str, Any]:
    """Warm up, and measure."""

    async def once(seconds: float) -> dict[str, Any]:
        if job["kind"] == "give-up":
            return await keep_giving_up(connection, seconds)
        if job["kind"] == "flood":
            return await receive_flood(connection, job["options"], seconds)
        return await keep_calling(connection, job["options"], seconds, open_group)

    if job["warm_up"]:
        await once(job["warm_up"])
    gc.collect()
    return await once(job["seconds"])
