"""What has changed in a server, and everybody who wants to be told.

One hub per server. It knows who wants what, and remembers for each of them what is still to be said. It says
nothing itself and knows no connection and no era: that is the business of those who receive.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from .._codec._jsonrpc import Encoded, encode_notification
from .._limits import Limits

__all__ = ["LIST_CHANGES", "Announcement", "Change", "ChangeHub", "ListKind", "Receiver", "resource_change"]

# How a change travels: whatever has changed calls the hub, synchronously. The hub notes the change with each
# receiver that wants it, where it merges with an equal one that is still to be said, and wakes the receiver. The
# receiver's own task says it, at the pace of its client. What is noted for a receiver is never more than what it
# wants, so a client that reads nothing costs a bounded amount of memory, and nobody any time. Notifications of
# the author's own travel the same way; they do not merge, so the oldest of them makes room.

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]
"""What a server has lists of. Templates count as resources."""


@final
@attrs.frozen
class Change:
    """Something that clients can be told of. Equal changes say the same.

    Attributes:
        method: The notification that tells it.
        uri: The resource that has changed; `None` if it is a list.
    """

    method: str
    uri: str | None = None

    def params(self, meta: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the parameters of the notification."""
        params: dict[str, Any] = {} if meta is None else {"_meta": meta}
        if self.uri is not None:
            params["uri"] = self.uri
        return params or None


@final
@attrs.frozen(eq=False)
class Announcement:
    """A notification of the server's author to all sessions. No two of them are equal.

    Attributes:
        method: The notification.
        encoded: Its parameters.
        size: How many bytes it is as a message.
    """

    method: str
    encoded: Encoded | None
    size: int

    @classmethod
    def of(cls, method: str, encoded: Encoded | None) -> Announcement:
        """Return a notification with its size."""
        return cls(method, encoded, len(encode_notification(method, encoded)))


@final
class _Announcements:
    """Announcements that are still to be sent, within bounds: a new one costs the oldest."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._line: deque[Announcement] = deque()
        self._bytes = 0

    def add(self, one: Announcement) -> list[Announcement]:
        """Add one, and return those that had to make room."""
        limits, dropped = self._limits, list[Announcement]()
        self._line.append(one)
        self._bytes += one.size
        while len(self._line) > limits.max_announcements or (
            self._bytes > limits.max_announcement_bytes and len(self._line) > 1
        ):
            dropped.append(self.take())
        return dropped

    def take(self) -> Announcement:
        """Return the oldest, which is there no longer."""
        one = self._line.popleft()
        self._bytes -= one.size
        return one

    def __len__(self) -> int:
        return len(self._line)


LIST_CHANGES: Final[dict[ListKind, Change]] = {
    "tools": Change("notifications/tools/list_changed"),
    "prompts": Change("notifications/prompts/list_changed"),
    "resources": Change("notifications/resources/list_changed"),
}


def resource_change(uri: str) -> Change:
    """Return the change of one resource."""
    return Change("notifications/resources/updated", uri)


@final
class Receiver:
    """Somebody who is told of changes. Made by `ChangeHub.receiver`; of use only to tasks of its Trio run.

    Args:
        audience: Who is told in this run.
        wake: Called when there is something to say and there was nothing before. Must not wait.
    """

    def __init__(self, audience: _Audience, wake: Callable[[], object]) -> None:
        self._audience = audience
        self._wake = wake
        self._wanted: set[Change] = set()
        self._pending: dict[Change | Announcement, None] = {}
        self._announcements: _Announcements | None = None

    def want(self, change: Change) -> None:
        """Be told of this from now on; asking twice is asking once."""
        self._wanted.add(change)
        self._audience.add(change, self)

    def forget(self, change: Change) -> None:
        """Be told of this no longer, not even what is still to be said."""
        self._wanted.discard(change)
        self._pending.pop(change, None)
        self._audience.discard(change, self)

    def want_announcements(self) -> None:
        """Be sent the notifications of the server's author from now on."""
        self._audience.sessions[self] = None

    def announce(self, one: Announcement, limits: Limits) -> int:
        """Remember to send this, and return how many others are not sent for it."""
        if self._announcements is None:
            self._announcements = _Announcements(limits)
        dropped = self._announcements.add(one)
        for other in dropped:
            self._pending.pop(other, None)
        was_idle = not self._pending
        self._pending[one] = None
        if was_idle:
            self._wake()
        return len(dropped)

    def forget_all(self) -> None:
        """Be told of nothing any more."""
        self._audience.sessions.pop(self, None)
        for change in tuple(self._wanted):
            self.forget(change)

    def note(self, change: Change) -> None:
        """Remember to say this, once; what was first to be said is said first."""
        was_idle = not self._pending
        self._pending[change] = None
        if was_idle:
            self._wake()

    def take(self) -> Change | Announcement | None:
        """Return what is to be said next; it is not said again unless it happens again."""
        due = next(iter(self._pending), None)
        if due is not None:
            del self._pending[due]
        if isinstance(due, Announcement):
            assert self._announcements is not None
            self._announcements.take()  # they are pending in the same order
        return due


