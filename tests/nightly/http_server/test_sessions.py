"""Sessions of the legacy era: how they begin and end, and which stream carries what. No sockets."""

from __future__ import annotations

import pytest
import trio
from http_raw import Answer, Events, open_raw
from inside_endpoint import STREAM_TIMEOUT
from shared.http_server_sessions import ELICITING, ONLY_JSON, begin, call, chatty_server

pytestmark = pytest.mark.usefixtures("under")
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
        with trio.fail_after(STREAM_TIMEOUT + 1):
            answer = await session.send(call("try_to_ask"), Accept=accept)
        text = answer.message["result"]["content"][0]["text"]
        assert text.startswith(
            "missing: the client cannot be asked: the answer to its request is no stream (json_only)"
        )
        assert text.endswith("it has opened no other for 5 s")
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
            await trio.sleep(STREAM_TIMEOUT - 1)
            async with session.get() as response:
                question = await Events(response).message()
                await trio.sleep(2 * STREAM_TIMEOUT)
                assert not answers, "the user has all the time there is"
                result = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
                await session.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert answers[0].message["result"]["content"][0]["text"] == "hi"
