"""Work that goes on beside the requests, owned by a nursery that ends it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVarTuple, final

import trio

from .._contained import Contained
from .._groups import open_hidden_nursery
from .._logs import Log
from ._threads import detached

__all__ = ["Background", "open_background"]

_log: Final = Log("trio_mcp.server")

_Args = TypeVarTuple("_Args")


@final
class Background:
    """Starts tasks that last no longer than their owner.

    Args:
        nursery: Where they run; its end cancels them.
        owner: Whose they are, for errors.
    """

    def __init__(self, nursery: trio.Nursery, owner: str) -> None:
        self._nursery = nursery
        self._owner = owner

    def start_soon(
        self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args, name: object = None
    ) -> None:
        """Start a task. What it raises is logged and ends nothing else, nor does what it leaves open.

        Raises:
            trio.ClosedResourceError: The owner is gone.
        """
        self._start(self._run, async_fn, args, async_fn if name is None else name)

    def start_own(self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args, name: object) -> None:
        """Start a task of the package itself, which leaves nothing open. Else as `start_soon`."""
        self._start(self._run_own, async_fn, args, name)

    def _start(
        self,
        run: Callable[[Callable[[*_Args], Awaitable[object]], tuple[*_Args]], Awaitable[object]],
        async_fn: Callable[[*_Args], Awaitable[object]],
        args: tuple[*_Args],
        name: object,
    ) -> None:
        try:
            self._nursery.start_soon(run, async_fn, args, name=name)
        except RuntimeError as error:
            raise trio.ClosedResourceError(f"{self._owner} has ended") from error

    async def _run_own(self, async_fn: Callable[[*_Args], Awaitable[object]], args: tuple[*_Args]) -> None:
        try:
            await async_fn(*args)
        except Exception as error:
            self._log_failure(error)

    async def _run(self, async_fn: Callable[[*_Args], Awaitable[object]], args: tuple[*_Args]) -> None:
        detached()
        # The boundary of one task: it belongs to nobody who could be told.
        with Contained(self._log_failure):
            await async_fn(*args)

    def _log_failure(self, error: BaseException) -> None:
        _log.error("a background task of %s failed", self._owner, exc_info=error)


@asynccontextmanager
async def open_background(owner: str) -> AsyncGenerator[Background]:
    """Own background tasks for as long as the body runs; then they are cancelled, and their cleanup runs.

    An exception of the body comes out as itself.
    """
    async with open_hidden_nursery() as nursery:
        try:
            yield Background(nursery, owner)
        finally:
            nursery.cancel_scope.cancel(reason=f"{owner} has ended")
