"""The child processes of the tests, as far as a test has started them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_before: frozenset[int] = frozenset()


def children() -> frozenset[int]:
    """Return the ids of this process's children, running or not reaped."""
    ours = os.getpid()
    if Path("/proc/self/stat").exists():
        parents: dict[int, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                # The name of the program, in parentheses, may hold anything; the parent comes after the state.
                parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has gone meanwhile
            parents[int(stat.parent.name)] = int(parent)
    else:
        with subprocess.Popen(["ps", "-axo", "pid=,ppid="], stdout=subprocess.PIPE, encoding="ascii") as ps:
            parents = {int(pid): int(parent) for pid, parent in map(str.split, ps.communicate()[0].splitlines())}
            del parents[ps.pid]
    return frozenset(pid for pid, parent in parents.items() if parent == ours)


def overlook_children() -> None:
    """Let `has_children` look only at those that are started from now on."""
    global _before
    _before = children()


def has_children() -> bool:
    """Whether any child process is left that a test has started, running or not reaped."""
    return bool(children() - _before)
