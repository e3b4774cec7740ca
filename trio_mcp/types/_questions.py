"""What servers ask of clients (elicitation, sampling, roots), and the requests that may be answered like that.

In the legacy era a server asks by requests of its own, from 2026-07-28 on by an `InputRequiredResult`. The `data`
of the protocol's own errors is here as well; their codes and the error itself are in `trio_mcp._errors`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, final
from urllib.parse import urlsplit

from .._revisions import Revision
from ._features import (
    BlobResourceContents,
    PromptMessage,
    SamplingMessageContentBlock,
    TextContent,
    TextResourceContents,
    Tool,
    ToolUseContent,
)
from ._fields import member, wire
from ._protocol import (
    CacheableResult,
    ClientCapabilities,
    JSONObject,
    MetaObject,
    NotificationParams,
    RequestParams,
    Result,
    Role,
)
from ._tasks import TaskMetadata

# Elicitation. Spec: client/elicitation. The schema of a form is a small part of JSON Schema: an object whose
# properties are instances of the classes here.


_FIRST: Final = Revision.V2025_06_18


@final
@wire(since=_FIRST)
class StringSchema:
    """A line of text.

    Attributes:
        title: Its label.
        description: Its description.
        min_length: The fewest characters.
        max_length: The most characters.
        format: The format of the text.
        default: Its initial value.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    min_length: int | None = None
    max_length: int | None = None
    format: Literal["email", "uri", "date", "date-time"] | None = None
    default: str | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=_FIRST)
class NumberSchema:
    """A number, or a whole one.

    Attributes:
        type: Which of the two.
        title: Its label.
        description: Its description.
        minimum: The smallest number.
        maximum: The largest number.
        default: Its initial value.
    """

    type: Literal["number", "integer"]
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    minimum: int | float | None = None
    maximum: int | float | None = None
    default: int | float | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=_FIRST)
class BooleanSchema:
    """Yes or no.

    Attributes:
        title: Its label.
        description: Its description.
        default: Its initial value.
    """

    type: Literal["boolean"] = "boolean"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    default: bool | None = None


@final
@wire(since=_FIRST)
class UntitledSingleSelectEnumSchema:
    """One of several values that are shown as they are.

    Attributes:
        title: Its label.
        description: Its description.
        enum: The values.
        default: Its initial value.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    enum: Sequence[str]
    default: str | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=_FIRST)
class LegacyTitledEnumSchema:
    """One of several values, shown by names in a list beside them: how 2025-06-18 does it.

    Attributes:
        title: Its label.
        description: Its description.
        enum: The values.
        enum_names: Their names, in the same order.
        default: Its initial value.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    enum: Sequence[str]
    enum_names: Sequence[str] | None = None
    default: str | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_11_25)
class EnumOption:
    """A value and its name.

    Attributes:
        const: The value.
        title: Its name.
    """

    const: str
    title: str


@final
@wire(since=Revision.V2025_11_25)
class TitledSingleSelectEnumSchema:
    """One of several values, shown by their names. 2025-06-18 is sent the legacy form.

    Attributes:
        title: Its label.
        description: Its description.
        one_of: The values.
        default: Its initial value.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    one_of: Sequence[EnumOption]
    default: str | None = None


@final
@wire(since=Revision.V2025_11_25)
class EnumItems:
    """The values to choose from, shown as they are."""

    type: Literal["string"] = "string"
    enum: Sequence[str]


@final
@wire(since=Revision.V2025_11_25)
class TitledEnumItems:
    """The values to choose from, shown by their names."""

    any_of: Sequence[EnumOption]


@final
@wire(since=Revision.V2025_11_25)
class UntitledMultiSelectEnumSchema:
    """Any of several values that are shown as they are.

    Attributes:
        title: Its label.
        description: Its description.
        min_items: The fewest values to choose.
        max_items: The most values to choose.
        items: The values.
        default: Its initial value.
    """

    type: Literal["array"] = "array"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    min_items: int | None = None
    max_items: int | None = None
    items: EnumItems
    default: Sequence[str] | None = None


@final
@wire(since=Revision.V2025_11_25)
class TitledMultiSelectEnumSchema:
    """Any of several values, shown by their names.

    Attributes:
        title: Its label.
        description: Its description.
        min_items: The fewest values to choose.
        max_items: The most values to choose.
        items: The values.
        default: Its initial value.
    """

    type: Literal["array"] = "array"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    min_items: int | None = None
    max_items: int | None = None
    items: TitledEnumItems
    default: Sequence[str] | None = None


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
"""One of several values."""

MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
"""Any of several values."""

EnumSchema: TypeAlias = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema
"""A choice among several values."""

PrimitiveSchemaDefinition: TypeAlias = StringSchema | NumberSchema | BooleanSchema | EnumSchema
"""What one field of a form takes."""


@final
@wire(since=_FIRST)
class RequestedSchema:
    """The fields of a form.

    Attributes:
        schema: The dialect of JSON Schema it is written in, as a URI.
        properties: The fields, by name, in the order they are shown.
        required: The names of those that must be filled in.
    """

    schema: str | None = member(default=None, name="$schema", since=Revision.V2025_11_25)
    type: Literal["object"] = "object"
    properties: Mapping[str, PrimitiveSchemaDefinition]
    required: Sequence[str] | None = None


@final
@wire(since=_FIRST)
class ElicitRequestFormParams:
    """Ask the user to fill in a form. It must not ask for secrets.

    Attributes:
        message: What is requested, and why.
        requested_schema: The fields of the form.
        task: Requests that the request become a task.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    mode: Literal["form"] = member(default="form", since=Revision.V2025_11_25)
    message: str
    requested_schema: RequestedSchema
    task: TaskMetadata | None = member(default=None, since=Revision.V2025_11_25, until=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_11_25)
