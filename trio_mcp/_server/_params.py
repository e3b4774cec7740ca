"""Reading the parameters of a request, and refusing it by name if they are not its. No method lives here."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._codec._json import is_object
from .._errors import INVALID_PARAMS, RequestError

__all__ = ["MAX_MEMBERS", "are_plain", "read_params", "refuse_many"]

_T = TypeVar("_T")

_NOTHING: Final[dict[str, Any]] = {}

MAX_MEMBERS: Final = 1_000
"""How many answers, or arguments that are filled in already, one request may bring: more than anybody has."""


def are_plain(params: Mapping[str, Any], names: AbstractSet[str]) -> bool:
    """Whether parameters have no other members than these and `_meta`, and `_meta` is what it must be.

    Who then looks at the others itself need not `read_params`.
    """
    return params.keys() <= names and params.get("_meta", _NOTHING).__class__ is dict


def refuse_many(params: Mapping[str, Any], *path: str) -> None:
    """Refuse an object in parameters that has more members than anybody needs, before any of them is read.

    Args:
        params: The parameters of the request.
        path: Where in them the object is, if it is there.

    Raises:
        RequestError: It has more than `MAX_MEMBERS`.
    """
    part: Any = params
    for name in path:
        part = part.get(name) if is_object(part) else None
    if is_object(part) and len(part) > MAX_MEMBERS:
        problem = f"invalid params: {'.'.join(path)} has {len(part)} members; {MAX_MEMBERS} are allowed"
        raise RequestError(INVALID_PARAMS, problem)


def read_params(params: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read the parameters of a request.

    Raises:
        RequestError: They are not what the specification says they must be.
    """
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error
