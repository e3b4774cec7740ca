"""What a client does whatever is asked: ask, notify, close. No tools, no resources, no prompts.

Where the progress of a request goes: to a callback, or into a channel.

What the typed calls of a client can be told beside what they ask for.

Results read from the wire into their classes, as far as they can be. No I/O here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

import attrs
import trio

from .._codec._convert import from_wire
from .._codec._json import cost_of, is_array
from .._codec._jsonrpc import InvalidData
from .._errors import RemoteProtocolError, RequestError, SessionLost
from .._limits import Limits
from .._logs import Log
from .._peer._call import move_on_after_answer_time
from .._peer._exchange import OnProgress, Progress
from .._peer._peer import PeerStatistics
from .._revisions import INPUT_METHODS, Revision
from .._trio import open_hidden_nursery
from ..types import (
    Implementation,
    InputResponses,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    RequestParams,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Tool,
)
from ._caches import ClientMemory, is_fresh
from ._connection import Connection
from ._dispatch import ResultHandler
from ._input_rounds import Answered, Rounds
from ._questions import Questions
from ._reconnecting import ConnectionKeeper

ProgressTarget: TypeAlias = OnProgress | trio.MemorySendChannel[Progress]
"""A callback, or a channel that takes each `Progress` and is closed when the call is over, however it ends.

A channel wants somebody who receives: the call waits for them, as it waits for a callback. Once nobody does any
more because the receiving end is closed, the call goes on without.
"""


@contextmanager
def progress_to(target: ProgressTarget | None) -> Generator[OnProgress | None]:
    """Give the callback that serves a target, and close the channel at the end if the target is one."""
    if not isinstance(target, trio.MemorySendChannel):
        yield target
        return

    async def send(progress: Progress) -> None:
        try:
            await target.send(progress)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()  # nobody is interested any more, which is no reason to fail

    with target:
        yield send


class ListOptions(TypedDict, total=False):
    """What every call for a list can be told.

    Attributes:
        cursor: Where to begin: the `next_cursor` of a page that was read before. Default: at the beginning.
        fresh: Whether to ask the server even if a kept answer is still good. Default: no.
        meta: What to add to `_meta` of each request.
    """

    cursor: str | None
    fresh: bool
    meta: Mapping[str, object] | None


class WorkOptions(TypedDict, total=False):
    """What every call that a server may work on for a while can be told.

    Attributes:
        on_progress: Called with each `Progress` the server reports, in this task, all before the call returns; or
            a channel that takes them and is closed when the call is over (see `ProgressTarget`).
        meta: What to add to the request's `_meta`.
        input_responses: By hand: the answers to the `input_requests` that came back before.
        request_state: By hand: the `request_state` that came back before; `None` if none did.
    """

    on_progress: ProgressTarget | None
    meta: Mapping[str, object] | None
    input_responses: InputResponses | None
    request_state: str | None


class Brought(TypedDict):
    """What the parameters of a request that a server may answer by asking back have in common."""

    meta: Mapping[str, object] | None
    input_responses: InputResponses | None
    request_state: str | None


def brought_by(options: WorkOptions) -> Brought:
    """Return what goes into the parameters.

    Raises:
        TypeError: There is no such option.
    """
    if options:
        refuse_unknown(options, WorkOptions)
    return {
        "meta": options.get("meta"),
        "input_responses": options.get("input_responses"),
        "request_state": options.get("request_state"),
    }


def refuse_unknown(options: Mapping[str, object], known: type[Any]) -> None:
    """Refuse an option that is misspelt. Python lets everything through where options are ``**options``.

    Args:
        options: What was given.
        known: The `TypedDict` that says what there is.

    Raises:
        TypeError: There is no such option.
    """
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        names = ", ".join(sorted(unknown))
        raise TypeError(f"there is no option {names}; see {known.__name__}: {', '.join(known.__annotations__)}")


_log: Final = Log("trio_mcp.client")

_T = TypeVar("_T")

_LISTS: Final[Mapping[Any, tuple[str, Any]]] = MappingProxyType(
    {
        ListPromptsResult: ("prompts", Prompt),
        ListResourcesResult: ("resources", Resource),
        ListResourceTemplatesResult: ("resourceTemplates", ResourceTemplate),
        ListToolsResult: ("tools", Tool),
    }
)
"""Where the items of a list lie, and what they are."""

MAX_TOLD: Final = 5
"""How many of the items that are left out the log explains."""


def read_result(method: str, result: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read a result.

    Items of a list that cannot be read are left out, and logged: one odd tool must not hide the others. Any other
    result is read as a whole or not at all, for half of it could be mistaken for all of it.

    Raises:
        RemoteProtocolError: It cannot be read.
    """
    try:
        return from_wire(result, kind)
    except InvalidData as error:
        member, item = _LISTS.get(kind, ("", None))
        items = result.get(member)
        if not is_array(items):
            raise RemoteProtocolError(f"{method}: {error}") from error
        readable = _readable(method, member, items, item)
        try:
            return from_wire({**result, member: readable}, kind)
        except InvalidData as other:
            raise RemoteProtocolError(f"{method}: {other}") from other


