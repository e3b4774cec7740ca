"""The cancellation contract once more, with each request put off before it is served, as if it had waited for a place.

It is then served in a task of its own and not in the one that has read it. Nobody must be able to tell.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import trio
from inside_peer import Arrival, Exchanges, Ready
from inside_wire import Request

for _name in (
    "matrix.test_cancellation_contract",
    "contract.test_contract_by_hand",
    "contract.test_cancelled_at_every_checkpoint",
):
    _tests = vars(import_module(f"tests.memory.{_name}"))
    globals().update({name: test for name, test in _tests.items() if name.startswith("test_")})


@pytest.fixture(autouse=True)
def every_request_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put off what could be served on the spot, and start at once what waits."""
    take: Any = Exchanges._take

    def put_off(
        self: Exchanges, request: Request, arrival: Arrival, scope: trio.CancelScope | None, *, has_room: bool
    ) -> Ready | None:
        is_read = scope is not None  # and not one that has waited
        ready: Ready | None = take(self, request, arrival, scope, has_room=has_room and not is_read)
        if is_read:
            assert ready is None
            self._start_waiting()
        return ready

    monkeypatch.setattr(Exchanges, "_take", put_off)
