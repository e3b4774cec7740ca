"""What the harness is told on the command line."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

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

from benchmarks.environments import install_all
from benchmarks.machine import describe_machine
from benchmarks.peers.contenders import CONTENDERS, find_contenders
from benchmarks.peers.environments import ENVIRONMENTS
from benchmarks.results.record import Recorder, write_record
from benchmarks.results.table import tables
from benchmarks.running.rounds import Found, Settings, contenders_of, run_rounds
from benchmarks.workloads import CELLS, find_cells

__all__ = ["main"]

RESULTS: Final = Path(".benchmarks")


def run(options: argparse.Namespace) -> int:
    """Measure, show, keep."""
    cells = find_cells(options.only)
    contenders = find_contenders(options.contenders)
    settings = Settings(rounds=options.rounds, seconds=options.seconds)
    console = Console()
    install_all(one for one in ENVIRONMENTS if any(contender.environment is one for contender in contenders))
    began = datetime.now(UTC)
    made = {
        "began": began.isoformat(timespec="seconds"),
        "command": sys.argv[1:],
        "settings": {"rounds": settings.rounds, "seconds": settings.seconds, "warm_up": settings.warm_up},
        "cores": {"server": settings.cores.server, "load": settings.cores.load},
        "machine": describe_machine(),
    }
    recorder = Recorder(made, contenders)
    failures: list[Found] = []
    total = settings.rounds * sum(len(contenders_of(cell, contenders)) for cell in cells)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        task = progress.add_task("", total=total)

        def observe(found: Found) -> None:
            recorder.add(found)
            if "error" in found.answer:
                failures.append(found)
            said = f"{found.cell.name} {found.contender.name}"
            progress.update(task, advance=1, description=f"round {found.round + 1} {said:60.60}")

        trio.run(run_rounds, cells, contenders, settings, observe)
    record = recorder.record()
    path: Path = options.output or RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    write_record(record, path)
    for table in tables(record):
        console.print(table)
    for failure in failures:
        console.print(f"[red]{failure.cell.name} {failure.contender.name}:[/] {failure.answer['error'][:500]}")
    console.print(f"kept in {path}")
    return 1 if failures else 0


def show_list(options: argparse.Namespace) -> int:
    """Show what there is to measure, and who."""
    del options
    for cell in CELLS:
        print(cell.name)
    print()
    for contender in CONTENDERS:
        print(f"{contender.name:24}{contender.title}")
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="measure")
    running.add_argument("--only", action="append", default=[], help="cells whose name contains or matches this")
    running.add_argument("--contenders", nargs="*", default=[], help="who is measured beside ours")
    running.add_argument("--rounds", type=int, default=5)
    running.add_argument("--seconds", type=float, default=0.5, help="how long each measurement takes")
    running.add_argument("--output", type=Path, help="where the record is kept")
    running.set_defaults(do=run)
    listing = commands.add_parser("list", help="show what there is")
    listing.set_defaults(do=show_list)
    options = parser.parse_args(arguments)
    sys.exit(options.do(options))
