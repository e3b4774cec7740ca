"""JSON text and plain values. Whatever is asserted here holds with and without a compiled JSON library."""

from __future__ import annotations

import math
import struct
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, cast

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inside_wire import decode, encode, stdlib_decode, stdlib_encode
from inside_wire import json_module as _json

REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
NESTED: Final = 100_000


@attrs.frozen
class Half:
    """One of the two ways the module works."""

    decode: Callable[[bytes], Any]
    encode: Callable[[object], bytes]


HALVES: Final = {"fast": Half(decode, encode), "stdlib": Half(stdlib_decode, stdlib_encode)}


@pytest.fixture(params=HALVES)
def half(request: pytest.FixtureRequest) -> Half:
    return HALVES[request.param]


# Reading.


def test_json_is_read(half: Half) -> None:
    """RFC 8259; integers keep their size, and a broken emoji costs itself, not the message."""
    cases: list[tuple[bytes, object]] = [
        (b"null", None),
        (b" \t\r\n[ true , false ]\n", [True, False]),
        (b'{"a":{"b":[]}}', {"a": {"b": []}}),
        # numbers
        (b"-0", 0),
        (b"-0.0", -0.0),
        (b"1.0", 1.0),
        (b"1e5", 100000.0),
        (b"1E+2", 100.0),
        (b"1e-999", 0.0),
        (b"5e-324", 5e-324),
        (b"9007199254740993", 2**53 + 1),
        (b"18446744073709551616", 2**64),
        (b"-9223372036854775809", -(2**63) - 1),
        (b"1" * 4300, (10**4300 - 1) // 9),
        # strings
        (b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'),
        (b'"\\u0000\x7f"', "\0\x7f"),
        ('"\u2028\N{GRINNING FACE}"'.encode(), "\u2028\N{GRINNING FACE}"),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        (b'"\\uD83D\\uDE00"', "\N{GRINNING FACE}"),
        (b'"\\\\ud800"', "\\ud800"),
        # half a surrogate pair
        (b'"\\ud800"', REPLACED),
        (b'"\\udFFFx"', f"{REPLACED}x"),
        (b'"\\ude00\\ud83d"', REPLACED * 2),
        (b'"\\ud83d\\ud83d\\ude00\\n"', f"{REPLACED}\N{GRINNING FACE}\n"),
        (b'{"\\uDBFF":["\\uD800",1.5,null]}', {REPLACED: [REPLACED, 1.5, None]}),
        # twice the same name
        (b'{"a":1,"b":2,"a":3}', {"a": 3, "b": 2}),
    ]  # fmt: skip
    for text, value in cases:
        assert repr(half.decode(text)) == repr(value)


def test_what_is_not_json_is_refused(half: Half, subtests: pytest.Subtests) -> None:
    """Callers catch `ValueError` and nothing else."""
    cases: list[bytes] = [
        b"", b" ", b"tru", b"True", b"nulll", b"undefined", b"'a'", b"{'a':1}", b"{a:1}", b"{1:2}",
        b"[", b"[1", b"[1,", b"[1,]", b"[1 2]", b"]", b"{", b'{"a"', b'{"a":', b'{"a":1,}', b'{"a" 1}', b'{"a":1 "b":2}',
        # after the value
        b"{} x", b"{}{}", b"{}]", b"{}\0", b"1,",
        # not JSON's white space
        b"\x0b1", b"\x0c1", b"\xc2\xa01", b"\xe2\x80\xa8{}", b"/**/1", b"//\n1",
        # a byte order mark is the framing's to strip
        b"\xef\xbb\xbf{}", b"\xff\xfe1\0", b"1\0",
        # no number of JSON, or none that a program can hold
        b"NaN", b"[Infinity]", b'{"a":-Infinity}', b"nan", b"1e999", b"-1e999", b"[1E400]", b"1" * 310 + b".0",
        b"1" * 4301, b"01", b"-01", b"+1", b".5", b"1.", b"1.e1", b"1e", b"1e+", b"-", b"--1", b"0x1", b"1_0",
        b"\xd9\xa1",
        # strings
        b'"', b'"a', b'"\\', b'"\\"', b'"\\q"', b'"\\u12"', b'"\\u+123"', b'"\\u 123"', b'"\\uD8"', b'"\\U0001f600"',
        b'"\x00"', b'"\x1f"', b'"\t"', b'"\n"', b"\0",
        # not UTF-8: a stray byte, overlong, a surrogate, beyond Unicode, cut short
        b'"\xff"', b'"\x80"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf5\x80\x80\x80"', b'"\xf0\x9f\x98"', b'"\xe9"',
        # what is wrong stays wrong beside half a surrogate pair
        b'["\\ud800"', b'"\\ud800" x', b'["\\ud800",NaN]', b'["\\ud800",1e999]', b'["\\ud800",01]', b'["\\ud800","\t"]',
        b'["\\ud800","\xff"]',
    ]  # fmt: skip
    for text in cases:
        with subtests.test(text=text), pytest.raises(ValueError):
            half.decode(text)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [(b"[", b"]"), (b'{"a":', b"}"), (b"[", b""), (b'["\\ud800",', b"]"), (b'[{"\\ud800":', b"}]")],
)
def test_nesting_without_end_is_an_error_and_no_crash(half: Half, opening: bytes, closing: bytes) -> None:
    """A message of 100 KB must not end the process: promise "nothing hangs, nothing leaks"."""
    with pytest.raises((RecursionError, ValueError)):
        half.decode(opening * NESTED + b"1" + closing * NESTED)
    assert half.decode(b"[1]") == [1]


def test_nesting_that_people_need_is_read_and_written(half: Half) -> None:
    """Schemas nest dozens of levels deep; half a surrogate pair inside changes nothing."""
    text = b'{"a":[' * 100 + b'"\\ud800"' + b"]}" * 100
    assert half.encode(half.decode(text)) == text.replace(b"\\ud800", REPLACED.encode())


# Writing.


class Colour(StrEnum):
    RED = "red"


def test_plain_values_are_written(half: Half) -> None:
    """Compact UTF-8, whatever the library."""
    cases: list[tuple[object, bytes]] = [
        (None, b"null"),
        ({"b": True, "a": [False, ()]}, b'{"b":true,"a":[false,[]]}'),
        (2**64, b"18446744073709551616"),
        (-(2**63) - 1, b"-9223372036854775809"),
        (10**4299, b"1" + b"0" * 4299),
        (1.5, b"1.5"),
        ("\u2028\N{GRINNING FACE}/\x7f", '"\u2028\N{GRINNING FACE}/\x7f"'.encode()),
        ('\0\x1f\n"\\', b'"\\u0000\\u001f\\n\\"\\\\"'),
        ("\ud83d\ude00", '"\N{GRINNING FACE}"'.encode()),
        (["\ud83d\ude00", None, True, (1e308, 2**70)], f'["\N{GRINNING FACE}",null,true,[1e308,{2**70}]]'.encode()),
        ([None, 1.7e308, -1.7e308, 2**64], b"[null,1.7e308,-1.7e308,18446744073709551616]"),
        ({Colour.RED: Colour.RED}, b'{"red":"red"}'),
        ({"nan": 1, "inf": '-inf":', "x nan": None}, b'{"nan":1,"inf":"-inf\\":","x nan":null}'),
    ]  # fmt: skip
    for value, text in cases:
        assert half.encode(value).replace(b"e+", b"e") == text


def test_what_json_lacks_is_refused(half: Half, subtests: pytest.Subtests) -> None:
    """Nothing is sent instead: `null` and U+FFFD would be other values. The error says where it is."""
    cases: list[tuple[object, str]] = [
        (math.nan, "nan is not a number in JSON"),
        ({"jsonrpc": "2.0", "params": {"arguments": {"x": math.inf}}}, "arguments.x: inf is not a number in JSON"),
        ({"result": {"a": [1, {"b c": (-math.inf,)}]}}, 'result.a[1]["b c"][0]: -inf is not a number in JSON'),
        # also as the name of a member
        ({math.nan: 1}, "nan: nan is not a number in JSON"),
        ({"params": {"arguments": {"rates": [{}, {0.5: 1, -math.inf: 2}]}}}, "arguments.rates[1].-inf: -inf is not a number in JSON"),
        ({"x" * 100_000: "x" * 1_000, "a": {math.inf: "y"}}, "a.inf: inf is not a number in JSON"),
        # beside what else is looked for
        ([None, "null", 1.5, math.nan], "[3]: nan is not a number in JSON"),
        ([2**64, math.nan], "[1]: nan is not a number in JSON"),
        (["\ud83d\ude00", math.nan], "[1]: nan is not a number in JSON"),
        ("\ud800", "has half a surrogate pair, which is no text in UTF-8"),
        ({"\udc00": 1}, '["\\udc00"]: has half a surrogate pair, which is no text in UTF-8'),
        (
            {"params": {"arguments": {"rows": [{}, {"name": "a\udcff"}]}}},
            "arguments.rows[1].name: has half a surrogate pair, which is no text in UTF-8",
        ),
        (["x" * 100_000, math.nan, "y" * 1_000], "[1]: nan is not a number in JSON"),
        ({"a": [2**64, 10**5000]}, "a[1]: is an integer of 16610 bits, which has too many digits"),
        ([-math.nan], "[0]: nan is not a number in JSON"),
        ([struct.unpack(">d", b"\x7f\xf0\0\0\0\0\0\1")[0]], "[0]: nan is not a number in JSON"),
        ([struct.unpack(">d", b"\xff" * 8)[0]], "[0]: nan is not a number in JSON"),
    ]  # fmt: skip
    for value, problem in cases:
        with subtests.test(value=value):
            with pytest.raises(ValueError) as caught:
                half.encode(value)
            assert str(caught.value) == problem
            assert type(caught.value) is ValueError


@given(st.recursive(st.floats() | st.none() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=5)))
def test_whether_a_number_is_finite_is_seen_by_both_libraries(value: object) -> None:
    """Whatever else is in the text."""

    def is_finite(value: Any) -> bool:
        if isinstance(value, list):
            return all(map(is_finite, cast("list[object]", value)))
        return not isinstance(value, float) or math.isfinite(value)

    for half in HALVES.values():
        try:
            half.encode(value)
        except ValueError:
            assert not is_finite(value)
        else:
            assert is_finite(value)


