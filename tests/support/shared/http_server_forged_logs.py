"""What the tests of forged logs share in several layers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from trio_mcp import Server


def make_server() -> Server[Any]:
    server: Server[Any] = Server("careful")

    @server.tool
    async def fail(reason: str) -> None:
        raise ValueError(reason)

    @server.resource("orders://{id}", unsafe_variables=["id"])
    async def order(id: str) -> str:
        raise ValueError(id)

    return server


def check(caplog: pytest.LogCaptureFixture, at_least: int) -> None:
    records = [record for record in caplog.records if record.name.startswith("trio_mcp")]
    assert len(records) >= at_least, "nothing was logged, so nothing is shown"
    formatter = logging.Formatter("%(levelname)s:%(message)s")
    for record in records:
        assert record.getMessage().isprintable()
        _, *traceback = formatter.format(record).split("\n")
        for line in traceback:
            assert line.startswith("    "), line
            assert line.isprintable(), line
