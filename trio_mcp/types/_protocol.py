"""What features share: basic types, params and results, capabilities, the lifecycle, progress and logging.

The envelopes (`jsonrpc`, `id`, `method`, `error`) belong to the codec, and the features of servers and clients to
`_features` and `_questions`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, final

from .._absent import ABSENT, Absent
from .._revisions import MODERN, Revision
from ._fields import member, wire

JSONObject: TypeAlias = Mapping[str, object]
"""A JSON object whose members the protocol does not define. It is neither checked nor copied."""

MetaObject: TypeAlias = Mapping[str, object]
"""The content of `_meta`: reserved keys of the protocol, and others with the prefix of their author.

Spec: 2026-07-28, basic, "`_meta`".
"""

Role: TypeAlias = Literal["user", "assistant"]
"""A side of a conversation with a model."""


@final
@wire
class Annotations:
    """Hints for a client about what to do with an object.

    Attributes:
        audience: The roles it is meant for.
        priority: How much it matters, from 0 (optional) to 1 (required).
        last_modified: When it last changed, as an ISO 8601 date and time.
    """

    audience: Sequence[Role] | None = member(default=None, hint=True)
    priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)
    last_modified: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire(since=Revision.V2025_11_25)
class Icon:
    """A picture that represents something in a user interface.

    It is as untrusted as its sender: fetch it without credentials, and beware of scripts in SVG.

    Attributes:
        src: Its HTTPS or ``data:`` URI.
        mime_type: Its type, if that of the source is missing or too general.
        sizes: The sizes it is made for, each as ``"48x48"`` or ``"any"``.
        theme: The background it is made for; `None` if it fits both.
    """

    src: str
    mime_type: str | None = member(default=None, hint=True)
    sizes: Sequence[str] | None = member(default=None, hint=True)
    theme: Literal["light", "dark"] | None = member(default=None, hint=True)


RequestId: TypeAlias = str | int
"""Identifies a request until it is answered."""

ProgressToken: TypeAlias = str | int
"""Identifies the request that a progress notification is about."""

Cursor: TypeAlias = str
"""The position of a page in a list. Only the server that made it can read it."""

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The status of a task. The last three are final."""

CacheScope: TypeAlias = Literal["public", "private"]
"""To which users a cached result may be given: to all, or only to the one who requested it."""


@wire
class RequestParams:
    """The params that every request may have; some have no others.

    Attributes:
        meta: From 2026-07-28 on it is required and has the revision and the client's capabilities.
    """

    meta: MetaObject | None = member(default=None, required_in=MODERN)


@final
@wire
class PaginatedRequestParams(RequestParams):
    """Ask for a page of a list.

    Attributes:
        cursor: The `next_cursor` of the page before; `None` for the first page.
    """

    cursor: Cursor | None = None


@wire
class NotificationParams:
    """The params that every notification may have; some have no others."""

    meta: MetaObject | None = None


@wire
class Result:
    """The members that every result may have; some have no others.

    Attributes:
        result_type: ``"complete"``, ``"input_required"``, or a type that an extension defines. If it is missing,
            the peer's revision is older and the result is complete.
    """

    meta: MetaObject | None = member(default=None, hint=True)
    result_type: str = member(default="complete", since=Revision.V2026_07_28)


EmptyResult: TypeAlias = Result
"""A result without content: the request has succeeded."""


@wire
class CacheableResult(Result):
    """A result that a client may cache.

    Attributes:
        ttl_ms: For how many milliseconds it is fresh, at least 0. A received value may be negative; treat it as
            0.
        cache_scope: To which users it may be given.

    Spec: 2026-07-28, server/utilities/caching.
    """

    ttl_ms: int = member(default=0, hint=True, since=Revision.V2026_07_28, minimum=0)
    cache_scope: CacheScope = member(default="private", hint=True, since=Revision.V2026_07_28)


@wire
class PaginatedResult(CacheableResult):
    """One page of a list. In 2026-07-28 every paginated result is cacheable as well.

    Attributes:
        next_cursor: The position of the next page; `None` if this is the last.
    """

    next_cursor: Cursor | None = None


# Capabilities. Spec: basic/lifecycle (basic/versioning from 2026-07-28 on).


_TASKS: Final = Revision.V2025_11_25


