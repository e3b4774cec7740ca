"""`run_workers`: a program that several processes run."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from .._auth._verifiers import ResourceServer
from .._core._http_rules import HttpHost, HttpServerSettings
from .._core._reconnect import RestartPolicy
from .._endpoint._call import Authenticate
from .._endpoint._event_store import EventStore
from .._endpoint._groups import Store
from .._endpoint._routes import Routes
from .._hosts._serve_http import Site, url_of
from .._http._asgi import AsgiApplication
from .._limits import check_given, check_whole
from .._server._server import Servable
from .._trio import check_nothing_runs

if sys.platform != "win32":
    from ._supervisor import supervise
    from ._worker import serve_as_worker, taken_assignment


def run_workers(
    server: Servable[Any],
    host: str | None = "127.0.0.1",
    port: int = 8000,
    *,
    workers: int,
    http: HttpHost = "hypercorn",
    settings: HttpServerSettings | None = None,
    ssl_context: ssl.SSLContext | None = None,
    unix_path: str | os.PathLike[str] | None = None,
    unix_mode: int = 0o600,
    authenticate: Authenticate | None = None,
    auth: ResourceServer | None = None,
    event_store: EventStore | None = None,
    store: Store | None = None,
    routes: Routes | AsgiApplication | None = None,
    restart: RestartPolicy | None = None,
) -> None:
    """Run a program that serves HTTP in several processes: ``run_workers(server, workers=4)``.

    Signals end it. The processes listen on one socket, and clients do not notice that there are several: a
    request that goes on with what another process remembers is forwarded to that one, with its streams. What is
    told of changes in one is told to the clients of all. The rest each has for itself: limits and rates, the
    lifespan and what the program keeps in variables. See the chapter on deployment.

    This process starts the workers and does not serve. Each worker is this program once more, from its beginning:
    there this function is called with the same arguments, and serves. So call it in the main thread, where the
    program ends with it: under ``if __name__ == "__main__":``.

    A worker that dies is started again; its sessions have ended, and its clients begin others. SIGHUP replaces
    the workers one after another by new ones, which read the program anew; no request is lost. SIGTERM and
    SIGINT end all of them, as they end one process; see `run_until_signal`. If this process is killed, they end
    as well.

    Args:
        server: The server.
        host: The name or address to listen on; see `serve_http`.
        port: The port; 0 for one that is free.
        workers: How many processes serve.
        http: See `serve_http`, as for what follows. All of it is used in each worker.
        settings: What is served, to whom, and what it may cost one worker.
        ssl_context: The certificate for TLS.
        unix_path: A Unix socket to listen on instead.
        unix_mode: Who may connect to that.
        authenticate: Authenticates each request; one that is forwarded, in both processes.
        auth: Protects the server by OAuth, instead.
        event_store: Keeps events for clients of the legacy era.
        store: See `serve_http`: then sessions, events and tasks outlive a worker, and other processes can join.
        routes: What is served at other paths.
        restart: With which pauses a worker that died is started again, and how often in a row without having
            served. Default: `RestartPolicy()`.

    Raises:
        SystemExit: With status 1, if the workers fail before they serve; with status 130 after SIGINT.
        OSError: The address cannot be listened on.
        RuntimeError: It is called inside Trio or asyncio, or this is Windows.
        TypeError: `workers` or `port` is no whole number.
        ValueError: `workers` is less than 1, or there is no such port.
    """
    check_given(run_workers, locals())
    check_whole("workers", workers)
    check_nothing_runs("run_workers()", "trio_mcp.serve_http", "server, ...")
    if sys.platform == "win32":
        raise RuntimeError("run_workers() needs processes that inherit sockets; on Windows there are none")
    else:
        site = Site(
            server,
            host,
            port,
            http,
            HttpServerSettings() if settings is None else settings,
            ssl_context=ssl_context,
            unix_path=unix_path,
            unix_mode=unix_mode,
            authenticate=authenticate,
            auth=auth,
            event_store=event_store,
            store=store,
            routes=routes,
        )
        taken = taken_assignment()
        if taken is not None:
            serve_as_worker(taken, site)
            return
        command = [sys.executable, *sys.orig_argv[1:]]
        supervise(command, workers, (host, port, unix_path, unix_mode), site.url_at, restart)


def url_over_http(
    settings: HttpServerSettings, ssl_context: ssl.SSLContext | None = None
) -> Callable[[trio.SocketListener], str]:
    """Return a function that returns the URL of a listener."""
    return partial(url_of, protocol="http", ssl_context=ssl_context, path=settings.path)
