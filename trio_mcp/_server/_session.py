"""One connection of a server: what era a request is of, who serves it, and how its result is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast, final

import trio

from .._channel import Origin
from .._codec._convert import from_wire, to_wire
from .._codec._invalid import InvalidData
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, Notification, Request
from .._core._lifecycle import Agreement, ServerLifecycle
from .._errors import INVALID_PARAMS, METHOD_NOT_FOUND, RequestError
from .._limits import Limits
from .._peer._exchange import Answer, Exchange, Handler
from .._revisions import BATCH_REVISION, SERVER_INFO_KEY, Revision
from ..types import (
    DiscoverResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    ServerCapabilities,
    SetLevelRequestParams,
)
from ._caching import CacheHint
from ._context import Context

__all__ = ["Application", "MethodHandler", "ServerSession", "read_params"]

MethodHandler: TypeAlias = Callable[[Mapping[str, Any], Context[Any]], Awaitable[object]]
"""Serves a method: its parameters as plain JSON in; a wire object, plain JSON, or bytes of JSON out."""


_T = TypeVar("_T")


class Application(Protocol):
    """What a session asks of the server it belongs to."""

    @property
    def info(self) -> Implementation:
        """What the server is."""
        ...

    @property
    def instructions(self) -> str | None:
        """How a model should use it."""
        ...

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        ...

    @property
    def limits(self) -> Limits:
        """What a connection may cost."""
        ...

    def capabilities(self) -> ServerCapabilities:
        """Return what it can do."""
        ...

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method."""
        ...

    def cache_hint(self, method: str) -> CacheHint:
        """Return what is said about keeping the results of a method."""
        ...


@final
class ServerSession:
    """Dispatches what one client sends.

    Args:
        application: The server.
        state: What the server's lifespan yielded.
    """

    answers_unreadable = True

    def __init__(self, application: Application, state: object) -> None:
        self._application = application
        self._state = state
        self._lifecycle = ServerLifecycle(application.revisions)
        self._on_the_spot: Final[Mapping[str, Callable[[Request, Agreement], Answer]]] = {
            "initialize": self._initialize,
            "ping": _pong,
            "server/discover": self._discover,
            "logging/setLevel": self._set_log_level,
        }

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        session = self._lifecycle.session
        return session is not None and session.revision is BATCH_REVISION

    def route(self, request: Request, origin: Origin | None) -> Handler | Answer | None:
        """Decide who serves a request; see `Dispatcher.route`."""
        del origin
        agreement = self._lifecycle.agree(request)
        answer_now = self._on_the_spot.get(request.method)
        if answer_now is not None:
            return answer_now(request, agreement)
        handler = self._application.handler_for(request.method)
        if handler is None:
            raise RequestError(METHOD_NOT_FOUND, f"this server has no method {request.method}")

        async def serve(exchange: Exchange) -> Answer:
            result = await handler(exchange.request.params or {}, Context(exchange, agreement, self._state))
            return self._written(result, agreement.revision)

        return serve

    def notice_key(self, notification: Notification) -> Hashable | None:
        """Tell which notifications say the same; see `Dispatcher.notice_key`."""
        return notification.method if notification.method == "notifications/roots/list_changed" else None

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Take a notification of the client; see `Dispatcher.notified`. There is none that changes anything."""
        del notification, origin
        await trio.lowlevel.checkpoint()

    def _initialize(self, request: Request, _: Agreement) -> Answer:
        read_params(request.params or {}, InitializeRequestParams)
        revision = self._lifecycle.initialize(request).revision
        application = self._application
        result = InitializeResult(
            protocol_version=revision,
            capabilities=application.capabilities(),
            server_info=application.info,
            instructions=application.instructions,
        )
        return to_wire(result, revision)

    def _discover(self, _: Request, agreement: Agreement) -> Answer:
        hint = self._application.cache_hint("server/discover")
        result = DiscoverResult(
            ttl_ms=hint.ttl_ms,
            cache_scope=hint.scope,
            supported_versions=self._lifecycle.supported_versions,
            capabilities=self._application.capabilities(),
            instructions=self._application.instructions,
        )
        return self._written(result, agreement.revision)

    def _set_log_level(self, request: Request, _: Agreement) -> Answer:
        self._lifecycle.set_log_level(read_params(request.params or {}, SetLevelRequestParams).level)
        return {}

    def _written(self, result: object, revision: Revision) -> Answer:
        """Write a result for the client's revision; a modern one says who has made it."""
        if isinstance(result, Encoded):
            return result
        is_plain = isinstance(result, Mapping)
        written = dict(cast("Mapping[str, Any]", result)) if is_plain else to_wire(result, revision)
        if revision.is_modern:
            written.setdefault("resultType", "complete")
            meta: Any = written.get("_meta")
            info = to_wire(self._application.info, revision)
            written["_meta"] = {SERVER_INFO_KEY: info, **(meta if is_object(meta) else {})}
        return written


def _pong(_: Request, __: Agreement) -> Answer:
    return {}


def read_params(params: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read the parameters of a request.

    Raises:
        RequestError: They are not what the specification says they must be.
    """
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error
