"""Whether one run is faster than another, or only luckier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, final

import attrs

from benchmarks.results.statistics import Spread

__all__ = ["Change", "Verdict", "compare", "judge"]

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
