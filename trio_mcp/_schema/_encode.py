"""From Python objects to plain JSON: by shape, strictly, or by the type an object has at run time.

What comes out consists of `dict` with string keys, `list`, `str`, `int`, finite `float`, `bool` and `None`, and
by shape it satisfies the schema of that shape.
"""

from __future__ import annotations

import enum
import functools
import math
import numbers
from collections.abc import Callable, Collection, Hashable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, assert_never, cast, final

from ._decode import boolean, bounded, null
from ._hints import fits_typed_dict, in_order, read_class_hint
from ._members import UnsupportedHint
from ._shapes import (
    Alias,
    AnyOf,
    Anything,
    Array,
    Choice,
    Compiler,
    Dictionary,
    FixedArray,
    Foreign,
    InvalidValue,
    Plain,
    Problems,
    Record,
    Refined,
    Shape,
    Text,
    converted_items,
    core,
    expected,
    keyword_checks,
    noun,
    problem,
    refuse,
    same_key,
    shown,
)
from ._texts import text_form_of

Encoder = Callable[[Any], Any]

MAX_CLASSES: Final = 1024
"""Classes whose encoder is remembered. Programs that make classes as they run must not fill the memory."""

NESTED: Final = "is nested too deeply, or contains itself"

_MISSING: Final = object()


def encoder(shape: Shape) -> Encoder:
    """Compile a shape.

    Returns:
        A function from a Python value to plain JSON, which raises `InvalidValue`.
    """
    return bounded(_Compiler().compile(shape), NESTED)


def to_json(value: object) -> Any:
    """Return a Python value as plain JSON, by the types its parts have.

    Args:
        value: JSON values, attrs and dataclass objects, named tuples, enumeration members, dates and times,
            UUIDs, decimals, bytes, paths, pydantic and msgspec objects, and collections of those. The items of
            a set are sorted where they can be compared.

    Raises:
        InvalidValue: Something in it has no form in JSON, NaN and the infinities included.
    """
    return bounded(_encode_any, NESTED)(value)


@final
class _Compiler(Compiler):
    def compile(self, shape: Shape) -> Encoder:
        match shape:
            case Anything():
                return _encode_any
            case Plain(kind=kind):
                return _PLAIN[kind]
            case Text():
                return _text(shape)
            case Choice():
                return _choice(shape)
            case Array():
                return _array(shape, self.compile(shape.items))
            case FixedArray():
                return _fixed_array([self.compile(item) for item in shape.items])
            case Dictionary():
                return _dictionary(self.compile(shape.keys), self.compile(shape.values))
            case AnyOf():
                return self._any_of(shape)
            case Foreign():
                return _foreign(shape)
            case Refined():
                return _refined(shape, self.compile(shape.inner))
            case Record() | Alias():
                return self.compile_named(shape)
            case _:
                assert_never(shape)

    def compile_record(self, record: Record) -> Encoder:
        members = [
            (member.name, member.attribute, self.compile(member.shape), member.required)
            for member in record.members
        ]
        is_mapping = record.python_type is dict
        python_type: Any = Mapping if is_mapping else record.python_type
        wanted = record.title

        def encode(value: Any) -> dict[str, Any]:
            if not isinstance(value, python_type):
                raise expected(wanted, value)
            found: dict[str, Any] = {}
            problems: Problems | None = None
            for name, attribute, convert, required in members:
                item = value.get(attribute, _MISSING) if is_mapping else getattr(value, attribute, _MISSING)
                try:
                    if item is not _MISSING:
                        found[name] = convert(item)
                    elif required or not is_mapping:
                        raise problem("is missing")
                except InvalidValue as error:
                    problems = problems or Problems()
                    problems.add(name, error)
            if problems is not None:
                problems.raise_any()
            return found

        return encode

    def _any_of(self, union: AnyOf) -> Encoder:
        branches = [(_claim(branch), self.compile(branch)) for branch in union.branches]
        by_class = self._by_class(union)
        wanted = noun(union)

        def encode(value: object) -> Any:
            exact = by_class.get(type(value))
            if exact is not None:
                return exact(value)
            claiming = [convert for claims, convert in branches if claims(value)]
            if not claiming:
                raise expected(wanted, value)
            return claiming[0](value) if len(claiming) == 1 else in_order(claiming)(value)

        return encode

    def _by_class(self, union: AnyOf) -> dict[type, Encoder]:
        """Return the branches that are classes: an object of a subclass must not be taken for its base."""
        found: dict[type, list[Shape]] = {}
        for branch in union.branches:
            inner = core(branch)
            if isinstance(inner, Record) and inner.python_type is not dict:
                found.setdefault(inner.python_type, []).append(branch)
        return {cls: self.compile(branches[0]) for cls, branches in found.items() if len(branches) == 1}


