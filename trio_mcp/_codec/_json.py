"""Bytes to plain JSON values and back, and what those cost in memory. The one module that names a JSON library.

Plain values are `dict`, `list`, `str`, `int`, `float`, `bool` and `None`. msgspec does the work; where it has no
wheel the standard library does, by the same rules, and every test of this module runs over both. No I/O, and no
knowledge of messages. Here are also the errors for data that is not as it must be.
"""

from __future__ import annotations

import gc
import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, cast, final

from .._printable import printable

# Decoding and encoding
#
# The rules where JSON libraries differ: NaN and infinities are not JSON, and refused in either direction. Numbers
# too large for a float are refused, integers of any size are kept. Half a surrogate pair, which programs in
# JavaScript do send, becomes U+FFFD in either direction: refusing it would cost the whole message.


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a plain value is a JSON object."""
    return type(value) is dict


def as_object(members: Any) -> dict[str, Any]:
    """Return a mapping as a JSON object, the only mapping that JSON encoders know. One that is none is copied."""
    return members if members.__class__ is dict else dict[str, Any](members)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a plain value is a JSON array."""
    return type(value) is list


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"number out of range: {digits[:40]}")
    return value


_STDLIB: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)


LARGE: Final = 1 << 16
"""The size of a text, in bytes, from which it is decoded with the garbage collector held off."""


_FEW: Final = 1024
"""The size of a text, in bytes, up to which even slow numbers take two milliseconds at most."""

_PART_BITS: Final = 9
_MOST_PIECES: Final = 256
_PIECE: Final = 64
"""A text is looked at in pieces of so many bytes, one for each 512 of it, and 256 at most."""

_FEW_FOUND: Final = 4
"""How many slow numbers in these pieces are taken for strays, or for something else in a string."""

_REMEMBERED: Final = 1 << 15
"""How many different floats of a text are remembered while it is decoded: more would take megabytes."""


@final
class _Floats(dict[str, float]):
    """The floats of one text by their digits. A text of many slow numbers seldom has many different ones."""

    __slots__ = ()

    def __missing__(self, digits: str) -> float:
        value = _parse_float(digits)
        if len(self) < _REMEMBERED:
            self[digits] = value
        return value


_SPELLED: Final = bytes.maketrans(b"123456789E", b"000000000e")


_LONG: Final = 1024
"""The size of a text, in bytes, from which passing over its strings takes less time than looking at them."""

QUOTES: Final = 32
"""How many quotes of a text are looked for. What follows them is kept, whatever is in it."""


_BACKSLASH: Final = 0x5C


_BEHIND_A_STRING: Final = b",:]} \t\r\n"


def without_middle(data: bytes) -> bytes:
    """Return a text without what is in the string in its middle, if that is most of it: found by two searches.

    What may follow the end of a string is known, so other bytes behind a quote are within one.
    """
    if len(data) < _LONG:
        return data
    middle = len(data) >> 1
    begin, end = data.rfind(b'"', 0, middle) + 1, data.find(b'"', middle)
    if end - begin <= middle or begin < 2 or data[begin] in _BEHIND_A_STRING:
        return data
    if data[begin - 2] == _BACKSLASH or data[end - 1] == _BACKSLASH:
        return data  # one of these quotes may be escaped
    return data[:begin] + data[end:]


def _is_escaped(before: bytes) -> bool:
    """Return whether what follows a part of a string is escaped."""
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def beside_strings(data: bytes) -> bytes:
    """Return a text without what is in its first strings: an image or a document is most of a long text."""
    if len(data) < _LONG:
        return data
    if len(data) < LARGE and _BACKSLASH not in data:  # copying more would take longer than looking
        parts = data.split(b'"', QUOTES)
        if len(parts) % 2:
            return b'""'.join(parts[::2])
    kept: list[bytes] = []
    is_within = False
    start = 0
    for _ in range(QUOTES):
        quote = data.find(b'"', start)
        if quote < 0:
            break
        if not is_within:
            kept.append(data[start : quote + 1])
            is_within = True
        elif data[quote - 1] != _BACKSLASH or not _is_escaped(data[start:quote]):
            kept.append(b'"')
            is_within = False
        start = quote + 1
    kept.append(data[start:])
    return b"".join(kept)


