"""Cursors: where the next page of a list begins, in a form that only their maker can read and nobody can change.

A cursor says of the last item of its page which number it was registered under, and its name. The next page
begins with what was registered later, so that no item that stays is left out or comes twice because others come
and go. In another process that shares the key, where numbers may be others, the name counts. Spec: 2026-07-28,
server/utilities/pagination, "Implementation Guidelines".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, final

import attrs

__all__ = ["BadCursor", "CursorSeal", "Position"]

_PURPOSE: Final = b"trio-mcp cursor 1"
"""What the key is used for, so that one secret can serve for more than cursors."""

_TAG_BYTES: Final = 16
"""How much of the authentication code is kept: nobody guesses 128 bits over a network."""

MIN_KEY_BYTES: Final = 16

MAX_CURSOR: Final = 64 * 1024
"""Characters of a cursor that is looked at; more only where as long a one was made here, for a name that long."""


@final
class BadCursor(ValueError):
    """The cursor is not one that was made here, for this list."""


@final
@attrs.frozen
class Position:
    """A place in a list.

    Attributes:
        origin: Who has given the number; no colon in it.
        serial: The number under which the last item before it was registered.
        name: The name of that item.
    """

    origin: str
    serial: int
    name: str


@final
class CursorSeal:
    """Makes and reads cursors.

    Args:
        key: A secret of at least 16 bytes. Who shares it can read each other's cursors.

    Raises:
        ValueError: The key is too short.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"the key for cursors must have at least {MIN_KEY_BYTES} bytes, not {len(key)}")
        self._key = hmac.digest(key, _PURPOSE, hashlib.sha256)
        self._longest = MAX_CURSOR

    def seal(self, method: str, position: Position) -> str:
        """Return the cursor for a place in the list of a method."""
        said = f"{position.origin}:{position.serial}:{position.name}".encode("utf-8", "surrogatepass")
        cursor = base64.urlsafe_b64encode(self._tag(method, said) + said).decode().rstrip("=")
        self._longest = max(self._longest, len(cursor))
        return cursor

    def open(self, method: str, cursor: str) -> Position:
        """Return the place that a cursor says.

        Raises:
            BadCursor: It was changed, or made with another key or for another method.
        """
        if len(cursor) > self._longest:
            raise BadCursor(f"the cursor is longer than any of this server's, {len(cursor)} characters")
        try:
            data = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise BadCursor("the cursor is not one of this server's") from None
        tag, said = data[:_TAG_BYTES], data[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(method, said)):
            raise BadCursor("the cursor is not one of this server's, or of another list")
        origin, serial, name = said.decode("utf-8", "surrogatepass").split(":", 2)
        position = Position(origin, int(serial), name)
        # The last character has bits that say nothing, and they are not to be played with either.
        if self.seal(method, position) != cursor:
            raise BadCursor("the cursor was changed")
        return position

    def _tag(self, method: str, said: bytes) -> bytes:
        return hmac.digest(self._key, method.encode() + b"\0" + said, hashlib.sha256)[:_TAG_BYTES]
