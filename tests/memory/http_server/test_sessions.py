"""Sessions of the legacy era: how they begin and end, and which stream carries what. No sockets."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from http_hosted import Hosted
from http_raw import Answer, Events, Raw, call_tool, open_raw
from http_server_fixtures import EVERY_HOST
from inside_endpoint import STREAM_TIMEOUT, _host
from inside_http import parse_target
from living import objects_of_ours
from raw import initialize
from shared.http_server_sessions import ELICITING, ONLY_JSON, Session, begin, call, chatty_server, make_server

from trio_mcp import (
    CapabilityMissing,
    Context,
    EndpointStatistics,
    HttpCall,
    HttpServerSettings,
    Limits,
    MemoryEventStore,
    Server,
    StoredEvent,
    open_endpoint,
)

pytestmark = pytest.mark.usefixtures("under")

SESSION_REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
ARRIVAL = "_endpoint._session_channel._Arrival"


@pytest.mark.spec("basic/transports", "Session Management", revisions=SESSION_REVISIONS)
@pytest.mark.spec("basic/transports", "Sequence Diagram", revisions=SESSION_REVISIONS)
async def test_a_session_from_its_beginning_to_its_end(subtests: pytest.Subtests) -> None:
    """2025-11-25, basic/transports, "Session Management"."""
    for revision in SESSION_REVISIONS:
        with subtests.test(revision=revision):
            await live_through_a_session(revision)


async def live_through_a_session(revision: str) -> None:
    """Begin a session, use it, end it, and try to use it further."""
    async with open_raw(make_server()) as raw:
        session = await begin(raw, revision)
        other = await begin(raw, revision)
        id = session.headers["Mcp-Session-Id"]
        assert id is not None
        assert len(id) >= 32
        assert id.isascii()
        assert id.isprintable()
        assert " " not in id
        assert id != other.headers["Mcp-Session-Id"]
        assert (await session.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})).message["result"] == {}
        answer = await session.send(call("add", a=1, b=2))
        assert (answer.is_stream, answer.message["result"]["content"][0]["text"]) == (False, "3")
        assert await session.delete() == 204
        await trio.testing.wait_all_tasks_blocked()
        for gone in (await session.send(call("add", a=1, b=2)), await session.send(None)):
            assert gone.status in (400, 404)
        assert (await session.send(call("add", a=1, b=2))).status == 404
        assert await session.delete() == 404
        assert (await other.send(call("add", a=1, b=2))).status == 200


@pytest.mark.spec("basic/transports", "Session Management", revisions=SESSION_REVISIONS)
@pytest.mark.spec("basic/transports", "Protocol Version Header", revisions=SESSION_REVISIONS)
async def test_what_belongs_to_no_session_is_refused(subtests: pytest.Subtests) -> None:
    """ "Session Management" 2 and 3, "Protocol Version Header"."""
    rows: list[tuple[dict[str, str | None], int]] = [
        ({"Mcp-Session-Id": None}, 400),
        ({"Mcp-Session-Id": "unknown"}, 404),
        ({"Mcp-Session-Id": ""}, 404),
        ({"MCP-Protocol-Version": "2099-01-01"}, 400),
        ({"MCP-Protocol-Version": None}, 200),
        ({"MCP-Protocol-Version": "2025-06-18"}, 200),
    ]
    for headers, status in rows:
        for revision in SESSION_REVISIONS:
            with subtests.test(headers=headers, status=status, revision=revision):
                async with open_raw(make_server()) as raw:
                    session = await begin(raw, revision)
                    assert (await session.send(call("add", a=1, b=2), **headers)).status == status


async def test_a_session_belongs_to_the_principal_that_began_it() -> None:
    """security_best_practices, "Session Hijacking": an id alone lets nobody in."""

    async def who(request: Any) -> str | None:
        user: str | None = request.headers.get("x-user")
        return user

    async with open_raw(make_server(), HttpServerSettings(allow_anonymous=True), authenticate=who) as raw:
        session = await begin(raw, headers={"X-User": "ann"})
        assert (await session.send(call("add", a=1, b=2))).status == 200
        for user in ("bob", None):
            assert (await session.send(call("add", a=1, b=2), **{"X-User": user})).status == 404
        session.headers["X-User"] = "bob"
        assert await session.delete() == 404


async def test_a_refused_handshake_leaves_no_session() -> None:
    """Nobody would ever end it."""
    async with open_raw(make_server(), HttpServerSettings(max_sessions=1)) as raw:
        for _ in range(3):
            bad = initialize("2025-11-25")
            del bad["params"]["clientInfo"]
            answer = await raw.send(bad)
            assert answer.error["code"] == -32602
            assert "mcp-session-id" not in answer.headers
            await trio.testing.wait_all_tasks_blocked()
        async with (await begin(raw)).get():  # one that is idle would give way
            full = await raw.send(initialize("2025-11-25"))
            assert (full.status, full.error["message"]) == (503, "1 places are kept already; max_sessions is 1")


async def test_an_idle_session_ends(autojump_clock: object) -> None:
    """A client with a request or a stream open is not idle; one without is, and its handlers are cancelled."""
    log: list[str] = []
    async with open_raw(make_server(log), HttpServerSettings(session_idle_timeout=60)) as raw:
        session, left = await begin(raw), await begin(raw)
        with trio.move_on_after(1):
            await left.send(call("hang"))
        async with session.get():
            await trio.sleep(58)
            assert log == ["began"]
            await trio.sleep(200)
        assert log == ["began", "ended"]
        assert (await left.send(call("add", a=1, b=2))).status == 404
        await trio.sleep(59)
        assert (await session.send(call("add", a=1, b=2))).status == 200
        await trio.sleep(61)
        assert (await session.send(call("add", a=1, b=2))).status == 404


async def test_a_session_that_was_ended_is_gone_although_a_handler_cleans_up(autojump_clock: object) -> None:
    """Nothing waits for the handler: not the DELETE, nor whoever uses the session afterwards."""
    server = make_server()
    cleaned_up = trio.Event()

    @server.tool
    async def clean_up_slowly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            cleaned_up.set()

    async with open_raw(server) as raw, trio.open_nursery() as nursery:
        session = await begin(raw)
        nursery.start_soon(session.send, call("clean_up_slowly"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        assert await session.delete() == 204
        await trio.testing.wait_all_tasks_blocked()
        assert (await session.send(call("add", 2, a=1, b=1))).status == 404
        assert await session.delete() == 404
        assert (trio.current_time() - began, cleaned_up.is_set()) == (0, False)
        await cleaned_up.wait()


@pytest.mark.spec("basic/transports", "Multiple Connections", revisions=SESSION_REVISIONS)
async def test_what_belongs_to_a_request_goes_to_its_stream(
    autojump_clock: object, subtests: pytest.Subtests
) -> None:
    """ "Sending Messages" 6 and "Multiple Connections": even with equal ids in two sessions at once."""
    for revision in SESSION_REVISIONS:
        with subtests.test(revision=revision):
            await call_in_two_sessions(revision)


async def call_in_two_sessions(revision: str) -> None:
    """Make two calls with the same id at once, each in a session of its own."""
    async with open_raw(make_server()) as raw:
        one, two = await begin(raw, revision), await begin(raw, revision)
        answers: dict[str, Answer] = {}

        async def run(session: Session, token: str) -> None:
            answers[token] = await session.send(call("steps", 1, token, wait=1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, one, "one")
            nursery.start_soon(run, two, "two")
    for token, answer in answers.items():
        assert answer.is_stream
        *progress, result = answer.messages
        assert [message["params"]["progressToken"] for message in progress] == [token] * 3
        assert result["result"]["content"][0]["text"] == "done"
        # Only the newest revision's clients know events without data.
        assert (answer.events[0].data == b"") == (revision == "2025-11-25")
        assert len({event.last_event_id for event in answer.events}) == len(answer.events)


async def test_an_id_that_is_in_use_is_refused_where_it_was_asked(autojump_clock: object) -> None:
    """Answers are routed by the POST that asked, not by id."""
    async with open_raw(make_server()) as raw:
        session = await begin(raw)
        answers: list[Answer] = []

        async def run() -> None:
            answers.append(await session.send(call("steps", 5, "t", wait=1)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(0.5)
            refused = await session.send(call("add", 5, a=1, b=2))
            assert refused.error["code"] == -32600
    assert answers[0].message["result"]["content"][0]["text"] == "done"


@EVERY_HOST
async def test_a_handler_asks_on_the_stream_of_its_request(autojump_clock: object) -> None:
    """The answer comes in a POST of its own, and is accepted with 202."""
    async with open_raw(make_server()) as raw:
        session = await begin(raw, capabilities=ELICITING)
        async with session.post(call("ask")) as response:
            events = Events(response)
            question = await events.message()
            assert question["method"] == "sampling/createMessage"
            result = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
            answer = await session.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
            assert (answer.status, answer.body) == (202, b"")
            assert (await events.message())["result"]["content"][0]["text"] == "said hi"
            assert await events.next() is None


@pytest.mark.parametrize("limit", ["max_requests", "max_requests_per_principal"])
async def test_what_ends_a_request_needs_no_place_among_them(limit: str, autojump_clock: object) -> None:
    """A client whose places are all taken can answer what their handlers ask, and give them up; or it would hang."""
    log: list[str] = []
    places: dict[str, Any] = {limit: 1}
    async with open_raw(make_server(log), HttpServerSettings(**places)) as raw:
        session = await begin(raw, capabilities=ELICITING)
        async with session.post(call("ask")) as response:
            events = Events(response)
            question = await events.message()
            refused = await session.send(call("add", 2, a=1, b=1))
            assert (refused.status, refused.headers["retry-after"]) == (
                503 if limit == "max_requests" else 429,
                "1",
            )
            assert limit in refused.error["message"]
            result = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
            answer = await session.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
            assert answer.status == 202
            assert (await events.message())["result"]["content"][0]["text"] == "said hi"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.send, call("hang", 3))
            await trio.testing.wait_all_tasks_blocked()
            assert await session.note("notifications/cancelled", requestId=3) == 202
        assert log == ["began", "ended"]
        assert (await session.send(call("add", 4, a=1, b=1))).status == 200


async def test_a_request_whose_client_has_left_keeps_its_place(autojump_clock: object) -> None:
    """Its handler goes on in the session, with all it keeps: or one client would have any number of them."""
    log: list[str] = []
    async with open_raw(make_server(log), HttpServerSettings(max_requests_per_principal=1)) as raw:
        session = await begin(raw)
        for id in (1, 2):
            with trio.move_on_after(1):
                await session.send(call("hang", id))
            assert (await session.send(call("add", 3, a=1, b=1))).status == 429
            assert await session.note("notifications/cancelled", requestId=id) == 202
            assert (await session.send(call("add", 4, a=1, b=1))).status == 200
        with trio.move_on_after(1):
            await session.send(call("hang", 5))
        assert (await session.send(call("add", 6, a=1, b=1))).status == 429
        assert await session.delete() == 204
        assert (await (await begin(raw)).send(call("add", 7, a=1, b=1))).status == 200
    assert log == ["began", "ended"] * 3


@asynccontextmanager
async def begun_over_sse(
    raw: Raw, revision: str
) -> AsyncGenerator[tuple[Events, Callable[[Any], Awaitable[int]]]]:
    """Open a session of HTTP+SSE and shake hands; yield its events, and what posts into it and returns the status."""
    async with raw.open(None, {"Accept": "text/event-stream"}, method="GET", path="/sse") as response:
        events = Events(response)
        endpoint = await events.next()
        assert endpoint is not None
        path = endpoint.data.decode()

        async def post(message: Any) -> int:
            return (await raw.send(message, path=path)).status

        assert await post(initialize(revision)) == 202
        await events.message()
        assert await post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        yield events, post


async def test_a_request_of_2024_keeps_its_place_until_it_is_answered(autojump_clock: object) -> None:
    """Its POST is over at once, and its handler is not; see above."""
    log: list[str] = []
    settings = HttpServerSettings(sse=True, max_requests_per_principal=1)
    async with open_raw(make_server(log), settings) as raw:
        async with begun_over_sse(raw, "2024-11-05") as (events, post):
            for id in (1, 3):
                assert await post(call("hang", id)) == 202
                assert await post(call("add", id + 1, a=1, b=1)) == 429
                cancellation = {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": id},
                }
                assert await post(cancellation) == 202
                await trio.testing.wait_all_tasks_blocked()
                assert await post(call("add", id + 1, a=1, b=1)) == 202
                assert (await events.message())["id"] == id + 1
            assert await post(call("hang", 5)) == 202
        await trio.testing.wait_all_tasks_blocked()
        assert (await (await begin(raw)).send(call("add", 6, a=1, b=1))).status == 200
    assert log == ["began", "ended"] * 3


async def test_cancellations_reach_a_session_in_which_too_much_waits(autojump_clock: object) -> None:
    """max_waiting_bytes: their POSTs are held up for a moment, not until the handlers that they cancel are done."""
    log: list[str] = []
    limits = Limits(max_inbound_requests=2, max_waiting_bytes=1_000)
    async with open_raw(make_server(log, limits=limits)) as raw:
        session = await begin(raw)
        answers: list[Answer] = []

        async def ask(message: dict[str, Any]) -> None:
            answers.append(await session.send(message))

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for id in (1, 2):
                    nursery.start_soon(ask, call("hang", id))
                await trio.testing.wait_all_tasks_blocked()
                for id in range(10, 18):
                    nursery.start_soon(ask, call("add", id, a=1, b=2))
                await trio.testing.wait_all_tasks_blocked()
                assert (log, answers) == (["began", "began"], [])
                for id in (1, 2):
                    assert await session.note("notifications/cancelled", requestId=id) == 202
        assert log == ["began", "began", "ended", "ended"]
        bodies = [answer.message for answer in answers if answer.status == 200]
        assert len(bodies) == 8
        refused = [body["error"]["message"] for body in bodies if "error" in body]
        assert 0 < len(refused) < 8
        assert all("max_waiting_bytes" in problem for problem in refused)


@EVERY_HOST
async def test_a_post_whose_client_leaves_before_it_is_taken_is_not_served(autojump_clock: object) -> None:
    """max_waiting_bytes: while reading pauses, nobody but its client can say that it is not needed any more."""
    limits = Limits(max_inbound_requests=1, max_waiting_bytes=1_000)
    server = make_server(limits=limits)
    gate, marked = trio.Event(), list[int]()

    @server.tool
    async def hold() -> None:
        await gate.wait()

    @server.tool
    async def mark(number: int) -> None:
        marked.append(number)

    async with open_raw(server) as raw, trio.open_nursery() as nursery:
        session = await begin(raw)
        nursery.start_soon(session.send, call("hold", 1))
        await trio.testing.wait_all_tasks_blocked()
        posts = [trio.CancelScope() for _ in range(8)]

        async def post(number: int) -> None:
            with posts[number]:
                await session.send(call("mark", 10 + number, number=number))

        for number in range(8):
            nursery.start_soon(post, number)
            await trio.testing.wait_all_tasks_blocked()
        posts[7].cancel()
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert marked == list(range(7))


@pytest.mark.parametrize("is_batch", [False, True])
async def test_a_cancellation_whose_client_leaves_before_it_is_taken_is_heard(
    is_batch: bool, autojump_clock: object
) -> None:
    """max_waiting_bytes: while reading pauses. Of a batch it is heard alone; who says it again has it kept once."""
    limits = Limits(max_inbound_requests=1, max_waiting_bytes=1_000, slow_consumer_timeout=5)
    server = make_server(limits=limits)
    gate, marked = trio.Event(), list[int]()

    @server.tool
    async def hold() -> None:
        await gate.wait()

    @server.tool
    async def mark(number: int) -> None:
        marked.append(number)

    def cancel(*ids: int) -> Any:
        name = "notifications/cancelled"
        notes = [{"jsonrpc": "2.0", "method": name, "params": {"requestId": id}} for id in ids]
        return [*notes, call("mark", 30, number=30)] if is_batch else notes[0]

    async with open_raw(server) as raw, trio.open_nursery() as nursery:
        session = await begin(raw, "2025-03-26" if is_batch else "2025-11-25")
        nursery.start_soon(session.send, call("hold", 1))
        await trio.testing.wait_all_tasks_blocked()
        for number in range(8):
            nursery.start_soon(session.send, call("mark", 10 + number, number=number))
            await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            for id in (11, 17, 40):
                with trio.move_on_after(0.1):
                    await session.send(cancel(id, 10_000 + id))
                    raise AssertionError
        await trio.testing.wait_all_tasks_blocked()
        assert objects_of_ours()[ARRIVAL] == 5 + 2, (
            "five requests that wait, and what cancels the two that have come"
        )
        await trio.sleep(5)
        assert marked == []
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert marked == [0, 2], "the others were refused"
        assert not objects_of_ours()[ARRIVAL]
        assert (await session.send(call("add", 11, a=1, b=1))).status == 200


@EVERY_HOST
async def test_what_belongs_to_nothing_goes_to_the_get(autojump_clock: object) -> None:
    """ "Listening for Messages from the Server"; what was said before the stream opened is not lost."""
    server = make_server()
    async with open_raw(server, HttpServerSettings(keep_alive_interval=5)) as raw:
        session = await begin(raw)
        await session.send(
            {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "x://watched"}}
        )
        await server.resource_updated("x://watched")
        await trio.testing.wait_all_tasks_blocked()
        async with session.get() as response:
            assert response.headers.get("content-type") == "text/event-stream"
            events = Events(response)
            assert (await events.message())["method"] == "notifications/resources/updated"
            server.list_changed("tools")
            assert (await events.message())["method"] == "notifications/tools/list_changed"
            await trio.sleep(7)
            server.list_changed("prompts")
            server.list_changed("tools")
            assert (await events.message())["method"] == "notifications/tools/list_changed"
            assert events.comments >= 1


@EVERY_HOST
async def test_the_newest_get_has_the_stream(autojump_clock: object) -> None:
    """A client whose connection died comes back before we know; each message goes to one of them."""
    server = make_server()
    async with open_raw(server) as raw:
        session = await begin(raw)
        async with session.get() as first:
            old = Events(first)
            async with session.get() as second:
                new = Events(second)
                assert await old.next() is None
                server.list_changed("tools")
                assert (await new.message())["method"] == "notifications/tools/list_changed"


async def test_a_cancelled_request_is_answered_by_http_alone(autojump_clock: object) -> None:
    """2025-11-25, basic/utilities/cancellation: no response is sent; its POST ends all the same."""
    log: list[str] = []
    async with open_raw(make_server(log)) as raw:
        session = await begin(raw)
        answers: list[Answer] = []

        async def run() -> None:
            answers.append(await session.send(call("hang", 9)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            assert await session.note("notifications/cancelled", requestId=9) == 202
        assert (answers[0].status, answers[0].body) == (202, b"")
        assert log == ["began", "ended"]
        assert (await session.send(call("add", 9, a=1, b=1))).status == 200


@EVERY_HOST
async def test_a_handler_is_cancelled_before_anything_is_said_of_it(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the POST that cancels nor the one that is cancelled is answered first; an answer takes a while."""
    log: list[str] = []
    respond = HttpCall.respond

    async def logged(call: HttpCall, status: int, *args: Any, **options: Any) -> None:
        log.append(str(status))
        await respond(call, status, *args, **options)

    async with open_raw(make_server(log)) as raw:
        session = await begin(raw)
        monkeypatch.setattr(HttpCall, "respond", logged)
        for _ in range(20):  # in any order in which a turn of the event loop runs its tasks
            log.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(session.send, call("hang", 9)))
                await trio.testing.wait_all_tasks_blocked()
                assert await session.note("notifications/cancelled", requestId=9) == 202
            assert log[:2] == ["began", "ended"]
            assert len(log) == 4