def _sample(data: bytes) -> bytes:
    """Return pieces of a text from random places, one from each of its parts."""
    count = min(_MOST_PIECES, len(data) >> _PART_BITS)
    part, place = len(data) / count, random.random
    starts = [int((number + place()) * part) for number in range(count)]
    return b" ".join([data[start : start + _PIECE] for start in starts])


def _is_slow_to_read(data: bytes) -> bool:
    """Return whether there seem to be many numbers in a text whose exponents have three digits or more.

    msgspec takes ten microseconds for a number near the ends of what a float can hold, five hundred times as long
    as for others, so that many of them would hold up the event loop. Other slow numbers are long, and so take no
    more time for each byte, or few (1e23), and take eight times as long as others.

    Beside their strings most long texts are short. Looking at all of another would take a third as long as
    reading it. The places that are looked at are random, so that nobody can write around them: of 4 MB, what is
    not found takes at most 10 ms on average, wherever its author has put it. What looks like such a number in a
    string may be counted as well, which does no harm.
    """
    beside = beside_strings(without_middle(data))
    if len(beside) <= _FEW:
        return False
    return _sample(beside).translate(_SPELLED, b"+-").count(b"0e000") > _FEW_FOUND


_ESCAPED_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_ESCAPED_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!"
    + _ESCAPED_LOW
    + rb")|(?<!"
    + _ESCAPED_HIGH
    + rb"\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)


def _has_surrogates(data: bytes) -> bool:
    return b"\\ud" in data or b"\\uD" in data


def _without_lone_surrogates(data: bytes) -> bytes:
    """Return a JSON text with U+FFFD in place of each escaped half of a surrogate pair that lacks the other."""
    return _LONE.sub(rb"\\ufffd", data.replace(rb"\\", rb"\u005c"))  # from now on a backslash begins an escape


_LARGE_BLOCK: Final = 1 << 23
"""Up to which size freed blocks of memory are kept for the next large text, in bytes; twice as much in all."""


@cache
def _expect_large() -> None:
    """Have glibc's allocator keep room for large texts, from the first one on.

    A page that is fresh from the system costs as much as decoding what is in it. How much is kept of what is
    freed follows the largest block that was: after a message of 8 MB those of 1 MB need no fresh pages, but
    without one each of them may need hundreds. So one is freed that nobody has touched. Other allocators do not
    care, nor does this one where it is configured.
    """
    bytes(_LARGE_BLOCK)


@cache
def _malloc_trim() -> Callable[[int], object] | None:
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):  # another allocator
            from ctypes import CDLL

            trim: Callable[[int], object] = CDLL(None).malloc_trim
            return trim
    return None


