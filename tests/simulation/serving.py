"""The server of all programs: handlers that do what their scripts say, and note what happens to them."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Final, cast

import attrs
import trio
import trio.lowlevel

from trio_mcp import (
    CallNext,
    CapabilityMissing,
    Context,
    Depends,
    Limits,
    Message,
    NotificationContext,
    RequestError,
    Server,
    ToolError,
)

from .program import LIMITS, Ask, Do, Program, Step, dos_of, parts_of
from .record import Log

WHOSE: Final[ContextVar[str]] = ContextVar("WHOSE", default="nobody's")
THROUGH: Final[ContextVar[int]] = ContextVar("THROUGH", default=0)
"""How many layers of middleware a request has come through: one that is set for each request alone."""

MOST_LAYERS: Final = 2
"""Layers of middleware that a server may have."""

GOODBYE: Final = 2.0
DRAIN: Final = 3.0
SLOW: Final = 0.15
"""Seconds that a slow callback takes."""

NOTE: Final = "simulation/note"
"""A notification of our own, in either direction."""

ANNOUNCED: Final = "simulation/announced"
"""Another one, of the server to all sessions."""


@attrs.define(eq=False)
class World:
    """What the handlers of one program share.

    Attributes:
        program: What is played.
        log: Where they write.
        dos: What clients do, by token.
        asks: The questions, by token.
        threads: The calls whose threads run by themselves: meanwhile the clock stands still.
        begun: The calls whose threads have begun.
        announced: How much was announced.
    """

    program: Program
    log: Log
    dos: dict[str, Do] = attrs.field(factory=dict[str, Do])
    asks: dict[str, Ask] = attrs.field(factory=dict[str, Ask])
    server: Server[Any] | None = None
    threads: set[str] = attrs.field(factory=set[str])
    begun: set[str] = attrs.field(factory=set[str])
    announced: int = 0

    async def tell(self, what: str, count: int) -> None:
        """Tell of a change so often, or announce something."""
        assert self.server is not None
        for _ in range(count):
            if what == "announce":
                self.announced += 1
                self.log.add("announcing", n=self.announced)
                self.server.notify(ANNOUNCED, {"n": self.announced})
                continue
            self.log.add("changing", what=what)
            if "://" in what:
                await self.server.resource_updated(what)
            else:
                self.server.list_changed(cast("Any", what))

    async def tell_changes(self) -> None:
        """Tell of the changes that happen at the server by themselves."""
        begin = trio.current_time()
        for change in sorted(self.program.changes, key=lambda change: change.at):
            await trio.sleep_until(begin + change.at)
            await self.tell(change.what, change.count)

    def __attrs_post_init__(self) -> None:
        self.dos = {do.token: do for do in dos_of(self.program)}
        self.asks = {part.token: part for part in parts_of(self.program) if isinstance(part, Ask)}


_worlds: list[World] = []
"""The worlds that are played: one, or, by a real clock, several."""


def world_of(token: str) -> World:
    """Return the world to which a call belongs."""
    return next((world for world in _worlds if token in world.dos), _worlds[-1])


@contextmanager
def playing(world: World) -> Generator[None]:
    """Let handlers belong to a world."""
    _worlds.append(world)
    try:
        yield
    finally:
        _worlds.remove(world)


def now() -> float:
    """Return Trio's time, also in a thread."""
    try:
        return trio.current_time()
    except RuntimeError:
        return trio.from_thread.run_sync(trio.current_time)


