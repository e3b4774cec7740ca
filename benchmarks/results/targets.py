"""What we want to be, as ratios that are measured in one run, and whether we are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, final

import attrs

from benchmarks.results.statistics import Ratio, Spread

__all__ = ["TARGETS", "Outcome", "Standing", "Target", "hold_to_targets"]


class Standing(StrEnum):
    """How a target stands."""

    MET = "met"
    UNCLEAR = "unclear"
    NOT_MET = "not met"
    NOT_MEASURED = "not measured"


@final
@attrs.frozen(kw_only=True)
class Target:
    """One row.

    Attributes:
        path: What it is about, for people.
        cell: The cell it is measured in.
        against: Whose figure ours is divided by; `None` for our figure itself.
        bound: What the ratio must be at least; at most, where less is better.
        contender: Which of ours.
    """

    path: str
    cell: str
    against: str | None
    bound: float
    contender: str = "ours"


@final
@attrs.frozen(kw_only=True)
class Outcome:
    """What became of a target.

    Attributes:
        target: Which one.
        more_is_better: Whether the bound is one from below.
        spread: The ratio, of all rounds; `None` if it was not measured.
        standing: How that stands.
        by_cpu: The ratio of the time that the processors spent on each operation, the other way round, so that
            more is better; `None` if nobody knows. A busy machine disturbs it less, and it says less: it knows
            nothing of waiting.
    """

    target: Target
    more_is_better: bool
    spread: Spread | None
    standing: Standing
    by_cpu: float | None = None


def _both(path: str, cell: str, **bounds: float) -> Iterator[Target]:
    for era in ("modern", "legacy"):
        for against, bound in bounds.items():
            yield Target(
                path=f"{path}, {era}", cell=cell.format(era=era), against=against.replace("_", "-"), bound=bound
            )


STDIO: Final = "server/stdio/{era}/"
LEAN: Final = "ours@lean"

TARGETS: Final = (
    *_both("stdio server, one at a time", STDIO + "echo-1", python_2=3.5, floor_cattrs=0.8),
    *_both("stdio server, 64 in flight", STDIO + "echo-64", python_2=10, typescript_2=1),
    *_both("stdio progress flood", STDIO + "progress", python_2=6, typescript_2=1),
    *_both("stdio tools/list of 50", STDIO + "tools-50", python_2=6),
    *_both("stdio results of 1 MiB", STDIO + "result-1m", python_2=1.5, floor_cattrs=0.8),
    *_both("stdio arguments of 1 MiB", STDIO + "argument-1m", python_2=1.5, floor_cattrs=0.8),
    Target(
        path="process start to first answer", cell="process/stdio/legacy/start", against="python-2", bound=0.35
    ),
    Target(path="idle memory, stdio server", cell="process/stdio/legacy/memory", against="python-2", bound=0.55),
    Target(
        path="in memory, JSON on the wire, one at a time",
        cell="both/memory/legacy/echo-1",
        against="python-2",
        bound=4,
    ),
    Target(
        path="in memory, JSON on the wire, 64 in flight",
        cell="both/memory/legacy/echo-64",
        against="python-2",
        bound=4,
    ),
    Target(
        path="HTTP on Hypercorn, modern JSON, 64 connections",
        cell="server/http/modern/echo-64",
        against="floor-hypercorn",
        bound=0.85,
    ),
    Target(
        path="HTTP on Hypercorn, modern JSON, 64 connections",
        cell="server/http/modern/echo-64",
        against="python-2@hypercorn",
        bound=1.7,
    ),
    Target(
        path="HTTP on Hypercorn, SSE answer, 64 connections",
        cell="server/http/modern/sse-64",
        against="python-2@hypercorn",
        bound=2,
    ),
    *(
        Target(
            path="HTTP on the lean host, modern JSON, 64 connections",
            cell="server/http/modern/echo-64",
            against=against,
            bound=bound,
            contender=LEAN,
        )
        for against, bound in (("python-2", 3), ("typescript-2", 2.5), ("floor-httptools", 0.6))
    ),
    *(
        Target(path=f"HTTP client alone, {how}", cell=f"client/http/modern/{name}", against="python-2", bound=3)
        for name, how in (("echo-1", "one at a time"), ("echo-64", "64 in flight"))
    ),
    *_both("given up until finally, stdio", STDIO + "cancel-1", python_2=0.6),
    *_both("given up until finally, HTTP", "server/http/{era}/cancel-1", python_2=0.6),
    Target(path="import", cell="process/stdio/legacy/import", against="python-2", bound=0.25),
    Target(path="modules that the import loads", cell="process/stdio/legacy/modules", against=None, bound=249),
)


def hold_to_targets(record: Mapping[str, Any]) -> list[Outcome]:
    """Return how each target stands in a record."""
    return [_outcome(target, record["cells"].get(target.cell)) for target in TARGETS]


def _outcome(target: Target, cell: Mapping[str, Any] | None) -> Outcome:
    more = cell is not None and cell["more_is_better"]
    spread = None if cell is None else _ratio(target, cell["results"])
    if spread is None:
        return Outcome(target=target, more_is_better=more, spread=None, standing=Standing.NOT_MEASURED)
    meets = spread.median >= target.bound if more else spread.median <= target.bound
    standing = Standing.MET if meets else Standing.NOT_MET
    # The middle half of the rounds lies on both sides: the next run may say something else.
    if spread.low < target.bound < spread.high:
        standing = Standing.UNCLEAR
    by_cpu = None if cell is None else _cpu_ratio(target, cell["results"])
    return Outcome(target=target, more_is_better=more, spread=spread, standing=standing, by_cpu=by_cpu)


def _cpu_ratio(target: Target, results: Mapping[str, Any]) -> float | None:
    if target.against is None:
        return None
    ours: list[float] = results.get(target.contender, {}).get("facts", {}).get("cpu_us", [])
    theirs: list[float] = results.get(target.against, {}).get("facts", {}).get("cpu_us", [])
    ratio = Ratio.of(theirs, ours)
    return None if ratio is None else ratio.median


def _ratio(target: Target, results: Mapping[str, Any]) -> Spread | None:
    ours: list[float] = results.get(target.contender, {}).get("values", [])
    if target.against is None:
        return Spread.of(ours) if ours else None
    theirs: list[float] = results.get(target.against, {}).get("values", [])
    ratio = Ratio.of(ours, theirs)
    return None if ratio is None else ratio.spread