def return_freed_memory() -> None:
    """Have glibc's allocator return to the system what is free. Takes milliseconds where hundreds of MiB are.

    What it keeps for the next large text (`_expect_large`) is in pieces after a while, between blocks that are in
    use, and it may become more than what is in use.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _undisturbed(decode: Callable[[bytes], Any], data: bytes) -> Any:
    """Decode a text while the garbage collector is held off.

    All objects made are kept until the end, so it would find none to free; and looking for them after every few
    hundred objects takes six times as long as making them.
    """
    _expect_large()
    if not gc.isenabled():
        return decode(data)
    gc.disable()
    try:
        return decode(data)
    finally:
        gc.enable()


def stdlib_decode(data: bytes) -> Any:
    """Do what `decode` does with the standard library alone."""
    return _stdlib_decode(data) if len(data) < LARGE else _undisturbed(_stdlib_decode, data)


def _stdlib_decode(data: bytes) -> Any:
    if _has_surrogates(data):
        data = _without_lone_surrogates(data)
    return _STDLIB.decode(data.decode("utf-8"))


def stdlib_encode(value: object) -> bytes:
    """Do what `encode` does with the standard library alone."""
    try:
        return _dumps(value)
    except ValueError:
        return _dumps(_checked(value))


def _dumps(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _checked(value: Any) -> Any:
    """Return a copy of a plain value, in which surrogates that are a pair are one character.

    Raises:
        ValueError: A number in it is not finite or has too many digits, or a text has half a surrogate pair; the
            error says where.
    """
    try:
        return _converted(value, _refused)
    except Misfit as misfit:
        raise ValueError(str(misfit).removeprefix("params.")) from None  # nobody names that


def _refused(_value: object, reason: str) -> object:
    raise Misfit([("", reason)])


def _shown(value: Any, _reason: str) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return hex(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _converted(value: Any, instead: Callable[[Any, str], object]) -> Any:
    """Return a copy, with something else `instead` of what JSON in UTF-8 cannot have."""
    if isinstance(value, str):
        try:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            return instead(value, "has half a surrogate pair, which is no text in UTF-8")
    if isinstance(value, float) and not math.isfinite(value):
        return instead(value, f"{value} is not a number in JSON")
    if isinstance(value, int):
        try:
            int.__repr__(value)
        except ValueError:  # Python writes no more than 4300 digits, unless it is told to
            return instead(value, f"is an integer of {value.bit_length()} bits, which has too many digits")
    parts: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        parts = cast("Mapping[object, Any]", value).items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(cast("Sequence[Any]", value))
    else:
        return value
    copied: dict[Any, Any] = {}
    for where, part in parts:
        try:
            copied[_converted(where, instead)] = _converted(part, instead)
        except Misfit as misfit:
            raise Misfit(located(where if isinstance(where, int) else str(where), misfit.problems)) from None
    return copied if isinstance(value, dict) else list(copied.values())


# msgspec writes NaN and infinities as `null`, and as names of members as `nan` and `inf`, so only a text with one
# of these can have one. Whether it has is seen in the same value as MessagePack, where such a number is these
# bytes, which no string has. That takes as long as writing JSON, and a fifth of looking at each value here.
_NULL, _NAN, _INF = b"null", b'nan":', b'inf":'
_NOT_FINITE: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def _as_text(value: object) -> str:
    """Return a string of a subclass of `str` as what it is, as the standard library writes it."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def _misplaced(value: Any, encode: Callable[[object], bytes]) -> str:
    """Return the path to what cannot be encoded, such as ``.params.arguments.when``; nothing for all of it."""
    members: Any = value.items() if is_object(value) else enumerate(value) if is_array(value) else ()
    for name, member in members:
        try:
            encode(member)
        except TypeError:
            return f".{name}{_misplaced(member, encode)}"
    return ""


def _fastest_codec() -> tuple[Callable[[bytes], Any], Callable[[object], bytes]]:
    try:
        import msgspec
    except ModuleNotFoundError:
        return stdlib_decode, stdlib_encode
    fast_decode = msgspec.json.Decoder().decode

    def even_decode(data: bytes) -> Any:
        """With a hook of ours every float takes the same time, and one that was met before hardly any."""
        return msgspec.json.Decoder(float_hook=_Floats().__getitem__).decode(data)

    fast_encode = msgspec.json.Encoder(enc_hook=_as_text).encode
    pack = msgspec.msgpack.Encoder(enc_hook=_as_text).encode

    def decode(data: bytes) -> Any:
        read = even_decode if len(data) > _FEW and _is_slow_to_read(data) else fast_decode
        try:
            return read(data) if len(data) < LARGE else _undisturbed(read, data)
        except msgspec.DecodeError:
            if not _has_surrogates(data):
                raise
        data = _without_lone_surrogates(data)
        return read(data) if len(data) < LARGE else _undisturbed(read, data)

    def may_have_infinity(value: object) -> bool:
        try:
            return _NOT_FINITE.search(pack(value)) is not None
        except (OverflowError, ValueError):  # an integer that MessagePack has no room for, half a surrogate pair
            return True

    def encode(value: object) -> bytes:
        try:
            data = fast_encode(value)
        except ValueError:
            data = fast_encode(_checked(value))
        except TypeError as error:
            place = _misplaced(value, fast_encode).removeprefix(".params").lstrip(".")
            raise TypeError(f"{place}: {error}" if place else str(error)) from None
        rest = data if len(data) < _LONG else without_middle(data)
        # `find` is faster than `in`.
        if (rest.find(_NULL) >= 0 or rest.find(_NAN) >= 0 or rest.find(_INF) >= 0) and may_have_infinity(value):
            _checked(value)
        if len(data) >= LARGE:
            _expect_large()
        return data

    return decode, encode


