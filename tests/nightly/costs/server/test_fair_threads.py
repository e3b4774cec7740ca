"""Whose plain functions run when there are more calls than threads. Threads: real time."""

from __future__ import annotations

import pytest
import trio
from inside_base import SERVER_BUSY
from inside_server import _Places

from trio_mcp import Limits, RequestError


async def test_one_of_many_is_refused_when_all_it_may_have_were_left_behind() -> None:
    """Although others still get a thread."""
    places = _Places(Limits(max_threads=8, thread_timeout=0.01))
    held = [await places.take(("hog", True)) for _ in range(6)]
    for place in held:
        places.leave_behind(place, ("hog", True))
    with trio.fail_after(20), pytest.raises(RequestError, match="max_threads") as caught:
        await places.take(("hog", True))
    assert caught.value.code == SERVER_BUSY
    await places.take(("honest", True))
