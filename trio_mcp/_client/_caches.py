"""What a client remembers of its server: results that are fresh, and what tools promise to give.

Results that a client keeps while the server says that they are fresh.

Spec: 2026-07-28, server/utilities/caching.

What a tool gave to programs: checked against what it promised, and read as a Python type.

Spec: 2025-06-18 and later, server/tools, "Structured Content" and "Output Schema".
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, final

import attrs
import trio

from .._absent import ABSENT
from .._codec import _json
from .._codec._convert import to_wire
from .._core._cache import CacheKey, CacheStore, cache_key
from .._core._changes import Change, ToolsListChanged
from .._errors import INVALID_PARAMS, RemoteProtocolError, RequestError, ToolError
from .._limits import Limits, check_whole
from .._logs import Log
from .._revisions import LATEST, Revision
from .._schema import InvalidValue, JsonType
from .._schema._schema_cost import UnusableSchema
from .._schema._validator import SchemaValidator
from ..types import CacheableResult, CallToolResult, ClientCapabilities, RequestParams, TextContent, Tool
from ._connection import Connection

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


_log: Final = Log("trio_mcp.client")

_PROMISE_BYTES: Final = 512
"""What a promise takes in memory beside its schema and its name."""

_MOST_BYTES_OF_LETTER: Final = 4

_COMPILED_BYTES: Final = 16 * 1024
"""What the smallest compiled schema takes, by a wide estimate: nobody tells."""

_COMPILED_BYTE: Final = 32
"""What each byte of a schema takes once it is compiled."""

FIRST_WITH_SCHEMAS: Final = Revision.V2025_06_18


@final
@attrs.define(eq=False)
class _Promise:
    """What a tool says about its structured output.

    Attributes:
        schema: As it was listed, as JSON, which takes a tenth of the memory; `None` if it is far too large.
        validator: The same compiled, when it was needed and if it can be used.
        is_reported: Whether it was logged that it cannot be used.
    """

    schema: bytes | None
    validator: SchemaValidator | None = None
    is_reported: bool = False


@final
class OutputChecks:
    """The output schemas of the tools that a client has listed.

    Args:
        max_tools: How many are remembered; those listed longest ago are forgotten.
        max_schema_bytes: How large a schema may be.
        max_bytes: What all of it may take in memory. One half is for the schemas, of which those listed longest
            ago are forgotten, and one for those that are compiled, of which those not needed for longest are
            compiled again when they are.
    """

    def __init__(self, max_tools: int, max_schema_bytes: int, max_bytes: int) -> None:
        self._max_tools = max_tools
        self._max_schema_bytes = max_schema_bytes
        self._max_bytes = max_bytes // 2
        self._promises: OrderedDict[str, _Promise] = OrderedDict()
        self._bytes = 0
        self._compiled: OrderedDict[_Promise, int] = OrderedDict()
        self._compiled_bytes = 0
        self._stamp = 0

    @property
    def stamp(self) -> int:
        """A number that changes whenever what was listed before may not be so any more."""
        return self._stamp

    def learn(self, tools: Iterable[Tool], revision: Revision, stamp: int) -> None:
        """Remember what listed tools promise.

        Args:
            tools: The tools.
            revision: What is spoken; older ones know no output schemas.
            stamp: What `stamp` was before they were asked for.
        """
        if revision < FIRST_WITH_SCHEMAS or stamp != self._stamp:
            return
        for tool in tools:
            known = self._promises.pop(tool.name, None)
            if known is not None:
                self._bytes -= _weight(tool.name, known)
            promise = None if tool.output_schema is None else _Promise(self._as_json(tool.output_schema))
            if known is not None and promise is not None and known.schema == promise.schema:
                promise = known
            elif known is not None:
                self._drop_compiled(known)
            if promise is not None:
                self._promises[tool.name] = promise
                self._bytes += _weight(tool.name, promise)
        while len(self._promises) > self._max_tools or self._bytes > self._max_bytes:
            name, promise = self._promises.popitem(last=False)
            self._bytes -= _weight(name, promise)
            self._drop_compiled(promise)

    def _as_json(self, schema: Mapping[str, Any]) -> bytes | None:
        try:
            data = _json.encode(schema)
        except (ValueError, RecursionError):  # which nests deeper than any that can be used
            return None
        # What its size is as JSON depends on who writes it, but not so much.
        return data if len(data) <= _MOST_BYTES_OF_LETTER * self._max_schema_bytes else None

    def forget(self) -> None:
        """Forget everything: the tools may have changed."""
        self._stamp += 1
        self._promises.clear()
        self._compiled.clear()
        self._bytes = self._compiled_bytes = 0

    def check(self, name: str, result: CallToolResult) -> None:
        """Check what a tool gave, if it is known what it promised.

        A schema that cannot be used checks nothing, which is logged once.

        Raises:
            RemoteProtocolError: It is not what was promised.
        """
        promise = self._promises.get(name)
        if promise is None or result.is_error:
            return
        if result.structured_content is ABSENT:
            raise RemoteProtocolError(
                f"tool {name}: it has an output schema, and its result no structuredContent"
            )
        try:
            validator = self._validator_of(promise)
            if validator is not None:
                validator.check(result.structured_content)
        except UnusableSchema as error:
            if not promise.is_reported:
                promise.is_reported = True
                _log.warning("results of tool %s are not checked against its output schema: %s", name, error)
        except InvalidValue as error:
            raise RemoteProtocolError(f"tool {name}: the result breaks its output schema: {error}") from error

    def _validator_of(self, promise: _Promise) -> SchemaValidator | None:
        if promise.validator is not None:
            self._compiled.move_to_end(promise)
        elif not promise.is_reported:
            if promise.schema is None:
                raise UnusableSchema(f"it is much larger than {self._max_schema_bytes} bytes, or nests too deep")
            schema = _json.decode(promise.schema)
            promise.validator = SchemaValidator(schema, max_bytes=self._max_schema_bytes)
            self._compiled[promise] = size = _COMPILED_BYTES + _COMPILED_BYTE * len(promise.schema)
            self._compiled_bytes += size
            while self._compiled_bytes > self._max_bytes and len(self._compiled) > 1:
                self._drop_compiled(next(iter(self._compiled)))
        return promise.validator

    def _drop_compiled(self, promise: _Promise) -> None:
        self._compiled_bytes -= self._compiled.pop(promise, 0)
        promise.validator = None


def _weight(name: str, promise: _Promise) -> int:
    return _PROMISE_BYTES + _MOST_BYTES_OF_LETTER * len(name) + len(promise.schema or b"")


def read_output(name: str, result: CallToolResult, kind: JsonType) -> Any:
    """Read what a tool gave as a Python type.

    That is its structured content; or the `result` in it, where that alone is of the type: it had to be wrapped,
    because older revisions know objects only. Where there is none, as in revisions before 2025-06-18, it is
    the tool's text: as it is for `str`, else read as JSON.

    Args:
        name: The tool.
        result: Its result.
        kind: The type, from `output_type`.

    Raises:
        ToolError: The tool failed, and says why.
        RemoteProtocolError: What it gave is not of the type.
    """
    if result.is_error:
        raise ToolError(_text_of(result) or f"tool {name} failed and does not say why")
    value = _value_of(result, kind)
    try:
        try:
            return kind.decode(value)
        except InvalidValue:
            if not (_json.is_object(value) and value.keys() == {"result"}):
                raise
        return kind.decode(value["result"])
    except InvalidValue as error:
        raise RemoteProtocolError(f"tool {name}: the result is not what `returns` says: {error}") from error


def output_type(hint: Any) -> JsonType:
    """Compile a type that results are read as; those used most recently stay compiled.

    Raises:
        TypeError: It has no form in JSON.
    """
    return _compiled_type(hint) if isinstance(hint, Hashable) else JsonType(hint, direction="output")


@functools.lru_cache(maxsize=256)
def _compiled_type(hint: Any) -> JsonType:
    return JsonType(hint, direction="output")


def _value_of(result: CallToolResult, kind: JsonType) -> object:
    if result.structured_content is not ABSENT:
        return result.structured_content
    text = _text_of(result)
    if kind.schema.get("type") == "string":
        return text
    try:
        return _json.decode(text.encode())
    except (ValueError, RecursionError):
        return text


def _text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@final
class ClientMemory:
    """What a client remembers, for as long as it lives.

    Args:
        cache: Where results are kept, if anywhere.
        partition: Whom the private ones belong to.
        capabilities: What the client says it can do.
        limits: How much is remembered.
        server: Which server it is, as far as its client knows; see `identity_of`.

    Attributes:
        cache: The results.
        outputs: What tools promise.
    """

    def __init__(
        self,
        cache: ResponseCache | None,
        partition: str | None,
        capabilities: ClientCapabilities,
        limits: Limits,
        server: Hashable = None,
    ) -> None:
        said = _json.encode(to_wire(capabilities, LATEST))
        self.cache: Final = ClientCache(cache, partition, server, said, limits.cache_timeout)
        self.outputs: Final = OutputChecks(
            limits.max_known_tools, limits.max_schema_bytes, limits.max_remembered_bytes // 2
        )

    def forget(self, change: Change | None) -> None:
        """Forget what a change has made outdated, or everything."""
        self.cache.forget(change)
        if change is None or isinstance(change, ToolsListChanged):
            self.outputs.forget()
