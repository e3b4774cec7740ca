"""What a client or a server says it can do. Spec: basic/lifecycle (basic/versioning from 2026-07-28 on).

A capability is there or not; the members of one that is there say more about it. `None` means "not declared".
"""

from collections.abc import Mapping
from typing import Final, final

from .._revisions import Revision
from ._fields import member, wire
from ._metadata import JSONObject

__all__ = [
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "ElicitationCapability",
    "ElicitationTaskRequests",
    "PromptsCapability",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "SamplingTaskRequests",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "ToolTaskRequests",
    "ToolsCapability",
]

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
