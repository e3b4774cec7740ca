"""What a handler can say and learn while it serves a request.

What handlers of a client's notifications are called with. Who calls them is the session's business.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeAlias, TypeVarTuple, final, get_args

import trio
from typing_extensions import TypeVar

from .. import types
from .._absent import ABSENT
from .._channel import Origin, ReleasableOrigin, holder_of
from .._codec._convert import to_wire
from .._codec._json import is_object
from .._codec._jsonrpc import Notification, RequestId
from .._core._lifecycle import Agreement
from .._errors import LocalProtocolError
from .._limits import check_number, check_seconds
from .._peer._exchange import Exchange, OnProgress
from .._revisions import METHODS, QUESTIONS, Revision, Side
from ..types import ClientCapabilities, Implementation
from ._asking import Asker, read_said
from ._input_required import require_for
from ._lifetimes import Background
from ._listing import read_params
from ._questions import KeptWords, Questions, weight_of
from ._threads import ends_with_its_thread, leaves_its_place

StateT = TypeVar("StateT", default=Any)

_OURS: Final = frozenset({"notifications/cancelled", "notifications/progress"})

_SENT_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "notifications/cancelled": "the connection sends it when a request is given up",
        "notifications/progress": "use Context.progress or Context.report_progress, which know the token",
        "notifications/message": "use Context.log, which heeds the level that the client wants",
        "notifications/tools/list_changed": "use Server.list_changed, which knows who wants to be told",
        "notifications/prompts/list_changed": "use Server.list_changed, which knows who wants to be told",
        "notifications/resources/list_changed": "use Server.list_changed, which knows who wants to be told",
        "notifications/resources/updated": "use Server.resource_updated, which knows who wants to be told",
        "notifications/subscriptions/acknowledged": "the server sends it when somebody subscribes",
        "notifications/elicitation/complete": "use Context.elicitation_complete",
    }
)
"""What the library sends of a server by itself, and who does."""


@final
class NotificationContext(Generic[StateT]):
    """A notification of a client being handled. Nobody waits for it, so there is nothing to answer."""

    def __init__(
        self, notification: Notification, origin: Origin | None, agreement: Agreement, state: StateT
    ) -> None:
        self._notification = notification
        self._origin = origin
        self._agreement = agreement
        self._state = state

    @property
    def state(self) -> StateT:
        """What the server's lifespan yielded; `None` if it has none."""
        return self._state

    @property
    def revision(self) -> Revision:
        """The revision by which the notification is read: the session's, or the newest if there is no session."""
        return self._agreement.revision

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
    def client_info(self) -> Implementation | None:
        """What the client says it is, if it says so. Nobody has checked it."""
        info = self._agreement.client_info
        return None if info is None else read_params(info, Implementation)

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client says it can do; nothing in the modern era, where only requests say it."""
        return read_params(self._agreement.client_capabilities, ClientCapabilities)

    @property
    def principal(self) -> str | None:
        """Who the client is, where the transport authenticates; equal strings are equal clients."""
        return None if self._origin is None else self._origin.principal


NotificationHandler: TypeAlias = Callable[[Mapping[str, Any], NotificationContext[Any]], Awaitable[object]]
"""Handles a notification: its parameters as plain JSON, and what is known about where it came from."""


def check_notification_method(method: str) -> None:
    """Check that a handler for notifications of this method could ever be called.

    Raises:
        ValueError: The connection itself handles them, or a client never sends them.
    """
    if method in _OURS:
        raise ValueError(f"{method} is handled by the connection itself")
    rule = METHODS.get(method)
    if rule is not None and not any(rule.allows(Side.CLIENT, revision) for revision in Revision):
        raise ValueError(f"{method} is never sent by a client")


def check_own_notification(method: str, revision: Revision) -> None:
    """Check that a server may send a notification of this method by hand.

    Raises:
        ValueError: The library sends it, and keeps the protocol's rules about it; the error says how.
        LocalProtocolError: The method is one of the protocol that a server of the revision does not send.
    """
    if method in _SENT_BY:
        raise ValueError(f"{method} cannot be sent by hand: {_SENT_BY[method]}")
    rule = METHODS.get(method)
    if rule is not None and not (method.startswith("notifications/") and rule.allows(Side.SERVER, revision)):
        raise LocalProtocolError(f"a server of {revision} has no notification {method}")


def check_announcement(method: str) -> None:
    """Check that a server may send all its sessions a notification of this method by hand.

    Raises:
        ValueError: The library sends it, and keeps the protocol's rules about it; the error says how.
        LocalProtocolError: The method is one of the protocol, which belongs to a request.
    """
    if method in _SENT_BY:
        raise ValueError(f"{method} cannot be sent by hand: {_SENT_BY[method]}")
    if method in METHODS:
        raise LocalProtocolError(f"{method} is a method of the protocol, and nothing to announce")


_State_co = TypeVar("_State_co", covariant=True)
_Args = TypeVarTuple("_Args")

_PROGRESS_MESSAGES: Final = Revision.V2025_03_26
_SEVERITY: Final = {level: rank for rank, level in enumerate(get_args(types.LoggingLevel))}


@final
class ProgressReporter:
    """Counts how far a handler has come, and reports it: ``async with ctx.progress(total=10) as progress:``.

    Reports go to the client if it asked for them, and nowhere else. What is reported only ever grows; a report
    that is not more than the last is not sent. Reporting stops when the request is answered.

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
        """Report that so much is done altogether.

        Args:
            value: How much is done.
            message: What is being done, for people.

        Raises:
            ValueError: The value is not a finite number.
        """
        check_number("progress", value)
        self._value = value
        await self._context._report(value, self._total, message)  # noqa: SLF001 - its own

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing; entering is the checkpoint."""


class Surroundings(Protocol[_State_co]):
    """Where a handler runs."""

    @property
    def state(self) -> _State_co:
        """What the server's lifespan yielded."""
        ...

    @property
    def holder(self) -> str:
        """In whose name something is kept, where a request does not say."""
        ...

    def find_tool(self, name: str) -> types.Tool:
        """Return one of the server's tools.

        Raises:
            ValueError: There is none of this name.
        """
        ...

    def background(self, until: Literal["session", "server"]) -> Background:
        """Return what starts tasks that last that long."""
        ...


