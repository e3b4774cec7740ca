"""Lists that come in pages, read as one or page by page."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, final

import trio
from typing_extensions import TypeVar

from .._errors import RemoteProtocolError
from .._limits import Limits
from ..types import PaginatedResult

__all__ = ["PageIterator", "Pages"]

_T = TypeVar("_T")
_R = TypeVar("_R", bound=PaginatedResult, default=PaginatedResult)


@final
class PageIterator(AsyncIterator[_R], Generic[_R]):
    """Iterates over the pages of a list, as the whole results they are. Made by `Pages.pages`.

    Raises:
        RemoteProtocolError: The server repeats a cursor, which would never end, or has too many pages.
    """

    def __init__(
        self,
        fetch: Callable[[str | None], Awaitable[_R]],
        *,
        what: str,
        cursor: str | None,
        max_pages: int,
    ) -> None:
        self._fetch = fetch
        self._what = what
        self._max_pages = max_pages
        self._cursor = cursor
        # Hashes, because cursors may be as long as a message.
        self._seen: set[int] = set() if cursor is None else {hash(cursor)}
        self._pages = 0
        self._at_end = False

    async def __anext__(self) -> _R:
        await trio.lowlevel.checkpoint()
        if self._at_end:
            raise StopAsyncIteration
        if self._pages >= self._max_pages:
            raise RemoteProtocolError(f"{self._what}: more than {self._max_pages} pages (max_pages)")
        page = await self._fetch(self._cursor)
        self._pages += 1
        cursor = page.next_cursor
        if cursor is None:
            self._at_end = True
        elif hash(cursor) in self._seen:
            raise RemoteProtocolError(f"{self._what}: the server repeats the cursor {cursor[:40]!r}")
        else:
            self._seen.add(hash(cursor))
        self._cursor = cursor
        return page


@final
class Pages(AsyncIterator[_T], Generic[_T, _R]):
    """Iterates over the items of a list and follows its cursors, asking for a page when it is needed.

    ``async for tool in client.list_tools()``, or all of them at once: ``await client.list_tools()``. Nothing has
    to be closed: between two items nothing is going on. Items that cannot be read are left out, and the log says
    so; the others are none the worse for them.

    Args:
        fetch: Asks for the page at a cursor; `None` is the first.
        items: Takes the items out of a page.
        what: What is listed, for errors.
        cursor: Where to begin: the `next_cursor` of a page that was read before.
        max_pages: After so many pages a server that goes on is taken to be broken.
        weight: Returns what the pages that `fetch` has returned for this list take in memory together.
        max_bytes: What they may take if they are read in one go.

    Raises:
        RemoteProtocolError: The server repeats a cursor, which would never end, or has too many pages.

    Spec: 2026-07-28, server/utilities/pagination.
    """

    def __init__(
        self,
        fetch: Callable[[str | None], Awaitable[_R]],
        items: Callable[[_R], Sequence[_T]],
        *,
        what: str,
        cursor: str | None = None,
        max_pages: int = 10_000,
        weight: Callable[[], int] = lambda: 0,
        max_bytes: int = Limits().max_decoded_bytes,
    ) -> None:
        self._start: Callable[[], PageIterator[_R]] = lambda: PageIterator(
            fetch, what=what, cursor=cursor, max_pages=max_pages
        )
        self._items_of = items
        self._pages = self._start()
        self._items: deque[_T] = deque()
        self._what = what
        self._weight = weight
        self._max_bytes = max_bytes

    async def __anext__(self) -> _T:
        await trio.lowlevel.checkpoint()
        while not self._items:
            self._items.extend(self._items_of(await anext(self._pages)))
        return self._items.popleft()

    def __await__(self) -> Generator[Any, None, list[_T]]:
        """Read what is left of the list: ``tools = await client.list_tools()``."""
        return self._all().__await__()

    async def _all(self) -> list[_T]:
        before = self._weight()
        items: list[_T] = []
        async for item in self:
            items.append(item)
            if not self._items and self._weight() - before > self._max_bytes:
                raise RemoteProtocolError(
                    f"{self._what}: read in one go, the list takes more than {self._max_bytes} bytes in memory "
                    "(max_decoded_bytes); its items can be iterated over"
                )
        return items

    def pages(self) -> PageIterator[_R]:
        """Iterate over whole pages instead, from the beginning, whatever was read of the items.

        ``page = await anext(client.list_tools().pages())`` is the first; a list that begins at its `next_cursor`
        goes on from there, in this program or in another.
        """
        return self._start()
