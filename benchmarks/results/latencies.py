"""Latencies in HDR histograms: three significant digits, up to a minute. The only module that knows them."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # it has no types

__all__ = ["PERCENTILES", "curve", "describe_latencies"]

LONGEST: Final = 60_000_000_000
DIGITS: Final = 3
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 100.0)


def describe_latencies(counts: Iterable[Sequence[int]]) -> dict[str, Any] | None:
    """Return percentiles in microseconds, and the whole histogram in its compressed form; `None` of nothing.

    Args:
        counts: Pairs: nanoseconds, and how often they were seen. The same may come several times.
    """
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
    histogram: Any = HdrHistogram.decode(encoded)
    return [histogram.get_value_at_percentile(percentile) / 1e3 for percentile in percentiles]
