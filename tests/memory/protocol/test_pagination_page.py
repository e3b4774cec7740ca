"""The page server/utilities/pagination of every revision, between our client and our server."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest
from meeting import Meeting, meet

from trio_mcp import RemoteProtocolError, Revision, Server, open_client

PAGINATION = "server/utilities/pagination"
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@pytest.mark.spec(PAGINATION, "Operations Supporting Pagination")
@pytest.mark.spec(PAGINATION, "Response Format")
@pytest.mark.spec(PAGINATION, "Request Format")
@pytest.mark.spec(PAGINATION, "Pagination Flow")
@pytest.mark.spec(PAGINATION, "Pagination Model")
@meet
async def test_a_list_goes_on_where_its_cursor_says(meeting: Meeting, subtests: pytest.Subtests) -> None:
    for method in LISTS:
        with subtests.test(method=method):
            await follow_cursors(meeting, method)


async def follow_cursors(meeting: Meeting, method: str) -> None:
    """Ask for one page after the other, and compare all of them."""
    items: list[Any] = []
    params: dict[str, Any] = {}
    cursors: list[str] = []
    while True:
        result = await meeting.client.request(method, params)
        items += result[LISTS[method]]
        if "nextCursor" not in result:
            break
        assert len(result[LISTS[method]]) == 5, "what the server has been told is a page"
        params = {"cursor": result["nextCursor"]}
        cursors.append(result["nextCursor"])
        assert meeting.answer(method)["result"]["nextCursor"]
    names = [item["name"] for item in items]
    assert len(set(names)) == len(names)
    assert len(names) == 5 * len(cursors) + len(result[LISTS[method]])
    assert len(set(cursors)) == len(cursors)


@pytest.mark.spec(PAGINATION, "Pagination Flow")
@pytest.mark.spec(PAGINATION, "Implementation Guidelines")
@pytest.mark.spec("server/prompts", "Implementation Considerations")
@meet
async def test_the_client_follows_cursors_and_can_stop_between_pages(meeting: Meeting) -> None:
    names = [one.name async for one in meeting.client.list_tools()]
    asked = [message["params"].get("cursor") for message in meeting.requests("tools/list")]
    assert asked[0] is None
    assert len(asked) == -(-len(names) // 5)
    pages = [page async for page in meeting.client.list_tools().pages()]
    assert [one.name for page in pages for one in page.tools] == names
    rest = [one.name async for one in meeting.client.list_tools(cursor=pages[1].next_cursor)]
    assert rest == names[10:]


@pytest.mark.spec(PAGINATION, "Error Handling")
@pytest.mark.spec(PAGINATION, "Implementation Guidelines")
@meet
async def test_an_invalid_cursor_is_refused(meeting: Meeting, subtests: pytest.Subtests) -> None:
    cursors: list[object] = ["", "nonsense", "eyJwYWdlIjogM30=", 5]
    for method, cursor in product(LISTS, cursors):
        with subtests.test(method=method, cursor=cursor):
            request = partial(meeting.client.request, method, {"cursor": cursor})
            error = await meeting.refused(request, -32602)
            assert "cursor" in error.message


@pytest.mark.spec(PAGINATION, "Implementation Guidelines")
@meet
async def test_a_cursor_of_another_list_is_refused(meeting: Meeting) -> None:
    page = await meeting.client.request("tools/list")
    params = {"cursor": page["nextCursor"]}
    await meeting.refused(lambda: meeting.client.request("prompts/list", params), -32602)
    assert "tools" in await meeting.client.request("tools/list", params), "and it is still good"


@pytest.mark.spec(PAGINATION, "Implementation Guidelines")
@pytest.mark.parametrize("binding", ["memory"])
@meet
async def test_the_client_makes_nothing_of_a_cursor(meeting: Meeting) -> None:
    """An empty string is a cursor like any; only its absence is the end. One that comes back is an endless list."""
    cursors = ["", "page/2?=&", "✓ 3"]
    asked: list[Any] = []
    server = Server("odd")

    @server.request_handler("tools/list")
    async def _list(params: Any, ctx: Any) -> dict[str, Any]:
        asked.append(params.get("cursor"))
        position = 0 if "cursor" not in params else cursors.index(params["cursor"]) + 1
        more = {"nextCursor": cursors[position]} if position < len(cursors) else {}
        return {"tools": [], "ttlMs": 0, "cacheScope": "private", **more}

    @server.request_handler("prompts/list")
    async def _prompts(params: Any, ctx: Any) -> dict[str, Any]:
        return {"prompts": [], "nextCursor": "again", "ttlMs": 0, "cacheScope": "private"}

    async with open_client(server, revision=meeting.revision) as client:
        assert [one async for one in client.list_tools()] == []
        assert asked == [None, *cursors]
        with pytest.raises(RemoteProtocolError, match="cursor"):
            [one async for one in client.list_prompts()]


@pytest.mark.spec(PAGINATION, "Implementation Guidelines")
@pytest.mark.spec(PAGINATION, "Response Format")
async def test_a_list_without_pages_is_one_page(revision: Revision) -> None:
    server = Server("small")
    server.tool(name="only")(lambda: "x")
    frames: list[bytes] = []
    async with open_client(server, revision=revision, on_frame=lambda way, data: frames.append(data)) as client:
        assert [one.name async for one in client.list_tools()] == ["only"]
    assert not [frame for frame in frames if b"ursor" in frame]
