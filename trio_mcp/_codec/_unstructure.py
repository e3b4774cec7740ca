"""From wire objects to plain values, for one revision: nothing is written that the revision does not have.

A member that a revision lacks is left out; the revisions of a member are written beside it. The table
`_DOWNGRADES` has the cases that need more: content is replaced by text, a newer form by an older one, or the
object is refused. A class that a revision lacks and that is not in the table is refused. Open JSON is not copied.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.fns import identity
from cattrs.gen import make_dict_unstructure_fn, override

from .. import types
from .._absent import ABSENT
from .._errors import LocalProtocolError
from .._revisions import Revision
from ..types._fields import Member, evolve, members, options_of, span_of
from ._json import as_object

_Block: TypeAlias = types.ContentBlock | types.SamplingMessageContentBlock


# Blocks of content as text.


def _label(what: str, name: str | None, *details: str | None) -> str:
    head = f'{what} "{name}"' if name else what
    known = ", ".join(detail for detail in details if detail is not None)
    return f"[{head}: {known}]" if known else f"[{head}]"


def _bytes_in(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"


def _text_of(block: _Block) -> str:
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
            return "\n".join((f"[{head}]", *map(_text_of, block.content)))
        case types.UnknownContent():
            known = {key: str(value) for key, value in block.members.items() if isinstance(value, (str, int))}
            size = None if "size" not in known else f"{known['size']} bytes"
            name = known.get("title") or known.get("name")
            return _label(block.type, name, known.get("uri"), known.get("mimeType"), size)


def _as_text(block: _Block, _: Revision) -> types.TextContent:
    annotations = getattr(block, "annotations", None)
    return types.TextContent(text=_text_of(block), annotations=annotations)


# Conversations in which every message is one block.


def blocks_of(message: types.SamplingMessage) -> Sequence[types.SamplingMessageContentBlock]:
    """Return the content of a message as blocks."""
    return message.content if isinstance(message.content, Sequence) else (message.content,)


def _as_one_block(
    message: types.SamplingMessage | types.CreateMessageResult, _: Revision
) -> types.SamplingMessage | types.CreateMessageResult:
    if not isinstance(message.content, Sequence):
        return message
    if len(message.content) == 1:
        return evolve(message, content=message.content[0])
    return evolve(message, content=types.TextContent(text="\n".join(map(_text_of, message.content))))


def _as_messages_of_one_block(
    params: types.CreateMessageRequestParams, _: Revision
) -> types.CreateMessageRequestParams:
    messages = [evolve(m, content=block) for m in params.messages for block in blocks_of(m)]
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
    if not result.has_structured_content or isinstance(result.structured_content, Mapping):
        return result
    return evolve(result, structured_content=ABSENT)


# Elicitation, when a field of a form had one value, and there was no elicitation by URL.


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
    # An empty capability would declare that the client can show forms.
    return evolve(capabilities, elicitation=None)


@final
@attrs.frozen
class Downgrade:
    """How the objects of one class are changed for older revisions.

    Attributes:
        name: The name of the class, because most programs never import most of the classes.
        before: The first revision that can have the object unchanged. With `None`, it is changed or checked for
            all.
        change: Takes the object and the revision, and returns the object to send instead. It raises
            `LocalProtocolError` if there is none.
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
    """Return the changes for the objects of a class in a revision, in order.

    If one of them returns an object of another class, the rest do not apply to it.
    """
    return tuple(
        d.change for d in _DOWNGRADES if d.name == cls.__name__ and (d.before is None or revision < d.before)
    )


Hook: TypeAlias = Callable[[Any], Any]

_converter: Final = Converter()


@functools.cache
def writer(cls: Any, revision: Revision, without: str | None = None) -> Hook:
    """Make the function that writes the objects of one class for one revision.

    Args:
        cls: The class.
        revision: What the peer speaks.
        without: A member that is left out, because the caller adds it.

    Raises:
        TypeError: `cls` is not a wire class.
    """
    plain = _class_hook(cls, revision, without)
    changes = downgrades_for(cls, revision)
    if not changes:
        return plain

    def unstructure(obj: Any) -> Any:
        for change in changes:
            obj = change(obj, revision)
            if type(obj) is not cls:
                return writer(obj.__class__, revision, without)(obj)
        return plain(obj)

    return unstructure


