"""Processes with one store, all of them in this one: what goes wrong between them at a chosen moment."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from http_raw import open_raw
from session_calls import begin, said_by, tool

from trio_mcp import Server, SqliteStore


def named(name: str) -> Server:
    """Return a server whose tool says which of several it is."""
    server = Server("x")

    @server.tool
    async def who() -> str:
        return name

    return server


async def test_tmp_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of systemd may have folders for temporary files of their own: nobody is taken for gone for that."""
    store, first, second = SqliteStore(tmp_path / "s"), tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(first))
    async with open_raw(named("a"), store=store) as a:
        session = await begin(a)
        first.rename(tmp_path / "3")  # as the other process sees it
        monkeypatch.setattr(tempfile, "tempdir", str(second))
        async with open_raw(named("b"), store=store) as b:
            for raw in (b, a, b):
                assert said_by((await raw.send(tool("who"), session)).message) == "a"
