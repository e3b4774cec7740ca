"""The environment of a program whose own modules and memory are looked at."""

from __future__ import annotations

import os


def unmeasured() -> dict[str, str]:
    """Return an environment in which Python does not measure coverage: that loads modules, and keeps notes of frames."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS_")}
