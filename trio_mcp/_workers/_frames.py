"""What processes that serve together send each other: frames, each of a kind, a length and a payload.

    HEAD, BODY…                        a request that another process is to answer, and its body
    TAKEN  or  MISSING                 it is served now; or what it goes on with is not there
    WHOLE  or  ANSWER, DATA…, END      the answer, in one piece or as it comes
    LINK, CHANGE or TASK…              who has connected, and what has changed there

Both ends are of one version, and nobody else can connect: nothing is checked here but sizes.
"""

from __future__ import annotations

import struct
from typing import Any, Final, final

import trio

from .._codec import _json
from .._codec._json import is_array, is_object
from .._core._http1 import HeaderField, Headers
from .._endpoint._call import HttpCall
from .._oauth._principal import ClientCertificate

HEAD: Final = b"H"
BODY: Final = b"B"
TAKEN: Final = b"Y"
MISSING: Final = b"N"
WHOLE: Final = b"W"
ANSWER: Final = b"A"
DATA: Final = b"D"
END: Final = b"E"
LINK: Final = b"L"
CHANGE: Final = b"C"
TASK: Final = b"T"

PIECE: Final = 64 * 1024
"""How many bytes of a body are in one frame, at most."""

_PREFIX: Final = struct.Struct(">cI")
_SIZE: Final = struct.Struct(">I")


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return _PREFIX.pack(kind, len(payload)) + payload


def pieces(kind: bytes, data: bytes) -> bytes:
    """Return data as frames, none of them large."""
    if len(data) <= PIECE:
        return frame(kind, data) if data else b""
    return b"".join([frame(kind, data[start : start + PIECE]) for start in range(0, len(data), PIECE)])


@final
class FrameReader:
    """Reads frames.

    Args:
        stream: Where they come from.
    """

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def read(self) -> tuple[bytes, bytes] | None:
        """Wait for a frame; return its kind and its payload, or `None` at the end.

        Cancelled, nothing is lost.
        """
        try:
            if not await self._fill(_PREFIX.size):
                return None
            kind, size = _PREFIX.unpack_from(self._buffer)
            if not await self._fill(_PREFIX.size + size):
                return None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        payload = bytes(self._buffer[_PREFIX.size : _PREFIX.size + size])
        del self._buffer[: _PREFIX.size + size]
        return kind, payload

    async def _fill(self, size: int) -> bool:
        while len(self._buffer) < size:
            data = await self._stream.receive_some(max(PIECE, size - len(self._buffer)))
            if not data:
                return False
            self._buffer += data
        return True


# Heads, as JSON. Bytes of header fields are text of one character for each.


def encode_request_head(call: HttpCall, length: int) -> bytes:
    """Return the head of a request, with what is known of the connection that it came over."""
    certificate = call.certificate
    return _json.encode(
        {
            "method": call.method,
            "path": call.path,
            "target": call.target.decode("latin-1"),
            "query": call.query,
            "client": call.client,
            "scheme": call.scheme,
            "headers": _written(call.headers.fields),
            "length": length,
            "certificate": None if certificate is None else [certificate.der.hex(), dict(certificate.fields)],
        }
    )


def certificate_in(head: dict[str, Any]) -> ClientCertificate | None:
    """Return the certificate of the client in the head of a request."""
    found = head["certificate"]
    return None if found is None else ClientCertificate(bytes.fromhex(found[0]), _with_tuples(found[1]))


def headers_in(head: dict[str, Any]) -> Headers:
    """Return the header fields in the head of a request."""
    return Headers(_read(head["headers"]))


def encode_answer_head(status: int, headers: list[HeaderField]) -> bytes:
    """Return the head of an answer."""
    return _json.encode([status, _written(headers)])


def decode_answer_head(payload: bytes) -> tuple[int, list[HeaderField]]:
    """Return the status and the header fields of an answer."""
    status, headers = _json.decode(payload)
    return status, _read(headers)


def encode_whole(head: bytes, body: bytes) -> bytes:
    """Return a whole answer."""
    return _SIZE.pack(len(head)) + head + body


def decode_whole(payload: bytes) -> tuple[int, list[HeaderField], bytes]:
    """Return a whole answer."""
    end = _SIZE.size + _SIZE.unpack_from(payload)[0]
    return *decode_answer_head(payload[_SIZE.size : end]), payload[end:]


def _written(fields: Any) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in fields]


def _read(fields: list[list[str]]) -> list[HeaderField]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]


def _with_tuples(value: Any) -> Any:
    """Return what `ssl.SSLSocket.getpeercert` gives from the same as JSON."""
    if is_object(value):
        return {name: _with_tuples(each) for name, each in value.items()}
    return tuple(map(_with_tuples, value)) if is_array(value) else value
