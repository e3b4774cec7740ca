"""Medians, and how far figures spread. No figure is left out, and none is averaged."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import attrs

__all__ = ["Ratio", "Spread", "goodness"]


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
