"""Which cores there are, and who gets which."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Self, final

import attrs

__all__ = ["Cores"]


@final
@attrs.frozen(kw_only=True)
class Cores:
    """Who runs where; nobody is moved where there is only one core, or no way to move.

    Attributes:
        server: The cores of what is measured.
        load: The cores of what measures.
    """

    server: tuple[int, ...] | None = None
    load: tuple[int, ...] | None = None

    @classmethod
    def of(cls, available: Sequence[int]) -> Self:
        """Share out cores: the last is the server's, the one before it the generator's."""
        if len(available) < 2:
            return cls()
        *_, load, server = available
        return cls(server=(server,), load=(load,))

    @classmethod
    def here(cls) -> Self:
        """Share out the cores of this machine."""
        if not hasattr(os, "sched_getaffinity"):
            return cls()
        return cls.of(sorted(os.sched_getaffinity(0)))