def test_what_is_not_plain_is_refused(half: Half, subtests: pytest.Subtests) -> None:
    """There is one error to catch, also where something else had to be replaced first."""
    beside_it: list[list[object]] = [[], ["\ud83d\ude00"], [None]]
    values = (object(), MappingProxyType({"a": 1}), deque([1]), range(2), iter([1]), {(1,): 2}, 1j, int, len)
    for beside in beside_it:
        for value in values:
            with subtests.test(beside=beside, value=value), pytest.raises(TypeError):
                half.encode({"a": [*beside, value]})


@attrs.frozen
class Point:
    x: int


@dataclass
class Pair:
    a: int


def test_an_integer_that_cannot_be_read_is_not_written(half: Half) -> None:
    """Python refuses to convert more than 4300 digits in either direction."""
    with pytest.raises(ValueError, match="digits"):
        half.encode([10**4300])


def _nested(wrap: Callable[[Any], object]) -> object:
    value: object = None
    for _ in range(NESTED):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "value",
    [_nested(lambda inner: [inner]), _nested(lambda inner: {"a": inner})],
    ids=["arrays", "objects"],
)
def test_writing_without_end_is_an_error_and_no_crash(half: Half, value: object) -> None:
    """A handler that returns such a value fails its own request only."""
    with pytest.raises(RecursionError):
        half.encode(value)


