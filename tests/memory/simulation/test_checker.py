"""The checker: that it shares nothing with what it judges, and that each of its rules can be broken.

A log of a real program, in which nothing is wrong, is forged so that one promise is broken in it.
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.simulation import changes, checker, judged, reading
from tests.simulation.checker import Checker, check, growing, grows
from tests.simulation.play import play
from tests.simulation.program import (
    LEGACY,
    MODERN,
    OLDEST,
    SUMMER,
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
)
from tests.simulation.serving import be_quiet

Log = list[dict[str, Any]]


def imports_of(path: Path) -> set[str]:
    """Return the modules that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("module", [checker, changes, judged, reading])
def test_the_checker_shares_no_code_with_what_it_judges(module: Any) -> None:
    """Only Python's own modules, attrs, and its own modules: nothing of the package, nor of what plays."""
    its_own = {"attrs", ".changes", ".judged", ".reading"}
    assert imports_of(Path(module.__file__)) - set(sys.stdlib_module_names) <= its_own


# Logs in which nothing is wrong.


@functools.cache
def honest(revision: str, wire: Wire) -> str:
    """Return the log of a program that has everything the forgeries need, as JSON."""
    be_quiet()
    asking = Step("ask", ask=Ask("7", "sample", 0.5))
    program = Program(
        3,
        wire,
        (
            Client(
                revision,
                (
                    Do("1", script=(Step("progress", count=3), Step("log", count=3)), progress="slow"),
                    Do("2", script=(Step("sleep", 5.0),), give_up=GiveUp("deadline", 2.0)),
                    Do("3", script=(asking,)),
                    Do("4", "notify"),
                    Do("5", "dependency", at=1.0),
                    Do("6", script=(Step("ask", ask=Ask("8", "sample", 3.0)),), give_up=GiveUp("cancel", 1.0)),
                    Do("9", "level"),
                    Do("11", script=(Step("sleep", 8.0),)),
                    Do("10", at=0.5, script=(Step("background", body=(Step("sleep", 0.5),)), Step("sleep", 1.0))),
                    Do("12", "listen", seconds=3.0, what=("tools", "x://followed")),
                ),
                watches=("tools", "x://followed"),
            ),
        ),
        changes=(
            Change(1.0, "x://followed", 2),
            Change(1.5),
            Change(1.5, "announce", 2),
            Change(4.0, "x://followed"),
        ),
    )
    events = play(program)
    assert not check(events)
    return json.dumps(events)


def forged(revision: str = LEGACY, wire: Wire = "memory") -> Log:
    log: Log = json.loads(honest(revision, wire))
    return log


def find(log: Log, ev: str, **about: Any) -> dict[str, Any]:
    """Return the first event of a kind."""
    return next(e for e in log if e["ev"] == ev and all(e.get(name) == value for name, value in about.items()))


def frame(log: Log, way: str, end: str, *words: str) -> dict[str, Any]:
    """Return the first message at an end in which some words are."""
    return next(e for e in log if e["ev"] == way and e["end"] == end and all(word in e["raw"] for word in words))


def again(log: Log, event: dict[str, Any], *, after: dict[str, Any] | None = None, **other: Any) -> None:
    """Let an event happen once more."""
    copied = {**copy.deepcopy(event), **other}
    log.insert(log.index(event if after is None else after) + 1, copied)


def renumber(log: Log) -> Log:
    for i, event in enumerate(log):
        event["i"] = i
    return log


# Forgeries, by the rule that catches them.


def torn(log: Log) -> None:
    event = frame(log, "out", "client", '"1"')
    event["raw"] = event["raw"][:-4]


def id_twice(log: Log) -> None:
    again(log, frame(log, "out", "client", "tools/call", '"1"'))


def answered_twice(log: Log) -> None:
    again(log, frame(log, "out", "server", '"1|'))


def cancelled_twice(log: Log) -> None:
    again(log, frame(log, "out", "client", "notifications/cancelled"))


def cancelled_and_never_asked(log: Log) -> None:
    event = frame(log, "out", "client", "notifications/cancelled")
    again(log, event, raw=json.dumps({"method": "notifications/cancelled", "params": {"requestId": 999}}))


def cancelled_after_its_answer(log: Log) -> None:
    asked = json.loads(frame(log, "out", "client", '"1"')["raw"])["id"]
    goodbye = json.dumps({"method": "notifications/cancelled", "params": {"requestId": asked}})
    last = find(log, "call-ended", token="1")
    again(log, last, ev="out", conn=0, end="client", raw=goodbye)


def cancelled_for_nothing(log: Log) -> None:
    find(log, "call-ended", token="2").update(how="RequestError", text="")


def not_cancelled(log: Log) -> None:
    asked = json.loads(frame(log, "out", "client", '"2"')["raw"])["id"]
    for event in [e for e in log if e["ev"] in {"out", "in"} and f'"requestId":{asked}' in e["raw"]]:
        log.remove(event)


def late(log: Log) -> None:
    find(log, "call-ended", token="2")["t"] += 0.5


def too_early(log: Log) -> None:
    find(log, "call-began", token="2")["left"] = 100.0


def never_ended(log: Log) -> None:
    log.remove(find(log, "call-ended", token="1"))


def left_slowly(log: Log) -> None:
    find(log, "left")["t"] += 5


def server_slow(log: Log) -> None:
    find(log, "server-ended")["t"] += 50


def survived_its_connection(log: Log) -> None:
    began = find(log, "call-began", token="3")
    again(log, began, ev="cut", conn=0)


def handler_survived(log: Log) -> None:
    for ev in ("handler-cancelled", "handler-ended"):
        find(log, ev, token="6")["t"] += 1


def handler_cancelled(log: Log) -> None:
    again(log, find(log, "handler-began", token="10"), ev="handler-cancelled")


def said_after_its_cancellation(log: Log) -> None:
    asked = json.loads(frame(log, "out", "client", '"2"')["raw"])["id"]
    heard = frame(log, "in", "server", "notifications/cancelled", str(asked))
    again(log, heard, ev="out", end="server", raw=json.dumps({"id": asked, "result": {}}))


def told_too_much_time(log: Log) -> None:
    event = frame(log, "out", "client", '"2"')
    event["raw"] = event["raw"].replace('"trio-mcp/timeoutMs":2000', '"trio-mcp/timeoutMs":9000')


def wrong_deadline(log: Log) -> None:
    find(log, "handler-began", token="2")["left"] = 1.0


def question_kept(log: Log) -> None:
    asked = json.loads(frame(log, "out", "server", '"8"')["raw"])["id"]
    goodbyes = [e for e in log if e["ev"] in {"out", "in"} and "cancelled" in e["raw"]]
    for event in [e for e in goodbyes if (e["end"] == "server") is (e["ev"] == "out")]:
        if json.loads(event["raw"])["params"]["requestId"] == asked:
            log.remove(event)


