"""The wire of a session of the legacy era: many POSTs towards us, and a stream each, and one more, from us."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

import trio

from .._channel import Channel, Incoming, Origin, Outgoing, Received
from .._errors import ConnectionLost
from ._event_stream import EventStream

__all__ = ["PostOrigin", "SessionChannel"]


@final
class PostOrigin:
    """A POST with requests: what belongs to these goes to its stream.

    Args:
        principal: Who sent it.
        stream: Where its answers go.
        spoken: Where everything else goes that belongs to its requests.
        answered: Called when all its requests are answered.
        is_releasable: Whether its client knows how to come back.
    """

    def __init__(
        self,
        principal: str | None,
        stream: EventStream,
        spoken: EventStream,
        answered: Callable[[], object],
        *,
        is_releasable: bool,
    ) -> None:
        self.principal: Final = principal
        self.answered: Final = answered
        self.stream: Final = stream
        self.spoken: Final = spoken
        self._is_releasable = is_releasable

    def release(self, retry_after: float | None) -> None:
        """Let its connection go; see `ReleasableOrigin`."""
        if self._is_releasable:
            self.stream.release(retry_after)


@final
class SessionChannel(Channel):
    """Takes what POSTs bring, and sorts what is said into the streams it belongs to. Waits for no client.

    Args:
        description: What this is, for logs.
        standalone: The stream for what belongs to no POST.
    """

    def __init__(self, description: str, standalone: EventStream) -> None:
        self._description = description
        self._standalone = standalone
        self._put, self._taken = trio.open_memory_channel[tuple[Incoming, Callable[[], object] | None]](0)
        self._after: Callable[[], object] | None = None

    @property
    def description(self) -> str:
        """What this is."""
        return self._description

    async def put(self, message: Incoming, after: Callable[[], object] | None = None) -> None:
        """Hand over what a POST has brought, and wait until it is taken.

        Args:
            message: The message, or a batch.
            after: Called when it was dealt with, as far as that happens before the next one is.

        Raises:
            trio.BrokenResourceError: The session has ended.
        """
        await self._put.send((message, after))

    async def receive(self) -> Sequence[Received]:
        """Wait for the next message; see `Channel.receive`."""
        after, self._after = self._after, None
        if after is not None:
            after()
        try:
            message, self._after = await self._taken.receive()
        except trio.ClosedResourceError:
            raise ConnectionLost("the session has ended") from None
        return (message,)

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Sort messages into their streams. No checkpoint comes before that."""
        for message in messages:
            origin = message.origin
            if not isinstance(origin, PostOrigin):
                self._standalone.put(message.data)
            elif message.answers:
                origin.stream.put(message.data)
                origin.stream.end()
                origin.answered()
            else:
                origin.spoken.put(message.data)
        await trio.lowlevel.checkpoint()

    def has_room(self, origin: Origin | None) -> bool:
        """Whether more may be said on a stream."""
        return self._spoken(origin).has_room

    async def wait_room(self, origin: Origin | None) -> None:
        """Wait until more may be said on a stream; others do not wait."""
        await self._spoken(origin).wait_room()

    def _spoken(self, origin: Origin | None) -> EventStream:
        return origin.spoken if isinstance(origin, PostOrigin) else self._standalone

    async def aclose(self) -> None:
        """End it: what POSTs bring from now on is refused."""
        self._taken.close()
        await trio.lowlevel.checkpoint()
