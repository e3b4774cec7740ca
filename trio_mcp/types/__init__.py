"""The objects of the Model Context Protocol: one class for each, whatever the revision.

Attributes are called what the specification calls the members, in Python's spelling; `meta` is `_meta`. What a
revision does not know is not sent to it, so an object can be made once and sent to any peer. Objects are
immutable; `evolve` makes a changed copy.

Nothing here does I/O or knows JSON. Requests, responses and errors as such are not objects of this package.
"""

from typing import TYPE_CHECKING, Final

from .._lazily import importer as _importer

if TYPE_CHECKING:
    from ._capabilities import ClientCapabilities as ClientCapabilities
    from ._capabilities import ClientTaskRequests as ClientTaskRequests
    from ._capabilities import ClientTasksCapability as ClientTasksCapability
    from ._capabilities import ElicitationCapability as ElicitationCapability
    from ._capabilities import ElicitationTaskRequests as ElicitationTaskRequests
    from ._capabilities import PromptsCapability as PromptsCapability
    from ._capabilities import ResourcesCapability as ResourcesCapability
    from ._capabilities import RootsCapability as RootsCapability
    from ._capabilities import SamplingCapability as SamplingCapability
    from ._capabilities import SamplingTaskRequests as SamplingTaskRequests
    from ._capabilities import ServerCapabilities as ServerCapabilities
    from ._capabilities import ServerTaskRequests as ServerTaskRequests
    from ._capabilities import ServerTasksCapability as ServerTasksCapability
    from ._capabilities import ToolsCapability as ToolsCapability
    from ._capabilities import ToolTaskRequests as ToolTaskRequests
    from ._completion import CompleteRequestParams as CompleteRequestParams
    from ._completion import CompleteResult as CompleteResult
    from ._completion import Completion as Completion
    from ._completion import CompletionArgument as CompletionArgument
    from ._completion import CompletionContext as CompletionContext
    from ._completion import PromptReference as PromptReference
    from ._completion import ResourceTemplateReference as ResourceTemplateReference
    from ._content import AudioContent as AudioContent
    from ._content import ContentBlock as ContentBlock
    from ._content import EmbeddedResource as EmbeddedResource
    from ._content import ImageContent as ImageContent
    from ._content import ResourceLink as ResourceLink
    from ._content import SamplingMessageContentBlock as SamplingMessageContentBlock
    from ._content import TextContent as TextContent
    from ._content import ToolResultContent as ToolResultContent
    from ._content import ToolUseContent as ToolUseContent
    from ._content import UnknownContent as UnknownContent
    from ._elicitation import BooleanSchema as BooleanSchema
    from ._elicitation import ElicitAction as ElicitAction
    from ._elicitation import ElicitationCompleteNotificationParams as ElicitationCompleteNotificationParams
    from ._elicitation import ElicitRequestFormParams as ElicitRequestFormParams
    from ._elicitation import ElicitRequestParams as ElicitRequestParams
    from ._elicitation import ElicitRequestURLParams as ElicitRequestURLParams
    from ._elicitation import ElicitResult as ElicitResult
    from ._elicitation import ElicitValue as ElicitValue
    from ._elicitation import EnumItems as EnumItems
    from ._elicitation import EnumOption as EnumOption
    from ._elicitation import EnumSchema as EnumSchema
    from ._elicitation import LegacyTitledEnumSchema as LegacyTitledEnumSchema
    from ._elicitation import MultiSelectEnumSchema as MultiSelectEnumSchema
    from ._elicitation import NumberSchema as NumberSchema
    from ._elicitation import PrimitiveSchemaDefinition as PrimitiveSchemaDefinition
    from ._elicitation import RequestedSchema as RequestedSchema
    from ._elicitation import SingleSelectEnumSchema as SingleSelectEnumSchema
    from ._elicitation import StringSchema as StringSchema
    from ._elicitation import TitledEnumItems as TitledEnumItems
    from ._elicitation import TitledMultiSelectEnumSchema as TitledMultiSelectEnumSchema
    from ._elicitation import TitledSingleSelectEnumSchema as TitledSingleSelectEnumSchema
    from ._elicitation import UntitledMultiSelectEnumSchema as UntitledMultiSelectEnumSchema
    from ._elicitation import UntitledSingleSelectEnumSchema as UntitledSingleSelectEnumSchema
    from ._error_data import MissingRequiredClientCapabilityData as MissingRequiredClientCapabilityData
    from ._error_data import UnsupportedProtocolVersionData as UnsupportedProtocolVersionData
    from ._error_data import URLElicitationRequiredData as URLElicitationRequiredData
    from ._fields import evolve as evolve
    from ._input_required import CreateMessageRequest as CreateMessageRequest
    from ._input_required import ElicitRequest as ElicitRequest
    from ._input_required import InputRequest as InputRequest
    from ._input_required import InputRequests as InputRequests
    from ._input_required import InputRequiredResult as InputRequiredResult
    from ._input_required import InputResponse as InputResponse
    from ._input_required import InputResponseRequestParams as InputResponseRequestParams
    from ._input_required import InputResponses as InputResponses
    from ._input_required import ListRootsRequest as ListRootsRequest
    from ._lifecycle import CancelledNotificationParams as CancelledNotificationParams
    from ._lifecycle import DiscoverResult as DiscoverResult
    from ._lifecycle import Implementation as Implementation
    from ._lifecycle import InitializeRequestParams as InitializeRequestParams
    from ._lifecycle import InitializeResult as InitializeResult
    from ._logging import LoggingLevel as LoggingLevel
    from ._logging import LoggingMessageNotificationParams as LoggingMessageNotificationParams
    from ._logging import SetLevelRequestParams as SetLevelRequestParams
    from ._messages import CacheableResult as CacheableResult
    from ._messages import CacheScope as CacheScope
    from ._messages import Cursor as Cursor
    from ._messages import EmptyResult as EmptyResult
    from ._messages import NotificationParams as NotificationParams
    from ._messages import PaginatedRequestParams as PaginatedRequestParams
    from ._messages import PaginatedResult as PaginatedResult
    from ._messages import ProgressToken as ProgressToken
    from ._messages import RequestId as RequestId
    from ._messages import RequestParams as RequestParams
    from ._messages import Result as Result
    from ._metadata import Annotations as Annotations
    from ._metadata import Icon as Icon
    from ._metadata import JSONObject as JSONObject
    from ._metadata import MetaObject as MetaObject
    from ._metadata import Role as Role
    from ._progress import ProgressNotificationParams as ProgressNotificationParams
    from ._prompt_gets import GetPromptRequestParams as GetPromptRequestParams
    from ._prompt_gets import GetPromptResult as GetPromptResult
    from ._prompts import ListPromptsResult as ListPromptsResult
    from ._prompts import Prompt as Prompt
    from ._prompts import PromptArgument as PromptArgument
    from ._prompts import PromptMessage as PromptMessage
    from ._resource_reads import ReadResourceRequestParams as ReadResourceRequestParams
    from ._resource_reads import ReadResourceResult as ReadResourceResult
    from ._resources import BlobResourceContents as BlobResourceContents
    from ._resources import ListResourcesResult as ListResourcesResult
    from ._resources import ListResourceTemplatesResult as ListResourceTemplatesResult
    from ._resources import Resource as Resource
    from ._resources import ResourceTemplate as ResourceTemplate
    from ._resources import ResourceUpdatedNotificationParams as ResourceUpdatedNotificationParams
    from ._resources import SubscribeRequestParams as SubscribeRequestParams
    from ._resources import TextResourceContents as TextResourceContents
    from ._resources import UnsubscribeRequestParams as UnsubscribeRequestParams
    from ._roots import ListRootsRequestParams as ListRootsRequestParams
    from ._roots import ListRootsResult as ListRootsResult
    from ._roots import Root as Root
    from ._sampling import CreateMessageRequestParams as CreateMessageRequestParams
    from ._sampling import CreateMessageResult as CreateMessageResult
    from ._sampling import IncludeContext as IncludeContext
    from ._sampling import ModelHint as ModelHint
    from ._sampling import ModelPreferences as ModelPreferences
    from ._sampling import SamplingMessage as SamplingMessage
    from ._sampling import ToolChoice as ToolChoice
    from ._subscriptions import SubscriptionFilter as SubscriptionFilter
    from ._subscriptions import (
        SubscriptionsAcknowledgedNotificationParams as SubscriptionsAcknowledgedNotificationParams,
    )
    from ._subscriptions import SubscriptionsListenRequestParams as SubscriptionsListenRequestParams
    from ._subscriptions import SubscriptionsListenResult as SubscriptionsListenResult
    from ._tasks import CancelTaskResult as CancelTaskResult
    from ._tasks import CreateTaskResult as CreateTaskResult
    from ._tasks import GetTaskResult as GetTaskResult
    from ._tasks import ListTasksResult as ListTasksResult
    from ._tasks import RelatedTaskMetadata as RelatedTaskMetadata
    from ._tasks import Task as Task
    from ._tasks import TaskMetadata as TaskMetadata
    from ._tasks import TaskRequestParams as TaskRequestParams
    from ._tasks import TaskStatus as TaskStatus
    from ._tasks import TaskStatusNotificationParams as TaskStatusNotificationParams
    from ._tool_calls import CallToolRequestParams as CallToolRequestParams
    from ._tool_results import CallToolResult as CallToolResult
    from ._tools import ListToolsResult as ListToolsResult
    from ._tools import TaskSupport as TaskSupport
    from ._tools import Tool as Tool
    from ._tools import ToolAnnotations as ToolAnnotations
    from ._tools import ToolExecution as ToolExecution

