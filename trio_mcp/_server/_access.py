"""What is told of the requests that a server serves: a record of each that is over, a view of the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, final

import attrs
import trio

from .._audit import ACCESS, Records, is_wanted
from .._channel import Channel, Origin, client_of
from .._codec._jsonrpc import Request
from .._core._http1 import version_of
from .._core._lifecycle import target_of
from .._peer._exchange import Exchange, Reply
from .._peer._peer import Peer
from .._revisions import Revision

PARKED: Final = "the client's next request"
LONG_LIVED: Final = "one of the two sides to end it"


class HasRevision(Protocol):
    """What knows the revision of a connection."""

    @property
    def revision(self) -> Revision | None:
        """The revision of its handshake; `None` without one."""
        ...


@final
@attrs.frozen
class AccessLog:
    """Writes one record under ``trio_mcp.access`` for each request of one connection, or of one endpoint.

    It is an `OnServed`, made by `access_log`.
    """

    _records: Records
    _server: str
    _transport: str
    _session: HasRevision | None

    def __call__(self, request: Request, origin: Origin | None, received_at: float, reply: Reply | None) -> None:
        """Write the record."""
        if reply is None:
            outcome = "cancelled"
        elif reply.error_code is not None:
            outcome = "error"
        else:
            outcome = "tool error" if reply.is_failure else "result"
        self._records.write(
            {
                "method": request.method,
                "target": target_of(request.params),
                "outcome": outcome,
                "code": None if reply is None else reply.error_code,
                "duration": trio.current_time() - received_at,
                "bytes": None if reply is None else len(reply.data),
                "revision": version_of(request.params) or getattr(self._session, "revision", None),
                "server": self._server,
                "transport": self._transport,
                "client": client_of(origin),
                "principal": None if origin is None else origin.principal,
            }
        )


def access_log(
    records: Records, server: str, transport: str, session: HasRevision | None = None
) -> AccessLog | None:
    """Return what writes the records of a connection; `None` if no program wants them now.

    Args:
        records: Writes those of all connections of a running server.
        server: The server's name.
        transport: The transport's name.
        session: Knows the revision of requests that do not name theirs.
    """
    return AccessLog(records, server, transport, session) if is_wanted(ACCESS) else None


# What is running now.


@final
@attrs.frozen
class RequestActivity:
    """A request being served, a task that runs, or a handler that waits between two requests of its client.

    Attributes:
        method: Its method.
        target: The name of the tool or prompt, or the URI, if it has one.
        seconds: For how long it has been served. Of one that is parked, since the latest of its requests.
        waits_for: What its handler waits for, as far as that is known: ``"the client: elicitation/create"``, or
            another question; ``"the client's next request"``, if it is parked; ``"a thread"``, in which its
            function runs; ``"a place for a thread"``, as `Limits.max_threads` run; ``"one of the two sides to end
            it"``, as for a subscription. `None` if it runs, or waits for something of its own.
        transport: The transport; `None` if it is parked, or a task.
        client: The address of the client, if the transport knows it.
        principal: Who the client is, if that is known.
    """

    method: str
    target: str | None
    seconds: float
    waits_for: str | None
    transport: str | None
    client: str | None
    principal: str | None


@final
@attrs.frozen
class SessionActivity:
    """A connection, or a session over HTTP.

    Attributes:
        description: A name for it, as in the logs.
        transport: The transport.
        client_key: The client that memory is lent to for it: the principal, or the address; `None` where the
            connection counts by itself.
        revision: The revision of its handshake; `None` without one, as in the modern era.
        seconds: For how long it has been open.
        requests: How many requests are being served.
        standing: How many subscriptions and other long-lived requests are open.
        waiting: How many requests wait for a place (`Limits.max_inbound_requests`).
    """

    description: str
    transport: str
    client_key: str | None
    revision: Revision | None
    seconds: float
    requests: int
    standing: int
    waiting: int


@final
@attrs.frozen
class ServerActivity:
    """What a server is doing now.

    Attributes:
        sessions: Its connections and sessions, oldest first. Modern requests over HTTP have none.
        requests: The requests that are being served, and handlers that are parked; those that take longest first.
    """

    sessions: tuple[SessionActivity, ...]
    requests: tuple[RequestActivity, ...]


class Watched(Protocol):
    """What is open: a connection, or the endpoint for modern requests."""

    def activity(self) -> SessionActivity | None:
        """Return what it is doing now, if it is a session."""
        ...

    def requests(self) -> Iterable[RequestActivity]:
        """Return the requests that are being served over it."""
        ...


@final
@attrs.define(eq=False, weakref_slot=False)
class WatchedSession:
    """One connection, as long as it is open.

    Args:
        peer: The connection.
        channel: Its channel.
        client: The client that memory is lent to for it.
        session: Dispatches its messages.
    """

    _peer: Peer
    _channel: Channel
    _client: str | None
    _session: HasRevision
    _since: float = attrs.field(factory=trio.current_time, init=False)

    def activity(self) -> SessionActivity:
        """Return what it is doing now."""
        counted = self._peer.statistics()
        return SessionActivity(
            self._channel.description,
            self._channel.transport,
            self._client,
            self._session.revision,
            trio.current_time() - self._since,
            counted.exchanges,
            counted.standing,
            counted.waiting,
        )

    def requests(self) -> Iterable[RequestActivity]:
        """Return the requests that are being served over it."""
        return (activity_of(exchange, self._channel.transport) for exchange in self._peer.exchanges())


def activity_of(exchange: Exchange, transport: str | None, waits_for: str | None = None) -> RequestActivity:
    """Return what a request that is being served is doing now."""
    request, origin = exchange.request, exchange.origin
    if exchange.on_drain is not None:
        waits_for = LONG_LIVED
    return RequestActivity(
        request.method,
        target_of(request.params),
        trio.current_time() - exchange.received_at,
        waits_for or exchange.waits_for,
        transport,
        client_of(origin),
        None if origin is None else origin.principal,
    )


def activity_in(
    watched: Iterable[Watched], parked: Iterable[RequestActivity]
) -> tuple[list[SessionActivity], list[RequestActivity]]:
    """Return the sessions and requests of one running server."""
    sessions: list[SessionActivity] = []
    requests = list(parked)
    for each in watched:
        session = each.activity()
        if session is not None:
            sessions.append(session)
        requests += each.requests()
    return sessions, requests
