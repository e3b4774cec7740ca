"""What carries requests to a server and brings messages back. Nothing here knows what is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

from .dialect import Dialect
from .template import FIRST_ID, Template

__all__ = ["Ids", "Link", "LoadError", "Message", "now"]

Message = dict[str, Any]
now = time.perf_counter_ns


class LoadError(Exception):
    """The server did something that it must not, or nothing at all; the text says what."""


class Ids:
    """Ids that no two requests have."""

    def __init__(self) -> None:
        self._next = FIRST_ID

    def take(self) -> int:
        """Return the next id."""
        self._next += 1
        return self._next


class Link(Protocol):
    """A way to a server. A lane carries one request at a time; over HTTP it is a connection."""

    dialect: Dialect
    ids: Ids
    payload: bytes
    """A long text that is known to come in answers: it is looked for and cut out instead of decoded."""

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as this link sends it."""
        ...

    def open_lanes(self, count: int) -> None:
        """Have so many lanes."""
        ...

    def send(self, lane: int, data: bytes) -> None:
        """Send a request that was made of a template, on a lane that is free. It goes when `poll` is called."""
        ...

    def reply(self, message: Message) -> None:
        """Answer the server, or notify it; it goes when `poll` is called, or before."""
        ...

    def give_up(self, lane: int, id: int) -> None:
        """Say, at once, that a request's answer is no longer wanted, in the way of this link and its era."""
        ...

    def poll(self, seconds: float) -> list[tuple[int, Message]]:
        """Wait for messages at most so long; return what came, with its lane, or -1 where lanes cannot be told.

        An answer comes only when its lane is free again. The number of payloads found is in ``"payloads"``.

        Raises:
            LoadError: The server is gone.
        """
        ...

    def fileno(self) -> int:
        """Return what `select` watches to know that something has come."""
        ...

    def flush(self) -> None:
        """Write what can be written at once."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def write_some(fd: int, data: bytes | bytearray | memoryview) -> int:
    """Write what can be written at once."""
    try:
        return os.write(fd, data)
    except BlockingIOError:
        return 0
