"""How much memory a process has in use."""

from __future__ import annotations

from pathlib import Path

__all__ = ["memory_of"]


def memory_of(process: int) -> int:
    """Return how many bytes of memory a process has in use."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024
