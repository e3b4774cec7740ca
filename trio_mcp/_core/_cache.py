"""What a client keeps of results: which, for how long, and for whom; and which arguments go into header fields.

No I/O, no Trio, no clock.

Spec: 2026-07-28, server/utilities/caching; basic/transports/streamable-http, "Schema Extension".
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import attrs

from .._codec import _json
from .._codec._json import is_array, is_object
from ..types import CacheScope
from ._changes import (
    Change,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    Resynced,
    ToolsListChanged,
    covers,
)
from ._http1 import HeaderMark, InvalidMarks, header_marks

CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        # The extension for skills, "Listing Skills" and "Getting a Skill".
        "skills/list",
        "skills/get",
    }
)
"""The methods whose results declare how long they are fresh ("Cacheable Results")."""

_OUTDATES: Final[Mapping[type, tuple[str, ...]]] = MappingProxyType(
    {
        ToolsListChanged: ("tools/list",),
        PromptsListChanged: ("prompts/list",),
        ResourcesListChanged: ("resources/list", "resources/templates/list", "skills/list", "skills/get"),
    }
)


@final
@attrs.frozen
class CacheKey:
    """The request that a kept result answers.

    Attributes:
        context: What else the result depends on: the server, the revision, the capabilities of the client.
        method: The method.
        params: The parameters that affect the result, in one spelling.
        uri: The resource, if one is read.
    """

    context: Hashable
    method: str
    params: bytes
    uri: str | None = None


def cache_key(context: Hashable, method: str, params: Mapping[str, Any]) -> CacheKey | None:
    """Return the key of a request's result, or `None` if that must not be kept.

    It must not if it depends on the client's responses to input requests of the server ("Cache Key").
    """
    if method not in CACHEABLE or "inputResponses" in params or "requestState" in params:
        return None
    relevant = {name: params[name] for name in sorted(params) if name != "_meta"}
    uri = relevant.get("uri")
    return CacheKey(context, method, _json.encode(relevant), uri if isinstance(uri, str) else None)


_Place: TypeAlias = tuple[CacheKey, Hashable]
"""The request, and the owner of its result; `None` for a public one."""


@final
@attrs.frozen
class _Entry:
    value: object
    size: int
    fresh_until: float


@final
@attrs.define(eq=False)
class CacheStore:
    """Results that are kept while they are fresh: the most recently used ones, up to a number and a size.

    A private result is found by its own partition only, a public one by all.

    Args:
        max_entries: How many there may be.
        max_bytes: The size of all together, in bytes.

    Attributes:
        size: The size of all kept results together, in bytes.
    """

    _max_entries: int
    _max_bytes: int
    size: int = attrs.field(default=0, init=False)
    _entries: OrderedDict[_Place, _Entry] = attrs.field(factory=OrderedDict[_Place, _Entry], init=False)
    _outdated: Counter[str] = attrs.field(factory=Counter[str], init=False)

    def __len__(self) -> int:
        return len(self._entries)

    def stamp(self, method: str) -> int:
        """Return a number that changes whenever results of the method become outdated.

        A result whose request was sent before such a change, and answered after it, may be outdated as well.
        """
        return self._outdated[method]

    def get(self, key: CacheKey, partition: Hashable, now: float) -> object | None:
        """Return the kept result, if it is fresh."""
        for place in ((key, partition), (key, None)):
            entry = self._entries.get(place)
            if entry is None:
                continue
            if now < entry.fresh_until:
                self._entries.move_to_end(place)
                return entry.value
            self._drop(place)
        return None

    def put(
        self,
        key: CacheKey,
        partition: Hashable,
        value: object,
        *,
        size: int,
        scope: CacheScope,
        ttl: float,
        now: float,
    ) -> None:
        """Keep a result, instead of that which was kept before; if it is not fresh for any time, keep neither.

        Args:
            key: The request that it answers.
            partition: The owner of a private result. Never `None`.
            value: The result.
            size: Its size in bytes.
            scope: Whether it is private.
            ttl: For how many seconds it is fresh.
            now: When it was received, in seconds.
        """
        self._drop((key, partition))
        self._drop((key, None))
        if ttl <= 0 or size > self._max_bytes:
            return
        self._entries[key, None if scope == "public" else partition] = _Entry(value, size, now + ttl)
        self.size += size
        while len(self._entries) > self._max_entries or self.size > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def outdate(self, change: Change) -> None:
        """Forget the results that a change has made outdated ("Interaction with Notifications")."""
        if isinstance(change, Resynced):
            self.clear()
            return
        if isinstance(change, ResourceUpdated):
            self.outdate_method("resources/read", lambda key: _is_part(key.uri, change.uri))
            return
        for method in _OUTDATES.get(type(change), ()):
            self.outdate_method(method)

    def outdate_method(self, method: str, matches: Callable[[CacheKey], bool] = lambda _: True) -> None:
        """Forget the results of a method, or those of them that match."""
        self._outdated[method] += 1
        for place in [place for place in self._entries if place[0].method == method and matches(place[0])]:
            self._drop(place)

    def clear(self) -> None:
        """Forget everything."""
        self._outdated.update(CACHEABLE)  # counts each of them
        self._entries.clear()
        self.size = 0

    def _drop(self, place: _Place) -> None:
        entry = self._entries.pop(place, None)
        if entry is not None:
            self.size -= entry.size


def _is_part(kept: str | None, changed: str) -> bool:
    """Whether a kept resource is the changed one, contains it, or is a part of it."""
    return kept is not None and (covers(kept, changed) or covers(changed, kept))


# Which arguments of a tool are repeated in header fields, as `tools/list` says.

MAX_TOOLS: Final = 10_000
"""Tools with marks that are remembered; those that were seen first are forgotten first."""

MAX_MARK_BYTES: Final = 8 * 1024 * 1024
"""What their marks may take in memory: a server writes their names, which may be as long as a message."""

TEXT_BYTES: Final = 128
"""Bytes that a string takes in memory besides its characters, with its entry in a container."""


@final
class MarkedTools:
    """The marks of the tools that a client has seen in `tools/list`.

    Args:
        max_bytes: What they may take in memory; the tools that were seen first are forgotten first.
    """

    def __init__(self, max_bytes: int = MAX_MARK_BYTES) -> None:
        self._max_bytes = max_bytes
        self._marks: dict[str, tuple[HeaderMark, ...]] = {}
        self._bytes = 0

    def marks_of(self, method: str, params: Mapping[str, Any] | None) -> tuple[HeaderMark, ...]:
        """Return the marks that a request must mirror; none for a tool that was never listed."""
        name = params.get("name") if method == "tools/call" and params is not None else None
        return self._marks.get(name, ()) if isinstance(name, str) else ()

    def learn(self, result: dict[str, Any]) -> list[str]:
        """Remember the marks in a result of `tools/list`, and remove the tools from it whose marks break a rule.

        Returns:
            One sentence for each tool that was removed, with the reason.
        """
        tools = result.get("tools")
        if not is_array(tools):
            return []
        problems: list[str] = []
        kept: list[Any] = []
        for tool in tools:
            name = tool.get("name") if is_object(tool) else None
            schema = tool.get("inputSchema") if is_object(tool) else None
            if isinstance(name, str) and is_object(schema):
                try:
                    self._remember(name, header_marks(schema))
                except InvalidMarks as error:
                    self._forget(name)
                    problems.append(f"tool {name!r} cannot be used over HTTP: {error}")
                    continue
            kept.append(tool)
        if problems:
            result["tools"] = kept
        return problems

    def _remember(self, name: str, marks: tuple[HeaderMark, ...]) -> None:
        self._forget(name)
        if marks:
            self._marks[name] = marks
            self._bytes += _weight(name, marks)
            while len(self._marks) > MAX_TOOLS or self._bytes > self._max_bytes:
                self._forget(next(iter(self._marks)))

    def _forget(self, name: str) -> None:
        marks = self._marks.pop(name, None)
        if marks is not None:
            self._bytes -= _weight(name, marks)


def _weight(name: str, marks: tuple[HeaderMark, ...]) -> int:
    """Return what the marks of a tool take in memory at most: four bytes for each character, and the objects."""
    texts = [name, *(text for mark in marks for text in (mark.header, *mark.path))]
    return TEXT_BYTES * (1 + len(texts) + len(marks)) + 4 * sum(map(len, texts))
