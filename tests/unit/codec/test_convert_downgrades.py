"""What becomes of objects that a revision cannot have as they are."""

from __future__ import annotations

from typing import Any

import pytest
from inside_base import LATEST
from inside_wire import to_wire

from trio_mcp import LocalProtocolError, Revision, types

V2024_11_05, V2025_03_26 = Revision.V2024_11_05, Revision.V2025_03_26
V2025_06_18, V2025_11_25 = Revision.V2025_06_18, Revision.V2025_11_25

ANNOTATIONS = types.Annotations(audience=["user"])
AUDIO = types.AudioContent(data="QUJDRA==", mime_type="audio/wav", annotations=ANNOTATIONS)
LINK = types.ResourceLink(name="r.csv", title="Report", uri="file:///r.csv", mime_type="text/csv", size=12)
UNKNOWN = types.UnknownContent(
    type="video", members={"name": "clip", "uri": "file:///c", "mimeType": "video/mp4", "size": 3}
)
TOOL_USE = types.ToolUseContent(id="call_1", name="add", input={"a": "ä"})
TOOL_RESULT = types.ToolResultContent(tool_use_id="call_1", content=[types.TextContent(text="3"), LINK])
HELLO = types.TextContent(text="Hello")


def content(block: types.ContentBlock, revision: Revision) -> Any:
    (written,) = to_wire(types.CallToolResult(content=[block]), revision)["content"]
    return written


@pytest.mark.parametrize(
    ("block", "revision", "text"),
    [
        (AUDIO, V2024_11_05, "[audio: audio/wav, 4 bytes]"),
        (LINK, V2024_11_05, '[resource link "Report": file:///r.csv, text/csv, 12 bytes]'),
        (LINK, V2025_03_26, '[resource link "Report": file:///r.csv, text/csv, 12 bytes]'),
        (types.ResourceLink(name="r", uri="a:b"), V2025_03_26, '[resource link "r": a:b]'),
        (UNKNOWN, V2024_11_05, '[video "clip": file:///c, video/mp4, 3 bytes]'),
        (UNKNOWN, LATEST, '[video "clip": file:///c, video/mp4, 3 bytes]'),
        (types.UnknownContent(type="widget", members={"name": {"odd": 1}}), LATEST, "[widget]"),
    ],
)
def test_a_block_the_revision_lacks_becomes_words(
    block: types.ContentBlock, revision: Revision, text: str
) -> None:
    """The model still learns what was there."""
    written = content(block, revision)
    assert (written["type"], written["text"]) == ("text", text)


def test_a_block_is_sent_as_it_is_from_its_first_revision_on() -> None:
    """2025-03-26 brought audio, 2025-06-18 links."""
    assert content(AUDIO, V2025_03_26)["type"] == "audio"
    assert content(LINK, V2025_06_18)["type"] == "resource_link"


def test_words_keep_the_annotations_of_what_they_stand_for() -> None:
    """What was meant for the user alone still is."""
    assert content(AUDIO, V2024_11_05)["annotations"] == {"audience": ["user"]}


def test_blocks_in_prompts_become_words_too() -> None:
    """Wherever a block may stand."""
    message = types.PromptMessage(role="user", content=LINK)
    written = to_wire(types.GetPromptResult(messages=[message]), V2025_03_26)
    assert written["messages"][0]["content"]["type"] == "text"


# Sampling.


def sampled(*messages: types.SamplingMessage, revision: Revision) -> list[Any]:
    written: list[Any] = to_wire(types.CreateMessageRequestParams(messages=messages, max_tokens=1), revision)[
        "messages"
    ]
    return written


def test_tool_use_in_a_conversation_becomes_words_before_2025_11_25() -> None:
    """The older model sees the same conversation."""
    use = types.SamplingMessage(role="assistant", content=TOOL_USE)
    result = types.SamplingMessage(role="user", content=TOOL_RESULT)
    failure = types.SamplingMessage(
        role="user", content=types.evolve(TOOL_RESULT, is_error=True, content=[HELLO])
    )
    written = sampled(use, result, failure, revision=V2025_06_18)
    assert [message["content"]["text"] for message in written] == [
        '[tool use "add": {"a": "ä"}]',
        '[tool result]\n3\n[resource link "Report": file:///r.csv, text/csv, 12 bytes]',
        "[tool error]\nHello",
    ]
    assert [m["content"]["type"] for m in sampled(use, result, revision=V2025_11_25)] == [
        "tool_use",
        "tool_result",
    ]


