"""The page client/elicitation of the revisions that have it, between our client and our server."""

from __future__ import annotations

import pytest
from meeting import Meeting, meet, text_of

from trio_mcp import Revision

METHOD = "elicitation/create"


@pytest.mark.parametrize("revision", [Revision.V2024_11_05, Revision.V2025_03_26])
@meet
async def test_a_revision_without_elicitation_is_not_asked(meeting: Meeting) -> None:
    result = await meeting.client.call_tool("ask", {"form": "name"})
    assert text_of(result).startswith("cannot ask: ")
    assert str(meeting.revision) in text_of(result)
    assert not meeting.questions(METHOD)


@pytest.mark.parametrize("revision", [Revision.V2024_11_05, Revision.V2025_03_26, Revision.V2025_06_18])
@pytest.mark.parametrize("tool", ["visit", "must_visit"])
@meet
async def test_a_revision_without_urls_sends_no_user_to_one(meeting: Meeting, tool: str) -> None:
    error = await meeting.refused(lambda: meeting.client.call_tool(tool), -32600)
    assert "URL" in error.message
    assert not meeting.questions(METHOD)
