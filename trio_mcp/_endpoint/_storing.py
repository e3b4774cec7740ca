"""Storing what the streams of one session say, for clients that lost a connection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, final

import trio

from .._logs import Log
from .._server._background import Background
from ._event_store import EventStore
from ._event_stream import EventStream

__all__ = ["Storing"]

_log: Final = Log("trio_mcp.http")


@final
class Storing:
    """Hands events to a store, one call at a time, in a task that is there only while there are any.

    Args:
        store: The store.
        session: The id of the session.
        on_stored: Called with each stream of which everything was stored.
    """

    def __init__(self, store: EventStore, session: str, on_stored: Callable[[EventStream], object]) -> None:
        self._store = store
        self._session = session
        self._on_stored = on_stored
        self._unstored: OrderedDict[EventStream, None] = OrderedDict()
        self._is_running = False

    def soon(self, stream: EventStream, background: Background) -> None:
        """Store what a stream has said. Never waits.

        Args:
            stream: The stream.
            background: Where the task runs; what is not stored when that ends is lost.
        """
        self._unstored[stream] = None
        if not self._is_running:
            self._is_running = True
            background.start_soon(self._run, name=f"storing events of HTTP session {self._session[:8]}…")

    async def _run(self) -> None:
        """Store what is to be stored. What fails is lost for clients that come back, and that is all."""
        try:
            while self._unstored:
                stream, _ = self._unstored.popitem(last=False)
                if not (events := stream.unstored()):
                    continue
                try:
                    await self._store.append(self._session, stream.number, events)
                except Exception:
                    _log.exception("the event store failed; events of %.8s… are lost", self._session)
                stream.mark_stored(events[-1][0])
                self._on_stored(stream)
        finally:
            self._is_running = False

    async def forget(self, seconds: float) -> None:
        """Let the store drop everything of the session, within so many seconds."""
        try:
            with trio.move_on_after(seconds):
                await self._store.forget(self._session)
        except Exception:
            _log.exception("the event store failed; it may keep events of a session that has ended")
