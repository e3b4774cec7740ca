"""The heads of HTTP requests: bytes in, what they say out. No I/O.

Spec: RFC 9112, sections 2.2 to 6.3.
"""

from __future__ import annotations

import re
from typing import Final, final

import attrs

from .._core._headers import Headers
from .._core._http_admission import HttpRefused
from .._core._http_heads import ReadFields, check_lines, closes, framing_of

__all__ = ["RequestHead", "read_head"]

_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r\n")


@final
@attrs.define
class RequestHead:
    """What the head of a request says.

    Attributes:
        method: In capitals, or it is no method that anybody knows.
        target: What it is about, as it came.
        headers: Its fields.
        is_one_one: Whether its sender speaks HTTP/1.1, and not 1.0.
        length: How long its body is; `None` for a body in chunks.
        keeps_alive: Whether another request may follow it.
        expects_continue: Whether its sender waits with the body until it is asked for it.
    """

    method: str
    target: bytes
    headers: Headers
    is_one_one: bool
    length: int | None
    keeps_alive: bool
    expects_continue: bool


def read_head(data: bytes, read_fields: ReadFields) -> RequestHead:
    """Read the head of a request.

    Args:
        data: The head, with the empty line at its end, which is the only one.
        read_fields: Reads its fields.

    Raises:
        HttpRefused: It is none, or nothing that is served.
    """
    line = _LINE.match(data)
    if line is None:
        raise _bad("the request line cannot be read")
    try:
        check_lines(data)
        major, minor = line[3], line[4]
        if major != b"1":
            raise HttpRefused(505, f"HTTP/{int(major)}.{int(minor)} is not spoken here, HTTP/1.1 is")
        is_one_one = minor != b"0"
        headers = Headers(read_fields(data[line.end() :]))
        framing = framing_of(headers, is_one_one=is_one_one)
    except ValueError as error:
        raise _bad(str(error)) from error
    if headers.has_repeats or "host" not in headers:
        hosts = headers.get_all("host")
        if len(hosts) > 1 or (is_one_one and not hosts):
            raise _bad(f"Host is there {len(hosts)} times")
    return RequestHead(
        line[1].decode("ascii"),
        line[2],
        headers,
        is_one_one,
        None if framing == "chunked" else framing or 0,
        is_one_one and not closes(headers),
        is_one_one and (headers.get("expect") or "").lower() == "100-continue",
    )


def _bad(problem: str) -> HttpRefused:
    return HttpRefused(400, f"the head of the request cannot be read: {problem}")
