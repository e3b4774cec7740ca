"""The server that the official conformance suite runs against: ``python server.py --port N``.

What each tool does is the suite's to say; its sources and `docs/` of the suite describe it.
"""

from __future__ import annotations

import argparse
import base64
import logging
import struct
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # this is a program: no test run has done it

from inside_wire import from_wire

from trio_mcp import Context, Field, InputRequired, RequestError, Server, ToolError, types

server = Server("conformance", version="1.0.0", page_size=None)
server.add_skills(Path(__file__).with_name("skills"))


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(4)))
        + chunk(b"IEND", b"")
    )


PNG: Final = base64.b64encode(_png()).decode()
WAV: Final = base64.b64encode(
    b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0"
).decode()


def form(message: str, properties: Mapping[str, Any], *required: str) -> types.ElicitRequestFormParams:
    """Return a question for a form."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return from_wire(
        {"mode": "form", "message": message, "requestedSchema": schema}, types.ElicitRequestFormParams
    )


def sampling(text: str) -> types.CreateMessageRequestParams:
    """Return a question for the model."""
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return from_wire({"messages": [message], "maxTokens": 100}, types.CreateMessageRequestParams)


NAME: Final = form("What is your name?", {"name": {"type": "string"}}, "name")


def accepted(ctx: Context, key: str) -> dict[str, Any] | None:
    """Return what the user has filled in, if that has come."""
    answer = ctx.input_responses.get(key)
    return dict(answer.content or {}) if isinstance(answer, types.ElicitResult) and answer.content else None


# Tools of every revision.


@server.tool
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool
async def test_image_content() -> types.ImageContent:
    """Return a picture."""
    return types.ImageContent(data=PNG, mime_type="image/png")


@server.tool
async def test_audio_content() -> types.AudioContent:
    """Return sound."""
    return types.AudioContent(data=WAV, mime_type="audio/wav")


@server.tool
async def test_embedded_resource() -> types.EmbeddedResource:
    """Return a resource."""
    uri, text = "test://embedded-resource", "This is an embedded resource content."
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type="text/plain", text=text))


@server.tool
async def test_multiple_content_types() -> list[types.ContentBlock]:
    """Return content of several kinds."""
    uri, text = "test://mixed-content-resource", '{"test":"data","value":123}'
    resource = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    return [
        types.TextContent(text="Multiple content types test:"),
        types.ImageContent(data=PNG, mime_type="image/png"),
        types.EmbeddedResource(resource=resource),
    ]


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three times."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(text)
        await trio.sleep(0.05)
    return "logged"


@server.tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await trio.sleep(0.05)
    return "done"


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    result = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {result.text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user."""
    text = {"type": "string"}
    question = form(message, {"username": text, "email": text}, "username", "email")
    answer = await ctx.elicit(question.message, question.requested_schema)
    return f"User response: {answer.action}"


async def elicit_raw(ctx: Context, question: types.ElicitRequestFormParams) -> str:
    """Ask the user, and take any answer."""
    try:
        answer = await ctx.elicit(question.message, question.requested_schema)
    except Exception as error:
        raise ToolError(f"the answer does not fit: {error}") from error
    return f"Elicitation completed: {answer.action}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicit_raw(ctx, form("Please check", properties))


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask for choices."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Value {n}"} for n in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option 1", "Option 2"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicit_raw(ctx, form("Please choose", properties))


SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=SCHEMA_2020_12)
async def json_schema_2020_12_tool(arguments: Mapping[str, Any]) -> str:
    """Take arguments by a schema of 2020-12."""
    return str(dict(arguments))


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Let the connection go, and answer later."""
    await ctx.release_connection(retry_after=0.5)
    await trio.sleep(0.2)
    return "Reconnection test completed"


@server.tool
async def test_x_mcp_header(region: Annotated[str, Field(header="Region")] = "") -> str:  # noqa: PT028 - no test
    """Take an argument that a header field mirrors."""
    return f"region: {region}"


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Need sampling."""
    if ctx.client_capabilities.sampling is None:
        raise RequestError(-32021, "sampling is required", {"requiredCapabilities": {"sampling": {}}})
    return "sampling is there"


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str | InputRequired:
    """Ask the user, in a result."""
    if (answer := accepted(ctx, "user_name")) is None:
        return InputRequired({"user_name": NAME})
    return f"Hello, {answer.get('name')}!"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Log once."""
    await ctx.info("a log message")
    return "logged"


@server.tool
async def test_trigger_tool_change() -> str:
    """Tell of another list of tools."""
    server.list_changed("tools")
    return "told"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Tell of another list of prompts."""
    server.list_changed("prompts")
    return "told"


# Rounds of input, by hand, because the suite has names for the questions.


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequired:
    """Ask for a name."""
    answer = accepted(ctx, "user_name")
    return InputRequired({"user_name": NAME}) if answer is None else f"Hello, {answer.get('name')}!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequired:
    """Ask the model."""
    if not isinstance(ctx.input_responses.get("capital_question"), types.CreateMessageResult):
        return InputRequired({"capital_question": sampling("What is the capital of France?")})
    return "The model has answered."


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequired:
    """Ask for roots."""
    if not isinstance(ctx.input_responses.get("client_roots"), types.ListRootsResult):
        return InputRequired({"client_roots": types.ListRootsRequestParams()})
    return "The client has roots."


