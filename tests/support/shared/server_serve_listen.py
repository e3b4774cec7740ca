"""What the tests of serve listen share in several layers."""

from __future__ import annotations

from typing import Any

from talking import SUBSCRIPTION_ID, note

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def tag(id: int | str) -> dict[str, Any]:
    return {SUBSCRIPTION_ID: id}


def acknowledged(id: int | str, **granted: object) -> dict[str, Any]:
    return note(ACKNOWLEDGED, _meta=tag(id), notifications=granted)


def ended(id: int | str, server: str = "shelf", version: str = "1") -> dict[str, Any]:
    info = {"io.modelcontextprotocol/serverInfo": {"name": server, "version": version}}
    return {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": {**info, **tag(id)}}}
