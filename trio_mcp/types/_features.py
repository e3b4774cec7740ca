"""What servers offer: tools, completion, resources, content, prompts and subscriptions.

The requests that a server may answer by asking for input (``tools/call``, ``prompts/get``, ``resources/read``)
are in `_questions`.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Self, TypeAlias, final

from .._absent import ABSENT, Absent
from .._errors import ToolError
from .._revisions import Revision
from ._fields import member, wire
from ._protocol import (
    Annotations,
    Icon,
    JSONObject,
    MetaObject,
    NotificationParams,
    PaginatedResult,
    RequestParams,
    Result,
    Role,
)

# Tools. Spec: server/tools.


TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a call of a tool must not, may or must become a task."""


@final
@wire(since=Revision.V2025_03_26)
class ToolAnnotations:
    """Hints about a tool. Do not rely on them if the server is not trusted.

    Attributes:
        title: The tool's name, for people.
        read_only_hint: Whether it leaves its environment as it is. Where it is missing: no.
        destructive_hint: Whether it may destroy something, if it does not only read. Where it is missing: yes.
        idempotent_hint: Whether a second call with the same arguments changes nothing more, if it does not only
            read. Where it is missing: no.
        open_world_hint: Whether it reaches beyond a closed domain, as a search of the web does. Where it is
            missing: yes.
    """

    title: str | None = member(default=None, hint=True)
    read_only_hint: bool | None = member(default=None, hint=True)
    destructive_hint: bool | None = member(default=None, hint=True)
    idempotent_hint: bool | None = member(default=None, hint=True)
    open_world_hint: bool | None = member(default=None, hint=True)


@final
@wire(since=Revision.V2025_11_25, until=Revision.V2025_11_25)
class ToolExecution:
    """How a tool may be run.

    Attributes:
        task_support: Whether a call may become a task. Where it is missing: ``"forbidden"``.
    """

    task_support: TaskSupport | None = member(default=None, hint=True)


@final
@wire
class Tool:
    """Something a server can do for a model.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it does, for a model.
        input_schema: The JSON Schema of its arguments, whose `type` is ``"object"``. Kept unchanged.
        output_schema: The JSON Schema of its structured content. Kept unchanged.
        annotations: Hints about it.
        execution: How it may be run.
        icons: Pictures for user interfaces.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    input_schema: JSONObject
    output_schema: JSONObject | None = member(default=None, since=Revision.V2025_06_18)
    annotations: ToolAnnotations | None = member(default=None, hint=True, since=Revision.V2025_03_26)
    execution: ToolExecution | None = member(
        default=None, hint=True, since=Revision.V2025_11_25, until=Revision.V2025_11_25
    )
    icons: Sequence[Icon] | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class ListToolsResult(PaginatedResult):
    """One page of a server's tools."""

    tools: Sequence[Tool]


# Completion of what a user types. Spec: server/utilities/completion.


@final
@wire
class PromptReference:
    """The prompt whose argument is completed.

    Attributes:
        name: The prompt's name.
        title: The prompt's name, for people.
    """

    type: Literal["ref/prompt"] = "ref/prompt"
    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class ResourceTemplateReference:
    """The resource template whose variable is completed. Before 2025-06-18 it was called `ResourceReference`.

    Attributes:
        uri: The template, or a URI.
    """

    type: Literal["ref/resource"] = "ref/resource"
    uri: str


@final
@wire
class CompletionArgument:
    """The argument to complete.

    Attributes:
        name: The name of the argument or variable.
        value: What has been typed so far.
    """

    name: str
    value: str


@final
@wire(since=Revision.V2025_06_18)
class CompletionContext:
    """The context of a completion.

    Attributes:
        arguments: The arguments or variables already filled in, by name.
    """

    arguments: Mapping[str, str] | None = None


@final
@wire
class CompleteRequestParams(RequestParams):
    """Ask for completions of an argument.

    Attributes:
        ref: The prompt or resource template of the argument.
        argument: The argument.
        context: The arguments that are already filled in.
    """

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = member(default=None, since=Revision.V2025_06_18)


@final
@wire
class Completion:
    """Possible values of an argument.

    Attributes:
        values: At most 100 values, best first.
        total: How many there are in all.
        has_more: Whether there are more than `values`, even if `total` is not known.
    """

    values: Sequence[str] = member(max_items=100)
    total: int | None = member(default=None, hint=True)
    has_more: bool | None = member(default=None, hint=True)


@final
@wire
class CompleteResult(Result):
    """The answer to a request for completion."""

    completion: Completion


