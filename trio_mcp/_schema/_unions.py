"""Which branch of a union a value belongs to, by what can be seen without converting it.

Strings, numbers and arrays are told apart by kind, objects by a tag or by the names of their members. Where that
leaves more than one branch they are tried in order. A union that contains itself must not leave more than one:
each level of a hostile value would double the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

import attrs

from ._members import UnsupportedHint
from ._plain import Kind, Scalar, same_key
from ._problems import InvalidValue, problem
from ._shapes import (
    AnyOf,
    Choice,
    Member,
    Plain,
    Record,
    Shape,
    core,
    kinds,
    parts,
)

__all__ = [
    "Tag",
    "branches_of_kind",
    "find_tag",
    "fits",
    "fits_typed_dict",
    "in_order",
    "records_only",
    "refuse_ambiguous",
]

_CONTAINERS: Final[tuple[Kind, ...]] = ("array", "object")


@final
@attrs.frozen
class Tag:
    """A member whose value says which branch an object belongs to.

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
    """Return the tag by which records are told apart, or `None` if they have none in common."""
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
    """Refuse unions that contain themselves and whose branches cannot be told apart at a glance.

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
    return find_tag(records) is None and not all(_differ(one, other) for one, other in pairs)


def _differ(one: Record, other: Record) -> bool:
    """Whether no object can have the members of both."""
    return _has_own(one, other) or _has_own(other, one)


def _has_own(one: Record, other: Record) -> bool:
    return any(not member.optional and _member(other, member.name) is None for member in one.members)


def _within(shapes: Iterable[Shape]) -> dict[Shape, None]:
    seen: dict[Shape, None] = {}
    waiting = list(shapes)
    while waiting:
        shape = waiting.pop()
        if shape not in seen:
            seen[shape] = None
            waiting += parts(shape)
    return seen


def _member(record: Record, name: str) -> Member | None:
    return next((member for member in record.members if member.name == name), None)


def _is_option(shape: Shape, value: object, *, of_json: bool) -> bool:
    if not isinstance(shape, Choice):
        return True
    key = same_key(value)
    return any(same_key(json if of_json else python) == key for json, python in shape.options)


def _name(shape: Shape) -> str:
    inner = core(shape)
    return inner.title if isinstance(inner, Record) else f"an {'/'.join(sorted(kinds(inner)))}"
