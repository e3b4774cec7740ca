"""A running server, and the handlers in it that outlive their request to wait for their client's answer.

A modern server cannot send its client a request. It answers "input required", and the client sends the same
request again with the answers (2026-07-28, basic/patterns/mrtr). Meanwhile the handler is parked here, or is
cancelled and run again. Where a handler cannot ask, its request is served without any of this.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, final

import attrs
import trio
from typing_extensions import TypeVar

from .. import types
from .._absent import ABSENT
from .._audit import ACCESS, Records
from .._channel import Origin
from .._codec import _json
from .._codec._json import cost_of
from .._codec._jsonrpc import Request, to_wire
from .._core._account import Account, Loan, Overdrawn, Pool, lend_all
from .._core._sealing import Sealer, StateRefused, binding_of
from .._errors import INTERNAL_ERROR, SERVER_BUSY, LocalProtocolError, RequestError
from .._limits import KIB, Limits
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._revisions import LATEST
from .._trio import Contained, LightParkingLot, propagating, wall_time
from ._access import PARKED, RequestActivity, Watched, activity_of
from ._asking import requester_of
from ._context import Context, KeptNotifications, exchange_of
from ._input_required import Asking, InputRequired, UsedStates, check_answers, input_request, input_types
from ._lifetimes import Background, EndedBeforeStart, Lifetime, MemoryReturn, Shutdown, open_background
from ._threads import ends_with_its_thread, leaves_its_place

_log: Final = Log("trio_mcp.server")

BoundHandler: TypeAlias = Callable[[Context[Any]], Awaitable[object]]
"""A handler with its parameters; it lacks only its context."""

# The first byte of a sealed state: how to go on.
_PARKED: Final = b"P"
_REPLAY: Final = b"R"
_RETURNED: Final = b"H"

TOKEN_BYTES: Final = 16

MAX_STATE_BYTES: Final = 64 * KIB
"""What a state may weigh that the client carries from one request to the next: it is sent with each of them."""

_TAG: Final = re.compile(r"w[0-9]{1,15}\.", re.ASCII)


def tag_of(name: str) -> str:
    """Return the tag of the process, of several, that a state or the id of a session names; empty without one."""
    found = _TAG.match(name)
    return "" if found is None else found[0]


PARKED_BYTES: Final = 16 * 1024
"""What a parked handler takes in memory beside parameters and questions: its task, its scopes, its context."""

COALESCING_CHECKPOINTS: Final = 3
"""How often other tasks run after a question, so that a nursery's questions go out as one answer."""

# A handler awaits an answer like anything else, and does not know the era. So one that may ask runs in a task of
# the server (`HandlerRun.run`), not of its request. The task of the request waits for it (`HandlerRun.serve`):
#
#     a request ──> serves the handler ──> it has ended ──> its result is the answer
#                                      ──> it has asked ──> "input required" is the answer, with a sealed state,
#                                                           and the handler is parked
#     the same request, with the state and the answers ──> serves the parked handler, as above
#
# A run is *served* (a task is in `serve`, and `token` is `None`), *parked* (it has a token, and is in the table
# of `Parking`) or *ended* (`_finished` is set). What is kept true:
#
# * At most one request serves a run, and a state resumes it once: the token is removed from the table before the
#   run is woken. The answers are checked before that, so a request with answers that cannot be read is refused,
#   and the client may send it again.
# * A run that is served ends with its request: `serve`, cancelled, cancels the handler and waits for its cleanup.
#   Its scope has the deadline of the request. A parked run keeps this deadline, or expires before. So no run is
#   alive without a request or a place in the table, and the table is limited.
# * The account lends all memory that a parked run takes: task, parameters, questions, notifications. If there is
#   no more place, the run that is parked for longest is ended; if there is no more memory, a run is not parked.
# * No result is lost. A handler can end while it is parked, for instance because its own deadline cancels the
#   question. Its task then stays, with the outcome, until a request takes it or the run expires.
# * What the handler sends while it is parked is kept (`KeptNotifications`), and the next request sends it first.
#
# A checkpoint between the last look at the outcome and the entry into the table would break this: the handler
# could end, or go on, in between. So would a wake-up before the token is removed.
#
# A tool with ``resume="replay"`` is not parked: it is cancelled, its answers travel in the state, and it is run
# again. Its questions are known by what they ask and how often, so that each run finds the answers of those
# before.