@attrs.define(eq=False)
class Running:
    """A script that runs.

    Attributes:
        ctx: Its request.
        world: Whose.
        token: Its call.
        answers: What it was answered.
        progress: How often it has reported.
        logs: How often it has logged or notified.
        pad: How many bytes the result is longer.
    """

    ctx: Context
    world: World
    token: str
    answers: list[str] = attrs.field(factory=list[str])
    progress: int = 0
    logs: int = 0
    pad: int = 0
    was_cancelled: bool = False

    def add(self, ev: str, **data: Any) -> None:
        self.world.log.add(ev, token=self.token, **data)

    async def run(self, script: Sequence[Step]) -> None:
        for step in script:
            try:
                await self.do(step)
            except trio.Cancelled:
                if not self.was_cancelled:
                    self.was_cancelled = True
                    self.add("handler-cancelled")
                raise

    async def run_for_thread(self, step: Step) -> None:
        """Run a step for a thread; by its name its task is known."""
        self.world.threads.discard(self.token)
        try:
            await self.run([step])
        finally:
            self.world.threads.add(self.token)

    async def in_background(self, body: Sequence[Step]) -> None:
        self.add("background-began")
        try:
            for step in body:
                await trio.sleep(step.seconds)
        finally:
            self.add("background-ended")

    async def do(self, step: Step) -> None:
        match step.kind:
            case "sleep":
                await trio.sleep(step.seconds)
            case "progress":
                for _ in range(step.count):
                    self.progress += 1
                    self.add("reporting", n=self.progress)
                    await self.ctx.report_progress(self.progress)
            case "log":
                for _ in range(step.count):
                    self.logs += 1
                    await self.ctx.info({"token": self.token, "n": self.logs})
            case "notify":
                for _ in range(step.count):
                    self.logs += 1
                    await self.ctx.notify(NOTE, {"token": self.token, "n": self.logs})
            case "ask":
                await self.ask(step)
            case "try":
                try:
                    await self.run(step.body)
                finally:
                    await self.run(step.cleanup)  # noqa: ASYNC102
            case "shield":
                self.add("shield-began")
                try:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(step.seconds)
                        await self.run(step.body)
                finally:
                    self.add("shield-ended")
            case "together":
                async with trio.open_nursery() as nursery:
                    for inner in step.body:
                        nursery.start_soon(self.run, [inner])
            case "background":
                self.ctx.start_soon(self.in_background, step.body)
            case "var":
                WHOSE.set(self.token)
            case "leak":
                self.add("leaking")
                trio.CancelScope(deadline=trio.current_time() + step.seconds).__enter__()
            case "change" | "announce":
                await self.world.tell(step.what if step.kind == "change" else "announce", step.count)
            case "pad":
                self.pad += step.count
            case "tool-error":
                raise ToolError(f"tool error of {self.token}")
            case "error":
                raise RequestError(-32050, f"error of {self.token}")
            case "bug":
                raise LookupError(f"secret of {self.token}")
            case "exit":
                raise SystemExit(f"secret of {self.token}")

    async def ask(self, step: Step) -> None:
        assert step.ask is not None
        asked = step.ask
        self.add("asking", ask=asked.token)
        answer = ""
        try:
            match asked.kind:
                case "elicit":
                    filled = await self.ctx.elicit(asked.token, str)
                    answer = filled.value if filled else "declined"
                case "sample":
                    answer = (await self.ctx.sample(asked.token, max_tokens=10)).text
                case "roots":
                    answer = ",".join(str(root.uri) for root in await self.ctx.list_roots())
        except (RequestError, CapabilityMissing) as error:
            answer = f"failed {type(error).__name__}"
            self.add("asking-failed", ask=asked.token, how=type(error).__name__, text=str(error)[:120])
        except trio.Cancelled:
            self.add("asking-cancelled", ask=asked.token)
            raise
        except BaseException as error:
            self.add("asking-failed", ask=asked.token, how=type(error).__name__, text=str(error)[:120])
            raise
        self.add("answered", ask=asked.token, answer=answer)
        self.answers.append(answer)


@contextmanager
def noted(running: Running) -> Generator[None]:
    """Note when a handler begins, and how it ends."""
    ctx = running.ctx
    left = ctx.deadline - now()
    running.add(
        "handler-began",
        id=ctx.request_id,
        left=None if left == float("inf") else left,
        whose=WHOSE.get(),
        through=THROUGH.get(),
    )
    try:
        yield
    except BaseException as error:
        running.add("handler-ended", how=type(error).__name__)
        raise
    running.add("handler-ended", how="return")


async def run_script(token: str, ctx: Context[Any]) -> str:
    """Do what the script of a call says."""
    world = world_of(token)
    running = Running(ctx, world, token)
    with noted(running):
        await running.run(world.dos[token].script)
    return result_of(running)


def result_of(running: Running) -> str:
    """Return what a call of a script returns; it begins with its token."""
    return f"{running.token}|{'|'.join(running.answers)}{'x' * running.pad}"


