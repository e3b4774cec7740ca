"""Roots: what users may give, and how servers learn of a change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio.testing
from eras import ENDS
from inside_client import RootList
from scripted_server import LEGACY, MODERN, ScriptedServer

from trio_mcp import LocalProtocolError, Revision, open_client
from trio_mcp.types import Root

CHANGED = "notifications/roots/list_changed"


@pytest.mark.spec("client/roots", "Root List Changes")
@pytest.mark.parametrize("revision", ENDS)
async def test_a_change_of_roots_is_notified_where_the_revision_has_it(revision: Revision) -> None:
    """Legacy: client/roots, "Root List Changes". 2026-07-28 has no such notification: servers ask when they need."""
    server = ScriptedServer(revision)
    async with open_client(server, revision=revision, roots=["file:///a"]) as client:
        with trio.testing.assert_checkpoints():
            await client.set_roots(["file:///b"])
        with trio.testing.assert_checkpoints():
            await client.roots_changed()
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.notifications(CHANGED)) == (0 if revision.is_modern else 2)
        if not revision.is_modern:
            answer = await server.ask("roots/list")
            assert answer["result"] == {"roots": [{"uri": "file:///b"}]}


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
async def test_a_client_without_roots_cannot_change_them(revision: Revision) -> None:
    """It has not declared any."""
    async with open_client(ScriptedServer(revision), revision=revision) as client:
        with pytest.raises(LocalProtocolError, match="without roots"):
            await client.set_roots(["file:///a"])


async def test_bad_roots_change_nothing() -> None:
    roots = RootList(["file:///a"])
    with pytest.raises(ValueError, match="file://"):
        roots.replace(["file:///b", "https://x.test/"])
    assert (await roots.list()).roots == (Root(uri="file:///a"),)


@pytest.mark.parametrize(
    "root",
    [
        "https://x.test/",
        "file:///a/../b",
        "file:///a/%2e%2e/b",
        "file:///a%00",
        Root(uri="x:y"),
        "file:///a\\..\\b",
    ],
)
def test_what_climbs_or_is_no_file_is_refused(root: Any) -> None:
    """2025-11-25, client/roots, "Data Types" and "Security Considerations": validate to prevent path traversal."""
    with pytest.raises(ValueError, match="a root must"):
        RootList([root])


@pytest.mark.parametrize("roots", ["file:///a", Path("/a"), 5, [5], [None]])
def test_what_is_no_root_is_refused(roots: Any) -> None:
    with pytest.raises(TypeError, match="root"):
        RootList(roots)


async def test_a_path_becomes_absolute() -> None:
    (root,) = (await RootList(["here/../there"]).list()).roots
    assert root == Root(uri=(Path(os.getcwd()) / "there").as_uri(), name="there")
    (top,) = (await RootList([os.sep]).list()).roots
    assert top == Root(uri="file:///")
