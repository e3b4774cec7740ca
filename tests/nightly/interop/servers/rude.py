"""A server that misbehaves in the way its argument names, and no other. Needs the standard library only."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

Message: TypeAlias = dict[str, Any]

RUBBISH: Final = (
    b"Welcome to the server!",
    b"",
    b"   ",
    b"\xff\xfe\x00 not text",
    b"{",
    b"[]",
    b"null",
    b'"initialize"',
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "1.0", "id": 98, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 99, "result": {}}',
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}',
    b'{"jsonrpc": "2.0", "id": "1", "result": {"protocolVersion": "1999-12-31"}}',
    b'{"jsonrpc": "2.0", "method": "notifications/from/nowhere", "params": {}}',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 77, "progress": 1}}',
    b"\x00" * 100,
    b"x" * 200_000,
)
NOT_FOUND: Final = {"code": -32601, "message": "Method not found"}


def write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def send(**members: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", **members}).encode())


def messages() -> Iterator[Message]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def shake_hands(request: Message, version: str = "2025-11-25") -> None:
    result: Message = {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "rude", "version": "0"},
    }
    send(id=request["id"], result=result)


def text(request: Message, said: str) -> None:
    send(id=request["id"], result={"content": [{"type": "text", "text": said}]})


def serve(call: Callable[[Message], None], discover: Callable[[Message], None] | None = None) -> None:
    """Serve as one should, but for calls and, if told so, for discovery."""
    for message in messages():
        if message.get("method") == "initialize":
            shake_hands(message)
        elif message.get("method") == "tools/call":
            call(message)
        elif message.get("method") == "server/discover" and discover is not None:
            discover(message)
        elif "id" in message and "method" in message:
            send(id=message["id"], error=NOT_FOUND)


def echo(request: Message) -> None:
    text(request, request["params"]["arguments"]["text"])


# What can be wrong with the beginning.


def exits_unless_initialized() -> None:
    first = next(messages())
    if first["method"] != "initialize":
        print("expected initialize", file=sys.stderr)
        raise SystemExit(3)
    shake_hands(first)
    serve(echo)


def ignores_discovery() -> None:
    serve(echo, discover=lambda _: None)


def answers_discovery_late(**outcome: object) -> None:
    """Answer discovery, but not before the client has given it up and asked to shake hands."""
    questions = messages()
    discover = next(questions)
    initialize = next(question for question in questions if question["method"] == "initialize")
    send(id=discover["id"], **outcome)
    shake_hands(initialize)
    serve(echo)


def discovers_late() -> None:
    result: Message = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "public",
    }
    answers_discovery_late(result=result)


def refuses_discovery_late() -> None:
    answers_discovery_late(error=NOT_FOUND)


def answers_discovery_with_nonsense() -> None:
    serve(echo, discover=lambda question: send(id=question["id"], result={"tools": []}))


def knows_only_the_future() -> None:
    error = {"code": -32022, "message": "no", "data": {"supported": ["2031-01-01"], "requested": "2026-07-28"}}
    serve(echo, discover=lambda question: send(id=question["id"], error=error))


def wants_another_revision() -> None:
    for message in messages():
        if message["method"] == "initialize":
            shake_hands(message, version="1999-12-31")
        elif "id" in message:
            send(id=message["id"], error=NOT_FOUND)


def shakes_half_a_hand() -> None:
    for message in messages():
        if message["method"] == "initialize":
            send(id=message["id"], result={"protocolVersion": "2025-11-25"})
        elif "id" in message:
            send(id=message["id"], error=NOT_FOUND)


def says_nothing() -> None:
    for _ in messages():
        pass


# What can be wrong later.


def talks_rubbish() -> None:
    def call(request: Message) -> None:
        for line in RUBBISH:
            write(line)
        echo(request)

    for line in RUBBISH:
        write(line)
    serve(call)


def talks_rubbish_in_a_batch() -> None:
    """Before there is a revision, which might be the one that has batches."""
    write(b'[1, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 97}]')
    serve(echo)


def answers_late() -> None:
    """Answer a call only when the next one comes, that one first, and everything twice."""
    held: list[Message] = []

    def call(request: Message) -> None:
        held.insert(0, request)
        if len(held) == 2:
            for each in (*held, *held):
                echo(each)

    serve(call)


def asks_impossible_things() -> None:
    def call(request: Message) -> None:
        send(id="a", method="ping")
        send(id="b", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        send(id=request["id"], method="nobody/knows")
        echo(request)

    serve(call)


# What can be wrong with the end.


def closes_its_output() -> None:
    def call(_: Message) -> None:
        os.close(1)
        time.sleep(3600)

    serve(call)


def dies() -> None:
    def call(_: Message) -> None:
        for line in range(50):
            print(f"last words {line}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(7)

    serve(call)


def is_killed() -> None:
    serve(lambda _: os.kill(os.getpid(), signal.SIGKILL))


def dies_in_the_middle_of_an_answer() -> None:
    def call(request: Message) -> None:
        os.write(1, b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"ty' % request["id"])
        os._exit(0)

    serve(call)


def stops_reading() -> None:
    def call(request: Message) -> None:
        echo(request)
        time.sleep(3600)

    serve(call)


if __name__ == "__main__":
    misbehave: Callable[[], None] = globals()[sys.argv[1]]
    misbehave()
