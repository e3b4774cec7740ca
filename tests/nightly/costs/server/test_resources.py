"""Resources from end to end: registered at a server, listed and read by a client, in every revision."""

from __future__ import annotations

from collections.abc import Callable

import trio
from processor_time import costs_of

from trio_mcp import Server, open_client

# What lists cost.


def test_a_page_of_a_long_list_costs_no_more_than_one_of_a_short_list() -> None:
    """All that is listed was put together anew for every page, so that reading n pages cost n times n."""

    def walk(count: int) -> Callable[[], None]:
        server = Server("s", page_size=10)
        for number in range(count):
            server.add_resource(f"a://{number}", "text")

        async def main() -> None:
            async with open_client(server, cache=None) as client:
                assert len([resource async for resource in client.list_resources()]) == count

        return lambda: trio.run(main)

    short, long = costs_of(walk(200), walk(2400), times=3)
    assert long < 18 * short, f"twelve times as many resources cost {long / short:.1f} times as much"
