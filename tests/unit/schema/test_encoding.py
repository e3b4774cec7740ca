"""Python objects to plain JSON, by hint and by what they are at run time."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import re
import uuid
from typing import Annotated, Any, Literal, Optional, cast

import attrs
import pytest
from inside_schema import InvalidValue, JsonType, inspect_callable, result_to_json, to_json
from schema_models import (
    Access,
    Cat,
    Circle,
    Colour,
    Dog,
    Kitten,
    Line,
    Named,
    Node,
    Options,
    Order,
    Pair,
    Plus,
    Point,
    Size,
    TaggedLeft,
    TaggedRight,
    Untyped,
)


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "never asked"


class Count(int):
    pass


class Ratio(float):
    pass


class Members(collections.UserDict[str, int]):
    pass


class Hole(enum.Enum):
    NAN = math.nan


@attrs.frozen
class Holder:
    socket: object


@attrs.frozen
class Unsupported:
    values: complex


PLAIN: dict[str, tuple[Any, Any]] = {
    "text": (Text("a"), "a"),
    "integer": (Count(5), 5),
    "number": (Ratio(0.5), 0.5),
    "fraction": (fractions.Fraction(1, 2), 0.5),
    "null": (None, None),
    "boolean": (True, True),
    "tuple": ((1, (2,)), [1, [2]]),
    "deque": (collections.deque([1]), [1]),
    "keys": ({"a": 1}.keys(), ["a"]),
    "values": ({"a": 1}.values(), [1]),
    "set of text": ({"b", "a", "c"}, ["a", "b", "c"]),
    "frozenset of numbers": (frozenset({3, 1.5, 2}), [1.5, 2, 3]),
    "set that has no order": ({None}, [None]),
    "mapping": (Members(a=1), {"a": 1}),
    "names": (
        {5: 1, Colour.RED: 2, uuid.UUID(int=0): 3, Text("t"): 4},
        {"5": 1, "red": 2, "00000000-0000-0000-0000-000000000000": 3, "t": 4},
    ),
    "enumerations": ([Colour.BLUE, Size.LARGE], ["blue", 2]),
    "attrs": (Line("a"), {"sku": "a", "copies": 1}),
    "attrs with all attributes": (Named(1, "ab"), {"secret": 1, "label": "ab", "length": 2}),
    "dataclass": (Node(1, [Node(2)]), {"value": 1, "children": [{"value": 2, "children": []}]}),
    "named tuple": (Point(1.0), {"x": 1.0, "y": 0.0}),
    "untyped named tuple": (Untyped(1, {2}), {"a": 1, "b": [2]}),
    "datetime": (dt.datetime(2026, 7, 28, 12, 30, tzinfo=dt.UTC), "2026-07-28T12:30:00+00:00"),
    "naive datetime": (dt.datetime(2026, 7, 28, 12, 30), "2026-07-28T12:30:00"),  # noqa: DTZ001 - what is tested
    "old datetime": (
        dt.datetime(1890, 1, 1, tzinfo=dt.timezone(dt.timedelta(minutes=53, seconds=28))),
        "1889-12-31T23:06:32+00:00",
    ),
    "date": (dt.date(2026, 7, 28), "2026-07-28"),
    "time": (dt.time(12, 30), "12:30:00"),
    "negative duration": (dt.timedelta(days=-2, hours=3), "-P1DT21H"),
    "short duration": (dt.timedelta(microseconds=1500), "PT0.0015S"),
    "decimal": (decimal.Decimal("1E+3"), "1000"),
    "bytes": (b"hi", "aGk="),
    "path": (pathlib.Path("/a"), "/a"),
    "nested": ({"a": [Line("b"), {Colour.RED}]}, {"a": [{"sku": "b", "copies": 1}, ["red"]]}),
}


def test_objects_are_written_by_what_they_are(subtests: pytest.Subtests) -> None:
    """A tool without a return annotation may return anything with a form in JSON."""
    for name, (value, plain) in PLAIN.items():
        with subtests.test(name):
            written = to_json(value)
            assert written == plain
            assert type(written) is type(plain)
            assert JsonType(Any).encode(value) == plain


def test_strings_lose_their_class() -> None:
    """A JSON encoder in C may refuse subclasses, or ask them for their text."""
    assert type(to_json(Text("a"))) is str
    assert type(JsonType(str).encode(Text("a"))) is str
    assert type(to_json(Count(1))) is int
    assert type(JsonType(int).encode(Count(1))) is int
    assert type(to_json(Size.SMALL)) is int


def test_subclasses_of_json_types_are_read_too() -> None:
    """A peer in the same process may send them; other objects are no JSON."""
    assert JsonType(int | str).decode(Text("a")) == "a"
    with pytest.raises(
        InvalidValue, match=r"^expected an integer or a string, got a Python object of type tuple$"
    ):
        JsonType(int | str).decode((1,))


UNWRITABLE = {
    "NaN": ({"a": [math.nan]}, "a[0]", "nan is not a number in JSON"),
    "infinity": ([1, -math.inf], "[1]", "-inf is not a number in JSON"),
    "decimal NaN": (decimal.Decimal("NaN"), "", "NaN is not a number in JSON"),
    "integer without end": (
        [2**14_000],
        "[0]",
        "has 14001 bits; an integer of more than 14000 is not written in JSON",
    ),
    "decimal without end": (
        decimal.Decimal("1E+999999"),
        "",
        "1E+999999 has more than 4300 digits without an exponent",
    ),
    "names that become one": ({1: "a", "1": "b"}, "1", "is the name of two members"),
    "object": (Holder(fractions), "socket", "a Python object of type module has no form in JSON"),
    "complex": ([1j], "[0]", "a Python object of type complex has no form in JSON"),
    "bad name": ({"a": {None: 1}}, "a.None", "is not the name of a member: null"),
    "bad name of a name": ({"a": {(1, 2): 1}}, 'a["(1, 2)"]', "is not the name of a member: an array"),
    "true as a name": ({True: 1}, "True", "is not the name of a member: true"),
    "class with an impossible hint": (
        [Unsupported(1j)],
        "[0]",
        "Unsupported.values: complex has no form in JSON",
    ),
}


def test_what_json_lacks_is_an_error_with_its_path(subtests: pytest.Subtests) -> None:
    """`null` in place of NaN would be a wrong result that nobody notices."""
    for name, (value, path, reason) in UNWRITABLE.items():
        with subtests.test(name):
            with pytest.raises(InvalidValue) as caught:
                to_json(value)
            assert caught.value.problems == ((path, reason),)


RESULTS: dict[str, tuple[Any, Any]] = {
    "numbers": ([math.nan, math.inf, -math.inf, 1.5], ["NaN", "Infinity", "-Infinity", 1.5]),
    "decimals": ([decimal.Decimal("sNaN"), decimal.Decimal("1E+999999")], ["sNaN", "1E+999999"]),
    "complex": (1 + 2j, "(1+2j)"),
    "integer without end": (2**14_000, hex(2**14_000)),
    "names": (
        {(1, "a"): 1, None: 2, True: 3, 1.5: 4, math.nan: 5, b"x": 6},
        {'[1,"a"]': 1, "null": 2, "true": 3, "1.5": 4, "NaN": 5, "eA==": 6},
    ),
    "class": ([Circle(math.nan)], [{"radius": "NaN"}]),
    "enumeration": (Hole.NAN, "NaN"),
}


def test_a_result_is_written_if_it_can_be(subtests: pytest.Subtests) -> None:
    """Its work is done. What may be anything need not be a number."""
    typed = inspect_callable(cast("Any", _returns_anything))
    for name, (value, plain) in RESULTS.items():
        with subtests.test(name):
            assert result_to_json(value) == plain
            assert typed.encode_result({"a": value}) == {"a": plain}
            with pytest.raises(InvalidValue):
                to_json(value)


async def _returns_anything() -> dict[str, Any]:
    raise NotImplementedError


def test_times_that_are_sent_may_lack_an_offset() -> None:
    """Those that are received need one: nobody guesses it. The schema promises no more than that."""
    naive = dt.datetime(2026, 7, 28, 12, 30)  # noqa: DTZ001 - what is tested
    sent = JsonType(dt.datetime, direction="output")
    assert sent.encode(naive) == "2026-07-28T12:30:00"
    assert sent.decode("2026-07-28T12:30:00") == naive
    assert sent.decode("2026-07-28T12:30:00Z") == naive.replace(tzinfo=dt.UTC)
    assert "format" not in sent.schema
    assert re.search(sent.schema["pattern"], "2026-07-28T12:30:00.000001+05:30")
    received = JsonType(dt.datetime)
    assert received.schema["format"] == "date-time"
    with pytest.raises(InvalidValue, match="has no timezone"):
        received.encode(naive)
    with pytest.raises(InvalidValue, match="expected a date and time"):
        received.decode("2026-07-28T12:30:00")


def test_objects_that_contain_themselves_are_refused() -> None:
    """A clear error, not a stack overflow."""
    loop: list[Any] = []
    loop.append(loop)
    node = Node(1)
    node.children.append(node)
    for json_type, value in ((JsonType(Any), loop), (JsonType(Node), node)):
        with pytest.raises(InvalidValue, match="is nested too deeply, or contains itself"):
            json_type.encode(value)


MISFITS: dict[str, tuple[Any, object, str]] = {
    "text": (str, 5, ""),
    "integer": (int, "5", ""),
    "integer from true": (int, True, ""),
    "integer from a number": (int, 5.0, ""),
    "number": (float, "0.5", ""),
    "number from true": (float, True, ""),
    "number NaN": (float, math.nan, ""),
    "boolean": (bool, 1, ""),
    "null": (None, 0, ""),
    "enumeration": (Colour, "green", ""),
    "literal": (Literal[1], True, ""),
    "unhashable choice": (Literal[1], [], ""),
    "choice of an unhashable object": (Literal[1], Members(), ""),
    "date": (dt.date, "2026-07-28", ""),
    "list from text": (list[str], "abc", ""),
    "list from a mapping": (list[str], {"a": 1}, ""),
    "set from a list": (set[int], [1, 1], ""),
    "tuple of another length": (tuple[int, int], (1,), ""),
    "tuple from text": (tuple[str, str], "ab", ""),
    "dict": (dict[str, int], [], ""),
    "item": (list[int], [1, "a"], "[1]"),
    "tuple item": (tuple[int, int], (1, "a"), "[1]"),
    "member": (dict[str, int], {"a": "b"}, "a"),
    "name": (dict[int, int], {"a": 1}, "a"),
    "class": (Line, {"sku": "a"}, ""),
    "attribute": (list[Order], [Order([Line(cast("str", 5))])], "[0].lines[0].sku"),
    "bound": (Line, Line("a", 0), "copies"),
    "TypedDict": (Options, 5, ""),
    "TypedDict without a member": (Options, {"width": 1}, "depth"),
    "union": (int | None, "a", ""),
    "union of arrays": (list[int] | list[str], [None], ""),
    "union of classes": (Cat | Dog, Circle(1), ""),
}


def test_objects_that_do_not_fit_their_hint_are_refused(subtests: pytest.Subtests) -> None:
    """2026-07-28, tools, "Output Schema": what does not conform must not be sent."""
    for name, (hint, value, path) in MISFITS.items():
        with subtests.test(name):
            with pytest.raises(InvalidValue) as caught:
                JsonType(hint, direction="output").encode(value)
            assert caught.value.problems[0][0] == path


def test_attribute_that_was_never_set_is_missing() -> None:
    """`init=False` does not promise that anything is there."""
    named = Named(1, "ab")
    del named.length
    with pytest.raises(InvalidValue, match=r"^length: is missing$"):
        to_json(named)


UNIONS: dict[str, tuple[Any, object, Any]] = {
    "integer and number": (int | float, 1.5, 1.5),
    "boolean and integer": (int | bool, True, True),
    "text or date": (str | dt.date, dt.date(2026, 7, 28), "2026-07-28"),
    "set or list": (set[int] | list[str], ["a"], ["a"]),
    "tuple or nothing": (tuple[int, int] | None, (1, 2), [1, 2]),
    "dictionary or list": (dict[str, int] | list[int], {"a": 1}, {"a": 1}),
    "literal or number": (Literal["auto"] | float, "auto", "auto"),
    "base before derived": (Cat | Kitten, Kitten("Tom", weeks=5), {"name": "Tom", "kind": "cat", "weeks": 5}),
    "only the base": (Cat | Circle, Kitten("Tom"), {"name": "Tom", "kind": "cat"}),
    "TypedDicts by tag": (TaggedLeft | TaggedRight, {"side": "right", "value": 1}, {"side": "right", "value": 1}),
    "TypedDict or dictionary": (Options | dict[str, str], {"a": "b"}, {"a": "b"}),
    "generic TypedDicts": (Pair[int] | Pair[str], {"left": "a", "right": "b"}, {"left": "a", "right": "b"}),
    "anything": (list[int] | Any, {"a": None}, {"a": None}),
    "recursive": (Plus | None, None, None),
    "remarks on a union": (Optional[Annotated[int | str, "x"]], "a", "a"),  # noqa: UP045 - `|` needs a class
    "nested union": (list[int | Line | None], [None, Line("a"), 5], [None, {"sku": "a", "copies": 1}, 5]),
}


def test_unions_are_written_by_the_branch_that_fits(subtests: pytest.Subtests) -> None:
    """Neither the first nor the widest branch wins by default."""
    for name, (hint, value, plain) in UNIONS.items():
        with subtests.test(name):
            written = JsonType(hint, direction="output").encode(value)
            assert written == plain
            assert type(written) is type(plain)


def test_members_that_a_hint_does_not_declare_are_not_sent() -> None:
    """Returning what another service sent must not leak more than was declared."""
    assert JsonType(Options, direction="output").encode({"depth": 1, "password": "x"}) == {"depth": 1}
    assert JsonType(Cat, direction="output").encode(Kitten("Tom")) == {"name": "Tom", "kind": "cat"}


def test_output_ignores_members_that_it_does_not_know() -> None:
    """A client of last year reads this year's server."""
    json_type = JsonType(list[Circle | Line], direction="output")
    assert json_type.decode([{"radius": 1.0, "colour": "red"}, {"sku": "a", "copies": 2, "new": 1}]) == [
        Circle(1.0),
        Line("a", 2),
    ]


def test_output_schema_demands_what_is_always_sent() -> None:
    """Members with a default are there all the same; so is what the constructor does not take."""
    schema = JsonType(Named, direction="output").schema
    assert schema["required"] == ["secret", "label", "length"]
    assert "additionalProperties" not in schema
    assert JsonType(Options, direction="output").schema["required"] == ["depth"]


def test_sets_without_an_order_are_written_all_the_same() -> None:
    """Text and numbers cannot be compared."""
    written = to_json({1, "a", None})
    assert len(written) == 3
    assert {1, "a", None} == set(written)


def test_flags_and_odd_enumerations_are_written_by_value() -> None:
    """Without a hint the value decides, if it can."""

    class Odd(enum.Enum):
        PAIR = (1, 2)

    assert to_json(Odd.PAIR) == [1, 2]
    assert to_json(Access.READ | Access.WRITE) == 3
