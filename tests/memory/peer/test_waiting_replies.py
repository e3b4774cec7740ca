"""What is kept of an answer that waits to be written: its bytes alone, and of one that was refused nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from inside_peer import Exchange, open_peer
from peers import Handlers, request
from wires import ScriptedChannel

from trio_mcp import Limits, RequestError


class Answer(dict[str, Any]):
    """An answer whose end can be seen."""


@attrs.define(eq=False, weakref_slot=True)
class Frame:
    """Something that is in a frame only."""


@attrs.define(eq=False)
class Crowded:
    """An origin without room: it raises as such code does, from a frame that has the error."""

    frames: list[weakref.ref[Frame]]
    principal: str | None = None

    def keep_answer(self, size: int) -> None:
        frame = Frame()
        self.frames.append(weakref.ref(frame))
        try:
            raise OverflowError(size)
        except OverflowError as problem:
            refusal = RequestError(-31002, f"there is no room for {size} bytes: {problem}")
            raise refusal from None


@pytest.fixture(autouse=True)
def _without_collector() -> Generator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("is_refused", [False, True])
async def test_an_answer_is_in_memory_once(is_refused: bool) -> None:
    """A client that reads nothing could have a hundred of them, each as handler's value and as bytes."""
    answers = list[weakref.ref[Answer]]()
    frames = list[weakref.ref[Frame]]()
    channel = ScriptedChannel()
    origin: Any = Crowded(frames) if is_refused else attrs.make_class("Roomy", {"principal": attrs.field()})(None)

    async def answer(_: Exchange) -> dict[str, Any]:
        made = Answer(text="x" * 10_000)
        answers.append(weakref.ref(made))
        return made

    async with open_peer(channel, Handlers({"x/large": answer}), Limits(max_outbox_bytes=1)):
        channel.stop_reading()
        for id in range(5):
            channel.say_as(origin, request(id, "x/large"))
            await trio.testing.wait_all_tasks_blocked()
        assert len(answers) == 5
        assert [made() for made in answers] == [None] * 5
        assert [frame() for frame in frames] == [None] * len(frames)
        assert len(frames) == (5 if is_refused else 0)
        channel.reading.set()