@final
@attrs.define(eq=False)
class _Question:
    """A question of a handler.

    Attributes:
        request: The request that asks it.
        cost: What it takes in memory, in bytes.
        answer: The answer, as it was received.
        error: Why there will be no answer.
    """

    request: types.InputRequest
    cost: int
    answer: Mapping[str, Any] | None = None
    error: RequestError | LocalProtocolError | None = None
    _settled: trio.Event = attrs.field(factory=trio.Event)

    @property
    def is_open(self) -> bool:
        return not self._settled.is_set()

    def settle(
        self, answer: Mapping[str, Any] | None, error: RequestError | LocalProtocolError | None = None
    ) -> None:
        self.answer, self.error = answer, error
        self._settled.set()

    async def wait(self) -> Mapping[str, Any]:
        await self._settled.wait()
        if self.error is not None:
            raise copy(self.error)  # whose frames have this: they would be a cycle
        assert self.answer is not None
        return self.answer


def too_late(method: str) -> LocalProtocolError:
    return LocalProtocolError(f"{method} cannot be asked: the request has ended already")


@final
class _AskedTooLate:
    """Asks nobody: the handler has ended."""

    @ends_with_its_thread
    async def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Mapping[str, Any]:
        """Refuse to ask; see `InputRequester.ask`."""
        del params, on_progress
        await trio.lowlevel.checkpoint()
        raise too_late(method)


_ASKED_TOO_LATE: Final = _AskedTooLate()


@final
@attrs.frozen
class Outcome:
    """What a handler has returned, or raised."""

    value: object = None
    error: BaseException | None = None


OnEnd: TypeAlias = Callable[[Outcome | None], Awaitable[None]]


