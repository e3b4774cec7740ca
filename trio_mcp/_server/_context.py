"""The contexts that handlers of requests and of notifications are called with. The session calls the handlers.

`AskingContext` is what a handler can ask its client; how each question is asked is written in `_asking`,
`_elicitation` and `_sampling`. `KeptNotifications` is the queue of what a handler sends while it is parked.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeVarTuple,
    final,
    get_args,
    overload,
)

import attrs
import trio
from typing_extensions import TypeVar

from .. import types
from .._absent import ABSENT
from .._channel import Origin, ReleasableOrigin, client_key_of
from .._codec._json import cost_of, is_object
from .._codec._jsonrpc import Encoded, Notification, RequestId, to_wire
from .._core._changes import check_own_notification
from .._core._http1 import ShownHeaders
from .._errors import LocalProtocolError
from .._lazily import name_as_methods_of, names_for_users
from .._limits import MIB, Limits, check_given, check_number, check_seconds
from .._logs import Log
from .._oauth._principal import Principal, as_principal
from .._peer._exchange import Exchange, ExchangeSink, OnProgress, report_failure
from .._revisions import METHODS, QUESTIONS, Revision, Side
from .._trio import LightParkingLot
from ._asking import (
    AskableClient,
    InputRequester,
    KnownRoots,
    features_of,
    find_within,
    list_roots,
    requester_of,
)
from ._client_context import ClientContext
from ._elicitation import Elicitation, elicit, elicit_url
from ._input_required import input_types, require_for
from ._lifetimes import Background
from ._listing import read_params
from ._threads import ends_with_its_thread, leaves_its_place

if TYPE_CHECKING:
    from ._sampling import Preferences, SamplingInput


# What a handler can ask its client, and what it sends while it is parked.


_log: Final = Log("trio_mcp.server")

Send: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Sends a notification as part of an exchange."""

NOTIFICATION_BYTES: Final = 512
"""What a kept notification takes in memory beside its parameters."""


def weight_of(params: Mapping[str, Any] | Encoded | str | None) -> int:
    """Return how much memory it takes to keep the parameters of a notification, or a text, in bytes."""
    if params is None:
        return NOTIFICATION_BYTES
    if isinstance(params, Encoded):
        return NOTIFICATION_BYTES + len(params)
    return NOTIFICATION_BYTES + cost_of(params)


MAX_KEPT_BYTES: Final = MIB
"""What the notifications of one parked handler may take in memory: there may be ten thousand handlers."""


@final
@attrs.define(eq=False)
class KeptNotifications:
    """The notifications that a parked handler sends, kept until the next request of its client can carry them.

    While the handler is parked they are kept within limits, and the oldest are dropped for later ones. When a
    request serves it again, they are sent first, in order; meanwhile a new notification queues behind them, and
    its sender waits.

    Args:
        limits: How many are kept.
        has_room: Whether so many bytes in all may be kept. Called before they are.
    """

    _limits: Limits
    _has_room: Callable[[int], bool]
    is_parked: bool = attrs.field(default=False, init=False)
    _queue: deque[tuple[Send, int]] = attrs.field(factory=deque[tuple[Send, int]], init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _dropped: int = attrs.field(default=0, init=False)
    _all_sent: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)

    @property
    def must_queue(self) -> bool:
        """Whether notifications must be queued here: the handler is parked, or not all that was kept is sent."""
        return self.is_parked or bool(self._queue)

    def keep(self, send: Send, weight: int) -> None:
        """Queue a notification. If the handler is parked, this may drop the oldest ones, or the new one.

        Args:
            send: Sends it.
            weight: How much memory it takes, in bytes.
        """
        if self.is_parked:
            while self._queue and (
                len(self._queue) >= self._limits.max_notifications or self._bytes + weight > MAX_KEPT_BYTES
            ):
                self._drop()
            while not self._has_room(self._bytes + weight):
                if not self._queue:
                    self._dropped += 1
                    return
                self._drop()
        self._queue.append((send, weight))
        self._bytes += weight

    def _drop(self) -> None:
        _, weight = self._queue.popleft()
        self._bytes -= weight
        self._dropped += 1

    async def wait_sent(self) -> None:
        """Wait until the queue is empty or the handler is parked. Does not checkpoint if that is so already."""
        while self._queue and not self.is_parked:
            await self._all_sent.park()

    async def send_all(self, exchange: Exchange) -> None:
        """Send the queue as part of an exchange, in order, waiting for room. Does not checkpoint if empty."""
        if self._dropped:
            _log.warning(
                "%d notifications of a parked handler were dropped for later ones: "
                "%d are kept (max_notifications), of %d bytes together",
                self._dropped,
                self._limits.max_notifications,
                MAX_KEPT_BYTES,
            )
            self._dropped = 0
        try:
            while self._queue:
                send, weight = self._queue[0]
                await send(exchange)
                self._queue.popleft()
                self._bytes -= weight
        finally:
            self._all_sent.unpark_all()


