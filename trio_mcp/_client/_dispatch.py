"""Requests and notifications of the server, brought to the user's handlers, and what extensions add to a client.

`ServerMessages` is the dispatcher of one channel. What a server may ask, and how handlers answer, is in
`_questions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, TypeVar, final

import attrs
import trio

from .._channel import Channel, Origin
from .._codec import _json
from .._codec._json import InvalidData, is_object
from .._codec._jsonrpc import Notification, Request, from_wire
from .._core._http1 import NAME_SOURCES
from .._core._legacy_tasks import RELATED_TASK, TASKS_REVISION, with_related_task
from .._core._lifecycle import CORE_RESULT_TYPES, check_identifier, chosen_revisions, revisions_with
from .._errors import RequestError
from .._limits import check_given
from .._logs import Log
from .._peer._exchange import Answer, Exchange, Handler, OnProgress
from .._peer._peer import Peer
from .._revisions import BATCH_REVISION, LATEST, LATEST_LEGACY, REFUSED, Revision, Side, is_free
from ..types import LoggingMessageNotificationParams
from ._questions import OnElicitationComplete, Questions, RequestHandler
from ._subscriptions import Subscriptions

_log: Final = Log("trio_mcp.client")
_T = TypeVar("_T")

# Extensions.


class ExtensionClient(Protocol):
    """What the handler of an extension may use of the client; every `Client` has it."""

    @property
    def revision(self) -> Revision:
        """The revision that was agreed on."""
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
        """Let the client's handlers answer questions of a server; see `Client.answer_input`."""
        ...


ResultHandler: TypeAlias = Callable[
    [ExtensionClient, str, Mapping[str, Any], Mapping[str, Any]], Awaitable[Mapping[str, Any]]
]
"""Turns a result of the extension's type into a complete result.

Called with the client, the method and parameters of the request, and the result; all plain JSON. It runs in the
task that made the call, under its deadline, and the call raises what it raises.
"""

ExtensionNotificationHandler: TypeAlias = Callable[[Mapping[str, Any]], object]
"""Called with the parameters of a notification; if it returns an awaitable, that is awaited."""


def _read_only(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(given))


@final
@attrs.frozen
class ClientExtension:
    """An extension that a client knows. It is declared to servers, in `initialize` too.

    Attributes:
        identifier: Its name, for example ``com.example/notes``.
        settings: The settings declared with it, as plain JSON.
        methods: The methods it adds that a client sends, each with the parameter that the header field `Mcp-Name`
            repeats over HTTP, or `None`: ``{"notes/get": "id", "notes/list": None}``. Only those need to be here
            that have such a parameter, or whose name the protocol has in another revision.
        revisions: The revisions it is for. In others it is not declared, its methods are the protocol's or
            unknown, and its results and notifications are not handled. Default: all; a name that the protocol has
            in some revisions is the extension's in the others.
        result_types: The handlers of the types of results it adds, by `resultType`.
        notification_handlers: The handlers of the notifications it adds, by method.
        request_handlers: The handlers of the requests of servers it adds, by method: input requests in the modern
            era, requests in the legacy one.

    Raises:
        TypeError: Something is of another kind.
        ValueError: The identifier is malformed, or a name belongs to the core protocol, in each revision or in
            one of `revisions`.

    Spec: 2026-07-28, basic/versioning, "Extension Negotiation"; basic, "ResultType"; SEP-2133,
        "Negotiation".
    """

    identifier: str
    settings: Mapping[str, Any] = attrs.field(factory=dict[str, Any], converter=_read_only, kw_only=True)
    methods: Mapping[str, str | None] = attrs.field(
        factory=dict[str, "str | None"], converter=_read_only, kw_only=True
    )
    revisions: Collection[Revision] | None = attrs.field(default=None, converter=chosen_revisions, kw_only=True)
    result_types: Mapping[str, ResultHandler] = attrs.field(
        factory=dict[str, ResultHandler], converter=_read_only, kw_only=True
    )
    notification_handlers: Mapping[str, ExtensionNotificationHandler] = attrs.field(
        factory=dict[str, ExtensionNotificationHandler], converter=_read_only, kw_only=True
    )
    request_handlers: Mapping[str, RequestHandler] = attrs.field(
        factory=dict[str, RequestHandler], converter=_read_only, kw_only=True
    )

    def __attrs_pre_init__(self, identifier: object, **given: object) -> None:
        for name in [name for name, value in given.items() if value is attrs.NOTHING or name == "revisions"]:
            del given[name]
        check_given(ClientExtension, {**given, "identifier": identifier})

    def __attrs_post_init__(self) -> None:
        check_identifier(self.identifier)
        for kind in CORE_RESULT_TYPES & self.result_types.keys():
            raise ValueError(f"{self.identifier} claims the result type {kind}, which is the protocol's own")
        for method in [*self.methods, *self.notification_handlers]:
            revisions_with(method, self.identifier, self.revisions)
        for method in self.request_handlers:
            if not is_free(method, LATEST):
                raise ValueError(f"{self.identifier} claims the method {method}, which is the protocol's own")


