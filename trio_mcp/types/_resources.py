"""Resources: what they are, their contents, their lists, and being told of changes. Spec: server/resources.

Reading one lives in `_resource_reads`, because it may need more input first.
"""

from collections.abc import Sequence
from typing import final

from .._revisions import Revision
from ._fields import member, wire
from ._messages import NotificationParams, PaginatedResult, RequestParams
from ._metadata import Annotations, Icon, MetaObject

__all__ = [
    "BlobResourceContents",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "Resource",
    "ResourceTemplate",
    "ResourceUpdatedNotificationParams",
    "SubscribeRequestParams",
    "TextResourceContents",
    "UnsubscribeRequestParams",
]


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