def test_an_answer_is_written_whatever_is_in_it(subtests: pytest.Subtests) -> None:
    """Its work is done: an error would make its caller ask for it once more. What is written instead is seen."""
    cases: list[tuple[object, bytes]] = [
        ([1.5, None, "a"], b'[1.5,null,"a"]'),
        ({"a": [math.nan, None, math.inf, -math.inf]}, b'{"a":["NaN",null,"Infinity","-Infinity"]}'),
        ("a\udcff\ud800", b'"a\\\\udcff\\\\ud800"'),
        ({"a": {math.nan: 1, -math.inf: 2}}, b'{"a":{"NaN":1,"-Infinity":2}}'),
        ({"\udc80": "\ud83d\ude00"}, '{"\\\\udc80":"\N{GRINNING FACE}"}'.encode()),
    ]
    for value, text in cases:
        with subtests.test(value=value):
            assert _json.encode_answer(value) == text
    with pytest.raises(TypeError):
        _json.encode_answer(["\ud800", object()])
    with pytest.raises(RecursionError):
        _json.encode_answer(_nested(lambda inner: ["\ud800", inner]))


def test_a_value_that_holds_itself_is_an_error_and_no_crash(half: Half) -> None:
    """The same."""
    value: list[object] = []
    value.append(value)
    with pytest.raises(RecursionError):
        half.encode(value)


