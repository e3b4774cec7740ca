"""The load generator: it reads what servers say however that is cut, checks it, and is not taken in."""

# What trustme takes is without types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from inside_bench import (
    DIALECTS,
    FIRST_ID,
    FIXED,
    LAST_ID,
    MARK,
    Address,
    Answers,
    Descriptors,
    HttpConnection,
    LineLink,
    LoadError,
    Message,
    Opened,
    Template,
    WebSocketLink,
    counted,
    example_of,
    framed,
    module_command,
    open_server,
    open_wire,
    opening_module,
    placed,
)
from places import ROOT

from benchmarks.load.calls import measure_calls
from benchmarks.load.floods import measure_flood

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
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with server, client:
            connection = HttpConnection(Descriptors(client.fileno(), client.fileno()))
            client.setblocking(True)  # here it waits, where elsewhere it is told
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
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with server, client:
            connection = HttpConnection(Descriptors(client.fileno(), client.fileno()))
            client.setblocking(True)
            server.sendall(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 4\r\n\r\nwait")
            with pytest.raises(LoadError, match="status 429: 'wait'"):
                connection.read(b"")


@contextmanager
def open_pipes() -> Generator[tuple[LineLink, int]]:
    """Give a link, and where its server would write to."""
    read_fd, server_writes = os.pipe()
    server_reads, write_fd = os.pipe()
    link = LineLink(Descriptors(read_fd, write_fd), DIALECTS["legacy"])
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
    (said,) = Answers(era).answer(b'{"jsonrpc":"2.0","id":"a","method":"%b"}' % method.encode())
    answer = msgspec.json.decode(said)
    assert answer["id"] == "a"
    assert ("result" in answer) == ((method == "server/discover") == (era == "modern"))


@contextmanager
def open_fixed(transport: str, era: str) -> Generator[Opened]:
    """Start the fixed server and connect to it."""
    command = module_command(FIXED, transport, era)
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


def test_header_fields_and_tokens_go_with_each_request() -> None:
    """A protected server of the harness puts a token behind its URL; users give fields."""
    address = Address.of("https://user@example.com/mcp?a=b#sesame", {"X-Team": "seven"})
    assert (address.name, address.port, address.is_tls, address.path) == ("example.com", 443, True, "/mcp?a=b")
    head = DIALECTS["legacy"].head(address.path, address.host, None, 5, "ping")
    assert b"\r\nHost: example.com\r\nX-Team: seven\r\nAuthorization: Bearer sesame\r\n" in head


def test_a_response_may_last_until_its_connection_ends() -> None:
    """As in HTTP/1.0, and behind some proxies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client:
            connection = HttpConnection(Descriptors(client.fileno(), client.fileno()))
            client.setblocking(True)
            with server:
                server.sendall(
                    b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n"
                )
                server.sendall(ANSWER)
            found: list[Message] = []
            is_done = False
            while not is_done:
                came, is_done = connection.read(b"")
                found += came
    assert [message["id"] for message in found] == [7]
    assert connection.closes


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_websocket_messages_come_in_fragments_among_pings(size: int) -> None:
    """As any server may send them; the pings are answered."""

    def frame(first: int, data: bytes) -> bytes:
        return bytes((first, len(data))) + data

    sent = frame(0x01, ANSWER[:9]) + frame(0x89, b"?") + frame(0x80, ANSWER[9:]) + frame(0x81, NOTIFICATION)
    ours, theirs = socket.socketpair()
    with theirs:
        fd = ours.detach()
        link = WebSocketLink(Descriptors(fd, fd), DIALECTS["legacy"])
        found: list[Message] = []
        for start in range(0, len(sent), size):
            theirs.sendall(sent[start : start + size])
            found += [message for _, message in link.poll(0)]
        assert [message.get("id") for message in found] == [7, None]
        link.flush()
        assert theirs.recv(100) == framed(b"?", 0x0A)
        theirs.sendall(frame(0x88, (1008).to_bytes(2) + b"no"))
        with pytest.raises(LoadError, match="the server has closed the WebSocket with 1008 'no'"):
            link.poll(1)
        link.close()


def test_lines_are_carried_under_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long ones as well, which take many records in either direction."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    def say_it_again(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as stream:
            while data := stream.recv(1 << 16):
                stream.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=say_it_again, args=(listener,), daemon=True)
        server.start()
        link = LineLink(open_wire("localhost", listener.getsockname()[1], tls=True), DIALECTS["legacy"])
        sent = {"id": 7, "result": {"text": "x" * 300_000}}
        link.reply(sent)
        found: list[Message] = []
        while not found:
            found = [message for _, message in link.poll(10)]
        assert found == [{"jsonrpc": "2.0", **sent}]
        link.close()
        server.join(10)


@contextmanager
def responding(*responses: bytes) -> Generator[str]:
    """Give the URL of a server that has one response for each connection."""

    def respond(listener: socket.socket) -> None:
        for response in responses:
            stream, _ = listener.accept()
            with stream:
                stream.recv(1 << 16)
                stream.sendall(response)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=respond, args=(listener,), daemon=True)
        server.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server.join(10)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (
            b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 4\r\n\r\nWho?",
            "status 401: 'Who?'; it wants a header field, such as Authorization",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "no response of HTTP/1.1: 'SSH-2.0-OpenSSH_9.2'"),
    ],
)
def test_who_refuses_and_who_is_no_server_is_told_by_what_it_says(response: bytes, message: str) -> None:
    with responding(response) as url, pytest.raises(LoadError, match=re.escape(message)):
        open_server({"era": "auto", "address": url})


EXAMPLES: list[tuple[dict[str, Any], Any]] = [
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "hello"}),
    ({"type": "string", "enum": ["x", "y"]}, "x"),
    ({"type": "string", "format": "email"}, "ada@example.com"),
    ({"type": "string", "minLength": 7}, "helloxx"),
    ({"type": ["null", "integer"], "minimum": 5}, 5),
    ({"type": "number", "maximum": -2}, -2),
    ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, False),
    ({"type": "array", "items": {"const": 3}, "minItems": 2}, [3, 3]),
    ({"$ref": "#/$defs/it", "$defs": {"it": {"default": [1]}}}, [1]),
    ({"$ref": "#/$defs/it", "$defs": {"it": {"$ref": "#/$defs/it"}}}, "hello"),
    (
        {"properties": {"zone": {}, "source_timezone": {"type": "string"}}, "required": ["source_timezone"]},
        {"source_timezone": "UTC"},
    ),
]


def test_arguments_are_made_up_from_a_schema(subtests: pytest.Subtests) -> None:
    for schema, example in EXAMPLES:
        with subtests.test(schema=schema, example=example):
            assert example_of(schema, schema) == example


def test_a_command_of_a_client_says_where_the_server_goes() -> None:
    words = placed(["client", "--to={url}", "{server}", "--run={server}"], "http://here/", ["a b", "c"])
    assert words == ["client", "--to=http://here/", "a b", "c", "--run='a b' c"]


@pytest.mark.parametrize(
    ("program", "revision"),
    [("examples/calculator.py", "2026-07-28"), ("tests/support/programs/odd_server.py", "2025-06-18")],
)
def test_a_server_that_takes_long_to_start_counts_as_what_it_answers_first(
    program: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not read the first question yet when the second one is asked."""
    monkeypatch.setattr(opening_module, "GUESSING", 0.001)
    root = ROOT
    command = [sys.executable, str(root / program)]
    variables = {**os.environ, "PYTHONPATH": str(root)}
    opened = open_server({"era": "auto", "command": command, "variables": variables})
    try:
        assert opened.dialect.revision == revision
    finally:
        opened.close()


def test_answers_to_both_questions_may_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of the legacy era that has found both when it began to read."""
    monkeypatch.setattr(opening_module, "GUESSING", 0.001)
    said = """
import json, sys
asked, greeted = (json.loads(sys.stdin.readline()) for _ in "12")
info = {"name": "slow", "version": "1"}
result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
answers = [
    {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "unknown"}},
    {"jsonrpc": "2.0", "id": greeted["id"], "result": result},
]
print(*map(json.dumps, answers), sep="\\n", flush=True)
sys.stdin.read()
"""
    opened = open_server({"era": "auto", "command": [sys.executable, "-c", said], "handshake": 10.0})
    try:
        assert opened.dialect.revision == "2025-06-18"
    finally:
        opened.close()


def test_a_server_that_ends_is_told_with_its_last_words() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no, thank you')"]
    with pytest.raises(LoadError, match="no, thank you"):
        open_server({"transport": "stdio", "era": "legacy", "command": command})
