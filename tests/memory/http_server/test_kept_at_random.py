"""Whatever clients say and give up, in the end nothing is lent: sessions of the legacy era over HTTP, and WebSockets."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any, Final, final

import pytest
import trio
import trio.testing
from http_raw import Raw, open_raw
from raw import initialize, modern
from websocket_lines import open_websocket_line

from trio_mcp import Context, HttpServerSettings, Limits, McpError, Outgoing, PoolStatistics, Server

GREAT: Final = "x" * 120_000

TIGHT: Final = Limits(
    max_inbound_requests=3,
    max_waiting_bytes=400_000,
    max_notifications=2,
    slow_consumer_timeout=0.5,
    goodbye_timeout=0.5,
    max_kept_bytes=12 << 20,
    max_kept_bytes_per_principal=6 << 20,
)


@final
class Storm:
    """A server, and clients that do what comes to their minds."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.gate = trio.Event()
        self.server: Server[Any] = Server("storm", limits=TIGHT)

        @self.server.tool
        async def echo(text: str) -> str:
            return text

        @self.server.tool
        async def wait(text: str) -> str:
            await self.gate.wait()
            return text

        @self.server.tool
        async def tell(text: str, ctx: Context) -> str:
            for number in range(3):
                await ctx.report_progress(number)
                await trio.sleep(0.1)
            return text

        @self.server.tool
        async def ask(text: str, ctx: Context) -> str:
            await ctx.list_roots()
            return text

    def message(self, *, is_modern: bool = False) -> Any:
        """Return one message; ids are used again."""
        chance = self.chance
        id, text = chance.randrange(8), chance.choice(["t", "t" * 5_000, GREAT])
        if chance.random() < 0.6:
            tool = chance.choice(["echo", "wait", "wait", "tell", "ask", "unknown"])
            call = modern(id, "tools/call", name=tool, arguments={"text": text})
            if not is_modern:
                call["params"]["_meta"] = chance.choice([{"progressToken": 5}, {"trio-mcp/timeoutMs": 200}, {}])
            return call
        return chance.choice(
            [
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": id, "reason": text},
                },
                {"jsonrpc": "2.0", "method": "notifications/roots/list_changed", "params": {"x": text}},
                {"jsonrpc": "2.0", "id": id, "result": {"x": text}},
                {"jsonrpc": "2.0", "id": id, "method": 3, "x": text},
            ]
        )

    def open_gate(self) -> None:
        self.gate.set()
        self.gate = trio.Event()

    async def come_to_rest(self) -> None:
        for _ in range(10):
            self.gate.set()
            await trio.sleep(20)

    def lent(self) -> PoolStatistics:
        return self.server.statistics()[0]["bytes"]


async def _post(raw: Raw, message: Any, headers: dict[str, str], patience: float) -> None:
    with trio.move_on_after(patience), suppress(McpError):
        await raw.send(message, headers)


async def _listen(raw: Raw, headers: dict[str, str], patience: float) -> None:
    with trio.move_on_after(patience), suppress(McpError):
        async with raw.open(None, {**headers, "Accept": "text/event-stream"}, method="GET") as response:
            while await response.receive_some():
                pass


async def _post_anything(seed: int, settings: HttpServerSettings, revision: str) -> None:
    storm, sessions = Storm(seed), list[str]()
    chance = storm.chance
    async with open_raw(storm.server, settings) as raw, trio.open_nursery() as nursery:
        for _ in range(30):
            headers = {"MCP-Protocol-Version": revision}
            kind = chance.randrange(9)
            if not settings.stateless:
                if not sessions or kind == 0:
                    sessions.append((await raw.send(initialize(revision))).headers["mcp-session-id"])
                headers["Mcp-Session-Id"] = chance.choice(sessions)
            if kind < 6:
                has_batches = revision == "2025-03-26" and chance.random() < 0.4
                posted = (
                    [storm.message() for _ in range(chance.choice([1, 3, 8]))] if has_batches else storm.message()
                )
                nursery.start_soon(_post, raw, posted, headers, chance.choice([0, 0.05, 0.3, 100]))
            elif kind == 6:
                nursery.start_soon(_listen, raw, headers, chance.choice([0.1, 1, 5]))
            elif kind == 7:
                storm.open_gate()
            elif sessions and chance.random() < 0.4:
                await raw.send(None, headers, method="DELETE")
                sessions.remove(headers["Mcp-Session-Id"])
            await trio.sleep(chance.choice([0, 0, 0.05, 0.5]))
        await storm.come_to_rest()
        assert not {*storm.lent().of} - {"sessions", "events", "streams"}, seed
        for session in sessions:
            await raw.send(None, {"MCP-Protocol-Version": revision, "Mcp-Session-Id": session}, method="DELETE")
        await trio.sleep(1)
        assert (storm.lent().lent, storm.lent().clients) == (0, 0), seed


@pytest.mark.parametrize("stateless", [False, True])
@pytest.mark.parametrize("json_only", [False, True])
async def test_over_http(autojump_clock: trio.testing.MockClock, *, stateless: bool, json_only: bool) -> None:
    """POSTs that are left, batches, streams, and sessions that end while POSTs are open."""
    settings = HttpServerSettings(json_only=json_only, stateless=stateless, keep_alive_interval=2)
    for seed in range(8):
        await _post_anything(seed, settings, "2025-03-26" if seed % 2 else "2025-11-25")


async def _send_anything(seed: int) -> None:
    storm = Storm(seed)
    async with (
        open_websocket_line(storm.server, None, TIGHT) as (channel, endpoint),
        trio.open_nursery() as nursery,
    ):
        chance, pause = storm.chance, 0.0

        async def read() -> None:
            with suppress(McpError, trio.EndOfChannel, trio.ClosedResourceError):
                while True:
                    await channel.receive()
                    await trio.sleep(pause)

        nursery.start_soon(read)
        with suppress(McpError):
            for _ in range(40):
                pause = chance.choice([0, 0, 0.5])
                await channel.send([Outgoing(json.dumps(storm.message(is_modern=True)).encode())])
                if chance.random() < 0.3:
                    storm.open_gate()
                await trio.sleep(chance.choice([0, 0, 0.05, 0.5]))
        pause = 0
        if seed % 2:
            await storm.come_to_rest()
            assert not {*endpoint.statistics().kept["bytes"].of} - {"sessions"}, seed
        await channel.aclose()
        await trio.sleep(1)
        assert endpoint.statistics().kept["bytes"].lent == 0, seed
        nursery.cancel_scope.cancel()


async def test_over_websockets(autojump_clock: trio.testing.MockClock) -> None:
    """Every other client leaves in the middle."""
    for seed in range(16):
        await _send_anything(seed)
