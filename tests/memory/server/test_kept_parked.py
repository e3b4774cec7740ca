"""What parked handlers keep, of whom, and which are ended (2026-07-28, basic/patterns/mrtr)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import call_tool
from shared.server_kept_parked import CAPABLE, HOG, HONEST, Asking, asking, is_parked

REFUSED = "requestState is not valid for this request, or not any more"


async def test_the_handler_that_is_parked_for_longest_is_ended_for_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whose ever it is; who parks too many is refused before."""
    caplog.set_level(logging.INFO, "trio_mcp.server")
    async with asking(max_parked=100) as (server, ended):
        hogs = [await server.ask(HOG) for _ in range(12)]
        assert [is_parked(answer) for answer in hogs] == [True] * 10 + [False] * 2
        assert "a tenth of max_parked is 10" in hogs[-1]["error"]["message"]
        assert all([is_parked(await server.ask(f"203.0.113.{number}")) for number in range(10, 100)])
        more = [await server.ask(HONEST) for _ in range(3)]
        assert all(map(is_parked, more))
        await trio.testing.wait_all_tasks_blocked()
        assert ended == ["cancelled"] * 3, "of those that were parked; the others have heard of their refusal"
        for n in range(3):
            assert (await server.go_on(HOG, hogs[n]["result"]))["error"]["message"] == REFUSED
        for address, required in ((HOG, hogs[3]["result"]), (HONEST, more[0]["result"])):
            assert (await server.go_on(address, required))["result"]["content"][0]["text"] == "Hello, Ada"
    assert any("gives way" in record.message and HOG in record.message for record in caplog.records)


async def test_an_anonymous_client_has_a_bound_of_its_own() -> None:
    """A tenth of max_parked holds for an address where nobody authenticates."""
    async with asking(max_parked=20) as (server, _):
        answers = [await server.ask(HOG) for _ in range(3)]
        assert [is_parked(answer) for answer in answers] == [True, True, False]
        assert "a tenth of max_parked is 2" in answers[2]["error"]["message"]
        assert is_parked(await server.ask(HONEST))


@pytest.mark.parametrize("where", ["arguments", "_meta"])
async def test_what_a_parked_handler_was_sent_counts(where: str) -> None:
    """Arguments and `_meta` were kept whole, and counted as one."""
    padding: list[Any] = [[] for _ in range(20_000)]  # 60 KB of JSON, which are 2 MB of lists

    async def ask(server: Asking, address: str) -> dict[str, Any]:
        if where == "_meta":
            return await server.ask(address, {"example.com/padding": padding})
        return await server.ask(address, padding=padding)

    async with asking(max_kept_bytes=32 << 20, max_kept_bytes_per_principal=12 << 20) as (server, _):
        hogs = [await ask(server, HOG) for _ in range(10)]
        assert 2 <= sum(map(is_parked, hogs)) <= 6
        assert "max_kept_bytes_per_principal" in hogs[-1]["error"]["message"]
        honest = await ask(server, HONEST)
        assert is_parked(honest)
        more = {"padding": padding} if where == "arguments" else {}
        answer = await server.go_on(HONEST, honest["result"], **more)
        assert answer["result"]["content"][0]["text"] == "Hello, Ada"


async def test_what_is_said_meanwhile_is_bounded_in_bytes(caplog: pytest.LogCaptureFixture) -> None:
    """It was bounded by number alone: a thousand of 16 MiB for each handler."""
    async with asking() as (server, _):
        meta = {"io.modelcontextprotocol/logLevel": "info"}
        required = (await server.ask(HONEST, meta, says=20, size=150_000))["result"]
        await trio.testing.wait_all_tasks_blocked(0.01)
        request = call_tool("greet", _meta={**CAPABLE["_meta"], **meta}, greeting="Hello", says=20, size=150_000)
        answers = {key: {"action": "accept", "content": {"name": "Ada"}} for key in required["inputRequests"]}
        request["params"] |= {"requestState": required["requestState"], "inputResponses": answers}
        answer = await server.raw.send(request, {"X-Forwarded-For": HONEST})
        said = [message for message in answer.messages if message.get("method") == "notifications/message"]
        assert 5 <= len(said) <= 7, "the last ones"
        assert f"{20 - len(said)} notifications" in caplog.text
        assert "of 1048576 bytes together" in caplog.text
