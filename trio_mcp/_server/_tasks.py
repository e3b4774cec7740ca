"""Tasks: calls of tools that go on when their request was answered (``io.modelcontextprotocol/tasks``).

A tool that is registered with ``task=`` runs as any other does, in a `HandlerRun`; `Tasks.begin` lets the request
that serves the run be answered, and keeps what becomes of it. What is kept of a task, and how it is written, is
in `_core/_tasks`. Who is notified of changes is found in `_changes`.

Spec: ext-tasks, 2026-07-28; SEP-2663.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Final, cast, final

import attrs
import trio

from .._absent import ABSENT
from .._channel import Origin, client_key_of, owner_of
from .._codec import _json
from .._codec._json import cost_of, is_object
from .._codec._jsonrpc import Encoded, to_wire
from .._core._account import Account, Loan, Overdrawn, lend_all
from .._core._legacy_tasks import is_marked, marked_id, written_legacy_task
from .._core._tasks import (
    TASK,
    StoredTask,
    created_task,
    failed,
    read_error,
    status_of_progress,
    weight_of_task,
)
from .._errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    SERVER_BUSY,
    LocalProtocolError,
    RequestError,
)
from .._limits import Limits
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._revisions import PROGRESS_TOKEN_KEY, Revision
from .._trio import wall_time
from ._access import RequestActivity, activity_of
from ._context import Context, Surroundings, exchange_of, origin_of
from ._input_required import ExtensionResult, input_types
from ._lifetimes import Background, DueTimes
from ._parking import PARKED_BYTES, HandlerRun, Outcome, too_late, weight_of_headers
from ._restarts import Restarts, call_of
from ._sharing import Sharing, taken_answers
from ._task_store import MemoryTaskStore, SharedTaskStore, TaskStore
from ._threads import ends_with_its_thread, leaves_its_place

_log: Final = Log("trio_mcp.server")

ID_BYTES: Final = 20
"""Random bytes of a task's id; 16 are demanded ("Security Considerations")."""

UNKNOWN: Final = "there is no such task, or it has expired"
SHUT_DOWN: Final = "the server was shut down before the task had ended"
ELSEWHERE: Final = "the task does not run in this process"


# One that runs.


def _read_refusal(error: object) -> RequestError:
    if not is_object(error):
        raise ValueError("neither a result nor an error")
    return read_error(error)


@final
@attrs.define(eq=False)
class _Question:
    """A question of a task: as it is sent, and the answer as it came, if one did."""

    request: Mapping[str, Any]
    _answer: Mapping[str, Any] | RequestError | None = attrs.field(default=None, init=False)
    _settled: trio.Event = attrs.field(factory=trio.Event, init=False)

    def settle(self, answer: Mapping[str, Any] | RequestError | None) -> None:
        if not self._settled.is_set():
            self._answer = answer
            self._settled.set()

    async def wait(self) -> Mapping[str, Any]:
        await self._settled.wait()
        if self._answer is None:
            raise too_late(self.request["method"])
        if isinstance(self._answer, RequestError):
            self._answer.question = self.request["method"]  # so that it is not taken for that of the call
            raise self._answer
        return self._answer


