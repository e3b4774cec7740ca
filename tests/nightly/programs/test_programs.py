"""A modest number of random programs over real processes and sockets; ``python -m tests.nightly.programs`` plays more."""

from __future__ import annotations

from typing import Final

import pytest
from quiet_fixtures import _quiet as _quiet

from tests.nightly.programs.__main__ import run
from tests.simulation.program import Wire
from tests.simulation.serving import be_quiet

SEEDS: Final[dict[Wire, int]] = {"stdio": 40, "hypercorn": 24, "lean": 24}


@pytest.mark.parametrize("wire", SEEDS)
def test_programs_break_no_promise(wire: Wire) -> None:
    be_quiet()
    for program, violations, _ in run(range(SEEDS[wire]), wire):
        assert not violations, f"python -m tests.nightly.programs --wire {wire} --seeds {program.seed}"
