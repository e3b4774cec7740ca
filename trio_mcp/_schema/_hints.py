"""From type hints to shapes: the only reader of `typing`'s forms.

A hint without a form in JSON is refused here, when a function is registered, and never when it is called. The
branches of unions are distinguished here as well, without converting the value: strings, numbers and arrays by
kind, objects by a tag or by the names of their members. If that leaves several branches, they are tried in
order. A union that contains itself must not leave several: each level of a hostile value would double the work.
"""

from __future__ import annotations

import collections.abc
import enum
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, final

import attrs

from .._absent import ABSENT
from ._docstrings import parse_docstring
from ._members import (
    MemberHint,
    Remark,
    UnsupportedHint,
    alias_value,
    foreign_type,
    misplaced_field,
    read_class,
    read_metadata,
    substitute,
)
from ._shapes import (
    Alias,
    AnyOf,
    Anything,
    Array,
    Check,
    Choice,
    Dictionary,
    FixedArray,
    Foreign,
    InvalidValue,
    Kind,
    Member,
    Plain,
    Record,
    Refined,
    Scalar,
    Shape,
    Text,
    bound_check,
    core,
    keyword_checks,
    kinds,
    noun,
    parts,
    problem,
    same_key,
)
from ._texts import TextForm, text_form

_CONTAINERS: Final[tuple[Kind, ...]] = ("array", "object")


@final
@attrs.frozen
class Tag:
    """A member whose value decides to which branch an object belongs.

    Attributes:
        name: The member's name in JSON.
        branches: The index of the branch for each value, by `same_key`.
        in_all: Whether each branch by itself demands it. The union always does: without its tag, an object
            would have to be tried on every branch.
        choice: All the values.
    """

    name: str
    branches: Mapping[object, int]
    in_all: bool
    choice: Choice


def branches_of_kind(union: AnyOf, kind: Kind) -> list[Shape]:
    """Return the branches that may accept a kind of JSON value, in the order in which to try them."""
    found = [branch for branch in union.branches if kind in kinds(branch)]
    if kind in {"integer", "number"}:
        # Of `int | float`, each number takes its own branch, whatever their order.
        found.sort(key=lambda branch: isinstance(plain := core(branch), Plain) and plain.kind != kind)
    return found


def records_only(branches: Iterable[Shape]) -> list[Record] | None:
    """Return the branches as records, or `None` if there is another one among them."""
    records: list[Record] = []
    for shape in map(core, branches):
        if not isinstance(shape, Record):
            return None
        records.append(shape)
    return records


def find_tag(records: Sequence[Record]) -> Tag | None:
    """Return the tag by which records are distinguished, or `None` if they have none in common."""
    for name in [member.name for member in records[0].members]:
        members = [_member(record, name) for record in records]
        branches: dict[object, int] = {}
        options: list[tuple[Scalar, object]] = []
        for index, member in enumerate(members):
            shape = member and core(member.shape)
            if not isinstance(shape, Choice):
                break
            options += shape.options
            branches.update((same_key(value), index) for value, _ in shape.options)
        else:
            if len(branches) == len(options):
                in_all = all(member is not None and member.required for member in members)
                return Tag(name, branches, in_all, Choice(tuple(options)))
    return None


def fits(record: Record, value: Mapping[str, object]) -> bool:
    """Whether a JSON object has the members of a record, no others, and the right tags."""
    known = 0
    for member in record.members:
        if member.name not in value:
            if not member.optional:
                return False
        elif not _is_option(core(member.shape), value[member.name], of_json=True):
            return False
        else:
            known += 1
    return known == len(value)


def fits_typed_dict(record: Record, value: Mapping[str, object]) -> bool:
    """Whether a Python mapping has at least the members of a `TypedDict`, and the right tags."""
    return all(
        _is_option(core(member.shape), value[member.attribute], of_json=False)
        if member.attribute in value
        else not member.required
        for member in record.members
    )


