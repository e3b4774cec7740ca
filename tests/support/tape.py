"""Records what goes over a wire, and answers the questions the contract asks about it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Literal, cast

import trio


def messages_in(data: bytes) -> list[dict[str, Any]]:
    """Return the messages of a frame: one, or those of a batch."""
    value: Any = json.loads(data)
    return cast("list[dict[str, Any]]", value) if isinstance(value, list) else [value]


class Tape:
    """A recording of one end's frames: hand `tape` to `on_frame`.

    Every frame must be one whole JSON text; a torn one would fail right here.
    """

    def __init__(self) -> None:
        self.frames: list[tuple[Literal["sent", "received"], dict[str, Any]]] = []
        self.times: list[float] = []

    def __call__(self, direction: Literal["sent", "received"], data: bytes) -> None:
        for message in messages_in(data):
            self.frames.append((direction, message))
            self.times.append(trio.current_time())

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What this end has sent."""
        return [message for direction, message in self.frames if direction == "sent"]

    @property
    def received(self) -> list[dict[str, Any]]:
        """What this end has received."""
        return [message for direction, message in self.frames if direction == "received"]

    def requests(self, method: str | None = None) -> list[Any]:
        """The ids of the requests this end has sent."""
        return [m["id"] for m in self.sent if "id" in m and m.get("method", "") == (method or m.get("method"))]

    def goodbyes(self) -> Counter[Any]:
        """How often this end has given up each of its requests."""
        return Counter(
            m["params"]["requestId"] for m in self.sent if m.get("method") == "notifications/cancelled"
        )

    def answers(self) -> Counter[Any]:
        """How often each request of this end was answered."""
        return Counter(m["id"] for m in self.received if "method" not in m and "id" in m)

    def check_endings(self) -> None:
        """Check promises 1, 2 and 4 for every request of this end.

        No goodbye without a request before it, at most one each, none after the answer; no answer twice.
        """
        asked: set[Any] = set()
        ended: dict[Any, str] = {}
        for direction, message in self.frames:
            if direction == "sent" and "method" in message and "id" in message:
                assert message["id"] not in asked, f"id {message['id']} was used twice"
                asked.add(message["id"])
            elif direction == "sent" and message.get("method") == "notifications/cancelled":
                id = message["params"]["requestId"]
                assert id in asked, f"a goodbye to {id}, which was never sent"
                assert id not in ended, f"a goodbye to {id}, which had ended: {ended[id]}"
                ended[id] = "given up"
            elif direction == "received" and "method" not in message and "id" in message:
                assert message["id"] in asked, f"an answer to {message['id']}, which was never asked"
                assert ended.get(message["id"]) != "answered", f"{message['id']} was answered twice"
                ended.setdefault(message["id"], "answered")
