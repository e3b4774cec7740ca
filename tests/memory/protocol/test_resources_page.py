"""The page server/resources of every revision, between our client and our server."""

from __future__ import annotations

import base64
import json
import logging
from functools import partial
from typing import Any

import pytest
from meeting import LEGACY, MODERN, Meeting, meet
from programs.everything import FILES, PNG

from trio_mcp import LocalProtocolError, Server, open_client
from trio_mcp.types import BlobResourceContents, TextResourceContents

RESOURCES = "server/resources"
LINES = (FILES / "readme.md").read_text()


async def listed(meeting: Meeting) -> dict[str, dict[str, Any]]:
    """Return the resources as they were listed on the wire."""
    uris = [one.uri async for one in meeting.client.list_resources()]
    assert uris
    ids = [message["id"] for message in meeting.requests("resources/list")]
    answers = [m["result"] for m in meeting.received if m.get("id") in ids and "result" in m]
    return {one["uri"]: one for answer in answers for one in answer["resources"]}


@pytest.mark.spec(RESOURCES, "Capabilities")
@meet
async def test_the_capability_is_declared(meeting: Meeting) -> None:
    capabilities = (await meeting.client.discover()).capabilities
    assert capabilities.resources is not None
    assert capabilities.resources.list_changed is True
    assert capabilities.resources.subscribe is True
    async with open_client(Server("bare"), revision=meeting.revision) as other:
        assert (await other.discover()).capabilities.resources is None
        await meeting.refused(lambda: other.read_resource("note://today"), -32601)


@pytest.mark.spec(RESOURCES, "Listing Resources")
@pytest.mark.spec(RESOURCES, "Resource")
@pytest.mark.spec(RESOURCES, "Annotations")
@pytest.mark.spec(RESOURCES, "Custom URI Schemes")
@pytest.mark.spec(RESOURCES, "Message Flow")
@meet
async def test_a_resource_is_described_as_far_as_the_revision_can(meeting: Meeting) -> None:
    found = await listed(meeting)
    annotations: dict[str, Any] = {"audience": ["user"], "priority": 0.9}
    expected: dict[str, Any] = {
        "uri": "note://today",
        "name": "today",
        "description": "What is to be done today.",
        "mimeType": "text/plain",
        "size": 6,
        "annotations": annotations,
    }
    if meeting.revision >= "2025-06-18":
        expected["title"] = "Today's note"
        annotations["lastModified"] = "2025-01-12T15:00:58Z"
    if meeting.revision >= "2025-11-25":
        icon = {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}
        expected["icons"] = [icon]
    assert found["note://today"] == expected
    assert "nextCursor" not in meeting.result("resources/list")


@pytest.mark.spec(RESOURCES, "Reading Resources")
@pytest.mark.spec(RESOURCES, "Resource Contents")
@pytest.mark.spec(RESOURCES, "Text Content")
@pytest.mark.spec(RESOURCES, "Message Flow")
@meet
async def test_text_is_read(meeting: Meeting) -> None:
    result = await meeting.client.read_resource("note://today")
    assert meeting.params("resources/read") == {"uri": "note://today"}
    contents = [{"uri": "note://today", "mimeType": "text/plain", "text": "a note"}]
    wire = meeting.result("resources/read")
    if meeting.is_modern:
        assert wire == {"contents": contents, "ttlMs": 0, "cacheScope": "private"}
    else:
        assert wire == {"contents": contents}
    assert result.contents == (TextResourceContents(uri="note://today", mime_type="text/plain", text="a note"),)


@pytest.mark.spec(RESOURCES, "Resource Contents")
@pytest.mark.spec(RESOURCES, "Binary Content")
@pytest.mark.spec(RESOURCES, "Security Considerations")
@meet
async def test_bytes_are_read_in_base64(meeting: Meeting) -> None:
    result = await meeting.client.read_resource("picture://logo", fresh=True)
    blob = base64.b64encode(PNG).decode()
    (wire,) = meeting.result("resources/read")["contents"]
    assert wire == {"uri": "picture://logo", "mimeType": "image/png", "blob": blob}
    (contents,) = result.contents
    assert isinstance(contents, BlobResourceContents)
    assert base64.b64decode(contents.blob) == PNG


@pytest.mark.spec(RESOURCES, "Reading Resources")
@meet
async def test_one_resource_may_have_several_contents(meeting: Meeting) -> None:
    result = await meeting.client.read_resource("several://parts")
    assert [one.uri for one in result.contents] == ["several://parts/1", "several://parts/2"]


@pytest.mark.spec(RESOURCES, "Reading Resources")
@meet
async def test_a_resource_may_ask_its_reader(meeting: Meeting) -> None:
    if meeting.revision < "2025-06-18":
        await meeting.refused(lambda: meeting.client.read_resource("asking://name"), -32600)
        return
    result = await meeting.client.read_resource("asking://name")
    (contents,) = result.contents
    assert isinstance(contents, TextResourceContents)
    assert contents.text == "for octocat"
    assert len(meeting.requests("resources/read")) == (2 if meeting.is_modern else 1)


