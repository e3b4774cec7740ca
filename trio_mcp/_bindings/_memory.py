"""Both ends of a connection inside one process. Messages are the bytes that any other transport would carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import attrs
import trio

from .._channel import Channel, Incoming, Outgoing, Received
from .._errors import ConnectionLost


def _take_nothing(messages: Sequence[Received]) -> int:
    del messages
    return 0


@final
class _Direction:
    """One direction, with at most one task at each end. Messages wait in the sending task until received.

    Trio's memory channel without a buffer does the same for any number of tasks, at three times the cost.
    """

    __slots__ = (
        "_delivered",
        "_receiver",
        "_receiver_is_open",
        "_sender",
        "_sender_is_open",
        "_waiting",
        "take",
    )

    def __init__(self) -> None:
        self.take: Callable[[Sequence[Received]], int] = _take_nothing  # see `Channel.call_on_answers`
        self._sender_is_open = True
        self._receiver_is_open = True
        self._sender: trio.lowlevel.Task | None = None
        self._waiting: Sequence[Received] | None = None  # what the sender waits with
        self._receiver: trio.lowlevel.Task | None = None
        self._delivered: Sequence[Received] | None = None  # what the receiver was woken with

    def send_nowait(self, messages: Sequence[Received]) -> None:
        """Hand messages to the task that waits for them, or to `take`.

        Raises:
            trio.WouldBlock: No task waits.
            trio.BrokenResourceError: The receiving end was closed.
            trio.ClosedResourceError: The sending end was closed.
        """
        if not (self._sender_is_open and self._receiver_is_open):
            raise self._closed_error()
        receiver = self._receiver
        if receiver is None:
            raise trio.WouldBlock
        taken = self.take(messages)
        if taken:
            if taken == len(messages):
                return
            messages = messages[taken:]
        self._delivered, self._receiver = messages, None
        trio.lowlevel.reschedule(receiver)

    async def send(self, messages: Sequence[Received]) -> None:
        """Send messages, and wait until they are received. Cancelled, they were not.

        Raises:
            trio.BusyResourceError: Another task is sending.
            Others: As `send_nowait`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._sender is not None:
            raise trio.BusyResourceError("another task is sending")
        if self._receiver is not None or not (self._sender_is_open and self._receiver_is_open):
            self.send_nowait(messages)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        self._waiting = messages
        self._sender = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._cancel_send)
        if self._still_waits():
            raise self._closed_error()

    def _cancel_send(self, _: object) -> trio.lowlevel.Abort:
        self._sender = self._waiting = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _still_waits(self) -> bool:
        """Whether the sender was woken although its messages were not received, because an end was closed."""
        waiting, self._waiting = self._waiting, None
        return waiting is not None

    def _closed_error(self) -> Exception:
        return trio.BrokenResourceError() if self._sender_is_open else trio.ClosedResourceError()

    async def receive(self) -> Sequence[Received]:
        """Wait for messages. Cancelled, it has received none.

        Raises:
            trio.EndOfChannel: The sending end was closed.
            trio.ClosedResourceError: The receiving end was closed.
            trio.BusyResourceError: Another task is receiving.
        """
        if self._receiver is not None:
            raise trio.BusyResourceError("another task is receiving")
        if not (self._sender_is_open and self._receiver_is_open):
            await trio.lowlevel.checkpoint()
        elif self._sender is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            trio.lowlevel.reschedule(self._sender)
            self._delivered, self._waiting, self._sender = self._waiting, None, None
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self._receiver = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._cancel_receive)
        messages, self._delivered = self._delivered, None
        if messages is None:
            raise trio.EndOfChannel if self._receiver_is_open else trio.ClosedResourceError
        return messages

    def _cancel_receive(self, _: object) -> trio.lowlevel.Abort:
        self._receiver = None
        return trio.lowlevel.Abort.SUCCEEDED

    def close_sender(self) -> None:
        """Send no more. Never waits."""
        self._sender_is_open = False
        self._wake_all()

    def close_receiver(self) -> None:
        """Receive no more. Never waits."""
        self._receiver_is_open = False
        self._wake_all()

    def _wake_all(self) -> None:
        for task in (self._sender, self._receiver):
            if task is not None:
                trio.lowlevel.reschedule(task)
        self._sender = self._receiver = None


@final
@attrs.define(eq=False, repr=False)
class MemoryChannel(Channel):
    """One end of a connection in memory. Made by `memory_channel_pair`.

    Nothing is buffered: `send` returns when the other end has received.
    """

    transport = "memory"
    _description: str
    _outgoing: _Direction
    _incoming: _Direction

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        return await self._incoming.receive()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages and wait until the other end has received them; see `Channel.send`."""
        try:
            await self._outgoing.send([Incoming(message.data) for message in messages])
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"{self._description} has closed the connection") from error

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Send messages, if the other end is receiving; see `Channel.send_nowait`."""
        try:
            self._outgoing.send_nowait([Incoming(message.data) for message in messages])
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"{self._description} has closed the connection") from error
        return True

    def call_on_answers(self, take: Callable[[Sequence[Received]], int]) -> None:
        """Have answers taken where they come; see `Channel.call_on_answers`."""
        self._incoming.take = take

    async def aclose(self) -> None:
        """Close both directions. What was received is kept; what waits to be received is lost."""
        self._outgoing.close_sender()
        self._incoming.close_receiver()
        await trio.lowlevel.checkpoint()


def memory_channel_pair() -> tuple[MemoryChannel, MemoryChannel]:
    """Return the two ends of a new connection in memory: the client's, the server's."""
    to_server, to_client = _Direction(), _Direction()
    return (
        MemoryChannel("the server in this process", to_server, to_client),
        MemoryChannel("the client in this process", to_client, to_server),
    )
