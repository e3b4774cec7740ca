"""Judges what clients were told of changes: the promises of `docs/changes.md`. Knows nothing of the package.

A change goes two ways, and each is judged by itself: from the server's author to the wire, and from the wire to the
listeners and callbacks of a client. Equal changes that wait may become one on either; none may be lost.
"""
# What is read here is open JSON, or attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

import attrs

from .judged import UNREAD, Found, Judged, Violation
from .reading import Event, Message, Request

LISTS: Final = ("tools", "prompts", "resources")
UPDATED: Final = "notifications/resources/updated"
ANNOUNCED: Final = "simulation/announced"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
WITHOUT_A_STREAM: Final = frozenset({"no-get", "stateless"})
"""Wires on which a session of the legacy era has nothing that could carry what belongs to no request."""

ON_ONE_WIRE: Final = frozenset({"memory", "messages", "lines", "tcp", "websocket"})
"""Wires on which all that a server says goes one way, in order; and that are never stalled for ever."""

NEVER: Final = (math.inf, math.inf)


def change_in(message: Message) -> str | None:
    """Return what has changed, by a notification."""
    if message.method == UPDATED:
        return str((message.data.get("params") or {}).get("uri"))
    kind = message.method.removeprefix("notifications/").removesuffix("/list_changed")
    return kind if message.method == f"notifications/{kind}/list_changed" and kind in LISTS else None


def subscription_in(message: Message) -> str | None:
    """Return the subscription that a notification names."""
    meta = (message.data.get("params") or {}).get("_meta") or {}
    return json.dumps(meta[SUBSCRIPTION]) if SUBSCRIPTION in meta else None


def filter_of(params: dict[str, Any]) -> frozenset[str]:
    """Return what a filter of the modern era names."""
    wanted = params.get("notifications") or {}
    lists = {kind for kind in LISTS if wanted.get(f"{kind}ListChanged")}
    return frozenset(lists | set(wanted.get("resourceSubscriptions") or ()))


@attrs.frozen
class Subscription:
    """Something that a server tells one client of, for a while.

    Attributes:
        conn: Over which connection.
        id: The request that made it, in the modern era.
        what: What it tells of.
        asked: The number of the event since which it may.
        stands: The number of the last event before it must.
        ends: The number and the time of the first event that excuses it.
        over: The number and the time of the event after which it is over: it tells of no later change.
        silent: The time after which it tells nothing, even if that has waited to be sent.
        link: In the modern era, over which of its client's connections, which use the same ids: what asks for it on an earlier one
            may come later.
    """

    conn: int
    id: str | None
    what: frozenset[str]
    asked: int
    stands: int
    ends: tuple[float, float]
    over: tuple[float, float] = NEVER
    silent: float = math.inf
    link: int = 0

    def has(self, message: Message) -> bool:
        """Whether a notification names it."""
        return subscription_in(message) == self.id and (self.id is None or message.link == self.link)


