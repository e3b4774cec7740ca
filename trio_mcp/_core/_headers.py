"""The header fields of an HTTP message, as both ends and all of their hosts pass them around. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import final

__all__ = ["HeaderField", "Headers"]

HeaderField = tuple[bytes, bytes]
"""A name and a value, as on the wire."""


@lru_cache(maxsize=1024)
def _key(name: str) -> bytes:
    return name.lower().encode("latin-1", "replace")


@final
class Headers:
    """Header fields in their order. Names are compared without case (RFC 9110, section 5.1).

    Values are given out as text with one character per byte, without the blanks around them. Of what nobody asks
    for nothing is read.

    Args:
        fields: Names and values, as on the wire.

    Attributes:
        has_repeats: Whether some name comes more than once.
    """

    __slots__ = ("_all", "_last", "fields", "has_repeats")

    def __init__(self, fields: Iterable[HeaderField] = ()) -> None:
        self.fields: tuple[HeaderField, ...] = tuple(fields)
        self._last = {name.lower(): value for name, value in self.fields}
        self._all: dict[bytes, list[bytes]] | None = None  # made once somebody asks, if some name comes twice
        self.has_repeats: bool = len(self._last) < len(self.fields)

    @property
    def size(self) -> int:
        """What the names and the values weigh together, in bytes."""
        return sum(map(len, chain.from_iterable(self.fields)))

    def get(self, name: str) -> str | None:
        """Return the value of a field, several joined by commas (RFC 9110, section 5.3); `None` for none."""
        value = self._last.get(_key(name))
        if value is None:
            return None
        if self.has_repeats:
            return ", ".join(self.get_all(name))
        return value.decode("latin-1").strip(" \t")

    def get_all(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        key = _key(name)
        last = self._last.get(key)
        if last is None:
            return []
        if not self.has_repeats:
            return [last.decode("latin-1").strip(" \t")]
        if self._all is None:
            # Otherwise thousands of fields would be looked through for each name that is asked for.
            self._all = {}
            for each, value in self.fields:
                self._all.setdefault(each.lower(), []).append(value)
        return [value.decode("latin-1").strip(" \t") for value in self._all[key]]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _key(name) in self._last

    def __iter__(self) -> Iterator[HeaderField]:
        return iter(self.fields)

    def __repr__(self) -> str:
        # Values may be credentials.
        return f"<Headers {', '.join(name.decode('latin-1') for name in self._last)}>"