async def test_a_cancellation_may_overtake_its_request(autojump_clock: object) -> None:
    """Each has a POST of its own: what was given up before it came is not begun, and is answered by HTTP alone."""
    log: list[str] = []
    async with open_raw(make_server(log)) as raw:
        session = await begin(raw)
        for id in (9, "nine"):
            assert await session.note("notifications/cancelled", requestId=id) == 202
            answer = await session.send(call("hang", id))
            assert (answer.status, answer.body) == (202, b"")
        assert not log
        assert (await session.send(call("add", 9, a=1, b=1))).status == 200


async def test_a_cancellation_that_comes_too_late_cancels_no_other_request(autojump_clock: object) -> None:
    """Neither one to what was answered, even if its id is used again, nor one whose request never came."""
    async with open_raw(make_server()) as raw:
        session = await begin(raw)
        for _ in range(2):
            assert (await session.send(call("add", 9, a=1, b=1))).status == 200
            assert await session.note("notifications/cancelled", requestId=9) == 202
        assert (await session.send(call("add", 9, a=1, b=1))).status == 200
        assert await session.note("notifications/cancelled", requestId=10) == 202
        await trio.sleep(30)
        assert (await session.send(call("add", 10, a=1, b=1))).status == 200


async def test_a_cancellation_may_overtake_a_part_of_a_batch() -> None:
    """The others are answered."""
    batch = [call("add", 1, a=1, b=2), {"jsonrpc": "2.0", "id": "two", "method": "ping"}]
    async with open_raw(make_server()) as raw:
        session = await begin(raw, "2025-03-26")
        assert await session.note("notifications/cancelled", requestId="two") == 202
        answer = await session.send(batch)
        assert [one["id"] for one in json.loads(answer.body)] == [1]


