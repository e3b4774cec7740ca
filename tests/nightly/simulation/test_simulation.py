"""A modest number of random programs, fresh ones and those of fixed seeds; ``make simulate`` plays more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.batch import play_many
from tests.simulation.program import (
    WIRES,
)
from tests.simulation.serving import be_quiet

FRESH = 100


@pytest.fixture(autouse=True)
def _be_quiet() -> None:
    be_quiet()


def check_all(seeds: range) -> None:
    batch = play_many(seeds, processes=1)
    told = [f"make simulate SEED={seed}  # {rule}: {text}" for seed, rule, text in batch.tally.failures]
    assert not told, "\n".join(told)


def test_fresh_programs_break_no_promise(fresh_seed: int, record_property: Callable[[str, object], None]) -> None:
    """Other ones each time; a failure names its seed, by which it is played again."""
    seeds = range(fresh_seed, fresh_seed + FRESH)
    record_property("chance", f"make simulate SEEDS={seeds[0]}-{seeds[-1]}")
    check_all(seeds)


def test_every_kind_of_thing_is_tried() -> None:
    """The table of a batch shows each with a number: what is missing there would be no test."""
    tally = play_many(range(1250, 1500), processes=1).tally
    assert set(tally.wires) == set(WIRES)
    wanted = {
        "do tool", "do plain", "do dependency", "do prompt", "do resource", "do batch", "do list", "do ping", "do level",
        "do listen", "do notify", "do roots", "give up by deadline", "give up by cancel", "give up by steps",
        "give up by silence", "give up by raise", "wire stall", "wire cut", "wire break", "wire restart",
        "handler background", "handler together", "handler leak", "handler var", "handler exit", "middleware",
        "slow", "outside", "two clients", "request_timeout", "leave by cancel early", "server aborts", "server drains",
        "limits kept", "limits parked", "handler change", "handler announce", "server tells of a resource",
        "server tells of tools", "server tells of announce", "listens to a resource", "listens to prompts",
        "watches a resource", "watches tools", "in_group", "member restarted", "client left while it connects",
        "group left while it connects", "wire split of a request", "wire reorder of a request",
        "wire corrupt of a request", "wire half_close of a request",
    }  # fmt: skip
    assert wanted <= set(tally.kinds)
    ended = {"result", "cancelled", "TooSlowError", "ClosedResourceError", "ConnectionLost", "RequestError"}
    assert {f"call ended: {how}" for how in ended} <= set(tally.events)
    happened = {
        "question-began",
        "asking-cancelled",
        "handler-cancelled",
        "change",
        "callback",
        "announced",
        "told",
        "noted",
        "stall",
    }
    assert happened <= set(tally.events)
