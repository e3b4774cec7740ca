"""How a wire class is made, and how its members declare which revisions have them.

`@wire` makes the class, and `member()` describes a member whose annotation is not enough. `members()` and
`span_of()` return the descriptions, from which the codec makes its converters. Nothing here knows JSON.

The rules for readers of the classes:

* The name of a member on the wire is its attribute's name in camel case; `meta` is `_meta`.
* A member whose default is `None` or `ABSENT` is not sent while it has that value. Every other member is always
  sent: those without a default, and those whose default has a meaning (`type`, `resultType`, `ttlMs`).
* What is missing on the wire reads as `None`, or as false. Where that is not the whole truth, the attribute is
  private, and a property of its name on the wire shows it.
* `Sequence` in an annotation means: any iterable but a string is accepted, and a tuple is kept.

The modules of the classes do without ``from __future__ import annotations``: attrs, cattrs and
`typing.get_type_hints` need real types in the annotations, because the classes name another module as theirs.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal, TypeVar, Union, dataclass_transform, final, get_args, get_origin, overload

import attrs

from .._absent import ABSENT
from .._revisions import LATEST, Revision

T = TypeVar("T")

FIRST: Final = next(iter(Revision))


@final
@attrs.frozen
class Span:
    """The revisions that have something: ``revision in span``.

    Attributes:
        since: The first of them.
        until: The last of them.
    """

    since: Revision = FIRST
    until: Revision = LATEST

    def __contains__(self, revision: Revision) -> bool:
        return self.since <= revision <= self.until

    def __str__(self) -> str:
        if self.until is LATEST:
            return f"from {self.since} on"
        return f"in {self.since}" if self.since is self.until else f"from {self.since} to {self.until}"


@final
@attrs.frozen(kw_only=True)
class Member:
    """The description of one member of a wire class.

    Attributes:
        attribute: Its name in Python.
        name: Its name on the wire.
        type: Its type in Python.
        default: Its value when it is not on the wire; `attrs.NOTHING` if it is required.
        span: The revisions that have it. In the others it is not sent.
        required_in: The revisions that require it although it has a default here.
        always_sent: Whether it is sent even when it has its default.
        minimum: The smallest number that may be sent.
        maximum: The largest number that may be sent.
        max_items: How many items may be sent.
        hint: Whether the object can be used without it, so that an invalid value from a peer counts as missing.
    """

    attribute: str
    name: str
    type: Any
    default: object
    span: Span = Span()
    required_in: frozenset[Revision] = frozenset()
    always_sent: bool = False
    minimum: float | None = None
    maximum: float | None = None
    max_items: int | None = None
    hint: bool = False

    @property
    def tag(self) -> str | None:
        """The only value it can have, which identifies its class; `None` if it can have several."""
        values = get_args(self.type)
        is_tag = get_origin(self.type) is Literal and len(values) == 1 and isinstance(values[0], str)
        return values[0] if is_tag else None


def member(
    *,
    default: object = attrs.NOTHING,
    name: str | None = None,
    since: Revision = FIRST,
    until: Revision = LATEST,
    required_in: Collection[Revision] = (),
    always_sent: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    max_items: int | None = None,
    hint: bool = False,
    alias: str | None = None,
) -> Any:
    """Describe a member that differs between revisions, is bounded, or has another name on the wire.

    Args:
        default: Its value when it is not on the wire. Without one the member is required.
        name: Its name on the wire, where that is not the attribute's name in camel case.
        since: The first revision that has it.
        until: The last revision that has it.
        required_in: The revisions that require it although it has a default.
        always_sent: Whether it is sent as ``null`` when it is `None`.
        minimum: The smallest number that may be sent. Received values are not checked.
        maximum: The largest number that may be sent.
        max_items: How many items may be sent.
        hint: Whether the object can be used without it. An invalid value from a peer then becomes the default; of
            a list, invalid items are left out.
        alias: What the constructor calls it, where a property of that name shows it and the attribute is private.
    """
    described: dict[str, object] = {
        "span": Span(since, until),
        "required_in": frozenset(required_in),
        "always_sent": always_sent,
        "minimum": minimum,
        "maximum": maximum,
        "max_items": max_items,
        "hint": hint,
    }
    if name is not None:
        described["name"] = name
    return attrs.field(default=default, alias=alias, metadata=described)


_members: Final[dict[type, tuple[Member, ...]]] = {}


def members(cls: type) -> tuple[Member, ...]:
    """Return the members of a wire class, inherited ones first."""
    if cls not in _members:
        _members[cls] = tuple(_describe(attribute) for attribute in attrs.fields(cls))
    return _members[cls]


def _describe(attribute: attrs.Attribute[Any]) -> Member:
    described: dict[str, Any] = {"name": _wire_name(attribute.alias or attribute.name), **attribute.metadata}
    if attribute.default is not None and attribute.default is not ABSENT:
        described["always_sent"] = True
    return Member(attribute=attribute.name, type=attribute.type, default=attribute.default, **described)


def _wire_name(attribute: str) -> str:
    if attribute == "meta":
        return "_meta"
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


_spans: Final[dict[type, Span]] = {}


def span_of(cls: type) -> Span:
    """Return the revisions that have a wire class.

    Raises:
        KeyError: `cls` was not made by `@wire`.
    """
    return _spans[cls]


@overload
def wire(cls: type[T], /) -> type[T]: ...
@overload
def wire(*, since: Revision = FIRST, until: Revision = LATEST) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(member,))
def wire(cls: Any = None, /, *, since: Revision = FIRST, until: Revision = LATEST) -> Any:
    """Make a wire class: immutable, keyword-only, compared by value, shown without defaults.

    Args:
        cls: The class, its members annotated.
        since: The first revision that has it.
        until: The last revision that has it.
    """

    def make(cls: type[T]) -> type[T]:
        # The methods of attrs would show every member that is None, and be compiled for each class.
        cls.__repr__ = _repr  # type: ignore[method-assign, assignment]  # mypy sees object's
        cls.__eq__ = _eq  # type: ignore[method-assign, assignment]
        cls.__hash__ = _hash  # type: ignore[method-assign, assignment]
        made = attrs.frozen(cls, kw_only=True, repr=False, eq=False, field_transformer=_give_tuples)
        package, _, module = made.__module__.rpartition(".")
        if package and module.startswith("_"):
            made.__module__ = package  # the public module: shown in tracebacks and documentation
        _spans[made] = Span(since, until)
        return made

    return make if cls is None else make(cls)


def evolve(obj: T, /, **changes: Any) -> T:
    """Return a copy of a wire object with some attributes changed.

    This is `attrs.evolve`, which mypy accepts only for classes that it sees attrs make.
    """
    return attrs.evolve(obj, **changes)  # type: ignore[misc]  # "expected an attrs class", and it is one


# The calls upwards. What is on the wire knows no codec, so these take the public functions, as users do.


def to_json(obj: object, revision: Revision | str = LATEST) -> dict[str, Any]:
    """Return an object of `trio_mcp.types` as plain JSON, as it is sent to a peer; see `trio_mcp.to_json`."""
    plain: dict[str, Any] = import_module("..", __package__).to_json(obj, revision)
    return plain


def from_json(data: object, kind: type[T]) -> T:
    """Read plain JSON into an object of `trio_mcp.types`; see `trio_mcp.from_json`."""
    obj: T = import_module("..", __package__).from_json(data, kind)
    return obj


def _repr(self: attrs.AttrsInstance) -> str:
    values = ((a, getattr(self, a.name)) for a in attrs.fields(type(self)))
    shown = ", ".join(f"{a.alias}={value!r}" for a, value in values if value != a.default)
    return f"{type(self).__name__}({shown})"


def _eq(self: attrs.AttrsInstance, other: object) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]  # which is what Python expects
    return all(getattr(self, a.name) == getattr(other, a.name) for a in attrs.fields(type(self)))


def _hash(self: attrs.AttrsInstance) -> int:
    return hash((type(self), *(getattr(self, a.name) for a in attrs.fields(type(self)))))


def _give_tuples(cls: type, attributes: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    return [a.evolve(converter=_tuple_maker(a.name, a.type)) if _has_sequence(cls, a) else a for a in attributes]


def _has_sequence(cls: type, attribute: attrs.Attribute[Any]) -> bool:
    kind: Any = attribute.type
    if isinstance(kind, str):
        where = f"{cls.__qualname__}.{attribute.name}"
        raise TypeError(f"{where}: its module must do without `from __future__ import annotations`")
    return any(get_origin(option) is Sequence for option in options_of(kind))


def options_of(kind: Any) -> tuple[Any, ...]:
    """Return what a type written with ``|`` allows; any other type allows itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _tuple_maker(name: str, kind: Any) -> Callable[[Any], Any]:
    # None, one block instead of several, or a word for them.
    others = [option for option in options_of(kind) if get_origin(option) is not Sequence]
    kept = (tuple, *(str if get_origin(option) is Literal else option for option in others))

    def make_tuple(value: Any) -> Any:
        if value.__class__ is list:
            return tuple(value)
        if isinstance(value, kept):
            return value
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            raise TypeError(f"{name} takes several values in an iterable, not {value!r:.60}")
        return tuple(value)

    make_tuple.__annotations__["value"] = kind  # which attrs gives to the constructor
    return make_tuple
