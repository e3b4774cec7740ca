"""What becomes of an object that is sent to a revision which cannot have it as it is. The table is at the end.

A member that a revision lacks is left out without asking; that is written beside the member. Here is what needs
more thought: what was there is said in words, a newer form is given in an older one, or the object is refused. A
class that a revision lacks and that is not in the table is refused as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

import attrs

from .. import types
from .._absent import ABSENT
from .._errors import LocalProtocolError
from .._revisions import Revision
from ..types._fields import evolve

__all__ = ["Downgrade", "downgrades_for"]

_Block: TypeAlias = types.ContentBlock | types.SamplingMessageContentBlock


# Blocks of content, in words.


def _label(what: str, name: str | None, *details: str | None) -> str:
    head = f'{what} "{name}"' if name else what
    known = ", ".join(detail for detail in details if detail is not None)
    return f"[{head}: {known}]" if known else f"[{head}]"


def _bytes_in(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"


def _words_for(block: _Block) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _label(block.type, None, block.mime_type, _bytes_in(block.data))
        case types.ResourceLink():
            size = None if block.size is None else f"{block.size} bytes"
            return _label("resource link", block.title or block.name, block.uri, block.mime_type, size)
        case types.EmbeddedResource():
            contents = block.resource
            if isinstance(contents, types.TextResourceContents):
                return contents.text
            return _label("resource", None, contents.uri, contents.mime_type, _bytes_in(contents.blob))
        case types.ToolUseContent():
            return _label("tool use", block.name, json.dumps(block.input, ensure_ascii=False, default=str))
        case types.ToolResultContent():
            head = "tool error" if block.is_error else "tool result"
            return "\n".join((f"[{head}]", *map(_words_for, block.content)))
        case types.UnknownContent():
            said = {key: str(value) for key, value in block.members.items() if isinstance(value, (str, int))}
            size = None if "size" not in said else f"{said['size']} bytes"
            name = said.get("title") or said.get("name")
            return _label(block.type, name, said.get("uri"), said.get("mimeType"), size)


def _as_text(block: _Block, _: Revision) -> types.TextContent:
    annotations = getattr(block, "annotations", None)
    return types.TextContent(text=_words_for(block), annotations=annotations)


# Conversations in which every message is one block.


def _blocks_of(
    content: types.SamplingMessageContentBlock | Sequence[types.SamplingMessageContentBlock],
) -> Sequence[types.SamplingMessageContentBlock]:
    return content if isinstance(content, Sequence) else (content,)


def _as_one_block(
    message: types.SamplingMessage | types.CreateMessageResult, _: Revision
) -> types.SamplingMessage | types.CreateMessageResult:
    if not isinstance(message.content, Sequence):
        return message
    if len(message.content) == 1:
        return evolve(message, content=message.content[0])
    return evolve(message, content=types.TextContent(text="\n".join(map(_words_for, message.content))))


def _as_messages_of_one_block(
    params: types.CreateMessageRequestParams, _: Revision
) -> types.CreateMessageRequestParams:
    messages = [evolve(m, content=block) for m in params.messages for block in _blocks_of(m.content)]
    return evolve(params, messages=messages)


# Tools: their schemas, and results that are not objects.


def _checked(tool: types.Tool, _: Revision) -> types.Tool:
    if tool.input_schema.get("type") != "object":
        raise LocalProtocolError(f'the inputSchema of tool {tool.name!r} must have the type "object"')
    return tool


def _with_schemas_of_objects(tool: types.Tool, _: Revision) -> types.Tool:
    given, output = _without_boolean_properties(tool.input_schema), tool.output_schema
    if output is not None:
        output = _without_boolean_properties(output) if output.get("type") == "object" else None
    if given is tool.input_schema and output is tool.output_schema:
        return tool
    return evolve(tool, input_schema=given, output_schema=output)


def _without_boolean_properties(schema: types.JSONObject) -> types.JSONObject:
    if not isinstance(schema.get("properties"), Mapping):
        return schema
    properties = cast("Mapping[str, object]", schema["properties"])
    instead: Mapping[bool, types.JSONObject] = {True: {}, False: {"not": {}}}
    spelled_out = {name: instead[value] for name, value in properties.items() if isinstance(value, bool)}
    return {**schema, "properties": {**properties, **spelled_out}} if spelled_out else schema


def _with_an_object_or_nothing(
    result: types.CallToolResult | types.ToolResultContent, _: Revision
) -> types.CallToolResult | types.ToolResultContent:
    if result.structured_content is ABSENT or isinstance(result.structured_content, Mapping):
        return result
    return evolve(result, structured_content=ABSENT)


# Elicitation, when it was forms without choices of several.


def _as_legacy_enum(schema: types.TitledSingleSelectEnumSchema, _: Revision) -> types.LegacyTitledEnumSchema:
    return types.LegacyTitledEnumSchema(
        title=schema.title,
        description=schema.description,
        enum=[option.const for option in schema.one_of],
        enum_names=[option.title for option in schema.one_of],
        default=schema.default,
    )


def _refused_if_of_several_values(result: types.ElicitResult, revision: Revision) -> types.ElicitResult:
    for name, value in (result.content or {}).items():
        if not isinstance(value, (str, int, float)):
            raise LocalProtocolError(f"ElicitResult.content.{name}: {revision} has no choice of several values")
    return result


def _without_elicitation_by_url_alone(
    capabilities: types.ClientCapabilities, _: Revision
) -> types.ClientCapabilities:
    elicitation = capabilities.elicitation
    if elicitation is None or elicitation.form is not None or elicitation.url is None:
        return capabilities
    # Without its members it would say that the client can show forms.
    return evolve(capabilities, elicitation=None)


@final
@attrs.frozen
class Downgrade:
    """What becomes of one class.

    Attributes:
        name: The name of the class. Most programs never need most of the classes.
        before: The first revision that can have it as it is; `None` if none can, or if it is looked at for all.
        change: Takes the object and the revision, and returns what is sent in its place.

    `change` raises `LocalProtocolError` if nothing can be.
    """

    name: str
    before: Revision | None
    change: Callable[[Any, Revision], object]


_DOWNGRADES: Final = (
    Downgrade("UnknownContent", None, _as_text),
    Downgrade("AudioContent", Revision.V2025_03_26, _as_text),
    Downgrade("ResourceLink", Revision.V2025_06_18, _as_text),
    Downgrade("ToolUseContent", Revision.V2025_11_25, _as_text),
    Downgrade("ToolResultContent", Revision.V2025_11_25, _as_text),
    Downgrade("ToolResultContent", Revision.V2026_07_28, _with_an_object_or_nothing),
    Downgrade("CallToolResult", Revision.V2026_07_28, _with_an_object_or_nothing),
    Downgrade("CreateMessageRequestParams", Revision.V2025_11_25, _as_messages_of_one_block),
    Downgrade("SamplingMessage", Revision.V2025_11_25, _as_one_block),
    Downgrade("CreateMessageResult", Revision.V2025_11_25, _as_one_block),
    Downgrade("Tool", None, _checked),
    Downgrade("Tool", Revision.V2026_07_28, _with_schemas_of_objects),
    Downgrade("TitledSingleSelectEnumSchema", Revision.V2025_11_25, _as_legacy_enum),
    Downgrade("ElicitResult", Revision.V2025_11_25, _refused_if_of_several_values),
    Downgrade("ClientCapabilities", Revision.V2025_11_25, _without_elicitation_by_url_alone),
)


def downgrades_for(cls: type, revision: Revision) -> tuple[Callable[[Any, Revision], object], ...]:
    """Return what must be done, in order, to an object of a class before a revision is sent it.

    A function may return an object of another class; then the rest are not for it.
    """
    return tuple(
        d.change for d in _DOWNGRADES if d.name == cls.__name__ and (d.before is None or revision < d.before)
    )
