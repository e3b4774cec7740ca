"""Reads the wire in a log: which messages went where, which requests there were, and how each has ended.

Plain functions over plain JSON. Nothing of what is judged is imported here, and nothing that plays it.
"""
# What is read here is open JSON, or attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final, cast

import attrs

Event = dict[str, Any]

BUSY: Final = -31002
"""The code of an error that refuses a request for want of room."""


@attrs.frozen(eq=False)
class Message:
    """One message at one end of a wire.

    Attributes:
        i: The number of its event.
        t: When.
        conn: Over which connection.
        end: At which end.
        way: ``out`` if that end has given it to the wire, ``in`` if it got it.
        data: The message.
        size: Its size as it came, in bytes; of a batch, that of all of it.
        together: How many came with it at once.
        stream: Over HTTP, the number of the HTTP request.
        link: How many connections the client had before this one, whose ids mean others.
    """

    i: int
    t: float
    conn: int
    end: str
    way: str
    data: dict[str, Any]
    size: int = 0
    together: int = 1
    stream: int | None = None
    link: int = 0

    @property
    def is_request(self) -> bool:
        return "method" in self.data and "id" in self.data

    @property
    def is_answer(self) -> bool:
        return "method" not in self.data and ("result" in self.data or "error" in self.data)

    @property
    def method(self) -> str:
        return str(self.data.get("method", ""))

    @property
    def id(self) -> str:
        return json.dumps(self.data.get("id"))

    @property
    def time_left(self) -> float:
        """How many seconds it says its caller has left; infinite if it does not say."""
        params = self.data.get("params") or {}
        return float((params.get("_meta") or {}).get("trio-mcp/timeoutMs", math.inf)) / 1000

    @property
    def wants_input(self) -> bool:
        """Whether it is an answer that asks for input: another request follows."""
        result = self.data.get("result")
        return isinstance(result, dict) and result.get("resultType") == "input_required"

    @property
    def is_refusal(self) -> bool:
        """Whether it is an answer that says that there is no room for a request."""
        error = self.data.get("error")
        return self.is_answer and isinstance(error, dict) and error.get("code") == BUSY

    @property
    def goodbye(self) -> str | None:
        """The id of the request that it gives up, if it gives up one."""
        if self.method != "notifications/cancelled":
            return None
        return json.dumps(self.data.get("params", {}).get("requestId"))

    @property
    def token(self) -> str:
        """The token of the call that it makes, or of the question that it asks."""
        return token_of(self.data)


def token_of(data: dict[str, Any]) -> str:
    """Return the token in a request; the empty string if there is none."""
    params = data.get("params") or {}
    match data.get("method"):
        case "tools/call" | "prompts/get":
            return str((params.get("arguments") or {}).get("token", ""))
        case "resources/read":
            uri = str(params.get("uri", ""))
            return uri.removeprefix("script://") if uri.startswith("script://") else ""
        case "elicitation/create":
            return str(params.get("message", ""))
        case "sampling/createMessage":
            content: Any = params["messages"][0]["content"]
            return str((content[0] if isinstance(content, list) else content)["text"])
        case _:
            return ""


@attrs.define(eq=False)
class Request:
    """A request on the wire, and what became of it.

    Attributes:
        conn: Over which connection.
        end: Which end has made it.
        id: Its id.
        out: How it was sent.
        came: How it was received; `None` if it was not.
        answers: The answers that were sent to it.
        answered: The first answer that was received.
        goodbyes: How it was given up.
        heard: How the other end has learned of that.
    """

    conn: int
    end: str
    id: str
    out: Message
    came: Message | None = None
    answers: list[Message] = attrs.field(factory=list[Message])
    answered: Message | None = None
    goodbyes: list[Message] = attrs.field(factory=list[Message])
    heard: list[Message] = attrs.field(factory=list[Message])

    @property
    def token(self) -> str:
        return self.out.token

    @property
    def method(self) -> str:
        return self.out.method

    @property
    def meta(self) -> dict[str, Any]:
        """Its `_meta`."""
        return cast("dict[str, Any]", (self.out.data.get("params") or {}).get("_meta") or {})


