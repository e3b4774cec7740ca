"""Keeps the events of streams in Redis, where any process can read them; by `_redis_store_scripts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, final

import attrs

from .._endpoint._event_store import StoredEvent
from .._server._redis_scripts import Script
from . import _redis_store_scripts as scripts


class RunScript(Protocol):
    """Runs a script for a process that has joined a store, and returns what it answers."""

    async def __call__(self, script: Script, *arguments: Any) -> list[Any]:
        """Run it; see `RedisSharedStore.run`."""
        ...


@final
@attrs.frozen
class EventBounds:
    """How many events are kept, and for how long; see `RedisStore`."""

    max_session_events: int
    max_session_bytes: int
    max_bytes: int
    max_age: float


@final
class RedisEvents:
    """Keeps events in Redis; see `EventStore`. Its methods raise a `RequestError` if Redis does not answer.

    Once begun they are done or not done, even if they are cancelled.

    Args:
        run: Runs a script.
        bounds: What is kept.
    """

    def __init__(self, run: RunScript, bounds: EventBounds) -> None:
        self._run: Final = run
        self._bounds: Final = bounds

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events; see `EventStore.append`. Those up to the last number of the stream are there already."""
        bounds = self._bounds
        await self._run(
            scripts.APPEND,
            key_bytes(session),
            _digits(stream),
            milliseconds(bounds.max_age),
            bounds.max_session_events,
            bounds.max_session_bytes,
            bounds.max_bytes,
            *(part for number, data in events for part in (_digits(number), data)),
        )

    async def read(self, session: str, stream: int, after: int, limit: int) -> Sequence[StoredEvent]:
        """Return events; see `EventStore.read`."""
        found = await self._run(scripts.READ, key_bytes(session), _digits(stream), _digits(max(after, -1)), limit)
        return [(int(number), data) for number, data in zip(found[::2], found[1::2], strict=True)]

    async def forget(self, session: str) -> None:
        """Drop a session; see `EventStore.forget`."""
        await self._run(scripts.FORGET_EVENTS, key_bytes(session))


def _digits(number: int) -> str:
    return f"{number:020d}"


def key_bytes(id: str) -> bytes:
    """Write an id, which a client may have made up of anything."""
    return id.encode("utf-8", "surrogatepass")


def milliseconds(seconds: float) -> int:
    """Return a duration as Redis takes it: at least 1, and not more than it can add to its time."""
    return round(min(max(seconds * 1_000, 1), 2**52))
