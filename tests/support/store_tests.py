"""What stores are tested with that processes share: subclass it, and say how one joins.

class TestMine(SharedStoreTests):
    @asynccontextmanager
    async def open_store(self):
        async with MyStore(...).open() as store:
            yield store
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

import trio
import trio.testing
from inside_endpoint import SharedStore, TakenSession
from stored_tasks import task


class SharedStoreTests(abc.ABC):
    """What every `SharedStore` promises, as tests. Each ``open_store()`` of a test is a further process.

    Stores that are opened in one process must count as those of several do.

    Attributes:
        seconds: How long each test may take.
        session_events: How many events of one session are kept.
    """

    seconds: float = 30
    session_events: int = 10_000

    @abc.abstractmethod
    def open_store(self) -> AbstractAsyncContextManager[SharedStore]:
        """Join the store, which has nothing in it the first time, and in the same test the next time what is in it."""

    # Processes.

    def seem_gone(self, store: SharedStore) -> None:
        """Have a process that is there look as if it were gone, where others could see that it is not."""
        del store

    async def take_for_gone(self, store: SharedStore, other: SharedStore) -> None:
        """Have a process note that another one is gone."""
        self.seem_gone(other)
        assert await store.gone(other.number)

    async def test_a_number_is_never_used_again(self) -> None:
        """Whoever has left; even if nobody else is there."""
        numbers = list[int]()
        for count in (1, 3, 2):
            async with self._joined(count) as stores:
                numbers += [store.number for store in stores]
                await stores[0].announce("a")
            async with self._joined(1) as (store,):
                numbers.append(store.number)
                await store.sessions.keep(str(store.number), b"1")
                await self.take_for_gone(store, stores[0])
        assert len(numbers) == len(set(numbers)) == 9

    async def test_all_know_one_secret(self) -> None:
        """Those who begin at the same time, and those who come when all others have left."""
        secrets = list[bytes]()

        async def join(left: trio.Event) -> None:
            async with self.open_store() as store:
                secrets.append(store.secret)
                await left.wait()

        for count in (4, 1):
            left = trio.Event()
            with trio.fail_after(self.seconds):
                async with trio.open_nursery() as nursery:
                    for _ in range(count):
                        nursery.start_soon(join, left)
                    left.set()
        assert len(secrets) == 5
        assert len(set(secrets)) == 1
        assert len(secrets[0]) == 32

    async def test_processes_are_seen_when_they_say_where_they_are(self) -> None:
        """By all others, until they leave."""
        async with self._joined(2) as (one, other):
            async with self._joined(1) as (third,):
                assert await one.others() == {}
                assert await one.address_of(third.number) is None
                await third.announce("unix:/third é")
                await one.announce("one")
                assert await one.others() == {third.number: "unix:/third é"}
                assert await other.others() == {third.number: "unix:/third é", one.number: "one"}
                assert await third.others() == {one.number: "one"}
                for store in (one, other, third):
                    assert await store.address_of(third.number) == "unix:/third é"
            assert await one.others() == {}
            assert await other.others() == {one.number: "one"}
            assert await other.address_of(third.number) is None
            assert await other.address_of(third.number + 1_000) is None

    async def test_a_process_is_gone_when_another_says_so(self) -> None:
        """For all; but nobody says it of itself, and nobody else goes with it."""
        async with self._joined(3) as (one, other, third):
            for store in (one, other, third):
                await store.announce(f"at {store.number}")
            await one.gone(one.number)
            await one.gone(third.number + 1_000)
            assert set(await other.others()) == {one.number, third.number}
            await self.take_for_gone(one, third)
            assert await other.gone(third.number)
            assert await one.others() == {other.number: f"at {other.number}"}
            assert await other.others() == {one.number: f"at {one.number}"}
            assert await other.address_of(third.number) is None

    # Sessions.

    async def test_a_session_is_found_as_it_was_kept_last(self) -> None:
        """By every process, and no other is."""
        async with self._joined(2) as (one, other):
            for data in (b"1", b"", bytes(range(256)) * 1_000, b"2"):
                assert await one.sessions.keep("s", data)
                assert await one.sessions.find("s") == await other.sessions.find("s") == data
            assert await other.sessions.keep("t", b"theirs")
            assert await one.sessions.find("s") == b"2"
            assert await one.sessions.find("t") == b"theirs"
            assert await one.sessions.find("s ") is None
            assert await one.sessions.take("s ") is None

    async def test_a_session_is_its_process_s_alone(self) -> None:
        """Whether that has said where it is or not: nobody else takes, changes, releases or forgets it."""
        async with self._joined(2) as (one, other):
            for _ in range(2):
                await one.sessions.keep("s", b"1")
                assert await other.sessions.take("s") == one.number
                assert await other.sessions.keep("s", b"2") is False
                await other.sessions.forget("s")
                await other.sessions.release("s")
                assert await other.sessions.take("s") == one.number
                assert await other.sessions.find("s") == b"1"
                await one.announce("one")

    async def test_a_session_is_forgotten(self) -> None:
        """Doing so again does nothing; another one of the same name begins anew."""
        async with self._joined(2) as (other, third):
            async with self._joined(1) as (one,):
                await one.sessions.keep("s", b"1")
            assert await other.sessions.take("s") == TakenSession(b"1", 1)
            for _ in range(2):
                await other.sessions.forget("s")
                for store in (other, third):
                    assert await store.sessions.find("s") is None
                    assert await store.sessions.take("s") is None
            assert await third.sessions.keep("s", b"2")
            assert await other.sessions.take("s") == third.number
            await self.take_for_gone(other, third)
            assert await other.sessions.take("s") == TakenSession(b"2", 1)

    async def test_what_a_process_had_that_is_gone_is_taken_over(self) -> None:
        """Again and again, whether it left or others found it gone; each time counts."""
        async with self._joined(1) as (last,):
            async with self._joined(1) as (one,):
                await one.sessions.keep("s", b"0")
                await one.sessions.keep("t", b"t")
            for turn in range(1, 4):
                async with self._joined(1) as (next_one,):
                    taken = await next_one.sessions.take("s")
                    assert taken == TakenSession(b"%d" % (turn - 1), turn)
                    assert await last.sessions.take("s") == next_one.number
                    assert await next_one.sessions.keep("s", b"%d" % turn)
                    if turn == 2:
                        await self.take_for_gone(last, next_one)
                        assert await last.sessions.find("s") == b"2"
            assert await last.sessions.take("s") == TakenSession(b"3", 4)
            assert await last.sessions.take("t") == TakenSession(b"t", 1)

    async def test_who_has_lost_a_session_changes_nothing_of_it(self) -> None:
        """A process that was taken for gone, and is not: it learns so when it keeps what was its own."""
        async with self._joined(2) as (one, other):
            for id in ("s", "t"):
                await one.sessions.keep(id, b"1")
            await self.take_for_gone(other, one)
            assert await other.sessions.take("s") == TakenSession(b"1", 1)
            assert await one.sessions.keep("s", b"2") is False
            await one.sessions.forget("s")
            await one.sessions.release("s")
            assert await one.sessions.take("s") == other.number
            assert await one.sessions.find("s") == b"1"
            assert await other.sessions.keep("s", b"3")
            assert await one.sessions.find("s") == b"3"

    async def test_one_of_several_takes_a_session_over(self) -> None:
        """All others learn who has it."""
        ids = [f"s{number}" for number in range(20)]
        async with self._joined(4) as stores:
            async with self._joined(1) as (one,):
                for id in ids:
                    await one.sessions.keep(id, id.encode())
            answers: dict[str, dict[int, object]] = {id: {} for id in ids}

            async def take(id: str, store: SharedStore) -> None:
                answers[id][store.number] = await store.sessions.take(id)

            async with trio.open_nursery() as nursery:
                for id in ids:
                    for store in stores:
                        nursery.start_soon(take, id, store)
            for id in ids:
                [winner] = [number for number, got in answers[id].items() if isinstance(got, TakenSession)]
                assert answers[id].pop(winner) == TakenSession(id.encode(), 1)
                assert list(answers[id].values()) == [winner] * 3

    async def test_a_process_takes_what_is_its_own(self) -> None:
        """It could not serve it, after it was its own: that counts like every other time."""
        async with self._joined(2) as (one, other):
            await one.sessions.keep("s", b"1")
            assert await one.sessions.take("s") == TakenSession(b"1", 1)
            assert await one.sessions.take("s") == TakenSession(b"1", 2)
            assert await other.sessions.take("s") == one.number
            assert await one.sessions.keep("s", b"2")

    async def test_what_is_released_is_taken_by_anybody(self) -> None:
        """While the process is there that had it; also by that one."""
        async with self._joined(3) as (one, other, third):
            await one.sessions.keep("s", b"1")
            await one.sessions.keep("t", b"1")
            for turn, store in enumerate((other, third, one, one, other), 1):
                await (one, other, third, one, one)[turn - 1].sessions.release("s")
                assert await store.sessions.find("s") == b"1"
                assert await store.sessions.take("s") == TakenSession(b"1", turn)
                assert await store.sessions.keep("s", b"1")
            assert await one.sessions.keep("s", b"2") is False
            assert await third.sessions.take("s") == other.number
            assert await other.sessions.take("t") == one.number
            await other.sessions.release("unknown")
            assert await other.sessions.find("unknown") is None

    # Events and tasks.

    async def test_events_stay_with_the_session(self) -> None:
        """Whoever has it; until they are forgotten."""
        async with self._joined(2) as (last, reader):
            async with self._joined(1) as (one,):
                await one.sessions.keep("s", b"1")
                await one.events.append("s", 1, [(1, b"a"), (2, b"b")])
                await one.events.append("t", 1, [(1, b"t")])
                assert list(await reader.events.read("s", 1, 0, 9)) == [(1, b"a"), (2, b"b")]
            assert list(await reader.events.read("s", 1, 1, 9)) == [(2, b"b")]
            assert isinstance(await last.sessions.take("s"), TakenSession)
            await last.events.append("s", 1, [(3, b"c")])
            await last.events.append("s", 2, [(1, b"other stream")])
            await last.sessions.forget("s")
            assert list(await reader.events.read("s", 1, 0, 9)) == [(1, b"a"), (2, b"b"), (3, b"c")]
            await last.events.forget("s")
            assert list(await reader.events.read("s", 1, 0, 9)) == []
            assert list(await reader.events.read("s", 2, 0, 9)) == []
            assert list(await reader.events.read("t", 1, 0, 9)) == [(1, b"t")]

    async def test_no_session_has_more_events_because_it_was_taken_over(self) -> None:
        """What others have kept of it counts: the oldest go first. Also when it comes back to who had it before."""
        most, first = self.session_events, 1

        async def numbers(store: SharedStore) -> list[int]:
            return [number for number, _ in await store.events.read("s", 1, 0, 2 * most)]

        async with self._joined(2) as (one, other):
            await one.sessions.keep("s", b"1")
            for turn, store in enumerate((one, other, one)):
                if turn == 1:
                    await self.take_for_gone(other, one)
                elif turn:
                    await other.sessions.release("s")
                if turn:
                    assert isinstance(await store.sessions.take("s"), TakenSession)
                for count in (most - 10, 7) if not turn else (7,):
                    await store.events.append("s", 1, [(first + each, b"") for each in range(count)])
                    first += count
            assert await numbers(other) == list(range(first - most, first))

    async def test_tasks_are_everybody_s(self) -> None:
        """They are tested more thoroughly by themselves: see `SharedTaskStoreTests`."""
        async with self._joined(2) as (one, other):
            kept = task("a")
            await one.tasks.add(kept)
            assert await other.tasks.find("a") == kept
            await other.tasks.send("a", {"cancel": True})
            assert [message.content for message in await one.tasks.receive()] == [{"cancel": True}]

    # How it is done.

    async def test_what_is_cancelled_is_done_or_not_done(self) -> None:
        """Never half of it; and the store goes on."""
        async with self._joined(2) as (one, other):
            for passes in range(4):
                async with self._joined(1) as (left,):
                    await left.sessions.keep("old", b"1")
                await _cancelled_after(passes, partial(one.sessions.keep, "new", b"new"))
                await _cancelled_after(passes, partial(one.sessions.take, "old"))
                assert await one.sessions.find("new") in (None, b"new")
                assert await one.sessions.keep("new", b"newer")
                taken = await one.sessions.take("old")
                assert taken in (TakenSession(b"1", 1), TakenSession(b"1", 2))
                assert await other.sessions.take("old") == one.number
                await _cancelled_after(passes, partial(one.sessions.release, "old"))
                await _cancelled_after(passes, partial(one.sessions.forget, "new"))
                assert await one.sessions.find("new") in (None, b"newer")
                assert isinstance(await one.sessions.take("old"), TakenSession)
                for id in ("old", "new"):
                    await one.sessions.forget(id)
                    assert await other.sessions.find(id) is None

    async def test_every_method_is_a_checkpoint(self) -> None:
        """Or a server that waits for nothing else would let nobody else run."""
        async with self._joined(1) as (store,):
            sessions = store.sessions
            calls: Mapping[str, Callable[[], Awaitable[object]]] = {
                "announce": partial(store.announce, "a"),
                "others": store.others,
                "address_of": partial(store.address_of, store.number),
                "gone": partial(store.gone, 1_000),
                "gone oneself": partial(store.gone, store.number),
                "keep": partial(sessions.keep, "s", b"1"),
                "find": partial(sessions.find, "s"),
                "take": partial(sessions.take, "s"),
                "release": partial(sessions.release, "s"),
                "forget": partial(sessions.forget, "s"),
                "find nothing": partial(sessions.find, "none"),
                "take nothing": partial(sessions.take, "none"),
            }
            for call in calls.values():
                with trio.testing.assert_checkpoints():
                    await call()

    @asynccontextmanager
    async def _joined(self, count: int) -> AsyncGenerator[Sequence[SharedStore]]:
        with trio.fail_after(self.seconds):
            async with AsyncExitStack() as stack:
                yield [await stack.enter_async_context(self.open_store()) for _ in range(count)]


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
