"""The floor of codecs: a JSON library alone: ``json_alone.py msgspec|json WHAT REVISION SECONDS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

import msgspec

from benchmarks.peers.codecs.spinning import TEXT, call_of, list_of, spin

LIBRARY = sys.argv.pop(1)


def make(revision: str) -> Mapping[str, Callable[[], object]]:
    """Return what is done in a revision."""
    call, tools = call_of(revision), list_of(revision)
    decode: Callable[[bytes], object]
    encode: Callable[[object], object]
    if LIBRARY == "msgspec":
        decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    else:
        decode, encode = json.loads, lambda value: json.dumps(value).encode()

    def write_result() -> object:
        result = {"content": [{"type": "text", "text": TEXT}]}
        return encode({"jsonrpc": "2.0", "id": 7, "result": result})

    return {
        "read-call": lambda: decode(call),
        "write-result": write_result,
        "read-tools": lambda: decode(tools),
    }


spin(make)
