"""Header fields beside the body: how values are written, what a client sends and what a server holds against it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inside_base import HEADER_MISMATCH
from inside_core import (
    HeaderMark,
    Headers,
    InvalidMarks,
    check_request_headers,
    decode_header_value,
    encode_header_value,
    header_marks,
    is_session_id,
    request_headers,
)
from places import DATA

from trio_mcp import LocalProtocolError, RequestError

VERSION: Final = "2026-07-28"
META: Final = {"_meta": {"io.modelcontextprotocol/protocolVersion": VERSION}}
RECORDINGS: Final = DATA / "wire-corpus" / "http.jsonl"


def headers(*fields: tuple[str, str]) -> Headers:
    return Headers((name.encode("latin-1"), value.encode("latin-1")) for name, value in fields)


# Values. 2026-07-28, basic/transports/streamable-http, "Value Encoding".


@pytest.mark.spec("basic/transports/streamable-http", "Value Encoding", revisions="2026-07-28")
def test_values_are_written_as_the_specification_shows(subtests: pytest.Subtests) -> None:
    """The five examples of the page first."""
    cases: list[tuple[str, str]] = [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        # The rest follows from the rules.
        ("", ""),
        (" ", "=?base64?IA==?="),
        ("\ta", "=?base64?CWE=?="),
        ("a\tb c", "a\tb c"),
        ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
        ("\x7f", "=?base64?fw==?="),
        ("=?base64?", "=?base64?"),
        ("=?base64?x", "=?base64?x"),
        ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
        ("café", "=?base64?Y2Fmw6k=?="),
    ]
    for value, encoded in cases:
        with subtests.test(value=value):
            assert encode_header_value(value) == encoded
            assert decode_header_value(encoded) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("=?base64??=")
@example("=?base64?=")
def test_every_text_survives_a_header(value: str) -> None:
    """And is visible ASCII on the way, without blanks at its ends that a server would trim."""
    encoded = encode_header_value(value)
    assert encoded.strip(" \t") == encoded
    assert all(0x20 <= ord(character) < 0x7F or character == "\t" for character in encoded)
    assert decode_header_value(encoded) == value
    assert decode_header_value(f" \t{encoded} ") == value


def test_half_a_surrogate_pair_is_written_as_in_the_body() -> None:
    """The body carries U+FFFD, so the server compares equal texts."""
    assert decode_header_value(encode_header_value("a\ud800")) == "a\ufffd"


@pytest.mark.spec("basic/transports/streamable-http", "Value Encoding", revisions="2026-07-28")
def test_values_are_read_strictly(subtests: pytest.Subtests) -> None:
    """What two readers could understand in two ways is not understood at all ("Server Validation")."""
    cases: list[str] = [
        "=?base64?SGVsbG8?=",  # no padding
        "=?base64?SGVsbG8==?=",  # too much of it
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVsbG9=?=",  # bits beyond the end
        "=?base64?A?=",
        "=?base64?-_-_?=",  # the other alphabet
        "=?base64?/w==?=",  # not UTF-8
        "=?base64?wK8=?=",  # an overlong slash
        "caf\xe9",
        "a\x00b",
        "a\x7f",
        "a\nb",
    ]
    for value in cases:
        with subtests.test(value=value), pytest.raises(ValueError, match=r"\S"):
            decode_header_value(value)


@pytest.mark.parametrize("value", ["=?base64?SGVsbG8=", "SGVsbG8=?=", "=?Base64?SGVsbG8=?=", "=?base64?="])
def test_half_a_sentinel_is_a_literal(value: str) -> None:
    """The markers "MUST appear exactly as shown"."""
    assert decode_header_value(value) == value


@pytest.mark.parametrize(("value", "valid"), [("a", True), ("!~", True), ("", False), ("a b", False), ("é", False), ("a\n", False)])  # fmt: skip
def test_a_session_id_is_visible_ascii(value: str, valid: bool) -> None:
    """2025-11-25, basic/transports, "Session Management"."""
    assert is_session_id(value) is valid


# What a client sends. "Standard Request Headers", "Client Behavior".


def test_method_and_name_are_mirrored(subtests: pytest.Subtests) -> None:
    """A name that is none is the server's to refuse."""
    cases: list[tuple[str, dict[str, Any], str | None]] = [
        ("tools/list", {}, None),
        ("tools/call", {"name": "get_weather"}, "get_weather"),
        ("tools/call", {"name": "wetter für morgen"}, "=?base64?d2V0dGVyIGbDvHIgbW9yZ2Vu?="),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///a%20b?id=1"}, "file:///a%20b?id=1"),
        ("tasks/get", {"taskId": "t1"}, "t1"),
        ("completion/complete", {"name": "x", "uri": "y"}, None),
        ("tools/call", {"name": 7}, None),
        ("tools/call", {}, None),
    ]
    for method, params, name in cases:
        with subtests.test(method=method, params=params):
            sent = Headers(request_headers(method, {**params, **META}))
            assert sent.get("MCP-Protocol-Version") == VERSION
            assert sent.get("Mcp-Method") == method
            assert sent.get("Mcp-Name") == name
            check_request_headers(sent, method, {**params, **META})


