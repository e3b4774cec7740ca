"""HTTP/1.1 on one connection, over every host: what follows what, what ends it, and what it costs. Real sockets."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import call_tool
from http_wire import Served, serving
from inside_endpoint import SocketIO
from living import objects_of_ours
from patient_clock import pass_time
from shared.http_server_connections import make_server

from trio_mcp import HttpCall, HttpRefused, HttpServerSettings

pytestmark = [pytest.mark.usefixtures("host")]

LOGGING = {"io.modelcontextprotocol/logLevel": "debug"}
LEFT = "_hosts._requests.SocketIO"
"""The end of a connection on the side of the server."""


def text_of(body: bytes) -> str:
    text: str = json.loads(body)["result"]["content"][0]["text"]
    return text


async def until(condition: Any) -> None:
    while not condition():
        await trio.sleep(0.01)


async def test_a_connection_is_used_again() -> None:
    """RFC 9112, section 9.3; whatever came before, a good or a bad request."""
    async with serving(make_server()) as served, served.wire() as wire:
        for n in range(3):
            await wire.stream.send_all(wire.request(call_tool("echo", text=f"{n}")))
            status, body = await wire.answer()
            assert (status, text_of(body)) == (200, f"{n}")
            await wire.stream.send_all(wire.request(call_tool("nobody")))
            assert (await wire.answer())[0] == 400


async def test_an_answer_says_when_it_was_given_and_not_by_what() -> None:
    """RFC 9110, section 6.6.1; what serves is nobody's business."""
    async with serving(make_server()) as served:
        answer = await served.raw.send(call_tool("echo", text="a"))
    assert answer.headers["date"].endswith(" GMT")
    assert "server" not in answer.headers
    assert answer.headers["content-length"] == str(len(answer.body))


async def test_a_request_may_come_byte_by_byte() -> None:
    """However the wire cuts it."""
    async with serving(make_server()) as served, served.wire() as wire:
        data = wire.request(call_tool("echo", text="slow"))
        for at in range(0, len(data), 9):
            await wire.stream.send_all(data[at : at + 9])
            await trio.testing.wait_all_tasks_blocked()  # it is read
        status, body = await wire.answer()
        assert (status, text_of(body)) == (200, "slow")


async def test_requests_behind_one_another_are_served_one_by_one() -> None:
    """RFC 9112, section 9.3.2: answered in order; none is begun before the one before is answered."""
    log: list[str] = []
    async with serving(make_server(log)) as served, served.wire() as wire:
        calls = [call_tool("nap", seconds=20), call_tool("echo", text="2"), call_tool("echo", text="3")]
        await wire.stream.send_all(b"".join(wire.request(call) for call in calls))
        await pass_time(20)  # when all that may be begun has begun
        # The parser of this end does not know of requests in a row.
        received = b""
        while received.count(b"HTTP/1.1 200") < 3 or not received.endswith(b"}"):
            received += await wire.stream.receive_some()
        assert [received.index(b'"text":"%b"' % text) for text in (b"rested", b"2", b"3")] == sorted(
            received.index(b'"text":"%b"' % text) for text in (b"rested", b"2", b"3")
        )
    assert log == ["nap began", "nap ended", "echo 2", "echo 3"]


async def test_many_requests_behind_one_another() -> None:
    """More than are read ahead, and each is answered."""
    async with serving(make_server()) as served, served.wire() as wire:
        data = wire.request(call_tool("echo", text="x" * 1000)) * 200
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.stream.send_all, data)
            received = b""
            while received.count(b"HTTP/1.1 200") < 200 or not received.endswith(b"}"):
                received += await wire.stream.receive_some()


