"""What a hint means in JSON, as a tree of shapes; and the values, problems and checks that conversions share.

Hints are read in `_hints`, schemas written in `_generate`, values converted in `_decode` and `_encode`. Each of
them walks this tree, so that they cannot disagree about what a hint means. Nothing is converted here.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Final, Literal, TypeAlias, TypeGuard, assert_never, final

import attrs

from .._absent import ABSENT, Absent
from .._codec._json import MAX_PROBLEMS, MAX_SHOWN, Misfit, Problem, located
from .._printable import printable
from ._texts import TextForm

# Values: the kinds of JSON values, and which values are equal.

Kind: TypeAlias = Literal["null", "boolean", "integer", "number", "string", "array", "object"]
"""The types of JSON Schema. An integral number is an `integer` if Python has it as an `int`."""

Scalar: TypeAlias = str | int | float | bool | None

Convert: TypeAlias = Callable[[Any], Any]
"""Converts a value, or raises `InvalidValue`."""

_KINDS: Final[dict[type, Kind]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def kind_of(value: object) -> Kind | None:
    """Return the kind of a JSON value, or `None` if it is not one."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    # For example a subclass of `str` or `dict`.
    return next((found for cls, found in _KINDS.items() if isinstance(value, cls)), None)


def same_key(value: object) -> object:
    """Return something hashable that is equal for equal JSON: 1 and 1.0 are, 1 and true are not."""
    if is_array(value):
        return ("array", tuple(same_key(item) for item in value))
    if is_object(value):
        return ("object", frozenset((name, same_key(item)) for name, item in value.items()))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return (type(value), value)


MAX_ALIKE: Final = 100
"""Different keys that may share a hash; honest values have two or three such keys, if any."""


def have_colliding_hashes(keys: Sequence[object]) -> bool:
    """Whether so many different keys share a hash that building a set or dictionary of them takes for ever.

    Python hashes numbers, and what contains them (UUIDs, decimals, tuples, frozen classes), without a secret:
    multiples of 2**61 - 1 all have the hash 0, and each is compared with all before it.

    Raises:
        TypeError: A key has no hash.
    """
    if len(keys) <= MAX_ALIKE or len(keys) - len(set(map(hash, keys))) < MAX_ALIKE:
        return False
    by_hash: dict[int, list[object]] = {}
    for key in keys:
        alike = by_hash.setdefault(hash(key), [])
        if key not in alike:
            alike.append(key)
            if len(alike) > MAX_ALIKE:
                return True
    return False


# Problems: what is wrong with a value, and where. Paths and reasons are in wire terms (``orders[2].title``,
# "expected an integer"), because a model or a user on the other side reads them.

MAX_SHOWN_BITS: Final = 200
"""The largest integer that a problem quotes, in bits; Python refuses to print enormous ones."""


@final
class InvalidValue(Misfit):
    """A value does not fit its type.

    Attributes:
        problems: Pairs of path and reason, at most 10, in the order in which they were found. A path reads
            ``orders[2].title``; it is empty for the value as a whole.
    """


@final
class Problems:
    """The problems of an array or object, collected from its parts while it is being converted."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, step: str | int, error: InvalidValue) -> None:
        """Add the problems of a part.

        Args:
            step: The part: a member's name or an item's index.
            error: What the conversion of the part raised.

        Raises:
            InvalidValue: There are `MAX_PROBLEMS` now.
        """
        self._found += located(step, error.problems)
        if len(self._found) >= MAX_PROBLEMS:
            raise InvalidValue(self._found) from None

    def raise_any(self) -> None:
        """Raise `InvalidValue` if there is a problem."""
        if self._found:
            raise InvalidValue(self._found) from None


def converted_items(items: Iterable[Any], convert: Convert) -> list[Any]:
    """Return the items of an array, converted.

    Raises:
        InvalidValue: Some of them cannot be. The paths begin with their indexes.
    """
    converted: list[Any] = []
    problems: Problems | None = None
    for index, item in enumerate(items):
        try:
            converted.append(convert(item))
        except InvalidValue as error:
            problems = problems or Problems()
            problems.add(index, error)
    if problems is not None:
        problems.raise_any()
    return converted


def problem(reason: str) -> InvalidValue:
    """Return the error for a value that is wrong as a whole."""
    return InvalidValue([("", reason)])


def expected(noun: str, value: object) -> InvalidValue:
    """Return the error for a value of the wrong kind, for example ``expected an integer, got "5"``."""
    return problem(f"expected {noun}, got {shown(value)}")


def shown(value: object) -> str:
    """Return a short text for a value: JSON for scalars, the kind for everything else."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            bits = value.bit_length()
            return f"an integer of {bits} bits" if bits > MAX_SHOWN_BITS else int.__repr__(value)
        case float():
            return float.__repr__(value)
        case str():
            cut = value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}…"
            # JSON escapes some characters that are not printable, `printable` the others.
            return printable(json.dumps(cut, ensure_ascii=False))
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return f"a Python object of type {type(value).__qualname__}"


