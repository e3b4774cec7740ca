"""From decoded JSON to wire objects. One set of hooks serves all revisions: what is received may be newer.

Every hook is exact: ``"5"`` is not 5, ``true`` is not a number, 5 is not ``"5"``, a string is not a list. There
are two exceptions: a whole number written as a fraction (``5.0``; JSON has one type of number), and ``null`` for
a member that may be missing, as peers in Python send it. Unknown members are ignored. So are invalid *hints* (see
`member`): a title that is no string must not make the tool unusable. Nor must invalid capabilities prevent the
connection; see `_declared`.

Hooks raise `ValueError`, and the functions that cattrs writes raise groups of them; `reader` turns either into
one `InvalidData`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin

import attrs
from cattrs import AttributeValidationNote, ClassValidationError, Converter
from cattrs.gen import make_dict_structure_fn, override

from .. import types
from .._absent import ABSENT
from ..types._fields import Member, members, options_of
from ..types._protocol import CAPABILITIES
from . import _json
from ._json import MAX_PROBLEMS, InvalidData, Problem, kind_of, located, show

Hook: TypeAlias = Callable[[Any, Any], Any]
"""Takes a value from the wire, and its type, which cattrs passes."""

Handler: TypeAlias = Callable[[Any], Any]
"""Takes a value whose kind of JSON (object, list, string and so on) was checked before."""

_converter: Final = Converter(detailed_validation=True, forbid_extra_keys=False)

_NoneType: Final = type(None)

_MISSING: Final = "required, but missing"


def reader(kind: Any) -> Handler:
    """Make the function that reads a type from the wire, or raises `InvalidData`."""
    hook = _hook(kind)

    def read(data: Any) -> Any:
        try:
            return hook(data, kind)
        except (ValueError, ClassValidationError) as error:
            problems = _problems_in(error)
            _break_cycles(error)
        raise InvalidData(problems)

    return read


def _break_cycles(error: BaseException) -> None:
    """Break the reference cycles of errors.

    The functions that cattrs writes keep the error they have caught in a variable, and its traceback keeps their
    frame: a cycle that would keep all data read until the garbage collector comes.
    """
    if isinstance(error, ClassValidationError):
        for part in error.exceptions:
            part.__traceback__ = part.__context__ = None
            _break_cycles(part)


def _problems_in(error: BaseException) -> Sequence[Problem]:
    if isinstance(error, ClassValidationError):
        names = {member.attribute: member.name for member in members(error.cl)}
        return [problem for part in error.exceptions for problem in _problems_of_member(part, names)]
    if isinstance(error, InvalidData):
        return error.problems
    if isinstance(error, ValueError):
        return [("", str(error))]
    raise error  # a bug in this package that cattrs has caught: the data is not at fault


def _problems_of_member(error: BaseException, names: Mapping[str, str]) -> Sequence[Problem]:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            # A KeyError can only come from the function that cattrs has written: the member is missing.
            missing = isinstance(error, KeyError)
            return located(names[note.name], [("", _MISSING)] if missing else _problems_in(error))
    return _problems_in(error)


@functools.cache
def _hook(kind: Any) -> Hook:
    """Make the function that reads a type from the wire, or raises `ValueError` or a group of them."""
    options = options_of(kind)
    if object in options:
        return _same
    handlers = _handlers(options)
    expected = _or(_expectations(options))
    if set(handlers.values()) == {_same}:
        kinds = frozenset(handlers)

        def check(value: Any, _: Any) -> Any:
            if type(value) in kinds:
                return value
            raise ValueError(f"expected {expected}, got {kind_of(value)}")

        return check

    def structure(value: Any, _: Any) -> Any:
        handler = handlers.get(value.__class__)
        if handler is None:
            raise ValueError(f"expected {expected}, got {kind_of(value)}")
        return handler(value)

    return structure


def _same(value: Any, _: Any = None) -> Any:
    return value


def _handlers(options: Iterable[Any]) -> dict[type, Handler]:
    """Return the handler for each kind of JSON, by the Python type it is decoded to."""
    handlers: dict[type, Handler] = {}
    classes: list[type] = []
    for option in options:
        origin, arguments = get_origin(option), get_args(option)
        if option in (str, bool, _NoneType):
            handlers[option] = _same
        elif option is int:
            handlers[int] = _same
            handlers.setdefault(float, _whole)
        elif option is float:
            handlers[int] = handlers[float] = _same
        elif origin is Literal:
            handlers[str] = _one_of(arguments)
        elif origin is Sequence:
            handlers[list] = _items(arguments[0])
        elif origin is Mapping:
            handlers[dict] = _values(arguments[1])
        elif attrs.has(option):
            classes.append(option)
        else:
            raise TypeError(f"a member of a wire class cannot have the type {option!r}")
    if classes:
        handlers[dict] = _object(classes)
    return handlers


_EXPECTED: Final = {str: "a string", bool: "a boolean", int: "an integer", float: "a number"}


def _expectations(options: Sequence[Any]) -> list[str]:
    expected: list[str] = []
    for option in options:
        if option is int and float in options:
            continue
        if option in _EXPECTED:
            expected.append(_EXPECTED[option])
        elif get_origin(option) is Literal:
            expected += map(show, get_args(option))
        elif get_origin(option) is Sequence:
            expected.append("a list")
        elif option is not _NoneType:
            expected.append("an object")
    return list(dict.fromkeys(expected))


def _or(alternatives: Sequence[str]) -> str:
    *others, last = alternatives
    return f"{', '.join(others)} or {last}" if others else last


def _whole(value: float) -> int:
    if value.is_integer():
        return int(value)
    raise ValueError(f"expected an integer, got {show(value)}")


def _one_of(values: Sequence[str]) -> Handler:
    allowed = frozenset(values)
    expected = _or([show(value) for value in values])

    def structure(value: Any) -> Any:
        if value in allowed:
            return value
        raise ValueError(f"expected {expected}, got {show(value)}")

    return structure


def _items(kind: Any) -> Handler:
    hook = _hook(kind)

    def structure(values: list[Any]) -> tuple[Any, ...]:
        try:
            return tuple([hook(value, kind) for value in values])
        except (ValueError, ClassValidationError) as error:
            _break_cycles(error)
            raise InvalidData(_problems_among(enumerate(values), hook, kind)) from None

    return structure


def _values(kind: Any) -> Handler:
    if kind is object:
        return _same
    hook = _hook(kind)

    def structure(values: dict[str, Any]) -> dict[str, Any]:
        try:
            return {key: hook(value, kind) for key, value in values.items()}
        except (ValueError, ClassValidationError) as error:
            _break_cycles(error)
            raise InvalidData(_problems_among(values.items(), hook, kind)) from None

    return structure


def _problems_among(parts: Iterable[tuple[str | int, Any]], hook: Hook, kind: Any) -> list[Problem]:
    problems: list[Problem] = []
    for where, value in parts:
        try:
            hook(value, kind)
        except (ValueError, ClassValidationError) as error:
            problems += located(where, _problems_in(error))
            _break_cycles(error)
        if len(problems) >= MAX_PROBLEMS:
            break
    return problems


def _object(classes: Sequence[type]) -> Handler:
    if len(classes) == 1:
        return _class_handler(classes[0])
    shape = _SHAPES.get(frozenset(cls.__name__ for cls in classes))
    return _by_tag(classes) if shape is None else lambda value: _class_handler(shape(value))(value)


@functools.cache
def _class_handler(cls: Any, tag: str | None = None) -> Handler:
    """Make the function that reads the objects of a class, except the tag that has decided the class."""
    overrides: dict[str, Any] = {
        member.attribute: override(
            rename=member.name, struct_hook=_member_hook(cls, member), omit=member.name == tag
        )
        for member in members(cls)
    }
    handler: Handler = make_dict_structure_fn(cls, _converter, **overrides)
    return handler


def _member_hook(cls: type, member: Member) -> Hook:
    hook, default = _hook(member.type), member.default
    options = options_of(member.type)
    if not CAPABILITIES.isdisjoint(options):
        return _declared(hook, default)
    if cls in CAPABILITIES:
        if bool in options:
            return _forgiving(hook, member)
        return _all_declared if types.JSONObject not in options else _declared(hook, default)
    if member.hint:
        return _forgiving(hook, member)
    if default is attrs.NOTHING or default is None or default is ABSENT:
        return hook
    return lambda value, kind: default if value is None else hook(value, kind)


def _forgiving(hook: Hook, member: Member) -> Hook:
    """Make a hook that treats an invalid hint as missing, and leaves out the invalid items of a list."""
    default = member.default
    item = next(
        (get_args(option)[0] for option in options_of(member.type) if get_origin(option) is Sequence), None
    )

    def structure(value: Any, kind: Any) -> Any:
        if value is None:
            return default
        try:
            return hook(value, kind)
        except (ValueError, ClassValidationError) as error:
            _break_cycles(error)
            if item is None or not _json.is_array(value):
                return default
        return _readable(value, item) or default

    return structure


def _declared(hook: Hook, default: object) -> Hook:
    """Make a hook for a capability, which is declared by an object and else missing.

    Peers without settings to send write ``true`` and ``false``, or ``[]``, which is how PHP writes an object
    without members. So any value that is no object is a capability without settings, except ``false`` and
    ``null``.
    """
    undeclared: object = {} if default is attrs.NOTHING else None

    def structure(value: Any, kind: Any) -> Any:
        if value is None or value is False:
            value = undeclared
        elif value.__class__ is not dict:
            value = {}
        return hook(value, kind)

    return structure


def _all_declared(value: Any, _: Any) -> Any:
    """Read capabilities that the protocol does not define, each as `_declared` does."""
    if not _json.is_object(value):
        return None
    if all(settings.__class__ is dict for settings in value.values()):
        return value
    return {
        name: settings if settings.__class__ is dict else dict[str, Any]()
        for name, settings in value.items()
        if settings is not None and settings is not False
    }


def _readable(values: Iterable[Any], kind: Any) -> tuple[Any, ...]:
    hook = _hook(kind)
    readable: list[Any] = []
    for value in values:
        with contextlib.suppress(ValueError, ClassValidationError):
            readable.append(hook(value, kind))
    return tuple(readable)


# Unions of objects that differ in a tag.

_TAG_WHEN_MISSING: Final = {"mode": "form"}
"""Clients must take a missing `mode` for ``"form"`` (2025-11-25, client/elicitation, "Elicitation Requests")."""


def _by_tag(classes: Sequence[type]) -> Handler:
    tagged = [(m, cls) for cls in classes for m in members(cls) if m.tag is not None]
    class_of = {m.tag: cls for m, cls in tagged}
    handlers: dict[str, Handler] = {}  # of the classes read so far
    (name,) = {m.name for m, _ in tagged}
    expected = "a string" if types.UnknownContent in classes else _or([show(tag) for tag in class_of])

    def structure(value: dict[str, Any]) -> Any:
        tag = value.get(name, _TAG_WHEN_MISSING.get(name))
        if type(tag) is str:
            handler = handlers.get(tag)
            if handler is None and tag in class_of:
                handler = handlers[tag] = _class_handler(class_of[tag], name)
            if handler is not None:
                return handler(value)
            if types.UnknownContent in classes:
                others = {key: other for key, other in value.items() if key != name}
                return types.UnknownContent(type=tag, members=others)
        raise InvalidData([(name, f"expected {expected}, got {show(tag)}" if name in value else _MISSING)])

    return structure


# Unions of objects without a tag, or with one that several share: their members decide.

Shape: TypeAlias = Callable[[Mapping[str, Any]], type]


def _contents_shape(value: Mapping[str, Any]) -> type:
    return types.TextResourceContents if value.get("blob") is None else types.BlobResourceContents


def _response_shape(value: Mapping[str, Any]) -> type:
    if "action" in value:
        return types.ElicitResult
    return types.ListRootsResult if "roots" in value else types.CreateMessageResult


def _field_shape(value: Mapping[str, Any]) -> type:
    match value:
        case {"type": "string"} if value.get("oneOf") is not None:
            return types.TitledSingleSelectEnumSchema
        case {"type": "string"} if value.get("enumNames") is not None:
            return types.LegacyTitledEnumSchema
        case {"type": "string"} if value.get("enum") is not None:
            return types.UntitledSingleSelectEnumSchema
        case {"type": "string"}:
            return types.StringSchema
        case {"type": "number" | "integer"}:
            return types.NumberSchema
        case {"type": "boolean"}:
            return types.BooleanSchema
        case {"type": "array", "items": {"anyOf": _}}:
            return types.TitledMultiSelectEnumSchema
        case {"type": "array"}:
            return types.UntitledMultiSelectEnumSchema
        case {"type": other}:
            expected = _or([show(name) for name in ("string", "number", "integer", "boolean", "array")])
            raise InvalidData([("type", f"expected {expected}, got {show(other)}")])
        case _:
            raise InvalidData([("type", _MISSING)])


# By name, because most programs never import most of the classes.
_SHAPES: Final[Mapping[frozenset[str], Shape]] = {
    frozenset({"TextResourceContents", "BlobResourceContents"}): _contents_shape,
    frozenset({"ElicitResult", "CreateMessageResult", "ListRootsResult"}): _response_shape,
    frozenset(
        {
            "StringSchema",
            "NumberSchema",
            "BooleanSchema",
            "LegacyTitledEnumSchema",
            "TitledSingleSelectEnumSchema",
            "UntitledSingleSelectEnumSchema",
            "TitledMultiSelectEnumSchema",
            "UntitledMultiSelectEnumSchema",
        }
    ): _field_shape,
}
