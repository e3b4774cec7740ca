"""Every target of the fuzzers: what was kept of them, and a few fresh inputs.

`make fuzz` runs the same for as long as one likes.
"""

from __future__ import annotations

import traceback

import pytest
from fuzzing import Target, shown
from targets import TARGETS

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # says joserfc of what anybody may send


def tried(of: Target, data: bytes, where: str) -> None:
    try:
        of.attempt(data)
    except Exception:
        pytest.fail(f"{of.name}, {where}: {shown(data)}\n{traceback.format_exc()}")


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_kept_is_read(name: str) -> None:
    """Among it is whatever was found once."""
    of = TARGETS[name]
    corpus = of.corpus()
    assert corpus
    for data in (*corpus, *of.seeds()):
        tried(of, data, "kept")
