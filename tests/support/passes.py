"""Counting passes of the event loop, where a test is about which of them something happens in."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import trio

__all__ = ["Passes", "counted"]


class Passes(trio.abc.Instrument):
    """Counts passes of the event loop."""

    number = 0

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1


@contextmanager
def counted() -> Generator[Passes]:
    """Count them while the block runs."""
    passes = Passes()
    trio.lowlevel.add_instrument(passes)
    try:
        yield passes
    finally:
        trio.lowlevel.remove_instrument(passes)
