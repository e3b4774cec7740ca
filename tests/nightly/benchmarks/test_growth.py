"""Growth: what is steep is found, what is not is left alone, and one real measurement."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.growth import DECADES, GROWN, Curve, find_grown, is_too_steep, measure_growth


def curve_of(
    *,
    time: Callable[[int], float] = lambda x: x,
    cpu: Callable[[int], float] = lambda x: x,
    held: Callable[[int], float] = lambda x: 1e6 * x,
    load: float = 0.0,
) -> Curve:
    """Return what would be found if cost grew like this."""
    curve = Curve()
    for x in DECADES:
        curve.add(x, time(x), {"cpu_ms": cpu(x), "bytes": held(x), "load": load})
    return curve


def test_what_grows_faster_than_its_number_is_too_steep(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Curve, bool]] = [
        (curve_of(), False),
        (curve_of(time=lambda x: 1 + 0.001 * x, cpu=lambda x: 5), False),
        (curve_of(cpu=lambda x: x**2), True),
        (curve_of(cpu=lambda x: 300 + x**2), True),  # which only the upper decades show
        (curve_of(held=lambda x: 1e6 * x**1.2), True),
        (curve_of(held=lambda x: 1e3 * x**2 if x < 10 else 5e6), False),  # too little to see
        (curve_of(time=lambda x: x**2), True),
        (curve_of(time=lambda x: x**2, load=1.0), False),  # on a busy machine the clock says nothing
    ]
    for curve, steep in rows:
        with subtests.test(curve=curve, steep=steep):
            assert is_too_steep(curve) is steep


def test_the_least_of_all_rounds_is_kept() -> None:
    curve = Curve()
    for seconds in (3.0, 1.0, 2.0):
        curve.add(10, seconds, {"cpu_ms": seconds, "bytes": seconds, "load": seconds / 10})
    assert (curve.seconds, curve.cpu, curve.held, curve.load) == ({10: 1.0}, {10: 0.001}, {10: 1.0}, 0.3)


def test_growth_is_chosen_by_the_beginning_of_its_name() -> None:
    assert [one.name for one in find_grown(["sessions"], is_quick=True)] == [
        "sessions-lean",
        "sessions-hypercorn",
    ]
    assert set(find_grown([], is_quick=True)) < set(find_grown([], is_quick=False)) == set(GROWN)
    with pytest.raises(ValueError, match="there is no growth of 'typo'; there are sessions-lean, "):
        find_grown(["typo"], is_quick=False)


def test_growth_is_measured_drawn_and_kept(tmp_path: Path) -> None:
    """Of tools, a server for each point."""
    grown = find_grown(["tools-listed"], is_quick=True)
    assert measure_growth(grown, tmp_path, Console(quiet=True), is_quick=True) == 0
    found = json.loads((tmp_path / "growth.json").read_text())["growth"]["tools-listed"]
    assert list(found["seconds"]) == ["1", "10", "100", "1000"]
    assert found["slopes"]["memory"]["median"] < 1.1
    assert (tmp_path / "growth-listed.svg").stat().st_size > 1_000