def test_a_method_that_cannot_be_a_header_is_not_sent() -> None:
    """`Mcp-Method` has no encoding, and a line break in it would be a field of its own."""
    for method in ("a\r\nX-Evil: 1", "é", " a", ""):
        with pytest.raises(LocalProtocolError):
            request_headers(method, META)


MARKS: Final = (HeaderMark("Region", ("region",)), HeaderMark("Depth", ("options", "depth")))


def test_marked_arguments_are_mirrored(subtests: pytest.Subtests) -> None:
    """ "Type conversion"; what is null or not there is left out."""
    cases: list[tuple[dict[str, Any], str | None, str | None]] = [
        ({"region": "us-west1", "options": {"depth": 3}}, "us-west1", "3"),
        ({"region": "", "options": {"depth": 0}}, "", "0"),
        ({"region": True, "options": {"depth": -7}}, "true", "-7"),
        ({"region": False, "options": {"depth": 2**53 - 1}}, "false", "9007199254740991"),
        ({"region": None, "options": {}}, None, None),
        ({"options": 3}, None, None),
        ({"options": None, "region": ["a"]}, None, None),
        ({"region": "true", "options": {"depth": 1.5}}, "true", "1.5"),
        ({"region": "ü", "options": {"depth": 42.0}}, "=?base64?w7w=?=", "42.0"),
    ]
    for arguments, region, depth in cases:
        with subtests.test(arguments=arguments):
            params = {"name": "t", "arguments": arguments, **META}
            sent = Headers(request_headers("tools/call", params, MARKS))
            assert sent.get("Mcp-Param-Region") == region
            assert sent.get("mcp-param-depth") == depth
            check_request_headers(sent, "tools/call", params, MARKS)


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**30])
def test_an_integer_that_not_every_reader_keeps_is_not_mirrored(value: int) -> None:
    """ "Integer values MUST be within the safe range"."""
    with pytest.raises(LocalProtocolError, match=r"options\.depth"):
        request_headers("tools/call", {"arguments": {"options": {"depth": value}}}, MARKS)


def test_a_call_without_arguments_mirrors_none() -> None:
    """As they are optional."""
    several: list[dict[str, Any] | None] = [None, {}, {"arguments": None}, {"arguments": []}]
    for params in several:
        assert "Mcp-Param-Region" not in Headers(request_headers("tools/call", params, MARKS))


# What a server takes. "Server Validation".

CALL: Final = {"name": "t", "arguments": {"region": "Hello", "options": {"depth": 42}}, **META}
GOOD: Final = {
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "t",
    "Mcp-Param-Region": "Hello",
    "Mcp-Param-Depth": "42",
}


@pytest.mark.spec("basic/transports/streamable-http", "Case Sensitivity", revisions="2026-07-28")
def test_equal_values_pass(subtests: pytest.Subtests) -> None:
    """Names in any case, blanks trimmed, Base64 decoded, numbers compared as numbers."""
    cases: list[tuple[str, str]] = [
        ("mcp-method", "tools/call"),
        ("MCP-METHOD", "  tools/call\t"),
        ("Mcp-Name", " t "),
        ("Mcp-Name", "=?base64?dA==?="),
        ("Mcp-Param-Region", "=?base64?SGVsbG8=?="),
        ("Mcp-Param-Depth", "42.0"),
        ("Mcp-Param-Depth", "4.2e1"),
        ("Mcp-Param-Depth", "=?base64?NDI=?="),
        ("Mcp-Param-Unknown", "whatever"),
    ]
    for field, value in cases:
        with subtests.test(field=field, value=value):
            fields = {name: text for name, text in GOOD.items() if name.lower() != field.lower()}
            check_request_headers(headers(*fields.items(), (field, value)), "tools/call", CALL, MARKS)


