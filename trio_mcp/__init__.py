"""The Model Context Protocol for Trio: structured concurrency all the way to the wire.

Imports point down only. The floors, lowest first:

    _absent, _version, _printable
    _errors, _logs, _lazily, _limits, _revisions, _trio
    types                    what is on the wire, one class per concept
    _codec                   bytes, JSON-RPC messages, wire types
    _core                    the rules of the protocol, without I/O
    _channel                 what a transport must give
    _http                    HTTP/1.1 as a client speaks it
    _bindings                the transports
    _peer                    one end of one connection
    _schema                  from Python signatures to JSON Schema and back
    _client, _server         what users touch; neither knows the other
    _endpoint                a server's HTTP endpoint, both eras
    _hosts                   what carries it: ASGI, Hypercorn
    this module
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any, Final

from ._absent import ABSENT as ABSENT
from ._absent import Absent as Absent
from ._errors import ConnectionLost as ConnectionLost
from ._errors import HttpStatusError as HttpStatusError
from ._errors import Lagged as Lagged
from ._errors import LocalProtocolError as LocalProtocolError
from ._errors import McpError as McpError
from ._errors import ProtocolError as ProtocolError
from ._errors import RemoteProtocolError as RemoteProtocolError
from ._errors import RequestError as RequestError
from ._errors import ResourceNotFound as ResourceNotFound
from ._errors import SessionLost as SessionLost
from ._errors import ToolError as ToolError
from ._lazily import importer as _importer
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from . import types as types
    from ._bindings._http_messages import HeaderSource as HeaderSource
    from ._bindings._http_messages import HttpServerParameters as HttpServerParameters
    from ._bindings._memory import MemoryChannel as MemoryChannel
    from ._bindings._memory import memory_channel_pair as memory_channel_pair
    from ._bindings._stdio_client import StderrSink as StderrSink
    from ._bindings._stdio_client import StdioServerParameters as StdioServerParameters
    from ._bindings._stream import StreamChannel as StreamChannel
    from ._channel import Channel as Channel
    from ._channel import Incoming as Incoming
    from ._channel import Origin as Origin
    from ._channel import OriginGone as OriginGone
    from ._channel import Outgoing as Outgoing
    from ._channel import Received as Received
    from ._channel import TooLarge as TooLarge
    from ._client._caches import CacheStatistics as CacheStatistics
    from ._client._caches import ResponseCache as ResponseCache
    from ._client._client import Client as Client
    from ._client._client import PageIterator as PageIterator
    from ._client._client import Pages as Pages
    from ._client._dispatch import ClientExtension as ClientExtension
    from ._client._dispatch import ExtensionClient as ExtensionClient
    from ._client._dispatch import ExtensionNotificationHandler as ExtensionNotificationHandler
    from ._client._dispatch import OnLog as OnLog
    from ._client._dispatch import OnNotification as OnNotification
    from ._client._dispatch import ResultHandler as ResultHandler
    from ._client._listen import Events as Events
    from ._client._low_level import ListOptions as ListOptions
    from ._client._low_level import ProgressTarget as ProgressTarget
    from ._client._low_level import WorkOptions as WorkOptions
    from ._client._open import ClientOptions as ClientOptions
    from ._client._open import Era as Era
    from ._client._open import open_client as open_client
    from ._client._open import run_client as run_client
    from ._client._questions import ElicitAnswer as ElicitAnswer
    from ._client._questions import ElicitMode as ElicitMode
    from ._client._questions import OnElicit as OnElicit
    from ._client._questions import OnElicitationComplete as OnElicitationComplete
    from ._client._questions import OnSample as OnSample
    from ._client._questions import RequestHandler as RequestHandler
    from ._client._questions import RootLike as RootLike
    from ._client._questions import Roots as Roots
    from ._client._questions import SampleAnswer as SampleAnswer
    from ._client._open import ServesChannels as ServesChannels
    from ._client._open import Target as Target
    from ._codec._jsonrpc import Encoded as Encoded
    from ._codec._jsonrpc import Notification as Notification
    from ._codec._jsonrpc import RequestId as RequestId
    from ._core._account import PoolStatistics as PoolStatistics
    from ._core._changes import Change as Change
    from ._core._changes import PromptsListChanged as PromptsListChanged
    from ._core._changes import ResourcesListChanged as ResourcesListChanged
    from ._core._changes import ResourceUpdated as ResourceUpdated
    from ._core._changes import Resynced as Resynced
    from ._core._changes import ToolsListChanged as ToolsListChanged
    from ._core._http_rules import HttpRefused as HttpRefused
    from ._core._http_rules import HttpServerSettings as HttpServerSettings
    from ._core._reconnect import RestartPolicy as RestartPolicy
    from ._core._uri_template import TemplateValue as TemplateValue
    from ._core._uri_template import UriTemplate as UriTemplate
    from ._endpoint._call import Authenticate as Authenticate
    from ._endpoint._call import HttpCall as HttpCall
    from ._endpoint._endpoint import Endpoint as Endpoint
    from ._endpoint._endpoint import EndpointStatistics as EndpointStatistics
    from ._endpoint._endpoint import open_endpoint as open_endpoint
    from ._endpoint._event_store import EventStore as EventStore
    from ._endpoint._event_store import MemoryEventStore as MemoryEventStore
    from ._endpoint._event_store import StoredEvent as StoredEvent
    from ._endpoint._sqlite_events import SqliteEventStore as SqliteEventStore
    from ._endpoint._sqlite_events import open_sqlite_event_store as open_sqlite_event_store
    from ._hosts._asgi import McpASGI as McpASGI
    from ._hosts._serve_http import serve_http as serve_http
    from ._http._asgi import AsgiApplication as AsgiApplication
    from ._http._asgi import AsgiClient as AsgiClient
    from ._http._asgi import open_asgi_client as open_asgi_client
    from ._http._target import HttpSettings as HttpSettings
    from ._limits import Limits as Limits
    from ._peer._call import SilenceScope as SilenceScope
    from ._peer._call import fail_after_silence as fail_after_silence
    from ._peer._exchange import OnProgress as OnProgress
    from ._peer._exchange import Progress as Progress
    from ._peer._middleware import CallNext as CallNext
    from ._peer._middleware import Message as Message
    from ._peer._middleware import Middleware as Middleware
    from ._peer._outbox import OnFrame as OnFrame
    from ._peer._peer import PeerStatistics as PeerStatistics
    from ._revisions import Revision as Revision
    from ._schema import Field as Field
    from ._server._application import MethodHandler as MethodHandler
    from ._server._application import ServerExtension as ServerExtension
    from ._server._asking import CapabilityMissing as CapabilityMissing
    from ._server._context import Context as Context
    from ._server._context import NotificationContext as NotificationContext
    from ._server._context import NotificationHandler as NotificationHandler
    from ._server._context import ProgressReporter as ProgressReporter
    from ._server._elicitation import Elicitation as Elicitation
    from ._server._elicitation import URLElicitationRequired as URLElicitationRequired
    from ._server._functions import Depends as Depends
    from ._server._input_required import ExtensionResult as ExtensionResult
    from ._server._input_required import InputRequired as InputRequired
    from ._server._lifetimes import Shutdown as Shutdown
    from ._server._listing import CacheHint as CacheHint
    from ._server._log_handler import LogHandler as LogHandler
    from ._server._media import Audio as Audio
    from ._server._media import File as File
    from ._server._media import Image as Image
    from ._server._prompts import assistant_message as assistant_message
    from ._server._prompts import user_message as user_message
    from ._server._sampling import Preferences as Preferences
    from ._server._sampling import SamplingInput as SamplingInput
    from ._server._serve import run_until_signal as run_until_signal
    from ._server._serve import serve_stdio as serve_stdio
    from ._server._server import RunningServer as RunningServer
    from ._server._server import Server as Server

__all__ = [
    "ABSENT",
    "Absent",
    "AsgiApplication",
    "AsgiClient",
    "Audio",
    "Authenticate",
    "CacheHint",
    "CacheStatistics",
    "CallNext",
    "CapabilityMissing",
    "Change",
    "Channel",
    "Client",
    "ClientExtension",
    "ClientOptions",
    "ConnectionLost",
    "Context",
    "Depends",
    "ElicitAnswer",
    "ElicitMode",
    "Elicitation",
    "Encoded",
    "Endpoint",
    "EndpointStatistics",
    "Era",
    "EventStore",
    "Events",
    "ExtensionClient",
    "ExtensionNotificationHandler",
    "ExtensionResult",
    "Field",
    "File",
    "HeaderSource",
    "HttpCall",
    "HttpRefused",
    "HttpServerParameters",
    "HttpServerSettings",
    "HttpSettings",
    "HttpStatusError",
    "Image",
    "Incoming",
    "InputRequired",
    "Lagged",
    "Limits",
    "ListOptions",
    "LocalProtocolError",
    "LogHandler",
    "McpASGI",
    "McpError",
    "MemoryChannel",
    "MemoryEventStore",
    "Message",
    "MethodHandler",
    "Middleware",
    "Notification",
    "NotificationContext",
    "NotificationHandler",
    "OnElicit",
    "OnElicitationComplete",
    "OnFrame",
    "OnLog",
    "OnNotification",
    "OnProgress",
    "OnSample",
    "Origin",
    "OriginGone",
    "Outgoing",
    "PageIterator",
    "Pages",
    "PeerStatistics",
    "PoolStatistics",
    "Preferences",
    "Progress",
    "ProgressReporter",
    "ProgressTarget",
    "PromptsListChanged",
    "ProtocolError",
    "Received",
    "RemoteProtocolError",
    "RequestError",
    "RequestHandler",
    "RequestId",
    "ResourceNotFound",
    "ResourceUpdated",
    "ResourcesListChanged",
    "ResponseCache",
    "RestartPolicy",
    "ResultHandler",
    "Resynced",
    "Revision",
    "RootLike",
    "Roots",
    "RunningServer",
    "SampleAnswer",
    "SamplingInput",
    "Server",
    "ServerExtension",
    "ServesChannels",
    "SessionLost",
    "Shutdown",
    "SilenceScope",
    "SqliteEventStore",
    "StderrSink",
    "StdioServerParameters",
    "StoredEvent",
    "StreamChannel",
    "Target",
    "TemplateValue",
    "TooLarge",
    "ToolError",
    "ToolsListChanged",
    "URLElicitationRequired",
    "UriTemplate",
    "WorkOptions",
    "__version__",
    "assistant_message",
    "fail_after_silence",
    "memory_channel_pair",
    "open_asgi_client",
    "open_client",
    "open_endpoint",
    "open_sqlite_event_store",
    "run_client",
    "run_until_signal",
    "serve_http",
    "serve_stdio",
    "types",
    "user_message",
]

_HOMES: Final = {
    "AsgiApplication": "_http._asgi",
    "AsgiClient": "_http._asgi",
    "Audio": "_server._media",
    "Authenticate": "_endpoint._call",
    "CacheHint": "_server._listing",
    "CacheStatistics": "_client._caches",
    "CallNext": "_peer._middleware",
    "CapabilityMissing": "_server._asking",
    "Change": "_core._changes",
    "Channel": "_channel",
    "Client": "_client._client",
    "ClientExtension": "_client._dispatch",
    "ClientOptions": "_client._open",
    "Context": "_server._context",
    "Depends": "_server._functions",
    "ElicitAnswer": "_client._questions",
    "ElicitMode": "_client._questions",
    "Elicitation": "_server._elicitation",
    "Encoded": "_codec._jsonrpc",
    "Endpoint": "_endpoint._endpoint",
    "EndpointStatistics": "_endpoint._endpoint",
    "Era": "_client._open",
    "EventStore": "_endpoint._event_store",
    "Events": "_client._listen",
    "ExtensionClient": "_client._dispatch",
    "ExtensionNotificationHandler": "_client._dispatch",
    "ExtensionResult": "_server._input_required",
    "Field": "_schema",
    "File": "_server._media",
    "HeaderSource": "_bindings._http_messages",
    "HttpCall": "_endpoint._call",
    "HttpRefused": "_core._http_rules",
    "HttpServerParameters": "_bindings._http_messages",
    "HttpServerSettings": "_core._http_rules",
    "HttpSettings": "_http._target",
    "Image": "_server._media",
    "Incoming": "_channel",
    "InputRequired": "_server._input_required",
    "Limits": "_limits",
    "ListOptions": "_client._low_level",
    "LogHandler": "_server._log_handler",
    "McpASGI": "_hosts._asgi",
    "MemoryChannel": "_bindings._memory",
    "MemoryEventStore": "_endpoint._event_store",
    "Message": "_peer._middleware",
    "MethodHandler": "_server._application",
    "Middleware": "_peer._middleware",
    "Notification": "_codec._jsonrpc",
    "NotificationContext": "_server._context",
    "NotificationHandler": "_server._context",
    "OnElicit": "_client._questions",
    "OnElicitationComplete": "_client._questions",
    "OnFrame": "_peer._outbox",
    "OnLog": "_client._dispatch",
    "OnNotification": "_client._dispatch",
    "OnProgress": "_peer._exchange",
    "OnSample": "_client._questions",
    "Origin": "_channel",
    "OriginGone": "_channel",
    "Outgoing": "_channel",
    "PageIterator": "_client._client",
    "Pages": "_client._client",
    "PeerStatistics": "_peer._peer",
    "PoolStatistics": "_core._account",
    "Preferences": "_server._sampling",
    "Progress": "_peer._exchange",
    "ProgressReporter": "_server._context",
    "ProgressTarget": "_client._low_level",
    "PromptsListChanged": "_core._changes",
    "Received": "_channel",
    "RequestHandler": "_client._questions",
    "RequestId": "_codec._jsonrpc",
    "ResourceUpdated": "_core._changes",
    "ResourcesListChanged": "_core._changes",
    "ResponseCache": "_client._caches",
    "RestartPolicy": "_core._reconnect",
    "ResultHandler": "_client._dispatch",
    "Resynced": "_core._changes",
    "Revision": "_revisions",
    "RootLike": "_client._questions",
    "Roots": "_client._questions",
    "RunningServer": "_server._server",
    "SampleAnswer": "_client._questions",
    "SamplingInput": "_server._sampling",
    "Server": "_server._server",
    "ServerExtension": "_server._application",
    "ServesChannels": "_client._open",
    "Shutdown": "_server._lifetimes",
    "SilenceScope": "_peer._call",
    "SqliteEventStore": "_endpoint._sqlite_events",
    "StderrSink": "_bindings._stdio_client",
    "StdioServerParameters": "_bindings._stdio_client",
    "StoredEvent": "_endpoint._event_store",
    "StreamChannel": "_bindings._stream",
    "Target": "_client._open",
    "TemplateValue": "_core._uri_template",
    "TooLarge": "_channel",
    "ToolsListChanged": "_core._changes",
    "URLElicitationRequired": "_server._elicitation",
    "UriTemplate": "_core._uri_template",
    "WorkOptions": "_client._low_level",
    "assistant_message": "_server._prompts",
    "fail_after_silence": "_peer._call",
    "memory_channel_pair": "_bindings._memory",
    "open_asgi_client": "_http._asgi",
    "open_client": "_client._open",
    "open_endpoint": "_endpoint._endpoint",
    "open_sqlite_event_store": "_endpoint._sqlite_events",
    "run_client": "_client._open",
    "run_until_signal": "_server._serve",
    "serve_http": "_hosts._serve_http",
    "serve_stdio": "_server._serve",
    "types": "types",
    "user_message": "_server._prompts",
}
"""Where each name lives that is imported when it is first asked for."""

if not TYPE_CHECKING:  # who checks types would take every name for one that is there
    _import: Final = _importer(__name__, _HOMES)

    def __getattr__(name: str) -> Any:
        value = _import(name)
        if name == "Server":
            # Servers do not know the floors above them, and most of them are never asked to serve HTTP.
            _import_module("._server._serve", __name__).register_http(_run_http)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _run_http(*args: Any, **options: Any) -> None:
    _import_module("._hosts._serve_http", __name__).run_http(*args, **options)


# What users catch or compare is here from the start, and says so.
for _public in [globals()[_name] for _name in __all__ if _name in globals()]:
    if getattr(_public, "__module__", "").startswith(f"{__name__}._") and hasattr(_public, "__qualname__"):
        _public.__module__ = __name__
