"""From plain JSON to Python objects, strictly: compiles a shape into one function.

Nothing is guessed: "5" is not 5, true is not 1, a string is not an array. But 5.0 is an integer and 5 is a
number, because JSON has one kind of number. Every value is visited once, except in unions whose branches can
only be distinguished by trying them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never, final

from ._hints import branches_of_kind, find_tag, fits, in_order, records_only
from ._shapes import (
    Alias,
    AnyOf,
    Anything,
    Array,
    Choice,
    Compiler,
    Convert,
    Dictionary,
    FixedArray,
    Foreign,
    InvalidValue,
    Kind,
    Plain,
    Problems,
    Record,
    Refined,
    Shape,
    Text,
    converted_items,
    core,
    expected,
    have_colliding_hashes,
    is_array,
    is_object,
    keyword_checks,
    kind_of,
    kinds,
    noun,
    problem,
    refuse,
    same_key,
    shown,
)

Decoder = Callable[[Any], Any]

INTEGER_NAME: Final = "^(0|-?[1-9][0-9]{0,18})$"
"""How an integer is written as the name of a member: one spelling for each, of the length of 64 bits."""

MAX_LISTED_NAMES: Final = 20
"""Known members that are listed when an unknown one was sent."""

MAX_REASON: Final = 200
"""Characters of a constructor's message that are passed on."""

COLLIDING: Final = "contains too many items that Python's tables cannot tell apart"

_MISSING: Final = object()
_OBJECT: Final[Any] = dict  # a class that tells a type checker nothing


def bounded(convert: Convert, reason: str) -> Convert:
    """Return a conversion that refuses, for this reason, what Python cannot follow to its end."""

    def convert_bounded(value: Any) -> Any:
        try:
            return convert(value)
        except RecursionError:
            raise problem(reason) from None

    return convert_bounded


def decoder(shape: Shape) -> Decoder:
    """Compile a shape.

    Returns:
        A function from a JSON value to the Python value, which raises `InvalidValue`.
    """
    return bounded(_Compiler().compile(shape), "is nested too deeply")


@final
class _Compiler(Compiler):
    def compile(self, shape: Shape) -> Decoder:
        match shape:
            case Anything():
                return _anything
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
                name = _name(shape.keys, self.compile(shape.keys))
                keys = core(shape.keys)
                is_text = isinstance(keys, Plain) and keys.kind == "string"  # whose hashes have a secret
                return _dictionary(name, self.compile(shape.values), is_text=is_text)
            case AnyOf():
                return self._any_of(shape)
            case Foreign(type=foreign):
                return foreign.decode
            case Refined():
                return _refined(shape, self.compile(shape.inner))
            case Record() | Alias():
                return self.compile_named(shape)
            case _:
                assert_never(shape)

    def compile_record(self, record: Record) -> Decoder:
        members = [
            (member.name, member.argument, self.compile(member.shape), member.optional)
            for member in record.members
            if member.argument is not None
        ]
        build = _builder(record)
        extra = record.extra and self.compile(record.extra)
        exhaustive = record.closed or extra is not None

        def decode(value: Any) -> Any:
            if not isinstance(value, _OBJECT):
                raise expected("an object", value)
            arguments: dict[str, Any] = {}
            problems: Problems | None = None
            for name, argument, convert, optional in members:
                item = value.get(name, _MISSING)
                if item is not _MISSING:
                    try:
                        arguments[argument] = convert(item)
                    except InvalidValue as error:
                        problems = problems or Problems()
                        problems.add(name, error)
                elif not optional:
                    problems = problems or Problems()
                    problems.add(name, problem("is missing"))
            if problems is not None or (exhaustive and len(arguments) != len(value)):
                problems = problems or Problems()
                if exhaustive:
                    _take_unknown(record, value, extra, arguments, problems)
                problems.raise_any()
            return build(arguments)

        return decode

    def _any_of(self, union: AnyOf) -> Decoder:
        by_kind: dict[Kind, Decoder] = {}
        for kind in sorted(kinds(union)):
            branches = branches_of_kind(union, kind)
            decoders = [self.compile(branch) for branch in branches]
            by_kind[kind] = decoders[0]
            if len(branches) > 1:
                records = records_only(branches) if kind == "object" else None
                by_kind[kind] = in_order(decoders) if records is None else _one_record(records, decoders)
        wanted = noun(union)

        def decode(value: Any) -> Any:
            kind = kind_of(value)
            branch = by_kind.get(kind) if kind is not None else None
            if branch is None:
                raise expected(wanted, value)
            return branch(value)

        return decode


def _anything(value: Any) -> Any:
    return value


def null(value: Any) -> None:
    """Return null, and refuse everything else."""
    if value is not None:
        raise expected("null", value)


def boolean(value: Any) -> bool:
    """Return a boolean, and refuse everything else."""
    if value is True or value is False:
        return value
    raise expected("a boolean", value)


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise expected("an integer", value)


def _number(value: Any) -> float:
    if type(value) is float and value - value == 0.0:  # neither infinite nor NaN
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise expected("a number of double precision", value) from None
    raise expected("a number", value)


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise expected("a string", value)


_PLAIN: Final[Mapping[str, Decoder]] = {
    "null": null,
    "boolean": boolean,
    "integer": _integer,
    "number": _number,
    "string": _string,
}


def _text(shape: Text) -> Decoder:
    parse, wanted = shape.form.parse, shape.form.noun

    def decode(value: Any) -> Any:
        if isinstance(value, str):
            try:
                return parse(value)
            except ValueError:
                pass
        raise expected(wanted, value)

    return decode


