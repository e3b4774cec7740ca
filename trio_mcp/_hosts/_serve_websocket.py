"""Serving WebSockets and nothing else: the listeners, connections and rules of HTTP, with one kind of answer."""

from __future__ import annotations

import os
import ssl
from typing import Any

import attrs
import trio

from .._auth._resource_server import ResourceServer
from .._core._http_rules import HttpServerSettings
from .._endpoint._call import Authenticate
from .._server._lifetimes import Shutdown
from .._server._server import Server
from ._serve_http import serve_endpoint


async def serve_websocket(  # noqa: ASYNC128 - `serve_endpoint` calls started()
    server: Server[Any],
    host: str | None = "127.0.0.1",
    port: int = 8000,
    *,
    path: str | None = None,
    settings: HttpServerSettings | None = None,
    ssl_context: ssl.SSLContext | None = None,
    unix_path: str | os.PathLike[str] | None = None,
    unix_mode: int = 0o600,
    authenticate: Authenticate | None = None,
    auth: ResourceServer | None = None,
    shutdown: Shutdown | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve WebSockets until `shutdown`: ``urls = await nursery.start(serve_websocket, server)``.

    Each connection is one session, of any revision, which ends with it. The handshake passes through the same
    rules as a request over HTTP: `Host` and `Origin`, `authenticate`, and how many connections and sessions there
    may be; a refused one gets a status of HTTP. What fails on one connection ends no other. To serve HTTP at the
    same port, call `serve_http` with ``HttpServerSettings(websocket=True)`` instead.

    At `shutdown` no more connections are accepted, requests are answered within `Limits.drain_timeout`, and the
    remaining ones are cancelled; then each client gets a Close (1001), and has `Limits.goodbye_timeout` to answer
    it. Cancelled, all handlers are cancelled and their cleanup runs. Either way no task, socket or file is left.

    Args:
        server: The server.
        host: The name or address to listen on; `None` for all. Only this machine can reach the default.
        port: The port; 0 for one that is free.
        path: The path of the endpoint; by default that of the settings, ``/mcp``.
        settings: Who is served, and what it may cost. What concerns bodies and streams has no meaning here.
        ssl_context: The certificate for TLS, and whether clients need one; `None` for no TLS.
        unix_path: A Unix socket to listen on instead; see `serve_http`.
        unix_mode: Who may connect to that, as for `chmod`.
        authenticate: Authenticates each handshake; see `serve_http`. Context variables that it sets are those of
            the handlers.
        auth: Protects the server by OAuth: handshakes need access tokens. Instead of `authenticate`.
        shutdown: When to end.
        task_status: Gets the URLs of the endpoint once clients can connect.

    Raises:
        Others: As `serve_http`.

    Spec: RFC 6455; 2026-07-28, basic/transports, "Custom Transports".
    """
    settings = HttpServerSettings() if settings is None else settings
    if path is not None:
        settings = attrs.evolve(settings, path=path)
    await serve_endpoint(
        server,
        host,
        port,
        http="lean",
        settings=settings,
        ssl_context=ssl_context,
        unix_path=unix_path,
        unix_mode=unix_mode,
        authenticate=authenticate,
        auth=auth,
        event_store=None,
        routes=None,
        shutdown=shutdown,
        only_websockets=True,
        task_status=task_status,
    )
