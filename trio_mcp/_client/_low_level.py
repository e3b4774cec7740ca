"""The part of the client that knows methods and plain JSON: calls, notifications, closing.

Typed calls (`_client`) are built on `LowLevelClient._call`: one request, in as many input rounds as it takes.
Here are also the options that typed calls share, the input rounds, and the reading of results. No tools, no
resources, no prompts.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar, cast, final

import attrs
import trio

from .._codec._json import InvalidData, cost_of, is_array, is_object
from .._codec._jsonrpc import from_wire
from .._core._reconnect import Backoff, RestartPolicy
from .._core._tasks import TASK, TASK_METHODS, request_declares_tasks
from .._errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
    ConnectionLost,
    RemoteProtocolError,
    RequestError,
    SessionLost,
)
from .._limits import Limits, check_given, refuse_unknown
from .._logs import Log
from .._peer._call import clock_stopped, current_clock, move_on_after_answer_time
from .._peer._exchange import OnProgress, Progress
from .._peer._peer import PeerStatistics
from .._revisions import INPUT_METHODS, LATEST, Revision
from .._trio import open_hidden_nursery
from ..types import (
    CallToolResult,
    Implementation,
    InputRequiredResult,
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
from ._caches import ClientCaches, is_fresh
from ._connection import Connection, check_params
from ._dispatch import ResultHandler
from ._questions import Question, Questions
from ._reconnecting import ReconnectingConnection

# Input rounds: what a modern server asks before it can answer a request, and what the request then brings along.
#
# Such a server cannot send requests. It answers with an `InputRequiredResult`; the client's handlers answer the
# questions in it, and the request is sent again, under a new id, until there is a result. The loop is
# `LowLevelClient._ask_in_rounds`. Nothing of this happens in the legacy era.
#
# Spec: 2026-07-28, basic/patterns/mrtr; basic, "ResultType".


_OPTIONS: Final = {
    "elicitation/create": "on_elicit",
    "sampling/createMessage": "on_sample",
    "roots/list": "roots",
}
"""The options of `open_client` that answer questions of servers."""

BROUGHT: Final = ("inputResponses", "requestState")
"""The parameters of a request that belong to one round."""

IDLE_ROUNDS: Final = RestartPolicy(max_restarts=1_000, first_delay=0.02, max_delay=10.0)
"""The pauses before a request is sent again to a server that is not done and asks back without a question."""


@final
@attrs.define(eq=False)
class Answered:
    """The outcome of a request.

    Attributes:
        result: The result as plain JSON.
        params: The parameters that were sent in the last round.
        result_type: ``"complete"``, ``"input_required"``, or the type of an extension.
        rounds: How often the server has asked back before.
    """

    result: dict[str, Any]
    params: Mapping[str, Any]
    result_type: str
    rounds: int

    @property
    def may_be_kept(self) -> bool:
        """Whether the result depends on nothing but the request, so that a cache may consider it."""
        return self.rounds == 0 and self.result_type == "complete"


@final
@attrs.define(eq=False)
class InputRounds:
    """Reads what a server asks back, and lets the user's handlers answer it.

    Args:
        reconnecting: Cancels handlers once no connection can follow.
        questions: Has the user's handlers.
        result_types: The types of results that extensions handle, by revision.
        max_at_once: How many questions of one request are answered at once. The others wait.
    """

    _reconnecting: ReconnectingConnection
    _questions: Questions
    _result_types: Mapping[Revision, Mapping[str, ResultHandler]]
    _max_at_once: int

    def result_type(
        self, method: str, result: Mapping[str, Any], revision: Revision, sent: Mapping[str, Any]
    ) -> str:
        """Return the type of a result.

        Args:
            method: The method of the request.
            result: The result.
            revision: The revision in use.
            sent: The parameters of the request, which may have declared that it knows tasks.

        Raises:
            RemoteProtocolError: The server asks back where it must not, or the type is unknown.
        """
        if not revision.is_modern:
            # Results have no type there, but for those of extensions that both sides have declared.
            declared = result.get("resultType")
            return (
                declared if isinstance(declared, str) and declared in self._result_types[revision] else "complete"
            )
        # Where it is missing the server's revision is older, whatever was agreed (2026-07-28, basic,
        # "ResultType").
        kind = result.get("resultType", "complete")
        if kind == "complete" or (kind == "input_required" and method in INPUT_METHODS):
            return str(kind)
        if kind == "input_required":
            raise RemoteProtocolError(f"{method}: the server must not answer this method with input_required")
        if isinstance(kind, str) and kind in self._result_types[revision]:
            return kind
        if kind == TASK and method in TASK_METHODS and request_declares_tasks(sent):
            return TASK
        raise RemoteProtocolError(f"{method}: the result is of an unknown type: {kind!r:.60}")

    async def bring(self, method: str, result: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
        """Return what the request brings along when it is sent again.

        Raises:
            RemoteProtocolError: The server asks what it may not, too much, or nothing.
            Others: As `answer`.
        """
        asked, state = result.get("inputRequests"), result.get("requestState")
        if asked is None and state is None:
            raise RemoteProtocolError(f"{method}: input_required with neither inputRequests nor requestState")
        brought: dict[str, Any] = {}
        if asked is not None:
            brought["inputResponses"] = await self.answer(method, asked, revision)
        if state is not None:
            if not isinstance(state, str):
                raise RemoteProtocolError(f"{method}: requestState: expected a string")
            brought["requestState"] = state
        await trio.lowlevel.checkpoint()
        return brought

    async def answer(self, method: str, asked: object, revision: Revision) -> dict[str, Any]:
        """Let the user's handlers answer the server's questions, as many at once as may be served at once.

        No handler is called unless every question is allowed. When one handler fails, the others are cancelled;
        and all of them when there will be no connection any more. While the connection is being restored they
        go on, and their answers are sent to the next one.

        Raises:
            RemoteProtocolError: The server asks what it may not.
            ConnectionLost: The connection is lost and will not be restored.
            trio.ClosedResourceError: The client was closed.
            Others: Whatever a handler raises, as itself if it is the only one.
        """
        questions = self._prepare(method, asked, revision)
        with self._reconnecting.cancelled_when_over(), clock_stopped():
            answers = await answered_all(questions, self._max_at_once, name=f"answering for {method}")
        await trio.lowlevel.checkpoint()  # there may have been nothing to answer
        return answers

    def _prepare(self, method: str, asked: object, revision: Revision) -> dict[str, Question]:
        if not is_object(asked):
            raise RemoteProtocolError(f"{method}: inputRequests: expected an object")
        questions: dict[str, Question] = {}
        for key, request in asked.items():
            try:
                questions[key] = self._prepare_one(request, revision)
            except (RequestError, ValueError) as error:
                why = error.message if isinstance(error, RequestError) else str(error)
                if isinstance(error, RequestError) and error.code == METHOD_NOT_FOUND:
                    option = _OPTIONS.get(cast("dict[str, str]", request)["method"])
                    why += f"; open_client({option}=...) lets it answer" if option else ""
                raise RemoteProtocolError(f"{method}: inputRequests.{key:.60}: {why}") from error
        return questions

    def _prepare_one(self, request: object, revision: Revision) -> Question:
        if not is_object(request) or not isinstance(request.get("method"), str):
            raise ValueError("expected an object with a method")
        params = request.get("params")
        if params is not None and not is_object(params):
            raise ValueError("params: expected an object")
        return self._questions.prepare(request["method"], params, revision)


async def answered_all(questions: Mapping[str, Question], most: int, *, name: str) -> dict[str, Any]:
    """Have questions answered, so many at once, and return the answers by key, in the order of the questions.

    When one fails, the others are cancelled.
    """
    answers: dict[str, Any] = dict.fromkeys(questions)
    unanswered = iter(questions.items())

    async def answer_some() -> None:
        for key, question in unanswered:  # each is taken by one of the tasks
            answers[key] = await question()

    async with open_hidden_nursery() as nursery:
        for _ in range(min(len(questions), most)):
            nursery.start_soon(answer_some, name=name)
    return answers


_log: Final = Log("trio_mcp.client")

_T = TypeVar("_T")

# Where progress goes.

ProgressTarget: TypeAlias = OnProgress | trio.MemorySendChannel[Progress]
"""A callback, or a channel that takes each `Progress` and is closed when the call ends, however it ends.

