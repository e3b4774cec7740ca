"""What subscriptions keep, of whom, and which are refused; in both eras."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing
from http_raw import Events, Raw, open_raw
from http_server_fixtures import EVERY_HOST
from raw import initialize
from shared.http_server_kept_subscriptions import HOG, HONEST, SETTINGS, listen, make_server

pytestmark = pytest.mark.usefixtures("under")


async def told(events: Events) -> str:
    with trio.fail_after(10):
        return str((await events.message()).get("method", "the end"))


@EVERY_HOST
async def test_a_subscription_without_room_is_refused_and_others_go_on() -> None:
    """20 of them held 438 MiB, and nothing bounded them. Of one client they leave room for others."""
    server = make_server(max_kept_bytes=3_000_000, max_kept_bytes_per_principal=2_500_000)
    async with open_raw(server, SETTINGS) as raw, AsyncExitStack() as streams:

        async def subscribe(address: str, uri: str) -> Events | int:
            answer = await streams.enter_async_context(raw.open(listen(uri), {"X-Forwarded-For": address}))
            if answer.status != 200:
                assert b"max_kept_bytes" in await answer.read(10_000)
                return answer.status
            events = Events(answer)
            assert await told(events) == "notifications/subscriptions/acknowledged"
            return events

        hogs = [await subscribe(HOG, f"x://{n}") for n in range(12)]
        served = [events for events in hogs if not isinstance(events, int)]
        assert 3 <= len(served) < 12
        assert hogs[len(served) :] == [429] * (12 - len(served))
        honest = [await subscribe(HONEST, f"x://h{n}") for n in range(2)]
        for name in ("x://h0", "x://h1", "x://0"):
            await server.resource_updated(name)
        for events in (*honest, hogs[0]):
            assert not isinstance(events, int)
            assert await told(events) == "notifications/resources/updated"


async def test_one_client_gets_so_much_and_a_retry_after() -> None:
    """Half of max_message_bytes held for a connection, and over HTTP for nobody."""
    async with open_raw(make_server(max_message_bytes=2_000_000), SETTINGS) as raw:
        async with AsyncExitStack() as streams:
            answers = [
                await streams.enter_async_context(raw.open(listen(f"x://{n}"), {"X-Forwarded-For": HOG}))
                for n in range(6)
            ]
            statuses = [answer.status for answer in answers]
            assert statuses == sorted(statuses)
            assert (statuses[0], statuses[-1]) == (200, 429)
            refused = answers[-1]
            assert (b"retry-after", b"10") in [(name.lower(), value) for name, value in refused.headers]
            assert b"half of max_message_bytes" in await refused.read(10_000)
            other = await streams.enter_async_context(raw.open(listen("x://o"), {"X-Forwarded-For": HONEST}))
            assert other.status == 200
        await trio.testing.wait_all_tasks_blocked()
        async with raw.open(listen("x://again"), {"X-Forwarded-For": HOG}) as again:
            assert again.status == 200, "given back when they are over"


async def begin(raw: Raw, address: str) -> dict[str, str | None]:
    headers: dict[str, str | None] = {"X-Forwarded-For": address, "MCP-Protocol-Version": "2025-11-25"}
    answer = await raw.send(initialize("2025-11-25"), {"X-Forwarded-For": address})
    headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
    await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    return headers


async def test_what_sessions_are_subscribed_to_counts_against_their_client() -> None:
    """A megabyte of URIs for each of ten thousand sessions is ten gigabytes."""
    server = make_server(max_kept_bytes=4_000_000, max_kept_bytes_per_principal=1_000_000)
    async with open_raw(server, SETTINGS) as raw:
        honest = await begin(raw, HONEST)
        sessions = [await begin(raw, HOG) for _ in range(4)]

        async def subscribe(headers: dict[str, str | None], uri: str) -> int:
            request = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}}
            answer = await raw.send(request, headers)
            if answer.status == 200 and "error" in answer.message:
                assert "max_kept_bytes_per_principal" in answer.error["message"]
                return 429
            return answer.status

        statuses = [await subscribe(headers, f"x://{n}" + "u" * 6_000) for headers in sessions for n in range(12)]
        assert statuses == [200] * statuses.index(429) + [429] * (48 - statuses.index(429))
        assert await subscribe(honest, "x://mine") == 200


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_was_subscribed_to_is_given_back(era: str) -> None:
    """However often: for the next one there is as much room as ever."""
    server = make_server(max_kept_bytes=400_000, max_kept_bytes_per_principal=400_000)
    async with open_raw(server, SETTINGS) as raw:
        headers = await begin(raw, HOG)
        for n in range(60):
            if era == "modern":
                async with raw.open(listen(f"x://{n}", "x" * 20_000), {"X-Forwarded-For": HOG}) as stream:
                    assert await told(Events(stream)) == "notifications/subscriptions/acknowledged"
                await trio.testing.wait_all_tasks_blocked()
            else:
                for method in ("subscribe", "unsubscribe"):
                    params = {"uri": f"x://{n}" + "u" * 6_000}
                    request = {"jsonrpc": "2.0", "id": 1, "method": f"resources/{method}", "params": params}
                    answer = await raw.send(request, headers)
                    assert "result" in answer.message, answer
