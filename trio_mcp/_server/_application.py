"""What a server offers: tools, prompts, resources, handlers of methods and notifications, extensions.

Connections look up here what they need of their server. How it is served is in `_server`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, final

import attrs
import trio

from .._codec import _json
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded
from .._core._changes import ListKind
from .._core._http_headers import HeaderMark
from .._core._lifecycle import CORE_RESULT_TYPES, Agreement, check_identifier
from .._errors import (
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    LocalProtocolError,
    RequestError,
)
from .._limits import Limits
from .._peer._middleware import Middleware
from .._revisions import METHODS, Revision
from ..types import (
    Implementation,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from ._changes import Announcement, ChangeHub
from ._context import Context, NotificationHandler, check_announcement, check_notification_method
from ._functions import MethodHandler as MethodHandler  # noqa: PLC0414 - its public home is here
from ._input_required import Asking, ExtensionResult
from ._listing import CacheHint
from ._registration import PromptRegistration, ResourceRegistration, ToolRegistration

_OURS: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})


def _read_only(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(given))


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given)


def _functions(given: Iterable[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
    return tuple(given)


@final
@attrs.frozen
class ServerExtension:
    """An extension that a server knows. It is declared to clients of every revision, in `initialize` too.

    What it adds is only for clients that also declare it; requests of others are refused, and the error names it.

    Attributes:
        identifier: What it is called, for example ``com.example/notes``.
        settings: What is declared with it, as plain JSON.
        request_handlers: The handlers of the methods it adds, by method.
        notification_handlers: The handlers of the notifications it adds, by method.
        result_types: The types of results it adds; see `ExtensionResult`.
        tools: Functions that it adds as tools, for every client.

    Raises:
        ValueError: The identifier is not valid, or something of the core protocol is claimed.

    Spec: 2026-07-28, basic/versioning, "Extension Negotiation"; SEP-2133, "Negotiation".
    """

    identifier: str
    settings: Mapping[str, Any] = attrs.field(factory=dict[str, Any], converter=_read_only, kw_only=True)
    request_handlers: Mapping[str, MethodHandler] = attrs.field(
        factory=dict[str, MethodHandler], converter=_read_only, kw_only=True
    )
    notification_handlers: Mapping[str, NotificationHandler] = attrs.field(
        factory=dict[str, NotificationHandler], converter=_read_only, kw_only=True
    )
    result_types: Collection[str] = attrs.field(default=(), converter=_names, kw_only=True)
    tools: Sequence[Callable[..., Any]] = attrs.field(default=(), converter=_functions, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_identifier(self.identifier)
        for kind in CORE_RESULT_TYPES.intersection(self.result_types):
            raise ValueError(f"{self.identifier} claims the result type {kind}, which is the protocol's own")
        for method in [*self.request_handlers, *self.notification_handlers]:
            if method in METHODS:
                raise ValueError(f"{self.identifier} claims the method {method}, which is the protocol's own")


@final
class ServerExtensions:
    """The extensions of a server, together.

    Raises:
        ValueError: Two of them have one identifier, or claim one method or result type.
    """

    def __init__(self, extensions: Sequence[ServerExtension]) -> None:
        self.settings: dict[str, Mapping[str, Any]] = {}
        self.request_handlers: dict[str, MethodHandler] = {}
        self.notification_handlers: dict[str, NotificationHandler] = {}
        self._result_types: dict[str, str] = {}
        for extension in extensions:
            name = extension.identifier
            _claim(self.settings, name, dict(extension.settings), "identifier")
            for method, handler in extension.request_handlers.items():
                _claim(self.request_handlers, method, _for_declared(name, handler), "method")
            for method, hear in extension.notification_handlers.items():
                _claim(self.notification_handlers, method, hear, "notification")
            for kind in extension.result_types:
                _claim(self._result_types, kind, name, "result type")

    def plain(self, result: ExtensionResult, agreement: Agreement) -> dict[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type.
            RequestError: The client has not declared the extension.
        """
        extension = self._result_types.get(result.result_type)
        if extension is None:
            raise TypeError(f"no extension of this server adds the result type {result.result_type!r}")
        _require(extension, agreement.client_capabilities, is_modern=agreement.revision.is_modern)
        return {**result.members, "resultType": result.result_type}