def wrong_answer_to_a_question(log: Log) -> None:
    find(log, "answered", token="3")["answer"] = "answer of 8"


def progress_out_of_order(log: Log) -> None:
    first, second = [e for e in log if e["ev"] == "progress" and e["token"] == "1"][:2]
    first["n"], second["n"] = second["n"], first["n"]


def progress_lost(log: Log) -> None:
    log.remove([e for e in log if e["ev"] == "progress" and e["token"] == "1"][-1])


def told_out_of_order(log: Log) -> None:
    first, second = [e for e in log if e["ev"] == "told"][:2]
    first["n"], second["n"] = second["n"], first["n"]


def noted_out_of_order(log: Log) -> None:
    first, second = [e for e in log if e["ev"] == "noted"][:2]
    first["n"], second["n"] = second["n"], first["n"]


def too_many_places(log: Log) -> None:
    log[0]["limits"]["max_inbound_requests"] = 1


def too_much_waits(log: Log) -> None:
    log[0]["small"] = ["max_waiting_bytes"]
    log[0]["limits"]["max_waiting_bytes"] = 10
    asked = frame(log, "in", "server", '"10"')
    for n in range(5):
        raw = json.dumps({"id": 500 + n, "method": "tools/call", "params": {"arguments": {"token": f"x{n}"}}})
        again(log, asked, raw=raw)
        again(log, asked, ev="out", end="client", raw=raw)


def too_many_calls(log: Log) -> None:
    log[0]["limits"]["max_outbound_requests"] = 1


def too_much_in_the_outbox(log: Log) -> None:
    forged_gauge: dict[str, Any] = {"client 0": [0, 0, 0, 1 << 22]}
    again(log, find(log, "opened"), ev="gauges", **forged_gauge)


def too_much_is_kept(log: Log) -> None:
    again(log, find(log, "opened"), ev="gauges", kept={"bytes": [11, 10]})


def too_many_reports_wait(log: Log) -> None:
    log[0]["small"] = ["max_notifications"]
    log[0]["limits"]["max_notifications"] = 0
    event = frame(log, "in", "client", "notifications/progress")
    for n in (1.25, 1.5, 1.75):
        raw = json.loads(event["raw"])
        raw["params"]["progress"] = n
        again(log, event, raw=json.dumps(raw))


def a_task_is_left(log: Log) -> None:
    find(log, "over")["tasks"] = ["forgotten"]


def a_call_is_left(log: Log) -> None:
    find(log, "statistics")["left"]["calls"] = 1


def bytes_are_left(log: Log) -> None:
    find(log, "kept")["left"] = {"bytes": [5, 1]}


def wrapped(log: Log) -> None:
    find(log, "left")["how"] = "ExceptionGroup: oh"


def leaked_variable(log: Log) -> None:
    find(log, "handler-began", token="10")["whose"] = "1"


def run_twice(log: Log) -> None:
    again(log, find(log, "handler-began", token="1"))


def answers_crossed(log: Log) -> None:
    first, second = find(log, "call-ended", token="1"), find(log, "call-ended", token="10")
    first["text"], second["text"] = second["text"], first["text"]


def lost_without_a_reason(log: Log) -> None:
    find(log, "call-ended", token="10").update(how="ConnectionLost", text="gone")


def closed_without_a_reason(log: Log) -> None:
    find(log, "call-ended", token="10").update(how="ClosedResourceError", text="closed")


def of_change(log: Log, ev: str, end: str, word: str = "resources/updated") -> dict[str, Any]:
    """Return the first message at an end that tells of a change."""
    return next(
        e for e in log if e["ev"] == ev and e.get("end", end) == end and f"notifications/{word}" in e["raw"]
    )


def change_not_told(log: Log) -> None:
    for event in [e for e in log if e["ev"] == "out" and "resources/updated" in e["raw"]]:
        log.remove(event)


def list_change_not_told(log: Log) -> None:
    log.remove(of_change(log, "out", "server", "tools/list_changed"))


def told_of_what_nobody_follows(log: Log) -> None:
    event = of_change(log, "out", "server")
    event["raw"] = event["raw"].replace("x://followed", "x://other")


def told_without_a_change(log: Log) -> None:
    for _ in range(3):
        again(log, of_change(log, "out", "server"))


def told_again_later(log: Log) -> None:
    """Of two changes that were told as one."""
    again(log, of_change(log, "out", "server"), after=find(log, "call-ended", token="10"), t=1.5)


def told_before_it_subscribed(log: Log) -> None:
    event = of_change(log, "out", "server")
    log.remove(event)
    log.insert(log.index(find(log, "opened")) + 1, event)


def told_after_it_left(log: Log) -> None:
    unsubscribed = json.loads(frame(log, "out", "client", "resources/unsubscribe", "followed")["raw"])["id"]
    answer = frame(log, "out", "server", f'"id":{unsubscribed},')
    again(log, of_change(log, "out", "server"), after=answer, t=answer["t"] + 1)


def change_not_heard(log: Log) -> None:
    for event in [e for e in log if e["ev"] == "change" and e["what"] == "x://followed"]:
        log.remove(event)


def heard_of_nothing(log: Log) -> None:
    again(log, find(log, "change", what="tools"))


def heard_of_what_it_does_not_follow(log: Log) -> None:
    again(log, find(log, "change", what="tools"), what="x://other")


def interrupted_for_no_reason(log: Log) -> None:
    again(log, find(log, "change", what="tools"), what="anything")


def callback_not_called(log: Log) -> None:
    log.remove(find(log, "callback", what="tools"))


def callback_called_twice(log: Log) -> None:
    again(log, find(log, "callback", what="tools"))


def announcement_not_told(log: Log) -> None:
    log.remove(announcement(log, "out"))


def announced_twice(log: Log) -> None:
    again(log, announcement(log, "out"))


def announced_to_nobody(log: Log) -> None:
    event = announcement(log, "out")
    log.remove(event)
    log.insert(1, {**event, "t": 0.0})


def announcement(log: Log, ev: str) -> dict[str, Any]:
    """Return how the first announcement passed an end."""
    return next(e for e in log if e["ev"] == ev and "simulation/announced" in e["raw"])


def announcements_out_of_order(log: Log) -> None:
    first, second = [e for e in log if e["ev"] == "announced"]
    first["n"], second["n"] = second["n"], first["n"]


def shown_otherwise(log: Log) -> None:
    event = find(log, "shown", way="in")
    event["raw"] = event["raw"].replace("{", "{ ", 1)


