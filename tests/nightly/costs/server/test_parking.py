"""Handlers that wait for their client between two of its requests (2026-07-28, basic/patterns/mrtr)."""

from __future__ import annotations

from shared.server_parking import Asking, call


async def test_a_thousand_parked_handlers_cost_little_and_leave_nothing() -> None:
    asking = Asking()
    async with asking.client() as client:
        before = _memory()
        for _ in range(1_000):
            await client.request("tools/call", call())
        assert (_memory() - before) / 1_000 < 16 * 1024
    assert asking.ended == ["cancelled"] * 1_000


def _memory() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096
