"""The command line: ``python -m tests.programs --seeds 0-1999 --transport memory``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from types import FrameType

import attrs

from .checker import Violation, check
from .plan import FEATURES, TRANSPORTS, Program, Transport, make_program
from .play import play, play_real
from .record import Record
from .shrink import brief, shrink

PATIENCE = 120  # seconds of real time that a program over memory may take
PHASES = 10


class HungError(BaseException):
    """A program did not end in real time."""


def on_alarm(number: int, frame: FrameType | None) -> None:
    raise HungError


def judge(program: Program, *, is_strict: bool = False) -> tuple[list[Violation], Record]:
    """Play a program and check what happened."""
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(PATIENCE)
    try:
        record = play(program)
    except HungError:
        return [Violation("it-hangs", 0, f"not over after {PATIENCE} s")], Record(time.monotonic)
    except Exception as error:  # what comes out of a run is a verdict as well
        return [Violation("it-crashes", 0, repr(error))], Record(time.monotonic)
    finally:
        signal.alarm(0)
    return check(program, record, is_strict=is_strict), record


def fails_by(rule: str, program: Program, *, is_strict: bool = True) -> bool:
    """Say whether a program breaks a rule."""
    return any(violation.rule == rule for violation in judge(program, is_strict=is_strict)[0])


def merge(programs: Sequence[Program]) -> Program:
    """Return programs as phases of one, for transports where beginning is dear."""
    first, last = programs[0].clients[0], programs[-1].clients[0]
    phases = tuple(program.clients[0].phases[0] for program in programs)
    client = attrs.evolve(first, phases=phases, leave_at=last.leave_at, leave=last.leave)
    return attrs.evolve(programs[0], clients=(client,))


def programs_of(seeds: Iterable[int], transport: Transport, without: Collection[str]) -> Iterator[Program]:
    """Yield the programs of seeds."""
    programs = (make_program(seed, transport, without) for seed in seeds)
    if transport != "stdio":
        yield from programs
        return
    for several in group(programs, PHASES):
        # Questions are chosen for a revision, so only programs of the same one go together.
        by_revision: dict[str, list[Program]] = {}
        for program in several:
            by_revision.setdefault(program.clients[0].revision, []).append(program)
        yield from map(merge, by_revision.values())


def group(programs: Iterable[Program], size: int) -> Iterator[list[Program]]:
    """Yield programs, several at a time."""
    batch: list[Program] = []
    for program in programs:
        batch.append(program)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def run(
    seeds: Iterable[int],
    transport: Transport,
    without: Collection[str] = (),
    together: int = 8,
    *,
    is_strict: bool = False,
) -> Iterator[tuple[Program, list[Violation], Record]]:
    """Play programs, and yield what is wrong with each."""
    programs = programs_of(seeds, transport, without)
    if transport == "memory":
        for program in programs:
            yield program, *judge(program, is_strict=is_strict)
        return
    for batch in group(programs, together * 4):
        for program, record in zip(batch, play_real(batch, together), strict=True):
            yield program, check(program, record, is_strict=is_strict), record


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("--seeds", default="0-199", help="one, or a range such as 0-1999")
    parser.add_argument("--transport", default="memory", choices=[*TRANSPORTS, "http", "all"])
    parser.add_argument("--without", default="", help=f"what to leave out: {', '.join(FEATURES)}")
    parser.add_argument("--shrink", type=int, default=1, help="how many failures of each rule to make small")
    parser.add_argument("--strict", action="store_true", help="judge what the documentation leaves open as well")
    parser.add_argument("--show", action="store_true", help="show the whole record")
    parser.add_argument(
        "--together", type=int, default=8, help="how many programs at a time, where the clock is real"
    )
    arguments = parser.parse_args()
    logging.getLogger("trio_mcp").setLevel(logging.CRITICAL + 1)
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    without = [name for name in arguments.without.split(",") if name]
    groups: dict[str, Sequence[Transport]] = {"all": TRANSPORTS, "http": ("hypercorn", "lean")}
    transports = groups.get(arguments.transport, (arguments.transport,))
    shown: Counter[str] = Counter()
    failed = total = 0
    for transport in transports:
        begin, events, count = time.monotonic(), 0, 0
        every = {"all": 10, "http": 2}.get(arguments.transport, 1)
        mine = (
            seeds
            if transport == "memory"
            else [seed for seed in seeds if seed % every == TRANSPORTS.index(transport) % every]
        )
        for program, violations, record in run(
            mine, transport, without, arguments.together, is_strict=arguments.strict
        ):
            count += sum(len(client.phases) for client in program.clients[:1])
            events += len(record.events)
            if arguments.show:
                print("\n".join(map(str, record.events)))
            if not violations:
                continue
            failed += 1
            rule = violations[0].rule
            print(
                f"{transport} {program.seed}: {violations[0]}"
                + (f" (and {len(violations) - 1} more)" if violations[1:] else ""),
                flush=True,
            )
            shown[rule] += 1
            if shown[rule] <= arguments.shrink:
                small = shrink(
                    program,
                    partial(fails_by, rule),
                    400 if transport == "memory" else 40,
                )
                again, record_again = judge(small, is_strict=True)
                again = [each for each in again if each.rule == rule]
                if not again:  # not every time
                    small, again, record_again = program, violations, record
                print(f"    {brief(small)}\n    {again[0]}")
                print("\n".join(f"    {line}" for line in record_again.around(again[0].number)), flush=True)
        total += count
        print(f"{transport}: {count} programs, {events} events, {time.monotonic() - begin:.1f} s")
    print(f"{failed} failed of {total}: {dict(shown)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
