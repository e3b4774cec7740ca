"""When a server that died is started again."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import Backoff

from trio_mcp import RestartPolicy


def delays(policy: RestartPolicy, *lasted: float) -> list[float | None]:
    backoff = Backoff(policy)
    return [backoff.next_delay(seconds) for seconds in lasted]


def test_each_pause_is_twice_the_one_before() -> None:
    """Up to the longest."""
    policy = RestartPolicy(max_restarts=6, first_delay=0.5, max_delay=5)
    assert delays(policy, *[0.0] * 7) == [0.5, 1, 2, 4, 5, 5, None]


def test_enough_is_enough() -> None:
    """And stays so: who has given up does not start again by itself."""
    assert delays(RestartPolicy(max_restarts=1), 0, 0, 0) == [0.1, None, None]


@pytest.mark.parametrize(("lasted", "fresh"), [(29.9, False), (30, True), (math.inf, True)])
def test_a_connection_that_lasted_is_a_fresh_start(lasted: float, fresh: bool) -> None:
    """A server that dies once a day is started again for ever."""
    policy = RestartPolicy(max_restarts=2, lasting=30)
    assert delays(policy, 0, 0, lasted, 0) == [0.1, 0.2, *([0.1, 0.2] if fresh else [None, None])]


def test_one_more_chance_after_the_last() -> None:
    """A connection that lasted counts also when there were enough restarts already."""
    assert delays(RestartPolicy(max_restarts=1), 0, 0, 60) == [0.1, None, 0.1]


def test_a_policy_for_ever_never_fails() -> None:
    """Somebody asks for a million restarts, and the server is gone all night."""
    backoff = Backoff(RestartPolicy(max_restarts=1_000_000))
    assert [backoff.next_delay(0) for _ in range(5000)][-1] == 10


@pytest.mark.parametrize("first_delay", [0.0, 20.0])
def test_the_longest_pause_holds_from_the_first(first_delay: float) -> None:
    """No pause is longer than `max_delay`; none at all may be asked for."""
    policy = RestartPolicy(first_delay=first_delay, max_delay=7)
    assert delays(policy, 0, 0) == [min(first_delay, 7)] * 2


@given(
    policy=st.builds(
        RestartPolicy,
        max_restarts=st.integers(1, 10),
        first_delay=st.floats(0, 100),
        max_delay=st.floats(0, 100),
        lasting=st.floats(0, 100),
    ),
    lasted=st.lists(st.floats(0, 200), max_size=30),
)
def test_the_policy_is_kept(policy: RestartPolicy, lasted: list[float]) -> None:
    """Never more restarts in a row than allowed, never a longer pause, never a shorter one than before."""
    in_a_row = 0
    before = 0.0
    for seconds, delay in zip(lasted, delays(policy, *lasted), strict=True):
        if seconds >= policy.lasting:
            in_a_row, before = 0, 0.0
        if delay is None:
            assert in_a_row == policy.max_restarts
            continue
        in_a_row += 1
        assert in_a_row <= policy.max_restarts
        assert min(before, policy.max_delay) <= delay <= policy.max_delay
        before = delay


def test_a_policy_that_makes_no_sense_is_refused(subtests: pytest.Subtests) -> None:
    """And the error says which setting it was, what its limit is, and what was given."""
    cases: list[tuple[str, float]] = [
        ("max_restarts", 0),
        ("max_restarts", -1),
        ("first_delay", -0.1),
        ("max_delay", -1),
        ("lasting", -1),
        ("first_delay", math.nan),
        ("max_delay", math.nan),
        ("lasting", math.nan),
    ]
    for name, value in cases:
        with subtests.test(name=name, value=value):
            settings: dict[str, Any] = {name: value}
            limit = 1 if name == "max_restarts" else 0
            with pytest.raises(ValueError, match=f"^{name} must be at least {limit}, not {value}$"):
                RestartPolicy(**settings)


def test_a_policy_is_made_of_numbers(subtests: pytest.Subtests) -> None:
    """A switch or a text would be compared with a number some day, or with nothing."""
    cases: list[object] = ["3", None, True]
    for value in cases:
        for name in ("max_restarts", "first_delay", "max_delay", "lasting"):
            with subtests.test(value=value, name=name):
                settings: dict[str, Any] = {name: value}
                with pytest.raises(TypeError, match=f"^{name} must be a (whole )?number"):
                    RestartPolicy(**settings)