@final
@attrs.define(eq=False)
class HandlerRun:
    """One run of a handler, served by one request after another. It is the handler's `InputRequester`.

    Attributes:
        parking: Where it is parked.
        handler: The handler.
        context: Its context, the same for all requests.
        params: The parameters of the request that has started it.
        client: The client that its memory is lent to.
        binding: What a request must match to serve it.
        recorded: The answers of earlier runs of the same handler, by key; `None` if it is parked instead.
        token: Its key in the table while it is parked.
        scope: Cancels the handler.
        begin: Makes it a task, if it can become one; see `_tasks`.
    """

    _parking: Parking
    _handler: BoundHandler
    context: Context[Any]
    _params: Mapping[str, Any]
    client: str
    _binding: bytes
    _recorded: dict[str, Any] | None
    token: bytes | None = attrs.field(init=False, default=None)
    begin: Callable[[], Awaitable[None]] | None = attrs.field(init=False, default=None)
    _serving: Mapping[str, Any] = attrs.field(init=False)  # the parameters of the latest request; set by `serve`
    _loans: tuple[Loan, Loan] | None = attrs.field(init=False, default=None)  # its place, and its bytes
    _parked_weight: int = attrs.field(init=False, default=0)
    scope: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)
    _questions: dict[str, _Question] = attrs.field(init=False, factory=dict[str, _Question])
    _asked: Counter[str] | None = attrs.field(init=False, default=None)  # made with the first question
    _outcome: Outcome | None = attrs.field(init=False, default=None)
    _answer: object = attrs.field(init=False, default=None)  # to its request, if it goes on without one
    _end: OnEnd | None = attrs.field(init=False, default=None)
    _task: trio.lowlevel.Task | None = attrs.field(init=False, default=None)  # the handler's, until it ends
    _has_news: LightParkingLot = attrs.field(init=False, factory=LightParkingLot)  # a question, or an outcome
    _resumed: LightParkingLot = attrs.field(init=False, factory=LightParkingLot)
    _finished: trio.Event = attrs.field(init=False, factory=trio.Event)

    # The handler's task.

    async def run(self) -> None:
        """Run the handler; stay until a request has taken the outcome, or none will."""
        outcome: Outcome | None = None
        self._task = trio.lowlevel.current_task()
        try:
            with Contained(self._note_failure, self.scope) as block:
                outcome = await self._call_handler()
                if block.is_clean and self._end is None:
                    self._outcome = outcome
                    self._has_news.unpark_all()
                    while self.token is not None:
                        await self._resumed.park()
            self._outcome = self._outcome or outcome
        finally:
            self._task = None
            if self._end is not None:
                with trio.move_on_after(self._parking.limits.goodbye_timeout, shield=True):
                    await self._end(self._outcome or outcome)
                self._outcome = outcome = None  # the frames of an error have this run: they would be a cycle
            self._parking.discard(self)
            # The context refers to the request, and that to what is lent for it, until nothing refers to them.
            self.context._end_asking(_ASKED_TOO_LATE)
            self._finished.set()
            self._has_news.unpark_all()
            # Those of the handler's own tasks were cancelled with it; another task may have asked for it.
            for question in self._questions.values():
                if question.is_open:
                    question.settle(None, too_late(question.request.method))

    async def _call_handler(self) -> Outcome:
        try:
            return Outcome(await self._handler(self.context))
        except BaseException as error:  # noqa: ASYNC103
            if propagating(error) is not None:
                raise
            return Outcome(error=error)  # noqa: ASYNC104  # raised again in the task of the request that serves it

    def _note_failure(self, error: BaseException) -> None:
        """The handler has left a nursery or scope open, or failed while it was being cancelled."""
        if self.scope.cancel_called:
            _log.error("a handler failed while it was being cancelled", exc_info=error)
        else:
            self._outcome = Outcome(error=error)

    @ends_with_its_thread
    async def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Mapping[str, Any]:
        """Wait for the client's answer to a question of the handler; see `InputRequester.ask`.

        Raises:
            RequestError: No more handlers can be parked.
            ValueError: JSON has no form for something in the parameters; the error says where.
            LocalProtocolError: The handler was cancelled, and is cleaning up in a shielded scope.
        """
        del on_progress  # a question that is part of a result has none
        exchange_of(self.context).check_thread()
        if self.is_ending:
            await trio.lowlevel.checkpoint()  # a handler that was cancelled ends here, as at any other await
            # It is shielded. No request serves it any more, so nothing could carry the question.
            raise too_late(method)
        if not self.context.revision.is_modern:  # what is wrapped around calls may ask before there is a task
            return await requester_of(exchange_of(self.context), self.context.revision).ask(method, params)
        request = input_types()[method][0](params=params)
        key = self._key(request)
        if self._recorded is not None and key in self._recorded:
            await trio.lowlevel.checkpoint()
            answer: Mapping[str, Any] = self._recorded[key]
            return answer
        cost = cost_of(to_wire(request, self.context.revision))
        return await self._wait_for_answer(key, _Question(request, cost))

    @leaves_its_place
    async def _wait_for_answer(self, key: str, question: _Question) -> Mapping[str, Any]:
        self._questions[key] = question
        self._has_news.unpark_all()
        try:
            return await question.wait()
        finally:
            del self._questions[key]

    def _key(self, request: types.InputRequest) -> str:
        """Return the question's key. A handler that is run again and asks the same gets the same keys."""
        if self._asked is None:
            self._asked = Counter()
        if self._recorded is None:
            self._asked[""] += 1
            return str(self._asked[""])
        digest = hashlib.sha256(_json.encode(to_wire(request, self.context.revision))).hexdigest()[:16]
        self._asked[digest] += 1
        return f"{digest}-{self._asked[digest]}"

    # The task of the request that serves it.

    async def serve(self, asked: Context[Any]) -> object:
        """Wait until the handler has ended or has asked.

        Cancelled, it cancels the handler and waits for its cleanup.

        Args:
            asked: The context of the request that serves it.

        Returns:
            The handler's result, or an `InputRequiredResult`.

        Raises:
            Exception: The handler raised it.
        """
        exchange = exchange_of(asked)
        self._serving = exchange.request.params or {}
        kept = self.context._serve_by(asked)
        self.scope.deadline = exchange.deadline
        exchange.cancel_parked = self.cancel
        try:
            if kept is not None:
                await kept.send_all(exchange)
            while self._outcome is None and self._end is None:
                if self._finished.is_set():
                    raise RequestError(INTERNAL_ERROR, "the handler was cancelled")
                if not self._has_asked:
                    await self._has_news.park()
                elif (result := await self._suspend()) is not None:
                    return result
        except BaseException:
            self.scope.cancel(reason="the request that it served has ended")
            with trio.CancelScope(shield=True):
                await self._finished.wait()
            raise
        if self._outcome is None or self._end is not None:
            # It is cancelled all the same if this answer is never written: its client does not know it then.
            return self._answer
        exchange.cancel_parked = None
        outcome, self._outcome = self._outcome, Outcome()
        if outcome.error is not None:
            try:
                raise outcome.error
            finally:
                del outcome  # its traceback holds this frame
        return outcome.value

    # Going on without a request, as a task does (`_tasks`).

    async def wait_served(self) -> None:
        """Wait until a request serves it, in the handler's task.

        Raises:
            LocalProtocolError: One of its questions is open: the request that it belongs to will be needed.
        """
        await trio.lowlevel.checkpoint()
        if self._has_asked:
            raise LocalProtocolError("a task cannot begin while a question of its handler is open")
        while self.token is not None:
            await self._resumed.park()

    def detach(self, answer: object, on_end: OnEnd) -> None:
        """Let the request that serves it be answered; from now on it needs none, and has no deadline.

        Args:
            answer: The answer.
            on_end: Called, shielded, with what becomes of it: the outcome, or `None` if it was cancelled.
        """
        self._answer, self._end = answer, on_end
        self.scope.deadline = math.inf
        self._has_news.unpark_all()

    def cancel(self, reason: str) -> None:
        """Cancel the handler: its outcome is of no use any more."""
        self.scope.cancel(reason=reason)

    @property
    def is_ending(self) -> bool:
        """Whether it was cancelled, by itself or with the server: nobody answers what it asks in its cleanup."""
        return self.scope.cancel_called or self._parking.background.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether there is an outcome, or will never be any."""
        return self._outcome is not None or self._finished.is_set()

    def _outcome_now(self) -> Outcome | None:
        return self._outcome

    @property
    def _has_asked(self) -> bool:
        return any(question.is_open for question in self._questions.values())

    async def _suspend(self) -> types.InputRequiredResult | None:
        """Return the questions to the client, unless the handler has gone on by itself meanwhile."""
        # In a nursery others may be about to ask. By itself it may be about to give up: `move_on_after(0)`.
        has_nursery = self._task is not None and bool(self._task.child_nurseries)
        for _ in range(COALESCING_CHECKPOINTS if has_nursery else 1):
            await trio.lowlevel.checkpoint()
        if self._outcome_now() is not None or not self._has_asked:
            return None
        asked = {key: question.request for key, question in self._questions.items() if question.is_open}
        if self._recorded is None:
            return self._park(asked)
        recorded = {**self._recorded, **{k: q.answer for k, q in self._questions.items() if not q.is_open}}
        self.scope.cancel(reason="it is run again when the client has answered")
        with trio.CancelScope(shield=True):
            await self._finished.wait()
        if self._outcome_now() is not None:
            return None  # it ended before it was cancelled
        return types.InputRequiredResult(
            input_requests=asked,
            request_state=self._parking.seal(_REPLAY + _json.encode(recorded), self._binding),
        )

    def _park(self, asked: Mapping[str, types.InputRequest]) -> types.InputRequiredResult | None:
        self._parked_weight = self._weight()
        try:
            self.token, self._loans = self._parking.admit(self, self._parked_weight)
        except RequestError as error:
            for question in self._questions.values():
                question.settle(None, copy(error))  # whose frames have the question: they would be a cycle
            return None
        make = partial(KeptNotifications, self._parking.limits, self._can_keep)
        self.context._park(make)
        # The caller's time goes on while its user answers, or it would not have sent a deadline.
        self.scope.deadline = min(self.scope.deadline, trio.current_time() + self._parking.limits.parked_timeout)
        state = self._parking.seal(_PARKED + self.token, self._binding)
        return types.InputRequiredResult(input_requests=asked, request_state=state)

    # Parked.

    def _weight(self) -> int:
        """Return what it takes in memory, in bytes: its task, what was sent to it, and what it has asked."""
        received = (self._params,) if self._serving is self._params else (self._params, self._serving)
        weight = PARKED_BYTES + sum(map(cost_of, received))
        weight += sum(question.cost for question in self._questions.values() if question.is_open)
        return weight + weight_of_headers(self.context)

    def _can_keep(self, notifications: int) -> bool:
        """Borrow so many bytes for notifications, beside what is lent already. Returns whether there was room."""
        if self._loans is not None:
            try:
                self._loans[1].change(self._parked_weight + notifications)
            except Overdrawn:
                return False
        return True

    def give_back(self) -> None:
        """It is parked no more: give back what was lent for it."""
        loans, self._loans = self._loans, None
        for loan in loans or ():
            loan.give_back()

    def give_way(self) -> None:
        """End it, because another needs its place. Never waits."""
        if self.token is not None:
            self._parking.discard(self)
        self.cancel("it gave way to another")

    def check(self, answers: Mapping[str, types.InputResponse]) -> None:
        """Check that answers are of the kinds that were asked for; see `check_answers`."""
        check_answers(answers, {key: question.request.method for key, question in self._questions.items()})

    def resume(self, answers: Mapping[str, Any]) -> None:
        """Give the handler the answers. Questions without an answer stay open, and are asked again."""
        self.token = None
        self._resumed.unpark_all()
        for key, question in self._questions.items():
            if key in answers and question.is_open:
                question.settle(answers[key])


@final
@attrs.define(eq=False)
class Parking:
    """The handlers of a running server that may ask: starts them, finds the parked ones, reads their states.

    Args:
        background: Runs them; its end cancels them.
        limits: How many may be parked, and for how long.
        sealer: Seals and opens states.
        server: The server's name, which a state is bound to.
        account: Lends the memory they take.
        used: Remembers the states that were used, if those of handlers that are run again are good for one
            request only.
    """

    background: Background
    limits: Limits
    _sealer: Sealer
    _server: str
    _account: Account
    _used: UsedStates | None
    _places: Pool = attrs.field(init=False)
    _parked: dict[bytes, HandlerRun] = attrs.field(factory=dict[bytes, "HandlerRun"], init=False)
    _gave_way: int = attrs.field(default=0, init=False)
    _tag: str = attrs.field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        most, own = self.limits.max_parked, self.limits.max_parked_per_principal
        self._places = self._account.places("parked", "max_parked", most, own, "a tenth of max_parked")

    def join(self, tag: str, key: bytes) -> None:
        """Be one of several processes: states begin with the tag of this one, and each can open those of all.

        Args:
            tag: The tag; see `tag_of`.
            key: Seals states, unless the server's author has given keys.
        """
        self._tag = tag
        if self._sealer.is_random:
            self._sealer = Sealer([key])

    async def serve(
        self,
        exchange: Exchange,
        context: Context[Any],
        handler: BoundHandler,
        answers: Mapping[str, types.InputResponse],
        *,
        client: str,
        asking: Asking,
    ) -> object:
        """Serve a request whose handler may ask, by the parked run that its state names or by a new run.

        One that never asks is served here, and gets what the request brings.

        Args:
            exchange: The request.
            context: Its context, which a new run keeps.
            handler: The handler.
            answers: The answers that came with the request, by key.
            client: The client that the memory of a parked run is lent to.
            asking: What happens to the handler when it asks.

        Returns:
            The handler's result, or an `InputRequiredResult`.

        Raises:
            RequestError: The request's state was not made for it, has expired or was used.
            Exception: The handler raised it.
        """
        params = exchange.request.params or {}
        binding = self._binding(exchange.request, exchange.origin)
        sealed = params.get("requestState")
        author_state: object = ABSENT
        recorded: dict[str, Any] | None = {} if asking is Asking.REPLAY else None
        if sealed is not None:
            kind, content = self._open(sealed, binding)
            if kind == _PARKED:
                return await self._resume(content, answers, params).serve(context)
            if self._used is not None:
                if tag_of(sealed) != self._tag:  # the process that knew whether it was used has ended
                    raise StateRefused
                self._used.use(sealed, client, wall_time())
            if kind == _REPLAY and recorded is not None:
                recorded = {**_json.decode(content), **(params.get("inputResponses") or {})}
            elif kind == _RETURNED:
                author_state = _json.decode(content)
            else:
                raise StateRefused
        if asking is Asking.NEVER:
            context._resume(None, answers, author_state)
            return await handler(context)
        run = HandlerRun(self, handler, context, params, client, binding, recorded)
        context._resume(run, answers, author_state)
        self.background.start_own(run.run, name=f"handler of {exchange.request.method}")
        return await run.serve(context)

    def _resume(
        self, token: bytes, answers: Mapping[str, types.InputResponse], params: Mapping[str, Any]
    ) -> HandlerRun:
        run = self._parked.get(token)
        if run is None or (run.scope.cancel_called and not run.has_ended):  # it is gone, but for its cleanup
            raise StateRefused
        run.check(answers)  # invalid answers resume nothing, and the request may be sent again
        self._release(token)
        run.resume(params.get("inputResponses") or {})
        return run

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return what cancels the parked handler that a request would resume, as long as it is parked."""
        if request.params is None or "requestState" not in request.params:
            return None
        try:
            kind, token = self._open(request.params["requestState"], self._binding(request, origin))
        except StateRefused:
            return None
        return partial(self._cancel, token) if kind == _PARKED and token in self._parked else None

    def _cancel(self, token: bytes, reason: str) -> None:
        run = self._parked.get(token)
        if run is not None:
            run.cancel(reason)

    # States.

    def input_required(self, required: InputRequired, exchange: Exchange) -> types.InputRequiredResult:
        """Return the answer for an `InputRequired` that a handler has returned.

        Raises:
            TypeError: A question is none, or the state is not plain JSON.
            ValueError: JSON has no form for something in a question or in the state; the error says where.
        """
        asked = {key: input_request(question) for key, question in required.requests.items()}
        for request in asked.values():
            _json.encode(to_wire(request, LATEST))
        if asked and required.state is ABSENT:
            return types.InputRequiredResult(input_requests=asked)
        content = None if required.state is ABSENT else required.state
        state = self.seal(_RETURNED + _json.encode(content), self._binding(exchange.request, exchange.origin))
        return types.InputRequiredResult(input_requests=asked or None, request_state=state)

    def _binding(self, request: Request, origin: Origin | None) -> bytes:
        params = request.params or {}
        return binding_of(
            principal=None if origin is None else origin.principal,
            method=request.method,
            target=str(params.get("name", params.get("uri"))),
            arguments=params.get("arguments") or {},
            server=self._server,
        )

    def seal(self, payload: bytes, binding: bytes) -> str:
        """Return a state that only this server can read, for one request and as long as a handler may be parked.

        Raises:
            RequestError: It is too large.
        """
        if len(payload) > MAX_STATE_BYTES:
            problem = f"the request's state is {len(payload)} bytes; {MAX_STATE_BYTES} are allowed"
            raise RequestError(INTERNAL_ERROR, problem)
        bound, ttl = binding + self._tag.encode("ascii"), self.limits.parked_timeout
        return self._tag + self._sealer.seal(payload, binding=bound, now=wall_time(), ttl=ttl)

    def _open(self, sealed: object, binding: bytes) -> tuple[bytes, bytes]:
        if not isinstance(sealed, str):
            raise StateRefused
        tag = tag_of(sealed)
        bound = binding + tag.encode("ascii")
        payload = self._sealer.open(sealed.removeprefix(tag), binding=bound, now=wall_time())
        return payload[:1], payload[1:]

    # The table of parked runs.

    def admit(self, run: HandlerRun, weight: int) -> tuple[bytes, tuple[Loan, Loan]]:
        """Enter a run as parked.

        Args:
            run: The run.
            weight: What it takes in memory, in bytes.

        Returns:
            Its token, and the place and the bytes that are lent to it.

        Raises:
            RequestError: There is no room for it.
        """

        def give_way() -> None:
            self._gave_way += 1
            _log.info("a parked handler of %.100s gives way to another (%d so far)", run.client, self._gave_way)
            run.give_way()

        wanted = ((self._places, 1), (self._account.bytes, weight))
        try:
            place, lent = lend_all(wanted, run.client, "parked", give_way)
        except Overdrawn as full:
            # Without a name: it would be a cycle of this frame, the refusal, its context and that one's frames.
            raise full.marked(RequestError(SERVER_BUSY, f"no more requests can wait for input: {full}")) from None
        token = secrets.token_bytes(TOKEN_BYTES)
        self._parked[token] = run
        return token, (place, lent)

    def activity(self) -> list[RequestActivity]:
        """Return the handlers that are parked now."""
        return [activity_of(exchange_of(run.context), None, PARKED) for run in self._parked.values()]

    def _release(self, token: bytes) -> None:
        self._parked.pop(token).give_back()

    def discard(self, run: HandlerRun) -> None:
        """Remove a run that ends from the table, if it is there: no request can resume it any more."""
        if run.token is not None and run.token in self._parked:
            self._release(run.token)


