"""The pages basic/utilities/cancellation and basic/patterns/cancellation: giving up, at each level of nesting."""

from __future__ import annotations

import pytest
import trio
from meeting import Meeting, meet, shows, text_of

PAGES = ("basic/utilities/cancellation", "basic/patterns/cancellation")
CANCELLED = "notifications/cancelled"


async def still_works(meeting: Meeting) -> None:
    """Check that the connection is as good as before."""
    assert text_of(await meeting.client.call_tool("echo", {"text": "still here"})) == "still here"


@pytest.mark.spec("basic/transports/index", "Cancellation")
@pytest.mark.spec("basic/transports/stdio", "Cancellation")
@pytest.mark.spec("basic/transports/streamable-http", "Cancellation")
@shows(PAGES, "Cancellation Flow")
@shows(PAGES, "Behavior Requirements")
@pytest.mark.spec(PAGES[1], "Transport-Specific Cancellation")
@meet
async def test_a_request_that_is_given_up_ends_and_is_not_answered(meeting: Meeting) -> None:
    """The handler tries to say more while it is being cancelled; nothing of it comes."""
    name = f"one of {meeting.revision}"
    await meeting.client.set_log_level("debug")
    with trio.CancelScope() as scope:
        await meeting.client.call_tool("wait", {"name": name}, on_progress=lambda _: scope.cancel())
    assert scope.cancelled_caught
    request = meeting.request("tools/call")
    assert f"{name} was cancelled" in await meeting.noted(f"{name} was cancelled")
    assert meeting.goodbyes() == [request["id"]]
    told = [m for m in meeting.sent if m.get("method") == CANCELLED]
    assert len(told) == (0 if meeting.is_http and meeting.is_modern else 1)
    for cancellation in told:
        assert isinstance(cancellation["params"].get("reason", ""), str)
        assert "id" not in cancellation
    await still_works(meeting)
    assert not [m for m in meeting.received if m.get("id") == request["id"]]
    assert [one["progress"] for one in meeting.notes("notifications/progress")] == [1]
    assert not meeting.notes("notifications/message")


@shows(PAGES, "Cancellation Flow")
@pytest.mark.spec(PAGES[1], "Timeouts")
@meet
async def test_a_deadline_gives_up_as_well(meeting: Meeting) -> None:
    name = f"late in {meeting.revision}"
    scope = trio.CancelScope()

    async def call() -> None:
        with scope:
            await meeting.client.call_tool("wait", {"name": name})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await meeting.noted(f"{name} began")
        scope.deadline = trio.current_time() + 0.01
    assert scope.cancelled_caught
    (request,) = [m for m in meeting.requests("tools/call") if m["params"]["name"] == "wait"]
    await meeting.noted(f"{name} was cancelled")
    assert meeting.goodbyes() == [request["id"]]


@shows(PAGES, "Behavior Requirements")
@meet
async def test_one_request_is_given_up_and_its_neighbour_goes_on(meeting: Meeting) -> None:
    names = [f"{n} of {meeting.revision}" for n in (1, 2)]
    scopes = [trio.CancelScope(), trio.CancelScope()]
    began = trio.Event()

    async def wait(name: str, scope: trio.CancelScope) -> None:
        with scope:
            await meeting.client.call_tool("wait", {"name": name}, on_progress=lambda _: began.set())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, names[0], scopes[0])
        await meeting.noted(f"{names[0]} began")
        began = trio.Event()
        nursery.start_soon(wait, names[1], scopes[1])
        await meeting.noted(f"{names[1]} began")
        scopes[0].cancel()
        notes = await meeting.noted(f"{names[0]} was cancelled")
        assert f"{names[1]} was cancelled" not in notes
        scopes[1].cancel()
        await meeting.noted(f"{names[1]} was cancelled")
    assert len(meeting.goodbyes()) == 2