async def test_what_is_no_request_ends_the_connection_behind_one_that_is(subtests: pytest.Subtests) -> None:
    """The answer comes, then the refusal, and nothing that comes later is looked at."""
    log: list[str] = []
    async with serving(make_server(log)) as served:
        for junk in (b"\x00\x01\x02", b"GET / HTTP/1.1", b"{}", b"GARBAGE"):
            log.clear()
            with subtests.test(junk=junk):
                async with served.wire() as wire:
                    first, after = (wire.request(call_tool("echo", text=text)) for text in ("first", "after"))
                    await wire.stream.send_all(first + junk + b"\r\n\r\n" + after)
                    received = await wire.wait_closed()
                assert b"first" in received
                assert b"HTTP/1.1 400" in received
                assert log == ["echo first"]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_who_wants_one_answer_gets_one(version: str) -> None:
    """RFC 9112, section 9.6; HTTP/1.0 has no chunks, so that a stream ends with its connection."""
    async with serving(make_server()) as served:
        for call in (call_tool("echo", text="whole"), call_tool("tell", _meta=LOGGING)):
            async with served.wire() as wire:
                data = wire.request(call, {"Connection": "close"}).replace(
                    b"HTTP/1.1", b"HTTP/" + version.encode()
                )
                await wire.stream.send_all(data)
                received = await wire.wait_closed()
                assert b"connection: close" in received.lower()
                assert (b"whole" if call["params"]["name"] == "echo" else b"told") in received
                if version == "1.0":
                    assert b"chunked" not in received.lower()


async def test_a_head_is_answered_without_a_body() -> None:
    """RFC 9110, section 9.3.2."""
    async with serving(make_server()) as served, served.wire() as wire:
        await wire.stream.send_all(wire.head(0, {"Connection": "close"}, "HEAD"))
        received = await wire.wait_closed()
    assert b" 405 " in received
    assert received.endswith(b"\r\n\r\n")


async def test_a_body_in_chunks_is_read() -> None:
    """RFC 9112, section 7.1."""
    async with serving(make_server()) as served, served.wire() as wire:
        for _ in range(2):
            head, _, body = wire.request(call_tool("echo", text="in pieces")).partition(b"\r\n\r\n")
            length = b"Content-Length: %d" % len(body)
            await wire.stream.send_all(head.replace(length, b"Transfer-Encoding: chunked") + b"\r\n\r\n")
            for at in range(0, len(body), 50):
                piece = body[at : at + 50]
                await wire.stream.send_all(b"%x\r\n%b\r\n" % (len(piece), piece))
            await wire.stream.send_all(b"0\r\n\r\n")
            status, answer = await wire.answer()
            assert (status, text_of(answer)) == (200, "in pieces")


async def test_a_body_that_is_waited_for() -> None:
    """RFC 9110, section 10.1.1."""
    async with serving(make_server()) as served, served.wire() as wire:
        data = wire.request(call_tool("echo", text="waited for"), {"Expect": "100-continue"})
        head, _, body = data.partition(b"\r\n\r\n")
        await wire.stream.send_all(head + b"\r\n\r\n")
        assert (await wire.stream.receive_some()).startswith(b"HTTP/1.1 100 ")
        await wire.stream.send_all(body)
        status, answer = await wire.answer()
        assert (status, text_of(answer)) == (200, "waited for")


async def test_a_body_that_is_not_read_costs_its_connection() -> None:
    """The refusal is read, although its sender goes on sending; nothing of the body is taken for a request."""
    async with serving(make_server()) as served, served.wire() as wire:
        data = wire.head(3_000_000).replace(b"/mcp", b"/nowhere")
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                with suppress(trio.BrokenResourceError):
                    await wire.stream.send_all(data + wire.request(call_tool("echo", text="x")) * 9_000)

            nursery.start_soon(send)
            received = b""
            while b"}}" not in received:
                received += await wire.stream.receive_some()
            nursery.cancel_scope.cancel()
    assert received.startswith(b"HTTP/1.1 404 ")
    assert received.count(b"HTTP/1.1") == 1


