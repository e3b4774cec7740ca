"""Calls during which the server asks back: on the wire in the legacy era, by the result in the modern one."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Final

from trio_mcp._bench._links import Link, LoadError, now
from trio_mcp._bench._loops import HANGS, Sample
from trio_mcp._bench._messages import Message

__all__ = ["measure_asks"]

ANSWERS: Final[Mapping[str, Message]] = {
    "elicitation/create": {"action": "accept", "content": {"value": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Ada"},
        "model": "benchmark",
        "stopReason": "endTurn",
    },
}
SAID: Final = "Ada"


def measure_asks(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Keep so many calls in flight, answer what is asked, and check that the answers are used.

    Raises:
        LoadError: A call ended wrong, or not at all.
    """
    lanes: int = options["in_flight"]
    called: Message = {"name": options["tool"], "arguments": {}}
    link.payload = b""
    link.open_lanes(lanes)
    template = link.template("tools/call", called)
    pending: dict[int, tuple[int, int]] = {}
    latencies: array[int] = array("Q")
    began = last = now()
    end = began + int(seconds * 1e9)
    for lane in range(lanes):
        id = link.ids.take()
        pending[id] = lane, began
        link.send(lane, template.fill(id))
    while pending:
        messages = link.poll(HANGS)
        if not messages:
            raise LoadError(f"{len(pending)} calls that ask did not end within {HANGS} s")
        last = now()
        for _, message in messages:
            if "method" in message:
                if "id" in message:
                    link.reply({"id": message["id"], "result": ANSWERS[message["method"]]})
                continue
            lane, sent = pending.pop(message["id"])
            result = message.get("result")
            if result is None:
                raise LoadError(f"wrong answer: {str(message)[:500]}")
            id = link.ids.take()
            if result.get("resultType") == "input_required":
                pending[id] = lane, sent
                link.send(lane, link.template("tools/call", {**called, **retry_of(result)}).fill(id))
                continue
            if result["content"][0]["text"] != SAID:
                raise LoadError(f"wrong result: {str(message)[:500]}")
            latencies.append(last - sent)
            if last < end:
                pending[id] = lane, last
                link.send(lane, template.fill(id))
    took = (last - began) / 1e9
    return Sample(value=len(latencies) / took, operations=len(latencies), seconds=took, latencies=latencies)


def retry_of(result: Message) -> Message:
    """Return what the request is repeated with."""
    asked: Mapping[str, Message] = result.get("inputRequests", {})
    answers = {key: ANSWERS[question["method"]] for key, question in asked.items()}
    state = {"requestState": result["requestState"]} if "requestState" in result else {}
    return {"inputResponses": answers, **state}
