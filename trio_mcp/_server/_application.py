"""What a connection asks of the server it belongs to.

What an extension of the protocol adds to a server: capabilities, methods, tools, types of results.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, final

import attrs

from .._codec._json import is_object
from .._core._lifecycle import CORE_RESULT_TYPES, Agreement, check_identifier
from .._errors import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestError
from .._limits import Limits
from .._revisions import METHODS, Revision
from ..types import Implementation, ServerCapabilities, Tool
from ._changes import ChangeHub
from ._context import Context, NotificationHandler
from ._input_required import Asking, ExtensionResult
from ._listing import CacheHint

MethodHandler: TypeAlias = Callable[[Mapping[str, Any], Context[Any]], Awaitable[object]]
"""Serves a method: its parameters as plain JSON in; a wire object, plain JSON, or bytes of JSON out."""


class Application(Protocol):
    """A server, as its connections see it."""

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

    @property
    def changes(self) -> ChangeHub:
        """What has changed, and who wants to know."""
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

    def extension_result(self, result: ExtensionResult, agreement: Agreement) -> Mapping[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type.
            RequestError: The client has not declared the extension.
        """
        ...

    def notification_handler_for(self, method: str) -> NotificationHandler | None:
        """Return who handles the notifications of a method."""
        ...

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask the client, and what becomes of it then."""
        ...

    def find_tool(self, name: str) -> Tool:
        """Return one of its tools.

        Raises:
            ValueError: There is none of this name.
        """
        ...


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

    What it adds is for clients that declare it, too; others are told that they would have to.

    Attributes:
        identifier: What it is called, for example ``com.example/notes``.
        settings: What is declared with it, as plain JSON.
        request_handlers: Who serves the methods it adds.
        notification_handlers: Who handles the notifications it adds, by method.
        result_types: The types of results it adds; see `ExtensionResult`.
        tools: Functions that it adds as tools, for every client.

    Raises:
        ValueError: The identifier is none, or something of the core protocol is claimed.

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
        ValueError: Two of them have one name, or claim the same.
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
    if not is_modern:  # which has no error of its own for this
        raise RequestError(METHOD_NOT_FOUND, problem)
    needed: object = {"requiredCapabilities": {"extensions": {extension: {}}}}
    raise RequestError(MISSING_REQUIRED_CLIENT_CAPABILITY, problem, needed)
