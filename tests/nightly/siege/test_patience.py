"""Somebody who sends one useless thing a minute has nothing of it after hours; all of them are played by `make siege`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import patient_things
import pytest
from patience import SCENARIOS
from unmeasured import unmeasured

PROGRAM = Path(__file__).with_name("patience.py")

__all__ = ["patient_things"]


@pytest.mark.skipif(sys.platform != "linux", reason="comes from 127.1.1.1, and looks at /proc")
@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_nothing_is_kept_after_hours(name: str) -> None:
    """Promise 10: in a process of its own, since what pytest keeps would count."""
    played = subprocess.run(
        [sys.executable, str(PROGRAM), name], capture_output=True, encoding="utf-8", env=unmeasured(), check=False
    )
    assert played.returncode == 0, f"{played.stdout}\n{played.stderr[-2_000:]}"


def test_every_way_has_its_scenarios() -> None:
    """HTTP on both hosts, WebSockets, lines."""
    assert {host for scenario in SCENARIOS for host in scenario.hosts} == {
        "lean",
        "hypercorn",
        "websocket",
        "unix",
    }
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
