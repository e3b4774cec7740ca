"""What happened, in order: one list of events for all ends of all connections."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import attrs

End = Literal["client", "server"]


@attrs.frozen
class Event:
    """Something that happened.

    Attributes:
        t: When, in seconds.
        kind: What.
        client: To which client's connection it belongs; -1 for none.
        token: To which call or question.
        data: What else is known.
    """

    t: float
    kind: str
    client: int = -1
    token: str = ""
    data: dict[str, Any] = attrs.field(factory=dict[str, Any])

    def __str__(self) -> str:
        said = " ".join(f"{name}={value}" for name, value in self.data.items())
        return f"{self.t:10.4f}  client {self.client}  {self.kind:<18} {self.token:<12} {said}"[:400]


@attrs.define
class Record:
    """All events, and the clock that they are timed by.

    Attributes:
        clock: Tells the time; of the system, where several processes write.
        events: What happened.
        is_exact: Whether time stands still while something is computed.
    """

    clock: Callable[[], float]
    is_exact: bool = False
    events: list[Event] = attrs.field(factory=list[Event])

    def add(self, kind: str, client: int = -1, token: str = "", **data: Any) -> None:
        """Record that something happened now."""
        self.events.append(Event(self.clock(), kind, client, token, data))

    def frame(self, client: int, end: End, way: Literal["out", "in"], data: bytes) -> None:
        """Record a message that one end hands to the wire, or has got from it; each of a batch by itself."""
        try:
            whole: Any = json.loads(data)
        except ValueError:
            self.add("torn", client, end=end, way=way, data=repr(data[:200]))
            return
        for message in cast("list[object]", whole) if isinstance(whole, list) else [whole]:
            self.add(f"{end}-{way}", client, message_token(message), message=message)

    def around(self, number: int, margin: int = 12) -> Iterator[str]:
        """Yield lines about what happened around an event."""
        for index in range(max(0, number - margin), min(len(self.events), number + margin)):
            yield f"{'>' if index == number else ' '} {index:4} {self.events[index]}"


def message_token(message: Any) -> str:
    """Return the token of the call that a message makes, or the empty string."""
    try:
        return str(message["params"]["arguments"]["token"])
    except (KeyError, TypeError):
        return ""


def write_event(event: Event) -> bytes:
    """Return an event as a line, for another process to read."""
    return json.dumps(attrs.asdict(event)).encode() + b"\n"


def read_event(line: bytes) -> Event:
    """Return the event of a line."""
    return Event(**json.loads(line))
