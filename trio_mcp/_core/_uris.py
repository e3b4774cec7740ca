"""URIs as text: percent-encoding, the syntax of RFC 3986, and which URIs are the same. No templates here."""

from __future__ import annotations

import re
import string
from typing import Final
from urllib.parse import urlsplit

__all__ = [
    "RESERVED",
    "UNRESERVED",
    "check_uri",
    "check_web_url",
    "normalised",
    "pct_decoded",
    "pct_encoded",
    "respelled",
    "scheme_of",
]

UNRESERVED: Final = frozenset(string.ascii_letters + string.digits + "-._~")
"""What never needs an encoding, and never has a meaning of its own (RFC 3986, section 2.3)."""

RESERVED: Final = frozenset(":/?#[]@!$&'()*+,;=")
"""What may delimit the parts of a URI (RFC 3986, section 2.2)."""

_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_TRIPLETS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?=:)")

# Each class is disjoint from what ends it, so matching is linear.
_PCHAR: Final = r"[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2}"
_AUTHORITY: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]]|%[0-9A-Fa-f]{2})*"
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*:(?://{_AUTHORITY}(?=[/?#]|\Z))?(?:{_PCHAR}|/)*"
    rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:\#(?:{_PCHAR}|[/?])*)?"
)


def scheme_of(text: str) -> str | None:
    """Return the scheme a URI, or the text before a template's first expression, begins with."""
    found = _SCHEME.match(text)
    return None if found is None else found[0].lower()


def check_uri(uri: str, *, max_length: int) -> None:
    """Make sure that a text is a URI: absolute, and of the syntax of RFC 3986.

    Args:
        uri: The text.
        max_length: How many characters it may have.

    Raises:
        ValueError: It is not, and why.

    Spec: 2026-07-28, server/resources, "Security Considerations".
    """
    if len(uri) > max_length:
        raise ValueError(f"a URI of {len(uri)} characters is too long; {max_length} are allowed")
    if _SCHEME.match(uri) is None:
        raise ValueError("a URI begins with a scheme and a colon, such as file: or orders:")
    if _URI.fullmatch(uri) is None:
        raise ValueError("a character in it is not allowed there in a URI, or needs percent-encoding")


def check_web_url(url: str) -> None:
    """Check that a URL can be shown to a user and opened: one of the web, read by a browser as it is read here.

    Browsers take backslashes for slashes, skip line feeds and tabs, and show some letters of other alphabets
    like Latin ones: with any of these the host that a user sees need not be the one they reach.

    Raises:
        ValueError: It cannot, and why.

    Spec: 2025-11-25 and later, client/elicitation, "Safe URL Handling".
    """
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("url must be of printable ASCII without spaces and backslashes: encode everything else")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"url is not a URL: {error!s:.60}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("url must begin with https:// (or http://) and a host")
    if "@" in parts.netloc:
        raise ValueError("url must not contain credentials: whoever sees it could use them")


def normalised(uri: str) -> str:
    """Return the spelling that all URIs which only differ in spelling share.

    The scheme in small letters; no character encoded that never needs it; capital letters in those that are
    (RFC 3986, sections 6.2.2.1 and 6.2.2.2). Nothing is guessed about paths: ``..`` stays what it is.
    """
    scheme = scheme_of(uri)
    if scheme is not None:
        uri = scheme + uri[len(scheme) :]
    return respelled(uri)


def respelled(text: str) -> str:
    """Return a part of a URI as `normalised` spells it; a scheme is not looked for."""
    return _TRIPLET.sub(_respelled_triplet, text) if "%" in text else text


def _respelled_triplet(found: re.Match[str]) -> str:
    character = chr(int(found[0][1:], 16))
    return character if character in UNRESERVED else found[0].upper()


def pct_encoded(text: str, *, keep_reserved: bool = False) -> str:
    """Percent-encode a text as UTF-8.

    Args:
        text: The text.
        keep_reserved: Whether reserved characters and what is encoded already stay as they are.
    """
    if not keep_reserved:
        return _encoded(text, UNRESERVED)
    pieces: list[str] = []
    end = 0
    for found in _TRIPLET.finditer(text):
        pieces += (_encoded(text[end : found.start()], _URI_CHARACTERS), found[0])
        end = found.end()
    return "".join((*pieces, _encoded(text[end:], _URI_CHARACTERS)))


_URI_CHARACTERS: Final = UNRESERVED | RESERVED


def _encoded(text: str, kept: frozenset[str]) -> str:
    if kept.issuperset(text):
        return text
    return "".join(c if c in kept else "".join(f"%{byte:02X}" for byte in c.encode()) for c in text)


def pct_decoded(text: str) -> str:
    """Decode what is percent-encoded.

    Raises:
        ValueError: There is half a triplet in it, or the bytes are not UTF-8.
    """
    if "%" not in text:
        return text
    if "%" in _TRIPLETS.sub("", text):
        raise ValueError("a % without two hexadecimal digits")
    return _TRIPLETS.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)
