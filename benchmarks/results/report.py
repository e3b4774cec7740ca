"""A run as a page: what ``RESULTS.md`` is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.results.plots import draw_all
from benchmarks.results.targets import Outcome, hold_to_targets
from trio_mcp._bench._figures import Spread, goodness
from trio_mcp._bench._tables import conditions_of, number, percent

__all__ = ["update_readme", "write_report"]

BEGIN: Final = "<!-- measured -->"
END: Final = "<!-- /measured -->"
SHOWN: Final = ("ours", "ours@lean", "python-2", "fastmcp", "typescript-2", "floor-cattrs", "floor-httptools")
HEADLINES: Final = (
    "server/stdio/modern/echo-1",
    "server/stdio/modern/echo-64",
    "server/stdio/modern/progress",
    "server/stdio/modern/result-1m",
    "server/http/modern/echo-64",
    "server/http/modern/sse-64",
    "server/http/modern/cancel-1",
    "both/memory/modern/echo-1",
    "both/memory/legacy/echo-1",
    "both/memory/modern/echo-64",
    "both/memory/legacy/echo-64",
    "process/stdio/legacy/start",
    "process/stdio/legacy/memory",
)
HOW: Final = """\
To repeat it: `make bench`, on a machine that does nothing else. It installs the other implementations, measures,
and keeps what it found in `.benchmarks/`; `python -m benchmarks report RECORD` makes this page of it. How it
measures is in [docs/benchmarks.md](../docs/benchmarks.md).

Figures are medians of the rounds, and ± is half of what the middle half of the rounds spans. In brackets: how
many times as good ours is. The last column says how many tools the servers had, and how many cores were busy with
something else meanwhile: the median of all measurements of the row, and the most where that is much more.
"""


def write_report(record: Mapping[str, Any], path: Path) -> None:
    """Write the page, and its pictures beside it."""
    pictures = draw_all(record, path.parent / "plots", ("svg",))
    path.write_text("\n".join(_lines(record, [picture.relative_to(path.parent) for picture in pictures])) + "\n")


def update_readme(record: Mapping[str, Any], path: Path) -> bool:
    """Write the shortest account of a record between two marks of a page; return whether it has them."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        return False
    path.write_text(before + begin + "\n".join(("", *_summary(record), "")) + end + after)
    return True


def _summary(record: Mapping[str, Any]) -> Iterator[str]:
    names = [name for name in SHOWN if name in record["contenders"]]
    rows = [cell for name in HEADLINES if (cell := record["cells"].get(name)) is not None]
    yield from _table(
        ("", *(record["contenders"][name]["title"] for name in names)),
        (
            [
                _label(row),
                *(_median(row, name) for name in names),
            ]
            for row in rows
        ),
    )
    yield "![How many times as good trio_mcp is](benchmarks/plots/ratios.svg)"
    yield ""


def _label(row: Mapping[str, Any]) -> str:
    """Return what a row of the README is about; where both eras have one, with its era."""
    name = f"{row['side']}/{row['transport']}/{{}}/{row['workload']}"
    has_both = all(name.format(era) in HEADLINES for era in ("modern", "legacy"))
    where = f"{row['transport']}, {row['era']}" if has_both else row["transport"]
    return f"{row['title']}, {where}, {row['unit']}"


def _median(row: Mapping[str, Any], name: str) -> str:
    values = row["results"].get(name, {}).get("values")
    return number(Spread.of(values).median) if values else "–"


def _lines(record: Mapping[str, Any], pictures: Sequence[Path]) -> Iterator[str]:
    machine, settings, cores = record["machine"], record["settings"], record["cores"]
    yield "# Results"
    yield ""
    yield f"Measured on {record['began'][:10]}: {machine['processor']}, {machine['cores']} cores,"
    yield f"{machine['system']}, Python {machine['python']};"
    yield f"{settings['rounds']} rounds of {settings['seconds']} s. {_placed(cores)}"
    yield ""
    yield HOW
    yield from _table(
        ("implementation", "version"),
        ([one["title"], one["version"]] for one in record["contenders"].values() if one["kind"] != "floor"),
    )
    yield "## Targets"
    yield ""
    yield from _table(
        ("path", "measured against", "target", "found", "spread", ""),
        (_target_row(outcome, record) for outcome in hold_to_targets(record)),
    )
    yield "## Pictures"
    yield ""
    for picture in pictures:
        yield f"![{picture.stem}]({picture.as_posix()})"
    yield ""
    cells: Mapping[str, Mapping[str, Any]] = record["cells"]
    for stage in dict.fromkeys(name.rpartition("/")[0] for name in cells):
        rows = [cell for name, cell in cells.items() if name.rpartition("/")[0] == stage]
        shown = [name for name in record["contenders"] if any(name in row["results"] for row in rows)]
        yield f"## {stage.replace('/', ', ')}"
        yield ""
        yield from _table(
            ("", *(record["contenders"][name]["title"] for name in shown), "tools, load"),
            (
                [f"{row['title']}, {row['unit']}", *(_figure(row, name) for name in shown), conditions_of(row)]
                for row in rows
            ),
        )


def _placed(cores: Mapping[str, Any]) -> str:
    if cores["server"] is None:
        return "Processes ran on whatever core the system gave them."
    return f"What is measured ran on core {cores['server'][0]}, what measures on core {cores['load'][0]}."


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Iterator[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _target_row(outcome: Outcome, record: Mapping[str, Any]) -> list[str]:
    target = outcome.target
    sign = "≥" if outcome.more_is_better else "≤"
    titles = record["contenders"]
    against = "–" if target.against is None else titles.get(target.against, {"title": target.against})["title"]
    return [
        target.path,
        against,
        f"{sign} {target.bound:,g}{target.unit}",
        "–" if outcome.spread is None else number(outcome.spread.median) + target.unit,
        "–" if outcome.spread is None else f"{number(outcome.spread.low)} to {number(outcome.spread.high)}",
        outcome.standing.value,
    ]


def _figure(row: Mapping[str, Any], name: str) -> str:
    result = row["results"].get(name)
    if result is None:
        return "–"
    if not result["values"]:
        return "failed"
    spread = Spread.of(result["values"])
    text = f"{number(spread.median)} ±{percent(spread.relative / 2)}"
    ratio = None if name == "ours" else goodness(row, name)
    if ratio is not None:
        text += f" ({number(ratio)}×)"
    return text
