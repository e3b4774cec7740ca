"""Handlers that outlive the request that started them, because they wait for an answer of their client.

A modern server cannot ask its client anything. It can answer "input required", and is then sent the same request
again, with the answers (2026-07-28, basic/patterns/mrtr). A handler should know nothing of that: it awaits an
answer like any other. So a handler that may ask runs in a task of the server, not of the request:

    a request ──> attends the handler ──> it is done   ──> its result is the answer
                                      ──> it has asked ──> "input required" is the answer, with a sealed state,
                                                           and the handler is parked
    the same request, with the state and the answers ──> attends the parked handler, as above

While it is attended, its scope has the deadline of the request, and dies with it. While it is parked, it keeps
that deadline, unless it expires before. What it says meanwhile is kept for the next request (`_kept_words`). A
state wakes a handler once. A tool with ``resume="replay"`` is not parked: it is cancelled, its answers travel in
the state, and it is run again.

One run of a server: what lives as long as it serves, however many connections it has.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, TypeAlias, final

import attrs
import trio
from typing_extensions import TypeVar

from .. import types
from .._absent import ABSENT
from .._channel import Origin
from .._codec import _json
from .._codec._convert import to_wire
from .._codec._json import cost_of
from .._codec._jsonrpc import Request
from .._core._account import Account, Loan, Overdrawn, lend_all
from .._core._lifecycle import Agreement
from .._core._sealing import Sealer, StateRefused, binding_of
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, SERVER_BUSY, LocalProtocolError, RequestError
from .._limits import Limits
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._trio import Contained, LightParkingLot, propagating
from ._context import Context
from ._input_required import InputRequired, UsedStates, input_request, input_requests, input_responses
from ._lifetimes import Background, Shutdown, open_background
from ._questions import KeptWords
from ._threads import ends_with_its_thread, leaves_its_place

_log: Final = Log("trio_mcp.server")

Work: TypeAlias = Callable[[Context[Any]], Awaitable[object]]
"""A handler with its parameters: it lacks only its context."""

# What a sealed state begins with says how to go on.
_PARKED: Final = b"P"
_REPLAY: Final = b"R"
_BY_HAND: Final = b"H"

TOKEN_BYTES: Final = 16

PARKED_BYTES: Final = 16 * 1024
"""What a parked handler costs that was sent nothing and keeps nothing: its task, its scopes, its context."""

COALESCING_CHECKPOINTS: Final = 3
"""How often others get a turn after a question, so that what a nursery asks at once goes out as one answer."""


@final
@attrs.define(eq=False)
class _Question:
    """A question of a handler.

    Attributes:
        request: What is asked.
        answer: What was answered, as it came.
        error: Why there will be no answer.
    """

    request: types.InputRequest
    answer: Mapping[str, Any] | None = None
    error: RequestError | None = None
    _settled: trio.Event = attrs.field(factory=trio.Event)

    @property
    def is_open(self) -> bool:
        return not self._settled.is_set()

    def settle(self, answer: Mapping[str, Any] | None, error: RequestError | None = None) -> None:
        self.answer, self.error = answer, error
        self._settled.set()

    async def wait(self) -> Mapping[str, Any]:
        await self._settled.wait()
        if self.error is not None:
            raise RequestError(self.error.code, self.error.message, self.error.data)
        assert self.answer is not None
        return self.answer


@final
@attrs.frozen
class _Outcome:
    value: object = None
    error: BaseException | None = None


@final
class Run:
    """A handler at work, attended by one request after another.

    Args:
        parking: Where it belongs.
        work: The handler.
        context: Its context, which it keeps over all requests.
        params: The parameters of the request that has begun it.
        holder: In whose name it is parked.
        binding: What a request must be to attend it.
        recorded: The answers of earlier runs of the same work, by key; `None` if it is parked instead.
    """

    def __init__(
        self,
        parking: Parking,
        work: Work,
        context: Context[Any],
        params: Mapping[str, Any],
        holder: str,
        binding: bytes,
        recorded: dict[str, Any] | None,
    ) -> None:
        self._parking = parking
        self._work = work
        self._context = context
        self._params = params
        self._binding = binding
        self._recorded = recorded
        self._parked: _Parked | None = None
        self._scope = trio.CancelScope()
        self._questions: dict[str, _Question] = {}
        self._asked: Counter[str] = Counter()
        self._outcome: _Outcome | None = None
        self._news = LightParkingLot()
        self._attended = LightParkingLot()
        self._finished = trio.Event()
        self.holder: Final = holder
        self.token: bytes | None = None
        """By what it is found while it is parked."""

    # The handler's task.

    async def run(self) -> None:
        """Run the handler; stay until somebody has taken the result, or none will."""
        outcome: _Outcome | None = None
        try:
            with Contained(self._note_failure, self._scope) as block:
                outcome = await self._work_through()
                if block.is_clean:
                    self._outcome = outcome
                    self._news.unpark_all()
                    while self.token is not None:
                        await self._attended.park()
            self._outcome = self._outcome or outcome
        finally:
            self._parking.forget(self)
            self._finished.set()
            self._news.unpark_all()

    async def _work_through(self) -> _Outcome:
        try:
            return _Outcome(await self._work(self._context))
        except BaseException as error:  # noqa: ASYNC103
            if propagating(error) is not None:
                raise
            return _Outcome(error=error)  # noqa: ASYNC104  # raised again in the task of the request that attends

    def _note_failure(self, error: BaseException) -> None:
        """The handler has left something open, or failed while it was being cancelled."""
        if self._scope.cancel_called:
            _log.error("a handler failed while it was being cancelled", exc_info=error)
        else:
            self._outcome = _Outcome(error=error)

    @ends_with_its_thread
    async def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Mapping[str, Any]:
        """Wait for the client's answer to a question, as the handler sees it; see `Asker.ask`.

        Raises:
            RequestError: No more handlers can be parked.
            LocalProtocolError: The handler was cancelled, and cleans up behind a shield.
        """
        del on_progress  # a question that is part of a result has none
        if self._scope.cancel_called:
            await trio.lowlevel.checkpoint()  # a handler that was cancelled ends here, as at any other await
            # It cleans up, behind a shield: nobody attends it any more, or ever will.
            raise LocalProtocolError(f"{method} cannot be asked: the request is over already")
        request = input_requests()[method](params=params)
        key = self._key(request)
        if self._recorded is not None and key in self._recorded:
            await trio.lowlevel.checkpoint()
            answer: Mapping[str, Any] = self._recorded[key]
            return answer
        return await self._wait_for_answer(key, _Question(request))

    @leaves_its_place
    async def _wait_for_answer(self, key: str, question: _Question) -> Mapping[str, Any]:
        self._questions[key] = question
        self._news.unpark_all()
        try:
            return await question.wait()
        finally:
            del self._questions[key]

    def _key(self, request: types.InputRequest) -> str:
        """Return what the question is called; the same in each run of the same work, if that asks the same."""
        if self._recorded is None:
            self._asked[""] += 1
            return str(self._asked[""])
        written = _json.encode(to_wire(request, self._context.revision))
        digest = hashlib.sha256(written).hexdigest()[:16]
        self._asked[digest] += 1
        return f"{digest}-{self._asked[digest]}"

    # The task of the request that attends.

    async def attend(self, exchange: Exchange, agreement: Agreement) -> object:
        """Stay with the handler until it is done or has asked.

        Cancelled, it cancels the handler and waits for its cleanup.

        Returns:
            What the handler returned, or an `InputRequiredResult`.

        Raises:
            Exception: What the handler raised.
        """
        self._attending = exchange.request.params or {}
        kept = self._context.attended_by(exchange, agreement)
        self._scope.deadline = exchange.deadline
        exchange.cancel_parked = self.cancel
        try:
            if kept is not None:
                await kept.say(exchange)
            while self._outcome is None:
                if self._finished.is_set():
                    raise RequestError(INTERNAL_ERROR, "the handler was cancelled")
                if not self._has_asked:
                    await self._news.park()
                elif (result := await self._leave()) is not None:
                    return result
        except BaseException:
            self._scope.cancel(reason="the request that attended it has ended")
            with trio.CancelScope(shield=True):
                await self._finished.wait()
            raise
        if self._outcome.error is not None:
            raise self._outcome.error
        return self._outcome.value

    def cancel(self, reason: str) -> None:
        """Cancel the handler: nobody waits for it, or ever will."""
        self._scope.cancel(reason=reason)

    def _outcome_now(self) -> _Outcome | None:
        return self._outcome

    @property
    def _has_asked(self) -> bool:
        return any(question.is_open for question in self._questions.values())

    async def _leave(self) -> types.InputRequiredResult | None:
        """Bring the client what was asked, unless the handler has gone on by itself meanwhile."""
        for _ in range(COALESCING_CHECKPOINTS):
            await trio.lowlevel.checkpoint()
        if self._outcome_now() is not None or not self._has_asked:
            return None
        asked = {key: question.request for key, question in self._questions.items() if question.is_open}
        if self._recorded is None:
            return self._park(asked)
        recorded = {**self._recorded, **{k: q.answer for k, q in self._questions.items() if not q.is_open}}
        self._scope.cancel(reason="it is run again when the client has answered")
        with trio.CancelScope(shield=True):
            await self._finished.wait()
        if self._outcome_now() is not None:
            return None  # it was done in that very moment
        return types.InputRequiredResult(
            input_requests=asked,
            request_state=self._parking.seal(_REPLAY + _json.encode(recorded), self._binding),
        )

    def _park(self, asked: Mapping[str, types.InputRequest]) -> types.InputRequiredResult | None:
        try:
            self.token, self._parked = self._parking.admit(self, self._weight(asked))
        except RequestError as error:
            for question in self._questions.values():
                question.settle(None, error)
            return None
        self._context.parked(self._kept_words)
        # The caller's time goes on while its user answers, or it would not have told of it.
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + self._parking.timeout)
        state = self._parking.seal(_PARKED + self.token, self._binding)
        return types.InputRequiredResult(input_requests=asked, request_state=state)

    def _weight(self, asked: Mapping[str, types.InputRequest]) -> int:
        """Return what it takes to keep it, in bytes: its task, what was sent to it, what it has asked."""
        sent = (self._params,) if self._attending is self._params else (self._params, self._attending)
        weight = PARKED_BYTES + sum(map(cost_of, sent))
        for question in asked.values():
            weight += cost_of(to_wire(question, self._context.revision))
        return weight

    def _kept_words(self) -> KeptWords:
        limits = self._parking.limits
        return KeptWords(limits.max_notifications, limits.max_parked_notification_bytes, self._can_keep)

    def _can_keep(self, words: int) -> bool:
        """Whether so many bytes of what it says may be kept beside what is kept already."""
        return self._parked is None or self._parked.can_keep(words)

    def give_back(self) -> None:
        """It is parked no more: nothing is lent for that."""
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.give_back()

    def give_way(self) -> None:
        """End it: others have use for what it keeps. Never waits."""
        if self.token is not None:
            self._parking.forget(self)
        self.cancel("it gave way to others")

    def check(self, answers: Mapping[str, types.InputResponse]) -> None:
        """Check that answers are of the kind that was asked for, before anything is woken by them.

        Raises:
            RequestError: One is not.
        """
        for key, question in self._questions.items():
            if key in answers and not isinstance(answers[key], input_responses()[question.request.method]):
                raise RequestError(
                    INVALID_PARAMS,
                    f"invalid params: inputResponses.{key} does not answer {question.request.method}",
                )

    def wake(self, answers: Mapping[str, Any]) -> None:
        """Hand over the answers; what is not among them is asked again."""
        self.token = None
        self._attended.unpark_all()
        for key, question in self._questions.items():
            if key in answers and question.is_open:
                question.settle(answers[key])


@final
class _Parked:
    """What is lent while a handler is parked."""

    def __init__(self, place: Loan, bytes: Loan) -> None:
        self._place = place
        self._bytes = bytes
        self._weight = bytes.amount

    def can_keep(self, more: int) -> bool:
        """Whether there is room for so much more than in the beginning; then it is lent."""
        try:
            self._bytes.change(self._weight + more)
        except Overdrawn:
            return False
        return True

    def give_back(self) -> None:
        self._place.give_back()
        self._bytes.give_back()


@final
class Parking:
    """The handlers of one run of a server that may ask, at work or parked.

    Args:
        background: Where they run; its end cancels them.
        limits: How many may be parked, and for how long.
        sealer: Makes and reads states.
        server: The server's name, which a state is bound to.
        account: Lends what they keep.
        single_use_states: Whether the states of handlers that are run again are good for one request only.
    """

    def __init__(
        self,
        background: Background,
        limits: Limits,
        sealer: Sealer,
        server: str,
        account: Account,
        *,
        single_use_states: bool = False,
    ) -> None:
        self._background = background
        self.limits: Final = limits
        self._sealer = sealer
        self._server = server
        self._parked: dict[bytes, Run] = {}
        self._places = account.places(
            "parked", "max_parked", limits.max_parked, limits.max_parked_per_principal, "max_parked_per_principal"
        )
        self._bytes = account.bytes
        self._used = UsedStates(limits, account) if single_use_states else None
        self._gave_way = 0

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def timeout(self) -> float:
        """How long a handler stays parked, in seconds."""
        return self.limits.parked_timeout

    async def serve(
        self,
        exchange: Exchange,
        agreement: Agreement,
        context: Context[Any],
        work: Work,
        answers: Mapping[str, types.InputResponse],
        *,
        holder: str,
        replay: bool,
    ) -> object:
        """Serve a request whose handler may ask: with the handler it has woken, or with a new one.

        Args:
            exchange: The request.
            agreement: What holds for it.
            context: The context for a new handler.
            work: The handler.
            answers: The answers that came with the request, by key.
            holder: In whose name what outlives the request is kept.
            replay: Whether the handler is run again rather than parked.

        Returns:
            What the handler returned, or an `InputRequiredResult`.

        Raises:
            RequestError: The request brings a state that is not one of ours for it, or not any more.
            Exception: What the handler raised.
        """
        params = exchange.request.params or {}
        binding = self._binding(exchange.request, exchange.origin)
        sealed = params.get("requestState")
        notes: object = ABSENT
        recorded: dict[str, Any] | None = {} if replay else None
        if sealed is not None:
            kind, content = self._open(sealed, binding)
            if kind == _PARKED:
                return await self._wake(content, answers, params).attend(exchange, agreement)
            if self._used is not None:
                self._used.use(sealed, holder, time.time())
            if kind == _REPLAY and recorded is not None:
                recorded = {**_json.decode(content), **(params.get("inputResponses") or {})}
            elif kind == _BY_HAND:
                notes = _json.decode(content)
            else:
                raise StateRefused
        run = Run(self, work, context, params, holder, binding, recorded)
        context.resume(run, answers, notes)
        self._background.start_own(run.run, name=f"handler of {exchange.request.method}")
        return await run.attend(exchange, agreement)

    def _wake(self, token: bytes, answers: Mapping[str, types.InputResponse], params: Mapping[str, Any]) -> Run:
        run = self._parked.get(token)
        if run is None:
            raise StateRefused
        run.check(answers)  # what cannot be read wakes nobody, and may be sent again
        self._release(token)
        run.wake(params.get("inputResponses") or {})
        return run

    def by_hand(self, required: InputRequired, exchange: Exchange) -> types.InputRequiredResult:
        """Return the answer for questions that a handler leaves to its caller.

        Raises:
            TypeError: A question is none, or the state is not plain JSON.
        """
        asked = {key: input_request(question) for key, question in required.requests.items()}
        if asked and required.state is ABSENT:
            return types.InputRequiredResult(input_requests=asked)
        notes = None if required.state is ABSENT else required.state
        state = self.seal(_BY_HAND + _json.encode(notes), self._binding(exchange.request, exchange.origin))
        return types.InputRequiredResult(input_requests=asked or None, request_state=state)

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return what cancels the handler that a request would wake up, as long as nothing else has woken it."""
        try:
            kind, token = self._open((request.params or {}).get("requestState"), self._binding(request, origin))
        except StateRefused:
            return None
        run = self._parked.get(token) if kind == _PARKED else None
        return None if run is None else partial(self._end_parked, token)

    def _end_parked(self, token: bytes, reason: str) -> None:
        run = self._parked.get(token)
        if run is not None:
            run.cancel(reason)

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
        """Return a state that only we can read, for this request and for as long as a handler may be parked.

        Raises:
            RequestError: It is too large.
        """
        if len(payload) > self.limits.max_request_state_bytes:
            raise RequestError(
                INTERNAL_ERROR,
                f"the request's state is {len(payload)} bytes; "
                f"max_request_state_bytes is {self.limits.max_request_state_bytes}",
            )
        return self._sealer.seal(payload, binding=binding, now=time.time(), ttl=self.timeout)

    def _open(self, sealed: object, binding: bytes) -> tuple[bytes, bytes]:
        if not isinstance(sealed, str):
            raise StateRefused
        payload = self._sealer.open(sealed, binding=binding, now=time.time())
        return payload[:1], payload[1:]

    # The table.

    def admit(self, run: Run, weight: int) -> tuple[bytes, _Parked]:
        """Enter a handler as parked.

        Args:
            run: The handler.
            weight: What it keeps, in bytes.

        Returns:
            By what it is found, and what was lent for it.

        Raises:
            RequestError: There is no room for it.
        """

        def give_way() -> None:
            self._gave_way += 1
            _log.info("a parked handler of %.100s gives way to others (%d so far)", run.holder, self._gave_way)
            run.give_way()

        try:
            place, lent = lend_all(((self._places, 1), (self._bytes, weight)), run.holder, "parked", give_way)
        except Overdrawn as error:
            raise RequestError(SERVER_BUSY, f"no more requests can wait for input: {error}") from None
        token = secrets.token_bytes(TOKEN_BYTES)
        self._parked[token] = run
        return token, _Parked(place, lent)

    def _release(self, token: bytes) -> None:
        self._parked.pop(token).give_back()

    def forget(self, run: Run) -> None:
        """A handler has ended; if it was parked, nobody can wake it any more."""
        if run.token is not None and run.token in self._parked:
            self._release(run.token)


