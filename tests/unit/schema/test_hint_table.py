"""Every kind of hint: its schema, values that fit and values that do not.

The schema is checked with the metaschema, and each value with a validator of JSON Schema: the converter and the
schema must agree. Where Python is stricter than JSON Schema can say, the row says `stricter`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import pathlib
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final, List, Literal, Optional, Tuple, Union  # noqa: UP035 - users write them

import attrs
import jsonschema_rs
import pytest
from inside_schema import InvalidValue, JsonType, direct_subschemas, json_schema
from schema_models import (
    Cat,
    Circle,
    Colour,
    Derived,
    Dog,
    HasA,
    HasB,
    IntOrText,
    IntPair,
    Json,
    Leaf,
    Line,
    Listed,
    MoreOptions,
    N,
    Named,
    Node,
    OnlyText,
    Options,
    Order,
    Page,
    Pair,
    Plus,
    Point,
    Positive,
    Short,
    Size,
    Square,
    T,
    TaggedLeft,
    TaggedRight,
    Tree,
    Untyped,
    UserId,
)

from trio_mcp import Field

UTC_NOON = dt.datetime(2026, 7, 28, 12, 30, tzinfo=dt.UTC)
NONE: list[Any] = []
SOME_UUID = "12345678-1234-5678-1234-567812345678"


@attrs.frozen
class Row:
    """One kind of hint.

    Attributes:
        hint: The hint.
        schema: Its schema as an input.
        valid: Pairs of JSON and Python values, each the conversion of the other.
        read: Pairs that are only converted from JSON, because Python writes another spelling.
        invalid: Pairs of JSON and the path of the problem.
        stricter: Like `invalid`, for what the schema lets through.
    """

    hint: Any
    schema: dict[str, Any]
    valid: Sequence[tuple[Any, Any]] = ()
    read: Sequence[tuple[Any, Any]] = ()
    invalid: Sequence[tuple[Any, str]] = ()
    stricter: Sequence[tuple[Any, str]] = ()


@attrs.frozen
class AnnotatedLike:
    """Looks like the classes of annotated-types: a bound is an attribute."""

    gt: Any = None
    ge: Any = None
    lt: Any = None
    le: Any = None
    multiple_of: Any = None
    min_length: Any = None
    max_length: Any = None
    pattern: Any = None


@attrs.frozen
class Doc:
    """Looks like `typing_extensions.Doc`."""

    documentation: str


LINE = {
    "type": "object",
    "description": "One line of an order.",
    "properties": {
        "sku": {"type": "string", "description": "The article's number."},
        "copies": {"type": "integer", "minimum": 1, "description": "How many.", "default": 1},
    },
    "required": ["sku"],
    "additionalProperties": False,
}

ROWS: dict[str, Row] = {
    "text": Row(
        str, {"type": "string"}, [("a", "a"), ("", "")], invalid=[(5, ""), (None, ""), (["a"], ""), ({}, "")]
    ),
    "integer": Row(
        int,
        {"type": "integer"},
        [(5, 5), (-(2**70), -(2**70))],
        read=[(5.0, 5), (1e300, int(1e300))],
        invalid=[("5", ""), (True, ""), (5.5, ""), (None, "")],
    ),
    "number": Row(
        float,
        {"type": "number"},
        [(0.5, 0.5)],
        read=[(5, 5.0)],
        invalid=[("5", ""), (False, ""), (None, "")],
        stricter=[(10**400, "")],
    ),
    "boolean": Row(
        bool, {"type": "boolean"}, [(True, True), (False, False)], invalid=[(1, ""), ("true", ""), (0.0, "")]
    ),
    "null": Row(None, {"type": "null"}, [(None, None)], invalid=[(0, ""), (False, ""), ("", "")]),
    "anything": Row(Any, {}, [(value, value) for value in (None, 1, "a", [1, {"a": None}])]),
    "object": Row(object, {}, [({"a": [1]}, {"a": [1]})]),
    "bytes": Row(
        bytes,
        {"type": "string", "contentEncoding": "base64"},
        [("aGk=", b"hi"), ("", b"")],
        invalid=[(5, "")],
        stricter=[("aGk", ""), ("a-k=", ""), ("é===", "")],
    ),
    "bytearray": Row(bytearray, {"type": "string", "contentEncoding": "base64"}, [("aGk=", bytearray(b"hi"))]),
    "datetime": Row(
        dt.datetime,
        {"type": "string", "format": "date-time"},
        [
            ("2026-07-28T12:30:00+00:00", UTC_NOON),
            (
                "2026-07-28T12:30:00.000001-05:30",
                dt.datetime(2026, 7, 28, 12, 30, 0, 1, dt.timezone(-dt.timedelta(hours=5.5))),
            ),
        ],
        read=[("2026-07-28T12:30:00Z", UTC_NOON), ("2026-07-28t12:30:00z", UTC_NOON)],
        invalid=[
            ("2026-07-28T12:30:00", ""),
            ("2026-07-28", ""),
            ("20260728T123000Z", ""),
            ("2026-02-30T12:30:00Z", ""),
            ("2026-07-28T24:00:00Z", ""),
            ("2026-07-28T12:30:00Z\n", ""),
            (1785000000, ""),
        ],
    ),
    "date": Row(
        dt.date,
        {"type": "string", "format": "date"},
        [("2026-07-28", dt.date(2026, 7, 28))],
        invalid=[("2026-7-28", ""), ("2026-W31-2", ""), ("2026-02-30", ""), (5, "")],
    ),
    "time": Row(
        dt.time,
        {
            "type": "string",
            "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$",
        },
        [
            ("12:30:00", dt.time(12, 30)),
            ("12:30:00+01:00", dt.time(12, 30, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        ],
        read=[
            ("12:30", dt.time(12, 30)),
            ("12:30:00.5", dt.time(12, 30, 0, 500000)),
            ("12:30Z", dt.time(12, 30, tzinfo=dt.UTC)),
        ],
        invalid=[("25:00", ""), ("12", ""), ("T12:30", ""), ("12:30\n", ""), (12, "")],
    ),
    "timedelta": Row(
        dt.timedelta,
        {"type": "string", "format": "duration"},
        [
            ("PT0S", dt.timedelta(0)),
            ("P1DT2H3M4S", dt.timedelta(days=1, hours=2, minutes=3, seconds=4)),
            ("PT59M", dt.timedelta(minutes=59)),
            ("P14D", dt.timedelta(weeks=2)),
        ],
        read=[("P2W", dt.timedelta(weeks=2)), ("PT90M", dt.timedelta(minutes=90))],
        invalid=[("", ""), ("P", ""), ("PT", ""), ("1H", ""), (60, ""), ("P1W2D", "")],
        stricter=[("P1Y", ""), ("P1M", ""), ("P999999999W", "")],
    ),
    "UUID": Row(
        uuid.UUID,
        {"type": "string", "format": "uuid"},
        [(SOME_UUID, uuid.UUID(SOME_UUID))],
        invalid=[("{" + SOME_UUID + "}", ""), (SOME_UUID.replace("-", ""), ""), ("x", ""), (5, "")],
    ),
    "Decimal": Row(
        decimal.Decimal,
        {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
        [("12.50", decimal.Decimal("12.50")), ("-1", decimal.Decimal(-1))],
        invalid=[(12.5, ""), ("1e5", ""), ("NaN", ""), ("", ""), (".5", ""), ("1\n", "")],
    ),
    "Path": Row(
        pathlib.PurePosixPath, {"type": "string"}, [("/a/b", pathlib.PurePosixPath("/a/b"))], invalid=[(1, "")]
    ),
    "list": Row(
        list[int],
        {"type": "array", "items": {"type": "integer"}},
        [([1, 2], [1, 2]), ([], [])],
        invalid=[("12", ""), ({"0": 1}, ""), ([1, "2"], "[1]"), (None, "")],
    ),
    "bare list": Row(list, {"type": "array"}, [([1, "a"], [1, "a"])], invalid=[("a", "")]),
    "List of old": Row(List[int], {"type": "array", "items": {"type": "integer"}}, [([1], [1])]),  # noqa: UP006
    "Sequence": Row(
        Sequence[str], {"type": "array", "items": {"type": "string"}}, [(["a"], ["a"])], invalid=[("a", "")]
    ),
    "MutableSequence": Row(
        MutableSequence[str], {"type": "array", "items": {"type": "string"}}, [(["a"], ["a"])]
    ),
    "Collection": Row(Collection[str], {"type": "array", "items": {"type": "string"}}, [(["a"], ["a"])]),
    "Iterable": Row(Iterable[Any], {"type": "array"}, [(["a"], ["a"])]),
    "variadic tuple": Row(
        tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [([1, 2], (1, 2)), ([], ())]
    ),
    "bare tuple": Row(tuple, {"type": "array"}, [([1, "a"], (1, "a"))]),
    "Tuple of old": Row(Tuple, {"type": "array"}, [([1, "a"], (1, "a"))]),  # noqa: UP006
    "empty tuple": Row(
        tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [([], ())], invalid=[([1], "")]
    ),
    "uniform tuple": Row(
        tuple[float, float],
        {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        [([0.5, 1.5], (0.5, 1.5))],
        invalid=[([0.5], ""), ([1, 2, 3], ""), ([1, "2"], "[1]"), ("ab", "")],
    ),
    "mixed tuple": Row(
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        [([1, "a"], (1, "a"))],
        invalid=[(["a", 1], "[0]"), ([1], "")],
    ),
    "set": Row(
        set[int],
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        [([1, 2, 3], {3, 1, 2})],
        invalid=[([1, 1], ""), ([1, 1.0], ""), ("1", ""), ([1, "1"], "[1]")],
    ),
    "frozenset": Row(
        frozenset[str],
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        [(["a", "b"], frozenset("ba"))],
        invalid=[(["a", "a"], "")],
    ),
    "Set": Row(
        AbstractSet[int],
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        [([1], frozenset({1}))],
    ),
    "set of anything": Row(
        set, {"type": "array", "uniqueItems": True}, [([1, 2], {1, 2})], stricter=[([[1]], "")]
    ),
    "dict": Row(
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [({"a": 1}, {"a": 1}), ({}, {})],
        invalid=[([], ""), ({"a": "1"}, "a"), ({"a b": "1"}, '["a b"]'), ("a", "")],
    ),
    "bare dict": Row(dict, {"type": "object"}, [({"a": [None]}, {"a": [None]})], invalid=[([], "")]),
    "Mapping": Row(Mapping[str, Any], {"type": "object"}, [({"a": 1}, {"a": 1})]),
    "MutableMapping": Row(
        MutableMapping[Any, str],
        {"type": "object", "additionalProperties": {"type": "string"}},
        [({"a": "b"}, {"a": "b"})],
    ),
    "dict by integers": Row(
        dict[int, str],
        {
            "type": "object",
            "propertyNames": {"pattern": "^(0|-?[1-9][0-9]{0,18})$"},
            "additionalProperties": {"type": "string"},
        },
        [({"5": "a", "-7": "b", "0": "c"}, {5: "a", -7: "b", 0: "c"})],
        invalid=[
            ({"05": "a"}, "05"),
            ({"1.0": "a"}, '["1.0"]'),
            ({"": "a"}, '[""]'),
            ({"1\n": "a"}, '["1\\n"]'),
        ],
    ),
    "dict by UUIDs": Row(
        dict[uuid.UUID, int],
        {"type": "object", "propertyNames": {"format": "uuid"}, "additionalProperties": {"type": "integer"}},
        [({SOME_UUID: 1}, {uuid.UUID(SOME_UUID): 1})],
        invalid=[({"x": 1}, "x")],
    ),
    "dict by enumeration": Row(
        dict[Literal["a", "b"], int],
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}},
        [({"a": 1}, {"a": 1})],
        invalid=[({"c": 1}, "c")],
    ),
    "dict by short text": Row(
        dict[Annotated[str, Field(max_length=2)], int],
        {"type": "object", "propertyNames": {"maxLength": 2}, "additionalProperties": {"type": "integer"}},
        [({"ab": 1}, {"ab": 1})],
        invalid=[({"abc": 1}, "abc")],
    ),
    "Literal": Row(
        Literal["a", "b"],
        {"type": "string", "enum": ["a", "b"]},
        [("a", "a")],
        invalid=[("c", ""), (1, ""), (["a"], ""), ({"a": 1}, ""), (None, "")],
    ),
    "Literal of one": Row(
        Literal[1],
        {"type": "integer", "const": 1},
        [(1, 1)],
        read=[(1.0, 1)],
        invalid=[(True, ""), ("1", ""), (2, "")],
    ),
    "Literal of true": Row(
        Literal[True], {"type": "boolean", "const": True}, [(True, True)], invalid=[(1, ""), (False, "")]
    ),
    "mixed Literal": Row(
        Literal["a", 1, None],  # noqa: PYI061 - what is tested
        {"anyOf": [{"type": "string", "const": "a"}, {"type": "integer", "const": 1}, {"type": "null"}]},
        [("a", "a"), (1, 1), (None, None)],
        invalid=[("1", ""), (True, "")],
    ),
    "Literal of nothing": Row(
        Literal[None],  # noqa: PYI061 - what is tested
        {"type": "null"},
        [(None, None)],
        invalid=[(0, "")],
    ),
    "Literal of a member": Row(
        Literal[Colour.RED], {"type": "string", "const": "red"}, [("red", Colour.RED)], invalid=[("blue", "")]
    ),
    "Enum": Row(
        Colour,
        {"type": "string", "enum": ["red", "blue"], "description": "What colours there are."},
        [("red", Colour.RED)],
        invalid=[("RED", ""), ("green", ""), (1, "")],
    ),
    "IntEnum": Row(
        Size,
        {"type": "integer", "enum": [1, 2]},
        [(1, Size.SMALL)],
        read=[(2.0, Size.LARGE)],
        invalid=[(3, ""), (True, ""), ("1", "")],
    ),
    "optional": Row(
        int | None,
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        [(1, 1), (None, None)],
        invalid=[("1", ""), (True, "")],
    ),
    "Optional of old": Row(
        Optional[str],  # noqa: UP045
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        [("a", "a"), (None, None)],
    ),
    "optional Enum": Row(
        Colour | None,
        {
            "anyOf": [
                {"type": "string", "enum": ["red", "blue"], "description": "What colours there are."},
                {"type": "null"},
            ]
        },
        [("red", Colour.RED), (None, None)],
        invalid=[("green", "")],
    ),
    "optional Literal": Row(
        Literal["a"] | None,
        {"anyOf": [{"type": "string", "const": "a"}, {"type": "null"}]},
        [("a", "a"), (None, None)],
        invalid=[("b", "")],
    ),
    "optional list": Row(
        list[int] | None,
        {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        [([1], [1]), (None, None)],
        invalid=[("a", ""), (["a"], "[0]")],
    ),
    "optional class": Row(
        Circle | None,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"radius": {"type": "number"}},
                    "required": ["radius"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        },
        [({"radius": 0.5}, Circle(0.5)), (None, None)],
        invalid=[({"radius": "1"}, "radius"), (1, "")],
    ),
    "union of scalars": Row(
        Union[int, str, bool],  # noqa: UP007
        {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "boolean"}]},
        [(1, 1), ("1", "1"), (True, True)],
        invalid=[(None, ""), (0.5, ""), ([], "")],
    ),
    "int or float": Row(
        int | float, {"type": "number"}, [(1, 1), (1.5, 1.5), (2.0, 2.0)], invalid=[("1", ""), (True, "")]
    ),
    "float or int": Row(float | int, {"type": "number"}, [(1, 1), (1.5, 1.5)]),
    "bounded int or float": Row(
        Annotated[int, Field(ge=0)] | float,
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "number"}]},
        [(1, 1), (-1.5, -1.5)],
        read=[(-1, -1.0)],
        invalid=[("1", "")],
    ),
    "date or text": Row(
        dt.date | str,
        {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]},
        [("2026-07-28", dt.date(2026, 7, 28)), ("soon", "soon")],
        invalid=[(1, "")],
    ),
    "list or scalar": Row(
        str | list[str],
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        [("a", "a"), (["a"], ["a"])],
        invalid=[([1], "[0]"), (1, "")],
    ),
    "two lists": Row(
        list[int] | list[str],
        {
            "anyOf": [
                {"type": "array", "items": {"type": "integer"}},
                {"type": "array", "items": {"type": "string"}},
            ]
        },
        [([1], [1]), (["a"], ["a"])],
        invalid=[([None], ""), ([1, "a"], "")],
    ),
    "overlapping enumerations": Row(
        Literal["a", "b"] | Literal["b", True] | Literal[1],  # noqa: PYI030 - what is tested
        {
            "anyOf": [
                {"type": "string", "enum": ["a", "b"]},
                {"type": "boolean", "const": True},
                {"type": "integer", "const": 1},
            ]
        },
        [("a", "a"), ("b", "b"), (True, True), (1, 1)],
        invalid=[("c", ""), (False, "")],
    ),
    "anything or nothing": Row(Optional[Any], {}, [(None, None), ("a", "a")]),  # noqa: UP045
    "equal branches": Row(Annotated[int, object()] | int, {"type": "integer"}, [(1, 1)]),
    "tagged union": Row(
        Cat | Dog,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "kind": {"type": "string", "const": "cat"}},
                    "required": ["name"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "barks": {"type": "boolean", "default": True},
                        "kind": {"type": "string", "const": "dog"},
                    },
                    "required": ["name"],
                    "additionalProperties": False,
                },
            ],
            "required": ["kind"],
        },
        [
            ({"name": "Tom", "kind": "cat"}, Cat("Tom")),
            ({"name": "Rex", "barks": False, "kind": "dog"}, Dog("Rex", barks=False)),
        ],
        invalid=[
            ({"name": "Tom"}, "kind"),
            ({"name": "Tom", "kind": "cow"}, "kind"),
            ({"name": "Tom", "kind": ["cat"]}, "kind"),
            ({"name": "Tom", "kind": "cat", "barks": True}, "barks"),
            ({"kind": "dog"}, "name"),
            ("cat", ""),
        ],
    ),
    "untagged union": Row(
        Circle | Square | None,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"radius": {"type": "number"}},
                    "required": ["radius"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"side": {"type": "number"}},
                    "required": ["side"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        },
        [({"radius": 1.0}, Circle(1.0)), ({"side": 2.0}, Square(2.0)), (None, None)],
        invalid=[({}, ""), ({"radius": "1"}, "radius"), ({"side": 1, "radius": 1}, "side"), ({"top": 1}, "")],
    ),
    "tagged dictionaries": Row(
        TaggedLeft | TaggedRight,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"side": {"type": "string", "const": side}, "value": {"type": "integer"}},
                    "required": ["side", "value"],
                    "additionalProperties": False,
                }
                for side in ("left", "right")
            ]
        },
        [
            ({"side": "left", "value": 1}, {"side": "left", "value": 1}),
            ({"side": "right", "value": 2}, {"side": "right", "value": 2}),
        ],
        invalid=[({"side": "left", "value": "1"}, "value"), ({"value": 1}, "side")],
    ),
    "untagged dictionaries": Row(
        HasA | HasB,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {name: {"type": "integer"}},
                    "required": [name],
                    "additionalProperties": False,
                }
                for name in ("a", "b")
            ]
        },
        [({"a": 1}, {"a": 1}), ({"b": 1}, {"b": 1})],
        invalid=[({"a": 1, "b": 1}, "b"), ({}, "")],
    ),
    "class or dictionary": Row(
        Circle | dict[str, str],
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"radius": {"type": "number"}},
                    "required": ["radius"],
                    "additionalProperties": False,
                },
                {"type": "object", "additionalProperties": {"type": "string"}},
            ]
        },
        [({"radius": 1.0}, Circle(1.0)), ({"radius": "wide"}, {"radius": "wide"})],
        invalid=[({"radius": None}, "")],
    ),
    "bounds": Row(
        Annotated[int, Field(ge=1, lt=10, multiple_of=2)],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 10, "multipleOf": 2},
        [(2, 2), (8, 8)],
        invalid=[(0, ""), (10, ""), (3, ""), (-1, "")],
    ),
    "bounds on a number": Row(
        Annotated[float, Field(gt=0, le=1, multiple_of=0.1)],
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "multipleOf": 0.1},
        [(0.3, 0.3), (1.0, 1.0)],
        invalid=[(0, ""), (1.1, ""), (0.35, "")],
    ),
    "bounds twice": Row(
        Annotated[Annotated[int, Field(ge=1)], Field(ge=5, le=9)],
        {"type": "integer", "minimum": 1, "maximum": 9, "allOf": [{"minimum": 5}]},
        [(5, 5)],
        invalid=[(4, ""), (10, "")],
    ),
    "bounds thrice": Row(
        Annotated[int, Field(ge=1), Field(ge=5), {"minimum": 7, "allOf": [{"not": {"const": 8}}]}],
        {"type": "integer", "minimum": 1, "allOf": [{"minimum": 5}, {"minimum": 7}, {"not": {"const": 8}}]},
        [(7, 7)],
        invalid=[(6, "")],
    ),
    "bounds like those of annotated-types": Row(
        Annotated[int, AnnotatedLike(ge=1), AnnotatedLike(lt=4)],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 4},
        [(1, 1)],
        invalid=[(0, ""), (4, "")],
    ),
    "text with bounds": Row(
        Annotated[str, Field(min_length=2, max_length=3, pattern="^[a-z]+$")],
        {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"},
        [("ab", "ab")],
        invalid=[("a", ""), ("abcd", ""), ("AB", ""), ("ab\n", ""), (5, "")],
    ),
    "compiled pattern": Row(
        Annotated[str, AnnotatedLike(pattern=re.compile(r"^\d[$]\w$"))],
        {"type": "string", "pattern": r"^\d[$]\w$"},
        [("1$a", "1$a")],
        invalid=[("\N{ARABIC-INDIC DIGIT ONE}$a", ""), ("1$é", ""), ("1$a\n", ""), ("1a", "")],
    ),
    "escaped dollar": Row(
        Annotated[str, Field(pattern=r"^\$$")],
        {"type": "string", "pattern": r"^\$$"},
        [("$", "$")],
        invalid=[("", ""), ("$\n", "")],
    ),
    "array with bounds": Row(
        Annotated[list[int], AnnotatedLike(min_length=1, max_length=2)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [([1], [1])],
        invalid=[([], ""), ([1, 2, 3], "")],
    ),
    "object with bounds": Row(
        Annotated[dict[str, int], Field(min_length=1, max_length=2)],
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
        [({"a": 1}, {"a": 1})],
        invalid=[({}, ""), ({"a": 1, "b": 2, "c": 3}, "")],
    ),
    "optional with bounds": Row(
        Annotated[int | None, Field(ge=1)],
        {"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 1},
        [(1, 1), (None, None)],
        invalid=[(0, "")],
    ),
    "date with bounds": Row(
        Annotated[dt.date | None, Field(ge=dt.date(2026, 1, 1))],
        {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        [("2026-01-01", dt.date(2026, 1, 1)), (None, None)],
        stricter=[("2025-12-31", "")],
    ),
    "time with bounds": Row(
        Annotated[dt.time, Field(lt=dt.time(12))],
        json_schema(dt.time),
        [("11:00:00", dt.time(11))],
        stricter=[("13:00:00", ""), ("11:00:00Z", "")],
    ),
    "duration with bounds": Row(
        Annotated[dt.timedelta, Field(gt=dt.timedelta(0), multiple_of=dt.timedelta(minutes=1))],
        {"type": "string", "format": "duration"},
        [("PT1M", dt.timedelta(minutes=1))],
        stricter=[("PT0S", ""), ("PT1S", "")],
    ),
    "decimal with bounds": Row(
        Annotated[decimal.Decimal, Field(ge=0, le=decimal.Decimal(1), multiple_of=decimal.Decimal("0.5"))],
        json_schema(decimal.Decimal),
        [("0.5", decimal.Decimal("0.5"))],
        stricter=[("1.5", ""), ("0.3", ""), ("-0.5", "")],
    ),
    "bytes with bounds": Row(
        Annotated[bytes, Field(min_length=1, max_length=2)],
        {"type": "string", "contentEncoding": "base64"},
        [("aGk=", b"hi")],
        stricter=[("", ""), ("aGlo", "")],
    ),
    "path with a pattern": Row(
        Annotated[pathlib.PurePosixPath, Field(pattern="[.]txt$")],
        {"type": "string", "pattern": "[.]txt$"},
        [("a.txt", pathlib.PurePosixPath("a.txt"))],
        invalid=[("a.txt\n", ""), ("a.exe", "")],
    ),
    "described": Row(Annotated[int, "How many."], {"type": "integer", "description": "How many."}, [(1, 1)]),
    "documented": Row(
        Annotated[int, Doc("How many.")], {"type": "integer", "description": "How many."}, [(1, 1)]
    ),
    "Field": Row(
        Annotated[
            dt.date,
            Field("When.", title="Day", examples=[dt.date(2026, 7, 28)], keywords={"x-mcp-header": "Day"}),
        ],
        {
            "type": "string",
            "format": "date",
            "x-mcp-header": "Day",
            "description": "When.",
            "title": "Day",
            "examples": ["2026-07-28"],
        },
        [("2026-07-28", dt.date(2026, 7, 28))],
    ),
    "raw keywords": Row(
        Annotated[str | None, {"x-mcp-header": "Region", "minLength": 2}],
        {"anyOf": [{"type": "string"}, {"type": "null"}], "x-mcp-header": "Region", "minLength": 2},
        [("eu", "eu"), (None, None)],
        invalid=[("e", "")],
    ),
    "raw keywords on an array": Row(
        Annotated[list[Any], {"uniqueItems": True}],
        {"type": "array", "uniqueItems": True},
        [([1, True, [1], [2], {"a": 1}, {"a": 2}], [1, True, [1], [2], {"a": 1}, {"a": 2}])],
        invalid=[([1, 1.0], ""), ([[1, True], [1.0, True]], ""), ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], "")],
    ),
    "raw keywords that say nothing": Row(
        Annotated[list[int], {"uniqueItems": False}],
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": False},
        [([1, 1], [1, 1])],
    ),
    "NewType": Row(UserId, {"type": "integer"}, [(5, 5)], invalid=[("5", "")]),
    "Final": Row(Final[int], {"type": "integer"}, [(5, 5)]),
    "type variable": Row(T, {}, [("a", "a")]),
    "bound type variable": Row(N, {"type": "integer"}, [(5, 5)]),
    "constrained type variable": Row(
        IntOrText, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, [(5, 5), ("a", "a")]
    ),
    "alias": Row(Short, {"type": "string", "maxLength": 3}, [("abc", "abc")], invalid=[("abcd", "")]),
    "generic alias": Row(Listed[int], {"type": "array", "items": {"type": "integer"}}, [([1], [1])]),
    "recursive alias": Row(
        Json,
        {
            "$ref": "#/$defs/Json",
            "$defs": {
                "Json": {
                    "anyOf": [
                        {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
                        {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                        {"type": "string"},
                        {"type": "number"},
                        {"type": "boolean"},
                        {"type": "null"},
                    ]
                }
            },
        },
        [({"a": [1, 0.5, "b", None, True, {"c": NONE}]}, {"a": [1, 0.5, "b", None, True, {"c": NONE}]})],
    ),
    "recursive generic alias": Row(
        Tree[int],
        {
            "$ref": "#/$defs/Tree_int",
            "$defs": {
                "Tree_int": {
                    "anyOf": [
                        {"type": "object", "additionalProperties": {"$ref": "#/$defs/Tree_int"}},
                        {"type": "integer"},
                    ]
                }
            },
        },
        [({"a": {"b": 1}}, {"a": {"b": 1}}), (1, 1)],
        invalid=[("a", ""), ({"a": {"b": "c"}}, "a.b")],
    ),
    "attrs class": Row(
        Line,
        LINE,
        [({"sku": "a", "copies": 2}, Line("a", 2))],
        read=[({"sku": "a"}, Line("a"))],
        invalid=[
            ({}, "sku"),
            ({"sku": 1}, "sku"),
            ({"sku": "a", "copies": 0}, "copies"),
            ({"sku": "a", "colour": "red"}, "colour"),
            ([], ""),
            ("a", ""),
        ],
    ),
    "nested attrs classes": Row(
        Order,
        {
            "type": "object",
            "properties": {
                "lines": {"type": "array", "items": LINE},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "tags": {"type": "array", "items": {"type": "string"}, "default": []},
                "made": {"type": "string", "format": "date-time"},
            },
            "required": ["lines"],
            "additionalProperties": False,
        },
        [
            (
                {
                    "lines": [{"sku": "a", "copies": 1}],
                    "note": None,
                    "tags": ["x"],
                    "made": "2026-07-28T12:30:00+00:00",
                },
                Order([Line("a")], None, ["x"], UTC_NOON),
            )
        ],
        read=[({"lines": []}, Order([]))],
        invalid=[
            ({"lines": [{"sku": "a"}, {"copies": 1}]}, "lines[1].sku"),
            ({"lines": [], "tags": "ab"}, "tags"),
        ],
    ),
    "attrs class with aliases": Row(
        Named,
        {
            "type": "object",
            "properties": {"secret": {"type": "integer"}, "label": {"type": "string"}},
            "required": ["secret", "label"],
            "additionalProperties": False,
        },
        [({"secret": 1, "label": "ab"}, Named(1, "ab"))],
        invalid=[({"secret": 1, "label": "ab", "length": 2}, "length"), ({"_secret": 1, "label": ""}, "_secret")],
    ),
    "class with a validator": Row(
        Positive,
        {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
            "additionalProperties": False,
        },
        [({"number": 1}, Positive(1))],
        stricter=[({"number": 0}, "")],
    ),
    "class with an attrs validator": Row(
        OnlyText,
        {"type": "object", "properties": {"text": {}}, "required": ["text"], "additionalProperties": False},
        [({"text": "a"}, OnlyText("a"))],
        stricter=[({"text": 1}, "")],
    ),
    "recursive dataclass": Row(
        Node,
        {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#"}, "default": []},
            },
            "required": ["value"],
            "additionalProperties": False,
        },
        [({"value": 1, "children": [{"value": 2, "children": NONE}]}, Node(1, [Node(2)]))],
        read=[({"value": 1}, Node(1))],
        invalid=[
            (
                {"value": 1, "children": [{"value": 2, "children": [{"value": "3"}]}]},
                "children[0].children[0].value",
            )
        ],
    ),
    "recursive dataclass in a list": Row(
        list[Node],
        {
            "type": "array",
            "items": {"$ref": "#/$defs/Node"},
            "$defs": {
                "Node": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        },
        [([{"value": 1, "children": []}], [Node(1)])],
    ),
    "described recursive dataclass": Row(
        Annotated[Node, "A tree."],
        {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#"}, "default": []},
            },
            "required": ["value"],
            "additionalProperties": False,
            "description": "A tree.",
        },
    ),
    "generic dataclass with a generic base": Row(
        Derived[int],
        {
            "type": "object",
            "description": "Derived.",
            "properties": {
                "first": {"type": "array", "items": {"type": "integer"}, "description": "The first."},
                "second": {"type": "integer", "description": "Another second.", "default": 0},
                "third": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            },
            "required": ["first"],
            "additionalProperties": False,
        },
        [({"first": [1], "second": 2, "third": None}, Derived([1], 2, None))],
        invalid=[
            ({"first": 1}, "first"),
            ({"first": [], "third": "a"}, "third"),
            ({"first": [], "computed": 7}, "computed"),
        ],
    ),
    "recursive generic class": Row(
        Page[str],
        {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": {"type": "string"}},
                "following": {"anyOf": [{"$ref": "#"}, {"type": "null"}], "default": None},
            },
            "required": ["items"],
            "additionalProperties": False,
        },
        [({"items": ["a"], "following": {"items": [], "following": None}}, Page(["a"], Page([])))],
        invalid=[({"items": [], "following": {"items": [1]}}, "following.items[0]")],
    ),
    "generic class in two forms": Row(
        tuple[Page[str], Page[int]],
        {
            "type": "array",
            "prefixItems": [{"$ref": "#/$defs/Page_str"}, {"$ref": "#/$defs/Page_int"}],
            "minItems": 2,
            "maxItems": 2,
            "$defs": {
                f"Page_{name}": {
                    "type": "object",
                    "properties": {
                        "items": {"type": "array", "items": {"type": kind}},
                        "following": {
                            "anyOf": [{"$ref": f"#/$defs/Page_{name}"}, {"type": "null"}],
                            "default": None,
                        },
                    },
                    "required": ["items"],
                    "additionalProperties": False,
                }
                for name, kind in (("str", "string"), ("int", "integer"))
            },
        },
        [([{"items": ["a"], "following": None}, {"items": [1], "following": None}], (Page(["a"]), Page([1])))],
        invalid=[([{"items": []}, {"items": ["a"]}], "[1].items[0]")],
    ),
    "class used twice": Row(
        dict[str, Line] | Line,
        {
            "anyOf": [
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/Line"}},
                {"$ref": "#/$defs/Line"},
            ],
            "$defs": {"Line": LINE},
        },
        [({"a": {"sku": "b", "copies": 1}}, {"a": Line("b")}), ({"sku": "b", "copies": 1}, Line("b"))],
    ),
    "recursive tagged union": Row(
        Plus,
        {
            "type": "object",
            "properties": {
                "op": {"type": "string", "const": "plus"},
                **{side: {"anyOf": [{"$ref": "#/$defs/Leaf"}, {"$ref": "#"}]} for side in ("left", "right")},
            },
            "required": ["op", "left", "right"],
            "additionalProperties": False,
            "$defs": {
                "Leaf": {
                    "type": "object",
                    "properties": {"op": {"type": "string", "const": "leaf"}, "value": {"type": "integer"}},
                    "required": ["op", "value"],
                    "additionalProperties": False,
                }
            },
        },
        [
            (
                {"op": "plus", "left": {"op": "leaf", "value": 1}, "right": {"op": "leaf", "value": 2}},
                Plus("plus", Leaf("leaf", 1), Leaf("leaf", 2)),
            )
        ],
        invalid=[
            (
                {"op": "plus", "left": {"op": "leaf", "value": "1"}, "right": {"op": "leaf", "value": 2}},
                "left.value",
            )
        ],
    ),
    "TypedDict": Row(
        Options,
        {
            "type": "object",
            "properties": {
                "depth": {"type": "integer"},
                "width": {"type": "integer"},
                "from": {"type": "string", "description": "Where from."},
            },
            "required": ["depth"],
            "additionalProperties": False,
        },
        [
            ({"depth": 1}, {"depth": 1}),
            ({"depth": 1, "width": 2, "from": "a"}, {"depth": 1, "width": 2, "source": "a"}),
        ],
        invalid=[({"width": 1}, "depth"), ({"depth": 1, "source": "a"}, "source"), ([], "")],
    ),
    "derived TypedDict": Row(
        MoreOptions,
        {
            "type": "object",
            "properties": {
                "depth": {"type": "integer"},
                "width": {"type": "integer"},
                "from": {"type": "string", "description": "Where from."},
                "extra": {"type": "string"},
                "must": {"type": "string"},
            },
            "required": ["depth", "must"],
            "additionalProperties": False,
        },
        [({"depth": 1, "must": "a"}, {"depth": 1, "must": "a"})],
        invalid=[({"depth": 1, "extra": "a"}, "must")],
    ),
    "generic TypedDict": Row(
        Pair[str],
        {
            "type": "object",
            "properties": {"left": {"type": "string"}, "right": {"type": "string"}},
            "required": ["left", "right"],
            "additionalProperties": False,
        },
        [({"left": "a", "right": "b"}, {"left": "a", "right": "b"})],
        invalid=[({"left": 1, "right": "b"}, "left")],
    ),
    "TypedDict with a generic base": Row(
        IntPair,
        {
            "type": "object",
            "properties": {
                "left": {"type": "integer"},
                "right": {"type": "integer"},
                "label": {"type": "string"},
            },
            "required": ["left", "right", "label"],
            "additionalProperties": False,
        },
        [({"left": 1, "right": 2, "label": "a"}, {"left": 1, "right": 2, "label": "a"})],
    ),
    "NamedTuple": Row(
        Point,
        {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
            "required": ["x"],
            "additionalProperties": False,
        },
        [({"x": 1.0, "y": 2.0}, Point(1.0, 2.0))],
        read=[({"x": 1}, Point(1.0))],
        invalid=[([1, 2], ""), ({"y": 1}, "x")],
    ),
    "namedtuple": Row(
        Untyped,
        {
            "type": "object",
            "properties": {"a": {}, "b": {}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        [({"a": 1, "b": "c"}, Untyped(1, "c"))],
    ),
}


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    def refuse(uri: str) -> Any:
        raise AssertionError(f"the schema refers to {uri}")

    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, retriever=refuse)


def paths(error: InvalidValue) -> list[str]:
    return [path for path, _ in error.problems]


def test_schema_of_a_hint_is_as_written_here() -> None:
    """The table is the documentation. The order counts, because listings must not change between runs."""
    for row in ROWS.values():
        assert json.dumps(json_schema(row.hint), indent=1) == json.dumps(row.schema, indent=1)


def test_schema_of_a_hint_is_valid_2020_12(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic, "JSON Schema Usage": schemas must be valid according to their dialect."""
    for name, row in ROWS.items():
        with subtests.test(name):
            jsonschema_rs.meta.validate(json_schema(row.hint, direction="input"))
            jsonschema_rs.meta.validate(json_schema(row.hint, direction="output"))


