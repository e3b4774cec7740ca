"""Results that a client keeps while the server says that they are fresh.

Spec: 2026-07-28, server/utilities/caching.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

import attrs
import trio

from .._core._cache import CacheKey, CacheStore, cache_key
from .._core._changes import Change
from .._errors import INVALID_PARAMS, RequestError
from .._limits import Limits, check_whole
from ..types import CacheableResult, RequestParams
from ._connection import Connection

__all__ = ["CacheStatistics", "ClientCache", "Kept", "Pending", "ResponseCache", "is_fresh"]

ENTRY_BYTES: Final = 1024
"""What keeping a result takes beside it: its place, and what it is found by."""

MAX_NAME: Final = 1024
"""Letters of a server's name and version: what more says of itself is not kept, which would be kept with it."""


@final
@attrs.frozen
class CacheStatistics:
    """What a `ResponseCache` holds and was good for.

    Attributes:
        entries: Results that are kept.
        bytes: What they take in memory together.
        hits: Requests that were spared.
        misses: Requests of the kind that can be spared, and were not.
    """

    entries: int
    bytes: int
    hits: int
    misses: int


@final
class ResponseCache:
    """Keeps results while they are fresh. Every client has one of its own, unless it is handed one.

    Hand one to several clients of the same program and they share what servers call ``public``. What is
    ``private`` is shared by clients that are given the same ``cache_partition`` only. Results are kept apart by
    server (its URL, how its process is started, or the object it is, and what it says it is), by revision and by
    the client's capabilities. A change that one of the clients hears of is one for all.

    Args:
        max_entries: How many results are kept; the least recently used go first.
        max_bytes: What they may take in memory together.

    Raises:
        TypeError: A bound is no whole number.
        ValueError: A bound is less than 1.

    Spec: 2026-07-28, server/utilities/caching.
    """

    def __init__(
        self,
        *,
        max_entries: int = Limits().max_cache_entries,
        max_bytes: int = Limits().max_cache_bytes,
    ) -> None:
        for name, value in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            check_whole(name, value)
        self._store = CacheStore(max_entries, max_bytes)
        self._run: trio.lowlevel.TrioToken | None = None
        self._hits = 0
        self._misses = 0

    @classmethod
    def within(cls, limits: Limits) -> ResponseCache:
        """Return a new one that is bounded as `limits` say."""
        return cls(max_entries=limits.max_cache_entries, max_bytes=limits.max_cache_bytes)

    def clear(self) -> None:
        """Forget everything."""
        self._store.clear()

    def statistics(self) -> CacheStatistics:
        """Return counters, for tests and debugging."""
        return CacheStatistics(len(self._store), self._store.size, self._hits, self._misses)

    def store(self) -> CacheStore:
        """Return what is kept, for clients. Nothing outlives a run of Trio: each has a clock of its own."""
        run = trio.lowlevel.current_trio_token()
        if run is not self._run:
            self._run = run
            self._store.clear()
        return self._store

    def count(self, *, is_hit: bool) -> None:
        """Count a request that was spared, or was not."""
        if is_hit:
            self._hits += 1
        else:
            self._misses += 1


@final
@attrs.frozen
class Pending:
    """A request that is about to be made, and whose result may be kept.

    Attributes:
        key: What the result will be kept under.
        stamp: What it must be compared with when the result is there.
    """

    key: CacheKey
    stamp: int


@final
@attrs.frozen
class Kept:
    """A result that is kept.

    Attributes:
        result: The result.
        weight: What it takes in memory.
    """

    result: object
    weight: int


def is_fresh(result: object) -> bool:
    """Whether a result that has just been received says that it may be kept for any time."""
    return isinstance(result, CacheableResult) and result.result_type == "complete" and result.ttl_ms > 0


@final
class ClientCache:
    """What one client keeps, and finds.

    Args:
        cache: Where; `None` to keep nothing.
        partition: Whom the private results belong to. Nobody but this client, if it is `None`.
        server: What makes the server the same as another client's.
        capabilities: What the client says it can do, as JSON. A server may answer accordingly.
        max_ttl: For how many seconds anything is fresh at most.
    """

    def __init__(
        self,
        cache: ResponseCache | None,
        partition: str | None,
        server: Hashable,
        capabilities: bytes,
        max_ttl: float,
    ) -> None:
        self._cache = cache
        self._server = server
        self._partition: Final[Hashable] = object() if partition is None else partition
        self._capabilities = capabilities
        self._max_ttl = max_ttl

    def pending(self, connection: Connection, method: str, params: RequestParams) -> Pending | None:
        """Return what is to be handed to `find` and `keep`; nothing, if the result must not be kept."""
        if self._cache is None or not connection.revision.is_modern:
            return None
        said = connection.server_info  # what is at a URL may be replaced
        if said is not None and len(said.name) + len(said.version) > MAX_NAME:
            return None
        server = self._server, None if said is None else (said.name, said.version)
        key = cache_key((server, connection.revision, self._capabilities), method, connection.write(params))
        return None if key is None else Pending(key, self._cache.store().stamp(method))

    def find(self, pending: Pending) -> Kept | None:
        """Return the result that is kept, if it is fresh."""
        assert self._cache is not None, "there would be nothing pending"
        found = self._cache.store().get(pending.key, self._partition, trio.current_time())
        self._cache.count(is_hit=found is not None)
        return found if isinstance(found, Kept) else None

    def keep(self, pending: Pending, result: object, weight: int) -> None:
        """Keep a result that has just been received, if it says so and nothing has outdated it meanwhile.

        Args:
            pending: What was asked.
            result: The result.
            weight: What it takes in memory.
        """
        if self._cache is None or not isinstance(result, CacheableResult) or result.result_type != "complete":
            return
        store = self._cache.store()
        if store.stamp(pending.key.method) == pending.stamp:
            # Compared before it is divided: no float holds every number of milliseconds that a server can write.
            ttl = self._max_ttl if result.ttl_ms > self._max_ttl * 1000 else result.ttl_ms / 1000
            store.put(
                pending.key,
                self._partition,
                Kept(result, weight),
                size=weight + ENTRY_BYTES + 2 * len(pending.key.params),
                scope=result.cache_scope,
                ttl=ttl,
                now=trio.current_time(),
            )

    def refused(self, pending: Pending, error: RequestError, cursor: object) -> None:
        """A request was refused; a bad cursor says that all pages of the list are outdated."""
        if self._cache is not None and cursor is not None and error.code == INVALID_PARAMS:
            self._cache.store().outdate_method(pending.key.method)

    def forget(self, change: Change | None) -> None:
        """Forget what a change has made outdated, or everything."""
        if self._cache is None:
            return
        if change is None:
            self._cache.store().clear()
        else:
            self._cache.store().outdate(change)