A channel needs a receiver: the call waits for it, as it waits for a callback. Once the receiving end is closed,
the call goes on without.
"""


@contextmanager
def progress_to(target: ProgressTarget | None) -> Generator[OnProgress | None]:
    """Yield the callback for a target, and close the target at the end if it is a channel."""
    if not isinstance(target, trio.MemorySendChannel):
        yield target
        return

    async def send(progress: Progress) -> None:
        try:
            await target.send(progress)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()  # the receiver has left, which is no reason to fail

    with target:
        yield send


# The options of typed calls.


class ListOptions(TypedDict, total=False):
    """The options of every call for a list.

    Attributes:
        cursor: Where to begin: the `next_cursor` of a page that was read before. Default: at the beginning.
        fresh: Whether to ask the server even if a cached result is still fresh. Default: no.
        meta: What to add to `_meta` of each request.
    """

    cursor: str | None
    fresh: bool
    meta: Mapping[str, object] | None


class Brought(TypedDict, total=False):
    """The parameters that all requests have in common whose server may ask back."""

    meta: Mapping[str, object] | None
    input_responses: InputResponses | None
    request_state: str | None


class WorkOptions(Brought, total=False):
    """The options of every call that a server may work on for a while.

    Attributes:
        on_progress: Called with each `Progress` the server reports, in this task, all before the call returns; or
            a channel that takes them and is closed when the call is over (see `ProgressTarget`).
        meta: What to add to the request's `_meta`.
        input_responses: Without the client's handlers: the answers to the `input_requests` of the last result.
        request_state: Likewise: the `request_state` of the last result; `None` if it had none.
    """

    on_progress: ProgressTarget | None


class AnsweringOptions(WorkOptions, total=False):
    """The same, where the client's handlers answer the server's questions."""

    input_required: Literal["answer"]


class HandingBackOptions(WorkOptions):
    """The same, where the caller answers the server's questions."""

    input_required: Literal["return"]


