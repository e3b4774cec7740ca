"""The client: one server, asked from any task, over one connection after another if need be."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeVar, final, overload

import trio

from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._errors import RemoteProtocolError, RequestError
from .._limits import Limits
from .._peer._exchange import OnProgress
from .._peer._peer import PeerStatistics
from .._revisions import Revision
from ..types import (
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsResult,
    LoggingLevel,
    PaginatedRequestParams,
    RequestParams,
    ServerCapabilities,
    Tool,
)
from ._events import Events
from ._keeper import ConnectionKeeper
from ._listen import open_events, what_to_listen_to
from ._memory import ClientMemory
from ._outputs import output_type, read_output
from ._pages import Pages

__all__ = ["Client"]

_log: Final = logging.getLogger("trio_mcp.client")

_T = TypeVar("_T")


@final
class Client:
    """A client of one server. Made by `open_client` or `run_client`; any task may use it, and any may close it.

    Every call may be cancelled, and the server is told. Every call raises `ConnectionLost` when the connection is
    gone for good, and `trio.ClosedResourceError` when the client was closed.
    """

    def __init__(
        self, keeper: ConnectionKeeper, request_timeout: float, memory: ClientMemory, limits: Limits
    ) -> None:
        self._keeper = keeper
        self._memory = memory
        self._limits = limits
        self._request_timeout = request_timeout

    # What was agreed on.

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self._keeper.agreed.revision

    @property
    def server_info(self) -> Implementation | None:
        """What the server says it is, if it has said so. Nobody has checked it."""
        return self._keeper.agreed.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities | None:
        """What the server says it can do; `None` if it was not asked."""
        return self._keeper.agreed.capabilities

    @property
    def instructions(self) -> str | None:
        """How a model should use the server, if it says so."""
        return self._keeper.agreed.instructions

    def statistics(self) -> PeerStatistics:
        """Return the counters of the connection, for tests and debugging."""
        return self._keeper.agreed.peer.statistics()

    # Tools.

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: type[_T],
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> _T: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: Any,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Any: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: Any = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Any:
        """Call a tool.

        Args:
            name: The tool's name.
            arguments: Its arguments as plain JSON.
            returns: The type of what the tool gives to programs, which is then returned instead of the result:
                anything a tool can be annotated with. Members that it does not know are left out.
            on_progress: Called with each `Progress` the tool reports, in this task, all before this returns.
            meta: What to add to the request's `_meta`.

        Returns:
            The result, also one that is an error of the tool: look at `is_error`. With `returns`, a value of that
            type.

        Raises:
            RequestError: The server refuses the call, for instance because it has no such tool.
            RemoteProtocolError: The result is none, or breaks the output schema that the tool had when this
                client listed it, or is not of the type `returns`.
            ToolError: The tool failed, and there is `returns`.
            TypeError: `returns` has no form in JSON. Nothing was sent.

        Spec: 2026-07-28, server/tools, "Calling Tools".
        """
        # Some old servers refuse a call that leaves the arguments out, although it may.
        params = CallToolRequestParams(name=name, arguments=arguments or {}, meta=meta)
        kind = None if returns is None else output_type(returns)
        result = await self._ask("tools/call", params, CallToolResult, on_progress=on_progress)
        self._memory.outputs.check(name, result)
        return result if kind is None else read_output(name, result, kind)

    def list_tools(self, *, fresh: bool = False) -> Pages[Tool]:
        """Iterate over the server's tools: ``async for tool in client.list_tools()``.

        Args:
            fresh: Ask the server also for what is in the cache and fresh.

        Spec: 2026-07-28, server/tools, "Listing Tools"; server/utilities/caching.
        """

        async def fetch(cursor: str | None) -> tuple[Sequence[Tool], str | None]:
            stamp = self._memory.outputs.stamp
            params = PaginatedRequestParams(cursor=cursor)
            result = await self._ask_cacheable("tools/list", params, ListToolsResult, fresh=fresh)
            self._memory.outputs.learn(result.tools, self.revision, stamp)
            return result.tools, result.next_cursor

        return Pages(fetch, what="tools/list")

    # Changes.

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resources: Iterable[str] = (),
        max_events: int | None = None,
    ) -> AbstractAsyncContextManager[Events]:
        """Listen to changes: ``async with client.listen(...) as events: async for event in events``.

        The block begins when the server has agreed; ``events.acknowledged`` says to what. Events are
        `ToolsListChanged`, `PromptsListChanged`, `ResourcesListChanged`, `ResourceUpdated` and `Resynced`. The
        iteration ends when the server ends the subscription in an orderly way. When it is interrupted, because
        the connection is restored or the server lets go of it, the client subscribes again by itself, after a
        pause that grows, and says so with `Resynced`: fetch again what you know. A listener that is slow delays
        nobody.

        Leaving the block, or cancelling it, ends the subscription, and the server is told. In the legacy era that
        may take `Limits.goodbye_timeout`.

        Args:
            tools_list_changed: Whether to listen to changes of the list of tools.
            prompts_list_changed: Whether to listen to changes of the list of prompts.
            resources_list_changed: Whether to listen to changes of the lists of resources and templates.
            resources: The URIs of the resources to whose changes to listen.
            max_events: How many different changes may wait, at least 1; then iterating raises `Lagged`. Default:
                `Limits.max_events`.

        Raises:
            RequestError: The server refuses, or has no such thing.
            LocalProtocolError: The server, of the legacy era, has not declared that resources can be listened to.
            ValueError: There is nothing to listen to, or `max_events` is less than 1.
            TypeError: `resources` is one string.
            ConnectionLost: The connection was lost before the server agreed; or, from iterating, for good.
            trio.TooSlowError: ``request_timeout`` passed before the server agreed.

        Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
        """
        if max_events is None:
            max_events = self._limits.max_events
        if max_events < 1:
            raise ValueError(f"max_events must be at least 1, not {max_events!r}")
        wanted = what_to_listen_to(
            tools_list_changed=tools_list_changed,
            prompts_list_changed=prompts_list_changed,
            resources_list_changed=resources_list_changed,
            resources=resources,
        )
        entering = self._timeout("listening")
        return open_events(self._keeper, wanted, max_events, self._limits, entering)

    # Utilities.

    async def ping(self) -> None:
        """Find out whether the server answers. The modern era has no ping; discovery does as well."""
        connection = await self._keeper.connected()
        await self.request("server/discover" if connection.revision.is_modern else "ping")

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Ask for log messages of at least this severity, from now on; they go to ``on_log``.

        In the legacy era the server is told at once, in the modern era with each request.

        Spec: 2025-11-25, server/utilities/logging; 2026-07-28, server/utilities/logging.
        """
        await self._keeper.set_log_level(level)

    # The low level.

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send any request and wait for its result, both as plain JSON.

        The caller's deadline covers everything: waiting for a connection that is being restored, for room to
        write, writing, waiting. The server is told how much time is left.

        Args:
            method: The method, of the protocol or your own.
            params: Its parameters. What the revision demands in `_meta` is added.
            on_progress: Called with each `Progress` of this request, in this task, all before this returns.

        Raises:
            RequestError: The answer is an error.
            RemoteProtocolError: The answer cannot be used.
            LocalProtocolError: The revision in use has no such method, or the request is too large.
            ConnectionLost: The connection ended before the answer came.
            trio.TooSlowError: ``request_timeout`` passed.
            trio.ClosedResourceError: The client was closed.
        """
        with self._timeout(method):
            connection = await self._keeper.connected()
            connection.check(method)
            return await connection.peer.request(method, connection.with_meta(params), on_progress=on_progress)

    async def _ask(
        self, method: str, params: RequestParams, kind: type[_T], *, on_progress: OnProgress | None = None
    ) -> _T:
        """Send a typed request and return its typed result."""
        with self._timeout(method):
            connection = await self._keeper.connected()
            connection.check(method)
            result = await connection.peer.request(method, connection.write(params), on_progress=on_progress)
        return _read(method, result, kind)

    async def _ask_cacheable(
        self, method: str, params: RequestParams, kind: type[_T], *, fresh: bool = False
    ) -> _T:
        """Send a typed request, unless its result is kept and fresh, and return its typed result.

        Args:
            method: A method in `trio_mcp._core._cache.CACHEABLE`.
            params: Its parameters.
            kind: What the result is.
            fresh: Ask the server in any case.
        """
        cache = self._memory.cache
        with self._timeout(method):
            connection = await self._keeper.connected()
            connection.check(method)
            written = connection.write(params)
            pending = cache.pending(connection, method, written)
            if pending is not None and not fresh:
                kept = cache.find(pending)
                if isinstance(kept, kind):
                    await trio.lowlevel.checkpoint()
                    return kept
            try:
                data = await connection.peer.request(method, written)
            except RequestError as error:
                if pending is not None:
                    cache.refused(pending, error, written.get("cursor"))
                raise
        result = _read(method, data, kind)
        if pending is not None:
            cache.keep(pending, result, data)
        return result

    def _timeout(self, method: str) -> AbstractContextManager[None]:
        return nullcontext() if self._request_timeout == math.inf else self._fail_late(method)

    @contextmanager
    def _fail_late(self, method: str) -> Generator[None]:
        with trio.move_on_after(self._request_timeout) as scope:
            yield
        if scope.cancelled_caught:
            raise trio.TooSlowError(
                f"{method} was not answered within {self._request_timeout:g} s (request_timeout)"
            )

    async def request_many(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]], *, batch: bool = False
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests at once and wait for all of them.

        Args:
            requests: Methods and parameters, as for `request`.
            batch: Send them as one JSON-RPC batch. Only 2025-03-26 has batches, and most servers that speak it
                never answer one, so put a deadline around it.

        Returns:
            For each request, in order, its result or the error that answers it.

        Raises:
            LocalProtocolError: The revision in use has no batches.
            ValueError: The batch is empty, or larger than `Limits.max_outbound_requests`.
            Others: As `request`.

        Spec: 2025-03-26, basic, "Batching".
        """
        await trio.lowlevel.checkpoint()
        if batch:
            connection = await self._keeper.connected()
            connection.check_batch(method for method, _ in requests)
            with self._timeout("the batch"):
                return await connection.peer.request_batch(requests)
        outcomes: list[dict[str, Any] | Exception] = [{} for _ in requests]

        async def ask(index: int, method: str, params: Mapping[str, Any] | None) -> None:  # noqa: ASYNC910
            try:
                outcomes[index] = await self.request(method, params)
            except Exception as error:  # all of it is raised or returned below
                outcomes[index] = error

        async with trio.open_nursery() as nursery:
            for index, (method, params) in enumerate(requests):
                nursery.start_soon(ask, index, method, params)
        return [_answer_or_raise(outcome) for outcome in outcomes]

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification. Returns when it is in line to be written; cancelled, it was not sent.

        Raises:
            LocalProtocolError: The revision in use has no such notification, or it is too large.
        """
        connection = await self._keeper.connected()
        connection.check(method)
        await connection.peer.notify(method, params)

    async def aclose(self) -> None:
        """Close the client, from any task. Closing again does nothing.

        Requests that are still waited for are given up, on the wire too, and raise `trio.ClosedResourceError`. A
        server process is ended. Takes at most `Limits.goodbye_timeout`, and for a process twice
        `Limits.terminate_timeout` more. Cancelled, it goes on without its caller.
        """
        await self._keeper.aclose()


def _read(method: str, result: dict[str, Any], kind: type[_T]) -> _T:
    try:
        return from_wire(result, kind)
    except InvalidData as error:
        raise RemoteProtocolError(f"{method}: {error}") from error


def _answer_or_raise(outcome: dict[str, Any] | Exception) -> dict[str, Any] | RequestError:
    if isinstance(outcome, (dict, RequestError)):
        return outcome
    raise outcome
