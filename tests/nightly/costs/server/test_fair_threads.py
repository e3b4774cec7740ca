"""Whose plain functions run when there are more calls than threads. Threads: real time."""

from __future__ import annotations

import pytest
import trio
from inside_base import SERVER_BUSY
from inside_server import Holder, _Places

from trio_mcp import Limits, RequestError


async def test_one_of_many_is_refused_when_all_it_may_have_were_left_behind() -> None:
    """Although others still get a thread."""
    places = _Places(Limits(max_threads=8, thread_timeout=0.01))
    for _ in range(6):
        await places.acquire(Holder("hog", is_one_of_many=True))
        places.count_left_behind(1)
    with trio.fail_after(20), pytest.raises(RequestError, match="max_threads") as caught:
        await places.acquire(Holder("hog", is_one_of_many=True))
    assert caught.value.code == SERVER_BUSY
    await places.acquire(Holder("honest", is_one_of_many=True))
