"""Freed memory is returned to the system, where clients have had much of it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from inside_core import Sealer
from inside_server import lifetimes_module, open_service
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Limits


async def test_a_server_returns_memory_once_for_all_that_gives_way_in_one_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And in the next one: what was lent is not freed before."""
    returned = 0

    def note() -> None:
        nonlocal returned
        returned += 1

    monkeypatch.setattr(lifetimes_module, "return_freed_memory", note)
    async with open_service("library", nullcontext(), Sealer(), Limits(max_kept_bytes=1_000)) as service:
        small = service.account.bytes.lend("somebody", "bodies", 200)
        small.give_back()
        loans = [service.account.bytes.lend("somebody", "bodies", 10) for _ in range(45)]
        for loan in loans:
            loan.give_back()
        assert returned == 0
        await wait_all_tasks_blocked()
        assert returned == 1
        again = service.account.bytes.lend("somebody", "bodies", 450)
        again.give_back()
    assert returned == 1  # the server has ended before
    again = service.account.bytes.lend("somebody", "bodies", 450)
    again.give_back()  # harmless
