"""From Python objects to plain JSON: by shape, strictly, or by the type an object has at run time.

What comes out consists of `dict` with string keys, `list`, `str`, `int`, finite `float`, `bool` and `None`, and
by shape it satisfies the schema of that shape.

What a handler returns is written after its work is done, and an error would make its caller do it again. So
where no schema promises a form, and to show a result that does not fit its schema, encoders write more: NaN and
infinities as ``"NaN"`` and ``"-Infinity"``, integers of thousands of digits in hexadecimal, the items of
iterators, whatever else has a text as this text, and as names of members whatever has a form in JSON.
"""

from __future__ import annotations

import enum
import functools
import math
import numbers
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final, assert_never, cast, final

import attrs

from .._codec import _json
from .._codec._jsonrpc import to_wire
from .._revisions import LATEST
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
from ._texts import TextForm, text_form_of

Encoder = Callable[[Any], Any]

MAX_BITS: Final = 14_000
"""The largest integers that are written: Python writes no more than 4300 digits."""

MAX_ITERATED: Final = 1_000_000
"""How many items an iterator may have: some have no end."""

MAX_CLASSES: Final = 1024
"""Classes whose encoder is remembered. Programs that make classes as they run must not fill the memory."""

NESTED: Final = "is nested too deeply, or contains itself"

_MISSING: Final = object()


def encoder(shape: Shape) -> Encoder:
    """Compile a shape.

    Returns:
        A function from a Python value to plain JSON, which raises `InvalidValue`.
    """
    return bounded(_Compiler(_STRICT, _STRICT).compile(shape), NESTED)


def result_encoder(shape: Shape) -> Encoder:
    """Compile the shape of a handler's result: as `encoder`, more is written where the schema takes anything."""
    return bounded(_Compiler(_STRICT, _LENIENT).compile(shape), NESTED)


def showing_encoder(shape: Shape) -> Encoder:
    """Compile a shape to show results that do not fit it: what has a form in JSON is written, bounds or not."""
    return bounded(_Compiler(_LENIENT, _LENIENT).compile(shape), NESTED)


def to_json(value: object) -> Any:
    """Return a Python value as plain JSON, by the types its parts have.

    Args:
        value: JSON values, attrs and dataclass objects, named tuples, enumeration members, dates and times,
            UUIDs, decimals, bytes, paths, pydantic and msgspec objects, and collections of those. The items of
            a set are sorted where they can be compared.

    Raises:
        InvalidValue: Something in it has no form in JSON, NaN and the infinities included.
    """
    return bounded(_STRICT.encode, NESTED)(value)


def items_of(iterator: Iterator[object]) -> list[object]:
    """Return the items of an iterator that a handler returned.

    Raises:
        InvalidValue: They are more than `MAX_ITERATED`.
    """
    items = list(islice(iterator, MAX_ITERATED + 1))
    if len(items) > MAX_ITERATED:
        raise problem(f"an iterator of more than {MAX_ITERATED} items")
    return items


def result_to_json(value: object) -> Any:
    """Return what a handler returned as plain JSON, where no schema promises a form.

    Raises:
        InvalidValue: Something in it has no form in JSON.
    """
    return bounded(_LENIENT.encode, NESTED)(value)


@final
class _Compiler(Compiler):
    """Compiles for one way of writing what has a type, and one for what may be anything."""

    def __init__(self, typed: _Writer, untyped: _Writer) -> None:
        super().__init__()
        self._typed = typed
        self._untyped = untyped

    def compile(self, shape: Shape) -> Encoder:
        match shape:
            case Anything():
                return self._untyped.encode
            case Plain(kind=kind):
                return self._typed.plain[kind]
            case Text(form=form):
                return functools.partial(self._typed.text, form)
            case Choice():
                return _choice(shape)
            case Array():
                return _array(shape, self.compile(shape.items))
            case FixedArray():
                return _fixed_array([self.compile(item) for item in shape.items])
            case Dictionary():
                return self._dictionary(shape)
            case AnyOf():
                return self._any_of(shape)
            case Foreign():
                return self._foreign(shape)
            case Refined():
                convert = self.compile(shape.inner)
                return convert if self._typed.is_lenient else _refined(shape, convert)
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

    def _dictionary(self, shape: Dictionary) -> Encoder:
        writer = self._untyped  # a name is text, whatever it was made of
        item = self.compile(shape.values)
        is_any = writer.is_lenient and isinstance(shape.keys, Plain) and shape.keys.kind == "string"
        key = writer.encode if is_any else self.compile(shape.keys)

        def encode(value: Any) -> dict[str, Any]:
            if not isinstance(value, Mapping):
                raise expected("an object", value)
            return writer.mapping(cast("Any", value), key, item)

        return encode

    def _foreign(self, shape: Foreign) -> Encoder:
        foreign, writer = shape.type, self._typed

        def encode(value: Any) -> Any:
            if not isinstance(value, foreign.python_type):
                raise expected(noun(shape), value)
            return writer.encode(foreign.encode(value))

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


