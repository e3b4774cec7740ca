"""The body of a request while it arrives: bounded in size and time, and gone when its sender goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import trio

from .._core._headers import HeaderField
from .._core._http_admission import HttpRefused
from .._core._http_settings import HttpServerSettings
from .._parking_lot import LightParkingLot

__all__ = ["RequestBody"]


@final
class RequestBody:
    """What has come of a body.

    Args:
        settings: How large it may be, and how long it may take.
        closing: What a refusal says besides: that the rest, which nobody reads, costs the connection.

    Attributes:
        is_complete: Whether all of it has come.
    """

    __slots__ = ("_changed", "_closing", "_limit", "_parts", "_problem", "_size", "_timeout", "is_complete")

    def __init__(self, settings: HttpServerSettings, closing: Sequence[HeaderField] = ()) -> None:
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._closing = closing
        self._parts: list[bytes] = []
        self._size = 0
        self._problem: str | None = None
        self._changed: LightParkingLot | None = None
        self.is_complete = False

    @property
    def has_begun(self) -> bool:
        """Whether anything of it has come."""
        return self._size > 0

    @property
    def has_failed(self) -> bool:
        """Whether nothing more of it will come that could be used."""
        return self._problem is not None

    @property
    def is_too_large(self) -> bool:
        """Whether more has come than may."""
        return self._size > self._limit

    def feed(self, data: bytes, *, is_complete: bool) -> None:
        """Take what comes next. Of a body that is too large nothing is kept."""
        self._size += len(data)
        if self._size > self._limit:
            self._parts.clear()
        elif data:
            self._parts.append(data)
        self.is_complete = is_complete
        self._wake()

    def fail(self, problem: str) -> None:
        """Nothing more of it will come that could be used."""
        self._problem = problem
        self._parts.clear()
        self._wake()

    def end(self) -> None:
        """Nothing more will come."""
        if not self.is_complete:
            self.fail("the client went away before its request was complete")

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.unpark_all()

    def check_length(self, declared: int | None) -> None:
        """Look at the length that a request declares.

        Raises:
            HttpRefused: 413, because it is too large.
        """
        if declared is not None and declared > self._limit:
            raise self._too_large(f"{declared} bytes")

    async def read(self) -> bytes:
        """Wait for all of it; see `HttpCall.read_body`. Does not checkpoint if it is there."""
        if self._must_wait:
            self._changed = LightParkingLot()
            with trio.move_on_after(self._timeout):
                while self._must_wait:
                    await self._changed.park()
        if self.is_too_large:
            raise self._too_large(f"more than {self._limit} bytes")
        if self.is_complete:
            parts, self._parts = self._parts, []
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if self._problem is not None:
            raise HttpRefused(400, self._problem, self._closing)
        problem = f"the body did not arrive within {self._timeout:g} seconds (body_timeout)"
        raise HttpRefused(408, problem, self._closing)

    @property
    def _must_wait(self) -> bool:
        return not (self.is_complete or self.has_failed or self.is_too_large)

    def _too_large(self, what: str) -> HttpRefused:
        return HttpRefused(413, f"a body of {what}; max_body_bytes is {self._limit}", self._closing)
