"""Lists that come in pages, read as one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, TypeVar, final

import trio

from .._errors import RemoteProtocolError

__all__ = ["Pages"]

_T = TypeVar("_T")


@final
class Pages(AsyncIterator[_T], Generic[_T]):
    """Iterates over the items of a list and follows its cursors, asking for a page when it is needed.

    Nothing has to be closed: between two items nothing is going on. Each `Pages` starts at the beginning.

    Args:
        fetch: Asks for the page at a cursor (`None` is the first) and returns its items and the next cursor.
        what: What is listed, for errors.
        max_pages: After so many pages a server that goes on is taken to be broken.

    Raises:
        RemoteProtocolError: The server repeats a cursor, which would never end, or has too many pages.

    Spec: 2026-07-28, server/utilities/pagination.
    """

    def __init__(
        self,
        fetch: Callable[[str | None], Awaitable[tuple[Sequence[_T], str | None]]],
        *,
        what: str,
        max_pages: int = 10_000,
    ) -> None:
        self._fetch = fetch
        self._what = what
        self._max_pages = max_pages
        self._items: deque[_T] = deque()
        self._cursor: str | None = None
        self._seen: set[str] = set()
        self._pages = 0
        self._at_end = False

    async def __anext__(self) -> _T:
        await trio.lowlevel.checkpoint()
        while not self._items:
            if self._at_end:
                raise StopAsyncIteration
            await self._fetch_page()
        return self._items.popleft()

    async def _fetch_page(self) -> None:
        items, cursor = await self._fetch(self._cursor)
        self._pages += 1
        self._items.extend(items)
        self._at_end = cursor is None
        if cursor is None:
            return
        if cursor in self._seen:
            raise RemoteProtocolError(f"{self._what}: the server repeats the cursor {cursor[:40]!r}")
        if self._pages >= self._max_pages:
            raise RemoteProtocolError(f"{self._what}: more than {self._max_pages} pages")
        self._seen.add(cursor)
        self._cursor = cursor
