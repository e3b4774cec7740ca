"""Content: the blocks that tool results, prompts and conversations are made of.

Spec: server/tools, "Tool Result"; server/prompts, "PromptMessage"; client/sampling, "Data Types".
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, final

from .._absent import ABSENT, Absent
from .._revisions import Revision
from ._fields import member, wire
from ._metadata import Annotations, JSONObject, MetaObject
from ._resources import BlobResourceContents, Resource, TextResourceContents

__all__ = [
    "AudioContent",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "ResourceLink",
    "SamplingMessageContentBlock",
    "TextContent",
    "ToolResultContent",
    "ToolUseContent",
    "UnknownContent",
]


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
