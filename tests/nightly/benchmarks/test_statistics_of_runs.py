"""Medians, spreads, ratios, verdicts: what is said of figures, and when nothing can be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from inside_bench import Ratio, Spread, Verdict, compare, compare_within, exponent_of, judge, slope_of

from benchmarks.results.targets import TARGETS, Standing, hold_to_targets
from benchmarks.workloads import CELLS


def cell(unit: str = "calls/s", *, more: bool = True, **values: Sequence[float]) -> dict[str, Any]:
    """Return a cell of a record."""
    results: dict[str, Any] = {
        name.replace("_", "-"): {"values": list(figures), "facts": {}, "errors": []}
        for name, figures in values.items()
    }
    return {"unit": unit, "more_is_better": more, "results": results}


def record(**cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with these cells."""
    return {"cells": cells}


def test_one_slow_round_does_not_move_the_median() -> None:
    spread = Spread.of([100.0, 102.0, 101.0, 99.0, 5.0])
    assert spread.median == 100.0
    assert (spread.low, spread.high) == (99.0, 101.0)
    assert spread.relative == pytest.approx(0.02)


def test_a_single_figure_has_no_spread() -> None:
    assert Spread.of([7.0]) == Spread(median=7.0, low=7.0, high=7.0, count=1)


def test_no_figure_is_no_result() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        Spread.of([])


def test_ratios_are_of_the_same_round() -> None:
    """A round in which the machine was half as fast for both says the same as the others."""
    ratio = Ratio.of([200.0, 100.0, 200.0], [100.0, 50.0, 100.0])
    assert ratio is not None
    assert ratio.spread == Spread(median=2, low=2, high=2, count=3)


def test_what_costs_nothing_has_no_ratio() -> None:
    """An idle session somewhere may cost no memory that can be seen; the other rounds still count."""
    assert Ratio.of([1.0, 2.0], [0.0, 0.0]) is None
    assert Ratio.of([0.0], [1.0]) is None
    assert Ratio.of([], [1.0]) is None
    ratio = Ratio.of([1.0, 4.0], [0.0, 2.0])
    assert ratio is not None
    assert ratio.median == 2


def test_a_change_counts_when_it_is_more_than_the_noise(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, float, Verdict]] = [
        (1.3, 0.02, Verdict.FASTER),
        (0.7, 0.02, Verdict.SLOWER),
        (1.02, 0.01, Verdict.SAME),
        (0.98, 0.01, Verdict.SAME),
        (1.02, 0.30, Verdict.UNCLEAR),
        (1.3, 0.25, Verdict.UNCLEAR),
        (0.7, 0.25, Verdict.UNCLEAR),
        (3.0, 0.25, Verdict.FASTER),
    ]
    for ratio, noise, verdict in rows:
        with subtests.test(ratio=ratio, noise=noise, verdict=verdict):
            assert judge(ratio, noise) is verdict


def test_what_is_better_when_less_has_its_ratio_turned_round() -> None:
    old = record(start=cell("ms", more=False, ours=[100.0, 101.0, 99.0]))
    new = record(start=cell("ms", more=False, ours=[50.0, 50.5, 49.5]))
    (change,) = compare(old, new)
    assert change.ratio == pytest.approx(2.0)
    assert change.verdict is Verdict.FASTER


def test_one_round_each_is_believed_only_when_the_change_is_large() -> None:
    old = record(echo=cell(ours=[100.0]))
    (little,) = compare(old, record(echo=cell(ours=[110.0])))
    (much,) = compare(old, record(echo=cell(ours=[200.0])))
    assert (little.verdict, much.verdict) == (Verdict.UNCLEAR, Verdict.FASTER)


def test_machines_cancel_out_against_a_contender() -> None:
    """The new machine is twice as fast; we have become no faster."""
    old = record(echo=cell(ours=[300.0, 303.0, 297.0], python_2=[100.0, 101.0, 99.0]))
    new = record(echo=cell(ours=[600.0, 606.0, 594.0], python_2=[200.0, 202.0, 198.0]))
    (plain,) = compare(old, new)
    (relative,) = compare(old, new, against="python-2")
    assert (plain.verdict, relative.verdict) == (Verdict.FASTER, Verdict.SAME)


def test_only_what_both_records_have_is_compared() -> None:
    old = record(
        echo=cell(ours=[1.0]), gone=cell(ours=[1.0]), other=cell("MB/s", ours=[1.0]), failed=cell(ours=[])
    )
    new = record(
        echo=cell(ours=[1.0]), added=cell(ours=[1.0]), other=cell("calls/s", ours=[1.0]), failed=cell(ours=[1.0])
    )
    assert [change.cell for change in compare(old, new)] == ["echo"]


def test_two_contenders_of_one_record_are_compared_and_what_is_nothing_is_left_out() -> None:
    kept = {"idle": cell("KiB", more=False, ours=[1.0, 0.0, 0.0], python_2=[1.0, 2.0, 1.5])}
    both = record(echo=cell(ours=[300.0, 303.0, 297.0], python_2=[100.0, 101.0, 99.0]), **kept)
    (change,) = compare_within(both, "python-2", "ours")
    assert (change.cell, change.contender, change.verdict) == ("echo", "ours", Verdict.FASTER)
    assert change.ratio == pytest.approx(3.0)
    assert [change.cell for change in compare(both, both)] == ["echo"]


def test_every_target_is_measured_somewhere() -> None:
    assert {target.cell for target in TARGETS} <= {one.name for one in CELLS}


def test_a_target_is_met_when_the_middle_half_of_the_rounds_is_beyond_it(subtests: pytest.Subtests) -> None:
    """The target of this cell is 3.5 times the Python SDK 2."""
    rows: list[tuple[list[float], Standing]] = [
        ([400.0, 410.0, 405.0], Standing.MET),
        ([300.0, 310.0, 305.0], Standing.NOT_MET),
        ([300.0, 352.0, 400.0], Standing.UNCLEAR),
        ([], Standing.NOT_MEASURED),
    ]
    for ours, standing in rows:
        with subtests.test(ours=ours, standing=standing):
            measured = {"server/stdio/modern/echo-1": cell(ours=ours, python_2=[100.0, 100.0, 100.0])}
            outcomes = hold_to_targets({"cells": measured})
            (outcome,) = [
                one
                for one in outcomes
                if (one.target.cell, one.target.against) == ("server/stdio/modern/echo-1", "python-2")
            ]
            assert outcome.standing is standing
            assert all(
                one.standing is Standing.NOT_MEASURED for one in outcomes if one.target.cell not in measured
            )


@pytest.mark.parametrize(("modules", "standing"), [([249.0], Standing.MET), ([250.0], Standing.NOT_MET)])
def test_some_targets_bound_our_figure_itself(modules: list[float], standing: Standing) -> None:
    measured = {"process/stdio/legacy/modules": cell("modules", more=False, ours=modules)}
    (outcome,) = [one for one in hold_to_targets({"cells": measured}) if one.target.cell in measured]
    assert outcome.standing is standing


def test_a_slope_is_moved_little_by_one_point_that_is_off() -> None:
    points = [(float(x), 3.0 * x + 1) for x in range(9)]
    slope = slope_of([*points, (9.0, 500.0)])
    assert slope is not None
    assert slope.median == pytest.approx(3.0)
    assert slope_of([(1.0, 1.0), (1.0, 2.0)]) is None


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_how_something_grows_is_a_power(power: float) -> None:
    found = exponent_of([(x, 7 * x**power) for x in (1.0, 10.0, 100.0, 1_000.0)])
    assert found is not None
    assert found.median == pytest.approx(power)
