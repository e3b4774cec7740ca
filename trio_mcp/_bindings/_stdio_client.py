"""The client's end of stdio: a server process as a channel. Spec: 2026-07-28, basic/transports/stdio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, final

import trio

from .._channel import Outgoing, Received
from .._errors import ConnectionLost
from .._limits import Limits
from ._parameters import StdioServerParameters
from ._process import ServerProcess, open_process
from ._stream import StreamChannel

__all__ = ["StdioServerChannel", "open_stdio_server"]

FATE_SECONDS: Final = 1.0
"""How long a server that has closed its output may take to exit, so that errors can say how it ended."""


@final
class StdioServerChannel(StreamChannel):
    """The channel to a server process. Made by `open_stdio_server`.

    The end of the process is the end of the connection, so it comes as `ConnectionLost`, which tells the exit
    status and the last lines of standard error. A descendant that keeps the pipe open does not put it off, unless
    it goes on talking.
    """

    def __init__(self, process: ServerProcess, limits: Limits) -> None:
        super().__init__(
            process.stdout,
            process.stdin,
            max_message_bytes=limits.max_message_bytes,
            description=process.description,
        )
        self._process = process
        self._has_exited = False
        self._receiving = trio.CancelScope()
        process.on_exit = self._exited

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        try:
            if not self._has_exited:
                with trio.CancelScope() as self._receiving:
                    return await super().receive()
            with trio.move_on_after(FATE_SECONDS):
                return await super().receive()
        except (trio.EndOfChannel, ConnectionLost) as error:
            raise await self._fate("closed its output") from error
        raise self._process.connection_lost()

    def _exited(self) -> None:
        """From now on silence is the end."""
        self._has_exited = True
        self._receiving.cancel(reason="the process has exited")

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Write messages; see `Channel.send`. Cancelled, it may have written half of one."""
        try:
            await super().send(messages)
        except ConnectionLost as error:
            raise await self._fate("closed its input") from error

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Write messages, as far as the pipe takes them now; see `Channel.send_nowait`."""
        try:
            return super().send_nowait(messages)
        except ConnectionLost:
            raise trio.WouldBlock from None  # `send` meets the same, and finds out why

    async def _fate(self, deed: str) -> ConnectionLost:
        """Say how the process ended, waiting a little for it to do so; or what it has done instead."""
        with trio.move_on_after(FATE_SECONDS):
            await self._process.wait_exit()
        lost = self._process.connection_lost()
        if lost.exit_status is not None:
            return lost
        return ConnectionLost(f"{self._process.description} {deed} and has not exited", stderr=lost.stderr)


@asynccontextmanager
async def open_stdio_server(
    parameters: StdioServerParameters, limits: Limits
) -> AsyncGenerator[StdioServerChannel]:
    """Start a server process, and end it with all its children on leaving.

    Args:
        parameters: What to start.
        limits: `Limits.max_message_bytes` bounds a line, `Limits.terminate_timeout` each step of the end.

    Raises:
        ConnectionLost: It could not be started.
    """
    async with open_process(parameters, limits) as process:
        yield StdioServerChannel(process, limits)
