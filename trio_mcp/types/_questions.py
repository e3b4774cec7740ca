"""A server asking the client's user. Spec: client/elicitation.

The schema of a form is a small part of JSON Schema: an object whose properties are the classes here.

A server asking the client's model. Spec: client/sampling. Deprecated since 2026-07-28 (SEP-2577).

The directories a client lets a server work in. Spec: client/roots. Deprecated since 2026-07-28 (SEP-2577).

A server asking the client before it can answer. Spec: 2026-07-28, basic/patterns/mrtr.

In the legacy era the same questions are requests of their own.

What the protocol's own errors say in `data`. Their codes and the error itself live with the exceptions.

Calling a tool. Spec: server/tools, "Calling Tools".

Getting a prompt. Spec: server/prompts, "Getting a Prompt".

Reading a resource. Spec: server/resources, "Reading Resources".
"""

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

_FIRST: Final = Revision.V2025_06_18


@final
@wire(since=_FIRST)
class StringSchema:
    """A line of text.

    Attributes:
        title: What to call it.
        description: What it is.
        min_length: How many characters it needs.
        max_length: How many characters it may have.
        format: What it must look like.
        default: What it is if the user changes nothing.
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
        title: What to call it.
        description: What it is.
        minimum: The smallest it may be.
        maximum: The largest it may be.
        default: What it is if the user changes nothing.
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
        title: What to call it.
        description: What it is.
        default: What it is if the user changes nothing.
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
        title: What to call it.
        description: What it is.
        enum: The values.
        default: What it is if the user changes nothing.
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
        title: What to call it.
        description: What it is.
        enum: The values.
        enum_names: Their names, in the same order.
        default: What it is if the user changes nothing.
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
        title: What to call it.
        description: What it is.
        one_of: The values.
        default: What it is if the user changes nothing.
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
        title: What to call it.
        description: What it is.
        min_items: How many must be chosen.
        max_items: How many may be chosen.
        items: The values.
        default: What it is if the user changes nothing.
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
        title: What to call it.
        description: What it is.
        min_items: How many must be chosen.
        max_items: How many may be chosen.
        items: The values.
        default: What it is if the user changes nothing.
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
    """Ask the user to fill in a form. Nothing secret may be asked for like this.

    Attributes:
        message: What is asked for, and why.
        requested_schema: The fields of the form.
        task: Ask that the request become a task.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    mode: Literal["form"] = member(default="form", since=Revision.V2025_11_25)
    message: str
    requested_schema: RequestedSchema
    task: TaskMetadata | None = member(default=None, since=Revision.V2025_11_25, until=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_11_25)
class ElicitRequestURLParams:
    """Ask the user to go to a URL, where the server gets what it needs without the client seeing it.

    Attributes:
        message: What for.
        url: Where to.
        elicitation_id: What the server will know it by when it tells that the user is done. Only 2025-11-25 has
            it, and there it is required.
        task: Ask that the request become a task.
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
"""A question to the user."""

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]
"""What the user did: agreed, refused, or neither."""

ElicitValue: TypeAlias = str | int | float | bool | Sequence[str]
"""What the user filled in. A choice of several values there is from 2025-11-25 on."""


@final
@wire(since=_FIRST)
class ElicitResult:
    """What the user said.

    Attributes:
        action: Whether they agreed.
        content: What they filled in, by field, if they agreed to a form.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    action: ElicitAction
    content: Mapping[str, ElicitValue] | None = None


@final
@wire(since=Revision.V2025_11_25, until=Revision.V2025_11_25)
class ElicitationCompleteNotificationParams(NotificationParams):
    """Tell that the user is done at the URL they were sent to."""

    elicitation_id: str


IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
"""Whose context a model is given besides the messages. All but ``"none"`` is deprecated (SEP-2596)."""


@final
@wire
class ModelHint:
    """A wish for a model.

    Attributes:
        name: A part of a model's name, or of the name of one much like it.
    """

    name: str | None = member(default=None, hint=True)