def place(steps: Sequence[str | int]) -> str:
    """Return the path with these members and items."""
    found: Sequence[Problem] = [("", "")]
    for step in reversed(steps):
        found = located(step, found)
    return found[0][0]


# Checks: the assertions of JSON Schema that a conversion enforces. They mean what JSON Schema means: `minimum`
# does not apply to a string. Which keyword a Python bound becomes is decided in `_hints`.

Check = Callable[[Any], str | None]
"""Returns what is wrong with a value, or `None`."""


def keyword_checks(keywords: Mapping[str, object]) -> list[Check]:
    """Return a check for each keyword that is an assertion; other keywords are only for readers of the schema.

    Raises:
        ValueError: A limit is invalid, or a pattern is not a regular expression.
    """
    return [ASSERTIONS[keyword](limit) for keyword, limit in keywords.items() if keyword in ASSERTIONS]


def bound_check(bound: str, limit: Any, spelling: str) -> Check:
    """Return the check of a bound that JSON Schema cannot express, on a Python value (dates, decimals, bytes).

    Args:
        bound: `ge`, `gt`, `le`, `lt`, `multiple_of`, `min_length` or `max_length`.
        limit: What to compare with.
        spelling: The limit in the error message.
    """
    holds, wording = _PYTHON_BOUNDS[bound]

    def check(value: Any) -> str | None:
        try:
            return None if holds(value, limit) else wording.format(spelling)
        except TypeError:  # a time with an offset against one without
            return f"cannot be compared with {spelling}"
        except ArithmeticError:  # a decimal divided by one that is smaller by more digits than are kept
            return f"has too many digits to be compared with {spelling}"

    return check


def refuse(checks: Iterable[Check], value: object) -> None:
    """Raise `InvalidValue` with every reason that the checks find."""
    broken = [("", reason) for check in checks if (reason := check(value)) is not None]
    if broken:
        raise InvalidValue(broken)


def _number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _comparison(holds: Callable[[Any, Any], bool], wording: str) -> Callable[[Any], Check]:
    def compile_check(limit: Any) -> Check:
        if not _number(limit):
            raise ValueError(f"{shown(limit)} is not a number")
        reason = wording.format(shown(limit))

        def check(value: Any) -> str | None:
            if not _number(value) or holds(value, limit):
                return None
            return f"{reason}, got {shown(value)}"

        return check

    return compile_check


def _size(
    kind: type[Sized], holds: Callable[[int, int], bool], wording: str, unit: str
) -> Callable[[Any], Check]:
    def compile_check(limit: Any) -> Check:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise ValueError(f"{shown(limit)} is not a length")
        reason = f"must have {wording} {limit} {unit if limit == 1 else _PLURALS[unit]}"

        def check(value: Any) -> str | None:
            if not isinstance(value, kind) or holds(len(value), limit):
                return None
            return f"{reason}, has {len(value)}"

        return check

    return compile_check


_PLURALS: Final = {"character": "characters", "item": "items", "member": "members"}


def _pattern(limit: Any) -> Check:
    try:
        search = re.compile(_ecma(limit), re.ASCII).search
    except (re.error, TypeError) as error:
        raise ValueError(f"{shown(limit)} is not a regular expression: {error}") from error

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or search(value):
            return None
        return f"must match {limit}, got {shown(value)}"

    return check


