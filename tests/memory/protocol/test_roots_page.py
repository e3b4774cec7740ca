"""The page client/roots of every revision, between our client and our server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from meeting import ALL, LEGACY, Meeting, meet, text_of

from trio_mcp import Context, LocalProtocolError, RequestError, Revision, Server, open_client
from trio_mcp.types import ClientCapabilities, Root, RootsCapability

ROOTS = "client/roots"
PROJECT = {"uri": "file:///home/user/projects/myproject", "name": "My Project"}


@pytest.mark.spec(ROOTS, "Capabilities")
@meet
async def test_the_capability_is_declared(meeting: Meeting) -> None:
    """The modern era has no `listChanged`: servers ask anew when they want to know."""
    await meeting.client.call_tool("echo", {"text": "x"})
    assert meeting.declared()["roots"] == ({} if meeting.is_modern else {"listChanged": True})


@pytest.mark.spec(ROOTS, "Listing Roots")
@pytest.mark.spec(ROOTS, "Root")
@pytest.mark.spec(ROOTS, "Project Directory")
@pytest.mark.spec(ROOTS, "Message Flow")
@meet
async def test_a_server_asks_for_roots(meeting: Meeting) -> None:
    result = await meeting.client.call_tool("where")
    assert text_of(result) == "My Project: file:///home/user/projects/myproject"
    assert meeting.questions("roots/list") == [{}]
    assert meeting.replies("roots/list") == [{"roots": [PROJECT]}]


@pytest.mark.spec(ROOTS, "Root")
@pytest.mark.spec(ROOTS, "Multiple Repositories")
@meet
async def test_there_may_be_several_roots_or_none(meeting: Meeting) -> None:
    frontend, backend = "file:///home/user/repos/frontend", Path("/home/user/repos/backend")
    meeting.host.places = [[Root(uri=frontend, name="Frontend Repository"), backend], []]
    both = text_of(await meeting.client.call_tool("where"))
    assert both == f"Frontend Repository: {frontend}, backend: file:///home/user/repos/backend"
    assert text_of(await meeting.client.call_tool("where")) == ""


@pytest.mark.spec(ROOTS, "Root List Changes")
@pytest.mark.spec(ROOTS, "Message Flow", revisions=LEGACY)
@pytest.mark.spec(ROOTS, "Implementation Guidelines")
@meet
async def test_a_server_is_notified_when_roots_change(meeting: Meeting) -> None:
    await meeting.client.roots_changed()
    if meeting.is_modern:
        assert not meeting.sent
        return
    assert meeting.sent == [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]
    await meeting.noted("roots changed")
    meeting.host.places = [[Root(uri="file:///new", name="new")]]
    assert text_of(await meeting.client.call_tool("where")) == "new: file:///new"


@pytest.mark.spec(ROOTS, "Security Considerations")
@pytest.mark.spec(ROOTS, "Root")
@meet
async def test_an_invalid_root_is_not_sent(meeting: Meeting, subtests: pytest.Subtests) -> None:
    """In the legacy era the server learns that something failed; in the modern era it hears nothing more."""
    for uri in ("https://example.com/", "file:///home/../etc", "file:///home/%2e%2e/etc"):
        with subtests.test(uri=uri):
            meeting.begin()
            await ask_for_root(meeting, uri)


async def ask_for_root(meeting: Meeting, uri: str) -> None:
    """Let the server ask, and see that it does not get this one."""
    meeting.host.places = [[uri]]
    if meeting.is_modern:
        with pytest.raises(ValueError, match="root"):
            await meeting.client.call_tool("where")
        assert len(meeting.requests("tools/call")) == 1
    else:
        await meeting.turned_down("where", {}, "roots/list", "internal error")
        (reply,) = meeting.replies("roots/list")
        assert reply["code"] == -32603
        assert uri not in str(reply)


@pytest.mark.spec(ROOTS, "Error Handling")
@pytest.mark.spec(ROOTS, "Capabilities")
@pytest.mark.spec(ROOTS, "Implementation Guidelines")
@pytest.mark.parametrize("binding", ["memory"])
@meet
async def test_a_client_without_roots_is_not_asked(meeting: Meeting) -> None:
    """The refusal says what is missing, in the modern era with the code and the data for it."""
    frames: list[bytes] = []
    async with meeting.another(on_frame=lambda _, data: frames.append(data)) as other:
        code = -32021 if meeting.is_modern else -32600
        error = await meeting.refused(lambda: other.call_tool("where"), code)
        assert error.data == {"requiredCapabilities": {"roots": {}}}
        assert not [frame for frame in frames if b"roots/list" in frame]
        with pytest.raises(LocalProtocolError):
            await other.roots_changed()


@pytest.mark.spec(ROOTS, "Error Handling")
@meet
async def test_an_error_of_the_client_reaches_the_handler_that_asked(meeting: Meeting) -> None:
    """The modern era has nobody to tell: the call ends with what the handler raised."""
    meeting.host.places = [RequestError(-32603, "the workspace is gone")]
    if meeting.is_modern:
        await meeting.refused(lambda: meeting.client.call_tool("where"), -32603)
        assert len(meeting.requests("tools/call")) == 1
    else:
        await meeting.turned_down("where", {}, "roots/list", "the workspace is gone")
        assert meeting.replies("roots/list") == [{"code": -32603, "message": "the workspace is gone"}]


@pytest.mark.spec(ROOTS, "Security Considerations")
@pytest.mark.spec(ROOTS, "Root")
@pytest.mark.parametrize("revision", ALL)
async def test_a_server_takes_nothing_but_files_for_roots(revision: Revision) -> None:
    server, errors = Server("careful"), list[str]()

    @server.tool
    async def where(ctx: Context) -> str:
        try:
            await ctx.list_roots()
        except Exception as error:
            errors.append(str(error))
        return "done"

    async def roots(_: Any) -> dict[str, Any]:
        return {"roots": [{"uri": "file:///a"}, {"uri": "https://example.com/"}]}

    options: Any = {
        "capabilities": ClientCapabilities(roots=RootsCapability()),
        "request_handlers": {"roots/list": roots},
    }
    async with open_client(server, revision=revision, **options) as client:
        await client.call_tool("where")
    (error,) = errors
    assert "roots[1].uri" in error
