"""Judges a log by the promises of `docs/cancellation.md`. Knows that page, and nothing of the package.

Each rule is a method that yields violations; its first line says what is promised. A rule that cannot know (whose wire
was broken, who waited until `goodbye_timeout` was over) keeps silent. `test_checker.py` shows of each that it can fail.
"""
# What is read here is open JSON, or attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import itertools
import json
import math
import statistics
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from .changes import ChangeRules
from .judged import Found, Violation
from .reading import Event, Message, Request, finite

HEARD: Final = ("http-said", "http-heard")
"""How what one response brings is noted at its two ends."""

SCRIPTS: Final = frozenset({"tool", "plain", "dependency", "prompt", "resource"})


class Checker(ChangeRules):
    """Judges one log."""

    def rules(self) -> dict[str, Callable[[], Found]]:
        return {
            name.removeprefix("rule_").replace("_", "-"): getattr(self, name)
            for name in sorted(dir(self))
            if name.startswith("rule_")
        }

    def check(self) -> list[Violation]:
        """Return all violations, in the order of the events that show them."""
        found = [Violation(rule, v.i, v.text) for rule, look in self.rules().items() for v in look()]
        return sorted(found, key=lambda violation: violation.i)

    # -- the wire --

    def rule_frames_are_whole(self) -> Found:
        """Every frame on the wire is one JSON text, unless the wire has damaged it."""
        damaged = [event["stream"] for event in self.by_kind["damage"] if event["kind"] == "corrupt"]
        once = Counter({(stream, ev): count for stream, count in Counter(damaged).items() for ev in HEARD})
        for event in self.wire.torn:
            place = event.get("stream"), event["ev"]
            if once[place]:
                once[place] -= 1
                continue
            yield Violation("", event["i"], f"{event['ev']}: {event['raw'][:80]!r}")

    def rule_frames_are_shown_as_they_are(self) -> Found:
        """`on_frame` sees each message as it is on the wire, in order."""
        if self.is_http or self.name == "websocket":
            return  # what is shown may wait for a connection, or lie in one
        for client in {event["client"] for event in self.by_kind["shown"]}:
            for way in ("out", "in"):
                shown = [
                    event["raw"]
                    for event in self.by_kind["shown"]
                    if (event["client"], event["way"]) == (client, way)
                ]
                wire = [
                    event["raw"]
                    for event in self.by_kind[way]
                    if (event["conn"], event["end"]) == (client, "client")
                ]
                if self.restarts(
                    client
                ):  # the last one looks at nothing any more, or has shown what it cannot send
                    part, all_of = (shown, wire) if way == "in" else (wire, shown)
                    rest = iter(all_of)
                    if not all(each in rest for each in part):
                        last = self.by_kind["shown"][-1]["i"]
                        yield Violation("", last, f"{shown} are shown, and {wire} on the wire: {way}")
                    continue
                least = min(len(shown), len(wire))
                if shown[:least] != wire[:least] or (way == "out" and len(wire) > len(shown)):
                    last = self.by_kind["shown"][-1]["i"]
                    yield Violation("", last, f"{len(shown)} are shown, {len(wire)} on the wire: {way}")

    def rule_ids_are_used_once(self) -> Found:
        """No end uses the id of a request twice on one connection."""
        for message in self.wire.repeated:
            if not (self.is_http and message.end == "server" and self.trouble(message.conn) < message.i):
                yield Violation("", message.i, f"{message.end} uses the id {message.id} twice")

    def rule_answers_are_founded(self) -> Found:
        """Only what was asked is answered, and only once."""
        for message in self.wire.unfounded:
            if message.is_answer and not self.trouble(message.conn) < message.i:
                yield Violation("", message.i, f"{message.end} answers {message.id}, which nobody has asked")
        for request in self.wire.all_requests():
            if len(request.answers) > 1 and not (self.is_http and self.trouble(request.conn) < math.inf):
                yield Violation("", request.answers[1].i, f"{request.method} {request.id} is answered twice")

    def rule_goodbyes_are_founded(self) -> Found:
        """None for what was not written, was answered, or is `initialize`; never twice, never before its request."""
        for message in self.wire.unfounded:
            from_server = (message.end == "server") is (message.way == "out")
            if message.is_answer or (self.is_http and from_server):  # it may take another stream
                continue
            if self.session_of(message) is None:  # otherwise see `rule_sessions_are_kept_apart`
                yield Violation("", message.i, f"{message.goodbye} is cancelled, and was not written")
        for request in self.wire.all_requests():
            for number, goodbye in enumerate(request.goodbyes):
                what = f"{request.end} cancels {request.method} {request.id}"
                if self.is_http and request.end == "server" and self.trouble(request.conn) < goodbye.i:
                    continue  # another session uses the same ids
                if request.method == "initialize":
                    yield Violation("", goodbye.i, what)
                elif number:
                    yield Violation("", goodbye.i, f"{what} twice")
                elif request.answered and self.is_after(goodbye.i, goodbye.t, request.answered):
                    if not (
                        self.lay_in_a_stream(request, request.answered)
                        or self.is_read_no_more(request, request.answered)
                    ):
                        yield Violation("", goodbye.i, f"{what}, which was answered")
                elif self.is_http and request.end == "client" and self.is_modern(request.conn):
                    yield Violation("", goodbye.i, f"{what} by a notification, over modern HTTP")

    def is_read_no_more(self, request: Request, answer: Message) -> bool:
        """Whether the answer to a call came over HTTP+SSE to a client that was being left, and reads nothing any more.

        There what gives up a call is sent when the server has accepted that, which may be later than its answer.
        """
        leaving = self.of_client("leaving", request.conn)
        return self.name == "sse" and request.end == "client" and leaving is not None and leaving["i"] < answer.i

    def lay_in_a_stream(self, question: Request, answer: Message) -> bool:
        """Whether a question over HTTP was given up before its answer came, and its client read nothing for a while."""
        if not self.is_http or question.end != "server" or not self.is_stalled(question.conn, "client"):
            return False
        given_up = [event for event in self.by_kind["asking-cancelled"] if event["i"] < answer.i]
        if question.token:
            return any(event["ask"] == question.token for event in given_up)
        # It asked for roots, and does not say on the wire which question of the program it is.
        named = {request.token for request in self.wire.all_requests()}
        return any(event["ask"] not in named for event in given_up)

    def session_of(self, message: Message) -> str | None:
        """Return the session that a message over HTTP belongs to, if it names one."""
        return None if message.stream is None else self.wire.streams[message.stream].session

    def rule_sessions_are_kept_apart(self) -> Found:
        """A client cancels and answers in a session what was asked in it: in each the ids begin anew."""
        asked: dict[tuple[int, str, str], set[str]] = defaultdict(set)
        named = [(message, session) for message in self.wire.messages if (session := self.session_of(message))]
        for message, session in named:
            if message.is_request and message.way == "out":
                asked[message.conn, session, message.end].add(message.id)
        for message, session in named:
            if (message.end, message.way) != ("client", "out"):
                continue
            if message.goodbye is not None and message.goodbye not in asked[message.conn, session, "client"]:
                yield Violation(
                    "", message.i, f"{message.goodbye} is cancelled in a session that has no such request"
                )
            if message.is_answer and message.id not in asked[message.conn, session, "server"]:
                yield Violation("", message.i, f"{message.id} is answered in a session that has no such request")

    def rule_goodbyes_are_wanted(self) -> Found:
        """A request that its caller did not give up is not cancelled."""
        for request in self.wire.all_requests():
            if request.end != "client" or not request.token or not request.goodbyes:
                continue
            ended = self.ended(self.call_of(request))
            if ended is None or self.given_up(request.token) is not None:
                continue
            if not (self.lost_its_answer(request) or self.was_left_with_its_batch(request)):
                yield Violation("", request.goodbyes[0].i, f"{request.token} ended with {ended['how']}")

    def was_left_with_its_batch(self, request: Request) -> bool:
        """Whether a part of a batch was given up by leaving, when the response of another part had ended without its answer.

        A batch over HTTP that goes through middleware is sent in parts. It ends with what the first of them has failed with.
        """
        leaving, batch = self.of_client("leaving", request.conn), self.whole.get(request.token)
        if batch is None or leaving is None or leaving["i"] > request.goodbyes[0].i:
            return False
        for other in self.wire.all_requests():
            if other.token and other is not request and self.whole.get(other.token) == batch:
                stream = None if other.out.stream is None else self.wire.streams[other.out.stream]
                end = None if stream is None or other.out.stream == request.out.stream else stream.end
                if end is not None and end["i"] < leaving["i"] and other.answered is None:
                    return True
        return False

    def lost_its_answer(self, request: Request) -> bool:
        """Whether a call over legacy HTTP has failed because its response broke, or ended early, before its goodbye."""
        ended = self.ended(self.call_of(request))
        stream = None if request.out.stream is None else self.wire.streams[request.out.stream]
        if stream is None or stream.end is None or stream.end["i"] > request.goodbyes[0].i or request.answered:
            return False
        reasons = {"ConnectionLost"}
        if stream.end["how"] == "complete":
            if not self.ended_early(stream.number):
                return False
            reasons.add("RemoteProtocolError")
        return ended is not None and ended["how"] in reasons

    def ended_early(self, stream: int) -> bool:
        """Whether the wire has let a response end before its end."""
        return any(
            event["stream"] == stream and event["kind"] == "half_close" for event in self.by_kind["damage"]
        )

    def rule_goodbyes_are_said(self) -> Found:
        """A request that was written and given up is cancelled."""
        for request in self.wire.all_requests():
            if request.end != "client" or not request.token or (self.is_http and self.is_modern(request.conn)):
                continue
            ended = self.given_up(request.token)
            if ended is None or request.out.i > ended["i"] or request.goodbyes or request.answered:
                continue
            left = self.of_client("left", request.conn)
            if self.left_late(request.conn) or self.trouble(request.conn, restarted=False) < (left or ended)["i"]:
                continue
            if any(self.was_closed_late(each) for each in self.restarts(request.conn)):
                continue
            if self.is_http and (request.came is None or self.session_ended(request.conn, ended)):
                continue
            if self.refused_by_status(request):
                continue
            yield Violation(
                "", ended["i"], f"{request.token} (id {request.id}) was given up, and nobody was told"
            )

    def refused_by_status(self, request: Request) -> bool:
        """Whether its whole response has come, with a status of HTTP that refuses it: such an error may have no id."""
        stream = None if request.out.stream is None else self.wire.streams[request.out.stream]
        if stream is None or stream.end is None or stream.status is None:
            return False
        return stream.status >= 400 and stream.end["how"] == "complete"

    def session_ended(self, conn: int, ended: Event) -> bool:
        """Whether a call was given up by leaving, and the session was ended with all that was in it."""
        leaving = self.of_client("leaving", conn)
        deleted = [
            stream for stream in self.wire.streams.values() if stream.conn == conn and stream.method == "DELETE"
        ]
        stateless = self.name == "stateless"
        return leaving is not None and ended["t"] >= leaving["t"] - self.tiny and (bool(deleted) or stateless)

    def rule_goodbyes_are_hang_ups(self) -> Found:
        """Over modern HTTP a request that is given up has its response closed, at once, and no other has."""
        if not self.is_http:
            return
        for stream in self.wire.streams.values():
            requests = [self.wire.requests[stream.conn, "client"].get(id) for id in stream.asked]
            request = requests[0] if requests else None
            if request is None or not request.token or not self.is_modern(stream.conn):
                continue
            if self.trouble(stream.conn) < math.inf:
                continue
            ended, given_up = self.ended(request.token), self.given_up(request.token)
            if given_up is not None and given_up["i"] > stream.began["i"]:
                if stream.end is None or stream.end["t"] > given_up["t"] + self.tiny:
                    yield Violation(
                        "", given_up["i"], f"{request.token} was given up, and its response stays open"
                    )
            elif (
                (ended is not None and ended["how"] == "result" and not request.answered)
                and stream.end is not None
                and stream.end["how"] == "left"
            ):
                yield Violation(
                    "", stream.end["i"], f"{request.token} was not given up, and its response is closed"
                )

    # -- control --

    def rule_control_comes_back(self) -> Found:
        """A call is over when its deadline passes, its scope is cancelled or its client is left, and not before."""
        for began in self.by_kind["call-began"]:
            token, ended = began["token"], self.ended(began["token"])
            if ended is None:
                continue
            fence = self.fence(began)
            # Leaving a subscription of the legacy era ends it at the server, which is asked for it.
            ends_it = began["kind"] == "listen" and not self.is_modern(began["client"])
            patience = self.goodbye_timeout if ends_it else 0.0
            if ended["t"] > fence + patience + self.tiny:
                yield Violation("", ended["i"], f"{token} ended {ended['t'] - fence:.4f} s late")
            early = ended["t"] < fence - self.tiny and not began["silence"] and not self.is_in_question(token)
            if ended["how"] == "cancelled" and early:
                yield Violation("", ended["i"], f"{token} was cancelled {fence - ended['t']:.4f} s early")
            timeout = began["timeout"]
            if ended["how"] == "TooSlowError" and (
                timeout is None or ended["t"] < began["t"] + timeout - self.tiny
            ):
                yield Violation("", ended["i"], f"{token}: nobody has set such a timeout")

    def rule_everything_ends(self) -> Found:
        """Every call ends, once; every client can be left; every server ends."""
        for event in self.by_kind["stuck"]:
            if not self.lost_something(event["client"]):
                yield Violation("", event["i"], "something did not end by itself")
        pairs = [
            ("call-began", "call-ended"),
            ("handler-began", "handler-ended"),
            ("question-began", "question-ended"),
            ("background-began", "background-ended"),
            ("shield-began", "shield-ended"),
        ]
        plain = {event["token"] for event in self.by_kind["call-began"] if event["kind"] == "plain"}
        for first, last in pairs:
            for token, events in self.of_token.items():
                if token in plain and first != "call-began":
                    continue  # a thread that was left behind ends when it will
                if len(events[first]) != len(events[last]):
                    yield Violation(
                        "", (events[first] or events[last])[-1]["i"], f"{token} began, and never ended"
                    )
        opened = Counter(event["id"] for event in self.by_kind["dependency-opened"])
        closed = Counter(event["id"] for event in self.by_kind["dependency-closed"])
        if opened != closed:
            yield Violation("", self.events[-1]["i"], f"dependencies are left open: {opened - closed}")
        for client in self.clients:
            opening = self.of_client("opening", client)
            if opening is not None and self.of_client("left", client) is None:
                yield Violation("", opening["i"], "the client was never left")

    def lost_something(self, client: int) -> bool:
        """Whether a message to a client was damaged, which may have been a question: its handler waits for the answer.

        Or it was the first of the stream of its session, and cut off: then its client has no id yet by which to take
        that up again. A call whose own response is cut off so has failed, and is cancelled.
        """
        damaged = {event["stream"]: event["kind"] for event in self.by_kind["damage"] if event["conn"] == client}
        torn = (event for event in self.wire.torn if event["ev"] == "http-heard" and event["conn"] == client)
        if any(damaged.get(event["stream"]) == "corrupt" for event in torn):
            return True
        return any(
            kind == "half_close" and self.has_lost_its_first_event(stream) for stream, kind in damaged.items()
        )

    def has_lost_its_first_event(self, stream: int) -> bool:
        heard = "".join(event["raw"] for event in self.by_kind["http-heard"] if event["stream"] == stream)
        *whole, rest = heard.split("\n\n")
        if self.wire.streams[stream].method != "GET":
            return False
        return bool(rest) and not any(event.startswith("id:") for event in whole)

    def rule_leaving_is_bounded(self) -> Found:
        """Leaving waits no longer than `goodbye_timeout`; and as long for callbacks, if nothing is raised."""
        for client in self.clients:
            leaving, left = self.of_client("leaving", client), self.of_client("left", client)
            if leaving is None or left is None:
                continue
            bound = self.goodbye_timeout * (2 if leaving["how"] in {"return", "aclose"} else 1) + self.tiny
            bound += 2 * self.limits["terminate_timeout"] if self.name == "stdio" else 0.0
            if left["t"] - leaving["t"] > bound:
                yield Violation("", left["i"], f"leaving took {left['t'] - leaving['t']:.4f} s")

    def rule_the_server_ends(self) -> Found:
        """When its client has gone, a server ends within `drain_timeout` and what its handlers' cleanup takes."""
        if self.is_http:
            return
        for client in self.clients:
            left = self.of_client("left", client)
            if left is None:
                continue
            ends = [event for event in self.by_kind["server-ended"] if event["conn"] == client]
            connected = sum(event["conn"] == client for event in self.by_kind["connected"])
            if len(ends) < (connected if self.name == "tcp" else 1):
                if self.of_client("unconnected", client) is None:
                    yield Violation("", left["i"], "the server never ended")
                continue
            if not ends:
                continue
            ended = ends[-1]
            stalls = [
                event["t"] + event["seconds"]
                for event in self.by_kind["stall"]
                if event["conn"] == client and event["end"] == "server"
            ]
            shields = sum(
                over["t"] - begun["t"]
                for token in list(self.of_token)
                for begun, over in zip(
                    self.of_token[token]["shield-began"], self.of_token[token]["shield-ended"], strict=False
                )
            )
            began = max([left["t"], *stalls])
            bound = self.limits["drain_timeout"] + 2 * self.goodbye_timeout + shields + 2.0
            if ended["t"] > began + bound + self.tiny:
                yield Violation(
                    "", ended["i"], f"the server ended {ended['t'] - left['t']:.4f} s after its client"
                )

    def rule_a_lost_connection_ends_calls(self) -> Found:
        """When a connection breaks, every pending call ends with that, at once."""
        if self.is_http:
            return
        for cut in self.by_kind["cut"]:
            for began in self.by_kind["call-began"]:
                ended = self.ended(began["token"])
                if began["client"] != cut["conn"] or ended is None or began["i"] > cut["i"]:
                    continue
                asked = [request for request in self.requests_of[began["token"]] if request.out.i < cut["i"]]
                if self.name == "tcp" and not any(self.is_awaited(request, cut["i"]) for request in asked):
                    continue  # the client connects again: what it has to send waits for that
                patience = self.limits["slow_consumer_timeout"] if began["progress"] == "slow" else 0.0
                patience += self.patience + (0.0 if self.is_prompt else self.goodbye_timeout)
                if ended["t"] > cut["t"] + patience + self.tiny:
                    late = ended["t"] - cut["t"]
                    yield Violation("", ended["i"], f"{began['token']} ended {late:.4f} s after its connection")

    def rule_a_restarted_member_ends_its_calls(self) -> Found:
        """What is under way when a group restarts a client ends at once, and so does what is begun before the next.

        Nothing is sent for a listener that ends, which may last as long as the client says goodbye.
        """
        for restart in self.by_kind["member-restart"]:
            ready = self.ready_again(restart)
            for began in self.by_kind["call-began"]:
                ended = self.ended(began["token"])
                if began["client"] != restart["conn"] or ended is None or ended["i"] < restart["i"]:
                    continue
                if ready is not None and began["i"] > ready["i"]:
                    continue
                patience = self.limits["slow_consumer_timeout"] if began["progress"] == "slow" else 0.0
                patience += self.goodbye_timeout if began["kind"] == "listen" else 0.0
                since = max(restart["t"], began["t"])
                if ended["t"] > since + patience + self.patience + self.tiny:
                    late = ended["t"] - since
                    yield Violation("", ended["i"], f"{began['token']} ended {late:.4f} s after the restart")

    def rule_a_restarted_member_comes_back(self) -> Found:
        """A restarted client is ready again as soon as the last one has been left, if nothing befalls the wire."""
        for restart in self.by_kind["member-restart"]:
            client = restart["conn"]
            leaving, ready = self.of_client("leaving", client), self.ready_again(restart)
            over = self.events[-1]["t"] if leaving is None else leaving["t"]
            back = over if ready is None else ready["t"]
            befallen = self.trouble(client, restarted=False) < math.inf or self.stalled(client)
            if not befallen and back > restart["t"] + 2 * self.goodbye_timeout + self.tiny:
                late = back - restart["t"]
                yield Violation("", restart["i"], f"client {client} was not ready {late:.4f} s after its restart")

    def was_closed_late(self, restart: Event) -> bool:
        """Whether closing a restarted client waited for a stuck peer until `goodbye_timeout` was over."""
        closed = (e for e in self.by_kind["closing"] if e["end"] == "client" and e["conn"] == restart["conn"])
        first = next((event for event in closed if event["i"] > restart["i"]), None)
        return first is None or first["t"] - restart["t"] >= self.goodbye_timeout - 0.01

    def ready_again(self, restart: Event) -> Event | None:
        """Return when a restarted client was ready again."""
        ready = (
            e for e in self.by_kind["member-ready"] if e["client"] == restart["conn"] and e["i"] > restart["i"]
        )
        return next(ready, None)

    def is_between_members(self, began: Event, ended: Event) -> bool:
        """Whether a call was made with a client that its group had restarted by the time at which it ended."""
        for restart in self.restarts(began["client"]):
            ready = self.ready_again(restart)
            if restart["i"] < ended["i"] and (ready is None or began["i"] < ready["i"]):
                return True
        return False

    def is_awaited(self, request: Request, i: int) -> bool:
        """Whether the caller of a request waits for it at a moment, and not for input that its server needs first."""
        answer = request.answered
        return answer is None or answer.i > i or not answer.wants_input

    def rule_a_lost_session_ends_calls(self) -> Found:
        """When a client begins another session, a call of the last one goes on only while its response is open."""
        if not self.is_http:
            return
        for began in self.wire.all_requests():
            if began.method != "initialize" or began.answered is None:
                continue
            at, t = began.answered.i, began.answered.t
            resuming = any(
                stream.conn == began.conn and "last-event-id" in stream.began["headers"] and stream.is_open(at)
                for stream in self.wire.streams.values()
            )
            for request in self.wire.all_requests():
                if request.conn != began.conn or request.end != "client" or not request.out.i < began.out.i:
                    continue
                stream, ended = self.wire.streams[request.out.stream or 0], self.ended(self.call_of(request))
                refused = stream.status is not None and stream.status >= 400  # it is made again
                if request.answered is not None or ended is None or refused or stream.is_open(at) or resuming:
                    continue
                start = self.one(self.call_of(request), "call-began")
                slow = start is not None and start["progress"] == "slow"
                patience = self.patience + (self.limits["slow_consumer_timeout"] if slow else 0.0)
                if ended["t"] > t + patience + self.tiny:
                    late = ended["t"] - t
                    yield Violation("", ended["i"], f"{request.token} ended {late:.4f} s after its session")

    # -- handlers --

    def goodbyes_heard(self) -> Iterator[tuple[Request, Message | Event]]:
        """Yield what is cancelled, and how the server has learned of it."""
        for request in self.wire.all_requests():
            if request.end == "client" and request.token and request.came is not None:
                if request.heard:
                    if self.name != "stateless":  # there a request is found by its connection alone
                        yield request, request.heard[0]
                elif self.is_http and self.is_modern(request.conn):
                    stream = self.wire.streams[request.came.stream or 0]
                    if stream.end is not None and stream.end["how"] in {"left", "broken"}:
                        yield request, stream.end

    def rule_handlers_die(self) -> Found:
        """A cancellation that comes in cancels its handler at once; one that waits begins no more."""
        for request, goodbye in self.goodbyes_heard():
            i, t = (goodbye.i, goodbye.t) if isinstance(goodbye, Message) else (goodbye["i"], goodbye["t"])
            began, ended = self.one(request.token, "handler-began"), self.one(request.token, "handler-ended")
            if began is None or (ended is not None and ended["i"] < i):
                continue
            start = self.one(self.call_of(request), "call-began")
            if start is not None and start["kind"] == "plain":
                continue
            alone = self.is_prompt and not (isinstance(goodbye, Message) and goodbye.together > 1)
            read = t + self.patience + self.tiny  # at the latest, if it is not alone
            if any(answer.i < i or (not alone and answer.t <= read) for answer in request.answers):
                continue  # it was parked meanwhile: it belongs to another request, or to none
            if self.is_modern(request.conn) and len(self.requests_of[request.token]) > 1:
                continue
            if self.was_parked_unseen(request, i):
                continue
            if began["i"] > i:
                if began["t"] > t + (0.0 if self.is_prompt else self.patience) + self.tiny:
                    yield Violation("", began["i"], f"{request.token} was cancelled before it began, and begins")
                continue
            bound = max(t, self.shielded_until(request.token, goodbye)) + self.tiny
            if not self.is_prompt or (isinstance(goodbye, Message) and goodbye.together > 1):
                bound += self.patience
            died = [
                event
                for ev in ("handler-cancelled", "handler-ended")
                for event in self.of_token[request.token][ev]
            ]
            if not any(event["t"] <= bound for event in died):
                yield Violation("", i, f"{request.token} was cancelled, and its handler goes on")

    def was_parked_unseen(self, request: Request, i: int) -> bool:
        """Whether a modern handler may wait for answers to what it has asked in a response that the wire has spoilt.

        The log may tell of the damage after the client has left: the response was on its way then.
        """
        return (
            (self.is_http and self.is_modern(request.conn))
            and any(event["i"] < i for event in self.of_token[request.token]["asking"])
            and any(
                event["kind"] in {"half_close", "corrupt"} and event["stream"] == request.out.stream
                for event in self.by_kind["damage"]
            )
        )

    def rule_handlers_die_for_a_reason(self) -> Found:
        """A handler is cancelled by its own cancellation, its deadline, or the end of its connection; by no other."""
        heard: dict[str, float] = {}
        for request, goodbye in self.goodbyes_heard():
            heard[request.token] = goodbye.i if isinstance(goodbye, Message) else goodbye["i"]
        for cancelled in self.by_kind["handler-cancelled"]:
            token = cancelled["token"]
            began = self.one(token, "handler-began")
            requests = self.requests_of[token]
            if began is None or not requests or heard.get(token, math.inf) < cancelled["i"]:
                continue
            conn = requests[0].conn
            if (
                cancelled["t"] >= began["t"] + finite(began["left"]) - self.tiny
                or self.trouble(conn) < cancelled["i"]
            ):
                continue
            if any(event["t"] <= cancelled["t"] + self.tiny for event in self.gave_way(conn)):
                continue  # its handlers end first
            leaving = self.of_client("leaving", conn)
            if leaving is not None and leaving["t"] <= cancelled["t"] + self.tiny:
                continue
            if self.is_modern(conn) and self.of_token[token]["asking"]:
                call = self.given_up(token) or self.ended(self.call_of(requests[0]))
                if call is not None and (
                    call["t"] <= cancelled["t"] + self.tiny or "parked" in self.begin["small"]
                ):
                    continue
                if any(name.startswith(("max_parked", "parked", "max_kept")) for name in self.begin["small"]):
                    continue
            given_up = self.given_up(token)
            if self.is_http and given_up is not None and given_up["t"] <= cancelled["t"] + self.tiny:
                continue
            yield Violation("", cancelled["i"], f"{token} was cancelled, and nobody wanted it")

    def rule_nothing_is_said_after_a_goodbye(self) -> Found:
        """Nothing more is sent for a request after its cancellation has come in."""
        by_conn: dict[tuple[int, str], list[Message]] = defaultdict(list)
        for message in self.wire.messages:
            if message.way == "out":
                by_conn[message.conn, message.end].append(message)
        asks = {event["ask"]: event["token"] for event in self.by_kind["asking"]}
        for request in self.wire.all_requests():
            if not request.heard or request.came is None:
                continue
            heard, other = request.heard[0], "server" if request.end == "client" else "client"
            progress = request.meta.get("progressToken")
            if self.is_http and self.is_stalled(request.conn, "client"):
                continue  # it lies in a stream, from which it can also be taken up again
            for said in by_conn[request.conn, other]:
                if said.i < heard.i or not self.is_after(said.i, said.t, heard):
                    continue
                what = None
                if said.is_answer and said.id == request.id and said in request.answers:
                    what = "an answer"
                elif said.method == "notifications/progress" and progress is not None:
                    theirs = self.about(said, said.data["params"]["progressToken"])
                    if theirs == self.about(request.out, progress) and not self.was_kept(said, request, heard):
                        what = "progress"
                elif (
                    (said.is_request and said.token and request.token)
                    and asks.get(said.token) == request.token
                    and not self.is_modern(request.conn)
                ):
                    what = "a question"
                if what is not None:
                    yield Violation(
                        "", said.i, f"{what} of {request.token or request.method} after its cancellation"
                    )

    def was_kept(self, said: Message, request: Request, heard: Message) -> bool:
        """Whether a report was made before a cancellation, for a client that was away and has come back since."""
        if said.stream is None or self.wire.streams[said.stream].method != "GET":
            return False
        gets = [each for each in self.wire.streams.values() if each.conn == said.conn and each.method == "GET"]
        if any(each.is_open(heard.i) and each.began["t"] < heard.t - self.tiny for each in gets):
            return False
        n = said.data["params"]["progress"]
        reports = (each for each in self.of_token[request.token]["reporting"] if each["n"] == n)
        return any(not self.is_after(each["i"], each["t"], heard) for each in reports)

    def is_stalled(self, conn: int, end: str) -> bool:
        """Whether an end gets nothing for a while, at some time."""
        return any(stall["conn"] == conn and stall["end"] == end for stall in self.by_kind["stall"])

    def rule_deadlines_shrink(self) -> Found:
        """A request says how much time its caller has left, no more and no less."""
        for request in self.wire.all_requests():
            began = self.one(self.call_of(request), "call-began") if request.token else None
            if request.end != "client" or began is None:
                continue
            told, left = request.meta.get("trio-mcp/timeoutMs"), finite(began["left"])
            if told is None:
                if left < math.inf:
                    yield Violation("", request.out.i, f"{request.token} has a deadline and does not say so")
            elif told > left * 1000 + 1.001:
                yield Violation("", request.out.i, f"{request.token} has {left} s and says {told} ms")
            elif not self.is_in_question(request.token):
                least = began["t"] + left - request.out.t - self.tiny
                given_up = self.given_up(request.token)
                if told == 0 and given_up is not None and given_up["t"] <= request.out.t + self.tiny:
                    continue  # its caller was cancelled in the very moment in which it was its turn
                if told < least * 1000 - 1.001:
                    yield Violation("", request.out.i, f"{request.token} has {least} s and says only {told} ms")

    def rule_handlers_have_the_deadline(self) -> Found:
        """A handler's deadline is the one its request came with, counted from when it came; then it is over."""
        for began in self.by_kind["handler-began"]:
            token = began["token"]
            came = [each.came for each in self.requests_of[token] if each.came and each.came.i < began["i"]]
            if not came:
                yield Violation("", began["i"], f"{token} is served, and nobody has asked")
                continue
            request = max(came, key=lambda message: message.i)  # it is sent again when a session was lost
            start = self.one(self.whole.get(str(token), str(token)), "call-began")
            if start is not None and start["kind"] == "plain":
                continue  # a thread begins by a real clock
            deadline, expected = began["t"] + finite(began["left"]), request.t + request.time_left
            late = deadline - expected if deadline != expected else 0.0
            # It counts from when it is looked at: where reading is held up, messages come to an end before that.
            if not -self.tiny <= late <= self.tiny + (0.0 if self.is_prompt else self.patience):
                yield Violation("", began["i"], f"{token} has until {deadline}, not {expected}")
                continue
            if deadline == math.inf:
                continue
            if finite(began["left"]) < -self.tiny:
                yield Violation("", began["i"], f"{token} begins {-began['left']:.4f} s late")
                continue
            at = next((event for event in self.events if event["t"] > deadline + self.tiny), self.events[-1])
            if self.is_modern(request.conn):  # each round says how much is left, rounded up, and may come late
                deadline = max([deadline, *self.deadlines_of_rounds(token, began)]) + 0.001
                at = next((event for event in self.events if event["t"] > deadline + self.tiny), self.events[-1])
            bound = max(deadline, self.shielded_until(token, at)) + self.tiny
            ends = [event for ev in ("handler-cancelled", "handler-ended") for event in self.of_token[token][ev]]
            if not any(event["t"] <= bound for event in ends):
                yield Violation("", began["i"], f"{token} goes on after its deadline {deadline}")

    def deadlines_of_rounds(self, token: str, began: Event) -> Iterator[float]:
        """Yield the deadlines with which a handler was asked to go on."""
        for request in self.requests_of[token]:
            if request.came is not None and request.came.i > began["i"]:
                yield request.came.t + finite(request.meta.get("trio-mcp/timeoutMs")) / 1000

    def rule_late_answers_wait(self) -> Found:
        """A handler whose time was over answers only when a cancellation has had `goodbye_timeout` to come."""
        if not self.is_prompt:
            return
        for began in self.by_kind["handler-began"]:
            token, deadline = began["token"], began["t"] + finite(began["left"])
            cancelled, ended = self.one(token, "handler-cancelled"), self.one(token, "handler-ended")
            if cancelled is None or ended is None or cancelled["t"] < deadline - self.tiny:
                continue
            for request in self.requests_of[token]:
                leaving = self.of_client("leaving", request.conn)
                excuse = min(self.trouble(request.conn), math.inf if leaving is None else leaving["i"])
                for answer in request.answers:
                    # A request that comes when its handler has ended between two of them is refused.
                    is_its_own = request.came is not None and request.came.i < ended["i"]
                    if answer.wants_input and self.has_asked(token, deadline):
                        continue  # that was in time, and has waited for the wire since
                    is_early = deadline - self.tiny <= answer.t < deadline + self.goodbye_timeout - self.tiny
                    if is_its_own and is_early and cancelled["i"] < answer.i < excuse:
                        late = answer.t - deadline
                        yield Violation("", answer.i, f"{token} is answered {late:.4f} s after its deadline")

    def has_asked(self, token: str, t: float) -> bool:
        """Whether a handler has asked before a time."""
        return any(event["t"] < t - self.tiny for event in self.of_token[token]["asking"])

    def rule_asking_ends_as_anything_else(self) -> Found:
        """A cancelled handler that asks is cancelled there, like anywhere else."""
        for event in self.by_kind["handler-ended"]:
            start = self.one(self.whole.get(str(event["token"]), str(event["token"])), "call-began")
            if start is not None and start["kind"] == "plain":
                continue  # a thread is not cancelled, and asks when its connection has been closed
            if event["how"] in {"LocalProtocolError", "RuntimeError", "ClosedResourceError"}:
                yield Violation("", event["i"], f"{event['token']} ended with {event['how']}")

    # -- questions --

    def rule_questions_are_cancelled(self) -> Found:
        """A handler that is cancelled while it asks cancels its question, and the client's handler of that dies."""
        for event in self.by_kind["asking-cancelled"]:
            for question in self.requests_of[event["ask"]]:
                if question.end != "server" or question.out.i > event["i"] or self.name in {"no-get", "json"}:
                    continue  # without a stream of the session there is nothing that could carry it
                leaving = self.of_client("leaving", question.conn)
                excused = self.trouble(question.conn) < math.inf
                late = leaving is None or leaving["t"] <= event["t"] + self.goodbye_timeout
                stalled = any(stall["conn"] == question.conn for stall in self.by_kind["stall"])
                slow = leaving is not None and self.is_backed_up(question.conn, event["i"], leaving["i"])
                if not (question.goodbyes or question.answered or excused or late or stalled or slow):
                    yield Violation("", event["i"], f"{event['ask']} is given up, and the client is not told")
        for question in self.wire.all_requests():
            if question.end != "server" or not question.token or not question.heard:
                continue
            began, ended = self.one(question.token, "question-began"), self.one(question.token, "question-ended")
            heard = question.heard[0]
            late = 0.0 if self.is_prompt and heard.together == 1 else self.patience
            if (
                began is not None
                and began["i"] < heard.i
                and (ended is None or ended["t"] > heard.t + late + self.tiny)
            ):
                yield Violation("", heard.i, f"{question.token} was cancelled, and the client's handler goes on")

    def is_backed_up(self, conn: int, sent: int, read: int) -> bool:
        """Whether a client has not read, at one moment, what the server had sent at another: the wire is full, or slow."""
        here = [each for each in self.wire.messages if each.conn == conn]
        said = sum(each.way == "out" and each.end == "server" and each.i < sent for each in here)
        return said > sum(each.way == "in" and each.end == "client" and each.i < read for each in here)

    def rule_questions_get_their_answers(self) -> Found:
        """A question is answered with what its own handler has said."""
        for event in self.by_kind["answered"]:
            answer, ask = event["answer"], event["ask"]
            own = {f"answer of {ask}", "declined"}
            if not (answer in own or answer.startswith(("failed", "file:///root-"))):
                yield Violation("", event["i"], f"{ask} was answered with {answer!r}")
            for request in self.requests_of[event["token"]]:
                if answer.startswith("file:///") and answer != f"file:///root-{request.conn}":
                    yield Violation("", event["i"], f"{ask} was answered with the roots of another client")

    # -- order --

    def progress_of(self, token: str, way: str) -> list[tuple[Message, float]]:
        """Return the reports for a call that the client got, or that the server sent."""
        wanted = {
            self.about(request.out, request.meta["progressToken"])
            for request in self.requests_of[token]
            if request.end == "client" and "progressToken" in request.meta
        }
        return [
            (message, message.data["params"]["progress"])
            for message in self._progress
            if message.way == way and self.about(message, message.data["params"]["progressToken"]) in wanted
        ]

    def about(self, message: Message, progress_token: object) -> tuple[int, int, str]:
        """Return what the reports for a request have in common with it."""
        return message.conn, self.connection_of(message), json.dumps(progress_token)

    @property
    def _progress(self) -> list[Message]:
        found = getattr(self, "_found_progress", None)
        if found is None:
            found = [message for message in self.wire.messages if message.method == "notifications/progress"]
            self._found_progress = found
        return found

    def rule_progress_is_in_order(self) -> Found:
        """A call's callbacks run in wire order, one at a time, all of them before it returns, and none afterwards."""
        for began in self.by_kind["call-began"]:
            token, ended = began["token"], self.ended(began["token"])
            if began["kind"] not in SCRIPTS or ended is None:
                continue
            called = self.of_token[token]["progress"]
            if called and called[-1]["i"] > ended["i"]:
                yield Violation("", called[-1]["i"], f"a callback of {token} after it returned")
            heard = [event["n"] for event in called]
            said = [n for _, n in self.progress_of(token, "in")]
            if heard and said[: len(heard)] != heard and not self.dropped(began["client"]):
                yield Violation("", called[0]["i"], f"{token} heard {heard} of {said}")
            if heard != sorted(set(heard)):
                yield Violation("", called[0]["i"], f"{token} heard {heard}")
            for first, second in itertools.pairwise(called):
                between = [e for e in self.of_token[token]["progress-ended"] if first["i"] < e["i"] < second["i"]]
                if began["progress"] == "slow" and not between:
                    yield Violation("", second["i"], f"two callbacks of {token} at once")
            handler = self.one(token, "handler-ended")
            done = handler is not None and handler["how"] == "return" and ended["how"] == "result"
            if done and began["progress"] in {"fast", "slow"} and not self.may_lose_reports(began["client"]):
                reported = [event["n"] for event in self.of_token[token]["reporting"]]
                if heard != reported:
                    yield Violation("", ended["i"], f"{token} reported {reported}, and {heard} was heard")
            # A call in the handler of a question may be inside of what watches for silence there.
            if began["progress"] == "none" and said and not began["silence"] and not self.is_in_question(token):
                yield Violation("", ended["i"], f"{token} wanted no progress")

    def may_lose_reports(self, client: int) -> bool:
        """Whether what a handler says before its answer may be dropped, by what the wire or its limits are."""
        return (
            self.name in {"json", "no-get", "stateless"}
            or self.dropped(client)
            or bool(self.begin["small"])
            or (self.is_http and self.trouble(client) < math.inf)
        )

    def rule_notifications_are_in_order(self) -> Found:
        """Notifications are handled in wire order, one at a time per connection, each once."""
        for client, connection in ((c, n) for c in self.clients for n in range(len(self.connected[c]) + 1)):
            of_it = [
                event
                for event in self.by_kind["told"] + self.by_kind["told-ended"]
                if event["client"] == client and self.connection_at(client, event["i"]) == connection
            ]
            told = [event for event in of_it if event["ev"] == "told"]
            over = [event for event in of_it if event["ev"] == "told-ended"]
            for first, second in itertools.pairwise(told):
                if not any(first["i"] < event["i"] < second["i"] for event in over) and not self._was_cancelled(
                    first
                ):
                    yield Violation(
                        "", second["i"], f"two notifications at once: {first['token']}, {second['token']}"
                    )
            if self.is_http:
                for token in {event["token"] for event in told}:
                    came_by: dict[int | None, list[int]] = defaultdict(list)
                    for message in self.wire.messages:
                        data = _note_in(message) if message.end == "client" and message.way == "in" else None
                        if data is not None and data["token"] == token and message.conn == client:
                            came_by[message.stream].append(data["n"])
                    heard = [event["n"] for event in told if event["token"] == token]
                    # What was said outside of a request's own stream comes on another one, in no order with it.
                    excused = self.dropped(client) or self.trouble(client) < math.inf
                    if len(came_by) == 1 and next(iter(came_by.values()))[: len(heard)] != heard and not excused:
                        yield Violation("", told[0]["i"], f"{token} was told {heard} of {dict(came_by)}")
                continue
            came = [
                (str(data["token"]), int(data["n"]))
                for message in self.wire.messages
                if message.conn == client and message.end == "client" and message.way == "in"
                if self.connection_of(message) == connection
                if (data := _note_in(message)) is not None
            ]
            heard_all = [(event["token"], event["n"]) for event in told]
            if came[: len(heard_all)] != heard_all and not self.dropped(client):
                yield Violation("", told[0]["i"], f"{heard_all} of {came}")

    def _was_cancelled(self, told: Event) -> bool:
        left = self.of_client("leaving", told["client"])
        return left is not None and left["t"] <= told["t"] + self.goodbye_timeout + 1

    def rule_notes_are_in_order(self) -> Found:
        """What a client notifies is handled by the server in order, one at a time, each once."""
        noted: dict[str, list[Event]] = defaultdict(list)
        for event in self.by_kind["noted"]:
            noted[event["token"]].append(event)
        for token, events in noted.items():
            numbers = [event["n"] for event in events]
            if numbers != sorted(set(numbers)) and self.name != "stateless":
                yield Violation("", events[0]["i"], f"{token} was noted {numbers}")
            over = [event for event in self.by_kind["noted-ended"] if event["token"] == token]
            for first, second in itertools.pairwise(events):
                if self.is_http:
                    break
                if not any(first["i"] < event["i"] < second["i"] for event in over):
                    yield Violation("", second["i"], f"two notifications of {token} at once")

    # -- bounds --

    def rule_places_are_bounded(self) -> Found:
        """No more than `max_inbound_requests` of one connection are served at once."""
        most = self.limits["max_inbound_requests"]
        plain = {event["token"] for event in self.by_kind["call-began"] if event["kind"] == "plain"}
        running: dict[tuple[int, object], set[str]] = defaultdict(set)
        told: set[int] = set()
        for event in self.events:
            if event["ev"] == "handler-ended":
                for tokens in running.values():
                    tokens.discard(event["token"])
            elif event["ev"] == "handler-began" and event["token"] not in plain:
                place = self.place_of(event)
                if place is None or self.is_modern(place[0]) or self.name == "stateless":
                    continue  # who is parked is served nowhere; without a session each has its own connection
                running[place].add(event["token"])
                if len(running[place]) > most and place[0] not in told:
                    told.add(place[0])
                    count = len(running[place])
                    yield Violation("", event["i"], f"{count} handlers at once, and {most} are allowed")

    def place_of(self, began: Event) -> tuple[int, object] | None:
        """Return over which connection, or in which session, a request came whose handler begins.

        Those of the ones before it may be served still.
        """
        requests = self.requests_of[began["token"]]
        came = [each.came for each in requests if each.came is not None and each.came.i < began["i"]]
        last = max(came, key=lambda message: message.i, default=None)
        if last is None:
            return (requests[0].conn, 0) if requests else None
        if self.name == "sse":
            return last.conn, self.connection_at(last.conn, last.i)
        return last.conn, last.link if last.stream is None else self.wire.streams[last.stream].session

    def rule_waiting_requests_are_bounded(self) -> Found:
        """What waits for a place weighs no more than `max_waiting_bytes`, beside what came at once."""
        if self.is_http or "max_waiting_bytes" not in self.begin["small"]:
            return
        most = self.limits["max_waiting_bytes"]
        kept = 2 if self.name == "websocket" else 1  # what arrives is read, for pongs, and kept
        for client in self.clients:
            waiting: dict[int, dict[str, int]] = defaultdict(dict)  # by connection, and by id
            largest = 0
            marks: list[tuple[int, str, int, str, int]] = []
            for request in self.wire.requests[client, "client"].values():
                began = self.one(request.token, "handler-began")
                if request.came is None or not request.token or (began and began["i"] < request.came.i):
                    continue  # what brings an answer is not begun
                weight = request.came.size + 256
                largest = max(largest, request.came.together * weight)
                link, got = request.came.link, self.got[client, "server", request.came.link]
                marks.append((request.came.i, "came", link, request.id, weight))
                ends = [answer.i for answer in request.answers] + [heard.i for heard in request.heard]
                ends += [] if began is None else [began["i"]]
                if any(answer.is_refusal for answer in request.answers):  # which may have waited for the wire
                    later = bisect(got, request.came.i)  # what comes next is read when this was refused
                    ends += [i - 1 for i in got[later : later + 1]]
                marks.append((min(ends, default=len(self.events)), "over", link, request.id, 0))
            for i, what, link, id, weight in sorted(marks):
                if what == "came":
                    waiting[link][id] = weight
                else:
                    waiting[link].pop(id, None)
                # One exceeds it, one has a place and has not begun, and one is about to be refused.
                if (wait := sum(waiting[link].values())) > kept * most + 3 * largest:
                    yield Violation("", i, f"{wait} bytes wait, and {most} may")
                    break

    def rule_calls_are_bounded(self) -> Found:
        """No more than `max_outbound_requests` are without an answer."""
        most = self.limits["max_outbound_requests"]
        for client in self.clients:
            marks: list[tuple[int, int]] = []
            for request in self.wire.requests[client, "client"].values():
                ends = [self.earliest(goodbye) for goodbye in request.goodbyes]
                ends += self.given_up_in_silence(request)
                ends += [] if request.answered is None else [request.answered.i]
                ended = self.ended(self.call_of(request)) if request.token else None
                ends += [] if ended is None else [ended["i"]]
                if request.out.stream is not None:  # a refusal by a status of HTTP may have no id
                    end = self.wire.streams[request.out.stream].end
                    ends += [] if end is None else [self.since(end["t"]) if end["how"] == "left" else end["i"]]
                if not ends:
                    continue  # nobody knows
                marks += [(request.out.i, 1), (min(ends), -1)]
            for at, count in _running_sums(marks):
                if count > most:
                    yield Violation("", at, f"{count} calls at once, and {most} are allowed")
                    break

    def earliest(self, goodbye: Message) -> int:
        """Return the first event at which a request may have been given up: over HTTP that may be sent later.

        In HTTP+SSE it waits until the server has accepted the request, for at most half of `goodbye_timeout`.
        """
        if goodbye.stream is None:
            return goodbye.i
        return self.since(goodbye.t - (self.goodbye_timeout / 2 if self.name == "sse" else 0.0))

    def given_up_in_silence(self, request: Request) -> list[int]:
        """Return the events at which a request over HTTP+SSE may have been given up, and nothing was sent.

        Because its answer came before the server had accepted it, or in the same moment; or the connection was lost
        by which it was to be accepted. That is asked of those alone that are not a call of the program, but belong to
        something that lasts longer, such as a subscription.
        """
        answer = request.answered
        began = self.one(self.call_of(request), "call-began") if request.token else None
        if (
            self.name != "sse"
            or request.out.stream is None
            or (request.token and (began is None or began["kind"] in SCRIPTS))
            or request.goodbyes
        ):
            return []
        accepted = self.wire.streams[request.out.stream].end
        if answer is None:
            if accepted is None or accepted["how"] == "complete":
                return []
            until = accepted["t"]
        elif accepted is not None and accepted["t"] < answer.t - self.tiny:
            return []
        else:
            until = answer.t
        fences = [
            min(self.fence(began), began["t"] + finite(began["timeout"]))
            for began in self.by_kind["call-began"]
            if began["client"] == request.conn and began["i"] < request.out.i and began["kind"] not in SCRIPTS
        ]
        if "trio-mcp/timeoutMs" in request.meta:  # in whole milliseconds, rounded up
            fences.append(request.out.t + (request.meta["trio-mcp/timeoutMs"] - 1) / 1000)
        return [max(self.since(t), request.out.i) for t in fences if t <= until + self.tiny]

    def since(self, t: float) -> int:
        """Return the first event of a moment."""
        return int(next(event["i"] for event in self.events if event["t"] >= t - self.tiny))

    def rule_gauges_keep_their_limits(self) -> Found:
        """What is kept never weighs more than it may, by what is public about it."""
        largest = max([event["pad"] for event in self.by_kind["call-began"]] + [0])
        largest = max([message.size for message in self.wire.messages] + [largest])
        for event in self.by_kind["gauges"]:
            for name, gauge in event.items():
                if name.startswith("client "):
                    calls, exchanges, _, outbox = gauge
                    if calls > self.limits["max_outbound_requests"] + 64:
                        yield Violation("", event["i"], f"{calls} calls")
                    if exchanges > self.limits["max_inbound_requests"]:
                        yield Violation("", event["i"], f"{exchanges} questions at once")
                    if outbox > self.limits["max_outbox_bytes"] + 2 * largest + 2_000:
                        yield Violation("", event["i"], f"{outbox} bytes in the outbox")
            for name, (lent, most) in event.get("kept", {}).items():
                if lent > most:
                    yield Violation("", event["i"], f"{lent} lent of {name}, and there are {most}")

    def rule_notifications_are_bounded(self) -> Found:
        """No more than `max_notifications` of one kind wait for the handlers of a client, beside what came at once."""
        if "max_notifications" not in self.begin["small"] or not self.is_prompt:
            return
        most = self.limits["max_notifications"]
        for began in self.by_kind["call-began"]:
            came = self.progress_of(began["token"], "in")
            if began["progress"] not in {"fast", "slow"} or self.dropped(began["client"]):
                continue
            ended = self.ended(began["token"])
            marks = [(message.i, 1) for message, _ in came if ended is None or message.i < ended["i"]]
            marks += [(event["i"], -1) for event in self.of_token[began["token"]]["progress"]]
            together = max((message.together for message, _ in came), default=0)
            for at, count in _running_sums(marks):
                if count > most + together + 1:
                    yield Violation("", at, f"{count} reports wait for {began['token']}, and {most} may")
                    break

    # -- the rest --

    def rule_nothing_is_left(self) -> Found:
        """No task, no pending id, nothing that is kept for a client."""
        for event in self.by_kind["statistics"]:
            left = {
                name: value for name, value in event["left"].items() if value and name != "dropped_notifications"
            }
            if left:
                yield Violation("", event["i"], f"the client has {left}")
        for event in self.by_kind["over"]:
            if event["tasks"]:
                yield Violation("", event["i"], f"tasks are left: {event['tasks']}")
        if not self.by_kind["over"]:
            yield Violation("", self.events[-1]["i"], "it was never over")
        for event in self.by_kind["process"]:
            if event["descriptors"] or event["children"]:
                yield Violation("", event["i"], f"left: {event['descriptors']} {event['children']}")
        for event in self.by_kind["kept"]:
            excused = self.is_http and any(self.by_kind[ev] for ev in ("stall", "break", "restart", "damage"))
            left = dict(event["left"])
            if left.pop("parked", None):
                left.pop("bytes", None)  # its client could come back by another connection
            rest = {
                name: event[name] for name in ("sessions", "requests", "standing", "answering") if event.get(name)
            }
            if self.is_http and (excused or self.by_kind["server-ending"]):
                continue
            if self.is_http:  # a client that is cancelled, or has not learned its id, leaves its session behind
                by_force = any(
                    event["how"] == "cancel" or event.get("connecting") for event in self.by_kind["leaving"]
                )
                if by_force:
                    rest.pop("sessions", None)
                    left = {}
            if left or rest:
                yield Violation("", event["i"], f"the server keeps {left} {rest}")

    def rule_exceptions_come_out_as_themselves(self) -> Found:
        """What the block raises comes out as itself, and nothing else comes out."""
        for event in self.by_kind["left"]:
            if event["how"] == "itself":
                continue
            opened = self.of_client("opened", event["client"])
            timeout = event["how"].startswith(("TooSlowError", "ConnectionLost"))
            timeout = timeout or (self.name == "sse" and "has not named its endpoint" in event["how"])
            if opened is None and "max_kept_bytes" in self.begin["small"]:
                continue  # there is no room for it
            if opened is None and (
                self.trouble(event["client"]) < event["i"] or (timeout and self.by_kind["stall"])
            ):
                continue
            yield Violation("", event["i"], event["how"])
        for event in self.by_kind["server-ended"] + self.by_kind["http-failed"]:
            if event["how"] not in {"return", "cancelled"}:
                yield Violation("", event["i"], f"the server failed: {event['how']}")

    def rule_handlers_are_alone(self) -> Found:
        """No handler sees another's context variables, and none is run twice."""
        layers = self.begin["layers"]
        for began in self.by_kind["handler-began"]:
            token = began["token"]
            if began["whose"] != "nobody's":
                yield Violation("", began["i"], f"{token} sees a variable of {began['whose']}")
            if began["through"] != layers:
                yield Violation("", began["i"], f"{token} came through {began['through']} layers, not {layers}")
            again = [event for event in self.of_token[token]["handler-began"] if event["i"] < began["i"]]
            if again and not self.by_kind["restart"]:
                yield Violation("", began["i"], f"{token} is run twice")

    def rule_answers_are_right(self) -> Found:
        """A call that is not given up ends with what its own handler has said."""
        for ended in self.by_kind["call-ended"]:
            began = self.one(ended["token"], "call-began")
            if ended["how"] != "result" or began is None:
                continue
            if began["kind"] in SCRIPTS:
                problem = self.wrong(
                    ended["token"], ended["text"], is_error=bool(ended.get("is_error")), ended=ended
                )
                if problem:
                    yield Violation("", ended["i"], f"{ended['token']}: {problem}")
            for part, text in zip(began["parts"], ended.get("texts", ()), strict=False):
                problem = (
                    None if text.startswith("error ") else self.wrong(part, text, is_error=None, ended=ended)
                )
                if problem:
                    yield Violation("", ended["i"], f"{part}: {problem}")
            if "names" in ended and ended["names"] != ["given", "plain", "script"]:
                yield Violation("", ended["i"], f"the tools are {ended['names']}")

    def wrong(self, token: str, text: str, *, is_error: bool | None, ended: Event) -> str | None:
        """Say what is wrong with the result of a call."""
        handler = next((each for each in self.of_token[token]["handler-ended"] if each["i"] < ended["i"]), None)
        if handler is None:
            busy = is_error is not False and not text.startswith(f"{token}|")
            return (
                None
                if busy and self.begin["small"]
                else f"it has the result {text[:60]!r}, and no handler has ended"
            )
        how = handler["how"]
        answers = "|".join(event["answer"] for event in self.of_token[token]["answered"])
        if "secret" in text:
            return f"it tells a secret: {text[:80]!r}"
        if how == "return":
            fits = text.rstrip("x") == f"{token}|{answers}".rstrip("x")
            if fits or (is_error is not False and not text.startswith(f"{token}|")):
                return None if fits or self.begin["small"] or "scope" in text or "failed" in text else text[:80]
            return f"it has the result {text[:60]!r}"
        if how == "ToolError":
            return None if is_error is not False and f"tool error of {token}" in text else text[:80]
        return (
            None
            if is_error is not False
            else f"its handler has ended with {how}, and it has the result {text[:60]!r}"
        )

    def rule_errors_have_a_reason(self) -> Found:
        """No call says that something is lost, closed or refused unless it is; nothing else comes out of one."""
        for ended in self.by_kind["call-ended"]:
            how, token, client = ended["how"], ended["token"], ended["client"]
            began = self.one(token, "call-began")
            if began is None:
                continue
            asks = self.of_token[token]["asking"]
            leaving = self.of_client("leaving", client)
            troubled = self.trouble(client, restarted=False) < ended["i"]
            match how:
                case "result" | "cancelled" | "TooSlowError":
                    continue
                case "ClosedResourceError":
                    is_left = leaving is not None and leaving["i"] < ended["i"]
                    fine = is_left or self.is_between_members(began, ended)
                case "ConnectionLost" | "SessionLost" | "HttpStatusError" | "RemoteProtocolError":
                    fine = troubled or "max_kept_bytes" in self.begin["small"]  # what finds no room ends
                case "LookupError":
                    fine = bool(asks) and self.is_modern(client)
                case "ExceptionGroup":  # of its own handlers, several of which have failed at once
                    fine = self.is_modern(client) and self.failed_at_once(asks, ended) > 1
                case "OfTheCaller":
                    fine = began["progress"] == "raise"
                case "ValueError":
                    fine = began["kind"] == "batch" and "max_outbound_requests" in self.begin["small"]
                case "LocalProtocolError":
                    fine = began["kind"] in {"level", "roots", "listen"}
                case "RequestError":
                    fine = "secret" not in ended["text"] and self.may_be_refused(ended, began)
                case _:
                    fine = False
            if not fine:
                yield Violation(
                    "", ended["i"], f"{token} ({began['kind']}) ended with {how}: {ended.get('text')}"
                )

    def failed_at_once(self, asks: list[Event], ended: Event) -> int:
        """How many handlers of a call's questions have raised something in the moment in which it ended."""
        over = [event for ask in asks for event in self.of_token[ask["ask"]]["question-ended"]]
        return sum(event["how"] == "raise" and event["t"] >= ended["t"] - self.tiny for event in over)

    def may_be_refused(self, ended: Event, began: Event) -> bool:
        """Whether there is a reason for the server to refuse a call."""
        token, client = ended["token"], ended["client"]
        if self.trouble(client) < ended["i"] or self.begin["small"] or self.of_token[token]["leaking"]:
            return True
        if ended["t"] >= began["t"] + finite(began["left"]) - 0.002:
            return True
        handler = self.one(token, "handler-ended")
        if handler is not None and handler["how"] != "return":
            return handler["how"] != "RequestError" or f"error of {token}" in ended["text"]
        asks = self.of_token[token]["asking"]
        declined = [
            event
            for event in asks
            if (over := self.one(event["ask"], "question-ended")) is not None and over["how"] == "decline"
        ]
        if declined and self.is_modern(client):
            return True
        return handler is not None and ("scope" in ended["text"] or "failed" in ended["text"])


