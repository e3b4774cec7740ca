"""Clients of both eras that call a server all the time while its processes die, and what became of each call.

Whatever is not as it should be is noted as a sentence in `Ledger.odd`: a call that hangs, an answer that is another
call's, an error without a reason.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, cast, final

import attrs
import trio
from store_group import StoreGroup

from trio_mcp import (
    Client,
    HttpStatusError,
    McpError,
    ProtocolError,
    RequestError,
    ResourceUpdated,
    Resynced,
    Revision,
    SessionLost,
    ToolsListChanged,
    open_client,
)

__all__ = ["DEADLINE", "Follower", "Ledger", "Load"]

DEADLINE: Final = 60.0
"""Seconds in which any call has an answer or an error. It may wait for a process that does not take it, for a store
that is away, and to be taken up again a few times, with pauses between."""

ACTS_OF_ONE: Final = 25
"""Calls of one client, before another one comes in its place."""

AT_ONCE: Final = 3
"""Calls that a client has open at once."""

PASSING: Final = frozenset({502, 503, 504})
"""The statuses by which nginx, or a process, says that it cannot serve a call now."""


class OddError(Exception):
    """Something that should never happen."""


def reason_of(error: BaseException) -> str:
    """Return why a call has failed, as short as can be counted.

    Raises:
        OddError: That is no reason that a call may fail for.
    """
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return " and ".join(sorted({reason_of(each) for each in group.exceptions}))
    if not isinstance(error, McpError) or isinstance(error, (ProtocolError, SessionLost)):
        raise OddError(f"{error!r:.300}") from error
    if not str(error):
        raise OddError(f"{error!r} says nothing") from error
    if isinstance(error, HttpStatusError):
        if error.status not in PASSING:
            raise OddError(f"{error!r:.300}") from error
        return f"HTTP {error.status}"
    return f"{error.code}: {error.message:.90}" if isinstance(error, RequestError) else type(error).__name__


@final
@attrs.define
class Ledger:
    """What became of all calls.

    Attributes:
        calls: How many there were, by what was called.
        answered: How many were answered, likewise.
        failed: How many failed, by the reason.
        given_up: How many were given up by their caller.
        changes: How many changes were heard of.
        longest: How many seconds it took at most until a call had ended, and which.
        odd: What should not have been.
        tokens: What was done with each token: the name of the tool.
    """

    calls: Counter[str] = attrs.field(factory=Counter[str])
    answered: Counter[str] = attrs.field(factory=Counter[str])
    failed: Counter[str] = attrs.field(factory=Counter[str])
    given_up: int = 0
    changes: int = 0
    longest: tuple[float, str] = (0.0, "")
    odd: list[str] = attrs.field(factory=list[str])
    tokens: dict[str, str] = attrs.field(factory=dict[str, str])

    def line(self) -> str:
        """Return the figures, in one line."""
        seconds, of = self.longest
        failed = ", ".join(f"{reason} {number}" for reason, number in self.failed.most_common())
        return (
            f"{self.calls.total()} calls, {self.answered.total()} answered, {self.given_up} given up, "
            f"{self.failed.total()} failed ({failed}), {self.changes} changes heard of, "
            f"longest wait {seconds:.1f} s ({of})"
        )

    async def attempt(self, name: str, call: Callable[[], Awaitable[object]]) -> None:
        """Do something that has to end in time, and count what became of it."""
        self.calls[name] += 1
        begun = trio.current_time()
        try:
            with trio.move_on_after(DEADLINE) as scope:
                await call()
                self.answered[name] += 1
            if scope.cancelled_caught:
                self.odd.append(f"{name} hangs for {DEADLINE} s")
        except OddError as error:
            self.odd.append(f"{name}: {error}")
        except Exception as error:
            self._fail(name, error)
        self.longest = max(self.longest, (trio.current_time() - begun, name))

    def _fail(self, name: str, error: Exception) -> None:
        try:
            self.failed[reason_of(error)] += 1
        except OddError as odd:
            self.odd.append(f"{name}: {odd}")


def _check(text: str, wanted: str) -> None:
    if text != wanted:
        raise OddError(f"{text[:100]!r} is not {wanted[:100]!r}")


@final
class Frames:
    """What a client has got over its wire: no request is answered twice."""

    def __init__(self, ledger: Ledger, whose: str) -> None:
        self._ledger = ledger
        self._whose = whose
        self._open = Counter[Any]()

    def note(self, direction: str, data: bytes) -> None:
        """Note a message."""
        message: dict[str, Any] = json.loads(data)  # one; only the oldest revision has lists of them
        id = message.get("id")
        if id is None:
            return
        if direction == "sent" and "method" in message:
            self._open[id] += 1
        elif direction == "received" and "method" not in message:
            self._open[id] -= 1
            if self._open[id] < 0:
                self._ledger.odd.append(f"{self._whose}: {id!r} is answered twice: {data[:200]!r}")


# What clients do.


async def echo(load: Load, client: Client, token: str) -> None:
    result = await client.call_tool("echo", {"text": token})
    _check(result.text, token)


async def echo_much(load: Load, client: Client, token: str) -> None:
    text = f"{token} " * 10_000
    result = await client.call_tool("echo", {"text": text})
    _check(result.text, text)


async def count(load: Load, client: Client, token: str) -> None:
    """Reports come in order, without a gap, and none twice; all of them, if there is an answer."""
    to, seen = load.chance.randrange(2, 40), list[float]()
    arguments = {"to": to, "pause": load.chance.choice([0, 0, 0.01, 0.1])}
    try:
        result = await client.call_tool(
            "count", arguments, on_progress=lambda report: seen.append(report.progress)
        )
        _check(result.text.split()[0], str(to))
        if len(seen) != to:
            raise OddError(f"of {to} reports there were {seen}")
    finally:
        if seen != list(range(1, len(seen) + 1)):
            load.ledger.odd.append(f"count has reported {seen}")


async def ask(load: Load, client: Client, token: str) -> None:
    load.ledger.tokens[token] = "ask"
    result = await client.call_tool("ask", {"token": token})
    _check(result.text.rpartition(" ")[0], f"{token} one? {token} two?")


async def ask_again(load: Load, client: Client, token: str) -> None:
    result = await client.call_tool("ask_again", {"token": token})
    _check(result.text.rpartition(" ")[0], f"{token} one?")


async def give_up(load: Load, client: Client, token: str) -> None:
    load.ledger.tokens[token] = "slow"
    with trio.move_on_after(load.chance.uniform(0.05, 1.5)):
        await client.call_tool("slow", {"token": token})
        raise OddError("what waits for ever has an answer")
    load.ledger.given_up += 1


async def touch(load: Load, client: Client, token: str) -> None:
    await client.call_tool("touch", {"thing": "busy"})
    await client.call_tool("touch_tools")


async def look_around(load: Load, client: Client, token: str) -> None:
    name = f"x{token}"
    read = await client.read_resource(f"thing://{name}")
    _check(str(read.text), name)
    if len([each async for each in client.list_tools()]) < 10:
        raise OddError("there are not all tools")


# Tasks, in the modern era.


async def work(load: Load, client: Client, token: str) -> None:
    load.ledger.tokens[token] = "work"
    async with client.start_task("work", {"token": token}) as task:
        result = await task.result()
    _check(result.text.split()[0], token)


async def work_again(load: Load, client: Client, token: str) -> None:
    async with client.start_task("work_again", {"token": token}) as task:
        result = await task.result()
    _check(result.text.split()[0], token)


async def ask_in_task(load: Load, client: Client, token: str) -> None:
    load.ledger.tokens[token] = "ask"
    result = await client.call_tool("ask_in_task", {"token": token})
    _check(result.text.rpartition(" ")[0], f"{token} one? {token} two?")


async def give_up_task(load: Load, client: Client, token: str) -> None:
    load.ledger.tokens[token] = "slow_task"
    async with client.start_task("slow_task", {"token": token}) as task:
        await trio.sleep(load.chance.uniform(0.05, 0.5))
        if task.id is None:
            raise OddError("what waits for ever has an answer")
    load.ledger.given_up += 1


Act = Callable[["Load", Client, str], Awaitable[None]]
ACTS: Final[Sequence[Act]] = (
    echo, echo, echo, echo_much, count, count, count, ask, ask, ask_again, give_up, give_up, touch, look_around,
)  # fmt: skip
OF_TASKS: Final[Sequence[Act]] = (work, work_again, ask_in_task, give_up_task)


@final
@attrs.define(eq=False)
class Follower:
    """A client that stays, and listens.

    Attributes:
        name: What it is called in `Ledger.odd`.
        is_modern: Of which era it is.
        heard: When it heard of each thing the last time: of all, when it was told that it may have missed some.
        updates: How often it heard of each thing itself.
        resynced: How often it was told that it may have missed some.
    """

    name: str
    is_modern: bool
    heard: dict[str, float] = attrs.field(factory=dict[str, float])
    updates: Counter[str] = attrs.field(factory=Counter[str])
    resynced: int = 0
    _changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    def take(self, change: object) -> None:
        """Note a change."""
        now = trio.current_time()
        if isinstance(change, Resynced):
            self.resynced += 1
            for name in ["tools", *self.heard]:
                self.heard[name] = now
        elif isinstance(change, ResourceUpdated):
            name = change.uri.removeprefix("thing://")
            self.heard[name] = now
            self.updates[name] += 1
        elif isinstance(change, ToolsListChanged):
            self.heard["tools"] = now
        self._changed.unpark_all()

    async def wait_heard(self, name: str, since: float) -> None:
        """Wait until it has heard of something since a time."""
        while self.heard.get(name, -1.0) < since:
            await self._changed.park()


@final
class Load:
    """The clients.

    Args:
        group: The server.
        seed: What happens.

    Attributes:
        ledger: What became of their calls.
        chance: Decides what they do.
        followers: Those that stay.
        misfortunes: What has befallen the server, and how often.
        is_over: Set when no more calls are to begin.
        may_leave: Set when those that stay may leave.
    """

    def __init__(self, group: StoreGroup, seed: str) -> None:
        self.group = group
        self.ledger = Ledger()
        self.chance = random.Random(seed)
        self.followers: list[Follower] = []
        self.misfortunes = Counter[str]()
        self.is_over = trio.Event()
        self.may_leave = trio.Event()
        self._number = 0

    def line(self) -> str:
        """Return the figures, in one line."""
        befallen = ", ".join(f"{number} times {what}" for what, number in sorted(self.misfortunes.items()))
        return f"{self.ledger.line()}; processes were {befallen or 'left in peace'}"

    def token(self, name: str) -> str:
        """Return a token that no other call has."""
        self._number += 1
        return f"{name}-{self._number}"

    def _open(self, revision: Revision, whose: str) -> Any:
        frames = Frames(self.ledger, whose)
        return open_client(
            self.group.parameters(),
            revision=revision,
            on_elicit=lambda asked: {"value": asked.message},
            on_frame=frames.note,
        )

    async def visit(self, revision: Revision) -> None:
        """Be one client after the other, each for some calls, several at once."""
        while not self.is_over.is_set():
            begun = trio.current_time()
            try:
                async with (
                    self._open(revision, f"a client of {revision}") as client,
                    trio.open_nursery() as nursery,
                ):
                    for _ in range(AT_ONCE):
                        nursery.start_soon(self._act, client, revision, ACTS_OF_ONE // AT_ONCE)
            except Exception as error:
                self.ledger.calls["open"] += 1
                self.ledger._fail("open", error)
                self.ledger.longest = max(self.ledger.longest, (trio.current_time() - begun, "open"))
                await trio.sleep(0.2)

    async def _act(self, client: Client, revision: Revision, times: int) -> None:
        acts = (*ACTS, *OF_TASKS) if revision.is_modern else ACTS
        for _ in range(times):
            if self.is_over.is_set():
                return
            act = self.chance.choice(acts)
            token = self.token(act.__name__)
            await self.ledger.attempt(f"{act.__name__} {revision}", partial(act, self, client, token))

    async def watch(
        self, revision: Revision, names: Sequence[str], *, task_status: trio.TaskStatus[Follower]
    ) -> None:
        """Be a client that stays, listens to things and to the list of tools, and calls now and then."""
        follower = Follower(f"a follower of {revision}", revision.is_modern)
        things = [f"thing://{name}" for name in names]
        async with (
            self._open(revision, follower.name) as client,
            client.listen(resources=things, tools_list_changed=True) as changes,
            trio.open_nursery() as nursery,
        ):
            self.followers.append(follower)
            follower.heard |= dict.fromkeys(names, -1.0)
            nursery.start_soon(self._listen, changes, follower)
            nursery.start_soon(self._call_now_and_then, client, revision)
            task_status.started(follower)
            await self.may_leave.wait()
            nursery.cancel_scope.cancel()

    async def _listen(self, changes: Any, follower: Follower) -> None:
        try:
            async for change in changes:
                self.ledger.changes += 1
                follower.take(change)
        except McpError as error:
            self.ledger.odd.append(f"{follower.name} hears nothing any more: {error!r:.300}")

    async def _call_now_and_then(self, client: Client, revision: Revision) -> None:
        while not self.is_over.is_set():
            await self.ledger.attempt(f"echo {revision}", partial(echo, self, client, self.token("echo")))
            await trio.sleep(self.chance.uniform(0, 0.5))
