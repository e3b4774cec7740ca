"""A server lives on while clients come and die; for minutes that is played by `make soak`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from soak import KEPT, LAST_ONES, MIB, Look, Result, judge, slope, soak, table


@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_nothing_is_left_of_clients_that_died(
    tmp_path: Path, fresh_seed: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise 8, for every transport at once."""
    seed = f"{fresh_seed:x}"
    record_property("chance", f"make soak SEED={seed}")
    result = soak(seed, minutes=0.3, every=3.0, idle=3.0, folder=tmp_path)
    assert judge(result) == [], f"seed {seed}"


# What measures and judges.


def look(at: float = 0.0, phase: str = "busy", **changes: Any) -> Look:
    given: dict[str, Any] = {
        "resident": 80 * MIB,
        "in_use": 30 * MIB,
        "files": 20,
        "tasks": 30,
        "children": 0,
        "listeners": 0,
        "pools": {},
        "objects": {},
        "restarts": 0,
        "seconds": at / 10,
        "odd": {},
    }
    return Look(at=at, phase=phase, **{**given, **changes})


def result_of(*, growing: float = 0.0, **changes: Any) -> Result:
    busy = [look(5.0 * n, resident=80 * MIB + int(growing * MIB * n / 12) + n % 3 * MIB) for n in range(120)]
    good: dict[str, Any] = {
        "looks": busy,
        "before": look(phase="before"),
        "after": look(phase="idle"),
        "settled": 3.0,
        "idle_share": 0.001,
        "done": Counter({"tcp": 900}),
        "born": 9,
        "status": 0,
        "survivors": [],
    }
    return Result(**{**good, **changes})


def test_what_is_good_passes() -> None:
    """Memory may go up and down."""
    assert judge(result_of()) == []
    assert judge(result_of(growing=0.1)) == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"growing": 2.0}, "MiB a minute"),
        ({"after": look(tasks=31)}, "tasks 30 → 31"),
        ({"after": look(files=21)}, "files 20 → 21"),
        ({"after": look(children=1)}, "children 0 → 1"),
        ({"after": look(listeners=1)}, "listeners"),
        ({"after": look(pools={"sessions": 1})}, "sessions 0 → 1"),
        ({"after": look(objects={"_peer._peer.Peer": LAST_ONES + 1})}, "Peer"),
        ({"after": look(in_use=31 * MIB + KEPT)}, "in use"),
        ({"idle_share": 0.02}, "2.0 % of a core"),
        ({"done": Counter({"tcp": 900, "odd: tcp: 1 + 1 is 3": 2})}, "1 + 1 is 3"),
        ({"done": Counter[str]()}, "next to nothing"),
        ({"status": None}, "None"),
        ({"survivors": ["python soaked.py --child"]}, "--child"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(changes: dict[str, Any], word: str) -> None:
    """A soak that passes whatever happens would prove nothing."""
    (problem,) = judge(result_of(**changes))
    assert word in problem


def test_a_slope_is_that_of_most_points() -> None:
    """One look at a bad moment does not change it."""
    points = [(float(n), 2.0 * n) for n in range(20)]
    assert slope(points) == 2.0
    points[7] = (7.0, 900.0)
    assert slope(points) == pytest.approx(2.0, abs=0.2)


def test_a_short_one_says_nothing_about_memory() -> None:
    """Its slope is that of chance."""
    result = result_of(growing=60.0)
    assert attrs.evolve(result, looks=result.looks[:6]).slope() is None


def test_the_table_has_a_row_for_each_time() -> None:
    """No more than fit on a page."""
    lines = table(result_of())
    assert 20 < len(lines) < 30
    assert len({line.count("|") for line in lines}) == 1
