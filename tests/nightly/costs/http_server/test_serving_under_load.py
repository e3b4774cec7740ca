"""A server process under load from many connections; how much longer it goes well is seen by hand.

``python tests/nightly/support/http_load.py`` does the same for minutes, with figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import pytest
import trio
from http_load import CONNECTIONS, Load, running_server

ANSWERS: Final = 400
"""In one round."""

ROUNDS: Final = 3

HOSTS: Final = pytest.mark.parametrize("http", ["hypercorn", "lean"])


@HOSTS
async def test_every_answer_is_right_and_memory_does_not_grow(http: str) -> None:
    """Calls, streams, whole sessions and calls that are left, in both eras. The first two rounds fill what is kept."""
    with trio.fail_after(200):
        async with running_server(http) as server:
            load = Load(server.port)

            def until(answers: int) -> Callable[[], bool]:
                return lambda: load.answers < answers

            await load.run(until(2 * ANSWERS))
            if sys.platform == "linux":
                before = server.weight()
            for number in range(ROUNDS):
                await load.run(until((3 + number) * ANSWERS))
            if sys.platform == "linux":
                assert server.weight() < 1.15 * before
            assert load.given_up
            server.process.terminate()
            assert await server.process.wait() == 0
    assert server.said == b"left\n"  # and nothing went wrong


@HOSTS
async def test_sigterm_answers_what_is_in_flight(http: str) -> None:
    """A call on each of many connections, and the process ends well within its bounds."""
    with trio.fail_after(100):
        async with running_server(http) as server:
            load = Load(server.port)
            answers: list[str] = []

            async def nap() -> None:
                answers.append(await load.nap(2.0))

            async with trio.open_nursery() as nursery:
                for _ in range(CONNECTIONS):
                    nursery.start_soon(nap)
                await load.wait_napping(CONNECTIONS)
                server.process.terminate()
                assert await server.process.wait() == 0
            assert answers == ["rested"] * CONNECTIONS
            with pytest.raises(OSError, match="connect"):
                await trio.open_tcp_stream("127.0.0.1", server.port)
