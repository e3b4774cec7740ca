"""Cookies, so that a balancer finds the node that has a session: each goes back to the very address that set it.

The parsers of the standard library do not fit: `http.cookies` drops a whole field for one character and rewrites
what is quoted, `http.cookiejar` asks the wall clock. No I/O.

Spec: RFC 6265, sections 5.1.4 to 5.4.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from typing import Final, final

import attrs
import trio

from .._core._http1 import HeaderField, Headers
from .._core._http_rules import parse_retry_after
from ._messages import HttpRequest, HttpResponse, HttpTransport
from ._target import HttpTarget

MAX_COOKIES: Final = 50
"""How many cookies are kept, of all addresses; then the oldest go (RFC 6265, section 6.1)."""

MAX_COOKIE_BYTES: Final = 4096
"""The longest cookie that is kept, name and value (section 6.1)."""

MAX_JAR_BYTES: Final = 16 * 1024
"""What all cookies may take together: servers refuse heads that are much larger."""

_PAIR: Final = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*=[ \t]*([\x20-\x3a\x3c-\x7e\x80-\xff]*)")
_SECONDS: Final = re.compile(r"-?[0-9]{1,18}")


@final
@attrs.frozen(repr=False)
class _Cookie:
    value: str
    gone_at: float  # on Trio's clock


@final
class CookieJar:
    """The cookies of one client, by the address that set them: scheme, host and port, or a Unix socket.

    `Domain` widens nothing: what is set for other hosts, too, goes back to this one alone.
    """

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], _Cookie] = {}  # by address, path and name; the oldest first
        self._size = 0

    def take(self, target: HttpTarget, headers: Headers) -> None:
        """Keep, replace or delete what a response sets. What is no cookie for its address is ignored."""
        for line in headers.get_all("set-cookie"):
            pair, *attributes = line.split(";")
            if (found := _PAIR.fullmatch(pair.strip(" \t"))) is not None and len(pair) <= MAX_COOKIE_BYTES:
                self._take(target, found[1], found[2].rstrip(" \t"), attributes)

    def _take(self, target: HttpTarget, name: str, value: str, attributes: list[str]) -> None:
        told: dict[str, str] = {}
        for attribute in attributes:
            which, _, text = attribute.partition("=")
            told[which.strip(" \t").lower()] = text.strip(" \t")
        domain = told.get("domain", "").lower().removeprefix(".")
        if ("secure" in told and not target.is_secure) or not f".{target.host}".endswith(
            f".{domain}".rstrip(".")
        ):
            return
        path = told.get("path", "")
        if not path.startswith("/"):
            path = target.path.partition("?")[0].rpartition("/")[0] or "/"
        if (key := (target.address, path, name)) in self._cookies:
            self._drop(key)
        lifetime = math.inf  # until the client is left
        if _SECONDS.fullmatch(told.get("max-age", "")):
            lifetime = float(told["max-age"])
        elif (until := parse_retry_after(told.get("expires"), time.time())) is not None:
            lifetime = until
        if lifetime > 0 and len(path) <= MAX_COOKIE_BYTES:
            self._cookies[key] = _Cookie(value, trio.current_time() + lifetime)
            self._size += _size_of(key, value)
            while len(self._cookies) > MAX_COOKIES or self._size > MAX_JAR_BYTES:
                self._drop(next(iter(self._cookies)))

    def _drop(self, key: tuple[str, str, str]) -> None:
        self._size -= _size_of(key, self._cookies.pop(key).value)

    def add_to(self, target: HttpTarget, headers: Sequence[HeaderField]) -> Sequence[HeaderField]:
        """Return the fields of a request with the cookies for its URL. The user's own win by name."""
        if not self._cookies:
            return headers
        now, path = trio.current_time(), target.path.partition("?")[0]
        for key in [key for key, cookie in self._cookies.items() if cookie.gone_at <= now]:
            self._drop(key)
        own = [value.decode("latin-1") for name, value in headers if name.lower() == b"cookie"]
        taken = {pair.partition("=")[0].strip() for value in own for pair in value.split(";")}
        fitting = [
            (where, f"{name}={cookie.value}")
            for (address, where, name), cookie in self._cookies.items()
            if address == target.address and name not in taken and _covers(where, path)
        ]
        if not fitting:
            return headers
        fitting.sort(key=lambda each: -len(each[0]))  # of one name, the nearest first
        line = "; ".join((*own, *(pair for _, pair in fitting)))
        others = (field for field in headers if field[0].lower() != b"cookie")
        return (*others, (b"Cookie", line.encode("latin-1")))


def _size_of(key: tuple[str, str, str], value: str) -> int:
    return len(key[1]) + len(key[2]) + len(value)


def _covers(where: str, path: str) -> bool:
    """Whether the path of a cookie is that of a request, or above it."""
    return path == where or path.startswith(where if where.endswith("/") else f"{where}/")


@final
@attrs.frozen(eq=False, repr=False)
class CookieTransport:
    """Sends requests with the cookies that the same address has set; redirects and refusals set some, too."""

    _transport: HttpTransport
    _cookies: CookieJar

    async def send(self, request: HttpRequest, *, urgent: bool = False) -> HttpResponse:
        """Send a request; see `HttpTransport.send`."""
        headers = self._cookies.add_to(request.target, request.headers)
        if headers is not request.headers:
            request = attrs.evolve(request, headers=headers)
        response = await self._transport.send(request, urgent=urgent)
        self._cookies.take(request.target, response.headers)
        return response
