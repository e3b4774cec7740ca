"""What an endpoint needs to know of a group of processes that serve one server together; see `_workers`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from .._codec._jsonrpc import Request
from .._server._parking import Service
from .._server._server import Hosted
from ._call import HttpCall, RequestSlot
from ._legacy import LegacySessions
from ._shared import SharedStore

Answers: TypeAlias = Callable[[HttpCall, RequestSlot], Awaitable[None]]
"""Answers an HTTP request."""

ServesModern: TypeAlias = Callable[[HttpCall, Request], Awaitable[None]]
"""Answers a request of the modern era."""


Decodes: TypeAlias = Callable[[HttpCall, bytes], Any]
"""Decodes the body of a request, and checks whether its client may send it."""


class Group(Protocol):
    """A process of a group, as its endpoint sees it.

    Attributes:
        store: Where the group keeps sessions that outlive their process; `None` if they end with it.
    """

    @property
    def store(self) -> SharedStore | None: ...

    def secret(self, purpose: str) -> bytes:
        """Return a secret that the group shares, for one purpose."""
        ...

    def join(self, service: Service[Any], served: Hosted) -> None:
        """Have a server that runs say in what its clients carry which process remembers it."""
        ...

    def serving(self, endpoint: Any) -> AbstractAsyncContextManager[None]:
        """Serve what other processes forward to an endpoint while a block runs."""
        ...

    def by_session(self, answer: Answers, sessions: LegacySessions) -> Answers:
        """Forward requests of sessions that other processes have, and have the others answered."""
        ...

    def by_query(self, answer: Answers) -> Answers:
        """The same for HTTP+SSE, where the session is in the query."""
        ...

    def by_state(self, decode: Decodes, serve: ServesModern) -> tuple[Decodes, ServesModern]:
        """Forward modern requests that go on with what other processes have, and have the others served.

        They are forwarded as they were received: a proof may have a digest of the body.
        """
        ...


Table: TypeAlias = dict[str, dict[str, Answers]]
"""What answers requests, by path and method."""


def among(group: Group, routes: Table, sessions: LegacySessions, messages_path: str) -> Table:
    """Return routes by which requests are forwarded that belong to what other processes remember.

    Args:
        group: The group.
        routes: Those by which this process answers.
        sessions: The sessions of this process.
        messages_path: Where messages to sessions of HTTP+SSE are posted.
    """
    found: Table = {}
    for path, methods in routes.items():
        is_2024 = path == messages_path
        found[path] = {
            method: group.by_query(answer) if is_2024 else group.by_session(answer, sessions)
            for method, answer in methods.items()
        }
    return found


class Store(Protocol):
    """A store that processes join to serve together."""

    def join(self) -> AbstractAsyncContextManager[Group]:
        """Be one of them while a block runs."""
        ...
