"""The rules of an HTTP endpoint: statuses, allowed hosts and origins, media types, proxies, and the settings.

Pure functions and classes over header fields and settings, no I/O. A refusal names the field and the setting that
caused it. The fields that repeat the body of a request are checked in `_http1`.

Spec: 2026-07-28, basic/transports/streamable-http, "Security & Endpoint", "Sending Messages", "Protocol Version
Header" and "Server Validation"; 2025-03-26 to 2025-11-25, basic/transports; RFC 7239 for `Forwarded`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast, final, get_args
from urllib.parse import quote

import attrs

from .._audit import audit
from .._codec import _json
from .._codec._json import is_object
from .._codec._jsonrpc import ErrorResponse, InvalidMessage, parse_message
from .._errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    SERVER_BUSY,
    UNSUPPORTED_PROTOCOL_VERSION,
    LocalProtocolError,
    RequestError,
)
from .._limits import KIB, MAX_SECONDS, MIB, _positive, _size, check_kind, check_whole, valid_kind, without
from .._printable import printable
from ._http1 import BODILESS, HeaderField, Headers, answer_field, answer_fields, quoted
from ._rates import read_rate

# Statuses, and the JSON-RPC errors they go with.


@final
class HttpRefused(Exception):
    """A request that is answered with an HTTP error and goes no further.

    Args:
        status: The HTTP status, 400 to 599.
        problem: What is wrong, for the body of the response and the log.
        headers: Further header fields of the response: names and values, as text or bytes.
        code: The code of the JSON-RPC error in the body.

    Attributes:
        status: The HTTP status.
        error: The JSON-RPC error for the body; it has no id.
        headers: Further header fields of the response, as they go on the wire.

    Raises:
        TypeError: A header field is neither text nor bytes, or the status is not an integer.
        ValueError: The status is not that of an error, or a header field cannot be sent: it has a line end in it,
            or text beyond Latin-1. Checked here, because where it is sent it is too late for another response.
    """

    def __init__(
        self,
        status: int,
        problem: str,
        headers: Iterable[tuple[str | bytes, str | bytes]] = (),
        *,
        code: int = INVALID_REQUEST,
    ) -> None:
        super().__init__(status, problem)
        if check_whole("status", status) not in range(400, 600):
            raise ValueError(f"status must be that of an error, 400 to 599, not {status!r}")
        self.status = status
        self.error: RequestError = RequestError(code, problem)
        self.headers: tuple[HeaderField, ...] = tuple(answer_field(name, value) for name, value in headers)

    def __str__(self) -> str:
        return f"{self.status}: {printable(self.error.message)}"


@lru_cache(maxsize=16)
def _content_type_field(content_type: str) -> HeaderField:
    (field,), _ = answer_fields([cast("HeaderField", ("content-type", content_type))])
    return field


@attrs.define(eq=False, kw_only=True, repr=False)  # its fields hold credentials
class CheckedAnswer:
    """What of an answer over HTTP an author may write by themselves, and is therefore checked. See `HttpCall`."""

    method: str
    path: str
    target: bytes = b""
    answer_headers: list[HeaderField] = attrs.field(factory=list[HeaderField], init=False)
    is_started: bool = attrs.field(default=False, init=False)
    is_gone: bool = attrs.field(default=False, init=False)
    left: int | None = attrs.field(default=None, init=False)
    is_misdeclared: bool = attrs.field(default=False, init=False)

    @property
    def raw_path(self) -> bytes:
        """Its path as received, not decoded; made of the decoded one where the host does not know it."""
        return self.target.partition(b"?")[0] or quote(self.path, safe="/%:@!$&'()*+,;=~-._").encode("ascii")

    @final
    def note_started(self) -> None:
        """Note that an answer has begun."""
        self.is_started = True

    @final
    def checked(self, status: int, headers: Sequence[HeaderField]) -> list[HeaderField]:
        """Return all fields of the head as they go on the wire; note what they declare.

        Raises:
            LocalProtocolError: One of them, or the status, cannot be sent.
        """
        if not 200 <= status <= 999:
            raise LocalProtocolError(f"an answer with the status {status} is none, or is not the last")
        if not headers and not self.answer_headers:  # as most are
            self.left = None
            return []
        try:
            answer_fields(self.answer_headers)
        except LocalProtocolError:
            self.answer_headers = []  # the answer that says so gets none of them
            raise
        fields, declared = answer_fields([*headers, *self.answer_headers])
        if status in BODILESS:
            return [field for field in fields if field[0].lower() != b"content-length"]
        self.left = None if self.method == "HEAD" else declared
        return fields

    @staticmethod
    def content_type_field(content_type: str) -> HeaderField:
        """Return the field that says what the body is.

        Raises:
            LocalProtocolError: It cannot be sent.
        """
        return _content_type_field(content_type)

    def note_misdeclared(self, lacks: int) -> None:
        """Note that the body is not as long as was declared: it lacks so many bytes, or goes on behind that."""
        del lacks
        self.is_misdeclared = True

    @final
    def within(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Return what may be sent of a piece of a body whose length was declared (`left`).

        More would be read as the next answer on the connection, and after less a client would wait for the rest
        (RFC 9112, section 6.3).
        """
        left = len(data) if self.left is None else self.left
        self.left = left - len(data)
        if (self.left < 0 or (is_last and self.left)) and not self.is_misdeclared:
            self.note_misdeclared(max(0, self.left))
        self.left = 0 if is_last else max(0, self.left)
        return data[:left]

    @final
    def check_answered(self) -> None:
        """Check that a route has answered, in full if it has declared the length.

        Raises:
            RuntimeError: It has not begun to.
        """
        if self.is_gone:
            return
        if not self.is_started:
            raise RuntimeError(f"the route for {self.path[:100]!r} returned without an answer")
        if self.left:
            self.within(b"", is_last=True)


