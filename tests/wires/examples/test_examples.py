"""The examples are programs that run."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from places import EXAMPLES

from trio_mcp import StdioServerParameters, open_client, types


def test_the_demonstration_shows_what_it_promises() -> None:
    """The request, the one cancellation after it, and the handler's `finally`, in this order."""
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    environment = {**os.environ, "COLUMNS": "200"}
    shown = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    ).stdout
    assert "[█████] 5/5" in shown
    assert shown.count("notifications/cancelled") == 1
    request, goodbye = shown.index('"name": "take_inventory"'), shown.index("notifications/cancelled")
    cleanup, closed = shown.index("interrupted; in `finally`"), shown.index("the shelves are closed")
    assert request < goodbye
    assert request < cleanup < closed
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("name", "typed"), [("consent", ["y", "y", "n", "Ada", "y"]), ("agent_host", ["y", "y", "y", "n"])]
)
def test_a_person_at_the_terminal_decides(name: str, typed: list[str]) -> None:
    """What they type is not echoed where it is not typed; all else is what the example promises."""
    path = EXAMPLES / f"{name}.py"
    promised = path.read_text(encoding="utf-8").split("you see::\n\n")[1].split('\n"""')[0]
    for word in typed:
        promised = re.sub(rf"(\[y/n\]|name\?') {word}\n *", r"\1 ", promised, count=1)
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        input="".join(f"{word}\n" for word in typed),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.splitlines() == [line.strip() for line in promised.splitlines()]
    assert not ran.stderr


async def test_the_ten_line_server_adds() -> None:
    """What the README calls ten lines."""
    parameters = StdioServerParameters(sys.executable, [str(EXAMPLES / "ten_lines.py")])
    async with open_client(parameters) as client:
        result = await client.call_tool("add", {"a": 40, "b": 2})
    assert result.content == (types.TextContent(text="42"),)


async def test_the_library_counts_its_books() -> None:
    """Errors for the model, structured results, and a lifespan that is shared by the calls."""
    parameters = StdioServerParameters(
        sys.executable, [str(EXAMPLES / "library_server.py")], stderr=lambda _: None
    )
    async with open_client(parameters) as client:
        found = await client.call_tool("search", {"words": "u"})
        assert found.structured_content == ["Dune", "Ulysses"]
        reserved = await client.call_tool("reserve", {"title": "Emma", "copies": 2})
        assert reserved.structured_content == {"title": "Emma", "copies": 2, "left": 0}
        for arguments, words in (
            ({"title": "Emma"}, "only 0 copies"),
            ({"title": "Dracula"}, "look for it"),
            ({"title": "Dune", "copies": 0}, "copies"),
        ):
            refused = await client.call_tool("reserve", arguments)
            assert refused.is_error
            (block,) = refused.content
            assert isinstance(block, types.TextContent)
            assert words in block.text
