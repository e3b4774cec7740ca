"""Plays a program, and records what happens."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, assert_never, cast

import attrs
import trio
import trio.testing

from trio_mcp import (
    Channel,
    Client,
    Incoming,
    Limits,
    MemoryChannel,
    Notification,
    Outgoing,
    Progress,
    Received,
    RequestError,
    RequestId,
    Shutdown,
    StdioServerParameters,
    Target,
    fail_after_silence,
    memory_channel_pair,
    open_client,
    serve_http,
    types,
)

from .plan import (
    MODERN,
    OLD,
    Ask,
    Call,
    ClientPlan,
    Group,
    Limit,
    Listen,
    Node,
    Pause,
    Ping,
    Program,
    Touch,
    asks_of,
    calls_of,
    to_json,
)
from .proxy import serve_proxy
from .record import End, Record, read_event
from .scripted import GOODBYE, make_server

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent

ENDS: Final[tuple[End, End]] = ("client", "server")

BACKSTOP: Final = 300.0
REAL_BACKSTOP: Final = 40.0
CLOSING: Final = 5.0  # seconds that a client's connections have to end when it was left


class BoomError(Exception):
    """What a task of a program raises on purpose."""


# ---- a wire in memory ----


@attrs.define(eq=False)
class Wire(Channel):
    """One end of a connection in memory that is written down, and whose reader looks away."""

    inner: MemoryChannel
    record: Record
    client: int
    end: End
    away: Sequence[tuple[float, float]]
    one_by_one: bool
    closed: trio.Event = attrs.field(factory=trio.Event)
    kept: deque[Received] = attrs.field(factory=deque[Received])

    @property
    def description(self) -> str:
        return self.inner.description

    async def receive(self) -> Sequence[Received]:
        while True:
            now = trio.current_time()
            for begin, end in self.away:
                if begin <= now < end and not self.closed.is_set():
                    with trio.move_on_at(end):
                        await self.closed.wait()
            if self.kept:
                return [self._received(self.kept.popleft())]
            now = trio.current_time()
            coming = min((begin for begin, _ in self.away if begin > now), default=math.inf)
            with trio.move_on_at(coming):
                received = await self.inner.receive()
                if self.one_by_one and len(received) > 1:
                    self.kept.extend(received)
                    continue
                return [self._received(message) for message in received]

    def _received(self, message: Received) -> Received:
        assert isinstance(message, Incoming)
        self.record.frame(self.client, self.end, "in", message.data)
        return message

    async def send(self, messages: Sequence[Outgoing]) -> None:
        self._sent(messages)
        await self.inner.send(messages)

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        taken = self.inner.send_nowait(messages)
        self._sent(messages)
        return taken

    def _sent(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            self.record.frame(self.client, self.end, "out", message.data)

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        return self.inner.give_up(request_id, reason)

    async def aclose(self) -> None:
        self.closed.set()
        await self.inner.aclose()


# ---- the client's side ----


@attrs.frozen
class Fence:
    """What may give up a call.

    Attributes:
        deadline: The first hard deadline around it.
        scopes: The names of scopes around it that something may cancel.
        silence: Whether silence may end it.
    """

    deadline: float = math.inf
    scopes: tuple[str, ...] = ()
    silence: bool = False


@attrs.define(eq=False)
class Player:
    """Does what one client of a program does."""

    number: int
    plan: ClientPlan
    program: Program
    record: Record
    asks: dict[str, Ask]
    client: Client | None = None
    scopes: int = 0
    is_over: bool = False

    def add(self, kind: str, token: str = "", **data: Any) -> None:
        self.record.add(kind, self.number, token, **data)

    @property
    def scale(self) -> float:
        return 1.0 if self.program.transport == "memory" else 0.06

    # -- what its tasks do --

    async def do(self, node: Node, fence: Fence) -> None:
        if self.is_over:
            return
        match node:
            case Call():
                await self.call(node, fence)
            case Group():
                await self.group(node, fence)
            case Pause():
                await trio.sleep(node.seconds)
            case Listen():
                await self.listen(node)
            case Touch():
                await self.plainly("touch", "", self.open_client.call_tool("touch", {"uri": node.uri}))
            case Ping():
                await self.plainly("ping", node.token, self.open_client.ping())
            case _:
                assert_never(node)

    @property
    def open_client(self) -> Client:
        assert self.client is not None
        return self.client

    async def plainly(self, kind: str, token: str, call: Any) -> None:
        self.add(f"{kind}-began", token)
        how = "return"
        try:
            await call
        except Exception as error:
            how = type(error).__name__
        except trio.Cancelled:
            how = "cancelled"
            raise
        finally:
            self.add(f"{kind}-ended", token, how=how)

    async def listen(self, node: Listen) -> None:
        self.add("listen-began", node.token)
        how = "return"
        try:
            with trio.move_on_after(node.seconds):
                async with self.open_client.listen(resources=[node.uri]) as events:
                    self.add("listening", node.token)
                    async for event in events:
                        self.add("change", node.token, event=repr(event))
        except Exception as error:
            how = f"{type(error).__name__}: {error}"
        except trio.Cancelled:
            how = "cancelled"
            raise
        finally:
            self.add("listen-ended", node.token, how=how)

    @asynccontextmanager
    async def limited(self, limit: Limit | None, fence: Fence) -> AsyncGenerator[Fence]:
        now = trio.current_time()
        if limit is None:
            yield fence
            return
        hard = attrs.evolve(fence, deadline=min(fence.deadline, now + limit.seconds))
        try:
            match limit.kind:
                case "move-on":
                    with trio.move_on_after(limit.seconds):  # noqa: ASYNC100
                        yield hard
                case "fail":
                    with trio.fail_after(limit.seconds):  # noqa: ASYNC100
                        yield hard
                case "silence":
                    most = min(fence.deadline, now + limit.at_most)
                    with fail_after_silence(limit.seconds, at_most=limit.at_most):
                        yield attrs.evolve(fence, deadline=most, silence=True)
                case "cancel":
                    async with trio.open_nursery() as nursery:
                        self.scopes += 1
                        name = f"scope {self.scopes}"
                        nursery.start_soon(self.cancel_after, name, limit.seconds, nursery.cancel_scope)
                        yield attrs.evolve(fence, scopes=(*fence.scopes, name))
                        nursery.cancel_scope.cancel()
        except trio.TooSlowError:
            pass

    async def cancel_after(self, name: str, seconds: float, scope: trio.CancelScope) -> None:
        await trio.sleep(seconds)
        self.add("cancel", scope=name)
        scope.cancel()

    async def group(self, group: Group, fence: Fence) -> None:
        async with self.limited(group.limit, fence) as inner:
            if not group.together and group.boom is None:
                for child in group.children:
                    await self.do(child, inner)
                return
            self.scopes += 1
            name = f"scope {self.scopes}"
            inner = attrs.evolve(inner, scopes=(*inner.scopes, name))
            try:
                async with trio.open_nursery() as nursery:
                    if group.boom is not None:
                        nursery.start_soon(self.boom, name, group.boom)
                    async with trio.open_nursery() as others:
                        for child in group.children:
                            others.start_soon(self.do, child, inner)
                    nursery.cancel_scope.cancel()
            except* BoomError:
                pass

    async def boom(self, name: str, seconds: float) -> None:
        await trio.sleep(seconds)
        self.add("cancel", scope=name)
        raise BoomError

    async def call(self, call: Call, fence: Fence) -> None:
        async with self.limited(call.limit, fence) as inner:
            now = trio.current_time()
            self.add(
                "call-began",
                call.token,
                left=inner.deadline - now,
                scopes=inner.scopes,
                silence=inner.silence,
            )
            on_progress = {"none": None, "fast": partial(self.fast, call), "slow": partial(self.slow, call)}[
                call.progress
            ]
            arguments = {"token": call.token, "steps": to_json(call.script)}
            try:
                result = await self.open_client.call_tool(
                    "plain" if call.plain else "script", arguments, on_progress=on_progress
                )
            except trio.Cancelled:
                self.add("call-ended", call.token, how="cancelled")
                raise
            except Exception as error:
                self.add("call-ended", call.token, how=type(error).__name__, text=str(error)[:200])
            except BaseException as error:
                self.add("call-ended", call.token, how=f"BASE {type(error).__name__}", text=str(error)[:200])
                raise
            else:
                self.add("call-ended", call.token, how="result", text=result.text, is_error=result.is_error)

    def fast(self, call: Call, progress: Progress) -> None:
        self.add("progress", call.token, n=progress.progress)

    async def slow(self, call: Call, progress: Progress) -> None:
        self.add("progress", call.token, n=progress.progress)
        await trio.sleep(0.15 * self.scale)

    # -- what it is asked --

    async def answer(self, token: str) -> str:
        ask = self.asks[token]
        self.add("question-began", token)
        how = "cancelled"
        try:
            await trio.sleep(ask.seconds)
            if ask.call is not None:
                # In the legacy era a question has a deadline of its own; in the modern era it is a part of the call.
                is_modern = self.plan.revision == MODERN
                await self.call(ask.call, Fence(math.inf if is_modern else trio.current_effective_deadline()))
            how = ask.end
            if ask.end == "raise":
                raise LookupError(f"secret of {token}")
            if ask.end == "decline":
                return "decline"
        finally:
            self.add("question-ended", token, how=how)
        return f"answer of {token}"

    async def on_elicit(self, params: types.ElicitRequestParams) -> Any:
        answer = await self.answer(params.message)
        return answer if answer == "decline" else {"value": answer}

    async def on_sample(self, params: types.CreateMessageRequestParams) -> str:
        content: Any = params.messages[0].content
        block = cast("Sequence[Any]", content)[0] if isinstance(content, (list, tuple)) else content
        answer = await self.answer(block.text)
        if answer == "decline":
            raise RequestError(-1, "no")
        return answer

    def on_log(self, message: types.LoggingMessageNotificationParams) -> None:
        data: Any = message.data
        if isinstance(data, dict) and "token" in data:
            said = cast("dict[str, Any]", data)
            self.add("log", said["token"], n=said["n"])

    # -- its life --

    def on_frame(self, direction: str, data: bytes) -> None:
        if self.program.transport == "memory":  # where the wire itself is seen
            way = "out" if direction == "sent" else "in"
            self.add("on-frame", way=way, data=data.decode())
        else:
            self.record.frame(self.number, "client", "out" if direction == "sent" else "in", data)

    async def phases(  # noqa: ASYNC114
        self, last: trio.Event, done: trio.Event, *, task_status: trio.TaskStatus[trio.CancelScope]
    ) -> None:
        with trio.CancelScope() as scope:
            task_status.started(scope)
            try:
                if self.plan.logs:
                    await self.plainly("log-level", "", self.open_client.set_log_level("info"))
                for phase in self.plan.phases:
                    if phase is self.plan.phases[-1]:
                        last.set()
                    self.add("phase")
                    await self.group(phase, Fence(scopes=("tree",)))
            finally:
                last.set()
                done.set()

    async def live(self, target: Target) -> None:
        """Open the client, let its tasks do what they do, leave."""
        options: dict[str, Any] = {"on_elicit": self.on_elicit} if self.plan.revision != OLD else {}
        if self.plan.request_timeout:
            options["request_timeout"] = self.plan.request_timeout
        boom = BoomError("of the block")
        backstop = BACKSTOP if self.record.is_exact else REAL_BACKSTOP
        last, done = trio.Event(), trio.Event()
        tree: trio.CancelScope | None = None
        async with trio.open_nursery() as outer:
            self.add("opening")
            how = "itself"
            try:
                with trio.CancelScope() as whole:
                    async with open_client(
                        target,
                        revision=self.plan.revision,
                        limits=Limits(goodbye_timeout=GOODBYE),
                        on_sample=self.on_sample,
                        on_log=self.on_log,
                        roots=lambda: [f"file:///root-{self.number}"],
                        on_frame=self.on_frame,
                        **options,
                    ) as client:
                        self.client = client
                        self.add("opened")
                        tree = await outer.start(self.phases, last, done)
                        with trio.move_on_after(backstop) as waited:
                            await last.wait()
                            with trio.move_on_after(self.plan.leave_at or math.inf):
                                await done.wait()
                        if waited.cancelled_caught:
                            self.add("backstop")
                        self.is_over = True
                        self.add("leaving", how=self.plan.leave)
                        match self.plan.leave:
                            case "raise":
                                raise boom
                            case "cancel":
                                whole.cancel()
                                await trio.lowlevel.checkpoint()
                            case "aclose":
                                await client.aclose()
                            case _:
                                pass
            except BaseException as error:  # noqa: ASYNC103
                if error is not boom:
                    how = f"{type(error).__name__}: {error}"
                    if isinstance(error, trio.Cancelled):
                        raise
            finally:
                self.add("left", how=how)
            if self.client is not None:
                left = self.client.statistics()
                self.add(
                    "statistics", calls=left.calls, exchanges=left.exchanges, dropped=left.dropped_notifications
                )
            if tree is not None:
                tree.cancel()


def asks_by_token(program: Program) -> dict[str, Ask]:
    return {ask.token: ask for call in calls_of(program) for ask in asks_of(call.script)}


def players(program: Program, record: Record) -> list[Player]:
    asks = asks_by_token(program)
    return [Player(number, plan, program, record, asks) for number, plan in enumerate(program.clients)]


def runs_for_thread(task: trio.lowlevel.Task) -> bool:
    """Whether a task belongs to a function of a plain tool's that its thread runs in the event loop."""
    while True:
        if task.name.endswith("run_for_thread"):
            return True
        if task.parent_nursery is None:
            return False
        task = task.parent_nursery.parent_task