_State = TypeVar("_State")


@final
class EndedBeforeStart(Exception):
    """The server was told to end while its lifespan was being entered. That was cancelled; nobody was served."""


@final
class Lifetime:
    """How long a lifespan may take to be entered and to be left.

    Whoever wants the server to end can say so twice: `Shutdown.drain`, `Shutdown.abort`. What is said while the
    lifespan is entered, or left, cancels it. What was said before it is left was meant for those being served:

        nothing was said    it may take its time; but where the only client has gone, and perhaps nobody is left
                            who could say something, it has `Limits.lifespan_timeout`
        drain               it may take its time; who has said this can say more
        abort               it has `Limits.goodbye_timeout`

    Args:
        shutdown: Says when to end.
        limits: How long things may take.
        of_client: Whether the server is there for one client and ends with it.
    """

    def __init__(self, shutdown: Shutdown, limits: Limits, *, of_client: bool = False) -> None:
        self.scope: Final = trio.CancelScope()
        self._shutdown = shutdown
        self._limits = limits
        self._of_client = of_client
        self._is_entering = False
        self._patience = math.inf  # how much may have been said without an effect

    def lose_client(self) -> None:
        """The only client will say nothing more; what it has said may still be waiting to be served."""
        if self._is_entering:
            self.scope.deadline = trio.current_time() + self._limits.drain_timeout

    # What the service says, in this order.

    def enter(self) -> None:
        """The lifespan is entered."""
        self._is_entering = True
        self._patience = 0
        self._shutdown.call_on_drain(self._look)
        self._look()

    def serve(self) -> None:
        """The lifespan was entered."""
        self._is_entering = False
        self._patience = math.inf
        self.scope.deadline = math.inf

    def leave(self) -> None:
        """The lifespan is left."""
        limits = self._limits
        alone = limits.lifespan_timeout if self._of_client else math.inf
        allowed = (alone, math.inf, limits.goodbye_timeout)[self._said]
        self.scope.deadline = trio.current_time() + allowed
        self._patience = self._said

    def end(self) -> None:
        """The lifespan was left."""
        self._shutdown.do_not_call(self._look)

    @property
    def _said(self) -> int:
        return self._shutdown.is_draining + self._shutdown.is_aborting

    def _look(self) -> None:
        if self._said > self._patience:
            self.scope.cancel(reason="the server is to end")