_T = TypeVar("_T")


@attrs.define(eq=False, repr=False)
class AskingContext(ClientContext):
    """The part of `Context` that asks the client. A question is cancelled with the handler that asks it.

    Args:
        agreement: What was agreed on with the client.
        exchange: The exchange that serves the request.
        surroundings: What it has in common with the other handlers of the connection.
    """

    _exchange: Exchange
    _surroundings: Surroundings[Any]
    _requester: InputRequester | None = attrs.field(default=None, init=False)  # `None`: by requests of the server
    _kept: KeptNotifications | None = attrs.field(default=None, init=False)

    @property
    def _client(self) -> AskableClient:
        features, requester = features_of(self._agreement), self._requester
        if requester is None:
            requester = requester_of(self._exchange, self._agreement.revision)
        return AskableClient(features.revision, features.capabilities, requester)

    @overload
    async def elicit(
        self, message: str, wanted: types.RequestedSchema
    ) -> Elicitation[dict[str, types.ElicitValue]]: ...
    @overload
    async def elicit(self, message: str, wanted: type[_T]) -> Elicitation[_T]: ...
    @overload
    async def elicit(self, message: str, wanted: Any) -> Elicitation[Any]: ...
    async def elicit(self, message: str, wanted: Any) -> Elicitation[Any]:
        """Ask the client's user to fill in a form: ``if await ctx.elicit("Send by courier?", bool): …``.

        Nothing secret may be asked for like this; use `elicit_url`.

        Args:
            message: What is asked for, and why.
            wanted: The type of the answer. A class (attrs, dataclass, `TypedDict`, `NamedTuple`, pydantic,
                msgspec) whose members are the fields: text, numbers, `bool`, dates, `Literal` and `Enum` for a
                choice, a list or set of these for a choice of several; `Annotated` for bounds and descriptions;
                optional and with defaults. One of these types alone asks for one value. A `RequestedSchema` is
                sent as it is, and its answer is a dictionary. The members of an `Enum` are shown by their names,
                or by their `label` if they have one, where these add something to their values.

        Returns:
            What the user did, and the value.

        Raises:
            TypeError: A form cannot ask for such a value. The message names the field.
            CapabilityMissing: The client has not declared forms, or its revision has no choice of several.
            RemoteProtocolError: What was filled in does not fit the form. The message names the field.
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/elicitation, "Form Mode Elicitation Requests".
        """
        return await elicit(self._client, message, wanted)

    async def elicit_url(self, message: str, url: str, elicitation_id: str | None = None) -> Elicitation[None]:
        """Ask the client's user to open a URL, where they enter what must not pass through the client.

        Accepting means that they agree to open it, not that they are done there. The visitor of the URL may be
        another person than the user who was asked: check their identity.

        Args:
            message: The reason, for the user.
            url: The URL; ``https``, except in development. Knowing it must not be enough to be let in.
            elicitation_id: Identifies the visit, in 2025-11-25; a random text by default.

        Raises:
            ValueError: It is no such URL, or contains credentials.
            CapabilityMissing: The client has not declared elicitation by URL.
            RemoteProtocolError: The answer cannot be used.
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/elicitation, "URL Mode Elicitation Requests", "Safe URL Handling".
        """
        return await elicit_url(self._client, message, url, elicitation_id)

    @ends_with_its_thread
    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that its user is done at a URL, while this request lasts. Only 2025-11-25 has this.

        In other revisions nothing is sent.

        Spec: 2025-11-25, client/elicitation, "Completion Notifications for URL Mode Elicitation".
        """
        method = "notifications/elicitation/complete"
        if METHODS[method].allows(Side.SERVER, self._agreement.revision):
            check_given(AskingContext.elicitation_complete, {"elicitation_id": elicitation_id})
            params = types.ElicitationCompleteNotificationParams(elicitation_id=elicitation_id)
            await self._notify(method, to_wire(params, self._agreement.revision))
        else:
            await trio.lowlevel.checkpoint()

    async def _notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification as part of the current request, or keep it for the next one."""
        if self._kept is not None and await self._queued(
            self._kept, lambda exchange: exchange.notify(method, params), params
        ):
            return
        await self._exchange.notify(method, params)

    async def _queued(self, kept: KeptNotifications, send: Send, params: Mapping[str, Any] | str | None) -> bool:
        """Queue a notification behind those kept while the handler was parked. Returns whether it had to be."""
        if not kept.must_queue:
            return False
        # Before any checkpoint, so that it is in order with what other tasks send.
        kept.keep(send, weight_of(params))
        await trio.lowlevel.checkpoint()
        await kept.wait_sent()
        return True

    async def sample(
        self,
        messages: SamplingInput,
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        model_preferences: Preferences | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        include_context: types.IncludeContext | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[types.Tool | str] | None = None,
        tool_choice: types.ToolChoice | Literal["auto", "required", "none"] | None = None,
        on_progress: OnProgress | None = None,
    ) -> types.CreateMessageResult:
        """Ask the client's model to go on with a conversation: ``(await ctx.sample("…", max_tokens=99)).text``.

        Args:
            messages: The conversation: text, content, messages, earlier results, or a sequence of these. Text and
                content are the user's. Content that the client's revision lacks is described in text.
            max_tokens: How many tokens the answer may have.
            system_prompt: The system prompt.
            model_preferences: Which model to use: a part of its name, several, or `ModelPreferences`.
            temperature: The sampling temperature.
            stop_sequences: Texts that end the answer.
            include_context: Which servers' context to give the model. Deprecated, except ``"none"``.
            metadata: Passed on to the provider of the model.
            tools: The tools it may use, or the names of tools of this server. Calling them is up to you.
            tool_choice: Whether it may, must or must not use them.
            on_progress: Called with each progress notification; in the modern era there are none.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range, or there is no tool of that name.
            LocalProtocolError: Uses and results of tools in the conversation do not match.
            CapabilityMissing: The client has not declared sampling, or not with tools or context.
            RemoteProtocolError: The answer cannot be used.
            RequestError: The client answers with an error; ``-1`` if the user refused.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/sampling; deprecated there.
        """
        from ._sampling import sample  # it imports the most, and most servers never ask

        return await sample(
            self._client,
            messages,
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            model_preferences=model_preferences,
            temperature=temperature,
            stop_sequences=stop_sequences,
            include_context=include_context,
            metadata=metadata,
            tools=tools,
            tool_choice=tool_choice,
            find_tool=self._surroundings.find_tool,
            on_progress=on_progress,
        )

    async def list_roots(self) -> Sequence[types.Root]:
        """Ask for the directories and files that the client lets this server work in.

        Raises:
            CapabilityMissing: The client has not declared roots.
            RemoteProtocolError: The answer cannot be used, or a root is no file URI.
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/roots; deprecated there.
        """
        return await list_roots(self._client)

    @overload
    async def within_roots(self, path: str | os.PathLike[str], *, require: Literal[True]) -> Path: ...
    @overload
    async def within_roots(self, path: str | os.PathLike[str], *, require: bool = False) -> Path | None: ...
    async def within_roots(self, path: str | os.PathLike[str], *, require: bool = False) -> Path | None:
        """Return a path if it is in one of the client's roots: ``path = await ctx.within_roots(path)``.

        Links and ``..`` are resolved first, of the path and of the roots, in a thread. Use what this returns, not
        what was given: who may write in a root can put a link there at any time, and a path that has none now
        may have one later.

        The client is asked for its roots: once in a request of the modern era. In the legacy era they are kept
        for the session until it notifies that they have changed; if it has not declared that it will, it is
        asked each time.

        Args:
            path: The path, which need not exist, or its ``file://`` URI, with a drive on Windows
                (``file:///C:/Users``). A relative path begins in the directory that this process works in.
            require: Whether a path outside of the roots raises an error.

        Returns:
            The path, absolute and resolved; `None` if it is in no root, no path of this machine, or longer than
            4,096 characters.

        Raises:
            ToolError: With `require`, in place of `None`: it names the path.
            CapabilityMissing: The client has not declared roots.
            RemoteProtocolError: The answer cannot be used, or it has more than 1,000 roots, or roots of more
                than 256 KiB.
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/roots, "Security Considerations".
        """
        return await find_within(path, await self._surroundings.roots.get(self._client, self), require=require)


