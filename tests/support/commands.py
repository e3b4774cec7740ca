"""What a command of the tests has done, and the server that most of them talk to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
from places import PROGRAMS

SHOP: Final = PROGRAMS / "shop.py"


@attrs.frozen
class Done:
    """What a command has done.

    Attributes:
        status: Its exit status.
        out: Its standard output.
        err: Its standard error.
    """

    status: int
    out: str
    err: str


Run: TypeAlias = Callable[..., Done]
"""Runs a command: its words in, what it did out."""