class ChangeRules(Judged):
    """Judges what a log says of changes."""

    # -- who is subscribed to what --

    def gives_way(self, conn: int) -> bool:
        """Whether what is kept for a session may give way to others: it, or what its client has not read."""
        return self.is_http and not self.is_modern(conn) and "max_kept_bytes" in self.begin["small"]

    def excuse(self, conn: int, since: int) -> tuple[float, float]:
        """Return what befalls a connection first, or its end: the number and the time of the event.

        That a client leaves, or the server is ended, excuses also what is begun later, while it was on its way.
        """
        found = [
            event
            for ev in (
                "cut",
                "damage",
                "unconnected",
                "restart",
                "member-restart",
                "server-ending",
                "server-ended",
                "closing",
                "leaving",
                "left",
            )
            for event in self.by_kind[ev]
            if event["i"] > since or ev in {"server-ending", "leaving", "left"}
            if event.get("client", event.get("conn", conn)) in {conn, -1}
        ]
        found += [event for event in self.by_kind["restart"] if event["i"] > since]
        found += [event for event in self.gave_way(conn) if event["i"] > since]
        if self.is_http and not self.is_modern(conn):
            is_broken = not any(
                stream.conn == conn and stream.method == "GET" and stream.is_open(since)
                for stream in self.wire.streams.values()
            )  # what it is told waits until it has a stream again
            breaks = [event for event in self.by_kind["break"] if event["conn"] == conn]
            found += [event for event in breaks if event["i"] > since or is_broken]
        return min(((event["i"], event["t"]) for event in found), default=NEVER)

    @functools.cached_property
    def subscriptions(self) -> list[Subscription]:
        """What clients have subscribed to."""
        found: list[Subscription] = []
        for client in self.clients:
            if self.is_modern(client):
                found += self._of_requests(client)
            else:
                found += self._of_session(client)
        return found

    def _of_requests(self, client: int) -> Iterator[Subscription]:
        """Yield what a client of the modern era listens to."""
        acknowledgements = [
            message
            for message in self.wire.messages
            if message.conn == client and message.end == "server" and message.way == "out"
            if message.method == "notifications/subscriptions/acknowledged"
        ]
        for request in self.wire.requests[client, "client"].values():
            if request.method != "subscriptions/listen" or request.came is None:
                continue
            after = [m for m in acknowledgements if m.i > request.came.i and m.link == request.came.link]
            agreed = next((m for m in after if subscription_in(m) == request.id), None)
            what = filter_of((request.out if agreed is None else agreed).data["params"])
            stands = len(self.events) if agreed is None else agreed.i
            answered = [(answer.i, answer.t) for answer in request.answers]
            heard = [(message.i, message.t) for message in request.heard]
            closed = None if request.came.stream is None else self.wire.streams[request.came.stream].end
            gone = [] if closed is None else [(closed["i"], closed["t"])]
            at = request.came.t + request.out.time_left  # then its handler is cancelled, which is told by nobody
            late = [(e["i"], at) for e in self.events if e["t"] >= at - self.tiny][:1]
            ends = min([*answered, *heard, *gone, *late, self.excuse(client, request.came.i)])
            read = [message for message in request.heard if message.i < self.reads_until]
            given_up = [(message.i, message.t + self.wait(message)) for message in read]
            silent = min([*answered, *given_up, *gone], default=NEVER)
            over = min([silent, *late])
            link = request.came.link
            yield Subscription(client, request.id, what, request.came.i, stands, ends, over, silent[1], link)

    def _of_session(self, client: int) -> Iterator[Subscription]:
        """Yield what a session of the legacy era is told of."""
        if self.name in WITHOUT_A_STREAM:
            return
        lists = frozenset({*LISTS, "announce"})
        for message in self.wire.messages:
            if (message.method, message.conn, message.way) == ("notifications/initialized", client, "in"):
                stands = len(self.events) if self.is_refused(message) else self.looked_at(message)
                yield Subscription(client, None, lists, message.i, stands, self.excuse(client, message.i))
        of_uri: dict[str, list[Request]] = {}
        for request in self.wire.requests[client, "client"].values():
            if request.method in {"resources/subscribe", "resources/unsubscribe"} and request.came is not None:
                of_uri.setdefault(request.out.data["params"]["uri"], []).append(request)
        for uri, requests in of_uri.items():
            yield from self._of_resource(client, uri, requests)

    def is_refused(self, message: Message) -> bool:
        """Whether a message over HTTP has not been accepted: it was for a session that there is no more."""
        status = 202 if message.stream is None else self.wire.streams[message.stream].status
        return status is None or status >= 400

    def _of_resource(self, client: int, uri: str, requests: list[Request]) -> Iterator[Subscription]:
        """Yield when a session was subscribed to one resource, or may have been.

        Requests that are open at once may be served in any order.
        """
        leaving = [request for request in requests if request.method == "resources/unsubscribe"]
        for begun in requests:
            if begun in leaving or begun.came is None or (begun.answers and not self.granted(begun)):
                continue
            may_end, must_end = [self.excuse(client, begun.came.i)], [NEVER]
            for left in leaving:
                assert left.came is not None
                if left.came.i < begun.came.i and self.excuse(client, left.came.i)[0] < begun.out.i:
                    continue  # it was about another connection
                if self.done(left) > begun.came.i:
                    may_end.append(self.served(left, left.came))
                if self.granted(left) and self.done(begun) < left.came.i:
                    must_end.append((left.answers[0].i, left.answers[0].t))
            stands = begun.answers[0].i if self.granted(begun) else len(self.events)
            yield Subscription(client, None, frozenset({uri}), begun.came.i, stands, min(may_end), min(must_end))

    def granted(self, request: Request) -> bool:
        """Whether a request was answered with a result."""
        return bool(request.answers) and "result" in request.answers[0].data

    def served(self, request: Request, came: Message) -> tuple[float, float]:
        """Return the number and the time of the first event at which a request may have changed something.

        One that was given up has waited for its place until then; it was not served, or its answer was under way.
        """
        if request.answers or not request.heard:
            return came.i, came.t
        since = self.free_before(request.conn, request.heard[0].t) - self.tiny
        return next((e["i"], e["t"]) for e in self.events if e["i"] >= came.i and e["t"] >= since)

    def done(self, request: Request) -> float:
        """Return since which event a request changes nothing any more: it is answered, or was given up."""
        if request.answers:
            return request.answers[0].i
        return min(map(self.looked_at, request.heard), default=math.inf)

    def looked_at(self, message: Message) -> int:
        """Return the last event that may have come before a message was looked at, which takes turns of its end."""
        last = message.t + self.held_up(message.conn)
        return next((event["i"] - 1 for event in self.events if event["t"] > last), len(self.events))

    @functools.cached_property
    def reads_until(self) -> float:
        """The event from which on the server looks at nothing any more, though it still sends what it has."""
        return min(
            (event["i"] for event in self.by_kind["server-ending"] if event["how"] != "drain"), default=math.inf
        )

    def wait(self, message: Message) -> float:
        """How many seconds a message may wait behind others, until it is looked at."""
        return 0.0 if self.is_prompt and message.together == 1 else self.held_up(message.conn)

    def held_up(self, conn: int) -> float:
        """How many seconds an end may take until it looks at what it has got."""
        unread = UNREAD + self.stalled(conn) if "max_outbox_bytes" in self.begin["small"] else 0.0
        return self.patience + unread + self.tiny

    def told(self, subscription: Subscription, what: str, end: str) -> list[Message]:
        """Return the notifications of a change, as the server sent them or the client got them."""
        return [
            message
            for message in self.of_change.get((subscription.conn, end, what), ())
            if subscription.has(message) and message.i > subscription.asked
        ]

    @functools.cached_property
    def of_change(self) -> dict[tuple[int, str, str], list[Message]]:
        """All notifications of changes, by connection, the end that has them, and what has changed."""
        found: dict[tuple[int, str, str], list[Message]] = {}
        for message in self.wire.messages:
            what = "announce" if message.method == ANNOUNCED else change_in(message)
            if what is not None and (message.end == "server") is (message.way == "out"):
                found.setdefault((message.conn, message.end, what), []).append(message)
        return found

    # -- when a wire is free --

    @functools.cached_property
    def idle(self) -> dict[int, list[tuple[float, float]]]:
        """When nothing was on its way to a client, by connection: nothing waits to be sent then."""
        found: dict[int, list[tuple[float, float]]] = {client: [] for client in self.clients}
        under_way, since = Counter[int](), {client: float(self.begin["t"]) for client in self.clients}
        connected = [(event["i"], event["conn"], event["t"]) for event in self.by_kind["connected"]]
        links = Counter[int]()
        for message in self.wire.messages:
            while connected and connected[0][0] < message.i:
                _, conn, since[conn] = connected.pop(0)
                under_way[conn] = 0  # what was on the way is lost
                links[conn] += 1
            conn = message.conn
            if message.link < links[conn] - 1:
                continue  # it is lost as well
            if (message.end, message.way) == ("server", "out"):
                if not under_way[conn] and message.t > since[conn] + self.tiny:
                    found[conn].append((since[conn], message.t))
                under_way[conn] += 1
            elif (message.end, message.way) == ("client", "in") and under_way[conn]:
                under_way[conn] -= 1
                since[conn] = message.t
        for conn, spans in found.items():
            if not under_way[conn]:
                spans.append((since[conn], math.inf))
        return found

    def free(self, conn: int, t: float) -> float:
        """Return when all that waits to be sent to a client at a time has been sent."""
        if self.name in ON_ONE_WIRE:
            return next((max(begin, t) for begin, end in self.idle[conn] if end > t), math.inf)
        # Its callbacks are slow; what waits for them may also weigh no more than a message.
        holds_up = {"max_notifications", "max_message_bytes"} & set(self.begin["small"])
        unread = self.patience if holds_up else 0.0
        return t + self.stalled(conn) + unread

    def free_before(self, conn: int, t: float) -> float:
        """Return since when what waits to be sent to a client at a time may have waited."""
        if self.name in ON_ONE_WIRE:
            return max((min(end, t) for begin, end in self.idle[conn] if begin < t), default=0.0)
        return t - (self.free(conn, t) - t)

    # -- from the author to the wire --

    def rule_changes_are_sent(self) -> Found:
        """Whoever has subscribed when something changes is told of it; several changes may be told as one."""
        for subscription in self.subscriptions:
            if self.gives_way(subscription.conn):
                continue
            for change in self.by_kind["changing"]:
                what = change["what"]
                if what not in subscription.what or not subscription.stands < change["i"] < subscription.ends[0]:
                    continue
                if subscription.ends[1] <= self.free(subscription.conn, change["t"]) + self.tiny:
                    continue
                if not any(message.i > change["i"] for message in self.told(subscription, what, "server")):
                    name = subscription.id or f"the session of client {subscription.conn}"
                    yield Violation("", change["i"], f"{what} changed, and {name} is not told")

    def rule_changes_are_founded(self) -> Found:
        """Nobody is told of what has not changed, or what nobody there has subscribed to, or not any more."""
        for (conn, end, what), messages in self.of_change.items():
            if end != "server" or what == "announce":
                continue
            counted = Counter[tuple[int, int]]()
            for message in messages:
                id = subscription_in(message)
                fitting = [
                    each
                    for each in self.subscriptions
                    if each.conn == conn and each.has(message) and what in each.what and each.asked < message.i
                ]
                if not fitting:
                    yield Violation("", message.i, f"client {conn} is told of {what}, and has not subscribed")
                    continue
                last = 0
                if id is not None:  # connections that follow one another use the same ids
                    fitting = [max(fitting, key=lambda each: each.asked)]
                    last = fitting[0].asked
                if self.is_http and self.excuse(conn, 0)[0] < message.i:
                    break  # what was told before may be repeated, and what was not comes when there is a stream again
                if not any(message.t <= self.last(each) for each in fitting):
                    yield Violation("", message.i, f"client {conn} is told of {what}, and listens no more")
                told = last, 0 if self.is_http else self.connection_of(message)  # each connection is told
                counted[told] += 1
                changes = [
                    event
                    for event in self.by_kind["changing"]
                    if event["what"] == what
                    and event["i"] < message.i
                    and any(self.covers(each, event) for each in fitting)
                ]
                if counted[told] > len(changes) or not any(self.is_fresh(event, message) for event in changes):
                    yield Violation("", message.i, f"client {conn} is told of {what}, which has not changed")

    def covers(self, subscription: Subscription, change: Event) -> bool:
        """Whether something may have changed while a client was subscribed to it."""
        i, t = subscription.over
        return bool(subscription.asked < change["i"] and (change["i"] < i or change["t"] <= t + self.tiny))

    def is_fresh(self, change: Event, message: Message) -> bool:
        """Whether a notification may be about a change: nothing waits when the wire is free."""
        return message.t <= self.free(message.conn, change["t"]) + self.tiny

    def last(self, subscription: Subscription) -> float:
        """Return until when a client may be told, after its subscription is over, of what changed before.

        On one wire nothing overtakes an answer, unless there is no room for it. Over HTTP a session has a stream for
        each answer, and one for all changes. What belongs to a request that was given up is not sent any more.
        """
        conn, over = subscription.conn, subscription.over[1]
        if subscription.id is None and not self.is_http and "max_outbox_bytes" not in self.begin["small"]:
            return over + self.tiny
        return min(subscription.silent, self.free(conn, over)) + self.tiny

    def rule_announcements_are_sent(self) -> Found:
        """Every session gets what is announced to all, once and in order; nobody else does."""
        few = "max_notifications" in self.begin["small"]
        sessions = [each for each in self.subscriptions if "announce" in each.what]
        for (conn, end, what), messages in self.of_change.items():
            if what != "announce" or end != "server":
                continue
            numbers = [message.data["params"]["n"] for message in messages]
            by_connection: dict[int, list[int]] = defaultdict(list)  # the last one may not have ended yet
            for message, number in zip(messages, numbers, strict=True):
                by_connection[self.connection_of(message)].append(number)
            if messages[0].i < min((each.asked for each in sessions if each.conn == conn), default=math.inf):
                yield Violation("", messages[0].i, f"client {conn} has no session, and is told {numbers}")
            for told in by_connection.values():
                if told != sorted(set(told)) and not (self.is_http and self.trouble(conn) < math.inf):
                    yield Violation("", messages[0].i, f"client {conn} is told {told}")
        for session in sessions:
            conn = session.conn
            if self.gives_way(conn):
                continue
            said = {message.data["params"]["n"] for message in self.told(session, "announce", "server")}
            for event in self.by_kind["announcing"]:
                if few or event["n"] in said or not session.stands < event["i"] < session.ends[0]:
                    continue
                if session.ends[1] > self.free(conn, event["t"]) + self.tiny:
                    yield Violation("", event["i"], f"{event['n']} is announced, and client {conn} is not told")

    # -- from the wire to listeners and callbacks --

    def owner(self, message: Message) -> str:
        """Return the listener that a notification of the modern era is for; the empty string if none is known.

        A request does not say which listener it is for; but listeners of resources ask for one of their own.
        """
        asked = [
            request.out
            for request in self.wire.requests[message.conn, "client"].values()
            if request.method == "subscriptions/listen" and request.id == subscription_in(message)
            if request.out.i < message.i
        ]
        if not asked:
            return ""
        # Connections that follow one another use the same ids.
        wanted = filter_of(max(asked, key=lambda out: out.i).data["params"])
        return next((what[4:] for what in sorted(wanted) if self.of_token[what[4:]]["call-began"]), "")

    def rule_changes_are_heard(self) -> Found:
        """A listener gets each change that came for it, and no other; several may have become one."""
        for listening in self.by_kind["listening"]:
            client, token = listening["client"], listening["token"]
            ended, began = self.one(token, "listening-ended"), self.one(token, "call-began")
            heard = self.of_token[token]["change"]
            lists_only = not any("://" in what for what in listening["what"])
            if ended is None or began is None or (self.is_modern(client) and lists_only):
                continue
            for what in listening["what"]:
                came = [
                    message
                    for message in self.of_change.get((client, "client", what), ())
                    if not self.is_modern(client) or self.owner(message) == token
                ]
                got = [event for event in heard if event["what"] == what]
                yield from self._lost(
                    token, listening, ended, came, [e for e in heard if e["what"] in {what, "anything"}]
                )
                for number, event in enumerate(got, 1):
                    since = began["t"] - self.held_up(client)  # it may have waited behind others
                    so_far = sum(since <= message.t and message.i < event["i"] for message in came)
                    if number > so_far and not self.trouble(client) < event["i"]:
                        yield Violation("", event["i"], f"{token} hears of {what}, of which nothing came")
            for event in heard:
                if event["what"] == "anything":
                    excused = self.trouble(client) < event["i"] or "max_kept_bytes" in self.begin["small"]
                    if not excused:
                        yield Violation("", event["i"], f"{token} was interrupted, and nothing has happened")
                elif event["what"] not in listening["what"] and not event["what"].endswith(token):
                    yield Violation("", event["i"], f"{token} hears of {event['what']}, and has not subscribed")

    def _lost(self, token: str, listening: Event, ended: Event, came: list[Message], heard: list[Event]) -> Found:
        for message in came:
            if not listening["i"] < message.i < ended["i"]:
                continue
            if ended["t"] <= message.t + self.held_up(message.conn) or self.trouble(message.conn) < message.i:
                continue
            if not any(event["i"] > message.i for event in heard):
                yield Violation("", message.i, f"{change_in(message)} changed, and {token} does not hear of it")

    def rule_callbacks_are_called(self) -> Found:
        """A callback is called for each change that came for it, and for no other."""
        for client in self.clients:
            watched = self.begin["watches"][client]
            if self.trouble(client) < math.inf or "max_kept_bytes" in self.begin["small"]:
                continue
            left = self.of_client("left", client)
            for what in watched:
                came = self.of_change.get((client, "client", what), [])
                if self.is_modern(client) and "://" not in what:
                    asked = self.asked_for(client, watched)
                    if len(asked) != 1:
                        continue  # another listener has asked for the same, and nothing says which is which
                    came = [message for message in came if subscription_in(message) == asked[0]]
                calls = [
                    event
                    for event in self.by_kind["callback"]
                    if event["client"] == client and event["what"] == what
                ]
                for number, event in enumerate(calls, 1):
                    if number > sum(message.i < event["i"] for message in came):
                        yield Violation("", event["i"], f"{what} has a callback, and nothing came")
                done = left is not None and not self.dropped(client)
                due = [
                    m
                    for m in came
                    if left is not None and not self.is_left(m)
                    if m.t + 5 + self.handled(client) + self.held_up(client) < left["t"]
                ]
                if done and len(calls) < len(due):
                    yield Violation(
                        "", due[-1].i, f"{what} came {len(came)} times, and was called {len(calls)} times"
                    )

    def handled(self, client: int) -> float:
        """How many seconds a client has taken for other notifications, which come before in the same line."""
        begun = {(event["token"], event["n"], event["kind"]): event["t"] for event in self.by_kind["told"]}
        return float(
            sum(
                event["t"] - begun[event["token"], event["n"], event["kind"]]
                for event in self.by_kind["told-ended"]
                if event["client"] == client
            )
        )

    def is_left(self, message: Message) -> bool:
        """Whether a client gives up the HTTP response in which it gets a message, in that moment."""
        end = None if message.stream is None else self.wire.streams[message.stream].end
        return end is not None and end["how"] == "left" and end["t"] <= message.t + self.held_up(message.conn)

    def asked_for(self, client: int, watched: list[str]) -> list[str]:
        """Return the subscriptions of the modern era that may be those of a client's callbacks."""
        lists = frozenset(what for what in watched if "://" not in what)
        requests = self.wire.requests[client, "client"].values()
        listens = [request for request in requests if request.method == "subscriptions/listen"]
        return [request.id for request in listens if filter_of(request.out.data["params"]) == lists]

    def rule_announcements_are_heard(self) -> Found:
        """What is announced to all is handled in the order in which it came, each once."""
        for client in self.clients:
            came = [m.data["params"]["n"] for m in self.of_change.get((client, "client", "announce"), ())]
            heard = [event["n"] for event in self.by_kind["announced"] if event["client"] == client]
            if came[: len(heard)] != heard and not self.dropped(client) and self.trouble(client) == math.inf:
                yield Violation("", 0, f"client {client} heard {heard} of {came}")

    def dropped(self, client: int) -> bool:
        """Whether the client says that it has dropped notifications."""
        return any(
            event["left"]["dropped_notifications"]
            for event in self.by_kind["statistics"]
            if event["client"] == client
        )