@final
@wire
class RootsCapability:
    """The client has roots.

    Attributes:
        list_changed: Whether it sends a notification when the list changes.
    """

    list_changed: bool | None = member(default=None, until=Revision.V2025_11_25)


@final
@wire
class SamplingCapability:
    """A server may send sampling requests to the client's model.

    Attributes:
        context: Declared if `CreateMessageRequestParams.include_context` has an effect.
        tools: Declared if the model may be given tools.
    """

    context: JSONObject | None = member(default=None, since=Revision.V2025_11_25)
    tools: JSONObject | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_06_18)
class ElicitationCapability:
    """A server may ask the client's user.

    Attributes:
        form: Declared if it can show forms. A client that declares neither member can show forms, too.
        url: Declared if it can send the user to a URL.
    """

    form: JSONObject | None = member(default=None, since=Revision.V2025_11_25)
    url: JSONObject | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=_TASKS, until=_TASKS)
class SamplingTaskRequests:
    """Which requests about sampling may become tasks."""

    create_message: JSONObject | None = None


@final
@wire(since=_TASKS, until=_TASKS)
class ElicitationTaskRequests:
    """Which requests about elicitation may become tasks."""

    create: JSONObject | None = None


@final
@wire(since=_TASKS, until=_TASKS)
class ToolTaskRequests:
    """Which requests about tools may become tasks."""

    call: JSONObject | None = None


@final
@wire(since=_TASKS, until=_TASKS)
class ClientTaskRequests:
    """Which requests to a client may become tasks."""

    sampling: SamplingTaskRequests | None = None
    elicitation: ElicitationTaskRequests | None = None


@final
@wire(since=_TASKS, until=_TASKS)
class ServerTaskRequests:
    """Which requests to a server may become tasks."""

    tools: ToolTaskRequests | None = None


@final
@wire(since=_TASKS, until=_TASKS)
class ClientTasksCapability:
    """The client can run requests as tasks.

    Attributes:
        list: Declared if it lists them.
        cancel: Declared if it cancels them.
        requests: Which requests may become tasks.
    """

    list: JSONObject | None = None
    cancel: JSONObject | None = None
    requests: ClientTaskRequests | None = None


@final
@wire(since=_TASKS, until=_TASKS)
class ServerTasksCapability:
    """The server can run requests as tasks.

    Attributes:
        list: Declared if it lists them.
        cancel: Declared if it cancels them.
        requests: Which requests may become tasks.
    """

    list: JSONObject | None = None
    cancel: JSONObject | None = None
    requests: ServerTaskRequests | None = None


@final
@wire
class ClientCapabilities:
    """What a client can do.

    Attributes:
        experimental: Capabilities outside the specification, by name.
        roots: Deprecated since 2026-07-28 (SEP-2577).
        sampling: Deprecated since 2026-07-28 (SEP-2577).
        elicitation: Whether and how it asks its user.
        tasks: Whether it can run requests as tasks.
        extensions: Settings of the extensions it knows, by identifier. 2026-07-28 is the first schema that names
            it; capabilities are an open set before, and SEP-2133 declares extensions in `initialize`.
    """

    experimental: Mapping[str, JSONObject] | None = member(default=None, hint=True)
    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = member(default=None, since=Revision.V2025_06_18)
    tasks: ClientTasksCapability | None = member(default=None, since=_TASKS, until=_TASKS)
    extensions: Mapping[str, JSONObject] | None = member(default=None, hint=True)


@final
@wire
class PromptsCapability:
    """The server has prompts.

    Attributes:
        list_changed: Whether it sends a notification when the list changes.
    """

    list_changed: bool | None = None


@final
@wire
class ResourcesCapability:
    """The server has resources.

    Attributes:
        subscribe: Whether clients can subscribe to changes of a resource.
        list_changed: Whether it sends a notification when the list changes.
    """

    subscribe: bool | None = None
    list_changed: bool | None = None


@final
@wire
class ToolsCapability:
    """The server has tools.

    Attributes:
        list_changed: Whether it sends a notification when the list changes.
    """

    list_changed: bool | None = None


