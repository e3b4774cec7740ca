"""The proxy: what it stands before, and how it runs. One connection of a client is in `_session`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, final

from .._client._open import Target, connector_for, reconnecting
from .._core._cache import MarkedTools
from .._core._lifecycle import Agreement
from .._core._sealing import Sealer
from .._limits import Limits, check_given
from .._peer._middleware import Middleware
from .._peer._send_queue import OnFrame
from .._revisions import Revision
from .._server._lifetimes import Background, Lifetime
from .._server._parking import Service, open_service
from .._server._permits import read_throttle
from .._server._server import Hosted, Servable
from .._server._task_store import TaskStore
from ._session import ProxySession
from ._upstream import UpstreamOptions, Upstreams


@final
class Proxy(Servable[None]):
    """Stands before another server, and forwards everything to it; served as a `Server` is.

    ::

        Proxy("https://example.com/mcp").run()  # stdio, for hosts that know nothing else
        Proxy(StdioServerParameters("weather-server")).run("streamable-http", port=8000)

    Clients get the server's own capabilities, name and instructions. Requests, notifications, results and errors
    pass in both directions as they are, those of extensions and methods that nobody knows included, and so do
    questions, progress, log messages and subscriptions. Nothing is checked against schemas, nothing is cached.
    The two sides may speak different revisions: a server of the legacy era may serve modern clients and the
    reverse.

    A deadline or a cancellation that reaches the proxy reaches the server, exactly once. Each session of a client
    has a connection to the server of its own, made in the client's name, with its capabilities; clients without
    sessions (2026-07-28) share one as long as they are the same principal, or address, with the same name and
    capabilities. A connection that is lost fails the requests that are under way, and is made again as the
    target's ``restart`` says, or in ten attempts if the target is a URL; a session's log level and subscriptions
    are then restored.

    The target's credentials, such as header fields, are the proxy's: whoever may use the proxy uses them. Those
    of its clients are not forwarded.

    Args:
        target: The server: whatever `open_client` takes. A `Channel` can serve one client, once.
        rate: How often each client may send requests, such as ``"600/minute"``, as of a `Server`. Further ones
            are refused here and not forwarded. Default: `None`, for any number.
        limits: What each connection, on either side, may cost. `Limits.max_upstreams` bounds how many there are
            to the server: if the target is a process, as many processes.
        middleware: Wraps every request and notification, from clients and to them; the first is the outermost.
        on_frame: Called with ``"sent"`` or ``"received"`` and each message between the proxy and the server.

    Raises:
        TypeError: There can be no client on such an object, or the rate is no text.
        ValueError: The target is a string, and not a URL that can be opened; or the rate is no rate.

    Spec: 2026-07-28, basic/versioning; 2025-11-25, basic/lifecycle. No section is about proxies.
    """

    def __init__(
        self,
        target: Target,
        *,
        rate: str | None = None,
        limits: Limits | None = None,
        middleware: Sequence[Middleware] = (),
        on_frame: OnFrame | None = None,
    ) -> None:
        check_given(Proxy.__init__, locals())
        self._limits = Limits() if limits is None else limits
        self._throttle = read_throttle(rate, "the proxy")
        connector = connector_for(reconnecting(target) if isinstance(target, str) else target)
        self._options = UpstreamOptions(connector, self._limits, on_frame)
        # Of every client alike. The server checks what is not known here: a tool that no client has listed.
        self._tools = MarkedTools()
        self._sealer = Sealer(None)
        self.middleware: tuple[Middleware, ...] = tuple(middleware)
        self._hosted = Hosted(self, self._limits, self._new_service, self._new_session, self._tools.marks_of)

    @property
    def limits(self) -> Limits:
        """Limits of each connection."""
        return self._limits

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions that clients may speak, which are all."""
        return tuple(Revision)

    @asynccontextmanager
    async def _new_service(
        self, lifetime: Lifetime | None, tasks: TaskStore | None
    ) -> AsyncGenerator[Service[Any]]:
        """Open it: all connections to the server end with the body. Tasks are the server's."""
        del tasks
        opening: Any = open_service("proxy", nullcontext(), self._sealer, self._limits, lifetime)
        async with opening as service:
            places = service.account.places(
                "upstreams",
                "max_upstreams",
                self._limits.max_upstreams,
                self._limits.max_upstreams_per_principal,
                "half of max_upstreams",
            )
            service.state = Upstreams(self._options, self._tools, service.background, places)
            yield service

    def _new_session(
        self,
        service: Service[Any],
        background: Background,
        assumed: Agreement | None = None,
        *,
        client: str | None = None,
        keep: Callable[[int], object] | None = None,
    ) -> ProxySession:
        """Return what dispatches the messages of one client; see `Hosted.serve_beside`."""
        del keep  # its subscriptions are the server's
        return ProxySession(self.revisions, service, background, assumed, client, self._throttle)
