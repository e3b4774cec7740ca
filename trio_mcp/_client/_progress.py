"""Where the progress of a request goes: to a callback, or into a channel."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeAlias

import trio

from .._peer._exchange import OnProgress, Progress

__all__ = ["ProgressTarget", "progress_to"]

ProgressTarget: TypeAlias = OnProgress | trio.MemorySendChannel[Progress]
"""A callback, or a channel that takes each `Progress` and is closed when the call is over, however it ends.

A channel wants somebody who receives: the call waits for them, as it waits for a callback. Once nobody does any
more because the receiving end is closed, the call goes on without.
"""


@contextmanager
def progress_to(target: ProgressTarget | None) -> Generator[OnProgress | None]:
    """Give the callback that serves a target, and close the channel at the end if the target is one."""
    if not isinstance(target, trio.MemorySendChannel):
        yield target
        return

    async def send(progress: Progress) -> None:
        try:
            await target.send(progress)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()  # nobody is interested any more, which is no reason to fail

    with target:
        yield send
