"""Whatever a server says, and whatever a child process writes: no record, error or line of ours is forged by it."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import pytest
from shared.client_forged_logs_of_servers import NASTY, check_log, check_text

from trio_mcp import (
    ConnectionLost,
    StdioServerParameters,
    open_client,
)

CHILD: Final = f"import sys; sys.stderr.buffer.write({(NASTY + chr(10)).encode()!r}); sys.exit(3)"


async def test_what_a_child_writes_forges_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its standard error is in the error that says how it ended, and goes to a logger line by line."""
    parameters = StdioServerParameters(
        sys.executable, ["-c", CHILD], stderr=logging.getLogger("child"), restart=None
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(ConnectionLost) as lost:
        async with open_client(parameters):
            pass
    check_text(str(lost.value))
    assert lost.value.stderr[0] == "x"
    for line in lost.value.stderr:
        assert line.isprintable()
    written = [record.getMessage() for record in caplog.records if record.name == "child"]
    assert len(written) >= 2
    for line in written:
        assert line.isprintable()
    check_log(caplog, at_least=0)


async def test_a_command_forges_nothing() -> None:
    """Its name may come from a file of settings that somebody else has written."""
    command: Any = NASTY.replace("\0", "")
    with pytest.raises(ConnectionLost) as lost:
        async with open_client(StdioServerParameters(command)):
            pass
    check_text(str(lost.value))
