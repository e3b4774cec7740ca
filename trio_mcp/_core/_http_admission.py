"""What an HTTP endpoint lets in before it looks at a message: hosts, origins and media types.

Pure functions over header fields and settings; what is refused says which field and which setting did it.

Spec: 2026-07-28, basic/transports/streamable-http, "Security & Endpoint" and "Sending Messages"; the same in
2025-03-26 to 2025-11-25, basic/transports.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, final

import attrs

from .._errors import INVALID_REQUEST, SERVER_BUSY, RequestError
from .._limits import MAX_SECONDS, check_whole
from .._printable import printable
from ._headers import HeaderField, Headers, answer_field

__all__ = [
    "EVENT_STREAM",
    "JSON",
    "LOCAL_HOSTS",
    "LOCAL_ORIGINS",
    "HostRules",
    "HttpRefused",
    "accepts",
    "busy",
    "check_accept",
    "check_content_type",
    "media_type_of",
]

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
LOCAL_ORIGINS: Final = frozenset(f"{scheme}://{host}:*" for scheme in ("http", "https") for host in LOCAL_HOSTS)

_DEFAULT_PORTS: Final[Mapping[str, str]] = MappingProxyType({"http": "80", "https": "443"})
MAX_AUTHORITY: Final = 260
"""Characters of a host and its port: 253 of a name (RFC 1035, section 2.3.4), a dot, a colon and 5 digits."""

_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s]+)(?::([0-9]{1,5}|\*))?")


@final
class HttpRefused(Exception):
    """A request that is answered with an HTTP error and goes no further.

    Args:
        status: The HTTP status, 400 to 599.
        problem: What is wrong, for the body of the answer and the log.
        headers: What else belongs into the head of the answer: names and values, as text or bytes.
        code: The code of the JSON-RPC error in the body.

    Attributes:
        status: The HTTP status.
        error: The JSON-RPC error for the body; it has no id.
        headers: What else belongs into the head of the answer, as it goes on the wire.

    Raises:
        TypeError: A header field, or the status, is something else.
        ValueError: One of them could not be sent as what it is: a value with the end of a line in it, text beyond
            Latin-1, a status that is no error. Here and not where it is sent: nothing could be answered there.
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


def busy(status: int, problem: str, wait: float = 1) -> HttpRefused:
    """Return the refusal of what may come again, after so many seconds: 429 or 503, with `Retry-After`."""
    seconds = max(1, math.ceil(min(wait, MAX_SECONDS)))
    return HttpRefused(status, problem, [(b"retry-after", b"%d" % seconds)], code=SERVER_BUSY)


def _host_and_port(authority: str) -> tuple[str, str | None] | None:
    """Take apart the value of `Host`, or what follows the scheme in an origin. What is too long is none."""
    found = _AUTHORITY.fullmatch(authority) if len(authority) <= MAX_AUTHORITY else None
    return None if found is None else (found[1].lower().removesuffix("."), found[2])


def _checked_host(entry: str) -> str:
    if entry.startswith("*.") and _host_and_port(entry[2:]) is not None:
        return entry.lower()
    if _host_and_port(entry) is None or "*" in entry.partition(":")[0]:
        raise ValueError(
            f"an allowed host is written like example.com, example.com:8000 or *.example.com, not {entry!r}"
        )
    return entry.lower()


def _checked_origin(entry: str) -> str:
    scheme, separator, authority = entry.lower().partition("://")
    if not separator or not scheme.isalpha() or _host_and_port(authority) is None:
        raise ValueError(
            f"an allowed origin is written like https://example.com or http://localhost:*, not {entry!r}"
        )
    return entry.lower()


def _checked_hosts(entries: Iterable[str] | None) -> frozenset[str] | None:
    return None if entries is None else frozenset(map(_checked_host, entries))


def _checked_origins(entries: Iterable[str] | None) -> frozenset[str] | None:
    return None if entries is None else frozenset(map(_checked_origin, entries))