@final
class Extensions:
    """The extensions of a client, together.

    Attributes:
        settings: The settings of each, by identifier.
        result_types: The handlers of results, by revision and type.
        notification_handlers: Those of notifications, by revision and method.
        request_handlers: Those of what a server asks, by method.
        refused: By revision, which methods the client may not send.
        hidden: By revision, which of them are not for it.
        names: Which parameter of a method a header field repeats.

    Raises:
        ValueError: Two of them have the same identifier, or handle the same type or method.
    """

    def __init__(self, extensions: Sequence[ClientExtension]) -> None:
        self.settings = _merged("identifier", [{e.identifier: dict(e.settings)} for e in extensions])
        self.result_types: dict[Revision, dict[str, ResultHandler]] = {}
        self.notification_handlers: dict[Revision, dict[str, ExtensionNotificationHandler]] = {}
        self.request_handlers = _merged("request", [e.request_handlers for e in extensions])
        self.refused = dict(REFUSED[Side.CLIENT])
        self.hidden: dict[Revision, frozenset[str]] = {}
        methods = _merged("method", [e.methods for e in extensions])
        self.names = {**NAME_SOURCES, **{method: name for method, name in methods.items() if name is not None}}
        for revision in Revision:
            known = [e for e in extensions if e.revisions is None or revision in e.revisions]
            self.hidden[revision] = frozenset(self.settings) - {e.identifier for e in known}
            self.result_types[revision] = _merged("result type", [e.result_types for e in known])
            self.notification_handlers[revision] = _merged(
                "notification", [_free(e.notification_handlers, revision) for e in known]
            )
            self.refused[revision] -= {method for e in known for method in _free(e.methods, revision)}


def _free(mapping: Mapping[str, _T], revision: Revision) -> Mapping[str, _T]:
    return {method: value for method, value in mapping.items() if is_free(method, revision)}


def _merged(what: str, mappings: Sequence[Mapping[str, _T]]) -> dict[str, _T]:
    merged: dict[str, _T] = {}
    for mapping in mappings:
        for name in merged.keys() & mapping.keys():
            raise ValueError(f"two extensions have the {what} {name}; a client may have only one of them")
        merged.update(mapping)
    return merged


# Dispatching.

OnLog: TypeAlias = Callable[[LoggingMessageNotificationParams], object]
"""Called with each log message of the server; if it returns an awaitable, that is awaited."""

OnNotification: TypeAlias = Callable[[str, Mapping[str, Any]], object]
"""Called with method and parameters of each notification that has no other handler."""


@final
@attrs.frozen(kw_only=True)
class NotificationHandlers:
    """The user's handlers of notifications.

    Attributes:
        on_log: For log messages.
        on_elicitation_complete: For the end of an elicitation by URL.
        extensions: For the notifications that extensions add, by revision and method.
        on_notification: For every other notification.
    """

    on_log: OnLog | None = None
    on_elicitation_complete: OnElicitationComplete | None = None
    extensions: Mapping[Revision, Mapping[str, ExtensionNotificationHandler]] = MappingProxyType({})
    on_notification: OnNotification | None = None


