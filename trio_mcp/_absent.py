"""The difference between a member that is missing and one that is `null`.

It is used only where both are legal JSON and differ in meaning (a tool's `structuredContent`, an error's `data`).
Everywhere else an optional member is `None` in Python and not sent. Nothing here knows the wire.
"""

from __future__ import annotations

import enum
from typing import Final, Literal, TypeAlias


class _Absence(enum.Enum):
    ABSENT = "ABSENT"

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


Absent: TypeAlias = Literal[_Absence.ABSENT]
"""The type of `ABSENT`, for annotations: ``structured_content: object | Absent``."""

ABSENT: Final = _Absence.ABSENT
"""A member that is not in the JSON object, where `None` would mean `null`."""
