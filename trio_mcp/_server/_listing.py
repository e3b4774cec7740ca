"""Lists in pages, with what clients may do with them. Knows of what is listed only its name and its number."""

from __future__ import annotations

import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar, final

from .._core._cursor import BadCursor, CursorSeal, Position
from .._errors import INVALID_PARAMS, RequestError
from ..types import CacheScope, PaginatedRequestParams
from ._caching import CacheHint, CacheHints
from ._params import read_params
from ._registry import Entry

__all__ = ["Listing", "PageMembers"]

_T = TypeVar("_T")

KEY_BYTES: Final = 32


class PageMembers(TypedDict):
    """What every page of every list says, besides its items: hand it to the result's class."""

    next_cursor: str | None
    ttl_ms: int
    cache_scope: CacheScope


@final
class Listing:
    """Cuts lists into pages, the same way for all of a server's lists.

    Args:
        page_size: How many items a page has; `None` for all of them.
        cursor_key: The secret by which cursors are made; by default one of this object's own, so that cursors do
            not outlive it.
        cache: What clients are told about keeping results; see `CacheHints`.

    Raises:
        ValueError: Something is out of bounds.
    """

    def __init__(
        self,
        *,
        page_size: int | None = None,
        cursor_key: bytes | None = None,
        cache: CacheHint | Mapping[str, CacheHint] | None = None,
    ) -> None:
        if page_size is not None and (isinstance(page_size, bool) or page_size < 1):
            raise ValueError(f"page_size must be at least 1, not {page_size!r}")
        self._page_size = page_size
        self._seal = CursorSeal(secrets.token_bytes(KEY_BYTES) if cursor_key is None else cursor_key)
        self._origin = secrets.token_hex(4)
        self.hints: Final = CacheHints(cache)

    def page(
        self, method: str, params: Mapping[str, Any], entries: Sequence[Entry[_T]]
    ) -> tuple[Sequence[_T], PageMembers]:
        """Return the items of the page that is asked for, and what else the result says.

        Args:
            method: The list's method. A cursor is good for the list that it came with only.
            params: The parameters of the request.
            entries: All that is listed, in the order of registration.

        Raises:
            RequestError: The cursor is not one of ours for this list, or the parameters cannot be read.

        Spec: 2026-07-28, server/utilities/pagination; server/utilities/caching, "Interaction with Pagination".
        """
        cursor = read_params(params, PaginatedRequestParams).cursor
        start = 0 if cursor is None else self._start(method, cursor, entries)
        end = len(entries) if self._page_size is None else start + self._page_size
        page = entries[start:end]
        last = page[-1] if page and end < len(entries) else None
        hint = self.hints.of(method)
        next_cursor = None
        if last is not None:
            next_cursor = self._seal.seal(method, Position(self._origin, last.serial, last.name))
        return [entry.item for entry in page], PageMembers(
            next_cursor=next_cursor,
            ttl_ms=hint.ttl_ms,
            cache_scope=hint.scope,
        )

    def _start(self, method: str, cursor: str, entries: Sequence[Entry[Any]]) -> int:
        try:
            position = self._seal.open(method, cursor)
        except BadCursor as error:
            raise RequestError(INVALID_PARAMS, f"cursor: {error}") from error
        if position.origin != self._origin:
            for index, entry in enumerate(entries):
                if entry.name == position.name:
                    return index + 1
        begin = bisect_left(entries, position.serial, key=_serial)
        end = bisect_right(entries, position.serial, key=_serial)
        if end - begin <= 1:
            return end
        # Files of one directory have the number of the directory; they are listed by name.
        for index in range(begin, end):
            if entries[index].name == position.name:
                return index + 1
        return next((index for index in range(begin, end) if entries[index].name > position.name), end)


def _serial(entry: Entry[Any]) -> int:
    return entry.serial