class Tasks(trio.abc.Instrument):
    """Counts the tasks that are alive."""

    def __init__(self) -> None:
        self.alive: set[trio.lowlevel.Task] = set()

    def names(self) -> list[str]:
        """Return what tasks are left, but for what threads that were left behind do in the event loop by themselves."""
        return sorted(task.name for task in self.alive if not runs_for_thread(task))

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.alive.add(task)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self.alive.discard(task)


# ---- over memory ----


async def over_memory(program: Program, record: Record) -> None:
    """Play a program over memory, on a mock clock."""
    tasks = Tasks()
    trio.lowlevel.add_instrument(tasks)
    server = make_server(record, program.max_inbound)
    begin = trio.current_time()

    async def serve(number: int, wire: Wire) -> None:
        shutdown = Shutdown()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                if program.ends_at:
                    nursery.start_soon(end, number, scope, shutdown)
                try:
                    await server.serve_channel(wire, shutdown=shutdown)
                except Exception as error:
                    record.add("server-failed", number, how=repr(error))
                nursery.cancel_scope.cancel()
        record.add("server-ended", number)

    async def end(number: int, scope: trio.CancelScope, shutdown: Shutdown) -> None:
        await trio.sleep_until(begin + program.ends_at)
        record.add("server-ending", number, how=program.end)
        {"abort": shutdown.abort, "drain": shutdown.drain, "cancel": scope.cancel}[program.end]()

    async def live(player: Player) -> None:
        if player.plan.opens_at:
            await trio.sleep(player.plan.opens_at)
        now = trio.current_time()
        ends = memory_channel_pair()
        wires = [
            Wire(
                inner,
                record,
                player.number,
                where,
                [
                    (now + away.at, now + away.at + away.seconds)
                    for away in player.plan.looks_away
                    if away.end == where
                ],
                one_by_one=not player.plan.batches,
            )
            for inner, where in zip(ends, ENDS, strict=True)
        ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, player.number, wires[1])
            await player.live(wires[0])

    async with trio.open_nursery() as nursery:
        for player in players(program, record):
            nursery.start_soon(live, player)
    record.add("over", tasks=tasks.names())
    trio.lowlevel.remove_instrument(tasks)