@final
class _Audience:
    """Who wants to be told what, in one Trio run.

    Attributes:
        receivers: How many there are.
        sessions: Those of them that are sent announcements.
        dropped: Announcements that were not sent to one of them.
    """

    def __init__(self, limits: Limits) -> None:
        self.receivers = 0
        self.sessions: dict[Receiver, None] = {}
        self.dropped = 0
        self._limits = limits
        self._lock = threading.Lock()
        self._from_threads = _Announcements(limits)
        self._who: dict[Change, dict[Receiver, None]] = {}

    def add(self, change: Change, receiver: Receiver) -> None:
        self._who.setdefault(change, {})[receiver] = None

    def discard(self, change: Change, receiver: Receiver) -> None:
        receivers = self._who.get(change)
        if receivers is not None:
            receivers.pop(receiver, None)
            if not receivers:
                del self._who[change]

    def tell(self, change: Change) -> None:
        for receiver in self._who.get(change, ()):
            receiver.note(change)

    def hand_over(self, one: Announcement) -> None:
        """Leave an announcement of another thread for `take_over`. From any thread."""
        with self._lock:
            self.dropped += len(self._from_threads.add(one))

    def take_over(self) -> None:
        """Send what other threads have left."""
        with self._lock:
            due = [self._from_threads.take() for _ in range(len(self._from_threads))]
        for one in due:
            self.announce(one)

    def announce(self, one: Announcement) -> None:
        for receiver in self.sessions:
            self.dropped += receiver.announce(one, self._limits)


@final
class ChangeHub:
    """Passes on what has changed in a server, to all its connections.

    A server may be served by several Trio runs at once, and changed from any thread. Each run has an audience of
    its own, which only its own tasks touch; from anywhere else the change is handed to the run.

    Args:
        limits: How many announcements may wait for a session.

    Attributes:
        knows: Tells whether there is a resource of this URI, where somebody knows; else every URI may be
            subscribed to.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = Limits() if limits is None else limits
        self._dropped = 0
        self.knows: Callable[[str], bool] | None = None
        self._audiences: dict[trio.lowlevel.TrioToken, _Audience] = {}
        self._lock = threading.RLock()  # held for a few instructions; a signal handler may come in between

    @property
    def receivers(self) -> int:
        """How many are listening, in all runs."""
        return sum(audience.receivers for audience in self._copy().values())

    @contextmanager
    def receiver(self, wake: Callable[[], object]) -> Generator[Receiver]:
        """Have a receiver for as long as the block runs, in a task of a Trio run.

        Args:
            wake: Called when there is something to say and there was nothing before. Must not wait.
        """
        token = trio.lowlevel.current_trio_token()
        with self._lock:
            audience = self._audiences.setdefault(token, _Audience(self._limits))
            audience.receivers += 1
        receiver = Receiver(audience, wake)
        try:
            yield receiver
        finally:
            receiver.forget_all()
            with self._lock:
                audience.receivers -= 1
                if not audience.receivers:
                    del self._audiences[token]
                    self._dropped += audience.dropped

    def list_changed(self, kind: ListKind) -> None:
        """Say that a list has changed. From any thread; never waits, and nothing happens while nobody is served.

        Raises:
            KeyError: There is no such list.
        """
        self._tell(LIST_CHANGES[kind])

    def resource_updated(self, uri: str) -> None:
        """Say that a resource has changed. From any thread; never waits."""
        self._tell(resource_change(uri))

    @property
    def dropped(self) -> int:
        """Announcements that were not sent to a session, because it did not read those before."""
        return self._dropped + sum(audience.dropped for audience in self._copy().values())

    def announce(self, one: Announcement) -> None:
        """Send a notification to all sessions. From any thread; never waits."""
        here = _current_run()
        for token, audience in self._copy().items():
            if token is here:
                audience.announce(one)
            else:
                audience.hand_over(one)
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(audience.take_over, idempotent=True)

    def _tell(self, change: Change) -> None:
        here = _current_run()
        for token, audience in self._copy().items():
            if token is here:
                audience.tell(change)
            else:
                # Equal changes merge on this way, too. A run that is over has nobody to tell.
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(audience.tell, change, idempotent=True)

    def _copy(self) -> dict[trio.lowlevel.TrioToken, _Audience]:
        with self._lock:
            return dict(self._audiences)


def _current_run() -> trio.lowlevel.TrioToken | None:
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None
