"""The tests that users are shown: they pass, find what they are for, and take no time."""

from __future__ import annotations

import inspect
import runpy
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pytest
import trio
import trio.testing
from places import ROOT

from trio_mcp import Server
from trio_mcp.testing.pytest_plugin import Lifetime

EXAMPLE: Final = ROOT / "examples" / "test_warehouse.py"
MOST_SECONDS: Final = 0.1
"""What each of these tests may take: seconds of the processor, and on a machine with nothing else to do real ones."""

LONGEST: Final = 30.0
"""Real seconds that it may take on a machine that is as busy as it can be: nobody has waited for ten minutes."""


TESTS: Final[dict[str, Callable[..., Awaitable[None]]]] = {
    name: value for name, value in runpy.run_path(str(EXAMPLE)).items() if name.startswith("test_")
}


async def play(test: Callable[..., Awaitable[None]], clock: trio.testing.MockClock) -> None:
    """Run a test as pytest would, fixtures and all."""
    from trio_mcp.testing import open_client

    lifetime = Lifetime()

    async def mcp_client(server: Server[Any]) -> Any:
        return await lifetime.enter(open_client(server))

    given = {"mcp_client": mcp_client, "autojump_clock": clock}
    async with lifetime.running():
        await test(**{name: given[name] for name in inspect.signature(test).parameters})


@pytest.mark.parametrize("name", sorted(TESTS))
def test_ten_minutes_take_a_tenth_of_a_second(name: str) -> None:
    """A deadline that passes, a peer that dies. The time of the processor: other programs' is not counted."""
    best = LONGEST
    begin = time.perf_counter()
    for _ in range(10):
        clock = trio.testing.MockClock(autojump_threshold=0)
        begin_processor = time.process_time()
        trio.run(partial(play, TESTS[name], clock), clock=clock)
        best = min(best, time.process_time() - begin_processor)
        if best < MOST_SECONDS:
            break
    assert best < MOST_SECONDS
    assert time.perf_counter() - begin < LONGEST
