"""From a target to a connection: names, sockets, proxies, TLS."""

from __future__ import annotations

import ssl
from typing import Final

import trio

from .._core._http_heads import ReadFields
from .._errors import ConnectionLost
from ._connection import HttpConnection
from ._proxies import open_tunnel, proxy_for
from ._proxy import HttpProxy, read_proxy
from ._settings import HttpSettings
from ._target import HttpTarget

__all__ = ["connect", "system_ssl_context"]

ALPN: Final = ("http/1.1",)


def system_ssl_context() -> ssl.SSLContext:
    """Return a context that trusts whom the system trusts and verifies names. Making it takes milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(list(ALPN))
    return context


async def connect(
    target: HttpTarget, settings: HttpSettings, ssl_context: ssl.SSLContext | None, read_fields: ReadFields
) -> HttpConnection:
    """Open a connection to the origin of a target, through a proxy if the settings or the environment name one.

    Cancelled, it leaves nothing open.

    Raises:
        ConnectionLost: It cannot be reached, takes longer than `HttpSettings.connect_timeout`, is not who it says
            it is, or the proxy refuses.
    """
    try:
        proxy = _proxy_for(target, settings)
    except ValueError as error:
        raise ConnectionLost(f"could not connect to {target.origin}: {error}") from error
    with trio.move_on_after(settings.connect_timeout):
        stream = await _connect(target, proxy, settings, ssl_context, read_fields)
        return HttpConnection(
            stream,
            target.origin,
            max_head_bytes=settings.max_head_bytes,
            read_fields=read_fields,
            through_proxy=None if proxy is None or target.is_secure else proxy.headers,
        )
    through = "" if proxy is None else f" through the proxy {proxy.target.origin}"
    raise ConnectionLost(
        f"could not connect to {target.origin}{through} within {settings.connect_timeout:g} s (connect_timeout)"
    )


def _proxy_for(target: HttpTarget, settings: HttpSettings) -> HttpProxy | None:
    if settings.proxy is not None and target.socket_path is None:
        return read_proxy(settings.proxy)
    return proxy_for(target) if settings.use_environment_proxies else None


async def _connect(
    target: HttpTarget,
    proxy: HttpProxy | None,
    settings: HttpSettings,
    ssl_context: ssl.SSLContext | None,
    read_fields: ReadFields,
) -> trio.abc.Stream:
    stream = await _open_stream(target if proxy is None else proxy.target)
    try:
        if proxy is not None and proxy.target.is_secure:
            stream = await _start_tls(stream, proxy.target, system_ssl_context())
        if proxy is not None and target.is_secure:
            max_head_bytes = settings.max_head_bytes
            await open_tunnel(stream, proxy, target, max_head_bytes=max_head_bytes, read_fields=read_fields)
        if target.is_secure:
            stream = await _start_tls(stream, target, ssl_context or system_ssl_context())
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def _open_stream(target: HttpTarget) -> trio.abc.Stream:
    try:
        if target.socket_path is not None:
            return await trio.open_unix_socket(target.socket_path)
        return await trio.open_tcp_stream(target.host, target.port)
    except OSError as error:
        raise ConnectionLost(f"could not connect to {target.origin}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Say in a few words why: Trio puts the errors of all addresses into a group behind the one it raises."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        reasons = dict.fromkeys(_reason(each) for each in cause.exceptions)  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType,reportUnknownArgumentType]
        return "; ".join(reasons)
    if isinstance(cause, OSError):
        return _reason(cause)
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


async def _start_tls(stream: trio.abc.Stream, target: HttpTarget, context: ssl.SSLContext) -> trio.abc.Stream:
    secured = trio.SSLStream(
        stream, context, server_hostname=target.host.partition("%")[0], https_compatible=True
    )
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        cause = error if error.__cause__ is None else error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = f"its certificate cannot be trusted: {cause.verify_message}"
        else:
            problem = f"TLS failed: {getattr(cause, 'reason', None) or str(cause) or type(cause).__name__}"
        raise ConnectionLost(f"could not connect to {target.origin}: {problem}") from error
    return secured