@attrs.define(eq=False)
class Stream:
    """One HTTP request.

    Attributes:
        number: Its number.
        conn: Of which client.
        method: Of HTTP.
        began: The number and the time of its beginning.
        arrived: The same, of when the server got it.
        status: Of the answer.
        is_stream: Whether the answer is one of events.
        end: How it ended: the event; `None` if it did not.
        asked: The ids of the requests in it.
    """

    number: int
    conn: int
    method: str
    began: Event
    arrived: Event | None = None
    status: int | None = None
    is_stream: bool = False
    end: Event | None = None
    asked: list[str] = attrs.field(factory=list[str])
    said: str = ""
    heard: str = ""

    @property
    def session(self) -> str | None:
        """The session that it names, if it names one."""
        session: str | None = self.began["headers"].get("mcp-session-id")
        return session

    def is_open(self, i: int) -> bool:
        """Whether it was open at a moment."""
        return self.began["i"] < i and (self.end is None or self.end["i"] > i)


class BadFrame(Exception):
    """What is on the wire is no message."""


def texts_in(raw: str) -> list[Any]:
    """Return the messages in a frame: one, or those of a batch."""
    try:
        value: Any = json.loads(raw)
    except ValueError as error:
        raise BadFrame(raw[:200]) from error
    return list(value) if isinstance(value, list) else [value]


def events_in(text: str) -> tuple[list[tuple[str, str]], str]:
    """Return the ids and the data of the server-sent events that are complete, and the rest."""
    *whole, rest = text.replace("\r\n", "\n").split("\n\n")
    found: list[tuple[str, str]] = []
    for event in whole:
        id, kind, data = "", "message", list[str]()
        for line in event.split("\n"):
            name, _, value = line.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
            elif name == "id":
                id = value.removeprefix(" ")
            elif name == "event":
                kind = value.removeprefix(" ")
        if any(data) and kind == "message":  # in HTTP+SSE there is one that names the endpoint
            found.append((id, "\n".join(data)))
    return found, rest


