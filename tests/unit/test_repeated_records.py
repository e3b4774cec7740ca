"""`_logs.Repetitions`: what somebody repeats costs the log a few lines, and how often it happened is said."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from inside_base import FIRST, MAX_KINDS, PERIOD, Log, Repetitions

from trio_mcp import Outgoing, Server, memory_channel_pair


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_first_are_written_and_the_rest_summed_up() -> None:
    """After the 20th the log is told at the 40th, the 80th and so on, with what was left out in between."""
    repetitions = Repetitions(Clock())
    told = {number: left_out for number in range(1, 1_001) if (left_out := repetitions.count("a")) is not None}
    assert [number for number in told if number <= FIRST] == list(range(1, FIRST + 1))
    assert {number: n for number, n in told.items() if number > FIRST} == {
        40: 19, 80: 39, 160: 79, 320: 159, 640: 319,
    }  # fmt: skip


def test_after_a_while_they_are_written_again() -> None:
    """Who looks at the log today must see what goes on today, and what was left out before."""
    clock = Clock()
    repetitions = Repetitions(clock)
    for _ in range(FIRST + 5):
        repetitions.count("a")
    clock.now += PERIOD - 0.1
    assert repetitions.count("a") is None
    clock.now += 0.1
    assert [repetitions.count("a") for _ in range(FIRST)] == [6] + [0] * (FIRST - 1)
    assert repetitions.count("a") is None


def test_kinds_do_not_hide_each_other() -> None:
    """A flood of one thing must not be what keeps another from being seen."""
    repetitions = Repetitions(Clock())
    for _ in range(1_000):
        repetitions.count("a")
    assert repetitions.count("b") == 0


def test_counting_takes_bounded_memory() -> None:
    """Kinds are places in the code; if there are more all the same, the oldest is forgotten."""
    repetitions = Repetitions(Clock())
    for number in range(MAX_KINDS * 3):
        repetitions.count(number)
    assert len(repetitions._counts) == MAX_KINDS
    assert MAX_KINDS * 3 - 1 in repetitions._counts


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 2 * PERIOD)), max_size=300))
def test_nothing_is_lost_from_the_count(events: list[tuple[int, float]]) -> None:
    """What was left out is said with the next that is written, whenever that is."""
    clock = Clock()
    repetitions = Repetitions(clock)
    for kind, pause in events:
        clock.now += pause
        repetitions.count(kind)
    for kind in {kind for kind, _ in events}:
        happened = sum(one == kind for one, _ in events)
        clock.now += PERIOD
        left_out = repetitions.count(kind)
        assert left_out is not None
        assert left_out < max(1, happened)


def fail_here() -> None:
    raise ValueError("here")


def fail_there() -> None:
    raise ValueError("there")


def test_different_failures_are_different_kinds(caplog: pytest.LogCaptureFixture) -> None:
    """One log line reports what any handler raises: a broken one must not hide that another breaks, too."""
    log = Log("trio_mcp.server")
    with caplog.at_level(logging.INFO, "trio_mcp"):
        for fail in [*([fail_here] * 100), fail_there]:
            try:
                fail()
            except ValueError:
                log.exception("a tool failed")
    assert len(caplog.records) < 40
    assert "there" in str(caplog.records[-1].exc_text)


def test_at_level_debug_everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Debugging needs each record; a logger at level DEBUG leaves nothing out."""
    log = Log("trio_mcp.server")
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        for _ in range(100):
            log.warning("again")
    assert len(caplog.records) == 100


def useless(number: int) -> bytes:
    return b"{not JSON %d" % number


def wrong(number: int) -> bytes:
    return b'{"jsonrpc": "1.0", "id": %d}' % number


def stray(number: int) -> bytes:
    return b'{"jsonrpc": "2.0", "id": null, "error": {"code": %d, "message": "?"}}' % number


@pytest.mark.parametrize("make", [useless, wrong, stray])
async def test_thousands_of_useless_messages_are_a_few_warnings(
    make: Callable[[int], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Each was a warning: who sends nonsense filled the disk, at a few bytes a line."""
    count = 5_000
    client, served = memory_channel_pair()
    with caplog.at_level(logging.WARNING, "trio_mcp"), trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            server: Server[Any] = Server("patient")
            await nursery.start(server.serve_channel, served)

            async def read() -> None:
                while True:
                    await client.receive()

            nursery.start_soon(read)
            for start in range(0, count, 100):
                await client.send([Outgoing(make(number)) for number in range(start, start + 100)])
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    records = [record.getMessage() for record in caplog.records]
    assert FIRST < len(records) < 2 * FIRST
    left_out = sum(int(found[1]) for one in records if (found := re.search(r"\((\d+) more like this", one)))
    assert count / 2 <= len(records) + left_out <= count
