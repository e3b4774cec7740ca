"""Lets clients open scripted servers."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import ScriptedServer

import trio_mcp._client._open
from trio_mcp._client._connectors import Connector, connector_for


@pytest.fixture(autouse=True)
def open_scripted_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `ScriptedServer` is its own connector, so that it can be lost and found again without a process."""

    def connector(target: Any) -> Connector:
        return target if isinstance(target, ScriptedServer) else connector_for(target)

    monkeypatch.setattr(trio_mcp._client._open, "connector_for", connector)
