"""The official schemas of the five revisions against the classes: what is covered, sent and read."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final, get_args

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inside_base import errors_module as _errors
from inside_wire import InvalidData, from_wire, members, options_of
from official import (
    ERRORS_WITHOUT_DATA,
    NOT_OBJECTS,
    bare,
    definitions,
    is_list,
    is_object,
    targets_by_class,
    targets_of,
    wire_class,
)
from schema_strategies import instances
from wire_strategies import json_value

from trio_mcp import Revision, types

CLASSES: Final = sorted(
    {cls for revision in Revision for cls in targets_by_class(revision)}, key=lambda cls: cls.__name__
)

EXAMPLES: Final = 22
OBJECTS_PER_EXAMPLE: Final = 10
"""Drawing ten objects at once costs Hypothesis little more than drawing one."""

patiently = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

every_revision = pytest.mark.parametrize("revision", Revision)


# Coverage.


@every_revision
def test_every_definition_is_covered(revision: Revision) -> None:
    """All objects of all revisions: a definition without a class, an alias or an error code is one we forgot."""
    elsewhere = NOT_OBJECTS.keys() | ERRORS_WITHOUT_DATA.keys()
    missing = [name for name in definitions(revision) if name not in elsewhere and not targets_of(revision, name)]
    assert not missing


def test_every_class_serves_a_definition() -> None:
    """A class that no definition has use for is no object of the protocol."""
    used: set[type] = {types.UnknownContent}
    waiting = list(CLASSES)
    while waiting:
        cls = waiting.pop()
        if cls not in used:
            used.add(cls)
            waiting += [option for member in members(cls) for option in _classes_in(member.type)]
    exported = map(wire_class, vars(types)["__all__"])
    assert used == {cls for cls in exported if cls is not None}


def _classes_in(kind: Any) -> Iterable[type]:
    for option in options_of(kind):
        if attrs.has(option):
            yield option
        else:
            for argument in get_args(option):
                yield from _classes_in(argument)


@every_revision
def test_errors_have_the_official_codes(revision: Revision) -> None:
    """2026-07-28, basic, "Error Codes"."""
    ours = {value for name, value in vars(_errors).items() if name.isupper() and isinstance(value, int)}
    for name, code in ERRORS_WITHOUT_DATA.items():
        if name in definitions(revision):
            assert _consts_in(definitions(revision)[name]) & {code}, name
            assert code in ours, name


def _consts_in(part: Any) -> set[Any]:
    if is_object(part):
        return {part.get("const")}.union(*map(_consts_in, part.values()))
    return {const for each in part for const in _consts_in(each)} if is_list(part) else set()


@pytest.mark.parametrize(
    ("definition", "alias"),
    [("LoggingLevel", types.LoggingLevel), ("Role", types.Role), ("TaskStatus", types.TaskStatus)],
)
def test_sets_of_words_are_the_official_ones(definition: str, alias: Any) -> None:
    """A word missing from a Literal would make a valid message unreadable."""
    found = [definitions(revision).get(definition) for revision in Revision]
    assert any(found)
    for official in filter(None, found):
        assert set(get_args(alias)) == set(official["enum"])


# What is sent.


def test_ten_thousand_objects_are_sent_to_each_revision() -> None:
    """The promise of the next test, counted. A few objects of a few classes are refused, hence the margin."""
    for revision in Revision:
        assert len(targets_by_class(revision)) * EXAMPLES * OBJECTS_PER_EXAMPLE >= 11_000


# What is read.


@every_revision
def test_whatever_is_valid_can_be_read(revision: Revision) -> None:
    """A peer that keeps to the official schema is understood, with members nobody knows and fractions like 4.0."""

    def instances_with_class(name: str) -> st.SearchStrategy[tuple[Any, Any]]:
        return st.tuples(st.just(_read_as(revision, name)), instances(revision, name))

    readable = [name for name in definitions(revision) if _read_as(revision, name) is not None]

    @patiently
    @given(st.sampled_from(readable).flatmap(instances_with_class))
    def check(drawn: tuple[Any, Any]) -> None:
        kind, instance = drawn
        from_wire(instance, kind)

    check()


@every_revision
def test_what_is_spoiled_is_read_or_refused(revision: Revision) -> None:
    """Whatever a hostile peer puts in whatever place, nothing but `InvalidData` comes of it."""

    def spoiled_with_class(name: str) -> st.SearchStrategy[tuple[Any, Any]]:
        spoiled = st.builds(_spoiled, instances(revision, name), st.integers(0, 30), json_value)
        return st.tuples(st.just(_read_as(revision, name)), spoiled)

    readable = [name for name in definitions(revision) if _read_as(revision, name) is not None]

    @patiently
    @given(st.sampled_from(readable).flatmap(spoiled_with_class))
    def check(drawn: tuple[Any, Any]) -> None:
        kind, data = drawn
        try:
            from_wire(data, kind)
        except InvalidData as error:
            complaint = str(error)
        else:
            return
        assert 0 < len(complaint) < 3000

    check()


def _spoiled(data: Any, number: int, by: Any) -> Any:
    """Return data with the part of a number, counted from the outside in, replaced."""
    holder: dict[Any, Any] = {None: copy.deepcopy(data)}
    places: list[tuple[Any, Any]] = [(holder, None)]
    for container, key in places:  # which grows meanwhile
        inner = container[key]
        if is_object(inner):
            places += [(inner, name) for name in inner]
        elif is_list(inner):
            places += [(inner, index) for index in range(len(inner))]
    container, key = places[number % len(places)]
    container[key] = by
    return holder[None]


def _read_as(revision: Revision, definition: str) -> Any:
    """Return what reads a definition as it is, without an envelope."""
    if definition == "InputRequiredResult":
        return None  # the schema does not say what makes it one: its type, and that it asks for something
    if any(
        target.cls is wire_class(definition) and target.wrap is bare
        for target in targets_of(revision, definition)
    ):
        return wire_class(definition)
    if definition in ("ContentBlock", "ElicitRequestParams", "InputRequest", "InputResponse"):
        return getattr(types, definition)
    if definition in (
        "InputRequests",
        "InputResponses",
        "PrimitiveSchemaDefinition",
        "SamplingMessageContentBlock",
    ):
        return getattr(types, definition)
    return None
