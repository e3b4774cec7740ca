"""What the codecs under measurement have in common: the messages, and doing one thing again and again.

It runs in the environment of each implementation, so it imports nothing but the standard library.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping

IS_MODERN_FROM = "2026"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "What it is done to."},
        "count": {"type": "integer", "description": "How often."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "What to call it."},
    },
    "required": ["name", "count", "tags"],
}
TEXT = "The quick brown fox jumps over the lazy dog. 0123456789 The quick brown fox jumps over the lazy dog."


def call_of(revision: str) -> bytes:
    """Return a call as a client sends it."""
    params: dict[str, object] = {"name": "echo", "arguments": {"text": TEXT, "count": 3, "tags": ["a", "b"]}}
    if revision > IS_MODERN_FROM:
        params["_meta"] = META
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()


def list_of(revision: str) -> bytes:
    """Return a list of 50 tools as a server sends it."""
    tools = [{"name": f"tool_{n}", "description": "Do something.", "inputSchema": SCHEMA} for n in range(50)]
    result: dict[str, object] = {"tools": tools}
    if revision > IS_MODERN_FROM:
        result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()


def spin(make: Callable[[str], Mapping[str, Callable[[], object]]]) -> None:
    """Do what ``WHAT REVISION SECONDS`` on the command line says, and say how often it was done."""
    what, revision, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    do = make(revision)[what]
    for _ in range(200):
        do()
    done = 0
    clock = time.perf_counter
    began = last = clock()
    while last - began < seconds:
        for _ in range(50):
            do()
        done += 50
        last = clock()
    print(json.dumps({"operations": done, "seconds": last - began}))