@EVERY_HOST
async def test_a_disconnect_cancels_nothing(autojump_clock: object) -> None:
    """ "Disconnection SHOULD NOT be interpreted as the client cancelling its request"."""
    log: list[str] = []
    async with open_raw(make_server(log)) as raw:
        session = await begin(raw)
        with trio.move_on_after(1):
            await session.send(call("hang"))
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["began"]
        assert await session.delete() == 204
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["began", "ended"]


@pytest.mark.parametrize("json_only", [True, False])
async def test_a_request_whose_session_ends_meanwhile_is_not_said_to_be_unknown(
    json_only: bool, autojump_clock: object
) -> None:
    """404 would tell its client that nothing was done, and the client would ask again: it would be done twice."""
    log: list[str] = []
    async with open_raw(make_server(log), HttpServerSettings(json_only=json_only)) as raw:
        session = await begin(raw)
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await session.send(call("hang")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert log == ["began"]
            assert await session.delete() == 204
        (answer,) = answers
        assert answer.status == 503
        assert json.loads(answer.body)["error"] == {
            "code": -31002,
            "message": "the session ended before the request was done",
        }
        assert (await session.send(call("add", a=1, b=1))).status == 404, "of this one nothing was done"


async def test_batches_are_answered_as_one() -> None:
    """2025-03-26, basic, "Batching"; no other revision has them."""
    batch = [
        call("add", 1, a=1, b=2),
        {"jsonrpc": "2.0", "method": "notifications/x"},
        {"jsonrpc": "2.0", "id": "two", "method": "ping"},
    ]
    async with open_raw(make_server()) as raw:
        session = await begin(raw, "2025-03-26")
        answer = await session.send(batch)
        assert answer.status == 200
        by_id = {one["id"]: one for one in json.loads(answer.body)}
        assert by_id[1]["result"]["content"][0]["text"] == "3"
        assert by_id["two"]["result"] == {}
        quiet = await session.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
        assert (quiet.status, quiet.body) == (202, b"")
        for bad in ([], [1], [{"jsonrpc": "2.0", "id": 1}]):
            assert (await session.send(bad)).status == 400
        newer = await begin(raw, "2025-06-18")
        assert (await newer.send(batch)).status == 400
        unsaid = await newer.send(batch, **{"MCP-Protocol-Version": None})
        assert unsaid.status == 400


async def test_a_part_of_a_batch_is_cancelled_and_the_rest_is_answered(autojump_clock: object) -> None:
    """2025-03-26: the POST ends with the answers that there are."""
    log: list[str] = []
    server = make_server(log)
    gate = trio.Event()

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "waited"

    async with open_raw(server) as raw, trio.open_nursery() as nursery:
        session = await begin(raw, "2025-03-26")
        answers: list[Answer] = []

        async def post() -> None:
            answers.append(await session.send([call("hang", 1), call("wait", 2)]))

        nursery.start_soon(post)
        await trio.testing.wait_all_tasks_blocked()
        assert await session.note("notifications/cancelled", requestId=1) == 202
        await trio.testing.wait_all_tasks_blocked()
        assert (log, answers) == (["began", "ended"], [])
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        (one,) = json.loads(answers[0].body)
        assert (one["id"], one["result"]["content"][0]["text"]) == (2, "waited")


@pytest.mark.parametrize("stateless", [False, True])
async def test_a_modern_request_in_a_batch_does_not_pass_the_check_of_its_header_fields(
    *, stateless: bool
) -> None:
    """Its POST must hold it alone: a proxy that routes by `Mcp-Method` and `Mcp-Name` would be passed by."""
    called: list[str] = []
    server = make_server()

    @server.tool
    async def secret() -> str:
        called.append("secret")
        return "told"

    harmless = {"jsonrpc": "2.0", "id": "one", "method": "ping"}
    async with open_raw(server, HttpServerSettings(stateless=stateless)) as raw:
        headers: dict[str, str | None] = {"MCP-Protocol-Version": "2025-03-26"}
        if not stateless:
            headers = {**(await begin(raw, "2025-03-26")).headers}
        notice = {"jsonrpc": "2.0", "method": "x/y", "params": {"_meta": call_tool("x")["params"]["_meta"]}}
        for batch in ([harmless, call_tool("secret")], [call_tool("secret"), harmless], [harmless, notice]):
            for fields in (headers, {**headers, "Mcp-Method": "ping"}):
                answer = await raw.send(batch, fields)
                assert (answer.status, answer.error["code"]) == (400, -32600)
        assert (await raw.send([harmless], headers)).status == 200
    assert called == []


async def test_a_modern_request_to_a_session_of_2024_does_not_pass_that_check() -> None:
    """Nor by the other door."""
    async with (
        open_raw(make_server(), HttpServerSettings(sse=True)) as raw,
        raw.open(None, {"Accept": "text/event-stream"}, method="GET", path="/sse") as response,
    ):
        endpoint = await Events(response).next()
        assert endpoint is not None
        path = endpoint.data.decode()
        assert (await raw.send(initialize("2024-11-05"), path=path)).status == 202
        answer = await raw.send(call_tool("add", a=1, b=1), {"Mcp-Name": "other"}, path=path)
        assert (answer.status, answer.error["code"]) == (400, -32600)
        assert (await raw.send(call("add", a=1, b=1), path=path)).status == 202


# Taking streams up again.


class SlowStore:
    """A store that takes its time."""

    def __init__(self) -> None:
        self.inner = MemoryEventStore()

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        await trio.sleep(3)
        await self.inner.append(session, stream, events)

    async def read(self, session: str, stream: int, after: int, limit: int) -> Sequence[StoredEvent]:
        await trio.sleep(2)
        found = await self.inner.read(session, stream, after, 1)
        await trio.sleep(2)
        return found

    async def forget(self, session: str) -> None:
        await trio.sleep(3)
        await self.inner.forget(session)


@pytest.mark.parametrize("store", [MemoryEventStore, SlowStore])
@pytest.mark.parametrize("pause", [0, 1, 30])
async def test_every_event_arrives_once_and_in_order(store: Any, pause: float, autojump_clock: object) -> None:
    """ "Resumability and Redelivery": the connection breaks again and again, however slow the store is."""
    async with open_raw(make_server(), event_store=store()) as raw:
        session = await begin(raw)
        seen: list[dict[str, Any]] = []
        last = None
        async with session.post(call("steps", 1, "t", wait=2)) as response:
            events = Events(response)
            first = await events.next()
            assert first is not None
            assert first.data == b""
            last = first.last_event_id
        while not seen or "result" not in seen[-1]:
            await trio.sleep(pause)
            async with session.get(last) as response:
                events = Events(response)
                event = await events.next()
                assert event is not None, "the stream ended too soon"
                seen.append(json.loads(event.data))
                last = event.last_event_id
        assert [m["params"]["progress"] for m in seen[:-1]] == [1, 2, 3]
        async with session.get(last) as response:
            assert await Events(response).next() is None


@EVERY_HOST
async def test_what_a_stuck_connection_takes_after_all_changes_nothing_for_the_one_after_it(
    autojump_clock: object,
) -> None:
    """A client that does not read its first connection comes back, and reads both."""
    server = make_server(limits=Limits(max_outbox_bytes=10_000))
    gate = trio.Event()

    @server.tool
    async def count(ctx: Context) -> str:
        for number in range(100):
            await ctx.info(f"{number} " + "x" * 1_000)
        await gate.wait()
        await ctx.info("100 ")
        return "done"

    async with open_raw(server) as raw:
        session = await begin(raw)
        async with session.post(call("count")) as first:
            old = Events(first)
            assert await old.next() is not None
            await trio.testing.wait_all_tasks_blocked()
            async with session.get("2-0") as second:
                new = Events(second)
                seen = [int((await new.message())["params"]["data"].split()[0]) for _ in range(100)]
                while await old.next() is not None:
                    pass
                gate.set()
                seen.append(int((await new.message())["params"]["data"].split()[0]))
                assert seen == list(range(101))
                assert "result" in await new.message()


@EVERY_HOST
async def test_a_handler_lets_its_connection_go(autojump_clock: object) -> None:
    """SEP-1699: priming event with `retry`, the connection closes, and the answer is fetched later."""
    async with open_raw(make_server()) as raw:
        session = await begin(raw)
        async with session.post(call("later")) as response:
            data = b""
            while chunk := await response.receive_some():
                data += chunk
        assert data.startswith(b"id: 2-0\nretry: 500\ndata: \n\n")
        assert trio.current_time() < 5
        async with session.get("2-0") as response:
            assert (await Events(response).message())["result"]["content"][0]["text"] == "fetched"


async def test_releasing_does_nothing_where_the_client_cannot_reconnect() -> None:
    """In the modern era, and in stateless mode."""
    from http_raw import call_tool

    server = Server("s")

    @server.tool
    async def now(ctx: Context) -> str:
        await ctx.release_connection()
        return "now"

    async with open_raw(server) as raw:
        answer = await raw.send(call_tool("now"))
        assert (answer.is_stream, answer.message["result"]["content"][0]["text"]) == (False, "now")


async def test_an_event_id_that_was_never_given_is_refused(subtests: pytest.Subtests) -> None:
    """It would be another client's, or none."""
    rows: list[str] = ["", "x", "1", "1-", "-1", "99-0", "1-99", "1-1-1", "0-5", "²-1", "1" * 40 + "-1"]
    for id in rows:
        with subtests.test(id=id):
            async with open_raw(make_server()) as raw:
                session = await begin(raw)
                headers = {
                    **session.headers,
                    "Accept": "text/event-stream",
                    "Last-Event-ID": id.encode().decode("latin-1"),
                }
                if not id.isascii():
                    headers["Last-Event-ID"] = "x-1"
                answer = await raw.send(None, headers, method="GET")
                assert answer.status == 400
                assert "Last-Event-ID" in answer.error["message"]


@EVERY_HOST
async def test_a_slow_reader_holds_up_only_its_own_handler(autojump_clock: object) -> None:
    """ "A client that stops reading": its handler waits for it, its other calls and other sessions do not."""
    server = make_server(limits=Limits(max_outbox_bytes=10_000))
    sent = 0

    @server.tool
    async def flood(ctx: Context) -> str:
        nonlocal sent
        for _ in range(1000):
            await ctx.log("error", "x" * 1000)
            sent += 1
        return "flooded"

    async with open_raw(server) as raw:
        session = await begin(raw)
        async with session.post(call("flood")) as response:
            await trio.testing.wait_all_tasks_blocked()
            assert sent < 40
            for id in range(2, 5):
                assert (await session.send(call("add", id, a=1, b=2))).status == 200
            events = Events(response)
            for _ in range(100):
                await events.message()
            await trio.testing.wait_all_tasks_blocked()
            assert 100 <= sent < 140


# Without sessions.


async def test_stateless_requests_stand_alone(autojump_clock: object, subtests: pytest.Subtests) -> None:
    """No session is made, and what a handler says still goes to its stream."""
    rows: list[str | None] = [*SESSION_REVISIONS, None]
    for revision in rows:
        with subtests.test(revision=revision):
            await ask_without_a_session(revision)


async def ask_without_a_session(revision: str | None) -> None:
    """Send a few requests that belong to no session."""
    headers = {"MCP-Protocol-Version": revision}
    async with open_raw(make_server(), HttpServerSettings(stateless=True)) as raw:
        begun = await raw.send(initialize("2025-06-18"))
        assert (begun.status, "mcp-session-id" in begun.headers) == (200, False)
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await raw.send(note, headers)).status == 202
        answer = await raw.send(call("add", a=1, b=2), headers)
        assert (answer.is_stream, answer.message["result"]["content"][0]["text"]) == (False, "3")
        answer = await raw.send(call("steps", 1, "t"), headers)
        assert [message.get("method") for message in answer.messages] == ["notifications/progress"] * 3 + [None]
        assert all(not event.last_event_id for event in answer.events)
        for method in ("GET", "DELETE"):
            refused = await raw.send(None, {**headers, "Accept": "text/event-stream"}, method=method)
            assert refused.status == 405