# A running server.

_State = TypeVar("_State")


@final
@attrs.define(eq=False)
class Service(Generic[_State]):
    """What the connections of a running server share.

    Attributes:
        state: What the lifespan yielded.
        background: Starts tasks that last as long as the server runs.
        parking: Handlers that wait for their clients' answers between two requests.
        account: Lends the memory that is kept for clients.
        name: The server's name.
        tag: With what begins by which clients name this process, of several; empty if there is one.
        watched: What is open: connections, and the endpoint for modern requests.
        records: Writes the access records of all of them.
        tasks: Its `Tasks`; `None` if nobody has wanted any yet.
        tasks_for_all: `get_tasks`.
    """

    state: _State
    background: Background
    parking: Parking
    account: Account
    name: str
    tag: str = attrs.field(default="", init=False)
    watched: dict[object, Watched] = attrs.field(factory=dict[object, Watched], init=False)
    records: Records = attrs.field(factory=lambda: Records(ACCESS), init=False)
    _make_tasks: Callable[[Background, Account], object] | None = None
    tasks: Any = attrs.field(default=None, init=False)
    # One bound method for all sessions, of which there are many.
    tasks_for_all: Any = attrs.field(default=attrs.Factory(attrgetter("get_tasks"), takes_self=True), init=False)

    def get_tasks(self) -> Any:
        """Return its `Tasks`, made at the first call: few servers have any."""
        if self.tasks is None and self._make_tasks is not None:
            self.tasks = self._make_tasks(self.background, self.account)
            self.tasks.tag = self.tag
        return self.tasks

    def join(self, tag: str, key: bytes) -> None:
        """Be one of several processes; see `Parking.join`."""
        self.tag = tag
        self.parking.join(tag, key)
        if self.tasks is not None:
            self.tasks.tag = tag


