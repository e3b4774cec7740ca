"""How cost grows with how much there is: over three decades of each thing, as plots; too steep a slope fails.

What a pass over all of them takes, and what they hold in memory, may grow as their number does: a slope of 1
where both axes are logarithmic. A slope of 2 is a loop in a loop. It is looked for in the upper two decades:
there what each thing costs is more than what all cost together. Processor time of the server and memory are
always judged; time on the clock, only if nothing else kept the machine busy.
"""

# Half of what matplotlib's functions take is without types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from benchmarks.peers.contender import programs_of
from trio_mcp._bench._figures import Spread, exponent_of
from trio_mcp._bench._plan import Cores
from trio_mcp._bench._plots import add_legend, number_logarithmic, panels, save
from trio_mcp._bench._processes import module_command
from trio_mcp._bench._records import describe_machine
from trio_mcp._bench._running import MeasureError, open_worker

__all__ = ["GROWN", "MAX_SLOPE", "Curve", "Grown", "find_grown", "judge", "measure_growth"]

WORKER: Final = "benchmarks.load.worker"
MAX_SLOPE: Final = 1.1
QUIET: Final = 0.1
"""Up to how many cores that are busy with something else the clock is believed."""
UPPER: Final = 100
"""The part of the points by which a slope is judged: those of at least so much less than the most."""
VISIBLE: Final = 256 * 1024
"""Bytes that can be told from what a process has more or less by chance."""
PATIENCE: Final = 180.0
DECADES: Final = (1, 3, 10, 30, 100, 300, 1_000)
FEW: Final = (1, 10, 100, 1_000)
AGAIN: Final = 2
"""How often what is too steep is measured again before it is believed: something may have disturbed it."""


@final
@attrs.frozen(kw_only=True)
class Grown:
    """A thing of which there may be many, or much.

    Attributes:
        name: What it is called.
        of: The kind of measurement.
        what: What one pass does, for people.
        unit: What is counted on the other axis.
        transport: Over what.
        era: In which era.
        binding: What the server is told to serve.
        scale: How much the smallest is.
        is_quick: Whether it is measured in a hurry, too.
    """

    name: str
    of: str
    what: str
    unit: str
    transport: str
    era: str
    binding: str
    scale: int = 1
    is_quick: bool = True


GROWN: Final = (
    *(
        Grown(
            name=f"sessions-{host}",
            of="sessions",
            what="a call in each session",
            unit="idle sessions",
            transport="http",
            era="legacy",
            binding=host,
            is_quick=host == "lean",
        )
        for host in ("lean", "hypercorn")
    ),
    *(
        Grown(
            name=f"listeners-{host}",
            of="listeners",
            what="a change that each has heard of",
            unit="listeners",
            transport="http",
            era="modern",
            binding=host,
            is_quick=host == "lean",
        )
        for host in ("lean", "hypercorn")
    ),
    Grown(
        name="in-flight",
        of="in-flight",
        what="a call each, all at once",
        unit="requests in flight",
        transport="stdio",
        era="modern",
        binding="stdio",
    ),
    Grown(
        name="tools-listed",
        of="listed",
        what="the whole list",
        unit="tools",
        transport="stdio",
        era="modern",
        binding="stdio",
    ),
    Grown(
        name="tools-called",
        of="called",
        what="a call of one of them",
        unit="tools",
        transport="stdio",
        era="modern",
        binding="stdio",
    ),
    *(
        Grown(
            name=f"size-{binding}",
            of="sizes",
            what="a text there and back",
            unit="bytes of a message",
            transport=transport,
            era="modern",
            binding=binding,
            scale=1_024,
            is_quick=binding == "stdio",
        )
        for transport, binding in (("stdio", "stdio"), ("http", "lean"))
    ),
)


@final
@attrs.define(kw_only=True)
class Curve:
    """What was found of one thing: the best of all rounds.

    Attributes:
        seconds: What a pass takes, by how many there are.
        cpu: How long the server computes for it.
        held: How many bytes they hold.
        load: How many cores were busy with something else, at most.
        errors: What could not be measured, and why.
    """

    seconds: dict[int, float] = attrs.field(factory=dict[int, float])
    cpu: dict[int, float] = attrs.field(factory=dict[int, float])
    load: float = 0.0
    held: dict[int, float] = attrs.field(factory=dict[int, float])
    errors: list[str] = attrs.field(factory=list[str])

    def add(self, count: int, seconds: float, facts: Mapping[str, float]) -> None:
        """Add a measurement. What else goes on only ever adds to a figure, so the least is kept."""
        self.load = max(self.load, facts.get("load", 0.0))
        cpu = facts["cpu_ms"] / 1e3
        for kept, figure in ((self.seconds, seconds), (self.cpu, cpu), (self.held, facts["bytes"])):
            kept[count] = min(figure, kept.get(count, figure))


