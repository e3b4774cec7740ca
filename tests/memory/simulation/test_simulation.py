"""A modest number of random programs, fresh ones and those of fixed seeds; ``make simulate`` plays more."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tests.simulation import judging
from tests.simulation.__main__ import main
from tests.simulation.batch import play_many
from tests.simulation.diagram import draw
from tests.simulation.judging import judge
from tests.simulation.play import play
from tests.simulation.program import (
    BATCHING,
    LEGACY,
    MODERN,
    OLDEST,
    SUMMER,
    WIRES,
    Ask,
    Change,
    Client,
    Damage,
    Do,
    Fault,
    GiveUp,
    Program,
    Step,
    Wire,
    make_program,
)
from tests.simulation.serving import be_quiet
from tests.simulation.shrink import shown, shrink, size_of

FIXED = range(100)


@pytest.fixture(autouse=True)
def _be_quiet() -> None:
    be_quiet()


def check_all(seeds: range) -> None:
    batch = play_many(seeds, processes=1)
    told = [f"make simulate SEED={seed}  # {rule}: {text}" for seed, rule, text in batch.tally.failures]
    assert not told, "\n".join(told)


def test_fixed_programs_break_no_promise() -> None:
    check_all(FIXED)


# A seed decides everything.


def canonical(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a log without what is random on purpose: ids of sessions, sealed states."""
    known: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        return known.setdefault(match[0], f"random {len(known)}")

    found: list[dict[str, Any]] = []
    for event in events:
        now = {key: value for key, value in event.items() if key not in {"kept", "left"}}
        if "raw" in now:
            now["raw"] = re.sub(r"1\.[A-Za-z0-9_-]{80,}|(?<=session_id=)[A-Za-z0-9_-]{32}", name, now["raw"])
        if "headers" in now:
            now["headers"] = {
                key: re.sub(r"[A-Za-z0-9_-]{32}", name, value) for key, value in now["headers"].items()
            }
        found.append(now)
    return found


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--seeds", "many", "expected how many, or a range such as 0-9999, got 'many'"),
        ("--seeds", "9-3", "there is no seed in '9-3'"),
        ("--seeds", "0", "there is no seed in '0'"),
        ("--wires", "http,string", "there is no wire 'string'; there are memory, messages,"),
    ],
)
def test_mistakes_on_the_command_line_are_told(
    option: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is played."""
    monkeypatch.setattr("sys.argv", ["simulation", option, value])
    with pytest.raises(SystemExit):
        main()
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    "wire",
    [pytest.param(wire, marks=[] if wire in {"memory", "http"} else pytest.mark.nightly) for wire in WIRES],
)
def test_the_same_seed_gives_the_same_log(wire: Wire) -> None:
    """Without handlers in threads, whose time is real; whatever else wakes Trio changes nothing."""
    tried = 0
    for seed in range(16):
        program = make_program(seed, [wire])
        if "'plain'" in repr(program):
            continue
        tried += 1
        first, second = canonical(play(program)), canonical(play(program, disturbed=tried % 4 == 0))
        assert first == second, f"seed {seed}, {wire}"
    assert tried > 8


def test_a_seed_decides_the_order_of_tasks() -> None:
    """The same program, with another seed for its order, takes another course."""
    program = Program(1, "memory", (Client(LEGACY, tuple(Do(f"1.{n}") for n in range(1, 9))),))
    orders = {
        tuple(
            event["token"] for event in play(attrs.evolve(program, seed=seed)) if event["ev"] == "handler-began"
        )
        for seed in range(1, 13)
    }
    assert len(orders) > 4


# What programs have found, as short as it could be made.

FOUND = {
    "a group was left between two steps in which its member begins to connect": Program(
        2, "tcp", (Client(MODERN, (), leave="raise", in_group=True, hasty=3),)
    ),
    "a cancellation that had been read waited for room behind a request that had none": Program(
        2000166,
        "messages",
        (
            Client(
                LEGACY,
                (
                    Do("1", at=1.0, pad=5_000),
                    Do("2", script=(Step("ask", ask=Ask("3", "sample", 1.0)),)),
                    Do("4", "prompt", 1.0, (Step("change"), Step(seconds=1.0)), GiveUp("steps", steps=38)),
                ),
                middleware=True,
            ),
        ),
        limits="waiting",
    ),
    "a cancellation was lost whose connection broke before the session had looked at it": Program(
        13,
        "http",
        (
            Client(
                LEGACY,
                (
                    Do("1", "resource", script=(Step(seconds=1.743),)),
                    Do("2", pad=500),
                    Do("3", pad=500),
                    Do("4", give_up=GiveUp("steps", steps=53)),
                    Do("5", give_up=GiveUp("deadline", seconds=1.0), pad=500),
                    Do("6", "listen", seconds=25.897, what=("resources",)),
                ),
                faults=(Fault("break", 0.65),),
                middleware=True,
                watches=("prompts",),
                damages=(Damage("split"),),
            ),
        ),
        limits="waiting",
        changes=(Change(2.618, "announce"),),
    ),
    "a call failed whose response could not be had, and its handler waited for an answer for ever": Program(
        11446599817,
        "no-get",
        (
            Client(
                SUMMER,
                (
                    Do(
                        "1",
                        "resource",
                        script=(
                            Step("notify", count=5),
                            Step(seconds=1.0),
                            Step("ask", ask=Ask("2", "sample")),
                        ),
                    ),
                    Do("4", at=1.0),
                ),
                faults=(Fault("break", 0.909),),
            ),
        ),
        limits="waiting",
    ),
    "a call failed whose response had ended early, and its handler waited for an answer for ever": Program(
        7,
        "http",
        (
            Client(
                SUMMER,
                (Do("1", script=(Step(seconds=1.0), Step("ask", ask=Ask("2", "sample")))), Do("4", at=1.0)),
                damages=(Damage("half_close", 5, 60),),
            ),
        ),
        limits="waiting",
    ),
    "the answer to a part of a batch that was given up came with the others": Program(
        543,
        "lines",
        (
            Client(
                "2025-03-26",
                (
                    Do(
                        "1",
                        "batch",
                        give_up=GiveUp("deadline", 0.5),
                        parts=(Do("2"), Do("3", script=(Step("shield", 1.0),))),
                    ),
                ),
            ),
        ),
    ),
    "what was lent for an answer was kept for a client that had gone": Program(
        2059,
        "websocket",
        (Client(MODERN, (Do("1", script=(Step("pad", count=20_000),)),), leave_at=0.01),),
    ),
    "a handler that cleaned up after its endpoint had been cancelled failed when it said something": Program(
        602832,
        "http",
        (
            Client(
                MODERN,
                (Do("1", "resource", script=(Step("shield", 0.1, body=(Step("notify", count=2),)),)),),
                faults=(Fault("restart", 0.05),),
            ),
        ),
    ),
    "a client over HTTP was left twice as slowly as it may be": Program(
        25889,
        "no-get",
        (
            Client(
                LEGACY, (), leave="raise", faults=(Fault("stall", 0.31, 20.0, "server"), Fault("stall", 0.0, 1.0))
            ),
        ),
    ),
    "a question that was cancelled before anybody could read it was asked": Program(
        3,
        "json",
        (
            Client(
                LEGACY,
                (
                    Do(
                        "1",
                        at=0.1,
                        script=(Step("ask", ask=Ask("2", "sample", 1.0)),),
                        give_up=GiveUp("cancel", 0.2),
                    ),
                    Do("3", at=3.0),
                ),
                faults=(Fault("break", 0.05),),
            ),
        ),
    ),
    "a call of a session that was lost was cancelled in the next one": Program(
        16584114853,
        "http",
        (
            Client(
                LEGACY,
                (Do("1", script=(Step("log", count=5), Step("sleep", 0.653))),),
                leave_at=1.0,
                faults=(Fault("restart", 0.05),),
            ),
        ),
    ),
    "a call of a session that was lost waited until it was given up": Program(
        854127127783,
        "no-get",
        (
            Client(
                LEGACY,
                (
                    Do("1", at=0.224),
                    Do("2", script=(Step("ask", ask=Ask("3", "elicit", 1.0)),), give_up=GiveUp("cancel", 0.5)),
                ),
                faults=(Fault("restart", 0.05),),
            ),
        ),
    ),
    "a client that was left while it connected again raised a group of one error": Program(
        8300000002480,
        "sse",
        (
            Client(
                BATCHING,
                (Do("1", "notify"), Do("2", at=2.0, give_up=GiveUp("steps", steps=12))),
                middleware=True,
            ),
        ),
        ends_at=1.0,
    ),
    "a client waited for the answer to a handshake that it could not send": Program(
        2319, "websocket", (Client(LEGACY, (Do("1"),)),), ends_at=0.8
    ),
    "a handler that had waited for an answer over the next connection could not begin what outlives it": Program(
        879882180962,
        "tcp",
        (
            Client(
                MODERN,
                (
                    Do(
                        "1",
                        script=(
                            Step("ask", ask=Ask("2", "elicit", 3.0)),
                            Step("background", body=(Step(seconds=1.0),)),
                        ),
                    ),
                ),
                faults=(Fault("cut", 2.5),),
            ),
        ),
    ),
    "behind middleware a subscription was ended by a request that waited for a place and was given up": Program(
        4,
        "memory",
        (
            Client(
                LEGACY,
                (
                    Do("1", "listen", seconds=1.0, what=("x://followed",)),
                    Do("2", at=0.5, script=(Step(seconds=6.0),)),
                ),
            ),
        ),
        limits="waiting",
        changes=(Change(2.0, "x://followed"),),
    ),
    "a call failed whose handler asked more at once than its client serves at once": Program(
        5100000349,
        "json",
        (
            Client(
                MODERN,
                (
                    Do(
                        "12",
                        script=(
                            Step(
                                "together",
                                body=(Step("ask", ask=Ask("13")), Step("ask", ask=Ask("14", "elicit"))),
                            ),
                        ),
                    ),
                ),
            ),
        ),
        limits="waiting",
    ),
    "the part of a batch went on whose cancellation had overtaken it, over HTTP+SSE": Program(
        677374936667,
        "sse",
        (
            Client(
                BATCHING,
                (
                    Do(
                        "1",
                        "batch",
                        0.766,
                        give_up=GiveUp("cancel"),
                        parts=(Do("4", script=(Step("ask", ask=Ask("5", "sample", 1.0)),)),),
                    ),
                    Do("9", "listen", seconds=28.1, what=("x://other",)),
                ),
                faults=(Fault("stall", 0.5, 2.1, "server"),),
            ),
        ),
    ),
    "over HTTP+SSE a call was cancelled whose answer had come before its POST was accepted": Program(
        70144058851,
        "sse",
        (
            Client(
                SUMMER,
                (Do("1", give_up=GiveUp("steps", steps=21)), Do("2"), Do("6", "dependency"), Do("3", at=3.0)),
                damages=(Damage("split", 7, seconds=0.5), Damage("split", 6, seconds=0.5)),
            ),
        ),
    ),
    "a call was run twice whose session gave way while it was answered": Program(
        963863677265,
        "json",
        (Client(BATCHING, ()), Client(SUMMER, (Do("7", script=(Step("pad", count=20_000),)),))),
        limits="kept",
    ),
    "an answer was sent again although its question had been cancelled meanwhile": Program(
        88000515,
        "http",
        (
            Client(
                SUMMER,
                (Do("2", script=(Step("ask", ask=Ask("3", "elicit", 2.0)),)),),
                faults=(Fault("stall", 1.242, 2.54, "server"),),
            ),
        ),
        ends_at=0.437,
        end="drain",
    ),
    "what a part of a batch had reported was sent after it was given up, as its handler was done": Program(
        833984277686,
        "messages",
        (
            Client(
                BATCHING,
                (
                    Do(
                        "1",
                        "batch",
                        give_up=GiveUp("silence", 0.6, at_most=0.4),
                        parts=(Do("2", script=(Step("progress", count=5),)),),
                    ),
                    Do("4", "listen", seconds=1.0, what=("x://followed",)),
                ),
            ),
        ),
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_was_found_does_not_come_back(what: str) -> None:
    for seed in range(FOUND[what].seed, FOUND[what].seed + 8):
        verdict = judge(attrs.evolve(FOUND[what], seed=seed))
        assert not verdict.violations, "\n".join(draw(verdict.events, [verdict.violations[0].i]))


# What the checker has called broken, and was not.

MISJUDGED = {
    "a request asked, and was answered, while reading paused for those behind it, its cancellation among them": Program(
        42,
        "messages",
        (
            Client(
                MODERN,
                (
                    *(Do(str(n), what=()) for n in range(1, 5)),
                    Do(
                        "5",
                        "prompt",
                        script=(Step(seconds=0.783), Step("ask", ask=Ask("6", "sample"))),
                        give_up=GiveUp("cancel"),
                        what=(),
                    ),
                ),
            ),
            Client("2025-03-26", (Do("7", at=2.153, script=(Step(seconds=1.0),), what=()),), opens_at=0.5),
        ),
        limits="waiting",
    ),
    "reading paused while notifications that a client handles slowly weighed as much as one message may": Program(
        506335,
        "messages",
        (
            Client(MODERN, ()),
            Client(
                "2025-03-26",
                (Do("1", script=(Step("log", count=12),)),),
                faults=(Fault("cut", 0.15),),
                slow=True,
            ),
        ),
        limits="messages",
    ),
    "a listener that asks for what the callbacks of its client ask for has left": Program(
        2255,
        "websocket",
        (
            Client(
                MODERN,
                (
                    Do("1", "listen", seconds=1.0, what=("tools", "prompts", "resources")),
                    Do("2", "listen", seconds=26.55, what=("x://followed",)),
                ),
                watches=("tools", "prompts", "resources"),
            ),
        ),
        changes=(Change(1.845),),
    ),
    "a call was begun when the client had connected again, in the moment in which the wire was cut": Program(
        20031,
        "tcp",
        (Client("2025-03-26", (Do("1", script=(Step("sleep", 0.1),)),), faults=(Fault("cut", 0.05),)),),
    ),
    "a call was between its two rounds when the connection was lost": Program(
        854127127369,
        "tcp",
        (
            Client(
                MODERN,
                (
                    Do(
                        "1",
                        script=(
                            Step("ask", ask=Ask("2", "elicit", call=Do("3", script=(Step("sleep", 0.291),)))),
                        ),
                    ),
                ),
                faults=(Fault("cut", 0.05),),
            ),
        ),
    ),
    "what gives up a call over HTTP+SSE is sent after the next call": Program(
        646541765362,
        "sse",
        (
            Client(
                SUMMER,
                (
                    Do("1", "listen", what=("tools",)),
                    Do("2", "listen", give_up=GiveUp("steps", steps=53), seconds=1.0, what=("x://followed",)),
                ),
            ),
        ),
        limits="calls",
    ),
    "a call has the progress token that another one had over the connection before": Program(
        7400000000770,
        "sse",
        (
            Client(
                LEGACY,
                (
                    Do("1", at=1.0, script=(Step("progress", count=5),), progress="fast"),
                    Do("2", script=(Step("progress", count=4),), progress="slow"),
                ),
                faults=(Fault("break", 0.7),),
            ),
        ),
    ),
    "a question was answered while its goodbye lay in a stream that nobody read": Program(
        8400000004939,
        "json",
        (
            Client(
                BATCHING,
                (
                    Do(
                        "1",
                        script=(Step("sleep", 1.0), Step("ask", ask=Ask("2", "sample", 2.0))),
                        give_up=GiveUp("deadline", 2.369),
                    ),
                    Do("3", "listen", seconds=27.261, what=("resources",)),
                ),
                faults=(Fault("stall", 1.409, 3.961),),
            ),
        ),
        changes=(Change(2.2), Change(2.301)),
    ),
    "a handler of a notification was cancelled with its connection, and another one began over the next": Program(
        8500000000795,
        "tcp",
        (
            Client(
                LEGACY,
                (
                    Do("1", at=1.0, script=(Step("notify"),)),
                    Do("2", "listen", at=0.1, seconds=0.6, what=("x://followed",)),
                    Do("3", script=(Step("log", count=5),)),
                ),
                faults=(Fault("stall", 1.0, 2.604), Fault("cut", 0.05)),
                slow=True,
            ),
        ),
        limits="notices",
    ),
    "two sessions have asked the same, as the first event of their second stream": Program(
        8500000003957,
        "http",
        (
            Client(
                LEGACY,
                (
                    Do("1", script=(Step("ask", ask=Ask("2")),)),
                    Do("3", at=3.0, script=(Step("ask", ask=Ask("4")),)),
                ),
                faults=(Fault("restart", 1.0),),
            ),
        ),
    ),
    "a report was kept for a client that was away when it cancelled": Program(
        3,
        "json",
        (
            Client(
                LEGACY,
                (
                    Do(
                        "1",
                        progress="fast",
                        at=0.1,
                        script=(Step("progress", count=2), Step("sleep", 5.0)),
                        give_up=GiveUp("cancel", 0.2),
                    ),
                    Do("3", at=3.0),
                ),
                faults=(Fault("break", 0.05),),
            ),
        ),
    ),
    "a round that was held up brings a later deadline": Program(
        5013,
        "memory",
        (
            Client(
                MODERN,
                (
                    Do(
                        "1",
                        script=(
                            Step("ask", ask=Ask("2", "sample", 1.0)),
                            Step("ask", ask=Ask("3", "elicit", 1.0)),
                        ),
                        give_up=GiveUp("deadline", 1.997),
                    ),
                    Do("4", script=(Step("sleep", 6.0),)),
                ),
                faults=(Fault("stall", 0.512, 1.0, "server"),),
            ),
        ),
    ),
    "what changed before a listener left is told when the stream goes on": Program(
        16584115411,
        "json",
        (
            Client(
                SUMMER,
                (Do("3", "listen", 1.0, seconds=2.1, what=("x://followed",)),),
                faults=(Fault("stall", 2.0, 3.1),),
            ),
        ),
        changes=(Change(2.2, "announce", 10), Change(2.65, "x://followed")),
    ),
    "a session that was begun anew numbers its events as the one before": Program(
        16584114250,
        "http",
        (
            Client("2025-03-26", (Do("13", "listen", seconds=25.1, what=("resources",)),)),
            Client(MODERN, (), faults=(Fault("stall", 0.0, 0.826), Fault("restart", 0.7))),
        ),
        changes=(Change(0.3), Change(2.2)),
    ),
    "a list changes in the moment in which the client says that it is ready": Program(
        854127127388,
        "websocket",
        (
            Client(
                SUMMER,
                (Do("3", what=()), Do("5", "listen", seconds=27.1, what=("x://other",))),
                faults=(Fault("stall", 0.0), Fault("stall", 0.0, 2.1, "server"), Fault("stall", 0.379)),
            ),
        ),
        changes=(Change(3.2),),
    ),
    "something is announced in the moment in which the client says that it is ready": Program(
        646541766771,
        "json",
        (
            Client(MODERN, ()),
            Client(SUMMER, (Do("8", script=(Step(seconds=1.0),)),), 3.0, faults=(Fault("stall", 0.0, 0.2),)),
        ),
        changes=(Change(), Change(3.2, "x://other", 10), Change(3.2, "announce")),
    ),
    "the listen requests of a client that has connected again have the ids of those before": Program(
        882003000629,
        "tcp",
        (
            Client(
                MODERN,
                (
                    Do("2", "listen", seconds=1.0, what=("tools", "x://followed")),
                    Do("4", "listen", seconds=28.1, what=("x://other",)),
                ),
                faults=(Fault("cut", 1.02),),
                watches=("resources",),
            ),
        ),
        changes=(Change(0.533),),
    ),
    "a change comes over a response that is given up in that moment": Program(
        882001000597,
        "http",
        (
            Client(
                MODERN,
                (
                    Do("5", "listen", seconds=27.215, what=("resources",)),
                    Do(
                        "6", "listen", 0.5, give_up=GiveUp("steps", steps=38), seconds=1.0, what=("x://followed",)
                    ),
                ),
                watches=("x://followed",),
            ),
        ),
        changes=(Change(0.613, "x://followed"),),
    ),
    "a subscription ends by its deadline before its server hears that it was given up": Program(
        993000000645,
        "websocket",
        (
            Client(
                MODERN,
                (
                    Do("5", "listen", seconds=1.5, what=("x://other",)),
                    Do("6", "listen", seconds=1.0, what=("resources",)),
                ),
                faults=(Fault("stall", 0.5, 1.0, "server"),),
            ),
        ),
        changes=(Change(1.2, "resources"),),
    ),
    "what has waited to be sent is told after the deadline of a subscription": Program(
        994000001678,
        "memory",
        (
            Client(
                MODERN,
                (Do("1", "listen", seconds=2.0, what=("prompts",)),),
                faults=(Fault("stall", 2.0, 1.0, "server"), Fault("stall", 0.1, 2.1)),
            ),
        ),
        limits="subscriptions",
        changes=(Change(1.0, "prompts"), Change(0.7, "prompts")),
    ),
    "a client says that it is ready to a server that is being ended": Program(
        993000101471,
        "websocket",
        (Client(SUMMER, (Do("3", "listen", seconds=1.0, what=("x://followed",)),)),),
        ends_at=0.993,
        changes=(Change(1.1, "resources"),),
    ),
    "a deadline counts from when a server that had no room has read the request": Program(
        329767709640,
        "websocket",
        (
            Client(
                MODERN,
                (
                    Do("1"),
                    Do("2"),
                    Do("3", script=(Step(seconds=1.0),)),
                    Do("4", "prompt", 0.1, give_up=GiveUp("deadline", 1.0)),
                    Do("5"),
                ),
            ),
        ),
        limits="waiting",
    ),
    "a question was asked in time, and waited for the wire": Program(
        453014580935,
        "messages",
        (
            Client(
                MODERN,
                (
                    Do("9", script=(Step("ask", ask=Ask("10")),), give_up=GiveUp("silence", 1.0, at_most=0.4)),
                    Do("12", "dependency", script=(Step("progress", count=5),), progress="fast"),
                ),
                faults=(Fault("stall", 0.0, 2.588), Fault("stall", 2.928, 0.893, "server")),
            ),
        ),
    ),
    "requests were refused, and what refuses them waited for the wire": Program(
        329767709477,
        "memory",
        (
            Client(
                MODERN,
                (
                    Do("2", script=(Step(seconds=0.662),)),
                    Do("4"),
                    Do("5", at=0.1),
                    Do("6"),
                    Do("9"),
                    Do("10", "notify"),
                    Do("11"),
                    Do("12"),
                    Do("13", give_up=GiveUp("silence", 1.0, at_most=0.4)),
                    Do("14", give_up=GiveUp("deadline", 0.5)),
                    Do("15", "dependency", script=(Step("background"),), progress="slow"),
                ),
            ),
        ),
        limits="waiting",
    ),
    "over HTTP+SSE nothing is sent of a subscription that was given up before it was accepted, and answered": Program(
        963863672248,
        "sse",
        (
            Client(
                BATCHING,
                (Do("4", "listen", give_up=GiveUp("steps", steps=30), seconds=1.0, what=("x://other",)),),
            ),
            Client(BATCHING, ()),
        ),
        limits="calls",
    ),
    "the stream of a session ended early, long after it had begun": Program(
        963863673264,
        "json",
        (
            Client(
                BATCHING,
                (Do("7", "listen", seconds=1.0, what=("x://followed",)),),
                damages=(Damage("half_close", 3, 20), Damage("reorder", seconds=1.5)),
            ),
        ),
        changes=(Change(2.2, "x://followed"),),
    ),
    "a question was damaged, and its handler waited for the answer": Program(
        568617961031,
        "no-get",
        (
            Client(
                LEGACY,
                (Do("8", script=(Step("ask", ask=Ask("9", "elicit")),)), Do("11"), Do("14", "ping")),
                damages=tuple(Damage("corrupt", at, 50) for at in (5, 6, 7)),
            ),
        ),
    ),
    "over HTTP+SSE an answer came to a client that was being left, before the POST of the call was accepted": Program(
        70144058254,
        "sse",
        (
            Client(
                OLDEST,
                (Do("1", script=(Step("notify", count=12),), give_up=GiveUp("steps", steps=53)),),
                damages=(Damage("split", 5, 1, 0.1),),
            ),
        ),
    ),
    "two handlers of questions of one call failed at once": Program(
        322535915932,
        "lines",
        (
            Client(
                MODERN,
                (
                    Do(
                        "1",
                        script=(
                            Step(
                                "together",
                                body=(
                                    Step("ask", ask=Ask("3", "sample", 1.0, "raise", Do("2"))),
                                    Step("ask", ask=Ask("5", "elicit", 1.0, "raise", Do("4"))),
                                ),
                            ),
                        ),
                    ),
                ),
                faults=(Fault("stall", 0.483, 1.0),),
            ),
        ),
    ),
    "a session over a WebSocket made room for a subscription, and something was announced": Program(
        77002746,
        "websocket",
        (
            Client(LEGACY, (Do("2", at=0.5),)),
            Client(MODERN, (Do("11", "listen", seconds=1.0, what=("x://other",)),)),
        ),
        limits="kept",
        changes=(Change(0.2, "announce"),),
    ),
    "a session over a WebSocket made room for a subscription that its client left at once": Program(
        5100012583,
        "websocket",
        (Client(MODERN, (), watches=("prompts",)), Client(SUMMER, (Do("9", at=1.349),))),
        limits="kept",
        changes=(Change(1.098, "announce"),),
    ),
    "a server that was cancelled sent what it had to those who had left meanwhile": Program(
        647559245872,
        "messages",
        (
            Client(
                MODERN,
                (
                    Do("23", "listen", seconds=1.0, what=("x://other",)),
                    Do("24", "listen", seconds=25.803, what=("x://other",)),
                    Do("25", "listen", seconds=2.419, what=("prompts",)),
                ),
                faults=(Fault("stall", 1.0, 2.519, "server"), Fault("stall", 2.0, 1.951)),
                watches=("resources",),
            ),
        ),
        ends_at=3.3,
        changes=(Change(1.0, "prompts"),),
    ),
    "a session over a WebSocket made room for others while it served a call": Program(
        309076670631,
        "websocket",
        (
            Client(MODERN, (Do("4", "listen", at=1.0, what=("x://other",)),)),
            Client(SUMMER, (Do("10", script=(Step("sleep", 1.0),)), Do("11", pad=5000)), watches=("tools",)),
        ),
        limits="kept",
    ),
    "a handler waited for the answer to a question that was lost on its way to a client that left": Program(
        510163508019,
        "http",
        (
            Client(
                MODERN,
                (
                    Do(
                        "1",
                        "dependency",
                        script=(Step("ask", ask=Ask("3", "sample")),),
                        give_up=GiveUp("steps", steps=60),
                    ),
                    Do("4"),
                    Do("5", "level"),
                    Do("6", "ping"),
                    Do("7", give_up=GiveUp("steps", steps=25)),
                ),
                damages=(Damage("half_close", 5),),
            ),
        ),
    ),
    "a handler waited for the answer to a question that came as no JSON to a client that left": Program(
        510163510413,
        "json",
        (
            Client(
                MODERN,
                (
                    Do("1", "prompt", script=(Step("ask", ask=Ask("2", "sample")),)),
                    Do("6"),
                    Do("10"),
                    Do("11", "ping"),
                    Do("12", "prompt", script=(Step("ask", ask=Ask("13", "elicit")),)),
                    Do("15", at=0.362, script=(Step("ask", ask=Ask("16")),), give_up=GiveUp("steps", steps=21)),
                    Do("19", "notify"),
                    Do("21", "listen", seconds=1.0, what=("prompts",)),
                ),
                faults=(Fault("stall", 0.0, 0.1), Fault("break", 0.05)),
                damages=(Damage("split", 7, 100, 0.1), Damage("corrupt", 14)),
            ),
        ),
        changes=(Change(3.2, "announce", count=2),),
    ),
    "what asked to listen came when its member had been restarted twice, and the next had asked already": Program(
        11446579226,
        "tcp",
        (
            Client(
                MODERN,
                (Do("6", at=3.0),),
                watches=("resources",),
                in_group=True,
                restarts=(0.1, 1.0, 1.0),
            ),
        ),
        changes=(Change(2.2, "resources"),),
    ),
    "reading over HTTP paused while what a client handles slowly weighed as much as a message may": Program(
        11446606132,
        "http",
        (
            Client(
                SUMMER,
                (
                    Do("2", script=(Step("log", count=5),)),
                    Do("3", script=(Step("announce", count=2),)),
                    Do("5", "listen", seconds=1.0, what=("x://followed",)),
                ),
                slow=True,
                watches=("resources",),
            ),
        ),
        limits="messages",
        changes=(
            Change(0.2, "x://followed"),
            Change(0.3),
            Change(0.367, "x://followed"),
            Change(0.2, "announce", 2),
        ),
    ),
    "reading over HTTP with JSON alone paused for the same reason": Program(
        11446589502,
        "json",
        (
            Client(
                BATCHING,
                (
                    Do("1", "resource", script=(Step("ask", ask=Ask("2")),)),
                    Do("3", script=(Step("progress", count=12), Step("log", count=12))),
                ),
                slow=True,
            ),
        ),
        limits="messages",
        changes=(Change(0.2, "prompts"),),
    ),
    "over HTTP+SSE what listens was given up by request_timeout, before it was accepted": Program(
        11446582271,
        "sse",
        (
            Client(LEGACY, ()),
            Client(
                LEGACY,
                (Do("10", "listen", 0.5, seconds=25.6, what=("x://other",)),),
                request_timeout=1.0,
                faults=(Fault("stall", 0.1, 2.325),),
            ),
        ),
        limits="calls",
    ),
    "over HTTP+SSE what listens was given up so, and its server was cancelled": Program(
        11446582271,
        "sse",
        (
            Client(LEGACY, ()),
            Client(
                LEGACY,
                (Do("10", "listen", 0.5, seconds=25.6, what=("x://other",)),),
                request_timeout=1.6,
                faults=(Fault("stall", 2.0, 1.0, "server"), Fault("stall", 0.1, 2.325)),
            ),
        ),
        limits="calls",
        ends_at=1.0,
        changes=(Change(0.2),),
    ),
    "a client was left when a part of a batch had failed, and another part waited still": Program(
        288157822204,
        "json",
        (
            Client(
                BATCHING,
                (
                    Do(
                        "2",
                        "batch",
                        parts=(Do("4"), Do("5", script=(Step("ask", ask=Ask("6", "sample", 1.0)),))),
                    ),
                    Do("8", "notify"),
                ),
                leave_at=0.107,
                outside=True,
                middleware=True,
                damages=(Damage("corrupt", 6),),
            ),
        ),
    ),
    "a POST came behind the next one, in the very moment in which the server was gone": Program(
        249306687676,
        "sse",
        (
            Client(
                "2025-06-18",
                (
                    Do("1", "listen", at=1.0, seconds=1.0, what=("x://followed",)),
                    Do("2", script=(Step(seconds=3.0),)),
                    Do("3", give_up=GiveUp("deadline")),
                    Do("4", give_up=GiveUp("silence", seconds=0.2, at_most=1.0)),
                    Do("5", "listen", at=0.5, seconds=25.354, what=("x://followed",)),
                ),
                watches=("resources",),
                damages=(Damage("reorder", 8, seconds=1.0),),
            ),
        ),
        limits="waiting",
        ends_at=0.8,
        end="drain",
    ),
    "a response ended within its answer, and its server was gone when that was to be fetched": Program(
        249306741225,
        "no-get",
        (
            Client(
                "2025-06-18",
                (Do("1", script=(Step("ask", ask=Ask("2")),)),),
                damages=(Damage("half_close", 4, size=100),),
            ),
        ),
        ends_at=0.694,
        end="drain",
    ),
    "a call failed while its answer lay behind more log messages than a slow client handles in three seconds": Program(
        249306753000,
        "http",
        (
            Client(
                "2025-11-25",
                (
                    Do(
                        "1",
                        "prompt",
                        script=(*[Step("log", count=12)] * 3, Step("progress", count=5)),
                        progress="raise",
                    ),
                ),
                slow=True,
            ),
        ),
        limits="notices",
    ),
    "a call was given up while its answer lay behind log messages that filled a small line": Program(
        309076671649,
        "lines",
        (Client(MODERN, (Do("2", script=(Step("log", count=12),), give_up=GiveUp("cancel", 1.0)),), slow=True),),
        limits="messages",
    ),
}


@pytest.mark.parametrize("what", MISJUDGED)
def test_what_was_right_is_called_right(what: str) -> None:
    for seed in range(MISJUDGED[what].seed, MISJUDGED[what].seed + 8):
        verdict = judge(attrs.evolve(MISJUDGED[what], seed=seed))
        assert not verdict.violations, "\n".join(draw(verdict.events, [verdict.violations[0].i]))


# The tools.


def work_for_ever(_program: Program) -> list[dict[str, Any]]:
    while True:
        pass


def wait_for_ever(_program: Program) -> list[dict[str, Any]]:
    threading.Event().wait()
    return []


@pytest.mark.nightly  # it measures what the process takes, with all that else runs in it
@pytest.mark.parametrize(("never_ends", "words"), [(work_for_ever, "processor time"), (wait_for_ever, "nothing")])
def test_a_program_that_does_not_end_breaks_a_promise(
    never_ends: Callable[[Program], list[dict[str, Any]]], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it works all the time or waits; and the next one has all of its time again."""
    monkeypatch.setattr(judging, "PATIENCE", 0.3)
    monkeypatch.setattr(judging, "TICK", 0.02)
    program = Program(1, "memory", ())
    with monkeypatch.context() as patched:
        patched.setattr(judging, "play", never_ends)
        (violation,) = judge(program).violations
    assert violation.rule == "it-ends"
    assert words in violation.text
    assert not judge(program).violations


def test_a_program_is_made_as_short_as_it_can_be() -> None:
    """Without the one thing that matters it would not fail any more; everything else is gone."""

    def fails(program: Program) -> bool:
        return "kind='shield'" in repr(program) and "kind='cut'" in repr(program)

    seed = next(seed for seed in range(10_000) if fails(make_program(seed)))
    program = make_program(seed)
    small = shrink(program, fails)
    assert fails(small)
    assert size_of(small) < size_of(program)
    assert size_of(small) <= 6, shown(small)  # the program, a client, a call, a step, a fault


def test_what_is_shown_is_python_that_makes_it() -> None:
    names = {each.__name__: each for each in (Program, Client, Do, Step, Fault, Damage, GiveUp, Ask, Change)}

    for seed in range(50):
        program = make_program(seed)
        assert eval(shown(program), names) == program


def test_a_wire_is_drawn() -> None:
    events = play(Program(1, "memory", (Client(OLDEST, (Do("1.1"),)),)))
    drawn = "\n".join(draw(events, [3]))
    assert "initialize 1" in drawn
    assert "tools/call 3 (1.1)" in drawn  # after the level of the log
    assert "> " in drawn
