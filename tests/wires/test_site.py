"""The documentation as a site: nothing public is missing on it, and nothing that is on it is made up.

How the pages look, and whether all links of the site lead somewhere, `make docs` shows.
"""

from __future__ import annotations

import re
import sys

import attrs
import error_texts
import pytest

import trio_mcp


async def test_a_process_that_exits_is_said_like_that() -> None:
    """What `open_client` raises, and not what the state of a group says."""
    page = error_texts.PAGE.read_text(encoding="utf-8")
    row = next(line for line in page.split("\n") if "exited with status 1" in line)
    shown = re.findall(r"`(… exited[^`]+)…`", row.split(" | ")[0])
    assert len(shown) == 2
    dying = trio_mcp.StdioServerParameters(sys.executable, ["-c", "import sys; sys.exit('boom')"])
    lines: list[str] = []
    texts: list[str] = []
    for parameters in (dying, attrs.evolve(dying, stderr=lines.append)):
        with pytest.raises(trio_mcp.ConnectionLost) as lost:
            async with trio_mcp.open_client(parameters):
                pass
        texts.append(" ".join(str(lost.value).split()))
    assert [text.partition(" exited")[2] for text in texts] == [
        f"{said.partition(' exited')[2]}boom" for said in shown
    ]