@attrs.define(eq=False)
class ServerMessages:
    """Dispatches the server's requests and notifications on one channel. A proxy has others done with them.

    Attributes:
        subscriptions: Which subscriptions there are on the connection.
        revision: The revision that was agreed on, once that is done.
        peer: This end of the channel, from then on.
    """

    answers_unreadable = False  # a client must not answer what is not a request

    _questions: Questions
    _handlers: NotificationHandlers
    subscriptions: Final[Subscriptions]
    revision: Revision | None = attrs.field(default=None, init=False)
    peer: Peer | None = attrs.field(default=None, init=False)

    def opened(self, channel: Channel) -> None:
        """There is a channel, over which nothing was sent yet."""

    @property
    def answers_malformed(self) -> bool:
        """Whether malformed requests are answered with an error: a legacy server waits for it."""
        return self.revision is not None and not self.revision.is_modern

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision has batches; so it may until one is agreed on."""
        return self.revision in {None, BATCH_REVISION}

    def route(self, request: Request, origin: Origin | None) -> Handler | Answer | None:
        """Find the handler of a request of the server; see `Dispatcher.route`."""
        del origin
        if self.revision is not None and self.revision.is_modern:
            # A modern server must not ask, and a modern client must not answer (2026-07-28, basic/patterns).
            _log.warning(
                "ignored a request of the server, %s: servers of %s must not send any",
                request.method,
                self.revision,
            )
            return None
        if request.method == "ping":
            return {}
        if not self._questions.knows(request.method, self.revision or LATEST_LEGACY):
            _log.warning("refused a question of the server, %.60r: it has no handler", request.method)
            raise self._questions.unknown(request.method)
        return self._answer

    async def _answer(self, exchange: Exchange) -> Answer:
        request = exchange.request
        try:
            question = self._questions.prepare(request.method, request.params, self.revision or LATEST_LEGACY)
        except RequestError as error:
            _log.warning("refused a question of the server, %.60r: %s", request.method, error.message)
            raise
        if self.peer is None:
            return await question()
        related = exchange.meta.get(RELATED_TASK) if self.revision is TASKS_REVISION else None
        with self.peer.clocks_stopped():
            answer = await question()
        _json.encode(
            dict(answer)
        )  # what it cannot have is an error, as in the modern era, and not sent as other text
        if is_object(related) and isinstance(related.get("taskId"), str):
            return with_related_task(answer, related["taskId"])  # "Associating Task-Related Messages"
        return answer

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return `None`: no request of a server continues another one; see `Dispatcher.parked_canceller`."""
        del request, origin
        return None

    def take_back(self, request: Request) -> None:
        """Undo nothing: requests that are answered at once change nothing; see `Dispatcher.take_back`."""

    def notification_key(self, notification: Notification) -> Hashable | None:
        """Return a key that is equal for notifications that report the same; see `Dispatcher`."""
        if notification.method.endswith("/list_changed"):
            return notification.method
        if notification.method == "notifications/resources/updated":
            return notification.method, str((notification.params or {}).get("uri"))
        return None

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Bring a notification to its handler; see `Dispatcher.notified`."""
        del origin
        callback = self.subscriptions.callback_for(notification)
        if callback is not None:
            outcome = callback()
        else:
            outcome = self._handle(notification.method, notification.params or {})
        if isinstance(outcome, Awaitable):
            await outcome
        await trio.lowlevel.checkpoint()

    def _handle(self, method: str, params: Mapping[str, Any]) -> object:
        """Call the handler of a notification, if there is one, and return what it returns."""
        handlers = self._handlers
        if method == "notifications/message" and handlers.on_log is not None:
            try:
                message = from_wire(params, LoggingMessageNotificationParams)
            except InvalidData as error:
                _log.warning("ignored a log message of the server: %s", error)
                return None
            return handlers.on_log(message)
        if method == "notifications/elicitation/complete" and handlers.on_elicitation_complete is not None:
            id = params.get("elicitationId")
            if not isinstance(id, str) or not self._questions.elicitations.finish(id):
                # 2025-11-25, client/elicitation: unknown and repeated ids must be ignored.
                _log.info("ignored the end of an elicitation that is not open: %.60r", id)
                return None
            return handlers.on_elicitation_complete(id)
        of_extension = handlers.extensions.get(self.revision or LATEST, {}).get(method)
        if of_extension is not None:
            return of_extension(params)
        return None if handlers.on_notification is None else handlers.on_notification(method, params)