CONFIRM: Final = form("Is it ok?", {"ok": {"type": "boolean"}}, "ok")


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequired:
    """Ask, with a state."""
    if accepted(ctx, "confirm") is None or ctx.request_state != {"step": 1}:
        return InputRequired({"confirm": CONFIRM}, {"step": 1})
    return "state-ok"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequired:
    """Ask, with a state that nobody may change."""
    if accepted(ctx, "confirm") is None or ctx.request_state != {"step": 1}:
        return InputRequired({"confirm": CONFIRM}, {"step": 1})
    return "state-ok"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequired:
    """Ask three things at once."""
    questions: dict[str, Any] = {
        "user_name": NAME,
        "greeting": sampling("Greet the user."),
        "client_roots": types.ListRootsRequestParams(),
    }
    if questions.keys() - ctx.input_responses.keys():
        return InputRequired(questions, {"asked": 3})
    return "All inputs received."


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequired:
    """Ask twice."""
    if accepted(ctx, "step2") is not None:
        return "Both steps are done."
    if accepted(ctx, "step1") is not None:
        return InputRequired({"step2": form("Step 2", {"color": {"type": "string"}}, "color")}, {"round": 2})
    return InputRequired({"step1": form("Step 1", {"name": {"type": "string"}}, "name")}, {"round": 1})


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequired:
    """Ask only what the client can answer."""
    able = ctx.client_capabilities
    questions: dict[str, Any] = {}
    if able.elicitation is not None:
        questions["user_name"] = NAME
    if able.sampling is not None:
        questions["greeting"] = sampling("Greet the user.")
    if not questions or questions.keys() <= ctx.input_responses.keys():
        return "Nothing is missing."
    return InputRequired(questions)


# Tasks: the extension io.modelcontextprotocol/tasks.


@server.tool
async def greet(name: str) -> str:
    """Greet somebody, at once."""
    return f"Hello, {name}!"


@server.tool(task="optional", poll=0.2)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some time."""
    await trio.sleep(seconds)
    return f"computed {label} in {seconds:g} s"


@server.tool(task="required", poll=0.2)
async def failing_job() -> str:
    """Fail after a second."""
    await trio.sleep(1)
    raise ToolError("This job intentionally fails for testing")


@server.tool(task="optional", poll=0.2)
async def protocol_error_job() -> str:
    """Fail as the protocol does."""
    await trio.sleep(0.1)
    raise RequestError(-32603, "This job intentionally fails for testing")


DELETE: Final = form("Delete the file?", {"confirm": {"type": "boolean"}}, "confirm")


@server.tool(task="optional", poll=0.2)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask before it deletes."""
    answer = await ctx.elicit(DELETE.message, DELETE.requested_schema)
    return f"{filename}: {answer.action}"


@server.tool(task="optional", poll=0.2)
async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    properties = {"name": {"type": "string"}, "confirm": {"type": "boolean"}}
    names: list[str] = []

    async def ask(message: str) -> None:
        question = form(message, properties)
        answer = await ctx.elicit(question.message, question.requested_schema)
        names.append(str((answer.value or {}).get("name")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "Who is first?")
        nursery.start_soon(ask, "Who is second?")
    return ", ".join(sorted(names))


@server.tool(task="required", ask_first=True, poll=0.2)
async def test_tool_with_task(ctx: Context) -> str | InputRequired:
    """Ask within the request, and work in a task."""
    if (answer := accepted(ctx, "user_name")) is None:
        return InputRequired({"user_name": NAME})
    await ctx.begin_task()
    await trio.sleep(0.1)
    return f"Hello, {answer.get('name')}!"


# Resources, prompts, completion.


@server.resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture."""
    return _png()


@server.resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text that one can subscribe to."""
    return "Watched resource content."


@server.resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> str:
    """The data of an id."""
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


@server.prompt
async def test_simple_prompt() -> str:
    """A prompt."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
async def complete_arg1(value: str) -> list[str]:
    return [word for word in ("paris", "park", "test", "testing") if word.startswith(value)]


@server.prompt
async def test_prompt_with_embedded_resource(resource_uri: Annotated[str, Field(name="resourceUri")]) -> Any:
    """A prompt with a resource."""
    resource = types.TextResourceContents(uri=resource_uri, mime_type="text/plain", text="Embedded for testing.")
    return types.PromptMessage(role="user", content=types.EmbeddedResource(resource=resource))


@server.prompt
async def test_prompt_with_image() -> Any:
    """A prompt with a picture."""
    return types.PromptMessage(role="user", content=types.ImageContent(data=PNG, mime_type="image/png"))


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str | InputRequired:
    """A prompt that asks."""
    if (answer := accepted(ctx, "user_context")) is None:
        question = form("What is the context?", {"context": {"type": "string"}}, "context")
        return InputRequired({"user_context": question})
    return f"Use this context: {answer.get('context')}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=3001, help="0 for one that is free; the log says which")
    parser.add_argument("--http", choices=("hypercorn", "lean"), default="hypercorn", help="what speaks HTTP")
    logging.basicConfig(level=logging.INFO)
    arguments = parser.parse_args()
    server.run("streamable-http", host="localhost", port=arguments.port, http=arguments.http)
