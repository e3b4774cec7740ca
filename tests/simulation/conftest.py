"""Makes a seed decide everything, the order in which Trio runs its tasks included."""

from __future__ import annotations

import random

import pytest
import trio._core._run as trio_run


@pytest.fixture(autouse=True)
def _deterministic_scheduling(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr(trio_run, "_r", random.Random(seed))
