"""What an extension of the protocol adds to a server: capabilities, methods, tools, types of results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, final

import attrs

from .._codec._json import is_object
from .._core._extensions import CORE_RESULT_TYPES, check_identifier
from .._core._lifecycle import Agreement
from .._errors import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestError
from .._revisions import METHODS
from ._application import MethodHandler
from ._context import Context
from ._interim import ExtensionResult
from ._notifications import NotificationHandler

__all__ = ["ServerExtension", "ServerExtensions"]


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