def _claim(shape: Shape) -> Callable[[Any], bool]:
    """Return a test whether a Python value may belong to a branch of a union; it does not look inside objects."""
    match shape:
        case Plain(kind=kind):
            return _PLAIN_CLAIMS[kind]
        case Text(form=form):
            return lambda value: isinstance(value, form.python_type)
        case Choice():
            return functools.partial(_is_choice, {same_key(python): json for json, python in shape.options})
        case Array(unique=unique):
            return _is_set if unique else _is_array
        case FixedArray(items=items):
            return _tuple_claim(len(items))
        case Dictionary():
            return lambda value: isinstance(value, Mapping)
        case Record(python_type=python_type):
            if python_type is dict:
                return lambda value: isinstance(value, Mapping) and fits_typed_dict(shape, cast("Any", value))
            return lambda value: isinstance(value, python_type)
        case AnyOf(branches=branches):
            claims = [_claim(branch) for branch in branches]
            return lambda value: any(claim(value) for claim in claims)
        case Alias(target=inner) | Refined(inner=inner):
            return _claim(inner)
        case Foreign(type=foreign):
            return lambda value: isinstance(value, foreign.python_type)
        case Anything():
            return lambda _value: True
        case _:
            assert_never(shape)


_PLAIN_CLAIMS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: not isinstance(value, bool) and isinstance(value, numbers.Integral),
    "number": lambda value: not isinstance(value, bool) and isinstance(value, numbers.Real),
    "string": lambda value: isinstance(value, str),
}


def _tuple_claim(size: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple | list) and len(cast("list[Any]", value)) == size


def _is_array(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | Mapping)


def _is_set(value: Any) -> bool:
    return isinstance(value, AbstractSet)


def _is_choice(found: Mapping[object, object], value: Any) -> bool:
    try:
        return same_key(value) in found
    except TypeError:  # it has no hash
        return False


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if not isinstance(value, bool) and isinstance(value, numbers.Integral):
        return int(value)
    raise expected("an integer", value)


def _number(value: Any) -> float:
    if type(value) is int:
        return value
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        if isinstance(value, numbers.Integral):
            return int(value)
        number = float(value)
        if math.isfinite(number):
            return number
        raise problem(f"{number} is not a number in JSON")
    raise expected("a number", value)


