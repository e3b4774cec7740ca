"""What many objects of the protocol carry: `_meta`, annotations, icons, and the open objects of JSON.

No object with a purpose of its own lives here.

What the params and results of all methods have in common. No params or result of one method lives here.

The envelopes around them (`jsonrpc`, `id`, `method`, `error`) are JSON-RPC's and belong to the codec.

What a client or a server says it can do. Spec: basic/lifecycle (basic/versioning from 2026-07-28 on).

A capability is there or not; the members of one that is there say more about it. `None` means "not declared".

Getting to know each other, and giving up a request.

Spec: basic/lifecycle until 2025-11-25, server/discover from 2026-07-28 on; basic/patterns/cancellation
(basic/utilities/cancellation until 2025-11-25).

How far a request has come. Spec: basic/patterns/progress (basic/utilities/progress until 2025-11-25).

Log messages from server to client. Spec: server/utilities/logging. Deprecated since 2026-07-28 (SEP-2577).
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, final

from .._absent import ABSENT, Absent
from .._revisions import MODERN, Revision
from ._fields import member, wire

JSONObject: TypeAlias = Mapping[str, object]
"""A JSON object whose members the protocol does not say. It is passed on as it is, neither checked nor copied."""

MetaObject: TypeAlias = Mapping[str, object]
"""The content of `_meta`: reserved keys of the protocol, and keys with a prefix of whoever put them there.

Spec: 2026-07-28, basic, "`_meta`".
"""

Role: TypeAlias = Literal["user", "assistant"]
"""Who speaks, or is spoken to, in a conversation."""


@final
@wire
class Annotations:
    """Hints for a client about what to do with an object.

    Attributes:
        audience: Whom it is for.
        priority: How much it matters, from 0 (optional) to 1 (required).
        last_modified: When it last changed, as an ISO 8601 date and time.
    """

    audience: Sequence[Role] | None = member(default=None, hint=True)
    priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)
    last_modified: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire(since=Revision.V2025_11_25)
class Icon:
    """A picture that stands for something in a user interface.

    Where it comes from decides whether it can be trusted: fetch it without credentials, and be wary of scripts
    in SVG.

    Attributes:
        src: Its HTTPS or ``data:`` URI.
        mime_type: Its type, where that of the source is missing or too general.
        sizes: The sizes it is made for, each as ``"48x48"`` or ``"any"``.
        theme: The background it is made for; `None` if it suits every one.
    """

    src: str
    mime_type: str | None = member(default=None, hint=True)
    sizes: Sequence[str] | None = member(default=None, hint=True)
    theme: Literal["light", "dark"] | None = member(default=None, hint=True)


RequestId: TypeAlias = str | int
"""What a request is known by until it is answered."""

ProgressToken: TypeAlias = str | int
"""What ties a progress notification to the request it tells of."""

Cursor: TypeAlias = str
"""Where a page of a list begins. Only the server that made it can read it."""

CacheScope: TypeAlias = Literal["public", "private"]
"""Who may be served a kept result: everybody, or only who asked for it."""


@wire
class RequestParams:
    """What every request can say, and some say nothing else.

    Attributes:
        meta: From 2026-07-28 on it names the revision and the client's capabilities and is required.
    """

    meta: MetaObject | None = member(default=None, required_in=MODERN)


@final
@wire
class PaginatedRequestParams(RequestParams):
    """Ask for a list, or for more of it.

    Attributes:
        cursor: The `next_cursor` of the page before; `None` for the first page.
    """

    cursor: Cursor | None = None


@wire
class NotificationParams:
    """What every notification can say, and some say nothing else."""

    meta: MetaObject | None = None


@wire
class Result:
    """What every result can say, and some say nothing else.

    Attributes:
        result_type: ``"complete"``, ``"input_required"``, or a type an extension has added. Where it is missing,
            the peer's revision is older and the result is complete.
    """

    meta: MetaObject | None = member(default=None, hint=True)
    result_type: str = member(default="complete", since=Revision.V2026_07_28)


EmptyResult: TypeAlias = Result
"""A result that says no more than that all went well."""


@wire
class CacheableResult(Result):
    """A result that a client may keep for a while.

    Attributes:
        ttl_ms: For how many milliseconds it is fresh, at least 0. What is received may be less; take it for 0.
        cache_scope: Who may be served it.

    Spec: 2026-07-28, server/utilities/caching.
    """

    ttl_ms: int = member(default=0, hint=True, since=Revision.V2026_07_28, minimum=0)
    cache_scope: CacheScope = member(default="private", hint=True, since=Revision.V2026_07_28)


@wire
class PaginatedResult(CacheableResult):
    """One page of a list. In 2026-07-28 all that is paginated is cacheable as well.

    Attributes:
        next_cursor: Where the next page begins; `None` if this is the last.
    """

    next_cursor: Cursor | None = None


_TASKS: Final = Revision.V2025_11_25


@final
@wire
class RootsCapability:
    """The client has roots.

    Attributes:
        list_changed: Whether it tells when they change.
    """

    list_changed: bool | None = member(default=None, until=Revision.V2025_11_25)


@final
@wire
class SamplingCapability:
    """The client lets a server ask its model.

    Attributes:
        context: Declared if `CreateMessageRequestParams.include_context` is heeded.
        tools: Declared if the model may be given tools.
    """

    context: JSONObject | None = member(default=None, since=Revision.V2025_11_25)
    tools: JSONObject | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_06_18)
class ElicitationCapability:
    """The client lets a server ask its user.

    Attributes:
        form: Declared if it can show forms; so it can as well if it declares neither.
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
    """The client makes tasks of requests.

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
    """The server makes tasks of requests.

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
        tasks: Whether it makes tasks of requests.
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
        list_changed: Whether it tells when they change.
    """

    list_changed: bool | None = None


@final
@wire
class ResourcesCapability:
    """The server has resources.

    Attributes:
        subscribe: Whether it tells when one of them changes.
        list_changed: Whether it tells when others come or go.
    """

    subscribe: bool | None = None
    list_changed: bool | None = None


@final
@wire
class ToolsCapability:
    """The server has tools.

    Attributes:
        list_changed: Whether it tells when they change.
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
        tasks: Whether it makes tasks of requests.
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
"""The classes that declare what a peer can do."""


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


@final
@wire
class ProgressNotificationParams(NotificationParams):
    """Tell whoever sent a request how far it has come.

    Attributes:
        progress_token: The token that came with the request.
        progress: How much is done. It grows from one notification to the next.
        total: How much there is to do, if that is known.
        message: What is being done, for people.
    """

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = member(default=None, hint=True)
    message: str | None = member(default=None, hint=True, since=Revision.V2025_03_26)


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
        logger: What it comes from.
        data: Any JSON value, often a string or an object. All revisions require it, but peers that drop every
            ``null`` drop this one as well; then it is `ABSENT`.
    """

    level: LoggingLevel
    logger: str | None = member(default=None, hint=True)
    data: object | Absent = member(default=ABSENT, required_in=tuple(Revision))
