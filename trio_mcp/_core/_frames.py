"""What of the frames of a WebSocket is decided before anything decodes them: sizes, kinds, and the handshake.

The frames themselves are decoded by the library that speaks the protocol. It counts a message in characters, once
they are decoded, and keeps fragments without end, each letter as up to four bytes; so what it is given passes
through a `FrameGuard` first, and is binary to it.

Spec: RFC 6455, sections 4.2.1, 5 and 7.4; 2026-07-28, basic/transports, "Custom Transports".
"""

from __future__ import annotations

import base64
import binascii
import codecs
import hashlib
import struct
from typing import Final, final

import attrs

from .._limits import KIB
from .._printable import printable
from ._http1 import Headers, quoted
from ._http_rules import HttpRefused

SUBPROTOCOL: Final = "mcp"
"""What both ends have to agree on in the handshake (RFC 6455, section 1.9)."""

VERSION: Final = "13"
KEY_BYTES: Final = 16

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
UNSUPPORTED_DATA: Final = 1003
NO_STATUS: Final = 1005
ABNORMAL: Final = 1006
INVALID_DATA: Final = 1007
POLICY_VIOLATION: Final = 1008
TOO_BIG: Final = 1009
TRY_AGAIN_LATER: Final = 1013
"""The last one is of the IANA registry, the others of RFC 6455, section 7.4.1."""

_MEANINGS: Final = {
    NORMAL: "normal closure",
    GOING_AWAY: "going away",
    1002: "protocol error",
    UNSUPPORTED_DATA: "unsupported data",
    NO_STATUS: "no status code",
    ABNORMAL: "no closing handshake",
    INVALID_DATA: "invalid payload data",
    POLICY_VIOLATION: "policy violation",
    TOO_BIG: "message too big",
    1010: "an extension is missing",
    1011: "internal error",
    1012: "service restart",
    TRY_AGAIN_LATER: "try again later",
}

FRAGMENT_BYTES: Final = 64
"""What a fragment takes and weighs beside its payload."""

LEAST_FRAGMENT: Final = 1 * KIB
"""What a fragment weighs at least, unless it is a whole message: each holds the event loop for some time, and a
message may not be of a hundred thousand empty ones."""

PIECE_BYTES: Final = 64 * KIB
"""A frame that is not complete is handed on in pieces of this size: each piece costs the library an object."""

_CONTINUATION: Final = 0
_TEXT: Final = 1
_BINARY: Final = 2
_CONTROL: Final = 8
_CLOSE: Final = 8

MAX_CONTROL_FRAMES: Final = 10_000
"""So many pings and pongs in a row, with neither a message nor a pause between them, are meant to be a burden."""

_OPCODES: Final = frozenset({0, 1, 2, 8, 9, 10})
_RESERVED_BITS: Final = 0x70

_CONTROL_BYTES: Final = 125
"""How large a control frame may be (RFC 6455, section 5.5)."""

_LEAST_LENGTHS: Final = {126: 126, 127: 1 << 16}
_MOST_LENGTH: Final = (1 << 63) - 1
"""What a longer length field must be needed for, and the most that it may say (section 5.2)."""


def shown_close(code: int, reason: str | None) -> str:
    """Return a close code and its reason, for an error: ``1001 (going away): the server stops``."""
    meaning = _MEANINGS.get(code)
    text = f"{code}" if meaning is None else f"{code} ({meaning})"
    return f"{text}: {printable(reason)}" if reason else text


def _tokens(headers: Headers, name: str) -> list[str]:
    return [item.strip() for value in headers.get_all(name) for item in value.split(",")]


def wants_websocket(headers: Headers) -> bool:
    """Whether a request asks to become a WebSocket, in good form or not."""
    upgrade = headers.get("upgrade")
    return upgrade is not None and "websocket" in (token.lower() for token in _tokens(headers, "upgrade"))


