"""A run on the terminal. What others have said, such as names and errors, is made harmless."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from .._printable import printable
from ._figures import Change, Spread, Verdict, goodness, noise_of

SMALL: Final = 10.0
LOAD_SHOWN: Final = 0.05
"""How much of a core others must take to be worth mentioning."""


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
        title = "" if side == "target" else f"{side}, {transport}, {era}"
        yield _table(title, rows, record)


def _table(title: str, rows: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> Table:
    shown = [name for name in record["contenders"] if any(name in row["results"] for row in rows)]
    table = Table(title=title or None, title_justify="left", title_style="bold")
    table.add_column("workload")
    for name in shown:
        table.add_column(Text(printable(record["contenders"][name]["title"])), justify="right")
    has_conditions = any(conditions_of(row) for row in rows)
    if has_conditions:
        table.add_column("tools, load", style="dim")
    for row in rows:
        title_and_unit = Text.assemble(row["title"], ("\n" + row["unit"], "dim"))
        figures = [_figure(row, name, reference_of(record)) for name in shown]
        table.add_row(title_and_unit, *figures, *([conditions_of(row)] if has_conditions else ()))
    return table


def reference_of(record: Mapping[str, Any]) -> str:
    """Return whose figures the others are compared with."""
    name: str = record.get("reference", "ours")
    return name


def conditions_of(row: Mapping[str, Any]) -> str:
    """Return with how many tools a row was measured, and how many cores others kept busy meanwhile."""
    facts = [result["facts"] for result in row["results"].values()]
    tools = sorted({int(count) for one in facts for count in one.get("tools", ())})
    loads = [load for one in facts for load in one.get("load", ())]
    parts: list[str] = []
    if tools:
        parts.append(str(tools[0]) if len(tools) == 1 else f"{tools[0]}–{tools[-1]}")
    if loads:
        spread = Spread.of(loads)
        parts.append(
            f"{spread.median:.2f}" + (f" to {max(loads):.2f}" if max(loads) > spread.median + LOAD_SHOWN else "")
        )
    return ", ".join(parts)


def _figure(row: Mapping[str, Any], name: str, reference: str) -> Text:
    result = row["results"].get(name)
    if result is None:
        return Text("–", "dim")
    if not result["values"]:
        return Text("failed", "red")
    spread = Spread.of(result["values"])
    text = Text(number(spread.median), "bold" if name == reference else "")
    text.append(f" ±{percent(spread.relative / 2)}" if spread.count > 1 and spread.median else "", "dim")
    # How targets differ is said in a table of its own.
    ratio = None if name == reference or reference != "ours" else goodness(row, name, reference)
    if ratio is not None:
        noise = noise_of(spread, Spread.of(row["results"][reference]["values"]))
        style = "dim" if abs(ratio - 1) <= noise else "green" if ratio >= 1 else "yellow"
        text.append(f"\nours is {number(ratio)}×", style)
    if result["errors"]:
        text.append(f"\nfailed {len(result['errors'])} times", "red")
    for line, style in _facts(result):
        text.append(f"\n{line}", style)
    return text


def _facts(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what else is said of a figure, each with its style."""
    facts: Mapping[str, Sequence[float]] = result["facts"]
    for name, words in (("left_over", "left over"), ("late", "answered all the same")):
        if total := sum(facts.get(name, ())):
            yield f"{total:,.0f} {words}", "red"
    if result["latency"] and len(facts.get("cpu_us", ())) and result["latency"]["count"] > 1:
        at = result["latency"]["microseconds"]
        yield f"p50 {_time(at['p50'])}, p99 {_time(at['p99'])}", "dim"
    for name, form in (
        ("cpu_us", "{:,.1f} µs CPU"),
        ("silence_ms", "silent after {:,.1f} ms"),
        ("wakeups", "woken {:,.1f} times a second"),
        ("an_hour_mib", "{:,.1f} MiB an hour at 10 calls a second"),
        ("calls", "of {:,.0f} calls"),
        ("in_flight", "{:,.0f} in flight at most"),
    ):
        if facts.get(name):
            yield form.format(Spread.of(facts[name]).median), "dim"
    if facts.get("low"):
        yield f"{number(facts['low'][-1])} to {number(facts['high'][-1])}", "dim"


def _time(microseconds: float) -> str:
    return f"{microseconds:,.0f} µs" if microseconds < 1_000 else f"{number(microseconds / 1e3)} ms"


VERDICT_STYLES: Final = {
    Verdict.FASTER: "green",
    Verdict.SLOWER: "red",
    Verdict.SAME: "dim",
    Verdict.UNCLEAR: "yellow",
}


BESIDE: Final = {Verdict.FASTER: "better", Verdict.SLOWER: "worse"}
"""What is said of two targets, of which one may need more memory."""


def changes_table(
    changes: Iterable[Change], title: str = "changes", *, titles: Mapping[str, str] | None = None
) -> Table:
    """Return a table of what has changed between two records, or of how two targets differ.

    Args:
        changes: What is shown.
        title: Of the table.
        titles: What the rows of targets are about, by cell; `None` where cells are known by their names.
    """
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    table.add_column("cell" if titles is None else "workload", no_wrap=True)
    heads = ("of", "old", "new") if titles is None else ("first", "second")
    for head in (*heads, "times as good", "may be off by", ""):
        table.add_column(head, justify="left" if head in ("of", "") else "right")
    for change in changes:
        of = (change.cell, Text(change.contender)) if titles is None else (titles[change.cell],)
        table.add_row(
            *of,
            number(change.old.median),
            number(change.new.median),
            f"{change.ratio:.2f}",
            percent(change.noise),
            Text(
                change.verdict.value if titles is None else BESIDE.get(change.verdict, change.verdict.value),
                VERDICT_STYLES[change.verdict],
            ),
        )
    return table
