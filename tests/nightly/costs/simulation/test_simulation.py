"""A modest number of random programs, fresh ones and those of fixed seeds; ``make simulate`` plays more."""

from __future__ import annotations

import time
from typing import Any

import pytest
from living import in_use

from tests.simulation import judging
from tests.simulation.batch import MAY_GROW
from tests.simulation.judging import judge
from tests.simulation.play import play
from tests.simulation.program import (
    Program,
)
from tests.simulation.serving import be_quiet


@pytest.fixture(autouse=True)
def _be_quiet() -> None:
    be_quiet()


def test_a_program_for_which_the_machine_has_no_time_breaks_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than it may by a clock on the wall, and does a little now and then."""
    events = play(program := Program(1, "memory", ()))

    def play_slowly(_program: Program) -> list[dict[str, Any]]:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            time.sleep(0.05)
            busy = time.process_time() + 2 * judging.NOTHING
            while time.process_time() < busy:
                pass
        return events

    monkeypatch.setattr(judging, "PATIENCE", 0.5)
    monkeypatch.setattr(judging, "TICK", 0.02)
    monkeypatch.setattr(judging, "play", play_slowly)
    assert not judge(program).violations


def test_what_is_left_behind_is_in_use() -> None:
    """Small objects and large ones; what is freed is not, though the process may have it still."""
    before = in_use()
    left = [bytes(100_000), *({n: n} for n in range(20_000))]
    assert in_use() - before > MAY_GROW
    left.clear()
    assert abs(in_use() - before) < MAY_GROW