async def test_a_head_that_trickles_in_has_its_own_deadline() -> None:
    """Half of `message_timeout`: not that of connections that rest, which is far longer, first request or not."""
    settings = HttpServerSettings(message_timeout=2_000, idle_timeout=100_000)
    async with (
        serving(make_server(), settings) as served,
        served.wire() as first,
        served.wire() as second,
        served.wire() as ahead,
        served.wire() as silent,
        served.wire() as body,
    ):
        data = second.request(call_tool("echo", text="a"))
        await second.stream.send_all(data)
        assert (await second.answer())[0] == 200
        await ahead.stream.send_all(data + b"POST /m")
        assert (await ahead.answer())[0] == 200
        await body.stream.send_all(data[:-5])
        for byte in b"POST":
            for wire in (first, second):
                await wire.stream.send_all(bytes([byte]))
            await pass_time(250)
        for wire in (first, second, ahead):
            assert await wire.wait_closed() == b""
        await body.stream.send_all(data[-5:])
        assert (await body.answer())[0] == 200
        await silent.stream.send_all(data)
        assert (await silent.answer())[0] == 200


@pytest.mark.parametrize("how", ["closes", "closes writing", "resets"])
async def test_a_client_that_goes_cancels_what_it_asked_for(how: str) -> None:
    """ "Cancellation"; also when it has sent something behind its request."""
    log: list[str] = []
    async with serving(make_server(log)) as served, served.wire() as wire:
        request = wire.request(call_tool("nap", seconds=30))
        await wire.stream.send_all(request + (b"POST" if how == "closes" else b""))
        await until(lambda: log == ["nap began"])
        if how == "closes writing":
            await wire.stream.send_eof()
        else:
            if how == "resets":
                wire.stream.socket.setsockopt(
                    trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, bytes([1, *bytes(7)])
                )
            await wire.stream.aclose()
        await until(lambda: log == ["nap began", "nap ended"])


async def test_what_a_client_that_is_gone_has_sent_ahead_is_not_begun() -> None:
    """Nothing would end it: that its client is gone has been noticed already."""
    log: list[str] = []
    async with serving(make_server(log)) as served, served.wire() as wire:
        request = wire.request(call_tool("nap", seconds=30))
        await wire.stream.send_all(request * 3)
        await until(lambda: log == ["nap began"])
        await wire.stream.aclose()
        await until(lambda: log == ["nap began", "nap ended"])
        await until(lambda: objects_of_ours().get(LEFT, 0) == 0)
    assert log == ["nap began", "nap ended"]


@pytest.mark.parametrize("sent_ahead", [False, True])
async def test_requests_of_one_connection_share_no_context(*, sent_ahead: bool) -> None:
    """Two users may come over one connection of a proxy; what is set while one is served is not the other's.

    A request that has come already is started by the one before it, and is not its child.
    """
    async with serving(make_server()) as served, served.wire() as wire:
        requests = [wire.request(call_tool("enter", who_is_it=name)) for name in ("alice", "bob", "cid")]
        if sent_ahead:
            await wire.stream.send_all(b"".join(requests))
        for request in requests:
            if not sent_ahead:
                await wire.stream.send_all(request)
            assert text_of((await wire.answer())[1]) == "nobody"


async def test_a_refusal_may_have_header_fields_that_are_text(subtests: pytest.Subtests) -> None:
    """Authors of hooks give text; the answer was torn where it was sent."""
    fields: list[Any] = [
        ("WWW-Authenticate", 'Bearer realm="é"'),
        ("www-authenticate", b' Bearer realm="\xe9" '),
        (b"WWW-Authenticate", 'Bearer realm="é"\t'),
    ]

    async def authenticate(call: HttpCall) -> str | None:
        raise HttpRefused(401, "no", [field])

    async with serving(make_server(), authenticate=authenticate) as served:
        for field in fields:
            with subtests.test(field=field):
                received = await last_answer(served)
                assert received.startswith(b"HTTP/1.1 401 ")
                assert b'\r\nwww-authenticate: bearer realm="\xe9"\r\n' in received.lower()


async def last_answer(served: Served) -> bytes:
    """Ask once on a connection of its own, and return what comes."""
    async with served.wire() as wire:
        await wire.stream.send_all(wire.request(call_tool("echo", text="x"), {"Connection": "close"}))
        return await wire.wait_closed()


