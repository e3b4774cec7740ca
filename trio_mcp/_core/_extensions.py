"""What an extension of the protocol may be called, and what it must leave alone.

Spec: 2026-07-28, basic/versioning, "Extension Negotiation".
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["CORE_RESULT_TYPES", "check_identifier"]

_IDENTIFIER: Final = re.compile(
    r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"/([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
"""A key of `_meta` with its prefix, which is optional there and required here (2026-07-28, basic/versioning)."""

CORE_RESULT_TYPES: Final = frozenset({"complete", "input_required"})
"""The types of results that are the protocol's own (2026-07-28, basic, "ResultType")."""


def check_identifier(identifier: str) -> None:
    """Check what an extension is called.

    Raises:
        ValueError: It has no prefix, or is no name at all.
    """
    if not _IDENTIFIER.fullmatch(identifier):
        raise ValueError(f"an extension is called prefix/name, for example com.example/x, not {identifier!r}")