def audit_http(
    refused: HttpRefused, method: str | None, path: str | None, client: str | None, principal: str | None = None
) -> None:
    """Write the audit record of a request that is refused."""
    audit(
        "http",
        refused.error.message,
        status=refused.status,
        code=refused.error.code,
        method=method,
        target=path,
        transport="http",
        client=client,
        principal=principal,
    )


def busy(status: int, problem: str, wait: float = 1) -> HttpRefused:
    """Return the refusal of a request that may be sent again in some seconds: 429 or 503, with `Retry-After`."""
    return HttpRefused(status, problem, [retry_after_field(wait)], code=SERVER_BUSY)


def retry_after_field(wait: float) -> HeaderField:
    """Return the field `Retry-After` for a wait in seconds: at least one, and whole ones."""
    return b"retry-after", b"%d" % max(1, math.ceil(min(wait, MAX_SECONDS)))


_STATUSES: Final[Mapping[int, int]] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        # Only a broken `_meta` must be 400; other invalid parameters are reported with the same code.
        INVALID_PARAMS: 400,
        METHOD_NOT_FOUND: 404,
        HEADER_MISMATCH: 400,
        MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
        SERVER_BUSY: 503,
    }
)

MAX_RETRY_AFTER: Final = 10 * 365 * 86_400.0
"""The longest `Retry-After` in seconds; a longer one is taken for a mistake and ignored."""


def status_of_error(code: int, *, is_own_share: bool = False) -> int:
    """Return the HTTP status of a response of the modern era that holds this JSON-RPC error and nothing else.

    Once something was streamed, the status has been sent, and the error is the last event.

    Args:
        code: The code of the error.
        is_own_share: Whether it says that the client has used up what it may have.
    """
    return 429 if is_own_share and code == SERVER_BUSY else _STATUSES.get(code, 200)


def fields_of_error(code: int | None, retry_after: float | None) -> list[HeaderField]:
    """Return the header fields of such a response: when to try again, if its server is busy.

    Args:
        code: The code of the error; `None` for a result.
        retry_after: In how many seconds, if that is known.
    """
    return [retry_after_field(retry_after or 1)] if code == SERVER_BUSY else []


