"""Every bound in the library, with its name, unit and default. Nothing here does anything."""

from __future__ import annotations

import math
from typing import Any, Final, final

import attrs

__all__ = ["Limits"]

KIB: Final = 1024
MIB: Final = 1024 * KIB


def _check_size(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{attribute.name} must be a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, not {value!r}")


def _check_seconds(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{attribute.name} must be a number of seconds, not {value!r}")
    if math.isnan(value) or value < 0:
        raise ValueError(f"{attribute.name} must be at least 0, not {value!r}")


def _size(default: int) -> int:
    size: int = attrs.field(default=default, validator=_check_size)
    return size


def _seconds(default: float) -> float:
    seconds: float = attrs.field(default=default, validator=_check_seconds)
    return seconds


@final
@attrs.frozen(kw_only=True)
class Limits:
    """What one connection may cost. Every queue, buffer, table and wait is bounded by one of these.

    Sizes are bytes, durations are seconds; ``math.inf`` means "never" for a duration.

    Attributes:
        max_message_bytes: The largest message that is received or sent. A larger line costs only itself: the
            request it held is refused, or the request it answered fails, and the connection goes on.
        max_inbound_requests: Requests of the peer that are served at once. Further requests wait, unstarted;
            answers, cancellations and pings still get through.
        max_inbound_bytes: What the requests being served may weigh together before further ones wait.
        max_waiting_bytes: What the waiting requests may weigh together, as they came, before reading stops.
        max_batch_messages: Messages in one batch, where the revision has batches. A larger one is refused whole.
        max_outbound_requests: Requests of ours without an answer. Further callers wait for their turn.
        max_outbox_bytes: What may lie ready to be written before senders wait.
        max_notifications: Notifications received and not yet handled.
        slow_consumer_timeout: How long a full notification queue holds up reading before the oldest of what
            can be merged or dropped goes; and how long a stuck sink holds up reading a server's standard error
            before lines are dropped.
        connect_timeout: From opening the transport until both sides have agreed on a revision.
        discover_timeout: How long a server may be silent about ``server/discover`` before it counts as one of
            the legacy era. It is part of `connect_timeout`.
        goodbye_timeout: How long leaving a connection may wait for the peer to take what is still to be said.
        drain_timeout: How long handlers may finish after the server was asked to stop.
        terminate_timeout: How long a server process may take to exit after its input was closed, and again
            after it was asked to terminate, before it is killed.
        max_threads: Tools written as plain functions that run at once, per server.
    """

    max_message_bytes: int = _size(16 * MIB)
    max_inbound_requests: int = _size(100)
    max_inbound_bytes: int = _size(64 * MIB)
    max_waiting_bytes: int = _size(4 * MIB)
    max_batch_messages: int = _size(1_000)
    max_outbound_requests: int = _size(1_000)
    max_outbox_bytes: int = _size(1 * MIB)
    max_notifications: int = _size(1_000)
    slow_consumer_timeout: float = _seconds(1.0)
    connect_timeout: float = _seconds(30.0)
    discover_timeout: float = _seconds(5.0)
    goodbye_timeout: float = _seconds(2.0)
    drain_timeout: float = _seconds(5.0)
    terminate_timeout: float = _seconds(2.0)
    max_threads: int = _size(40)
