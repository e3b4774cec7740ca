"""What a client caches of its server: results that are fresh, and the output schemas of tools.

`ResponseCache` may be shared by several clients of a program. The rules of freshness are in `_core/_cache`.

Spec: 2026-07-28, server/utilities/caching; 2025-06-18 and later, server/tools, "Structured Content" and "Output
Schema".
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, final

import attrs
import trio

from .._codec import _json
from .._codec._jsonrpc import to_wire
from .._core._cache import CacheKey, CacheStore, cache_key
from .._core._changes import Change, ToolsListChanged
from .._errors import INVALID_PARAMS, RemoteProtocolError, RequestError, ToolError
from .._limits import KIB, MIB, Limits, check_whole
from .._logs import Log
from .._revisions import LATEST, Revision
from .._schema import InvalidValue, JsonType
from .._schema._schema_cost import UnusableSchema
from .._schema._validator import SchemaValidator
from ..types import CacheableResult, CallToolResult, ClientCapabilities, RequestParams, TaskSupport, Tool
from ._connection import Connection

_log: Final = Log("trio_mcp.client")

# Fresh results.

MAX_ENTRIES: Final = 1_000
"""Results that a cache keeps if nobody says how many: what they weigh is bounded besides (`max_cache_bytes`)."""

MAX_TTL: Final = 86_400.0
"""Seconds for which a result is fresh at most, even if the server allows longer: its list may be outdated."""

ENTRY_BYTES: Final = 1024
"""Bytes that an entry of the cache takes beside its result and key."""

MAX_NAME: Final = 1024
"""Letters of a server's name and version, which are in every key; with longer ones nothing is cached."""


@final
@attrs.frozen
class CacheStatistics:
    """Counters of a `ResponseCache`.

    Attributes:
        entries: Cached results.
        bytes: What they take in memory together.
        hits: Requests that were answered from the cache.
        misses: Cacheable requests that were sent to a server.
    """

    entries: int
    bytes: int
    hits: int
    misses: int


@final
class ResponseCache:
    """Keeps results while they are fresh. By default every client makes one for itself.

    Clients of the same program that are given one cache share the results that servers call ``public``. Those
    that are ``private`` are shared only by clients with the same ``cache_partition``. Results are kept apart by
    server (its URL, the parameters of its process, or the object, and its name and version), by revision and by
    the client's capabilities. A change that one client is notified of outdates results for all.

    Args:
        max_entries: How many results are kept; the least recently used are dropped first.
        max_bytes: How many bytes they may take in memory together.

    Raises:
        TypeError: A bound is not a whole number.
        ValueError: A bound is less than 1.

    Spec: 2026-07-28, server/utilities/caching.
    """

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_bytes: int = Limits().max_cache_bytes) -> None:
        for name, value in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            check_whole(name, value)
        self._store = CacheStore(max_entries, max_bytes)
        self._run: trio.lowlevel.TrioToken | None = None
        self._hits = 0
        self._misses = 0

    def clear(self) -> None:
        """Forget everything."""
        self._store.clear()

    def statistics(self) -> CacheStatistics:
        """Return counters, for tests and debugging."""
        return CacheStatistics(len(self._store), self._store.size, self._hits, self._misses)

    def store(self) -> CacheStore:
        """Return the entries, for clients. None outlives a run of Trio: each run has another clock."""
        run = trio.lowlevel.current_trio_token()
        if run is not self._run:
            self._run = run
            self._store.clear()
        return self._store

    def count(self, *, is_hit: bool) -> None:
        """Count a cacheable request."""
        if is_hit:
            self._hits += 1
        else:
            self._misses += 1


@final
@attrs.frozen
class Pending:
    """A request whose result may be cached.

    Attributes:
        key: The key of the result.
        stamp: The stamp of the method when the request was made; a change since then outdates the result.
    """

    key: CacheKey
    stamp: int


@final
@attrs.frozen
class Kept:
    """A cached result.

    Attributes:
        result: The result.
        weight: What it takes in memory.
    """

    result: object
    weight: int


def is_fresh(result: object) -> bool:
    """Whether a result that has just been received may be cached for any time."""
    return isinstance(result, CacheableResult) and result.result_type == "complete" and result.ttl_ms > 0


def _partition_of(partition: str | None) -> Hashable:
    return object() if partition is None else partition


