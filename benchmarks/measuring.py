"""A whole run: installing, measuring with something to look at, keeping the record."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, final

import attrs
import trio
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from benchmarks.environments import NODE, install_all
from benchmarks.peers.contender import Contender
from benchmarks.peers.contenders import EARLIER, LEAN, OURS, find_contenders
from benchmarks.peers.environments import ENVIRONMENTS
from benchmarks.results.table import targets_table
from benchmarks.results.targets import Standing, hold_to_targets
from benchmarks.workloads import find_cells
from trio_mcp._bench._figures import compare_within
from trio_mcp._bench._plan import Cores, Settings
from trio_mcp._bench._records import Recorder, describe_run, write_record
from trio_mcp._bench._running import Found, count_measurements, run_rounds
from trio_mcp._bench._tables import changes_table, tables

__all__ = ["QUICK", "THOROUGH", "Plan", "measure_all"]

RECORDS: Final = Path(".benchmarks")
BUSY: Final = 0.7
"""A load average above which figures are worth little."""


@final
@attrs.frozen(kw_only=True)
class Plan:
    """How a run is made.

    Attributes:
        settings: How long and how often things are measured.
        contenders: Who is measured beside ours, by name; all if there is none.
        earlier: Another checkout of ours, measured beside this one.
        is_shown: Whether figures are shown: they mean nothing when they are measured in a hurry.
    """

    settings: Settings
    contenders: tuple[str, ...] = ()
    earlier: Path | None = None
    is_shown: bool = True

    def adjusted(self, *, rounds: int | None, seconds: float | None, contenders: Sequence[str]) -> Self:
        """Return the plan with what was said otherwise."""
        settings = attrs.evolve(
            self.settings,
            rounds=self.settings.rounds if rounds is None else rounds,
            seconds=self.settings.seconds if seconds is None else seconds,
        )
        return attrs.evolve(self, settings=settings, contenders=tuple(contenders) or self.contenders)


THOROUGH: Final = Plan(settings=Settings())
QUICK: Final = Plan(
    settings=Settings(
        rounds=1, seconds=0.01, warm_up=0.0, settle=0.0, cores=Cores(), at_once=os.cpu_count() or 1
    ),
    contenders=(
        "python-2",
        "floor-json",
        "floor-cattrs",
        "floor-hypercorn",
        "floor-anycorn",
        "floor-h11",
        "floor-httptools",
        "floor-msgspec",
    ),
    is_shown=False,
)


def measure_all(plan: Plan, only: Iterable[str], output: Path | None, console: Console) -> int:
    """Measure; return 0 if every cell has a number of everybody who can do it.

    What was measured until then is kept even if this is interrupted.
    """
    cells = find_cells(only)
    contenders = find_contenders(plan.contenders, plan.earlier)
    install(contenders)
    recorder = Recorder(describe_run(plan.settings, sys.argv[1:]), cells, contenders)
    failures: list[Found] = []
    total = count_measurements(cells, contenders, plan.settings)
    path = output or RECORDS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting", total=total)

        def observe(found: Found) -> None:
            recorder.add(found)
            if "error" in found.answer:
                failures.append(found)
                error = f"{found.cell.name}, {found.contender.name}: {found.answer['error'][:600]}"
                progress.console.print(Text(error, "red"))
            value = found.answer.get("value")
            said = f"round {found.round + 1}  {found.cell.name}  {found.contender.name}"
            progress.update(
                task, advance=1, description=f"{said:64.64}{'' if value is None else f'{value:14,.1f}'}"
            )

        try:
            trio.run(run_rounds, cells, contenders, plan.settings, observe)
        finally:
            record = recorder.record()
            write_record(record, path)
    conclude(record, plan, console)
    console.print(f"{total - len(failures)} of {total} measurements were made; they are kept in {path}")
    return 1 if failures else 0


def install(contenders: Iterable[Contender]) -> None:
    """Install what the contenders need."""
    wanted = [one for one in ENVIRONMENTS if any(contender.environment is one for contender in contenders)]
    if any(contender.is_compiled_late for contender in contenders):
        wanted.insert(0, NODE)
    install_all(dict.fromkeys(wanted))


def conclude(record: Mapping[str, Any], plan: Plan, console: Console) -> None:
    """Show what was found."""
    if not plan.is_shown:
        return
    for table in tables(record):
        console.print(table)
    if EARLIER in record["contenders"]:
        for ours, earlier in ((OURS.name, EARLIER), (LEAN.name, LEAN.name.replace(OURS.name, EARLIER))):
            console.print(changes_table(compare_within(record, earlier, ours)))
    outcomes = [outcome for outcome in hold_to_targets(record) if outcome.standing is not Standing.NOT_MEASURED]
    if outcomes:
        console.print(targets_table(outcomes))
    busy = max(record["machine"]["load_before"], default=0.0)
    if busy > BUSY:
        console.print(f"[yellow]The machine was busy (load {busy:.1f}): rely on CPU times, or measure again.")