async def test_a_field_that_would_end_its_line_is_not_sent(subtests: pytest.Subtests) -> None:
    """What a setting or a hook of the user's says in a header cannot become another answer, nor tear this one."""
    fields: list[Any] = [
        ("www-authenticate", b"Bearer\r\nset-cookie: x\r\n\r\n<html>"),
        ("www-authenticate", "Bearer\n<html>"),
        ("www-authenticate", "Bearer \0<html>"),
        ("www-authenticate", "Bearer realm=\N{SNOWMAN}<html>"),
        ("www-authenticate: x\r\nx", "<html>"),
        ("", "<html>"),
        ("Content-Length", "3<html>"),
        ("x", 5),
        (None, "<html>"),
    ]

    async def authenticate(call: HttpCall) -> str | None:
        raise HttpRefused(401, "no", [field])

    log: list[str] = []
    async with serving(make_server(log), authenticate=authenticate) as served:
        for field in fields:
            with subtests.test(field=field):
                received = await last_answer(served)
                assert received.startswith(b"HTTP/1.1 500 ")
                assert b"html" not in received
                assert received.endswith(b"}}")
                assert log == []


async def test_a_refusal_is_an_error(subtests: pytest.Subtests) -> None:
    """A status that HTTP does not know, or that says that all is well, is a mistake of who raises it."""
    statuses: list[Any] = [0, 99, 200, 204, 304, 600, 1000, "401", True, None]

    async def authenticate(call: HttpCall) -> str | None:
        raise HttpRefused(status, "no")

    async with serving(make_server(), authenticate=authenticate) as served:
        for status in statuses:
            with subtests.test(status=status):
                assert (await last_answer(served)).startswith(b"HTTP/1.1 500 ")


async def test_a_refusal_whose_words_cannot_be_sent_is_one_all_the_same() -> None:
    """Lone surrogates have no bytes in UTF-8."""

    async def authenticate(call: HttpCall) -> str | None:
        raise HttpRefused(401, "no \ud800")

    async with serving(make_server(), authenticate=authenticate) as served, served.wire() as wire:
        await wire.stream.send_all(wire.request(call_tool("echo", text="x")))
        assert (await wire.answer())[0] in (401, 500)


class Counter(trio.abc.Instrument):
    """Counts tasks."""

    def __init__(self) -> None:
        self.spawned: list[str] = []

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.spawned.append(task.name)


async def test_a_request_costs_no_task_and_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served where it was read. Head and body go out together, and no timer is started or stopped."""
    sent: list[int] = []
    real = SocketIO.send

    async def send(self: SocketIO, *parts: bytes) -> None:
        sent.append(sum(map(len, parts)))
        await real(self, *parts)

    monkeypatch.setattr(SocketIO, "send", send)
    counter = Counter()
    async with serving(make_server()) as served, served.wire() as wire:
        for n in range(11):
            if n == 1:  # the first has also opened the connection
                sent.clear()
                trio.lowlevel.add_instrument(counter)
            await wire.stream.send_all(wire.request(call_tool("echo", text="x")))
            assert (await wire.answer())[0] == 200
        trio.lowlevel.remove_instrument(counter)
    assert not counter.spawned
    assert len(sent) == 10
    assert all(sent)


async def test_a_head_that_never_ends_is_refused() -> None:
    """431, or cut; in no case is it kept."""
    async with serving(make_server()) as served, served.wire() as wire, trio.open_nursery() as nursery:

        async def send() -> None:
            with suppress(trio.BrokenResourceError):
                await wire.stream.send_all(b"POST /mcp HTTP/1.1\r\n")
                while True:
                    await wire.stream.send_all(b"X: %b\r\n" % (b"y" * 1000))

        nursery.start_soon(send)
        received = await wire.wait_closed()
        nursery.cancel_scope.cancel()
    assert b" 431 " in received or not received


async def test_a_listener_that_waits_keeps_no_connection_alive() -> None:
    """What a connection has read goes with it, and not when the next one comes."""
    async with serving(make_server()) as served:
        before = objects_of_ours()
        async with served.wire() as wire:
            await wire.stream.send_all(wire.request(call_tool("echo", text="x")))
            assert (await wire.answer())[0] == 200
        while (now := objects_of_ours())[LEFT] > before[LEFT]:
            await trio.sleep(0.01)
    assert now[LEFT] == 0
