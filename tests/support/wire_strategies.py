"""Hypothesis strategies for wire objects, derived from the classes. No test lives here.

What is drawn is what a careful user could make: valid, but with no thought of any revision. Members that only some
revisions have are drawn as often as others, so that leaving out and downgrading are exercised.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args, get_origin

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from inside_wire import Member, members, options_of

from trio_mcp import ABSENT, types

TEXTS: Final = ("", "a", "two words", "Größe 4 €", "line\nline", "\x00", "日本")
URIS: Final = ("file:///srv/a.txt", "https://example.com/x?y=1", "note://7")
TEMPLATES: Final = ("file:///{path}", "https://example.com/{?q,page}", "note://{id}")
NAMES: Final = ("x", "y", "count", "a b")

text = st.sampled_from(TEXTS)
name = st.sampled_from(NAMES)
json_value: SearchStrategy[Any] = st.sampled_from(
    (None, True, False, 0, -1, 2.5, 10**20, "", "text", [], [1, None, [2.5]], {}, {"a": {"b": [None, True]}})
)
any_object = st.dictionaries(name, json_value, max_size=2)

# The schema of 2026-07-28 lists string, integer and boolean for `JSONValue`; schema.ts (line 8) also says number and
# null. The values of its `JSONObject`s are therefore drawn without fractions and null.
strict_object = st.sampled_from(({}, {"a": 1}, {"a": {"b": [True, "x"]}, "c": ""}))

META: Final[Mapping[str, object]] = {
    "progressToken": "t",
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
    "io.modelcontextprotocol/serverInfo": {"name": "server", "version": "1"},
    "io.modelcontextprotocol/subscriptionId": 4,
    "example.com/more": [1, None],
}
"""Enough for every kind of `_meta` there is."""

_FIELD_SCHEMAS: Final[tuple[Any, ...]] = (True, False, {}, {"type": "integer"}, {"not": {}, "title": "Never"})
field_schema = st.sampled_from(_FIELD_SCHEMAS)
object_schema: SearchStrategy[Any] = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(name, field_schema, max_size=2),
        "required": st.lists(name, unique=True, max_size=2),
        "$schema": st.just("http://json-schema.org/draft-07/schema#"),
        "additionalProperties": st.booleans(),
    },
)
other_schema: SearchStrategy[Any] = st.sampled_from(
    ({}, {"type": "array", "items": True}, {"oneOf": [{"type": "null"}, {}]})
)

BY_MEMBER: Final[Mapping[tuple[type, str], SearchStrategy[Any]]] = {
    (types.Tool, "input_schema"): object_schema,
    (types.Tool, "output_schema"): st.none() | object_schema | other_schema,
    (types.CallToolRequestParams, "arguments"): st.none() | any_object,
    (types.ToolUseContent, "input"): any_object,
    (types.UnknownContent, "type"): st.sampled_from(("video", "widget", "")),
    (types.UnknownContent, "members"): st.fixed_dictionaries(
        {}, optional={"name": text, "uri": st.sampled_from(URIS), "size": json_value, "more": json_value}
    ),
    # Without names it is the same object as an UntitledSingleSelectEnumSchema, and read as one.
    (types.LegacyTitledEnumSchema, "enum_names"): st.lists(text, max_size=3).map(tuple),
    # The schemas of all revisions list string, integer and boolean; schema.ts says number (2026-07-28, line 2951).
    # No fractions, therefore.
    (types.ElicitResult, "content"): st.none()
    | st.dictionaries(
        name, text | st.integers() | st.booleans() | st.lists(text, max_size=2).map(tuple), max_size=2
    ),
}

BY_NAME: Final[Mapping[str, SearchStrategy[Any]]] = {
    "uri": st.sampled_from(URIS),
    "url": st.sampled_from(URIS),
    "src": st.sampled_from(URIS),
    "website_url": st.sampled_from(URIS),
    "uri_template": st.sampled_from(TEMPLATES),
    "data": st.sampled_from(("", "AAAA", "QQ==")),
    "blob": st.sampled_from(("", "AAAA", "QQ==")),
    "meta": st.just(META),
}


@functools.cache
def objects(cls: type) -> SearchStrategy[Any]:
    """Draw an object of a class."""
    drawn = {
        member.attribute.removeprefix("_"): _values_of(cls, member)
        for member in members(cls)
        if member.tag is None
    }
    if cls is types.InputRequiredResult:
        drawn["request_state"] = text  # it, or something to ask for, must be there
    return st.builds(cls, **drawn)


def _values_of(cls: type, member: Member) -> SearchStrategy[Any]:
    if (cls, member.attribute) in BY_MEMBER:
        return BY_MEMBER[cls, member.attribute]
    options = options_of(member.type)
    if object in options:
        return json_value | st.just(ABSENT) if ABSENT in _literals(options) else json_value
    drawn = [_values(option, member) for option in options if option is not type(None)]
    if member.attribute in BY_NAME and str in options:
        drawn = [BY_NAME[member.attribute]]
    if member.attribute == "meta":
        drawn = [BY_NAME["meta"]]
    present = st.one_of(drawn)
    return st.none() | present if type(None) in options else present


def _literals(options: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for option in options if get_origin(option) is Literal for value in get_args(option))


def _values(kind: Any, member: Member | None = None) -> SearchStrategy[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is str:
        return text
    if kind is bool:
        return st.booleans()
    if kind is int:
        least, most = (member.minimum, member.maximum) if member else (None, None)
        return st.integers(int(least or 0), int(most if most is not None else 10**6))
    if kind is float:
        return st.sampled_from((0.0, 0.25, 1.0))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is Sequence:
        return st.lists(_any_of(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return (
            strict_object if arguments[1] is object else st.dictionaries(name, _any_of(arguments[1]), max_size=1)
        )
    assert attrs.has(kind), kind
    return objects(kind)


def _any_of(kind: Any) -> SearchStrategy[Any]:
    return st.one_of([_values(option) for option in options_of(kind)])
