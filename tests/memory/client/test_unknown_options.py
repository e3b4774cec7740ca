"""An option that does not exist is refused where it is given, as if the function had no ``**options``."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import Server, open_client

MISSPELT: Any = {"on_elict": print}


async def test_opening_refuses_what_it_does_not_know() -> None:
    """A handler that nobody calls because its name is misspelt is found out at once, and the message says which."""
    with pytest.raises(TypeError, match=r"no option on_elict; see ClientOptions: .*on_elicit"):
        async with open_client(Server("any"), **MISSPELT):
            pytest.fail("was opened")


@pytest.mark.parametrize("name", ["call_tool", "read_resource", "get_prompt"])
async def test_calls_refuse_what_they_do_not_know(name: str) -> None:
    """Nothing is sent."""
    async with open_client(Server("any")) as client:
        before = client.statistics()
        with pytest.raises(TypeError, match="no option on_elict; see WorkOptions"):
            await getattr(client, name)("x:y", **MISSPELT)
        assert client.statistics() == before


@pytest.mark.parametrize("name", ["list_tools", "list_resources", "list_resource_templates", "list_prompts"])
async def test_lists_refuse_what_they_do_not_know(name: str) -> None:
    """At once, not only when somebody iterates."""
    async with open_client(Server("any")) as client:
        with pytest.raises(TypeError, match="no option on_elict; see ListOptions"):
            getattr(client, name)(**MISSPELT)
