"""What an endpoint counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs

from .._core._account import PoolStatistics


@final
@attrs.frozen
class EndpointStatistics:
    """The counters of an endpoint.

    Attributes:
        requests: Requests that are being served, without long-lived ones.
        standing: Subscriptions of long-lived requests.
        sessions: Sessions of the legacy era.
        websockets: Sessions over WebSockets.
        dropped: Messages for such sessions that were dropped, because their clients had opened no stream for
            them.
        reading: POSTs that are being read, or have no request and are being answered.
        answering: Answers that connections have not taken yet.
        kept: What is lent to clients: of `Limits.max_kept_bytes`, as ``"bytes"``, and of places.
    """

    requests: int
    standing: int
    sessions: int
    dropped: int = 0
    reading: int = 0
    answering: int = 0
    kept: Mapping[str, PoolStatistics] = attrs.field(factory=dict[str, PoolStatistics])
    websockets: int = 0