__all__ = [
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "BooleanSchema",
    "CacheScope",
    "CacheableResult",
    "CallToolRequestParams",
    "CallToolResult",
    "CancelTaskResult",
    "CancelledNotificationParams",
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "CompleteRequestParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "ContentBlock",
    "CreateMessageRequest",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "CreateTaskResult",
    "Cursor",
    "DiscoverResult",
    "ElicitAction",
    "ElicitRequest",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitValue",
    "ElicitationCapability",
    "ElicitationCompleteNotificationParams",
    "ElicitationTaskRequests",
    "EmbeddedResource",
    "EmptyResult",
    "EnumItems",
    "EnumOption",
    "EnumSchema",
    "GetPromptRequestParams",
    "GetPromptResult",
    "GetTaskResult",
    "Icon",
    "ImageContent",
    "Implementation",
    "IncludeContext",
    "InitializeRequestParams",
    "InitializeResult",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponseRequestParams",
    "InputResponses",
    "JSONObject",
    "LegacyTitledEnumSchema",
    "ListPromptsResult",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ListRootsRequest",
    "ListRootsRequestParams",
    "ListRootsResult",
    "ListTasksResult",
    "ListToolsResult",
    "LoggingLevel",
    "LoggingMessageNotificationParams",
    "MetaObject",
    "MissingRequiredClientCapabilityData",
    "ModelHint",
    "ModelPreferences",
    "MultiSelectEnumSchema",
    "NotificationParams",
    "NumberSchema",
    "PaginatedRequestParams",
    "PaginatedResult",
    "PrimitiveSchemaDefinition",
    "ProgressNotificationParams",
    "ProgressToken",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptReference",
    "PromptsCapability",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "RelatedTaskMetadata",
    "RequestId",
    "RequestParams",
    "RequestedSchema",
    "Resource",
    "ResourceLink",
    "ResourceTemplate",
    "ResourceTemplateReference",
    "ResourceUpdatedNotificationParams",
    "ResourcesCapability",
    "Result",
    "Role",
    "Root",
    "RootsCapability",
    "SamplingCapability",
    "SamplingMessage",
    "SamplingMessageContentBlock",
    "SamplingTaskRequests",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "SetLevelRequestParams",
    "SingleSelectEnumSchema",
    "StringSchema",
    "SubscribeRequestParams",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
    "Task",
    "TaskMetadata",
    "TaskRequestParams",
    "TaskStatus",
    "TaskStatusNotificationParams",
    "TaskSupport",
    "TextContent",
    "TextResourceContents",
    "TitledEnumItems",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolExecution",
    "ToolResultContent",
    "ToolTaskRequests",
    "ToolUseContent",
    "ToolsCapability",
    "URLElicitationRequiredData",
    "UnknownContent",
    "UnsubscribeRequestParams",
    "UnsupportedProtocolVersionData",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
    "evolve",
]