@EVERY_HOST
async def test_a_stateless_client_that_goes_cancels_its_handler(autojump_clock: object) -> None:
    """Nobody could ever fetch the answer."""
    log: list[str] = []
    async with open_raw(make_server(log), HttpServerSettings(stateless=True)) as raw:
        with trio.move_on_after(1):
            await raw.send(call("hang"))
        await trio.testing.wait_all_tasks_blocked()
    assert log == ["began", "ended"]


@pytest.mark.parametrize("is_batch", [False, True])
async def test_a_stateless_notification_that_was_accepted_is_handled(
    is_batch: bool, autojump_clock: object
) -> None:
    """Its POST was answered before; a server that gives up what it has accepted has lost it."""
    server = make_server()
    handled = trio.Event()

    @server.notification_handler("notifications/example")
    async def note(params: object, context: object) -> None:
        await trio.sleep(2)
        handled.set()

    async with open_raw(server, HttpServerSettings(stateless=True)) as raw:
        one = {"jsonrpc": "2.0", "method": "notifications/example"}
        answer = await raw.send([one, call("add", a=1, b=2)] if is_batch else one)
        assert answer.status == (200 if is_batch else 202)
        with trio.fail_after(3):
            await handled.wait()


@EVERY_HOST
async def test_a_stateless_call_is_answered_when_serving_ends(autojump_clock: object) -> None:
    """Within `drain_timeout`, and then with an error."""
    answers: list[Answer] = []
    server = make_server(limits=Limits(drain_timeout=1))
    async with trio.open_nursery() as nursery, open_raw(server, HttpServerSettings(stateless=True)) as raw:

        async def run(name: str, **arguments: Any) -> None:
            answers.append(await raw.send(call(name, **arguments)))

        nursery.start_soon(run, "hang")
        await trio.testing.wait_all_tasks_blocked()
    assert (answers[0].status, answers[0].error["code"]) == (200, -31002)