@final
class Service(Generic[_State]):
    """What the connections of a running server share.

    Attributes:
        state: What the lifespan yielded.
        background: Starts tasks that last as long as the server runs.
        parking: Handlers that wait for their clients between two requests.
        account: What is kept for clients.
    """

    def __init__(self, state: _State, background: Background, parking: Parking, account: Account) -> None:
        self.state = state
        self.background = background
        self.parking = parking
        self.account = account


@asynccontextmanager
async def open_service(
    name: str,
    lifespan: AbstractAsyncContextManager[_State],
    sealer: Sealer,
    limits: Limits,
    lifetime: Lifetime | None = None,
    *,
    single_use_states: bool = False,
) -> AsyncGenerator[Service[_State]]:
    """Run a server for as long as the body runs: inside its lifespan, with a nursery around all connections.

    When the body is left, background tasks and parked handlers are cancelled and their cleanup runs, and then the
    lifespan's. An exception of the body comes out as itself.

    Args:
        name: The server's name.
        lifespan: What surrounds it.
        sealer: Makes and reads the states that clients carry.
        limits: How many handlers may be parked, and for how long.
        lifetime: How long the lifespan may take.
        single_use_states: Whether states that clients carry are good for one request only.

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
                    parking = Parking(
                        background, limits, sealer, name, account, single_use_states=single_use_states
                    )
                    yield Service(state, background, parking, account)
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
