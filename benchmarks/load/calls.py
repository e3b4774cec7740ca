"""Requests and answers: so many in flight, each answer checked, each latency kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from trio_mcp._bench._links import Link, LoadError
from trio_mcp._bench._loops import Calls, Sample, keep_in_flight
from trio_mcp._bench._messages import Message
from trio_mcp._bench._trials import ENCODED_ALIKE, text_of

__all__ = ["measure_calls", "plan_calls"]


def _text_is(expected: str) -> Callable[[Message], bool]:
    def check(result: Message) -> bool:
        return bool(result["content"][0]["text"] == expected)

    return check


def _payload_found(result: Message) -> bool:
    return bool(result["content"][0]["text"] == "")


def plan_calls(options: Mapping[str, Any]) -> Calls:
    """Return what a workload's options ask for."""
    what, size, scale = options["what"], options.get("size", 100), options.get("scale", 1)
    text = text_of(size)
    is_long = size > ENCODED_ALIKE
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
                size=size * scale,
            )
        case "swallow":
            return Calls(
                method="tools/call",
                params={"name": "swallow", "arguments": {"text": text}},
                check=_text_is(str(size)),
                size=size * scale,
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

    With ``each`` the figure is how many microseconds one takes, on the clock.

    Raises:
        LoadError: An answer was wrong, or none came.
    """
    sample = keep_in_flight(link, plan_calls(options), options["in_flight"], seconds)
    if not options.get("each"):
        return sample
    return attrs.evolve(sample, value=sample.seconds / sample.operations * 1e6)
