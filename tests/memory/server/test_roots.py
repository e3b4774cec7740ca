"""Asking the client for its roots, end to end. Spec: client/roots of all revisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from asked import ABLE, AskedClient, FakeAsker, ask_in_tool
from eras import ENDS, LEGACY_ENDS
from inside_server import AskableClient, list_roots

from trio_mcp import CapabilityMissing, RemoteProtocolError, RequestError, Revision
from trio_mcp.types import ClientCapabilities, ListRootsRequestParams, Root

ROOTS = {"roots": [{"uri": "file:///home/a/project", "name": "Project"}, {"uri": "file:///srv"}]}


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_roots_are_listed(revision: Revision) -> None:
    """client/roots, "Listing Roots"; the first revision has them already."""
    client = AskedClient(ROOTS)
    roots = await ask_in_tool(client, revision, lambda ctx: ctx.list_roots())
    assert roots == (Root(uri="file:///home/a/project", name="Project"), Root(uri="file:///srv"))
    assert client.questions == [{}]


async def test_the_modern_era_is_asked_the_same() -> None:
    """2026-07-28, client/roots; the way is another's business."""
    asker = FakeAsker(ROOTS)
    assert len(await list_roots(AskableClient(Revision.V2026_07_28, ABLE, asker))) == 2
    assert asker.asked == [("roots/list", ListRootsRequestParams())]


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_client_may_have_no_roots_at_the_moment(revision: Revision) -> None:
    """An empty list is one."""
    assert await ask_in_tool(AskedClient({"roots": []}), revision, lambda ctx: ctx.list_roots()) == ()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_invalid_roots_are_the_clients_fault(subtests: pytest.Subtests, revision: Revision) -> None:
    """client/roots, "Root": a root must be a file URI."""

    async def check(answer: Mapping[str, Any], words: str) -> None:
        with pytest.raises(RemoteProtocolError, match=words):
            await ask_in_tool(AskedClient(answer), revision, lambda ctx: ctx.list_roots())

    rows: list[tuple[Mapping[str, Any], str]] = [
        ({}, "roots"),
        ({"roots": {}}, "roots"),
        ({"roots": [{"name": "x"}]}, r"roots\[0\].uri"),
        ({"roots": [{"uri": "file:///x"}, {"uri": 5}]}, r"roots\[1\].uri"),
        ({"roots": [{"uri": "file:///x"}, {"uri": "https://x/"}]}, r"roots\[1\].uri: must begin with file://"),
        ({"roots": [{"uri": "file://[::1/x"}]}, r"cannot be used: roots\[0\].uri: must be a URI"),
        ({"roots": [{"uri": "file://host/x"}]}, r"cannot be used: roots\[0\].uri: must be on this machine"),
        ({"roots": [{"uri": "file:///a%00b"}]}, r"cannot be used: roots\[0\].uri: must have a path, without NUL"),
        ({"roots": [{"uri": "file://"}]}, r"cannot be used: roots\[0\].uri: must have a path"),
    ]
    for answer, words in rows:
        with subtests.test(answer=answer, words=words):
            await check(answer, words)


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_an_error_of_the_client_is_raised_as_it_is(revision: Revision) -> None:
    """client/roots, "Error Handling"."""
    with pytest.raises(RequestError) as caught:
        await ask_in_tool(AskedClient(RequestError(-32601, "none")), revision, lambda ctx: ctx.list_roots())
    assert caught.value.code == -32601


@pytest.mark.parametrize("revision", ENDS)
async def test_a_client_without_roots_is_not_asked(revision: Revision) -> None:
    """client/roots, "Capabilities"; from 2026-07-28 on the error says what is missing."""
    client = AskedClient(ROOTS, capabilities=ClientCapabilities())
    with pytest.raises(CapabilityMissing, match="has not declared roots") as caught:
        await ask_in_tool(client, revision, lambda ctx: ctx.list_roots())
    assert client.questions == []
    assert caught.value.data == {"requiredCapabilities": {"roots": {}}}
    assert caught.value.code == (-32021 if revision.is_modern else -32600)
