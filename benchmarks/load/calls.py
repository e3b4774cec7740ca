"""Requests and answers: so many in flight, each answer checked, each latency kept."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from .link import Link, LoadError, Message, now

__all__ = ["HANGS", "Calls", "Sample", "measure_calls"]

HANGS: Final = 20.0
"""Seconds of silence after which a server hangs."""
FILLER: Final = "The quick brown fox jumps over the lazy dog. 0123456789 "


def text_of(size: int) -> str:
    """Return a text of so many bytes, without anything that JSON escapes."""
    return (FILLER * (size // len(FILLER) + 1))[:size]


@attrs.frozen(kw_only=True)
class Sample:
    """What one measurement found.

    Attributes:
        value: The figure, in the workload's unit.
        operations: How much was done, of whatever is counted.
        seconds: How long that took.
        latencies: Of each operation, in nanoseconds.
        facts: What else was found.
    """

    value: float
    operations: int
    seconds: float
    latencies: array[int] = attrs.field(factory=lambda: array("Q"))
    facts: Mapping[str, float] = attrs.field(factory=dict[str, float])


@attrs.frozen(kw_only=True)
class Calls:
    """What is asked, and what the answer must be."""

    method: str
    params: Mapping[str, Any]
    check: Callable[[Message], bool]
    payload: bytes = b""
    progress: bool = False
    size: int = 1


def _text_is(expected: str) -> Callable[[Message], bool]:
    def check(result: Message) -> bool:
        return bool(result["content"][0]["text"] == expected)

    return check


def _payload_found(result: Message) -> bool:
    return bool(result["content"][0]["text"] == "")


def plan_calls(options: Mapping[str, Any]) -> Calls:
    """Return what a workload's options ask for."""
    what, size = options["what"], options.get("size", 100)
    text = text_of(size)
    is_long = size > 100_000
    payload = text.encode() if is_long else b""
    said = _payload_found if is_long else _text_is(text)
    match what:
        case "echo" | "report":
            return Calls(
                method="tools/call",
                params={"name": what, "arguments": {"text": text}},
                check=said,
                payload=payload,
                progress=what == "report",
            )
        case "blob":
            text = "x" * size
            return Calls(
                method="tools/call",
                params={"name": "blob", "arguments": {"size": size}},
                check=_payload_found if is_long else _text_is(text),
                payload=text.encode() if is_long else b"",
                size=size,
            )
        case "swallow":
            return Calls(
                method="tools/call",
                params={"name": "swallow", "arguments": {"text": text}},
                check=_text_is(str(size)),
                size=size,
            )
        case "tools":
            return Calls(
                method="tools/list", params={}, check=lambda result: len(result["tools"]) == options["count"]
            )
        case "text":
            return Calls(
                method="resources/read",
                params={"uri": f"bench://text/{size}"},
                check=lambda result: len(result["contents"][0]["text"]) == size,
            )
        case "binary":
            length = (size + 2) // 3 * 4
            return Calls(
                method="resources/read",
                params={"uri": f"bench://binary/{size}"},
                check=lambda result: len(result["contents"][0]["blob"]) == length,
            )
        case "prompt":
            return Calls(
                method="prompts/get",
                params={"name": "greet", "arguments": {"name": "Ada"}},
                check=lambda result: result["messages"][0]["content"]["text"] == "Hello, Ada!",
            )
        case _:
            raise LoadError(f"there is nothing called {what!r} to ask for")


def measure_calls(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Keep so many requests in flight for so long.

    Raises:
        LoadError: An answer was wrong, or none came.
    """
    calls = plan_calls(options)
    lanes: int = options["in_flight"]
    link.payload = calls.payload
    link.open_lanes(lanes)
    template = link.template(calls.method, calls.params, progress=calls.progress)
    pending: dict[int, tuple[int, int]] = {}
    latencies: array[int] = array("Q")
    keep, fill, send, take, check = latencies.append, template.fill, link.send, link.ids.take, calls.check
    began = now()
    for lane in range(lanes):
        id = take()
        pending[id] = lane, began
        send(lane, fill(id))
    end = began + int(seconds * 1e9)
    last = began
    while pending:
        messages = link.poll(HANGS)
        last = now()
        if not messages:
            raise LoadError(f"{len(pending)} requests were not answered within {HANGS} s")
        for _, message in messages:
            if "method" in message:
                continue
            id = message["id"]
            lane, sent = pending.pop(id)
            if "result" not in message or not check(message["result"]):
                raise LoadError(f"wrong answer: {str(message)[:500]}")
            keep(last - sent)
            if last < end:
                id = take()
                pending[id] = lane, last
                send(lane, fill(id))
    took = (last - began) / 1e9
    done = len(latencies)
    return Sample(
        value=done * calls.size * options.get("scale", 1) / took,
        operations=done,
        seconds=took,
        latencies=latencies,
    )
