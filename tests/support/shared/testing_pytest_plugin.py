"""What the tests of pytest plugin share in several layers."""

from __future__ import annotations

import textwrap
from pathlib import Path

from pytest_runs import PLUGIN, run_pytest

SERVER = """
import os, subprocess, sys, threading
import pytest, trio, trio.testing, trio_mcp.testing
from trio_mcp import Server, open_client

server = Server("shop")
left = []

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

@server.tool
async def fail() -> None:
    raise LookupError("out of stock")

@server.tool
async def wait() -> None:
    try:
        await trio.sleep_forever()
    finally:
        left.append("wait")
"""


def run_tests(folder: Path, tests: str, *options: str, plugin: str | None = PLUGIN) -> str:
    """Run tests of the server above, and return what is printed."""
    (folder / "test_shop.py").write_text(SERVER + textwrap.dedent(tests))
    return run_pytest(folder, *options, plugin=plugin)
