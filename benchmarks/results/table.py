"""Targets on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.table import Table
from rich.text import Text

from benchmarks.results.targets import Outcome, Standing
from trio_mcp._bench._tables import number

__all__ = ["targets_table"]

STANDING_STYLES: Final = {
    Standing.MET: "green",
    Standing.UNCLEAR: "yellow",
    Standing.NOT_MET: "red",
    Standing.NOT_MEASURED: "dim",
}


def targets_table(outcomes: Iterable[Outcome]) -> Table:
    """Return a table of how the targets stand."""
    table = Table(title="targets", title_justify="left", title_style="bold")
    for head in ("path", "measured against", "target", "found", "middle half", "by CPU time", ""):
        table.add_column(head, justify="left" if head in ("path", "measured against", "") else "right")
    for outcome in outcomes:
        target, spread = outcome.target, outcome.spread
        sign = "≥" if outcome.more_is_better else "≤"
        table.add_row(
            target.path,
            target.against or "",
            f"{sign} {target.bound:g}{target.unit}",
            "–" if spread is None else number(spread.median) + target.unit,
            "–" if spread is None else f"{number(spread.low)} to {number(spread.high)}",
            "" if outcome.by_cpu is None else number(outcome.by_cpu),
            Text(outcome.standing.value, STANDING_STYLES[outcome.standing]),
        )
    return table
