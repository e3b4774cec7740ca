"""The pages basic/utilities/cancellation and basic/patterns/cancellation: giving up, at each level of nesting."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from meeting import FORMS, Meeting, meet, shows, text_of

from trio_mcp.types import CreateMessageResult, Root, TextContent

PAGES = ("basic/utilities/cancellation", "basic/patterns/cancellation")
CANCELLED = "notifications/cancelled"
_JOE = Root(uri="file:///joe", name="Joe")


async def still_works(meeting: Meeting) -> None:
    """Check that the connection is as good as before."""
    assert text_of(await meeting.client.call_tool("echo", {"text": "still here"})) == "still here"


@shows(PAGES, "Error Handling")
@shows(PAGES, "Behavior Requirements")
@shows(PAGES, "Timing Considerations")
@meet
async def test_a_cancellation_of_no_request_is_ignored(meeting: Meeting, subtests: pytest.Subtests) -> None:
    """Unknown, already answered, malformed: none of it is answered, and nobody is hurt."""
    await still_works(meeting)
    answered = {"requestId": meeting.request("tools/call")["id"]}
    rows: list[dict[str, object]] = [
        {"requestId": 999_999},
        {"requestId": "no such id"},
        {"requestId": None},
        {"requestId": 1.5},
        {},
        answered,
    ]
    for params in rows:
        with subtests.test(params=params):
            await meeting.client.notify(CANCELLED, {**params, "reason": "a test"})
            await still_works(meeting)
            assert not [m for m in meeting.received if "error" in m]


@shows(PAGES, "Implementation Notes")
@meet
async def test_both_sides_log_why(meeting: Meeting, caplog: pytest.LogCaptureFixture) -> None:
    """The log of a server process is its own."""
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        with trio.CancelScope() as scope:
            await meeting.client.call_tool(
                "wait", {"name": "logged"}, on_progress=lambda _: scope.cancel(reason="the user pressed stop")
            )
        await meeting.noted("logged was cancelled")
    assert "tools/call was given up: the user pressed stop" in caplog.text
    if meeting.binding == "memory":
        assert "tools/call was given up by its caller: 'the user pressed stop'" in caplog.text


# At each level: a tool asks the model, whose client calls a tool, which asks the user (or, before 2025-06-18, for
# roots). Who waits for ever differs; what is cancelled is always the outermost call.

LEVELS = ["tool", "model", "inner tool", "user"]


class Deep:
    """The client's side of it.

    Attributes:
        ended: What was cancelled in the client.
    """

    def __init__(self, meeting: Meeting, stuck: str) -> None:
        self.meeting = meeting
        self.stuck = stuck
        self.ended: list[str] = []
        self.reached = trio.Event()
        self.scope = trio.CancelScope()
        meeting.host.replies = [self.model]
        meeting.host.answers = [self.user]
        meeting.host.places = [self.user]

    async def hang(self, name: str) -> None:
        """Be stuck, and note the cancellation."""
        self.reached.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.append(name)

    async def model(self, _: object) -> Any:
        """Call a tool to answer."""
        if self.stuck == "model":
            await self.hang("model")
        try:
            text = "nobody"
            with self.scope:
                if self.stuck == "inner tool":
                    arguments = {"name": "deep"}
                    await self.meeting.client.call_tool(
                        "wait", arguments, on_progress=lambda _: self.reached.set()
                    )
                text = text_of(await self.meeting.client.call_tool("inner"))
        except trio.Cancelled:
            self.ended.append("model")
            raise
        content = TextContent(text=f"model heard {text}")
        return CreateMessageResult(role="assistant", content=content, model="m")

    async def user(self, asked: object) -> Any:
        """Answer, or do not."""
        if self.stuck == "user":
            await self.hang("user")
        return {"value": "Joe"} if asked is not None else [_JOE]

    async def call(self) -> str:
        """Make the outermost call."""
        if self.stuck == "tool":
            arguments = {"name": "deep"}
            await self.meeting.client.call_tool("wait", arguments, on_progress=lambda _: self.reached.set())
        return text_of(await self.meeting.client.call_tool("outer"))


@pytest.mark.spec("client/sampling", "User Interaction Model")
@pytest.mark.spec("client/elicitation", "User Interaction Model")
@pytest.mark.spec("basic/patterns/mrtr", "Basic Workflow")
@meet
async def test_a_tool_asks_the_model_that_calls_a_tool_that_asks_the_user(meeting: Meeting) -> None:
    """Where there is no elicitation, the inner tool asks for roots instead."""
    deep = Deep(meeting, "nobody")
    assert await deep.call() == "model heard Joe"
    asked = "elicitation/create" if meeting.revision in FORMS else "roots/list"
    assert len(meeting.questions("sampling/createMessage")) == 1
    assert len(meeting.questions(asked)) == 1
    assert not meeting.goodbyes()
    assert not meeting.notes(CANCELLED)


@shows(PAGES, "Behavior Requirements")
@shows(PAGES, "Cancellation Flow")
@meet
async def test_cancelling_the_outermost_call_cancels_everything_inside(
    meeting: Meeting, subtests: pytest.Subtests
) -> None:
    """In the legacy era each question is given up by who asked it, the server's too. In the modern era nothing but
    the requests in flight is, for a handler that is parked has no request any more; a server sends no cancellation.
    """
    for level in LEVELS:
        with subtests.test(level=level):
            meeting.begin()
            await cancel_the_outermost(meeting, level)


async def cancel_the_outermost(meeting: Meeting, level: str) -> None:
    """Cancel the outermost call while one level waits for ever."""
    deep = Deep(meeting, level)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deep.call)
            await deep.reached.wait()
            scope.cancel()
    in_client = {"tool": [], "model": ["model"], "inner tool": ["model"], "user": ["user", "model"]}[level]
    while len(deep.ended) < len(in_client):  # the server's cancellation takes its time
        await trio.sleep(0.001)
    assert sorted(deep.ended) == sorted(in_client)
    running = {"tool": ["deep"], "model": ["outer"], "inner tool": ["outer", "deep"], "user": ["outer", "inner"]}[
        level
    ]
    if meeting.is_modern:  # those that have asked are parked
        running = [name for name in running if name == "deep"]
    left = {f"{name} was cancelled" for name in running}
    while left:
        left -= set(await meeting.noted(next(iter(left))))
    calls = [m["id"] for m in meeting.requests("tools/call") if m["params"]["name"] in {"wait", "outer", "inner"}]
    if meeting.is_modern:
        answered = {m["id"] for m in meeting.received if "id" in m}
        assert meeting.goodbyes() == [id for id in calls if id not in answered]
        assert not meeting.notes(CANCELLED)
    else:
        assert sorted(meeting.goodbyes()) == sorted(calls)
        asked = [m["id"] for m in meeting.received if "method" in m and "id" in m]
        assert sorted(one["requestId"] for one in meeting.notes(CANCELLED)) == sorted(asked)
        assert len(asked) == {"tool": 0, "model": 1, "inner tool": 1, "user": 2}[level]
    await still_works(meeting)


@shows(PAGES, "Behavior Requirements")
@meet
async def test_cancelling_an_inner_call_leaves_the_outer_ones_alone(
    meeting: Meeting, subtests: pytest.Subtests
) -> None:
    for level in ("inner tool", "user"):
        with subtests.test(level=level):
            meeting.begin()
            await cancel_an_inner_one(meeting, level)


async def cancel_an_inner_one(meeting: Meeting, level: str) -> None:
    """Cancel the model's own call while one level waits for ever."""
    deep = Deep(meeting, level)
    heard: list[str] = []

    async def call() -> None:
        heard.append(await deep.call())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await deep.reached.wait()
        deep.scope.cancel()
    assert heard == ["model heard nobody"]
    while level == "user" and deep.ended != ["user"]:
        await trio.sleep(0.001)
    calls = [m["id"] for m in meeting.requests("tools/call") if m["params"]["name"] in {"wait", "inner"}]
    if meeting.is_modern and level == "user":
        assert not meeting.goodbyes()
    else:
        assert meeting.goodbyes() == calls
    await still_works(meeting)
