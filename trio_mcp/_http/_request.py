"""A request of ours, before it is sent, and as it is sent. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, final

import attrs

from .._core._headers import HeaderField
from .._errors import LocalProtocolError
from .._version import __version__
from ._target import HttpTarget

__all__ = ["HttpRequest", "encode_request"]

_OURS: Final = (
    (b"user-agent", b"User-Agent: trio-mcp/%b\r\n" % __version__.encode("ascii")),
    (b"accept-encoding", b"Accept-Encoding: identity\r\n"),
)
"""What a request says where nobody has said anything else."""

_FRAMING: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade"))
"""What follows from the request and the connection."""

_FIRST_LINE: Final = re.compile(rb"[A-Z]{1,32} [\x21-\x7e]+ HTTP/1\.1\r\n")
_VISIBLE: Final = rb"[\x21-\x7e\x80-\xff]"
_FIELD: Final = rb"[!#$%%&'*+\-.^_`|~0-9A-Za-z]+: (?:%b(?:[\x20-\x7e\t\x80-\xff]*%b)?)?\r\n" % (
    _VISIBLE,
    _VISIBLE,
)
_FIELDS: Final = re.compile(rb"(?:%b)*" % _FIELD)
_ONE_FIELD: Final = re.compile(_FIELD)


@final
@attrs.frozen(kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        method: In capitals.
        target: Where it goes.
        headers: What it says of itself, beside `Host`, `Content-Length` and what the connection needs.
        body: What it carries.
        on_sent: Called before its last bytes go, since from then on the server may have all of it.
    """

    method: str
    target: HttpTarget
    headers: Sequence[HeaderField] = attrs.field(default=(), repr=False)  # credentials, for one
    body: bytes = attrs.field(default=b"", repr=False)
    on_sent: Callable[[], object] | None = attrs.field(default=None, eq=False, repr=False)


def encode_request(request: HttpRequest, through_proxy: Sequence[HeaderField] | None = None) -> bytes:
    """Return a request as it goes over a connection.

    Args:
        request: What is asked.
        through_proxy: Fields for a proxy that forwards single requests. Then the first line has the whole URL.

    Raises:
        LocalProtocolError: It would not be one request of HTTP/1.1, but none, or more than one.
    """
    target, headers, body = request.target, request.headers, request.body
    chosen = {name.lower() for name, _ in headers}
    if not _FRAMING.isdisjoint(chosen):
        names = b", ".join(sorted(_FRAMING & chosen)).decode("ascii")
        raise LocalProtocolError(f"the request to {target.origin} cannot choose what it says in {names}")
    where = target.path if through_proxy is None else target.url
    first_line = b"%b %b HTTP/1.1\r\n" % (request.method.encode(), where.encode())
    host = (b"Host", target.authority.encode())
    fields = [b"%b: %b\r\n" % field for field in (host, *(through_proxy or ()), *headers)]
    lines = b"".join(fields)
    # All fields in one go, which is many times as fast. A line break in a field would make two good ones of it.
    if not _FIRST_LINE.fullmatch(first_line) or not _FIELDS.fullmatch(lines) or lines.count(b"\n") != len(fields):
        raise LocalProtocolError(f"the request to {target.origin} is not HTTP: {_fault_in(first_line, fields)}")
    ours = b"".join([line for name, line in _OURS if name not in chosen])
    length = b""
    if body or request.method not in ("GET", "HEAD", "DELETE"):
        length = b"Content-Length: %d\r\n" % len(body)
    return b"".join((first_line, lines, ours, length, b"\r\n", body))


def _fault_in(first_line: bytes, fields: Sequence[bytes]) -> str:
    """Say what is wrong, without values, which may be credentials."""
    for field in fields:
        if not _ONE_FIELD.fullmatch(field):
            return f"the header field {field.partition(b': ')[0]!r} contains what no field can"
    return f"it would begin with {first_line!r}"
