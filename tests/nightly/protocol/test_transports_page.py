"""The page basic/transports of every revision, and those below it of 2026-07-28: what goes over the wire, and how.

Between our client and our server. What either does with others, regular and rude, is in `tests/memory/bindings`,
`tests/memory/http` and `tests/memory/http_server`.
"""

from __future__ import annotations

import pytest
from meeting import LEGACY, Meeting, meet

OLD = "basic/transports"
HTTP = "basic/transports/streamable-http"
BY_HTTP = pytest.mark.parametrize("binding", ["asgi", pytest.param("http", marks=pytest.mark.nightly)])
BY_SSE = pytest.mark.parametrize("revision", LEGACY[:1])


@pytest.mark.spec(OLD, "HTTP with SSE")
@BY_HTTP
@BY_SSE
@meet
async def test_all_answers_come_on_one_stream(meeting: Meeting) -> None:
    """Each message is a POST to where the server has said, which is answered by nothing but that it was taken."""
    await meeting.client.call_tool("count", {"to": 2}, on_progress=lambda _: None)
    await meeting.client.call_tool("where")
    await meeting.taken()
    (stream,) = [one for one in meeting.log.seen if one.method == "GET"]
    assert stream.content_type == "text/event-stream"
    assert stream.end is None
    assert [one.message for one in meeting.seen] == meeting.sent
    assert {one.status for one in meeting.seen} == {202}
