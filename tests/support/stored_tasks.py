"""Tasks for stores to keep."""

from __future__ import annotations

import time
from typing import Any

import attrs

from trio_mcp import StoredTask


def task(id: str, **members: Any) -> StoredTask:
    """Return one that runs, and is kept for a minute."""
    now = time.time()
    usual: dict[str, Any] = {"owner": None, "created_at": now, "updated_at": now, "ttl": 60.0, "poll": 1.0}
    return StoredTask(id=id, **(usual | members))


def done(one: StoredTask, size: int = 10) -> StoredTask:
    """Return it completed, with a result of about so many bytes."""
    return attrs.evolve(one, status="completed", result={"x": "y" * size})
