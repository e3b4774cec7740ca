"""Plays programs over real processes and sockets, several at a time, and returns their logs."""
# Programs are attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import attrs
import trio

from tests.simulation.calling import Player
from tests.simulation.program import Ask, Do, GiveUp, Program
from tests.simulation.record import Log
from tests.simulation.serving import Tasks, World, begin_of, layers_of, make_server, playing
from trio_mcp import Shutdown, StdioServerParameters, serve_http

from .proxy import serve_proxy

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]

SLOWER: Final = 1.5
"""Seconds that a busy machine may take beside what it was seen to take."""

FASTER: Final = 0.06
"""How long everything takes, of what it takes on a mock clock."""

BACKSTOP: Final = 60.0
CLOSING: Final = 10.0


def faster(part: Any) -> Any:
    """Return a program, or a part of one, in which everything takes less time."""
    kind = cast("type[attrs.AttrsInstance]", type(part))
    changes: dict[str, Any] = {}
    for field in attrs.fields(kind):
        known: Any = getattr(part, field.name)
        if isinstance(known, float):
            changes[field.name] = known * FASTER
        elif isinstance(known, tuple):
            inner: tuple[Any, ...] = known
            changes[field.name] = tuple(each if isinstance(each, str) else faster(each) for each in inner)
        elif isinstance(known, Ask | Do | GiveUp):
            changes[field.name] = faster(known)
    return attrs.evolve(part, **changes)


def stalls_of(player: Player, begin: float = 0.0) -> list[tuple[str, float, float]]:
    """Return when which end of a client's wire gets nothing: from when, and for how long."""
    return [(fault.end, begin + fault.at, fault.seconds) for fault in player.plan.faults if fault.kind == "stall"]


# ---- over stdio ----


async def over_stdio(world: World, player: Player, folder: Path) -> None:
    """Play a client over stdio, with a process of its own."""
    program, log, number = world.program, world.log, player.number
    name = f"{program.seed}.{number}"
    plan, seen, wire = (folder / f"{name}.{kind}" for kind in ("program", "events", "bytes"))
    plan.write_bytes(pickle.dumps(program))
    for end, at, seconds in stalls_of(player):
        log.add("stall", conn=number, end=end, seconds=seconds, at=at)
    target = StdioServerParameters(
        sys.executable,
        ["-I", "-S", str(HERE / "relay.py"), str(wire), json.dumps(stalls_of(player, 0.7)), sys.executable,
         "-m", "tests.nightly.programs.scripted", str(plan), str(seen), str(number)],
        cwd=ROOT,
        stderr=folder / f"{name}.stderr",
    )  # fmt: skip
    await trio.sleep(player.plan.opens_at)
    await player.live(target)
    if seen.exists():
        log.events += [json.loads(line) for line in seen.read_bytes().splitlines()]
    if wire.exists():
        log.events += messages_in(number, wire.read_bytes())
    if not any(event["ev"] == "server-ended" and event["conn"] == number for event in log.events):
        log.add("unconnected", conn=number, how="its process was ended before it had begun")


def messages_in(conn: int, relayed: bytes) -> list[dict[str, Any]]:
    """Return the messages that passed a relay, at both ends."""
    found: list[dict[str, Any]] = []
    rest = {"in": "", "out": ""}
    for line in relayed.splitlines():
        t, way, data = json.loads(line)
        *lines, rest[way] = (rest[way] + data).split("\n")
        sender, receiver = ("client", "server") if way == "in" else ("server", "client")
        for raw in filter(None, lines):
            found.append({"t": t, "ev": "out", "conn": conn, "end": sender, "raw": raw})
            found.append({"t": t, "ev": "in", "conn": conn, "end": receiver, "raw": raw, "together": len(lines)})
    return found


# ---- over HTTP ----