def in_order(converters: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return a converter that gives the result of the first one that does not refuse a value."""

    def convert(value: Any) -> Any:
        reasons: dict[str, None] = {}
        for branch in converters:
            try:
                return branch(value)
            except InvalidValue as error:
                path, reason = error.problems[0]
                reasons[f"{path}: {reason}" if path else reason] = None
        raise problem(", or ".join(reasons))

    return convert


def refuse_ambiguous(root: Shape) -> None:
    """Refuse unions that contain themselves and whose branches cannot be distinguished without trying them.

    Raises:
        UnsupportedHint: There is such a union.
    """
    for union in _within([root]):
        if isinstance(union, AnyOf):
            for kind in _CONTAINERS:
                branches = branches_of_kind(union, kind)
                if _alike(branches) and any(union in _within(parts(branch)) for branch in branches):
                    names = " and ".join(_name(branch) for branch in branches)
                    raise UnsupportedHint(
                        f"a union that contains itself needs branches that differ at a glance, and {names} "
                        "do not: give them a member with a different Literal each"
                    )


def _alike(branches: list[Shape]) -> bool:
    """Whether a value may have to be tried on more than one of the branches."""
    if len(branches) < 2:
        return False
    records = records_only(branches)
    if records is None:
        return True
    pairs = ((one, other) for at, one in enumerate(records) for other in records[:at])
    # No object can have the members of both if one of them needs a member that the other lacks.
    return find_tag(records) is None and not all(_has_own(a, b) or _has_own(b, a) for a, b in pairs)


def _has_own(one: Record, other: Record) -> bool:
    return any(not member.optional and _member(other, member.name) is None for member in one.members)


def _within(shapes: Iterable[Shape], through: Callable[[Shape], Iterable[Shape]] = parts) -> dict[Shape, None]:
    """Return the shapes, and all that can be reached from them."""
    seen: dict[Shape, None] = {}
    waiting = list(shapes)
    while waiting:
        shape = waiting.pop()
        if shape not in seen:
            seen[shape] = None
            waiting += through(shape)
    return seen


def _member(record: Record, name: str) -> Member | None:
    return next((member for member in record.members if member.name == name), None)


def _is_option(shape: Shape, value: object, *, of_json: bool) -> bool:
    return not isinstance(shape, Choice) or same_key(value) in _keys(shape, of_json=of_json)


@lru_cache(maxsize=256)
def _keys(shape: Choice, *, of_json: bool) -> tuple[object, ...]:
    return tuple(same_key(json if of_json else python) for json, python in shape.options)  # may not be hashable


def _name(shape: Shape) -> str:
    inner = core(shape)
    return inner.title if isinstance(inner, Record) else f"an {'/'.join(sorted(kinds(inner)))}"


Direction: TypeAlias = Literal["input", "output"]
"""What a schema is for.

`input` is what the peer sends to Python code: members with a default may be left out, unknown ones are refused.
`output` is what Python code sends: every member is there, and a reader ignores members that it does not know.
"""

ENDLESS: Final = "a generic type contains itself with ever larger arguments"

_PLAIN: Final[Mapping[object, Literal["boolean", "integer", "number", "string"]]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}
_LISTS: Final = frozenset(
    {
        list,
        collections.abc.Collection,
        collections.abc.Iterable,
        collections.abc.MutableSequence,
        collections.abc.Sequence,
    }
)
_SETS: Final[Mapping[object, type]] = {
    set: set,
    collections.abc.MutableSet: set,
    collections.abc.Set: frozenset,
    frozenset: frozenset,
}
_MAPPINGS: Final = frozenset({dict, collections.abc.Mapping, collections.abc.MutableMapping})

_NUMBER_BOUNDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_STRING_BOUNDS: Final = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_ARRAY_BOUNDS: Final = {"min_length": "minItems", "max_length": "maxItems"}
_OBJECT_BOUNDS: Final = {"min_length": "minProperties", "max_length": "maxProperties"}


def read_hint(hint: Any, direction: Direction) -> Shape:
    """Read a type hint.

    Raises:
        UnsupportedHint: It, or something in it, has no form in JSON.
    """
    try:
        shape = HintReader(direction).read(hint)
    except RecursionError:
        raise UnsupportedHint(ENDLESS) from None
    refuse_ambiguous(shape)
    return shape


def read_class_hint(cls: type, direction: Direction) -> Shape | None:
    """Read a class with named members; return `None` for another kind of class.

    Raises:
        UnsupportedHint: The hint of a member has no form in JSON.
    """
    try:
        shape = HintReader(direction).read_class(cls, cls, ())
    except RecursionError:
        raise UnsupportedHint(ENDLESS) from None
    if shape is not None:
        refuse_ambiguous(shape)
    return shape


def hint_name(hint: Any) -> str:
    """Return a hint as a programmer would write it."""
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
    return repr(hint).replace("typing.", "")


def _is_own_class(hint: Any) -> bool:
    return isinstance(hint, type) and typing.get_origin(hint) is None and hint.__module__ != "builtins"


def described(shape: Shape, text: str | None) -> Shape:
    """Return the shape with a description, unless `Annotated` has given it one."""
    remarks = shape
    while isinstance(remarks, Refined):
        if "description" in remarks.keywords:
            return shape
        remarks = remarks.inner
    return Refined(shape, {"description": text}) if text else shape


@final
class HintReader:
    """Reads the hints of one tool or type. A class that occurs twice becomes one shape."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._named: dict[object, Shape] = {}

    def read(self, hint: Any) -> Shape:
        """Read a hint.

        Raises:
            UnsupportedHint: It, or something in it, has no form in JSON.
        """
        shape = self._read(hint)
        if shape is None:
            instead = "; a dataclass, an attrs class or a TypedDict has one" if _is_own_class(hint) else ""
            if hint is any:
                instead = "; write typing.Any"
            elif isinstance(hint, list) and len(several := list(cast("list[object]", hint))) == 1:
                instead = f"; write list[{hint_name(several[0])}]"
            raise UnsupportedHint(f"{hint_name(hint)} has no form in JSON{instead}")
        return shape

    def read_at(self, place: str, hint: Any) -> Shape:
        """Read a hint; if it has no form in JSON, the error names the place first."""
        try:
            return self.read(hint)
        except UnsupportedHint as error:
            raise UnsupportedHint(f"{place}: {error}") from error

    def read_members(self, members: Iterable[tuple[MemberHint, str | None]], place: str) -> tuple[Member, ...]:
        """Read the members of a class or the parameters of a function.

        Args:
            members: Each with its description in a docstring.
            place: How errors name a member: a format for its name.

        Raises:
            UnsupportedHint: A hint has no form in JSON, or two members have the same name in JSON.
        """
        is_output = self._direction == "output"
        found: dict[str, Member] = {}
        for member, text in members:
            if member.argument is None and not is_output:
                continue
            where = place.format(member.attribute)
            mistake = misplaced_field(member.attribute, hint_name(member.hint), member.default)
            if mistake is not None:
                raise UnsupportedHint(f"{where}: {mistake}")
            shape = described(self.read_at(where, member.hint), text)
            name = _name_in_json(member.hint) or member.argument or member.attribute
            if name in found:
                raise UnsupportedHint(f"{where}: there is another member named {name!r}")
            found[name] = Member(
                name=name,
                argument=member.argument,
                attribute=member.attribute,
                shape=shape,
                required=member.always if is_output else not member.optional,
                optional=member.optional,
                default=ABSENT if is_output else member.default,
            )
        return tuple(found.values())

    def read_class(self, hint: Any, cls: type, arguments: tuple[Any, ...]) -> Shape | None:
        """Read a class with named members; return `None` for another kind of class.

        Args:
            hint: The class, with type arguments if it is generic.
            cls: The class.
            arguments: The type arguments.
        """
        key = _key(hint)
        found = self._named.get(key)
        if found is not None:
            return found
        foreign = foreign_type(hint, cls, output=self._direction == "output")
        if foreign is not None:
            self._named[key] = shape = Foreign(foreign)
            return shape
        read = read_class(cls, arguments)
        if read is None:
            return None
        record = Record(
            title=_title(cls, arguments),
            build=read.build,
            python_type=read.python_type,
            closed=self._direction == "input",
            description=read.description,
        )
        self._named[key] = record
        members = [(member, read.texts.get(member.attribute)) for member in read.members]
        record.members = self.read_members(members, f"{cls.__qualname__}.{{}}")
        return record

    def _read(self, hint: Any) -> Shape | None:
        if hint is None or hint is types.NoneType:
            return Plain("null")
        if hint is Any or hint is object:
            return Anything()
        origin = typing.get_origin(hint)
        if origin is not None:
            return self._read_special(hint, origin, typing.get_args(hint))
        if isinstance(hint, TypeVar):
            return self._read_type_variable(hint)
        if isinstance(hint, type):
            return self._read_type(hint)
        if (inner := getattr(hint, "__supertype__", None)) is not None:  # NewType
            return self.read(inner)
        if hasattr(hint, "__value__"):
            return self._read_alias(hint, hint, ())
        return None

    def _read_type(self, cls: Any) -> Shape | None:
        if (kind := _PLAIN.get(cls)) is not None:
            return Plain(kind)
        if (form := text_form(cls, is_output=self._direction == "output")) is not None:
            return Text(form)
        if issubclass(cls, enum.Enum):
            return _read_enum(cls)
        if cls is tuple:
            return Array(Anything(), tuple)
        return self._read_collection(cls, ()) or self.read_class(cls, cls, ())

    def _read_special(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Shape | None:
        if origin is typing.Annotated:
            shape = self.read(arguments[0])
            for remark in read_metadata(arguments[1:]):
                shape = _remarked(shape, remark)
            return shape
        if origin is typing.Union or origin is types.UnionType:
            return _union([self.read(argument) for argument in arguments])
        if origin is typing.Literal:
            return _read_literal(arguments)
        if origin is typing.Final:
            return self.read(arguments[0])
        if hasattr(origin, "__value__"):
            return self._read_alias(hint, origin, arguments)
        if any(getattr(argument, "__unpacked__", False) for argument in arguments):
            return None
        if origin is tuple:
            return self._read_tuple(hint, arguments)
        if isinstance(origin, type):
            return self._read_collection(origin, arguments) or self.read_class(hint, origin, arguments)
        return None

    def _read_collection(self, cls: type, arguments: tuple[Any, ...]) -> Shape | None:
        if cls in _MAPPINGS and len(arguments) in {0, 2}:
            key, value = arguments or (str, Any)
            return Dictionary(self._read_key(key), self.read(value))
        if len(arguments) < 2 and (cls in _LISTS or cls in _SETS):
            item = self.read(arguments[0] if arguments else Any)
            return Array(item, list) if cls in _LISTS else Array(item, _SETS[cls], unique=True)
        return None

    def _read_key(self, hint: Any) -> Shape:
        shape = self.read(hint)
        inner = core(shape)
        if isinstance(inner, Anything):
            return Plain("string")
        if kinds(inner) == frozenset({"string"}) or (isinstance(inner, Plain) and inner.kind == "integer"):
            return shape
        raise UnsupportedHint(f"{hint_name(hint)} cannot be the name of a member of a JSON object")

    def _read_tuple(self, hint: Any, arguments: tuple[Any, ...]) -> Shape:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return Array(self.read(arguments[0]), tuple)
        if not arguments and not isinstance(hint, types.GenericAlias):  # the bare `Tuple` of old
            return Array(Anything(), tuple)
        return FixedArray(tuple(self.read(argument) for argument in arguments))

    def _read_type_variable(self, variable: TypeVar) -> Shape:
        if variable.__constraints__:
            return _union([self.read(constraint) for constraint in variable.__constraints__])
        return Anything() if variable.__bound__ is None else self.read(variable.__bound__)

    def _read_alias(self, hint: Any, alias: Any, arguments: tuple[Any, ...]) -> Shape:
        key = _key(hint)
        found = self._named.get(key)
        if found is not None:
            return found
        value = alias_value(alias)
        self._named[key] = placeholder = Alias(_title(alias, arguments), Anything())
        values = dict(zip(alias.__type_params__, arguments, strict=False))
        target = self.read(substitute(value, values))
        if placeholder in _within([target], _branches):
            raise UnsupportedHint(f"{alias.__name__} means itself")
        if placeholder in _within([target]):
            placeholder.target = target
            return placeholder
        self._named[key] = target  # an alias that does not contain itself is only a name
        return target


def _read_enum(cls: type[enum.Enum]) -> Shape:
    if issubclass(cls, enum.Flag):
        raise UnsupportedHint(f"{hint_name(cls)} is a set of flags, which has no form in JSON")
    options = [(_scalar(member.value, cls), member) for member in cls]
    written = cls.__dict__.get("__doc__")
    return Choice(tuple(options), parse_docstring(written).first_paragraph)


def _read_literal(values: tuple[Any, ...]) -> Shape:
    options = [
        (_scalar(value.value if isinstance(value, enum.Enum) else value, value), value) for value in values
    ]
    return Choice(tuple(options))


def _scalar(value: object, source: object) -> Scalar:
    if value is None or type(value) in {str, int, bool} or (type(value) is float and math.isfinite(value)):
        return cast("Scalar", value)
    raise UnsupportedHint(f"{hint_name(source)} has the value {value!r}, which is neither text nor a number")


def _union(branches: Iterable[Shape]) -> Shape:
    flat: list[Shape] = []
    for branch in branches:
        flat += branch.branches if isinstance(branch, AnyOf) else (branch,)
    return AnyOf(tuple(flat))


def _remarked(shape: Shape, remark: Remark) -> Shape:
    keywords = dict(remark.keywords)
    checks: list[Check] = []
    for bound, limit in remark.bounds.items():
        keyword, bound_checks = _limit(shape, bound, limit)
        if not keyword and not bound_checks:
            raise UnsupportedHint(f"{bound}={limit!r} does not apply to {noun(shape)}")
        keywords.update(keyword)
        checks += bound_checks
    try:
        keyword_checks(keywords)
    except ValueError as error:
        raise UnsupportedHint(str(error)) from error
    return Refined(shape, keywords, tuple(checks), remark.examples)


def _limit(shape: Shape, bound: str, limit: Any) -> tuple[dict[str, object], list[Check]]:
    """Return what a bound means for a shape: keywords, and checks where JSON Schema has no keyword."""
    match core(shape):
        case Plain(kind="integer" | "number"):
            return _keyword(_NUMBER_BOUNDS, bound, limit), []
        case Plain(kind="string"):
            return _keyword(_STRING_BOUNDS, bound, limit), []
        case Array() | FixedArray():
            return _keyword(_ARRAY_BOUNDS, bound, limit), []
        case Dictionary():
            return _keyword(_OBJECT_BOUNDS, bound, limit), []
        case Text() if bound == "pattern":
            return {"pattern": limit}, []
        case Text(form=form):
            return {}, _text_check(form, bound, limit)
        case AnyOf(branches=branches):
            keywords: dict[str, object] = {}
            checks: list[Check] = []
            for branch in branches:
                keyword, branch_checks = _limit(branch, bound, limit)
                keywords.update(keyword)
                checks += branch_checks
            return keywords, checks
        case _:
            return {}, []


def _keyword(table: Mapping[str, str], bound: str, limit: Any) -> dict[str, object]:
    return {table[bound]: limit} if bound in table else {}


def _text_check(form: TextForm, bound: str, limit: Any) -> list[Check]:
    cls = form.python_type
    if bound in {"min_length", "max_length"}:
        if not hasattr(cls, "__len__"):
            return []
        spelling = str(limit)
    else:
        try:
            spelling = form.write(limit)
        except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
            raise UnsupportedHint(f"{bound}={limit!r} is no bound for {form.noun}") from error
    check = bound_check(bound, limit, spelling)
    # In a union, the other branches are none of its business.
    return [lambda value: check(value) if isinstance(value, cls) else None]


def _branches(shape: Shape) -> Iterable[Shape]:
    return parts(shape) if isinstance(shape, AnyOf | Alias | Refined) else ()


def _name_in_json(hint: Any) -> str | None:
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    names = [remark.name for remark in read_metadata(typing.get_args(hint)[1:]) if remark.name is not None]
    return names[-1] if names else None


def _title(named: Any, arguments: tuple[Any, ...]) -> str:
    """Return the name of a definition: `Page` or, for ``Page[Item]``, `Page_Item`."""
    names = [named.__name__, *(getattr(part, "__name__", hint_name(part)) for part in arguments)]
    return re.sub(r"\W+", "_", "_".join(names)).strip("_")


def _key(hint: Any) -> object:
    try:
        hash(hint)
    except TypeError:  # `Annotated` with a dictionary in it
        return repr(hint)
    return hint
