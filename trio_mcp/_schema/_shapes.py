"""What a hint means in JSON, as a tree of shapes: the one reading from which schema and conversion both come.

Only nouns here. Hints are read in `_hints`, schemas written in `_generate`, values converted in `_decode` and
`_encode`; each of them walks this tree, so that they cannot disagree about what a hint means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, assert_never, final

import attrs

from .._absent import ABSENT, Absent
from ._keywords import Check
from ._plain import Kind, Scalar, kind_of
from ._problems import shown
from ._texts import TextForm

__all__ = [
    "Alias",
    "AnyOf",
    "Anything",
    "Array",
    "Choice",
    "Dictionary",
    "FixedArray",
    "Foreign",
    "ForeignType",
    "Member",
    "Plain",
    "Record",
    "Refined",
    "Shape",
    "Text",
    "core",
    "kinds",
    "noun",
    "parts",
]

ALL_KINDS: Final[frozenset[Kind]] = frozenset(
    {"null", "boolean", "integer", "number", "string", "array", "object"}
)
MAX_TOLD_OPTIONS: Final = 20
"""Values of a choice that are listed when another one came."""

_NUMERIC: Final[frozenset[Kind]] = frozenset({"integer", "number"})

# Shapes are told apart by identity: two members of one type may carry different remarks. None of them has a
# representation, because records and aliases contain themselves.


@final
@attrs.frozen(eq=False, repr=False)
class Anything:
    """Any JSON value, unconverted."""


@final
@attrs.frozen(eq=False, repr=False)
class Plain:
    """A value that JSON and Python have in common."""

    kind: Literal["null", "boolean", "integer", "number", "string"]


@final
@attrs.frozen(eq=False, repr=False)
class Text:
    """A string that stands for something else."""

    form: TextForm


@final
@attrs.frozen(eq=False, repr=False)
class Choice:
    """One of a few values: a `Literal` or an `Enum`.

    Attributes:
        options: Pairs of the JSON value and the Python value.
        description: What an enumeration's docstring says.
    """

    options: tuple[tuple[Scalar, object], ...]
    description: str = ""


@final
@attrs.frozen(eq=False, repr=False)
class Array:
    """Any number of items of one shape.

    Attributes:
        items: The shape of each.
        build: From a list to the Python collection.
        unique: Whether it is a set.
    """

    items: Shape
    build: Callable[[list[Any]], Any]
    unique: bool = False


@final
@attrs.frozen(eq=False, repr=False)
class FixedArray:
    """As many items as there are shapes: a tuple."""

    items: tuple[Shape, ...]


@final
@attrs.frozen(eq=False, repr=False)
class Dictionary:
    """An object with members of any name, all of one shape.

    Attributes:
        keys: The shape of the names, which accepts strings or, written as strings, integers.
        values: The shape of the values.
    """

    keys: Shape
    values: Shape


@final
@attrs.frozen(eq=False, repr=False)
class Member:
    """One member of a record.

    Attributes:
        name: Its name in JSON.
        argument: What `Record.build` calls it; `None` if objects come to it by themselves.
        attribute: Where the Python object has it.
        shape: The shape of its value.
        required: Whether the schema demands it.
        optional: Whether an object without it can be built.
        default: Its default as a Python value, for the schema; `ABSENT` if it has none or none to show.
    """

    name: str
    argument: str | None
    attribute: str
    shape: Shape
    required: bool
    optional: bool
    default: object | Absent = ABSENT


@final
@attrs.define(eq=False, repr=False)
class Record:
    """An object with members of known names: a class, or the parameters of a function.

    Attributes:
        title: The name of its definition, where it needs one.
        build: From the members, as keyword arguments, to the Python object.
        python_type: The class of the Python object; `dict` for a `TypedDict`.
        closed: Whether unknown members are refused. Otherwise they are ignored.
        description: What the class's docstring says.
        extra: The shape of unknown members that are taken over, for ``**kwargs``.
        reserved: Names of arguments that unknown members must not take.
        members: The members. Assigned last, because a record may contain itself.
    """

    title: str
    build: Callable[..., Any]
    python_type: type
    closed: bool
    description: str = ""
    extra: Shape | None = None
    reserved: frozenset[str] = frozenset()
    members: tuple[Member, ...] = ()


@final
@attrs.frozen(eq=False, repr=False)
class AnyOf:
    """A union: the first branch that fits."""

    branches: tuple[Shape, ...]


@final
@attrs.define(eq=False, repr=False)
class Alias:
    """A type alias that contains itself. Its target is assigned last."""

    title: str
    target: Shape


@final
@attrs.frozen(eq=False, repr=False)
class ForeignType:
    """A class that brings its own schema and conversion (pydantic, msgspec).

    Attributes:
        schema: Given the form of a reference, such as ``#/$defs/{}``, returns the schema and the definitions
            it refers to.
        decode: From plain JSON; raises `InvalidValue`.
        encode: To plain JSON; may raise anything.
    """

    python_type: type
    schema: Callable[[str], tuple[dict[str, Any], dict[str, Any]]]
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]


@final
@attrs.frozen(eq=False, repr=False)
class Foreign:
    """An object of a class that brings its own schema and conversion."""

    type: ForeignType


@final
@attrs.frozen(eq=False, repr=False)
class Refined:
    """A shape and what `Annotated` adds to it.

    Attributes:
        inner: The shape itself.
        keywords: JSON Schema keywords. Those that are assertions are enforced on the JSON value.
        checks: What JSON Schema cannot express, enforced on the Python value.
        examples: Python values to show.
    """

    inner: Shape
    keywords: Mapping[str, object]
    checks: tuple[Check, ...] = ()
    examples: tuple[object, ...] = ()


Shape: TypeAlias = (
    Anything
    | Plain
    | Text
    | Choice
    | Array
    | FixedArray
    | Dictionary
    | Record
    | AnyOf
    | Alias
    | Foreign
    | Refined
)


def parts(shape: Shape) -> Iterable[Shape]:
    """Return the shapes that a shape directly contains, in the order of the schema."""
    match shape:
        case Array(items=items):
            return (items,)
        case FixedArray(items=fixed):
            return fixed
        case Dictionary(keys=keys, values=values):
            return (keys, values)
        case Record():
            return _record_parts(shape)
        case AnyOf(branches=branches):
            return branches
        case Alias(target=target):
            return (target,)
        case Refined(inner=inner):
            return (inner,)
        case Anything() | Plain() | Text() | Choice() | Foreign():
            return ()
        case _:
            assert_never(shape)


def _record_parts(record: Record) -> Iterator[Shape]:
    for member in record.members:
        yield member.shape
    if record.extra is not None:
        yield record.extra


def core(shape: Shape) -> Shape:
    """Return the shape below remarks and aliases."""
    while True:
        match shape:
            case Refined(inner=inner):
                shape = inner
            case Alias(target=target):
                shape = target
            case _:
                return shape


def kinds(shape: Shape) -> frozenset[Kind]:
    """Return the kinds of JSON value that a shape may accept."""
    match shape:
        case Anything() | Foreign():
            return ALL_KINDS
        case Plain(kind=kind):
            return _NUMERIC if kind in _NUMERIC else frozenset[Kind]({kind})
        case Text():
            return frozenset({"string"})
        case Choice(options=options):
            found = frozenset[Kind](filter(None, (kind_of(value) for value, _ in options)))
            return found | _NUMERIC if found & _NUMERIC else found
        case Array() | FixedArray():
            return frozenset({"array"})
        case Dictionary() | Record():
            return frozenset({"object"})
        case AnyOf(branches=branches):
            return frozenset[Kind]().union(*map(kinds, branches))
        case Alias(target=inner) | Refined(inner=inner):
            return kinds(inner)
        case _:
            assert_never(shape)


def noun(shape: Shape) -> str:
    """Return what a shape expects, for error messages: "an integer", "an array"."""
    match shape:
        case Plain(kind=kind):
            return "null" if kind == "null" else f"{'an' if kind == 'integer' else 'a'} {kind}"
        case Text(form=form):
            return form.noun
        case Choice(options=options):
            told = ", ".join(shown(value) for value, _ in options[:MAX_TOLD_OPTIONS])
            more = ", ..." if len(options) > MAX_TOLD_OPTIONS else ""
            return f"one of {told}{more}" if len(options) > 1 else told
        case Array() | FixedArray():
            return "an array"
        case Dictionary() | Record():
            return "an object"
        case AnyOf(branches=branches):
            return " or ".join(dict.fromkeys(map(noun, branches)))
        case Alias(target=inner) | Refined(inner=inner):
            return noun(inner)
        case Foreign(type=foreign):
            name: str = foreign.python_type.__name__
            return name
        case Anything():
            return "anything"
        case _:
            assert_never(shape)
