"""What has changed in a server, and everybody who wants to be told.

One hub per server. It knows who wants what, and remembers for each of them what is still to be said. It says
nothing itself and knows no connection and no era: that is the business of those who receive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

__all__ = ["LIST_CHANGES", "Change", "ChangeHub", "ListKind", "Receiver", "resource_change"]

# How a change travels: whatever has changed calls the hub, synchronously. The hub notes the change with each
# receiver that wants it, where it merges with an equal one that is still to be said, and wakes the receiver. The
# receiver's own task says it, at the pace of its client. What is noted for a receiver is never more than what it
# wants, so a client that reads nothing costs a bounded amount of memory, and nobody any time.

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
        self._pending: dict[Change, None] = {}

    def want(self, change: Change) -> None:
        """Be told of this from now on; asking twice is asking once."""
        self._wanted.add(change)
        self._audience.add(change, self)

    def forget(self, change: Change) -> None:
        """Be told of this no longer, not even what is still to be said."""
        self._wanted.discard(change)
        self._pending.pop(change, None)
        self._audience.discard(change, self)

    def forget_all(self) -> None:
        """Be told of nothing any more."""
        for change in tuple(self._wanted):
            self.forget(change)

    def note(self, change: Change) -> None:
        """Remember to say this, once; what was first to be said is said first."""
        was_idle = not self._pending
        self._pending[change] = None
        if was_idle:
            self._wake()

    def take(self) -> Change | None:
        """Return what is to be said next; it is not said again unless it happens again."""
        change = next(iter(self._pending), None)
        if change is not None:
            del self._pending[change]
        return change


@final
class _Audience:
    """Who wants to be told what, in one Trio run."""

    def __init__(self) -> None:
        self.receivers = 0
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


@final
class ChangeHub:
    """Passes on what has changed in a server, to all its connections.

    A server may be served by several Trio runs at once, and changed from any thread. Each run has an audience of
    its own, which only its own tasks touch; from anywhere else the change is handed to the run.

    Attributes:
        knows: Tells whether there is a resource of this URI, where somebody knows; else every URI may be
            subscribed to.
    """

    def __init__(self) -> None:
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
            audience = self._audiences.setdefault(token, _Audience())
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

    def list_changed(self, kind: ListKind) -> None:
        """Say that a list has changed. From any thread; never waits, and nothing happens while nobody is served.

        Raises:
            KeyError: There is no such list.
        """
        self._tell(LIST_CHANGES[kind])

    def resource_updated(self, uri: str) -> None:
        """Say that a resource has changed. From any thread; never waits."""
        self._tell(resource_change(uri))

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
