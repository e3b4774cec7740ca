"""A server over stdio whose tool takes `None` in every way that a hint can say it, and one with a schema by hand."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import attrs

from trio_mcp import Context, Field, Server

server: Final = Server("nullable")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Place:
    shelf: int | None = None


@server.tool
async def look(
    text: str | None = None,
    number: float | None = None,
    several: int | str | None = None,
    literal: Literal["x", "y"] | None = None,
    enumeration: Color | None = None,
    place: Place | None = None,
    items: list[int | None] | None = None,
    members: dict[str, int | None] | None = None,
    day: dt.date | None = None,
    bounded: Annotated[int | None, Field(ge=1)] = None,
) -> Place | None:
    """Take `None` for everything, and return it."""
    return None


@server.tool(input_schema={"type": "object", "properties": {"text": {"type": ["string", "null"]}}})
async def by_hand(params: Mapping[str, Any], ctx: Context) -> None:
    """Take `None` as some clients do not read it."""


if __name__ == "__main__":
    server.run()