# Both ways.

CHARACTERS: Final = st.characters(exclude_categories=["Cs"])
SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
)


def _values(scalars: st.SearchStrategy[Any], characters: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    texts = st.text(characters, max_size=10)
    return st.recursive(
        scalars | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


PLAIN: Final = _values(SCALARS, CHARACTERS)
AWKWARD: Final = _values(SCALARS, CHARACTERS | st.characters(categories=["Cs"]))


@given(PLAIN)
def test_what_one_half_writes_either_reads(value: object) -> None:
    """Two processes with different libraries understand each other to the letter, on one line."""
    for writer in HALVES.values():
        text = writer.encode(value)
        assert b"\n" not in text
        for reader in HALVES.values():
            assert repr(reader.decode(text)) == repr(value)


@given(AWKWARD)
def test_both_halves_write_the_same_value(value: object) -> None:
    """What JSON cannot say is replaced in the same way, and only once."""
    written = [half.encode(value) for half in HALVES.values()]
    read = [repr(half.decode(text)) for text in written for half in HALVES.values()]
    assert len(set(read)) == 1
    for text, half in zip(written, HALVES.values(), strict=True):
        assert half.encode(half.decode(text)) == text


TOKENS: Final = st.sampled_from(
    [b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"null", b"true", b"NaN", b"-", b"0", b"1", b"12", b".", b"e", b"E+",
     b"a", b" ", b"\n", b"\t", b"\0", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xff", b"\xed\xa0\x80", b'""', b'"a"', b'"a":',
     b"\\u", b"\\ud83d", b"\\ude00", b'"\\ud800"', b"\\n", b"999", b"/"]
)  # fmt: skip


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """A JSON text with something taken out and something put in."""
    text = encode(draw(PLAIN))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(TOKENS) + text[end:]


def _reading(half: Half, text: bytes) -> str:
    try:
        return repr(half.decode(text))
    except ValueError:
        return "refused"


@given(_damaged() | st.lists(TOKENS, max_size=8).map(b"".join) | st.binary(max_size=8))
@example(b'["\\ud800",1e400]')
@example(b'"\\ud83d\\u"')
def test_both_halves_read_and_refuse_the_same(text: bytes) -> None:
    """A message that costs an error on one machine costs one on every machine."""
    fast, stdlib = (_reading(half, text) for half in HALVES.values())
    assert fast == stdlib


# Which half.


def test_without_the_compiled_library_the_standard_one_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has no wheel, nothing but speed is missing."""
    monkeypatch.setitem(sys.modules, "msgspec", None)  # importing it raises ModuleNotFoundError
    assert _json._fastest_codec() == (stdlib_decode, stdlib_encode)


@pytest.mark.parametrize(
    ("value", "is_object", "is_array"),
    [({}, True, False), ([], False, True), ((), False, False), ("{}", False, False), (None, False, False)],
)
def test_objects_and_arrays_are_told_from_all_else(value: object, is_object: bool, is_array: bool) -> None:
    """What `decode` returns is exactly `dict` or `list`."""
    assert (_json.is_object(value), _json.is_array(value)) == (is_object, is_array)
