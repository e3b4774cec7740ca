"""What the params and result of each method look like. Who may send it, and when, is in `trio_mcp._revisions`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, final

import attrs

from ._features import (
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from ._protocol import (
    CancelledNotificationParams,
    DiscoverResult,
    EmptyResult,
    InitializeRequestParams,
    InitializeResult,
    LoggingMessageNotificationParams,
    NotificationParams,
    PaginatedRequestParams,
    ProgressNotificationParams,
    RequestParams,
    SetLevelRequestParams,
)
from ._questions import (
    CallToolRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCompleteNotificationParams,
    ElicitRequestParams,
    ElicitResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListRootsRequestParams,
    ListRootsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from ._tasks import (
    CancelTaskResult,
    GetTaskResult,
    ListTasksResult,
    TaskRequestParams,
    TaskStatusNotificationParams,
)


@final
@attrs.frozen
class MethodTypes:
    """The types of a method.

    Attributes:
        params: A wire class, or a union of them.
        result: A wire class, for the result that ends the matter. It can also be an `InputRequiredResult` (from
            2026-07-28 on) or a `CreateTaskResult` (2025-11-25, if a task was asked for). `None` for a
            notification, and for ``tasks/result``, whose result is that of the request which became the task.
    """

    params: Any
    result: Any = None


METHOD_TYPES: Final[Mapping[str, MethodTypes]] = MappingProxyType(
    {
        # Lifecycle
        "initialize": MethodTypes(InitializeRequestParams, InitializeResult),
        "notifications/initialized": MethodTypes(NotificationParams),
        "server/discover": MethodTypes(RequestParams, DiscoverResult),
        "ping": MethodTypes(RequestParams, EmptyResult),
        "notifications/cancelled": MethodTypes(CancelledNotificationParams),
        "notifications/progress": MethodTypes(ProgressNotificationParams),
        # Server features
        "tools/list": MethodTypes(PaginatedRequestParams, ListToolsResult),
        "tools/call": MethodTypes(CallToolRequestParams, CallToolResult),
        "notifications/tools/list_changed": MethodTypes(NotificationParams),
        "resources/list": MethodTypes(PaginatedRequestParams, ListResourcesResult),
        "resources/templates/list": MethodTypes(PaginatedRequestParams, ListResourceTemplatesResult),
        "resources/read": MethodTypes(ReadResourceRequestParams, ReadResourceResult),
        "resources/subscribe": MethodTypes(SubscribeRequestParams, EmptyResult),
        "resources/unsubscribe": MethodTypes(UnsubscribeRequestParams, EmptyResult),
        "notifications/resources/list_changed": MethodTypes(NotificationParams),
        "notifications/resources/updated": MethodTypes(ResourceUpdatedNotificationParams),
        "prompts/list": MethodTypes(PaginatedRequestParams, ListPromptsResult),
        "prompts/get": MethodTypes(GetPromptRequestParams, GetPromptResult),
        "notifications/prompts/list_changed": MethodTypes(NotificationParams),
        "completion/complete": MethodTypes(CompleteRequestParams, CompleteResult),
        "logging/setLevel": MethodTypes(SetLevelRequestParams, EmptyResult),
        "notifications/message": MethodTypes(LoggingMessageNotificationParams),
        "subscriptions/listen": MethodTypes(SubscriptionsListenRequestParams, SubscriptionsListenResult),
        "notifications/subscriptions/acknowledged": MethodTypes(SubscriptionsAcknowledgedNotificationParams),
        # Client features
        "roots/list": MethodTypes(ListRootsRequestParams, ListRootsResult),
        "notifications/roots/list_changed": MethodTypes(NotificationParams),
        "sampling/createMessage": MethodTypes(CreateMessageRequestParams, CreateMessageResult),
        "elicitation/create": MethodTypes(ElicitRequestParams, ElicitResult),
        "notifications/elicitation/complete": MethodTypes(ElicitationCompleteNotificationParams),
        # Tasks
        "tasks/get": MethodTypes(TaskRequestParams, GetTaskResult),
        "tasks/result": MethodTypes(TaskRequestParams),
        "tasks/list": MethodTypes(PaginatedRequestParams, ListTasksResult),
        "tasks/cancel": MethodTypes(TaskRequestParams, CancelTaskResult),
        "notifications/tasks/status": MethodTypes(TaskStatusNotificationParams),
    }
)
"""The types of every method in `trio_mcp._revisions.METHODS`."""
