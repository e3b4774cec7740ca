"""Reading the parameters of a request, and refusing it by name if they are not its. No method lives here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._errors import INVALID_PARAMS, RequestError

__all__ = ["read_params"]

_T = TypeVar("_T")


def read_params(params: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read the parameters of a request.

    Raises:
        RequestError: They are not what the specification says they must be.
    """
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error
