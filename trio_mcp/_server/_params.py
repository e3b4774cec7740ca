"""Reading the parameters of a request, and refusing it by name if they are not its. No method lives here."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._errors import INVALID_PARAMS, RequestError

__all__ = ["are_plain", "read_params"]

_T = TypeVar("_T")

_NOTHING: Final[dict[str, Any]] = {}


def are_plain(params: Mapping[str, Any], names: AbstractSet[str]) -> bool:
    """Whether parameters have no other members than these and `_meta`, and `_meta` is what it must be.

    Who then looks at the others itself need not `read_params`.
    """
    return params.keys() <= names and params.get("_meta", _NOTHING).__class__ is dict


def read_params(params: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read the parameters of a request.

    Raises:
        RequestError: They are not what the specification says they must be.
    """
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error