class ElicitRequestURLParams:
    """Ask the user to open a URL, where the server gets the input without the client seeing it.

    Attributes:
        message: What is requested, and why.
        url: The URL.
        elicitation_id: Identifies this elicitation in the notification that it is complete. Only 2025-11-25 has
            it, and requires it.
        task: Requests that the request become a task.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    mode: Literal["url"] = "url"
    message: str
    url: str
    elicitation_id: str | None = member(
        default=None, until=Revision.V2025_11_25, required_in=(Revision.V2025_11_25,)
    )
    task: TaskMetadata | None = member(default=None, until=Revision.V2025_11_25)


ElicitRequestParams: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams
"""An elicitation, by a form or a URL."""

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]
"""The user accepted, declined, or dismissed the request without a choice."""

ElicitValue: TypeAlias = str | int | float | bool | Sequence[str]
"""The value of a field. From 2025-11-25 on it may be several values."""


@final
@wire(since=_FIRST)
class ElicitResult:
    """The user's answer.

    Attributes:
        action: What the user did.
        content: The values of the fields by name, if the user accepted a form.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    action: ElicitAction
    content: Mapping[str, ElicitValue] | None = None


@final
@wire(since=Revision.V2025_11_25, until=Revision.V2025_11_25)
class ElicitationCompleteNotificationParams(NotificationParams):
    """An elicitation by URL is complete."""

    elicitation_id: str


# Sampling. Spec: client/sampling. Deprecated since 2026-07-28 (SEP-2577).


IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
"""The servers whose context the model gets besides the messages. All but ``"none"`` is deprecated (SEP-2596)."""


@final
@wire
class ModelHint:
    """A suggestion of a model.

    Attributes:
        name: A part of the name of the model, or of a similar one.
    """

    name: str | None = member(default=None, hint=True)


@final
@wire
class ModelPreferences:
    """The model that a server prefers. The client decides.

    Attributes:
        hints: Suggested models, best first. They have precedence over the priorities.
        cost_priority: How much a low price matters, from 0 to 1.
        speed_priority: How much speed matters, from 0 to 1.
        intelligence_priority: How much ability matters, from 0 to 1.
    """

    hints: Sequence[ModelHint] | None = member(default=None, hint=True)
    cost_priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)
    speed_priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)
    intelligence_priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)


@final
@wire
class SamplingMessage:
    """A message in a conversation with a model.

    Attributes:
        role: The speaker.
        content: One block or several. To a revision before 2025-11-25 each block is sent as its own message.
    """

    role: Role
    content: SamplingMessageContentBlock | Sequence[SamplingMessageContentBlock]
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_11_25)
class ToolChoice:
    """Whether a model may, must or must not use tools.

    Attributes:
        mode: Where it is missing: ``"auto"``.
    """

    mode: Literal["auto", "required", "none"] | None = None


