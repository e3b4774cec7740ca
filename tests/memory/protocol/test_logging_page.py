"""The page server/utilities/logging of every revision, between our client and our server."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import pytest
from meeting import LEGACY, MODERN, Meeting, meet

from trio_mcp import LocalProtocolError, Server, open_client
from trio_mcp.types import LoggingLevel

LOGGING = "server/utilities/logging"
LEVELS = get_args(LoggingLevel)
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.mark.spec(LOGGING, "Capabilities")
@meet
async def test_the_capability_is_declared(meeting: Meeting) -> None:
    assert (await meeting.client.discover()).capabilities.logging == {}


@pytest.mark.spec(LOGGING, "Log Levels")
@pytest.mark.spec(LOGGING, "Log Message Notifications")
@pytest.mark.spec(LOGGING, "Setting Log Level")
@pytest.mark.spec(LOGGING, "Requesting Log Messages")
@pytest.mark.spec(LOGGING, "Per-request log level")
@pytest.mark.spec(LOGGING, "Message Flow")
@pytest.mark.spec(LOGGING, "Implementation Considerations")
@meet
async def test_messages_of_a_severity_and_above_are_sent(meeting: Meeting, subtests: pytest.Subtests) -> None:
    for level in LEVELS:
        with subtests.test(level=level):
            meeting.begin()
            await log_from(meeting, level)


async def log_from(meeting: Meeting, level: LoggingLevel) -> None:
    """Set a level, and see what comes."""
    await meeting.client.set_log_level(level)
    await meeting.client.call_tool("log_all")
    wanted = LEVELS[LEVELS.index(level) :]
    notes = meeting.notes("notifications/message")
    assert notes == [
        {
            "level": one,
            "logger": "everything",
            "data": {"level": one, "details": {"host": "localhost"}},
        }
        for one in wanted
    ]
    await meeting.heard(len(wanted))
    assert [one.level for one in meeting.host.logged] == list(wanted)
    if meeting.is_modern:
        assert not meeting.requests("logging/setLevel")
        assert meeting.request("tools/call")["params"]["_meta"][LOG_LEVEL] == level
    else:
        assert meeting.params("logging/setLevel") == {"level": level}
        assert meeting.result("logging/setLevel") == {}
    # All of them came before the answer to the request they belong to.
    id = meeting.request("tools/call")["id"]
    assert [m.get("method", m.get("id")) for m in meeting.received][-len(wanted) - 1 :] == [
        *["notifications/message"] * len(wanted),
        id,
    ]


@pytest.mark.spec(LOGGING, "Per-request log level")
@pytest.mark.parametrize("revision", [MODERN])
@meet
async def test_without_a_level_a_request_brings_no_messages(meeting: Meeting) -> None:
    async with meeting.another(on_log=meeting.host.logged.append, log_level=None) as other:
        await other.call_tool("log_all")
        assert not meeting.host.logged
        await other.call_tool("log_all", meta={LOG_LEVEL: "emergency"})
        await meeting.heard(1)
        assert [one.level for one in meeting.host.logged] == ["emergency"]
        await other.call_tool("log_all")
        assert len(meeting.host.logged) == 1


@pytest.mark.spec(LOGGING, "Setting Log Level")
@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("binding", ["memory"])
@meet
async def test_before_a_level_is_set_the_server_decides(meeting: Meeting) -> None:
    """2025-11-25: it MAY; ours sends what is not for debugging."""
    async with meeting.another(on_log=meeting.host.logged.append) as other:
        await other.call_tool("log_all")
        await meeting.heard(7)
    assert [one.level for one in meeting.host.logged] == list(LEVELS[1:])


@pytest.mark.spec(LOGGING, "Error Handling")
@meet
async def test_an_unknown_level_is_refused(meeting: Meeting, subtests: pytest.Subtests) -> None:
    levels: list[object] = ["verbose", 7, ""]
    for level in levels:
        with subtests.test(level=level):
            if meeting.is_modern:
                params: dict[str, Any] = {"name": "log_all", "_meta": {LOG_LEVEL: level}}
                call = partial(meeting.client.request, "tools/call", params)
            else:
                call = partial(meeting.client.request, "logging/setLevel", {"level": level})
            error = await meeting.refused(call, -32602)
            assert "level" in error.message.lower()
    assert not meeting.notes("notifications/message")
    if meeting.is_modern:
        with pytest.raises(LocalProtocolError):
            await meeting.client.request("logging/setLevel", {"level": "info"})


@pytest.mark.spec(LOGGING, "Security")
@meet
async def test_what_goes_wrong_in_the_server_is_not_in_its_messages(meeting: Meeting) -> None:
    await meeting.client.set_log_level("debug")
    await meeting.client.call_tool("fail", {"kind": "bug"})
    assert not meeting.notes("notifications/message")


@pytest.mark.spec(LOGGING, "Capabilities")
@pytest.mark.spec(LOGGING, "Implementation Considerations")
@pytest.mark.parametrize("binding", ["memory"])
@meet
async def test_a_server_without_anything_may_log_too(meeting: Meeting) -> None:
    async with open_client(Server("bare"), revision=meeting.revision) as other:
        assert (await other.discover()).capabilities.logging == {}
        await other.set_log_level("debug")