async def over_http(world: World, players: Sequence[Player]) -> None:
    """Play clients over HTTP on loopback, with a proxy for each."""
    program, log = world.program, world.log
    begin = trio.current_time()
    shutdown, scope = Shutdown(), trio.CancelScope()
    assert world.server is not None
    host: Any = program.wire
    server = world.server

    async def serve(task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
        with scope:
            await serve_http(server, port=0, http=host, shutdown=shutdown, task_status=task_status)
        log.add("server-ended", conn=-1, how="return")

    async def end() -> None:
        await trio.sleep_until(begin + program.ends_at)
        log.add("server-ending", how=program.end)
        {"abort": shutdown.abort, "drain": shutdown.drain, "cancel": scope.cancel}[program.end]()

    async def live(player: Player, port: int) -> None:
        await trio.sleep(player.plan.opens_at)
        stalls = stalls_of(player, trio.current_time())
        for end, _, seconds in stalls:
            log.add("stall", conn=player.number, end=end, seconds=seconds)
        async with trio.open_nursery() as proxies:
            proxy = await proxies.start(partial(serve_proxy, log, player.number, port, stalls))
            await player.live(f"http://127.0.0.1:{proxy.port}/mcp")
            with trio.move_on_after(CLOSING):
                await proxy.wait_idle()
            proxies.cancel_scope.cancel()

    async with trio.open_nursery() as servers:
        (url,) = await servers.start(serve)
        port = int(url.split(":")[2].split("/")[0])
        servers.start_soon(world.tell_changes)
        if program.ends_at:
            servers.start_soon(end)
        async with trio.open_nursery() as nursery:
            for player in players:
                nursery.start_soon(live, player, port)
        scope.cancel()
        servers.cancel_scope.cancel()


# ---- all of them ----


async def feel_pulse(late: list[float]) -> None:
    """Note how late this busy machine lets tasks run, so that nobody else is blamed for it."""
    while True:
        begin = time.monotonic()
        await trio.sleep(0.05)
        late.append(max(0.0, time.monotonic() - begin - 0.05))


async def _play(programs: Iterable[Program], logs: list[Log], together: int) -> None:
    tasks = Tasks()
    trio.lowlevel.add_instrument(tasks)
    places = trio.Semaphore(together)

    async def play_one(program: Program, log: Log, folder: Path) -> None:
        late: list[float] = []
        async with places, trio.open_nursery() as nursery:
            log.add("begin", **begin_of(program))
            world = World(program, log, server=make_server(program.limits, layers_of(program)))
            players = [Player(number, plan, world, tasks) for number, plan in enumerate(program.clients)]
            nursery.start_soon(feel_pulse, late)
            nursery.start_soon(watch, log, nursery.cancel_scope)
            with playing(world):
                if program.is_http:
                    await over_http(world, players)
                else:
                    async with trio.open_nursery() as clients:
                        for player in players:
                            clients.start_soon(over_stdio, world, player, folder)
            log.events[0]["slack"] = SLOWER + 2 * sum(seconds for seconds in late if seconds > 0.02)
            nursery.cancel_scope.cancel()

    async def watch(log: Log, scope: trio.CancelScope) -> None:
        await trio.sleep(BACKSTOP)
        log.add("stuck")
        scope.cancel()  # no deadline: that would be told to servers

    with tempfile.TemporaryDirectory(prefix="programs") as folder:
        async with trio.open_nursery() as nursery:
            for program in programs:
                logs.append(Log(time.monotonic))
                nursery.start_soon(play_one, program, logs[-1], Path(folder))
    with trio.move_on_after(1):
        while tasks.names():
            await trio.sleep(0.02)
    for log in logs:
        log.add("over", tasks=tasks.names())
    trio.lowlevel.remove_instrument(tasks)


def descriptors() -> set[str]:
    """Return what this process has open."""
    found: set[str] = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(f"{path.name} {path.readlink()}")
    return found


def children() -> set[str]:
    """Return this process's child processes."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def play_real(programs: Sequence[Program], together: int = 8) -> list[list[dict[str, Any]]]:
    """Play programs over processes and sockets, several at a time, and return their logs."""
    before = descriptors(), children()
    logs: list[Log] = []
    trio.run(_play, map(faster, programs), logs, together)
    files, processes = sorted(descriptors() - before[0]), sorted(children() - before[1])
    for log in logs:
        log.add("process", descriptors=files, children=processes)
    return [in_order(log.events) for log in logs]


def in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events of several processes in the order in which they happened."""
    first, *rest = events
    found = [first, *sorted(rest, key=lambda event: event["t"])]
    return [{**event, "i": i} for i, event in enumerate(found)]