@final
@wire
class CreateMessageRequestParams:
    """Ask the client's model to continue a conversation.

    Attributes:
        messages: The conversation so far.
        model_preferences: The preferred model.
        system_prompt: The system prompt.
        include_context: The servers whose context the model gets.
        temperature: The temperature of sampling.
        max_tokens: The most tokens to produce.
        stop_sequences: Texts that end the answer.
        metadata: Passed on to the provider of the model.
        tools: The tools that the model may use.
        tool_choice: Whether it may, must or must not use them.
        task: Requests that the request become a task.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    messages: Sequence[SamplingMessage]
    model_preferences: ModelPreferences | None = member(default=None, hint=True)
    system_prompt: str | None = None
    include_context: IncludeContext | None = None
    temperature: int | float | None = None
    max_tokens: int
    stop_sequences: Sequence[str] | None = None
    metadata: JSONObject | None = None
    tools: Sequence[Tool] | None = member(default=None, since=Revision.V2025_11_25)
    tool_choice: ToolChoice | None = member(default=None, since=Revision.V2025_11_25)
    task: TaskMetadata | None = member(default=None, since=Revision.V2025_11_25, until=Revision.V2025_11_25)


@final
@wire
class CreateMessageResult:
    """The answer of the client's model.

    Attributes:
        role: The speaker, as a rule the assistant.
        content: One block or several. To a revision before 2025-11-25 one is sent.
        model: The model that was used.
        stop_reason: Why it stopped: ``"endTurn"``, ``"stopSequence"``, ``"maxTokens"``, ``"toolUse"``, or another
            reason of its provider.
    """

    meta: MetaObject | None = member(default=None, hint=True)
    role: Role
    content: SamplingMessageContentBlock | Sequence[SamplingMessageContentBlock]
    model: str
    stop_reason: str | None = member(default=None, hint=True)

    @property
    def blocks(self) -> Sequence[SamplingMessageContentBlock]:
        """The content as a sequence, even if it is one block."""
        return self.content if isinstance(self.content, Sequence) else (self.content,)

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by newlines; other blocks are left out."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    @property
    def tool_uses(self) -> Sequence[ToolUseContent]:
        """The tools that the model requests to call."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUseContent))


# Roots. Spec: client/roots. Deprecated since 2026-07-28 (SEP-2577).


def _with_drive(path: str) -> str:
    """Return the path of a URI with the colon behind its drive, which some clients encode.

    Python looks for it before it decodes the path. Elsewhere than on Windows it makes no difference.
    """
    return re.sub(r"^/([A-Za-z])%3[Aa](?=/|$)", r"/\1:", path)


@final
@wire
class Root:
    """A directory or file that a server may work in.

    Attributes:
        uri: Its URI, which begins with ``file://``.
        name: Its name, for people.
    """

    uri: str
    name: str | None = member(default=None, hint=True)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)

    @property
    def path(self) -> Path:
        """Its path on this machine. Resolve it before you compare it with other paths.

        Raises:
            ValueError: It is no URI of a file on this machine. `Context.list_roots` returns no such root.
        """
        from urllib.request import url2pathname  # brings an HTTP client with it, so not before it is needed

        try:
            parts = urlsplit(self.uri)
        except ValueError as error:
            raise ValueError(f"must be a URI, is {self.uri[:60]!r}") from error
        if parts.scheme != "file":
            raise ValueError(f"must begin with file://, is {self.uri[:60]!r}")
        if parts.netloc.lower() not in {"", "localhost"}:
            raise ValueError(f"must be on this machine, is {self.uri[:60]!r}")
        try:
            path = url2pathname(_with_drive(parts.path))
        except OSError as error:  # newer versions of Python see a host in a path that begins with two slashes
            raise ValueError(f"must be on this machine, is {self.uri[:60]!r}") from error
        if not path or "\0" in path:
            raise ValueError(f"must have a path, without NUL, is {self.uri[:60]!r}")
        return Path(path)


@final
@wire
class ListRootsRequestParams:
    """Ask for the client's roots. Unlike other requests it needs no `_meta` in any revision."""

    meta: MetaObject | None = member(default=None, hint=True)


@final
@wire
class ListRootsResult:
    """The client's roots."""

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    roots: Sequence[Root]


# Requests for input as parts of results. Spec: 2026-07-28, basic/patterns/mrtr.


@final
@wire(since=Revision.V2026_07_28)
class CreateMessageRequest:
    """A sampling request, as part of a result."""

    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams


