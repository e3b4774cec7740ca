"""A server over stdio that is as odd as it is told to be, and quick to start: ``odd_server.py WORD...``.

``plain``: it echoes; ``chatty``: it prints what is no message; ``bare``: it has no tools; ``dangerous``: none of its
tools may be called unasked; ``crashing``: it ends at its third call; ``mute``: it answers no call; ``picky``: it ends
at messages that it does not know, until it is initialized; ``slow``: it also has a tool that sleeps.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

WORDS = set(sys.argv[1:])
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
calls = 0
cancelled: set[Any] = set()


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    if "dangerous" in WORDS:
        return [{"name": "delete_everything", "inputSchema": TEXT}]
    found = [{"name": "echo", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}}]
    if "slow" in WORDS:
        found.append({"name": "sleep", "inputSchema": SECONDS})
    return found


def sleep(id: object, seconds: float) -> None:
    for _ in range(int(seconds * 100)):
        time.sleep(0.01)
        if id in cancelled:
            return
    send({"id": id, "result": {"content": []}})


def answer(message: dict[str, Any]) -> None:
    global calls
    id, method = message.get("id"), message.get("method")
    params: dict[str, Any] = message.get("params") or {}
    if method == "notifications/cancelled":
        cancelled.add(params["requestId"])
    if id is None:
        return
    if method == "initialize":
        info = {"name": "odd", "version": "7"}
        send({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}})
    elif method == "ping":
        send({"id": id, "result": {}})
    elif method == "tools/list" and "bare" not in WORDS:
        send({"id": id, "result": {"tools": tools()}})
    elif method == "tools/call" and "bare" not in WORDS:
        calls += 1
        if "crashing" in WORDS and calls > 8:
            sys.exit("out of paper")
        if "mute" in WORDS:
            return
        if params["name"] == "sleep":
            threading.Thread(target=sleep, args=(id, params["arguments"]["seconds"]), daemon=True).start()
        else:
            send({"id": id, "result": {"content": [{"type": "text", "text": params["arguments"]["text"]}]}})
    elif "picky" in WORDS:
        sys.exit("what is that?")
    else:
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


if "chatty" in WORDS:
    print("Welcome to the odd server!", flush=True)
for line in sys.stdin:
    answer(json.loads(line))
