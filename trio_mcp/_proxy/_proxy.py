"""The proxy: what it stands before, and how it runs. One connection of a client is in `_session`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, final

from .._client._open import Target, connector_for
from .._core._http1 import HeaderMark, MarkedTools
from .._core._lifecycle import Agreement
from .._core._sealing import Sealer
from .._limits import Limits
from .._peer._middleware import Middleware
from .._peer._send_queue import OnFrame
from .._revisions import Revision
from .._server._lifetimes import Background
from .._server._parking import Lifetime, Service, open_service
from .._server._server import Servable
from ._session import ProxySession
from ._upstream import Upstreams, WayToServer


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
    target's ``restart`` says; a session's log level and subscriptions are then restored.

    The target's credentials, such as header fields, are the proxy's: whoever may use the proxy uses them. Those
    of its clients are not forwarded.

    Args:
        target: The server: whatever `open_client` takes. A `Channel` can serve one client, once.
        limits: What each connection, on either side, may cost. `Limits.max_upstreams` bounds how many there are
            to the server: if the target is a process, as many processes.
        middleware: Wraps every request and notification, from clients and to them; the first is the outermost.
        on_frame: Called with ``"sent"`` or ``"received"`` and each message between the proxy and the server.

    Raises:
        TypeError: There can be no client on such an object.
        ValueError: It is a string, and not a URL that can be opened.

    Spec: 2026-07-28, basic/versioning; 2025-11-25, basic/lifecycle. No section is about proxies.
    """

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits | None = None,
        middleware: Sequence[Middleware] = (),
        on_frame: OnFrame | None = None,
    ) -> None:
        self._limits = Limits() if limits is None else limits
        self._way = WayToServer(connector_for(target), self._limits, on_frame)
        # Of every client alike. The server checks what is not known here: a tool that no client has listed.
        self._tools = MarkedTools(self._limits.max_remembered_bytes // 8)
        self._sealer = Sealer(None)
        self._services = []
        self.middleware: tuple[Middleware, ...] = tuple(middleware)

    @property
    def limits(self) -> Limits:
        """Limits of each connection."""
        return self._limits

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions that clients may speak: all."""
        return tuple(Revision)

    def marks_of(self, method: str, params: Mapping[str, Any]) -> tuple[HeaderMark, ...]:
        """Return which arguments of a request header fields carry, over HTTP, as far as tools were listed."""
        return self._tools.marks_of(method, params)

    @asynccontextmanager
    async def open_service(self, lifetime: Lifetime | None = None) -> AsyncGenerator[Service[Any]]:
        """Run it: all connections to the server end with the body."""
        opening: Any = open_service("proxy", nullcontext(), self._sealer, self._limits, lifetime)
        async with opening as service:
            places = service.account.places(
                "upstreams",
                "max_upstreams",
                self._limits.max_upstreams,
                self._limits.max_upstreams_per_principal,
                "max_upstreams_per_principal",
            )
            service.state = Upstreams(self._way, self._tools, service.background, places)
            self._services.append(service)
            try:
                yield service
            finally:
                self._services.remove(service)

    def new_session(
        self,
        service: Service[Any],
        background: Background,
        assumed: Agreement | None = None,
        *,
        holder: str | None = None,
        keep: Callable[[int], object] | None = None,
    ) -> ProxySession:
        """Return what dispatches the messages of one client; see `serve_beside`."""
        del keep  # its subscriptions are the server's
        return ProxySession(self.revisions, service, background, assumed, holder)
