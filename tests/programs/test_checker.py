"""Each rule of the checker can fail, and a record in which all is well breaks none."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import attrs
import pytest

from .checker import OPEN_QUESTIONS, Checker, check
from .plan import LEGACY, MODERN, Ask, Call, ClientPlan, Group, Program, Step, Transport
from .record import Event, Record, message_token

T: Final = "0.0.1"
Q: Final = "0.0.9"


def on(kind: str, token: str = "", *, t: float = 0.0, **data: Any) -> Event:
    return Event(t, kind, 0, token, data)


def frame(kind: str, t: float = 0.0, *, token: str = "", **message: Any) -> Event:
    return Event(t, kind, 0, token or message_token(message), {"message": message})


def request(id: int = 2, token: str = T, **meta: Any) -> dict[str, Any]:
    return {"id": id, "method": "tools/call", "params": {"arguments": {"token": token}, "_meta": meta}}


def goodbye(id: int = 2) -> dict[str, Any]:
    return {"method": "notifications/cancelled", "params": {"requestId": id}}


def progress(n: int) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": "p", "progress": n}}


ANSWER: Final[dict[str, Any]] = {"id": 2, "result": {}}
QUESTION: Final[Any] = {"id": 7, "method": "elicitation/create", "params": {"message": Q}}

TOLD: Final[dict[str, Any]] = {"progressToken": "p", "trio-mcp/timeoutMs": 400}

OPENED: Final = [on("opening"), on("opened")]


def began(
    left: float = math.inf, *, silence: bool = False, scopes: Sequence[str] = ("scope",), told: int | None = None
) -> list[Event]:
    meta: dict[str, Any] = (
        {"progressToken": "p"} if told is None else {"progressToken": "p", "trio-mcp/timeoutMs": told}
    )
    return [
        on("call-began", T, left=left, scopes=scopes, silence=silence),
        frame("client-out", **request(**meta)),
        frame("server-in", **request(**meta)),
        on("handler-began", T, id=2, left=math.inf if told is None else told / 1000, whose="nobody's"),
    ]


def answered(t: float = 1.0) -> list[Event]:
    return [
        on("handler-ended", T, t=t, how="return"),
        frame("server-out", t, **ANSWER),
        frame("client-in", t, **ANSWER),
        on("call-ended", T, t=t, how="result", text=f"{T}: ", is_error=None),
    ]


def ended(t: float, how: str = "cancelled") -> Event:
    return on("call-ended", T, t=t, how=how, text="")


def given_up(t: float = 1.0) -> list[Event]:
    return [
        on("cancel", t=t, scope="scope"),
        ended(t),
        frame("client-out", t, **goodbye()),
        frame("server-in", t, **goodbye()),
    ]


def died(t: float = 1.0) -> list[Event]:
    return [on("handler-cancelled", T, t=t), on("handler-ended", T, t=t, how="Cancelled")]


def left(t: float = 2.0, how: str = "itself", calls: int = 0, dropped: int = 0) -> list[Event]:
    return [
        on("leaving", t=t, how="return"),
        on("left", t=t, how=how),
        on("statistics", t=t, calls=calls, exchanges=0, dropped=dropped),
        on("server-ended", t=t),
        on("over", t=t, tasks=[]),
    ]


SIMPLE: Final = Call(T, progress="fast")
ASKS: Final = Call(T, (Step("ask", ask=Ask(Q, "elicit")),), progress="fast")
SILENT: Final = Call(T)


OTHER: Final = "0.0.2"
PLAIN: Final = Group((Call(T, progress="fast", plain=True), Call(OTHER)))


def program(call: Call, transport: Transport = "memory", revision: str = LEGACY, **client: Any) -> Program:
    return Program(0, transport, (ClientPlan(revision, (Group((call,)),), **client),), max_inbound=1)


def record(events: Sequence[Event], *, is_exact: bool = True) -> Record:
    """Return a record, in which `on_frame` was shown everything."""
    shown: list[Event] = []
    for event in events:
        shown.append(event)
        if event.kind in {"client-in", "client-out"}:
            data = json.dumps(event.data["message"])
            shown.append(
                attrs.evolve(event, kind="on-frame", token="", data={"way": event.kind[7:], "data": data})
            )
    return Record(lambda: 0.0, is_exact=is_exact, events=shown)


TWO: Final = attrs.evolve(program(SIMPLE), clients=(ClientPlan(LEGACY, (PLAIN,)),))

ASKING: Final = [
    on("asking", T, ask=Q),
    frame("server-out", **QUESTION),
    frame("client-in", **QUESTION),
    on("question-began", Q),
]
HTTP: Final[dict[str, Any]] = {"transport": "lean", "revision": MODERN}
STREAM: Final = [
    on("call-began", T, left=math.inf, scopes=("scope",), silence=False),
    frame("client-out", **request()),
    on("http-request", T, stream=1, method="POST", message=request()),
    on("handler-began", T, id=2, left=math.inf, whose="nobody's"),
]
HUNG_UP: Final = on("http-hang-up", T, t=1, stream=1, is_open=True, is_between=True)

GOOD: Final[dict[str, tuple[Program, list[Event]]]] = {
    "answered": (program(SIMPLE), [*OPENED, *began(), *answered(), *left()]),
    "given up": (program(SIMPLE), [*OPENED, *began(), *given_up(), *died(), *left()]),
    "asked and given up": (
        program(ASKS),
        [
            *OPENED, *began(), *ASKING, *given_up(), on("asking-cancelled", T, t=1, ask=Q), *died(),
            frame("server-out", 1, **goodbye(7)), frame("client-in", 1, **goodbye(7)),
            on("question-ended", Q, t=1, how="cancelled"), *left(),
        ],
    ),
    "deadline": (program(SIMPLE), [*OPENED, *began(1.0, told=1000), *given_up(), *died(), *left()]),
    "hung up": (program(SIMPLE, **HTTP), [*OPENED, *STREAM, *given_up()[:2], HUNG_UP, *died(), *left()]),
    "progress": (
        program(SIMPLE),
        [*OPENED, *began(), on("reporting", T, n=1), frame("client-in", **progress(1)), on("progress", T, n=1), *answered(), *left()],
    ),
    "given up while the answer waits behind what came with it": (
        program(SIMPLE, batches=True), [*OPENED, *began(), *answered()[:3], *given_up(), *left()],
    ),
    "a request for a handler whose time was over between two of them": (
        program(SIMPLE, revision=MODERN),
        [
            *OPENED, *began(1.0, told=1000), frame("server-out", 0.5, **ANSWER), frame("client-in", 0.5, **ANSWER),
            frame("client-out", 0.6, **request(3, **TOLD)), *died(),
            ended(1), frame("server-in", 1.5, **request(3)), frame("server-out", 1.5, id=3, error={}),
            frame("client-out", 1.5, **goodbye(3)), frame("client-in", 1.5, id=3, error={}), *left(),
        ],
    ),
    "a question that went down with its stream": (
        program(ASKS, "lean"),
        [
            *OPENED, *STREAM, on("asking", T, ask=Q), *given_up()[:3], on("http-request", stream=2, method="POST", message=goodbye()),
            HUNG_UP, on("asking-cancelled", T, t=1, ask=Q), *died(), on("http-said", t=1, stream=3, message=goodbye(7)), *left(),
        ],
    ),
    "a thread left behind keeps no request's place": (
        TWO,
        [
            *OPENED, *began(), on("call-began", OTHER, left=math.inf, scopes=(), silence=False),
            frame("client-out", **request(3, OTHER)), frame("server-in", **request(3, OTHER)), *given_up(),
            on("handler-began", OTHER, t=1, id=3, left=math.inf, whose="nobody's"),
            on("handler-ended", OTHER, t=1, how="return"),
            frame("server-out", 1, id=3, result={}), frame("client-in", 1, id=3, result={}),
            on("call-ended", OTHER, t=1, how="result", text=f"{OTHER}: ", is_error=None), *left(), *died(2),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_breaks_no_rule(name: str) -> None:
    program, events = GOOD[name]
    assert check(program, record(events, is_exact=program.transport == "memory"), is_strict=True) == []


LOG: Final[Any] = {"method": "notifications/message", "params": {"data": {"token": T, "n": 1}}}
LOG_2: Final[Any] = {"method": "notifications/message", "params": {"data": {"token": T, "n": 2}}}

BAD: Final[list[tuple[str, Program, list[Event]]]] = [
    ("goodbye-is-founded", program(SIMPLE), [*OPENED, *began(), *given_up(), frame("client-out", 1, **goodbye()), *died(), *left()]),
    ("goodbye-is-founded", program(SIMPLE), [*OPENED, frame("client-out", **goodbye()), *began(), *answered(), *left()]),
    ("goodbye-is-founded", program(SIMPLE), [*OPENED, *began(), *answered(), frame("client-out", 1, **goodbye()), *left()]),
    ("goodbye-is-founded", program(SIMPLE, batches=True), [*OPENED, *began(), *answered()[:3], *given_up(1.5), *left()]),
    ("goodbye-is-founded", program(SIMPLE), [frame("client-out", id=1, method="initialize"), frame("client-out", **goodbye(1))]),
    ("goodbye-is-founded", program(SIMPLE, **HTTP), [*OPENED, *STREAM, *given_up(), HUNG_UP, *died(), *left()]),
    ("goodbye-is-founded", program(ASKS, "lean"), [*OPENED, *STREAM, frame("http-said", 1, **goodbye(7)), *answered(), *left()]),
    ("goodbye-is-for-what-was-given-up", program(SIMPLE), [*OPENED, *began(), frame("client-out", **goodbye()), *answered(), *left()]),
    ("goodbye-is-said", program(SIMPLE), [*OPENED, *began(), *given_up()[:2], *left()]),
    ("goodbye-is-a-hang-up", program(SIMPLE, **HTTP), [*OPENED, *STREAM, *given_up()[:2], *left()]),
    ("goodbye-is-a-hang-up", program(SIMPLE, **HTTP), [*OPENED, *STREAM, HUNG_UP, *answered(), *left()]),
    ("control-comes-back", program(SIMPLE), [*OPENED, *began(0.5, told=500), *given_up(), *died(0.5), *left()]),
    ("control-comes-back", program(SIMPLE), [*OPENED, *began(1.5, told=1500), ended(1), *given_up(1)[2:], *died(), *left()]),
    ("control-comes-back", program(SIMPLE), [*OPENED, *began(), ended(1, "TooSlowError"), *given_up(1)[2:], *died(), *left()]),
    ("control-comes-back", program(SIMPLE, request_timeout=0.5), [*OPENED, *began(told=500), *answered(), *left()]),
    ("leaving-is-bounded", program(SIMPLE), [*OPENED, on("leaving", t=1), on("left", t=3.1, how="itself"), *left(3.1)[2:]]),
    ("handler-dies", program(SIMPLE), [*OPENED, *began(), *given_up(), *died(1.5), *left()]),
    ("handler-dies", program(SIMPLE), [*OPENED, *began()[:3], *given_up(), attrs.evolve(began()[3], t=1.5), *died(1.5), *left()]),
    ("handler-dies-for-a-reason", program(SIMPLE), [*OPENED, *began(), *died(0.5), *given_up(), *left()]),
    ("nothing-is-said-after-a-goodbye", program(SIMPLE), [*OPENED, *began(), *given_up(), *died(), frame("server-out", 1, **ANSWER), *left()]),
    ("nothing-is-said-after-a-goodbye", program(SIMPLE), [*OPENED, *began(), *given_up(), *died(), frame("server-out", 1, **progress(1)), *left()]),
    ("nothing-is-said-after-a-goodbye", program(ASKS), [*OPENED, *began(), *given_up(), *died(), frame("server-out", 1, **QUESTION), *left()]),
    ("questions-are-cancelled", program(ASKS), [*OPENED, *began(), *ASKING, *given_up(), on("asking-cancelled", T, t=1, ask=Q), *died(), on("question-ended", Q, t=1, how="answer"), *left(4)]),
    ("questions-are-cancelled", program(ASKS), [*OPENED, *began(), *ASKING, *given_up(), on("asking-cancelled", T, t=1, ask=Q), *died(), frame("server-out", 1, **goodbye(7)), frame("client-in", 1, **goodbye(7)), on("question-ended", Q, t=1.5, how="answer"), *left()]),
    ("asking-while-cancelled", program(SIMPLE), [*OPENED, *began(), *given_up(), died()[0], on("handler-ended", T, t=1, how="LocalProtocolError"), *left()]),
    ("deadlines-shrink", program(SIMPLE), [*OPENED, *began(2.0), *answered(), *left()]),
    ("deadlines-shrink", program(SIMPLE), [*OPENED, *began(2.0, told=2500), *answered(), *left()]),
    ("deadlines-shrink", program(SIMPLE), [*OPENED, *began(2.0, told=1500), *answered(), *left()]),
    ("handlers-have-the-deadline", program(SIMPLE), [*OPENED, *began()[:3], *began(2.0, told=2000)[3:], *answered(), *left()]),
    ("handlers-have-the-deadline", program(SIMPLE), [*OPENED, *began(1.0, told=1000), *given_up(), *died(1.5), *left()]),
    ("handlers-have-the-deadline", program(SIMPLE), [*OPENED, began()[3], *left()]),
    ("late-answers-are-held-back", program(SIMPLE), [*OPENED, *began(3.0, told=1000), *died(), frame("server-out", 1, **ANSWER), *left()]),
    ("no-frame-is-torn", program(SIMPLE), [*OPENED, on("torn", end="client", way="out", data="{"), *left()]),
    ("no-frame-is-torn", program(SIMPLE, "stdio"), [*OPENED, *left(), on("bytes", at=0, way="in", data='{"a":\n{}\n')]),
    ("frames-are-shown-as-they-are", program(SIMPLE), [*OPENED, on("on-frame", way="out", data="{}"), *began(), *answered(), *left()]),
    ("nobody-waits-for-ever", program(SIMPLE), [*OPENED, on("backstop", t=300), *left(300)]),
    ("nobody-waits-for-ever", program(SIMPLE), [*OPENED, *began(), *left()]),
    ("nobody-waits-for-ever", program(ASKS), [*OPENED, on("question-began", Q), *left()]),
    ("nobody-waits-for-ever", program(SIMPLE), [*OPENED]),
    ("nobody-waits-for-ever", program(SIMPLE), [*OPENED, *left()[:3]]),
    ("a-lost-connection-ends-calls", program(SIMPLE), [*OPENED, *began(), on("server-ending", how="cancel"), on("server-ended", t=0.5), ended(1, "ConnectionLost"), *left()]),
    ("leaving-ends-calls", program(SIMPLE), [*OPENED, *began(), *left(), ended(2)]),
    ("nothing-is-left", program(SIMPLE), [*OPENED, *left(calls=1)]),
    ("nothing-is-left", program(SIMPLE), [*OPENED, *left()[:-1], on("over", tasks=["reader"])]),
    ("nothing-is-left", program(SIMPLE), [*OPENED, *left(), on("process", descriptors=["7 pipe"], children=[])]),
    ("nothing-is-left", program(SIMPLE), [*OPENED, *left(), on("process", descriptors=[], children=["4711"])]),
    ("exceptions-come-out-as-themselves", program(SIMPLE), [*OPENED, *left(how="ExceptionGroup: of one")]),
    ("exceptions-come-out-as-themselves", program(SIMPLE), [*OPENED, *left(), on("server-failed", how="KeyError")]),
    ("the-server-ends", program(SIMPLE), [*OPENED, *left()[:3], on("server-ended", t=10)]),
    ("progress-is-in-order", program(SIMPLE), [*OPENED, *began(), on("reporting", T, n=1), frame("client-in", **progress(1)), *answered(), *left()]),
    ("progress-is-in-order", program(SIMPLE), [*OPENED, *began(), on("progress", T, n=1), *answered(), *left()]),
    ("progress-is-in-order", program(SIMPLE), [*OPENED, *began(), on("reporting", T, n=1), frame("client-in", **progress(1)), *answered(), on("progress", T, n=1), *left()]),
    ("progress-is-in-order", program(SIMPLE), [*OPENED, *began(), frame("client-in", **progress(2)), frame("client-in", **progress(1)), *given_up(), *died(), *left()]),
    ("progress-is-in-order", program(SILENT), [*OPENED, *began(), frame("client-in", **progress(1)), *answered(), *left()]),
    ("logs-are-in-order", program(SIMPLE), [*OPENED, frame("client-in", **LOG), frame("client-in", **LOG_2), on("log", T, n=2), on("log", T, n=1), *left()]),
    ("places-are-bounded", TWO, [*OPENED, *began(), on("handler-began", OTHER, id=3, left=math.inf, whose="nobody's"), *answered(), *left()]),
    ("handlers-are-alone", program(SIMPLE), [*OPENED, *began()[:3], on("handler-began", T, id=2, left=math.inf, whose="0.0.2"), *answered(), *left()]),
    ("handlers-are-alone", program(SIMPLE), [*OPENED, *began(), *answered(), began()[3], *left()]),
    ("answers-are-right", program(SIMPLE), [*OPENED, *began(), *answered()[:3], on("call-ended", T, t=1, how="result", text="0.0.2: ", is_error=None), *left()]),
    ("answers-are-right", program(SIMPLE), [*OPENED, *began(), *answered()[:3], on("call-ended", T, t=1, how="RequestError", text="of somebody"), *left()]),
    ("answers-are-right", program(ASKS), [*OPENED, on("answered", T, ask=Q, answer="answer of 0.0.8"), *left()]),
    ("errors-have-a-reason", program(SIMPLE), [*OPENED, *began(), ended(1, "ConnectionLost"), *died(1), *left()]),
    ("errors-have-a-reason", program(SIMPLE), [*OPENED, *began(), ended(1, "ClosedResourceError"), *given_up()[2:], *died(1), *left()]),
    ("errors-have-a-reason", program(SIMPLE), [*OPENED, *began(), ended(1, "KeyError"), *died(1), *left()]),
    ("leaks-cost-themselves", program(SIMPLE), [*OPENED, *began(), on("call-ended", T, how="RuntimeError", text="Cancel scope stack corrupted"), *left()]),
    ("handlers-have-the-deadline", program(ASKS, revision=MODERN), [*OPENED, *began(1.0, told=1000), *given_up()[:2], *died(2), *left()]),
    ("handlers-have-the-deadline", program(SIMPLE), [*OPENED, *began(1.0, told=1000)[:3], *given_up()[:2], on("handler-began", T, t=1.5, id=2, left=-0.5, whose="nobody's"), *answered(1.5)[:2], *left()]),
    ("progress-is-in-order", program(ASKS, revision=MODERN), [*OPENED, *began(), on("reporting", T, n=1), *answered(), *left()]),
    ("handler-dies", program(ASKS, revision=MODERN), [*OPENED, *began(), frame("server-in", **request(3)), frame("server-in", 1, **goodbye(3)), *died(1.5), *left()]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "program", "events"), BAD)
def test_a_rule_fails_where_its_promise_is_broken(rule: str, program: Program, events: list[Event]) -> None:
    found = check(program, record(events, is_exact=program.transport == "memory"), is_strict=True)
    assert rule in {violation.rule for violation in found}


def test_every_rule_can_fail() -> None:
    rules = Checker(program(SIMPLE), record([])).rules().keys() | OPEN_QUESTIONS.keys()
    assert {rule for rule, _, _ in BAD} == rules
