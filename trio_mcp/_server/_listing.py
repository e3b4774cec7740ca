"""Lists in pages, with what clients may do with them. Knows of what is listed only its name and its number."""

from __future__ import annotations

import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar, final

import attrs

from .._codec._jsonrpc import Encoded
from .._core._cursor import BadCursor, CursorSeal, Position
from .._errors import INVALID_PARAMS, RequestError
from .._limits import check_whole
from .._revisions import Revision
from ..types import CacheScope, PaginatedRequestParams
from ._caching import CacheHint, CacheHints
from ._params import are_plain, read_params
from ._registry import Entry

__all__ = ["Kept", "Listing", "PageMembers"]

_T = TypeVar("_T")

KEY_BYTES: Final = 32

_FIRST_PAGE: Final = frozenset({"_meta"})


class PageMembers(TypedDict):
    """What every page of every list says, besides its items: hand it to the result's class."""

    next_cursor: str | None
    ttl_ms: int
    cache_scope: CacheScope


@final
@attrs.define(eq=False)
class Kept:
    """A result that is the same for every client of a revision, so that it has to be written only once.

    Attributes:
        result: The result.
        changes: How often what it lists had changed.
        written: What is sent of it, once it is written.
    """

    result: object
    changes: int
    written: Encoded | None = None


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
        if page_size is not None:
            check_whole("page_size", page_size)
        self._page_size = page_size
        self._seal = CursorSeal(secrets.token_bytes(KEY_BYTES) if cursor_key is None else cursor_key)
        self._origin = secrets.token_hex(4)
        self._kept: dict[tuple[str, Revision], Kept] = {}
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

    def kept(
        self,
        method: str,
        params: Mapping[str, Any],
        revision: Revision,
        changes: int,
        list_page: Callable[[], object],
    ) -> object:
        """Return the page that is asked for: the first one as it was made before, if nothing has changed since.

        Args:
            method: The list's method.
            params: The parameters of the request.
            revision: What the client speaks.
            changes: How often what is listed has changed.
            list_page: Makes the page.

        Raises:
            RequestError: As `page`.
        """
        if not are_plain(params, _FIRST_PAGE):
            return list_page()
        kept = self._kept.get((method, revision))
        if kept is None or kept.changes != changes:
            kept = self._kept[method, revision] = Kept(list_page(), changes)
        return kept

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