def play_memory(program: Program) -> Record:
    """Play a program over memory, in a run of its own."""
    threads = any(call.plain for call in calls_of(program))
    clock = trio.testing.MockClock(autojump_threshold=0.03 if threads else 0)
    record = Record(clock.current_time, is_exact=True)
    trio._core._run._r.seed(program.seed)
    trio.run(over_memory, program, record, clock=clock)
    return record


# ---- over stdio ----


async def over_stdio(program: Program, record: Record, folder: Path) -> None:
    """Play a program over stdio, with a process of its own for each client."""
    for player in players(program, record):
        name = f"{program.seed}.{player.number}"
        seen, log = folder / f"{name}.events", folder / f"{name}.bytes"
        pauses = [[w.end, 0.7 + w.at * 5, w.seconds] for w in player.plan.looks_away]
        target = StdioServerParameters(
            sys.executable,
            ["-I", "-S", str(HERE / "relay.py"), str(log), json.dumps(pauses), sys.executable, "-m", "tests.programs.scripted", str(player.number), str(program.max_inbound), str(seen)],
            cwd=ROOT,
            stderr=folder / f"{name}.stderr",
        )  # fmt: skip
        await player.live(target)
        record.events += [read_event(line) for line in seen.read_bytes().splitlines()]
        record.events.sort(key=lambda event: event.t)
        for line in log.read_bytes().splitlines():
            at, way, data = json.loads(line)
            record.add("bytes", player.number, at=at, way=way, data=data)
    record.add("over", tasks=[])


