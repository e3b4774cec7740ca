"""A run on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from benchmarks.results.comparison import Change, Verdict
from benchmarks.results.statistics import Spread, goodness
from benchmarks.results.targets import Outcome, Standing

__all__ = ["changes_table", "number", "percent", "tables", "targets_table"]

SMALL: Final = 10.0


def number(figure: float) -> str:
    """Return a figure as people read it."""
    return f"{figure:,.2f}" if abs(figure) < SMALL else f"{figure:,.0f}"


def percent(part: float) -> str:
    """Return a part of one as people read it."""
    return f"{part * 100:.0f} %"


def tables(record: Mapping[str, Any]) -> Iterator[Table]:
    """Return a table for each stage: a row for each workload, a column for each contender."""
    cells: Mapping[str, Mapping[str, Any]] = record["cells"]
    stages = dict.fromkeys((cell["side"], cell["transport"], cell["era"]) for cell in cells.values())
    for side, transport, era in stages:
        rows = [
            one for one in cells.values() if (one["side"], one["transport"], one["era"]) == (side, transport, era)
        ]
        shown = [name for name in record["contenders"] if any(name in row["results"] for row in rows)]
        yield _table(f"{side}, {transport}, {era}", rows, shown, record["contenders"])


def _table(
    title: str, rows: Sequence[Mapping[str, Any]], shown: Sequence[str], contenders: Mapping[str, Any]
) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("workload")
    for name in shown:
        table.add_column(contenders[name]["title"], justify="right")
    for row in rows:
        table.add_row(f"{row['title']}\n[dim]{row['unit']}", *(_figure(row, name) for name in shown))
    return table


def _figure(row: Mapping[str, Any], name: str) -> Text:
    result = row["results"].get(name)
    if result is None:
        return Text("–", "dim")
    if not result["values"]:
        return Text("failed", "red")
    spread = Spread.of(result["values"])
    text = Text(number(spread.median), "bold" if name == "ours" else "")
    text.append(f" ±{percent(spread.relative / 2)}", "dim")
    ratio = None if name == "ours" else goodness(row, name)
    if ratio is not None:
        text.append(f"\nours is {number(ratio)}×", "green" if ratio >= 1 else "yellow")
    left_over = sum(result["facts"].get("left_over", ()))
    if left_over:
        text.append(f"\n{left_over:,.0f} left over", "red")
    cpu = result["facts"].get("cpu_us")
    if cpu:
        text.append(f"\n{Spread.of(cpu).median:,.1f} µs CPU", "dim")
    return text


STANDING_STYLES: Final = {
    Standing.MET: "green",
    Standing.UNCLEAR: "yellow",
    Standing.NOT_MET: "red",
    Standing.NOT_MEASURED: "dim",
}
VERDICT_STYLES: Final = {
    Verdict.FASTER: "green",
    Verdict.SLOWER: "red",
    Verdict.SAME: "dim",
    Verdict.UNCLEAR: "yellow",
}


def targets_table(outcomes: Iterable[Outcome]) -> Table:
    """Return a table of how the targets stand."""
    table = Table(title="targets", title_justify="left", title_style="bold")
    for head in ("path", "measured against", "target", "ratio", "middle half", "by CPU time", ""):
        table.add_column(head, justify="left" if head in ("path", "measured against", "") else "right")
    for outcome in outcomes:
        target, spread = outcome.target, outcome.spread
        sign = "≥" if outcome.more_is_better else "≤"
        table.add_row(
            target.path,
            target.against or "",
            f"{sign} {target.bound:g}",
            "–" if spread is None else number(spread.median),
            "–" if spread is None else f"{number(spread.low)} to {number(spread.high)}",
            "" if outcome.by_cpu is None else number(outcome.by_cpu),
            Text(outcome.standing.value, STANDING_STYLES[outcome.standing]),
        )
    return table


def changes_table(changes: Iterable[Change]) -> Table:
    """Return a table of what has changed between two records."""
    table = Table(title="changes", title_justify="left", title_style="bold")
    table.add_column("cell", no_wrap=True)
    for head in ("of", "old", "new", "times as good", "may be off by", ""):
        table.add_column(head, justify="left" if head in ("of", "") else "right")
    for change in changes:
        table.add_row(
            change.cell,
            change.contender,
            number(change.old.median),
            number(change.new.median),
            f"{change.ratio:.2f}",
            percent(change.noise),
            Text(change.verdict.value, VERDICT_STYLES[change.verdict]),
        )
    return table
