"""The command line: ``python -m tests.simulation --seeds 10000``, or ``--seed 4711``."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import Final, cast

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # as pytest's configuration does for tests

from .batch import Tally, play_many, table
from .diagram import draw
from .judging import breaks_like, judge
from .program import WIRES, Wire, make_program
from .serving import be_quiet
from .shrink import shown, shrink, size_of

MANY: Final = 1 << 40


def main() -> int:
    """Play what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Play random programs.")
    parser.add_argument(
        "--seeds", type=seeds_in, default="1000", help="how many fresh ones, or a range such as 0-9999"
    )
    parser.add_argument("--seed", type=int, help="play this one again, make it short, and draw it")
    parser.add_argument(
        "--wires", type=wires_in, default=",".join(WIRES), help="over which wires; all by default"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--whole", action="store_true", help="with --seed: do not make it short")
    parser.add_argument("--limit", type=int, default=20, help="how many failures are told")
    parser.add_argument("--first", action="store_true", help="end with the first failure, in one process")
    arguments = parser.parse_args()
    wires: list[Wire] = arguments.wires
    be_quiet()
    if arguments.seed is not None:
        return repeat(arguments.seed, wires, whole=arguments.whole)
    if arguments.first:
        return until_the_first(arguments.seeds, wires)
    return many(arguments.seeds, wires, arguments.processes, arguments.limit)


def repeat(seed: int, wires: list[Wire], *, whole: bool) -> int:
    """Play one program again; if it breaks a promise, make it short and draw it."""
    verdict = judge(make_program(seed, wires))
    program = verdict.program
    if verdict.violations and not whole:
        first, before = verdict.violations[0], size_of(program)
        small = judge(shrink(program, breaks_like(first)))
        if small.violations:  # so it fails every time
            verdict, program = small, small.program
        print(f"# {first.rule} is broken; of {before} parts of the program {size_of(program)} are left\n")
    print(shown(program), end="\n\n")
    print("\n".join(draw(verdict.events, [violation.i for violation in verdict.violations])))
    print()
    for violation in verdict.violations:
        print(f"{violation.i:5} {violation}")
    if not verdict.violations:
        print("no promise is broken")
    return 1 if verdict.violations else 0


def seeds_in(wanted: str) -> range:
    """Return the seeds of a range, or so many fresh ones."""
    found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", wanted.strip(), re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected how many, or a range such as 0-9999, got {wanted!r}")
    first = int(found[1])
    begin = secrets.randbelow(MANY) if found[2] is None else first
    seeds = range(begin, begin + first) if found[2] is None else range(first, int(found[2]) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"there is no seed in {wanted!r}")
    return seeds


def wires_in(wanted: str) -> list[Wire]:
    """Return the wires of a list."""
    wires = wanted.split(",")
    for wire in wires:
        if wire not in WIRES:
            raise argparse.ArgumentTypeError(f"there is no wire {wire!r}; there are {', '.join(WIRES)}")
    return cast("list[Wire]", wires)


def until_the_first(seeds: range, wires: list[Wire]) -> int:
    """Play programs until one breaks a promise."""
    for number, seed in enumerate(seeds, 1):
        if violations := judge(make_program(seed, wires)).violations:
            print(f"program {number} of {len(seeds)} breaks a promise\nSEED={seed} {violations[0]}")
            return 1
    print(f"{len(seeds)} programs, and no promise was broken")
    return 0


def many(seeds: range, wires: list[Wire], processes: int, limit: int) -> int:
    """Play many programs."""
    print(f"seeds {seeds[0]} to {seeds[-1]}, {processes} processes", flush=True)
    told = 0
    line = Progress(is_terminal=sys.stderr.isatty())

    def progress(tally: Tally, all: int) -> None:
        nonlocal told
        for seed, rule, text in tally.failures[told:]:
            if told < limit:
                print(f"SEED={seed} {rule}: {text}", flush=True)
            told += 1
        line.show(tally, all)

    batch = play_many(seeds, wires, processes=processes, progress=progress)
    line.end()
    print("\n".join(table(batch)))
    rules = Counter(rule for _, rule, _ in batch.tally.failures)
    print(f"\n{batch.tally.programs:,} programs")
    if batch.growing:
        print(f"more and more: {', '.join(batch.growing)}")
    print(f"broken: {dict(rules)}" if rules else "no promise was broken")
    return 0 if batch.is_fine else 1


class Progress:
    """One line that says how far it is: on a terminal again and again, else ten times."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._shown = 0

    def show(self, tally: Tally, all: int) -> None:
        """Show how far it is."""
        if not self._is_terminal and tally.programs < self._shown + all / 10:
            return
        self._shown = tally.programs
        text = f"{tally.programs:,} of {all:,}, {tally.broken.total()} broken"
        print(
            f"\r{text:<70}" if self._is_terminal else text, end="" if self._is_terminal else "\n", file=sys.stderr
        )
        sys.stderr.flush()

    def end(self) -> None:
        """Remove it."""
        if self._is_terminal:
            print(f"\r{'':<70}\r", end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