def _string(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise expected("a string", value)


_PLAIN: Final[Mapping[str, Encoder]] = {
    "null": null,
    "boolean": boolean,
    "integer": _integer,
    "number": _number,
    "string": _string,
}


def _text(shape: Text) -> Encoder:
    form = shape.form

    def encode(value: Any) -> str:
        if not isinstance(value, form.python_type):
            raise expected(form.python_type.__name__, value)
        try:
            return form.write(value)
        except ValueError as error:
            raise problem(str(error)) from None

    return encode


def _choice(shape: Choice) -> Encoder:
    found = {same_key(python): json for json, python in shape.options}
    wanted = noun(shape)

    def encode(value: Any) -> Any:
        if not _is_choice(found, value):
            raise expected(wanted, value)
        return found[same_key(value)]

    return encode


def _array(shape: Array, item: Encoder) -> Encoder:
    unique = shape.unique
    belongs, wanted = (_is_set, "a set") if unique else (_is_array, "an array")

    def encode(value: Any) -> list[Any]:
        if not belongs(value):
            raise expected(wanted, value)
        items = converted_items(value, item)
        return _sorted(items) if unique else items

    return encode


def _sorted(items: list[Any]) -> list[Any]:
    """Return the items of a set in an order that does not change from run to run, if they have one."""
    try:
        return sorted(items)
    except TypeError:
        return items


def _fixed_array(items: list[Encoder]) -> Encoder:
    is_tuple = _tuple_claim(len(items))

    def encode(value: Any) -> list[Any]:
        if not is_tuple(value):
            raise expected(f"a tuple of length {len(items)}", value)
        pairs = zip(items, value, strict=True)
        return converted_items(pairs, lambda pair: pair[0](pair[1]))

    return encode


def _dictionary(key: Encoder, item: Encoder) -> Encoder:
    def encode(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise expected("an object", value)
        return _mapping(cast("Any", value), key, item)

    return encode


def _mapping(value: Mapping[Any, Any], key: Encoder, item: Encoder) -> dict[str, Any]:
    members: dict[str, Any] = {}
    problems: Problems | None = None
    for name, part in value.items():
        try:
            members[_name(key(name))] = item(part)
        except InvalidValue as error:
            problems = problems or Problems()
            problems.add(str(name), error)
    if problems is not None:
        problems.raise_any()
    return members


def _name(key: Any) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return int.__repr__(key)
    if isinstance(key, str):
        return key
    raise problem(f"is not the name of a member: {shown(key)}")


def _foreign(shape: Foreign) -> Encoder:
    foreign = shape.type

    def encode(value: Any) -> Any:
        if not isinstance(value, foreign.python_type):
            raise expected(noun(shape), value)
        return _encode_any(foreign.encode(value))

    return encode


def _refined(shape: Refined, convert: Encoder) -> Encoder:
    of_json = keyword_checks(shape.keywords)
    of_python = shape.checks
    if not of_json and not of_python:
        return convert

    def encode(value: Any) -> Any:
        result = convert(value)
        refuse(of_json, result)
        refuse(of_python, value)
        return result

    return encode


def _encode_any(value: object) -> Any:
    exact = _BY_TYPE.get(type(value))
    if exact is not None:
        return exact(value)
    if isinstance(value, enum.Enum):
        return _encode_any(value.value)
    if (form := text_form_of(value)) is not None:
        return _text(Text(form))(value)
    by_class = _class_encoder(cast("Hashable", type(value)))
    if by_class is not None:
        return by_class(value)
    for cls, convert in _BY_BASE:
        if isinstance(value, cls):
            return convert(value)
    raise problem(f"{shown(value)} has no form in JSON")


@functools.lru_cache(maxsize=MAX_CLASSES)
def _class_encoder(cls: Hashable) -> Encoder | None:
    """Return the encoder for objects of a class with named members, `None` for another kind of class."""
    try:
        shape = read_class_hint(cast("type", cls), "output")
    except UnsupportedHint as error:
        raise problem(str(error)) from error
    return None if shape is None else _Compiler().compile(shape)


def _encode_array(value: Collection[Any]) -> list[Any]:
    return converted_items(value, _encode_any)


def _encode_object(value: Mapping[Any, Any]) -> dict[str, Any]:
    return _mapping(value, _encode_any, _encode_any)


def _encode_set(value: AbstractSet[Any]) -> list[Any]:
    return _sorted(converted_items(value, _encode_any))


_BY_TYPE: Final[Mapping[type, Encoder]] = {
    str: lambda value: value,
    int: lambda value: value,
    float: _number,
    bool: lambda value: value,
    type(None): lambda value: value,
    dict: _encode_object,
    list: _encode_array,
    tuple: _encode_array,
    set: _encode_set,
    frozenset: _encode_set,
}
# Subclasses and other implementations. A string is a collection too, so the order matters.
_BY_BASE: Final[tuple[tuple[type, Encoder], ...]] = (
    (str, _string),
    (numbers.Real, _number),
    (Mapping, _encode_object),
    (AbstractSet, _encode_set),
    (Collection, _encode_array),
)