def error_in(body: bytes) -> RequestError | None:
    """Return the JSON-RPC error in the body of an HTTP error, if there is one.

    Its id is ignored: servers send that of the request, null, or none.
    """
    try:
        value = _json.decode(body)
        if is_object(value) and "error" in value:
            message = parse_message({**value, "id": None, "jsonrpc": "2.0"})
            return message.error if isinstance(message, ErrorResponse) else None
    except (ValueError, RecursionError, InvalidMessage):
        pass
    return None


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return how many seconds a server asks to wait, or `None` if the field is missing or invalid.

    Args:
        value: `Retry-After`: a number of seconds or a date (RFC 9110, section 10.2.3).
        now: The time of day, in seconds since 1970.
    """
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        seconds = float(value) if len(value) < 20 else math.inf
    else:
        from email.utils import parsedate_to_datetime  # brings a dozen modules, and most servers send seconds

        try:
            date = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now
    return max(0.0, seconds) if seconds <= MAX_RETRY_AFTER else None


# Hosts and origins.

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
LOCAL_ORIGINS: Final = frozenset(f"{scheme}://{host}:*" for scheme in ("http", "https") for host in LOCAL_HOSTS)

_DEFAULT_PORTS: Final[Mapping[str, str]] = MappingProxyType({"http": "80", "https": "443"})
_FIELD_NAME: Final = re.compile(r"[!#$%&'+\-.^_`|~0-9A-Za-z]+")
MAX_AUTHORITY: Final = 260
"""Characters of a host and its port: 253 of a name (RFC 1035, section 2.3.4), a dot, a colon and 5 digits."""

MAX_ADMITTED: Final = 64
"""How many accepted values of `Host` are remembered."""

_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s]+)(?::([0-9]{1,5}|\*))?")


def _host_and_port(authority: str) -> tuple[str, str | None] | None:
    """Split the value of `Host`, or what follows the scheme in an origin; `None` if it is too long or neither."""
    found = _AUTHORITY.fullmatch(authority) if len(authority) <= MAX_AUTHORITY else None
    return None if found is None else (found[1].lower().removesuffix("."), found[2])


def _checked_host(entry: str) -> str:
    if entry.startswith("*.") and _host_and_port(entry[2:]) is not None:
        return entry.lower()
    if _host_and_port(entry) is None or "*" in entry.partition(":")[0]:
        raise ValueError(
            f"an allowed host must be like example.com, example.com:8000 or *.example.com, not {entry!r}"
        )
    return entry.lower()


def _checked_origin(entry: str) -> str:
    scheme, separator, authority = entry.lower().partition("://")
    if not separator or not scheme.isalpha() or _host_and_port(authority) is None:
        raise ValueError(
            f"an allowed origin must be like https://example.com or http://localhost:*, not {entry!r}"
        )
    return entry.lower()


def _checked_hosts(entries: Iterable[str] | None) -> frozenset[str] | None:
    return None if entries is None else frozenset(map(_checked_host, entries))


def _checked_origins(entries: Iterable[str] | None) -> frozenset[str] | None:
    return None if entries is None else frozenset(map(_checked_origin, entries))


@final
@attrs.frozen(kw_only=True)
class HostRules:
    """Which names an endpoint has, and which web pages may call it.

    A page that has made its own name point at this machine (DNS rebinding) still sends that name.

    Attributes:
        allowed_hosts: The values of `Host` that are accepted: ``example.com`` with any port,
            ``example.com:8000`` with that port only, ``*.example.com`` for every name below. `None` accepts all.
        allowed_origins: The values of `Origin` that are accepted: ``https://example.com``, or
            ``http://localhost:*`` for any port. Pages of this endpoint itself are accepted if hosts are checked,
            and requests without the field always. `None` accepts all.
    """

    allowed_hosts: frozenset[str] | None = attrs.field(default=LOCAL_HOSTS, converter=_checked_hosts)
    allowed_origins: frozenset[str] | None = attrs.field(default=LOCAL_ORIGINS, converter=_checked_origins)

    _suffixes: tuple[str, ...] = attrs.field(init=False, repr=False, eq=False)
    """What the names below an allowed one end with."""

    _admitted: set[bytes] = attrs.field(factory=set[bytes], init=False, repr=False, eq=False)
    """Values of `Host` that were accepted: a client sends the same again and again."""

    @_suffixes.default  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUntypedFunctionDecorator]
    def _read_suffixes(self) -> tuple[str, ...]:
        return tuple(entry[1:] for entry in self.allowed_hosts or () if entry.startswith("*."))

    def check(self, headers: Headers) -> None:
        """Check `Host` and `Origin` of a request.

        Raises:
            HttpRefused: 421 for the host, 403 for the origin.
        """
        sent = headers.last.get(b"host", b"")
        is_sole = not headers.has_repeats
        if is_sole and sent in self._admitted and b"origin" not in headers.last:
            return
        host = headers.get("host") or ""
        if self.allowed_hosts is not None and not self._allows_host(host, self.allowed_hosts):
            raise HttpRefused(421, f"Host {quoted(host)} is not in allowed_hosts")
        if is_sole and len(sent) <= MAX_AUTHORITY:
            if len(self._admitted) >= MAX_ADMITTED:
                self._admitted.clear()
            self._admitted.add(sent)
        # Several are joined and then not allowed: a request has one origin (RFC 6454, section 7.3).
        origin = headers.get("origin")
        if origin is None or self.allowed_origins is None:
            return
        if not self._allows_origin(origin, host, self.allowed_origins):
            raise HttpRefused(403, f"Origin {quoted(origin)} is not in allowed_origins")

    def allows_page(self, origin: str) -> bool:
        """Whether a page is of an allowed origin."""
        return self.allowed_origins is None or self._allows_origin(origin, "", self.allowed_origins)

    def _allows_host(self, host: str, allowed: frozenset[str]) -> bool:
        read = _host_and_port(host)
        if read is None or read[1] == "*":
            return False
        name, port = read
        names = {name, f"{name}:*"} if port is None else {name, f"{name}:*", f"{name}:{port}"}
        return not names.isdisjoint(allowed) or any(each.endswith(self._suffixes) for each in names)

    def _allows_origin(self, origin: str, host: str, allowed: frozenset[str]) -> bool:
        scheme, separator, authority = origin.lower().partition("://")
        read = _host_and_port(authority) if separator else None
        if read is None or read[1] == "*":
            return False  # also "null", which every sandboxed page sends
        name, port = read
        default = _DEFAULT_PORTS.get(scheme)
        here = _host_and_port(host)
        # If hosts are checked, `host` is one of this endpoint's names by now.
        if self.allowed_hosts is not None and here is not None:
            same = (name, port or default) == (here[0], here[1] or default)
        else:
            same = False
        candidates = {f"{scheme}://{name}:*", f"{scheme}://{name}:{port or default}"}
        if port is None or port == default:
            candidates.add(f"{scheme}://{name}")
        return same or not candidates.isdisjoint(allowed)


# Media types.

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"


def media_type_of(content_type: str | None) -> str | None:
    """Return the media type of a body without its parameters, in lower case."""
    return None if content_type is None else content_type.partition(";")[0].strip().lower()


def check_content_type(headers: Headers) -> None:
    """Check that the body of a POST is JSON in UTF-8, not compressed: a proxy that decodes it would read another.

    Raises:
        HttpRefused: 415: it declares something else, or nothing.
    """
    last = headers.last
    if (
        last.get(b"content-type") == b"application/json"
        and b"content-encoding" not in last
        and not headers.has_repeats
    ):
        return
    coding = headers.get("content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise HttpRefused(415, f"Content-Encoding must be identity, not {quoted(coding)}")
    content_type = headers.get("content-type")
    if media_type_of(content_type) != JSON:
        found = "is missing" if content_type is None else f"is {quoted(content_type)}"
        raise HttpRefused(415, f"Content-Type must be {JSON}, and {found}")
    for parameter in (content_type or "").split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "charset" and value.strip('"').lower() not in ("utf-8", "utf8", "us-ascii"):
            raise HttpRefused(415, f"Content-Type must be JSON in UTF-8, not {quoted(content_type or '')}")


MAX_KEPT: Final = 256
"""The longest `Accept` whose meaning is cached, in characters."""

_QUALITY: Final = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def accepts(accept: str | None, media_type: str) -> bool:
    """Whether `Accept` allows a media type (RFC 9110, section 12.5.1). Without the field all are allowed."""
    if accept is None:
        return True
    return (_accepts if len(accept) <= MAX_KEPT else _accepts.__wrapped__)(accept, media_type)


@lru_cache(maxsize=256)  # each client sends its own every time
def _accepts(accept: str, media_type: str) -> bool:
    kind = media_type.partition("/")[0]
    ranges = {media_type: 3, f"{kind}/*": 2, "*/*": 1}
    best = 0
    accepted = False
    for part in accept.split(","):
        range_, *parameters = part.split(";")
        weight = ranges.get(range_.strip().lower(), 0)
        if weight > best:
            best = weight
            accepted = not any(_is_zero(parameter) for parameter in parameters)
    return accepted


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    value = value.strip()
    return name.strip().lower() == "q" and _QUALITY.fullmatch(value) is not None and float(value) == 0


def check_accept(headers: Headers, *media_types: str) -> None:
    """Check that the client accepts every media type that the response may have.

    Raises:
        HttpRefused: 406: it does not.
    """
    accept = headers.get("accept")
    if accept is None:
        return
    if missing := (_missing if len(accept) <= MAX_KEPT else _missing.__wrapped__)(accept, media_types):
        raise HttpRefused(406, f"Accept must list {' and '.join(missing)}, and is {quoted(accept)}")


@lru_cache(maxsize=256)
def _missing(accept: str, media_types: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([each for each in media_types if not accepts(accept, each)])


# Proxies. A client can write any address into a request, so only what a trusted proxy has written is used. Each
# proxy appends to what it received: read from the right, the first address that is not a trusted proxy's is the
# client's, and everything left of it is unverified. (`X-Forwarded-*` have no specification.)

ProxyHeaders: TypeAlias = Literal["x-forwarded", "forwarded"]

UNIX: Final = "unix"
"""Stands for every peer of a Unix socket, where there are no addresses."""

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

_SCHEMES: Final = ("http", "https")
# Possessive, so that untrusted text is not read twice.
_PAIR: Final = re.compile(r'[ \t]*+(?:([^\s=;,"]++)=(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"]*+)))?[ \t]*+(?:([;,])|$)')


def _address(text: str) -> _Address | None:
    """Read an address as proxies write it, with a port or without; `None` if it is not an address."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _networks(entries: Iterable[str]) -> tuple[_Network, ...]:
    networks: list[_Network] = []
    for entry in sorted(set(entries) - {UNIX}):
        try:
            networks.append(ip_network(entry))
        except ValueError as error:
            raise ValueError(
                f"a trusted proxy must be like 10.0.0.7, 10.0.0.0/8 or {UNIX}, not {entry!r}"
            ) from error
    return tuple(networks)


