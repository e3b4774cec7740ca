"""What the tests of site share in several layers."""

from __future__ import annotations

import math
from typing import Final

UNITS: Final = {2**30: "GiB", 2**20: "MiB", 2**10: "KiB", 1: "bytes"}


def shown(name: str, value: float) -> str:
    """Return a default as the page shows it."""
    if value == math.inf:
        return "no limit"
    if "_bytes" in name:
        unit = next(unit for unit in UNITS if value % unit == 0)
        return f"{int(value) // unit:,} {UNITS[unit]}"
    return f"{value:,g} s" if type(value) is float else f"{value:,}"