decode, encode = _fastest_codec()
"""`decode` turns UTF-8 JSON text into plain values; `encode` turns plain values into text without newlines.

`decode` raises `ValueError` for what is not JSON, not UTF-8 or not a finite number. `encode` is for plain values:
for others it may raise `TypeError`, or write what the library makes of them; for a number that is not finite, for
an integer of thousands of digits, and for half a surrogate pair, it raises `ValueError`, which says where it is.
Both raise `RecursionError` a thousand to ten thousand levels deep, as this Python has it, and `ValueError` for
integers of thousands of digits.
"""


def encode_answer(value: object) -> bytes:
    r"""Do what `encode` does, for what must be written because the work is done: a result, or an error.

    A number that is not finite is written as text, ``"NaN"`` or ``"-Infinity"``, an integer of thousands of
    digits in hexadecimal, and half a surrogate pair as Python spells it, ``\udcff``.
    """
    try:
        return encode(value)
    except ValueError:
        return encode(_converted(value, _shown))


def check_names(value: Any) -> None:
    """Check that no object in an object or array has a name twice, such as ``1`` and ``"1"``: a reader keeps one.

    Raises:
        Misfit: One has.
    """
    parts: Iterable[tuple[Any, Any]] = enumerate(cast("Sequence[Any]", value))
    if isinstance(value, dict):
        members = cast("Mapping[object, Any]", value)
        parts = members.items()
        for name in members:
            if not isinstance(name, str) and str(name) in members:
                raise Misfit(located(str(name), [("", "is the name of two members")]))
    for where, part in parts:
        if isinstance(part, (dict, list, tuple)):
            try:
                check_names(part)
            except Misfit as misfit:
                raise Misfit(located(where if isinstance(where, int) else str(where), misfit.problems)) from None


# Invalid data

MAX_PROBLEMS: Final = 10
"""How many problems are collected. A hostile list of a million wrong items must not cost as many exceptions."""

MAX_TEXT: Final = 20_000
"""How many characters all problems together take as text."""

MAX_SHOWN: Final = 60
"""How many characters of a value or a name from the wire are shown."""

_PLAIN_NAME: Final = r"[\w$-]{1,60}"
"""A name that is written in a path as it is; others are quoted."""

Problem: TypeAlias = tuple[str, str]
"""A path, such as ``tools[3].inputSchema``, and what is wrong there."""


