"""Types that JSON has as strings: dates, UUIDs, decimals, bytes, paths. One row of a table for each.

Every row reads and writes one spelling, the one its schema promises: RFC 3339 for times, base64 for bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final, final
from uuid import UUID

import attrs


@final
@attrs.frozen
class TextForm:
    """How objects of one Python type are written as a JSON string.

    Attributes:
        python_type: The Python type.
        noun: What is expected, for error messages.
        keywords: The keywords of the schema besides ``"type": "string"``.
        parse: From the string; raises `ValueError` for a string of another spelling.
        write: To the string; raises `ValueError` for an object that cannot be written.
    """

    python_type: type[Any]
    noun: str
    keywords: dict[str, object]
    parse: Callable[[str], object]
    write: Callable[[Any], str]


def text_form(hint: object, *, is_output: bool = False) -> TextForm | None:
    """Return the form of a type, or `None` if the type is not written as text.

    Args:
        hint: The type.
        is_output: Whether this program sends the values: then times may lack an offset.
    """
    if is_output and hint is datetime:
        return _ANY_TIME
    return _FORMS.get(hint) if isinstance(hint, type) else None


def text_form_of(value: object) -> TextForm | None:
    """Return the form of a value, or `None` if values of its type are not written as text."""
    for cls in type(value).__mro__:
        if (form := text_form(cls, is_output=True)) is not None:
            return form
    return None


# Patterns are compiled when they are first needed, not when the module is imported.
# RFC 3339, section 5.6, "date-time" and "full-date". Python reads more spellings than that.
_OFFSET: Final = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE_TIME: Final = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt]{_CLOCK}{_OFFSET}"
# A wall clock has no offset in Python, but "format": "time" demands one; hence a pattern.
_TIME: Final = (
    r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$"
)
# Databases and `datetime.now()` give times without an offset, and a result that fails is worked out again. So a
# time that is sent may lack it, and "format": "date-time" is not promised.
_ANY_DATE_TIME: Final = rf"^{_DATE}[Tt]{_CLOCK}{_OFFSET}?$"
_MAX_DIGITS: Final = 4300
_DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?$"
_UUID: Final = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# ISO 8601 without years and months, whose length varies, and with a sign, which Python needs.
_DURATION: Final = (
    r"(?P<sign>-?)P(?=.)(?:(?P<weeks>[0-9]{1,9})W|(?:(?P<days>[0-9]{1,9})D)?"
    r"(?:T(?=.)(?:(?P<hours>[0-9]{1,12})H)?(?:(?P<minutes>[0-9]{1,12})M)?"
    r"(?:(?P<seconds>[0-9]{1,12}(?:\.[0-9]{1,6})?)S)?)?)"
)


def _by(pattern: str, parse: Callable[[str], object]) -> Callable[[str], object]:
    whole = pattern.removesuffix("$")  # which, in Python, also matches before a last line feed

    def parse_text(text: str) -> object:
        if re.fullmatch(whole, text) is None:
            raise ValueError(text)
        return parse(text)

    return parse_text


def _parse_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ValueError(text) from error


def _write_bytes(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")


def _write_datetime(moment: datetime) -> str:
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError(f"{moment.isoformat()} has no timezone, and the receiver would have to guess it")
    # RFC 3339 has no seconds in offsets; local mean times of the nineteenth century do.
    return (moment.astimezone(UTC) if offset % timedelta(minutes=1) else moment).isoformat()


def _write_any_datetime(moment: datetime) -> str:
    """Write a time of this program. Where it does not say whose clock shows it, nobody guesses."""
    return moment.isoformat() if moment.utcoffset() is None else _write_datetime(moment)


def _write_decimal(number: Decimal | float) -> str:
    exact = Decimal(str(number))  # bounds may be plain numbers
    if not exact.is_finite():
        raise ValueError(f"{number} is not a number in JSON")
    if abs(exact.adjusted()) > _MAX_DIGITS:
        raise ValueError(f"{number:.20} has more than {_MAX_DIGITS} digits without an exponent")
    return format(exact, "f")


def _parse_duration(text: str) -> timedelta:
    match = re.fullmatch(_DURATION, text)
    if match is None:
        raise ValueError(text)
    parts = match.groupdict()
    sign = -1 if parts.pop("sign") else 1
    try:
        whole = {unit: int(amount) for unit, amount in parts.items() if amount and unit != "seconds"}
        seconds, _, fraction = (parts["seconds"] or "0").partition(".")
        micros = int(fraction.ljust(6, "0"))
        return sign * timedelta(seconds=int(seconds), microseconds=micros, **whole)
    except OverflowError as error:
        raise ValueError(text) from error


def _write_duration(duration: timedelta) -> str:
    sign, duration = ("-", -duration) if duration < timedelta(0) else ("", duration)
    hours, rest = divmod(duration.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{duration.microseconds:06}".rstrip("0") if duration.microseconds else ""
    clock = "".join(
        f"{amount}{letter}"
        for amount, letter in ((hours, "H"), (minutes, "M"), (f"{seconds}{fraction}", "S"))
        if amount not in {0, "0"}
    )
    days = f"{duration.days}D" if duration.days else ""
    if not days and not clock:
        return "PT0S"
    return f"{sign}P{days}{'T' if clock else ''}{clock}"


_ROWS: Final = (
    TextForm(
        datetime,
        "a date and time such as 2026-07-28T12:30:00Z",
        {"format": "date-time"},
        _by(_DATE_TIME, lambda text: datetime.fromisoformat(text.upper())),
        _write_datetime,
    ),
    TextForm(
        date, "a date such as 2026-07-28", {"format": "date"}, _by(_DATE, date.fromisoformat), date.isoformat
    ),
    TextForm(
        time,
        "a time such as 12:30 or 12:30:00",
        {"pattern": _TIME},
        _by(_TIME, time.fromisoformat),
        time.isoformat,
    ),
    TextForm(
        timedelta,
        "a duration such as P1DT2H30M or PT0.5S, without years and months",
        {"format": "duration"},
        _parse_duration,
        _write_duration,
    ),
    TextForm(UUID, "a UUID", {"format": "uuid"}, _by(_UUID, UUID), str),
    # A string, because most peers read a JSON number as a binary fraction.
    TextForm(
        Decimal,
        'a decimal number in a string, such as "12.50"',
        {"pattern": _DECIMAL},
        _by(_DECIMAL, Decimal),
        _write_decimal,
    ),
    TextForm(bytes, "base64", {"contentEncoding": "base64"}, _parse_bytes, _write_bytes),
    TextForm(
        bytearray,
        "base64",
        {"contentEncoding": "base64"},
        lambda text: bytearray(_parse_bytes(text)),
        _write_bytes,
    ),
    *(TextForm(cls, "a file path", {}, cls, str) for cls in (PurePath, Path, PurePosixPath, PureWindowsPath)),
)
_ANY_TIME: Final = TextForm(
    datetime,
    "a date and time such as 2026-07-28T12:30:00Z or 2026-07-28T12:30:00",
    {"pattern": _ANY_DATE_TIME},
    _by(_ANY_DATE_TIME, lambda text: datetime.fromisoformat(text.upper())),
    _write_any_datetime,
)
_FORMS: Final[dict[type, TextForm]] = {row.python_type: row for row in _ROWS}
