"""What a handler can ask its client while it serves a request, as methods. `Context` has them all.

How each question is put is written in a module of its own.

What a handler says while no request of its client attends it, kept for the next one.
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
from ._asking import Abilities, Asker, Inquiry, WireAsker, list_roots, read_said
from ._elicitation import Elicitation, elicit, elicit_url
from ._threads import ends_with_its_thread

if TYPE_CHECKING:
    from ._sampling import Preferences, SamplingInput


_log: Final = Log("trio_mcp.server")

Words: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Says something as part of a request."""

WORDS_BYTES: Final = 512
"""What keeping something takes beside what is said."""


def weight_of(said: Mapping[str, Any] | Encoded | str | None) -> int:
    """Return what it takes to keep the parameters of a notification, or a text, in bytes."""
    if said is None:
        return WORDS_BYTES
    if isinstance(said, Encoded):
        return WORDS_BYTES + len(said)
    return WORDS_BYTES + cost_of(said)


@final
class KeptWords:
    """Progress and notifications of one handler.

    Args:
        most: How many of them are kept; beyond it the oldest make room.
        max_bytes: What they may weigh together.
        has_room: Asked whether so many bytes may be kept, before they are, and told how many are left.
    """

    def __init__(self, most: int, max_bytes: int, has_room: Callable[[int], bool]) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self._has_room = has_room
        self._words: deque[tuple[Words, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._said = LightParkingLot()
        self.is_parked = False

    @property
    def is_silent(self) -> bool:
        """Whether nobody may say anything but by way of this: nobody listens, or not all that is kept is said."""
        return self.is_parked or bool(self._words)

    def keep(self, words: Words, weight: int) -> None:
        """Keep something until somebody listens, and it is its turn.

        While nobody listens the oldest make room. While that is said which was kept, who says more waits for it.

        Args:
            words: Says it.
            weight: What it takes to keep it, in bytes.
        """
        if self.is_parked:
            while self._words and (len(self._words) >= self._most or self._bytes + weight > self._max_bytes):
                self._drop()
            while not self._has_room(self._bytes + weight):
                if not self._words:
                    self._dropped += 1
                    return
                self._drop()
        self._words.append((words, weight))
        self._bytes += weight

    def _drop(self) -> None:
        _, weight = self._words.popleft()
        self._bytes -= weight
        self._dropped += 1

    async def wait_said(self) -> None:  # noqa: ASYNC910 - as its docstring says
        """Wait until all that was kept is said, unless nobody listens. Does not checkpoint if it is so."""
        while self._words and not self.is_parked:
            await self._said.park()

    async def say(self, exchange: Exchange) -> None:  # noqa: ASYNC910 - as its docstring says
        """Say what was kept as part of a request, in order, waiting for room."""
        if self._dropped:
            _log.warning(
                "%d notifications of a handler that waited for its client between two requests of it made room "
                "for later ones (max_notifications, max_parked_notification_bytes)",
                self._dropped,
            )
            self._dropped = 0
        try:
            while self._words:
                words, weight = self._words[0]
                await words(exchange)
                self._words.popleft()
                self._bytes -= weight
        finally:
            self._said.unpark_all()


_T = TypeVar("_T")


class Questions:
    """What can be asked of a client. In every era a question ends with the handler that asks it.

    Args:
        exchange: What is being served.
        agreement: What was agreed on with the client.
        find_tool: Returns the server's tool of a name; raises `ValueError` if there is none.
        asker: Brings the questions to the client; by requests of their own, if `None`.
    """

    def __init__(
        self,
        exchange: Exchange,
        agreement: Agreement,
        find_tool: Callable[[str], types.Tool],
        asker: Asker | None,
    ) -> None:
        self._exchange = exchange
        self._agreement = agreement
        self._find_tool = find_tool
        self._given_asker = asker
        self._kept: KeptWords | None = None

    @property
    def _asker(self) -> Asker:
        return (
            WireAsker(self._exchange, self._agreement.revision)
            if self._given_asker is None
            else self._given_asker
        )

    @property
    def _abilities(self) -> Abilities:
        capabilities = read_said(self._agreement.client_capabilities, types.ClientCapabilities)
        return Abilities(self._agreement.revision, capabilities)

    @property
    def _inquiry(self) -> Inquiry:
        abilities = self._abilities
        return Inquiry(abilities.revision, abilities.capabilities, self._asker)

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
            wanted: What the answer is to be. A class (attrs, dataclass, `TypedDict`, `NamedTuple`, pydantic,
                msgspec) whose members are the fields: text, numbers, `bool`, dates, `Literal` and `Enum` for a
                choice, a list or set of these for a choice of several; `Annotated` for bounds and descriptions;
                optional and with defaults. One of these types alone asks for one value. A `RequestedSchema` is
                shown as it is, and its answer is a dictionary. The members of an `Enum` are shown by their names,
                or by their `label` if they have one, where that says more than their values.

        Returns:
            What the user did, and the value.

        Raises:
            TypeError: A form cannot ask for such a value. The message names the field.
            CapabilityMissing: The client shows no forms, or none with choices of several.
            RemoteProtocolError: What was filled in does not fit. The message names the field.
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/elicitation, "Form Mode Elicitation Requests".
        """
        return await elicit(self._inquiry, message, wanted)

    async def elicit_url(self, message: str, url: str, elicitation_id: str | None = None) -> Elicitation[None]:
        """Ask the client's user to go to a URL, where you get what must not pass through the client.

        That they accept means that they agree to go, not that they are done there. Whoever comes to the URL may
        be somebody else than the user who was asked: find out.

        Args:
            message: What for.
            url: Where to; ``https``, save in development. It must not let anybody in.
            elicitation_id: What the visit is known by, in 2025-11-25; a random text unless given.

        Raises:
            ValueError: It is no such URL, or has credentials in it.
            CapabilityMissing: The client sends its user nowhere.
            RemoteProtocolError: The answer cannot be used.
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/elicitation, "URL Mode Elicitation Requests", "Safe URL Handling".
        """
        return await elicit_url(self._inquiry, message, url, elicitation_id)

    @ends_with_its_thread
    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that its user is done at a URL, while this request lasts; 2025-11-25 alone has this.

        Spec: 2025-11-25, client/elicitation, "Completion Notifications for URL Mode Elicitation".
        """
        method = "notifications/elicitation/complete"
        if METHODS[method].allows(Side.SERVER, self._agreement.revision):
            params = types.ElicitationCompleteNotificationParams(elicitation_id=elicitation_id)
            await self._notify(method, to_wire(params, self._agreement.revision))
        else:
            await trio.lowlevel.checkpoint()

    async def _notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Say something as part of the request that attends the handler, or keep it for the next one."""
        if self._kept is not None and await self._is_kept(
            self._kept, lambda exchange: exchange.notify(method, params), params
        ):
            return  # noqa: ASYNC910 - not public
        await self._exchange.notify(method, params)

    async def _is_kept(self, kept: KeptWords, words: Words, said: Mapping[str, Any] | str | None) -> bool:
        """Say something behind what was kept while nobody attended the handler. Returns whether anything was."""
        if not kept.is_silent:
            return False  # noqa: ASYNC910 - not public
        # Before any checkpoint, so that it is in order with what other tasks say.
        kept.keep(words, weight_of(said))
        await trio.lowlevel.checkpoint()
        await kept.wait_said()
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
                content are the user's. What the client's revision has not is described in words.
            max_tokens: How many tokens the answer may have.
            system_prompt: What to tell the model beforehand.
            model_preferences: Which model to use: a part of its name, several, or `ModelPreferences`.
            temperature: How freely it speaks.
            stop_sequences: What ends the answer.
            include_context: Whose context to give the model. Deprecated, save ``"none"``.
            metadata: What to pass on to whoever runs the model.
            tools: The tools it may wish to use, or the names of tools of this server. Calling them is up to you.
            tool_choice: Whether it may, must or must not use them.
            on_progress: Called with each progress notification, where a question can have any.

        Raises:
            TypeError: Something is not what it should be.
            ValueError: Something is out of bounds, or there is no tool of that name.
            LocalProtocolError: Uses and results of tools in the conversation do not go together.
            CapabilityMissing: The client lets nobody ask its model, or not like this.
            RemoteProtocolError: The answer cannot be used.
            RequestError: The client answers with an error; ``-1`` if the user said no.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/sampling; deprecated there.
        """
        from ._sampling import sample  # it has the most to import, and most servers never ask

        return await sample(
            self._inquiry,
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
            CapabilityMissing: The client has no roots.
            RemoteProtocolError: The answer cannot be used, or one of them is no file.
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.

        Spec: 2026-07-28, client/roots; deprecated there.
        """
        return await list_roots(self._inquiry)