@final
@attrs.frozen
class _Hop:
    """What one proxy reports about its peer. `address` is `None` if it reports none, or hides it."""

    address: _Address | None
    scheme: str | None


@final
class ProxyRules:
    """Which proxies are trusted, and which header fields of theirs are read.

    Args:
        trusted: Addresses, networks, and `UNIX`.
        headers: Which header fields they write. The others are ignored: a client may have written them.

    Attributes:
        trusts_any: Whether any proxy is trusted. If not, clients are who connections come from.

    Raises:
        ValueError: An entry of `trusted` is none of these.
    """

    def __init__(self, trusted: Iterable[str], headers: ProxyHeaders) -> None:
        trusted = frozenset(trusted)
        self._networks: Final = _networks(trusted)
        self._trusts_unix: Final = UNIX in trusted
        self.trusts_any: Final = bool(self._networks) or self._trusts_unix
        self._reads: Final = _forwarded if headers == "forwarded" else _x_forwarded

    def trusts(self, peer: str | None) -> bool:
        """Whether the peer of a connection is a trusted proxy; `None` for a Unix socket."""
        return self._trusts_unix if peer is None else bool(self._networks) and self._trusts(_address(peer))

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)

    def sender(self, peer: str | None, scheme: str, headers: Headers) -> tuple[str | None, str]:
        """Return the address and the scheme with which the client has sent a request.

        Args:
            peer: The address of the connection's peer; `None` for a Unix socket.
            scheme: The scheme of the connection.
            headers: The fields of the request.
        """
        if not self.trusts(peer):
            return peer, scheme
        for hop in self._reads(headers):
            if hop.scheme is not None:
                scheme = hop.scheme
            if hop.address is None:
                break  # the sender is unknown; this proxy is the last known one
            peer = str(hop.address)
            if not self._trusts(hop.address):
                break
        return peer, scheme