@final
@attrs.define(eq=False)
class RunningTask:
    """A task whose handler runs. It asks for the handler, and takes what the handler sends.

    Its handler's exchange has it as its sink: progress becomes its status message, and nothing else is sent, for
    a task has neither progress nor log messages ("Task Status Notifications").

    Attributes:
        is_gone: Whether it has expired.
        is_lost: Whether others have taken this process for dead: then it is not this one's to write any more.
        has_ended: Whether its handler has, so that nothing but the record is kept.
        is_withdrawn: Whether it is cancelled whatever its handler, which may still run, does.
        loans: The place and the bytes that are lent for it.
        caller: The sink of the request that it was; see `report_failure`.
        keys: What the keys of its questions begin with, so that no run of it uses those of another.
        is_unsaved: Whether a question or the end is not in the store yet.
        turn: Held while it is written to the store, so that this is done in order.
    """

    _tasks: Tasks
    _run: HandlerRun
    _revision: Revision
    _base: int
    _record: StoredTask  # without what is asked now, of which there may be much
    loans: tuple[Loan, Loan]
    caller: object = ABSENT
    is_gone: bool = False
    is_lost: bool = False
    has_ended: bool = False
    is_withdrawn: bool = False
    is_unsaved: bool = False
    keys: str = ""
    turn: trio.Lock = attrs.field(factory=trio.Lock)
    transport: str = attrs.field(default="task", init=False)
    is_task: bool = attrs.field(default=True, init=False)  # for `Context.is_task`
    _asked: int = attrs.field(default=0, init=False)
    _questions: dict[str, _Question] = attrs.field(factory=dict[str, _Question], init=False)  # that are open
    _asked_bytes: int = attrs.field(default=0, init=False)

    @property
    def id(self) -> str:
        """The task's id."""
        return self._record.id

    @property
    def record(self) -> StoredTask:
        """The task as it is now. What the store has may be older, but for questions and the end."""
        if not self._questions:
            return self._record
        asked = {key: question.request for key, question in self._questions.items()}
        return attrs.evolve(self._record, status="input_required", input_requests=asked)

    def change(self, **changes: Any) -> None:
        """Change it, and tell those who listen. Never waits."""
        self._record = attrs.evolve(self._record, updated_at=wall_time(), **changes)
        self._tasks.changed(self.id)

    def end(self, changes: Mapping[str, Any]) -> None:
        """Its handler has ended, with what has become of it. Whoever still asks has asked too late."""
        self._drop_questions()
        self.has_ended = True
        if not self.is_withdrawn:
            self.change(**changes)

    def _drop_questions(self) -> None:
        for question in self._questions.values():
            question.settle(None)
        self._questions.clear()
        self._asked_bytes = 0

    def cancel(self, reason: str) -> None:
        """Cancel the handler. The task is cancelled once that has ended; until then it asks nothing any more."""
        self._run.cancel(reason)
        for question in self._questions.values():  # its handler may shield itself, and nobody answers
            question.settle(None)

    def withdraw(self) -> None:
        """Cancel the task at once: it stays cancelled whatever its handler, which is cancelled too, still does.

        Spec: 2025-11-25, basic/utilities/tasks, "Task Cancellation".
        """
        self._run.cancel("tasks/cancel")
        self._drop_questions()
        self.change(status="cancelled", status_message=None, call=None)
        self.is_withdrawn = True

    @property
    def was_cancelled(self) -> bool:
        """Whether its handler was cancelled by itself, and not with everything else."""
        return self._run.scope.cancel_called

    def written(self, result: object) -> dict[str, Any]:
        """Return the result of its handler as plain JSON, as the request would have been answered."""
        plain = to_wire(result, self._revision) if attrs.has(type(result)) else dict(cast("Any", result))
        return {"resultType": "complete", **plain} if self._revision.is_modern else plain

    def weigh(self) -> None:
        """Count what it takes now.

        Raises:
            Overdrawn: There is no room for that.
        """
        base = 0 if self.has_ended else self._base + self._asked_bytes
        self.loans[1].change(base + weight_of_task(self._record))

    @property
    def exchange(self) -> Exchange:
        """The exchange in which its handler runs."""
        return exchange_of(self._run.context)

    # Asking.

    @ends_with_its_thread
    async def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Mapping[str, Any]:
        """Wait for the client's answer to a question of the handler; see `InputRequester.ask`.

        Raises:
            RequestError: There is no room for the question.
        """
        del on_progress  # a question that is part of a result has none
        self.exchange.check_thread()
        if self._revision.is_modern:
            request = to_wire(input_types()[method][0](params=params), self._revision)
        else:
            request = {"method": method, "params": to_wire(params, self._revision)}
        return await self._wait_for_answer(_Question(request))

    @leaves_its_place
    async def _wait_for_answer(self, question: _Question) -> Mapping[str, Any]:
        if self.has_ended or self._run.is_ending:
            await trio.lowlevel.checkpoint()  # a handler that was cancelled ends here, unless it is shielded
            raise too_late(question.request["method"])
        self._asked += 1  # a key is used once in the life of a task ("Task Update Requests")
        key = f"{self.keys}{self._asked}"
        self._questions[key] = question
        self._asked_bytes += cost_of(question.request)
        try:
            self.change()
            try:
                self.weigh()
            except Overdrawn as error:
                raise RequestError(SERVER_BUSY, f"no more can be asked: {error}") from None
            await self._tasks.save(self)
            with self.exchange.waiting(f"the client: {question.request['method']}"):
                return await question.wait()
        finally:
            self._close([key])

    def _close(self, keys: Iterable[str]) -> None:
        """Ask these questions no longer, as far as they are still asked."""
        closed = [self._questions.pop(key) for key in keys if key in self._questions]
        if closed:
            self._asked_bytes -= sum(cost_of(question.request) for question in closed)
            self.change()
            self.weigh()  # it is less

    def answer(self, answers: Mapping[str, Any]) -> bool:
        """Give the handler answers; those to what is not asked now are ignored. Returns whether any was taken.

        Raises:
            RequestError: An answer is none to its question. Then none of them counts.
        """
        taken = taken_answers(answers, {key: each.request["method"] for key, each in self._questions.items()})
        for key, given in taken.items():
            self._questions[key].settle(given)
        self._close(taken)
        return bool(taken)

    def settle(self, answers: Mapping[str, Any]) -> bool:
        """Give the handler answers as clients of 2025-11-25 send them: its own methods check them.

        Args:
            answers: By key, ``{"result": …}`` or ``{"error": …}``; those to what is not asked now are ignored.

        Returns:
            Whether any was taken.

        Raises:
            ValueError: One is neither.
        """
        taken = [key for key in answers if key in self._questions]
        for key in taken:
            given: Any = answers[key]
            result, error = (given.get("result"), given.get("error")) if is_object(given) else (None, None)
            self._questions[key].settle(result if is_object(result) else _read_refusal(error))
        self._close(taken)
        return bool(taken)

    # What its handler sends; see `ExchangeSink`.

    async def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Make progress the status message; drop everything else."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.send_notification_nowait(exchange, method, params)

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Do the same without waiting."""
        del exchange
        is_over = self.has_ended or self.is_withdrawn
        if method == "notifications/progress" and is_object(params) and not is_over:
            text = status_of_progress(params["progress"], params.get("total"), params.get("message"))
            self.change(status_message=text)

    async def send_request(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """Ask a question that is plain JSON; see `ask`."""
        del exchange, on_progress
        question = _Question({"method": method, "params": params or {}})
        return dict(await self._wait_for_answer(question))


# All of a running server.


@final
@attrs.define(eq=False)
class Tasks:
    """The tasks of a running server.

    Args:
        background: Runs them, and removes those that have expired.
        limits: How many there may be, and how large their results.
        account: Lends the memory that they take.
        store: Keeps them.
        changed: Called with the id of a task that has changed. Must not wait.

    Attributes:
        sharing: What other processes are told and ask, if the store is one of several.
        tag: With what their ids begin; see `Service`.
        asked: The questions that a client of 2025-11-25 is being asked: each a task's id and a key.
    """

    _background: Background
    _limits: Limits
    _account: Account
    _store: TaskStore
    changed: Callable[[str], object]
    tag: str = attrs.field(default="", init=False)
    asked: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]], init=False)
    _running: dict[str, RunningTask] = attrs.field(factory=dict[str, RunningTask], init=False)
    _loans: dict[str, tuple[Loan, Loan]] = attrs.field(factory=dict[str, tuple[Loan, Loan]], init=False)
    _times: DueTimes = attrs.field(init=False)
    sharing: Sharing | None = attrs.field(default=None, init=False)
    _restarts: Restarts | None = attrs.field(default=None, init=False)
    _is_taking_over: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._times = DueTimes(self._background, self._expire, name="expiring tasks")
        if isinstance(self._store, SharedTaskStore):
            self.sharing = Sharing(
                self._store, self._background, self._running, self._loans, self.save, self.changed
            )

    # Beginning and ending.

    async def begin(self, context: Context[Any], run: HandlerRun, rules: TaskRules, turn: trio.Lock) -> None:
        """Make the run of a handler a task, unless it is one: keep it, and answer its request with it.

        Where no more can be kept it goes on as an ordinary call, unless the tool's calls must be tasks.

        Args:
            context: The handler's context.
            run: The run.
            rules: What holds for the tool's tasks.
            turn: Held meanwhile: several tasks of a handler may call this at once.

        Raises:
            RequestError: No more tasks can be kept, and it must be one.
            LocalProtocolError: A question of the handler is open, or it has ended.
        """
        async with turn:
            if not context.is_task:
                await self._begin(context, run, rules)

    async def _begin(self, context: Context[Any], run: HandlerRun, rules: TaskRules) -> None:
        await run.wait_served()
        exchange, now = exchange_of(context), wall_time()
        is_modern, random = context.revision.is_modern, secrets.token_hex(ID_BYTES)
        record = StoredTask(
            id=self.tag + random if is_modern else marked_id(self.tag, random),
            owner=owner_of(exchange.origin),
            created_at=now,
            updated_at=now,
            ttl=rules.ttl,
            poll=rules.poll,
        )
        if rules.restartable and self.sharing is not None:
            record = attrs.evolve(record, call=call_of(context))
        try:
            base, loans = await self._kept(context, record, run)
        except RequestError as error:
            if rules.is_required:
                raise
            tool = str((exchange.request.params or {}).get("name"))
            _log.info("a call of %.100s is answered without a task: %s", tool, error)
            return
        # No checkpoint from here on: who learns the id finds the task, and a request that is given up before it
        # is answered cancels it.
        task = RunningTask(self, run, context.revision, base, record, loans, exchange.sink)
        self._enter(task, context, run, rules.ttl)
        answer: object = ExtensionResult(TASK, created_task(record))
        if not is_modern:
            self._note_known(record.id, context)
            answer = {"task": written_legacy_task(record)}
        run.detach(answer, partial(self._end, task))

    async def _kept(
        self, context: Context[Any], record: StoredTask, run: HandlerRun
    ) -> tuple[int, tuple[Loan, Loan]]:
        """Keep a new task; see `_lent`.

        Raises:
            RequestError: There is no room, here or in the store.
            LocalProtocolError: The handler has ended.
        """
        base, loans = self._lent(context, record)
        try:
            await self._store.add(record)
            if run.has_ended:  # a background task may have begun this
                raise LocalProtocolError("a task cannot begin when its handler has ended")
        except BaseException:
            for loan in loans:
                loan.give_back()
            with trio.move_on_after(self._limits.goodbye_timeout, shield=True), suppress(Exception):
                await self._store.remove(record.id)  # it may be there all the same
            raise
        return base, loans

    def _lent(self, context: Context[Any], record: StoredTask) -> tuple[int, tuple[Loan, Loan]]:
        """Return what a task takes beside its record, and its place and the bytes that are lent for it.

        Raises:
            RequestError: There is no room.
        """
        exchange, limits = exchange_of(context), self._limits
        base = PARKED_BYTES + cost_of(exchange.request.params or {}) + weight_of_headers(context)
        client = client_key_of(exchange.origin, context._surroundings.client)
        places = self._account.places(
            "tasks", "max_tasks", limits.max_tasks, limits.max_tasks_per_principal, "a tenth of max_tasks"
        )
        amounts = ((places, 1), (self._account.bytes, base + weight_of_task(record)))
        try:
            place, lent = lend_all(amounts, client, "tasks")
        except Overdrawn as error:
            raise error.marked(RequestError(SERVER_BUSY, f"no more tasks can be kept: {error}")) from None
        return base, (place, lent)

    def _enter(self, task: RunningTask, context: Context[Any], run: HandlerRun, ttl: float | None) -> None:
        id = task.record.id
        self._running[id] = task
        self._loans[id] = task.loans
        if ttl is not None:
            self._times.at(trio.current_time() + ttl, id)
        if self.sharing is not None:
            self.sharing.look()
        context._become_task(task, _exchange_of(task, exchange_of(context), run))

    # Running calls again whose processes have died.

    def restart_by(self, restarts: Restarts) -> None:
        """From now on run calls again that wait for that in the store."""
        self._restarts = restarts
        self._take_over_soon()

    def _take_over_soon(self) -> None:
        if self.sharing is not None and self._restarts is not None and not self._is_taking_over:
            self._is_taking_over = True
            take_over = partial(self._take_over, self.sharing.store, self._restarts)
            self._background.start_own(take_over, name="running tasks again")

    async def _take_over(self, store: SharedTaskStore, restarts: Restarts) -> None:
        try:
            while (found := await restarts.claim(store)) is not None:
                record, run, context = found
                try:
                    base, loans = self._lent(context, record)
                except RequestError:
                    _log.exception("a task that waits to be run again has to wait longer")
                    await store.release(record)
                    break
                task = RunningTask(self, run, context.revision, base, record, loans)
                task.keys = f"{secrets.token_hex(4)}-"
                left = None if record.ttl is None else record.created_at + record.ttl - wall_time()
                self._enter(task, context, run, left)
                run.detach(None, partial(self._end, task))
                self._background.start_own(run.run, name="handler of a task that is run again")
        finally:
            self._is_taking_over = False

    async def _end(self, task: RunningTask, outcome: Outcome | None) -> None:
        """Keep what has become of a task: its handler has ended. Called in a shielded scope."""
        record = task.record
        is_left = outcome is None and record.call is not None and not (task.was_cancelled or task.is_gone)
        task.end({} if is_left else {"call": None, **self._ended(task, outcome)})
        if task.is_lost:
            if self._loans.get(task.id) is task.loans:
                del self._loans[task.id]
            for loan in task.loans:
                loan.give_back()
            return
        if is_left and self.sharing is not None:
            try:
                await self.sharing.store.release(record)  # for the next process
            except Exception:
                _log.exception("a task that is to be run again is left in its store until this process is gone")
            return
        if task.is_gone:
            self._forget(task.id)
            return
        # From here on `_expire` forgets it, perhaps while it is written.
        try:
            task.weigh()
        except Overdrawn as error:
            busy = RequestError(SERVER_BUSY, f"there is no room for the result of the task: {error}")
            task.change(**failed(busy))  # of a few hundred bytes, whether there is room for them or not
        try:
            await self.save(task)
        except Exception:
            _log.exception("a task that has ended could not be written to its store, and is kept in memory")
            return
        except trio.Cancelled:
            _log.error("a task that has ended was not written to its store in time, and is kept in memory")
            raise
        self._running.pop(task.id, None)

    def _ended(self, task: RunningTask, outcome: Outcome | None) -> dict[str, Any]:
        if outcome is None:
            if task.was_cancelled:
                return {"status": "cancelled", "status_message": None}
            return failed(RequestError(INTERNAL_ERROR, SHUT_DOWN))
        error = outcome.error
        if isinstance(error, RequestError):
            if error.question is not None:  # its code is about the question
                problem = f"the client refused {error.question}: {error.message}"
                error = RequestError(INTERNAL_ERROR, problem)
        elif error is not None:
            _log.error("the handler of a task failed", exc_info=error)
            error = RequestError(INTERNAL_ERROR, "internal error")
        try:
            if error is None:
                result = task.written(outcome.value)
                found: dict[str, Any] = {"status": "completed", "status_message": None, "result": result}
            else:
                found = failed(error)
            size = len(_json.encode_answer(found["result"] or found["error"]))
        except Exception:
            _log.exception("the result of a task cannot be sent")
            return failed(RequestError(INTERNAL_ERROR, "internal error"))
        most = self._limits.max_task_result_bytes
        if size > most:
            problem = f"the result of the task is {size} bytes; {most} are allowed, half of max_message_bytes"
            return failed(RequestError(INTERNAL_ERROR, problem))
        return found

    async def save(self, task: RunningTask) -> None:
        """Write a task to the store as it is now, unless it has expired."""
        task.is_unsaved = True
        async with task.turn:
            if not (task.is_gone or task.is_lost):
                record = task.record
                await self._store.replace(record)
                now = task.record
                task.is_unsaved = (now.status, *now.input_requests) != (record.status, *record.input_requests)

    # Expiring.

    def _expire(self, id: str) -> Callable[[], Awaitable[None]]:
        task = self._running.get(id)
        if task is not None:
            task.is_gone = True
            task.cancel("its time is over (ttl)")
            self.changed(id)  # who waits for it need not wait until its handler has ended
        if task is None or task.has_ended:
            self._forget(id)
        return partial(self._remove, id, nullcontext() if task is None else task.turn)

    async def _remove(self, id: str, turn: AbstractAsyncContextManager[object]) -> None:
        with trio.move_on_after(self._limits.goodbye_timeout) as scope:  # noqa: ASYNC912 - a store that is stuck
            try:
                async with turn:
                    await self._store.remove(id)
            except Exception:
                _log.exception("a task that has expired could not be removed from its store")
        if scope.cancelled_caught:
            _log.error("a task that has expired was not removed from its store in time")

    def _forget(self, id: str) -> None:
        self._running.pop(id, None)
        for loan in self._loans.pop(id, ()):
            loan.give_back()

    # What clients do.

    async def find(self, id: object, owner: str | None, *, is_modern: bool = True) -> StoredTask | None:
        """Return a task as it is now, if it is there, somebody's own, and was begun in an era."""
        if not isinstance(id, str) or is_marked(id) == is_modern:
            return None
        running = self._running.get(id)
        if running is not None and running.is_gone:
            return None
        if running is not None and (running.has_ended or running.is_withdrawn):
            async with running.turn:  # an end that was told must not be undone by the end of this process
                pass
        task = await self._store.find(id) if running is None else running.record
        if task is None or task.owner != owner or task.has_expired(wall_time()):
            return None
        if running is None and task.call is not None:
            self._take_over_soon()  # perhaps its process has just been found dead
        return task

    async def demand(self, params: Mapping[str, Any], context: Context[Any]) -> StoredTask:
        """Return the task that a request names.

        Raises:
            RequestError: There is none that is its client's.
        """
        id = params.get("taskId")
        if not isinstance(id, str):
            raise RequestError(INVALID_PARAMS, "invalid params: taskId: expected a string")
        is_modern = context.revision.is_modern
        task = await self.find(id, owner_of(origin_of(context)), is_modern=is_modern)
        if task is None:
            raise RequestError(INVALID_PARAMS, UNKNOWN)
        if not is_modern:
            self._note_known(task.id, context)
        return task

    # Lists, which only 2025-11-25 has.

    def _note_known(self, id: str, context: Context[Any]) -> None:
        known = context._surroundings.task_ids
        if known is not None and id not in known and isinstance(self._store, MemoryTaskStore):
            known[id] = None
            if len(known) > self._limits.max_tasks_per_principal:
                for other in [other for other in known if other not in self._loans]:
                    del known[other]

    def can_list(self, origin: Origin | None, surroundings: Surroundings[Any]) -> bool:
        """Whether a client can list its tasks: it is known which they are, and what is kept can be listed."""
        is_known = owner_of(origin) is not None or surroundings.task_ids is not None
        return is_known and isinstance(self._store, MemoryTaskStore)

    def listed(self, context: Context[Any]) -> list[StoredTask]:
        """Return the tasks of 2025-11-25 that a client has, the oldest first, as they are now.

        Those of its principal, or if it has none, those that its session has begun or asked for: whoever knows no
        more than that a server is there learns no id (2025-11-25, "Task Isolation and Access Control").
        """
        assert isinstance(self._store, MemoryTaskStore)
        owner, known = owner_of(origin_of(context)), context._surroundings.task_ids or {}
        now, found = wall_time(), list[StoredTask]()
        for kept in self._store._owned_by(owner):
            running = self._running.get(kept.id)
            task = kept if running is None else running.record
            is_gone = task.has_expired(now) or (running is not None and running.is_gone)
            if not is_gone and is_marked(kept.id) and (owner is not None or kept.id in known):
                found.append(task)
        return sorted(found, key=lambda task: (task.created_at, task.id))

    def activity(self) -> list[RequestActivity]:
        """Return the tasks whose handlers run now."""
        return [activity_of(task.exchange, None) for task in self._running.values()]

    def running(self, task: StoredTask) -> RunningTask | None:
        """Return a task if its handler runs here; `None` if it is over.

        Raises:
            RequestError: It runs elsewhere, and the store is none by which processes tell each other anything.
        """
        found = self._running.get(task.id)
        if found is None and not task.is_final and self.sharing is None:
            raise RequestError(INTERNAL_ERROR, ELSEWHERE)
        return found


def _exchange_of(task: RunningTask, exchange: Exchange, run: HandlerRun) -> Exchange:
    """Return the exchange in which the handler of a task runs on: everything that it sends goes to the task."""
    params = exchange.request.params or {}
    meta = {**exchange.meta, PROGRESS_TOKEN_KEY: task.id}  # or its reports would go nowhere
    request = attrs.evolve(exchange.request, params={**params, "_meta": meta})
    return Exchange(request, exchange.origin, exchange.received_at, task, run.scope)


def tasks_of(context: Context[Any]) -> Tasks:
    """Return the tasks of the running server that serves a request."""
    found: Tasks = context._surroundings.get_tasks()
    return found


@final
@attrs.frozen(kw_only=True)
class TaskRules:
    """How the calls of a tool become tasks.

    Attributes:
        is_required: Whether they must: clients that know no tasks cannot call it.
        ttl: For how many seconds a task is kept; `None` for as long as the server runs.
        poll: After how many seconds clients should look again.
        asks_first: Whether they begin as other calls do, until the handler calls `Context.begin_task`.
        restartable: Whether one whose process dies is run again.
    """

    is_required: bool
    ttl: float | None
    poll: float
    asks_first: bool
    restartable: bool