def sent_and_not_shown(log: Log) -> None:
    log.remove([e for e in log if e["ev"] == "shown" and e["way"] == "out"][-1])


def answered_at_its_deadline(log: Log) -> None:
    """Without the cancellation that has come in, the answer would have to wait for one."""
    asked = json.loads(frame(log, "out", "client", '"2"')["raw"])["id"]
    ended = find(log, "handler-ended", token="2")
    again(log, ended, ev="out", conn=0, end="server", raw=json.dumps({"id": asked, "result": {}}))


def could_not_ask(log: Log) -> None:
    find(log, "handler-ended", token="6")["how"] = "LocalProtocolError"


def a_file_is_left(log: Log) -> None:
    again(log, find(log, "over"), ev="process", descriptors=["7 pipe"], children=[])


def a_process_is_left(log: Log) -> None:
    again(log, find(log, "over"), ev="process", descriptors=[], children=["4711"])


FORGERIES: Final[list[tuple[str, Callable[[Log], None]]]] = [
    ("frames-are-whole", torn),
    ("ids-are-used-once", id_twice),
    ("answers-are-founded", answered_twice),
    ("goodbyes-are-founded", cancelled_twice),
    ("goodbyes-are-founded", cancelled_and_never_asked),
    ("goodbyes-are-founded", cancelled_after_its_answer),
    ("goodbyes-are-wanted", cancelled_for_nothing),
    ("goodbyes-are-said", not_cancelled),
    ("control-comes-back", late),
    ("control-comes-back", too_early),
    ("everything-ends", never_ended),
    ("leaving-is-bounded", left_slowly),
    ("the-server-ends", server_slow),
    ("a-lost-connection-ends-calls", survived_its_connection),
    ("handlers-die", handler_survived),
    ("handlers-die-for-a-reason", handler_cancelled),
    ("nothing-is-said-after-a-goodbye", said_after_its_cancellation),
    ("deadlines-shrink", told_too_much_time),
    ("handlers-have-the-deadline", wrong_deadline),
    ("questions-are-cancelled", question_kept),
    ("questions-get-their-answers", wrong_answer_to_a_question),
    ("progress-is-in-order", progress_out_of_order),
    ("progress-is-in-order", progress_lost),
    ("notifications-are-in-order", told_out_of_order),
    ("notes-are-in-order", noted_out_of_order),
    ("places-are-bounded", too_many_places),
    ("waiting-requests-are-bounded", too_much_waits),
    ("calls-are-bounded", too_many_calls),
    ("gauges-keep-their-limits", too_much_in_the_outbox),
    ("gauges-keep-their-limits", too_much_is_kept),
    ("notifications-are-bounded", too_many_reports_wait),
    ("nothing-is-left", a_task_is_left),
    ("nothing-is-left", a_call_is_left),
    ("nothing-is-left", bytes_are_left),
    ("exceptions-come-out-as-themselves", wrapped),
    ("handlers-are-alone", leaked_variable),
    ("handlers-are-alone", run_twice),
    ("answers-are-right", answers_crossed),
    ("errors-have-a-reason", lost_without_a_reason),
    ("errors-have-a-reason", closed_without_a_reason),
    ("nothing-is-left", a_file_is_left),
    ("nothing-is-left", a_process_is_left),
    ("frames-are-shown-as-they-are", shown_otherwise),
    ("frames-are-shown-as-they-are", sent_and_not_shown),
    ("late-answers-wait", answered_at_its_deadline),
    ("asking-ends-as-anything-else", could_not_ask),
    ("changes-are-sent", change_not_told),
    ("changes-are-sent", list_change_not_told),
    ("changes-are-founded", told_of_what_nobody_follows),
    ("changes-are-founded", told_without_a_change),
    ("changes-are-founded", told_again_later),
    ("changes-are-founded", told_before_it_subscribed),
    ("changes-are-founded", told_after_it_left),
    ("changes-are-heard", change_not_heard),
    ("changes-are-heard", heard_of_nothing),
    ("changes-are-heard", heard_of_what_it_does_not_follow),
    ("changes-are-heard", interrupted_for_no_reason),
    ("callbacks-are-called", callback_not_called),
    ("callbacks-are-called", callback_called_twice),
    ("announcements-are-sent", announcement_not_told),
    ("announcements-are-sent", announced_twice),
    ("announcements-are-sent", announced_to_nobody),
    ("announcements-are-heard", announcements_out_of_order),
]


def told_another_request(log: Log) -> None:
    event = of_change(log, "out", "server")
    event["raw"] = event["raw"].replace('subscriptionId":', 'subscriptionId":9')


def told_after_its_end(log: Log) -> None:
    asked = json.loads(frame(log, "out", "client", "subscriptions/listen", "followed")["raw"])["id"]
    heard = frame(log, "in", "server", "notifications/cancelled", str(asked))
    again(log, of_change(log, "out", "server"), after=heard, t=heard["t"] + 1)


def told_after_its_deadline(log: Log) -> None:
    """Of what has changed after it; nobody has given it up."""
    asked = json.loads(frame(log, "out", "client", "subscriptions/listen", "followed")["raw"])["id"]
    log.remove(frame(log, "in", "server", "notifications/cancelled", str(asked)))
    later = [e for e in log if e["ev"] == "changing"][-1]
    again(log, of_change(log, "out", "server"), after=later, t=later["t"])


def announced_to_a_modern_client(log: Log) -> None:
    event = of_change(log, "out", "server")
    again(log, event, raw=json.dumps({"method": "simulation/announced", "params": {"n": 1}}))


OF_THE_MODERN_ERA: Final[list[tuple[str, Callable[[Log], None]]]] = [
    ("changes-are-sent", change_not_told),
    ("changes-are-sent", list_change_not_told),
    ("changes-are-founded", told_of_what_nobody_follows),
    ("changes-are-founded", told_without_a_change),
    ("changes-are-founded", told_another_request),
    ("changes-are-founded", told_after_its_end),
    ("changes-are-founded", told_after_its_deadline),
    ("changes-are-heard", change_not_heard),
    ("changes-are-heard", heard_of_nothing),
    ("callbacks-are-called", callback_not_called),
    ("announcements-are-sent", announced_to_a_modern_client),
]


def test_a_forgery_is_caught(subtests: pytest.Subtests) -> None:
    for rule, forge in FORGERIES:
        with subtests.test(rule=rule, forgery=forge.__name__):
            log = forged()
            forge(log)
            assert rule in {violation.rule for violation in check(renumber(log))}