# Resources. Spec: server/resources.


@wire
class Resource:
    """Something that can be read from a server.

    Attributes:
        uri: Its URI.
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is, for a model.
        mime_type: Its type, if known.
        size: Its size in bytes, before any encoding, if known.
        annotations: Hints for the client.
        icons: Pictures for user interfaces.
    """

    uri: str
    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    mime_type: str | None = member(default=None, hint=True)
    size: int | None = member(default=None, hint=True)
    annotations: Annotations | None = member(default=None, hint=True)
    icons: Sequence[Icon] | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class ResourceTemplate:
    """A pattern of resources that can be read from a server.

    Attributes:
        uri_template: Their URIs, as an RFC 6570 template.
        name: Its name, for programs.
        title: Its name, for people.
        description: What they are, for a model.
        mime_type: Their type, if it is the same for all.
        annotations: Hints for the client.
        icons: Pictures for user interfaces.
    """

    uri_template: str
    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    mime_type: str | None = member(default=None, hint=True)
    annotations: Annotations | None = member(default=None, hint=True)
    icons: Sequence[Icon] | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class TextResourceContents:
    """The text of a resource, or of a part of it.

    Attributes:
        uri: Its URI.
        mime_type: Its type, if known.
        text: The text.
    """

    uri: str
    mime_type: str | None = member(default=None, hint=True)
    text: str
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class BlobResourceContents:
    """The bytes of a resource, or of a part of it.

    Attributes:
        uri: Its URI.
        mime_type: Its type, if known.
        blob: The bytes in base64.
    """

    uri: str
    mime_type: str | None = member(default=None, hint=True)
    blob: str
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class ListResourcesResult(PaginatedResult):
    """One page of a server's resources."""

    resources: Sequence[Resource]


@final
@wire
class ListResourceTemplatesResult(PaginatedResult):
    """One page of a server's resource templates."""

    resource_templates: Sequence[ResourceTemplate]


@final
@wire(until=Revision.V2025_11_25)
class SubscribeRequestParams(RequestParams):
    """Subscribe to the changes of a resource."""

    uri: str


@final
@wire(until=Revision.V2025_11_25)
class UnsubscribeRequestParams(RequestParams):
    """End the subscription to the changes of a resource."""

    uri: str


@final
@wire
class ResourceUpdatedNotificationParams(NotificationParams):
    """A resource has changed.

    Attributes:
        uri: The resource, or a part of the one that was subscribed to.
    """

    uri: str


# Content, of which tool results, prompts and conversations are made. Spec: server/tools, "Tool Result";
# server/prompts, "PromptMessage"; client/sampling, "Data Types".


@final
@wire
class TextContent:
    """Text for or from a model.

    Attributes:
        text: The text.
        annotations: Hints for the client.
    """

    type: Literal["text"] = "text"
    text: str
    annotations: Annotations | None = member(default=None, hint=True)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class ImageContent:
    """A picture for or from a model.

    Attributes:
        data: Its bytes in base64.
        mime_type: Its type.
        annotations: Hints for the client.
    """

    type: Literal["image"] = "image"
    data: str
    mime_type: str
    annotations: Annotations | None = member(default=None, hint=True)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire(since=Revision.V2025_03_26)
class AudioContent:
    """Sound for or from a model.

    Attributes:
        data: Its bytes in base64.
        mime_type: Its type.
        annotations: Hints for the client.
    """

    type: Literal["audio"] = "audio"
    data: str
    mime_type: str
    annotations: Annotations | None = member(default=None, hint=True)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire(since=Revision.V2025_06_18)
class ResourceLink(Resource):
    """A reference to a resource that can be read. It need not be in the server's list."""

    type: Literal["resource_link"] = "resource_link"


@final
@wire
class EmbeddedResource:
    """A resource with its contents.

    Attributes:
        resource: The contents.
        annotations: Hints for the client.
    """

    type: Literal["resource"] = "resource"
    resource: TextResourceContents | BlobResourceContents
    annotations: Annotations | None = member(default=None, hint=True)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class UnknownContent:
    """A block of a type that is unknown here. A newer peer may send one; it is sent as text.

    Attributes:
        type: Its type.
        members: Its other members, unchanged.
    """

    type: str
    members: JSONObject


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)
"""A part of a tool's result or of a prompt's message."""


