"""A modest number of random programs over each transport; ``python -m tests.programs`` plays more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pytest

from .__main__ import run
from .plan import Transport

SEEDS: Final[dict[Transport, int]] = {"memory": 100, "stdio": 40, "hypercorn": 16, "lean": 16}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Handlers of programs fail on purpose, and the package says so in its log."""
    logger = logging.getLogger("trio_mcp")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize("transport", SEEDS)
def test_programs_break_no_promise(transport: Transport) -> None:
    for program, violations, _ in run(range(SEEDS[transport]), transport, ()):
        assert not violations, f"python -m tests.programs --transport {transport} --seeds {program.seed}"
