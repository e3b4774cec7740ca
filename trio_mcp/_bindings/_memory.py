"""Two ends of a connection inside one process. Messages are the bytes they would be on any other wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import trio

from .._channel import Channel, Incoming, Outgoing, Received
from .._errors import ConnectionLost


@final
class _Way:
    """One direction, with one task at most at either end. What is not taken stays with the task that sends it.

    Trio's memory channel without room does the same for any number of tasks, at three times the cost.
    """

    __slots__ = ("_handed", "_has_end", "_has_start", "_receiver", "_sender", "_sent")

    def __init__(self) -> None:
        self._has_start = True
        self._has_end = True
        self._sender: trio.lowlevel.Task | None = None
        self._sent: Sequence[Received] | None = None  # what that one waits for to be taken
        self._receiver: trio.lowlevel.Task | None = None
        self._handed: Sequence[Received] | None = None  # what the receiver was woken with

    def put_nowait(self, messages: Sequence[Received]) -> None:
        """Hand messages to the task that waits for them.

        Raises:
            trio.WouldBlock: Nobody waits.
            trio.BrokenResourceError: Nobody ever will.
            trio.ClosedResourceError: This end of it was closed.
        """
        if not (self._has_start and self._has_end):
            raise self._why_not_sent()
        receiver = self._receiver
        if receiver is None:
            raise trio.WouldBlock
        self._handed, self._receiver = messages, None
        trio.lowlevel.reschedule(receiver)

    async def put(self, messages: Sequence[Received]) -> None:
        """Hand messages over, and wait until they are taken. Cancelled, they were not.

        Raises:
            trio.BusyResourceError: Another task waits here.
            Others: As `put_nowait`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._sender is not None:
            raise trio.BusyResourceError("another task is sending")
        if self._receiver is not None or not (self._has_start and self._has_end):
            self.put_nowait(messages)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        self._sent = messages
        self._sender = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._take_back)
        if self._keeps_what_was_sent():
            raise self._why_not_sent()

    def _take_back(self, _: object) -> trio.lowlevel.Abort:
        self._sender = self._sent = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _keeps_what_was_sent(self) -> bool:
        """Whether nobody has taken what the sender waited with; nobody will."""
        sent, self._sent = self._sent, None
        return sent is not None

    def _why_not_sent(self) -> Exception:
        return trio.BrokenResourceError() if self._has_start else trio.ClosedResourceError()

    async def get(self) -> Sequence[Received]:
        """Wait for messages. Cancelled, it has taken none.

        Raises:
            trio.EndOfChannel: None will come any more.
            trio.ClosedResourceError: This end of it was closed.
            trio.BusyResourceError: Another task waits here.
        """
        if self._receiver is not None:
            raise trio.BusyResourceError("another task is receiving")
        if not (self._has_start and self._has_end):
            await trio.lowlevel.checkpoint()
        elif self._sender is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            trio.lowlevel.reschedule(self._sender)
            self._handed, self._sent, self._sender = self._sent, None, None
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self._receiver = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        messages, self._handed = self._handed, None
        if messages is None:
            raise trio.EndOfChannel if self._has_end else trio.ClosedResourceError
        return messages

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._receiver = None
        return trio.lowlevel.Abort.SUCCEEDED

    def close_start(self) -> None:
        """Send no more. Never waits."""
        self._has_start = False
        self._wake_all()

    def close_end(self) -> None:
        """Receive no more. Never waits."""
        self._has_end = False
        self._wake_all()

    def _wake_all(self) -> None:
        for task in (self._sender, self._receiver):
            if task is not None:
                trio.lowlevel.reschedule(task)
        self._sender = self._receiver = None


@final
class MemoryChannel(Channel):
    """One end of a connection in memory. Made by `memory_channel_pair`.

    Nothing is buffered: `send` returns when the other end has received.
    """

    def __init__(self, description: str, send: _Way, receive: _Way) -> None:
        self._description = description
        self._send = send
        self._receive = receive

    @property
    def description(self) -> str:
        """What this end talks to."""
        return self._description

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        return await self._receive.get()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Hand messages to the other end; see `Channel.send`."""
        try:
            await self._send.put([Incoming(message.data) for message in messages])
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"{self._description} does not receive any more") from error

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Hand messages to the other end, if it is receiving; see `Channel.send_nowait`."""
        try:
            self._send.put_nowait([Incoming(message.data) for message in messages])
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"{self._description} does not receive any more") from error
        return True

    async def aclose(self) -> None:
        """Close both directions. What was received is kept, what still waits to be sent is not."""
        self._send.close_start()
        self._receive.close_end()
        await trio.lowlevel.checkpoint()


def memory_channel_pair() -> tuple[MemoryChannel, MemoryChannel]:
    """Return the two ends of a new connection in memory: the client's, the server's."""
    to_server, to_client = _Way(), _Way()
    return (
        MemoryChannel("the server in this process", to_server, to_client),
        MemoryChannel("the client in this process", to_client, to_server),
    )