@final
@attrs.frozen(kw_only=True)
class HostRules:
    """Which names an endpoint answers to, and which web pages may call it.

    A page that has made its own name point at this machine (DNS rebinding) still sends that name.

    Attributes:
        allowed_hosts: The values of `Host` that are let in: ``example.com`` with any port,
            ``example.com:8000`` with that port only, ``*.example.com`` for every name below. `None` lets in all.
        allowed_origins: The values of `Origin` that are let in: ``https://example.com``, or
            ``http://localhost:*`` for any port. Pages of this very endpoint are let in if hosts are checked, and
            requests without the field always. `None` lets in all.
    """

    allowed_hosts: frozenset[str] | None = attrs.field(default=LOCAL_HOSTS, converter=_checked_hosts)
    allowed_origins: frozenset[str] | None = attrs.field(default=LOCAL_ORIGINS, converter=_checked_origins)

    _suffixes: tuple[str, ...] = attrs.field(init=False, repr=False, eq=False)
    """What the names below an allowed one end with."""

    @_suffixes.default  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUntypedFunctionDecorator]
    def _read_suffixes(self) -> tuple[str, ...]:
        return tuple(entry[1:] for entry in self.allowed_hosts or () if entry.startswith("*."))

    def check(self, headers: Headers) -> None:
        """Check where a request was sent to, and which page sent it.

        Raises:
            HttpRefused: 421 for the host, 403 for the origin.
        """
        host = headers.get("host") or ""
        if self.allowed_hosts is not None and not self._allows_host(host, self.allowed_hosts):
            raise HttpRefused(421, f"Host {_shown(host)} is not in allowed_hosts")
        # Several are joined, and then they are no origin: one page sends a request (RFC 6454, section 7.3).
        origin = headers.get("origin")
        if origin is None or self.allowed_origins is None:
            return
        if not self._allows_origin(origin, host, self.allowed_origins):
            raise HttpRefused(403, f"Origin {_shown(origin)} is not in allowed_origins")

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
        # Where hosts are checked this one is ours by now.
        if self.allowed_hosts is not None and here is not None:
            same = (name, port or default) == (here[0], here[1] or default)
        else:
            same = False
        candidates = {f"{scheme}://{name}:*", f"{scheme}://{name}:{port or default}"}
        if port is None or port == default:
            candidates.add(f"{scheme}://{name}")
        return same or not candidates.isdisjoint(allowed)


def media_type_of(content_type: str | None) -> str | None:
    """Return the media type of a body without its parameters, in lower case."""
    return None if content_type is None else content_type.partition(";")[0].strip().lower()


def check_content_type(headers: Headers) -> None:
    """Check that the body of a POST is JSON in UTF-8, as it is: who decodes bodies on the way would read another.

    Raises:
        HttpRefused: 415, because it says that it is something else, or nothing.
    """
    coding = headers.get("content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise HttpRefused(415, f"Content-Encoding must be identity, and is {_shown(coding)}")
    content_type = headers.get("content-type")
    if media_type_of(content_type) != JSON:
        shown = "missing" if content_type is None else _shown(content_type)
        raise HttpRefused(415, f"Content-Type must be {JSON}, and is {shown}")
    for parameter in (content_type or "").split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "charset" and value.strip('"').lower() not in ("utf-8", "utf8", "us-ascii"):
            raise HttpRefused(415, f"Content-Type must be JSON in UTF-8, and is {_shown(content_type or '')}")


MAX_KEPT: Final = 256
"""The longest `Accept` of which is kept what it means, in characters."""

_QUALITY: Final = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def accepts(accept: str | None, media_type: str) -> bool:
    """Whether `Accept` lets an answer be of a media type (RFC 9110, 12.5.1). Without it, everything goes."""
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
    """Check that the sender accepts every form the answer may take.

    Raises:
        HttpRefused: 406, because it does not.
    """
    accept = headers.get("accept")
    if missing := [each for each in media_types if not accepts(accept, each)]:
        raise HttpRefused(406, f"Accept must list {' and '.join(missing)}, and is {_shown(accept or '')}")


def _shown(value: str) -> str:
    return repr(value if len(value) <= 100 else f"{value[:100]}…")
