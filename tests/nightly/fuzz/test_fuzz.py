"""Every target of the fuzzers: what was kept of them, and a few fresh inputs.

`make fuzz` runs the same for as long as one likes.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from random import Random

import pytest
from fuzzing import Target, changed, shown
from targets import TARGETS

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # says joserfc of what anybody may send

FRESH = 40
"""Inputs that are tried of each target, besides those that were kept."""


def tried(of: Target, data: bytes, where: str) -> None:
    try:
        of.attempt(data)
    except Exception:
        pytest.fail(f"{of.name}, {where}: {shown(data)}\n{traceback.format_exc()}")


@pytest.mark.parametrize("name", TARGETS)
def test_fresh_inputs_are_read(
    name: str, fresh_seed: int, record_property: Callable[[str, object], None]
) -> None:
    """Others each time; a failure names the seed."""
    of = TARGETS[name]
    corpus = of.corpus()
    record_property("chance", f"FRESH_SEED={fresh_seed} pytest tests/nightly/fuzz -k fresh")
    chance = Random(f"{name} {fresh_seed}")
    for _ in range(FRESH):
        tried(of, changed(chance.choice(corpus), chance, of, corpus), f"FRESH_SEED={fresh_seed}")