class Wire:
    """All messages of a log, and the requests among them.

    Attributes:
        messages: The messages, in the order of the log.
        requests: The requests, by connection and end that makes them.
        streams: The HTTP requests, by number.
        unfounded: Answers and cancellations of what was not asked.
        torn: The events whose frame is no message.
        repeated: Requests whose id was used before.
    """

    def __init__(self, events: list[Event]) -> None:
        self.messages: list[Message] = []
        self.streams: dict[int, Stream] = {}
        self.torn: list[Event] = []
        self._seen: set[tuple[int, int, str, str]] = set()
        self._sessions: Counter[int] = Counter()  # how many each client has begun: each numbers its events anew
        for event in events:
            self._read(event)
        self.requests: dict[tuple[int, str], dict[str, Request]] = defaultdict(dict)
        self._before: dict[tuple[int, str, int], dict[str, Request]] = {}  # of connections that were replaced
        self.unfounded: list[Message] = []
        self.repeated: list[Message] = []
        self._renewed = 0
        connected = [event for event in events if event["ev"] == "connected"]
        for message in self.messages:
            while connected and connected[0]["i"] < message.i:
                self._connect(connected.pop(0))
            if message.method == "initialize" and (message.end, message.way) == ("client", "out"):
                self._renew(message.conn)
            self._sort(message)
        if "slack" in events[0]:
            self._reorder()

    def all_requests(self) -> Iterator[Request]:
        """Yield all requests."""
        for of_end in self.requests.values():
            yield from of_end.values()

    # -- from events to messages --

    def _read(self, event: Event) -> None:
        ev = event["ev"]
        if ev in {"out", "in"}:
            self._add(event, event["end"], ev, event["raw"], event.get("together", 1))
        elif ev == "http-sent":
            self.streams[event["stream"]] = Stream(event["stream"], event["conn"], event["method"], event)
            self._add(event, "client", "out", event["raw"], 1, event["stream"])
        elif ev == "http-request":
            self.streams[event["stream"]].arrived = event
            self._add(event, "server", "in", event["raw"], 1, event["stream"])
        elif ev == "http-head":
            stream = self.streams[event["stream"]]
            stream.status = event["status"]
            stream.is_stream = event["headers"].get("content-type", "").startswith("text/event-stream")
        elif ev == "http-end":
            self.streams[event["stream"]].end = event
        elif ev in {"http-said", "http-heard"}:
            self._take(event, said=ev == "http-said")

    def _take(self, event: Event, *, said: bool) -> None:
        stream = self.streams[event["stream"]]
        text = (stream.said if said else stream.heard) + event["raw"]
        end, way = ("server", "out") if said else ("client", "in")
        if stream.is_stream:
            found, rest = events_in(text)
            for id, data in found:
                seen = (event["conn"], self._sessions[event["conn"]], f"{way} {stream.session} {id}", data)
                if id and seen in self._seen:
                    continue  # a stream that was taken up again repeats what may have been lost
                self._seen.add(seen)
                self._add(event, end, way, data, len(found), stream.number)
        else:
            rest = text
            if text.strip() and not (text.lstrip()[0] in "{[" and not _is_whole(text)):
                if text.lstrip()[0] in "{[":
                    self._add(event, end, way, text, 1, stream.number)
                rest = ""
        if said:
            stream.said = rest
        else:
            stream.heard = rest

    def _add(self, event: Event, end: str, way: str, raw: str, together: int, stream: int | None = None) -> None:
        if not raw:
            return
        try:
            found = texts_in(raw)
        except BadFrame:
            self.torn.append(event)
            return
        for data in found:
            if not isinstance(data, dict):
                self.torn.append(event)
                continue
            message = Message(
                event["i"],
                event["t"],
                event["conn"],
                end,
                way,
                data,
                len(raw),
                max(together, len(found)),
                stream,
                event.get("link", 0),
            )
            self.messages.append(message)
            if message.method == "initialize" and way == "out":
                self._sessions[event["conn"]] += 1
            if stream is not None and message.is_request and way == "out" and end == "client":
                self.streams[stream].asked.append(message.id)

    # -- from messages to requests --

    def _reorder(self) -> None:
        """Find the requests of cancellations that have overtaken them: a proxy sees each connection when it may."""
        for message in [one for one in self.unfounded if one.stream is not None]:
            end = message.end if message.way == "out" else {"client": "server", "server": "client"}[message.end]
            asked = self.requests[message.conn, end].get(message.goodbye or "")
            if asked is not None:
                self.unfounded.remove(message)
                (asked.goodbyes if message.way == "out" else asked.heard).append(message)

    def _connect(self, event: Event) -> None:
        """Let a client connect again: its server may be still about what came over the connection before."""
        conn, link = event["conn"], event.get("link", 0)
        for end in ("client", "server"):
            self._before[conn, end, link - 1] = self.requests[conn, end]
        self._renew(conn)

    def _renew(self, conn: int) -> None:
        """Let a connection begin, or a session: the ids of those before it mean nothing any more."""
        for end in ("client", "server"):
            known = self.requests[conn, end]
            self._renewed += 1
            self.requests[conn, end] = {f"{id} {self._renewed}": known[id] for id in known}

    def _known(self, message: Message, end: str) -> dict[str, Request]:
        """Return what an end has asked over the connection of a message, by the ids there."""
        now = self.requests[message.conn, end]
        return self._before.get((message.conn, end, message.link), now)

    def _sort(self, message: Message) -> None:
        other = "server" if message.end == "client" else "client"
        mine, theirs = self._known(message, message.end), self._known(message, other)
        if message.is_request:
            if message.way == "in":
                if message.id in theirs and theirs[message.id].came is None:
                    theirs[message.id].came = message
            else:
                if message.id in mine:
                    self.repeated.append(message)
                mine[message.id] = Request(message.conn, message.end, message.id, message)
                if mine is not (now := self.requests[message.conn, message.end]):
                    now[f"{message.id} of connection {message.link}"] = mine[message.id]
        elif message.is_answer and message.data.get("id") is not None:
            asked = (theirs if message.way == "out" else mine).get(message.id)
            if asked is None:
                self.unfounded.append(message)
            elif message.way == "out":
                asked.answers.append(message)
            elif asked.answered is None:
                asked.answered = message
        elif (id := message.goodbye) is not None:
            asked = (mine if message.way == "out" else theirs).get(id)
            if asked is None:
                self.unfounded.append(message)
            elif message.way == "out":
                asked.goodbyes.append(message)
            else:
                asked.heard.append(message)


def _is_whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def finite(value: float | None) -> float:
    """Return a number of a log, in which infinity is null."""
    return math.inf if value is None else value