def test_a_forgery_of_the_modern_era_is_caught(subtests: pytest.Subtests) -> None:
    for rule, forge in OF_THE_MODERN_ERA:
        with subtests.test(rule=rule, forgery=forge.__name__):
            log = forged(MODERN)
            forge(log)
            assert rule in {violation.rule for violation in check(renumber(log))}


def test_a_response_that_stays_open_over_modern_http_is_caught() -> None:
    log = forged(MODERN, "http")
    asked = next(e for e in log if e["ev"] == "http-sent" and '"token":"2"' in e["raw"])
    log.remove(find(log, "http-end", stream=asked["stream"]))
    assert "goodbyes-are-hang-ups" in {violation.rule for violation in check(renumber(log))}


def posted(log: Log, *words: str) -> dict[str, Any]:
    """Return how the first message with some words was sent over HTTP."""
    return next(e for e in log if e["ev"] == "http-sent" and all(word in e["raw"] for word in words))


@pytest.mark.parametrize("words", [("notifications/cancelled",), ("answer of 7",)], ids=["cancelled", "answered"])
def test_what_is_said_in_another_session_is_caught(words: tuple[str, ...]) -> None:
    log = forged(LEGACY, "http")
    posted(log, *words)["headers"]["mcp-session-id"] = "another"
    assert [violation.rule for violation in check(renumber(log))] == ["sessions-are-kept-apart"]


def test_a_goodbye_of_nothing_is_caught_over_http() -> None:
    log = forged(LEGACY, "http")
    posted(log, "notifications/cancelled")["raw"] = json.dumps(
        {"method": "notifications/cancelled", "params": {"requestId": 999}}
    )
    assert "sessions-are-kept-apart" in {violation.rule for violation in check(renumber(log))}


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_call_that_outlives_its_session_is_caught(seconds: float) -> None:
    """Its response broke, and its client has begun another session: then it is over."""
    does = (Do("1", script=(Step("log"), Step("sleep", 9.0))), Do("2", at=0.5))
    client = Client(LEGACY, does, faults=(Fault("restart", 0.05),))
    log = play(Program(5, "http", (client,)))
    assert not check(log)
    ended = find(log, "call-ended", token="1")
    assert ended["how"] == "ConnectionLost"
    log.remove(ended)
    later = next(n for n, event in enumerate(log) if event["t"] > ended["t"])
    log.insert(later, {**ended, "t": ended["t"] + seconds})
    caught = {violation.rule for violation in check(renumber(log))}
    assert ("a-lost-session-ends-calls" in caught) is (seconds > 0)


def test_a_report_of_a_cancelled_call_is_caught_if_it_was_not_kept() -> None:
    """The stream of a session keeps what was reported before, for a client that was away; and nothing else."""
    reports = (Step("progress", count=2), Step("sleep", 5.0))
    does = (Do("1", progress="fast", at=0.1, script=reports, give_up=GiveUp("cancel", 0.2)), Do("2", at=3.0))
    log = play(Program(3, "json", (Client(LEGACY, does, faults=(Fault("break", 0.05),)),)))
    assert not check(log)
    late = [e for e in log if e["ev"] == "http-said" and "notifications/progress" in e["raw"]]
    assert late[0]["t"] > find(log, "call-ended", token="1")["t"]
    there = copy.deepcopy(log)
    there.append(there.pop(there.index(find(there, "http-end", how="broken"))))  # it was not away
    log.remove(find(log, "reporting", token="1"))  # it was not reported before
    for forged_log in (log, there):
        assert "nothing-is-said-after-a-goodbye" in {violation.rule for violation in check(renumber(forged_log))}


def test_an_answer_that_is_sent_again_after_a_cancellation_is_caught() -> None:
    """Also if its POST broke before: a client looks whether it is still wanted."""
    ask = Step("ask", ask=Ask("2"))
    does = (Do("1", script=(Step("shield", 0.154), ask), give_up=GiveUp("silence", 1.0, at_most=0.2)),)
    faults = (Fault("stall", 0.1, 1.0, end="server"), Fault("break", 0.55))
    log = play(Program(5, "sse", (Client("2024-11-05", does, faults=faults),)))
    assert not check(log)
    (answer,) = (e for e in log if e["ev"] == "http-sent" and '"result"' in e["raw"])
    ended = find(log, "call-ended", token="1")
    assert answer["t"] < ended["t"]
    assert find(log, "http-end", stream=answer["stream"])["how"] == "broken"
    later = next(e for e in log if e["t"] > ended["t"] + 0.1)
    again(log, answer, after=later, t=later["t"])
    assert "nothing-is-said-after-a-goodbye" in {violation.rule for violation in check(renumber(log))}


def test_a_handler_that_dies_with_a_session_is_caught_if_that_did_not_have_to_give_way() -> None:
    """A stream that nobody reads, and that keeps too much, is the end of its session over HTTP+SSE."""
    large = (Step("shield", 0.435), Step("log", count=1), Step("pad", count=20_000))
    does = (Do("2", script=large), Do("3", script=(Step("sleep", 1.0),)))
    client = Client("2025-03-26", does, faults=(Fault("stall", 0.1, 1.0),))
    log = play(Program(717943277579, "sse", (client,), limits="kept"))
    assert not check(log)
    assert find(log, "handler-ended", token="3")["how"] == "Cancelled"
    log[0]["small"] = {}
    assert "handlers-die-for-a-reason" in {violation.rule for violation in check(renumber(log))}


def test_a_group_of_errors_is_caught_if_no_two_handlers_have_failed() -> None:
    """Of a call's questions, in the moment in which it ends; one error comes out as itself."""
    asks = (
        Step("ask", ask=Ask("2", "sample", 1.0, "raise", Do("4"))),
        Step("ask", ask=Ask("3", "elicit", 1.0, "raise", Do("5"))),
    )
    does = (Do("1", script=(Step("together", body=asks),)),)
    program = Program(1, "lines", (Client(MODERN, does, faults=(Fault("stall", 0.483, 1.0),)),))
    log = next(log for seed in range(50) if has_group(log := play(attrs.evolve(program, seed=seed))))
    assert not check(log)
    earlier = copy.deepcopy(log)
    find(earlier, "question-ended", token="2")["t"] -= 0.5
    find(log, "question-ended", token="2")["how"] = "answer"
    for forged_log in (log, earlier):
        assert "errors-have-a-reason" in {violation.rule for violation in check(renumber(forged_log))}


def restarted_log() -> Log:
    """Return the log of a client that its group restarts while it calls something, and that calls again."""
    does = (
        Do("1", script=(Step("sleep", 5.0),)),
        Do("2", at=2.0),
        Do("3", "listen", seconds=25.0),
        Do("4", at=9.0),
    )
    log = play(Program(7, "tcp", (Client(LEGACY, does, in_group=True, restarts=(1.0,)),)))
    assert not check(log)
    ends = [find(log, "call-ended", token=token)["how"] for token in ("1", "2", "3")]
    assert ends == ["ClosedResourceError", "result", "ClosedResourceError"]
    assert find(log, "member-restart")["t"] == find(log, "call-ended", token="1")["t"]
    return log


