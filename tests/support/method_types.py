"""What the params and result of each method look like. Who may send it, and when, is in `trio_mcp._revisions`.

The package reads and writes each object where it is used, and needs no such table. No test lives here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, final

import attrs

from trio_mcp import types


@final
@attrs.frozen
class MethodTypes:
    """The types of a method.

    Attributes:
        params: A wire class, or a union of them.
        result: A wire class, for the final result. The answer can also be an `InputRequiredResult` (from
            2026-07-28 on) or a `CreateTaskResult` (2025-11-25, if a task was asked for). `None` for a
            notification, and for ``tasks/result``, whose result is that of the request which became the task.
    """

    params: Any
    result: Any = None


METHOD_TYPES: Final[Mapping[str, MethodTypes]] = MappingProxyType(
    {
        # Lifecycle
        "initialize": MethodTypes(types.InitializeRequestParams, types.InitializeResult),
        "notifications/initialized": MethodTypes(types.NotificationParams),
        "server/discover": MethodTypes(types.RequestParams, types.DiscoverResult),
        "ping": MethodTypes(types.RequestParams, types.EmptyResult),
        "notifications/cancelled": MethodTypes(types.CancelledNotificationParams),
        "notifications/progress": MethodTypes(types.ProgressNotificationParams),
        # Server features
        "tools/list": MethodTypes(types.PaginatedRequestParams, types.ListToolsResult),
        "tools/call": MethodTypes(types.CallToolRequestParams, types.CallToolResult),
        "notifications/tools/list_changed": MethodTypes(types.NotificationParams),
        "resources/list": MethodTypes(types.PaginatedRequestParams, types.ListResourcesResult),
        "resources/templates/list": MethodTypes(types.PaginatedRequestParams, types.ListResourceTemplatesResult),
        "resources/read": MethodTypes(types.ReadResourceRequestParams, types.ReadResourceResult),
        "resources/subscribe": MethodTypes(types.SubscribeRequestParams, types.EmptyResult),
        "resources/unsubscribe": MethodTypes(types.UnsubscribeRequestParams, types.EmptyResult),
        "notifications/resources/list_changed": MethodTypes(types.NotificationParams),
        "notifications/resources/updated": MethodTypes(types.ResourceUpdatedNotificationParams),
        "prompts/list": MethodTypes(types.PaginatedRequestParams, types.ListPromptsResult),
        "prompts/get": MethodTypes(types.GetPromptRequestParams, types.GetPromptResult),
        "notifications/prompts/list_changed": MethodTypes(types.NotificationParams),
        "completion/complete": MethodTypes(types.CompleteRequestParams, types.CompleteResult),
        "logging/setLevel": MethodTypes(types.SetLevelRequestParams, types.EmptyResult),
        "notifications/message": MethodTypes(types.LoggingMessageNotificationParams),
        "subscriptions/listen": MethodTypes(
            types.SubscriptionsListenRequestParams, types.SubscriptionsListenResult
        ),
        "notifications/subscriptions/acknowledged": MethodTypes(
            types.SubscriptionsAcknowledgedNotificationParams
        ),
        # Client features
        "roots/list": MethodTypes(types.ListRootsRequestParams, types.ListRootsResult),
        "notifications/roots/list_changed": MethodTypes(types.NotificationParams),
        "sampling/createMessage": MethodTypes(types.CreateMessageRequestParams, types.CreateMessageResult),
        "elicitation/create": MethodTypes(types.ElicitRequestParams, types.ElicitResult),
        "notifications/elicitation/complete": MethodTypes(types.ElicitationCompleteNotificationParams),
        # Tasks
        "tasks/get": MethodTypes(types.TaskRequestParams, types.GetTaskResult),
        "tasks/result": MethodTypes(types.TaskRequestParams),
        "tasks/list": MethodTypes(types.PaginatedRequestParams, types.ListTasksResult),
        "tasks/cancel": MethodTypes(types.TaskRequestParams, types.CancelTaskResult),
        "notifications/tasks/status": MethodTypes(types.TaskStatusNotificationParams),
    }
)
"""The types of every method in `trio_mcp._revisions.METHODS`."""