def unread_by_some(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a schema that some clients drop: lists of types, bare booleans, references elsewhere."""
    found = [part for _, _, inner in direct_subschemas(schema) for part in unread_by_some(inner)]
    booleans = [inner for kind in ("properties", "$defs") for inner in schema.get(kind, {}).values()]
    booleans += [schema.get("items"), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    if not isinstance(schema.get("type", ""), str) or not str(schema.get("$ref", "#")).startswith("#"):
        found.append(schema)
    return [*found, schema] if any(isinstance(inner, bool) for inner in booleans) else found


def test_what_some_clients_do_not_read_is_noticed() -> None:
    """The check below can fail."""
    for wrong in (
        {"type": ["integer", "null"]},
        {"$ref": "a.json"},
        {"properties": {"a": True}},
        {"items": False},
    ):
        assert unread_by_some({"$defs": {"a": {"anyOf": [wrong]}}}) == [wrong]


def test_schema_of_a_hint_is_read_by_clients_that_know_one_type_at_a_time() -> None:
    """The Inspector warns of what other clients drop: a nullable parameter is a union of two schemas."""
    for row in ROWS.values():
        assert unread_by_some(json_schema(row.hint, direction="input")) == []
        assert unread_by_some(json_schema(row.hint, direction="output")) == []


def test_values_of_a_hint_convert_both_ways(subtests: pytest.Subtests) -> None:
    """What is read is what was written, of the same type, and the schema accepts it."""
    for name, row in ROWS.items():
        with subtests.test(name):
            json_type = JsonType(row.hint)
            accepts = validator(json_type.schema).is_valid
            for plain, python in row.valid:
                decoded = json_type.decode(plain)
                assert decoded == python
                assert type(decoded) is type(python)
                assert accepts(plain)
                encoded = json_type.encode(python)
                assert encoded == plain
                assert type(encoded) is type(plain)
            for plain, python in row.read:
                decoded = json_type.decode(plain)
                assert decoded == python
                assert type(decoded) is type(python)
                assert accepts(plain)
                assert accepts(json_type.encode(python))


def test_wrong_values_of_a_hint_are_refused_with_their_path(subtests: pytest.Subtests) -> None:
    """The converter refuses what the schema refuses, and names the place in wire terms."""
    for name, row in ROWS.items():
        with subtests.test(name):
            json_type = JsonType(row.hint)
            accepts = validator(json_type.schema).is_valid
            for plain, path in row.invalid:
                with pytest.raises(InvalidValue) as caught:
                    json_type.decode(plain)
                assert path in paths(caught.value)
                assert not accepts(plain)
            for plain, path in row.stricter:
                with pytest.raises(InvalidValue) as caught:
                    json_type.decode(plain)
                assert path in paths(caught.value)
                assert accepts(plain)


def test_output_of_a_hint_satisfies_the_output_schema(subtests: pytest.Subtests) -> None:
    """2026-07-28, tools, "Output Schema": servers must provide results that conform to it."""
    for name, row in ROWS.items():
        with subtests.test(name):
            json_type = JsonType(row.hint, direction="output")
            accepts = validator(json_type.schema).is_valid
            for _, python in (*row.valid, *row.read):
                encoded = json_type.encode(python)
                assert accepts(encoded)
                assert json_type.decode(encoded) == python


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf], ids=str)
def test_numbers_that_json_lacks_are_never_read(wrong: float) -> None:
    """They can only come from a peer in the same process, and would break the next encoder."""
    for row in ROWS.values():
        if row.schema != {}:
            with pytest.raises(InvalidValue):
                JsonType(row.hint).decode(wrong)
