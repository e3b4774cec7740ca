"""Which revisions have a class or a member is written beside it. Here is the proof, from the official schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args, get_origin

import attrs
import pytest
from inside_wire import Member, members, options_of, span_of
from method_types import METHOD_TYPES
from official import ERROR_DATA, definitions, wire_class

from trio_mcp import Revision, types

CLASSES: Final = tuple(cls for name in vars(types)["__all__"] if (cls := wire_class(name)) is not None)


@attrs.frozen
class Description:
    """What the schema of a revision says about the objects of a class."""

    cls: type
    where: str
    properties: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]
    is_inside_a_message: bool = False


def described(revision: Revision) -> Iterator[Description]:
    """Yield what a revision describes: by name, as the params of a method, or as a part of another object."""
    for name, definition in definitions(revision).items():
        for cls, part in _described_by(revision, name, definition):
            is_params = part is definition.get("properties", {}).get("params")
            for description in _with_parts(revision, cls, name, part):
                inside = is_params and "$ref" not in part and description.cls is cls
                yield attrs.evolve(description, is_inside_a_message=inside)


BY_ANOTHER_NAME: Final = {
    ("ResourceReference", "object"): types.ResourceTemplateReference,  # until 2025-03-26
    ("EnumSchema", "object"): types.LegacyTitledEnumSchema,  # in 2025-06-18; a union later
}


def _described_by(revision: Revision, name: str, definition: Mapping[str, Any]) -> Iterator[tuple[type, Any]]:
    properties = definition.get("properties", {})
    method = properties.get("method", {}).get("const")
    cls = wire_class(name) or BY_ANOTHER_NAME.get((name, str(definition.get("type"))))
    # Until 2025-11-25 "CreateMessageRequest" and its like are whole requests, and no classes.
    if cls is not None and (method is None or revision is Revision.V2026_07_28):
        yield cls, definition
    if name in ERROR_DATA:
        yield ERROR_DATA[name][1], properties["error"]["allOf"][1]["properties"]["data"]
    params = properties.get("params", {})
    if method == "elicitation/create":
        # Inside the request in 2025-06-18, when there was one kind; two classes with names later.
        if "properties" in params:
            yield types.ElicitRequestFormParams, params
    elif method is not None and ("$ref" in params or "properties" in params):
        yield METHOD_TYPES[method].params, params


def _with_parts(revision: Revision, cls: type, where: str, part: Mapping[str, Any]) -> Iterator[Description]:
    properties, required = _members_of(revision, part)
    yield Description(cls, where, properties, frozenset(required))
    for member in members(cls):
        inner = properties.get(member.name, {})
        inner = inner["items"] if inner.get("type") == "array" else inner
        classes = _classes_in(member.type)
        if "properties" in inner and len(classes) == 1:
            yield from _with_parts(revision, classes[0], f"{where}.{member.name}", inner)


def _members_of(revision: Revision, part: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    properties, required = dict(part.get("properties", {})), set(part.get("required", ()))
    others = list(part.get("allOf", ()))
    if "$ref" in part:
        others.append(definitions(revision)[part["$ref"].rpartition("/")[2]])
    for other in others:
        more_properties, more_required = _members_of(revision, other)
        properties |= more_properties
        required |= more_required
    return properties, required


def _classes_in(kind: Any) -> list[type]:
    options = [option for option in options_of(kind) if get_origin(option) is None or get_args(option)]
    return [
        cls
        for option in options
        for cls in ([option] if attrs.has(option) else [arg for arg in get_args(option) if attrs.has(arg)])
    ]


every_revision = pytest.mark.parametrize("revision", Revision)

BASES: Final = {types.CacheableResult, types.InputResponseRequestParams}
"""Classes that have a name in 2026-07-28 only, but lend their members to classes of all revisions."""

ALSO_WITHOUT_A_NAME: Final = {
    (types.UntitledSingleSelectEnumSchema, Revision.V2025_06_18),  # an EnumSchema without `enumNames`
    *((types.UnknownContent, revision) for revision in Revision),
}


@every_revision
def test_each_revision_has_the_classes_its_schema_has(revision: Revision) -> None:
    """A class that lives too long is sent to peers that do not know it; one that dies too early is refused."""
    official = {description.cls for description in described(revision)}
    official |= {cls for cls, there in ALSO_WITHOUT_A_NAME if there is revision}
    ours = {cls for cls in CLASSES if revision in span_of(cls)}
    assert ours - BASES == official - BASES


ALSO_WITHOUT_A_DESCRIPTION: Final = {
    types.ClientCapabilities: {"extensions"},
    types.ServerCapabilities: {"extensions"},
    types.SubscriptionFilter: {"taskIds"},
}
"""Members of open sets: SEP-2133 declares extensions in an `initialize` of 2025-06-18; 2026-07-28 describes them. What
a listener of tasks asks for is described by their extension."""


@every_revision
def test_each_revision_has_the_members_its_schema_has(revision: Revision) -> None:
    """Nothing is sent that a revision does not know, and nothing is left out that it does."""
    for description in described(revision):
        if description.cls is types.PaginatedResult:
            continue  # has what makes it cacheable as well, because all that is paginated is
        ours = {member.name for member in members(description.cls) if revision in member.span}
        # Messages that are described as a whole say once for all that their params may have `_meta`.
        meta = {"_meta"} if description.is_inside_a_message else set[str]()
        more = ALSO_WITHOUT_A_DESCRIPTION.get(description.cls, set())
        assert ours | meta == description.properties.keys() | meta | more, description.where


@every_revision
def test_each_revision_requires_what_its_schema_requires(revision: Revision) -> None:
    """What a revision requires is always sent; what may be missing may be left out by who makes the object."""
    for description in described(revision):
        ours = [member for member in members(description.cls) if revision in member.span]
        assert description.required <= {m.name for m in ours if _is_sent(m, revision)}, description.where
        without_default = {m.name for m in ours if m.default is attrs.NOTHING}
        assert without_default <= description.required, description.where


def _is_sent(member: Member, revision: Revision) -> bool:
    return member.always_sent or revision in member.required_in


@every_revision
def test_each_member_has_the_bounds_of_the_schema(revision: Revision) -> None:
    """2026-07-28, server/utilities/completion: "Maximum 100 items", said in all revisions, in the schema or not."""
    for description in described(revision):
        for member in members(description.cls):
            official = description.properties.get(member.name, {})
            ours = (member.minimum, member.maximum, member.max_items)
            theirs = (official.get("minimum"), official.get("maximum"), official.get("maxItems"))
            said_in_text = (description.cls, member.name) == (types.Completion, "values")
            if member.name in description.properties:
                assert ours == ((None, None, 100) if said_in_text else theirs), (description.where, member.name)
