"""What stores of tasks are tested with, for those who write their own.

    class TestMyStore(trio_mcp.testing.TaskStoreTests):
        @asynccontextmanager
        async def open_store(self):
            ...
            yield store

The tests are asynchronous methods, for pytest-trio with ``trio_mode = true``. Nothing here imports pytest.
"""

from __future__ import annotations

import abc
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import attrs
import trio
import trio.testing

from .._core._tasks import StoredTask
from .._server._task_store import SharedTaskStore, TaskMessage, TaskStore
from .._trio import wall_time

_TOOL: Final = "pack"
_QUESTION: Final[Mapping[str, Any]] = {
    "1": {"method": "elicitation/create", "params": {"message": "Who?\n\u2028\x00é😀", "requestedSchema": {}}}
}


def _task(**members: Any) -> StoredTask:
    now = wall_time()
    usual: dict[str, Any] = {"owner": "ada", "created_at": now, "updated_at": now, "ttl": 3_600.0, "poll": 1.0}
    return StoredTask(id=secrets.token_hex(20), **(usual | members))


def _states(task: StoredTask) -> Sequence[StoredTask]:
    """Return what may become of a task, a final status last."""
    later: dict[str, Any] = {"updated_at": task.updated_at + 1}
    return [
        attrs.evolve(task, status_message="1 of 2", **later),
        attrs.evolve(task, status="input_required", input_requests=_QUESTION, **later),
        attrs.evolve(
            task, status="completed", result={"content": [{"type": "text", "text": "x" * 100_000}]}, **later
        ),
    ]


class TaskStoreTests(abc.ABC):
    """What every `TaskStore` promises, as tests: subclass it, and say how one is opened.

    Attributes:
        seconds: How long each test may take.
    """

    seconds: float = 30

    @abc.abstractmethod
    def open_store(self) -> AbstractAsyncContextManager[TaskStore]:
        """Open a store that has no tasks."""

    async def test_a_task_is_found_as_it_was_added(self) -> None:
        """With everything that it has; and no other is."""
        async with self._opened() as store:
            for task in (
                _task(),
                _task(owner=None, ttl=None, status_message="é"),
                _task(call={"name": _TOOL}, runs=3),
            ):
                await store.add(task)
                assert await store.find(task.id) == task
                assert await store.find(task.id + "0") is None
                assert await store.find(task.id[:-1]) is None

    async def test_a_task_is_found_as_it_was_replaced(self) -> None:
        """Again and again, and its id stays what it is."""
        async with self._opened() as store:
            other = _task()
            await store.add(other)
            for last in (
                {"status": "failed", "error": {"code": -1, "message": "no"}},
                {"status": "cancelled"},
                None,
            ):
                task = _task()
                await store.add(task)
                states = _states(task)
                for state in states if last is None else [*states[:-1], attrs.evolve(task, **last)]:
                    await store.replace(state)
                    assert await store.find(task.id) == state
            assert await store.find(other.id) == other

    async def test_a_task_that_was_removed_is_not_found(self) -> None:
        """Removing it again, or what never was there, does nothing."""
        async with self._opened() as store:
            task, other = _task(), _task()
            await store.add(task)
            await store.add(other)
            for _ in range(2):
                await store.remove(task.id)
                assert await store.find(task.id) is None
            assert await store.find(other.id) == other

    async def test_many_tasks_are_kept_at_once(self) -> None:
        """Each as it is, whoever comes first."""
        async with self._opened() as store:
            ends: dict[str, StoredTask] = {}

            async def live(task: StoredTask) -> None:
                for state in _states(task):
                    await store.replace(state)
                    ends[task.id] = state

            tasks = [_task() for _ in range(30)]
            async with trio.open_nursery() as nursery:
                for task in tasks:
                    nursery.start_soon(store.add, task)
            for task in tasks:
                assert await store.find(task.id) == task, "one of 30 tasks is not as it was added"
            async with trio.open_nursery() as nursery:
                for task in tasks:
                    nursery.start_soon(live, task)
            for id, state in ends.items():
                assert await store.find(id) == state

    async def test_what_is_cancelled_is_done_or_not_done(self) -> None:
        """Never half of it; and the store goes on."""
        async with self._opened() as store:
            for passes in range(4):
                task, kept = _task(), _task()
                await store.add(kept)
                state = _states(kept)[-1]
                await _cancelled_after(passes, partial(store.add, task))
                await _cancelled_after(passes, partial(store.replace, state))
                assert await store.find(task.id) in (None, task)
                assert await store.find(kept.id) in (kept, state)
                await store.remove(task.id)
                assert await store.find(task.id) is None

    async def test_every_method_is_a_checkpoint(self) -> None:
        """Or a server that waits for nothing else would let nobody else run."""
        async with self._opened() as store:
            task = _task()
            calls: list[Callable[[], Awaitable[object]]] = [
                partial(store.add, task),
                partial(store.find, task.id),
                partial(store.replace, task),
                partial(store.remove, task.id),
                partial(store.find, task.id),
            ]
            for call in calls:
                with trio.testing.assert_checkpoints():
                    await call()

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[TaskStore]:
        with trio.fail_after(self.seconds):
            async with self.open_store() as store:
                yield store


