"""The objects of the Model Context Protocol: one class for each, whatever the revision.

Attributes are called what the specification calls the members, in Python's spelling; `meta` is `_meta`. What a
revision does not know is not sent to it, so an object can be made once and sent to any peer. Objects are
immutable; `evolve` makes a changed copy.

Nothing here does I/O or knows JSON. Requests, responses and errors as such are not objects of this package.
"""

from typing import TYPE_CHECKING, Final

from .._lazily import importer as _importer

if TYPE_CHECKING:
    from ._features import AudioContent as AudioContent
    from ._features import BlobResourceContents as BlobResourceContents
    from ._features import CallToolResult as CallToolResult
    from ._features import CompleteRequestParams as CompleteRequestParams
    from ._features import CompleteResult as CompleteResult
    from ._features import Completion as Completion
    from ._features import CompletionArgument as CompletionArgument
    from ._features import CompletionContext as CompletionContext
    from ._features import ContentBlock as ContentBlock
    from ._features import EmbeddedResource as EmbeddedResource
    from ._features import ImageContent as ImageContent
    from ._features import ListPromptsResult as ListPromptsResult
    from ._features import ListResourcesResult as ListResourcesResult
    from ._features import ListResourceTemplatesResult as ListResourceTemplatesResult
    from ._features import ListToolsResult as ListToolsResult
    from ._features import Prompt as Prompt
    from ._features import PromptArgument as PromptArgument
    from ._features import PromptMessage as PromptMessage
    from ._features import PromptReference as PromptReference
    from ._features import Resource as Resource
    from ._features import ResourceLink as ResourceLink
    from ._features import ResourceTemplate as ResourceTemplate
    from ._features import ResourceTemplateReference as ResourceTemplateReference
    from ._features import ResourceUpdatedNotificationParams as ResourceUpdatedNotificationParams
    from ._features import SamplingMessageContentBlock as SamplingMessageContentBlock
    from ._features import SubscribeRequestParams as SubscribeRequestParams
    from ._features import SubscriptionFilter as SubscriptionFilter
    from ._features import (
        SubscriptionsAcknowledgedNotificationParams as SubscriptionsAcknowledgedNotificationParams,
    )
    from ._features import SubscriptionsListenRequestParams as SubscriptionsListenRequestParams
    from ._features import SubscriptionsListenResult as SubscriptionsListenResult
    from ._features import TaskSupport as TaskSupport
    from ._features import TextContent as TextContent
    from ._features import TextResourceContents as TextResourceContents
    from ._features import Tool as Tool
    from ._features import ToolAnnotations as ToolAnnotations
    from ._features import ToolExecution as ToolExecution
    from ._features import ToolResultContent as ToolResultContent
    from ._features import ToolUseContent as ToolUseContent
    from ._features import UnknownContent as UnknownContent
    from ._features import UnsubscribeRequestParams as UnsubscribeRequestParams
    from ._fields import evolve as evolve
    from ._protocol import Annotations as Annotations
    from ._protocol import CacheableResult as CacheableResult
    from ._protocol import CacheScope as CacheScope
    from ._protocol import CancelledNotificationParams as CancelledNotificationParams
    from ._protocol import ClientCapabilities as ClientCapabilities
    from ._protocol import ClientTaskRequests as ClientTaskRequests
    from ._protocol import ClientTasksCapability as ClientTasksCapability
    from ._protocol import Cursor as Cursor
    from ._protocol import DiscoverResult as DiscoverResult
    from ._protocol import ElicitationCapability as ElicitationCapability
    from ._protocol import ElicitationTaskRequests as ElicitationTaskRequests
    from ._protocol import EmptyResult as EmptyResult
    from ._protocol import Icon as Icon
    from ._protocol import Implementation as Implementation
    from ._protocol import InitializeRequestParams as InitializeRequestParams
    from ._protocol import InitializeResult as InitializeResult
    from ._protocol import JSONObject as JSONObject
    from ._protocol import LoggingLevel as LoggingLevel
    from ._protocol import LoggingMessageNotificationParams as LoggingMessageNotificationParams
    from ._protocol import MetaObject as MetaObject
    from ._protocol import NotificationParams as NotificationParams
    from ._protocol import PaginatedRequestParams as PaginatedRequestParams
    from ._protocol import PaginatedResult as PaginatedResult
    from ._protocol import ProgressNotificationParams as ProgressNotificationParams
    from ._protocol import ProgressToken as ProgressToken
    from ._protocol import PromptsCapability as PromptsCapability
    from ._protocol import RequestId as RequestId
    from ._protocol import RequestParams as RequestParams
    from ._protocol import ResourcesCapability as ResourcesCapability
    from ._protocol import Result as Result
    from ._protocol import Role as Role
    from ._protocol import RootsCapability as RootsCapability
    from ._protocol import SamplingCapability as SamplingCapability
    from ._protocol import SamplingTaskRequests as SamplingTaskRequests
    from ._protocol import ServerCapabilities as ServerCapabilities
    from ._protocol import ServerTaskRequests as ServerTaskRequests
    from ._protocol import ServerTasksCapability as ServerTasksCapability
    from ._protocol import SetLevelRequestParams as SetLevelRequestParams
    from ._protocol import ToolsCapability as ToolsCapability
    from ._protocol import ToolTaskRequests as ToolTaskRequests
    from ._questions import BooleanSchema as BooleanSchema
    from ._questions import CallToolRequestParams as CallToolRequestParams
    from ._questions import CreateMessageRequest as CreateMessageRequest
    from ._questions import CreateMessageRequestParams as CreateMessageRequestParams
    from ._questions import CreateMessageResult as CreateMessageResult
    from ._questions import ElicitAction as ElicitAction
    from ._questions import ElicitationCompleteNotificationParams as ElicitationCompleteNotificationParams
    from ._questions import ElicitRequest as ElicitRequest
    from ._questions import ElicitRequestFormParams as ElicitRequestFormParams
    from ._questions import ElicitRequestParams as ElicitRequestParams
    from ._questions import ElicitRequestURLParams as ElicitRequestURLParams
    from ._questions import ElicitResult as ElicitResult
    from ._questions import ElicitValue as ElicitValue
    from ._questions import EnumItems as EnumItems
    from ._questions import EnumOption as EnumOption
    from ._questions import EnumSchema as EnumSchema
    from ._questions import GetPromptRequestParams as GetPromptRequestParams
    from ._questions import GetPromptResult as GetPromptResult
    from ._questions import IncludeContext as IncludeContext
    from ._questions import InputRequest as InputRequest
    from ._questions import InputRequests as InputRequests
    from ._questions import InputRequiredResult as InputRequiredResult
    from ._questions import InputResponse as InputResponse
    from ._questions import InputResponseRequestParams as InputResponseRequestParams
    from ._questions import InputResponses as InputResponses
    from ._questions import LegacyTitledEnumSchema as LegacyTitledEnumSchema
    from ._questions import ListRootsRequest as ListRootsRequest
    from ._questions import ListRootsRequestParams as ListRootsRequestParams
    from ._questions import ListRootsResult as ListRootsResult
    from ._questions import MissingRequiredClientCapabilityData as MissingRequiredClientCapabilityData
    from ._questions import ModelHint as ModelHint
    from ._questions import ModelPreferences as ModelPreferences
    from ._questions import MultiSelectEnumSchema as MultiSelectEnumSchema
    from ._questions import NumberSchema as NumberSchema
    from ._questions import PrimitiveSchemaDefinition as PrimitiveSchemaDefinition
    from ._questions import ReadResourceRequestParams as ReadResourceRequestParams
    from ._questions import ReadResourceResult as ReadResourceResult
    from ._questions import RequestedSchema as RequestedSchema
    from ._questions import Root as Root
    from ._questions import SamplingMessage as SamplingMessage
    from ._questions import SingleSelectEnumSchema as SingleSelectEnumSchema
    from ._questions import StringSchema as StringSchema
    from ._questions import TitledEnumItems as TitledEnumItems
    from ._questions import TitledMultiSelectEnumSchema as TitledMultiSelectEnumSchema
    from ._questions import TitledSingleSelectEnumSchema as TitledSingleSelectEnumSchema
    from ._questions import ToolChoice as ToolChoice
    from ._questions import UnsupportedProtocolVersionData as UnsupportedProtocolVersionData
    from ._questions import UntitledMultiSelectEnumSchema as UntitledMultiSelectEnumSchema
    from ._questions import UntitledSingleSelectEnumSchema as UntitledSingleSelectEnumSchema
    from ._questions import URLElicitationRequiredData as URLElicitationRequiredData
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
    "Annotations": "_protocol",
    "AudioContent": "_features",
    "BlobResourceContents": "_features",
    "BooleanSchema": "_questions",
    "CacheScope": "_protocol",
    "CacheableResult": "_protocol",
    "CallToolRequestParams": "_questions",
    "CallToolResult": "_features",
    "CancelTaskResult": "_tasks",
    "CancelledNotificationParams": "_protocol",
    "ClientCapabilities": "_protocol",
    "ClientTaskRequests": "_protocol",
    "ClientTasksCapability": "_protocol",
    "CompleteRequestParams": "_features",
    "CompleteResult": "_features",
    "Completion": "_features",
    "CompletionArgument": "_features",
    "CompletionContext": "_features",
    "ContentBlock": "_features",
    "CreateMessageRequest": "_questions",
    "CreateMessageRequestParams": "_questions",
    "CreateMessageResult": "_questions",
    "CreateTaskResult": "_tasks",
    "Cursor": "_protocol",
    "DiscoverResult": "_protocol",
    "ElicitAction": "_questions",
    "ElicitRequest": "_questions",
    "ElicitRequestFormParams": "_questions",
    "ElicitRequestParams": "_questions",
    "ElicitRequestURLParams": "_questions",
    "ElicitResult": "_questions",
    "ElicitValue": "_questions",
    "ElicitationCapability": "_protocol",
    "ElicitationCompleteNotificationParams": "_questions",
    "ElicitationTaskRequests": "_protocol",
    "EmbeddedResource": "_features",
    "EmptyResult": "_protocol",
    "EnumItems": "_questions",
    "EnumOption": "_questions",
    "EnumSchema": "_questions",
    "GetPromptRequestParams": "_questions",
    "GetPromptResult": "_questions",
    "GetTaskResult": "_tasks",
    "Icon": "_protocol",
    "ImageContent": "_features",
    "Implementation": "_protocol",
    "IncludeContext": "_questions",
    "InitializeRequestParams": "_protocol",
    "InitializeResult": "_protocol",
    "InputRequest": "_questions",
    "InputRequests": "_questions",
    "InputRequiredResult": "_questions",
    "InputResponse": "_questions",
    "InputResponseRequestParams": "_questions",
    "InputResponses": "_questions",
    "JSONObject": "_protocol",
    "LegacyTitledEnumSchema": "_questions",
    "ListPromptsResult": "_features",
    "ListResourceTemplatesResult": "_features",
    "ListResourcesResult": "_features",
    "ListRootsRequest": "_questions",
    "ListRootsRequestParams": "_questions",
    "ListRootsResult": "_questions",
    "ListTasksResult": "_tasks",
    "ListToolsResult": "_features",
    "LoggingLevel": "_protocol",
    "LoggingMessageNotificationParams": "_protocol",
    "MetaObject": "_protocol",
    "MissingRequiredClientCapabilityData": "_questions",
    "ModelHint": "_questions",
    "ModelPreferences": "_questions",
    "MultiSelectEnumSchema": "_questions",
    "NotificationParams": "_protocol",
    "NumberSchema": "_questions",
    "PaginatedRequestParams": "_protocol",
    "PaginatedResult": "_protocol",
    "PrimitiveSchemaDefinition": "_questions",
    "ProgressNotificationParams": "_protocol",
    "ProgressToken": "_protocol",
    "Prompt": "_features",
    "PromptArgument": "_features",
    "PromptMessage": "_features",
    "PromptReference": "_features",
    "PromptsCapability": "_protocol",
    "ReadResourceRequestParams": "_questions",
    "ReadResourceResult": "_questions",
    "RelatedTaskMetadata": "_tasks",
    "RequestId": "_protocol",
    "RequestParams": "_protocol",
    "RequestedSchema": "_questions",
    "Resource": "_features",
    "ResourceLink": "_features",
    "ResourceTemplate": "_features",
    "ResourceTemplateReference": "_features",
    "ResourceUpdatedNotificationParams": "_features",
    "ResourcesCapability": "_protocol",
    "Result": "_protocol",
    "Role": "_protocol",
    "Root": "_questions",
    "RootsCapability": "_protocol",
    "SamplingCapability": "_protocol",
    "SamplingMessage": "_questions",
    "SamplingMessageContentBlock": "_features",
    "SamplingTaskRequests": "_protocol",
    "ServerCapabilities": "_protocol",
    "ServerTaskRequests": "_protocol",
    "ServerTasksCapability": "_protocol",
    "SetLevelRequestParams": "_protocol",
    "SingleSelectEnumSchema": "_questions",
    "StringSchema": "_questions",
    "SubscribeRequestParams": "_features",
    "SubscriptionFilter": "_features",
    "SubscriptionsAcknowledgedNotificationParams": "_features",
    "SubscriptionsListenRequestParams": "_features",
    "SubscriptionsListenResult": "_features",
    "Task": "_tasks",
    "TaskMetadata": "_tasks",
    "TaskRequestParams": "_tasks",
    "TaskStatus": "_tasks",
    "TaskStatusNotificationParams": "_tasks",
    "TaskSupport": "_features",
    "TextContent": "_features",
    "TextResourceContents": "_features",
    "TitledEnumItems": "_questions",
    "TitledMultiSelectEnumSchema": "_questions",
    "TitledSingleSelectEnumSchema": "_questions",
    "Tool": "_features",
    "ToolAnnotations": "_features",
    "ToolChoice": "_questions",
    "ToolExecution": "_features",
    "ToolResultContent": "_features",
    "ToolTaskRequests": "_protocol",
    "ToolUseContent": "_features",
    "ToolsCapability": "_protocol",
    "URLElicitationRequiredData": "_questions",
    "UnknownContent": "_features",
    "UnsubscribeRequestParams": "_features",
    "UnsupportedProtocolVersionData": "_questions",
    "UntitledMultiSelectEnumSchema": "_questions",
    "UntitledSingleSelectEnumSchema": "_questions",
    "evolve": "_fields",
}
"""Where each name lives that is imported when it is first asked for."""

if not TYPE_CHECKING:  # who checks types would take every name for one that is there
    __getattr__ = _importer(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
