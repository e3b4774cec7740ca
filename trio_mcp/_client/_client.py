"""The client: one server, asked from any task, over one connection after another if need be."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeVar, final

import trio

from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._errors import RemoteProtocolError, RequestError
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
from ._keeper import ConnectionKeeper
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

    def __init__(self, keeper: ConnectionKeeper, request_timeout: float) -> None:
        self._keeper = keeper
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

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> CallToolResult:
        """Call a tool.

        Args:
            name: The tool's name.
            arguments: Its arguments as plain JSON.
            on_progress: Called with each `Progress` the tool reports, in this task, all before this returns.
            meta: What to add to the request's `_meta`.

        Returns:
            The result, also one that is an error of the tool: look at `is_error`.

        Raises:
            RequestError: The server refuses the call, for instance because it has no such tool.
            RemoteProtocolError: The result is none.

        Spec: 2026-07-28, server/tools, "Calling Tools".
        """
        # Some old servers refuse a call that leaves the arguments out, although it may.
        params = CallToolRequestParams(name=name, arguments=arguments or {}, meta=meta)
        return await self._ask("tools/call", params, CallToolResult, on_progress=on_progress)

    def list_tools(self) -> Pages[Tool]:
        """Iterate over the server's tools: ``async for tool in client.list_tools()``.

        Spec: 2026-07-28, server/tools, "Listing Tools".
        """

        async def fetch(cursor: str | None) -> tuple[Sequence[Tool], str | None]:
            result = await self._ask("tools/list", PaginatedRequestParams(cursor=cursor), ListToolsResult)
            return result.tools, result.next_cursor

        return Pages(fetch, what="tools/list")

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
        try:
            return from_wire(result, kind)
        except InvalidData as error:
            raise RemoteProtocolError(f"{method}: {error}") from error

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
            ValueError: The batch is empty, or larger than `Limits.max_batch_messages` or
                `Limits.max_outbound_requests`.
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


def _answer_or_raise(outcome: dict[str, Any] | Exception) -> dict[str, Any] | RequestError:
    if isinstance(outcome, (dict, RequestError)):
        return outcome
    raise outcome
