"""An attacker with patience: one useless thing a minute, for fifty hours, in process and on a mock clock.

``python tests/nightly/siege/patience.py`` plays all of them and prints a table, which ``--fill`` writes into docs/security.md.
What is kept may not grow any more after so long, and a few hours after the last minute nothing may be kept at all.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatch
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias, final

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import attrs
import trio
import trio.testing
from attacking import GONE, Attacker
from besiege import PAGE, fill
from fortress import serve_at, server
from living import lent, objects_of_ours

from trio_mcp import MemoryEventStore

HOURS: Final = (30, 40, 50)
"""When it is looked at how much is kept. Caches of a thousand have filled before."""

SILENCE: Final = 3.0
"""Hours after which nothing is kept: more than any setting says."""

GROWTH: Final = 0.25
"""Objects a thing, of any kind, by which what is kept may grow between two looks: chance."""

MINUTE: Final = 60.0

Patience: TypeAlias = "Callable[[Patient], Awaitable[None]]"


@attrs.frozen
class Scenario:
    """One useless thing a minute.

    Attributes:
        play: Sends it.
        hosts: What serves.
        options: How.
    """

    play: Patience
    hosts: Sequence[str]
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.play.__name__.replace("_", "-")


SCENARIOS: Final[list[Scenario]] = []


def patient(*hosts: str, **options: Any) -> Callable[[Patience], Patience]:
    """Register a scenario."""

    def register(play: Patience) -> Patience:
        SCENARIOS.append(Scenario(play, hosts, options))
        return play

    return register


@attrs.frozen
class Kept:
    """What is kept at a time.

    Attributes:
        blocks: Objects of any kind.
        counts: Tasks, files, what is lent, and objects of the library's.
        own: How many objects this has added.
    """

    blocks: int
    counts: Mapping[str, int]
    own: int

    @classmethod
    def now(cls) -> Kept:
        """Look."""
        gc.collect()
        blocks = sys.getallocatedblocks()
        counts = objects_of_ours() + lent(server)
        counts["tasks"] = trio.lowlevel.current_statistics().tasks_living
        counts["files"] = len(os.listdir("/proc/self/fd"))
        gc.collect()
        return cls(blocks, counts, sys.getallocatedblocks() - blocks)

    def more_than(self, before: Kept) -> list[str]:
        """Return what there is more of than before, but for blocks."""
        return [
            f"{name} {before.counts.get(name, 0)} → {n}"
            for name, n in self.counts.items()
            if n > before.counts.get(name, 0)
        ]


@final
class Patient(Attacker):
    """An attacker who has time.

    Attributes:
        number: How many minutes it has been.
        looks: What was kept at the hours that are looked at.
        is_done: Set after the last.
    """

    def __init__(self, host: str, at: str, addresses: Sequence[str], hours: Sequence[int]) -> None:
        super().__init__(host, at, addresses)
        self._looked_at = [60 * hour for hour in hours]
        self.number = 0
        self.looks: list[Kept] = []
        self.is_done = trio.Event()

    async def minute(self, *wires: Any) -> int:
        """Wait a minute, and return how many it has been. Reads what comes over wires that are open meanwhile."""
        self.number += 1
        if self.number in self._looked_at:
            looks: list[Kept] = []
            for _ in range(3):  # on a busy machine a connection that has gone may still be there
                await trio.sleep(1)  # what was sent has arrived
                looks.append(Kept.now())
            self.looks.append(min(looks, key=lambda look: look.blocks))
            if len(self.looks) == len(self._looked_at):
                self.is_done.set()
        with trio.move_on_after(MINUTE):
            async with trio.open_nursery() as nursery:
                for wire in wires:
                    nursery.start_soon(self._read, wire)
                await trio.sleep_forever()
        return self.number

    async def _read(self, wire: Any) -> None:
        while True:
            await wire.receive()


@attrs.frozen
class Ending:
    """What came of a scenario.

    Attributes:
        scenario: The scenario.
        host: What served.
        before: What was kept before.
        looks: What was kept at the hours that were looked at.
        after: What was kept in the end.
        things: How many things were sent between two looks.
        counts: What was sent and answered in all.
    """

    scenario: Scenario
    host: str
    before: Kept
    looks: Sequence[Kept]
    after: Kept
    things: int
    counts: Counter[str]

    @property
    def growth(self) -> int:
        """By how many blocks what is kept has grown between two looks, where it has grown least.

        What is kept by and by grows between any two; what only came and went, between some.
        """
        return min(later.blocks - look.blocks - look.own for look, later in pairwise(self.looks))

    def complaints(self) -> list[str]:
        """Return what is not as it should be."""
        found = self.after.more_than(self.before)
        if self.growth > GROWTH * self.things:
            found.append(f"{self.growth} blocks more after {self.things} things")
            found += self.looks[-1].more_than(self.looks[0])
        if self.counts.get("connections", 0) == 0:
            found.append("it did nothing")
        return found


@asynccontextmanager
async def serving(host: str, folder: Path, options: Mapping[str, Any]) -> AsyncGenerator[str]:
    """Serve at a Unix socket, where what is sent has arrived at once, or at a port; yield which."""
    setup: dict[str, Any] = {
        "sse": True,
        "authenticates": False,
        "protected": False,
        **options,
        "path": str(folder / "socket"),
    }
    by_port = setup.pop("by_port", False)
    store = MemoryEventStore(max_session_bytes=setup.pop("events")) if "events" in setup else None
    async with trio.open_nursery() as nursery:
        more: dict[str, Any] = {} if by_port or host == "unix" else {"unix_path": setup["path"]}
        if store is not None:
            more["event_store"] = store
        (url,) = await nursery.start(partial(serve_at, {**setup, "host": host}, **more))
        yield url.rpartition(":")[2].partition("/")[0] if by_port else setup["path"]
        nursery.cancel_scope.cancel()


async def play(scenario: Scenario, host: str, folder: Path, hours: Sequence[int] = HOURS) -> Ending:
    """Play a scenario; run it on a mock clock that jumps."""
    addresses = (f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(1, 250), repeat=3))
    async with serving(host, folder, scenario.options) as at:
        warming = Patient(host, at, list(itertools.islice(addresses, 100)), [10**9])
        with trio.move_on_after(20 * MINUTE):
            await go_on(warming, scenario)
        await trio.sleep(SILENCE * 60 * MINUTE)
        before = Kept.now()
        me = Patient(host, at, list(itertools.islice(addresses, 60 * hours[-1] + 100)), hours)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on, me, scenario)
            await me.is_done.wait()
            nursery.cancel_scope.cancel()
        await trio.sleep(SILENCE * 60 * MINUTE)
        return Ending(scenario, host, before, me.looks, Kept.now(), 60 * (hours[1] - hours[0]), me.counts)


async def go_on(me: Patient, scenario: Scenario) -> None:
    """Play on, also after having been cut."""
    while True:
        try:
            await scenario.play(me)
        except GONE as error:
            me.counts[f"cut: {error!r:.60}"] += 1
        except BaseExceptionGroup as group:
            _, rest = group.split(GONE)
            if rest is not None:
                raise rest from None
            me.counts["cut"] += 1
        else:
            continue  # each waits by itself
        await me.minute()


def run(scenario: Scenario, host: str, hours: Sequence[int] = HOURS) -> Ending:
    """Play a scenario, on a clock of its own."""
    # What is sent over loopback may come a moment later.
    clock = trio.testing.MockClock(autojump_threshold=0.002 if scenario.options.get("by_port") else 0.0)
    with tempfile.TemporaryDirectory(prefix="patience-") as folder:
        return trio.run(play, scenario, host, Path(folder), hours, clock=clock)


HEAD: Final = ("once a minute", "host", "minutes", "objects more", "verdict")


def table(endings: Sequence[Ending]) -> list[str]:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- | ---: | ---: | --- |"]
    for each in endings:
        what = (each.scenario.play.__doc__ or "").partition("\n")[0].rstrip(".")
        verdict = "; ".join(each.complaints()) or "as before"
        lines.append(f"| {what} | {each.host} | {each.things} | {each.growth:+} | {verdict} |")
    return lines


def main() -> int:
    """Play them all."""
    import_module("patient_things")  # registers them
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", default=["*"], metavar="SCENARIO", help="a pattern of names")
    parser.add_argument("--fill", action="store_true", help="write the table into docs/security.md")
    options = parser.parse_args()
    logging.getLogger("trio_mcp").addHandler(logging.NullHandler())
    endings: list[Ending] = []
    for scenario in SCENARIOS:
        if any(fnmatch(scenario.name, pattern) for pattern in options.scenarios):
            for host in scenario.hosts:
                ending = run(scenario, host)
                endings.append(ending)
                print(scenario.name, table([ending])[-1], dict(ending.counts), flush=True)
    lines = table(endings)
    print("\n" + "\n".join(lines))
    if options.fill:
        fill(PAGE, lines, "patience")
    return any(ending.complaints() for ending in endings)


if __name__ == "__main__":
    sys.modules["patience"] = sys.modules["__main__"]
    sys.exit(main())
