"""What an extension of the protocol adds to a client: capabilities, result types, and handlers of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, final

import attrs

from .._core._extensions import CORE_RESULT_TYPES, check_identifier
from .._peer._exchange import OnProgress
from .._revisions import LATEST, METHODS, QUESTIONS, Revision, Side
from ._questions import RequestHandler

__all__ = [
    "ClientExtension",
    "ExtensionClient",
    "ExtensionNotificationHandler",
    "Extensions",
    "ResultHandler",
]


class ExtensionClient(Protocol):
    """What the handler of an extension can do with the client; every `Client` can."""

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        ...

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Send any request and wait for its result; see `Client.request`."""
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification; see `Client.notify`."""
        ...

    async def answer_input(self, input_requests: Mapping[str, Any]) -> dict[str, Any]:
        """Let the client's handlers answer what a server asks; see `Client.answer_input`."""
        ...


ResultHandler: TypeAlias = Callable[
    [ExtensionClient, str, Mapping[str, Any], Mapping[str, Any]], Awaitable[Mapping[str, Any]]
]
"""Turns a result of the extension's own type into the result that ends the matter.

Called with the client, the method and parameters of the request, and the result; all plain JSON. It runs in the
task that made the call, under its deadline, and what it raises comes out of the call.
"""

ExtensionNotificationHandler: TypeAlias = Callable[[Mapping[str, Any]], object]
"""Called with the parameters of a notification; if it returns an awaitable, that is awaited."""


def _read_only(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(given))


@final
@attrs.frozen
class ClientExtension:
    """An extension that a client knows. It is declared to servers of every revision, in `initialize` too.

    Attributes:
        identifier: What it is called, for example ``com.example/notes``.
        settings: What is declared with it, as plain JSON.
        result_types: Who takes results of the types it adds, by `resultType`.
        notification_handlers: Who gets the notifications it adds, by method.
        request_handlers: Who answers the questions it adds, by method: input requests in the modern era,
            requests of the server in the legacy one.

    Raises:
        ValueError: The identifier is none, or something of the core protocol is claimed.

    Spec: 2026-07-28, basic/versioning, "Extension Negotiation"; basic, "ResultType"; SEP-2133,
        "Negotiation".
    """

    identifier: str
    settings: Mapping[str, Any] = attrs.field(factory=dict[str, Any], converter=_read_only, kw_only=True)
    result_types: Mapping[str, ResultHandler] = attrs.field(
        factory=dict[str, ResultHandler], converter=_read_only, kw_only=True
    )
    notification_handlers: Mapping[str, ExtensionNotificationHandler] = attrs.field(
        factory=dict[str, ExtensionNotificationHandler], converter=_read_only, kw_only=True
    )
    request_handlers: Mapping[str, RequestHandler] = attrs.field(
        factory=dict[str, RequestHandler], converter=_read_only, kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        check_identifier(self.identifier)
        for kind in CORE_RESULT_TYPES & self.result_types.keys():
            raise ValueError(f"{self.identifier} claims the result type {kind}, which is the protocol's own")
        for method in [*self.notification_handlers, *self.request_handlers]:
            rule = METHODS.get(method)
            if method in QUESTIONS or (rule is not None and rule.allows(Side.SERVER, LATEST)):
                raise ValueError(f"{self.identifier} claims the method {method}, which is the protocol's own")


@final
class Extensions:
    """The extensions of a client, together.

    Raises:
        ValueError: Two of them have one name, or claim the same.
    """

    def __init__(self, extensions: Sequence[ClientExtension]) -> None:
        self.settings = _merged("identifier", [{e.identifier: dict(e.settings)} for e in extensions])
        self.result_types: Mapping[str, ResultHandler]
        self.result_types = _merged("result type", [e.result_types for e in extensions])
        self.notification_handlers: Mapping[str, ExtensionNotificationHandler]
        self.notification_handlers = _merged("notification", [e.notification_handlers for e in extensions])
        self.request_handlers: Mapping[str, RequestHandler]
        self.request_handlers = _merged("request", [e.request_handlers for e in extensions])


def _merged(what: str, mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for mapping in mappings:
        for name in merged.keys() & mapping.keys():
            raise ValueError(f"two extensions claim the {what} {name}")
        merged.update(mapping)
    return merged