def _ecma(pattern: str) -> str:
    r"""Return the pattern with each `$` outside of a class turned into `\Z`.

    JSON Schema means ECMA-262's `$`, which is the very end; Python's also matches before a last line feed.
    """
    return re.sub(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\$", lambda m: m[1] or r"\Z", pattern, flags=re.DOTALL)


def _multiple_of(limit: Any) -> Check:
    if not _number(limit) or not limit > 0:
        raise ValueError(f"{shown(limit)} is not a number above 0")
    from fractions import Fraction  # used by few

    # Decimal fractions, as written: 0.3 is a multiple of 0.1 although the nearest binary fractions are not.
    divisor = limit if isinstance(limit, int) else Fraction(str(limit))

    def check(value: Any) -> str | None:
        if not _number(value):
            return None
        exact = value if isinstance(value, int) else Fraction(str(value))
        return f"must be a multiple of {limit}, got {shown(value)}" if exact % divisor else None

    return check


def _unique_items(limit: Any) -> Check:
    def check(value: Any) -> str | None:
        if limit is not True or not is_array(value):
            return None
        keys = list(map(same_key, value))
        if have_colliding_hashes(keys):
            return "contains too many items that Python's tables cannot tell apart"
        return "must not contain the same item twice" if len(set(keys)) < len(keys) else None

    return check


ASSERTIONS: Final[Mapping[str, Callable[[Any], Check]]] = {
    "minimum": _comparison(operator.ge, "must be at least {}"),
    "exclusiveMinimum": _comparison(operator.gt, "must be greater than {}"),
    "maximum": _comparison(operator.le, "must be at most {}"),
    "exclusiveMaximum": _comparison(operator.lt, "must be less than {}"),
    "multipleOf": _multiple_of,
    "minLength": _size(str, operator.ge, "at least", "character"),
    "maxLength": _size(str, operator.le, "at most", "character"),
    "pattern": _pattern,
    "minItems": _size(list, operator.ge, "at least", "item"),
    "maxItems": _size(list, operator.le, "at most", "item"),
    "uniqueItems": _unique_items,
    "minProperties": _size(dict, operator.ge, "at least", "member"),
    "maxProperties": _size(dict, operator.le, "at most", "member"),
}
"""Keywords that are enforced, each with the function that turns its limit into a check."""

_PYTHON_BOUNDS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "ge": (operator.ge, "must be at least {}"),
    "gt": (operator.gt, "must be greater than {}"),
    "le": (operator.le, "must be at most {}"),
    "lt": (operator.lt, "must be less than {}"),
    "multiple_of": (lambda value, divisor: not value % divisor, "must be a multiple of {}"),
    "min_length": (lambda value, limit: len(value) >= limit, "must be at least {} bytes long"),
    "max_length": (lambda value, limit: len(value) <= limit, "must be at most {} bytes long"),
}


# Shapes.

ALL_KINDS: Final[frozenset[Kind]] = frozenset(
    {"null", "boolean", "integer", "number", "string", "array", "object"}
)

MAX_LISTED_OPTIONS: Final = 20
"""Values of a choice that are listed in the problem of another value."""

_NUMERIC: Final[frozenset[Kind]] = frozenset({"integer", "number"})

# Shapes are compared by identity: two members of one type may carry different remarks. None of them has a
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
        description: The docstring of an enumeration.
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
        description: The docstring of the class.
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
            listed = ", ".join(shown(value) for value, _ in options[:MAX_LISTED_OPTIONS])
            more = ", ..." if len(options) > MAX_LISTED_OPTIONS else ""
            return f"one of {listed}{more}" if len(options) > 1 else listed
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


class Compiler:
    """Compiles shapes into conversions; each record and alias once, so that a shape may contain itself."""

    def __init__(self) -> None:
        self._named: dict[Record | Alias, Convert] = {}

    def compile(self, shape: Shape) -> Convert:
        """Return the conversion of a shape."""
        raise NotImplementedError

    def compile_record(self, record: Record) -> Convert:
        """Return the conversion of a record."""
        raise NotImplementedError

    def compile_named(self, shape: Record | Alias) -> Convert:
        """Return the conversion of what may contain itself."""
        found = self._named.get(shape)
        if found is None:
            # If it is needed while it is being compiled: a function that looks it up when called.
            self._named[shape] = lambda value: self._named[shape](value)  # noqa: PLW0108 - it will be another
            found = self.compile_record(shape) if isinstance(shape, Record) else self.compile(shape.target)
            self._named[shape] = found
        return found