@final
@wire(since=Revision.V2026_07_28)
class ElicitRequest:
    """An elicitation request, as part of a result."""

    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams


@final
@wire(since=Revision.V2026_07_28)
class ListRootsRequest:
    """A request for the client's roots, as part of a result."""

    method: Literal["roots/list"] = "roots/list"
    params: ListRootsRequestParams | None = None


InputRequest: TypeAlias = CreateMessageRequest | ElicitRequest | ListRootsRequest
"""A request to the client that is part of a result. It has no id; `InputResponses` answer it."""

InputRequests: TypeAlias = Mapping[str, InputRequest]
"""Requests to the client, by keys that the server has chosen."""

InputResponse: TypeAlias = CreateMessageResult | ElicitResult | ListRootsResult
"""The client's answer to an `InputRequest`."""

InputResponses: TypeAlias = Mapping[str, InputResponse]
"""The client's answers, by the keys of the requests."""


@final
@wire(since=Revision.V2026_07_28)
class InputRequiredResult(Result):
    """The server needs input: send the request again, with the responses and the state.

    Attributes:
        input_requests: What the server asks.
        request_state: An opaque value to send back unchanged.

    Raises:
        ValueError: Both are missing.
    """

    result_type: Literal["input_required"] = "input_required"
    input_requests: InputRequests | None = None
    request_state: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.input_requests is None and self.request_state is None:
            raise ValueError("an InputRequiredResult needs inputRequests, requestState or both")


@wire
class InputResponseRequestParams(RequestParams):
    """What a request has in addition when it is sent again with input.

    Attributes:
        input_responses: The answers to the server's `input_requests`.
        request_state: The server's `request_state`, unchanged.
    """

    input_responses: InputResponses | None = member(default=None, since=Revision.V2026_07_28)
    request_state: str | None = member(default=None, since=Revision.V2026_07_28)


# The `data` of the protocol's own errors.


@final
@wire(since=Revision.V2026_07_28)
class UnsupportedProtocolVersionData:
    """The server does not speak the revision of the request (-32022).

    Attributes:
        supported: The revisions it speaks.
        requested: The revision of the request.
    """

    supported: Sequence[str]
    requested: str


@final
@wire(since=Revision.V2026_07_28)
class MissingRequiredClientCapabilityData:
    """The server cannot answer a client that can do so little (-32021).

    Attributes:
        required_capabilities: What the client must be able to do.
    """

    required_capabilities: ClientCapabilities


@final
@wire(since=Revision.V2025_11_25, until=Revision.V2025_11_25)
class URLElicitationRequiredData:
    """The user must go to a URL before the request can be answered (-32042).

    Attributes:
        elicitations: What to ask the user.
    """

    elicitations: Sequence[ElicitRequestURLParams]


# The requests that may be answered by asking for input. Spec: server/tools, "Calling Tools"; server/prompts,
# "Getting a Prompt"; server/resources, "Reading Resources".


@final
@wire
class CallToolRequestParams(InputResponseRequestParams):
    """Ask for a tool to be called.

    Attributes:
        name: The tool.
        arguments: Its arguments, by name.
        task: Requests that the call become a task.
    """

    name: str
    arguments: JSONObject | None = None
    task: TaskMetadata | None = member(default=None, since=Revision.V2025_11_25, until=Revision.V2025_11_25)


@final
@wire
class GetPromptRequestParams(InputResponseRequestParams):
    """Ask for a prompt.

    Attributes:
        name: The prompt.
        arguments: Its arguments, by name.
    """

    name: str
    arguments: Mapping[str, str] | None = None


@final
@wire
class GetPromptResult(Result):
    """A prompt, filled in.

    Attributes:
        description: What it is for.
        messages: Its messages, in order.
    """

    description: str | None = member(default=None, hint=True)
    messages: Sequence[PromptMessage]


@final
@wire
class ReadResourceRequestParams(InputResponseRequestParams):
    """Ask for the contents of a resource."""

    uri: str


@final
@wire
class ReadResourceResult(CacheableResult):
    """The contents of a resource, in one part or several."""

    contents: Sequence[TextResourceContents | BlobResourceContents]

    @property
    def text(self) -> str:
        """The text of all text parts, joined by newlines; other parts are left out."""
        return "\n".join(part.text for part in self.contents if isinstance(part, TextResourceContents))