def test_a_call_that_outlives_the_restart_of_its_member_is_caught() -> None:
    """`ClientGroup.restart`: what is under way at the server ends."""
    log = restarted_log()
    ended = find(log, "call-ended", token="1")
    log.remove(ended)
    later = next(n for n, event in enumerate(log) if event["t"] > ended["t"] + 0.5)
    log.insert(later, {**ended, "t": ended["t"] + 0.5})
    assert "a-restarted-member-ends-its-calls" in {violation.rule for violation in check(renumber(log))}


def test_a_restarted_member_that_does_not_come_back_is_caught() -> None:
    """It is opened again as soon as the last client has said goodbye."""
    log = restarted_log()
    log.remove(find(log, "member-ready"))
    assert "a-restarted-member-comes-back" in {violation.rule for violation in check(renumber(log))}


@pytest.mark.parametrize("how", ["ClosedResourceError", "ConnectionLost"])
def test_an_error_without_a_reason_is_caught_behind_a_restart(how: str) -> None:
    """A call of the new client has nothing to do with the old one."""
    log = restarted_log()
    find(log, "call-ended", token="2")["how"] = how
    assert "errors-have-a-reason" in {violation.rule for violation in check(renumber(log))}


def test_a_call_of_a_restarted_member_that_is_not_cancelled_is_caught() -> None:
    """The server would go on with it."""
    log = restarted_log()
    for event in [event for event in log if "notifications/cancelled" in event.get("raw", "")]:
        log.remove(event)
    assert "goodbyes-are-said" in {violation.rule for violation in check(renumber(log))}


def has_group(log: Log) -> bool:
    """Whether a call has ended with several errors."""
    return any(event["ev"] == "call-ended" and event["how"] == "ExceptionGroup" for event in log)


def test_a_question_that_was_cut_off_is_lost_if_it_was_the_first_of_its_stream() -> None:
    """Otherwise its stream is taken up again, and a call that waits for it for ever is caught."""
    does = (Do("3", "prompt", script=(Step("ask", ask=Ask("4", "sample")),)),)
    client = Client("2025-06-18", does, damages=(Damage("half_close", 3, 50),))
    log = play(Program(57829129112, "json", (Client(MODERN, ()), client)))
    assert find(log, "stuck")
    assert not check(log)
    cut = find(log, "damage")["stream"]
    first = next(event for event in log if event["ev"] == "http-heard" and event["stream"] == cut)
    first["raw"] = "id: 0-0\ndata:\n\n"
    assert "everything-ends" in {violation.rule for violation in check(renumber(log))}


def test_a_call_that_never_ends_is_caught_if_nothing_for_it_was_damaged() -> None:
    """A question that nobody could read is answered by nobody."""
    calls = (Do("8", script=(Step("ask", ask=Ask("9", "elicit")),)),)
    damages = (Damage("corrupt", 4, 50),)
    log = play(Program(1, "no-get", (Client(LEGACY, calls, damages=damages),)))
    assert find(log, "stuck")
    assert not check(log)
    for event in [event for event in log if event["ev"] == "http-heard" and "\\x" in event["raw"]]:
        event["raw"] = event["raw"].replace("\\x", "")
    assert "everything-ends" in {violation.rule for violation in check(renumber(log))}


def test_what_cancels_an_answered_call_is_caught_unless_its_client_reads_no_more() -> None:
    """Over HTTP+SSE that may wait, and a client that is being left does not see the answer that comes meanwhile."""
    calls = (Do("1", script=(Step("notify", count=12),), give_up=GiveUp("steps", steps=53)),)
    log = play(Program(70144058254, "sse", (Client(OLDEST, calls, damages=(Damage("split", 5, 1, 0.1),)),)))
    assert not check(log)
    assert any(e["ev"] == "http-sent" and "notifications/cancelled" in e["raw"] for e in log)
    leaving = find(log, "leaving")
    log.remove(leaving)
    log.insert(next(n for n, e in enumerate(log) if e["t"] > leaving["t"]), leaving)
    assert "goodbyes-are-founded" in {violation.rule for violation in check(renumber(log))}


@pytest.mark.parametrize(
    ("kind", "rule"), [("corrupt", "frames-are-whole"), ("half_close", "errors-have-a-reason")]
)
def test_what_is_damaged_is_caught_if_the_wire_has_not_done_it(kind: Any, rule: str) -> None:
    """In this response, and as often."""
    call = Do("1", script=(Step("log", count=2), Step("sleep", 1.0)))
    log = play(Program(1, "http", (Client(MODERN, (call,), damages=(Damage(kind, 2, 30),)),)))
    assert not check(log)
    assert find(log, "call-ended", token="1")["how"] == ("result" if kind == "corrupt" else "RemoteProtocolError")
    none = copy.deepcopy(log)
    none.remove(find(none, "damage"))
    elsewhere = copy.deepcopy(log)
    find(elsewhere, "damage")["stream"] += 1
    assert rule in {violation.rule for violation in check(renumber(none))}
    if kind == "corrupt":
        assert rule in {violation.rule for violation in check(renumber(elsewhere))}
        again(log, next(e for e in log if e["ev"] == "http-heard" and "\\x" in e["raw"]))
        assert rule in {violation.rule for violation in check(renumber(log))}


MADE_ROOM: Final = {"end": "server", "code": 1013}
"""How a server closes a WebSocket to make room for others: RFC 6455, 7.4, and the registry of its codes."""


@pytest.mark.parametrize(
    ("t", "closed", "small", "is_caught"),
    [
        (1.0, MADE_ROOM, ["max_kept_bytes"], False),
        (2.0, MADE_ROOM, ["max_kept_bytes"], True),
        (1.0, MADE_ROOM, [], True),
        (1.0, {"end": "server", "code": 1000}, ["max_kept_bytes"], True),
        (1.0, {"end": "client", "code": 1013}, ["max_kept_bytes"], True),
        (1.0, {**MADE_ROOM, "conn": 1}, ["max_kept_bytes"], True),
    ],
)
def test_what_is_not_told_is_caught_if_its_connection_did_not_have_to_give_way(
    t: float, closed: dict[str, Any], small: list[str], is_caught: bool
) -> None:
    """Over a WebSocket that its server has closed to make room nothing is told any more; before, everything."""
    log = forged(LEGACY, "websocket")
    log[0]["small"] = small
    announcing = find(log, "announcing", n=2)
    assert announcing["t"] == 1.5
    log.remove([e for e in log if e["ev"] == "out" and "simulation/announced" in e["raw"]][-1])
    before = [e for e in log if e["t"] <= t][-1]
    hanging_up: dict[str, Any] = {"ev": "hanging-up", "t": t, "conn": 0, **closed}
    again(log, before, **hanging_up)
    caught = [v for v in check(renumber(log)) if v.rule == "announcements-are-sent"]
    assert bool(caught) is is_caught


