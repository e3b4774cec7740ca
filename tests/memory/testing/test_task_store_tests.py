"""The tests that stores of tasks are tested with: ours pass them, and each fails for a store that breaks it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from trio_mcp import (
    MemoryTaskStore,
    SqliteTaskStore,
    StoredTask,
    TaskStore,
    open_sqlite_task_store,
)
from trio_mcp.testing import SharedTaskStoreTests, TaskStoreTests


class TestMemory(TaskStoreTests):
    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[TaskStore]:
        yield MemoryTaskStore()


class TestSqlite(SharedTaskStoreTests):
    path: Path

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "tasks.db"

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[SqliteTaskStore]:
        async with open_sqlite_task_store(self.path) as store:
            yield store


class Broken:
    """A store that does one thing wrong."""

    def __init__(self, store: Any, wrong: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        self._store, self._wrong, self.kept = store, wrong, dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        wrong = self._wrong.get(name)
        return getattr(self._store, name) if wrong is None else partial(wrong, self, self._store)


async def finds_all(_: Broken, store: Any, id: str) -> Any:
    return (await store.find(id)) or await store.find(id[:-1])


async def keeps_no_owner(_: Broken, store: Any, task: StoredTask) -> None:
    await store.add(attrs.evolve(task, owner="ada"))


async def drops_questions(_: Broken, store: Any, task: StoredTask) -> None:
    await store.replace(attrs.evolve(task, input_requests={}))


async def replaces_nothing(_: Broken, store: Any, task: StoredTask) -> None:
    await trio.lowlevel.checkpoint()


async def removes_nothing(_: Broken, store: Any, id: str) -> None:
    await trio.lowlevel.checkpoint()


async def removes_what_is_there(_: Broken, store: Any, id: str) -> None:
    if await store.find(id) is None:
        raise LookupError(id)
    await store.remove(id)


async def adds_halves(_: Broken, store: Any, task: StoredTask) -> None:
    await store.add(attrs.evolve(task, owner=None))
    await trio.lowlevel.checkpoint()
    await store.remove(task.id)
    await store.add(task)


async def keeps_one_at_a_time(broken: Broken, store: Any, task: StoredTask) -> None:
    broken.kept["last"] = task
    await trio.lowlevel.checkpoint()
    await store.replace(broken.kept["last"])


async def keeps_the_last_ten(broken: Broken, store: Any, task: StoredTask) -> None:
    await store.add(task)
    broken.kept[task.id] = task
    if len(broken.kept) > 10:
        await store.remove(broken.kept.pop(next(iter(broken.kept))).id)


async def puts_back(_: Broken, store: Any, task: StoredTask) -> None:
    await store.remove(task.id)
    await store.add(task)


async def finds_without_a_checkpoint(broken: Broken, store: Any, id: str) -> Any:
    return store._tasks.get(id)


async def sends_twice(_: Broken, store: Any, id: str, content: Mapping[str, Any]) -> None:
    await store.send(id, content)
    await store.send(id, {**content, "again": True})


async def sends_nothing(_: Broken, store: Any, id: str, content: Mapping[str, Any]) -> None:
    await trio.lowlevel.checkpoint()


async def receives_once(_: Broken, store: Any) -> Any:
    messages = await store.receive()
    await store.done([message.number for message in messages])
    return messages


async def has_always_done(_: Broken, store: Any, numbers: Any) -> None:
    await trio.lowlevel.checkpoint()


async def counts_looks(broken: Broken, store: Any, ids: Any) -> Any:
    broken.kept["n"] = broken.kept.get("n", 0) + 1
    return dict.fromkeys(await store.versions(ids), broken.kept["n"])


async def never_changes(_: Broken, store: Any, ids: Any) -> Any:
    return dict.fromkeys(await store.versions(ids), 1)


async def claims_what_it_likes(_: Broken, store: Any, tools: Any) -> Any:
    return await store.claim([*tools, "pack"])


async def claims_nothing(_: Broken, store: Any, tools: Any) -> Any:
    await trio.lowlevel.checkpoint()


async def claims_for_nothing(_: Broken, store: Any, tools: Any) -> Any:
    got = await store.claim(tools)
    return None if got is None else attrs.evolve(got, runs=1)


async def releases_as_it_is(_: Broken, store: Any, task: StoredTask) -> None:
    await store.replace(task)


async def forgets_the_dead(_: Broken, store: Any, id: str) -> Any:
    found = await store.find(id)
    return None if found is None else attrs.evolve(found, status="working", error=None)


async def takes_from_others(broken: Broken, store: Any, task: StoredTask) -> None:
    await store._write(task, store._runner)
    store._database.execute("UPDATE tasks SET version = version + 1, data = ? WHERE id = ?", (b"{}", task.id))


BROKEN: list[tuple[str, str, Callable[..., Awaitable[Any]]]] = [
    ("a_task_is_found_as_it_was_added", "find", finds_all),
    ("a_task_is_found_as_it_was_added", "add", keeps_no_owner),
    ("a_task_is_found_as_it_was_replaced", "replace", drops_questions),
    ("a_task_is_found_as_it_was_replaced", "replace", replaces_nothing),
    ("a_task_that_was_removed_is_not_found", "remove", removes_nothing),
    ("a_task_that_was_removed_is_not_found", "remove", removes_what_is_there),
    ("many_tasks_are_kept_at_once", "replace", keeps_one_at_a_time),
    ("many_tasks_are_kept_at_once", "add", keeps_the_last_ten),
    ("what_is_cancelled_is_done_or_not_done", "add", adds_halves),
    ("every_method_is_a_checkpoint", "find", finds_without_a_checkpoint),
]
BROKEN_SHARED: list[tuple[str, str, Callable[..., Awaitable[Any]]]] = [
    ("a_task_is_found_by_every_process", "replace", replaces_nothing),
    ("a_message_comes_to_the_process_that_runs_the_task", "send", sends_nothing),
    ("a_message_comes_to_the_process_that_runs_the_task", "send", sends_twice),
    ("a_message_comes_to_the_process_that_runs_the_task", "receive", receives_once),
    ("a_message_comes_to_the_process_that_runs_the_task", "done", has_always_done),
    ("versions_change_with_the_tasks", "versions", counts_looks),
    ("versions_change_with_the_tasks", "versions", never_changes),
    ("a_task_whose_process_is_gone_has_failed", "find", forgets_the_dead),
    ("a_task_whose_process_is_gone_has_failed", "versions", never_changes),
    ("a_call_whose_process_is_gone_is_claimed_once", "claim", claims_what_it_likes),
    ("a_call_whose_process_is_gone_is_claimed_once", "claim", claims_nothing),
    ("what_was_sent_to_a_process_that_is_gone_comes_to_the_next", "send", sends_nothing),
    ("a_task_that_is_released_can_be_claimed", "release", releases_as_it_is),
    ("a_task_whose_processes_die_again_and_again_has_failed", "claim", claims_nothing),
    ("who_does_not_run_a_task_does_not_change_it", "replace", takes_from_others),
]


async def fails(test: Callable[[], Awaitable[None]]) -> None:
    error: BaseException | None = None
    try:
        await test()
    except (AssertionError, LookupError, ValueError, ExceptionGroup) as caught:
        error = caught
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, (AssertionError, LookupError, ValueError))


async def test_a_store_that_breaks_a_promise_fails(subtests: pytest.Subtests) -> None:

    async def check(test: str, method: str, wrong: Callable[..., Awaitable[Any]]) -> None:
        class Tests(TaskStoreTests):
            @asynccontextmanager
            async def open_store(self) -> AsyncGenerator[Any]:
                yield Broken(MemoryTaskStore(), {"replace": puts_back, method: wrong})

        await fails(getattr(Tests(), f"test_{test}"))

    for test, method, wrong in BROKEN:
        with subtests.test(test=test, method=method, wrong=wrong):
            await check(test, method, wrong)


@pytest.mark.parametrize(("test", "method", "wrong"), BROKEN_SHARED)
async def test_a_shared_store_that_breaks_a_promise_fails(
    test: str, method: str, wrong: Callable[..., Awaitable[Any]], tmp_path: Path
) -> None:
    class Tests(SharedTaskStoreTests):
        seconds = 10

        @asynccontextmanager
        async def open_store(self) -> AsyncGenerator[Any]:
            async with open_sqlite_task_store(tmp_path / "tasks.db") as store:
                yield Broken(store, {method: wrong})

    await fails(getattr(Tests(), f"test_{test}"))


def test_every_promise_is_broken_by_some_store() -> None:
    own = {name.removeprefix("test_") for name in vars(TaskStoreTests) if name.startswith("test_")}
    shared = {name.removeprefix("test_") for name in vars(SharedTaskStoreTests) if name.startswith("test_")}
    assert {test for test, _, _ in BROKEN} == own
    assert {test for test, _, _ in BROKEN_SHARED} == shared
