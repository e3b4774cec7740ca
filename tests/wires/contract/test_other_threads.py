"""Something of one `trio.run` is used in that of another thread: refused at once, and as good as before."""

from __future__ import annotations

import threading
import time

import trio
from shared.contract_other_threads import ENOUGH, make_server

from trio_mcp import (
    open_client,
)


def test_a_server_serves_in_two_threads_at_once() -> None:
    """Each with a loop of its own, and limits of its own: such a server is only data, until it is run."""
    server = make_server()
    together, most = threading.Barrier(2), [0, 0]

    @server.tool(limit=1)
    async def alone(thread: int) -> int:
        most[thread] += 1
        try:
            await trio.sleep(0.01)
            return most[thread]
        finally:
            most[thread] -= 1

    @server.tool
    def plain() -> str:
        time.sleep(0.001)
        return "done"

    failures: list[BaseException] = []

    async def use(thread: int) -> None:
        async with open_client(server) as client:
            for _ in range(10):
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(client.call_tool, "plain")
                    for _ in range(3):
                        result = await client.call_tool("alone", {"thread": thread})
                        assert result.structured_content == 1
                        nursery.start_soon(client.call_tool, "alone", {"thread": thread})

    def run(thread: int) -> None:
        try:
            together.wait(ENOUGH)
            trio.run(use, thread)
        except BaseException as error:  # noqa: ASYNC103 - outside of Trio
            failures.append(error)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ENOUGH)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)
