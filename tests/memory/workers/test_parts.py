"""What processes that serve together send each other, without processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from inside_core import Headers
from inside_wire import decode
from inside_workers import (
    MAX_WAITING,
    VARIABLE,
    Assignment,
    ForwardedCall,
    FrameReader,
    assigned,
    decode_whole,
    encode_answer_head,
    encode_request_head,
    encode_whole,
    frame,
    pieces,
    shown_to_worker,
)
from inside_workers import _Outbox as Outbox
from shared.workers_parts import Call

from trio_mcp import (
    ClientCertificate,
    HttpServerSettings,
    ResourceUpdated,
    ToolsListChanged,
)

CERTIFICATE = ClientCertificate(b"\x00\xff", {"subject": ((("commonName", "worker"),),), "version": 3})
WRITTEN = ["00ff", {"subject": [[["commonName", "worker"]]], "version": 3}]


async def test_frames_arrive_as_they_were_sent() -> None:
    """In any pieces; a torn one is none."""
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    reader = FrameReader(theirs)
    sent = frame(b"A", b"") + pieces(b"D", b"x" * 200_000) + frame(b"E", b"end")
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for start in range(0, len(sent), 999):
                await ours.send_all(sent[start : start + 999])
            await ours.send_all(frame(b"E", b"torn")[:-1])
            await ours.aclose()

        nursery.start_soon(send)
        assert await reader.read() == (b"A", b"")
        body = b""
        while (found := await reader.read()) is not None and found[0] == b"D":
            assert len(found[1]) <= 65_536
            body += found[1]
        assert body == b"x" * 200_000
        assert found == (b"E", b"end")
        assert await reader.read() is None
    assert pieces(b"D", b"") == b""


def test_a_head_says_all_that_is_known_of_a_request() -> None:
    fields = Headers([(b"X-Name", b"caf\xe9"), (b"x-name", b"2")])
    head = {"method": "POST", "path": "/ü", "query": "a=b", "client": "::1", "scheme": "https", "length": 0}
    head["target"] = "/%C3%BC?a=b"
    nowhere: Any = None
    call = ForwardedCall(
        nowhere,
        {**head, "headers": [["X-Name", "caf\xe9"], ["x-name", "2"]], "certificate": WRITTEN},
        HttpServerSettings(),
    )
    read = decode(encode_request_head(call, 7))
    assert read == {**head, "length": 7, "headers": read["headers"], "certificate": WRITTEN}
    again = ForwardedCall(nowhere, read, HttpServerSettings())
    assert again.headers.fields == fields.fields
    assert again.certificate == CERTIFICATE
    answer = encode_whole(encode_answer_head(418, [(b"x", b"\xe9")]), b"body")
    assert decode_whole(answer) == (418, [(b"x", b"\xe9")], b"body")


def test_changes_merge_and_the_oldest_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    outbox = Outbox(2)
    for _ in range(3):
        outbox.add(ToolsListChanged(), b"tools")
    assert outbox.take() == b"tools"
    assert outbox.take() == b""
    for number in range(MAX_WAITING + 2):
        outbox.add(ResourceUpdated(f"thing://{number}"), b"%d " % number)
    assert outbox.take().startswith(b"2 3 4 ")
    assert "process 2 does not take changes; 1 were dropped" in caplog.text
    for letter in (b"a", b"b"):
        outbox.add(ResourceUpdated(letter.decode()), letter * 10_000_000)
    assert outbox.take()[:1] == b"b"


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setenv(VARIABLE, shown_to_worker(theirs))
        yield theirs


def test_who_is_a_worker(control: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has the connection, and not who has inherited the variable alone."""
    assert assigned() == control.fileno()
    monkeypatch.setenv(VARIABLE, f"{control.fileno()}:{os.fstat(control.fileno()).st_ino + 1}")
    assert assigned() is None
    for wrong in ("", "x:1", "99999:1"):
        monkeypatch.setenv(VARIABLE, wrong)
        assert assigned() is None


def test_the_key_is_shown_nowhere() -> None:
    assignment = Assignment(7, "/tmp/x", [4], b"k" * 32, [7], None)
    assert "kkk" not in repr(assignment)
    assert Assignment.decode(assignment.encode()) == assignment


async def test_who_has_given_up_is_not_served(tmp_path: Path) -> None:
    """A worker that was stopped, and goes on, does not do what its client was refused meanwhile."""
    head = frame(b"H", encode_request_head(Call(), 0))
    ours, theirs = trio.socket.socketpair()
    await ours.send(head)
    ours.close()
    call = ForwardedCall(trio.SocketStream(theirs), decode(head[5:]), HttpServerSettings())
    assert not await call.take()
    theirs.close()
