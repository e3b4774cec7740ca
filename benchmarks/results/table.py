"""A run on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from benchmarks.results.statistics import Ratio, Spread

__all__ = ["number", "tables"]

SMALL: Final = 10.0


def number(figure: float) -> str:
    """Return a figure as people read it."""
    return f"{figure:,.2f}" if abs(figure) < SMALL else f"{figure:,.0f}"


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
    text.append(f" ±{spread.relative / 2:.0%}", "dim")
    ours = row["results"].get("ours")
    if name != "ours" and ours is not None and ours["values"]:
        ratio = Ratio.of(ours["values"], result["values"]).median
        if not row["more_is_better"]:
            ratio = 1 / ratio
        text.append(f"\nours is {number(ratio)}×", "green" if ratio >= 1 else "yellow")
    cpu = result["facts"].get("cpu_us")
    if cpu:
        text.append(f"\n{Spread.of(cpu).median:,.1f} µs CPU", "dim")
    return text