class Misfit(ValueError):
    """Data does not have the form that it must have.

    Attributes:
        problems: The first ten problems. Paths are in the names of the wire, and empty for the data as a whole.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(islice(problems, MAX_PROBLEMS))
        super().__init__(self.problems)

    def __str__(self) -> str:
        # A reason may repeat text of the peer that `show` has not made printable.
        text = "; ".join(f"{path}: {reason}" if path else reason for path, reason in self.problems)
        text = printable(text, MAX_TEXT)
        return f"{text}; and perhaps more" if len(self.problems) == MAX_PROBLEMS else text


@final
class InvalidData(Misfit):
    """Data does not have the form that the specification requires."""


_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """Return the kind of a value, with its article: ``a string``, ``an object``, ``null``."""
    return _KINDS.get(type(value), type(value).__name__)


def show(value: object) -> str:
    """Return a value as JSON, cut to 60 characters; of an object or a list only its kind."""
    if type(value) in (list, dict):
        return kind_of(value)
    text = printable(json.dumps(value, ensure_ascii=False, default=repr))
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def located(where: str | int, problems: Sequence[Problem]) -> list[Problem]:
    """Return problems of a part with their paths in the whole, given the part's name or index."""
    if isinstance(where, int):
        prefix = f"[{where}]"
    elif re.fullmatch(_PLAIN_NAME, where):
        prefix = where
    else:
        cut = where if len(where) <= MAX_SHOWN else f"{where[:MAX_SHOWN]}…"
        prefix = f"[{printable(json.dumps(cut, ensure_ascii=False))}]"
    return [
        (f"{prefix}.{path}" if path and path[0] != "[" else prefix + path, reason) for path, reason in problems
    ]


# The cost of the values of a text, estimated from its bytes
#
# A byte of JSON can become fifty bytes of Python objects: ``[[],[],…`` is three bytes a list, and a list takes
# eighty. So what is bounded in memory is bounded by this, not by the length of the text.
#
# Kept true: the estimate is never less than what the objects take, whichever library decodes them, and for
# ordinary messages seldom more than four times as much. It follows from a few facts. Each value that is no
# container follows a comma, except the first. A member of an object follows a comma or the brace that opens the
# object, and has a string as its name. A quote after a single backslash neither begins a string nor ends one. A
# string takes for each character as much as its widest one does, so that one emoji makes four bytes of each
# letter.
#
# It would be too low if a library made more than one object for a value, or Python's objects became larger.

# Bytes of CPython on a 64-bit machine, the most of all supported versions, as its allocator rounds them up.
_OBJECT: Final = 176  # a dict with its table and its place in its container, less what `_MEMBER` counts
_ARRAY: Final = 128  # a list, room for its first items, and its place in its container
_MEMBER: Final = 48  # a place in the table, which is half empty when it has just grown
_ITEM: Final = 44  # a number, and a place in a list
_STRING: Final = 64  # a string without its characters
_WIDE_STRING: Final = 96  # the same, if it is not ASCII

_BASE: Final = 128

_MOST_PER_BYTE: Final = 64
"""What a byte of JSON costs at most: half a list within a list."""

SHORT: Final = 400
"""The size of a text, in bytes, up to which counting its values costs more than it gains."""

_SHORT_BYTE: Final = 24
"""What a byte of a short text costs at most that opens no container: strings of a letter, and their names."""

_CHUNK: Final = 1 << 16
"""How many bytes of marks are split at once. Splitting takes fifty times as much memory for a moment."""

_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""

_OTHERS: Final = bytes(set(range(256)) - set(b'"[{,'))
"""All bytes but the marks, by which values are counted."""


def most_cost_of_json(size: int) -> int:
    """Return how many bytes the values of any JSON text of a size take in memory at most.

    That is ten times what ordinary texts cost. Where it can be afforded, the text need not be looked at.

    Args:
        size: The size of the text, in bytes.
    """
    return _BASE + _MOST_PER_BYTE * size


def harmless_size(most: int) -> int:
    """Return the size up to which no JSON text can cost more than it may: the inverse of `most_cost_of_json`.

    Args:
        most: How many bytes the values may take.
    """
    return (most - _BASE) // _MOST_PER_BYTE


def is_costlier(data: bytes, most: int) -> bool:
    """Return whether the values of a JSON text would take more memory than they may.

    Args:
        data: The text, in UTF-8. It is not looked at if no text of its size can take more.
        most: How many bytes they may take.
    """
    return len(data) > harmless_size(most) and cost_of_json(data) > most