def _claim(claimed: dict[str, Any], name: str, what: object, kind: str) -> None:
    if name in claimed:
        raise ValueError(f"two extensions claim the {kind} {name}")
    claimed[name] = what


def _for_declared(extension: str, handler: MethodHandler) -> MethodHandler:
    async def serve(params: Mapping[str, Any], context: Context[Any]) -> object:
        _require(extension, context.declared_capabilities, is_modern=context.revision.is_modern)
        return await handler(params, context)

    return serve


def _require(extension: str, declared: Mapping[str, Any], *, is_modern: bool) -> None:
    extensions: Any = declared.get("extensions")
    settings = extensions.get(extension) if is_object(extensions) else None
    if settings is not None and settings is not False:
        return
    problem = f"the client has not declared the extension {extension}"
    if not is_modern:  # the legacy era has no error code for this
        raise RequestError(METHOD_NOT_FOUND, problem)
    needed: object = {"requiredCapabilities": {"extensions": {extension: {}}}}
    raise RequestError(MISSING_REQUIRED_CLIENT_CAPABILITY, problem, needed)


class Application(ToolRegistration, PromptRegistration, ResourceRegistration):
    """What a server offers, and how its connections look that up: a `Server` without the serving."""

    _info: Implementation
    _instructions: str | None
    _revisions: tuple[Revision, ...]
    _middleware: tuple[Middleware, ...]
    _changes: ChangeHub
    _custom: dict[str, MethodHandler]
    _notification_handlers: dict[str, NotificationHandler]
    _extensions: ServerExtensions

    @property
    def info(self) -> Implementation:
        """What the server is."""
        return self._info

    @property
    def instructions(self) -> str | None:
        """How a model should use it."""
        return self._instructions

    @property
    def limits(self) -> Limits:
        """Limits of each connection."""
        return self._limits

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        return self._revisions

    # Registering.

    def request_handler(self, method: str) -> Callable[[MethodHandler], MethodHandler]:
        """Register the handler of a method, of the protocol or your own: ``@server.request_handler("x/y")``.

        The handler is called with the parameters as plain JSON and the `Context`, and returns an object of
        `trio_mcp.types` or plain JSON. For a method of the protocol it takes the place of what the server does.

        Args:
            method: The method.

        Raises:
            ValueError: The method is part of the handshake, or has such a handler already.
        """
        if method in _OURS or method in self._custom:
            problem = "is served by the connection itself" if method in _OURS else "has a handler already"
            raise ValueError(f"{method} {problem}")

        def register(handler: MethodHandler) -> MethodHandler:
            self._custom[method] = handler
            return handler

        return register

    def notification_handler(self, method: str) -> Callable[[NotificationHandler], NotificationHandler]:
        """Register the handler of a notification of clients: ``@server.notification_handler("x/y")``.

        The handler is called with the parameters as plain JSON and a `NotificationContext`: one notification
        after another, in the order in which they came over the connection. The next one waits for it, so it
        should be brief. What it raises is logged. A notification that the client's revision does not have is
        ignored.

        Args:
            method: The method, of the protocol or your own.

        Raises:
            ValueError: It has such a handler already, the connection itself handles it, or no client sends it.
        """
        check_notification_method(method)
        if method in self._notification_handlers:
            raise ValueError(f"{method} has a handler already")

        def register(handler: NotificationHandler) -> NotificationHandler:
            self._notification_handlers[method] = handler
            return handler

        return register

    # Changes.

    async def resource_updated(self, uri: str) -> None:
        """Notify every client that has subscribed to a resource that it has changed.

        Returns at once: each client is notified as fast as it reads, and several changes of a resource that were
        not sent yet are sent as one. Nothing happens while no client is served.

        Args:
            uri: The resource, as clients have subscribed to it.

        Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
        """
        self._changes.resource_updated(uri)
        await trio.lowlevel.checkpoint()

    def list_changed(self, kind: ListKind) -> None:
        """Notify every client that wants it that a list has changed. Never waits, and works in any thread.

        What is registered or removed here is notified without this. It is for lists that you serve yourself, with
        `request_handler`.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``; templates are resources, too.

        Raises:
            KeyError: There is no such list.
        """
        self._changes.list_changed(kind)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send all sessions a notification of your own. Never waits, and works in any thread.

        Sessions are those of the legacy era that are initialized, over every transport; over HTTP it goes to the
        stream that the client holds open with GET. They get it in order with other such notifications. For one
        that does not read, `Limits.max_announcements` and `max_announcement_bytes` of them wait; then the oldest
        are dropped, which `dropped_notifications` counts. Nothing happens while no client is served.

        From 2026-07-28 on a server sends nothing outside of requests but what a client has subscribed to, and
        there is no subscription to methods of your own: clients of that era get nothing by this. Within a request
        `Context.notify` reaches them, too.

        Args:
            method: The method.
            params: Its parameters, as plain JSON.

        Raises:
            ValueError: The library itself sends this method; the error names what sends it.
            LocalProtocolError: It is another method of the protocol; or it is larger than a message may be.
            TypeError: The parameters are no plain JSON.

        Spec: 2025-11-25, basic, "Notifications"; 2026-07-28, basic/patterns, "Request and Response".
        """
        check_announcement(method)
        one = Announcement.of(method, None if params is None else Encoded(_json.encode(dict(params))))
        most = self._limits.max_message_bytes
        if one.size > most:
            raise LocalProtocolError(f"{method} is {one.size} bytes as a message; max_message_bytes is {most}")
        self._changes.announce(one)

    @property
    def dropped_notifications(self) -> int:
        """How many notifications of `notify` were not sent to a session, because it did not read those before."""
        return self._changes.dropped

    # Looked up by connections.

    @property
    def changes(self) -> ChangeHub:
        """Passes changes on to the clients that want to know of them."""
        return self._changes

    def capabilities(self) -> ServerCapabilities:
        """Return what the server can do now."""
        custom = self._custom.keys()
        has_tools = self._tools.entries.was_used or "tools/list" in custom
        has_prompts = self._prompts.entries.was_used or "prompts/list" in custom
        has_resources = self._resources.entries.was_used or not custom.isdisjoint(
            ("resources/list", "resources/read")
        )
        can_complete = self._completer.can_complete or "completion/complete" in custom
        return ServerCapabilities(
            tools=ToolsCapability(list_changed=True) if has_tools else None,
            prompts=PromptsCapability(list_changed=True) if has_prompts else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if can_complete else None,
            logging={},
            extensions=self._extensions.settings or None,
        )

    def cache_hint(self, method: str) -> CacheHint:
        """Return how long clients may keep the results of a method, and for whom."""
        return self._listing.hints.of(method)

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return the handler of a method; `None` if it belongs to a capability that the server does not have."""
        return (
            self._custom.get(method)
            or self._extensions.request_handlers.get(method)
            or self._tool_handler(method)
            or self._prompt_handler(method)
            or self._resources.handler_for(method)
        )

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask its client, and what happens to it meanwhile."""
        if method in self._custom:
            return Asking.PARK
        match method:
            case "tools/call":
                return self._tools.asking(params.get("name"))
            case "prompts/get":
                return self._prompts.asking(params.get("name"))
            case "resources/read":
                return self._resources.asking(params.get("uri"))
            case _:
                return Asking.NEVER

    def notification_handler_for(self, method: str) -> NotificationHandler | None:
        """Return the handler of the notifications of a method."""
        return self._notification_handlers.get(method) or self._extensions.notification_handlers.get(method)

    def extension_result(self, result: ExtensionResult, agreement: Agreement) -> Mapping[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type.
            RequestError: The client has not declared the extension.
        """
        return self._extensions.plain(result, agreement)

    def _knows(self, uri: str) -> bool:
        """Whether a client may subscribe to a resource; any, if a `request_handler` serves reading."""
        by_hand = "resources/read" in self._custom or not self._resources.entries.was_used
        return by_hand or self._resources.knows(uri)

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """Wraps every message."""
        return self._middleware

    def marks_of(self, method: str, params: Mapping[str, Any]) -> tuple[HeaderMark, ...]:
        """Return which arguments of a request header fields carry, over HTTP."""
        return self._tools.marks_of(params.get("name")) if method == "tools/call" else ()