def _readable(method: str, member: str, items: list[Any], kind: Any) -> list[Any]:
    readable: list[Any] = []
    problems: list[str] = []
    for index, item in enumerate(items):
        try:
            from_wire(item, kind)
        except InvalidData as error:
            problems.append(f"{member}[{index}]: {error}")
        else:
            readable.append(item)
    told = "; ".join(problems[:MAX_TOLD])
    _log.warning("%s: left out %d of %d items that cannot be read: %s", method, len(problems), len(items), told)
    return readable


@attrs.frozen(kw_only=True)
class ClientSettings:
    """What a client needs to know beside its connection.

    Attributes:
        request_timeout: Seconds after which any request fails.
        max_input_rounds: How often a server may ask back before it answers one request.
        limits: How many questions a server may ask at once, how many pages a list may have, and so on.
        result_types: The types of results that extensions take.
    """

    request_timeout: float
    max_input_rounds: int
    limits: Limits
    result_types: Mapping[str, ResultHandler]


class LowLevelClient:
    """The part of `Client` that knows methods and plain JSON, and nothing of what is behind them."""

    def __init__(
        self, keeper: ConnectionKeeper, questions: Questions, settings: ClientSettings, memory: ClientMemory
    ) -> None:
        self._keeper = keeper
        self._memory = memory
        self._questions = questions
        self._settings = settings
        self._rounds = Rounds(
            keeper,
            questions,
            settings.result_types,
            max_rounds=settings.max_input_rounds,
            max_questions=settings.limits.max_inbound_requests,
        )

    # What was agreed on.

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self._keeper.agreed.revision

    @property
    def server_info(self) -> Implementation | None:
        """What the server says it is, if it has said so. Nobody has checked it."""
        return self._keeper.agreed.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities | None:
        """What the server says it can do; `None` if it was not asked.

        Servers are wrong about themselves, so nothing is held back because of it: what is called is sent, and the
        server's own answer counts.
        """
        return self._keeper.agreed.capabilities

    @property
    def instructions(self) -> str | None:
        """How a model should use the server, if it says so."""
        return self._keeper.agreed.instructions

    def statistics(self) -> PeerStatistics:
        """Return the counters of the connection, for tests and debugging."""
        return self._keeper.agreed.peer.statistics()

    # Asking.

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: ProgressTarget | None = None,
    ) -> dict[str, Any]:
        """Send any request and wait for its result, both as plain JSON.

        The caller's deadline covers everything: waiting for a connection that is being restored, for room to
        write, writing, waiting. The server is told how much time is left. The result is what the server said,
        whatever its `resultType`: nothing is answered for you.

        Args:
            method: The method, of the protocol or your own.
            params: Its parameters. What the revision demands in `_meta` is added.
            on_progress: Called with each `Progress` of this request, in this task, all before this returns; or a
                channel that takes them (see `ProgressTarget`).

        Raises:
            RequestError: The answer is an error.
            RemoteProtocolError: The answer cannot be used.
            LocalProtocolError: The revision in use has no such method, or the request is too large.
            HttpStatusError: The answer is an error of HTTP, with its status and what came with it. One that says
                that the session is lost has been dealt with, if that was possible: `SessionLost`.
            ConnectionLost: The connection ended before the answer came. Over HTTP that may be true of this
                request alone, and others go on.
            trio.TooSlowError: ``request_timeout`` passed.
            trio.ClosedResourceError: The client was closed.
        """
        with progress_to(on_progress) as callback, self._timeout(method):

            async def make(connection: Connection) -> dict[str, Any]:
                connection.check(method)
                return await connection.peer.request(method, connection.with_meta(params), on_progress=callback)

            return await self._keeper.ask(make)

    async def request_many(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]], *, batch: bool = False
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests at once and wait for all of them.

        Args:
            requests: Methods and parameters, as for `request`.
            batch: Send them as one JSON-RPC batch. Only 2025-03-26 has batches, and most servers that speak it
                never answer one, so put a deadline around it. Where middleware keeps some of the requests
                back while others are through, those go out as a batch, and the rest as further ones.

        Returns:
            For each request, in order, its result or the error that answers it.

        Raises:
            LocalProtocolError: The revision in use has no batches.
            ValueError: The batch is empty, or larger than `Limits.max_batch_messages` or
                `Limits.max_outbound_requests`.
            Others: As `request`.

        Spec: 2025-03-26, basic, "Batching".
        """
        await trio.lowlevel.checkpoint()
        if batch:

            async def make(connection: Connection) -> list[dict[str, Any] | RequestError]:
                connection.check_batch(method for method, _ in requests)
                outcomes = await connection.peer.request_batch(requests)
                for outcome in outcomes:
                    if isinstance(outcome, SessionLost):
                        raise outcome  # none of them was looked at
                return outcomes

            with self._timeout("the batch"):
                return await self._keeper.ask(make)
        outcomes: list[dict[str, Any] | Exception] = [{} for _ in requests]

        async def ask(index: int, method: str, params: Mapping[str, Any] | None) -> None:  # noqa: ASYNC910
            try:
                outcomes[index] = await self.request(method, params)
            except Exception as error:  # all of it is raised or returned below
                outcomes[index] = error

        async with open_hidden_nursery() as nursery:
            for index, (method, params) in enumerate(requests):
                nursery.start_soon(ask, index, method, params)
        return [_answer_or_raise(outcome) for outcome in outcomes]

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification. Returns when it is in line to be written; cancelled, it was not sent.

        Raises:
            LocalProtocolError: The revision in use has no such notification, or it is too large.
        """
        connection = await self._keeper.connected()
        connection.check(method)
        await connection.peer.notify(method, params)

    async def answer_input(self, input_requests: Mapping[str, Any]) -> dict[str, Any]:
        """Let this client's handlers answer what a server asks, for extensions and for requests driven by hand.

        Args:
            input_requests: The questions as plain JSON: `inputRequests` as it is on the wire.

        Returns:
            The answers by the keys of the questions, as plain JSON: `inputResponses` as it goes on the wire.

        Raises:
            RemoteProtocolError: The server asks what it may not.
            ConnectionLost: The connection is gone for good; handlers that still ran were cancelled.
            trio.ClosedResourceError: The client was closed; likewise.
            Others: Whatever a handler raises.

        Spec: 2026-07-28, basic/patterns/mrtr, "InputRequests".
        """
        await trio.lowlevel.checkpoint()
        return await self._rounds.answer("answer_input", dict(input_requests), self.revision)

    async def aclose(self) -> None:
        """Close the client, from any task. Closing again does nothing.

        Requests that are still waited for are given up, on the wire too, and raise `trio.ClosedResourceError`. A
        server process is ended. Takes at most `Limits.goodbye_timeout`, and for a process twice
        `Limits.terminate_timeout` more. Cancelled, it goes on without its caller.
        """
        await self._keeper.aclose()

    # For the typed calls.

    async def _ask(
        self,
        method: str,
        params: RequestParams,
        kind: type[_T],
        *,
        on_progress: ProgressTarget | None = None,
    ) -> _T:
        """Send a typed request, in as many rounds as it takes, and return its typed result."""
        answered = await self._converse(method, params, on_progress=on_progress)
        return read_result(method, answered.result, kind)

    async def _ask_cacheable(
        self,
        method: str,
        params: RequestParams,
        kind: type[_T],
        *,
        fresh: bool,
        on_progress: ProgressTarget | None = None,
        weigh: Callable[[int], object] | None = None,
    ) -> _T:
        """Do what `_ask` does for a result that its server may allow to be kept.

        Args:
            method: The method.
            params: Its parameters.
            kind: The class of its result.
            fresh: Whether to ask the server even if a kept answer is still good.
            on_progress: Where progress goes.
            weigh: Called with what the result takes in memory.
        """
        cache = self._memory.cache
        with self._timeout(method):
            connection = await self._keeper.connected()
        connection.check(method)
        pending = cache.pending(connection, method, params)
        if pending is not None and not fresh:
            kept = cache.find(pending)
            if kept is not None and isinstance(kept.result, kind):
                await trio.lowlevel.checkpoint()
                if weigh is not None:
                    weigh(kept.weight)
                return kept.result
        try:
            answered = await self._converse(method, params, on_progress=on_progress)
        except RequestError as error:
            if pending is not None:
                cache.refused(pending, error, getattr(params, "cursor", None))
            raise
        result = read_result(method, answered.result, kind)
        may_be_kept = pending is not None and answered.may_be_kept
        weight = 0
        if weigh is not None or (may_be_kept and is_fresh(result)):
            weight = cost_of(answered.result)
        if weigh is not None:
            weigh(weight)
        if pending is not None and may_be_kept:
            cache.keep(pending, result, weight)
        return result

    async def _converse(
        self,
        method: str,
        params: RequestParams,
        *,
        on_progress: ProgressTarget | None = None,
        hand_back: bool = False,
    ) -> Answered:
        """Ask until there is a result, and let an extension finish it if it is of a type of its own."""
        if self._settings.request_timeout == math.inf and not isinstance(on_progress, trio.MemorySendChannel):
            answered = await self._rounds.ask(method, params, on_progress=on_progress, hand_back=hand_back)
            return await self._finished(method, answered)
        with progress_to(on_progress) as callback, self._timeout(method):
            answered = await self._rounds.ask(method, params, on_progress=callback, hand_back=hand_back)
            return await self._finished(method, answered)

    async def _finished(self, method: str, answered: Answered) -> Answered:
        """Let an extension finish a result that is of a type of its own."""
        finish = self._settings.result_types.get(answered.result_type)
        if finish is None:
            return answered  # noqa: ASYNC910 - the callers have waited for it
        with self._keeper.while_kept():
            result = dict(await finish(self, method, answered.params, answered.result))
        if result.get("resultType", "complete") != "complete":
            raise RemoteProtocolError(f"{method}: an extension made no complete result of {answered.result_type}")
        return attrs.evolve(answered, result=result)

    def _timeout(self, method: str) -> AbstractContextManager[None]:
        return nullcontext() if self._settings.request_timeout == math.inf else self._fail_late(method)

    @contextmanager
    def _fail_late(self, method: str) -> Generator[None]:
        # While the user is asked this clock stands still, and that of the server's handler would go on.
        is_told = not self._questions.are_any or (
            self._keeper.agreed.revision.is_modern and method not in INPUT_METHODS
        )
        with move_on_after_answer_time(self._settings.request_timeout, is_told=is_told) as scope:
            yield
        if scope.cancelled_caught:
            raise trio.TooSlowError(
                f"{method} was not answered within {self._settings.request_timeout:g} s (request_timeout)"
            )


def _answer_or_raise(outcome: dict[str, Any] | Exception) -> dict[str, Any] | RequestError:
    if isinstance(outcome, (dict, RequestError)):
        return outcome
    raise outcome
