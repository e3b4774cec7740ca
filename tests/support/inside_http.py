"""The door of the tests to HTTP/1.1 as a client speaks it: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._http import _client
from trio_mcp._http._auth import Reached as Reached
from trio_mcp._http._auth import error_without_secrets as error_without_secrets
from trio_mcp._http._client import ConnectionPool as ConnectionPool
from trio_mcp._http._client import HttpClient as HttpClient
from trio_mcp._http._client import open_http_client as open_http_client
from trio_mcp._http._client import send_following as send_following
from trio_mcp._http._connection import Dialer as Dialer
from trio_mcp._http._connection import HttpConnection as HttpConnection
from trio_mcp._http._connection import proxy_for as proxy_for
from trio_mcp._http._cookies import CookieJar as CookieJar
from trio_mcp._http._messages import HttpRequest as HttpRequest
from trio_mcp._http._messages import HttpResponse as HttpResponse
from trio_mcp._http._messages import HttpTransport as HttpTransport
from trio_mcp._http._messages import ResponseReader as ResponseReader
from trio_mcp._http._messages import decoded_excerpt as decoded_excerpt
from trio_mcp._http._messages import encode_head as encode_head
from trio_mcp._http._target import HttpTarget as HttpTarget
from trio_mcp._http._target import parse_target as parse_target
from trio_mcp._http._target import read_proxy as read_proxy

client_module = _client
