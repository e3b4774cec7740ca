"""The command line: ``python -m tests.nightly.programs --seeds 0-199 --wire stdio``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # as pytest's configuration does for tests

from tests.simulation.checker import check
from tests.simulation.diagram import draw
from tests.simulation.judged import Violation
from tests.simulation.judging import sign
from tests.simulation.program import REAL, Program, Wire, make_program
from tests.simulation.serving import be_quiet
from tests.simulation.shrink import shown, shrink

from .play import play_real

TOGETHER = 8
TRIES = 40


def run(seeds: Iterable[int], wire: Wire) -> Iterator[tuple[Program, list[Violation], list[dict[str, object]]]]:
    """Play programs, and yield what is wrong with each."""
    programs = [make_program(seed, [wire]) for seed in seeds]
    for at in range(0, len(programs), 4 * TOGETHER):
        some = programs[at : at + 4 * TOGETHER]
        for program, events in zip(some, play_real(some, TOGETHER), strict=True):
            yield program, check(events), events


def main() -> int:
    """Play what the command line says; show the first program that breaks a promise, made short, and its wire."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.programs", description="Play random programs.")
    parser.add_argument("--seeds", default="0-99", help="one, or a range such as 0-199")
    parser.add_argument("--wire", action="append", choices=REAL, help="all by default")
    arguments = parser.parse_args()
    be_quiet()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    failed = 0
    for wire in arguments.wire or REAL:
        begin, count = time.monotonic(), 0
        for program, violations, events in run(seeds, wire):
            count += 1
            for violation in violations[:1]:
                print(f"{wire} {program.seed}: {violation}", flush=True)
                failed += 1
                if failed == 1:
                    show(program, violation, events)
        print(f"{wire}: {count} programs, {time.monotonic() - begin:.1f} s")
    return 1 if failed else 0


def show(program: Program, violation: Violation, events: list[dict[str, object]]) -> None:
    """Show a program that breaks a promise, as short as it breaks the same one again."""

    def fails(program: Program) -> bool:
        return any(sign(each) == sign(violation) for each in check(play_real([program])[0]))

    small = shrink(program, fails, TRIES)
    if small != program:
        again = play_real([small])[0]
        marked = [each.i for each in check(again) if sign(each) == sign(violation)]
        program, events, violation = (small, again, violation) if marked else (program, events, violation)
    print(shown(program))
    print("\n".join(draw(events, [each.i for each in check(events)])))


if __name__ == "__main__":
    sys.exit(main())
