"""``bridge``: a proxy before any target, served by any listener."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from .._client._open import reconnecting
from .._printable import shown_url
from .._proxy._proxy import Proxy
from .._server._lifetimes import Shutdown
from .._server._serve import run_until_signal
from .._server._server import serve_stdio
from ._console import Console
from ._frames import open_frame_log
from ._login import with_login
from ._parser import MAX_PORT, Exit, Failure, Options, check_standard_streams
from ._targets import ServedFile, target_of

STDIO: Final = "stdio"


class Serve(Protocol):
    """Serves a proxy until its `Shutdown` ends it."""

    async def __call__(self, proxy: Proxy, /, *, shutdown: Shutdown) -> None:
        """Serve."""
        ...


def bridge(options: Options) -> int:
    """Serve a proxy until its client goes or a signal ends it. Returns the exit status.

    Raises:
        Failure: The listener or the target stands for nothing, or the address cannot be listened on.
        SystemExit: See `run_until_signal`.
    """
    serve = _listener(options)
    if options.listener == STDIO:
        check_standard_streams()
    else:
        logging.basicConfig(level=logging.INFO, format="%(message)s")  # where it can be reached is logged
    try:
        run_until_signal(partial(_serve, options, serve))
    except (OSError, RuntimeError) as error:  # Trio raises the latter where there are no Unix sockets
        raise Failure(Exit.FAILED, str(error)) from None
    return Exit.DONE


async def _serve(options: Options, serve: Serve, *, shutdown: Shutdown) -> None:
    console = Console()
    target, label = await target_of(options, stderr=console.quote_line)
    if options.auth:
        target = with_login(target, label, options)
    if isinstance(target, ServedFile):
        target = target.process
    with open_frame_log(console, is_wire=options.wire, record=options.record) as on_frame:
        try:
            proxy = Proxy(reconnecting(target), on_frame=on_frame)
        except ValueError as error:
            raise Failure(Exit.USAGE, f"{label}: {error}") from None
        await serve(proxy, shutdown=shutdown)


# Listeners. What serves them is loaded when one is named: a bridge on standard input and output needs no HTTP.


def _listener(options: Options) -> Serve:
    """Return what serves a listener.

    Raises:
        Failure: There is no such listener.
    """
    name = options.listener
    if name == STDIO:
        return serve_stdio
    try:
        parts = urlsplit(name)
        (parts.hostname or "").encode("idna")  # as the resolver of names does
    except ValueError:
        raise _no_listener(name) from None
    try:
        port = parts.port
    except ValueError:
        raise Failure(
            Exit.USAGE, f"the port of FROM must be a number from 0 to {MAX_PORT}: {shown_url(name)}"
        ) from None
    if "://" not in name or parts.query or parts.fragment or "@" in parts.netloc:
        raise _no_listener(name)
    if parts.scheme == "unix" and not parts.netloc and parts.path:
        return _on_unix_socket(unquote(parts.path))
    host = parts.hostname
    if host is None or port is None:
        raise _no_listener(name)
    if parts.scheme == "tcp" and parts.path in {"", "/"}:
        return _on_tcp(host, port)
    if parts.scheme in {"http", "sse", "ws"}:
        return _on_http(parts, host, port, options.allow_host or ())
    raise _no_listener(name)


def _on_unix_socket(path: str) -> Serve:
    from .._hosts._serve_sockets import serve_unix

    async def serve(proxy: Proxy, /, *, shutdown: Shutdown) -> None:
        await serve_unix(proxy, path, shutdown=shutdown)

    return serve


def _on_tcp(host: str, port: int) -> Serve:
    from .._hosts._serve_sockets import serve_tcp

    async def serve(proxy: Proxy, /, *, shutdown: Shutdown) -> None:
        await serve_tcp(proxy, host, port, shutdown=shutdown)

    return serve


def _on_http(parts: SplitResult, host: str, port: int, allowed: Sequence[str]) -> Serve:
    from .._core._http_rules import LOCAL_HOSTS, HttpServerSettings
    from .._hosts._serve_http import serve_http, serve_websocket

    options: dict[str, Any] = {"sse": parts.scheme == "sse"}
    if parts.path not in {"", "/"}:
        options["path"] = parts.path
    if allowed:
        options["allowed_hosts"] = LOCAL_HOSTS | frozenset(allowed)
    try:
        settings = HttpServerSettings(**options)
    except ValueError as error:
        raise Failure(Exit.USAGE, str(error)) from None

    async def serve(proxy: Proxy, /, *, shutdown: Shutdown) -> None:
        if parts.scheme == "ws":
            await serve_websocket(proxy, host, port, settings=settings, shutdown=shutdown)
        else:
            await serve_http(proxy, host, port, http="lean", settings=settings, shutdown=shutdown)

    return serve


def _no_listener(name: str) -> Failure:
    return Failure(
        Exit.USAGE,
        f"clients cannot come in at {shown_url(name)}: FROM is stdio, http://HOST:PORT/PATH, sse://HOST:PORT, "
        "ws://HOST:PORT/PATH, tcp://HOST:PORT or unix:///PATH",
    )
