"""The pages basic/utilities/progress and basic/patterns/progress, between our client and our server."""

from __future__ import annotations

import trio
from meeting import Meeting, meet, shows

PAGES = ("basic/utilities/progress", "basic/patterns/progress")


@shows(PAGES, "Progress Flow")
@shows(PAGES, "Implementation Notes")
@meet
async def test_requests_at_the_same_time_have_tokens_of_their_own(meeting: Meeting) -> None:
    seen: dict[int, list[float]] = {n: [] for n in (1, 2, 3)}

    async def call(to: int) -> None:
        await meeting.client.call_tool("count", {"to": to}, on_progress=lambda one: seen[to].append(one.progress))

    async with trio.open_nursery() as nursery:
        for to in seen:
            nursery.start_soon(call, to)
    tokens = [message["params"]["_meta"]["progressToken"] for message in meeting.requests("tools/call")]
    assert len(set(tokens)) == 3
    assert seen == {1: [1, 1.5], 2: [1, 2, 2.5], 3: [1, 2, 3, 3.5]}
