"""Requests of sessions of the legacy era, and answers to questions of both eras, written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import trio
from http_raw import Events, Raw
from inside_core import SseEvent

__all__ = [
    "ASKS",
    "STREAM",
    "accept",
    "answers_to",
    "begin",
    "cancel",
    "counting",
    "legacy",
    "read_progress",
    "said_by",
    "tool",
    "updated",
]

ASKS: Final[dict[str, Any]] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
"""What a modern request declares that can be asked."""

STREAM: Final = {"Accept": "text/event-stream"}


def legacy(method: str, id: int = 1, **params: Any) -> dict[str, Any]:
    """Return a request of the legacy era."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def tool(name: str, id: int = 1, **arguments: Any) -> dict[str, Any]:
    """Return a request of the legacy era that calls a tool."""
    return legacy("tools/call", id, name=name, arguments=arguments)


def counting(id: int = 1, **arguments: Any) -> dict[str, Any]:
    """Return a request that counts, and reports it."""
    return legacy("tools/call", id, name="count", arguments=arguments, _meta={"progressToken": id})


def cancel(id: int = 1) -> dict[str, Any]:
    """Return the notification that a request is given up."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


def accept(question: Mapping[str, Any], value: str) -> dict[str, Any]:
    """Return the answer to a question of the legacy era."""
    return {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"value": value}}}


def answers_to(result: Mapping[str, Any], value: str) -> dict[str, Any]:
    """Return the parameters by which a modern request answers what was asked."""
    ((key, _),) = result["inputRequests"].items()
    accepted = {key: {"action": "accept", "content": {"value": value}}}
    return {"requestState": result["requestState"], "inputResponses": accepted}


def said_by(message: Mapping[str, Any]) -> str:
    """Return what a tool has said in an answer."""
    text: str = message["result"]["content"][0]["text"]
    return text


def updated(message: Mapping[str, Any]) -> str:
    """Return the URI of the resource that a notification says has changed."""
    assert message["method"] == "notifications/resources/updated", message
    uri: str = message["params"]["uri"]
    return uri


async def begin(raw: Raw, revision: str = "2025-11-25", **headers: str) -> dict[str, str]:
    """Begin a session; return the header fields of its requests."""
    able: dict[str, Any] = {"elicitation": {}}
    me = {"name": "x", "version": "1"}
    message = legacy("initialize", 0, protocolVersion=revision, capabilities=able, clientInfo=me)
    answer = await raw.send(message, headers)
    assert answer.status == 200, answer.body
    assert answer.message["result"]["protocolVersion"] == revision
    fields = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": revision, **headers}
    done = await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, fields)
    assert done.status == 202, done.body
    return fields


async def read_progress(events: Events, to: int) -> list[SseEvent]:
    """Read the events of a stream up to this progress; return them."""
    found: list[SseEvent] = []
    with trio.fail_after(60):
        while not found or f'"progress":{to},'.encode() not in found[-1].data.replace(b" ", b""):
            event = await events.next()
            assert event is not None, "the stream has ended"
            found.append(event)
    return found