@asynccontextmanager
async def open_service(
    name: str,
    lifespan: AbstractAsyncContextManager[_State],
    sealer: Sealer,
    limits: Limits,
    lifetime: Lifetime | None = None,
    *,
    single_use_states: bool = False,
    make_tasks: Callable[[Background, Account], object] | None = None,
) -> AsyncGenerator[Service[_State]]:
    """Run a server for as long as the body runs: inside its lifespan, with a nursery around all connections.

    When the body is left, background tasks and parked handlers are cancelled and their cleanup runs, and then the
    lifespan's. An exception of the body comes out as itself.

    Args:
        name: The server's name.
        lifespan: The server's lifespan.
        sealer: Seals and opens the states that clients carry.
        limits: How many handlers may be parked, and for how long.
        lifetime: How long the lifespan may take.
        single_use_states: Whether states that clients carry are good for one request only.
        make_tasks: Makes its `Tasks`; `None` if it cannot have any.

    Raises:
        EndedBeforeStart: The lifespan was cancelled while it was being entered.
    """
    lifetime = Lifetime(Shutdown(), limits) if lifetime is None else lifetime
    has_started = False
    failure: BaseException | None = None
    try:
        with lifetime.scope:
            lifetime.enter()
            async with lifespan as state, open_background(f"server {name}") as background:
                lifetime.serve()
                has_started = True
                try:
                    account = Account(limits.max_kept_bytes, limits.max_kept_bytes_per_principal)
                    account.bytes.on_much_returned = MemoryReturn(background).soon
                    used = UsedStates(limits, account) if single_use_states else None
                    parking = Parking(background, limits, sealer, name, account, used)
                    yield Service(state, background, parking, account, name, make_tasks)
                except BaseException as error:
                    failure = error
                    raise
                finally:
                    lifetime.leave()
        if lifetime.scope.cancelled_caught:
            if not has_started:
                raise EndedBeforeStart
            _log.warning("the lifespan of server %s was cancelled, because it took too long to end", name)
            if not (failure is None or isinstance(failure, trio.Cancelled)):
                raise failure
    finally:
        lifetime.end()
        del failure  # its traceback holds this frame


def weight_of_headers(context: Context[Any]) -> int:
    """Return about how much memory the header fields of a request take, in bytes: each is kept twice."""
    headers = getattr(exchange_of(context).origin, "headers", None)
    return 0 if headers is None else 2 * headers.size + 300 * len(headers.fields)
