"""Sessions of the legacy era: how they begin and end, and which stream carries what. No sockets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from http_raw import Answer, Events, Raw, open_raw
from inside_http import HttpResponse
from raw import initialize

from trio_mcp import (
    CapabilityMissing,
    Context,
    HttpServerSettings,
    Limits,
    Server,
)

pytestmark = pytest.mark.usefixtures("under")
ELICITING: dict[str, Any] = {"elicitation": {}, "sampling": {}}


def make_server(log: list[str] | None = None, **options: Any) -> Server[Any]:
    said = [] if log is None else log
    server: Server[Any] = Server("sessions", **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def steps(ctx: Context, wait: float = 0) -> str:
        async with ctx.progress(total=3) as progress:
            for _ in range(3):
                await progress.advance()
                await trio.sleep(wait)
        return "done"

    @server.tool
    async def hang() -> str:
        said.append("began")
        try:
            await trio.sleep_forever()
        finally:
            said.append("ended")
        raise AssertionError

    @server.tool
    async def ask(ctx: Context) -> str:
        result = await ctx.sample("what?", max_tokens=5)
        return f"said {result.text}"

    @server.tool
    async def later(ctx: Context) -> str:
        await ctx.release_connection(retry_after=0.5)
        await trio.sleep(10)
        return "fetched"

    @server.resource("x://watched")
    async def watched() -> str:
        return "w"

    return server


def call(name: str, id: int | str = 1, token: object = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


class Session:
    """One session, as a client by hand has it."""

    def __init__(self, raw: Raw, id: str, revision: str) -> None:
        self.raw = raw
        self.headers: dict[str, str | None] = {"Mcp-Session-Id": id, "MCP-Protocol-Version": revision}

    async def send(self, message: Any, **headers: str | None) -> Answer:
        return await self.raw.send(message, {**self.headers, **headers})

    @asynccontextmanager
    async def post(self, message: Any) -> AsyncGenerator[HttpResponse]:
        async with self.raw.open(message, self.headers) as response:
            yield response

    @asynccontextmanager
    async def get(self, last_event_id: str | None = None) -> AsyncGenerator[HttpResponse]:
        headers = {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": last_event_id}
        async with self.raw.open(None, headers, method="GET") as response:
            yield response

    async def note(self, method: str, **params: Any) -> int:
        return (await self.send({"jsonrpc": "2.0", "method": method, "params": params})).status

    async def delete(self) -> int:
        return (await self.raw.send(None, self.headers, method="DELETE")).status


async def begin(
    raw: Raw,
    revision: str = "2025-11-25",
    headers: Mapping[str, str] | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> Session:
    message = initialize(revision)
    message["params"]["capabilities"] = dict(capabilities or {})
    answer = await raw.send(message, headers)
    assert answer.status == 200, answer
    assert answer.message["result"]["protocolVersion"] == revision
    session = Session(raw, answer.headers["mcp-session-id"], revision)
    session.headers.update(headers or {})
    assert await session.note("notifications/initialized") == 202
    return session


# What nobody reads.


def chatty_server(**options: Any) -> Server[Any]:
    server = make_server(limits=Limits(max_outbox_bytes=10_000), **options)

    @server.tool
    async def chat(ctx: Context) -> str:
        for number in range(100):
            await ctx.info(f"{number} " + "x" * 1_000)
        return "said it"

    @server.tool
    async def try_to_ask(ctx: Context) -> str:
        try:
            return (await ctx.sample("what?", max_tokens=5)).text
        except CapabilityMissing as error:
            return f"missing: {error.message}"

    return server


ONLY_JSON = HttpServerSettings(json_only=True)
ACCEPTS = pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])


@ACCEPTS
async def test_messages_that_are_not_read_hold_up_no_handler(accept: str, autojump_clock: object) -> None:
    """A client that opens no GET need not hear what is logged and reported, and must get its answers."""
    async with open_raw(chatty_server(), ONLY_JSON) as raw:
        session = await begin(raw)
        with trio.fail_after(60):
            for id in range(3):
                answer = await session.send(call("chat", id), Accept=accept)
                assert answer.message["result"]["content"][0]["text"] == "said it"
        async with session.get() as response:
            events = Events(response)
            numbers = [int((await events.message())["params"]["data"].split()[0]) for _ in range(9)]
            assert numbers == list(range(91, 100)), "the newest are there for who comes all the same"


@ACCEPTS
async def test_a_handler_gets_an_error_if_its_client_cannot_be_asked(accept: str, autojump_clock: object) -> None:
    """Without a stream to its client, and without one that comes in time; it may do without, or its caller is told."""
    async with open_raw(chatty_server(), ONLY_JSON) as raw:
        session = await begin(raw, capabilities=ELICITING)
        with trio.fail_after(ONLY_JSON.stream_timeout + 1):
            answer = await session.send(call("try_to_ask"), Accept=accept)
        text = answer.message["result"]["content"][0]["text"]
        assert text.startswith(
            "missing: the client cannot be asked: the answer to its request is no stream (json_only)"
        )
        assert "stream_timeout" in text
        answer = await session.send(call("ask", 2), Accept=accept)
        assert answer.message["result"]["isError"]
        assert "cannot be asked" in answer.message["result"]["content"][0]["text"]
        async with session.get() as response:
            events = Events(response)
            await session.note("notifications/cancelled", requestId="none")
            with trio.move_on_after(3):
                raise AssertionError(await events.message())  # what nobody waits for any more is not asked


@ACCEPTS
async def test_a_question_waits_for_a_stream_that_comes_a_little_later(
    accept: str, autojump_clock: object
) -> None:
    """2025-11-25, "Listening for Messages from the Server": the client may open it whenever it likes."""
    async with open_raw(chatty_server(), ONLY_JSON) as raw:
        session = await begin(raw, capabilities=ELICITING)
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await session.send(call("try_to_ask"), Accept=accept))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(ONLY_JSON.stream_timeout - 1)
            async with session.get() as response:
                question = await Events(response).message()
                await trio.sleep(2 * ONLY_JSON.stream_timeout)
                assert not answers, "the user has all the time there is"
                result = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
                await session.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert answers[0].message["result"]["content"][0]["text"] == "hi"