def test_a_question_that_is_not_cancelled_is_caught_if_the_wire_was_free() -> None:
    """What is sent over a slow wire that is full waits for what was sent before."""
    ask = Step("ask", ask=Ask("2", "sample", 2.725))
    does = (
        Do("1", script=(ask,), give_up=GiveUp("deadline", 1.446)),
        Do("3", "listen", seconds=27.1, what=("x://other",)),
    )
    changes = (Change(0.754, "announce", 10), Change(0.695), Change(0.2, "announce", 2), Change(0.631))
    client = Client("2025-03-26", does, leave_at=2.01)
    log = play(Program(421834279525, "messages", (client,), changes=changes, limits="calls"))
    assert not check(log)
    assert frame(log, "out", "client", "notifications/cancelled")
    read = {e["raw"] for e in log if e["ev"] == "in" and e["end"] == "client"}
    unread = [e for e in log if e["ev"] == "out" and e["end"] == "server" and e["raw"] not in read]
    assert unread
    for each in unread:  # how many it has not read is up to the wire
        assert not check(log)
        log.remove(each)
        renumber(log)
    assert "questions-are-cancelled" in {violation.rule for violation in check(renumber(log))}


def test_a_goodbye_that_lay_in_no_stream_is_caught() -> None:
    """A question that was answered is not cancelled afterwards, unless it was given up before."""
    ask = Step("ask", ask=Ask("2", "sample", 2.0))
    does = (
        Do("1", script=(Step("sleep", 1.0), ask), give_up=GiveUp("deadline", 2.369)),
        Do("3", "listen", seconds=27.261, what=("resources",)),
    )
    client = Client("2025-03-26", does, faults=(Fault("stall", 1.409, 3.961),))
    log = play(Program(8400000004939, "json", (client,), changes=(Change(2.2), Change(2.301))))
    assert not check(log)
    log.remove(find(log, "asking-cancelled", ask="2"))
    assert [violation.rule for violation in check(renumber(log))] == ["goodbyes-are-founded"]


def test_a_goodbye_to_a_question_about_roots_may_lie_in_a_stream() -> None:
    """Such a question has no name on the wire: it is one of those that were given up, if any was."""
    does = (
        Do("1", "resource", script=(Step("shield", 0.75),)),
        Do("2", "prompt", script=(Step("ask", ask=Ask("3")),), give_up=GiveUp("steps", steps=10)),
    )
    client = Client("2025-03-26", does, damages=(Damage("split", 3, seconds=0.5),))
    log = play(Program(57829044788, "http", (client,)))
    assert not check(log)
    log.remove(find(log, "asking-cancelled", ask="3"))
    assert [violation.rule for violation in check(renumber(log))] == ["goodbyes-are-founded"]


def test_a_handler_may_wait_for_answers_to_what_the_wire_has_lost() -> None:
    """It has ended its request, so its client can give up no more than that."""
    does = (Do("2", "dependency", at=1.0, script=(Step("ask", ask=Ask("4", "sample")),)),)
    faults = (Fault("stall", 0.5, 3.829), Fault("restart", 0.05))
    damages = (Damage("half_close", 4),)
    client = Client(MODERN, does, leave_at=2.519, faults=faults, watches=("prompts",), damages=damages)
    log = play(Program(57829070680, "no-get", (client,)))
    assert not check(log)
    log.remove(find(log, "damage"))
    assert "handlers-die" in {violation.rule for violation in check(renumber(log))}


def test_a_subscription_may_be_given_up_in_silence_before_the_server_has_accepted_it() -> None:
    """Its answer has come meanwhile; so it counts among the calls only as long as somebody waited for it."""
    does = (Do("5", "listen", at=2.141, seconds=0.1, what=("x://other",)),)
    client = Client("2025-11-25", does, faults=(Fault("stall", 1.425, 1.0),))
    log = play(Program(57829091346, "sse", (client,), limits="calls"))
    assert not check(log)
    for event in log:  # somebody waits for longer
        if "resources/subscribe" in event.get("raw", ""):
            event["raw"] = event["raw"].replace('"trio-mcp/timeoutMs":101', '"trio-mcp/timeoutMs":9000')
    assert "calls-are-bounded" in {violation.rule for violation in check(renumber(log))}


def test_a_part_of_a_batch_may_be_given_up_only_by_leaving_when_another_has_failed() -> None:
    """The batch ends with what that has failed with."""
    parts = (Do("4"), Do("5", script=(Step("ask", ask=Ask("6", "sample", 1.0)),)))
    does = (Do("2", "batch", parts=parts), Do("8", "notify"))
    damages = (Damage("corrupt", 6),)
    client = Client("2025-03-26", does, leave_at=0.107, outside=True, middleware=True, damages=damages)
    log = play(Program(288157822204, "json", (client,)))
    assert not check(log)
    assert find(log, "call-ended", token="2")["how"] == "RemoteProtocolError"
    earlier = copy.deepcopy(log)
    (goodbye,) = (e for e in earlier if e["ev"] == "http-sent" and "notifications/cancelled" in e["raw"])
    earlier.remove(goodbye)
    earlier.insert(earlier.index(find(earlier, "leaving")), goodbye)
    assert "goodbyes-are-wanted" in {violation.rule for violation in check(renumber(earlier))}
    failed = find(log, "http-end", stream=find(log, "damage")["stream"])
    log.remove(failed)  # it had not failed before
    log.insert(log.index(find(log, "leaving")) + 1, failed)
    assert "goodbyes-are-wanted" in {violation.rule for violation in check(renumber(log))}


@pytest.mark.parametrize("ends_at", [0.0, 1.0])
def test_what_listens_may_be_given_up_in_silence_by_its_timeout_alone(ends_at: float) -> None:
    """Also if its server is ended before it has accepted that."""
    does = (Do("10", "listen", 0.5, seconds=25.6, what=("x://other",)),)
    stalls = (Fault("stall", 0.1, 2.325), Fault("stall", 2.0, 1.0, "server"))
    client = Client(LEGACY, does, request_timeout=1.6, faults=stalls)
    log = play(Program(11446582271, "sse", (Client(LEGACY, ()), client), limits="calls", ends_at=ends_at))
    assert not check(log)
    find(log, "call-began", token="10")["timeout"] = None
    assert "calls-are-bounded" in {violation.rule for violation in check(renumber(log))}


