"""What is said of figures: medians, spreads, slopes, latencies; and whether one is better or only luckier.

No figure is left out, and none is averaged.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Any, Final, Self, final

import attrs


@final
@attrs.frozen(kw_only=True)
class Spread:
    """The figures of several rounds.

    Attributes:
        median: Half of them are above, half below.
        low: A quarter of them is below.
        high: A quarter of them is above.
        count: How many there were.
    """

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, figures: Sequence[float]) -> Self:
        """Describe figures.

        Raises:
            ValueError: There is none.
        """
        if not figures:
            raise ValueError("nothing was measured")
        if len(figures) == 1:
            return cls(median=figures[0], low=figures[0], high=figures[0], count=1)
        low, median, high = statistics.quantiles(figures, n=4, method="inclusive")
        return cls(median=median, low=low, high=high, count=len(figures))

    @property
    def relative(self) -> float:
        """How far the middle half of the figures reaches, as a part of the median."""
        return (self.high - self.low) / self.median if self.median else math.inf


@final
@attrs.frozen(kw_only=True)
class Ratio:
    """How many times as good one is as another.

    The first round is compared with the first, and so on: what disturbed a round disturbed both.
    """

    spread: Spread

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> Self | None:
        """Compare the figures of the same rounds; `None` if there is no round in which neither is zero.

        What costs nothing that can be measured, such as the memory of an idle session somewhere, has no ratio.
        """
        pairs = [a / b for a, b in zip(ours, theirs, strict=False) if a and b]
        return cls(spread=Spread.of(pairs)) if pairs else None

    @property
    def median(self) -> float:
        """The ratio in the middle."""
        return self.spread.median


def goodness(cell: Mapping[str, Any], theirs: str, ours: str = "ours") -> float | None:
    """Return how many times as good one is as another in a cell, whether more or less is better there."""
    figures = [cell["results"].get(name, {}).get("values", ()) for name in (ours, theirs)]
    ratio = Ratio.of(*figures)
    if ratio is None:
        return None
    return ratio.median if cell["more_is_better"] else 1 / ratio.median


def slope_of(points: Sequence[tuple[float, float]]) -> Spread | None:
    """Return how steep a line through points is: the median of all lines through two of them (Theil–Sen).

    A point that is far off moves it little. `None` if there are no two points beside each other.
    """
    slopes = [(d - b) / (c - a) for (a, b), (c, d) in combinations(points, 2) if c != a]
    return Spread.of(slopes) if slopes else None


def exponent_of(points: Sequence[tuple[float, float]]) -> Spread | None:
    """Return the power with which something grows: 1 if twice as much takes twice as long, 2 if four times."""
    return slope_of([(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0])


# Latencies, in HDR histograms: three significant digits, up to a minute.

LONGEST: Final = 60_000_000_000
DIGITS: Final = 3
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 100.0)


def describe_latencies(counts: Iterable[Sequence[int]]) -> dict[str, Any] | None:
    """Return percentiles in microseconds, and the whole histogram in its compressed form; `None` of nothing.

    Args:
        counts: Pairs: nanoseconds, and how often they were seen. The same may come several times.
    """
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # it has no types

    histogram: Any = HdrHistogram(1, LONGEST, DIGITS)
    for latency, count in counts:
        histogram.record_value(min(latency, LONGEST), count)
    if not histogram.get_total_count():
        return None
    return {
        "count": int(histogram.get_total_count()),
        "microseconds": {
            f"p{percentile:g}": histogram.get_value_at_percentile(percentile) / 1e3 for percentile in PERCENTILES
        },
        "histogram": histogram.encode().decode(),
    }


def curve(encoded: str, percentiles: Sequence[float]) -> list[float]:
    """Return the latencies, in microseconds, at these percentiles of a histogram in its compressed form."""
    from hdrh.histogram import HdrHistogram

    histogram: Any = HdrHistogram.decode(encoded)
    return [histogram.get_value_at_percentile(percentile) / 1e3 for percentile in percentiles]


# Comparing

NEGLIGIBLE: Final = 0.03
"""A change of less than this is none, however steady the figures are."""
SURE: Final = 1.5
"""How many times the noise a change must be to count."""


class Verdict(StrEnum):
    """What a change amounts to."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNCLEAR = "unclear"


@final
@attrs.frozen(kw_only=True)
class Change:
    """How a figure has changed.

    Attributes:
        cell: Which one.
        contender: Whose.
        old: What it was.
        new: What it is.
        ratio: How many times as good it is now, whatever is good for it.
        noise: How far the ratio may be off, as a part of it.
        verdict: What that amounts to.
    """

    cell: str
    contender: str
    old: Spread
    new: Spread
    ratio: float
    noise: float
    verdict: Verdict


def judge(ratio: float, noise: float) -> Verdict:
    """Return what a ratio amounts to, given how far it may be off.

    A large ratio within the noise is unclear rather than the same: more rounds would tell.
    """
    distance = abs(math.log(ratio))
    if distance <= math.log1p(NEGLIGIBLE):
        return Verdict.SAME if noise <= NEGLIGIBLE * 2 else Verdict.UNCLEAR
    if distance <= SURE * noise:
        return Verdict.UNCLEAR
    return Verdict.FASTER if ratio > 1 else Verdict.SLOWER


def noise_of(*spreads: Spread) -> float:
    """Return how far the ratio of two medians may be off: half the middle half of each, together.

    One figure says nothing of its noise, so it is taken to be large.
    """
    return math.sqrt(sum(0.1**2 if one.count == 1 else (one.relative / 2) ** 2 for one in spreads))


def compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    contenders: Sequence[str] = ("ours",),
    against: str | None = None,
) -> Iterator[Change]:
    """Compare the cells that two records have in common.

    Args:
        old: One record.
        new: The other.
        contenders: Whose figures.
        against: Whose figures of the same round each figure is divided by first: that takes out what two
            machines, or two days on one machine, differ by.
    """
    for name, cell in new["cells"].items():
        before = old["cells"].get(name)
        if before is None or before["unit"] != cell["unit"]:
            continue
        for contender in contenders:
            figures = [_figures(one, contender, against) for one in (before, cell)]
            if change := _change(name, contender, figures, more=cell["more_is_better"]):
                yield change


def compare_within(record: Mapping[str, Any], old: str, new: str) -> Iterator[Change]:
    """Compare two contenders of one record, which took turns: so that both met the same disturbances.

    Args:
        record: The record.
        old: The one.
        new: The other.
    """
    for name, cell in record["cells"].items():
        figures = [_figures(cell, contender, None) for contender in (old, new)]
        if change := _change(name, new, figures, more=cell["more_is_better"]):
            yield change


def _change(name: str, contender: str, figures: Sequence[Sequence[float]], *, more: bool) -> Change | None:
    """Return what has changed; `None` if one of the two was not measured, or is nothing, such as memory."""
    if not all(figures):
        return None
    old, new = (Spread.of(one) for one in figures)
    if not (old.median and new.median):
        return None
    ratio = new.median / old.median if more else old.median / new.median
    noise = noise_of(old, new)
    return Change(
        cell=name, contender=contender, old=old, new=new, ratio=ratio, noise=noise, verdict=judge(ratio, noise)
    )


def _figures(cell: Mapping[str, Any], contender: str, against: str | None) -> list[float]:
    results = cell["results"]
    values: list[float] = results.get(contender, {}).get("values", [])
    if against is None:
        return values
    others: list[float] = results.get(against, {}).get("values", [])
    return [value / other for value, other in zip(values, others, strict=False) if other]
