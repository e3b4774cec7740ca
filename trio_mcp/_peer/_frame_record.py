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

import attrs
import trio

from .._codec._json import is_array, is_object
from .._logs import WIRE, Log

_wire: Final = Log(WIRE)

MASKED: Final = "***"
"""What stands in a record in place of a secret."""

_SECRET: Final = re.compile(
    r"((?i:pass(words?|wd|phrase|code)|secrets?|tokens?|jwt|bearer|authorization|credentials?|cookies?"
    r"|(api|access|private|secret|signing|encryption|ssh)[ _.-]?keys?|code[_-]?verifier|device[_-]?code"
    r"|client[_-]?assertion)(?i:[_-]?(value|hash|confirmation|base|pem))?"
    # Short names only as words of their own: a "spin" is no PIN.
    r"|(?<![A-Za-z])(?i:pwd|otp|pin)|(?<=[a-z0-9])(Pwd|PWD|Otp|OTP|Pin|PIN))[_-]?[0-9]*\W*$"
)
_NAME: Final = re.compile(r"""(?<![\w$.-])([\w$.-]{1,100})\\*["']?\s*[:=]""")
"""What stands before a value, in JSON, in JSON within a text, and in what people write."""
_PASSWORD_OF_URL: Final = re.compile(r"(://[^\s/?#@:]*:)[^\s/?#@]+(?=@)")
_PARAMETER_OF_URL: Final = re.compile(r"(?<=[?&#])([^\s=&?#]{1,100})=[^\s&#]+")
_OF_LOGINS: Final = frozenset(
    {"code", "code_verifier", "device_code", "assertion", "client_assertion", "sig", "signature"}
)
"""Parameters of URLs that let somebody in who has them, though their names mean other things elsewhere."""
_TOO_DEEP: Final = "a message that is nested too deeply to be recorded"
_NO_SECRETS: Final = frozenset({"progressToken"})
"""What the protocol itself calls so. A `requestState` is sealed by the server, and needed to replay a record."""
_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
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


def masked(value: Any, of: str = "") -> Any:
    """Return plain JSON in which texts and numbers are masked that the names of their members show as secrets.

    Also all that is in an object or array of such a name, but for the schema of a secret, which is none. Of other
    texts, see `masked_text`.

    Args:
        value: The JSON.
        of: The name of the member that it is.
    """
    if is_object(value):
        said = value.get("name")  # as of variables and header fields: {"name": "API_KEY", "value": …}
        secret = "value" if isinstance(said, str) and _is_secret(said) else None
        return {
            name: _hidden(inner, name) if name == secret or _is_secret(name, inner, of) else masked(inner, name)
            for name, inner in value.items()
        }
    if is_array(value):
        return [masked(inner) for inner in value]
    return masked_text(value) if isinstance(value, str) else value


def _is_secret(name: str, value: object = "", of: str = "") -> bool:
    is_schema = of in _SCHEMAS and is_object(value)
    return not is_schema and name not in _NO_SECRETS and _SECRET.search(name) is not None


def masked_text(text: str) -> str:
    """Return a text in which secrets are masked that JSON and URLs show as such.

    A typed result is in its message twice: as JSON, and as a text of the same JSON. JSON that is broken is shown
    up to the first secret in it.
    """
    if text.lstrip(" \t\r\n")[:1] in ("{", "["):
        try:
            value = json.loads(text)
            shown = masked(value)
        except ValueError:
            text = _up_to_secret(text)
        except RecursionError:
            return MASKED
        else:
            return text if shown == value else json.dumps(shown, ensure_ascii=False)
    if "://" not in text:
        return text
    return _PARAMETER_OF_URL.sub(_masked_parameter, _PASSWORD_OF_URL.sub(rf"\1{MASKED}", text))


def _masked_parameter(found: re.Match[str]) -> str:
    name = found[1]
    return f"{name}={MASKED}" if name.lower() in _OF_LOGINS or _SECRET.search(name) else found[0]


def _up_to_secret(text: str) -> str:
    end = next((found.end() for found in _NAME.finditer(text) if _is_secret(found[1])), None)
    return text if end is None else f"{text[:end]} {MASKED}"


def _hidden(value: Any, name: str) -> Any:
    if is_object(value):
        return {inner: _hidden(each, name) for inner, each in value.items()}
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
    try:
        message: Any = masked(json.loads(data))
    except ValueError:
        message = masked_text(_up_to_secret(data.decode("utf-8", "backslashreplace")))
    except RecursionError:
        message = _TOO_DEEP  # it may hold secrets
    at = round(trio.current_time() - begin, 6)
    return RecordedFrame(direction, message, at, datetime.now(UTC).isoformat())


def show_frame(other_side: str, direction: FrameDirection, data: bytes) -> None:
    """Log a message, its secrets masked, as one line that is cut where it is very long. Does not raise."""
    try:
        text = json.dumps(masked(json.loads(data)), ensure_ascii=False)
    except ValueError:
        text = masked_text(_up_to_secret(data.decode("utf-8", "backslashreplace")))
    except RecursionError:
        text = _TOO_DEEP
    _wire.debug("%s %s: %s", "-->" if direction == "sent" else "<--", other_side, text)


def write_frame(file: TextIO, frame: RecordedFrame) -> None:
    """Write a line. What was said until this program is killed is there.

    Raises:
        OSError: The file does not take it.
        RecursionError: The message is nested too deeply.
    """
    file.write(frame.line() + "\n")
    file.flush()
