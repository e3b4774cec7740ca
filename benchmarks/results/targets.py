"""What we want to be, as ratios that are measured in one run, and whether we are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, final

import attrs

from trio_mcp._bench._figures import Ratio, Spread

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
        per_second: Whether our figure is so many in a second, and the bound how many microseconds one may take.
            Such a bound is of one machine, the one that the targets were set on.
        own_unit: The unit of a bound that is one of our figure itself.
    """

    path: str
    cell: str
    against: str | None
    bound: float
    contender: str = "ours"
    per_second: bool = False
    own_unit: str = ""

    @property
    def unit(self) -> str:
        """What follows the bound, and what was found."""
        return "×" if self.against is not None else " µs" if self.per_second else self.own_unit


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
HTTP: Final = "server/http/{era}/"
LEAN: Final = "ours@lean"
ON_HYPERCORN: Final = "ours@hypercorn"
ON_ANYCORN: Final = "ours@anycorn"


def _own(path: str, cell: str, bound: float, unit: str = "", *, contender: str = "ours") -> Target:
    """Return a bound of our figure itself."""
    return Target(path=path, cell=cell, against=None, bound=bound, contender=contender, own_unit=unit)


def _each(path: str, cell: str, microseconds: float, contender: str = "ours") -> Target:
    """Return a bound of how long one of what is counted in a second may take."""
    return Target(
        path=f"{path}, each", cell=cell, against=None, bound=microseconds, contender=contender, per_second=True
    )


def _hosts(path: str, cell: str, bounds: Mapping[tuple[str, str], float]) -> Iterator[Target]:
    """Yield bounds in both eras, by which of ours and against whom."""
    for era in ("modern", "legacy"):
        for (contender, against), bound in bounds.items():
            host = {"ours": "embedded Hypercorn", LEAN: "lean", ON_HYPERCORN: "stock Hypercorn"}[contender]
            yield Target(
                path=f"{path}, {host}, {era}",
                cell=cell.format(era=era),
                against=against,
                bound=bound,
                contender=contender,
            )