@final
class Context(Questions, Generic[StateT]):
    """A request being served. A handler that has a parameter annotated `Context` gets one.

    ``Context[State]`` says what the server's lifespan yields. A context is of no use after its request.
    """

    def __init__(self, exchange: Exchange, agreement: Agreement, surroundings: Surroundings[StateT]) -> None:
        super().__init__(exchange, agreement, surroundings.find_tool, None)
        self._surroundings = surroundings
        self._input_responses: Mapping[str, types.InputResponse] = {}
        self._request_state: object = ABSENT

    def parked(self, make: Callable[[], KeptWords]) -> None:
        """No request attends the handler: what is said from now on is kept for the next one.

        Args:
            make: Returns where, the first time.
        """
        if self._kept is None:
            self._kept = make()
        self._kept.is_parked = True

    def attended_by(self, exchange: Exchange, agreement: Agreement) -> KeptWords | None:
        """Go on with another request of the client: what is said from now on belongs to that.

        Returns:
            What was kept for it, and is to be said first; `None` if that is nothing.
        """
        kept = self._kept
        if kept is not None:
            kept.is_parked = False
        exchange.follow(self._exchange)
        self._exchange = exchange
        self._agreement = agreement
        return kept if kept is not None and kept.is_silent else None

    def resume(
        self, asker: Asker | None, input_responses: Mapping[str, types.InputResponse], request_state: object
    ) -> None:
        """Take what a request brings that was asked for input before, and who can ask for more."""
        if asker is not None:
            self._given_asker = asker
        self._input_responses = input_responses
        self._request_state = request_state

    def _holder(self) -> str:
        return holder_of(self._exchange.origin, self._surroundings.holder)

    # What there is to know.

    @property
    def state(self) -> StateT:
        """What the server's lifespan yielded; `None` if it has none."""
        return self._surroundings.state

    @property
    def revision(self) -> Revision:
        """The revision by which the request is served."""
        return self._agreement.revision

    @property
    def request_id(self) -> RequestId:
        """The request's id: unique among the client's requests in flight, and that is all."""
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
        """When the caller will stop waiting, on Trio's clock, as far as it said so; else ``math.inf``.

        The handler is cancelled then; it need not look.
        """
        return self._exchange.deadline

    @property
    def client_info(self) -> types.Implementation | None:
        """What the client says it is. Nobody has checked it."""
        info = self._agreement.client_info
        return None if info is None else read_said(info, types.Implementation)

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        """What the client says it can do."""
        return read_said(self._agreement.client_capabilities, types.ClientCapabilities)

    @property
    def declared_capabilities(self) -> Mapping[str, Any]:
        """What the client says it can do, as plain JSON."""
        return self._agreement.client_capabilities

    @property
    def client_extensions(self) -> Mapping[str, Any]:
        """The extensions that the client has declared, with their settings as plain JSON."""
        return self.client_capabilities.extensions or {}

    @property
    def principal(self) -> str | None:
        """Who the client is, where the transport authenticates; equal strings are equal clients."""
        origin = self._exchange.origin
        return None if origin is None else origin.principal

    @property
    def input_responses(self) -> Mapping[str, types.InputResponse]:
        """The answers to the questions of an `InputRequired` that was returned before; else empty."""
        return self._input_responses

    @property
    def request_state(self) -> Any:
        """The state of an `InputRequired` that was returned before; `ABSENT` if there was none."""
        return self._request_state

    # What there is to say.

    def progress(self, total: float | None = None) -> ProgressReporter:
        """Count and report progress: ``async with ctx.progress(total=10) as progress: …``.

        Args:
            total: How much there is to do, if that is known.

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
        """Report progress once: so much of so much is done. Not sent unless it is more than was sent before.

        Raises:
            TypeError: The progress or the total is no number.
            ValueError: The progress or the total is not a finite number.
        """
        await self._report(progress, total, message)

    async def log(self, level: types.LoggingLevel, data: object, *, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants messages of this severity.

        Args:
            level: How severe it is.
            data: What to say, as plain JSON: a sentence, or an object.
            logger: Where it comes from.

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
            if self._kept is None or not self._kept.is_silent:
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
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Ask the client something while serving its request; parameters and result are plain JSON.

        When the handler is cancelled, so is the question, on the wire too.

        Raises:
            RequestError: The client answers with an error.
            RemoteProtocolError: Its answer cannot be used.
            LocalProtocolError: The revision in use has no such request of a server.
            ConnectionLost: The connection ended first.
        """
        if self.revision.is_modern:
            if method not in QUESTIONS:
                raise LocalProtocolError(f"a server of {self.revision} has no request {method}")
            # Imported when it is needed: it brings with it every object that there is.
            from ..types._methods import METHOD_TYPES

            question = read_said(params or {}, METHOD_TYPES[method].params)
            require_for(self._abilities, question)
            return dict(await self._asker.ask(method, question))
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

        It goes where progress goes: in the stream of the request over HTTP, in order with everything else that
        the handler says, and before its answer. Once the request is over nothing is sent. It is for methods that
        client and server have agreed on, such as those of an extension; look at `client_extensions` first. In the
        modern era a server says nothing outside of requests but what a client has subscribed to, so this is the
        only way there; `Server.notify` reaches all sessions of the legacy era.

        Args:
            method: The method.
            params: Its parameters, as plain JSON.

        Raises:
            ValueError: The library sends this method by itself; the error says how.
            LocalProtocolError: It is a method of the protocol that no server of this revision sends; or it is
                larger than a message may be.
            ConnectionLost: The connection is gone.

        Spec: 2026-07-28, basic/patterns, "Request and Response".
        """
        check_own_notification(method, self.revision)
        await self._notify(method, params)

    @ends_with_its_thread
    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        check_number("progress", progress)
        if total is not None:
            check_number("total", total)
        # Counted as a float, told as the whole number it mostly is.
        whole = int(progress)
        # 2024-11-05 has no message.
        can_say = message is not None and self._agreement.revision >= _PROGRESS_MESSAGES
        told = whole if whole == progress else progress
        text = message if can_say else None
        if self._kept is not None and await self._is_kept(
            self._kept, lambda exchange: exchange.report(told, total, text), text
        ):
            return  # noqa: ASYNC910 - not public
        await self._exchange.report(told, total, text)

    async def release_connection(self, retry_after: float | None = None) -> None:
        """Let the client's connection go while the handler works on; the client comes back for the rest.

        For work that outlasts what proxies put up with. Where the transport or the revision has nothing like it,
        nothing happens.

        Args:
            retry_after: After how many seconds the client should ask again.

        Raises:
            TypeError: That is no number.
            ValueError: That is negative, or not finite: the client would not come back.

        Spec: 2025-11-25, basic/transports, "Sending Messages to the Server" 6.
        """
        if retry_after is not None:
            check_seconds("retry_after", retry_after, is_told=True)
        origin = self._exchange.origin
        if isinstance(origin, ReleasableOrigin):
            origin.release(retry_after)
        await trio.lowlevel.checkpoint()

    # What else goes on.

    def start_soon(
        self,
        async_fn: Callable[[*_Args], Awaitable[object]],
        *args: *_Args,
        until: Literal["session", "server"] = "session",
    ) -> None:
        """Start a task that goes on when the request is answered. What it raises is logged.

        Args:
            async_fn: What it does.
            *args: With what.
            until: Whose end cancels it: that of the connection, or of the running server.

        Raises:
            trio.ClosedResourceError: That has ended already.
        """
        self._surroundings.background(until).start_soon(async_fn, *args)


def holder_served(context: Context[Any]) -> tuple[str, bool]:
    """Return in whose name something is done for the request that is served, and whether that is one of many.

    Over a pipe or in memory there is one client only; nothing says then where a request comes from.
    """
    return context._holder(), context._exchange.origin is not None  # noqa: SLF001 - users have no use for them