def test_a_message_of_several_blocks_becomes_several_messages_before_2025_11_25() -> None:
    """A message there is one block; the order and the roles stay."""
    several = types.SamplingMessage(role="user", content=[HELLO, AUDIO])
    one = types.SamplingMessage(role="assistant", content=HELLO)
    nothing = types.SamplingMessage(role="user", content=[])
    written = sampled(several, one, nothing, revision=V2024_11_05)
    assert [(message["role"], message["content"]["text"]) for message in written] == [
        ("user", "Hello"),
        ("user", "[audio: audio/wav, 4 bytes]"),
        ("assistant", "Hello"),
    ]
    assert len(sampled(several, one, nothing, revision=V2025_11_25)) == 3


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([AUDIO], {"type": "audio", "data": "QUJDRA==", "mimeType": "audio/wav", "annotations": {"audience": ["user"]}}),
        ([], {"type": "text", "text": ""}),
        (
            [HELLO, types.ImageContent(data="", mime_type="image/png"), TOOL_USE],
            {"type": "text", "text": 'Hello\n[image: image/png, 0 bytes]\n[tool use "add": {"a": "ä"}]'},
        ),
    ],
)  # fmt: skip
def test_an_answer_of_several_blocks_becomes_one_before_2025_11_25(blocks: Any, expected: Any) -> None:
    """An answer there is one block, and there can be only one answer."""
    result = types.CreateMessageResult(role="assistant", model="m", content=blocks)
    assert to_wire(result, V2025_06_18)["content"] == expected
    assert isinstance(to_wire(result, V2025_11_25)["content"], list)
    message = types.SamplingMessage(role="assistant", content=blocks)
    assert to_wire(message, V2025_06_18)["content"] == expected


def test_embedded_resources_in_a_tool_result_are_told_in_words() -> None:
    """Text as it is, bytes by what they are."""
    text = types.EmbeddedResource(resource=types.TextResourceContents(uri="a:b", text="Dear"))
    blob = types.EmbeddedResource(resource=types.BlobResourceContents(uri="a:c", blob="AAAA"))
    result = types.SamplingMessage(role="user", content=types.evolve(TOOL_RESULT, content=[text, blob]))
    (message,) = sampled(result, revision=V2025_06_18)
    assert message["content"]["text"] == "[tool result]\nDear\n[resource: a:c, 3 bytes]"


# Tools.


@pytest.mark.parametrize("structured", [[1], "text", 5, True, None])
def test_structured_content_that_is_no_object_is_left_out_before_2026_07_28(structured: object) -> None:
    """Older revisions know objects only; what is meant for the model stays."""
    result = types.CallToolResult(content=[HELLO], structured_content=structured)
    assert to_wire(result, V2025_11_25) == {"content": [{"type": "text", "text": "Hello"}]}
    assert to_wire(result, LATEST)["structuredContent"] == structured
    block = types.SamplingMessage(role="user", content=types.evolve(TOOL_RESULT, structured_content=structured))
    (message,) = sampled(block, revision=V2025_11_25)
    assert "structuredContent" not in message["content"]


def test_structured_content_that_is_an_object_is_sent_from_2025_06_18_on() -> None:
    """2025-06-18, server/tools, "Structured Content"."""
    result = types.CallToolResult(content=[], structured_content={"a": 1})
    sent = {revision: "structuredContent" in to_wire(result, revision) for revision in Revision}
    assert [revision for revision, there in sent.items() if there] == [V2025_06_18, V2025_11_25, LATEST]


@pytest.mark.parametrize("schema", [{"type": "array"}, {"oneOf": []}, {}])
def test_an_output_schema_that_is_not_of_an_object_is_left_out_before_2026_07_28(schema: Any) -> None:
    """The content it would describe is left out as well."""
    tool = types.Tool(name="t", input_schema={"type": "object"}, output_schema=schema)
    assert "outputSchema" not in to_wire(tool, V2025_11_25)
    assert to_wire(tool, LATEST)["outputSchema"] == schema