def judge(points: Mapping[int, float], least: float = 0.0) -> Spread | None:
    """Return with which power something grows in the upper two decades; `None` if there is too little to see."""
    most = max(points, default=0)
    upper = [(float(x), y) for x, y in sorted(points.items()) if x * UPPER >= most and y > least]
    return exponent_of(upper) if len(upper) > 1 else None


def slopes_of(curve: Curve) -> dict[str, Spread | None]:
    """Return all slopes."""
    return {"time": judge(curve.seconds), "cpu": judge(curve.cpu), "memory": judge(curve.held, VISIBLE)}


def is_too_steep(curve: Curve) -> bool:
    """Whether one of the slopes that count is."""
    slopes = slopes_of(curve)
    if curve.load > QUIET:
        del slopes["time"]
    return any(slope is not None and slope.median > MAX_SLOPE for slope in slopes.values())


def find_grown(patterns: Iterable[str], *, is_quick: bool) -> tuple[Grown, ...]:
    """Return those whose names begin with one of the patterns; all if there is none.

    Raises:
        ValueError: A pattern fits nothing.
    """
    wanted = tuple(patterns)
    for pattern in wanted:
        if not any(one.name.startswith(pattern) for one in GROWN):
            raise ValueError(
                f"there is no growth of {pattern!r}; there are {', '.join(one.name for one in GROWN)}"
            )
    return tuple(
        one
        for one in GROWN
        if (any(one.name.startswith(pattern) for pattern in wanted) if wanted else one.is_quick or not is_quick)
    )


def measure_growth(grown: Sequence[Grown], output: Path | None, console: Console, *, is_quick: bool) -> int:
    """Measure, show, draw and keep; return 1 if something grows too steeply, or could not be measured."""
    counts, rounds, seconds = (FEW, 1, 0.05) if is_quick else (DECADES, 3, 0.3)
    cores = Cores.here()
    curves = {one.name: Curve() for one in grown}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=len(grown) * len(counts) * rounds)

        async def measure(one: Grown, counts: Sequence[int]) -> None:
            curve = curves[one.name]
            async with open_worker(module_command(WORKER)) as worker:
                for count in counts:
                    progress.update(task, advance=1, description=f"{one.name} {count:,}".ljust(28))
                    try:
                        found = await worker.tell(job_of(one, count * one.scale, seconds, cores), within=PATIENCE)
                    except MeasureError as error:
                        curve.errors.append(f"{count:,}: {error}")
                        return
                    curve.add(count * one.scale, found["value"] / 1e3, found["facts"])

        async def measure_all() -> None:
            for _ in range(rounds):
                for one in grown:
                    await measure(one, counts)
            for one in grown:
                for _ in range(AGAIN):
                    if is_too_steep(curves[one.name]):
                        await measure(one, [count for count in counts if count * UPPER >= max(counts)])

        trio.run(measure_all)
    folder = output or Path(".benchmarks") / f"growth-{time.strftime('%Y%m%d-%H%M%S')}"
    console.print(growth_table(grown, curves))
    for one in grown:
        for error in curves[one.name].errors:
            console.print(Text(f"{one.name}, {error[:600]}", "red"))
    keep(grown, curves, folder)
    console.print(f"kept in {folder}", markup=False)
    return int(any(curve.errors or is_too_steep(curve) for curve in curves.values()))


def job_of(one: Grown, count: int, seconds: float, cores: Cores) -> Mapping[str, Any]:
    """Return what a worker is told."""
    command, variables = programs_of("servers/growing.py", one.binding)
    return {
        "do": "measure",
        "kind": "growing",
        "options": {"of": one.of, "count": count},
        "seconds": seconds,
        "warm_up": 0.0,
        "transport": one.transport,
        "era": one.era,
        "command": command,
        "variables": variables,
        "cores": cores.load,
        "server_cores": cores.server,
    }