@final
@attrs.define(eq=False)
class ResultCache:
    """The part of a `ResponseCache` that one client uses.

    Args:
        cache: The cache; `None` for none.
        partition: Who may share private results; this client alone if it is `None`.
        server: A key that is equal for other clients of the same server.
        capabilities: The capabilities that the client declares, as JSON: results may depend on them.
        max_ttl: How many seconds a result is fresh at most.
    """

    _cache: ResponseCache | None
    _partition: Hashable = attrs.field(converter=_partition_of)
    _server: Hashable
    _capabilities: bytes
    _max_ttl: float = MAX_TTL

    def pending(self, connection: Connection, method: str, params: RequestParams) -> Pending | None:
        """Return what `find` and `keep` need; `None` if the result must not be cached."""
        if self._cache is None or not connection.revision.is_modern:
            return None
        info = connection.server_info  # the server at a URL may be replaced
        if info is not None and len(info.name) + len(info.version) > MAX_NAME:
            return None
        server = self._server, None if info is None else (info.name, info.version)
        key = cache_key((server, connection.revision, self._capabilities), method, connection.write(params))
        return None if key is None else Pending(key, self._cache.store().stamp(method))

    def find(self, pending: Pending) -> Kept | None:
        """Return the cached result, if there is one that is fresh."""
        assert self._cache is not None, "there would be nothing pending"
        found = self._cache.store().get(pending.key, self._partition, trio.current_time())
        self._cache.count(is_hit=found is not None)
        return found if isinstance(found, Kept) else None

    def keep(self, pending: Pending, result: object, weight: int) -> None:
        """Cache a result that has just been received, if the server allows it and no change has outdated it.

        Args:
            pending: The request.
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

    def find_file(self, uri: str, digest: str) -> object | None:
        """Return a file of a skill that was kept under its digest."""
        if self._cache is None:
            return None
        found = self._cache.store().get(self._key_of_file(uri, digest), self._partition, trio.current_time())
        self._cache.count(is_hit=found is not None)
        return found

    def keep_file(self, uri: str, digest: str, file: object, size: int) -> None:
        """Keep a file of a skill that was verified. Under its digest it never becomes outdated."""
        if self._cache is not None:
            weight = size + ENTRY_BYTES + 4 * (len(uri) + len(digest))
            place, now = self._key_of_file(uri, digest), trio.current_time()
            self._cache.store().put(
                place, self._partition, file, size=weight, scope="private", ttl=math.inf, now=now
            )

    def _key_of_file(self, uri: str, digest: str) -> CacheKey:
        return CacheKey(self._server, "skills/file", digest.encode(), uri)

    def refused(self, pending: Pending, error: RequestError, cursor: object) -> None:
        """Outdate all pages of a list if the request was refused because of its cursor."""
        if self._cache is not None and cursor is not None and error.code == INVALID_PARAMS:
            self._cache.store().outdate_method(pending.key.method)

    def forget(self, change: Change | None) -> None:
        """Drop what a change has outdated; everything if it is `None`."""
        if self._cache is None:
            return
        if change is None:
            self._cache.store().clear()
        else:
            self._cache.store().outdate(change)


# Output schemas.

_KNOWN_BYTES: Final = 512
"""Bytes that a known schema takes in memory beside its JSON and the name of its tool."""

_MOST_BYTES_OF_LETTER: Final = 4

_COMPILED_BYTES: Final = 16 * 1024
"""Bytes that the smallest compiled schema takes: a wide estimate, because validators do not report it."""

_COMPILED_BYTE: Final = 32
"""Bytes that each byte of a schema takes once it is compiled, likewise."""

MAX_KNOWN_TOOLS: Final = 10_000
"""Tools whose output schema is remembered; those listed longest ago are forgotten."""

MAX_KNOWN_NAME: Final = 1_000
"""Characters of the name of a tool of which it is remembered whether its calls may be tasks; 128 are allowed."""

MAX_SCHEMA_BYTES: Final = 256 * KIB
"""The largest schema that results are checked against, as JSON: servers write them, and they cost time."""

MAX_OUTPUTS_BYTES: Final = 32 * MIB
"""What all of them may take in memory."""

FIRST_WITH_SCHEMAS: Final = Revision.V2025_06_18


@final
@attrs.define(eq=False)
class _OutputSchema:
    """The output schema of a tool.

    Attributes:
        schema: As it was listed, as JSON, which takes a tenth of the memory; `None` if it is far too large.
        validator: The same compiled, once it was needed and if it can be used.
        is_reported: Whether it was logged that it cannot be used.
    """

    schema: bytes | None
    validator: SchemaValidator | None = None
    is_reported: bool = False


@final
@attrs.define(eq=False)
class OutputChecks:
    """The output schemas of the tools that a client has listed.

    Args:
        max_tools: How many are remembered; those listed longest ago are forgotten.
        max_schema_bytes: How large a schema may be.
        max_bytes: How many bytes all of it may take in memory. One half is for the schemas, of which those listed
            longest ago are forgotten; one for the compiled ones, of which the least recently used are dropped and
            compiled again when needed.

    Attributes:
        stamp: A number that changes whenever the tools may have changed.
    """

    _max_tools: int = attrs.field(alias="max_tools", default=MAX_KNOWN_TOOLS)
    _max_schema_bytes: int = attrs.field(alias="max_schema_bytes", default=MAX_SCHEMA_BYTES)
    _max_bytes: int = attrs.field(alias="max_bytes", default=MAX_OUTPUTS_BYTES)
    stamp: int = attrs.field(default=0, init=False)
    _known: OrderedDict[str, _OutputSchema] = attrs.field(factory=OrderedDict[str, _OutputSchema], init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _compiled: OrderedDict[_OutputSchema, int] = attrs.field(factory=OrderedDict[_OutputSchema, int], init=False)
    _compiled_bytes: int = attrs.field(default=0, init=False)

    def learn(self, tools: Iterable[Tool], revision: Revision, stamp: int) -> None:
        """Remember the output schemas of listed tools.

        Args:
            tools: The tools.
            revision: The revision that is spoken; older ones have no output schemas.
            stamp: The value of `stamp` when they were requested.
        """
        if revision < FIRST_WITH_SCHEMAS or stamp != self.stamp:
            return
        for tool in tools:
            known = self._known.pop(tool.name, None)
            if known is not None:
                self._bytes -= _weight(tool.name, known)
            listed = None if tool.output_schema is None else _OutputSchema(self._as_json(tool.output_schema))
            if known is not None and listed is not None and known.schema == listed.schema:
                listed = known
            elif known is not None:
                self._drop_compiled(known)
            if listed is not None:
                self._known[tool.name] = listed
                self._bytes += _weight(tool.name, listed)
        while len(self._known) > self._max_tools or self._bytes > self._max_bytes // 2:
            name, listed = self._known.popitem(last=False)
            self._bytes -= _weight(name, listed)
            self._drop_compiled(listed)

    def _as_json(self, schema: Mapping[str, Any]) -> bytes | None:
        try:
            data = _json.encode(schema)
        except (ValueError, RecursionError):  # it nests deeper than any that can be used
            return None
        # The server may have written it in fewer bytes than this, but not in a fourth of them.
        return data if len(data) <= _MOST_BYTES_OF_LETTER * self._max_schema_bytes else None

    def forget(self) -> None:
        """Forget everything: the tools may have changed."""
        self.stamp += 1
        self._known.clear()
        self._compiled.clear()
        self._bytes = self._compiled_bytes = 0

    def check(self, name: str, result: CallToolResult) -> None:
        """Check the structured output of a tool against its output schema, if that is known.

        A schema that cannot be used checks nothing, which is logged once.

        Raises:
            RemoteProtocolError: The output is missing, or breaks the schema.
        """
        listed = self._known.get(name)
        if listed is None or result.is_error:
            return
        if not result.has_structured_content:
            raise RemoteProtocolError(
                f"tool {name}: the result has no structuredContent, although the tool has an output schema"
            )
        try:
            validator = self._validator_of(listed)
            if validator is not None:
                validator.check(result.structured_content)
        except UnusableSchema as error:
            if not listed.is_reported:
                listed.is_reported = True
                _log.warning("results of tool %s are not checked against its output schema: %s", name, error)
        except InvalidValue as error:
            raise RemoteProtocolError(f"tool {name}: the result breaks its output schema: {error}") from error

    def _validator_of(self, listed: _OutputSchema) -> SchemaValidator | None:
        if listed.validator is not None:
            self._compiled.move_to_end(listed)
        elif not listed.is_reported:
            if listed.schema is None:
                raise UnusableSchema(f"it is larger than {self._max_schema_bytes} bytes, or nests too deep")
            schema = _json.decode(listed.schema)
            listed.validator = SchemaValidator(schema, max_bytes=self._max_schema_bytes)
            self._compiled[listed] = size = _COMPILED_BYTES + _COMPILED_BYTE * len(listed.schema)
            self._compiled_bytes += size
            while self._compiled_bytes > self._max_bytes // 2 and len(self._compiled) > 1:
                self._drop_compiled(next(iter(self._compiled)))
        return listed.validator

    def _drop_compiled(self, listed: _OutputSchema) -> None:
        self._compiled_bytes -= self._compiled.pop(listed, 0)
        listed.validator = None


def _weight(name: str, listed: _OutputSchema) -> int:
    return _KNOWN_BYTES + _MOST_BYTES_OF_LETTER * len(name) + len(listed.schema or b"")


def read_output(name: str, result: CallToolResult, kind: JsonType) -> Any:
    """Read the output of a tool as a Python type.

    That is its structured content; or the member `result` of it, where that alone is of the type: older revisions
    have objects only, so other values are wrapped. Without structured content, as in revisions before
    2025-06-18, it is the tool's text: as it is for `str`, else read as JSON; no content at all is `None`.

    Args:
        name: The tool.
        result: Its result.
        kind: The type, from `output_type`.

    Raises:
        ToolError: The tool failed; the message is its text.
        RemoteProtocolError: The output is not of the type.
    """
    if result.is_error:
        raise ToolError(result.text or f"tool {name} failed without a message")
    value = _value_of(result, kind)
    try:
        try:
            return kind.decode(value)
        except InvalidValue:
            if not (_json.is_object(value) and value.keys() == {"result"}):
                raise
        return kind.decode(value["result"])
    except InvalidValue as error:
        raise RemoteProtocolError(f"tool {name}: the result is not of the type `returns`: {error}") from error


def output_type(hint: Any) -> JsonType:
    """Compile a type that results are read as; the most recently used types stay compiled.

    Raises:
        TypeError: It has no form in JSON.
    """
    try:
        return _compiled_type(hint) if isinstance(hint, Hashable) else JsonType(hint, direction="output")
    except TypeError as error:
        raise TypeError(f"returns: {error}") from None


@functools.lru_cache(maxsize=256)
def _compiled_type(hint: Any) -> JsonType:
    return JsonType(hint, direction="output")


def _value_of(result: CallToolResult, kind: JsonType) -> object:
    if result.has_structured_content:
        return result.structured_content
    text = result.text
    if kind.schema.get("type") == "string":
        return text
    if not text and (not result.content or kind.schema.get("type") == "null"):
        return None
    try:
        return _json.decode(text.encode())
    except (ValueError, RecursionError):
        return text


# Both.


@final
class ClientCaches:
    """What a client caches, for as long as it lives.

    Args:
        cache: Where results are cached; `None` for nowhere.
        partition: Who may share private results; this client alone if it is `None`.
        capabilities: The capabilities that the client declares.
        server: A key that is equal for other clients of the same server; see `identity_of`.

    Attributes:
        results: The cached results.
        outputs: The output schemas of tools.
        task_support: Whether calls of tools may, or must, be tasks, as far as servers of 2025-11-25 have said so.
    """

    def __init__(
        self,
        cache: ResponseCache | None,
        partition: str | None,
        capabilities: ClientCapabilities,
        server: Hashable = None,
    ) -> None:
        declared = _json.encode(to_wire(capabilities, LATEST))
        self.results: Final = ResultCache(cache, partition, server, declared)
        self.outputs: Final = OutputChecks()
        self.task_support: Final[dict[str, TaskSupport]] = {}

    def learn(self, tools: Iterable[Tool], revision: Revision, stamp: int) -> None:
        """Remember what is to be known of listed tools when they are called; see `OutputChecks.learn`."""
        if stamp == self.outputs.stamp:
            for tool in tools:
                self.task_support.pop(tool.name, None)
                support = None if tool.execution is None else tool.execution.task_support
                is_kept = len(self.task_support) < MAX_KNOWN_TOOLS and len(tool.name) <= MAX_KNOWN_NAME
                if support is not None and support != "forbidden" and is_kept:
                    self.task_support[tool.name] = support
        self.outputs.learn(tools, revision, stamp)

    def forget(self, change: Change | None) -> None:
        """Drop what a change has outdated; everything if it is `None`."""
        self.results.forget(change)
        if change is None or isinstance(change, ToolsListChanged):
            self.outputs.forget()
            self.task_support.clear()