SPEED: Final = (
    *_both("stdio server, one at a time", STDIO + "echo-1", python_2=3.5, floor_cattrs=0.8),
    *_both("stdio server, 64 in flight", STDIO + "echo-64", python_2=10, typescript_2=1),
    *_both("stdio progress flood", STDIO + "progress", python_2=6, typescript_2=1),
    *_both("stdio tools/list of 50", STDIO + "tools-50", python_2=6),
    *_both("stdio results of 1 MiB", STDIO + "result-1m", python_2=2, floor_cattrs=0.8),
    *_both("stdio arguments of 1 MiB", STDIO + "argument-1m", python_2=1.5, floor_cattrs=0.8),
    _own("stdio result of 1 MB", "server/stdio/modern/result-1mb", 923, " µs"),
    _own("HTTP on the lean host, result of 1 MB", "server/http/modern/result-1mb", 1_070, " µs", contender=LEAN),
)
"""Calls and floods over stdio, and large bodies."""
STREAMS: Final = (
    _each("HTTP on the lean host, events of a stream", "server/http/modern/progress", 11.4, LEAN),
    _each("HTTP on the lean host, calls with one event", "server/http/modern/sse-64", 218, LEAN),
    _each("HTTP on the lean host, a change to 1,000 listeners", "server/http/modern/listen-1000", 48, LEAN),
    *(
        Target(
            path=f"HTTP on the lean host, {what}",
            cell=f"server/http/modern/{name}",
            against="typescript-2",
            bound=1,
            contender=LEAN,
        )
        for name, what in (("progress", "progress flood"), ("listen-1000", "a change to 1,000 listeners"))
    ),
)
"""Streams of events."""
MEMORY: Final = tuple(
    Target(
        path=f"in memory, JSON on the wire, {how}, {era}",
        cell=f"both/memory/{era}/{name}",
        against="python-2",
        bound=bound,
    )
    for name, how, bounds in (("echo-1", "one at a time", (3, 4.5)), ("echo-64", "64 in flight", (8, 8)))
    for era, bound in zip(("modern", "legacy"), bounds, strict=True)
)
"""Both ends in one process."""
HOSTED: Final = (
    Target(
        path="HTTP on embedded Hypercorn beside the hello of a stock one, modern JSON, 64 connections",
        cell="server/http/modern/echo-64",
        against="floor-hypercorn",
        bound=0.85,
    ),
    *(
        Target(
            path=f"McpASGI on {title} beside the hello of the same, {era} JSON, 64 connections",
            cell=f"server/http/{era}/echo-64",
            against=floor,
            bound=0.8,
            contender=contender,
        )
        for era in ("modern", "legacy")
        for contender, floor, title in (
            (ON_HYPERCORN, "floor-hypercorn", "stock Hypercorn"),
            (ON_ANYCORN, "floor-anycorn", "anycorn"),
        )
    ),
    Target(
        path="McpASGI on stock Hypercorn, SSE answer, 64 connections",
        cell="server/http/modern/sse-64",
        against="python-2@hypercorn",
        bound=2,
        contender=ON_HYPERCORN,
    ),
    Target(
        path="HTTP on embedded Hypercorn, modern JSON, 64 connections",
        cell="server/http/modern/echo-64",
        against="python-2@hypercorn",
        bound=1.7,
    ),
    Target(
        path="HTTP on embedded Hypercorn, SSE answer, 64 connections",
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
    _each("HTTP on embedded Hypercorn, a POST", "server/http/modern/echo-64", 200),
    Target(
        path="HTTP on embedded Hypercorn, legacy JSON, 64 connections",
        cell="server/http/legacy/echo-64",
        against="typescript-2",
        bound=1,
    ),
    *(
        Target(
            path=f"64 connections at once at a busy server, {host}",
            cell="server/http/modern/burst",
            against="python-2",
            bound=bound,
            contender=contender,
        )
        for contender, host, bound in ((LEAN, "lean", 0.45), ("ours", "embedded Hypercorn", 0.95))
    ),
    _own("64 connections at once at a busy server, lean", "server/http/modern/burst", 39, " ms", contender=LEAN),
    _own("64 connections at once at a busy server, embedded Hypercorn", "server/http/modern/burst", 85, " ms"),
    *(
        Target(path=f"HTTP client alone, {how}", cell=f"client/http/modern/{name}", against="python-2", bound=3)
        for name, how in (("echo-1", "one at a time"), ("echo-64", "64 in flight"))
    ),
)
"""Hosts of HTTP."""
GIVING_UP: Final = (
    *_both("given up until finally, stdio", STDIO + "cancel-1", python_2=0.5),
    *_hosts(
        "given up until finally",
        HTTP + "cancel-1",
        {
            ("ours", "python-2"): 0.5,
            ("ours", "python-2@hypercorn"): 0.5,
            (LEAN, "python-2"): 0.5,
            (ON_HYPERCORN, "python-2@hypercorn"): 0.5,
        },
    ),
    *(
        _own(
            f"client gives up and computes for 18 ms: until the server knows, {transport}, {era}",
            f"client/{transport}/{era}/give-up",
            2,
            " ms",
        )
        for transport in ("stdio", "http")
        for era in ("modern", "legacy")
    ),
)
"""From the deadline on."""
COSTS: Final = (
    Target(
        path="process start to first answer", cell="process/stdio/legacy/start", against="python-2", bound=0.3
    ),
    Target(path="idle memory, stdio server", cell="process/stdio/legacy/memory", against="python-2", bound=0.48),
    Target(
        path="import of a server and a client", cell="process/stdio/legacy/import", against="python-2", bound=0.25
    ),
    _own("modules that this import loads", "process/stdio/legacy/modules", 249),
    *(
        Target(
            path=f"low level beside the high one, {what}, {era}",
            cell=f"server/stdio/{era}/{name}",
            against="ours",
            bound=1,
            contender="ours@low",
        )
        for name, what in (
            ("echo-1", "one at a time"),
            ("echo-64", "64 in flight"),
            ("tools-50", "tools/list of 50"),
        )
        for era in ("modern", "legacy")
    ),
)
"""Starting, and what is beside the usual way."""
TARGETS: Final = (*SPEED, *STREAMS, *MEMORY, *HOSTED, *GIVING_UP, *COSTS)


def hold_to_targets(record: Mapping[str, Any]) -> list[Outcome]:
    """Return how each target stands in a record."""
    return [_outcome(target, record["cells"].get(target.cell)) for target in TARGETS]


def _outcome(target: Target, cell: Mapping[str, Any] | None) -> Outcome:
    more = cell is not None and cell["more_is_better"] and not target.per_second
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
    if target.per_second:
        ours = [1e6 / figure for figure in ours]
    if target.against is None:
        return Spread.of(ours) if ours else None
    theirs: list[float] = results.get(target.against, {}).get("values", [])
    ratio = Ratio.of(ours, theirs)
    return None if ratio is None else ratio.spread
