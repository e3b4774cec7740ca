"""The header fields of an HTTP message, as both ends and all of their hosts pass them around. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Final, cast, final

__all__ = ["HeaderField", "Headers", "answer_field"]

HeaderField = tuple[bytes, bytes]
"""A name and a value, as on the wire."""

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


def answer_field(name: str | bytes, value: str | bytes) -> HeaderField:
    """Return a field that somebody else wants in an answer, as it goes on the wire.

    Args:
        name: Its name.
        value: Its value; the blanks around it go.

    Raises:
        TypeError: One of them is neither text nor bytes.
        ValueError: It would be no field, more than one, or say where the answer ends (RFC 9110, section 5.5).
    """
    fields: list[bytes] = []
    for part in cast("tuple[object, ...]", (name, value)):
        if not isinstance(part, (str, bytes)):
            raise TypeError(f"a header field is text or bytes, not {type(part).__name__}")
        try:
            fields.append(part.encode("latin-1") if isinstance(part, str) else part)
        except UnicodeEncodeError as error:
            raise ValueError(f"{part!r} cannot be sent in a header field, which is Latin-1") from error
    encoded, content = fields[0], fields[1].strip(b" \t")
    if _NAME.fullmatch(encoded) is None:
        raise ValueError(f"{name!r} is not the name of a header field")
    if encoded.lower() in _FRAMING:
        raise ValueError(f"{name!r} is for whoever sends the answer to say")
    if _VALUE.fullmatch(content) is None:
        raise ValueError(f"{value!r} cannot be sent in a header field: it contains a control character")
    return encoded, content


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
