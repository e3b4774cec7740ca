"""An honest client is served beside one that means harm; all attacks, and for longer, are played by `make siege`.

What is judged is whether everybody was answered or refused in good order, what the server took, and whether everything
is as before. How long calls take meanwhile is not: that is the business of the proxy in front (docs/non-goals.md).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from attacker import ATTACKS
from besiege import PAGE, fill, filled, merged
from besieging import Siege
from judging import HEAD, KINDS, MIB, Call, Calls, Row, Standing, flat, table
from plans import PLANS, Host, Plan

on_linux: Final = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, and comes from 127.0.0.2")

SECONDS: Final = 1.5
"""How long an attack lasts here."""

AFTERWARDS: Final = 60.0
"""Seconds in which everything is as before: those of the siege, as is promised. It takes no longer than it takes."""

ON: Final[dict[Host, tuple[str, ...]]] = {
    "hypercorn": (
        "host-of-dots",
        "schema-errors",
        "schema-unique",
        "sessions",
        "great-parked-handlers",
        "heavy-requests",
        "unread-answers",
    ),
    "lean": (
        "great-handshakes",
        "unfinished-bodies",
        "great-subscriptions",
        "unread-session-answers",
        "useless-messages",
        "colliding-numbers",
        "slow-numbers",
        "threads",
        "unread-answers, a token",
    ),
    "websocket": ("endless-messages", "great-messages", "unread-messages, two addresses"),
    "tcp": ("half-messages", "heavy-messages", "given-up-messages"),
    "unix": ("unread-empty-messages",),
}
"""What is played here, so that each kind of thing that is kept, and each host, has its turn."""

PLAYED: Final = [
    pytest.param(host, plan, id=f"{host}-{plan.title.replace(', ', '-')}")
    for host, titles in ON.items()
    for plan in PLANS
    if plan.title in titles and host in plan.hosts
]


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Generator[Callable[[Host, Plan], Siege]]:
    """Give a server with an honest client, the same for as many attacks as want the same."""
    sieges: dict[str, Siege] = {}

    def besiege(host: Host, plan: Plan) -> Siege:
        key = json.dumps(plan.setup(host))
        if key in sieges and sieges[key].fortress.has_ended:
            sieges.pop(key).__exit__()
        if key not in sieges:
            while sieges:
                sieges.popitem()[1].__exit__()
            sieges[key] = Siege(plan.setup(host), tmp_path_factory.mktemp("siege"))
        return sieges[key]

    yield besiege
    while sieges:
        sieges.popitem()[1].__exit__()


@on_linux
@pytest.mark.parametrize(("host", "plan"), PLAYED)
def test_an_honest_client_is_served_beside(
    host: Host, plan: Plan, besieged: Callable[[Host, Plan], Siege]
) -> None:
    """Promise 10: what is kept for each client is bounded, and an honest neighbour keeps working."""
    row = besieged(host, plan).storm(plan, SECONDS, AFTERWARDS)
    assert row.faults() == [], table([row])[-1]


# What measures and judges.


def test_every_attack_is_played() -> None:
    """One that nobody plays finds nothing."""
    assert {plan.attack for plan in PLANS} == set(ATTACKS)
    rows = [(plan.title, host) for plan in PLANS for host in plan.hosts]
    assert len(set(rows)) == len(rows)
    assert {(title, host) for host, titles in ON.items() for title in titles} <= set(rows)


def calls(seconds: float, outcome: str = "ok") -> Calls:
    return Calls([Call(kind, float(n), seconds, outcome) for kind in KINDS for n in range(20)])


def row_of(**changes: Any) -> Row:
    plan = Plan("host-of-dots")
    good: dict[str, Any] = {
        "plan": plan,
        "host": "lean",
        "during": calls(0.02),
        "after": calls(0.01),
        "peak": 80 * MIB,
        "back": 1.0,
        "left": [],
        "lines": 3,
        "done": {"connections": 7},
    }
    return Row(**{**good, **changes})


def test_what_is_good_is_called_good() -> None:
    """And refusals with the time to come back are."""
    assert row_of().faults() == []
    assert row_of(during=calls(0.01, "refused")).faults() == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"during": calls(0.01, "refused without Retry-After")}, "without Retry-After"),
        ({"during": calls(10.0, "failed: no answer")}, "no answer"),
        ({"after": calls(0.01, "refused")}, "refused afterwards"),
        ({"after": calls(0.01, "failed: gone")}, "gone afterwards"),
        ({"peak": 513 * MIB}, "513 MiB"),
        ({"left": ["tasks 3 → 9000"]}, "9000"),
        ({"lines": 20_000}, "20000 lines"),
        ({"done": {}}, "did nothing"),
        ({"died": "the server has ended: -9"}, "-9"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(changes: dict[str, Any], word: str) -> None:
    """A siege that calls everything good would prove nothing."""
    (complaint, *_) = row_of(**changes).faults()
    assert word in complaint
    assert word in table([row_of(**changes)])[-1]


def test_what_is_left_is_seen() -> None:
    """Whatever the server counts, and what the system does."""
    before = Standing(80 * MIB, 20, 30, flat({"sessions": 1, "bytes": {"lent": 100, "refused": 1}, "dropped": 0}))
    same = Standing(100 * MIB, 22, 32, flat({"sessions": 2, "bytes": {"lent": 200, "refused": 9}, "dropped": 9}))
    more = Standing(180 * MIB, 90, 99, flat({"sessions": 99, "bytes": {"lent": 9 * MIB}, "dropped": 0}))
    assert same.more_than(before) == []
    assert len(more.more_than(before)) == 5
    assert [left.split()[0] for left in more.more_than(before, leaves_sessions=True)] == ["files"]


def test_the_table_is_written_between_its_marks(tmp_path: Path) -> None:
    """The page has them, and nothing else of it is touched."""
    page = tmp_path / "page.md"
    begin, end = "<!-- siege -->", "<!-- /siege -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    lines = table([row_of()])
    fill(page, lines, "siege")
    assert page.read_text(encoding="utf-8") == "\n".join(["before", begin, *lines, end, "after", ""])
    assert filled(page, "siege") == lines
    assert {line.count("|") for line in lines} == {len(HEAD) + 1}
    text = PAGE.read_text(encoding="utf-8")
    assert begin in text
    assert end in text


def test_rows_of_what_was_not_played_stay() -> None:
    """In the order of the plans; those that were played are new, and what is not played any more goes."""
    hosts: tuple[Host, ...] = ("lean", "hypercorn")
    old = [attrs.evolve(row_of(), host=host) for host in hosts]
    gone = attrs.evolve(row_of(), plan=Plan("an-attack-of-yesterday"))
    new = attrs.evolve(row_of(), died="the server has ended: -9")
    (head, line, lean, hypercorn) = table([*old])[0], *table([new])[1:], table([old[1]])[2]
    assert merged(table([*old, gone]), table([new])) == [head, line, hypercorn, lean]


def test_the_page_has_a_row_for_each_attack() -> None:
    """At least over one host, and no row of what is not played any more."""
    found = {tuple(cell.strip() for cell in line.split("|")[1:3]) for line in filled(PAGE, "siege")[2:]}
    assert found <= {(plan.title, host) for plan in PLANS for host in plan.hosts}
    assert {title for title, _ in found} == {plan.title for plan in PLANS}
