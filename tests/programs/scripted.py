"""The server of all programs: two tools that do what their arguments say, and write down what happens to them.

``python -m tests.programs.scripted CLIENT MAX_INBOUND FILE`` serves it over stdio, and appends its events to a file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from trio_mcp import (
    CapabilityMissing,
    Context,
    Limits,
    RequestError,
    Server,
    ToolError,
    serve_stdio,
)

from .plan import Step, from_json
from .record import Event, Record, write_event

WHOSE: Final[ContextVar[str]] = ContextVar("WHOSE", default="nobody's")

GOODBYE: Final = 2.0
DRAIN: Final = 3.0


@attrs.define(eq=False)
class Running:
    """A script that runs.

    Attributes:
        ctx: Its request.
        record: Where it writes.
        token: Its call.
        answers: What it was answered.
        progress: How often it has reported.
        logs: How often it has logged.
        was_cancelled: Whether that has been written down.
    """

    ctx: Context
    record: Record
    token: str
    answers: list[str] = attrs.field(factory=list[str])
    progress: int = 0
    logs: int = 0
    was_cancelled: bool = False

    def add(self, kind: str, **data: Any) -> None:
        self.record.add(kind, int(self.token.split(".")[0]), self.token, **data)

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
        """Run a step for a thread; by its name it is known in the record."""
        await self.run([step])

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
                    self.add("logging", n=self.logs)
                    await self.ctx.info({"token": self.token, "n": self.logs})
            case "ask":
                await self.ask(step)
            case "try":
                try:
                    await self.run(step.body)
                finally:
                    self.add("cleanup")
                    await self.run(step.cleanup)  # noqa: ASYNC102
            case "shield":
                self.add("shield-begins")
                with trio.CancelScope(shield=True):
                    await trio.sleep(step.seconds)
                self.add("shield-ends")
            case "leak":
                trio.CancelScope(deadline=trio.current_time() + step.seconds).__enter__()
            case "var":
                WHOSE.set(self.token)
            case "tool-error":
                raise ToolError(f"tool error of {self.token}")
            case "error":
                raise RequestError(-32050, f"error of {self.token}")
            case "bug":
                raise LookupError(f"secret of {self.token}")
            case "together":
                async with trio.open_nursery() as nursery:
                    for inner in step.body:
                        nursery.start_soon(self.run, [inner])

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
        except trio.Cancelled:
            self.add("asking-cancelled", ask=asked.token)
            raise
        self.add("answered", ask=asked.token, answer=answer)
        self.answers.append(answer)


def make_server(record: Record, max_inbound: int) -> Server[None]:
    """Return a server that writes down what its handlers do."""
    server = Server(
        "programs", limits=Limits(max_inbound_requests=max_inbound, drain_timeout=DRAIN, goodbye_timeout=GOODBYE)
    )

    @contextmanager
    def written_down(running: Running) -> Generator[None]:
        now, deadline = trio_now(), running.ctx.deadline
        running.add("handler-began", id=running.ctx.request_id, left=deadline - now, whose=WHOSE.get())
        try:
            yield
        except BaseException as error:
            running.add("handler-ended", how=type(error).__name__)
            raise
        running.add("handler-ended", how="return")

    def trio_now() -> float:
        try:
            return trio.current_time()
        except RuntimeError:
            return trio.from_thread.run_sync(trio.current_time)

    @server.tool
    async def script(token: str, steps: list[dict[str, Any]], ctx: Context) -> str:
        running = Running(ctx, record, token)
        with written_down(running):
            await running.run(from_json(steps))
        return f"{token}: {'|'.join(running.answers)}"

    @server.tool
    def plain(token: str, steps: list[dict[str, Any]], ctx: Context) -> str:
        running = Running(ctx, record, token)
        with written_down(running):
            for step in from_json(steps):
                trio.from_thread.run(running.run_for_thread, step)
        return f"{token}: {'|'.join(running.answers)}"

    @server.tool
    async def touch(uri: str) -> str:
        await server.resource_updated(uri)
        return "touched"

    @server.resource("x://{name}")
    async def thing(name: str) -> str:
        return name

    return server


async def main(client: int, max_inbound: int, path: Path) -> None:
    """Serve over stdio."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    class Written(list[Event]):
        def append(self, event: Event) -> None:
            os.write(descriptor, write_event(event))

    record = Record(time.monotonic, events=Written())

    def on_frame(direction: str, data: bytes) -> None:
        record.frame(client, "server", "out" if direction == "sent" else "in", data)

    record.add("server-began", client)
    await serve_stdio(make_server(record, max_inbound), on_frame=on_frame)
    record.add("server-ended", client)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