async def _cancelled_after(passes: int, call: Callable[[], Awaitable[object]]) -> None:
    """Cancel a call after so many checkpoints of others."""
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await call()
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        for _ in range(passes):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


class SharedTaskStoreTests(TaskStoreTests):
    """What a `SharedTaskStore` promises beyond that. Each ``open_store()`` of a test is a further process.

    Stores that are opened in one process must count as those of several do.
    """

    @abc.abstractmethod
    def open_store(self) -> AbstractAsyncContextManager[SharedTaskStore]:
        """Open the store, which has no tasks the first time, and in the same test the next time what is in it."""

    async def test_a_task_is_found_by_every_process(self) -> None:
        """As it was written last, as soon as that returns."""
        async with self._shared(2) as (one, other):
            task = _task()
            await one.add(task)
            assert await other.find(task.id) == task
            for state in _states(task):
                await one.replace(state)
                assert await other.find(task.id) == state
            await one.remove(task.id)
            assert await other.find(task.id) is None

    async def test_a_message_comes_to_the_process_that_runs_the_task(self) -> None:
        """To no other; the oldest first; and again until it is done."""
        async with self._shared(3) as (one, other, third):
            task, ended = _task(), _task()
            await one.add(task)
            await one.add(ended)
            await one.replace(attrs.evolve(ended, status="cancelled"))
            await other.send(ended.id, {"cancel": True})
            await other.send("unknown", {"cancel": True})
            assert await one.receive() == []
            await other.send(task.id, {"answers": {"1": {"action": "decline"}}})
            await third.send(task.id, {"cancel": True})
            first, last = await one.receive()
            assert first == TaskMessage(first.number, task.id, {"answers": {"1": {"action": "decline"}}})
            assert last == TaskMessage(last.number, task.id, {"cancel": True})
            assert first.number < last.number
            assert await other.receive() == await third.receive() == []
            assert await one.receive() == [first, last]
            await one.done([first.number])
            assert await one.receive() == [last]
            await one.done([last.number])
            assert await one.receive() == []

    async def test_versions_change_with_the_tasks(self) -> None:
        """And with nothing else."""
        async with self._shared(2) as (one, other):
            task, still = _task(), _task()
            await one.add(task)
            await one.add(still)
            wanted, before = [task.id, still.id, "unknown"], dict[str, int]()
            for state in _states(task):
                now = dict(await other.versions(wanted))
                assert now.keys() == {task.id, still.id}
                assert now == await other.versions(wanted), "a version changes while its task does not"
                assert before.get(task.id) != now[task.id]
                assert before.get(still.id, now[still.id]) == now[still.id]
                before = now
                await one.replace(state)
            await one.remove(task.id)
            assert (await other.versions(wanted)).keys() == {still.id}

    async def test_a_task_whose_process_is_gone_has_failed(self) -> None:
        """The first who looks finds it so. What has ended before stays as it was."""
        for look in ("find", "versions"):
            async with self._shared(1) as (other,):
                async with self._shared(1) as (one,):
                    task, ended = _task(), _task()
                    await one.add(task)
                    await one.add(ended)
                    await one.replace(_states(ended)[-1])
                    before = await other.versions([task.id])
                if look == "versions":
                    assert await other.versions([task.id]) != before
                found = await other.find(task.id)
                assert found is not None
                assert (found.status, found.input_requests, found.result) == ("failed", {}, None)
                assert found.error is not None
                assert found.error["message"]
                assert await other.find(ended.id) == _states(ended)[-1]
                assert await other.claim([_TOOL]) is None

    async def test_a_call_whose_process_is_gone_is_claimed_once(self) -> None:
        """By a process that has its tool; then it is that process's."""
        async with self._shared(2) as (other, third):
            async with self._shared(1) as (one,):
                task = _task(call={"name": _TOOL, "params": {}})
                await one.add(task)
                await one.replace(_states(task)[1])
                assert await other.claim([_TOOL]) is None, "a task was claimed whose process is there"
            found = await other.find(task.id)
            assert found is not None
            assert (found.status, found.input_requests) == ("working", {}), "its questions are asked anew"
            assert await third.claim(["another", "tools"]) is None
            claimed = list[StoredTask]()

            async def claim(store: SharedTaskStore) -> None:
                got = await store.claim(["another", _TOOL])
                if got is not None:
                    claimed.append(got)
                    await store.replace(_states(got)[-1])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(claim, other)
                nursery.start_soon(claim, third)
            [got] = claimed
            assert (got.id, got.runs, got.call) == (task.id, 2, task.call)
            assert await other.find(task.id) == _states(got)[-1]

    async def test_what_was_sent_to_a_process_that_is_gone_comes_to_the_next(self) -> None:
        """A call that was cancelled is cancelled, whoever runs it."""
        async with self._shared(1) as (other,):
            async with self._shared(1) as (one,):
                task = _task(call={"name": _TOOL})
                await one.add(task)
                await other.send(task.id, {"cancel": True})
            assert await other.find(task.id) is not None
            assert await other.claim([_TOOL]) is not None
            [message] = await other.receive()
            assert message.content == {"cancel": True}

    async def test_a_task_that_is_released_can_be_claimed(self) -> None:
        """That was no death, and does not count as one."""
        async with self._shared(2) as (one, other):
            task = _task(call={"name": _TOOL})
            await one.add(task)
            await one.release(_states(task)[1])
            got = await other.claim([_TOOL])
            assert got is not None
            assert (got.id, got.status, got.input_requests, got.runs) == (task.id, "working", {}, 1)
            assert await one.claim([_TOOL]) is None

    async def test_a_task_whose_processes_die_again_and_again_has_failed(self) -> None:
        """Perhaps it is what kills them."""
        task, runs, found = _task(call={"name": _TOOL}), 0, None
        async with self._shared(1) as (other,):
            async with self._shared(1) as (one,):
                await one.add(task)
            for _ in range(20):
                found = await other.find(task.id)
                if found is None or found.is_final:
                    break
                async with self._shared(1) as (one,):
                    runs += await one.claim([_TOOL]) is not None
            assert found is not None
            assert found.status == "failed"
            assert runs

    async def test_who_does_not_run_a_task_does_not_change_it(self) -> None:
        """A process that was taken for dead has nothing to say any more."""
        async with self._shared(2) as (one, other):
            task = _task()
            await one.add(task)
            await other.replace(_states(task)[-1])
            assert await one.find(task.id) == task

    @asynccontextmanager
    async def _shared(self, count: int) -> AsyncGenerator[Sequence[SharedTaskStore]]:
        with trio.fail_after(self.seconds):
            async with AsyncExitStack() as stack:
                yield [await stack.enter_async_context(self.open_store()) for _ in range(count)]