# ---- over HTTP ----


async def over_http(program: Program, record: Record) -> None:
    """Play a program over HTTP on loopback, with a proxy for each client."""
    begin = trio.current_time()
    server = make_server(record, program.max_inbound)
    shutdown = Shutdown()
    host: Any = program.transport
    scope = trio.CancelScope()

    async def serve(task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
        with scope:
            await serve_http(server, port=0, http=host, shutdown=shutdown, task_status=task_status)
        record.add("server-ended", -1)

    async def end() -> None:
        await trio.sleep_until(begin + program.ends_at)
        record.add("server-ending", -1, how=program.end)
        {"abort": shutdown.abort, "drain": shutdown.drain, "cancel": scope.cancel}[program.end]()

    async def live(player: Player, port: int) -> None:
        await trio.sleep(player.plan.opens_at)
        async with trio.open_nursery() as proxies:
            proxy = await proxies.start(partial(serve_proxy, record, player.number, port, player.plan.looks_away))
            await player.live(f"http://127.0.0.1:{proxy.port}/mcp")
            with trio.move_on_after(CLOSING):
                await proxy.wait_idle()
            proxies.cancel_scope.cancel()

    async with trio.open_nursery() as servers:
        (url,) = await servers.start(serve)
        port = int(url.split(":")[2].split("/")[0])
        if program.ends_at:
            servers.start_soon(end)
        async with trio.open_nursery() as nursery:
            for player in players(program, record):
                nursery.start_soon(live, player, port)
        scope.cancel()
        servers.cancel_scope.cancel()
    record.add("over", tasks=[])


async def feel_pulse(record: Record) -> None:
    """Record how late this busy machine lets tasks run, so that nobody else is blamed for it."""
    while True:
        begin = time.monotonic()
        await trio.sleep(0.05)
        late = time.monotonic() - begin - 0.05
        if late > 0.02:
            record.add("late", seconds=late)


async def _play_real(programs: Iterable[Program], records: list[Record], together: int) -> None:
    tasks = Tasks()
    trio.lowlevel.add_instrument(tasks)
    places = trio.Semaphore(together)

    async def play(program: Program, record: Record, folder: Path) -> None:
        async def watch(scope: trio.CancelScope) -> None:
            await trio.sleep(REAL_BACKSTOP * 2)
            record.add("backstop")
            scope.cancel()

        async with places, trio.open_nursery() as nursery:
            nursery.start_soon(feel_pulse, record)
            nursery.start_soon(watch, nursery.cancel_scope)  # no deadline: that would be told
            if program.transport == "stdio":
                await over_stdio(program, record, folder)
            else:
                await over_http(program, record)
            nursery.cancel_scope.cancel()

    with tempfile.TemporaryDirectory(prefix="programs") as folder:
        async with trio.open_nursery() as nursery:
            for program in programs:
                records.append(Record(time.monotonic))
                nursery.start_soon(play, program, records[-1], Path(folder))
    with trio.move_on_after(1):
        while tasks.names():
            await trio.sleep(0.02)
    for record in records:
        record.add("tasks", names=tasks.names())
    trio.lowlevel.remove_instrument(tasks)


def descriptors() -> set[str]:
    """Return what this process has open."""
    found: set[str] = set()
    for path in Path("/proc/self/fd").iterdir():
        with ExitStack() as stack:
            stack.callback(lambda: None)
            try:
                found.add(f"{path.name} {path.readlink()}")
            except OSError:
                continue
    return found


def children() -> set[str]:
    """Return this process's child processes."""
    return set(Path(f"/proc/self/task/{__import__('os').getpid()}/children").read_text().split())


def play_real(programs: Sequence[Program], together: int = 8) -> list[Record]:
    """Play programs over stdio and HTTP, several at a time."""
    before = descriptors(), children()
    records: list[Record] = []
    trio.run(_play_real, programs, records, together)
    for record in records:
        record.add(
            "process", descriptors=sorted(descriptors() - before[0]), children=sorted(children() - before[1])
        )
    return records


def play(program: Program) -> Record:
    """Play one program."""
    return play_memory(program) if program.transport == "memory" else play_real([program])[0]