async def count_layers(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
    """Let a message through, and see that a context variable goes with the request alone."""
    if message.direction == "received" and not message.is_notification:
        THROUGH.set(THROUGH.get() + 1)
    if message.method == "tools/call":
        await trio.lowlevel.checkpoint()
        if message.params is not None and message.params.get("name") == "plain":
            return await with_thread(message, call_next)
    return await call_next(message)


async def with_thread(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
    """Let the clock stand still until the thread of a call waits for the event loop, or has ended."""
    token = cast("Any", message.params)["arguments"]["token"]
    world = world_of(token)
    if token not in world.begun:  # otherwise it is asked again, and its thread waits for that
        world.threads.add(token)
    try:
        return await call_next(message)
    finally:
        if token not in world.begun:
            world.threads.discard(token)


async def open_dependency(ctx: Context[Any]) -> AsyncGenerator[str]:  # noqa: ASYNC900 - the server closes it
    """Open something for a call, and close it behind."""
    world = _worlds[-1]
    id = ctx.request_id  # it is another one when the handler has been asked again
    world.log.add("dependency-opened", id=id)
    try:
        await trio.lowlevel.checkpoint()
        yield "given"
    finally:
        world.log.add("dependency-closed", id=id)


def limits_of(program: Program) -> Limits:
    """Return the limits of both ends."""
    return Limits(drain_timeout=DRAIN, goodbye_timeout=GOODBYE, **LIMITS[program.limits])


@functools.cache
def server_with(limits: str, *, layers: int) -> Server[Any]:
    """Return a server with such limits; there is one for all programs that are played one after another."""
    return make_server(limits, layers)


def make_server(limits: str, layers: int) -> Server[Any]:
    """Make a server with such limits."""
    server: Server[Any] = Server(
        "simulation",
        limits=Limits(drain_timeout=DRAIN, goodbye_timeout=GOODBYE, **LIMITS[limits]),
        middleware=[count_layers] * layers,
    )

    @server.tool
    async def script(token: str, ctx: Context, pad: str = "") -> str:
        return await run_script(token, ctx)

    @server.tool
    async def given(token: str, ctx: Context, it: Annotated[str, Depends(open_dependency)]) -> str:
        assert it == "given"
        return await run_script(token, ctx)

    @server.tool
    def plain(token: str, ctx: Context) -> str:
        world = world_of(token)
        world.begun.add(token)
        running = Running(ctx, world, token)
        try:
            with noted(running):
                for step in world.dos[token].script:
                    trio.from_thread.run(running.run_for_thread, step)
        finally:
            world.threads.discard(token)
        return result_of(running)

    @server.prompt
    async def prompted(token: str, ctx: Context) -> str:
        return await run_script(token, ctx)

    @server.resource("script://{token}")
    async def scripted(token: str, ctx: Context) -> str:
        return await run_script(token, ctx)

    @server.resource("x://{name}")
    async def thing(name: str) -> str:
        return name

    @server.notification_handler(NOTE)
    async def note(params: Mapping[str, Any], ctx: NotificationContext[Any]) -> None:
        log = world_of(params["token"]).log
        log.add("noted", token=params["token"], n=params["n"])
        await trio.lowlevel.checkpoint()
        log.add("noted-ended", token=params["token"], n=params["n"])

    return server


def layers_of(program: Program) -> int:
    """Return how many layers of middleware the server has; what has threads needs one."""
    return max(program.seed % (MOST_LAYERS + 1), int(has_threads(program)))


def has_threads(program: Program) -> bool:
    """Whether handlers run in threads."""
    return any(do.kind == "plain" for do in dos_of(program))


def begin_of(program: Program) -> dict[str, Any]:
    """Return what a log of a program begins with: what the checker has to know."""
    limits = attrs.asdict(limits_of(program))
    return {
        "wire": program.wire,
        "is_http": program.is_http,
        "limits": {name: None if value == math.inf else value for name, value in limits.items()},
        "small": sorted(LIMITS[program.limits]),
        "layers": layers_of(program),
        "threads": has_threads(program),
        "revisions": [client.revision for client in program.clients],
        "watches": [list(client.watches) for client in program.clients],
    }


def be_quiet() -> None:
    """Let the package log nothing: handlers of programs fail on purpose."""
    for name in ("trio_mcp", "hypercorn"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def is_of_trio(task: trio.lowlevel.Task) -> bool:
    """Return whether a task is the one of Trio that other threads and signals wake, also when nobody asks for it."""
    return "run_sync_soon" in task.name


class Tasks(trio.abc.Instrument):
    """Counts the tasks that are alive, and cancels a scope at a step."""

    def __init__(self) -> None:
        self.alive: set[trio.lowlevel.Task] = set()
        self.steps = 0
        self.due: list[tuple[int, trio.CancelScope, Any]] = []
        self._samples: Callable[[], object] = lambda: None
        self._every = 1_000_000

    def every(self, steps: int, call: Callable[[], object]) -> None:
        """Call a function after so many steps, again and again."""
        self._every, self._samples = steps, call

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.alive.add(task)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self.alive.discard(task)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if is_of_trio(task):
            return
        self.steps += 1
        if self.steps % self._every == 0:
            self._samples()
        if self.due and any(step <= self.steps for step, _, _ in self.due):
            due = [each for each in self.due if each[0] <= self.steps]
            self.due = [each for each in self.due if each[0] > self.steps]
            for _, scope, note in due:
                note()
                scope.cancel(reason="in the middle of things")

    def cancel_after(self, steps: int, scope: trio.CancelScope, note: Any) -> None:
        """Cancel a scope after so many steps of any task."""
        self.due.append((self.steps + steps, scope, note))

    def names(self, besides: Iterable[trio.lowlevel.Task] = ()) -> list[str]:
        """Return what tasks are left, but for what threads that were left behind run."""
        known = set(besides)
        return sorted(task.name for task in self.alive if task not in known and not _runs_for_thread(task))


def _runs_for_thread(task: trio.lowlevel.Task) -> bool:
    while not task.name.endswith("run_for_thread"):
        if task.parent_nursery is None:
            return False
        task = task.parent_nursery.parent_task
    return True