StateT = TypeVar("StateT", default=Any)


@final
@attrs.define(eq=False, repr=False)
class NotificationContext(ClientContext, Generic[StateT]):
    """A notification of a client that is being handled. It has no answer."""

    _notification: Notification
    _origin: Origin | None
    _state: StateT

    @property
    def state(self) -> StateT:
        """What the server's lifespan yielded; `None` if it has none."""
        return self._state

    @property
    def method(self) -> str:
        """The notification's method."""
        return self._notification.method

    @property
    def meta(self) -> Mapping[str, Any]:
        """The notification's `_meta`."""
        meta = (self._notification.params or {}).get("_meta")
        return meta if is_object(meta) else {}

    @property
    def principal(self) -> Principal | None:
        """Who the client is, where the transport authenticates; equal principals are equal clients."""
        return None if self._origin is None else as_principal(self._origin.principal)


NotificationHandler: TypeAlias = Callable[[Mapping[str, Any], NotificationContext[Any]], Awaitable[object]]
"""Handles a notification: its parameters as plain JSON, and its context."""


_Args = TypeVarTuple("_Args")

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

_PROGRESS_MESSAGES: Final = Revision.V2025_03_26
_SEVERITY: Final = {level: rank for rank, level in enumerate(get_args(types.LoggingLevel))}


