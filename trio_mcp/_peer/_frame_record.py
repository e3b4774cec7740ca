"""The record of a connection's messages: lines of JSON, without secrets. No event loop, but Trio's clock."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, TextIO, TypeAlias, final
from urllib.parse import unquote

import attrs
import trio

from .._codec._json import is_array, is_object
from .._logs import WIRE, Log

_wire: Final = Log(WIRE)

MASKED: Final = "***"
"""What stands in a record in place of a secret."""

_SECRET: Final = re.compile(
    r"((?i:pass([\W_]?words?|wd|phrase|code)|secrets?|tokens?|jwt|bearer|authorization|credentials?|creds|cookies?"
    r"|(api|access|private|secret|signing|encryption|ssh|auth|account|master|deploy|storage|license|shared)[\W_]?keys?"
    r"|connection[\W_]?string|seed[\W_]?phrase|code[_-]?verifier|(device|verification)[_-]?code|client[_-]?assertion)"
    # Short names only as words of their own: a "spin" is no PIN, and a "compass" no password.
    r"|(?<![A-Za-z])(?i:pass|pwd?|otp|pin)|(?<=[a-z0-9])(P(ass|ASS|wd|WD|in|IN)|Otp|OTP))"
    # What tells one secret from another may follow, but not what is asked of all, as in "tokenCount".
    r"(?i:[_-]?(value|hash|confirm(ation)?|again|new|old|base|pem|json|string|code|dev|test|staging|prod))?[_-]?[0-9]*\W*$"
)
_NAME: Final = re.compile(r"""(?<![\w$.-])([\w$.-]{1,100})\\*["']?\s*[:=]""")
"""What stands before a value, in JSON, in JSON within a text, and in what people write."""
_PASSWORD_OF_URL: Final = re.compile(r"(://[^\s/?#@:]*:)(?!\d{1,5}[/?#])(?:(?!://)\S)+(?=@)")
"""To the last sign of the many that a password may have in it: a part of one must not be shown."""
_PARAMETER_OF_URL: Final = re.compile(
    r"(?i)(?:[?&#;]|%(?:25)*(?:3F|3B|26|23))([^\s=&?#;]{1,100}?)(?:=|%(?:25)*3D)"
)
"""The name of one; in a URL that is a parameter of another all signs are encoded."""
_VALUE_OF_PARAMETER: Final = re.compile(r"[^\s&#]*")
_OF_LOGINS: Final = frozenset({"assertion", "code", "sig", "signature", "x-amz-signature", "x-goog-signature"})
"""Parameters of URLs that let somebody in who has them, though their names mean other things elsewhere."""
_TOO_DEEP: Final = "a message that is nested too deeply to be recorded"
_NO_SECRETS: Final = re.compile(r"(?i)(progress|(next|previous)_?(page)?|page|continuation|sync)_?token")
"""What the protocol itself calls so, and pages. A `requestState` is sealed, and needed to replay a record."""
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
"""Members that are schemas, in which the names of secrets are the names of what is asked for."""
_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Members of a schema whose own members are schemas, by names that others have chosen."""


def open_record(path: str | os.PathLike[str]) -> TextIO:
    """Open a file for a record, which nobody else may read: not all of what is confidential has a telling name.

    Raises:
        OSError: It cannot be written.
    """
    file = open(path, "w", encoding="utf-8", opener=partial(os.open, mode=0o600))  # noqa: SIM115 - the caller's
    if sys.platform != "win32" and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        os.fchmod(file.fileno(), 0o600)  # one that was there already
    return file


FrameDirection: TypeAlias = Literal["sent", "received"]


def masked(value: Any) -> Any:
    """Return plain JSON in which texts and numbers are masked that the names of their members show as secrets.

    Also all that is in an object or array of such a name, and what stands beside such a name, as of variables and
    header fields: ``{"name": "API_KEY", "value": …}``. Of other texts, see `masked_text`.
    """
    if is_object(value):
        said = [each for name, each in value.items() if name.lower() in ("name", "key") and isinstance(each, str)]
        secret = "value" if any(map(_is_secret, said)) else None
        return {
            masked_url(name): _masked_member(name, inner, is_secret=name.lower() == secret)
            for name, inner in value.items()
        }
    if is_array(value):
        return [masked(inner) for inner in value]
    return masked_text(value) if isinstance(value, str) else value


def _masked_member(name: str, value: Any, *, is_secret: bool = False) -> Any:
    if name in _SCHEMAS:
        return _masked_schema(value, "")
    return _hidden(value, name) if is_secret or _is_secret(name) else masked(value)


def _masked_schema(value: Any, of: str) -> Any:
    """Return a schema in which the values are masked that it has for a secret.

    Args:
        value: The schema, or a part of it.
        of: The name of the property whose schema it is.
    """
    if is_array(value):
        return [_masked_schema(each, of) for each in value]
    if not is_object(value):
        return masked(value)
    shown: dict[str, Any] = {}
    for name, inner in value.items():
        if name in _OF_SCHEMAS and is_object(inner):
            shown[name] = {each: _masked_schema(schema, each) for each, schema in inner.items()}
        elif name in ("default", "const", "enum", "examples"):
            shown[name] = _masked_member(of, inner)
        else:
            shown[name] = _masked_schema(inner, of)
    return shown


def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None and _NO_SECRETS.fullmatch(name) is None


def masked_text(text: str) -> str:
    """Return a text in which secrets are masked that JSON and URLs show as such.

    A typed result is in its message twice: as JSON, and as a text of the same JSON. JSON that is broken, or has
    a member twice, is shown up to the first secret in it.
    """
    bare = text.lstrip("\ufeff \t\r\n")
    if bare[:1] in ("{", "[", '"'):
        try:
            value = json.loads(bare, object_pairs_hook=_each_once)
            shown = masked(value)
        except ValueError:
            text = _up_to_secret(text)
        except RecursionError:
            return MASKED
        else:
            return text if shown == value else json.dumps(shown, ensure_ascii=False)
    return masked_url(text)


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) < len(members):
        raise ValueError("the text has more in it than its value")
    return value


def masked_url(text: str) -> str:
    """Return a text in which passwords and such parameters of URLs are masked."""
    text = _PASSWORD_OF_URL.sub(rf"\1{MASKED}", text)
    kept: list[str] = []
    end = 0
    for found in _PARAMETER_OF_URL.finditer(text):
        name = unquote(found[1])
        if found.start() >= end and (name.lower() in _OF_LOGINS or _is_secret(name)):
            kept += text[end : found.end()], MASKED
            end = next(_VALUE_OF_PARAMETER.finditer(text, found.end())).end()
    return "".join((*kept, text[end:]))


def _up_to_secret(text: str) -> str:
    end = next((found.end() for found in _NAME.finditer(text) if _is_secret(found[1])), None)
    return text if end is None else f"{text[:end]} {MASKED}"


def _hidden(value: Any, name: str) -> Any:
    if is_object(value):
        return {masked_url(inner): _hidden(each, name) for inner, each in value.items()}
    if is_array(value):
        return [_hidden(each, name) for each in value]
    # Numbers of tokens are counts: `maxTokens`.
    is_shown = not isinstance(value, str) and name.lower().endswith("tokens")
    return value if value is None or isinstance(value, bool) or is_shown else MASKED


@final
@attrs.frozen
class RecordedFrame:
    """A message of a record.

    Attributes:
        direction: Whether whoever has recorded it had sent it or received it.
        message: The message, decoded, its secrets masked; a text, if it was no JSON.
        at: When, in seconds from the beginning of the record, on Trio's clock.
        time: When, as a date of ISO 8601 in UTC.
    """

    direction: FrameDirection
    message: Any
    at: float = 0.0
    time: str = ""

    def line(self) -> str:
        """Return it as a line of a record."""
        return json.dumps(
            {"time": self.time, "at": self.at, "direction": self.direction, "message": self.message}
        )


def frame_of(direction: FrameDirection, data: bytes, begin: float) -> RecordedFrame:
    """Return a message that goes by now, for a record that has begun at a time of Trio's clock."""
    at = round(trio.current_time() - begin, 6)
    return RecordedFrame(direction, _message_in(data), at, datetime.now(UTC).isoformat())


def show_frame(other_side: str, direction: FrameDirection, data: bytes) -> None:
    """Log a message, its secrets masked, as one line that is cut where it is very long. Does not raise."""
    try:
        message = _message_in(data)
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    except RecursionError:
        text = _TOO_DEEP
    _wire.debug("%s %s: %s", "-->" if direction == "sent" else "<--", other_side, text)


def _message_in(data: bytes) -> Any:
    try:
        return masked(json.loads(data))
    except ValueError:
        return masked_text(_up_to_secret(data.decode("utf-8", "backslashreplace")))
    except RecursionError:
        return _TOO_DEEP  # it may hold secrets


def write_frame(file: TextIO, frame: RecordedFrame) -> None:
    """Write a line. What was said until this program is killed is there.

    Raises:
        OSError: The file does not take it.
        RecursionError: The message is nested too deeply.
    """
    file.write(frame.line() + "\n")
    file.flush()
