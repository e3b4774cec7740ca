"""What the harness is told on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
from rich.console import Console

from benchmarks.environments import MissingEnvironmentError
from benchmarks.growth import find_grown, measure_growth
from benchmarks.measuring import QUICK, THOROUGH, measure_all
from benchmarks.peers.contenders import CONTENDERS
from benchmarks.results.plots import draw_all
from benchmarks.results.report import update_readme, write_report
from benchmarks.results.table import targets_table
from benchmarks.results.targets import TARGETS, hold_to_targets
from benchmarks.workloads import CELLS
from trio_mcp._bench._figures import compare
from trio_mcp._bench._records import RecordError, read_record
from trio_mcp._bench._tables import changes_table, tables
from trio_mcp._cli._main import main as trio_mcp_main

__all__ = ["main"]

ONLY: Final = "cells with this in their names, such as `echo`, `stdio/modern` or `*/cancel-*`; may be repeated"
README: Final = Path(__file__).parents[1] / "README.md"
PAGE: Final = Path(__file__).with_name("RESULTS.md")


def run(options: argparse.Namespace) -> int:
    """Measure, show, keep."""
    plan = QUICK if options.quick else THOROUGH
    only, contenders = options.only, options.contenders
    if options.targets:
        only = [*only, *(target.cell for target in TARGETS)]
        contenders = contenders or [target.against for target in TARGETS if target.against is not None]
    plan = plan.adjusted(rounds=options.rounds, seconds=options.seconds, contenders=contenders)
    plan = attrs.evolve(plan, earlier=options.earlier)
    return measure_all(plan, only, options.output, Console())


def show(options: argparse.Namespace) -> int:
    """Show a record."""
    console = Console()
    record = read_record(options.record)
    for table in tables(record):
        console.print(table)
    console.print(targets_table(hold_to_targets(record)))
    return 0


def show_targets(options: argparse.Namespace) -> int:
    """Show how the targets stand."""
    Console().print(targets_table(hold_to_targets(read_record(options.record))))
    return 0


def show_changes(options: argparse.Namespace) -> int:
    """Show what has changed."""
    old, new = read_record(options.old), read_record(options.new)
    console = Console()
    for member in ("processor", "cores", "python"):
        if old["machine"][member] != new["machine"][member]:
            console.print(
                f"[yellow]not the same {member}: {old['machine'][member]}, {new['machine'][member]}; "
                "--against a contender compares what does not depend on it"
            )
    console.print(changes_table(compare(old, new, options.of or ("ours",), options.against)))
    return 0


def draw(options: argparse.Namespace) -> int:
    """Draw pictures."""
    for path in draw_all(read_record(options.record), options.directory):
        print(path)
    return 0


def report(options: argparse.Namespace) -> int:
    """Write the page of results."""
    record = read_record(options.record)
    write_report(record, options.page)
    print(options.page)
    if options.page == PAGE and update_readme(record, README):
        print(README)
    return 0


def grow(options: argparse.Namespace) -> int:
    """Measure how cost grows."""
    grown = find_grown(options.only, is_quick=options.quick)
    return measure_growth(grown, options.output, Console(), is_quick=options.quick)


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
    """Do what is asked for. Without a command, options are those of ``run``."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["target"]:
        sys.exit(trio_mcp_main(["bench", *given[1:]]))
    if given and given[0].startswith("-") and given[0] not in ("-h", "--help"):
        given.insert(0, "run")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="How fast this library is, beside others and beside the floors."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, do: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=f"{help}.")
        added.set_defaults(do=do)
        return added

    running = command("run", run, "measure, show and keep")
    running.add_argument(
        "--only",
        action="append",
        default=[],
        help=ONLY,
    )
    running.add_argument("--targets", action="store_true", help="only what the targets need")
    running.add_argument("--contenders", nargs="*", default=[], help="who is measured beside ours; default: all")
    running.add_argument(
        "--earlier",
        type=Path,
        help="another checkout, installed in its .venv, to measure beside this one",
    )
    running.add_argument("--rounds", type=int, help="how often everything is measured")
    running.add_argument("--seconds", type=float, help="how long each measurement takes")
    running.add_argument("--quick", action="store_true", help="only see whether everything can be measured")
    running.add_argument(
        "--output", type=Path, help="where the record is kept; default: a new file in .benchmarks"
    )
    command("list", show_list, "show what can be measured, and of whom")
    for name, do, help in (
        ("show", show, "show a record"),
        ("targets", show_targets, "show how the targets stand in a record"),
    ):
        command(name, do, help).add_argument("record", type=Path)
    comparing = command(
        "compare", show_changes, "show what has changed between two records, and what is only noise"
    )
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--of", nargs="*", help="whose figures; default: ours")
    comparing.add_argument(
        "--against", help="compare ratios to this contender, which do not depend on the machine"
    )
    drawing = command("plot", draw, "draw a record")
    drawing.add_argument("record", type=Path)
    drawing.add_argument("--directory", type=Path, default=Path(".benchmarks/plots"))
    reporting = command(
        "report", report, "write the page of results from a record, and what the README says of it"
    )
    reporting.add_argument("record", type=Path)
    reporting.add_argument("--page", type=Path, default=PAGE)
    growing = command("growth", grow, "measure how cost grows with how much there is; too steep a slope fails")
    growing.add_argument(
        "--only", action="append", default=[], help="such as `sessions` or `size-stdio`; may be repeated"
    )
    growing.add_argument("--quick", action="store_true", help="fewer points, in half a minute")
    growing.add_argument(
        "--output", type=Path, help="the folder for what is found; default: a new one in .benchmarks"
    )
    commands.add_parser("target", help="measure any server or client: see `trio-mcp bench --help`, which this is")
    options = parser.parse_args(given)
    try:
        sys.exit(options.do(options))
    except (ValueError, RecordError, MissingEnvironmentError) as error:
        parser.exit(2, f"python -m benchmarks: {error}\n")