def test_two_notifications_at_once_are_caught_over_each_connection() -> None:
    """Handlers of a connection that has ended are over; those of one that follows are called one at a time again."""
    logs = (Step("log", count=2),)
    does = (Do("1", script=logs), Do("2", at=2.0, script=logs), Do("3", at=2.0, script=(Step("sleep", 9.0),)))
    log = play(Program(1, "tcp", (Client(LEGACY, does, faults=(Fault("cut", 1.0),), slow=True),)))
    assert not check(log)
    assert len([e for e in log if e["ev"] == "connected"]) == 2
    log.remove(find(log, "told-ended", token="2"))
    assert [violation.rule for violation in check(renumber(log))] == ["notifications-are-in-order"]


def of_two_connections() -> Log:
    """Return the log of a server that is still about the requests of a connection that was cut, when another serves."""
    does = (Do("6", script=(Step("sleep", 0.734),)), Do("10", pad=5_000), Do("14", at=0.429))
    client = Client(LEGACY, does, faults=(Fault("cut", 0.15),))
    log = play(Program(382789389489, "tcp", (client,), limits="waiting"))
    began, again_began = find(log, "handler-began", token="6"), find(log, "handler-began", token="14")
    assert began["id"] == again_began["id"] == 3
    assert again_began["t"] < find(log, "handler-ended", token="6")["t"]
    return log


def test_what_is_asked_over_two_connections_is_not_taken_together() -> None:
    """Each has places of its own, and ids: one of them serves two requests in turn meanwhile."""
    assert not check(of_two_connections())


def served_at_once(log: Log) -> None:
    began = find(log, "handler-began", token="10")
    log.remove(began)
    log.insert(log.index(find(log, "handler-began", token="6")) + 1, {**began, "t": 0.0})


def served_over_the_other(log: Log) -> None:
    (came,) = (e for e in log if e["ev"] == "in" and e["end"] == "server" and '"10"' in e["raw"])
    asked = frame(log, "out", "client", '"10"')
    began = find(log, "handler-began", token="14")
    for event in (asked, came, find(log, "handler-began", token="10")):
        log.remove(event)
        log.insert(log.index(began), {**event, "t": began["t"], "link": 1})


def answered_twice_over_the_first(log: Log) -> None:
    again(log, [e for e in log if e["ev"] == "out" and e["end"] == "server" and '"6|' in e["raw"]][-1])


def answered_twice_over_the_second(log: Log) -> None:
    again(log, frame(log, "out", "server", '"14|'))


