"""Which callbacks are running that hold up the notifications of their connection.

Notifications are handled one at a time. A callback that makes a call of its own, and wants its progress, would
wait for what can only come after itself. So progress for such a call goes past the queue: the callback is
suspended while the call's own callbacks run, and nothing overlaps that did not ask for it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

import attrs

__all__ = ["Delivery", "current_delivery", "delivering"]


@final
@attrs.define(eq=False)
class Delivery:
    """One notification while it is being handled.

    Attributes:
        connection: Whose notification it is; compared by identity.
        enclosing: What was being handled around it, on any connection.
        is_running: Whether it is still being handled.
    """

    connection: object
    enclosing: Delivery | None
    is_running: bool = True

    def holds_up(self, connection: object) -> bool:
        """Whether the queue of a connection stands still until this, or what is around it, is done."""
        delivery: Delivery | None = self
        while delivery is not None:
            if delivery.is_running and delivery.connection is connection:
                return True
            delivery = delivery.enclosing
        return False


_current: ContextVar[Delivery | None] = ContextVar("trio_mcp_delivery", default=None)


def current_delivery() -> Delivery | None:
    """Return what is being handled around the current task; tasks that it started are inside, too."""
    return _current.get()


@contextmanager
def delivering(connection: object) -> Generator[None]:
    """Say that the body handles a notification of the connection."""
    delivery = Delivery(connection, _current.get())
    token = _current.set(delivery)
    try:
        yield
    finally:
        delivery.is_running = False
        _current.reset(token)
