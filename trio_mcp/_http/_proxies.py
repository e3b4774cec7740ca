"""Which proxy the environment names for an origin, and how it is asked for a tunnel."""

from __future__ import annotations

import base64
import ipaddress
import urllib.request
from typing import Final, final
from urllib.parse import unquote, urlsplit

import attrs
import h11
import trio

from .._core._headers import HeaderField
from .._errors import ConnectionLost
from ._target import HttpTarget, parse_target

__all__ = ["HttpProxy", "open_tunnel", "proxy_for"]

READ_BYTES: Final = 4096


@final
@attrs.frozen
class HttpProxy:
    """A proxy.

    Attributes:
        target: Where it is.
        headers: How we authenticate to it.
    """

    target: HttpTarget
    headers: tuple[HeaderField, ...] = attrs.field(default=(), repr=False)


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
    return _read_proxy(url)


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _read_proxy(url: str) -> HttpProxy:
    if "://" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"a proxy is asked over http or https; {parts.scheme} proxies are not supported")
    user, at, address = parts.netloc.rpartition("@")
    headers: tuple[HeaderField, ...] = ()
    if at:
        credentials = base64.b64encode(unquote(user).encode("utf-8"))
        headers = ((b"Proxy-Authorization", b"Basic " + credentials),)
    return HttpProxy(parse_target(f"{parts.scheme}://{address}"), headers)


async def open_tunnel(
    stream: trio.abc.Stream, proxy: HttpProxy, target: HttpTarget, *, max_head_bytes: int
) -> None:
    """Ask a proxy to pass bytes on to a target (RFC 9110, section 9.3.6). Cancelled, the stream is of no use.

    Raises:
        ConnectionLost: It refuses, or does not speak HTTP.
    """
    host = f"[{target.host}]" if ":" in target.host else target.host
    authority = f"{host}:{target.port}".encode("ascii")
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=max_head_bytes)
    headers = [(b"Host", authority), *proxy.headers]
    ask = connection.send(h11.Request(method=b"CONNECT", target=authority, headers=headers))
    ask += connection.send(h11.EndOfMessage())
    name = f"the proxy {proxy.target.origin}"
    try:
        await stream.send_all(ask)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                break
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some(READ_BYTES)))
    except trio.BrokenResourceError as error:
        raise ConnectionLost(f"{name} closed the connection") from error
    except h11.RemoteProtocolError as error:
        raise ConnectionLost(f"{name} did not answer in HTTP: {error}") from error
    if not 200 <= event.status_code < 300:
        reason = bytes(event.reason).decode("latin-1")
        raise ConnectionLost(f"{name} refuses a tunnel to {target.origin}: {event.status_code} {reason}".rstrip())
    if connection.trailing_data[0]:
        raise ConnectionLost(f"{name} sent what nobody asked for")