@final
@wire(since=Revision.V2025_11_25)
class ToolUseContent:
    """A model's request to call a tool.

    Attributes:
        id: Identifies this tool use.
        name: The tool.
        input: Its arguments.
        meta: Send it back unchanged when the conversation continues.
    """

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: JSONObject
    meta: MetaObject | None = member(default=None, hint=True)


@final
@wire(since=Revision.V2025_11_25)
class ToolResultContent:
    """The result of a tool that a model has requested to call.

    Attributes:
        tool_use_id: The `id` of the `ToolUseContent`.
        content: The result for the model.
        structured_content: The result for programs: any JSON value; an object before 2026-07-28.
        is_error: Whether the tool failed.
        meta: Send it back unchanged when the conversation continues.
    """

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: Sequence[ContentBlock]
    _structured_content: object | Absent = member(default=ABSENT, alias="structured_content")
    _is_error: bool | None = member(default=None, alias="is_error")
    meta: MetaObject | None = member(default=None, hint=True)

    @property
    def structured_content(self) -> object:
        """The result for programs; `None` if there is none, or if it is ``null``."""
        return None if self._structured_content is ABSENT else self._structured_content

    @property
    def has_structured_content(self) -> bool:
        """Whether there is a result for programs, be it ``null``."""
        return self._structured_content is not ABSENT

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return bool(self._is_error)


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)
"""A part of a message in a conversation with a model."""


# The result of a tool, which consists of content. Spec: server/tools, "Tool Result".


@final
@wire
class CallToolResult(Result):
    """The result of a tool.

    Attributes:
        content: The result for the model.
        structured_content: The result for programs: any JSON value that is valid for the tool's `output_schema`;
            an object before 2026-07-28. `None` if there is none; `has_structured_content` tells ``null`` apart.
        is_error: Whether the tool failed. Then `content` has the reason, which `check` raises.
    """

    content: Sequence[ContentBlock]
    _structured_content: object | Absent = member(
        default=ABSENT, alias="structured_content", since=Revision.V2025_06_18
    )
    _is_error: bool | None = member(default=None, alias="is_error")

    @property
    def structured_content(self) -> object:
        """The result for programs; `None` if there is none, or if it is ``null``."""
        return None if self._structured_content is ABSENT else self._structured_content

    @property
    def has_structured_content(self) -> bool:
        """Whether there is a result for programs, be it ``null``."""
        return self._structured_content is not ABSENT

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return bool(self._is_error)

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by newlines; other blocks are left out."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    def check(self) -> Self:
        """Return the result itself, if the tool has not failed: ``(await client.call_tool(…)).check().text``.

        Raises:
            ToolError: It has; the message is its text.
        """
        if self.is_error:
            raise ToolError(self.text or "the tool failed without a message")
        return self


# Prompts. Spec: server/prompts.


@final
@wire
class PromptArgument:
    """An argument of a prompt.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is, for people.
        required: Whether it must be given. Where it is missing: no.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    required: bool | None = None


@final
@wire
class Prompt:
    """A template of messages that a server offers.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is for.
        arguments: Its arguments.
        icons: Pictures for user interfaces.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    arguments: Sequence[PromptArgument] | None = None
    icons: Sequence[Icon] | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class PromptMessage:
    """A message of a prompt.

    Attributes:
        role: The speaker.
        content: The content.
    """

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """The text of the content, or ``""`` if it is not text."""
        return self.content.text if isinstance(self.content, TextContent) else ""


@final
@wire
class ListPromptsResult(PaginatedResult):
    """One page of a server's prompts."""

    prompts: Sequence[Prompt]


# Subscriptions. Spec: 2026-07-28, basic/patterns/subscriptions.


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionFilter:
    """The notifications that a client requests, or a server grants.

    Attributes:
        tools_list_changed: Whether changes of the list of tools are among them.
        prompts_list_changed: Whether changes of the list of prompts are among them.
        resources_list_changed: Whether changes of the list of resources are among them.
        resource_subscriptions: The URIs of the resources whose changes are among them.
        task_ids: The ids of the tasks whose changes are among them, of the extension for tasks.
    """

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: Sequence[str] | None = None
    task_ids: Sequence[str] | None = None


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsListenRequestParams(RequestParams):
    """Ask for notifications."""

    notifications: SubscriptionFilter


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsListenResult(Result):
    """The end of a subscription, by the server.

    Attributes:
        meta: Required; it has the id of the subscription.
    """

    meta: MetaObject | None = member(default=None, required_in=(Revision.V2026_07_28,))


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The beginning of a subscription.

    Attributes:
        notifications: The requested notifications that the server grants.
    """

    notifications: SubscriptionFilter