@pytest.mark.spec(RESOURCES, "Resource Templates")
@pytest.mark.spec(RESOURCES, "Annotations")
@pytest.mark.spec(RESOURCES, "Message Flow")
@meet
async def test_templates_are_listed_and_their_resources_read(meeting: Meeting) -> None:
    pages = [page async for page in meeting.client.list_resource_templates(fresh=True).pages()]
    assert "shelf://{room}/{book}" in [one.uri_template for page in pages for one in page.resource_templates]
    wire = meeting.result("resources/templates/list")["resourceTemplates"]
    (shelf,) = [one for one in wire if one["name"] == "book"]
    annotations = shelf.pop("annotations")
    assert annotations["priority"] == 0.9
    title = {"title": "A book"} if meeting.revision >= "2025-06-18" else {}
    assert shelf == {
        "uriTemplate": "shelf://{room}/{book}",
        "name": "book",
        "description": "A book on a shelf.",
        "mimeType": "text/plain",
        **title,
    }
    result = await meeting.client.read_resource("shelf://attic/7", fresh=True)
    assert result.contents == (
        TextResourceContents(uri="shelf://attic/7", mime_type="text/plain", text="book 7 in the attic"),
    )


@pytest.mark.spec(RESOURCES, "List Changed Notification")
@meet
async def test_clients_are_notified_when_the_list_changes(meeting: Meeting) -> None:
    client = meeting.client
    async with client.listen(resources_list_changed=True) as events:
        await client.call_tool("change", {"kind": "resources"})
        await anext(events)
        assert len(meeting.notes("notifications/resources/list_changed")) == 1
        assert "extra://it" in await listed(meeting)
        await client.call_tool("change", {"kind": "resources"})
        await anext(events)
    assert "extra://it" not in [one.uri async for one in client.list_resources()]


@pytest.mark.spec(RESOURCES, "Subscriptions")
@pytest.mark.parametrize("revision", LEGACY)
@meet
async def test_what_does_not_exist_cannot_be_subscribed_to(meeting: Meeting) -> None:
    subscribe = {"uri": "note://never"}
    error = await meeting.refused(lambda: meeting.client.request("resources/subscribe", subscribe), -32002)
    assert error.data == subscribe


@pytest.mark.spec(RESOURCES, "https://")
@pytest.mark.spec(RESOURCES, "git://")
@pytest.mark.spec(RESOURCES, "Common URI Schemes")
@meet
async def test_well_known_schemes_are_served_like_any(meeting: Meeting) -> None:
    found = await listed(meeting)
    texts = {"https://example.com/page": "<p>also on the web</p>", "git://repository/HEAD": "0123abc"}
    for uri, text in texts.items():
        assert uri in found
        (contents,) = (await meeting.client.read_resource(uri)).contents
        assert isinstance(contents, TextResourceContents)
        assert (contents.uri, contents.text) == (uri, text)


@pytest.mark.spec(RESOURCES, "file://")
@pytest.mark.spec(RESOURCES, "Common URI Schemes")
@meet
async def test_files_are_listed_and_read(meeting: Meeting) -> None:
    found = await listed(meeting)
    assert found["file:///project/readme.md"]["mimeType"] == "text/markdown"
    assert "file:///project/.secret" not in found
    (contents,) = (await meeting.client.read_resource("file:///project/readme.md", fresh=True)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.text == LINES


# What goes wrong.


@pytest.mark.spec(RESOURCES, "Error Handling")
@pytest.mark.spec(RESOURCES, "Security Considerations")
@pytest.mark.spec(RESOURCES, "file://")
@meet
async def test_what_is_not_there_is_not_found(meeting: Meeting, subtests: pytest.Subtests) -> None:
    """The code is -32002 until 2026-07-28 made it -32602. Nothing says whether there is such a file elsewhere."""
    code = -32602 if meeting.is_modern else -32002
    for uri in (
        "note://nothing",
        "shelf://attic/100",
        "file:///project/.secret",
        "file:///project/../everything.py",
        "file:///project/%2e%2e/everything.py",
        "file:///project//etc/passwd",
        "file:///etc/passwd",
    ):
        with subtests.test(uri=uri):
            error = await meeting.refused(partial(meeting.client.read_resource, uri), code)
            assert error.data == {"uri": uri}
            assert meeting.answer("resources/read")["error"] == {
                "code": code,
                "message": "Resource not found",
                "data": {"uri": uri},
            }


@pytest.mark.spec(RESOURCES, "Security Considerations")
@meet
async def test_what_is_no_uri_is_refused(meeting: Meeting, subtests: pytest.Subtests) -> None:
    rows: list[dict[str, object]] = [{}, {"uri": 5}, {"uri": "x" * 10_000}, {"uri": "no uri"}]
    for params in rows:
        with subtests.test(params=str(params)[:20]):
            await meeting.refused(partial(meeting.client.request, "resources/read", params), -32602)


@pytest.mark.spec(RESOURCES, "Error Handling")
@meet
async def test_a_failing_resource_is_an_internal_error_that_shows_nothing(
    meeting: Meeting, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "trio_mcp"):
        await meeting.refused(lambda: meeting.client.read_resource("broken://it"), -32603)
    assert "secret" not in json.dumps(meeting.received)


@pytest.mark.spec(RESOURCES, "Error Handling")
@pytest.mark.parametrize("revision", [MODERN])
@meet
async def test_the_old_methods_of_subscribing_are_gone(meeting: Meeting) -> None:
    uri = {"uri": "note://today"}
    with pytest.raises(LocalProtocolError, match="resources/subscribe"):
        await meeting.client.request("resources/subscribe", uri)
    assert not meeting.requests("resources/subscribe")