def _listed(headers: Headers, name: str) -> list[str]:
    """Return the items of a list, those of the nearest proxy first."""
    return [item.strip() for value in reversed(headers.get_all(name)) for item in reversed(value.split(","))]


def _scheme(text: str) -> str | None:
    scheme = text.strip().lower()
    return scheme if scheme in _SCHEMES else None


def _x_forwarded(headers: Headers) -> Iterator[_Hop]:
    """Yield the hops in `X-Forwarded-For` and `X-Forwarded-Proto`, from the nearest proxy on.

    Many proxies replace the scheme instead of appending; then the one value counts for all of them.
    """
    schemes = _listed(headers, "x-forwarded-proto")
    addresses = _listed(headers, "x-forwarded-for")
    for i in range(max(len(addresses), 1)):
        scheme = _scheme(schemes[min(i, len(schemes) - 1)]) if schemes else None
        yield _Hop(_address(addresses[i]) if addresses else None, scheme)


def _forwarded(headers: Headers) -> Iterator[_Hop]:
    """Yield the hops in `Forwarded`, from the nearest proxy on. A value that cannot be read ends them."""
    for value in reversed(headers.get_all("forwarded")):
        hops = _elements(value)
        if hops is None:
            yield _Hop(None, None)
        else:
            yield from reversed(hops)


