"""Plays many programs in several processes, and says what was tried and what came of it."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import attrs
from living import in_use, objects_of_ours

from .checker import growing, grows
from .judging import Verdict, judge
from .play import play
from .program import LIMITS, REVISIONS, WIRES, Client, Do, Program, Wire, kinds_of, make_program
from .serving import MOST_LAYERS, be_quiet

TOGETHER: Final = 25
"""Programs that a process plays between two reports."""

LIFE: Final = 20_000
"""Programs that a process plays before another one takes its place."""

SAMPLED: Final = 200
"""After so many programs a process notes its memory, and what objects there are."""

MORE: Final = 25
"""Objects of one class of the package that there may be more at the end, however many programs were played."""

MAY_GROW: Final = 150_000
"""Bytes in use that a thousand programs may leave behind, before memory is said to grow.

Of these the notes of this module are 40,000, and in a process that has played few the caches and patterns that each new
kind of program fills are as much. What the process has of the operating system is not looked at: the heap grows by half a
megabyte at a time, where a large answer found no hole.
"""


@attrs.define
class Tally:
    """What came of some programs.

    Attributes:
        wires: How many programs over which wire.
        broken: How many of them broke a promise.
        kinds: How many programs have something of a kind.
        events: How often something was noted, by kind.
        failures: The seeds that broke a promise: with the rule and the words.
        memory: How many programs the process had played, and what was in use in bytes.
        objects: How many objects of each class of the package there were then.
    """

    wires: Counter[str] = attrs.field(factory=Counter[str])
    broken: Counter[str] = attrs.field(factory=Counter[str])
    kinds: Counter[str] = attrs.field(factory=Counter[str])
    events: Counter[str] = attrs.field(factory=Counter[str])
    failures: list[tuple[int, str, str]] = attrs.field(factory=list[tuple[int, str, str]])
    memory: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    objects: list[Counter[str]] = attrs.field(factory=list[Counter[str]])

    @property
    def programs(self) -> int:
        """How many there were."""
        return self.wires.total()

    def add(self, verdict: Verdict) -> None:
        """Count a program."""
        program = verdict.program
        self.wires[program.wire] += 1
        self.kinds.update(kinds_of(program))
        self.events.update(event["ev"] for event in verdict.events)
        self.events.update(
            f"call ended: {event['how']}" for event in verdict.events if event["ev"] == "call-ended"
        )
        if verdict.violations:
            self.broken[program.wire] += 1
            first = verdict.violations[0]
            self.failures.append((program.seed, first.rule, first.text))

    def merge(self, other: Tally) -> None:
        """Add what another process has counted."""
        for name in ("wires", "broken", "kinds", "events"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures


def warm_up() -> None:
    """Let each server list its tools once for each revision: it keeps that, which would look like a leak later."""
    for limits, layers, revision in itertools.product(
        LIMITS, range(MOST_LAYERS + 1), sorted(set(REVISIONS["memory"]))
    ):
        play(Program(layers, "memory", (Client(revision, (Do("1", "list"),)),), limits))


_played = 0


def _play_some(work: tuple[Sequence[int], Collection[Wire]]) -> tuple[int, Tally]:
    """Play programs in a process of its own; return which process that is, and what came of them."""
    global _played
    seeds, wires = work
    be_quiet()
    if not _played:
        warm_up()
    tally = Tally()
    for seed in seeds:
        tally.add(judge(make_program(seed, wires)))
        _played += 1
        if _played % SAMPLED == 0:
            tally.objects.append(objects_of_ours())
            tally.memory.append((_played, in_use()))
    return os.getpid(), tally


@attrs.define
class Batch:
    """Many programs.

    Attributes:
        tally: What came of them.
        growing: What there is more and more of.
    """

    tally: Tally
    growing: list[str] = attrs.field(factory=list[str])

    @property
    def is_fine(self) -> bool:
        """Whether no promise was broken."""
        return not self.tally.failures and not self.growing


def play_many(
    seeds: Sequence[int],
    wires: Collection[Wire] = WIRES,
    *,
    processes: int,
    progress: Callable[[Tally, int], object] = lambda _tally, _all: None,
) -> Batch:
    """Play the programs of seeds.

    Args:
        seeds: The seeds.
        wires: Over which wires.
        processes: In how many processes.
        progress: Called now and then with what came of them so far, and how many there are.
    """
    batch = Batch(Tally())
    samples: dict[int, Tally] = {}
    work = [(part, wires) for part in _parts(seeds, TOGETHER)]
    results: Iterable[tuple[int, Tally]]
    if processes == 1:
        results = map(_play_some, work)
        _collect(results, batch, samples, progress, len(seeds))
    else:
        context = multiprocessing.get_context("fork")
        with context.Pool(processes, maxtasksperchild=LIFE // TOGETHER) as pool:
            _collect(pool.imap_unordered(_play_some, work), batch, samples, progress, len(seeds))
    for process, each in samples.items():
        if grows(each.memory, per_thousand=MAY_GROW):
            batch.growing.append(f"memory of process {process}")
        batch.growing += [f"{name} (+{more})" for name, more in growing(each.objects, most=MORE).items()]
    return batch


def _collect(
    results: Iterable[tuple[int, Tally]],
    batch: Batch,
    samples: dict[int, Tally],
    progress: Callable[[Tally, int], object],
    all: int,
) -> None:
    for process, tally in results:
        batch.tally.merge(tally)
        of_process = samples.setdefault(process, Tally())
        of_process.memory += tally.memory
        of_process.objects += tally.objects
        progress(batch.tally, all)


def _parts(seeds: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for at in range(0, len(seeds), size):
        yield seeds[at : at + size]


def table(batch: Batch) -> Iterator[str]:
    """Yield lines that say what was tried."""
    tally = batch.tally
    yield f"{'wire':<12}{'programs':>10}{'broken':>8}"
    for wire in WIRES:
        if tally.wires[wire]:
            yield f"{wire:<12}{tally.wires[wire]:>10,}{tally.broken[wire]:>8,}"
    yield f"{'all':<12}{tally.programs:>10,}{tally.broken.total():>8,}"
    yield ""
    yield from _columns("programs that have", tally.kinds)
    yield ""
    yield from _columns("events", tally.events)


def _columns(title: str, counts: Counter[str]) -> Iterator[str]:
    yield f"{title}:"
    cells = [f"{count:>10,}  {name:<38}" for name, count in sorted(counts.items())]
    rows = -(-len(cells) // 2)
    for row in range(rows):
        yield "".join(cells[row::rows]).rstrip()
