"""Every bound in the library, with its name, unit and default. Nothing here does anything."""

from __future__ import annotations

import math
from typing import Final, final

import attrs

__all__ = ["Limits"]

KIB: Final = 1024
MIB: Final = 1024 * KIB


def _positive(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} must be greater than 0, not {value!r}")


def _not_negative(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if math.isnan(value) or value < 0:
        raise ValueError(f"{attribute.name} must be at least 0, not {value!r}")


@final
@attrs.frozen(kw_only=True)
class Limits:
    """What one connection may cost. Every queue, buffer, table and wait of the library is bounded by one of these.

    Sizes are bytes, durations are seconds; ``math.inf`` means "never" for a duration.

    Attributes:
        max_message_bytes: The largest message that is received or sent. A larger line costs only itself: the
            request it held is refused, or the request it answered fails, and the connection goes on.
        max_inbound_requests: Requests of the peer that are served at once. Further requests wait, unstarted;
            answers, cancellations and pings still get through.
        max_inbound_bytes: What the requests being served may weigh together before further ones wait.
        max_waiting_bytes: What the waiting requests may weigh together, as they came, before reading stops.
        max_outbound_requests: Requests of ours without an answer. Further callers wait for their turn.
        max_outbox_bytes: What may lie ready to be written before senders wait.
        max_notifications: Notifications received and not yet handled.
        slow_consumer_timeout: How long a full notification queue holds up reading before the oldest of what
            can be merged or dropped goes.
        connect_timeout: From opening the transport until both sides have agreed on a revision.
        discover_timeout: How long a server may be silent about ``server/discover`` before it counts as one of
            the legacy era. It is part of `connect_timeout`.
        goodbye_timeout: How long leaving a connection may wait for the peer to take what is still to be said.
        drain_timeout: How long handlers may finish after the server was asked to stop.
        terminate_timeout: How long a server process may take to exit after its input was closed, and again
            after it was asked to terminate, before it is killed.
        max_threads: Tools written as plain functions that run at once, per server.
    """

    max_message_bytes: int = attrs.field(default=16 * MIB, validator=_positive)
    max_inbound_requests: int = attrs.field(default=100, validator=_positive)
    max_inbound_bytes: int = attrs.field(default=64 * MIB, validator=_positive)
    max_waiting_bytes: int = attrs.field(default=4 * MIB, validator=_positive)
    max_outbound_requests: int = attrs.field(default=1_000, validator=_positive)
    max_outbox_bytes: int = attrs.field(default=1 * MIB, validator=_positive)
    max_notifications: int = attrs.field(default=1_000, validator=_positive)
    slow_consumer_timeout: float = attrs.field(default=1.0, validator=_not_negative)
    connect_timeout: float = attrs.field(default=30.0, validator=_positive)
    discover_timeout: float = attrs.field(default=5.0, validator=_positive)
    goodbye_timeout: float = attrs.field(default=2.0, validator=_not_negative)
    drain_timeout: float = attrs.field(default=5.0, validator=_not_negative)
    terminate_timeout: float = attrs.field(default=2.0, validator=_not_negative)
    max_threads: int = attrs.field(default=40, validator=_positive)