@pytest.mark.parametrize("missing", GOOD)
def test_a_missing_field_is_a_mismatch(missing: str) -> None:
    """Also if the value in the body is what a load balancer would never have let through."""
    fields = [(name, value) for name, value in GOOD.items() if name != missing]
    with pytest.raises(RequestError, match=missing) as caught:
        check_request_headers(headers(*fields), "tools/call", CALL, MARKS)
    assert caught.value.code == HEADER_MISMATCH


@pytest.mark.spec(
    "basic/transports/streamable-http", "Server Behavior for Custom Headers", revisions="2026-07-28"
)
@pytest.mark.spec("basic/transports/streamable-http", "Server Validation", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/streamable-http", "Case Sensitivity", revisions="2026-07-28")
def test_another_value_is_a_mismatch(subtests: pytest.Subtests) -> None:
    """400 and -32020."""
    cases: list[tuple[str, str]] = [
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Method", "tools/Call"),
        ("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?="),  # only names and arguments may be encoded
        ("Mcp-Name", "T"),
        ("Mcp-Name", ""),
        ("Mcp-Param-Region", "hello"),
        ("Mcp-Param-Region", "=?base64?SGVsbG8?="),
        ("Mcp-Param-Region", "=?base64?SGVs!!!bG8=?="),
        ("Mcp-Param-Region", "H\xe9llo"),
        ("Mcp-Param-Depth", "43"),
        ("Mcp-Param-Depth", "42.00001"),
        ("Mcp-Param-Depth", "0x2a"),
        ("Mcp-Param-Depth", "1e99999"),
        ("Mcp-Param-Depth", "NaN"),
        ("Mcp-Param-Depth", "Infinity"),
        ("Mcp-Param-Depth", "4_2"),
    ]
    for field, value in cases:
        with subtests.test(field=field, value=value):
            with pytest.raises(RequestError, match=field) as caught:
                check_request_headers(headers(*{**GOOD, field: value}.items()), "tools/call", CALL, MARKS)
            assert caught.value.code == HEADER_MISMATCH


@pytest.mark.parametrize("field", GOOD)
def test_a_field_that_is_there_twice_is_a_mismatch(field: str) -> None:
    """Two readers could each take another one, even if both are equal now."""
    with pytest.raises(RequestError, match=field) as caught:
        check_request_headers(headers(*GOOD.items(), (field, GOOD[field])), "tools/call", CALL, MARKS)
    assert caught.value.code == HEADER_MISMATCH


@pytest.mark.spec(
    "basic/transports/streamable-http", "Server Behavior for Custom Headers", revisions="2026-07-28"
)
@pytest.mark.parametrize("arguments", [{}, {"region": None}])
def test_a_header_without_a_value_in_the_body_is_a_mismatch(arguments: dict[str, Any]) -> None:
    """What routes by it would have been told something nobody said."""
    sent = headers(*GOOD.items())
    with pytest.raises(RequestError, match="Mcp-Param-Region"):
        check_request_headers(sent, "tools/call", {"name": "t", "arguments": arguments, **META}, MARKS[:1])


def test_integers_are_compared_exactly() -> None:
    """As floats both would be the same."""
    params = {"name": "t", "arguments": {"options": {"depth": 2**53 + 1}}, **META}
    fields = {**GOOD, "Mcp-Param-Depth": str(2**53)}
    with pytest.raises(RequestError):
        check_request_headers(headers(*fields.items()), "tools/call", params, MARKS[1:])


def test_others_send_and_accept_what_we_check() -> None:
    """Each modern request of the recordings passes: its sender mirrors what we would."""
    marks: dict[str, Sequence[HeaderMark]] = {}
    passed = 0
    for line in RECORDINGS.read_text(encoding="utf-8").splitlines():
        exchange = json.loads(line)
        fields = headers(*exchange["request"]["headers"])
        if fields.get("MCP-Protocol-Version") != VERSION or exchange["request"]["method"] != "POST":
            continue
        body = json.loads(exchange["request"]["body"])
        if "method" not in body or "id" not in body:
            continue
        text = exchange["response"]["body"]
        answer: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
        for tool in answer.get("result", {}).get("tools", ()):
            marks[tool["name"]] = header_marks(tool["inputSchema"])
        params = body.get("params")
        used = marks.get(params.get("name"), ()) if body["method"] == "tools/call" else ()
        assert answer.get("error", {}).get("code") != HEADER_MISMATCH
        check_request_headers(fields, body["method"], params, used)
        passed += 1
    assert passed > 30


# The marks. "Schema Extension".


@pytest.mark.spec("basic/transports/streamable-http", "Schema Extension", revisions="2026-07-28")
def test_marks_are_found_along_properties() -> None:
    """At any depth, in the order of the document."""
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "options": {
                "type": "object",
                "properties": {
                    "depth": {"type": "integer", "x-mcp-header": "Depth"},
                    "other": {"type": "number"},
                },
            },
            "flag": {"type": "boolean", "x-mcp-header": "Flag!"},
        },
    }
    assert header_marks(schema) == (
        HeaderMark("Region", ("region",)),
        HeaderMark("Depth", ("options", "depth")),
        HeaderMark("Flag!", ("flag",)),
    )


