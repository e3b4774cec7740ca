"""URLs of servers and of proxies, parsed once and strictly, and the settings of HTTP connections. No I/O."""

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

from .._core._http1 import HeaderField
from .._limits import KIB, _positive, _seconds, _size, check_kind, check_whole, valid_count, valid_kind
from .._printable import Expanded, shown_url, values_in, without_query, without_values

UNIX_SCHEME: Final = "http+unix"
"""``http+unix://%2Frun%2Fmcp.sock/mcp``: the socket's path, percent-encoded, where a host would be."""

_SCHEMES: Final = {"http": 80, "https": 443, UNIX_SCHEME: 80}
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_MAX_HOST: Final = 253
_MAX_LABEL: Final = 63
"""The longest name of a host in ASCII, and the longest part of one, in characters (RFC 1035, section 2.3.4)."""

_HOST: Final = re.compile(r"[0-9a-z_-]+(?:\.[0-9a-z_-]+)*\.?")
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~-._?[]|^`{}"


def bracketed(host: str) -> str:
    """Return a name or an address as URLs have it: an IPv6 address in brackets.

    The zone of an address, which may be a number, follows ``%25`` there (RFC 6874).
    """
    return f"[{host.replace('%', '%25')}]" if ":" in host else host


@final
@attrs.frozen(kw_only=True)
class HttpTarget:
    """A URL, parsed.

    Attributes:
        scheme: ``http`` or ``https``; a Unix socket speaks the first.
        host: A name in ASCII and lower case, or an address without brackets.
        port: The port, also if the URL names none.
        path: Path and query, as in the request line.
        socket_path: The Unix socket to connect to instead of host and port.
        is_websocket: Whether it was given as the URL of a WebSocket, which errors then name.
        secrets: What of it no message shows: values of variables.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = attrs.field(default="/", repr=lambda path: repr(without_query(path)))
    socket_path: str | None = None
    is_websocket: bool = attrs.field(default=False, eq=False)
    secrets: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)

    @property
    def is_secure(self) -> bool:
        """Whether it uses TLS."""
        return self.scheme == "https"

    @cached_property
    def authority(self) -> str:
        """The value of `Host`: the port only if it is not the default, and no zone of an address."""
        host = bracketed(self.host.partition("%")[0] if ":" in self.host else self.host)
        return host if self.port == _SCHEMES[self.scheme] else f"{host}:{self.port}"

    @cached_property
    def address(self) -> str:
        """The server: scheme, host and port, or the Unix socket; equal texts are equal servers."""
        if self.socket_path is not None:
            return f"{UNIX_SCHEME}://{quote(self.socket_path, safe='')}"
        host = bracketed(self.host)
        return f"{self.scheme}://{host}" + ("" if self.port == _SCHEMES[self.scheme] else f":{self.port}")

    @property
    def documented_address(self) -> str:
        """The same as documents and proofs name it, which know no sockets: ``http://localhost`` for one."""
        return self.address if self.socket_path is None else f"http://{self.authority}"

    @cached_property
    def documented_url(self) -> str:
        """The URL without its query, likewise."""
        return self.documented_address + self.path.partition("?")[0]

    @property
    def named(self) -> str:
        """The address as errors name it: with the scheme that the user has written."""
        return self._shown("")

    def _shown(self, path: str) -> str:
        address = f"ws{self.address.removeprefix('http')}" if self.is_websocket else self.address
        return without_values(Expanded.of(address + path, self.secrets))

    @property
    def url(self) -> str:
        """The whole URL, for a proxy. Not for messages: a query may be a secret."""
        return self.address + self.path

    @property
    def shown(self) -> str:
        """The URL for messages: without its query, which may be a secret, as may be values of variables."""
        return self._shown(self.path.partition("?")[0])

    @property
    def without_query(self) -> str:
        """The URL without its query, for `shown_url`; equal ones are of one server."""
        return Expanded.of(self.address + self.path.partition("?")[0], self.secrets)

    def join(self, reference: str) -> HttpTarget:
        """Resolve a reference in a response from here (RFC 3986, section 5).

        Raises:
            ValueError: It is not a URL that this client can use.
        """
        if self.socket_path is None:
            return parse_target(Expanded.of(urljoin(self.url, reference), self.secrets))
        # The generic rules do not know the scheme; with `http` they do the same.
        joined = urljoin(f"http://{self.authority}{self.path}", reference)
        other = parse_target(Expanded.of(joined, self.secrets))
        if (other.scheme, other.host, other.port) != (self.scheme, self.host, self.port):
            return other
        return attrs.evolve(self, path=other.path)


def check_host_length(host: str) -> None:
    """Check that a name in ASCII is not longer than names of hosts can be.

    Raises:
        ValueError: It is, or one of its parts is.
    """
    name = host.removesuffix(".")
    if len(name) > _MAX_HOST:
        raise ValueError(f"a host has at most {_MAX_HOST} characters, not {len(name)}")
    longest = max(map(len, name.split(".")))
    if longest > _MAX_LABEL:
        raise ValueError(f"a part of a host between dots has at most {_MAX_LABEL} characters, not {longest}")


def parse_target(url: str, *, given: str | None = None) -> HttpTarget:
    """Parse a URL.

    Args:
        url: The URL.
        given: What errors quote instead, if it was given with another scheme.

    Raises:
        ValueError: It cannot be used: another scheme, no host, a user name or a password (which would end up in
            logs; send them in a header), or characters that no URL may have.
    """
    given = url if given is None else given
    shown = shown_url(given)
    values = values_in(given)
    forms = (*values, *(quote(each, safe=_PATH_SAFE) for each in values), *map(str.lower, values))
    secrets = tuple(dict.fromkeys(forms))
    if _FORBIDDEN.search(url):
        raise ValueError(f"a URL must not have blanks, backslashes, control characters or surrogates: {shown!r}")
    try:
        parts = urlsplit(url)
    except ValueError:  # its message may repeat a password
        raise ValueError(f"the URL cannot be parsed: {shown!r}") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"the scheme of a URL must be http, https or {UNIX_SCHEME}: {shown!r}")
    if "@" in parts.netloc:
        raise ValueError("a URL with a user name or a password is not accepted; send them in a header")
    path = quote(parts.path or "/", safe=_PATH_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_PATH_SAFE)
    if parts.scheme == UNIX_SCHEME:
        socket_path = unquote(parts.netloc)
        if not socket_path or "\0" in socket_path:
            raise ValueError(
                f"the URL has no path of a socket, such as {UNIX_SCHEME}://%2Frun%2Fmcp.sock/: {shown!r}"
            )
        here = HttpTarget(scheme="http", host="localhost", port=80, path=path)
        return attrs.evolve(here, socket_path=socket_path, secrets=secrets)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port of a URL is a number from 1 to 65535: {shown!r}") from None
    if port == 0:
        raise ValueError(f"the port of a URL is a number from 1 to 65535: {shown!r}")
    return HttpTarget(
        scheme="https" if parts.scheme == "https" else "http",
        host=_read_host(parts.netloc, parts.hostname or "", shown),
        port=port or _SCHEMES[parts.scheme],
        path=path,
        secrets=secrets,
    )


def _read_host(netloc: str, host: str, shown: str) -> str:
    if netloc.startswith("["):
        try:
            # RFC 6874 writes the zone of an address after "%25".
            return str(ipaddress.IPv6Address(unquote(host)))
        except ValueError as error:
            raise ValueError(f"the URL has no valid IPv6 address: {shown!r}") from error
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise ValueError(f"the host of the URL cannot be written in ASCII ({error}): {shown!r}") from error
    if not _HOST.fullmatch(host):
        raise ValueError(f"the URL has no valid host: {shown!r}")
    try:
        check_host_length(host)
    except ValueError as error:
        raise ValueError(f"the URL has no valid host: {error}: {shown!r}") from None
    return host


_UNUSABLE: Final = "the URL of a proxy must have the form http://host:port or http://user:password@host:port"
"""Repeats nothing of the URL: where a password begins and ends in it is not known."""


@final
@attrs.frozen
class HttpProxy:
    """A proxy.

    Attributes:
        target: Its URL.
        headers: Credentials for it.
    """

    target: HttpTarget
    headers: tuple[HeaderField, ...] = attrs.field(default=(), repr=False)


def read_proxy(url: str) -> HttpProxy:
    """Parse the URL of a proxy, which may have a user name and a password.

    Raises:
        ValueError: It cannot be used, such as that of a SOCKS proxy. The message repeats nothing of it.
    """
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(_UNUSABLE) from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"the scheme of a proxy must be http or https; {parts.scheme} proxies are not supported")
    user, at, address = parts.netloc.rpartition("@")
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("in the URL of a proxy, #, ? and / in a password must be written %23, %3F and %2F")
    headers: tuple[HeaderField, ...] = ()
    if at:
        credentials = base64.b64encode(unquote(user).encode("utf-8"))
        headers = ((b"Proxy-Authorization", b"Basic " + credentials),)
    try:
        return HttpProxy(parse_target(f"{parts.scheme}://{address}"), headers)
    except ValueError:
        raise ValueError(_UNUSABLE) from None


def _check_proxy(_instance: object, _attribute: object, value: str | None) -> None:
    check_kind("proxy", value, str | None)
    if value is not None:
        read_proxy(value)


def _check_head(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_whole(attribute.name, value, at_least=1 * KIB)


@final
@attrs.frozen(kw_only=True)
class HttpSettings:
    """How HTTP connections are made and what they may cost. Durations are in seconds.

    Attributes:
        ssl_context: The trusted certificates, and the client's own. Default: the system's trust store. Only the
            context decides, so with one that verifies nothing, nothing is verified.
        proxy: The URL of a proxy for everything but Unix sockets, ``http://`` or ``https://``, perhaps with a
            user name and a password. Whether the traffic through it is encrypted depends on the server's URL.
        use_environment_proxies: Whether ``http_proxy``, ``https_proxy`` and ``no_proxy`` are used if `proxy` is
            not set. They are never used for this machine itself.
        max_connections: Connections to one server address (scheme, host and port) that are in use at once;
            further requests wait for their turn. Answers and cancellations do not, because the requests that
            have the connections may wait for them.
        max_idle_connections: Connections to one server address that are kept for the next request.
        idle_timeout: How long they are kept.
        connect_timeout: From looking up the name until TLS is established, through a proxy if there is one.
        max_head_bytes: The largest head of a response.
        max_redirects: Redirects that are followed for one request, all of them to the same server address.
    """

    ssl_context: ssl.SSLContext | None = attrs.field(default=None, repr=False, validator=valid_kind)
    proxy: str | None = attrs.field(default=None, repr=False, validator=_check_proxy)
    use_environment_proxies: bool = attrs.field(default=True, validator=valid_kind)
    max_connections: int = _size(256)
    max_idle_connections: int = attrs.field(default=16, validator=valid_count)
    idle_timeout: float = _seconds(75.0)
    connect_timeout: float = _positive(10.0)
    max_head_bytes: int = attrs.field(default=64 * KIB, validator=_check_head)
    max_redirects: int = attrs.field(default=5, validator=valid_count)
