"""Any server and any client, measured: looked at first, then in rounds, side by side; shown, drawn and kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from .._printable import printable
from ._figures import compare, compare_within
from ._loops import HANGS
from ._plan import Cell, Contender, Cores, Settings, Stage
from ._plots import draw_targets
from ._processes import module_command
from ._records import Record, Recorder, describe_run, read_record, write_record
from ._rows import CLIENT_ROWS, CLIENTS, ROWS, SERVERS
from ._running import Found, MeasureError, count_measurements, open_worker, run_rounds
from ._tables import changes_table, tables

WORKER: Final = f"{__package__}._worker"
RECORDS: Final = Path(".benchmarks")
LOOK_SECONDS: Final = 200.0
"""How long looking at a server may take."""
BUSY: Final = 0.3
"""How many cores others may take before it is said that figures are worth little."""


@final
@attrs.frozen(kw_only=True)
class Target:
    """A server or a client as the command line names it.

    Attributes:
        label: What it is called.
        command: What starts it; `None` if it runs already.
        address: Where it is; `None` for one that is spoken to through pipes.
        cwd: Where it is started.
        variables: Its environment; `None` for a quiet one.
        fields: Header fields of each request.
        era: ``auto``, ``modern``, ``legacy`` or ``sse``.
    """

    label: str
    command: tuple[str, ...] | None = None
    address: str | None = None
    cwd: str | None = None
    variables: Mapping[str, str] | None = None
    fields: Mapping[str, str] = attrs.field(factory=dict[str, str])
    era: str = "auto"

    def opening(self, settings: Settings) -> Mapping[str, Any]:
        """Return how a worker opens it."""
        return {
            "era": self.era,
            "command": self.command,
            "address": self.address,
            "cwd": self.cwd,
            "variables": None if self.variables is None else dict(self.variables),
            "fields": dict(self.fields),
            "capabilities": {},
            "is_lenient": True,
            "admits_strays": True,
            "cores": settings.cores.load,
            "server_cores": settings.cores.server,
        }


@final
@attrs.frozen(kw_only=True)
class Plan:
    """What is wanted.

    Attributes:
        settings: How long and how often things are measured.
        only: Names of rows, or patterns; all if there is none.
        asked: What of each server is called: ``tool``, ``arguments``, ``slow``, ``slow_arguments``, ``flood``,
            ``flood_arguments``.
        patience: How many seconds of silence are waited for.
        growth: How long memory is watched to grow, in seconds.
        output: The folder for the record and the pictures; `None` for a new one in `RECORDS`.
        is_client: Whether clients are measured.
    """

    settings: Settings = attrs.field(factory=lambda: Settings(seconds=0.3))
    only: tuple[str, ...] = ()
    asked: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    patience: float = HANGS
    growth: float = 30.0
    output: Path | None = None
    is_client: bool = False


QUICK: Final = Settings(rounds=1, seconds=0.02, warm_up=0.0, settle=0.0, cores=Cores())
QUICK_GROWTH: Final = 1.0


@attrs.frozen(kw_only=True)
class _Measured:
    """What servers and clients under measurement have in common."""

    target: Target
    plan: Plan

    @property
    def name(self) -> str:
        """What it is called."""
        return self.target.label

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return self.target.label

    @property
    def kind(self) -> str:
        """One among others."""
        return "peer"

    def worker(self, stage: Stage) -> Sequence[str]:
        """Return what measures it."""
        return module_command(WORKER)


@final
@attrs.frozen(kw_only=True)
class MeasuredServer(_Measured):
    """A server under measurement."""

    offer: Mapping[str, Any]

    def version(self) -> str:
        """Return what it calls itself."""
        return f"{self.offer['name']} {self.offer['version']}".strip() or "unknown"

    def can(self, cell: Cell) -> bool:
        """Whether it has what a row needs."""
        feature = cell.workload.feature
        if cell.stage != SERVERS:
            return False
        match feature:
            case "":
                return True
            case "command":
                return self.target.command is not None
            case "process":
                return bool(self.offer["has_process"])
            case "addressed":
                return self.target.address is not None
            case "list":
                return bool(self.offer["has_list"])
            case "lines":
                return not self.offer["is_http"]
            case "echo":
                return self.offer["echoes"] is not None
            case _:
                return self.offer[feature] is not None

    def opening(self, stage: Stage, settings: Settings) -> Mapping[str, Any]:
        """Return how it is opened: in the era that was found."""
        found = "sse" if self.offer["transport"] == "sse" else self.offer["era"]
        return {**self.target.opening(settings), "era": found}

    def job(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:
        """Return what is measured."""
        workload = cell.workload
        call: Mapping[str, Any] = self.offer["call"]
        if workload.name == "list":
            call = {"method": "tools/list", "params": dict[str, Any]()}
        options: dict[str, Any] = {
            **workload.options,
            "call": call,
            "slow": self.offer["slow"],
            "flood": self.offer["flood"],
            "echoes": self.offer["echoes"] if workload.feature == "echo" else None,
            "patience": self.plan.patience,
            "seconds": self.plan.growth,
        }
        return {
            **self.opening(cell.stage, settings),
            "do": "measure",
            "kind": workload.kind,
            "options": options,
            "seconds": settings.seconds,
            "warm_up": settings.warm_up,
            "settle_first": settings.settle,
            "tools": self.offer["tools"],
        }


@final
@attrs.frozen(kw_only=True)
class MeasuredClient(_Measured):
    """A client under measurement."""

    def version(self) -> str:
        """Return nothing: nobody has asked it."""
        return ""

    def can(self, cell: Cell) -> bool:
        """Whether a row is one of clients."""
        return cell.stage == CLIENTS

    def opening(self, stage: Stage, settings: Settings) -> None:
        """Open nothing: each run is one of its own."""

    def job(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:
        """Return what is measured."""
        return {
            **self.target.opening(settings),
            "do": "measure",
            "kind": "client",
            "options": {**cell.workload.options, "patience": self.plan.patience},
            "seconds": settings.seconds,
            "warm_up": 0.0,
        }


class NothingToMeasure(Exception):
    """None of the targets can be measured, or no row is wanted; the text says why."""


def rows_of(plan: Plan) -> tuple[Cell, ...]:
    """Return the rows that are wanted.

    Raises:
        NothingToMeasure: There is none of such a name.
    """
    stage, rows = (CLIENTS, CLIENT_ROWS) if plan.is_client else (SERVERS, ROWS)
    for pattern in plan.only:
        if not any(_fits(row.name, pattern) for row in rows):
            names = ", ".join(row.name for row in rows)
            raise NothingToMeasure(f"there is no row {pattern!r}; there are {names}")
    return tuple(
        Cell(stage=stage, workload=row)
        for row in rows
        if not plan.only or any(_fits(row.name, pattern) for pattern in plan.only)
    )


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or name.split("-", maxsplit=1)[0] == pattern or fnmatchcase(name, pattern)


def measure_targets(targets: Sequence[Target], plan: Plan) -> bool:
    """Measure servers, or clients, and show, draw and keep what was found; return whether every row has a figure.

    What was measured until then is shown and kept even if this is interrupted.

    Raises:
        NothingToMeasure: None of them can be opened, or there is no such row.
    """
    console = Console(highlight=False)
    cells = rows_of(plan)
    contenders = _clients(targets, plan) if plan.is_client else _looked_at(targets, plan, console)
    settings = plan.settings
    if not plan.is_client:
        slowest = max(one.offer["milliseconds"] for one in contenders if isinstance(one, MeasuredServer))
        room = plan.growth + 64 * slowest / 1e3 + 2 * plan.patience
        settings = attrs.evolve(settings, patience=max(settings.patience, room))
    else:
        settings = attrs.evolve(settings, patience=max(settings.patience, plan.patience + 30))
    recorder = Recorder(_described(plan, settings, contenders), cells, contenders)
    failures: dict[tuple[str, str], str] = {}
    try:
        _run(cells, contenders, settings, recorder, failures, console)
    finally:
        record = recorder.record()
        if record["cells"]:
            _conclude(record, plan, cells, failures, console)
    return not failures


def _clients(targets: Sequence[Target], plan: Plan) -> list[Contender]:
    return [MeasuredClient(target=target, plan=plan) for target in targets]


def _looked_at(targets: Sequence[Target], plan: Plan, console: Console) -> list[Contender]:
    found: list[Contender] = []
    for target in targets:
        try:
            offer = trio.run(_look, target, plan)
        except MeasureError as error:
            if len(targets) == 1:
                raise NothingToMeasure(f"{target.label}: {error}") from error
            console.print(Text(printable(f"{target.label} cannot be measured: {error}"), "red"))
            continue
        found.append(MeasuredServer(target=target, offer=offer, plan=plan))
        named = f" is {offer['name']} {offer['version']}".rstrip() + "," if offer["name"] else ""
        console.print(
            Text(
                f"{printable(target.label)}:{named} speaks {offer['revision']}, has {offer['tools']} tools; "
                f"called is {offer['about']}, which takes {offer['milliseconds']:.1f} ms"
            )
        )
        for note in offer["notes"]:
            console.print(Text(f"  {printable(note)}", "dim"))
    if not found:
        raise NothingToMeasure("none of the targets can be measured")
    return found


async def _look(target: Target, plan: Plan) -> Mapping[str, Any]:
    async with open_worker(module_command(WORKER)) as worker:
        job = {**target.opening(plan.settings), **plan.asked, "do": "probe", "patience": plan.patience}
        if plan.patience != HANGS:  # else it may take as long as an installation
            job["handshake"] = plan.patience
        return await worker.tell(job, within=LOOK_SECONDS)


def _described(plan: Plan, settings: Settings, contenders: Sequence[Contender]) -> Mapping[str, Any]:
    offers = {one.name: dict(one.offer) for one in contenders if isinstance(one, MeasuredServer)}
    return {
        **describe_run(settings, [one.name for one in contenders]),
        "reference": contenders[0].name,
        "offers": offers,
    }


def _run(
    cells: Sequence[Cell],
    contenders: Sequence[Contender],
    settings: Settings,
    recorder: Recorder,
    failures: dict[tuple[str, str], str],
    console: Console,
) -> None:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        total = count_measurements(cells, contenders, settings)
        task = progress.add_task("starting", total=total)

        def observe(found: Found) -> None:
            recorder.add(found)
            if "error" in found.answer:
                failures.setdefault((found.cell.workload.title, found.contender.name), found.answer["error"])
            what = f"round {found.round + 1}  {found.cell.workload.title}  {printable(found.contender.title)}"
            progress.update(task, advance=1, description=f"{what:64.64}")

        trio.run(run_rounds, cells, contenders, settings, observe)


def _conclude(
    record: Record,
    plan: Plan,
    cells: Sequence[Cell],
    failures: Mapping[tuple[str, str], str],
    console: Console,
) -> None:
    show_record(record, console)
    for (title, name), error in failures.items():
        console.print(Text(f"{title}, {printable(name)}: {printable(error, 600)}", "red"))
    console.print()
    for line in explanations(record, cells):
        console.print(Text(line, "dim"))
    folder = plan.output or RECORDS / time.strftime("%Y%m%d-%H%M%S")
    write_record(record, folder / "record.json")
    drawn = [path.name for path in draw_targets(record, folder)]
    console.print(f"kept in {folder}: {', '.join(['record.json', *drawn])}", markup=False)


def explanations(record: Record, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what the rows mean, and how sure their figures are."""
    width = max(len(cell.workload.name) for cell in cells)
    for cell in cells:
        if cell.name in record["cells"]:
            yield f"{cell.workload.name:{width}}  {cell.workload.title}: {cell.workload.meaning}"
    settings, machine, cores = record["settings"], record["machine"], record["cores"]
    yield ""
    yield (
        f"Figures are medians of {settings['rounds']} round(s) of {settings['seconds']:g} s; ± is half of what "
        "the middle half of the rounds spans. In each round every target is started anew, and they take turns."
    )
    placed = "wherever the system put them"
    if cores["server"] is not None:
        placed = f"what is measured on core {cores['server'][0]}, what measures on core {cores['load'][0]}"
    yield f"Measured on {machine['processor']}, {machine['cores']} cores, {placed}."
    loads = [
        load
        for cell in record["cells"].values()
        for result in cell["results"].values()
        for load in result["facts"].get("load", ())
    ]
    if loads and max(loads) > BUSY:
        yield (f"Others kept up to {max(loads):.1f} cores busy meanwhile: rely on CPU times, or measure again.")