def brought_by(options: WorkOptions, *, takes_arguments: str = "") -> Brought:
    """Return the options that are parameters.

    Args:
        options: What was given by name.
        takes_arguments: The method, if it is one whose arguments could be meant.

    Raises:
        TypeError: An option is unknown.
    """
    brought = options.copy()
    if options:
        try:
            refuse_unknown(options, WorkOptions)
        except TypeError as error:
            if not takes_arguments:
                raise
            unknown = sorted(options.keys() - WorkOptions.__annotations__.keys())
            if unknown == ["timeout"]:
                raise
            given = ", ".join(f"{name!r}: ..." for name in unknown)
            raise TypeError(
                f"{error}; arguments go into a mapping: {takes_arguments}(name, {{{given}}})"
            ) from None
        brought.pop("on_progress", None)
    return brought


# Reading results.

LISTS: Final[dict[Any, tuple[str, Any]]] = {
    ListPromptsResult: ("prompts", Prompt),
    ListResourcesResult: ("resources", Resource),
    ListResourceTemplatesResult: ("resourceTemplates", ResourceTemplate),
    ListToolsResult: ("tools", Tool),
}
"""The member of a list's result that has the items, and their class. Those of extensions are added when they are
imported."""

MAX_REPORTED: Final = 5
"""How many of the items that are left out the log explains."""


