"""Which proxy the environment names for an origin, and how it is asked for a tunnel."""

from __future__ import annotations

import ipaddress
import urllib.request
from typing import Final

import h11
import trio

from .._core._http_heads import ReadFields
from .._errors import ConnectionLost, RemoteProtocolError
from ._proxy import HttpProxy, read_proxy
from ._response_reader import ResponseReader
from ._target import HttpTarget

__all__ = ["open_tunnel", "proxy_for"]

READ_BYTES: Final = 4096


def proxy_for(target: HttpTarget) -> HttpProxy | None:
    """Return the proxy that the environment names for a target, if it is to be asked through one.

    Raises:
        ValueError: It names one that we cannot use, such as a SOCKS proxy.
    """
    if target.socket_path is not None or _is_local(target.host):
        return None
    proxies = urllib.request.getproxies()
    url = proxies.get(target.scheme) or proxies.get("all")
    if not url or urllib.request.proxy_bypass(f"{target.host}:{target.port}"):
        return None
    if urllib.request.proxy_bypass(target.host):
        return None
    return read_proxy(url)


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


async def open_tunnel(
    stream: trio.abc.Stream,
    proxy: HttpProxy,
    target: HttpTarget,
    *,
    max_head_bytes: int,
    read_fields: ReadFields,
) -> None:
    """Ask a proxy to pass bytes on to a target (RFC 9110, section 9.3.6). Cancelled, the stream is of no use.

    Raises:
        ConnectionLost: It refuses, or does not speak HTTP.
    """
    host = f"[{target.host}]" if ":" in target.host else target.host
    authority = f"{host}:{target.port}".encode("ascii")
    connection = h11.Connection(h11.CLIENT)
    headers = [(b"Host", authority), *proxy.headers]
    ask = connection.send(h11.Request(method=b"CONNECT", target=authority, headers=headers))
    ask += connection.send(h11.EndOfMessage())
    name = f"the proxy {proxy.target.origin}"
    # What it answers is read like any other response: h11 alone is lenient, and slow with many blanks.
    reader = ResponseReader(name, max_head_bytes, read_fields)
    reader.begin("CONNECT")
    try:
        await stream.send_all(ask)
        while (head := reader.head) is None:
            reader.feed(bytes(await stream.receive_some(READ_BYTES)))
    except trio.BrokenResourceError as error:
        raise ConnectionLost(f"{name} closed the connection") from error
    except RemoteProtocolError as error:
        raise ConnectionLost(str(error)) from error
    if not 200 <= head.status < 300:
        raise ConnectionLost(f"{name} refuses a tunnel to {target.origin}: {head.status} {head.reason}".rstrip())
    if reader.has_surplus:
        raise ConnectionLost(f"{name} sent what nobody asked for")