def test_properties_that_are_booleans_are_spelled_out_before_2026_07_28() -> None:
    """Older revisions want an object for each property; ``{}`` and ``{"not": {}}`` mean the same."""
    schema = {
        "type": "object",
        "properties": {"any": True, "none": False, "x": {"items": True}},
        "required": ["any"],
    }
    tool = types.Tool(name="t", input_schema=schema, output_schema=schema)
    spelled_out: Any = {**schema, "properties": {"any": {}, "none": {"not": {}}, "x": {"items": True}}}
    written = to_wire(tool, V2025_11_25)
    assert (written["inputSchema"], written["outputSchema"]) == (spelled_out, spelled_out)
    assert to_wire(tool, LATEST)["inputSchema"] is schema


# Elicitation.


def form(**fields: types.PrimitiveSchemaDefinition) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message="?", requested_schema=types.RequestedSchema(properties=fields))


OPTIONS = [types.EnumOption(const="r", title="Red"), types.EnumOption(const="g", title="Green")]


def test_a_titled_choice_takes_its_old_form_in_2025_06_18() -> None:
    """`enumNames` is how that revision does it; it has no defaults of strings."""
    field = types.TitledSingleSelectEnumSchema(title="Colour", one_of=OPTIONS, default="r")
    written = to_wire(form(colour=field), V2025_06_18)["requestedSchema"]["properties"]["colour"]
    assert written == {"type": "string", "title": "Colour", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
    assert "oneOf" in to_wire(form(colour=field), V2025_11_25)["requestedSchema"]["properties"]["colour"]


def test_a_choice_without_titles_is_the_same_in_2025_06_18_but_for_the_default() -> None:
    """An enum without `enumNames`."""
    field = types.UntitledSingleSelectEnumSchema(enum=["r", "g"], default="r")
    written = to_wire(form(colour=field), V2025_06_18)["requestedSchema"]["properties"]["colour"]
    assert written == {"type": "string", "enum": ["r", "g"]}
    assert to_wire(field, V2025_11_25)["default"] == "r"


@pytest.mark.parametrize(
    "field",
    [
        types.UntitledMultiSelectEnumSchema(items=types.EnumItems(enum=["r"])),
        types.TitledMultiSelectEnumSchema(items=types.TitledEnumItems(any_of=OPTIONS)),
    ],
)
def test_a_choice_of_several_values_is_refused_by_2025_06_18(field: types.PrimitiveSchemaDefinition) -> None:
    """Nothing there means the same, and half a question is worse than none."""
    with pytest.raises(LocalProtocolError, match="MultiSelectEnumSchema does not exist in 2025-06-18"):
        to_wire(form(colours=field), V2025_06_18)


def test_an_answer_of_several_values_is_refused_by_2025_06_18() -> None:
    """That revision cannot have asked for it."""
    result = types.ElicitResult(action="accept", content={"name": "x", "colours": ["r", "g"]})
    with pytest.raises(LocalProtocolError, match=r"content\.colours: 2025-06-18 has no choice of several values"):
        to_wire(result, V2025_06_18)
    assert to_wire(result, V2025_11_25)["content"] == {"name": "x", "colours": ["r", "g"]}


def test_a_form_has_no_mode_before_2025_11_25() -> None:
    """It is the only kind of question there."""
    assert "mode" not in to_wire(form(), V2025_06_18)
    assert to_wire(form(), V2025_11_25)["mode"] == "form"


@pytest.mark.parametrize(
    ("capability", "declared"),
    [
        (types.ElicitationCapability(), {}),
        (types.ElicitationCapability(form={}), {}),
        (types.ElicitationCapability(form={}, url={}), {}),
        (types.ElicitationCapability(url={}), None),
    ],
)
def test_a_client_without_forms_declares_no_elicitation_before_2025_11_25(
    capability: types.ElicitationCapability, declared: object
) -> None:
    """There an empty capability says that the client shows forms, and there is nothing else it could say."""
    written = to_wire(types.ClientCapabilities(elicitation=capability), V2025_06_18)
    assert written.get("elicitation") == declared
    assert "elicitation" in to_wire(types.ClientCapabilities(elicitation=capability), V2025_11_25)
