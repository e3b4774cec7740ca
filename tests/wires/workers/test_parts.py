"""What processes that serve together send each other, without processes."""

from __future__ import annotations

import gc
import socket
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from inside_core import Headers, Pool
from inside_endpoint import RequestLoans
from inside_wire import Request, decode, parse_message
from inside_workers import (
    Assignment,
    FrameReader,
    Worker,
    encode_answer_head,
    encode_whole,
    frame,
    private_directory,
)
from shared.workers_parts import Call

from trio_mcp import (
    HttpCall,
    HttpRefused,
)


def asked(value: Any) -> Request:
    """Return a request."""
    message = parse_message(value)
    assert isinstance(message, Request)
    return message


class _NoSessions:
    def is_here(self, id: str) -> bool:
        del id
        return False


NO_SESSIONS = cast("Any", _NoSessions())
BODY = b'{ "jsonrpc":"2.0", "id":1, "method":"tools/call", "params":{"requestState":"w2.x"} }'
WHOLE = frame(b"W", encode_whole(encode_answer_head(200, []), b"{}"))
BEGUN = frame(b"A", encode_answer_head(200, [])) + frame(b"D", b"one")


@pytest.mark.parametrize(
    ("said", "answer", "sent"),
    [
        (WHOLE, (200, b"{}"), []),
        (BEGUN + frame(b"D", b"two") + frame(b"E"), (200, b""), [b"one", b"two", b"end"]),
        (BEGUN, (200, b""), [b"one", b"cut"]),
        (b"", None, []),
    ],
    ids=["whole", "stream", "cut", "lost"],
)
async def test_a_request_is_forwarded_as_it_was_received(
    tmp_path: Path, said: bytes, answer: tuple[int, bytes] | None, sent: list[bytes]
) -> None:
    """A proof may have a digest of the body. What breaks off is not taken for complete."""
    ours, theirs = socket.socketpair()
    with ours, theirs, trio.socket.socket(socket.AF_UNIX) as sock:
        group = Worker(Assignment(1, str(tmp_path), [], b"k" * 32, [1], None), theirs).group
        await sock.bind(str(tmp_path / "2.sock"))
        sock.listen()
        received: list[bytes] = []

        async def other() -> None:
            connection, _ = await sock.accept()
            async with trio.SocketStream(connection) as stream:
                reader = FrameReader(stream)
                await stream.send_all(frame(b"Y"))
                while b"".join(received) != BODY:
                    found = await reader.read()
                    assert found is not None
                    received.extend([found[1]] if found[0] == b"B" else [])
                await stream.send_all(said)

        async def serve(call: HttpCall, request: object) -> None:
            raise AssertionError("it is served here")

        keep, go_on = group.by_state(lambda _, body: decode(body), serve)
        call = Call()
        request = asked(keep(call, BODY))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            with (
                pytest.raises(HttpRefused, match="ended before it was done") if answer is None else nullcontext()
            ):
                await go_on(call, request)
        assert (call.answer, call.sent) == (answer, sent)

        other_call, at_home = Call(), BODY.replace(b"w2", b"w1")
        with pytest.raises(AssertionError, match="served here"):
            await go_on(other_call, asked(keep(other_call, at_home)))


@pytest.mark.parametrize("is_taken", [False, True])
async def test_who_does_not_take_a_request_is_waited_for_only_so_long(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, is_taken: bool
) -> None:
    """The kernel lets others connect to a process that is stopped. One that serves may take its time."""
    ours, theirs = socket.socketpair()
    with ours, theirs, trio.socket.socket(socket.AF_UNIX) as sock:
        group = Worker(Assignment(1, str(tmp_path), [], b"k" * 32, [1], None), theirs).group
        await sock.bind(str(tmp_path / "2.sock"))
        sock.listen()

        async def serve(call: HttpCall, request: object) -> None:
            raise AssertionError("it is served here")

        keep, go_on = group.by_state(lambda _, body: decode(body), serve)
        call = Call()
        request = asked(keep(call, BODY))

        async def take() -> None:
            connection, _ = await sock.accept()
            async with trio.SocketStream(connection) as stream:
                await stream.send_all(frame(b"Y"))
                await trio.sleep(1_000)
                await stream.send_all(WHOLE)

        async with trio.open_nursery() as nursery:
            if is_taken:
                nursery.start_soon(take)
                await go_on(call, request)
                assert call.answer == (200, b"{}")
            else:
                with pytest.raises(HttpRefused, match="does not answer") as refused:
                    await go_on(call, request)
                assert refused.value.status == 503
                assert trio.current_time() < 30


def test_sockets_find_room_where_names_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a socket may have about a hundred bytes."""
    for folder in (tmp_path, tmp_path / ("d" * 120)):
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        made = private_directory()
        try:
            assert made.stat().st_mode & 0o777 == 0o700
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(made / "123456789.sock"))
            assert list(tmp_path.glob("*/trio-mcp-*")) == []
        finally:
            (made / "123456789.sock").unlink(missing_ok=True)
            made.rmdir()


async def test_what_is_forwarded_counts_while_it_is_in_memory(tmp_path: Path) -> None:
    """What was decoded is here until the other worker has answered, and so is what was lent for it."""
    pool = Pool("max_kept_bytes", 10_000_000)
    body = BODY.replace(b"w2.x", b"w2." + b"x" * 300_000)
    ours, theirs = socket.socketpair()
    with ours, theirs, trio.socket.socket(socket.AF_UNIX) as sock:
        group = Worker(Assignment(1, str(tmp_path), [], b"k" * 32, [1], None), theirs).group
        await sock.bind(str(tmp_path / "2.sock"))
        sock.listen()
        call = Call()
        call.loans = RequestLoans(pool, "hog")

        def decode_and_lend(call: HttpCall, body: bytes) -> Any:
            call.loans.serve(body, 10_000_000)
            return decode(body)

        async def other() -> None:
            connection, _ = await sock.accept()
            async with trio.SocketStream(connection) as stream:
                reader = FrameReader(stream)
                await stream.send_all(frame(b"Y"))
                left = len(body)
                while left:
                    found = await reader.read()
                    assert found is not None
                    left -= len(found[1]) if found[0] == b"B" else 0
                await trio.testing.wait_all_tasks_blocked(0.01)
                assert pool.lent >= len(body)
                await stream.send_all(WHOLE)

        async def serve(call: HttpCall, request: object) -> None:
            raise AssertionError("it is served here")

        keep, go_on = group.by_state(decode_and_lend, serve)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await go_on(call, asked(keep(call, body)))
        call.loans.give_back()
        gc.collect()
        assert pool.lent == 0


@pytest.mark.parametrize("modern", [False, True])
async def test_the_modern_era_has_no_sessions(tmp_path: Path, modern: bool) -> None:
    """So the field that names one in the legacy era names none there, whatever it says."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        group = Worker(Assignment(1, str(tmp_path), [], b"k" * 32, [1], None), theirs).group
        answered: list[HttpCall] = []

        async def answer(call: HttpCall, slot: object) -> None:
            answered.append(call)

        call, slot = Call(), cast("Any", None)
        version = b"2026-07-28" if modern else b"2025-11-25"
        call.headers = Headers([(b"Mcp-Session-Id", b"w99.x"), (b"MCP-Protocol-Version", version)])
        call.method = "GET"
        with nullcontext() if modern else pytest.raises(HttpRefused, match="names no session"):
            await group.by_session(answer, NO_SESSIONS)(call, slot)
        assert answered == [call] * modern