def read_result(method: str, result: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read a result.

    Items of a list that cannot be read are left out, and logged: one bad tool must not hide the others. Any other
    result is read whole or not at all, because half of it could be mistaken for all of it. Only a tool's result
    may lack `content` beside structured content, which is all that some servers send; that is logged.

    Raises:
        RemoteProtocolError: It cannot be read.
    """
    if kind is CallToolResult and result.get("content") is None and "structuredContent" in result:
        _log.warning("%s: the result lacks content, which is required beside structuredContent", method)
        result = {**result, "content": []}
    try:
        return from_wire(result, kind)
    except InvalidData as error:
        member, item = LISTS.get(kind, ("", None))
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
    first = "; ".join(problems[:MAX_REPORTED])
    _log.warning("%s: left out %d of %d items that cannot be read: %s", method, len(problems), len(items), first)
    return readable


def read_answer(method: str, answered: Answered, kind: type[_T]) -> _T | InputRequiredResult:
    """Read the result of a call, which is an `InputRequiredResult` if the caller answers the questions.

    Raises:
        RemoteProtocolError: It cannot be read.
    """
    if answered.result_type == "input_required":
        return read_result(method, answered.result, InputRequiredResult)
    return read_result(method, answered.result, kind)


# The client.


@attrs.frozen(kw_only=True)
class ClientSettings:
    """The settings of a client that concern its calls.

    Attributes:
        request_timeout: Seconds after which any request fails.
        limits: How many questions a server may ask at once, how many pages a list may have, and so on.
        result_types: The handlers of extensions for their types of results, by revision.
        tasks: Which calls declare that they may be answered with a task.
    """

    request_timeout: float
    limits: Limits
    result_types: Mapping[Revision, Mapping[str, ResultHandler]]
    tasks: Literal["required", "always", "never"] = "required"


@attrs.define(eq=False, repr=False)
class LowLevelClient:
    """The part of `Client` that knows methods and plain JSON, and nothing of what they mean."""

    _reconnecting: ReconnectingConnection
    _questions: Questions
    _settings: ClientSettings
    _caches: ClientCaches
    _rounds: InputRounds = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        settings, most = self._settings, self._settings.limits.max_inbound_requests
        self._rounds = InputRounds(self._reconnecting, self._questions, settings.result_types, most)

    # What was agreed on.

    @property
    def revision(self) -> Revision:
        """The revision that was agreed on."""
        return self._reconnecting.agreed.revision

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version, if it has sent them. They are not verified."""
        return self._reconnecting.agreed.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities | None:
        """The capabilities that the server declares; `None` if it was not asked.

        Declarations are often wrong, so no call is refused because of them: it is sent, and the server's answer
        counts.
        """
        return self._reconnecting.agreed.capabilities

    @property
    def instructions(self) -> str | None:
        """How a model should use the server, if the server has sent that."""
        return self._reconnecting.agreed.instructions

    def statistics(self) -> PeerStatistics:
        """Return the counters of the connection, for tests and debugging."""
        return self._reconnecting.agreed.peer.statistics()

    # Asking.

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: ProgressTarget | None = None
    ) -> dict[str, Any]:
        """Send any request and wait for its result, both as plain JSON.

        The caller's deadline covers everything: waiting for a connection that is being restored, for room to
        write, writing, waiting for the result. The time left is sent to the server. The result is returned as it
        came, whatever its `resultType`: the client's handlers answer nothing.

        Args:
            method: The method, of the protocol or another.
            params: Its parameters. What the revision requires in `_meta` is added.
            on_progress: Called with each `Progress` of this request, in this task, all before this returns; or a
                channel that takes them (see `ProgressTarget`).

        Raises:
            RequestError: The answer is an error.
            RemoteProtocolError: The answer cannot be used.
            LocalProtocolError: The revision in use has no such method, and no extension of this client adds it
                (`ClientExtension.methods`); or the request is too large.
            ValueError: A number in `params` is NaN or infinite, which JSON has no number for.
            HttpStatusError: The answer is an error of HTTP, with its status and what came with it. `SessionLost`
                if the session was lost and another one could not be begun.
            ConnectionLost: The connection ended before the answer came. Over HTTP that may be true of this
                request alone, and others go on.
            trio.TooSlowError: ``request_timeout`` passed.
            trio.ClosedResourceError: The client was closed.
        """
        with progress_to(on_progress) as callback, self._timeout(method):

            def send(connection: Connection) -> Awaitable[dict[str, Any]]:
                connection.check(method)
                return connection.peer.request(method, connection.with_meta(params), on_progress=callback)

            try:
                return await self._reconnecting.ask(send)
            except TypeError:
                check_given(LowLevelClient.request, {"method": method, "params": params})
                raise

    async def request_many(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]], *, batch: bool = False
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests at once and wait for all of them.

        Args:
            requests: Methods and parameters, as for `request`.
            batch: Send them as one JSON-RPC batch. Only 2025-03-26 has batches, and most servers that speak it
                never answer one, so put a deadline around it. Refused where there is middleware.

        Returns:
            For each request, in order, its result or the error that answers it.

        Raises:
            LocalProtocolError: The revision in use has no batches; or a batch was to pass through middleware.
            ValueError: The batch is empty, or holds more than 1,000 or `Limits.max_outbound_requests`.
            Others: As `request`.

        Spec: 2025-03-26, basic, "Batching".
        """
        await trio.lowlevel.checkpoint()
        check_given(LowLevelClient.request_many, {"requests": requests, "batch": batch})
        if batch:

            async def send(connection: Connection) -> list[dict[str, Any] | RequestError]:
                connection.check_batch(method for method, _ in requests)
                outcomes = await connection.peer.request_batch(requests)
                for outcome in outcomes:
                    if isinstance(outcome, SessionLost):
                        raise outcome  # the server has seen none of them
                return outcomes

            with self._timeout("the batch"):
                return await self._reconnecting.ask(send)
        outcomes: list[dict[str, Any] | Exception] = [{} for _ in requests]

        async def ask(index: int, method: str, params: Mapping[str, Any] | None) -> None:
            try:
                outcomes[index] = await self.request(method, params)
            except Exception as error:  # all of it is raised or returned below
                outcomes[index] = error

        async with open_hidden_nursery() as nursery:
            for index, (method, params) in enumerate(requests):
                nursery.start_soon(ask, index, method, params)
        # Errors have frames that have the list, which must not have them in turn: they would be a cycle.
        return [_answer_or_raise(outcomes.pop(0)) for _ in requests]

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification. Returns when it is queued to be written; if cancelled, it was not sent.

        Raises:
            LocalProtocolError: The revision in use has no such notification, or it is too large.
        """
        connection = await self._reconnecting.connected()
        connection.check(method)
        await connection.peer.notify(method, params)

    async def answer_input(self, input_requests: Mapping[str, Any]) -> dict[str, Any]:
        """Let this client's handlers answer questions: for extensions, and for ``input_required="return"``.

        Args:
            input_requests: The questions: `inputRequests` as plain JSON.

        Returns:
            The answers by the keys of the questions: `inputResponses` as plain JSON.

        Raises:
            RemoteProtocolError: The server asks what it may not.
            ConnectionLost: The connection is lost for good; handlers that still ran were cancelled.
            trio.ClosedResourceError: The client was closed; likewise.
            Others: Whatever a handler raises.

        Spec: 2026-07-28, basic/patterns/mrtr, "InputRequests".
        """
        await trio.lowlevel.checkpoint()
        check_given(LowLevelClient.answer_input, {"input_requests": input_requests})
        return await self._rounds.answer("answer_input", dict(input_requests), self.revision)

    async def aclose(self) -> None:
        """Close the client, from any task. Closing again does nothing.

        Callbacks take the notifications that were received, for `Limits.goodbye_timeout` at most; what is left is
        dropped, and counted. Then pending requests are cancelled, on the wire too, and raise
        `trio.ClosedResourceError`, and a server process is ended. That takes at most `Limits.goodbye_timeout`,
        and for a process twice `Limits.terminate_timeout` more. If its caller is cancelled, closing goes on, at
        once.
        """
        try:
            await self._reconnecting.finish_notifications()
        finally:
            await self._reconnecting.aclose()  # noqa: ASYNC102 - what is under way goes on without this task

    # For the typed calls.

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
        """Make a call whose result the server may allow to be cached, or return the cached result.

        Where the server has no such list, it is an empty one.

        Args:
            method: The method.
            params: Its parameters.
            kind: The class of its result.
            fresh: Whether to ask the server even if a cached result is still fresh.
            on_progress: Where progress goes.
            weigh: Called with the bytes that the result takes in memory.
        """
        cache = self._caches.results
        with self._timeout(method):
            connection = await self._reconnecting.connected()
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
            answered = await self._call(method, params, on_progress)
        except RequestError as error:
            if pending is not None:
                cache.refused(pending, error, getattr(params, "cursor", None))
            if error.code == METHOD_NOT_FOUND and kind in LISTS and getattr(params, "cursor", None) is None:
                return from_wire({LISTS[kind][0]: []}, kind)  # many servers declare what they do not have
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

    def _call(
        self,
        method: str,
        params: RequestParams,
        on_progress: ProgressTarget | None = None,
        *,
        hand_back: bool = False,
    ) -> Awaitable[Answered]:
        """Send a request, in as many input rounds as it takes, until there is a result.

        While the server works, cancellation is sent to it for the request of that round; while the user's
        handlers work, they are cancelled, and nothing is sent because no request is pending.

        Args:
            method: The method.
            params: Its parameters, the same in each round.
            on_progress: Where the progress of every round goes.
            hand_back: Whether to return the server's questions instead of answering them.

        Raises:
            RemoteProtocolError: The server asks what it may not, too much or too often, or answers with an
                unknown type of result.
            Others: Whatever a handler raises, and as `request`.
        """
        # Not a coroutine, nor around every call: a call without a timeout runs in three frames before
        # `Sender.request`.
        # A channel is an abstract base class, to ask for which is slow.
        if self._settings.request_timeout == math.inf and (
            on_progress is None or not isinstance(on_progress, trio.MemorySendChannel)
        ):
            return self._ask_in_rounds(method, params, on_progress, hand_back=hand_back)
        return self._ask_in_time(method, params, on_progress, hand_back=hand_back)

    async def _ask_in_time(
        self, method: str, params: RequestParams, on_progress: ProgressTarget | None, *, hand_back: bool
    ) -> Answered:
        with progress_to(on_progress) as callback, self._timeout(method):
            return await self._ask_in_rounds(method, params, callback, hand_back=hand_back)

    async def _ask_in_rounds(
        self, method: str, params: RequestParams, on_progress: OnProgress | None, *, hand_back: bool
    ) -> Answered:
        wire: dict[str, Any] = {}
        revision = LATEST
        brought: dict[str, Any] | None = None

        def send(connection: Connection) -> Awaitable[dict[str, Any]]:
            nonlocal wire, revision
            revision = connection.revision
            if brought is not None and not revision.is_modern:
                raise ConnectionLost(f"{method}: the server came back with {revision}, which has no input rounds")
            connection.check(method)
            wire = connection.write(params)
            if brought is not None:
                wire = {name: wire[name] for name in wire if name not in BROUGHT} | brought
            return connection.peer.request(method, wire, on_progress=on_progress)

        idle: Backoff | None = None
        max_rounds = self._settings.limits.max_input_rounds
        for rounds in range(max_rounds + 1):
            try:
                result = await self._reconnecting.ask(send)
            except TypeError:
                check_params(params)
                raise
            except RequestError as error:
                if error.code == URL_ELICITATION_REQUIRED:
                    self._questions.elicitations.add_required(error.data)
                if error.code == INVALID_PARAMS:
                    check_params(params)
                raise
            kind = self._rounds.result_type(method, result, revision, wire)
            if kind != "input_required" or hand_back:
                answered = Answered(result, wire, kind, rounds)
                return answered if kind == "complete" else await self._finished(method, answered, revision)
            clock = current_clock()
            if clock is not None:
                clock.push()  # the server has answered, so it is not silent
            if rounds < max_rounds:
                brought = await self._rounds.bring(method, result, revision)
                if not brought.get("inputResponses"):
                    idle = idle or Backoff(IDLE_ROUNDS)
                    await trio.sleep(idle.next_delay(0) or IDLE_ROUNDS.max_delay)
        raise RemoteProtocolError(
            f"{method}: the server still asks back after {max_rounds} rounds (max_input_rounds)"
        )

    async def _finished(self, method: str, answered: Answered, revision: Revision) -> Answered:
        """Let an extension turn a result of its type into a complete one."""
        finish = self._settings.result_types[revision].get(answered.result_type)
        if finish is None:
            return answered
        with self._reconnecting.cancelled_when_over():
            result = dict(await finish(self, method, answered.params, answered.result))
        if result.get("resultType", "complete") != "complete":
            raise RemoteProtocolError(
                f"{method}: the extension that handles {answered.result_type} returned no complete result"
            )
        return attrs.evolve(answered, result=result)

    def _timeout(self, method: str) -> AbstractContextManager[None]:
        return nullcontext() if self._settings.request_timeout == math.inf else self._fail_late(method)

    @contextmanager
    def _fail_late(self, method: str) -> Generator[None]:
        # While the user is asked this clock stands still, and that of the server's handler would go on.
        is_sent = not self._questions.are_any or (
            self._reconnecting.agreed.revision.is_modern and method not in INPUT_METHODS
        )
        with move_on_after_answer_time(self._settings.request_timeout, is_told=is_sent) as scope:
            yield
        if scope.cancelled_caught:
            raise trio.TooSlowError(
                f"{method} was not answered within {self._settings.request_timeout:g} s (request_timeout)"
            )


def _answer_or_raise(outcome: dict[str, Any] | Exception) -> dict[str, Any] | RequestError:
    if isinstance(outcome, (dict, RequestError)):
        return outcome
    raise outcome
