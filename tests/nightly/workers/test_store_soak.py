"""A server goes on while its processes are killed, one after the other, for a while: ``SECONDS=120`` of each.

Each call is answered or fails with a reason, in time; no answer comes twice or to another call; who listens misses
nothing; what is cancelled is cancelled once; and nothing is left. Real processes, behind nginx.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

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
EVERY: Final = (1.0, 5.0)
"""Seconds between two misfortunes, at least and at most."""

STOPPED: Final = (1.0, 6.0)
"""Seconds for which a process is stopped."""

SHORT_LEASE: Final = 2.0
"""Seconds after which a process that was stopped has lost its sessions, where that is tried."""

AWAY: Final = 10.0
"""Seconds for which a Redis is stopped."""

SETTLING: Final = 90.0
"""Seconds in which all who listen have heard of a change: one that was cut off comes back after half a minute at most."""

VISITORS: Final = 2
"""Clients of each revision at once, beside the one that stays."""

MOST_FILES: Final = 40
"""Files and sockets that a process may have open when nobody calls and nobody listens; they are about 20."""

THINGS: Final = ("end-0", "end-1", "busy", "quiet")


async def end_and_start(members: Sequence[Member], how: signal.Signals, chance: random.Random) -> None:
    """End some processes, and start them again a moment later."""
    for member in members:
        await member.end(how)
    await trio.sleep(chance.uniform(0, 1.5))
    for member in members:
        await member.start()


async def stop_for_a_while(member: Member, chance: random.Random) -> None:
    """Let a process do nothing, and then go on."""
    member.send_signal(signal.SIGSTOP)
    try:
        await trio.sleep(chance.uniform(*STOPPED))
    finally:
        member.send_signal(signal.SIGCONT)


async def trouble(group: StoreGroup, load: Load, until: float) -> None:
    """Every few seconds a process is killed and started again; or both; or one leaves, or stops for a while."""
    chance = load.chance
    while (now := trio.current_time()) < until:
        await trio.sleep(min(chance.uniform(*EVERY), until - now))
        if trio.current_time() < until:
            what = chance.choices(["killed", "all killed", "left", "stopped"], [6, 1, 2, 2])[0]
            load.misfortunes[what] += 1
            member = chance.choice(list(group.members))
            if what == "stopped":
                await stop_for_a_while(member, chance)
            else:
                members = group.members if what == "all killed" else [member]
                how = signal.SIGTERM if what == "left" else signal.SIGKILL
                await end_and_start(members, how, chance)


async def misfortunes(group: StoreGroup, load: Load, *, is_away: bool) -> None:
    """Let happen what is to happen, for as long as it is to last. The workers of one program are left in peace."""
    now = trio.current_time()
    if group.kind == "workers":
        await trio.sleep(SECONDS)
    elif group.redis is None or not is_away:
        await trouble(group, load, now + SECONDS)
    else:
        await trouble(group, load, now + (SECONDS - AWAY) / 2)
        group.redis.stop()
        try:
            await trio.sleep(AWAY)
        finally:
            group.redis.go_on()
        await trouble(group, load, now + SECONDS)


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
            await staying.start(partial(load.watch, revision, THINGS))
        async with trio.open_nursery() as calling:
            for revision in REVISIONS:
                for _ in range(VISITORS):
                    calling.start_soon(load.visit, revision)
            await misfortunes(group, load, is_away=is_away)
            load.is_over.set()
        await tell_at_last(group, load)
        load.may_leave.set()


def judge_handlers(group: StoreGroup, ledger: Ledger) -> list[str]:
    """Return what is wrong with what handlers have noted: each call runs once, and is cancelled once."""
    killed = {pid for member in group.members for pid in member.killed}
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
    takeovers = sum(len(member.lives) - 1 for member in group.members) + load.misfortunes["stopped"]
    return [
        f"{follower.name} has heard {follower.updates['quiet']} times of what never changed"
        for follower in load.followers
        if follower.updates["quiet"] > (0 if follower.is_modern else takeovers)
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


async def judge_idle(group: StoreGroup) -> list[str]:
    """Return which processes have kept files or sockets of clients that have left."""
    problems = list[str]()
    for member in group.members:
        files = Path(f"/proc/{member.pid}/fd")
        with trio.move_on_after(SETTLING):
            while len(list(files.iterdir())) > MOST_FILES:
                await trio.sleep(0.5)
        if (found := len(list(files.iterdir()))) > MOST_FILES:
            problems.append(f"{member.path.name} has {found} files and sockets")
    return problems


def judge_rest(group: StoreGroup, *, is_away: bool) -> list[str]:
    """Return what is left of all processes, and what they were surprised by; a Redis that is away surprises its client."""
    lives = [pid for member in group.members for pid in member.lives]
    problems = [f"process {pid} is there" for pid in lives if not gone(pid)]
    problems += [f"{path} is there" for path in group.left()]
    if not is_away:
        problems += _surprises(group.said())
    return problems


def _surprises(said: str) -> list[str]:
    """Return the errors of the tracebacks in a log, each with how often it is there and once with all of it."""
    found: dict[str, list[str]] = {}
    for part in said.split("Traceback (most recent call last):\n")[1:]:
        lines = part.splitlines()
        end = next(
            (n for n, line in enumerate(lines) if re.match(r"\s*(\|\s*)?[\w.]+(Error|Exception)\b", line)), 0
        )
        found.setdefault(lines[end].strip() if lines else "", []).append("\n".join(lines[: end + 1]))
    return [f"logged {len(all)} times: {error}\n{all[0]}" for error, all in found.items()]


CASES: Final[Mapping[str, tuple[str, bool, dict[str, Any]]]] = {
    "workers": ("workers", False, {}),
    "sqlite": ("sqlite", False, {}),
    "redis": ("redis", False, {}),
    "redis-away": ("redis", True, {}),
    "redis-short-lease": ("redis", False, {"lease": SHORT_LEASE}),
}


@pytest.mark.parametrize("case", list(CASES))
async def test_a_server_outlives_its_processes(
    case: str, fresh_seed: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise of several processes with one store. Nobody is killed of the workers of one program."""
    kind, is_away, of_store = CASES[case]
    record_property("chance", f"FRESH_SEED={fresh_seed} SECONDS={SECONDS:g}")
    async with open_store_group(kind, balance="random;", of_store=of_store) as group:
        load = Load(group, f"{fresh_seed}/{case}")
        await play(group, load, is_away=is_away)
        figures = f"{case}: {load.line()}"
        print(figures)
        record_property("chance", figures)
        problems = await judge_idle(group)
        problems += await end_all(list(group.members))
        problems += judge_handlers(group, load.ledger) + judge_followers(group, load)
        problems += judge_rest(group, is_away=is_away)
    problems += load.ledger.odd
    assert not problems, "\n".join(problems)
    assert load.ledger.answered.total() > SECONDS
    assert load.ledger.longest[0] < DEADLINE
