"""What the tests of sqlite tasks share in several layers."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="elsewhere files have other rights")


def rows(path: Path, query: str = "SELECT id FROM tasks ORDER BY id") -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return [row[0] if len(row) == 1 else row for row in database.execute(query).fetchall()]


def totals(path: Path) -> tuple[int, int]:
    """Return what is counted, after a look that it is what is there."""
    [counted] = rows(path, "SELECT tasks, bytes FROM task_totals")
    [(tasks, of_tasks)] = rows(path, "SELECT count(*), coalesce(sum(size), 0) FROM tasks")
    [of_messages] = rows(path, "SELECT coalesce(sum(size), 0) FROM task_messages")
    assert counted == (tasks, of_tasks + of_messages)
    return tasks, of_tasks + of_messages
