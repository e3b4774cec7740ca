"""The body of a request while it arrives: bounded in size and time, and gone when its sender goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import trio

from .._core._headers import HeaderField
from .._core._http_admission import HttpRefused
from .._core._http_settings import HttpServerSettings
from .._endpoint._request_loans import SMALL, RequestLoans, gave_way
from .._parking_lot import LightParkingLot
from ._wires import READ_AHEAD, READ_BYTES

__all__ = ["RequestBody"]


@final
class RequestBody:
    """What has come of a body. What is more than little is lent to its sender, once that is known.

    Args:
        settings: How large it may be, and how long it may take.
        length: How much of it there will be; `None` if nobody has said so.
        closing: What a refusal says besides: that the rest, which nobody reads, costs the connection.

    Attributes:
        is_complete: Whether all of it has come.
    """

    __slots__ = (
        "_asked",
        "_changed",
        "_closing",
        "_covered",
        "_data",
        "_length",
        "_limit",
        "_loans",
        "_refusal",
        "_size",
        "_timeout",
        "is_complete",
    )

    def __init__(
        self, settings: HttpServerSettings, length: int | None, closing: Sequence[HeaderField] = ()
    ) -> None:
        self._length = length
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._closing = closing
        self._data: bytes | bytearray = b""
        self._size = 0
        self._covered = SMALL
        self._loans: RequestLoans | None = None
        self._refusal: HttpRefused | None = None
        self._changed: LightParkingLot | None = None
        self._asked: LightParkingLot | None = None
        self.is_complete = False

    @property
    def has_begun(self) -> bool:
        """Whether anything of it has come."""
        return self._size > 0

    @property
    def has_failed(self) -> bool:
        """Whether nothing more of it will come that could be used."""
        return self._refusal is not None

    @property
    def is_too_large(self) -> bool:
        """Whether more has come than may."""
        return self._size > self._limit

    @property
    def is_ahead(self) -> bool:
        """Whether no more of it should be read before somebody asks for it."""
        return self._size >= READ_AHEAD and self._loans is None and not self.is_complete

    @property
    def read_size(self) -> int:
        """How much to read next: hardly more than there is of it, so that little lies here of what is behind."""
        if self._length is None or self.is_complete:
            return READ_AHEAD
        return max(READ_AHEAD, min(READ_BYTES, self._length - self._size))

    async def wait_asked(self) -> None:
        """Wait while no more of it should be read. Does not checkpoint if more should."""
        while self.is_ahead:
            if self._asked is None:
                self._asked = LightParkingLot()
            await self._asked.park()

    def feed(self, data: bytes, *, is_complete: bool) -> None:
        """Take what comes next. Of a body that is too large, or has failed, nothing is kept."""
        self._size += len(data)
        if self._size > self._limit or self._refusal is not None:
            self._data = b""
        elif isinstance(self._data, bytearray):
            self._data += data
        elif self._data:
            self._data = bytearray(self._data)  # pieces can be so small that each weighs more than what is in it
            self._data += data
        else:
            self._data = data
        self.is_complete = is_complete
        if self._size > self._covered:
            self._cover()
        if self._changed is not None:
            self._wake()

    def _cover(self) -> None:
        """Let what has come be lent to whoever sends it."""
        if self._loans is not None and self._refusal is None and self._size <= self._limit:
            try:
                self._covered = self._loans.grow_body(self._size, self._give_way)
            except HttpRefused as refused:
                self._refuse(refused)

    def _give_way(self) -> None:
        self._refuse(gave_way("the body that has come"))

    def _refuse(self, refusal: HttpRefused) -> None:
        if self._refusal is None:
            self._refusal = refusal
        self._data = b""
        self._wake()

    def fail(self, problem: str) -> None:
        """Nothing more of it will come that could be used."""
        self._refuse(HttpRefused(400, problem, self._closing))

    def end(self) -> None:
        """Nothing more will come."""
        if not self.is_complete:
            self.fail("the client went away before its request was complete")

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.unpark_all()

    def check_length(self) -> None:
        """Look at the length that the request declares.

        Raises:
            HttpRefused: 413, because it is too large.
        """
        if self._length is not None and self._length > self._limit:
            raise self._too_large(f"{self._length} bytes")

    async def read(self, loans: RequestLoans) -> bytes:
        """Wait for all of it; see `HttpCall.read_body`. Does not checkpoint if it is there.

        Args:
            loans: What is lent to whoever sends it.
        """
        self._loans = loans
        if self._asked is not None:
            self._asked.unpark_all()
        if self._size > self._covered:
            self._cover()
        if self._must_wait:
            self._changed = LightParkingLot()
            with trio.move_on_after(self._timeout):
                while self._must_wait:
                    await self._changed.park()
        if self.is_too_large:
            raise self._too_large(f"more than {self._limit} bytes")
        if self._refusal is not None:
            raise self._refusal
        if self.is_complete:
            data, self._data = self._data, b""
            return bytes(data)
        problem = f"the body did not arrive within {self._timeout:g} seconds (body_timeout)"
        raise HttpRefused(408, problem, self._closing)

    @property
    def _must_wait(self) -> bool:
        return not (self.is_complete or self.has_failed or self.is_too_large)

    def _too_large(self, what: str) -> HttpRefused:
        return HttpRefused(413, f"a body of {what}; max_body_bytes is {self._limit}", self._closing)
