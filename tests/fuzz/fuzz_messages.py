"""JSON, messages, what is in them, forms and schemas."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fuzzing import ending, target
from inside_core import form_problems
from inside_parsers import check_tool_results
from inside_schema import InvalidValue, SchemaValidator, UnusableSchema, explain, measure, size_of_pattern
from inside_wire import (
    ErrorResponse,
    InvalidData,
    InvalidMessage,
    Message,
    Request,
    Response,
    answered_id,
    answered_id_of_fragment,
    cost_of_json,
    decode,
    encode,
    encode_batch,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    from_wire,
    id_of_fragment,
    is_array,
    is_object,
    is_request_fragment,
    most_cost_of_json,
    parse_message,
    stdlib_decode,
    stdlib_encode,
    to_wire,
)
from method_types import METHOD_TYPES

from trio_mcp import LocalProtocolError, Revision, types

DATA: Final = Path(__file__).parents[1] / "data"

JSON_TOKENS: Final = (
    "{", "}", "[", "]", ",", ":", '"', "\\", "\\u0000", "\\ud800", "\\udc00", "\\ud83d\\ude00", "null", "true",
    "false", "NaN", "Infinity", "-0", "0.0", "1e400", "1e308", "-1E-999", "5e-324", "1.0", '"a":', '""', "\ufeff",
    " ", "\n", "\t", "\x00", "é", "😀",
)  # fmt: skip


def recorded() -> list[Any]:
    """Return messages that programs of others have exchanged, of varied shapes."""
    lines = (DATA / "wire-corpus" / "stdio.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [json.loads(line) for line in lines]


def messages() -> list[str]:
    """Return the shorter ones as text."""
    texts = [json.dumps(each["message"], ensure_ascii=False) for each in recorded()]
    return [text for text in texts if len(text) < 700]


def _memory(value: Any) -> int:
    """Return what a value takes, without what Python has anyway."""
    size = 0
    ahead = [value]
    while ahead:
        part = ahead.pop()
        if part is None or part is True or part is False:
            continue
        size += sys.getsizeof(part)
        if isinstance(part, dict):
            ahead += part
            ahead += part.values()
        elif isinstance(part, list):
            ahead += part
    return size


@target(
    "json",
    ValueError,
    RecursionError,
    shape="json",
    tokens=JSON_TOKENS,
    hard=(
        "[",
        "[]",
        "[0,",
        '{"":',
        '{"a":0,',
        '"',
        '"\\',
        "1",
        "1.",
        "-",
        "\\ud800",
        '"\\ud800',
        " ",
        "é",
        ("[", "1e308,", "0]"),
    ),
    seeds=messages,
)
def read_json(data: bytes) -> None:
    fast, slow = (ending(lambda: decode(data), ValueError, RecursionError), None)
    try:
        slow = stdlib_decode(data)
    except RecursionError:
        return  # neither counts levels exactly
    except ValueError:
        assert isinstance(fast, type), f"only msgspec reads it, as {fast!r}"
        raise
    if fast is RecursionError:
        return
    assert repr(fast) == repr(slow), f"{fast!r} is not {slow!r}"
    assert _memory(slow) <= cost_of_json(data), "it takes more memory than was counted"
    assert _memory(slow) <= most_cost_of_json(len(data)), "it takes more memory than any text of its size may"
    for written in (encode(fast), stdlib_encode(fast)):
        assert b"\n" not in written
        assert repr(decode(written)) == repr(fast)


def _encoded(message: Message) -> bytes:
    match message:
        case Request():
            return encode_request(message.id, message.method, message.params)
        case Response():
            return encode_response(message.id, message.result)
        case ErrorResponse():
            return encode_error(message.id, message.error)
        case _:
            return encode_notification(message.method, message.params)


def _plain(message: Message) -> object:
    if isinstance(message, ErrorResponse):
        return message.id, message.error.code, message.error.message, message.error.data
    return message


@target(
    "messages",
    ValueError,
    RecursionError,
    shape="json",
    tokens=(*JSON_TOKENS, "jsonrpc", "2.0", "id", "method", "params", "result", "error", "code", "message", "data", "_meta"),
    hard=(
        '{"id":', '"id":1,', '"id":"', ("[", '{"jsonrpc":"2.0","id":1,"method":"a"},', "1]"), '"result":', '"id" ',
        ('{"jsonrpc":"2.0","id":"', "a", '","result":{}}'), ('"id":"', "\\", ""),
    ),
    seeds=lambda: [*messages(), f"[{','.join(messages()[:3])}]"],
)  # fmt: skip
def read_messages(data: bytes) -> None:
    guess = answered_id_of_fragment(data)
    assert guess is None or isinstance(guess, (str, int))
    is_request_fragment(data)
    id_of_fragment(data[: len(data) // 2], data[len(data) // 2 :])
    value = decode(data)
    batch: list[Any] = value if is_array(value) else [value]
    again: list[bytes] = []
    for each in batch:
        answered = answered_id(each)
        try:
            message = parse_message(each)
        except InvalidMessage as error:
            assert error.id is None or isinstance(error.id, (str, int))
            continue
        if isinstance(message, (Response, ErrorResponse)):
            assert answered == message.id
        else:
            assert answered is None
        again.append(_encoded(message))
        read = parse_message(decode(again[-1]))
        assert repr(_plain(read)) == repr(_plain(message))
    assert len(decode(encode_batch(again))) == len(again)


# Everything that a method carries.

KINDS: Final[dict[str, Any]] = {
    **{f"params of {name}": rule.params for name, rule in METHOD_TYPES.items()},
    **{f"result of {name}": rule.result for name, rule in METHOD_TYPES.items() if rule.result is not None},
    "input required": types.InputRequiredResult,
    "task": types.CreateTaskResult,
}


def wire_objects() -> Iterator[str]:
    """Yield what methods have carried, one of each kind and size at most."""
    seen: set[tuple[str, int]] = set()
    for each in recorded():
        message = each["message"]
        if "method" in message:
            kind, value = f"params of {message['method']}", message.get("params", {})
        elif "result" in message:
            kind, value = f"result of {each.get('answers')}", message["result"]
        else:
            continue
        text = json.dumps([kind, value], ensure_ascii=False)
        if kind in KINDS and len(text) < 900 and (kind, len(text) // 80) not in seen:
            seen.add((kind, len(text) // 80))
            yield text
    for path in sorted((DATA / "mcp-schema" / "2026-07-28" / "examples").glob("*/*.json")):
        name = path.parent.name
        value = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps([name, value], ensure_ascii=False)
        if hasattr(types, name) and len(text) < 900:
            yield text


MEMBERS: Final = (
    "name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "content", "type",
    "text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result", "data", "mimeType", "uri", "blob",
    "structuredContent", "isError", "messages", "role", "user", "assistant", "capabilities", "clientInfo", "tools",
    "protocolVersion", "2025-11-25", "2026-07-28", "2024-11-05", "elicitation", "sampling", "roots", "arguments",
    "cursor", "nextCursor", "progressToken", "requestedSchema", "properties", "required", "oneOf", "anyOf", "enum",
    "enumNames", "const", "default", "format", "minimum", "items", "string", "array", "number", "object", "form", "url",
    "mode", "action", "accept", "inputRequests", "inputResponses", "requestState", "ttlMs", "cacheScope", "size", "level",
    "maxTokens", "task", "taskId", "status", "working", "ref", "argument", "completion", "priority", "audience", "src",
)  # fmt: skip


@target(
    "wire types",
    InvalidData,
    shape="json",
    tokens=(*MEMBERS, *KINDS),
    hard=(
        ('["result of tools/list",{"tools":[', '{"name":1},', "1]}]"),
        ('["result of tools/list",{"tools":[', '{"name":"a","inputSchema":{"type":"object"}},', "1]}]"),
        ('["result of tools/call",{"content":[', '{"type":"text","text":"a"},', '{"type":"x"}]}]'),
        ('["result of tools/call",{"content":[', "[],", "1]}]"),
        (
            '["params of sampling/createMessage",{"maxTokens":1,"messages":[',
            '{"role":"user","content":[]},',
            "1]}]",
        ),
        ('["params of initialize",{"capabilities":{"experimental":{', '"a":[],', '"b":1}}}]'),
    ),
    seeds=wire_objects,
)
def read_wire_types(data: bytes) -> None:
    try:
        chosen = decode(data)
    except (ValueError, RecursionError):
        return
    if not is_array(chosen) or len(chosen) != 2 or not isinstance(chosen[0], str):
        return
    kind: Any = KINDS.get(chosen[0])
    if kind is None:
        kind = getattr(types, chosen[0], None) if chosen[0].isidentifier() else None
        if not hasattr(kind, "__attrs_attrs__"):
            return
    read = from_wire(chosen[1], kind)
    for revision in Revision:
        try:
            written = to_wire(read, revision)
        except (LocalProtocolError, TypeError) as error:
            # Not every object is one of every revision; a value of a wrong type would have been refused above.
            assert isinstance(error, LocalProtocolError) or "is not a class" in str(error), repr(error)
            continue
        assert is_object(written)
        text = encode(written)
        again = from_wire(decode(text), kind)
        assert encode(to_wire(again, revision)) == text, f"{revision} writes it otherwise when it is read again"


# Forms.


@target(
    "forms",
    ValueError,
    shape="json",
    tokens=(*MEMBERS, "email", "uri", "date", "date-time", "a@b.c", "http://a", "2026-07-28", "2026-07-28T12:30:00Z", "T", "Z"),
    hard=(
        ('[{"type":"object","properties":{"a":{"type":"string","format":"email"}}},{"a":"', "a@", '"}]'),
        ('[{"type":"object","properties":{"a":{"type":"string","format":"date-time"}}},{"a":"2026-07-28T12:30:00.', "1", '"}]'),
        ('[{"type":"object","properties":{"a":{"type":"string","enum":[', '"a",', '"b"]}}},{"a":"c"}]'),
        ('[{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["a"]}}}},{"a":[', '"a",', '"b"]}]'),
        ('[{"type":"object","required":[', '"a",', '"b"],"properties":{"b":{"type":"boolean"}}},{}]'),
    ),
    seeds=lambda: [
        json.dumps([{"type": "object", "properties": {"a": field}, "required": ["a"]}, {"a": value}])
        for field, value in (
            ({"type": "string", "minLength": 1, "maxLength": 9}, "a"),
            *(({"type": "string", "format": form}, "a@b.c") for form in ("email", "uri", "date", "date-time")),
            ({"type": "string", "format": "date-time"}, "2026-07-28T12:30:00.5+02:00"),
            ({"type": "number", "minimum": 1, "maximum": 2.5}, 2),
            ({"type": "integer", "default": 1}, 1e300),
            ({"type": "boolean"}, True),
            ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, "b"),
            ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, "a"),
            ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1}, ["a"]),
            ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1}, ["a"]),
        )
    ],
)  # fmt: skip
def read_forms(data: bytes) -> None:
    try:
        given = decode(data)
    except RecursionError:
        return
    if not is_array(given) or len(given) != 2 or not is_object(given[1]):
        return
    form = from_wire(given[0], types.RequestedSchema)
    problems = form_problems(form, given[1])
    assert {name for name, _ in problems} <= set(form.properties)
    assert sum(len(why) for _, why in problems) <= 4_000 * (1 + len(problems))
    assert [name for name, _ in form_problems(form, given[1], quotes=False)] == [name for name, _ in problems]


@target(
    "conversations",
    ValueError,
    RecursionError,
    shape="json",
    tokens=(*MEMBERS, "id", "toolUseId", "input"),
    hard=(
        ('[{"role":"assistant","content":[', '{"type":"tool_use","id":"a","name":"a","input":{}},', '{"type":"text","text":"a"}]}]'),
        (
            '[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"a","input":{}}]},{"role":"user","content":[',
            '{"type":"tool_result","toolUseId":"a","content":[]},',
            '{"type":"tool_result","toolUseId":"b","content":[]}]}]',
        ),
    ),
    seeds=lambda: [
        ('[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]},'
        '{"role":"user","content":[{"type":"tool_result","toolUseId":"a","content":[]}]}]'),
        '[{"role":"user","content":{"type":"text","text":"a"}}]',
    ],
)  # fmt: skip
def read_conversations(data: bytes) -> None:
    given = decode(data)
    if is_array(given):
        check_tool_results([from_wire(each, types.SamplingMessage) for each in given])


# Schemas, and values that may fit them.

KEYWORDS: Final = (
    "$schema", "$id", "$ref", "$defs", "$anchor", "$dynamicRef", "#", "#/$defs/a", "type", "properties", "required",
    "items", "prefixItems", "contains", "additionalProperties", "patternProperties", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "enum", "const",
    "multipleOf", "minimum", "maximum", "maxLength", "minLength", "pattern", "(a+)+$", "^[a-z]{1,99}$", "(?=a)", "\\p{L}",
    "uniqueItems", "minItems", "maxItems", "minProperties", "format", "object", "array", "string", "integer", "number",
    "boolean", "null", "http://json-schema.org/draft-07/schema#", "definitions", "dependencies", "a", "b", "~1", "%25",
)  # fmt: skip


@target(
    "schemas",
    UnusableSchema,
    InvalidValue,
    shape="json",
    tokens=KEYWORDS,
    hard=(
        ('[{"allOf":[', '{"type":"object"},', "{}]},{}]"),
        ('[{"enum":[', '"a",', "1]},2]"),
        ('[{"$ref":"#', "/a", '"},1]'),
        ('[{"properties":{', '"a":{},', '"b":{}}},{"b":1}]'),
        ('[{"items":{"type":"string"}},[', "1,", "1]]"),
        ('[{"pattern":"', "a{999999999}", '"},1]'),
        ('[{"pattern":"', "a{9}", '"},1]'),
        ('[{"pattern":"', "(", '"},1]'),
        ('[{"required":[', '"a",', '"b"]},{}]'),
    ),
    seeds=lambda: [
        '[{"type":"object","properties":{"a":{"type":"string","minLength":2}},"required":["a"]},{"a":"b"}]',
        '[{"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"},[[],[[]],[1]]]',
        '[{"anyOf":[{"type":"integer","multipleOf":3},{"const":{"a":[1]}},{"enum":[1.0,"x",null]}]},4]',
        '[{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"maximum":3}},"items":[{"$ref":"#/definitions/a"}],"additionalItems":false},[4,5]]',
        '[{"pattern":"^a+$","patternProperties":{"^b":{"type":"null"}},"additionalProperties":false},{"c":1}]',
        '[{"uniqueItems":true,"contains":{"type":"integer"},"prefixItems":[{"not":{}}],"unevaluatedItems":false},[1,1]]',
        '[{"if":{"type":"integer"},"then":{"minimum":5},"else":{"maxLength":1},"oneOf":[{},{"minimum":7}]},8]',
        '[{"allOf":[{"$ref":"#"}]},1]',
    ],
)  # fmt: skip
def read_schemas(data: bytes) -> None:
    try:
        given = decode(data)
    except (ValueError, RecursionError):
        return
    if not is_array(given) or len(given) != 2:
        return
    schema, value = given
    if isinstance(schema, str):
        assert size_of_pattern(schema) >= 0
        return
    validator = SchemaValidator(schema, max_bytes=1 << 16)
    assert measure(schema).nodes >= 1
    validator.check(value)
    # What the package finds by itself, where the library is not asked, must not be more than the library finds.
    is_draft_07 = is_object(schema) and "draft-07" in str(schema.get("$schema"))
    assert explain(schema, value, is_draft_07=is_draft_07) == []
