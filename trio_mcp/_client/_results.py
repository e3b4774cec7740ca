"""Results read from the wire into their classes, as far as they can be. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._codec._json import is_array
from .._errors import RemoteProtocolError
from .._logs import Log
from ..types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)

__all__ = ["read_result"]

_log: Final = Log("trio_mcp.client")

_T = TypeVar("_T")

_LISTS: Final[Mapping[Any, tuple[str, Any]]] = MappingProxyType(
    {
        ListPromptsResult: ("prompts", Prompt),
        ListResourcesResult: ("resources", Resource),
        ListResourceTemplatesResult: ("resourceTemplates", ResourceTemplate),
        ListToolsResult: ("tools", Tool),
    }
)
"""Where the items of a list lie, and what they are."""

MAX_TOLD: Final = 5
"""How many of the items that are left out the log explains."""


def read_result(method: str, result: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read a result.

    Items of a list that cannot be read are left out, and logged: one odd tool must not hide the others. Any other
    result is read as a whole or not at all, for half of it could be mistaken for all of it.

    Raises:
        RemoteProtocolError: It cannot be read.
    """
    try:
        return from_wire(result, kind)
    except InvalidData as error:
        member, item = _LISTS.get(kind, ("", None))
        items = result.get(member)
        if not is_array(items):
            raise RemoteProtocolError(f"{method}: {error}") from error
        readable = _readable(method, member, items, item)
        try:
            return from_wire({**result, member: readable}, kind)
        except InvalidData as other:
            raise RemoteProtocolError(f"{method}: {other}") from other


def _readable(method: str, member: str, items: list[Any], kind: Any) -> list[Any]:
    readable: list[Any] = []
    problems: list[str] = []
    for index, item in enumerate(items):
        try:
            from_wire(item, kind)
        except InvalidData as error:
            problems.append(f"{member}[{index}]: {error}")
        else:
            readable.append(item)
    told = "; ".join(problems[:MAX_TOLD])
    _log.warning("%s: left out %d of %d items that cannot be read: %s", method, len(problems), len(items), told)
    return readable
