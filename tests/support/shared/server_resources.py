"""What the tests of resources share in several layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trio_mcp import Client


async def read(client: Client, uri: str) -> list[dict[str, Any]]:
    result = await client.request("resources/read", {"uri": uri})
    contents: list[dict[str, Any]] = result["contents"]
    return contents


async def listed(client: Client) -> list[str]:
    return [resource["uri"] for resource in (await client.request("resources/list"))["resources"]]


def many(ids: Sequence[str]) -> str:
    return ids[0]
