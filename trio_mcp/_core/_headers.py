"""The header fields of an HTTP message, as both ends and both of their hosts pass them around. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

__all__ = ["HeaderField", "Headers"]

HeaderField = tuple[bytes, bytes]
"""A name and a value, as on the wire."""


@final
class Headers:
    """Header fields in their order. Names are compared without case (RFC 9110, section 5.1).

    Values are given out as text with one character per byte, without the blanks around them.

    Args:
        fields: Names and values, as on the wire.
    """

    __slots__ = ("_by_name", "fields")

    def __init__(self, fields: Iterable[HeaderField] = ()) -> None:
        self.fields: tuple[HeaderField, ...] = tuple(fields)
        self._by_name: dict[str, list[str]] = {}
        for name, value in self.fields:
            key = name.decode("latin-1").lower()
            self._by_name.setdefault(key, []).append(value.decode("latin-1").strip(" \t"))

    def get(self, name: str) -> str | None:
        """Return the value of a field, several joined by commas (RFC 9110, section 5.3); `None` for none."""
        values = self._by_name.get(name.lower())
        return None if values is None else ", ".join(values)

    def get_all(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        return list(self._by_name.get(name.lower(), ()))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name

    def __iter__(self) -> Iterator[HeaderField]:
        return iter(self.fields)

    def __repr__(self) -> str:
        # Values may be credentials.
        return f"<Headers {', '.join(self._by_name)}>"