def _elements(value: str) -> list[_Hop] | None:
    """Parse the value of one `Forwarded` field; `None` if it is invalid."""
    hops: list[_Hop] = []
    pairs: dict[str, str] = {}
    position, separator = 0, ","
    while separator:
        found = _PAIR.match(value, position)
        if found is None:
            return None
        if found[1] is not None:
            quoted, plain = found[2], found[3]
            pairs[found[1].lower()] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position, separator = found.end(), found[4] or ""
        if separator != ";" and pairs:
            hops.append(_Hop(_address(pairs.get("for", "")), _scheme(pairs.get("proto", ""))))
            pairs = {}
    return hops


# Settings.

HttpHost: TypeAlias = Literal["hypercorn", "lean"]
"""The HTTP implementation that serves an endpoint; see `serve_http`."""


def _check_rate(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    read_rate(attribute.name, value)


def _check_path(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value.startswith("/") or "?" in value or "#" in value:
        raise ValueError(f"{attribute.name} must be a path that begins with a slash, not {value!r}")


def _check_sse(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    valid_kind(instance, attribute, value)
    if isinstance(value, str):
        _check_path(instance, attribute, value)


def _several(names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - users are not checked
        raise TypeError(
            "allowed_hosts, allowed_origins, trusted_proxies and what Cors takes must be an iterable of strings, "
            f"not {names!r:.60}"
        )
    return frozenset(names)


def _names(names: Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else _several(names)


def _origins(names: Iterable[str] | None) -> frozenset[str] | None:
    return _checked_origins(_names(names))


def _check_names(_instance: object, attribute: attrs.Attribute[Any], names: frozenset[object]) -> None:
    for name in names:
        check_kind(attribute.name, name, str)
        if not _FIELD_NAME.fullmatch(str(name)):
            raise ValueError(f"{attribute.name} takes names of header fields, not {name!r:.60}")


@final
@attrs.frozen(kw_only=True)
class Cors:
    """Which web pages may read responses, and what they may send: ``HttpServerSettings(cors=Cors(origins=…))``.

    Spec: The Fetch standard, "CORS protocol".

    Attributes:
        origins: The pages that may, such as ``{"https://app.example.com"}``. They are accepted besides
            `HttpServerSettings.allowed_origins`, of which all others may send requests and read nothing. `None`,
            the default, lets all of `allowed_origins` read.
        request_headers: Fields that pages may send besides those of the protocol, such as ``["X-Tenant"]`` for
            `authenticate`. Default: none.
        response_headers: Fields that pages may read besides those of the protocol, such as those of `HttpRefused`
            or of `routes`. Default: none.

    Raises:
        ValueError: An origin or a name cannot be one.
    """

    origins: frozenset[str] | None = attrs.field(default=None, converter=_origins)
    request_headers: frozenset[str] = attrs.field(
        default=frozenset[str](), converter=_several, validator=_check_names
    )
    response_headers: frozenset[str] = attrs.field(
        default=frozenset[str](), converter=_several, validator=_check_names
    )


MAX_HEAD_BYTES: Final = 32 * KIB
"""The largest size of all header fields of a request together; 431 beyond: other servers take 8 to 16 KiB."""

FEW: Final = 10
"""So many connections and sessions one client may have of however few: those are often for one client alone."""


@final
@without(
    "setting",
    {
        "message_timeout bounds it": "body_timeout,handshake_timeout",
        "it is half of message_timeout": "head_timeout",
        "it is twice keep_alive_interval": "ping_timeout",
        "it is always 30 s": "authenticate_timeout",
        "it is always 5 s": "stream_timeout",
        "it is always 1 s": "retry_delay",
        "it is always 32 KiB": "max_head_bytes",
        "write sse='/a/path'": "sse_path",
        "clients are told it; it is beside the path of sse": "messages_path",
        "write rate='10/minute'": "max_request_rate,request_burst",
        "it is half of max_connections, at least 10": "max_connections_per_address",
        "it is a fifth of max_sessions, at least 10": "max_sessions_per_principal",
    },
)
@attrs.frozen(kw_only=True)
class HttpServerSettings:
    """What an HTTP endpoint serves, which requests it accepts, and its limits.

    By default only requests to a local name of this machine (`localhost`, `127.0.0.1`, `[::1]`), and web pages of
    this machine, are accepted. Sizes are bytes. Durations are seconds; ``math.inf`` means "never".

    Attributes:
        path: The path of the endpoint, for every revision with Streamable HTTP.
        allowed_hosts: The values of `Host` that are accepted, against DNS rebinding: ``example.com`` with any
            port, ``example.com:8000`` with that port only, ``*.example.com`` for every name below; `None` for
            all. A server that is reached by a public name needs that name here. Others get 421.
        allowed_origins: The values of `Origin` that are accepted: ``https://example.com``, or
            ``http://localhost:*`` for any port; `None` for all. Others get 403.
        trusted_proxies: The proxies whose forwarding header fields are used: addresses (``10.0.0.7``), networks
            (``10.0.0.0/8``), and ``unix`` for every peer of a Unix socket. The address and the scheme of a
            request are then those that the outermost trusted proxy has seen.
        proxy_headers: Which fields these proxies write: ``X-Forwarded-For`` and ``X-Forwarded-Proto``, or
            ``Forwarded`` (RFC 7239). The others are ignored: the client may have written them.
        allow_anonymous: Whether a request for which `authenticate` returns `None` is accepted, without a
            principal; otherwise it gets 401. Without `authenticate` all requests are accepted.
        cors: Whether web pages of the allowed origins may read the responses (the Fetch standard's CORS); or a
            `Cors`, which says which of them, and what header fields of their own they may send and read.
        json_only: Whether requests are answered by one JSON object each and never by a stream. What a handler
            sends before its result is then dropped in the modern era, and goes to the stream of the session in
            the legacy era. ``subscriptions/listen`` is a stream all the same.
        stateless: Whether requests of the legacy era are served one by one, without sessions. Handlers can then
            send no requests to their clients, and clients get no notifications of changes.
        sse: Whether HTTP+SSE, the deprecated transport of 2024-11-05, is served as well; or the path of its
            stream, for which `True` is ``/sse``. Clients are told to post messages beside it: to ``/messages``.
        health_path: The path at which load balancers find out whether requests are served, whatever `Host` is
            sent: 200 with ``{"status": "ready"}``, and 503 with ``"draining"`` on connections that are still open
            when serving is about to end. `None` for nowhere.
        max_body_bytes: The largest body of a request; 413 beyond.
        message_timeout: How long a client may take to send a body; 408 beyond. Also the first message of a
            WebSocket, and each later one from its first byte to its last; what follows `initialize` in a session;
            and the handshake of TLS. Half of it is for the head of a request. Beyond, the connection is cut, or
            the session ends.
        send_timeout: How long a client may read nothing before its connection is cut.
        idle_timeout: How long a connection is kept without a request.
        max_connections: Connections at once. For a further one, the one that has been idle longest, without a
            request, is closed; if none is idle, the new one gets 503, or over TLS is closed. The limit is lower
            if the process may not open so many files. One address (IPv6: one network) that is not a trusted
            proxy's gets half of them, and at least 10: a further one takes the place of an idle one of the same
            address.
        websocket: Whether a GET at `path` that asks for it becomes a WebSocket, and is served as a session that
            ends with it. With `McpASGI` the host has to serve WebSockets, and to keep some of their limits.
        keep_alive_interval: How long a stream is silent before a comment is sent, and how long a request may take
            before its response becomes a stream. Also how often the client of a WebSocket gets a ping; if it
            sends nothing at all for twice as long after one, its connection is cut.
        max_requests: Requests that are served at once, of all clients; 503 beyond. As many messages may be read
            at once besides, so that cancellations and responses of clients get through. Those for which
            `authenticate` has not returned yet are counted there.
        max_requests_per_principal: The same, of one client: a principal, or an address if there is no
            `authenticate`; 429 beyond. A request that `authenticate` has not accepted counts for its address.
        rate: How often one client may send requests, such as ``"600/minute"``, as of a `Server`; as many at once
            as in one period. 429 beyond. All methods count, and refused credentials. `None` for no limit.
        max_sessions: Sessions of the legacy era at once. A new one replaces the session that has been idle
            longest; 503 if none is idle. One client (a principal, or an address if there is no `authenticate`)
            gets a fifth of them, and at least 10: a new session replaces that of its own which has been idle
            longest; 429 if none is idle, or if it has too many replaced: a hundred at once, and as many as it may
            have in 30 seconds.
        session_idle_timeout: How long a session is kept while its client has no request and no stream open.
    """

    path: str = attrs.field(default="/mcp", validator=_check_path)
    allowed_hosts: frozenset[str] | None = attrs.field(default=LOCAL_HOSTS, converter=_names)
    allowed_origins: frozenset[str] | None = attrs.field(default=LOCAL_ORIGINS, converter=_names)
    trusted_proxies: frozenset[str] = attrs.field(default=frozenset[str](), converter=_several)
    proxy_headers: ProxyHeaders = attrs.field(
        default="x-forwarded", validator=attrs.validators.in_(get_args(ProxyHeaders))
    )
    allow_anonymous: bool = attrs.field(default=False, validator=valid_kind)
    cors: bool | Cors = attrs.field(default=False, validator=valid_kind)
    json_only: bool = attrs.field(default=False, validator=valid_kind)
    stateless: bool = attrs.field(default=False, validator=valid_kind)
    sse: bool | str = attrs.field(default=False, validator=_check_sse)
    health_path: str | None = attrs.field(default=None, validator=attrs.validators.optional(_check_path))
    max_body_bytes: int = _size(4 * MIB)
    message_timeout: float = _positive(30.0)
    send_timeout: float = _positive(30.0)
    idle_timeout: float = _positive(75.0)
    max_connections: int = _size(1_000)
    websocket: bool = attrs.field(default=False, validator=valid_kind)
    keep_alive_interval: float = _positive(15.0)
    max_requests: int = _size(1_000)
    max_requests_per_principal: int = _size(200)
    rate: str | None = attrs.field(default=None, validator=attrs.validators.optional(_check_rate))
    max_sessions: int = _size(10_000)
    session_idle_timeout: float = _positive(1_800.0)

    def __attrs_post_init__(self) -> None:
        self.host_rules()  # invalid entries are refused here, and not at the first request
        self.proxy_rules()
        if self.sse and len({path.rstrip("/") for path in (self.path, *self.sse_paths)}) < 3:
            raise ValueError(
                f"path and sse must differ, also from {self.sse_paths[1]!r}, where messages are posted"
            )

    @property
    def sse_paths(self) -> tuple[str, str]:
        """The path of the stream of HTTP+SSE, and the one beside it to which its clients are told to post."""
        stream = self.sse if isinstance(self.sse, str) else "/sse"
        return stream, f"{stream.rstrip('/').rpartition('/')[0]}/messages{'/' if stream.endswith('/') else ''}"

    @property
    def max_connections_per_address(self) -> int:
        """How many connections one address may have (half of all, and at least 10)."""
        return max(FEW, self.max_connections // 2)

    @property
    def max_sessions_per_principal(self) -> int:
        """How many sessions one client may have (a fifth of all, and at least 10)."""
        return max(FEW, self.max_sessions // 5)

    def host_rules(self) -> HostRules:
        """Return which hosts and origins are accepted."""
        origins, more = self.allowed_origins, self.cors.origins if isinstance(self.cors, Cors) else None
        origins = origins if origins is None or more is None else origins | more
        return HostRules(allowed_hosts=self.allowed_hosts, allowed_origins=origins)

    def proxy_rules(self) -> ProxyRules:
        """Return which proxies are trusted."""
        return ProxyRules(self.trusted_proxies, self.proxy_headers)
