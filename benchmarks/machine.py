"""What the figures were made on: they mean nothing without it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

__all__ = ["describe_machine"]

PACKAGES: Final = ("trio", "attrs", "cattrs", "msgspec", "h11", "hypercorn", "httptools", "hdrhistogram")


def describe_machine() -> Mapping[str, Any]:
    """Describe this machine and what of it matters for speed."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_mib": _memory_mib(),
        "load_before": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_mib() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError, AttributeError):
        return 0
