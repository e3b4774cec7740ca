"""An option that does not exist is refused where it is given, as if the function had no ``**options``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trio_mcp import Client, Server, open_client


async def test_opening_refuses_what_it_does_not_know() -> None:
    """A handler that nobody calls because its name is misspelt is found out at once, and the message says which."""
    with pytest.raises(TypeError, match="no option on_elict; see ClientOptions: .*on_elicit"):
        async with open_client(Server("any"), on_elict=print):  # type: ignore[call-arg] # pyright: ignore
            pytest.fail("was opened")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.call_tool("x", on_progres=print),
        lambda client: client.read_resource("x:y", on_progres=print),
        lambda client: client.get_prompt("x", on_progres=print),
        lambda client: anext(aiter(client.list_tools(on_progres=print))),
    ],
)
async def test_calls_refuse_what_they_do_not_know(call: Callable[[Any], Awaitable[object]]) -> None:
    """Nothing is sent."""
    async with open_client(Server("any")) as client:
        sent = client.statistics()
        with pytest.raises(TypeError, match="no option on_progres"):
            await call(client)
        assert client.statistics() == sent