MARKED: Final = {"type": "string", "x-mcp-header": "X"}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"x-mcp-header": {"type": "array"}}},  # a property may be called so
        {"properties": {"a": {"default": MARKED, "const": MARKED, "enum": [MARKED], "examples": [MARKED]}}},
        {"properties": [MARKED]},
        {"properties": True, "items": False, "$defs": []},
    ],
)
def test_what_is_not_a_mark_is_not_taken_for_one(schema: dict[str, Any]) -> None:
    """Data in a schema may look like anything."""
    assert header_marks(schema) == ()


@pytest.mark.spec("basic/transports/streamable-http", "Schema Extension", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/streamable-http", "Client Behavior", revisions="2026-07-28")
def test_a_mark_that_breaks_a_rule_makes_the_tool_invalid(subtests: pytest.Subtests) -> None:
    """Clients "MUST reject tool definitions where any `x-mcp-header` value violates these constraints"."""
    cases: list[dict[str, Any]] = [
        MARKED,  # the root is no parameter
        *({"properties": {"a": {keyword: MARKED}}} for keyword in (
            "items", "not", "if", "then", "else", "contains", "additionalProperties", "propertyNames",
            "unevaluatedItems", "unevaluatedProperties", "additionalItems", "contentSchema")),
        *({keyword: [MARKED]} for keyword in ("allOf", "anyOf", "oneOf", "prefixItems", "items")),
        *({keyword: {"n": MARKED}} for keyword in (
            "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")),
        {"properties": {"a": {"items": {"properties": {"b": MARKED}}}}},
        *({"properties": {"a": {"type": kind, "x-mcp-header": "X"}}} for kind in (
            "number", "object", "array", "null", None, ["string", "integer"], [], ["null"], 7, ["boolean", "null"])),
        {"properties": {"a": {"$ref": "#/$defs/a", "x-mcp-header": "X"}}},
        *({"properties": {"a": {"type": "string", "x-mcp-header": name}}} for name in (
            "", " ", "My Region", "Region:Primary", "Région", "a\nb", "a\r", "a\t1", "a\0", None, 7, True, ["X"])),
        {"properties": {"a": MARKED, "b": {"type": "string", "x-mcp-header": "x"}}},
        {"properties": {"a": MARKED, "c": {"properties": {"b": MARKED}}}},
    ]  # fmt: skip
    for schema in cases:
        with subtests.test(schema=schema), pytest.raises(InvalidMarks, match="x-mcp-header"):
            header_marks(schema)


def test_a_deep_schema_is_read_without_recursion() -> None:
    """Its depth is the server's choice."""
    schema: dict[str, Any] = MARKED
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    (mark,) = header_marks(schema)
    assert len(mark.path) == 5000


def test_header_fields_are_found_in_any_case_and_joined() -> None:
    """RFC 9110, sections 5.1 and 5.3. Values stay out of the representation: they may be credentials."""
    fields = headers(("A", " 1 "), ("b", "2"), ("a", "3"))
    assert fields.get("a") == "1, 3"
    assert fields.get_all("A") == ["1", "3"]
    assert fields.get("c") is None
    assert "B" in fields
    assert 7 not in fields
    assert list(fields) == [(b"A", b" 1 "), (b"b", b"2"), (b"a", b"3")]
    assert repr(headers(("Authorization", "Bearer secret"))) == "<Headers authorization>"


@given(st.binary(max_size=30))
def test_base64_of_anything_is_text_or_refused(data: bytes) -> None:
    """Never an exception of another kind."""
    value = f"=?base64?{base64.b64encode(data).decode()}?="
    try:
        assert decode_header_value(value).encode() == data
    except ValueError:
        with pytest.raises(UnicodeDecodeError):
            data.decode()