def show_record(record: Record, console: Console | None = None) -> None:
    """Show a record of targets; of several, which is better and whether that is more than luck."""
    console = console or Console(highlight=False)
    for table in tables(record):
        console.print(table)
    first, *others = record["contenders"]
    titles = {name: f"{cell['title']}, {cell['unit']}" for name, cell in record["cells"].items()}
    for other in others:
        title = f"first: {printable(first)}\nsecond: {printable(other)}"
        console.print(changes_table(compare_within(record, first, other), title, titles=titles))


def compare_records(old: Path, new: Path) -> None:
    """Show what has changed between two records of the same targets, or of one each.

    Raises:
        RecordError: A file is none.
    """
    before, after = read_record(old), read_record(new)
    console = Console(highlight=False)
    for member in ("processor", "cores", "python"):
        if before["machine"][member] != after["machine"][member]:
            console.print(
                Text(f"not the same {member}: {before['machine'][member]}, {after['machine'][member]}", "yellow")
            )
    names = [name for name in after["contenders"] if name in before["contenders"]]
    if not names:
        # Two targets, each in a record of its own.
        (one, *_), (other, *_) = before["contenders"], after["contenders"]
        names, before = [other], _renamed(before, one, other)
    console.print(changes_table(compare(before, after, names)))


def _renamed(record: Record, old: str, new: str) -> Record:
    cells = {
        name: {**cell, "results": {new if one == old else one: result for one, result in cell["results"].items()}}
        for name, cell in record["cells"].items()
    }
    return {**record, "cells": cells}
