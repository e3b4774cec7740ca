"""The door of the fuzzers to the readers of what others send that no other test names by themselves.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._auth._stores import FileTokenStore as FileTokenStore
from trio_mcp._cli._arguments import read_object as read_object
from trio_mcp._cli._configured import read_json as read_json
from trio_mcp._cli._configured import servers_in as servers_in
from trio_mcp._cli._installing import _in_words as _in_words
from trio_mcp._cli._layout import signature_of as signature_of
from trio_mcp._cli._parser import read_command_line as read_command_line
from trio_mcp._client._config import _object as _object
from trio_mcp._client._config import _Reader as _Reader
from trio_mcp._client._config import _Twice as _Twice
from trio_mcp._core._forms import check_tool_results as check_tool_results
from trio_mcp._core._frames import check_answer as check_answer
from trio_mcp._core._frames import wants_websocket as wants_websocket
from trio_mcp._core._http1 import answer_field as answer_field
from trio_mcp._core._http1 import closes as closes
from trio_mcp._core._http1 import framing_of as framing_of
from trio_mcp._core._uri_template import check_web_url as check_web_url
from trio_mcp._oauth._metadata import read_authorization_server as read_authorization_server
from trio_mcp._oauth._metadata import read_protected_resource as read_protected_resource
from trio_mcp._oauth._protected_resource import check_digest as check_digest
from trio_mcp._printable import shown_url as shown_url
from trio_mcp.testing._records import _Replay as _Replay