@final
@wire
class ModelPreferences:
    """Which model a server would like. The client decides.

    Attributes:
        hints: Models it would like, best first; they go before the priorities.
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
    """What one side says in a conversation with a model.

    Attributes:
        role: Who says it.
        content: What is said, as one block or several. A revision before 2025-11-25 is sent as many messages.
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
    """Ask the client's model to go on with a conversation.

    Attributes:
        messages: The conversation so far.
        model_preferences: Which model to use.
        system_prompt: What to tell the model beforehand.
        include_context: Whose context to give the model.
        temperature: How freely it speaks.
        max_tokens: How many tokens it may produce.
        stop_sequences: What ends its answer.
        metadata: What to pass on to whoever runs the model.
        tools: The tools it may wish to use.
        tool_choice: Whether it may, must or must not use them.
        task: Ask that the request become a task.
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
    """What the client's model said.

    Attributes:
        role: Who says it: as a rule the assistant.
        content: What is said, as one block or several. A revision before 2025-11-25 is sent one.
        model: The model that said it.
        stop_reason: Why it stopped: ``"endTurn"``, ``"stopSequence"``, ``"maxTokens"``, ``"toolUse"``, or what
            its provider calls it.
    """

    meta: MetaObject | None = member(default=None, hint=True)
    role: Role
    content: SamplingMessageContentBlock | Sequence[SamplingMessageContentBlock]
    model: str
    stop_reason: str | None = member(default=None, hint=True)

    @property
    def blocks(self) -> Sequence[SamplingMessageContentBlock]:
        """What is said, as blocks, however many there are."""
        return self.content if isinstance(self.content, Sequence) else (self.content,)

    @property
    def text(self) -> str:
        """What is said in text, without anything else; several blocks are on lines of their own."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    @property
    def tool_uses(self) -> Sequence[ToolUseContent]:
        """The tools that the model wishes to have called."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUseContent))


@final
@wire
class Root:
    """A directory or file that a server may work in.

    Attributes:
        uri: Its URI, which begins with ``file://``.
        name: What to call it.
    """

    uri: str
    name: str | None = member(default=None, hint=True)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)

    @property
    def path(self) -> Path:
        """Where it is on this machine. Resolve it before you compare it with other paths.

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
            path = url2pathname(parts.path)
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


@final
@wire(since=Revision.V2026_07_28)
class CreateMessageRequest:
    """A question to the client's model, as part of a result."""

    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams


@final
@wire(since=Revision.V2026_07_28)
class ElicitRequest:
    """A question to the client's user, as part of a result."""

    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams


@final
@wire(since=Revision.V2026_07_28)
class ListRootsRequest:
    """A question for the client's roots, as part of a result."""

    method: Literal["roots/list"] = "roots/list"
    params: ListRootsRequestParams | None = None


InputRequest: TypeAlias = CreateMessageRequest | ElicitRequest | ListRootsRequest
"""A question to the client. It has neither an id nor an answer of its own: it is part of a result."""

InputRequests: TypeAlias = Mapping[str, InputRequest]
"""Questions to the client, by keys the server chose."""

InputResponse: TypeAlias = CreateMessageResult | ElicitResult | ListRootsResult
"""The client's answer to a question."""

InputResponses: TypeAlias = Mapping[str, InputResponse]
"""The client's answers, by the keys of the questions."""


@final
@wire(since=Revision.V2026_07_28)
class InputRequiredResult(Result):
    """The server's answer when it must know more: ask again, and bring what is wanted.

    Attributes:
        input_requests: What the server asks.
        request_state: What to bring back unread.

    Raises:
        ValueError: It has neither. There would be nothing to bring.
    """

    result_type: Literal["input_required"] = "input_required"
    input_requests: InputRequests | None = None
    request_state: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.input_requests is None and self.request_state is None:
            raise ValueError("an InputRequiredResult needs inputRequests, requestState or both")


@wire
class InputResponseRequestParams(RequestParams):
    """What a request brings along when it is asked again.

    Attributes:
        input_responses: The answers to what the server asked.
        request_state: What the server gave to be brought back.
    """

    input_responses: InputResponses | None = member(default=None, since=Revision.V2026_07_28)
    request_state: str | None = member(default=None, since=Revision.V2026_07_28)


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


@final
@wire
class CallToolRequestParams(InputResponseRequestParams):
    """Ask for a tool to be called.

    Attributes:
        name: The tool.
        arguments: Its arguments, by name.
        task: Ask that the call become a task.
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
        arguments: What it is told, by name.
    """

    name: str
    arguments: Mapping[str, str] | None = None


@final
@wire
class GetPromptResult(Result):
    """A prompt, filled in.

    Attributes:
        description: What it is for.
        messages: What is said, in order.
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
        """What it says in text, without anything else; several parts are on lines of their own."""
        return "\n".join(part.text for part in self.contents if isinstance(part, TextResourceContents))
