"""How a client and a server agree on a revision, in every cell of the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio.testing
from lines import open_line
from transports import carried

from trio_mcp import CallNext, ClientOptions, Message, RequestError, Revision, Server

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


def make_server(revision: str) -> Server[Any]:
    """Make one that knows no other revision."""
    server: Server[Any] = Server("choosy", version="1.2", instructions="Say hello.", revisions=[revision])

    @server.tool
    async def hello() -> str:
        return "hello"

    return server


@carried("one revision")
async def test_a_client_that_knows_all_revisions_finds_the_one_of_its_server(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic/versioning, "Backward Compatibility"; 2025-11-25, basic/lifecycle, "Version Negotiation"."""
    async with open_line(make_server(revision), binding, revision, revision=None) as line:
        client = line.client
        assert client.revision == revision
        assert (await client.call_tool("hello")).text == "hello"
        found = await client.discover()
        assert Revision(revision) in found.supported_versions
        assert found.capabilities.tools is not None
        assert found.instructions == client.instructions == "Say hello."
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("choosy", "1.2")


@carried("one revision")
async def test_a_revision_that_the_server_does_not_know_is_answered_with_one_that_it_knows(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-11-25, basic/lifecycle, "Version Negotiation"; 2026-07-28, basic/versioning: UnsupportedProtocolVersionError."""
    refused: list[RequestError] = []
    was_said = False

    async def say_another(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        nonlocal was_said
        params = dict(message.params or {})
        if was_said or message.method not in {"initialize", "server/discover"}:
            return await call_next(message)
        was_said = True
        if message.method == "initialize":
            params["protocolVersion"] = "1999-01-01"
        else:
            params["_meta"] = {**params["_meta"], VERSION_KEY: "1999-01-01"}
        try:
            return await call_next(message.evolve(params=params))
        except RequestError as error:
            refused.append(error)
            raise

    options: ClientOptions = {"middleware": [say_another]}
    if not Revision(revision).is_modern:
        options["era"] = "legacy"
        options["revision"] = None
    async with open_line(make_server(revision), binding, revision, **options) as line:
        assert line.client.revision == revision
        if Revision(revision).is_modern:
            await line.client.ping()
        assert (await line.client.call_tool("hello")).text == "hello"
    assert was_said
    if Revision(revision).is_modern:
        (error,) = refused
        assert error.code == -32022
        assert error.data == {"supported": [revision], "requested": "1999-01-01"}
    assert "1999-01-01" in str(line.tape.sent)


@carried("handshake")
async def test_the_handshake_comes_first_and_once(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-11-25, basic/lifecycle, "Initialization": `initialize`, its answer, `notifications/initialized`."""
    async with open_line(make_server(revision), binding, revision) as line:
        await line.client.call_tool("hello")
        methods = [message.get("method") for message in line.tape.sent]
    assert methods[:3] == ["initialize", "notifications/initialized", "tools/call"]
    assert methods.count("initialize") == 1
    assert line.tape.received[0]["result"]["protocolVersion"] == revision


@carried("one revision")
async def test_a_server_that_knows_only_other_revisions_is_refused_with_both(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The error names what either side speaks, and nothing is left."""
    other = "2025-11-25" if revision != "2025-11-25" else "2025-06-18"
    with pytest.raises(Exception, match=other):  # of which kind, `tests/memory/client` says
        async with open_line(make_server(other), binding, revision):
            raise AssertionError
