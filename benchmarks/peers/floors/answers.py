"""What every floor answers: right, by the shortest way there is, and without any rule of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import cattrs
import msgspec

__all__ = ["answer", "answer_structured"]

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder().decode
Message = dict[str, Any]

INITIALIZED: Final[Message] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "floor", "version": "1"},
}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "What it is done to."},
        "count": {"type": "integer", "description": "How often."},
        "ratio": {"type": "number", "description": "How much of it."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "What to call it."},
        "dry_run": {"type": "boolean", "default": False, "description": "Whether to do even less."},
    },
    "required": ["name", "count", "ratio", "tags"],
}
TOOLS: Final = [
    {"name": f"filler_{number}", "description": "Do nothing, at some length.", "inputSchema": SCHEMA}
    for number in range(50)
]


@attrs.frozen
class Call:
    """The parameters of `tools/call`."""

    name: str
    arguments: dict[str, str | int]


@attrs.frozen
class Text:
    """A block of text."""

    text: str
    type: str = "text"


@attrs.frozen
class CallResult:
    """The result of `tools/call`."""

    content: list[Text]


converter: Final = cattrs.Converter()
converter.register_structure_hook(str | int, lambda value, _: value)
structure_call: Final = converter.get_structure_hook(Call)
unstructure_result: Final = converter.get_unstructure_hook(CallResult)


def answer(line: bytes) -> Iterator[bytes]:
    """Return the messages that answer a message."""
    request = decode(line)
    if "id" in request:
        if request["method"] == "tools/call":
            params = request["params"]
            yield from call(request["id"], params["name"], params["arguments"], params, None)
        else:
            yield finish(request["id"], other(request))


def answer_structured(line: bytes) -> Iterator[bytes]:
    """The same, with parameters and results as objects of classes."""
    request = decode(line)
    if "id" in request:
        if request["method"] == "tools/call":
            called = structure_call(request["params"], Call)
            yield from call(request["id"], called.name, called.arguments, request["params"], structured)
        else:
            yield finish(request["id"], other(request))


def structured(text: str) -> Message:
    """Make a result by way of its class."""
    result: Message = unstructure_result(CallResult([Text(text)]))
    return result


def call(id: int, name: str, arguments: Message, params: Message, result: Any) -> Iterator[bytes]:
    """Do what the tools of the other servers do."""
    if name in ("flood", "report"):
        token = params["_meta"]["progressToken"]
        count = arguments.get("count", 1)
        for step in range(1, count + 1):
            said = {"progressToken": token, "progress": step, "total": count}
            yield encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": said})
    elif name == "shout":
        said = {"level": "info", "data": "a message"}
        for _ in range(arguments["count"]):
            yield encode({"jsonrpc": "2.0", "method": "notifications/message", "params": said})
    text = (
        "x" * arguments["size"]
        if name == "blob"
        else str(len(arguments["text"]))
        if name == "swallow"
        else arguments.get("text", "done")
    )
    yield finish(id, result(text) if result is not None else {"content": [{"type": "text", "text": text}]})


def other(request: Message) -> Message:
    """Answer what calls no tool."""
    match request["method"]:
        case "initialize":
            return INITIALIZED
        case "tools/list":
            return {"tools": TOOLS}
        case "resources/read":
            uri: str = request["params"]["uri"]
            _, _, kind, size = uri.split("/")
            content = {"text": "x" * int(size)} if kind == "text" else {"blob": "AAAA" * ((int(size) + 2) // 3)}
            return {"contents": [{"uri": uri, **content}]}
        case "prompts/get":
            text = f"Hello, {request['params']['arguments']['name']}!"
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        case _:
            return {}


def finish(id: int, result: Message) -> bytes:
    """Return the answer with this result."""
    return encode({"jsonrpc": "2.0", "id": id, "result": result})