def _string(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise expected("a string", value)


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


def _is_of_numpy(value: object) -> bool:
    """Whether a value is a boolean of numpy, which is no number there, and no `bool`."""
    return type(value).__module__ == "numpy" and type(value).__name__ in {"bool", "bool_"}


@functools.lru_cache(maxsize=MAX_CLASSES)
def _class_encoder(cls: Hashable, writer: _Writer) -> Encoder | None:
    """Return the encoder for objects of a class with named members, `None` for another kind of class."""
    try:
        shape = read_class_hint(cast("type", cls), "output")
    except UnsupportedHint as error:
        if writer.is_lenient and "is content, not a part of JSON" not in str(error):
            return None  # it has a text
        raise problem(str(error)) from error
    return None if shape is None else _Compiler(writer, writer).compile(shape)


@final
class _Writer:
    """Writes values by their types: only what is exact, or, if it is lenient, more."""

    def __init__(self, *, is_lenient: bool) -> None:
        self.is_lenient: Final = is_lenient
        self.plain: Final[Mapping[str, Encoder]] = {
            "null": null,
            "boolean": lambda value: bool(value) if _is_of_numpy(value) else boolean(value),
            "integer": self._integer,
            "number": self._number,
            "string": _string,
        }
        self._by_type: Final[Mapping[type, Encoder]] = {
            str: lambda value: value,
            int: self._integer,
            float: self._number,
            bool: lambda value: value,
            type(None): lambda value: value,
            dict: self._object,
            list: self._array,
            tuple: self._array,
            set: self._set,
            frozenset: self._set,
        }
        # Subclasses and other implementations. A string is a collection too, so the order matters.
        self._by_base: Final[tuple[tuple[type, Encoder], ...]] = (
            (str, _string),
            (numbers.Real, self._number),
            (Mapping, self._object),
            (AbstractSet, self._set),
            (Collection, self._array),
        )

    def encode(self, value: object) -> Any:
        exact = self._by_type.get(type(value))
        if exact is not None:
            return exact(value)
        if isinstance(value, enum.Enum):
            return self.encode(value.value)
        if (form := text_form_of(value)) is not None:
            return self.text(form, value)
        if type(value).__module__ == "trio_mcp.types" and attrs.has(type(value)):
            return self.encode(to_wire(value, LATEST))  # by the names of the protocol
        by_class = _class_encoder(cast("Hashable", type(value)), self)
        if by_class is not None:
            return by_class(value)
        for cls, convert in self._by_base:
            if isinstance(value, cls):
                return convert(value)
        if _is_of_numpy(value):
            return bool(value)
        if self.is_lenient:
            return self._other(value)
        raise problem(f"{shown(value)} has no form in JSON")

    def _other(self, value: Any) -> Any:
        """Write what has no form of its own, unless its text only says where it is in memory."""
        if isinstance(value, Iterator):
            return self._array(items_of(cast("Iterator[object]", value)))
        if isinstance(value, SimpleNamespace):
            return self._object(vars(value))
        text = str(value) or repr(value)
        if text.startswith("<") and " at 0x" in text:
            raise problem(f"{shown(value)} has no form in JSON")
        return text

    def text(self, form: TextForm, value: Any) -> str:
        if not isinstance(value, form.python_type):
            raise expected(form.python_type.__name__, value)
        try:
            return form.write(value)
        except (ValueError, OverflowError) as error:
            if self.is_lenient:
                return str(value)
            raise problem(str(error)) from None

    def mapping(self, value: Mapping[Any, Any], key: Encoder, item: Encoder) -> dict[str, Any]:
        members: dict[str, Any] = {}
        problems: Problems | None = None
        for name, part in value.items():
            try:
                written = self._name(key(name))
                if written in members:
                    raise problem("is the name of two members")
                members[written] = item(part)
            except InvalidValue as error:
                problems = problems or Problems()
                problems.add(str(name), error)
        if problems is not None:
            problems.raise_any()
        return members

    def _name(self, key: Any) -> str:
        if isinstance(key, str):
            return key
        if self.is_lenient or (isinstance(key, int) and not isinstance(key, bool)):
            return _json.encode_answer(key).decode()
        raise problem(f"is not the name of a member: {shown(key)}")

    def _integer(self, value: Any) -> float | str:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            if self.is_lenient and isinstance(value, float):
                return self._number(value)  # a column with holes, which NaN stands for
            raise expected("an integer", value)
        whole = int(value)
        if whole.bit_length() <= MAX_BITS:
            return whole
        if self.is_lenient:
            return hex(whole)
        raise problem(f"has {whole.bit_length()} bits; an integer of more than {MAX_BITS} is not written in JSON")

    def _number(self, value: Any) -> float | str:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise expected("a number", value)
        if isinstance(value, numbers.Integral):
            return self._integer(value)
        number = float(value)
        if math.isfinite(number):
            return number
        if self.is_lenient:
            return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        raise problem(f"{number} is not a number in JSON")

    def _array(self, value: Collection[Any]) -> list[Any]:
        return converted_items(value, self.encode)

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        return self.mapping(value, self.encode, self.encode)

    def _set(self, value: AbstractSet[Any]) -> list[Any]:
        return _sorted(converted_items(value, self.encode))


_STRICT: Final = _Writer(is_lenient=False)
_LENIENT: Final = _Writer(is_lenient=True)
