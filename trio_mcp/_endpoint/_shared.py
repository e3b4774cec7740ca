"""What processes that serve one server together keep in one store: who they are, sessions, events and tasks.

Who joins a store is in `_workers/_members`; the stores are `_workers/_sqlite_store` and `_workers/_redis_store`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, final

import attrs

from .._server._task_store import SharedTaskStore
from ._event_store import EventStore


@final
@attrs.frozen
class TakenSession:
    """A session that another process had, and that is now one of this process.

    Attributes:
        data: What is kept of it.
        turn: How often it was taken, this time included: 1 for the first.
    """

    data: bytes
    turn: int


class SessionStore(Protocol):
    """Keeps what it takes to go on with a session of the legacy era in another process.

    Each session belongs to one process. What cannot be done now, for want of room or because there is no answer
    in time, is a `RequestError` with `SERVER_BUSY`.
    """

    async def keep(self, id: str, data: bytes) -> bool:
        """Keep a session of this process, new or in place of what was kept of it.

        Returns whether it is one of this process: false if another one has taken it.
        """
        ...

    async def find(self, id: str) -> bytes | None:
        """Return what is kept of a session, whosever it is; `None` if there is none."""
        ...

    async def take(self, id: str) -> TakenSession | int | None:
        """Make a session one of this process, if no other has it that is not gone.

        Of several that take it at the same time one gets it. A process takes what is its own already if it had
        to let it go before it could serve it.

        Returns:
            The session; or the number of the other process that has it and is not gone; or `None` if there is no
            such session.
        """
        ...

    async def release(self, id: str) -> None:
        """Let any process take a session, if it is one of this process: it is served here no longer."""
        ...

    async def forget(self, id: str) -> None:
        """Keep a session no longer, if it is one of this process. Its events stay; they are the event store's."""
        ...


class SharedStore(Protocol):
    """A store, as a process that has joined it sees it.

    Attributes:
        number: The number of this process. No other process of the store ever has it, before or after.
        secret: What all processes of the store know, and nobody else: 32 random bytes.
        sessions: Their sessions.
        events: The events of these. They stay when this process leaves, until they are forgotten or too old.
        tasks: Their tasks.
        host: The address of this machine at which the other processes reach this one; `None` if all are on it.
        folder: A folder that all of them reach if they are on one machine; `None` for that of temporary files,
            of which there may be several: units of systemd, and containers, have their own.
        on_doubt: Called when this process is back that others may have taken for gone. Must not wait.
    """

    number: int
    secret: bytes
    sessions: SessionStore
    events: EventStore
    tasks: SharedTaskStore
    host: str | None
    folder: str | None
    on_doubt: Callable[[], object]

    async def announce(self, address: str) -> None:
        """Say where this process listens for the others, once. Until then they do not see it.

        It is gone when it has left the store, or, where its host can vanish, when it was not heard of for longer
        than a lease.
        """
        ...

    async def others(self) -> Mapping[int, str]:
        """Return the numbers and addresses of the other processes that are not known to be gone."""
        ...

    async def address_of(self, number: int) -> str | None:
        """Return where a process listens; `None` if it is gone, or was never there."""
        ...

    async def gone(self, number: int) -> bool:
        """Note that a process is gone, whose address nothing listens at: its sessions can be taken.

        Returns false if it is known to live: then it is not reached in the right way.
        """
        ...
