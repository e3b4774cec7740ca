"""The client's side: does what the tasks of one client of a program do, and notes what becomes of it."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final, cast

import attrs
import trio

from trio_mcp import (
    CallNext,
    ClientGroup,
    Message,
    Progress,
    RequestError,
    ResourceUpdated,
    Resynced,
    ServerUnavailable,
    Target,
    fail_after_silence,
    open_client,
    open_clients,
    types,
)
from trio_mcp import Client as OpenClient

from .program import BATCHING, MODERN, OLDEST, Client, Do, Fault, GiveUp
from .serving import ANNOUNCED, NOTE, SLOW, Tasks, World, limits_of

LIVES: Final = 300.0
"""Seconds after which whatever still waits is taken to wait for ever."""


class OfTheCaller(Exception):
    """What a caller's own code raises."""


def name_of(change: object) -> str:
    """Return what has changed, by the name that programs have for it."""
    match change:
        case ResourceUpdated(uri=uri):
            return uri
        case Resynced():
            return "anything"
        case _:
            return type(change).__name__.removesuffix("ListChanged").lower()


@attrs.frozen
class Fence:
    """What may give up something.

    Attributes:
        deadline: The first deadline around it.
        scopes: The names of scopes around it that something may cancel.
        silence: Whether silence may end it.
    """

    deadline: float = math.inf
    scopes: tuple[str, ...] = ()
    silence: bool = False


