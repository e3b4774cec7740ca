"""The door of the tests to the transports: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._bindings._guarded_stream import GuardedStream as GuardedStream
from trio_mcp._bindings._http_client import StreamableHttpChannel as StreamableHttpChannel
from trio_mcp._bindings._http_client import open_streamable_http as open_streamable_http
from trio_mcp._bindings._http_messages import HttpInbox as HttpInbox
from trio_mcp._bindings._http_messages import headers_from as headers_from
from trio_mcp._bindings._process_posix import ProcessTree as ProcessTree
from trio_mcp._bindings._socket_client import parse_socket_url as parse_socket_url
from trio_mcp._bindings._stdio_client import KEPT_LINE_LENGTH as KEPT_LINE_LENGTH
from trio_mcp._bindings._stdio_client import KEPT_LINES as KEPT_LINES
from trio_mcp._bindings._stdio_client import MAX_PIECE as MAX_PIECE
from trio_mcp._bindings._stdio_client import ServerProcess as ServerProcess
from trio_mcp._bindings._stdio_client import Sink as Sink
from trio_mcp._bindings._stdio_client import StderrReader as StderrReader
from trio_mcp._bindings._stdio_client import TextPieces as TextPieces
from trio_mcp._bindings._stdio_client import check_sink as check_sink
from trio_mcp._bindings._stdio_client import open_process as open_process
from trio_mcp._bindings._stdio_client import open_sink as open_sink
from trio_mcp._bindings._stdio_server import _ThreadedReceiveStream as _ThreadedReceiveStream
from trio_mcp._bindings._stdio_server import open_stdio_channel as open_stdio_channel
from trio_mcp._bindings._websocket import MESSAGE_BYTES as MESSAGE_BYTES
from trio_mcp._bindings._websocket import WebSocketChannel as WebSocketChannel
from trio_mcp._bindings._websocket import accept as accept
from trio_mcp._bindings._websocket import open_websocket_channel as open_websocket_channel
from trio_mcp._bindings._websocket import propose as propose
from trio_mcp._bindings._websocket_client import HandshakeAnswer as HandshakeAnswer
from trio_mcp._bindings._websocket_client import StreamWire as StreamWire
from trio_mcp._http._client import ResponseRoom as ResponseRoom
