"""The page server/discover of 2026-07-28, between our client and our server."""

from __future__ import annotations

import pytest
import trio
from meeting import ALL, LEGACY, MODERN, Meeting, meet
from scripted_server import ScriptedServer
from talking import connect, request

from trio_mcp import Revision, Server, open_client

DISCOVER = "server/discover"


@pytest.mark.spec(DISCOVER, "Request")
@pytest.mark.spec(DISCOVER, "Response")
@pytest.mark.spec(DISCOVER, "DiscoverResult")
@pytest.mark.spec("server/utilities/caching", "Cacheable Results")
@pytest.mark.parametrize("revision", [MODERN])
@meet
async def test_a_server_says_what_it_is(meeting: Meeting) -> None:
    result = await meeting.client.discover(fresh=True)
    assert meeting.params("server/discover") == {}
    meta = meeting.request("server/discover")["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "trio-mcp"
    wire = meeting.answer("server/discover")["result"]
    info = wire.pop("_meta")["io.modelcontextprotocol/serverInfo"]
    assert (info["name"], info["version"], info["title"]) == ("everything", "1.2.3", "Everything")
    assert wire == {
        "resultType": "complete",
        "supportedVersions": [str(one) for one in reversed(ALL)],
        "capabilities": {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "completions": {},
            "logging": {},
        },
        "instructions": "Try everything.",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    assert result.supported_versions[0] == "2026-07-28"
    assert result.instructions == "Try everything."


@pytest.mark.spec(DISCOVER, "When to Call")
@meet
async def test_in_every_revision_a_client_learns_the_same(meeting: Meeting) -> None:
    """In the legacy era from the handshake."""
    result = await meeting.client.discover()
    assert result.instructions == "Try everything."
    assert result.capabilities.tools is not None
    info = meeting.client.server_info
    assert info is not None
    assert (info.name, info.version) == ("everything", "1.2.3")
    assert bool(meeting.requests("server/discover")) is meeting.is_modern


@pytest.mark.spec(DISCOVER, "When to Call", revisions=str(MODERN))
@pytest.mark.parametrize("spoken", ALL)
async def test_discovery_finds_out_which_era_a_server_is_of(spoken: Revision) -> None:
    """Over stdio it comes first, and a server that does not know it is asked for the handshake."""
    server = ScriptedServer(spoken)
    async with open_client(server) as client:
        assert client.revision == spoken
    assert server.sent[0]["method"] == "server/discover"
    assert bool(server.requests("initialize")) is (spoken in LEGACY)


@pytest.mark.spec(DISCOVER, "When to Call", revisions=str(MODERN))
@pytest.mark.spec(DISCOVER, "Request", revisions=str(MODERN))
async def test_an_unknown_version_is_refused_with_those_that_are_known() -> None:
    async with trio.open_nursery() as nursery:
        talk = await connect(nursery, Server("modern"))
        asked = request("q", "server/discover", MODERN)
        asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1999-01-01"
        (answer,) = await talk.say(asked)
        nursery.cancel_scope.cancel()
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"]["requested"] == "1999-01-01"
    assert "2026-07-28" in answer["error"]["data"]["supported"]