def _note_in(message: Message) -> dict[str, Any] | None:
    """Return what a log message, or a notification of our own, says."""
    params = message.data.get("params") or {}
    if message.method == "notifications/message":
        data = params.get("data")
        return data if isinstance(data, dict) and "token" in data else None
    return params if message.method == "simulation/note" else None


def _running_sums(marks: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    total = 0
    for at, change in sorted(marks):
        total += change
        yield at, total


def check(events: Sequence[Event]) -> list[Violation]:
    """Return what is wrong with a log."""
    return Checker(events).check()


def grows(samples: Sequence[tuple[int, int]], *, per_thousand: int) -> bool:
    """Say whether memory grows with the number of programs.

    Args:
        samples: How many programs were played, and what memory there was, in bytes; the first quarter warms up.
        per_thousand: How many bytes a thousand programs may leave.
    """
    rest = samples[len(samples) // 4 :]
    if len(rest) < 4:
        return False
    half = len(rest) // 2
    early, late = rest[:half], rest[half:]
    played = sum(at for at, _ in late) / len(late) - sum(at for at, _ in early) / len(early)
    grown = statistics.median(size for _, size in late) - statistics.median(size for _, size in early)
    return grown > per_thousand * max(played, 1) / 1000


def growing(samples: Sequence[Mapping[str, int]], *, most: int) -> dict[str, int]:
    """Return of which classes there are more and more objects, and how many more.

    Args:
        samples: How many objects there are of each class, one sample after another; the first quarter warms up.
        most: How many more of one class there may be at the end.
    """
    rest = samples[len(samples) // 4 :]
    if len(rest) < 2:
        return {}
    first, last = rest[0], rest[-1]
    return {name: more for name, count in last.items() if (more := count - first.get(name, 0)) > most}