@final
@wire
class ServerCapabilities:
    """What a server can do.

    Attributes:
        experimental: Capabilities outside the specification, by name.
        logging: Declared if it sends log messages. Deprecated since 2026-07-28 (SEP-2577).
        completions: Declared if it completes arguments. 2024-11-05 has completion, but not this.
        prompts: Whether it has prompts.
        resources: Whether it has resources.
        tools: Whether it has tools.
        tasks: Whether it can run requests as tasks.
        extensions: Settings of the extensions it knows, by identifier. 2026-07-28 is the first schema that names
            it; capabilities are an open set before, and SEP-2133 declares extensions in `initialize`.
    """

    experimental: Mapping[str, JSONObject] | None = member(default=None, hint=True)
    logging: JSONObject | None = None
    completions: JSONObject | None = member(default=None, since=Revision.V2025_03_26)
    prompts: PromptsCapability | None = None
    resources: ResourcesCapability | None = None
    tools: ToolsCapability | None = None
    tasks: ServerTasksCapability | None = member(default=None, since=_TASKS, until=_TASKS)
    extensions: Mapping[str, JSONObject] | None = member(default=None, hint=True)


CAPABILITIES: Final = frozenset(
    {
        ClientCapabilities,
        ClientTaskRequests,
        ClientTasksCapability,
        ElicitationCapability,
        ElicitationTaskRequests,
        PromptsCapability,
        ResourcesCapability,
        RootsCapability,
        SamplingCapability,
        SamplingTaskRequests,
        ServerCapabilities,
        ServerTaskRequests,
        ServerTasksCapability,
        ToolTaskRequests,
        ToolsCapability,
    }
)
"""The classes of capabilities. `None` for a member means that it is not declared."""


# The lifecycle, and cancellation. Spec: basic/lifecycle until 2025-11-25, server/discover from 2026-07-28 on;
# basic/patterns/cancellation (basic/utilities/cancellation until 2025-11-25).


@final
@wire
class Implementation:
    """The software at one end of a connection, as it describes itself. It is not verified.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        version: Its version.
        description: What it does.
        website_url: The URL of its documentation.
        icons: Pictures for user interfaces.
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
    """Begin a connection of the legacy era.

    Attributes:
        protocol_version: The newest revision the client speaks.
        capabilities: What the client can do.
        client_info: The client's software.
    """

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


@final
@wire(until=Revision.V2025_11_25)
class InitializeResult(Result):
    """Accept a connection of the legacy era.

    Attributes:
        protocol_version: The revision the server will speak.
        capabilities: What the server can do.
        server_info: The server's software.
        instructions: How a model should use the server.
    """

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = member(default=None, hint=True)


@final
@wire(since=Revision.V2026_07_28)
class DiscoverResult(CacheableResult):
    """The description of a server that a client needs before its first request.

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
    """Cancel a request.

    Attributes:
        request_id: The request. Every revision but 2025-11-25 requires it. There it may be missing only for
            tasks, which are cancelled by ``tasks/cancel``.
        reason: Why, for people.
    """

    request_id: RequestId | None = member(
        default=None, required_in=[r for r in Revision if r is not Revision.V2025_11_25]
    )
    reason: str | None = member(default=None, hint=True)


# Progress. Spec: basic/patterns/progress (basic/utilities/progress until 2025-11-25).


@final
@wire
class ProgressNotificationParams(NotificationParams):
    """Report the progress of a request to its sender.

    Attributes:
        progress_token: The token that came with the request.
        progress: How much is done. It increases with each notification.
        total: How much there is to do, if known.
        message: What is being done, for people.
    """

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = member(default=None, hint=True)
    message: str | None = member(default=None, hint=True, since=Revision.V2025_03_26)


# Logging. Spec: server/utilities/logging. Deprecated since 2026-07-28 (SEP-2577).


LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How severe a log message is, mildest first, as in RFC 5424, section 6.2.1."""


@final
@wire(until=Revision.V2025_11_25)
class SetLevelRequestParams(RequestParams):
    """Ask for log messages of a level and above. From 2026-07-28 on a key of each request's `_meta` does this."""

    level: LoggingLevel


@final
@wire
class LoggingMessageNotificationParams(NotificationParams):
    """One log message.

    Attributes:
        level: How severe it is.
        logger: The name of its source.
        data: Any JSON value, often a string or an object. All revisions require it, but some peers leave out
            every ``null``, and this one with them.
    """

    level: LoggingLevel
    logger: str | None = member(default=None, hint=True)
    _data: object | Absent = member(default=ABSENT, alias="data", required_in=tuple(Revision))

    @property
    def data(self) -> object:
        """What is logged; `None` if it is ``null`` or missing."""
        return None if self._data is ABSENT else self._data
