"""A log that is judged: what is looked up in it again and again, and what excuses much. Knows nothing of the package."""
# What is read here is open JSON, or attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from .reading import Event, Message, Request, Stream, Wire, finite

TINY: Final = 1e-6
GIVEN_UP: Final = frozenset({"cancelled", "TooSlowError", "ClosedResourceError", "OfTheCaller"})
UNREAD: Final = 15.0
"""Seconds for which an end may not read because the other end does not, beside those of stalls."""

PROMPT: Final = frozenset({"memory", "messages", "lines", "tcp"})
"""Wires on which an end looks at a message in the very step in which it gets it."""


@attrs.frozen
class Violation:
    """A promise that was broken.

    Attributes:
        rule: Which rule says so.
        i: The number of the event that shows it.
        text: What is wrong.
    """

    rule: str
    i: int
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


Found = Iterator[Violation]


class Judged:
    """One log, and what is known of it."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)
        self.begin = self.events[0]
        self.limits: dict[str, Any] = self.begin["limits"]
        self.name: str = self.begin["wire"]
        self.is_http: bool = self.begin["is_http"]
        self.is_prompt = self.name in PROMPT
        self.by_kind: dict[str, list[Event]] = defaultdict(list)
        self.of_token: dict[str, dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
        for event in self.events:
            self.by_kind[event["ev"]].append(event)
            if "token" in event:
                self.of_token[event["token"]][event["ev"]].append(event)
        self.wire = Wire(self.events)
        self.tiny = TINY + float(self.begin.get("slack", 0.0))  # what a busy machine may take, by a real clock
        self.goodbye_timeout: float = self.limits["goodbye_timeout"]
        self.whole: dict[str, str] = {}  # the batch that a call belongs to
        for began in self.by_kind["call-began"]:
            for part in began["parts"]:
                self.whole[part] = began["token"]
        self.requests_of: dict[str, list[Request]] = defaultdict(list)
        for request in self.wire.all_requests():
            if request.token:
                self.requests_of[request.token].append(request)
        self.connected: dict[int, list[int]] = defaultdict(list)
        for event in self.by_kind["connected"]:
            self.connected[event["conn"]].append(event["i"])
        if self.name == "sse":
            for message in self.wire.messages:
                if message.method == "initialize" and message.way == "out":
                    self.connected[message.conn].append(message.i)

    # -- looking things up --

    def one(self, token: str, ev: str) -> Event | None:
        return next(iter(self.of_token[token][ev]), None)

    def of_client(self, ev: str, client: int) -> Event | None:
        return next(
            (event for event in self.by_kind[ev] if event.get("client", event.get("conn")) == client), None
        )

    @property
    def clients(self) -> range:
        return range(len(self.begin["revisions"]))

    def connection_at(self, conn: int, i: int) -> int:
        """Which of its connections a client has at a moment: with each, ids begin anew. Sessions over HTTP share one."""
        return bisect(self.connected[conn], i)

    def connection_of(self, message: Message) -> int:
        """Which of its client's connections a message is of; see `connection_at`."""
        return message.link + 1 if self.by_kind["connected"] else self.connection_at(message.conn, message.i)

    def is_modern(self, client: int) -> bool:
        return bool(self.begin["revisions"][client] == "2026-07-28")

    def restarts(self, conn: int) -> list[Event]:
        """Return when a group has closed a client and opened another one in its place."""
        return [event for event in self.by_kind["member-restart"] if event["conn"] == conn]

    def trouble(self, conn: int, *, restarted: bool = True) -> float:
        """When something befell a connection that excuses much: the number of the event.

        Args:
            conn: The client.
            restarted: Whether that its group restarts it is such a thing.
        """
        found = [math.inf]
        for ev in ("cut", "break", "damage", "unconnected"):
            found += [event["i"] for event in self.by_kind[ev] if event["conn"] == conn]
        restarts = [event["i"] for event in self.restarts(conn)]
        found += restarts if restarted else []
        found += [event["i"] for ev in ("restart", "server-ending") for event in self.by_kind[ev]]
        if self.is_evicted(conn):
            found.append(0)  # when is not to be seen
        found += [event["i"] for event in self.gave_way(conn)]
        left = self.of_client("leaving", conn)
        for event in self.by_kind["server-ended"]:
            is_old = not restarted and min(restarts, default=math.inf) < event["i"]  # that of one before
            if event["conn"] in {conn, -1} and (left is None or event["i"] < left["i"]) and not is_old:
                found.append(event["i"])
        return min(found)

    def gave_way(self, conn: int) -> list[Event]:
        """Return how the server has closed a WebSocket to make room for others (RFC 6455, 7.4: code 1013)."""
        if "max_kept_bytes" not in self.begin["small"]:
            return []
        closed = [event for event in self.by_kind["hanging-up"] if event["end"] == "server"]
        return [event for event in closed if (event["conn"], event["code"]) == (conn, 1013)]

    def is_evicted(self, conn: int) -> bool:
        """Whether the server ended a session of a client to make room: it has to begin another one."""
        if not {"max_kept_bytes", "max_kept_bytes_per_principal"} & set(self.begin["small"]):
            return False
        return any(
            stream.conn == conn and (stream.status == 404 or self.was_cut_off(stream))
            for stream in self.wire.streams.values()
        )

    def was_cut_off(self, stream: Stream) -> bool:
        """Whether the server ended the stream that is a session: who does not read it may not come again."""
        return self.name == "sse" and stream.method == "GET" and (stream.end or {}).get("how") == "failed"

    def call_of(self, request: Request) -> str:
        """The token of the call that a request of a client belongs to."""
        return self.whole.get(request.token, request.token)

    def ended(self, token: str) -> Event | None:
        return self.one(token, "call-ended")

    def given_up(self, token: str) -> Event | None:
        """How a call ended, if it was given up."""
        ended = self.ended(self.whole.get(token, token))
        return ended if ended is not None and ended["how"] in GIVEN_UP else None

    def left_late(self, client: int) -> bool:
        """Whether leaving waited for a stuck peer until `goodbye_timeout` was over."""
        leaving, left = self.of_client("leaving", client), self.of_client("left", client)
        return leaving is None or left is None or left["t"] - leaving["t"] >= self.goodbye_timeout - 0.01

    def fence(self, began: Event) -> float:
        """When a call has to be over, on the clock."""
        ends = [began["t"] + finite(began["left"])]
        ends += [
            max(event["t"], began["t"])
            for event in self.by_kind["cancel"]
            if event["client"] == began["client"] and event["scope"] in began["scopes"]
        ]
        left = self.of_client("left", began["client"])
        return float(min([*ends, math.inf if left is None else left["t"]]))

    def is_in_question(self, token: str) -> bool:
        """Whether a call is made by the handler of a question, and may be cancelled with that."""
        began = self.one(token, "call-began")
        return began is not None and not began["scopes"]

    def shielded_until(self, token: str, event: Event | Message) -> float:
        """Until when a handler cannot be cancelled, at a moment."""
        t, i = (event.t, event.i) if isinstance(event, Message) else (event["t"], event["i"])
        begun = [
            each for each in self.of_token[token]["shield-began"] if each["i"] < i or each["t"] <= t + self.tiny
        ]
        over = [each for each in self.of_token[token]["shield-ended"] if each["i"] < i]
        if len(begun) <= len(over):
            return -math.inf
        later = [each["t"] for each in self.of_token[token]["shield-ended"] if each["i"] > i]
        return max(later, default=math.inf)

    def is_after(self, i: int, t: float, message: Message) -> bool:
        """Whether something happened after a message was looked at."""
        if not (self.is_prompt and message.together == 1):
            behind = self.handling(message.conn, message.t) if self.patience else 0.0
            return t > message.t + self.patience + behind + self.tiny
        if "max_outbox_bytes" not in self.begin["small"]:
            return i > message.i
        # An end whose own messages are not read looks at nothing, and gets nothing more until it does again.
        got = self.got[message.conn, message.end, message.link]
        later = next(iter(got[bisect(got, message.i) :]), math.inf)
        return i > later or t > message.t + UNREAD + self.stalled(message.conn) + self.tiny

    def handling(self, conn: int, since: float) -> float:
        """For how many seconds a client has handled notifications since then: what is slow holds up reading."""
        ends = {(event["token"], event["n"], event["kind"]): event["t"] for event in self.by_kind["told-ended"]}
        told = [event for event in self.by_kind["told"] if event["client"] == conn and event["t"] >= since]
        return float(
            sum(ends.get((event["token"], event["n"], event["kind"]), event["t"]) - event["t"] for event in told)
        )

    @functools.cached_property
    def got(self) -> dict[tuple[int, str, int], list[int]]:
        """The events at which an end of a connection got something."""
        found: dict[tuple[int, str, int], list[int]] = defaultdict(list)
        for message in self.wire.messages:
            if message.way == "in":
                found[message.conn, message.end, message.link].append(message.i)
        return found

    def stalled(self, conn: int) -> float:
        """For how many seconds a wire is stalled in all."""
        return float(sum(event["seconds"] for event in self.by_kind["stall"] if event["conn"] == conn))

    @property
    def patience(self) -> float:
        """How long a message may wait behind others that came at once: where a line is full, that holds up reading."""
        # What waiting notifications may weigh follows from `max_message_bytes`.
        holds_up = {"max_notifications", "max_waiting_bytes", "max_message_bytes"} & set(self.begin["small"])
        return (
            3 * float(self.limits["slow_consumer_timeout"]) if holds_up else 0.0
        )  # several lines, one after another
