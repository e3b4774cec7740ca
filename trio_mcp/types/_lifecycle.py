"""Getting to know each other, and giving up a request.

Spec: basic/lifecycle until 2025-11-25, server/discover from 2026-07-28 on; basic/patterns/cancellation
(basic/utilities/cancellation until 2025-11-25).
"""

from collections.abc import Sequence
from typing import final

from .._revisions import Revision
from ._capabilities import ClientCapabilities, ServerCapabilities
from ._fields import member, wire
from ._messages import CacheableResult, NotificationParams, RequestId, RequestParams, Result
from ._metadata import Icon

__all__ = [
    "CancelledNotificationParams",
    "DiscoverResult",
    "Implementation",
    "InitializeRequestParams",
    "InitializeResult",
]


@final
@wire
class Implementation:
    """The software at one end of a connection, as it describes itself. Nobody has checked it.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        version: Its version.
        description: What it does.
        website_url: Where to read about it.
        icons: What to show for it.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    version: str
    description: str | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    website_url: str | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    icons: Sequence[Icon] | None = member(default=None, hint=True, since=Revision.V2025_11_25)


@final
@wire(until=Revision.V2025_11_25)
class InitializeRequestParams(RequestParams):
    """Open a connection of the legacy era.

    Attributes:
        protocol_version: The newest revision the client speaks.
        capabilities: What the client can do.
        client_info: What the client is.
    """

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


@final
@wire(until=Revision.V2025_11_25)
class InitializeResult(Result):
    """Agree to a connection of the legacy era.

    Attributes:
        protocol_version: The revision the server will speak.
        capabilities: What the server can do.
        server_info: What the server is.
        instructions: How a model should use the server.
    """

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = member(default=None, hint=True)


@final
@wire(since=Revision.V2026_07_28)
class DiscoverResult(CacheableResult):
    """What a client needs to know of a server before its first request.

    Attributes:
        supported_versions: The revisions the server speaks.
        capabilities: What the server can do.
        instructions: How a model should use the server.
    """

    supported_versions: Sequence[str]
    capabilities: ServerCapabilities
    instructions: str | None = member(default=None, hint=True)


@final
@wire
class CancelledNotificationParams(NotificationParams):
    """Give up a request.

    Attributes:
        request_id: The request. Every revision but 2025-11-25 requires it, and there too it is left out only for
            tasks, which have a method of their own to be cancelled by.
        reason: Why, for people.
    """

    request_id: RequestId | None = member(
        default=None, required_in=[r for r in Revision if r is not Revision.V2025_11_25]
    )
    reason: str | None = member(default=None, hint=True)
