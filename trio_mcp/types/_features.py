"""Content: the blocks that tool results, prompts and conversations are made of.

Spec: server/tools, "Tool Result"; server/prompts, "PromptMessage"; client/sampling, "Data Types".

Tools: what they are and their lists. Spec: server/tools.

Calling one lives in `_tool_calls`, because it may need more input first.

Completing what a user has begun to type. Spec: server/utilities/completion.

Resources: what they are, their contents, their lists, and being told of changes. Spec: server/resources.

Reading one lives in `_resource_reads`, because it may need more input first.

What a tool gives. Spec: server/tools, "Tool Result".

Prompts: what they are, what they say, and their lists. Spec: server/prompts.

Getting one lives in `_prompt_gets`, because it may need more input first.

Asking for notifications outside any other request. Spec: 2026-07-28, basic/patterns/subscriptions.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, final

from .._absent import ABSENT, Absent
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

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a call of a tool must not, may or must become a task."""


@final
@wire(since=Revision.V2025_03_26)
class ToolAnnotations:
    """Hints about a tool. From a server that is not trusted they prove nothing.

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
        input_schema: The JSON Schema of its arguments, whose `type` is ``"object"``. Kept to the letter.
        output_schema: The JSON Schema of what it gives to programs. Kept to the letter.
        annotations: Hints about it.
        execution: How it may be run.
        icons: What to show for it.
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
    """What is to be completed.

    Attributes:
        name: Which argument or variable.
        value: What has been typed so far.
    """

    name: str
    value: str


@final
@wire(since=Revision.V2025_06_18)
class CompletionContext:
    """What a completion may depend on.

    Attributes:
        arguments: The arguments or variables already filled in, by name.
    """

    arguments: Mapping[str, str] | None = None


@final
@wire
class CompleteRequestParams(RequestParams):
    """Ask how an argument might go on.

    Attributes:
        ref: What the argument belongs to.
        argument: The argument.
        context: What has been filled in before.
    """

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = member(default=None, since=Revision.V2025_06_18)


@final
@wire
class Completion:
    """How an argument might go on.

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


@wire
class Resource:
    """Something a server can give to read.

    Attributes:
        uri: What it is known by.
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is, for a model.
        mime_type: Its type, if known.
        size: Its size in bytes, before any encoding, if known.
        annotations: Hints for the client.
        icons: What to show for it.
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
    """A pattern of resources a server can give to read.

    Attributes:
        uri_template: Their URIs, as an RFC 6570 template.
        name: Its name, for programs.
        title: Its name, for people.
        description: What they are, for a model.
        mime_type: Their type, if all have the same.
        annotations: Hints for the client.
        icons: What to show for it.
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
    """What a resource, or a part of it, says.

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
    """Ask to be told when a resource changes."""

    uri: str


@final
@wire(until=Revision.V2025_11_25)
class UnsubscribeRequestParams(RequestParams):
    """Ask to be told no longer when a resource changes."""

    uri: str


@final
@wire
class ResourceUpdatedNotificationParams(NotificationParams):
    """Tell that a resource has changed.

    Attributes:
        uri: The resource, or a part of the one that was subscribed to.
    """

    uri: str


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
    """A resource that can be read if it is wanted. It need not be in the server's list."""

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
    """A block of a type that no revision here knows. A newer peer may send one; it is never sent as it is.

    Attributes:
        type: What it calls itself.
        members: All it says but its type, as it came.
    """

    type: str
    members: JSONObject


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)
"""A part of a tool's result or of a prompt."""


@final
@wire(since=Revision.V2025_11_25)
class ToolUseContent:
    """A model's wish to have a tool called.

    Attributes:
        id: What the wish is known by.
        name: The tool.
        input: The arguments for it.
        meta: Hand it back unchanged when the conversation goes on.
    """

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: JSONObject
    meta: MetaObject | None = member(default=None, hint=True)


@final
@wire(since=Revision.V2025_11_25)
class ToolResultContent:
    """What came of a model's wish to have a tool called.

    Attributes:
        tool_use_id: The wish.
        content: What the tool gave, for the model.
        structured_content: What the tool gave, for programs: any JSON value; an object before 2026-07-28.
        is_error: Whether the tool failed.
        meta: Hand it back unchanged when the conversation goes on.
    """

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: Sequence[ContentBlock]
    structured_content: object | Absent = ABSENT
    is_error: bool | None = None
    meta: MetaObject | None = member(default=None, hint=True)


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)
"""A part of what is said in a conversation with a model."""


@final
@wire
class CallToolResult(Result):
    """What a tool gave.

    Attributes:
        content: For the model.
        structured_content: For programs: any JSON value that fits the tool's `output_schema`; an object before
            2026-07-28.
        is_error: Whether the tool failed. The model reads in `content` why.
    """

    content: Sequence[ContentBlock]
    structured_content: object | Absent = member(default=ABSENT, since=Revision.V2025_06_18)
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """What it gave in text, without anything else; several blocks are on lines of their own."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


@final
@wire
class PromptArgument:
    """Something a prompt can be told.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is, for people.
        required: Whether the prompt cannot do without. Where it is missing: no.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    required: bool | None = None


@final
@wire
class Prompt:
    """A beginning of a conversation that a server has ready.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is for.
        arguments: What it can be told.
        icons: What to show for it.
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
    """What one side says in a prompt.

    Attributes:
        role: Who says it.
        content: What is said.
    """

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """What is said, if it is text; else nothing."""
        return self.content.text if isinstance(self.content, TextContent) else ""


@final
@wire
class ListPromptsResult(PaginatedResult):
    """One page of a server's prompts."""

    prompts: Sequence[Prompt]


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionFilter:
    """Which notifications are wanted, or will come.

    Attributes:
        tools_list_changed: Whether those of changes to the list of tools are.
        prompts_list_changed: Whether those of changes to the list of prompts are.
        resources_list_changed: Whether those of changes to the list of resources are.
        resource_subscriptions: The URIs of the resources whose changes are.
    """

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: Sequence[str] | None = None


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsListenRequestParams(RequestParams):
    """Ask for notifications."""

    notifications: SubscriptionFilter


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsListenResult(Result):
    """The end of a subscription, at the server's wish.

    Attributes:
        meta: It names the subscription and is required.
    """

    meta: MetaObject | None = member(default=None, required_in=(Revision.V2026_07_28,))


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The beginning of a subscription.

    Attributes:
        notifications: What will come of what was wanted.
    """

    notifications: SubscriptionFilter
