"""A server goes on while its processes are killed, one after the other, for a while: ``SECONDS=120`` of each.

Each call is answered or fails with a reason, in time; no answer comes twice or to another call; who listens misses
nothing; what is cancelled is cancelled once; and nothing is left. Real processes, behind nginx.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
import trio
from http_raw import call_tool
from store_group import Member, StoreGroup, open_store_group
from store_load import DEADLINE, Follower, Ledger, Load
from worker_group import gone, text_of

from trio_mcp import Revision

SECONDS: Final = float(os.environ.get("SECONDS") or 120)
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="nginx, and processes as Linux has them"),
    pytest.mark.timeout(SECONDS + 600),
]
REVISIONS: Final = (Revision.V2025_06_18, Revision.V2025_11_25, Revision.V2026_07_28)
EVERY: Final = (2.0, 6.0)
"""Seconds between two deaths, at least and at most."""

AWAY: Final = 10.0
"""Seconds for which a Redis is stopped."""

SETTLING: Final = 90.0
"""Seconds in which all who listen have heard of a change: one that was cut off comes back after half a minute at most."""

THINGS: Final = ("end-0", "end-1", "busy", "quiet")


async def kill_and_start(group: StoreGroup, load: Load, until: float) -> None:
    """Kill one of the processes every few seconds, and start it again a moment later."""
    while (now := trio.current_time()) < until:
        await trio.sleep(min(load.chance.uniform(*EVERY), until - now))
        if trio.current_time() < until:
            member = load.chance.choice(list(group.members))
            await member.end(signal.SIGKILL)
            await trio.sleep(load.chance.uniform(0, 1.5))
            await member.start()


async def misfortunes(group: StoreGroup, load: Load, *, is_away: bool) -> None:
    """Let happen what is to happen, for as long as it is to last. The workers of one program are left in peace."""
    now = trio.current_time()
    if group.kind == "workers":
        await trio.sleep(SECONDS)
    elif group.redis is None or not is_away:
        await kill_and_start(group, load, now + SECONDS)
    else:
        await kill_and_start(group, load, now + (SECONDS - AWAY) / 2)
        group.redis.stop()
        try:
            await trio.sleep(AWAY)
        finally:
            group.redis.go_on()
        await kill_and_start(group, load, now + SECONDS)


async def tell_at_last(group: StoreGroup, load: Load) -> None:
    """Tell of a change in each process, and look who hears of it."""
    for number, member in enumerate(group.members):
        since = trio.current_time()
        async with member.connected() as raw:
            text_of(await raw.send(call_tool("touch", thing=f"end-{number}")))

        async def wait(follower: Follower, name: str = f"end-{number}", since: float = since) -> None:
            with trio.move_on_after(SETTLING) as scope:
                await follower.wait_heard(name, since)
            if scope.cancelled_caught:
                load.ledger.odd.append(f"{follower.name} has not heard of {name}")

        async with trio.open_nursery() as nursery:
            for follower in load.followers:
                nursery.start_soon(wait, follower)


async def play(group: StoreGroup, load: Load, *, is_away: bool) -> None:
    """Let clients call while processes die; at the end nobody calls, and nobody listens."""
    async with trio.open_nursery() as staying:
        for revision in REVISIONS:
            await staying.start(partial(load.follow, revision, THINGS))
        async with trio.open_nursery() as calling:
            for revision in REVISIONS:
                calling.start_soon(load.visit, revision)
            await misfortunes(group, load, is_away=is_away)
            load.is_over.set()
        await tell_at_last(group, load)
        load.may_leave.set()


def judge_handlers(group: StoreGroup, ledger: Ledger) -> list[str]:
    """Return what is wrong with what handlers have noted: each call runs once, and is cancelled once."""
    killed = {pid for member in group.members for pid in member.lives[1:]}
    by_token: dict[str, Counter[str]] = {}
    where: dict[str, int] = {}
    for note in group.notes():
        by_token.setdefault(note.token, Counter())[note.event] += 1
        where[note.token] = note.pid
    problems = list[str]()
    for token, tool in ledger.tokens.items():
        events = by_token.get(token, Counter())
        ends = events["cancelled"] + events["ended"]
        if events["began"] > 1 or ends > events["began"]:
            problems.append(f"{token}: {dict(events)}")
        elif ends < events["began"] and where[token] not in killed and group.kind != "workers":
            problems.append(f"{token} of a process that was not killed has not ended: {dict(events)}")
        elif tool.startswith("slow") and events["ended"]:
            problems.append(f"{token} has ended, and was not cancelled")
    return problems


def judge_followers(group: StoreGroup, load: Load) -> list[str]:
    """Return who was told too often of what never changed: once for each process that had the session, at most."""
    kills = sum(len(member.lives) - 1 for member in group.members)
    most = {True: 0, False: kills}
    return [
        f"{follower.name} has heard {follower.updates['quiet']} times of what never changed"
        for follower in load.followers
        if follower.updates["quiet"] > most[follower.is_modern]
    ]


async def end_all(members: list[Member]) -> list[str]:
    """End them in good order; return which did not."""
    problems = list[str]()

    async def end(member: Member) -> None:
        status: int | None = None
        with trio.move_on_after(60):
            status = await member.end()
        if status != 0:
            problems.append(f"{member.path.name} has ended with {status}: {member.said()[-2_000:]}")

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(end, member)
    return problems


def judge_rest(group: StoreGroup) -> list[str]:
    """Return what is left of all processes, and what they were surprised by."""
    lives = [pid for member in group.members for pid in member.lives]
    problems = [f"process {pid} is there" for pid in lives if not gone(pid)]
    problems += [f"{path} is there" for path in group.left()]
    said = group.said()
    if "Traceback" in said:
        begins = said.index("Traceback")
        problems.append(f"{said.count('Traceback')} tracebacks: {said[max(0, begins - 300) : begins + 3_000]}")
    return problems


@pytest.mark.parametrize(
    ("kind", "is_away"),
    [("workers", False), ("sqlite", False), ("redis", False), ("redis", True)],
    ids=["workers", "sqlite", "redis", "redis-away"],
)
async def test_a_server_outlives_its_processes(
    kind: str, fresh_seed: int, record_property: Callable[[str, object], None], *, is_away: bool
) -> None:
    """Promise of several processes with one store. Nobody is killed of the workers of one program."""
    record_property("chance", f"FRESH_SEED={fresh_seed} SECONDS={SECONDS:g}")
    async with open_store_group(kind, balance="random;") as group:
        load = Load(group, f"{fresh_seed}/{kind}/{is_away}")
        await play(group, load, is_away=is_away)
        kills = sum(len(member.lives) - 1 for member in group.members)
        print(f"{kind}: {load.ledger.line()}, {kills} kills")
        record_property("chance", f"{kind}: {load.ledger.line()}, {kills} kills")
        problems = await end_all(list(group.members))
        problems += judge_handlers(group, load.ledger) + judge_followers(group, load) + judge_rest(group)
    assert load.ledger.odd + problems == []
    assert load.ledger.answered.total() > SECONDS
    assert load.ledger.longest[0] < DEADLINE
