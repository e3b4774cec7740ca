"""The load generator: it reads what servers say however that is cut, checks it, and is not taken in."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from benchmarks.load.calls import measure_calls
from benchmarks.load.dialect import DIALECTS
from benchmarks.load.fixed_server import Answers
from benchmarks.load.floods import measure_flood
from benchmarks.load.http_connection import HttpConnection
from benchmarks.load.lines import LineLink
from benchmarks.load.link import LoadError, Message
from benchmarks.load.opening import Opened, open_server
from benchmarks.load.template import FIRST_ID, LAST_ID, MARK, Template
from benchmarks.load.worker import counted

ERAS = ("legacy", "modern")
ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{}}'
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: AbC\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return data as a chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


RESPONSES = {
    "json": (JSON_HEAD + b"content-length: %d\r\n\r\n" % len(ANSWER) + ANSWER, 1),
    "chunked json": (
        JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk(ANSWER[:9]) + chunk(ANSWER[9:]) + b"0\r\n\r\n",
        1,
    ),
    "events": (
        STREAM_HEAD
        + chunk(b"event: message\r\ndata: " + NOTIFICATION + b"\r\n\r\n: a comment\n\n")
        + chunk(b"data: " + ANSWER)
        + chunk(b"\n\n")
        + b"0\r\n\r\n",
        2,
    ),
    "accepted": (b"HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\nAccepted", 0),
}


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize("name", RESPONSES)
def test_responses_are_read_however_they_are_cut(name: str, size: int) -> None:
    response, count = RESPONSES[name]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = HttpConnection(listener.getsockname())
        server, _ = listener.accept()
        with server, connection.socket:
            connection.socket.setblocking(True)  # here it waits, where elsewhere it is told
            for _ in range(2):
                messages: list[Message] = []
                is_done = False
                for start in range(0, len(response), size):
                    assert not is_done
                    server.sendall(response[start : start + size])
                    came, is_done = connection.read(b"")
                    messages += came
                while not is_done:
                    came, is_done = connection.read(b"")
                    messages += came
                assert len(messages) == count
                if "json" in name:
                    assert connection.session == "AbC"


def test_a_status_that_refuses_ends_the_measurement() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = HttpConnection(listener.getsockname())
        server, _ = listener.accept()
        with server, connection.socket:
            connection.socket.setblocking(True)
            server.sendall(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 4\r\n\r\nwait")
            with pytest.raises(LoadError, match="status 429: b'wait'"):
                connection.read(b"")


@contextmanager
def open_pipes() -> Generator[tuple[LineLink, int]]:
    """Give a link, and where its server would write to."""
    read_fd, server_writes = os.pipe()
    server_reads, write_fd = os.pipe()
    link = LineLink(read_fd, write_fd, DIALECTS["legacy"])
    try:
        yield link, server_writes
    finally:
        link.close()
        for fd in (read_fd, server_writes, server_reads, write_fd):
            os.close(fd)


def test_lines_are_read_however_they_are_cut() -> None:
    with open_pipes() as (link, server):
        os.write(server, ANSWER + b"\n" + NOTIFICATION[:10])
        assert [message.get("id") for _, message in link.poll(1)] == [7]
        os.write(server, NOTIFICATION[10:] + b"\n" + ANSWER + b"\n")
        assert [message.get("method") for _, message in link.poll(1)] == ["notifications/progress", None]
        assert link.poll(0) == []


def test_known_long_texts_are_cut_out_instead_of_decoded() -> None:
    with open_pipes() as (link, server):
        link.payload = b"x" * 20_000
        os.write(server, b'{"id":1,"result":{"text":"%b"}}\n' % link.payload)
        ((_, message),) = link.poll(1)
        assert message == {"id": 1, "result": {"text": ""}, "payloads": 1}


def test_what_is_no_json_is_told_with_what_it_was() -> None:
    with open_pipes() as (link, server):
        os.write(server, b"Hello!\n")
        with pytest.raises(LoadError, match="Hello!"):
            link.poll(1)


def test_requests_are_as_long_as_announced_whatever_their_id() -> None:
    template = Template(b'{"id":%d,"token":%d}' % (MARK, MARK))
    assert template.fill(FIRST_ID) == b'{"id":%d,"token":%d}' % (FIRST_ID, FIRST_ID)
    assert len(template.fill(FIRST_ID)) == len(template.fill(LAST_ID)) == len(template)


def test_modern_posts_name_what_they_are_for() -> None:
    template = DIALECTS["modern"].post("/mcp", "localhost", None, "tools/call", {"name": "echo", "arguments": {}})
    head, _, body = template.fill(FIRST_ID).partition(b"\r\n\r\n")
    assert b"\r\nMcp-Method: tools/call\r\nMcp-Name: echo" in head
    assert b"\r\nContent-Length: %d\r\n" % len(body) in head
    assert msgspec.json.decode(body)["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


def test_latencies_are_counted_with_three_digits() -> None:
    counts = counted([1_000_000, 1_000_001, 2_000_000, 5])
    assert sum(count for _, count in counts) == 4
    assert counts[0] == (5, 1)
    (latency, count) = counts[1]
    assert latency == pytest.approx(1_000_000, rel=0.002)
    assert count == 2


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_the_fixed_server_agrees_in_its_era_alone(era: str, method: str) -> None:
    """A client that asks in the way of the other era must fall back, as it would at a real server."""
    (said,) = Answers(is_modern=era == "modern").answer(
        b'{"jsonrpc":"2.0","id":"a","method":"%b"}' % method.encode()
    )
    answer = msgspec.json.decode(said)
    assert answer["id"] == "a"
    assert ("result" in answer) == ((method == "server/discover") == (era == "modern"))


@contextmanager
def open_fixed(transport: str, era: str) -> Generator[Opened]:
    """Start the fixed server and connect to it."""
    command = [sys.executable, "-m", "benchmarks.load.fixed_server", transport, era]
    opened = open_server({"transport": transport, "era": era, "command": command})
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_generator_and_fixed_server_understand_each_other(transport: str, era: str) -> None:
    options: list[dict[str, Any]] = [
        {"what": "echo", "in_flight": 8},
        {"what": "report", "in_flight": 2},
        {"what": "blob", "size": 1 << 20, "in_flight": 2},
        {"what": "swallow", "size": 1 << 20, "in_flight": 2},
        {"what": "tools", "count": 50, "in_flight": 1},
    ]
    with open_fixed(transport, era) as opened:
        for one in options:
            sample = measure_calls(opened.link, one, 0.01)
            assert sample.operations >= one["in_flight"]
            assert len(sample.latencies) == sample.operations
            assert sample.value > 0
        flood = measure_flood(opened.link, {"tool": "flood", "count": 50}, 0.01)
        assert flood.operations % 50 == 0


def test_a_wrong_answer_is_not_counted() -> None:
    with open_fixed("stdio", "legacy") as opened, pytest.raises(LoadError, match="wrong answer"):
        measure_calls(opened.link, {"what": "tools", "count": 51, "in_flight": 1}, 0.01)


def test_a_server_that_ends_is_told_with_its_last_words() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no, thank you')"]
    with pytest.raises(LoadError, match="no, thank you"):
        open_server({"transport": "stdio", "era": "legacy", "command": command})