@pytest.mark.parametrize(
    ("rule", "forge"),
    [
        ("places-are-bounded", served_at_once),
        ("places-are-bounded", served_over_the_other),
        ("answers-are-founded", answered_twice_over_the_first),
        ("answers-are-founded", answered_twice_over_the_second),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_is_wrong_over_one_of_two_connections_is_caught(rule: str, forge: Callable[[Log], None]) -> None:
    log = of_two_connections()
    forge(log)
    assert rule in {violation.rule for violation in check(renumber(log))}


def of_a_restarted_listener() -> Log:
    """Return the log of a member whose first request to listen comes when that of the next connection has."""
    client = Client(MODERN, (Do("1", at=0.527),), watches=("resources",), in_group=True, restarts=(0.0,))
    log = play(Program(11446608045, "tcp", (client,), changes=(Change(0.3, "resources"),)))
    came = [e for e in log if e["ev"] == "in" and e["end"] == "server" and "subscriptions/listen" in e["raw"]]
    assert [event.get("link", 0) for event in came] == [1, 0]
    return log


def test_a_request_to_listen_over_the_connection_before_may_come_later() -> None:
    assert not check(of_a_restarted_listener())


def told_twice(log: Log) -> None:
    again(log, frame(log, "out", "server", "resources/list_changed"))


def told_over_the_connection_before(log: Log) -> None:
    frame(log, "out", "server", "resources/list_changed").pop("link")


@pytest.mark.parametrize("forge", [told_twice, told_over_the_connection_before])
def test_what_a_restarted_listener_is_told_is_still_judged(forge: Callable[[Log], None]) -> None:
    log = of_a_restarted_listener()
    forge(log)
    assert "changes-are-founded" in {violation.rule for violation in check(renumber(log))}


def of_two_sessions() -> Log:
    """Return the log of a server that is about a request of a session that has ended, and one of the next session."""
    does = (Do("7", script=(Step("shield", 0.322), Step("shield", 1.0))), Do("10", kind="prompt", at=1.0))
    client = Client("2024-11-05", does, faults=(Fault("break", 0.55),))
    log = play(Program(257473990439, "sse", (client,), limits="waiting"))
    began = find(log, "handler-began", token="10")
    assert began["t"] < find(log, "handler-ended", token="7")["t"]
    return log


def test_what_is_asked_in_two_sessions_is_not_taken_together() -> None:
    assert not check(of_two_sessions())


def test_too_many_handlers_in_one_of_two_sessions_are_caught() -> None:
    log = of_two_sessions()
    began = find(log, "handler-began", token="10")
    again(log, began, token="another")
    for event in [e for e in log if e["ev"] in {"http-sent", "http-request"} and '"10"' in e["raw"]]:
        raw = event["raw"].replace('"10"', '"another"').replace('"id":3', '"id":4')
        number = event["stream"] + 100
        log.insert(log.index(began), {**event, "stream": number, "raw": raw})
    assert "places-are-bounded" in {violation.rule for violation in check(renumber(log))}


def of_a_broken_stream() -> Log:
    """Return the log of a client that subscribes while the stream of its session is broken, and leaves before it is back."""
    does = (Do("1", "listen", at=0.1, seconds=1.0, what=("x://other",)),)
    client = Client(SUMMER, does, leave_at=0.51, faults=(Fault("break", 0.05),))
    return play(Program(257473994798, "http", (client,), changes=(Change(0.2, "x://other"),)))


def test_without_a_stream_nothing_can_be_told() -> None:
    assert not check(of_a_broken_stream())


def test_what_is_not_told_once_there_is_a_stream_again_is_caught() -> None:
    log = of_a_broken_stream()
    (began,) = (e for e in log if e["ev"] == "http-sent" and e["method"] == "GET")
    (head,) = (e for e in log if e["ev"] == "http-head" and e["stream"] == began["stream"])
    asked = next(e for e in log if e["ev"] == "http-sent" and "resources/subscribe" in e["raw"])
    for event in (began, head):
        log.insert(log.index(asked), {**event, "stream": began["stream"] + 100, "t": asked["t"]})
    assert "changes-are-sent" in {violation.rule for violation in check(renumber(log))}


def test_a_call_between_two_rounds_may_outlive_its_connection() -> None:
    """If its client connects again. Its server waits for its answers then; one that it serves is over."""
    log = forged(MODERN, "tcp")
    again(log, find(log, "question-began", token="7"), ev="cut", conn=0)
    late = [v.text.split()[0] for v in check(renumber(log)) if v.rule == "a-lost-connection-ends-calls"]
    assert "3" not in late
    assert "11" in late


@pytest.mark.parametrize("wire", ["http", "sse"])
def test_too_many_calls_over_http_are_caught(wire: Wire) -> None:
    """Although what gives up one of them may come later than it was given up."""
    log = forged(SUMMER, wire)
    too_many_calls(log)
    assert "calls-are-bounded" in {violation.rule for violation in check(renumber(log))}


def test_a_thread_that_asks_when_its_connection_is_closed_is_no_violation() -> None:
    log = forged()
    could_not_ask(log)
    find(log, "call-began", token="6")["kind"] = "plain"
    assert "asking-ends-as-anything-else" not in {violation.rule for violation in check(renumber(log))}


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("wire", ["memory", "lines", "tcp", "websocket"])
def test_what_is_not_told_although_the_wire_is_free_is_caught(wire: Wire, revision: str) -> None:
    """Also if the one who listens leaves two seconds later."""
    log = forged(revision, wire)
    for event in [e for e in log if e["ev"] in {"out", "in"} and "resources/updated" in e["raw"]]:
        log.remove(event)
    assert "changes-are-sent" in {violation.rule for violation in check(renumber(log))}


def test_what_is_not_told_because_the_wire_is_not_free_is_no_violation() -> None:
    log = forged(wire="lines")
    told = [e for e in log if e["ev"] in {"out", "in"} and "resources/updated" in e["raw"]]
    large = json.dumps({"method": "notifications/message", "params": {}})
    again(log, find(log, "call-ended", token="1"), ev="out", conn=0, end="server", raw=large)  # it never comes
    for event in told:
        log.remove(event)
    assert "changes-are-sent" not in {violation.rule for violation in check(renumber(log))}


def over_a_stream_that_stalls(log: Log) -> dict[str, Any]:
    """Let a session over HTTP be told once of two changes, of the second one late; return how it is told of that."""
    log.insert(1, {"ev": "stall", "t": 0.0, "conn": 0, "end": "client", "seconds": 20.0})
    told = next(e for e in log if e["ev"] == "http-said" and "resources/updated" in e["raw"])
    late = {**told, "t": 7.0, "raw": told["raw"].replace("id: ", "id: 9")}
    log.insert(log.index(find(log, "call-ended", token="11")), late)
    return late


def test_what_changed_before_an_unsubscription_may_be_told_when_a_stream_goes_on() -> None:
    log = forged(wire="json")
    over_a_stream_that_stalls(log)
    assert not check(renumber(log))


def later(log: Log, late: dict[str, Any]) -> None:
    late["t"] = 30.0


def changed_once(log: Log, late: dict[str, Any]) -> None:
    """So the second time it is told of what changed when nobody was subscribed any more."""
    log.remove(find(log, "changing", what="x://followed"))


@pytest.mark.parametrize("forge", [later, changed_once])
def test_what_is_told_behind_a_stalled_stream_is_still_judged(
    forge: Callable[[Log, dict[str, Any]], None],
) -> None:
    log = forged(wire="json")
    forge(log, over_a_stream_that_stalls(log))
    assert {violation.rule for violation in check(renumber(log))} == {"changes-are-founded"}


@pytest.mark.parametrize("seconds", [2.0, 5.0])
def test_what_is_told_over_http_waits_only_as_long_as_reading_may_pause(seconds: float) -> None:
    log = forged(wire="http")
    told = next(e for e in log if e["ev"] == "http-said" and "resources/updated" in e["raw"])
    log.remove(told)
    late = told["t"] + seconds
    told["t"] = late
    log.insert(next(n for n, event in enumerate(log) if event["t"] >= late), told)
    find(log, "begin")["small"] = ["max_message_bytes"]
    caught = {violation.rule for violation in check(renumber(log))}
    assert ("changes-are-founded" in caught) is (seconds > 3.0)


def test_what_a_new_session_is_told_is_not_taken_for_a_repetition() -> None:
    """Its events have the numbers of those of the session before; what is repeated within one is left out."""
    log = forged(wire="http")
    told = next(e for e in log if e["ev"] == "http-said" and "resources/updated" in e["raw"])
    begun = next(e for e in log if e["ev"] == "http-sent" and '"initialize"' in e["raw"])

    def count() -> int:
        return len([m for m in reading.Wire(log).messages if m.end == "server" and m.method.endswith("/updated")])

    again(log, told, stream=told["stream"])
    once = count()
    again(log, begun, after=told)
    assert count() == once + 1


def test_every_rule_has_a_forgery() -> None:
    rules = set(Checker(forged()).rules())
    assert rules == {rule for rule, _ in FORGERIES} | {
        "goodbyes-are-hang-ups",
        "sessions-are-kept-apart",
        "a-lost-session-ends-calls",
        "a-restarted-member-ends-its-calls",
        "a-restarted-member-comes-back",
    }


@pytest.mark.parametrize(
    ("wire", "revision"),
    [
        *itertools.product(["memory", "lines", "tcp", "websocket", "http"], [LEGACY, MODERN]),
        ("sse", OLDEST),
        ("http", SUMMER),
    ],
)
def test_an_honest_log_has_nothing_wrong(wire: Wire, revision: str) -> None:
    assert not check(forged(revision, wire))


def test_memory_that_grows_is_told_from_memory_that_does_not() -> None:
    flat = [(n * 500, 50_000_000 + (n % 3) * 1_000_000) for n in range(20)]
    assert not grows(flat, per_thousand=200_000)
    assert grows([(at, size + at * 2_000) for at, size in flat], per_thousand=200_000)
    assert not grows(flat[:3], per_thousand=200_000)


def test_objects_that_become_more_are_told_from_those_that_do_not() -> None:
    flat = [{"Peer": 3 + n % 2, "Answer": 400} for n in range(10)]
    assert not growing(flat, most=25)
    assert growing([{**each, "Peer": 5 * n} for n, each in enumerate(flat)], most=25) == {"Peer": 35}
    warm = [{**each, "Answer": 500, "Late": 20} if n > 2 else each for n, each in enumerate(flat)]
    assert growing([{"Answer": 0}, *warm], most=25) == {"Answer": 100}
    assert not growing(flat[:2], most=25)
