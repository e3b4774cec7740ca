"""What a handler can ask its client while it serves a request, as methods; `Context` inherits them.

Also the queue of what a handler sends while it is parked. How each question is asked is written in `_asking`,
`_elicitation` and `_sampling`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, final, overload

import trio

from .. import types
from .._codec._convert import to_wire
from .._codec._json import cost_of
from .._codec._jsonrpc import Encoded
from .._core._lifecycle import Agreement
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._revisions import METHODS, Side
from .._trio import LightParkingLot
from ._asking import AskableClient, InputRequester, LegacyInputRequester, features_of, list_roots
from ._elicitation import Elicitation, elicit, elicit_url
from ._threads import ends_with_its_thread

if TYPE_CHECKING:
    from ._sampling import Preferences, SamplingInput


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


@final
class KeptNotifications:
    """The notifications that a parked handler sends, kept until the next request of its client can carry them.

    While the handler is parked they are kept within limits, and the oldest are dropped for later ones. When a
    request serves it again, they are sent first, in order; meanwhile a new notification queues behind them, and
    its sender waits.

    Args:
        max_length: How many are kept.
        max_bytes: How much memory they may take together.
        has_room: Whether so many bytes in all may be kept. Called before they are.
    """

    def __init__(self, max_length: int, max_bytes: int, has_room: Callable[[int], bool]) -> None:
        self._max_length = max_length
        self._max_bytes = max_bytes
        self._has_room = has_room
        self._queue: deque[tuple[Send, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._all_sent = LightParkingLot()
        self.is_parked = False

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
                len(self._queue) >= self._max_length or self._bytes + weight > self._max_bytes
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

    async def wait_sent(self) -> None:  # noqa: ASYNC910 - as its docstring says
        """Wait until the queue is empty or the handler is parked. Does not checkpoint if that is so already."""
        while self._queue and not self.is_parked:
            await self._all_sent.park()

    async def send_all(self, exchange: Exchange) -> None:  # noqa: ASYNC910 - as its docstring says
        """Send the queue as part of an exchange, in order, waiting for room. Does not checkpoint if empty."""
        if self._dropped:
            _log.warning(
                "%d notifications of a parked handler were dropped for later ones "
                "(max_notifications, max_parked_notification_bytes)",
                self._dropped,
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


class AskingContext:
    """The part of `Context` that asks the client. A question is cancelled with the handler that asks it.

    Args:
        exchange: The exchange that serves the request.
        agreement: What was agreed on with the client.
        find_tool: Returns the server's tool of a name; raises `ValueError` if there is none.
        requester: Asks the client; if `None`, by requests of the server.
    """

    def __init__(
        self,
        exchange: Exchange,
        agreement: Agreement,
        find_tool: Callable[[str], types.Tool],
        requester: InputRequester | None,
    ) -> None:
        self._exchange = exchange
        self._agreement = agreement
        self._find_tool = find_tool
        self._requester = requester
        self._kept: KeptNotifications | None = None

    @property
    def _client(self) -> AskableClient:
        features, requester = features_of(self._agreement), self._requester
        if requester is None:
            requester = LegacyInputRequester(self._exchange, self._agreement.revision)
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
            params = types.ElicitationCompleteNotificationParams(elicitation_id=elicitation_id)
            await self._notify(method, to_wire(params, self._agreement.revision))
        else:
            await trio.lowlevel.checkpoint()

    async def _notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification as part of the current request, or keep it for the next one."""
        if self._kept is not None and await self._queued(
            self._kept, lambda exchange: exchange.notify(method, params), params
        ):
            return  # noqa: ASYNC910 - not public
        await self._exchange.notify(method, params)

    async def _queued(self, kept: KeptNotifications, send: Send, params: Mapping[str, Any] | str | None) -> bool:
        """Queue a notification behind those kept while the handler was parked. Returns whether it had to be."""
        if not kept.must_queue:
            return False  # noqa: ASYNC910 - not public
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
            find_tool=self._find_tool,
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
