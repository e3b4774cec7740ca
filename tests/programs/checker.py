"""Judges a record by the promises of `docs/cancellation.md`. Knows the documentation, and nothing of the package.

Each rule is a method that yields violations; its first line says what is promised. A rule that cannot know (who was
about to leave, whose wire was blocked until `goodbye_timeout` was over) keeps silent.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import attrs

from .plan import MODERN, Call, Program, asks_of, calls_of, kinds_of
from .record import Event, Record
from .scripted import DRAIN, GOODBYE

TINY: Final = 1e-6
SLACK: Final = 1.5  # what a busy machine may take, where the clock is real


@attrs.frozen
class Violation:
    """A promise that was broken.

    Attributes:
        rule: Which rule says so.
        number: The event that shows it.
        text: What is wrong.
    """

    rule: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


At = tuple[int, Event]
Found = Iterator[Violation]


@attrs.define
class Ask:
    """A request on the wire, and what became of it: numbers of events, or infinity."""

    id: str
    method: str
    token: str
    out: int
    message: dict[str, Any]
    answered: float = math.inf
    goodbyes: list[int] = attrs.field(factory=list[int])


def key(id: object) -> str:
    return json.dumps(id)


def is_request(message: Any) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message


def is_answer(message: Any) -> bool:
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def goodbye_of(message: Any) -> str | None:
    told = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    if told.get("method") == "notifications/cancelled":
        return key(told.get("params", {}).get("requestId"))
    return None


class Checker:
    """Judges one record of one program."""

    def __init__(self, program: Program, record: Record) -> None:
        self.program = program
        self.events = list(record.events)
        self.is_exact = record.is_exact
        self.is_http = program.transport in {"hypercorn", "lean"}
        self.patience = SLACK + 2 * sum(event.data["seconds"] for event in self.events if event.kind == "late")
        self.calls: dict[str, Call] = {call.token: call for call in calls_of(program)}
        self.by_kind: dict[str, list[At]] = defaultdict(list)
        self.of_token: dict[str, dict[str, list[At]]] = defaultdict(lambda: defaultdict(list))
        if self.is_http:  # what passes the proxy stands for what the server sees
            kinds = {"http-request": "server-in", "http-said": "server-out"}
            self.events = [
                attrs.evolve(event, kind=kinds[event.kind])
                if event.kind in kinds and event.data.get("message") is not None
                else event
                for event in self.events
            ]
        for at in enumerate(self.events):
            self.by_kind[at[1].kind].append(at)
            if at[1].token:
                self.of_token[at[1].token][at[1].kind].append(at)
        self.asked = {
            (number, end): self._asked(number, end)
            for number in range(len(program.clients))
            for end in ("client", "server")
        }

    # -- looking things up --

    @property
    def slack(self) -> float:
        return TINY if self.is_exact else self.patience

    def of(self, kind: str, client: int) -> list[At]:
        return [at for at in self.by_kind[kind] if at[1].client == client]

    def one(self, token: str, kind: str) -> At | None:
        return next(iter(self.of_token[token][kind]), None)

    def first(self, kind: str, client: int) -> At | None:
        return next(iter(self.of(kind, client)), None)

    def is_modern(self, client: int) -> bool:
        return self.program.clients[client].revision == MODERN

    def server_ended(self, client: int) -> float:
        """When the server began to end by itself, as an event's number."""
        return min(
            (
                at[0]
                for kind in ("server-ending", "server-failed")
                for who in (client, -1)
                for at in self.of(kind, who)
            ),
            default=math.inf,
        )

    def leaving(self, client: int) -> At | None:
        return self.first("leaving", client)

    def left_late(self, client: int) -> bool:
        """Whether leaving waited for a stuck peer until `goodbye_timeout` was over."""
        leaving, left = self.leaving(client), self.first("left", client)
        return leaving is not None and left is not None and left[1].t - leaving[1].t >= GOODBYE - 0.01

    def _asked(self, client: int, end: str) -> dict[str, Ask]:
        found: dict[str, Ask] = {}
        for number, event in self.of(f"{end}-out", client):
            message = event.data["message"]
            if is_request(message):
                found.setdefault(
                    key(message["id"]), Ask(key(message["id"]), message["method"], event.token, number, message)
                )
            elif (id := goodbye_of(message)) is not None and id in found:
                found[id].goodbyes.append(number)
        for number, event in self.of(f"{end}-in", client):
            message = event.data["message"]
            if is_answer(message) and (asked := found.get(key(message.get("id")))) is not None:
                asked.answered = min(asked.answered, number)
        return found

    def fence(self, began: Event) -> float:
        """When a call has to be over, on the clock."""
        ends: list[float] = [began.t + began.data["left"]]
        for _, event in self.of("cancel", began.client):
            if event.data["scope"] in began.data["scopes"]:
                ends.append(max(event.t, began.t))
        left = self.first("left", began.client)
        if left is not None:
            ends.append(left[1].t)
        return min(ends)

    def given_up(self, token: str) -> At | None:
        ended = self.one(token, "call-ended")
        if ended is not None and ended[1].data["how"] in {"cancelled", "TooSlowError", "ClosedResourceError"}:
            return ended
        return None

    def shielded_until(self, token: str, number: int) -> float:
        """Until when a handler cannot be cancelled, at a moment."""
        # A handler that runs in that very instant may come to its shield before it comes to a checkpoint.
        now = self.events[number].t if self.is_exact and number < len(self.events) else -math.inf
        begun = [at for at in self.of_token[token]["shield-begins"] if at[0] < number or at[1].t == now]
        ended = [at for at in self.of_token[token]["shield-ends"] if at[0] < number]
        if len(begun) == len(ended):
            return -math.inf
        later = [at[1].t for at in self.of_token[token]["shield-ends"] if at[0] > number]
        # What is begun under a cancelled scope is shielded as well: cleanup.
        return max(later, default=math.inf)

    def rules(self) -> dict[str, Callable[[], Found]]:
        return {
            name.removeprefix("rule_").replace("_", "-"): getattr(self, name)
            for name in sorted(dir(self))
            if name.startswith("rule_")
        }

    def check(self) -> list[Violation]:
        """Return all violations, in the order of the events that show them."""
        found = [violation for rule in self.rules().values() for violation in rule()]
        return sorted(found, key=lambda violation: violation.number)

    # -- 1 and 2: goodbyes --

    def rule_goodbye_is_founded(self) -> Found:
        """None for what was never written, was answered, or is `initialize`; never twice; never before its request."""
        for (client, end), asked in self.asked.items():
            for number, event in self.of(f"{end}-out", client):
                if (id := goodbye_of(event.data["message"])) is None:
                    continue
                request = asked.get(id)
                if request is None or request.out > number:
                    if self._may_have_gone_elsewhere(client, end, request, number):
                        continue
                    yield Violation(
                        "goodbye-is-founded", number, f"{end} cancels {id}, which was not written before"
                    )
                elif request.method == "initialize":
                    yield Violation("goodbye-is-founded", number, f"{end} cancels initialize")
                elif request.answered < number and not self._may_not_have_come(end, request, number):
                    yield Violation("goodbye-is-founded", number, f"{end} cancels {id}, which was answered")
                elif request.goodbyes[0] < number:
                    yield Violation("goodbye-is-founded", number, f"{end} cancels {id} twice")
                elif self.is_http and end == "client" and self.is_modern(client):
                    yield Violation(
                        "goodbye-is-founded", number, f"{id} is cancelled by a notification over modern HTTP"
                    )

    def _may_not_have_come(self, end: str, request: Ask, number: int) -> bool:
        """Whether an answer has passed the proxy, but perhaps not reached the server.

        Or has come to a client together with other messages: they are looked at one after another, and what waits
        for its turn, a progress callback of another call above all, holds up those behind it.
        """
        together = end == "client" and self.program.clients[self.events[number].client].batches
        if together and self.events[number].t <= self.events[int(request.answered)].t + TINY:
            return True
        return (
            self.is_http
            and end == "server"
            and self.events[number].t < self.events[int(request.answered)].t + self.patience
        )

    def _may_have_gone_elsewhere(self, client: int, end: str, request: Ask | None, number: int) -> bool:
        """Whether a question was on its way on another connection, which the proxy did not look at in time.

        The question of a handler goes to the stream of its request. When that is given up its stream ends, so the
        goodbye to the question takes another; and a connection that is closed is not read to its end.
        """
        if not self.is_http or end != "server":
            return False
        if request is not None:
            return bool(self.events[request.out].t < self.events[number].t + self.patience)
        return any(at[1].data["is_open"] and at[1].token for at in self.of("http-hang-up", client))

    def rule_goodbye_is_for_what_was_given_up(self) -> Found:
        """A request that its caller did not give up is not cancelled."""
        for (_client, end), asked in self.asked.items():
            for request in asked.values():
                ended = self.one(request.token, "call-ended") if request.token and end == "client" else None
                if ended is not None and request.goodbyes and self.given_up(request.token) is None:
                    yield Violation(
                        "goodbye-is-for-what-was-given-up",
                        request.goodbyes[0],
                        f"{request.token} ended with {ended[1].data['how']}",
                    )

    def rule_goodbye_is_said(self) -> Found:
        """A request that was written and given up is cancelled."""
        for (client, end), asked in self.asked.items():
            if end != "client" or (self.is_http and self.is_modern(client)):
                continue
            for request in asked.values():
                ended = self.given_up(request.token) if request.token else None
                if ended is None or request.goodbyes or request.out > ended[0] or request.answered < math.inf:
                    continue
                if self.is_http and (
                    request.id not in self._written(client) or self._session_ended(client, ended)
                ):
                    continue
                left = self.first("left", client)
                if self.left_late(client) or self.server_ended(client) < (left[0] if left else math.inf):
                    continue
                if self.of("server-ended", client) and self.of("server-ended", client)[0][0] < ended[0]:
                    continue
                yield Violation(
                    "goodbye-is-said",
                    ended[0],
                    f"{request.token} (id {request.id}) was given up, and nobody was told",
                )

    def _written(self, client: int) -> set[str]:
        """Return the requests that passed the proxy. What is shown to `on_frame` may still wait for a connection."""
        return {
            key(at[1].data["message"].get("id"))
            for at in self.of("server-in", client)
            if is_request(at[1].data["message"])
        }

    def _session_ended(self, client: int, ended: At) -> bool:
        """Whether a call was given up by leaving, and the session was ended with all that was in it."""
        leaving = self.leaving(client)
        deleted = [at for at in self.of("http-request", client) if at[1].data["method"] == "DELETE"]
        return leaving is not None and ended[1].t >= leaving[1].t - 0.05 and bool(deleted)

    def rule_goodbye_is_a_hang_up(self) -> Found:
        """Over modern HTTP, a request that is given up has its response closed, and no other has."""
        if not self.is_http:
            return
        ends: dict[tuple[int, int], list[At]] = defaultdict(list)
        for at in (
            self.by_kind["http-hang-up"] + self.by_kind["http-response-end"] + self.by_kind["http-server-gone"]
        ):
            ends[at[1].client, at[1].data["stream"]].append(at)
        for number, event in self.by_kind["server-in"]:
            if not event.token or not self.is_modern(event.client) or not is_request(event.data["message"]):
                continue
            end = next(
                iter(sorted(at for at in ends[event.client, event.data["stream"]] if at[0] > number)), None
            )
            ended = self.one(event.token, "call-ended")
            given_up = self.given_up(event.token)
            if end is None:
                if given_up is not None:
                    yield Violation(
                        "goodbye-is-a-hang-up", number, f"{event.token} was given up, and its response stays open"
                    )
            elif end[1].kind == "http-hang-up" and end[1].data["is_open"]:
                if given_up is None and ended is not None and ended[1].data["how"] == "result":
                    yield Violation(
                        "goodbye-is-a-hang-up",
                        end[0],
                        f"{event.token} was not given up, and its response is closed",
                    )
            elif given_up is not None and end[1].t > given_up[1].t + self.patience:
                yield Violation(
                    "goodbye-is-a-hang-up", end[0], f"{event.token} was given up, and its response stayed open"
                )

    # -- 3: control --

    def rule_control_comes_back(self) -> Found:
        """A call is over when its deadline passes, its scope is cancelled, or its client is left; not before."""
        for token, call in self.calls.items():
            began, ended = self.one(token, "call-began"), self.one(token, "call-ended")
            if began is None or ended is None:
                continue
            fence, timeout = self.fence(began[1]), self.program.clients[began[1].client].request_timeout
            how, t = ended[1].data["how"], ended[1].t
            if t > fence + self.slack:
                yield Violation("control-comes-back", ended[0], f"{token} ended {t - fence:.4f} s late")
            if (
                how == "cancelled"
                and t < fence - (TINY if self.is_exact else 0.05)
                and not began[1].data["silence"]
                and not self._in_question(token)
            ):
                yield Violation("control-comes-back", ended[0], f"{token} was cancelled {fence - t:.4f} s early")
            if how == "TooSlowError" and (not timeout or t < began[1].t + timeout - self.slack):
                yield Violation("control-comes-back", ended[0], f"{token}: nobody has set such a timeout")
            if (
                timeout
                and not asks_of(call.script)
                and not self._asked_meanwhile(began, ended)
                and t > began[1].t + timeout + self.slack
            ):
                yield Violation("control-comes-back", ended[0], f"{token} outlived request_timeout")

    def _asked_meanwhile(self, began: At, ended: At) -> bool:
        """Whether an older server has asked while a call was pending, so that `request_timeout` stood still."""
        client = began[1].client
        return not self.is_modern(client) and any(
            began[0] < number < ended[0] for number, _ in self.of("question-began", client)
        )

    def _in_question(self, token: str) -> bool:
        """Whether a call is one of a question's handler, which may be cancelled with the question."""
        return any(
            ask.call is not None and ask.call.token == token
            for call in self.calls.values()
            for ask in asks_of(call.script)
        )

    def rule_leaving_is_bounded(self) -> Found:
        """Leaving waits for a stuck peer no longer than `goodbye_timeout`, and a process twice `terminate_timeout`."""
        for client in range(len(self.program.clients)):
            leaving, left = self.leaving(client), self.first("left", client)
            bound = (
                GOODBYE
                + (0 if self.is_exact else self.patience)
                + (4 if self.program.transport == "stdio" else 0)
                + TINY
            )
            if leaving is not None and left is not None and left[1].t - leaving[1].t > bound:
                yield Violation("leaving-is-bounded", left[0], f"leaving took {left[1].t - leaving[1].t:.4f} s")

    # -- 4: handlers --

    def _handlers(self) -> Iterator[tuple[str, At, At | None]]:
        for token in self.calls:
            began = self.one(token, "handler-began")
            if began is not None:
                yield token, began, self.one(token, "handler-ended")

    def _goodbyes_in(self, client: int) -> Iterator[tuple[str, At, At]]:
        """Yield what is cancelled, its request and its cancellation, as they came to the server."""
        requests: dict[str, At] = {}
        for at in self.of("server-in", client):
            message = at[1].data["message"]
            if is_request(message):
                requests[key(message["id"])] = at
            elif (id := goodbye_of(message)) is not None and id in requests and requests[id][1].token:
                yield requests[id][1].token, requests[id], at
        if self.is_http and self.is_modern(client):
            for at in self.of("http-hang-up", client):
                if at[1].data["is_open"] and at[1].token in self.calls:
                    said = [there for there in self.of_token[at[1].token]["server-in"] if there[0] < at[0]]
                    if said:
                        yield at[1].token, said[-1], at

    def rule_handler_dies(self) -> Found:
        """A cancellation that comes in cancels its handler at once; one that waits begins no more."""
        for client in range(len(self.program.clients)):
            for token, request, goodbye in self._goodbyes_in(client):
                began, ended = self.one(token, "handler-began"), self.one(token, "handler-ended")
                if self.calls[token].plain:
                    continue
                if began is None or (ended is not None and ended[0] < goodbye[0]):
                    continue
                if began[0] > goodbye[0]:
                    if began[1].t > goodbye[1].t + self.slack:
                        yield Violation(
                            "handler-dies", began[0], f"{token} was cancelled before it began, and begins"
                        )
                    continue
                answered = any(
                    is_answer(at[1].data["message"])
                    and key(at[1].data["message"].get("id")) == key(request[1].data["message"]["id"])
                    for at in self.of("server-out", client)
                    if request[0] < at[0] < goodbye[0]
                )
                asking = len([at for at in self.of_token[token]["asking"] if at[0] < goodbye[0]])
                over = [
                    at
                    for kind in ("answered", "asking-cancelled")
                    for at in self.of_token[token][kind]
                    if at[0] < goodbye[0]
                ]
                if self.is_http and self.is_modern(client) and asking > len(over):
                    continue  # the server may have answered with its question already: the proxy looks away
                if answered:  # parked meanwhile: it belongs to another request, or to none
                    continue
                died = [
                    at for kind in ("handler-cancelled", "handler-ended") for at in self.of_token[token][kind]
                ]
                bound = max(goodbye[1].t, self.shielded_until(token, goodbye[0])) + self.slack
                if not any(at[1].t <= bound for at in died):
                    yield Violation("handler-dies", goodbye[0], f"{token} was cancelled, and its handler goes on")

    def rule_handler_dies_for_a_reason(self) -> Found:
        """A handler is cancelled by its own cancellation, its deadline, or the end of the connection; by no other."""
        for token, began, ended in self._handlers():
            cancelled = self.one(token, "handler-cancelled")
            client = began[1].client
            if cancelled is None or (ended is not None and "Group" in ended[1].data["how"]):
                continue
            if any(who == token and goodbye[0] < cancelled[0] for who, _, goodbye in self._goodbyes_in(client)):
                continue
            if cancelled[1].t >= began[1].t + began[1].data["left"] - (TINY if self.is_exact else 0.05):
                continue
            leaving = self.leaving(client)
            if (leaving is not None and leaving[1].t <= cancelled[1].t) or self.server_ended(client) < cancelled[
                0
            ]:
                continue
            given_up = self.given_up(token)
            if self.is_http and given_up is not None and abs(given_up[1].t - cancelled[1].t) < self.patience:
                continue
            yield Violation(
                "handler-dies-for-a-reason", cancelled[0], f"{token} was cancelled, and nobody wanted it"
            )

    def rule_nothing_is_said_after_a_goodbye(self) -> Found:
        """Nothing more is sent for a request after its cancellation has come in."""
        for client, plan in enumerate(self.program.clients):
            # What was received together is looked at one after another, and nobody sees when.
            late = (TINY if plan.batches else 0.0) if self.is_exact else self.patience
            if self.is_http and self.is_modern(client):
                continue
            for token, request, goodbye in self._goodbyes_in(client):
                message = request[1].data["message"]
                progress = message["params"].get("_meta", {}).get("progressToken")
                script = self.calls[token].script if token in self.calls else ()
                asks = {ask.token for ask in asks_of(script)}
                for number, event in self.of("server-out", client):
                    if number < goodbye[0] or event.t < goodbye[1].t + late:
                        continue
                    said = event.data["message"]
                    if is_answer(said) and key(said.get("id")) == key(message["id"]):
                        yield Violation(
                            "nothing-is-said-after-a-goodbye",
                            number,
                            f"{token} is answered after its cancellation",
                        )
                    elif (
                        said.get("method") == "notifications/progress"
                        and progress is not None
                        and said["params"]["progressToken"] == progress
                    ):
                        yield Violation(
                            "nothing-is-said-after-a-goodbye",
                            number,
                            f"progress of {token} after its cancellation",
                        )
                    elif is_request(said) and any(json.dumps(ask) in json.dumps(said) for ask in asks):
                        yield Violation(
                            "nothing-is-said-after-a-goodbye",
                            number,
                            f"a question of {token} after its cancellation",
                        )

    # -- 5: nesting, deadlines --

    def rule_questions_are_cancelled(self) -> Found:
        """A handler that is cancelled while it asks cancels its question on the wire, and the client's handler dies."""
        for number, event in self.by_kind["asking-cancelled"]:
            client, ask = event.client, event.data["ask"]
            leaving = self.leaving(client)
            asked = [
                each
                for each in self.asked[client, "server"].values()
                if json.dumps(ask) in json.dumps(each.message)
            ]
            for question in asked:
                if question.out > number or question.answered < math.inf or question.goodbyes:
                    continue
                if (leaving is not None and leaving[1].t <= event.t + GOODBYE) or self.server_ended(
                    client
                ) < math.inf:
                    continue
                yield Violation(
                    "questions-are-cancelled", number, f"{ask} is given up, and the client is not told"
                )
            for question in asked:
                for at in self.of("client-in", client):
                    if goodbye_of(at[1].data["message"]) != question.id:
                        continue
                    began, ended = self.one(ask, "question-began"), self.one(ask, "question-ended")
                    if (
                        began is not None
                        and began[0] < at[0]
                        and (ended is None or ended[1].t > at[1].t + self.slack)
                    ):
                        yield Violation(
                            "questions-are-cancelled",
                            at[0],
                            f"{ask} was cancelled, and the client's handler goes on",
                        )

    def rule_asking_while_cancelled(self) -> Found:
        """A cancelled handler that asks is cancelled there, like anywhere else."""
        for number, event in self.by_kind["handler-ended"]:
            if event.data["how"] in {"LocalProtocolError", "RuntimeError", "ClosedResourceError"}:
                yield Violation("asking-while-cancelled", number, f"{event.token} ended with {event.data['how']}")

    def rule_deadlines_shrink(self) -> Found:
        """A request says how much time its caller has left, no more and no less.

        Not what `request_timeout` leaves: all clients here can be asked, and then that may stand still.
        """
        for (_client, end), asked in self.asked.items():
            for request in asked.values():
                began = self.one(request.token, "call-began") if end == "client" and request.token else None
                if began is None:
                    continue
                told = request.message["params"].get("_meta", {}).get("trio-mcp/timeoutMs")
                out, deadline = self.events[request.out], began[1].t + began[1].data["left"]
                if told is None:
                    if deadline < math.inf:
                        yield Violation(
                            "deadlines-shrink", request.out, f"{request.token} has a deadline and does not say so"
                        )
                    continue
                most = deadline - began[1].t
                least = deadline - out.t
                if told > most * 1000 + 1.001 + (0 if self.is_exact else 1000 * self.patience):
                    yield Violation(
                        "deadlines-shrink", request.out, f"{request.token} has {most} s and says {told} ms"
                    )
                if self._in_question(request.token):
                    continue
                if told < least * 1000 - 1.001 - (0 if self.is_exact else 1000 * self.patience):
                    yield Violation(
                        "deadlines-shrink", request.out, f"{request.token} has {least} s and says {told} ms only"
                    )

    def rule_handlers_have_the_deadline(self) -> Found:
        """A handler's deadline is the one its request came with, counted from when it came; then it is over."""
        for token, began, _ in self._handlers():
            came = [at for at in self.of_token[token]["server-in"] if at[0] < began[0]]
            if not came:
                yield Violation(
                    "handlers-have-the-deadline", began[0], f"{token} is served, and nobody has asked"
                )
                continue
            told = came[0][1].data["message"]["params"].get("_meta", {}).get("trio-mcp/timeoutMs", math.inf)
            deadline = began[1].t + began[1].data["left"]
            expected = came[0][1].t + told / 1000
            if deadline != expected and not abs(deadline - expected) <= self.slack:
                yield Violation(
                    "handlers-have-the-deadline", began[0], f"{token} has until {deadline}, not {expected}"
                )
            if self.calls[token].plain or deadline == math.inf:
                continue
            if began[1].data["left"] < -self.slack:  # it has waited too long for its place
                yield Violation(
                    "handlers-have-the-deadline",
                    began[0],
                    f"{token} begins {-began[1].data['left']:.4f} s late",
                )
                continue
            at_deadline = next(
                (number for number, event in enumerate(self.events) if event.t > deadline + TINY),
                len(self.events),
            )
            if self.is_modern(began[1].client):  # each round says how much is left, rounded up
                deadline += 0.001
            bound = max(deadline, self.shielded_until(token, at_deadline)) + self.slack
            ends = [at for kind in ("handler-cancelled", "handler-ended") for at in self.of_token[token][kind]]
            if not any(at[1].t <= bound for at in ends):
                yield Violation(
                    "handlers-have-the-deadline", began[0], f"{token} goes on after its deadline {deadline}"
                )

    def rule_late_answers_are_held_back(self) -> Found:
        """A handler whose time was over answers only when a cancellation has had `goodbye_timeout` to come."""
        for token, began, ended in self._handlers():
            deadline = began[1].t + began[1].data["left"]
            cancelled = self.one(token, "handler-cancelled")
            if cancelled is None or ended is None or not self.is_exact or cancelled[1].t < deadline - TINY:
                continue
            # A request that comes when its handler has ended between two of them is refused.
            came = [at for at in self.of_token[token]["server-in"] if at[0] < ended[0]]
            ids = {key(at[1].data["message"]["id"]) for at in came}
            leaving = self.leaving(began[1].client)
            for number, event in self.of("server-out", began[1].client):
                said = event.data["message"]
                if (
                    is_answer(said)
                    and key(said.get("id")) in ids
                    and deadline - TINY <= event.t < deadline + GOODBYE - TINY
                    and number > cancelled[0]
                ):
                    if self.server_ended(event.client) < number or (leaving is not None and leaving[0] < number):
                        continue
                    yield Violation(
                        "late-answers-are-held-back",
                        number,
                        f"{token} is answered {event.t - deadline:.4f} s after its deadline",
                    )

    # -- 6: frames --

    def rule_no_frame_is_torn(self) -> Found:
        """Every message on a stream is whole."""
        for number, event in self.by_kind["torn"]:
            yield Violation(
                "no-frame-is-torn", number, f"{event.data['end']} {event.data['way']}: {event.data['data']}"
            )
        for client in range(len(self.program.clients)):
            for way in ("in", "out"):
                chunks = [at for at in self.of("bytes", client) if at[1].data["way"] == way]
                lines = "".join(at[1].data["data"] for at in chunks).split("\n")
                for line in lines if not self.left_late(client) else lines[:-1]:
                    try:
                        if line:
                            json.loads(line)
                    except ValueError:
                        yield Violation("no-frame-is-torn", chunks[-1][0], f"{way}: {line[-200:]!r}")
                        break

    def rule_frames_are_shown_as_they_are(self) -> Found:
        """`on_frame` sees each message as it is on the wire, in order."""
        if not self.is_exact:
            return
        for client in range(len(self.program.clients)):
            for way in ("out", "in"):
                shown: list[Any] = []
                for _, event in self.of("on-frame", client):
                    if event.data["way"] == way:
                        message = json.loads(event.data["data"])
                        shown += message if isinstance(message, list) else [message]
                wire = [at[1].data["message"] for at in self.of(f"client-{way}", client)]
                least = min(len(shown), len(wire))
                if shown[:least] != wire[:least] or (way == "out" and len(wire) > len(shown)):
                    yield Violation(
                        "frames-are-shown-as-they-are",
                        len(self.events) - 1,
                        f"{len(shown)} shown, {len(wire)} on the wire: {way}",
                    )

    # -- 7: nobody waits for ever --

    def rule_nobody_waits_for_ever(self) -> Found:
        """Every call ends, every client can be left, every server ends."""
        for number, _ in self.by_kind["backstop"]:
            yield Violation("nobody-waits-for-ever", number, "something did not end by itself")
        for token in self.calls:
            began = self.one(token, "call-began")
            if began is not None and self.one(token, "call-ended") is None:
                yield Violation("nobody-waits-for-ever", began[0], f"{token} never ended")
        for number, event in self.by_kind["question-began"]:
            if self.one(event.token, "question-ended") is None:
                yield Violation("nobody-waits-for-ever", number, f"the question {event.token} never ended")
        for client in range(len(self.program.clients)):
            opening, left = self.first("opening", client), self.first("left", client)
            if opening is not None and left is None:
                yield Violation("nobody-waits-for-ever", opening[0], "the client was never left")
            elif left is not None and self.is_exact and self.first("server-ended", client) is None:
                yield Violation("nobody-waits-for-ever", left[0], "the server never ended")

    def rule_a_lost_connection_ends_calls(self) -> Found:
        """When the server has ended its end, every pending call fails as soon as the client can see it."""
        if not self.is_exact:
            return
        for client, plan in enumerate(self.program.clients):
            ended = self.first("server-ended", client)
            opening = self.first("opening", client)
            if ended is None or opening is None:
                continue
            seen = ended[1].t
            for away in sorted(
                (away for away in plan.looks_away if away.end == "client"), key=lambda away: away.at
            ):
                begin = opening[1].t + away.at
                if begin <= seen < begin + away.seconds:
                    seen = begin + away.seconds
            for token in self.calls:
                began, over = self.one(token, "call-began"), self.one(token, "call-ended")
                if (
                    began is None
                    or over is None
                    or began[1].client != client
                    or began[1].t > seen
                    or over[1].t <= seen + TINY
                ):
                    continue
                if self.calls[token].progress == "slow" or asks_of(self.calls[token].script):
                    continue
                yield Violation(
                    "a-lost-connection-ends-calls",
                    over[0],
                    f"{token} ended {over[1].t - seen:.4f} s after the connection",
                )

    def rule_leaving_ends_calls(self) -> Found:
        """When a client has been left, all its calls are over, by themselves."""
        for token in self.calls:
            began, ended = self.one(token, "call-began"), self.one(token, "call-ended")
            if began is None or ended is None:
                continue
            left = self.first("left", began[1].client)
            if (
                left is not None
                and ended[0] > left[0]
                and (ended[1].data["how"] == "cancelled" or ended[1].t > left[1].t + self.slack)
            ):
                yield Violation("leaving-ends-calls", ended[0], f"{token} outlived its client")

    # -- 8: nothing is left --

    def rule_nothing_is_left(self) -> Found:
        """No task, no process, no open file, no pending id; what the block raises comes out as itself."""
        for number, event in self.by_kind["statistics"]:
            if event.data["calls"]:
                yield Violation("nothing-is-left", number, f"{event.data['calls']} calls are left")
        for number, event in self.by_kind["over"] + self.by_kind["tasks"]:
            if names := event.data.get("tasks", event.data.get("names")):
                yield Violation("nothing-is-left", number, f"tasks are left: {names}")
        for number, event in self.by_kind["process"]:
            if event.data["descriptors"] or event.data["children"]:
                yield Violation("nothing-is-left", number, f"left: {event.data}")

    def rule_exceptions_come_out_as_themselves(self) -> Found:
        """What the block raises comes out as itself, and nothing else comes out."""
        for number, event in self.by_kind["left"]:
            if event.data["how"] == "itself":
                continue
            opened, timeout = (
                self.first("opened", event.client),
                self.program.clients[event.client].request_timeout,
            )
            if opened is None and (self.server_ended(event.client) < number or timeout):
                continue
            yield Violation("exceptions-come-out-as-themselves", number, event.data["how"])
        for number, event in self.by_kind["server-failed"]:
            yield Violation(
                "exceptions-come-out-as-themselves", number, f"the server failed: {event.data['how']}"
            )

    def rule_the_server_ends(self) -> Found:
        """When its client has gone, a server ends within `drain_timeout` and what its handlers' cleanup takes."""
        if not self.is_exact:
            return
        for client in range(len(self.program.clients)):
            left, ended = self.first("left", client), self.first("server-ended", client)
            away = max((away.at + away.seconds for away in self.program.clients[client].looks_away), default=0)
            opening = self.first("opening", client)
            if left is None or ended is None or opening is None:
                continue
            cleanup = sum(
                event.t - begun.t
                for token in self.calls
                for (_, begun), (_, event) in zip(
                    self.of_token[token]["shield-begins"], self.of_token[token]["shield-ends"], strict=False
                )
            )
            if ended[1].t > max(left[1].t, opening[1].t + away) + DRAIN + GOODBYE + cleanup + TINY:
                yield Violation(
                    "the-server-ends",
                    ended[0],
                    f"the server ended {ended[1].t - left[1].t:.4f} s after its client",
                )

    # -- 9: order --

    def _progress_in(self, client: int) -> dict[str, list[tuple[int, float]]]:
        """Return the numbers of events and reports that came in, by call."""
        tokens = {
            key(request.message["params"].get("_meta", {}).get("progressToken")): request.token
            for request in self.asked[client, "client"].values()
            if request.token
        }
        found: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, event in self.of("client-in", client):
            message = event.data["message"]
            if message.get("method") == "notifications/progress":
                token = key(message["params"]["progressToken"])
                found[tokens.get(token, f"nobody: {token}")].append((number, message["params"]["progress"]))
        return found

    def _dropped(self, client: int) -> bool:
        return any(at[1].data["dropped"] for at in self.of("statistics", client))

    def rule_progress_is_in_order(self) -> Found:
        """A call's callbacks run in wire order, all of them before it returns, none afterwards."""
        for client in range(len(self.program.clients)):
            came_in = self._progress_in(client)
            for token, call in self.calls.items():
                ended = self.one(token, "call-ended")
                if int(token.split(".")[0]) != client or ended is None:
                    continue
                called, came = self.of_token[token]["progress"], came_in.get(token, [])
                if called and called[-1][0] > ended[0]:
                    yield Violation(
                        "progress-is-in-order", called[-1][0], f"a callback of {token} after it returned"
                    )
                heard, said = [at[1].data["n"] for at in called], [n for _, n in came]
                if said[: len(heard)] != heard and not self._dropped(client):
                    yield Violation("progress-is-in-order", called[0][0], f"{token} heard {heard} of {said}")
                if said != sorted(set(said)):
                    yield Violation("progress-is-in-order", came[0][0], f"{token} was told {said}")
                if ended[1].data["how"] == "result" and call.progress != "none" and not self._dropped(client):
                    handler = self.one(token, "handler-ended")
                    reported = [at[1].data["n"] for at in self.of_token[token]["reporting"]]
                    if heard != reported and handler is not None and handler[1].data["how"] == "return":
                        yield Violation(
                            "progress-is-in-order", ended[0], f"{token} reported {reported} and {heard} was heard"
                        )
                began = self.one(token, "call-began")
                if call.progress == "none" and said and began is not None and not began[1].data["silence"]:
                    yield Violation("progress-is-in-order", came[0][0], f"{token} wanted no progress")

    def rule_logs_are_in_order(self) -> Found:
        """Log messages are delivered in wire order, none left out while the queue has room."""
        for client in range(len(self.program.clients)):
            heard = [(at[1].token, at[1].data["n"]) for at in self.of("log", client)]
            said = [
                (data["token"], data["n"])
                for at in self.of("client-in", client)
                if at[1].data["message"].get("method") == "notifications/message"
                and "token" in (data := at[1].data["message"]["params"]["data"])
            ]
            if said[: len(heard)] != heard and not self._dropped(client):
                yield Violation("logs-are-in-order", self.of("log", client)[0][0], f"{heard} of {said}")

    # -- 10: bounded --

    def rule_places_are_bounded(self) -> Found:
        """No more than `max_inbound_requests` of one connection are served at once."""
        for client in range(len(self.program.clients)):
            if self.is_modern(client) and (
                self.is_http or any(asks_of(call.script) for call in self.calls.values())
            ):
                continue  # who is parked is served nowhere; modern HTTP has no connection
            # The call of a plain function ends when it is given up; its thread is left behind and ends when it will.
            over = {
                token: goodbye[0] for token, _, goodbye in self._goodbyes_in(client) if self.calls[token].plain
            }
            running: dict[str, float] = {}
            for number, event in enumerate(self.events):
                if event.client == client and event.kind == "handler-began":
                    running[event.token] = over.get(event.token, math.inf)
                elif event.kind == "handler-ended":
                    running.pop(event.token, None)
                served = sum(until > number for until in running.values())
                if served > self.program.max_inbound:
                    yield Violation("places-are-bounded", number, f"{served} handlers at once")
                    break

    # -- 11: alone --

    def rule_handlers_are_alone(self) -> Found:
        """No handler sees another's context variables, and none is run twice."""
        for number, event in self.by_kind["handler-began"]:
            if event.data["whose"] != "nobody's":
                yield Violation(
                    "handlers-are-alone", number, f"{event.token} sees a variable of {event.data['whose']}"
                )
            if len(self.of_token[event.token]["handler-began"]) > 1:
                yield Violation("handlers-are-alone", number, f"{event.token} is run twice")

    def rule_answers_are_right(self) -> Found:
        """A call that is not given up ends with what its own handler said; a question with its own answer."""
        for token in self.calls:
            ended, handler = self.one(token, "call-ended"), self.one(token, "handler-ended")
            if ended is None:
                continue
            how, text, is_error = (
                ended[1].data["how"],
                ended[1].data.get("text", ""),
                ended[1].data.get("is_error"),
            )
            over = (
                None
                if handler is None or handler[0] > ended[0] + (0 if self.is_exact else 10**9)
                else handler[1].data["how"]
            )
            wrong = None
            if how == "result":
                answers = "|".join(at[1].data["answer"] for at in self.of_token[token]["answered"])
                match over:
                    case "return" if is_error and "leak" in kinds_of(self.calls[token].script):
                        wrong = False  # it may cost the call
                    case "return":
                        wrong = is_error or text != f"{token}: {answers}"
                    case "ToolError":
                        wrong = not is_error or f"tool error of {token}" not in text
                    case "LookupError":
                        wrong = not is_error or "secret" in text
                    case None | "Cancelled" | "RequestError":
                        wrong = True
                    case _:
                        wrong = not is_error
            elif how == "RequestError":
                wrong = not self._may_be_refused(ended, over, text)
            if wrong:
                yield Violation(
                    "answers-are-right",
                    ended[0],
                    f"{token}: the handler ended with {over}, the call with {how} {text}",
                )
        for number, event in self.by_kind["answered"]:
            answer, ask = event.data["answer"], event.data["ask"]
            fine = answer in {
                f"answer of {ask}",
                f"file:///root-{event.client}",
                "declined",
            } or answer.startswith("failed")
            if not fine:
                yield Violation("answers-are-right", number, f"{ask} was answered with {answer}")

    def _may_be_refused(self, ended: At, over: str | None, text: str) -> bool:
        token, client = ended[1].token, ended[1].client
        if "leak" in kinds_of(self.calls[token].script):
            return True
        if over == "RequestError":
            return f"error of {token}" in text
        if over == "LookupError" or self.server_ended(client) < ended[0]:
            return "secret" not in text
        asks = asks_of(self.calls[token].script)
        declined = [ask for ask in asks if ask.end == "decline" and self.one(ask.token, "question-ended")]
        return bool(declined) and self.is_modern(client)

    def rule_errors_have_a_reason(self) -> Found:
        """No call says that something is lost or closed unless it is; no other exception comes out of one."""
        for token, call in self.calls.items():
            ended = self.one(token, "call-ended")
            if ended is None:
                continue
            how, client = ended[1].data["how"], ended[1].client
            match how:
                case "result" | "cancelled" | "TooSlowError" | "RequestError":
                    continue
                case "ClosedResourceError":
                    fine = (leaving := self.leaving(client)) is not None and leaving[0] < ended[0]
                case "ConnectionLost" | "SessionLost" | "HttpStatusError":
                    fine = self.server_ended(client) < ended[0]
                case "LookupError":
                    raised = [
                        ask
                        for ask in asks_of(call.script)
                        if ask.end == "raise" and self.one(ask.token, "question-ended")
                    ]
                    fine = bool(raised) and self.is_modern(client)
                case _:
                    fine = False
            if not fine:
                yield Violation(
                    "errors-have-a-reason", ended[0], f"{token} ended with {how}: {ended[1].data.get('text')}"
                )

    def rule_leaks_cost_themselves(self) -> Found:
        """A handler that leaves a scope open costs its own call at most."""
        for number, event in self.by_kind["call-ended"]:
            if "Cancel scope stack" in event.data.get("text", ""):
                yield Violation("leaks-cost-themselves", number, f"{event.token}: {event.data['text']}")


OPEN_QUESTIONS: Final[dict[str, str]] = {}
"""What the documentation does not decide, by rule."""


def check(program: Program, record: Record, *, is_strict: bool = False) -> list[Violation]:
    """Return what is wrong with a record; what is an open question only if one is strict."""
    found = Checker(program, record).check()
    return [violation for violation in found if is_strict or violation.rule not in OPEN_QUESTIONS]
