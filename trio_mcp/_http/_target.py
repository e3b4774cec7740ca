"""Where a request goes: what a URL says, read once and strictly. No I/O.

What the URL of a proxy says. No I/O.

How HTTP connections are made and what they may cost.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import ssl
from functools import cached_property
from typing import Any, Final, Literal, final
from urllib.parse import quote, unquote, urljoin, urlsplit

import attrs
import idna

from .._core._http_headers import HeaderField
from .._limits import KIB, _positive, _seconds, _size, check_whole, valid_count
from .._printable import printable

UNIX_SCHEME: Final = "http+unix"
"""``http+unix://%2Frun%2Fmcp.sock/mcp``: the socket's path, percent-encoded, where a host would be."""

_SCHEMES: Final = {"http": 80, "https": 443, UNIX_SCHEME: 80}
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
_HOST: Final = re.compile(r"[0-9a-z_-]+(?:\.[0-9a-z_-]+)*\.?")
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~-._?[]|^`{}"


@final
@attrs.frozen(kw_only=True)
class HttpTarget:
    """A URL, taken apart.

    Attributes:
        scheme: ``http`` or ``https``; a Unix socket speaks the first.
        host: A name in ASCII and lower case, or an address without brackets.
        port: The port, also if the URL names none.
        path: Path and query, as they go on the request line.
        socket_path: The Unix socket to connect to instead of host and port.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = attrs.field(default="/", repr=lambda path: repr(without_query(path)))
    socket_path: str | None = None

    @property
    def is_secure(self) -> bool:
        """Whether it is reached over TLS."""
        return self.scheme == "https"

    @cached_property
    def authority(self) -> str:
        """What `Host` says: the port only if it is not the usual one, and no zone of an address."""
        host = f"[{self.host.partition('%')[0]}]" if ":" in self.host else self.host
        return host if self.port == _SCHEMES[self.scheme] else f"{host}:{self.port}"

    @cached_property
    def address(self) -> str:
        """Scheme, host and port: equal texts are equal origins."""
        if self.socket_path is not None:
            return f"{UNIX_SCHEME}://{quote(self.socket_path, safe='')}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _SCHEMES[self.scheme] else f":{self.port}")

    @property
    def url(self) -> str:
        """The URL again, as a proxy is asked for it. Not for messages: a query may be a secret."""
        return self.address + self.path

    def join(self, reference: str) -> HttpTarget:
        """Return what a reference in an answer from here points at (RFC 3986, section 5).

        Raises:
            ValueError: It is no URL this client can go to.
        """
        if self.socket_path is None:
            return parse_target(urljoin(self.url, reference))
        # The generic rules do not know the scheme; as `http` they do the same.
        joined = urljoin(f"http://{self.authority}{self.path}", reference)
        other = parse_target(joined)
        if (other.scheme, other.host, other.port) != (self.scheme, self.host, self.port):
            return other
        return attrs.evolve(self, path=other.path)


def without_query(path: str) -> str:
    """Return what may be shown of a path: keys and tokens are in queries, if anywhere."""
    before, mark, _ = path.partition("?")
    return f"{before}{mark}…" if mark else path


def shown_url(url: str) -> str:
    """Return what may be shown of a URL, also of one that is none: no password, and no key or token."""
    if "@" in url:  # wherever it is: a password may hold what ends a host
        scheme, mark, _ = url.partition("://")
        return f"{scheme}{mark}…" if mark else "…"
    return printable(without_query(url.partition("#")[0]))


def parse_target(url: str) -> HttpTarget:
    """Read a URL.

    Raises:
        ValueError: It is not one that can be asked: another scheme, no host, a user name or a password (which
            would end up in logs; send them as a header), or characters that no URL has.
    """
    if _FORBIDDEN.search(url):
        raise ValueError(f"a URL has no blanks, backslashes and control characters: {shown_url(url)!r}")
    try:
        parts = urlsplit(url)
    except ValueError:  # which repeats what may be a password
        raise ValueError(f"the URL cannot be read: {shown_url(url)!r}") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError(
            f"the scheme of an HTTP URL is http, https or {UNIX_SCHEME}, not {parts.scheme!r}: {shown_url(url)!r}"
        )
    if "@" in parts.netloc:
        raise ValueError("a URL with a user name or a password is not accepted; send them in a header")
    path = quote(parts.path or "/", safe=_PATH_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_PATH_SAFE)
    if parts.scheme == UNIX_SCHEME:
        socket_path = unquote(parts.netloc)
        if not socket_path or "\0" in socket_path:
            raise ValueError(
                f"the URL has no path of a socket, such as {UNIX_SCHEME}://%2Frun%2Fmcp.sock/: {shown_url(url)!r}"
            )
        return HttpTarget(scheme="http", host="localhost", port=80, path=path, socket_path=socket_path)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port of a URL is a number from 1 to 65535: {shown_url(url)!r}") from None
    if port == 0:
        raise ValueError(f"the port of a URL is a number from 1 to 65535: {shown_url(url)!r}")
    return HttpTarget(
        scheme="https" if parts.scheme == "https" else "http",
        host=_read_host(parts.netloc, parts.hostname or "", url),
        port=port or _SCHEMES[parts.scheme],
        path=path,
    )


def _read_host(netloc: str, host: str, url: str) -> str:
    if netloc.startswith("["):
        try:
            # RFC 6874 writes the zone of an address after "%25".
            return str(ipaddress.IPv6Address(unquote(host)))
        except ValueError as error:
            raise ValueError(f"the URL has no valid IPv6 address: {shown_url(url)!r}") from error
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise ValueError(
                f"the host of the URL cannot be written in ASCII ({error}): {shown_url(url)!r}"
            ) from error
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise ValueError(f"the URL has no valid host: {shown_url(url)!r}")
    return host


# Where the password begins and ends in what cannot be read, nobody knows.
_UNUSABLE: Final = "the URL of a proxy is of the form http://host:port or http://user:password@host:port"


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


def read_proxy(url: str) -> HttpProxy:
    """Read the URL of a proxy, which may hold a user name and a password.

    Raises:
        ValueError: It is none that we can use, such as a SOCKS proxy. The message repeats nothing of it.
    """
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(_UNUSABLE) from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"a proxy is asked over http or https; {parts.scheme} proxies are not supported")
    user, at, address = parts.netloc.rpartition("@")
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("in the URL of a proxy, #, ? and / in a password are written %23, %3F and %2F")
    headers: tuple[HeaderField, ...] = ()
    if at:
        credentials = base64.b64encode(unquote(user).encode("utf-8"))
        headers = ((b"Proxy-Authorization", b"Basic " + credentials),)
    try:
        return HttpProxy(parse_target(f"{parts.scheme}://{address}"), headers)
    except ValueError:
        raise ValueError(_UNUSABLE) from None


def _check_proxy(_instance: object, _attribute: object, value: str | None) -> None:
    if value is not None:
        read_proxy(value)


def _check_head(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_whole(attribute.name, value, at_least=1 * KIB)


@final
@attrs.frozen(kw_only=True)
class HttpSettings:
    """How HTTP connections are made and what they may cost. Durations are in seconds.

    Attributes:
        ssl_context: How TLS is spoken: whom to trust, with which certificate to answer. Default: the system's
            trust store. The context decides about everything, so one that verifies nothing is obeyed.
        proxy: The URL of a proxy for everything but Unix sockets, ``http://`` or ``https://``, perhaps with a
            user name and a password. Whether what goes through it is encrypted says the server's URL.
        use_environment_proxies: Whether ``http_proxy``, ``https_proxy`` and ``no_proxy`` count where there is no
            `proxy`. This machine itself is never asked for through one of those.
        max_connections: Connections to one origin that are in use at once; further requests wait for their turn.
            Answers and cancellations do not, because those that hold the connections may wait for them.
        max_idle_connections: Connections to one origin that are kept for the next request.
        idle_timeout: How long they are kept.
        connect_timeout: From looking up the name until TLS is established, through a proxy if there is one.
        max_head_bytes: The largest head of a response.
        max_redirects: Redirects that are followed for one request, all of them within the origin.
    """

    ssl_context: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    proxy: str | None = attrs.field(default=None, repr=False, validator=_check_proxy)
    use_environment_proxies: bool = True
    max_connections: int = _size(256)
    max_idle_connections: int = attrs.field(default=16, validator=valid_count)
    idle_timeout: float = _seconds(75.0)
    connect_timeout: float = _positive(10.0)
    max_head_bytes: int = attrs.field(default=64 * KIB, validator=_check_head)
    max_redirects: int = attrs.field(default=5, validator=valid_count)