def growth_table(grown: Sequence[Grown], curves: Mapping[str, Curve]) -> Table:
    """Return a table of slopes."""
    table = Table(title="growth", title_justify="left", title_style="bold")
    for head in (
        "what",
        "over",
        "to",
        "each computes",
        "slope",
        "on the clock",
        "slope",
        "each holds",
        "slope",
        "",
    ):
        table.add_column(head, justify="left" if head in ("what", "over", "") else "right")
    for one in grown:
        curve = curves[one.name]
        slopes = slopes_of(curve)
        most = max(curve.seconds, default=0)
        passed = 1 if one.of == "called" else most
        holds = curve.held[most] / most if most and curve.held[most] > VISIBLE else None
        steep = is_too_steep(curve)
        verdict = "not measured" if not most else "too steep" if steep else "fine"
        table.add_row(
            f"{one.unit}: {one.what}",
            f"{one.transport}, {one.binding}, {one.era}",
            f"{most:,}",
            shown_each(curve.cpu, most, passed),
            shown_slope(slopes["cpu"]),
            shown_each(curve.seconds, most, passed),
            shown_slope(slopes["time"]) + (" (busy)" if curve.load > QUIET else ""),
            "–" if holds is None else f"{holds:,.0f} B",
            shown_slope(slopes["memory"]),
            Text(verdict, "red" if steep or not most else "green"),
        )
    return table


def shown_each(figures: Mapping[int, float], most: int, passed: int) -> str:
    """Return what each costs where there are most."""
    if not most:
        return "–"
    microseconds = figures[most] / passed * 1e6
    return f"{microseconds:,.0f} µs" if microseconds > 10 else f"{microseconds:.2g} µs"


def shown_slope(slope: Spread | None) -> str:
    """Return a slope."""
    return "–" if slope is None else f"{slope.median:.2f}"


def keep(grown: Sequence[Grown], curves: Mapping[str, Curve], folder: Path) -> None:
    """Write down what was found, and draw it."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        one.name: {
            "what": one.what,
            "unit": one.unit,
            "transport": one.transport,
            "era": one.era,
            "binding": one.binding,
            "seconds": curves[one.name].seconds,
            "cpu_seconds": curves[one.name].cpu,
            "load": curves[one.name].load,
            "bytes": curves[one.name].held,
            "slopes": {
                name: None if slope is None else attrs.asdict(slope)
                for name, slope in slopes_of(curves[one.name]).items()
            },
            "errors": curves[one.name].errors,
        }
        for one in grown
    }
    (folder / "growth.json").write_text(
        json.dumps({"machine": describe_machine(), "growth": found}, indent=1) + "\n"
    )
    for of in dict.fromkeys(one.of for one in grown):
        draw(
            [one for one in grown if one.of == of and curves[one.name].seconds],
            curves,
            folder / f"growth-{of}.svg",
        )


def draw(grown: Sequence[Grown], curves: Mapping[str, Curve], path: Path) -> None:
    """Draw what a pass costs, how many there are in a second, and what they hold; both axes are logarithmic."""
    if not grown:
        return
    figure, (above, middle, below) = panels(f"{grown[0].unit}: {grown[0].what}", 3, 3.0)
    for one, style in zip(grown, ("solid", "dashed", "dotted"), strict=False):
        curve, slopes = curves[one.name], slopes_of(curves[one.name])
        across = sorted(curve.seconds)
        where = f"{one.transport}, {one.binding}"
        line: dict[str, Any] = {"linestyle": style, "marker": "o", "color": "#c2185b"}
        computed: dict[str, Any] = {"linestyle": style, "marker": ".", "color": "#1565c0"}
        took = [curve.seconds[x] for x in across]
        above.plot(
            across, [1e3 * seconds for seconds in took], label=f"{where}: {shown_slope(slopes['time'])}", **line
        )
        cpu = [1e3 * curve.cpu[x] for x in across]
        above.plot(across, cpu, label=f"{where}, processor: {shown_slope(slopes['cpu'])}", **computed)
        passed = [1 if one.of == "called" else x for x in across]
        rates = [count / seconds for count, seconds in zip(passed, took, strict=True)]
        middle.plot(across, rates, label=where, **line)
        seen = [(x, curve.held[x]) for x in across if curve.held[x] > VISIBLE]
        if seen:
            held = [bytes_held / 2**20 for _, bytes_held in seen]
            below.plot([x for x, _ in seen], held, label=f"{where}: {shown_slope(slopes['memory'])}", **line)
    for axes, words in (
        (above, "ms for a pass (and its slope)"),
        (middle, "in a second"),
        (below, "MiB held (and its slope)"),
    ):
        axes.set_ylabel(words)
        axes.set_xscale("log")
        axes.set_yscale("log")
        if axes.lines:
            number_logarithmic(axes.xaxis)
            number_logarithmic(axes.yaxis)
            add_legend(axes)
    below.set_xlim(above.get_xlim())
    below.set_xlabel(grown[0].unit)
    save(figure, path)