def _choice(shape: Choice) -> Decoder:
    found = {same_key(json): python for json, python in shape.options}
    wanted = noun(shape)

    def decode(value: Any) -> Any:
        python = found.get(same_key(value), _MISSING)
        if python is _MISSING:
            raise expected(wanted, value)
        return python

    return decode


def _array(shape: Array, item: Decoder) -> Decoder:
    build, unique = shape.build, shape.unique
    is_hashed = isinstance(shape.build, type) and issubclass(shape.build, (set, frozenset))

    def decode(value: Any) -> Any:
        if not is_array(value):
            raise expected("an array", value)
        items = converted_items(value, item)
        if build is list:
            return items
        try:
            if is_hashed and have_colliding_hashes(items):
                raise problem(COLLIDING)
            built = build(items)
        except TypeError:
            raise problem("must only contain items that Python can keep in a set") from None
        if unique and len(built) < len(items):
            raise problem("must not contain the same item twice")
        return built

    return decode


def _fixed_array(items: list[Decoder]) -> Decoder:
    size = len(items)

    def decode(value: Any) -> tuple[Any, ...]:
        if not is_array(value):
            raise expected("an array", value)
        if len(value) != size:
            raise problem(f"must have exactly {size} {'item' if size == 1 else 'items'}, has {len(value)}")
        pairs = zip(items, value, strict=True)
        return tuple(converted_items(pairs, lambda pair: pair[0](pair[1])))

    return decode


def _dictionary(name: Decoder, item: Decoder, *, is_text: bool) -> Decoder:
    def decode(value: Any) -> dict[Any, Any]:
        if not is_object(value):
            raise expected("an object", value)
        names: list[Any] = []
        parts: list[Any] = []
        problems = Problems()
        for key, part in value.items():
            try:
                names.append(name(key))
                parts.append(item(part))
            except InvalidValue as error:
                problems.add(key, error)
        problems.raise_any()
        if not is_text and have_colliding_hashes(names):
            raise problem(COLLIDING)
        return dict(zip(names, parts, strict=True))

    return decode


def _name(keys: Shape, convert: Decoder) -> Decoder:
    """Return the decoder for the names of a dictionary; its errors are about the name."""
    integers = "integer" in kinds(keys)
    is_integer = re.compile(INTEGER_NAME[:-1]).fullmatch

    def decode(name: str) -> Any:
        try:
            if not integers:
                return convert(name)
            if is_integer(name) is None:
                raise expected("an integer in decimal digits", name)
            return convert(int(name))
        except InvalidValue as error:
            raise problem(f"is not a name that is allowed here: {error}") from None

    return decode


def _refined(shape: Refined, convert: Decoder) -> Decoder:
    of_json = keyword_checks(shape.keywords)
    of_python = shape.checks
    if not of_json and not of_python:
        return convert

    def decode(value: Any) -> Any:
        refuse(of_json, value)  # first, so that an array that is too long is not converted
        result = convert(value)
        refuse(of_python, result)
        return result

    return decode


def _builder(record: Record) -> Callable[[dict[str, Any]], Any]:
    construct = record.build
    if construct is dict:
        return _anything

    def build(arguments: dict[str, Any]) -> Any:
        try:
            return construct(**arguments)
        except InvalidValue:
            raise
        except (TypeError, ValueError) as error:  # what validators raise; attrs adds further arguments
            reason = str(error.args[0] if error.args else type(error).__name__)
            raise problem(reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}…") from error

    return build


def _take_unknown(
    record: Record, value: dict[str, Any], extra: Decoder | None, arguments: dict[str, Any], problems: Problems
) -> None:
    known = {member.name: None for member in record.members if member.argument is not None}
    for name, item in value.items():
        if name not in known:
            try:
                if extra is None or name in record.reserved:
                    raise problem(f"is not known; {_known(list(known))}")
                arguments[name] = extra(item)
            except InvalidValue as error:
                problems.add(name, error)


def _known(names: list[str]) -> str:
    if not names:
        return "no members are"
    more = ", ..." if len(names) > MAX_LISTED_NAMES else ""
    return f"known are {', '.join(names[:MAX_LISTED_NAMES])}{more}"


def _one_record(records: list[Record], decoders: list[Decoder]) -> Decoder:
    tag = find_tag(records)
    if tag is not None:
        return _tagged(tag.name, tag.branches, noun(tag.choice), decoders)
    pairs = list(zip(records, decoders, strict=True))
    names = " or ".join(f"({', '.join(member.name for member in record.members)})" for record in records)

    def decode(value: Any) -> Any:
        fitting = [convert for record, convert in pairs if fits(record, value)]
        if not fitting:
            # With members that no branch knows: the first branch that finds what it needs.
            fitting = [
                convert
                for record, convert in pairs
                if all(member.optional or member.name in value for member in record.members)
            ][:1]
        if not fitting:
            raise problem(f"expected an object with the members {names}")
        return fitting[0](value) if len(fitting) == 1 else in_order(fitting)(value)

    return decode


def _tagged(name: str, branches: Mapping[object, int], wanted: str, decoders: list[Decoder]) -> Decoder:
    by_tag = {key: decoders[index] for key, index in branches.items()}

    def decode(value: Any) -> Any:
        tag = value.get(name, _MISSING)
        if tag is _MISSING:
            raise InvalidValue([(name, f"is missing; expected {wanted}")])
        branch = by_tag.get(same_key(tag))
        if branch is None:
            raise InvalidValue([(name, f"expected {wanted}, got {shown(tag)}")])
        return branch(value)

    return decode
