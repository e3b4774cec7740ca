"""The door of the tests to a server's HTTP endpoint and what hosts it: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._endpoint._call import RequestLoans as RequestLoans
from trio_mcp._endpoint._event_store import count_against as count_against
from trio_mcp._endpoint._kept import TURN as TURN
from trio_mcp._endpoint._kept import KeptSession as KeptSession
from trio_mcp._endpoint._legacy import REPLACED_AT_ONCE as REPLACED_AT_ONCE
from trio_mcp._endpoint._session import STREAM_TIMEOUT as STREAM_TIMEOUT
from trio_mcp._endpoint._session import LegacySession as LegacySession
from trio_mcp._endpoint._session_channel import KEPT_FOR as KEPT_FOR
from trio_mcp._endpoint._session_channel import MAX_ID_LENGTH as MAX_ID_LENGTH
from trio_mcp._endpoint._session_channel import MAX_IDS as MAX_IDS
from trio_mcp._endpoint._session_channel import EarlyCancellations as EarlyCancellations
from trio_mcp._endpoint._session_channel import PostBody as PostBody
from trio_mcp._endpoint._shared import SharedStore as SharedStore
from trio_mcp._endpoint._shared import TakenSession as TakenSession
from trio_mcp._endpoint._streams import EventStream as EventStream
from trio_mcp._endpoint._streams import EventWriter as EventWriter
from trio_mcp._endpoint._streams import Unanswered as Unanswered
from trio_mcp._hosts import _lean
from trio_mcp._hosts._asgi import _path_of as _path_of
from trio_mcp._hosts._connections import ConnectionLimits as ConnectionLimits
from trio_mcp._hosts._connections import Connections as Connections
from trio_mcp._hosts._connections import OpenConnection as OpenConnection
from trio_mcp._hosts._lean import lean_connections as lean_connections
from trio_mcp._hosts._listening import accept_waiting as accept_waiting
from trio_mcp._hosts._requests import READ_BYTES as READ_BYTES
from trio_mcp._hosts._requests import ConnectionIO as ConnectionIO
from trio_mcp._hosts._requests import RequestBody as RequestBody
from trio_mcp._hosts._requests import RequestBuffer as RequestBuffer
from trio_mcp._hosts._requests import RequestHead as RequestHead
from trio_mcp._hosts._requests import SocketIO as SocketIO
from trio_mcp._hosts._requests import read_head as read_head
from trio_mcp._hosts._serve_http import _host as _host
from trio_mcp._hosts._serve_sockets import ServedChannel as ServedChannel
from trio_mcp._hosts._serve_sockets import StreamSocket as StreamSocket
from trio_mcp._hosts._serve_sockets import name_in as name_in

lean_module = _lean
