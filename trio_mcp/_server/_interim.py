"""What a handler may return in place of a result of its own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import attrs

from .._core._extensions import CORE_RESULT_TYPES
from ._input_required import InputRequired

__all__ = ["ExtensionResult", "Interim", "is_interim"]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@final
@attrs.frozen
class ExtensionResult:
    """Return it from a tool, prompt or resource to answer with a result of a type that an extension has added.

    The client must have declared the extension; look at `Context.client_extensions` first.

    Attributes:
        result_type: The type: one that a `ServerExtension` of the server adds.
        members: What else the result has, as plain JSON.

    Raises:
        ValueError: The type is the protocol's own.

    Spec: 2026-07-28, basic, "ResultType".
    """

    result_type: str
    members: Mapping[str, Any] = _NOTHING

    def __attrs_post_init__(self) -> None:
        if self.result_type in CORE_RESULT_TYPES:
            raise ValueError(f"{self.result_type!r} is the protocol's own type of result")


Interim: TypeAlias = InputRequired | ExtensionResult
"""Not the end of the matter: the client comes again, or an extension of it goes on."""


def is_interim(hint: Any) -> bool:
    """Whether a return annotation, or a branch of it, is for the client alone and no part of a schema."""
    return hint is InputRequired or hint is ExtensionResult