def check_handshake(headers: Headers) -> str:
    """Check the header fields of the client's handshake, and return the key in it.

    Raises:
        HttpRefused: One is missing or invalid (400), or of another version of the protocol (426).
    """
    if "upgrade" not in (token.lower() for token in _tokens(headers, "connection")):
        raise HttpRefused(400, "Connection must name Upgrade, so that the connection becomes a WebSocket")
    versions = headers.get_all("sec-websocket-version")
    if versions != [VERSION]:
        found = ", ".join(quoted(each) for each in versions) or "missing"
        raise HttpRefused(
            426 if versions else 400,
            f"Sec-WebSocket-Version must be {VERSION}, and is {found}",
            [("sec-websocket-version", VERSION), ("upgrade", "websocket")],
        )
    keys = headers.get_all("sec-websocket-key")
    try:
        is_valid = len(keys) == 1 and len(base64.b64decode(keys[0], validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        is_valid = False
    if not is_valid:
        raise HttpRefused(400, f"Sec-WebSocket-Key must be sent once, {KEY_BYTES} bytes in base64")
    check_subprotocol(headers)
    return keys[0]


def check_subprotocol(headers: Headers) -> None:
    """Check that the client offers our subprotocol.

    Raises:
        HttpRefused: It does not (400).
    """
    if SUBPROTOCOL not in _tokens(headers, "sec-websocket-protocol"):
        raise HttpRefused(400, f"Sec-WebSocket-Protocol must offer {SUBPROTOCOL!r}")


_ACCEPT_SALT: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def check_answer(headers: Headers, key: str) -> None:
    """Check the header fields with which a server has accepted a handshake.

    Args:
        headers: The fields.
        key: The key in the handshake.

    Raises:
        ValueError: One is missing, or is not what it must be (RFC 6455, section 4.1).
    """
    digest = hashlib.sha1((key + _ACCEPT_SALT).encode("ascii"), usedforsecurity=False).digest()
    expected = {
        "upgrade": "websocket",
        "connection": "upgrade",
        "sec-websocket-accept": base64.b64encode(digest).decode("ascii"),
        "sec-websocket-protocol": SUBPROTOCOL,
    }
    for name, value in expected.items():
        tokens = _tokens(headers, name)
        if name in ("upgrade", "connection"):
            tokens = [token.lower() for token in tokens]
        if value not in tokens or (len(tokens) > 1 and name != "connection"):
            found = quoted(", ".join(tokens)) if tokens else "missing"
            raise ValueError(f"{_SHOWN_NAMES[name]} must be {quoted(value)}, and is {found}")
    if extensions := _tokens(headers, "sec-websocket-extensions"):
        raise ValueError(f"Sec-WebSocket-Extensions is {quoted(', '.join(extensions))}, and none was offered")


_SHOWN_NAMES: Final = {
    "upgrade": "Upgrade",
    "connection": "Connection",
    "sec-websocket-accept": "Sec-WebSocket-Accept",
    "sec-websocket-protocol": "Sec-WebSocket-Protocol",
}


def canonical_handshake(key: str) -> bytes:
    """Return a handshake for the library that completes it: what was checked, and nothing else."""
    return (
        f"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: {VERSION}\r\nSec-WebSocket-Protocol: {SUBPROTOCOL}\r\n"
        f"Sec-WebSocket-Key: {key}\r\n\r\n"
    ).encode("ascii")


def text_head(size: int) -> bytes:
    """Return the head of a server's frame with a whole message of so many bytes (RFC 6455, section 5.2)."""
    if size < 126:
        return bytes((0x80 | _TEXT, size))
    if size < 1 << 16:
        return struct.pack("!BBH", 0x80 | _TEXT, 126, size)
    return struct.pack("!BBQ", 0x80 | _TEXT, 127, size)


def is_utf8(data: bytes) -> bool:
    """Whether a message is text. Decodes it in pieces: four bytes a letter are many."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), PIECE_BYTES):
            decoder.decode(data[at : at + PIECE_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


@final
@attrs.frozen
class FrameRefused:
    """Why a message is not received: what the connection is closed with.

    Attributes:
        code: The close code.
        reason: The reason for it, in one sentence.
    """

    code: int
    reason: str


@final
class FrameGuard:
    """Reads the heads of frames that arrive, and hands the frames on until one of them is not allowed.

    Each frame is handed on when it is complete, or in large pieces. What is not valid by RFC 6455 is handed on as
    well: the library that decodes it closes the connection as the protocol wants. A refused message is not handed
    on, nor any data behind it; only the peer's Close is.

    Text is handed on as binary: the library then keeps the bytes that have arrived, and does not decode each
    fragment into letters of up to four bytes. Whether a whole message is text is for who takes it (`is_utf8`).

    Args:
        max_message_bytes: How large a message may be, in bytes of UTF-8.

    Attributes:
        is_masked: Whether the frames of this peer must be masked; `None` while it is not known which end it is.
        frames: How many frames have begun.
        messages: How many complete messages were handed on.
        size: How much memory the message that is not complete yet takes, in bytes.
        refused: Why no more messages are received; `None` while they are.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self._limit = max_message_bytes
        self._kept = b""  # arrived, and not handed on: the beginning of a frame
        self._parsed = 0  # how much of that was looked at
        # The current frame, once its head is complete.
        self._is_in_frame = False
        self._left = 0  # bytes of its payload that have not arrived
        self._opcode = 0
        self._is_last = False  # of its message
        self._passes = True  # whether it is handed on
        self._has_begun = False  # whether a part of it was handed on
        self._is_invalid = False  # by its head: the library need not wait for the rest
        self._drops = False
        self.is_masked: bool | None = None
        self.frames = 0
        self.messages = 0
        self.size = 0
        self._weight = 0  # of the same message, for its limit
        self._controls = 0  # control frames since the last message, or pause
        self.refused: FrameRefused | None = None

    @property
    def arrived(self) -> int:
        """What has arrived of the message that is not complete yet, in bytes."""
        left = self._left if self._is_in_frame and self._opcode < _CONTROL else 0
        return max(0, self.size - left)

    @property
    def is_between(self) -> bool:
        """Whether no message and no frame has begun and is not complete."""
        return not (self.size or self._kept or self._is_in_frame)

    def drop(self) -> None:
        """Hand on nothing from now on but the peer's Close, and the rest of a frame that was begun."""
        self._drops = True
        self._passes = self._passes and (self._has_begun or self._opcode == _CLOSE)

    def feed(self, arrived: bytes) -> bytes:
        """Take what has arrived, and return what is to be handed on; often nothing."""
        data = bytearray(self._kept + arrived)
        at, end = self._parsed, len(data)
        begin = 0  # of what is handed on without a gap
        handed = 0  # its end; where the current frame begins
        pieces: list[bytearray] = []
        while True:
            if self._is_in_frame:
                step = min(self._left, end - at)
                at += step
                self._left -= step
                if self._left:
                    break
                if self._passes:
                    self._end_frame()
                else:
                    pieces.append(data[begin:handed])
                    begin = at
                handed = at
                self._is_in_frame = self._has_begun = False
            elif head := self._read_head(data, at):
                at += head
                self._is_in_frame = True
            else:
                break
        if self._is_in_frame and not self._passes:
            pieces.append(data[begin:handed])
            begin = handed = at
        elif self._is_in_frame and (at - handed >= PIECE_BYTES or self._is_invalid):
            handed = at
            self._has_begun = True
        self._kept = bytes(data[handed:])
        self._parsed = at - handed
        if pieces:
            return b"".join((*pieces, data[begin:handed]))
        return bytes(data if handed == end else data[:handed])

    def _read_head(self, data: bytearray, at: int) -> int:
        """Read the head of a frame, and make text binary. Returns how long it is; 0 if it is not complete."""
        left = len(data) - at
        if left < 2:
            return 0
        second = data[at + 1]
        length = second & 0x7F
        head = 6 if second & 0x80 else 2
        if length < 126:
            if left < head:
                return 0
        else:
            wide = 2 if length == 126 else 8
            head += wide
            if left < head:
                return 0
            length = int.from_bytes(data[at + 2 : at + 2 + wide])
        self.frames += 1
        self._opcode = opcode = data[at] & 0x0F
        self._is_last = data[at] >= 0x80
        self._left = length
        self._is_invalid = (
            data[at] & _RESERVED_BITS != 0
            or opcode not in _OPCODES
            or (opcode >= _CONTROL and (length > _CONTROL_BYTES or not self._is_last))
            or self.is_masked not in (None, second >= 0x80)
            or length < _LEAST_LENGTHS.get(second & 0x7F, 0)
            or length > _MOST_LENGTH
        )
        if opcode == _TEXT:
            data[at] += _BINARY - _TEXT
        if opcode < _CONTROL and not self._drops:
            self._check_data(opcode, length)
        elif not self._drops:
            self._check_control()
        self._passes = not self._drops or opcode == _CLOSE
        return head

    def _check_control(self) -> None:
        self._controls += 1
        if self._controls > MAX_CONTROL_FRAMES:
            self.refused = FrameRefused(
                POLICY_VIOLATION, f"more than {MAX_CONTROL_FRAMES} control frames in a row"
            )
            self._drops = True

    def note_pause(self) -> None:
        """Note that nothing has arrived for a while."""
        self._controls = 0

    def _check_data(self, opcode: int, length: int) -> None:
        is_fragment = opcode == _CONTINUATION or not self._is_last
        self.size += length
        self._weight += length
        if opcode == _BINARY:
            self.refused = FrameRefused(UNSUPPORTED_DATA, "a message must be text, not binary")
        elif self._weight > self._limit:
            self.refused = FrameRefused(TOO_BIG, f"a message may have {self._limit} bytes (max_message_bytes)")
        self.size += FRAGMENT_BYTES
        self._weight += max(FRAGMENT_BYTES, LEAST_FRAGMENT - length if is_fragment else 0)
        self._drops = self.refused is not None

    def _end_frame(self) -> None:
        if self._opcode < _CONTROL and self._is_last:
            self.messages += 1
            self.size = self._weight = self._controls = 0
