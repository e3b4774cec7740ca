"""Requests as bytes in which only the id changes, so that making one costs next to nothing."""

from __future__ import annotations

from typing import Final, final

__all__ = ["FIRST_ID", "LAST_ID", "Template"]

FIRST_ID: Final = 100_000_000
LAST_ID: Final = 999_999_999
"""All ids have nine digits, so that the length of a request, which HTTP announces, does not change with them."""

MARK: Final = 907_050_301
"""Stands for the id while a template is made; no text that is sent has these digits."""


@final
class Template:
    """A request whose id is filled in.

    Attributes:
        parts: What stands around the id, which may come several times: as a progress token as well.
    """

    def __init__(self, sample: bytes) -> None:
        self.parts = tuple(sample.split(str(MARK).encode()))

    def fill(self, id: int) -> bytes:
        """Return the request with this id."""
        return str(id).encode().join(self.parts)

    def __len__(self) -> int:
        return len(self.fill(FIRST_ID))