async def test_json_only_answers_of_sessions(autojump_clock: object) -> None:
    """What a handler says meanwhile goes to the session's own stream."""
    async with open_raw(make_server(), HttpServerSettings(json_only=True)) as raw:
        session = await begin(raw)
        answer = await session.send(call("steps", 1, "t"), Accept="application/json")
        assert (answer.is_stream, answer.message["result"]["content"][0]["text"]) == (False, "done")
        async with session.get() as response:
            events = Events(response)
            assert [(await events.message())["params"]["progress"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("store", [MemoryEventStore, SlowStore])
@pytest.mark.parametrize("was_open", [False, True], ids=["never open", "kept in the store"])
async def test_a_question_that_was_cancelled_before_it_was_read_is_not_asked(
    was_open: bool, store: Any, autojump_clock: object
) -> None:
    """Promises 2 and 4: neither it nor its goodbye comes, wherever the client takes the stream up again."""
    async with open_raw(chatty_server(), ONLY_JSON, event_store=store()) as raw, trio.open_nursery() as nursery:
        session = await begin(raw, capabilities=ELICITING)
        if was_open:
            async with session.get() as response:
                await session.send(call("steps", 1, "before"))
                assert (await Events(response).message())["params"]["progressToken"] == "before"
        nursery.start_soon(session.send, call("try_to_ask", 2))
        await trio.testing.wait_all_tasks_blocked()
        await session.note("notifications/cancelled", requestId=2)
        for id in (3, 4):
            async with session.get("0-1" if was_open else None) as response:
                events = Events(response)
                await session.send(call("steps", id, f"t{id}"))
                tokens = [(await events.message())["params"]["progressToken"]]
                while tokens[-1] != f"t{id}":
                    tokens.append((await events.message())["params"]["progressToken"])
                assert set(tokens) <= {"before", "t3", f"t{id}"}


async def test_a_question_that_may_have_been_read_is_cancelled(autojump_clock: object) -> None:
    """Its client may answer it when it comes back, and the goodbye is the first thing that it learns."""
    async with open_raw(chatty_server(), ONLY_JSON) as raw, trio.open_nursery() as nursery:
        session = await begin(raw, capabilities=ELICITING)
        async with session.get() as response:
            nursery.start_soon(session.send, call("try_to_ask", 2))
            event = await Events(response).next()
            assert event is not None
        question = json.loads(event.data)
        await session.note("notifications/cancelled", requestId=2)
        async with session.get(event.last_event_id) as response:
            goodbye = await Events(response).message()
        assert goodbye["method"] == "notifications/cancelled"
        assert goodbye["params"]["requestId"] == question["id"]


async def test_other_messages_do_not_prolong_the_wait_for_a_stream(autojump_clock: object) -> None:
    """`STREAM_TIMEOUT` is how long a question waits, whatever else is queued for the client meanwhile."""
    async with open_raw(chatty_server(), ONLY_JSON) as raw, trio.open_nursery() as nursery:
        session = await begin(raw, capabilities=ELICITING)

        async def chatter() -> None:
            for id in itertools.count(100):
                await trio.sleep(STREAM_TIMEOUT / 3)
                await session.send(call("steps", id, f"t{id}"))

        nursery.start_soon(chatter)
        with trio.fail_after(STREAM_TIMEOUT + 0.1):
            answer = await session.send(call("try_to_ask"))
        assert "cannot be asked" in answer.message["result"]["content"][0]["text"]
        nursery.cancel_scope.cancel()


async def test_a_question_that_gives_way_to_unread_messages_fails(autojump_clock: object) -> None:
    """The handler that asked gets an error, and does not wait for what is gone."""
    async with open_raw(chatty_server(), ONLY_JSON) as raw:
        session = await begin(raw, capabilities=ELICITING)
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await session.send(call("try_to_ask")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            await session.send(call("chat", 2))
            await trio.testing.wait_all_tasks_blocked()
            assert "too much is queued" in answers[0].message["result"]["content"][0]["text"]
            assert trio.current_time() == began


@EVERY_HOST
async def test_a_handler_whose_client_has_gone_gets_an_error_when_it_asks(autojump_clock: object) -> None:
    """Its POST was torn before it was answered by a stream, so its client cannot come back to where it is asked."""
    server, outcomes = make_server(), list[str]()

    @server.tool
    async def ask_late(ctx: Context) -> None:
        await trio.sleep(2)
        try:
            await ctx.sample("what?", max_tokens=5)
        except CapabilityMissing as error:
            outcomes.append(error.message)

    async with open_raw(server) as raw:
        session = await begin(raw, capabilities=ELICITING)
        with trio.move_on_after(1):
            await session.send(call("ask_late"))
        await trio.sleep(5)
        assert outcomes == ["the client cannot be asked: its connection is gone"]


async def test_what_is_dropped_is_counted(autojump_clock: object) -> None:
    """`Endpoint.statistics`, while the session lasts and when it has ended."""
    async with open_endpoint(chatty_server(), ONLY_JSON) as endpoint, trio.open_nursery() as nursery:
        hosted = Hosted(_host("lean", endpoint, ONLY_JSON), nursery)
        session = await begin(Raw(hosted, parse_target("http://localhost:8000/mcp")))
        assert endpoint.statistics().dropped == 0
        await session.send(call("chat"))
        dropped = endpoint.statistics().dropped
        assert 90 < dropped < 100
        assert await session.delete() == 204
        await trio.testing.wait_all_tasks_blocked()
        found = endpoint.statistics()
        assert found == EndpointStatistics(0, 0, 0, dropped, kept=found.kept)
        nursery.cancel_scope.cancel()


# HTTP+SSE.


@pytest.mark.spec("basic/transports", "HTTP with SSE", revisions="2024-11-05")
@EVERY_HOST
async def test_the_transport_of_2024(autojump_clock: object) -> None:
    """2024-11-05, basic/transports, "HTTP with SSE": a stream that names its endpoint, and POSTs that get 202."""
    log: list[str] = []
    async with open_raw(make_server(log), HttpServerSettings(sse=True, keep_alive_interval=5)) as raw:
        async with raw.open(None, {"Accept": "text/event-stream"}, method="GET", path="/sse") as response:
            events = Events(response)
            endpoint = await events.next()
            assert endpoint is not None
            assert endpoint.event == "endpoint"
            path = endpoint.data.decode()
            assert path.startswith("/messages?session_id=")

            async def post(message: Any) -> int:
                return (await raw.send(message, path=path)).status

            assert await post(initialize("2024-11-05")) == 202
            assert (await events.message())["result"]["protocolVersion"] == "2024-11-05"
            assert await post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
            assert await post(call("steps", 3, "t")) == 202
            assert [(await events.message()).get("method") for _ in range(4)] == [
                "notifications/progress"
            ] * 3 + [None]
            assert await post(b"{") == 400
            cancellation = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": "early"},
            }
            assert await post(cancellation) == 202
            assert await post(call("hang", "early")) == 202
            await trio.testing.wait_all_tasks_blocked()
            assert not log
            assert await post({"jsonrpc": "2.0", "id": 5}) == 202
            assert (await events.message())["error"]["code"] == -32600
            assert await post(call("hang", 4)) == 202
            await trio.sleep(1)
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["began", "ended"]
        assert (await raw.send(call("add", a=1, b=1), path=path)).status == 404


async def test_a_cancellation_may_overtake_a_part_of_a_batch_over_http_and_sse(autojump_clock: object) -> None:
    """A client of 2025-03-26 can speak over it, too. The others are answered; a batch that is invalid is refused."""
    log: list[str] = []
    async with (
        open_raw(make_server(log), HttpServerSettings(sse=True)) as raw,
        begun_over_sse(raw, "2025-03-26") as (events, post),
    ):
        params = {"requestId": "early"}
        early = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert await post(early) == 202
        assert await post([call("hang", "early"), call("add", 1, a=1, b=2)]) == 202
        with trio.fail_after(60):
            answers: Any = await events.message()
        assert [one["id"] for one in answers] == [1]
        assert await post(early) == 202
        assert await post([call("hang", 2), {"jsonrpc": "2.0", "id": 3}]) == 202
        assert await post({**early, "params": {"requestId": 2}}) == 202
        answers = await events.message()
        assert [one["error"]["code"] for one in answers] == [-32600]
    assert log == ["began", "ended"]


async def test_a_session_of_2024_belongs_to_the_principal_that_began_it() -> None:
    """security_best_practices, "Session Hijacking": the URL that the stream names lets nobody else in."""
    log: list[str] = []

    async def who(request: Any) -> str | None:
        user: str | None = request.headers.get("x-user")
        return user

    async with open_raw(
        make_server(log), HttpServerSettings(sse=True, allow_anonymous=True), authenticate=who
    ) as raw:
        headers = {"Accept": "text/event-stream", "X-User": "ann"}
        async with raw.open(None, headers, method="GET", path="/sse") as response:
            events = Events(response)
            endpoint = await events.next()
            assert endpoint is not None
            path = endpoint.data.decode()

            async def post(message: Any, user: str | None) -> int:
                return (await raw.send(message, {"X-User": user}, path=path)).status

            for user in ("bob", None):
                assert await post(initialize("2024-11-05"), user) == 404
            assert await post(initialize("2024-11-05"), "ann") == 202
            assert (await events.message())["result"]["protocolVersion"] == "2024-11-05", "the only one"
            for user in ("bob", None):
                assert await post(call("hang", 1), user) == 404
            await trio.testing.wait_all_tasks_blocked()
            assert not log, "nothing of theirs is served"
            assert await post(call("add", 2, a=1, b=2), "ann") == 202
            assert (await events.message())["id"] == 2


async def test_the_transport_of_2024_is_off_by_default() -> None:
    """It is deprecated."""
    async with open_raw(make_server()) as raw:
        assert (await raw.send(None, {"Accept": "text/event-stream"}, method="GET", path="/sse")).status == 404


async def test_the_two_transports_do_not_share_sessions() -> None:
    """An id of one is none of the other."""
    async with open_raw(make_server(), HttpServerSettings(sse=True)) as raw:
        session = await begin(raw)
        path = f"/messages?session_id={session.headers['Mcp-Session-Id']}"
        assert (await raw.send(call("add", a=1, b=1), path=path)).status == 404