def _class_hook(cls: Any, revision: Revision, without: str | None) -> Hook:
    try:
        span = span_of(cls)
    except KeyError:
        raise TypeError(f"{cls.__qualname__} is not a class of the protocol") from None
    if revision not in span:

        def refuse(_: Any) -> Any:
            raise LocalProtocolError(f"{cls.__name__} does not exist in {revision}, only {span}")

        return refuse
    overrides: dict[str, Any] = {}
    for member in members(cls):
        if revision not in member.span or member.name == without:
            overrides[member.attribute] = override(omit=True)
            continue
        required = revision in member.required_in
        hook = _value_hook(member.type, revision, where=f"{cls.__name__}.{member.name}")
        if required and member.default is not attrs.NOTHING:
            hook = _required(hook, member, f"{revision} requires {cls.__name__}.{member.name}")
        if (member.minimum, member.maximum, member.max_items) != (None, None, None):
            hook = _bounded(hook, member, f"{cls.__name__}.{member.name}")
        overrides[member.attribute] = override(
            rename=member.name, omit_if_default=not (required or member.always_sent), unstruct_hook=hook
        )
    unstructure: Hook = make_dict_unstructure_fn(cls, _converter, **overrides)
    return unstructure


def _required(hook: Hook, member: Member, complaint: str) -> Hook:
    def unstructure(value: Any) -> Any:
        if value is member.default:
            raise LocalProtocolError(complaint)
        return hook(value)

    return unstructure


def _bounded(hook: Hook, member: Member, where: str) -> Hook:
    least, most, most_items = member.minimum, member.maximum, member.max_items

    def unstructure(value: Any) -> Any:
        if least is not None and not value >= least:
            raise LocalProtocolError(f"{where} must be at least {least}, not {value!r}")
        if most is not None and not value <= most:
            raise LocalProtocolError(f"{where} must be at most {most}, not {value!r}")
        if most_items is not None and len(value) > most_items:
            raise LocalProtocolError(f"{where} must have at most {most_items} items, not {len(value)}")
        return hook(value)

    return unstructure


def _value_hook(kind: Any, revision: Revision, where: str) -> Hook:
    """Make the function that writes a member's value."""
    options = options_of(kind)
    classes = tuple(option for option in options if attrs.has(option))
    one = _object_hook(classes, revision, where) if classes else identity
    for option in options:
        origin, arguments = get_origin(option), get_args(option)
        if origin is Sequence:
            several = _items_hook(_value_hook(arguments[0], revision, where))
            if set(options) <= {option, type(None)}:
                return several
            return lambda value: several(value) if isinstance(value, (tuple, list)) else one(value)
        if origin is Mapping:
            return _values_hook(_value_hook(arguments[1], revision, where))
    return one


def _items_hook(hook: Hook) -> Hook:
    return list if hook is identity else lambda values: [hook(value) for value in values]


def _values_hook(hook: Hook) -> Hook:
    if hook is identity:
        return as_object
    return lambda values: {key: hook(value) for key, value in values.items()}


def _object_hook(classes: Sequence[type], revision: Revision, where: str) -> Hook:
    hooks: dict[type, Hook] = {}  # of the classes written so far

    def unstructure(obj: Any) -> Any:
        hook = hooks.get(obj.__class__)
        if hook is None:
            cls = next((cls for cls in classes if isinstance(obj, cls)), None)
            if cls is None:
                expected = " or ".join(cls.__name__ for cls in classes)
                raise TypeError(f"{where} takes {expected}, not {type(obj).__name__}")
            hook = hooks[type(obj)] = writer(cls, revision)
        return hook(obj)

    return unstructure
