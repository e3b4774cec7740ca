"""Classes with named members (attrs, dataclasses, `TypedDict`, `NamedTuple`), read into one form.

Generic classes come with their type variables filled in. Nothing here knows what a hint means in JSON.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast, final

import attrs
import typing_extensions

from .._absent import ABSENT, Absent
from ._docstrings import parse_docstring

__all__ = [
    "UNRESOLVED",
    "ClassMembers",
    "MemberHint",
    "UnsupportedHint",
    "alias_value",
    "read_class",
    "substitute",
    "unresolved",
]

UNRESOLVED: Final = (AttributeError, NameError, SyntaxError, TypeError)
"""What evaluating a hint that was written as text may raise."""

_PLAIN_FACTORIES: Final[frozenset[object]] = frozenset({list, dict, set, frozenset, tuple})
"""Factories whose result is known without calling them. Others (`uuid4`, `datetime.now`) differ each time."""

_QUALIFIERS: Final[frozenset[object]] = frozenset(
    # typing has `ReadOnly` from Python 3.13 on.
    {typing.Required, typing.NotRequired, typing_extensions.ReadOnly, getattr(typing, "ReadOnly", None)} - {None}
)


class UnsupportedHint(TypeError):
    """A hint has no form in JSON. The message names the hint and the way to it."""


@final
@attrs.frozen
class MemberHint:
    """One member of a class.

    Attributes:
        attribute: Its name on objects, or its key in a `TypedDict`.
        argument: What the constructor calls it; `None` if it is not given to the constructor.
        hint: Its type.
        optional: Whether it may be left out when an object is built.
        always: Whether every object has it.
        default: Its default, where that is a constant.
    """

    attribute: str
    argument: str | None
    hint: Any
    optional: bool
    always: bool = True
    default: object | Absent = ABSENT


@final
@attrs.frozen
class ClassMembers:
    """A class with named members.

    Attributes:
        build: From the members, as keyword arguments, to the object.
        python_type: The class of the objects.
        members: The members, in the order of the class.
        description: The first paragraph of the class's docstring.
        texts: What the docstrings of the class and its bases say about the members, by attribute.
    """

    build: Callable[..., Any]
    python_type: type
    members: tuple[MemberHint, ...]
    description: str
    texts: Mapping[str, str]


def read_class(cls: Any, arguments: Sequence[Any]) -> ClassMembers | None:
    """Read a class with named members.

    Args:
        cls: The class, without type arguments.
        arguments: Its type arguments, if it is generic.

    Returns:
        Its members, or `None` if it is another kind of class.

    Raises:
        UnsupportedHint: A hint cannot be resolved, or a constructor argument is not a member.
    """
    python_type = build = cls
    if attrs.has(cls):
        read = _attrs_members
    elif dataclasses.is_dataclass(cls):
        read = _dataclass_members
    elif typing_extensions.is_typeddict(cls):
        read = _typed_dict_members
        python_type = build = dict
    elif issubclass(cls, tuple) and hasattr(cast("Any", cls), "_fields"):
        read = _named_tuple_members
    else:
        return None
    lineage = list(_lineage(cls, arguments))
    description, texts = _texts(lineage)
    members = tuple(read(cls, _resolved_hints(cls, lineage)))
    return ClassMembers(build, python_type, members, description, texts)


def unresolved(error: Exception) -> str:
    """Return what to say about a hint that cannot be evaluated."""
    if not isinstance(error, NameError):
        return f"a hint cannot be evaluated: {error}"
    return (
        f"a hint names {error.name!r}, which is not defined at run time; "
        "is it imported under TYPE_CHECKING only, or defined inside a function?"
    )


def substitute(hint: Any, values: Mapping[Any, Any]) -> Any:
    """Return the hint with its type variables replaced."""
    if isinstance(hint, TypeVar):
        return values.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not values or not parameters or typing.get_origin(hint) is None:
        return hint
    return hint[tuple(values.get(parameter, parameter) for parameter in parameters)]


def alias_value(alias: Any) -> Any:
    """Return what a ``type`` statement or `TypeAliasType` stands for, with quoted names resolved.

    Raises:
        UnsupportedHint: It names something unknown.
    """
    try:
        holder: Any = types.SimpleNamespace(__annotations__={"value": alias.__value__})
        known = vars(sys.modules[alias.__module__])
        own = {alias.__name__: alias}  # which may be defined inside a function
        return typing_extensions.get_type_hints(holder, known, own, include_extras=True)["value"]
    except UNRESOLVED as error:
        raise UnsupportedHint(f"{alias.__name__}: {unresolved(error)}") from error


def _attrs_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(cls)
    for field in fields:
        default: Any = field.default
        if isinstance(default, cast("type[Any]", attrs.Factory)):  # a class, declared as a function
            default = ABSENT if default.takes_self else _made(default.factory)
        yield MemberHint(
            attribute=field.name,
            argument=field.alias if field.init else None,
            hint=hints.get(field.name, field.type if field.type is not None else Any),
            optional=field.default is not attrs.NOTHING,
            default=ABSENT if default is attrs.NOTHING else default,
        )


def _dataclass_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise UnsupportedHint(f"{cls.__qualname__}.{name} is an InitVar, which objects do not keep")
    for field in dataclasses.fields(cls):
        default: object | Absent = ABSENT
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = _made(field.default_factory)
        yield MemberHint(
            attribute=field.name,
            argument=field.name if field.init else None,
            hint=hints[field.name],
            optional=(
                field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            ),
            default=default,
        )


def _typed_dict_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    required: frozenset[str] = cls.__required_keys__
    for name, hint in hints.items():
        inner, always = hint, name in required
        # Where annotations are strings, __required_keys__ does not know of Required and NotRequired.
        while (qualifier := typing.get_origin(inner)) in _QUALIFIERS:
            if qualifier is typing.Required or qualifier is typing.NotRequired:
                always = qualifier is typing.Required
            inner = typing.get_args(inner)[0]
        yield MemberHint(name, name, inner, optional=not always, always=always)


def _named_tuple_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    defaults: Mapping[str, object] = cls._field_defaults
    for name in cls._fields:
        yield MemberHint(
            attribute=name,
            argument=name,
            hint=hints.get(name, Any),
            optional=name in defaults,
            default=defaults.get(name, ABSENT),
        )


def _made(factory: Callable[[], object]) -> object | Absent:
    plain = typing.get_origin(factory) or factory  # `list[Line]` makes a list
    return factory() if plain in _PLAIN_FACTORIES else ABSENT


def _lineage(cls: Any, arguments: Sequence[Any]) -> Iterator[tuple[type, dict[Any, Any]]]:
    """Yield the class and its bases, bases first, each with the values of its type variables."""
    values = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    # `TypedDict` and `NamedTuple` classes forget their bases except here.
    bases: tuple[Any, ...] = cls.__dict__.get("__orig_bases__", cls.__bases__)
    for base in reversed(bases):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin is not object:
            yield from _lineage(origin, [substitute(part, values) for part in typing.get_args(base)])
    yield cls, values


def _resolved_hints(cls: Any, lineage: list[tuple[type, dict[Any, Any]]]) -> dict[str, Any]:
    try:
        hints = typing_extensions.get_type_hints(cls, include_extras=True)
    except UNRESOLVED as error:
        # Classes that moved to another module after `attrs.resolve_types()` carry their types themselves.
        hints = {field.name: field.type for field in attrs.fields(cls)} if attrs.has(cls) else {}
        if not hints or any(isinstance(hint, str) for hint in hints.values()):
            raise UnsupportedHint(f"{cls.__qualname__}: {unresolved(error)}") from error
    owners: dict[str, dict[Any, Any]] = {}
    for base, values in lineage:
        for name in inspect.get_annotations(base):
            if typing_extensions.is_typeddict(base):
                owners.setdefault(name, values)  # a TypedDict repeats what it inherits
            else:
                owners[name] = values
    return {name: substitute(hint, owners.get(name, {})) for name, hint in hints.items()}


def _texts(lineage: list[tuple[type, dict[Any, Any]]]) -> tuple[str, dict[str, str]]:
    description = ""
    texts: dict[str, str] = {}
    for cls, _ in lineage:
        if cls.__module__ in {"builtins", "typing"}:  # what is below a TypedDict, NamedTuple or Generic
            continue
        written = cls.__dict__.get("__doc__")
        # Dataclasses and named tuples without a docstring are given their signature for one.
        docstring = parse_docstring(
            None if not isinstance(written, str) or written.startswith(f"{cls.__name__}(") else written
        )
        description = docstring.first_paragraph
        texts.update(docstring.arguments)
    return description, texts
