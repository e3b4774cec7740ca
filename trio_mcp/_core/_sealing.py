"""What a client keeps for the server and sends back: `requestState`, encrypted, and cursors, signed.

No I/O, no Trio; time is an argument. What is in a state, and that it is used only once, is decided elsewhere.

Spec: 2026-07-28, basic/patterns/mrtr, "Server Requirements"; server/utilities/pagination, "Implementation
Guidelines".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import math
import re
import secrets
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs

from .._errors import INVALID_PARAMS, RequestError

# State. The client can neither read it nor change it, nor use it for another request.
#
# A sealed state is ``1.`` and, in URL-safe Base64 without padding: 12 bytes of salt, 12 bytes of nonce, and the
# AES-256-GCM ciphertext of expiry and payload, with the version and the binding as associated data. Each state
# has a key derived from the secret and its salt, so that one secret may seal any number of states: 24 random
# bytes are used where AES-GCM alone has 12, of which only 2**32 may be drawn (NIST SP 800-38D, 8.3).

MIN_KEY_BYTES: Final = 32
"""The shortest secret: as many bytes as a key of AES-256."""

MAX_KEYS: Final = 16
"""How many secrets may open states. Each is tried on each state, even after another has opened it."""

MAX_PAYLOAD: Final = 64 * 1024
"""How many bytes can be sealed by default: the client has to send them back."""

REFUSAL: Final = "requestState is not valid for this request, or not any more"
"""The whole error message for a client, whatever is wrong. A more exact one would help to forge states."""

_VERSION: Final = "1."
_LABEL: Final = b"trio-mcp requestState 1"
_SALT: Final = 12
_NONCE: Final = 12
_TAG: Final = 16
_EXPIRY: Final = struct.Struct(">d")
_OVERHEAD: Final = _SALT + _NONCE + _EXPIRY.size + _TAG
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]+")


@final
class StateRefused(RequestError):
    """A state is forged, belongs to another request or another client, or is too old."""

    def __init__(self) -> None:
        super().__init__(INVALID_PARAMS, REFUSAL)


@final
class Sealer:
    """Seals state and opens it again.

    Args:
        keys: Secrets of at least 32 bytes, from a good source of randomness. The first seals, all of them open:
            to change the secret, put the new one first and drop the old when its states have expired. `None` for
            a random secret that lasts as long as this process.
        max_payload: How many bytes may be sealed at once.

    Attributes:
        is_random: Whether the secret is random.

    Raises:
        TypeError: `keys` is not a sequence, or a secret is not bytes.
        ValueError: There is no secret, there are more than 16, or one is shorter than 32 bytes.
    """

    def __init__(self, keys: Sequence[bytes] | None = None, *, max_payload: int = MAX_PAYLOAD) -> None:
        self.is_random: Final = keys is None
        if keys is None:
            keys = (secrets.token_bytes(MIN_KEY_BYTES),)
        if isinstance(keys, (bytes, str)):  # type: ignore[unreachable]  # the caller may be untyped
            raise TypeError("keys must be a sequence of secrets, not one secret")
        if not 1 <= len(keys) <= MAX_KEYS:
            raise ValueError(f"keys must have 1 to {MAX_KEYS} secrets, not {len(keys)}")
        for number, key in enumerate(keys):
            if not isinstance(key, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]  # the caller may be untyped
                raise TypeError(f"keys[{number}] must be bytes")
            if len(key) < MIN_KEY_BYTES:
                raise ValueError(f"keys[{number}] has {len(key)} bytes, and needs at least {MIN_KEY_BYTES}")
        # 32 bytes from a secret of any length: HKDF-Extract (RFC 5869, section 2.2).
        self._secrets = tuple(hmac.digest(_LABEL, key, hashlib.sha256) for key in keys)
        self._max_payload = max_payload
        self._max_chars = len(_VERSION) + math.ceil((_OVERHEAD + max_payload) * 4 / 3)

    def __repr__(self) -> str:
        return f"Sealer({len(self._secrets)} keys)"

    def seal(self, payload: bytes, *, binding: bytes, now: float, ttl: float) -> str:
        """Seal state for a client to keep.

        Args:
            payload: The state.
            binding: What it belongs to; see `binding_of`. It is not in the result.
            now: The time in seconds, on the clock that `open` is given.
            ttl: For how many seconds it can be opened; ``math.inf`` for ever.

        Returns:
            Text of letters, digits, ``-``, ``_`` and one ``.``.

        Raises:
            ValueError: The payload is too long, the time is not a finite number, or the ttl is not above 0.
        """
        if len(payload) > self._max_payload:
            raise ValueError(f"payload has {len(payload)} bytes; max_payload is {self._max_payload}")
        if not (math.isfinite(now) and ttl > 0):
            raise ValueError(f"state cannot be sealed at {now!r} for {ttl!r} seconds")
        random = secrets.token_bytes(_SALT + _NONCE)
        plain = _EXPIRY.pack(now + ttl) + payload
        sealed = _cipher(self._secrets[0], random).encrypt(random[_SALT:], plain, _associated(binding))
        return _VERSION + base64.urlsafe_b64encode(random + sealed).rstrip(b"=").decode("ascii")

    def open(self, state: str, *, binding: bytes, now: float) -> bytes:
        """Open a sealed state.

        Args:
            state: What the client has sent.
            binding: What it must belong to.
            now: The time in seconds.

        Returns:
            The payload.

        Raises:
            StateRefused: Anything is wrong; the error does not say what.
        """
        payload = self._opened(state, binding, now)
        if payload is None:
            raise StateRefused
        return payload

    def _opened(self, state: object, binding: bytes, now: float) -> bytes | None:
        data = self._decoded(state)
        if data is None:
            return None
        from cryptography.exceptions import InvalidTag

        random, sealed = data[: _SALT + _NONCE], data[_SALT + _NONCE :]
        plain: bytes | None = None
        for secret in self._secrets:  # always all of them, so that the time taken does not reveal which one
            try:
                plain = _cipher(secret, random).decrypt(random[_SALT:], sealed, _associated(binding))
            except InvalidTag:
                continue
        if plain is None or not now < _EXPIRY.unpack_from(plain)[0]:
            return None
        return plain[_EXPIRY.size :]

    def _decoded(self, state: object) -> bytes | None:
        if not isinstance(state, str) or len(state) > self._max_chars or not state.startswith(_VERSION):
            return None
        text = state.removeprefix(_VERSION)
        if _BASE64.fullmatch(text) is None or len(text) % 4 == 1:
            return None
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        # The last character has unused bits; only one spelling of a state is accepted.
        is_canonical = base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii") == text
        return data if is_canonical and len(data) >= _OVERHEAD else None


def _cipher(secret: bytes, random: bytes) -> Any:
    """Return the cipher of one state; its key is HKDF-Expand (RFC 5869, section 2.3) of secret and salt."""
    # Imported when first needed: most servers never seal anything.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(secret, _LABEL + random[:_SALT] + b"\x01", hashlib.sha256))


def _associated(binding: bytes) -> bytes:
    return _LABEL + b"\x00" + binding


_LONG: Final = 4096
"""From how many characters on a text among arguments is digested by itself."""


def binding_of(
    *, principal: str | None, method: str, target: str, arguments: Mapping[str, Any] | None, server: str
) -> bytes:
    """Digest what a state belongs to. Any difference gives another digest, also of ``1``, ``1.0`` and ``"1"``.

    Args:
        principal: The principal of the client, if it is known.
        method: The method of the request.
        target: The name of the tool or the prompt, or the URI.
        arguments: The arguments, as plain JSON; the order of members makes no difference.
        server: The name of the server.

    Raises:
        ValueError: The arguments hold a number that JSON lacks.
        TypeError: They hold something else that JSON lacks.
        RecursionError: They are nested about a thousand levels deep.
    """
    parts: list[object] = [server, principal, method, target, arguments]
    # They are what a request has brought, and may be anything.
    members: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
    long = {name: text for name, text in members.items() if isinstance(text, str) and len(text) > _LONG}
    if long:  # writing them as JSON would take several times as long as decoding them did
        parts[-1] = {name: value for name, value in members.items() if name not in long}
        texts = {name: text.encode("utf-8", "surrogatepass") for name, text in long.items()}
        parts.append({name: hashlib.sha256(text).hexdigest() for name, text in texts.items()})
    return hashlib.sha256(_associated(_canonical(parts).encode("ascii"))).digest()


_canonical: Final = json.JSONEncoder(
    sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
).encode  # made once: `json.dumps` makes one for each call


# Cursors. A cursor holds the number under which the last item of its page was registered, and its name. The next
# page begins with the first item that was registered later, so that no item is left out or repeated because
# others are added or removed. In another process that shares the key the numbers may differ; there the name
# counts.

_PURPOSE: Final = b"trio-mcp cursor 1"
"""What the key is used for, so that one secret can have other uses besides cursors."""

_TAG_BYTES: Final = 16
"""Bytes of the authentication code: 128 bits cannot be guessed over a network."""

MIN_CURSOR_KEY_BYTES: Final = 16
"""The shortest secret for cursors: as many bytes as an authentication code."""

MAX_CURSOR: Final = 64 * 1024
"""Characters of the longest cursor that is read, unless this server has made a longer one, for a long name."""


@final
class BadCursor(ValueError):
    """A cursor was not made by this server for this list."""


@final
@attrs.frozen
class Position:
    """A place in a list.

    Attributes:
        origin: What gave the number; without a colon.
        serial: The number under which the last item before it was registered.
        name: The name of that item.
    """

    origin: str
    serial: int
    name: str


@final
class CursorSeal:
    """Makes and reads cursors.

    Args:
        key: A secret of at least 16 bytes. Servers that share it can read each other's cursors.

    Raises:
        ValueError: The key is too short.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_CURSOR_KEY_BYTES:
            raise ValueError(
                f"the key for cursors must have at least {MIN_CURSOR_KEY_BYTES} bytes, not {len(key)}"
            )
        self._key = hmac.digest(key, _PURPOSE, hashlib.sha256)
        self._longest = MAX_CURSOR

    def seal(self, method: str, position: Position) -> str:
        """Return the cursor for a place in the list of a method."""
        content = f"{position.origin}:{position.serial}:{position.name}".encode("utf-8", "surrogatepass")
        cursor = base64.urlsafe_b64encode(self._tag(method, content) + content).decode().rstrip("=")
        self._longest = max(self._longest, len(cursor))
        return cursor

    def open(self, method: str, cursor: str) -> Position:
        """Return the place in a list that a cursor stands for.

        Raises:
            BadCursor: It was changed, or made with another key or for another method.
        """
        if len(cursor) > self._longest:
            raise BadCursor(f"the cursor is longer than any of this server's, {len(cursor)} characters")
        try:
            data = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise BadCursor("the cursor is not one of this server's") from None
        tag, content = data[:_TAG_BYTES], data[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(method, content)):
            raise BadCursor("the cursor is not one of this server's, or of another list")
        origin, serial, name = content.decode("utf-8", "surrogatepass").split(":", 2)
        position = Position(origin, int(serial), name)
        # The last character has unused bits; only one spelling of a cursor is accepted.
        if self.seal(method, position) != cursor:
            raise BadCursor("the cursor was changed")
        return position

    def _tag(self, method: str, content: bytes) -> bytes:
        return hmac.digest(self._key, method.encode() + b"\0" + content, hashlib.sha256)[:_TAG_BYTES]
