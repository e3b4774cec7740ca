"""What the URL of a proxy says. No I/O."""

from __future__ import annotations

import base64
from typing import Final, final
from urllib.parse import unquote, urlsplit

import attrs

from .._core._headers import HeaderField
from ._target import HttpTarget, parse_target

__all__ = ["HttpProxy", "read_proxy"]

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