_HOMES: Final = {
    "Annotations": "_metadata",
    "AudioContent": "_content",
    "BlobResourceContents": "_resources",
    "BooleanSchema": "_elicitation",
    "CacheScope": "_messages",
    "CacheableResult": "_messages",
    "CallToolRequestParams": "_tool_calls",
    "CallToolResult": "_tool_results",
    "CancelTaskResult": "_tasks",
    "CancelledNotificationParams": "_lifecycle",
    "ClientCapabilities": "_capabilities",
    "ClientTaskRequests": "_capabilities",
    "ClientTasksCapability": "_capabilities",
    "CompleteRequestParams": "_completion",
    "CompleteResult": "_completion",
    "Completion": "_completion",
    "CompletionArgument": "_completion",
    "CompletionContext": "_completion",
    "ContentBlock": "_content",
    "CreateMessageRequest": "_input_required",
    "CreateMessageRequestParams": "_sampling",
    "CreateMessageResult": "_sampling",
    "CreateTaskResult": "_tasks",
    "Cursor": "_messages",
    "DiscoverResult": "_lifecycle",
    "ElicitAction": "_elicitation",
    "ElicitRequest": "_input_required",
    "ElicitRequestFormParams": "_elicitation",
    "ElicitRequestParams": "_elicitation",
    "ElicitRequestURLParams": "_elicitation",
    "ElicitResult": "_elicitation",
    "ElicitValue": "_elicitation",
    "ElicitationCapability": "_capabilities",
    "ElicitationCompleteNotificationParams": "_elicitation",
    "ElicitationTaskRequests": "_capabilities",
    "EmbeddedResource": "_content",
    "EmptyResult": "_messages",
    "EnumItems": "_elicitation",
    "EnumOption": "_elicitation",
    "EnumSchema": "_elicitation",
    "GetPromptRequestParams": "_prompt_gets",
    "GetPromptResult": "_prompt_gets",
    "GetTaskResult": "_tasks",
    "Icon": "_metadata",
    "ImageContent": "_content",
    "Implementation": "_lifecycle",
    "IncludeContext": "_sampling",
    "InitializeRequestParams": "_lifecycle",
    "InitializeResult": "_lifecycle",
    "InputRequest": "_input_required",
    "InputRequests": "_input_required",
    "InputRequiredResult": "_input_required",
    "InputResponse": "_input_required",
    "InputResponseRequestParams": "_input_required",
    "InputResponses": "_input_required",
    "JSONObject": "_metadata",
    "LegacyTitledEnumSchema": "_elicitation",
    "ListPromptsResult": "_prompts",
    "ListResourceTemplatesResult": "_resources",
    "ListResourcesResult": "_resources",
    "ListRootsRequest": "_input_required",
    "ListRootsRequestParams": "_roots",
    "ListRootsResult": "_roots",
    "ListTasksResult": "_tasks",
    "ListToolsResult": "_tools",
    "LoggingLevel": "_logging",
    "LoggingMessageNotificationParams": "_logging",
    "MetaObject": "_metadata",
    "MissingRequiredClientCapabilityData": "_error_data",
    "ModelHint": "_sampling",
    "ModelPreferences": "_sampling",
    "MultiSelectEnumSchema": "_elicitation",
    "NotificationParams": "_messages",
    "NumberSchema": "_elicitation",
    "PaginatedRequestParams": "_messages",
    "PaginatedResult": "_messages",
    "PrimitiveSchemaDefinition": "_elicitation",
    "ProgressNotificationParams": "_progress",
    "ProgressToken": "_messages",
    "Prompt": "_prompts",
    "PromptArgument": "_prompts",
    "PromptMessage": "_prompts",
    "PromptReference": "_completion",
    "PromptsCapability": "_capabilities",
    "ReadResourceRequestParams": "_resource_reads",
    "ReadResourceResult": "_resource_reads",
    "RelatedTaskMetadata": "_tasks",
    "RequestId": "_messages",
    "RequestParams": "_messages",
    "RequestedSchema": "_elicitation",
    "Resource": "_resources",
    "ResourceLink": "_content",
    "ResourceTemplate": "_resources",
    "ResourceTemplateReference": "_completion",
    "ResourceUpdatedNotificationParams": "_resources",
    "ResourcesCapability": "_capabilities",
    "Result": "_messages",
    "Role": "_metadata",
    "Root": "_roots",
    "RootsCapability": "_capabilities",
    "SamplingCapability": "_capabilities",
    "SamplingMessage": "_sampling",
    "SamplingMessageContentBlock": "_content",
    "SamplingTaskRequests": "_capabilities",
    "ServerCapabilities": "_capabilities",
    "ServerTaskRequests": "_capabilities",
    "ServerTasksCapability": "_capabilities",
    "SetLevelRequestParams": "_logging",
    "SingleSelectEnumSchema": "_elicitation",
    "StringSchema": "_elicitation",
    "SubscribeRequestParams": "_resources",
    "SubscriptionFilter": "_subscriptions",
    "SubscriptionsAcknowledgedNotificationParams": "_subscriptions",
    "SubscriptionsListenRequestParams": "_subscriptions",
    "SubscriptionsListenResult": "_subscriptions",
    "Task": "_tasks",
    "TaskMetadata": "_tasks",
    "TaskRequestParams": "_tasks",
    "TaskStatus": "_tasks",
    "TaskStatusNotificationParams": "_tasks",
    "TaskSupport": "_tools",
    "TextContent": "_content",
    "TextResourceContents": "_resources",
    "TitledEnumItems": "_elicitation",
    "TitledMultiSelectEnumSchema": "_elicitation",
    "TitledSingleSelectEnumSchema": "_elicitation",
    "Tool": "_tools",
    "ToolAnnotations": "_tools",
    "ToolChoice": "_sampling",
    "ToolExecution": "_tools",
    "ToolResultContent": "_content",
    "ToolTaskRequests": "_capabilities",
    "ToolUseContent": "_content",
    "ToolsCapability": "_capabilities",
    "URLElicitationRequiredData": "_error_data",
    "UnknownContent": "_content",
    "UnsubscribeRequestParams": "_resources",
    "UnsupportedProtocolVersionData": "_error_data",
    "UntitledMultiSelectEnumSchema": "_elicitation",
    "UntitledSingleSelectEnumSchema": "_elicitation",
    "evolve": "_fields",
}
"""Where each name lives that is imported when it is first asked for."""

if not TYPE_CHECKING:  # who checks types would take every name for one that is there
    __getattr__ = _importer(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