@final
class ProgressReporter:
    """Counts a handler's progress and reports it: ``async with ctx.progress(total=10) as progress:``.

    Reports are sent only if the client has asked for progress. Progress must increase: a report that is not more
    than the last is not sent. Nothing is sent once the request is answered.

    Spec: 2026-07-28, basic/patterns/progress.
    """

    def __init__(self, context: Context[Any], total: float | None) -> None:
        self._context = context
        self._total = total
        self._value = 0.0

    @property
    def value(self) -> float:
        """How much is done."""
        return self._value

    async def advance(self, amount: float = 1, message: str | None = None) -> None:
        """Report that so much more is done.

        Args:
            amount: How much more.
            message: What is being done, for people.

        Raises:
            TypeError: The amount is no number.
            ValueError: The amount is negative or not a finite number.
        """
        if type(amount) is float and not (amount >= 0 and math.isfinite(amount)):
            raise ValueError(f"progress must grow by a finite number of at least 0, not by {amount!r}")
        if check_number("amount", amount) < 0:
            raise ValueError(f"progress must grow by a finite number of at least 0, not by {amount!r}")
        await self.report(self._value + amount, message)

    async def report(self, value: float, message: str | None = None) -> None:
        """Report that so much is done in all.

        Args:
            value: How much is done.
            message: What is being done, for people.

        Raises:
            ValueError: The value is not a finite number.
        """
        check_number("progress", value)
        self._value = value
        await self._context._report(value, self._total, message)

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing; entering is the checkpoint."""


@final
@attrs.frozen(eq=False, weakref_slot=False)
class Surroundings(Generic[StateT]):
    """What the handlers of one connection have in common.

    Attributes:
        state: What the server's lifespan yielded.
        client: The client that memory is lent to, where a request has no origin.
        find_tool: Returns the server's tool of a name; raises `ValueError` if there is none.
        background: Starts tasks that last as long as the connection.
        server_background: Starts tasks that last as long as the server runs.
        get_tasks: Returns the tasks of the running server; see `Service`.
        task_ids: The tasks of 2025-11-25 that the session knows, which lists no others unless it authenticates;
            `None` if it lasts for one request only.
        roots: What is known of the client's roots.
    """

    state: StateT
    client: str
    find_tool: Callable[[str], types.Tool]
    background: Background
    server_background: Background
    get_tasks: Callable[[], Any] = lambda: None
    task_ids: dict[str, None] | None = None
    roots: KnownRoots = attrs.field(factory=KnownRoots, init=False)


@final
@attrs.define(eq=False, repr=False)
class Context(AskingContext, Generic[StateT]):
    """A request being served. A handler that has a parameter annotated `Context` gets one.

    ``Context[State]`` names the type that the server's lifespan yields. Do not use a context after its request.
    """

    _input_responses: Mapping[str, types.InputResponse] = attrs.field(factory=dict[str, Any], init=False)
    _request_state: object = attrs.field(default=ABSENT, init=False)

    def __dir__(self) -> list[str]:
        return names_for_users(self)

    def _park(self, make: Callable[[], KeptNotifications]) -> None:
        """The handler is parked: keep its notifications for the next request.

        Args:
            make: Makes the queue, the first time.
        """
        if self._kept is None:
            self._kept = make()
        self._kept.is_parked = True

    def _serve_by(self, asked: Context[StateT]) -> KeptNotifications | None:
        """Go on with another request of the client: notifications belong to that from now on.

        It may have come over another connection than the last one, which may have ended: background tasks last as
        long as that connection from now on.

        Args:
            asked: The context of that request.

        Returns:
            What was kept, to be sent first; `None` if nothing was.
        """
        kept = self._kept
        if kept is not None:
            kept.is_parked = False
        asked._exchange.follow(self._exchange)
        self._exchange = asked._exchange
        self._surroundings = asked._surroundings
        self._agree(asked._agreement)
        return kept if kept is not None and kept.must_queue else None

    def _resume(
        self,
        requester: InputRequester | None,
        input_responses: Mapping[str, types.InputResponse],
        request_state: object,
    ) -> None:
        """Take the answers and the state that a request brings, and what asks from now on."""
        if requester is not None:
            self._requester = requester
        self._input_responses = input_responses
        self._request_state = request_state

    def _become_task(self, requester: InputRequester, exchange: Exchange) -> None:
        """Go on as a task: what is sent and asked from now on is the task's, and goes into another exchange."""
        self._requester, self._exchange = requester, exchange
        self._kept = None

    def _end_asking(self, requester: InputRequester) -> None:
        """The handler has ended: let go of what has asked and kept for it; who still asks is told by another."""
        self._requester = requester
        self._kept = None

    # The request and its client.

    @property
    def state(self) -> StateT:
        """What the server's lifespan yielded; `None` if it has none."""
        state: StateT = self._surroundings.state
        return state

    @property
    def request_id(self) -> RequestId:
        """The request's id, unique among the client's requests in flight, not longer."""
        return self._exchange.request.id

    @property
    def method(self) -> str:
        """The request's method."""
        return self._exchange.request.method

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        return self._exchange.meta

    @property
    def deadline(self) -> float:
        """When the caller will stop waiting, on Trio's clock, if it has sent its deadline; else ``math.inf``.

        The handler is cancelled then, and need not check.
        """
        return self._exchange.deadline

    @property
    def client_extensions(self) -> Mapping[str, Any]:
        """The extensions that the client has declared, with their settings as plain JSON."""
        return self.client_capabilities.extensions or {}

    @property
    def principal(self) -> Principal | None:
        """Who the client is, where the transport authenticates; equal principals are equal clients."""
        origin = self._exchange.origin
        return None if origin is None else as_principal(origin.principal)

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields of the HTTP request, without credentials; empty where there are none.

        Names are compared without case, and values of one name are joined by commas. `Authorization`, `Cookie`,
        and the other fields that show who the client is, are left out: see `principal`. Over a WebSocket there
        are none.
        """
        headers = getattr(self._exchange.origin, "headers", None)
        return _NO_HEADERS if headers is None else ShownHeaders(headers)

    @property
    def input_responses(self) -> Mapping[str, types.InputResponse]:
        """The answers to the questions of an `InputRequired` that was returned before; else empty."""
        return self._input_responses

    @property
    def request_state(self) -> Any:
        """The state of an `InputRequired` that was returned before; `None` if there was none."""
        return None if self._request_state is ABSENT else self._request_state

    # Progress and log messages.

    def progress(self, total: float | None = None) -> ProgressReporter:
        """Count and report progress: ``async with ctx.progress(total=10) as progress: …``.

        Args:
            total: How much there is to do in all, if that is known.

        Raises:
            TypeError: The total is no number.
            ValueError: The total is not a finite number.
        """
        if total is not None:
            check_number("total", total)
        return ProgressReporter(self, total)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress once: so much of the total is done. Not sent unless it is more than was sent before.

        Raises:
            TypeError: The progress or the total is no number.
            ValueError: The progress or the total is not a finite number.
        """
        await self._report(progress, total, message)

    async def log(self, level: types.LoggingLevel, data: object, *, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants messages of this severity.

        Args:
            level: The severity.
            data: The message, as plain JSON: a text, or an object.
            logger: The name of the logger.

        Raises:
            ValueError: There is no such level.

        Spec: 2026-07-28, server/utilities/logging; deprecated there, and so are the alternatives it names.
        """
        await self._log(level, data, logger)

    @ends_with_its_thread
    async def _log(self, level: types.LoggingLevel, data: object, logger: str | None) -> None:
        if self.wants_log(level):
            message = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
            await self._notify("notifications/message", to_wire(message, self.revision))
        else:
            await trio.lowlevel.checkpoint()

    def wants_log(self, level: types.LoggingLevel) -> bool:
        """Whether the client wants log messages of this severity.

        Raises:
            ValueError: There is no such level.
        """
        if level not in _SEVERITY:
            raise ValueError(f"level must be one of {', '.join(_SEVERITY)}, not {level!r}")
        wanted = self._agreement.log_level
        return wanted in _SEVERITY and _SEVERITY[level] >= _SEVERITY[wanted]

    def log_nowait(self, level: types.LoggingLevel, data: object, *, logger: str | None = None) -> None:
        """Send a log message as `log` does, but only if there is room for it.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
            ValueError: There is no such level.
        """
        if self.wants_log(level):
            message = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
            params = to_wire(message, self.revision)
            if self._kept is None or not self._kept.must_queue:
                self._exchange.notify_nowait("notifications/message", params)
            elif self._kept.is_parked:
                self._kept.keep(
                    lambda exchange: exchange.notify("notifications/message", params), weight_of(params)
                )
            else:
                raise trio.WouldBlock

    async def debug(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level debug; see `log`."""
        await self.log("debug", data, logger=logger)

    async def info(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level info; see `log`."""
        await self.log("info", data, logger=logger)

    async def notice(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level notice; see `log`."""
        await self.log("notice", data, logger=logger)

    async def warning(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level warning; see `log`."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level error; see `log`."""
        await self.log("error", data, logger=logger)

    async def critical(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level critical; see `log`."""
        await self.log("critical", data, logger=logger)

    async def alert(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level alert; see `log`."""
        await self.log("alert", data, logger=logger)

    async def emergency(self, data: object, *, logger: str | None = None) -> None:
        """Send a log message of level emergency; see `log`."""
        await self.log("emergency", data, logger=logger)

    # The low level.

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Send the client a request while serving its own; parameters and result are plain JSON.

        When the handler is cancelled, so is this request, and the client is notified.

        Raises:
            RequestError: The client answers with an error.
            RemoteProtocolError: The client's answer cannot be used.
            LocalProtocolError: In the revision in use servers do not send this request.
            ConnectionLost: The connection ended first.
        """
        check_given(Context.request, locals())
        if self.revision.is_modern:
            if method not in QUESTIONS:
                raise LocalProtocolError(f"a server of {self.revision} has no request {method}")
            question = read_params(params or {}, attrs.fields(input_types()[method][0]).params.type)
            client = self._client
            require_for(client, question)
            return dict(await client.requester.ask(method, question))
        rule = METHODS.get(method)
        if rule is not None and not rule.allows(Side.SERVER, self.revision):
            raise LocalProtocolError(f"a server of {self.revision} has no request {method}")
        return await self._ask(method, params, on_progress)

    @ends_with_its_thread
    @leaves_its_place
    async def _ask(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        return await self._exchange.ask(method, params, on_progress=on_progress)

    @ends_with_its_thread
    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification of your own, as part of the request: ``await ctx.notify("x/y", {…})``.

        It is sent as progress is: over HTTP in the stream of the request, in order with everything else that the
        handler sends, and before its answer. Once the request is answered nothing is sent. It is for methods that
        client and server have agreed on, such as those of an extension; look at `client_extensions` first. In the
        modern era a server sends nothing outside of requests but changes that a client has subscribed to, so this
        is the only way there; `Server.notify` reaches all sessions of the legacy era.

        Args:
            method: The method.
            params: Its parameters, as plain JSON.

        Raises:
            ValueError: The library sends this method by itself; the error says what to do instead.
            LocalProtocolError: It is a method of the protocol that no server of this revision sends; or the
                message is larger than `Limits.max_message_bytes`.
            ConnectionLost: The connection has ended.

        Spec: 2026-07-28, basic/patterns, "Request and Response".
        """
        check_own_notification(method, self.revision)
        await self._notify(method, params)

    @ends_with_its_thread
    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        check_number("progress", progress)
        if total is not None:
            check_number("total", total)
        # Counted as a float, sent as the whole number it mostly is.
        whole = int(progress)
        value = whole if whole == progress else progress
        # 2024-11-05 has no message.
        text = message if message is not None and self._agreement.revision >= _PROGRESS_MESSAGES else None
        if self._kept is not None and await self._queued(
            self._kept, lambda exchange: exchange.report(value, total, text), text
        ):
            return
        await self._exchange.report(value, total, text)

    async def release_connection(self, retry_after: float | None = None) -> None:
        """Close the client's HTTP connection while the handler works on; the client resumes the stream later.

        For work that takes longer than proxies keep a connection open. Where the transport or the revision does
        not have this, nothing happens.

        Args:
            retry_after: After how many seconds the client should reconnect.

        Raises:
            TypeError: That is no number.
            ValueError: That is negative, or not finite: the client would not reconnect.

        Spec: 2025-11-25, basic/transports, "Sending Messages to the Server" 6.
        """
        if retry_after is not None:
            check_seconds("retry_after", retry_after, is_told=True)
        origin = self._exchange.origin
        if isinstance(origin, ReleasableOrigin):
            origin.release(retry_after)
        await trio.lowlevel.checkpoint()

    # Tasks that outlive the request.

    @property
    def is_task(self) -> bool:
        """Whether the request was answered with a task already, so that its client comes back for the result."""
        return getattr(self._requester, "is_task", False)

    async def begin_task(self) -> bool:
        """Answer the request with a task now, and go on; for tools with ``task=`` and ``ask_first=True``.

        What was asked before belongs to the request, as in any tool; what is asked from now on is the task's.

        Returns:
            Whether it is a task now. It is none if the client does not know tasks, the tool has no ``task=``, or
            it is optional and no more can be kept; then the result is the answer to the request, as ever.

        Raises:
            RequestError: No more tasks can be kept, and the tool's calls must be tasks.
            LocalProtocolError: A question is open, in another task of the handler; or the handler has ended.

        Spec: ext-tasks, "Task Creation".
        """
        # Looked up where it is asked for: nothing of this is in the way of all other requests.
        begin: Callable[[], Awaitable[None]] | None = getattr(self._requester, "begin", None)
        if begin is None:
            await trio.lowlevel.checkpoint()
        else:
            await begin()
        return self.is_task

    def start_soon(
        self,
        async_fn: Callable[[*_Args], Awaitable[object]],
        *args: *_Args,
        until: Literal["session", "server"] = "session",
    ) -> None:
        """Start a task that goes on when the request is answered. What it raises is logged.

        Args:
            async_fn: The function it runs.
            *args: The function's arguments.
            until: What cancels it: the end of the connection, or of the running server. The connection of a
                handler that waited between two requests is that of the later one.

        Raises:
            trio.ClosedResourceError: The connection, or the server, has ended already.
        """
        check_given(Context.start_soon, {"async_fn": async_fn, "until": until})
        surroundings = self._surroundings
        background = surroundings.background if until == "session" else surroundings.server_background
        background.start_soon(async_fn, *args, on_failure=partial(report_failure, self._exchange.sink, None))


def origin_of(context: Context[Any]) -> Origin | None:
    """Return where a request came from; `None` over a pipe and in memory."""
    return context._exchange.origin


def declared_in(context: Context[Any]) -> Mapping[str, Any]:
    """Return the capabilities that the client has declared, as plain JSON."""
    return context._agreement.client_capabilities


def sink_of_request(context: Context[Any]) -> tuple[ExchangeSink, RequestId]:
    """Return where a request's answer goes, and its id, which differs from one round of input to the next."""
    exchange = context._exchange
    return exchange.sink, exchange.request.id


def exchange_of(context: Context[Any]) -> Exchange:
    """Return the exchange that serves a request now, or has served it last."""
    return context._exchange


def client_of_request(context: Context[Any]) -> tuple[str, bool]:
    """Return the client that a request is served for, and whether the server may have several.

    Over a pipe or in memory there is one client only, and its messages have no origin.
    """
    origin = context._exchange.origin
    return client_key_of(origin, context._surroundings.client), origin is not None


# For requests that are forwarded: neither what is asked nor what is sent is looked at.


async def ask_in(context: Context[Any], method: str, params: object) -> Mapping[str, Any]:
    """Ask the client a question of another server, and return the answer as it came."""
    return await context._client.requester.ask(method, params)


async def notify_in(context: Context[Any], method: str, params: Mapping[str, Any] | None) -> None:
    """Send a notification of another server as part of the request, or keep it for the next one."""
    await context._notify(method, params)


name_as_methods_of("Context", AskingContext)