@attrs.define(eq=False)
class Player:
    """Plays one client."""

    number: int
    plan: Client
    world: World
    tasks: Tasks
    client: OpenClient | None = None
    group: ClientGroup | None = None
    closed: list[OpenClient] = attrs.field(factory=list[OpenClient])  # which its group has restarted
    names: int = 0
    has_begun: bool = False
    over: trio.Event = attrs.field(factory=trio.Event)

    def add(self, ev: str, **data: Any) -> None:
        self.world.log.add(ev, client=self.number, **data)

    @property
    def opened(self) -> OpenClient:
        assert self.client is not None
        return self.client

    @property
    def is_modern(self) -> bool:
        return self.plan.revision == MODERN

    # -- giving up --

    @asynccontextmanager
    async def limited(self, give_up: GiveUp | None, fence: Fence) -> AsyncGenerator[Fence]:
        if give_up is None:
            yield fence
            return
        self.names += 1
        name = f"{self.number}.{self.names}"
        named = attrs.evolve(fence, scopes=(*fence.scopes, name))
        match give_up.kind:
            case "deadline":
                with trio.move_on_after(give_up.seconds) as scope:  # noqa: ASYNC100
                    yield attrs.evolve(fence, deadline=min(fence.deadline, scope.deadline))
            case "silence":
                try:
                    with fail_after_silence(give_up.seconds, at_most=give_up.at_most) as silence:
                        most = min(fence.deadline, silence.latest)
                        yield attrs.evolve(fence, deadline=most, silence=True)
                except trio.TooSlowError:
                    pass
            case "steps":
                with trio.CancelScope() as scope:  # noqa: ASYNC100
                    note = partial(self.add, "cancel", scope=name)
                    self.tasks.cancel_after(give_up.steps, scope, note)
                    try:
                        yield named
                    finally:
                        self.tasks.due = [each for each in self.tasks.due if each[1] is not scope]
            case "cancel" | "raise":
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self.give_up_after, give_up, name, nursery.cancel_scope)
                        yield named
                        nursery.cancel_scope.cancel()
                except* OfTheCaller:
                    pass

    async def give_up_after(self, give_up: GiveUp, name: str, scope: trio.CancelScope) -> None:
        await trio.sleep(give_up.seconds)
        self.add("cancel", scope=name)
        if give_up.kind == "raise":
            raise OfTheCaller
        scope.cancel(reason="changed my mind")

    # -- what its tasks do --

    async def do(self, do: Do, fence: Fence = Fence()) -> None:
        with trio.move_on_after(do.at):
            await self.over.wait()
        if self.over.is_set():
            return
        async with self.limited(do.give_up, fence) as inner:
            self.add(
                "call-began",
                token=do.token,
                kind=do.kind,
                left=None if inner.deadline == math.inf else inner.deadline - trio.current_time(),
                scopes=inner.scopes,
                silence=inner.silence,
                timeout=self.plan.request_timeout or None,
                parts=[part.token for part in do.parts],
                progress=do.progress,
                pad=do.pad,
            )
            try:
                outcome = await self.perform(do)
            except trio.Cancelled:
                self.add("call-ended", token=do.token, how="cancelled")
                raise
            except Exception as error:
                self.add("call-ended", token=do.token, how=type(error).__name__, text=str(error)[:160])
            except BaseException as error:
                self.add("call-ended", token=do.token, how=f"base {type(error).__name__}", text=str(error)[:160])
                raise
            else:
                self.add("call-ended", token=do.token, how="result", **outcome)

    async def perform(self, do: Do) -> dict[str, Any]:
        """Do it, and return what came of it."""
        client = self.opened
        target = {
            "none": None,
            "fast": partial(self.fast, do.token),
            "slow": partial(self.slow, do.token),
            "raise": partial(self.raising, do.token),
        }[do.progress]
        match do.kind:
            case "tool" | "dependency" | "plain":
                name = {"tool": "script", "dependency": "given", "plain": "plain"}[do.kind]
                arguments = {"token": do.token} | ({"pad": "y" * do.pad} if do.pad and name == "script" else {})
                result = await client.call_tool(name, arguments, on_progress=target)
                return {"text": result.text, "is_error": result.is_error}
            case "prompt":
                prompt = await client.get_prompt("prompted", {"token": do.token}, on_progress=target)
                return {"text": cast("Any", prompt.messages[0].content).text}
            case "resource":
                read = await client.read_resource(f"script://{do.token}", on_progress=target)
                return {"text": cast("Any", read.contents[0]).text}
            case "batch":
                requests = [
                    ("tools/call", {"name": "script", "arguments": {"token": part.token}}) for part in do.parts
                ]
                outcomes = await client.request_many(requests, batch=not self.plan.middleware)
                texts = [
                    f"error {outcome.code}"
                    if isinstance(outcome, RequestError)
                    else str(outcome["content"][0]["text"])
                    for outcome in outcomes
                ]
                return {"texts": texts}
            case "list":
                tools = await client.list_tools(fresh=True)
                return {"names": sorted(tool.name for tool in tools)}
            case "ping":
                if self.is_modern:
                    await client.discover(fresh=True)
                else:
                    await client.ping()
            case "level":
                await client.set_log_level("info")
            case "notify":
                for n in range(1, 4):
                    await client.notify(NOTE, {"token": do.token, "n": n})
            case "roots":
                await client.roots_changed()
            case "listen":
                await self.listen(do)
        return {}

    async def listen(self, do: Do) -> None:
        lists: Any = {f"{what}_list_changed": True for what in do.what if "://" not in what}
        with trio.move_on_after(do.seconds):
            resources: list[str] = [what for what in do.what if "://" in what]
            if resources:
                resources.append(f"x://{do.token}")  # by which the checker knows its requests
            # However small `max_notifications` is: what is too slow is tested elsewhere.
            async with self.opened.listen(resources=resources, max_events=1_000, **lists) as events:
                self.add("listening", token=do.token, what=list(do.what))
                try:
                    async for event in events:
                        self.add("change", token=do.token, what=name_of(event))
                finally:
                    self.add("listening-ended", token=do.token)

    # -- what it is told and asked --

    def fast(self, token: str, progress: Progress) -> None:
        self.add("progress", token=token, n=progress.progress)

    async def slow(self, token: str, progress: Progress) -> None:
        self.add("progress", token=token, n=progress.progress)
        await trio.sleep(SLOW)
        self.add("progress-ended", token=token, n=progress.progress)

    async def raising(self, token: str, progress: Progress) -> None:
        self.add("progress", token=token, n=progress.progress)
        await trio.lowlevel.checkpoint()
        raise OfTheCaller(f"of {token}")

    async def answer(self, token: str) -> str:
        ask = self.world.asks[token]
        self.add("question-began", token=token)
        how = "cancelled"
        try:
            await trio.sleep(ask.seconds)
            if ask.call is not None:
                deadline = math.inf if self.is_modern else trio.current_effective_deadline()
                await self.do(ask.call, Fence(deadline))
            how = ask.end
            if ask.end == "raise":
                raise LookupError(f"secret of {token}")
            if ask.end == "decline":
                return "decline"
        finally:
            self.add("question-ended", token=token, how=how)
        return f"answer of {token}"

    async def on_elicit(self, params: types.ElicitRequestParams) -> Any:
        answer = await self.answer(params.message)
        return answer if answer == "decline" else {"value": answer}

    async def on_sample(self, params: types.CreateMessageRequestParams) -> str:
        content: Any = params.messages[0].content
        block: Any = cast("Any", content)[0] if isinstance(content, (list, tuple)) else content
        answer = await self.answer(block.text)
        if answer == "decline":
            raise RequestError(-1, "no")
        return answer

    async def roots(self) -> list[str]:
        self.add("roots-asked")
        await trio.lowlevel.checkpoint()
        return [f"file:///root-{self.number}"]

    async def on_log(self, message: types.LoggingMessageNotificationParams) -> None:
        data: Any = message.data
        await self.told(data["token"], data["n"], "log")

    async def on_notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        if method == NOTE and params is not None:
            await self.told(params["token"], params["n"], "note")
        elif method == ANNOUNCED and params is not None:
            self.add("announced", n=params["n"])

    async def told(self, token: str, n: int, kind: str) -> None:
        self.add("told", token=token, n=n, kind=kind)
        if self.plan.slow:
            await trio.sleep(SLOW)
        self.add("told-ended", token=token, n=n, kind=kind)

    async def through(self, message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.method == "tools/call":
            await trio.lowlevel.checkpoint()
        return await call_next(message)

    def on_resource_updated(self, uri: str) -> None:
        self.add("callback", what=uri)

    def on_frame(self, direction: str, data: bytes) -> None:
        self.add("shown", way="out" if direction == "sent" else "in", raw=data.decode())

    # -- its life --

    async def all_dos(self, last: trio.Event, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:  # noqa: ASYNC114
        with trio.CancelScope() as scope:
            task_status.started(scope)
            try:
                async with trio.open_nursery() as nursery:
                    for do in self.plan.does:
                        nursery.start_soon(self.do, do, Fence(scopes=("tree",)))
            finally:
                last.set()

    def options(self) -> dict[str, Any]:
        plan = self.plan
        options: dict[str, Any] = {
            "revision": plan.revision,
            "limits": limits_of(self.world.program),
            "on_sample": self.on_sample,
            "roots": self.roots,
            "request_timeout": plan.request_timeout or math.inf,
        }
        if self.world.program.seed % 3 == 0:
            options["on_frame"] = self.on_frame
        if plan.revision not in {BATCHING, OLDEST}:
            options["on_elicit"] = self.on_elicit
        options |= {"on_log": self.on_log, "on_notification": self.on_notification}
        if plan.middleware:
            options["middleware"] = [self.through]
        for what in plan.watches:
            if "://" in what:
                options["on_resource_updated"] = self.on_resource_updated
            else:
                options[f"on_{what}_list_changed"] = partial(self.add, "callback", what=what)
        return options

    @asynccontextmanager
    async def opening(self, target: Target, whole: trio.CancelScope) -> AsyncGenerator[OpenClient | None]:
        """Open the client, by itself or in a group; yield `None` if a group is to be left without waiting for it."""
        cut = trio.CancelScope() if self.plan.in_group and self.plan.leave != "cancel" else whole
        if self.plan.hasty:
            how = "cancel" if cut is whole else self.plan.leave
            leaving = partial(self.add, "leaving", how=how, calls=0, connecting=True)
            self.tasks.cancel_after(self.plan.hasty, cut, leaving)

        def connected() -> None:
            self.tasks.due = [each for each in self.tasks.due if each[1] is not cut]

        if self.plan.in_group:
            options: Any = self.options()
            async with open_clients({"it": target}, server_options={"it": options}) as group:
                self.has_begun, self.group = True, group
                with cut if cut is not whole else nullcontext():
                    await group.wait_ready()
                connected()
                yield None if cut.cancel_called else group["it"]
        else:
            self.has_begun = True
            async with open_client(target, **self.options()) as client:
                connected()
                yield client

    async def restart(self, scope: trio.CancelScope) -> None:
        """Let the group close the client and open another one, as often as the program says; go on with that."""
        begin = trio.current_time()
        with scope:
            for at in self.plan.restarts:
                await trio.sleep_until(begin + at)
                if self.group is None or self.over.is_set():
                    break
                self.add("member-restart", conn=self.number)
                self.group.restart("it")
                with suppress(ServerUnavailable):
                    await self.group.wait_ready()
                client = self.group.clients.get("it")
                if client is not None and client is not self.client:
                    self.closed.append(self.opened)
                    self.client = client
                    self.add("member-ready")

    async def stay(self, outer: trio.Nursery, last: trio.Event) -> trio.CancelScope:
        """Do what it does while it is connected. Returns the scope of its tasks."""
        self.add("opened")
        restarting = trio.CancelScope()
        started: trio.CancelScope = await outer.start(self.all_dos, last)
        if self.plan.restarts:
            outer.start_soon(self.restart, restarting)
        with trio.move_on_after(LIVES) as waited:
            with trio.move_on_after(self.plan.leave_at or math.inf):
                await last.wait()
        if waited.cancelled_caught:
            self.add("stuck")
        self.over.set()
        if not self.plan.outside and not last.is_set():
            self.add("cancel", scope="tree")
            started.cancel()
            await last.wait()
        restarting.cancel()
        self.add("leaving", how=self.plan.leave, calls=self.opened.statistics().calls)
        return started

    async def live(self, target: Target) -> None:
        """Open the client, let its tasks do what they do, leave."""
        boom = OfTheCaller("of the block")
        last = trio.Event()
        tree: trio.CancelScope | None = None
        self.add("opening", revision=self.plan.revision)
        async with trio.open_nursery() as outer:
            how = "itself"
            try:
                with trio.CancelScope() as whole:
                    async with self.opening(target, whole) as self.client:
                        if self.client is not None:
                            tree = await self.stay(outer, last)
                        match self.plan.leave:
                            case "raise":
                                raise boom
                            case "cancel":
                                whole.cancel()
                                await trio.lowlevel.checkpoint()
                            case "aclose" if self.client is not None:
                                await self.client.aclose()
                            case _:
                                pass
            except BaseException as error:  # noqa: ASYNC103
                if error is not boom:
                    how = f"{type(error).__name__}: {str(error)[:160]}"
                    if isinstance(error, trio.Cancelled):
                        raise
            finally:
                self.add("left", how=how)
            for client in (*self.closed, self.client):
                if client is not None:
                    left = attrs.asdict(client.statistics())
                    self.add("statistics", end="client", left=left)
            if tree is not None and not last.is_set():
                with trio.move_on_after(1) as waited:
                    await last.wait()
                if waited.cancelled_caught:
                    self.add("stuck")
                tree.cancel()


def fault_order(plan: Client) -> list[Fault]:
    """Return what befalls a client's wire, in order."""
    return sorted(plan.faults, key=lambda fault: fault.at)
