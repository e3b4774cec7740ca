"""The official schemas of the five revisions against the classes: what is covered, sent and read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inside_wire import Member, downgrades_for, from_wire, members, span_of, to_wire
from official import (
    is_list,
    is_object,
    targets_by_class,
    validator,
)
from wire_strategies import objects

from trio_mcp import LocalProtocolError, Revision, types

CLASSES: Final = sorted(
    {cls for revision in Revision for cls in targets_by_class(revision)}, key=lambda cls: cls.__name__
)

NEWEST_FIRST: Final = tuple(reversed(Revision))

EXAMPLES: Final = 22
OBJECTS_PER_EXAMPLE: Final = 10
"""Drawing ten objects at once costs Hypothesis little more than drawing one."""

patiently = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


@every_class
def test_what_is_sent_is_valid_and_comes_back(cls: type) -> None:
    """The official schema of each revision accepts what it is sent; the newest that lacks nothing gives it back."""

    @settings(patiently, max_examples=EXAMPLES)
    @given(st.lists(objects(cls), min_size=OBJECTS_PER_EXAMPLE, max_size=OBJECTS_PER_EXAMPLE))
    def check(drawn: list[object]) -> None:
        for obj in drawn:
            for revision in Revision:
                _check_valid(obj, revision)
            complete = next((revision for revision in NEWEST_FIRST if _lacks_nothing_of(obj, revision)), None)
            if complete is not None:
                assert from_wire(to_wire(obj, complete), cls) == obj

    check()


def _check_valid(obj: object, revision: Revision) -> None:
    try:
        wire = to_wire(obj, revision)
    except LocalProtocolError:
        if _may_be_refused(obj, revision):
            return
        raise
    for target in targets_by_class(revision).get(type(obj), ()):
        instance = target.wrap(wire)
        # validate() says what is wrong, is_valid() is quicker.
        if not validator(revision, target.definition).is_valid(instance):
            validator(revision, target.definition).validate(instance)


def _parts_of(obj: object) -> Iterable[object]:
    """Yield an object and all wire objects in it."""
    if is_list(obj):
        for item in obj:
            yield from _parts_of(item)
    elif is_object(obj):
        yield from _parts_of(list(obj.values()))
    elif attrs.has(type(obj)):
        yield obj
        for member in members(type(obj)):
            yield from _parts_of(getattr(obj, member.attribute))


def _may_be_refused(obj: object, revision: Revision) -> bool:
    several = revision < Revision.V2025_11_25
    return any(
        revision not in span_of(type(part))
        or any(revision in m.required_in and getattr(part, m.attribute) is m.default for m in members(type(part)))
        or (several and isinstance(part, types.ElicitResult) and _has_several_values(part))
        for part in _parts_of(obj)
    )


def _has_several_values(result: types.ElicitResult) -> bool:
    return any(isinstance(value, tuple) for value in (result.content or {}).values())


def _lacks_nothing_of(obj: object, revision: Revision) -> bool:
    return not _may_be_refused(obj, revision) and all(
        all(_lacks_not(part, member, revision) for member in members(type(part)))
        and all(change(part, revision) == part for change in downgrades_for(type(part), revision))
        for part in _parts_of(obj)
    )


def _lacks_not(part: object, member: Member, revision: Revision) -> bool:
    return revision in member.span or getattr(part, member.attribute) == member.default