def explain_cost(size: int, most: int) -> str:
    """Describe a message that `is_costlier`, for an error."""
    return f"a message of {size} bytes that takes too much memory decoded; 8 times max_message_bytes is {most}"


def most_weight(size: int) -> int:
    """Return what any JSON text of a size takes in memory at most, together with its values."""
    return _BASE + (_MOST_PER_BYTE + 1) * size


def weight_of(data: bytes) -> int:
    """Return what a JSON text takes in memory at most, together with its values."""
    return len(data) + cost_of_json(data)


def cost_of(value: object) -> int:
    """Return what `cost_of_json` returns for the text of a plain value.

    Raises:
        Others: Whatever `encode` raises.
    """
    return cost_of_json(encode(value))


def cost_of_json(data: bytes) -> int:
    """Return how many bytes the values of a JSON text take in memory at most, without the text itself.

    Takes time linear in the size of the text, which need not be valid JSON.

    Args:
        data: The text, in UTF-8.
    """
    if len(data) <= SHORT:
        return _BASE + _SHORT_BYTE * len(data) + _OBJECT * data.count(b"{") + _ARRAY * data.count(b"[")
    return _counted_cost(data)


def close_weight_of(data: bytes) -> int:
    """Return what `weight_of` returns, counted even for short texts: for those that are few and are kept long."""
    return len(data) + _counted_cost(data)


def _counted_cost(data: bytes) -> int:
    if data.isascii() and not (0x5C in data and b"\\u" in data):
        string, text = _STRING, len(data)
    else:
        string, text = _WIDE_STRING, _wide_text(data)
    beside = beside_strings(without_middle(data))
    has_escapes = 0x5C in beside
    marks = beside.translate(None, _OTHERS)
    strings = (marks.count(b'"') + 1) >> 1
    if has_escapes and strings * string > text:
        # A quote after two backslashes may be escaped or not. It is counted as whichever costs more, here and
        # below.
        strings -= max(0, beside.count(b'\\"') - beside.count(b'\\\\"')) >> 1
    values = _cost_of_values(marks, strings)
    if strings and values > 8 * strings * string + len(data) // 4:
        # There are few strings, and they may be long. Marks inside them do not count as values.
        values = sum(_cost_of_values(part, strings) for part in _outside_strings(beside, has_escapes=has_escapes))
    return _BASE + values + strings * string + text


def _cost_of_values(marks: bytes, strings: int) -> int:
    """Return what everything takes except strings."""
    objects, commas = marks.count(b"{"), marks.count(b",")
    members = min(strings, commas + objects)
    return objects * _OBJECT + marks.count(b"[") * _ARRAY + members * _MEMBER + (commas + 1) * _ITEM


def _wide_text(data: bytes) -> int:
    """Return what the characters of the strings take in a text that is not all ASCII.

    Once such a string was encoded, Python may keep its UTF-8 with it.
    """
    size, is_astral = len(data), False
    if 0x5C in data:  # found in no time, while each search for two bytes takes as long as decoding
        size -= 5 * max(0, data.count(b"\\u") - data.count(b"\\\\u"))
        is_astral = _has_surrogates(data)
    if not data.isascii():
        size -= len(data) - len(data.translate(None, _CONTINUATIONS))
        is_astral = is_astral or 0xF0 in data or 0xF1 in data or 0xF2 in data or 0xF3 in data or 0xF4 in data
    return (4 if is_astral else 2) * max(0, size) + len(data)


def _outside_strings(data: bytes, *, has_escapes: bool) -> Iterator[bytes]:
    """Yield, in parts, the marks that are not inside strings."""
    if has_escapes:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = data.translate(None, _OTHERS)
    is_within = False
    for start in range(0, len(marks), _CHUNK):
        parts = marks[start : start + _CHUNK].split(b'"')
        yield b"".join(parts[is_within::2])
        is_within ^= len(parts) % 2 == 0
