"""What a client remembers of its server is bounded in memory, however much the server says."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from inside_client import KnownElicitations, OutputChecks
from scripted import ScriptedServer, open_scripted
from wires import ScriptedChannel, answer

from trio_mcp import Limits, RemoteProtocolError, Revision, open_client
from trio_mcp.types import CallToolResult, ElicitRequestURLParams, Tool

MODERN = Revision.V2026_07_28
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}}


def tool(name: str, padding: int = 0) -> Tool:
    return Tool(name=name, input_schema={"type": "object"}, output_schema={**POINT, "description": "x" * padding})


def result(x: object) -> CallToolResult:
    return CallToolResult(content=(), structured_content={"x": x})


def breaks(outputs: OutputChecks, name: str) -> bool:
    """Whether it is known what a tool has promised."""
    try:
        outputs.check(name, result("no integer"))
    except RemoteProtocolError:
        return True
    return False


def test_the_schemas_listed_longest_ago_are_forgotten_first() -> None:
    """MAX_OUTPUTS_BYTES: their number says little about what they take."""
    outputs = OutputChecks(1_000, 100_000, 200_000)
    outputs.learn([tool(f"t{n}", 30_000) for n in range(5)], MODERN, outputs.stamp)
    assert [breaks(outputs, f"t{n}") for n in range(5)] == [False, False, True, True, True]
    outputs.learn([tool("t2")], MODERN, outputs.stamp)  # is smaller now, and the latest
    outputs.learn([tool("t5", 30_000)], MODERN, outputs.stamp)
    assert [breaks(outputs, f"t{n}") for n in range(6)] == [False, False, True, True, True, True]
    outputs.learn([tool("t6", 30_000)], MODERN, outputs.stamp)
    assert [breaks(outputs, f"t{n}") for n in range(7)] == [False, False, True, False, True, True, True]
    outputs.forget()
    outputs.learn([tool(f"t{n}", 30_000) for n in range(3)], MODERN, outputs.stamp)
    assert all(breaks(outputs, f"t{n}") for n in range(3))


def test_schemas_are_compiled_again_when_they_are_needed() -> None:
    """MAX_OUTPUTS_BYTES: only some stay compiled, and all are checked."""
    outputs = OutputChecks(1_000, 100_000, 80_000)
    outputs.learn([tool(f"t{n}") for n in range(10)], MODERN, outputs.stamp)
    for _ in range(3):
        for n in range(10):
            assert breaks(outputs, f"t{n}")
            outputs.check(f"t{n}", result(1))


def test_a_schema_far_too_large_is_not_even_kept(caplog: pytest.LogCaptureFixture) -> None:
    """MAX_SCHEMA_BYTES: it checks nothing, which is logged once."""
    outputs = OutputChecks(1_000, 1_000, 1_000_000)
    outputs.learn([tool("t", 100_000)], MODERN, outputs.stamp)
    for _ in range(2):
        outputs.check("t", result("no integer"))
    assert caplog.text.count("larger than 1000 bytes") == 1


def test_long_ids_of_elicitations_push_out_others() -> None:
    """MAX_ELICITATION_BYTES: a server writes the ids of its elicitations."""
    known = KnownElicitations(10, 100_000)

    def ask(id: str) -> None:
        known.add(ElicitRequestURLParams(message="m", url="https://a.example/", elicitation_id=id))

    for id in ("a", "b", "b", "x" * 20_000, "y" * 20_000, "c"):
        ask(id)
    assert [known.finish(id) for id in ("a", "b", "x" * 20_000, "y" * 20_000, "c", "c")] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]
    ask("z" * 100_000)
    assert not known.finish("z" * 100_000)
    for number in range(11):
        ask(str(number))
    assert [known.finish(str(number)) for number in range(11)] == [False, *[True] * 10]


@pytest.mark.parametrize("revision", [Revision.V2025_11_25, MODERN])
async def test_a_server_may_not_say_too_much_of_itself(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """MAX_DESCRIPTION_BYTES: instructions are kept for as long as the connection lasts."""
    instructions = ""

    def react(message: dict[str, Any]) -> object:
        if message.get("method") == "initialize" and not revision.is_modern:
            said: dict[str, Any] = {"protocolVersion": revision, "serverInfo": {"name": "s", "version": "1"}}
        elif message.get("method") == "server/discover" and revision.is_modern:
            said = {
                "supportedVersions": [revision],
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
            }
        else:
            return None
        return answer(message, {**said, "capabilities": {}, "instructions": instructions})

    instructions = "x" * 4_200_000 + "\N{GRINNING FACE}"
    with pytest.raises(RemoteProtocolError, match="instructions take more than 16777216 bytes in memory"):
        async with open_client(ScriptedChannel(react), revision=revision):
            raise AssertionError("the server was remembered")
    instructions = "x" * 30_000
    async with open_client(ScriptedChannel(react), revision=revision) as client:
        assert client.instructions == "x" * 30_000


async def test_a_list_that_is_too_large_is_not_gathered(autojump_clock: trio.testing.MockClock) -> None:
    """8 times max_message_bytes: each page may be as large as a message; who reads them one by one keeps none."""

    def lists(_: ScriptedServer, message: dict[str, Any]) -> object:
        if message["method"] != "resources/list":
            return None
        page = int(message["params"].get("cursor", 0))
        said: dict[str, Any] = {"resources": [{"name": "r", "uri": f"a:{page}", "description": "x" * 20_000}]}
        if page < 20:
            said["nextCursor"] = str(page + 1)
        return answer(message, {**said, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"})

    async with open_scripted(ScriptedServer(MODERN, lists), limits=Limits(max_message_bytes=25_000)) as client:
        for _ in range(2):  # the second time most of it is kept
            with pytest.raises(RemoteProtocolError, match=r"resources/list: .*8 times max_message_bytes"):
                await client.list_resources()
        assert len([one async for one in client.list_resources()]) == 21
        listed = client.list_resources()
        for _ in range(15):
            await anext(listed)
        assert len(await listed) == 6, "what was read before is not gathered"
