"""The page basic/transports of every revision, and those below it of 2026-07-28: what goes over the wire, and how.

Between our client and our server. What either does with others, regular and rude, is in `tests/memory/bindings`,
`tests/memory/http` and `tests/memory/http_server`.
"""

from __future__ import annotations

import pytest
from meeting import LEGACY, Meeting, meet, text_of

OLD = "basic/transports"
INDEX = "basic/transports/index"
STDIO = "basic/transports/stdio"
BY_HTTP = pytest.mark.parametrize("binding", ["asgi", pytest.param("http", marks=pytest.mark.nightly)])
BY_STDIO = pytest.mark.parametrize("binding", ["stdio"])
SESSIONS = pytest.mark.parametrize("revision", LEGACY[1:])


@pytest.mark.spec(OLD, "stdio")
@pytest.mark.spec(STDIO, "Sending Messages")
@pytest.mark.spec(STDIO, "Receiving Messages")
@pytest.mark.spec(INDEX, "Messages")
@BY_STDIO
@meet
async def test_a_message_is_one_line_whatever_is_in_it(meeting: Meeting) -> None:
    """Line breaks of every kind are data; UTF-8 goes both ways."""
    for text in ("one\ntwo\r\nthree\rfour", "a\u2028b\u2029c\x85d", "péché 検索 🔍", "\x00\x1f\x7f"):
        assert text_of(await meeting.client.call_tool("echo", {"text": text})) == text


@pytest.mark.spec(OLD, "Session Management")
@pytest.mark.spec(OLD, "Sequence Diagram")
@pytest.mark.spec(OLD, "Protocol Version Header")
@BY_HTTP
@SESSIONS
@meet
async def test_a_session_is_named_by_every_request_and_ended(meeting: Meeting) -> None:
    """And from the handshake on, every request names the revision."""
    begin = len(meeting.log.seen)
    async with meeting.another() as other:
        await other.call_tool("echo", {"text": "x"})
    mine = [one for one in meeting.log.seen[begin:] if one.message != {}]
    hello, *rest = mine
    assert hello.rpc == "initialize"
    assert "mcp-session-id" not in hello.headers
    (id,) = {one.headers.get("mcp-session-id") for one in rest}
    assert id
    assert id.isascii()
    assert {one.headers["mcp-protocol-version"] for one in rest} == {meeting.revision}
    assert rest[0].rpc == "notifications/initialized"
    assert rest[-1].method == "DELETE"
    assert (rest[-1].status or 0) // 100 == 2
