"""The door of the tests to wire types, JSON-RPC messages and their codec: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._codec import _json
from trio_mcp._codec._json import QUOTES as QUOTES
from trio_mcp._codec._json import SHORT as SHORT
from trio_mcp._codec._json import InvalidData as InvalidData
from trio_mcp._codec._json import beside_strings as beside_strings
from trio_mcp._codec._json import close_weight_of as close_weight_of
from trio_mcp._codec._json import cost_of as cost_of
from trio_mcp._codec._json import cost_of_json as cost_of_json
from trio_mcp._codec._json import decode as decode
from trio_mcp._codec._json import encode as encode
from trio_mcp._codec._json import is_array as is_array
from trio_mcp._codec._json import is_object as is_object
from trio_mcp._codec._json import located as located
from trio_mcp._codec._json import most_cost_of_json as most_cost_of_json
from trio_mcp._codec._json import most_weight as most_weight
from trio_mcp._codec._json import show as show
from trio_mcp._codec._json import stdlib_decode as stdlib_decode
from trio_mcp._codec._json import stdlib_encode as stdlib_encode
from trio_mcp._codec._json import without_middle as without_middle
from trio_mcp._codec._jsonrpc import ErrorResponse as ErrorResponse
from trio_mcp._codec._jsonrpc import InvalidMessage as InvalidMessage
from trio_mcp._codec._jsonrpc import Message as Message
from trio_mcp._codec._jsonrpc import Request as Request
from trio_mcp._codec._jsonrpc import Response as Response
from trio_mcp._codec._jsonrpc import answered_id as answered_id
from trio_mcp._codec._jsonrpc import answered_id_of_fragment as answered_id_of_fragment
from trio_mcp._codec._jsonrpc import encode_batch as encode_batch
from trio_mcp._codec._jsonrpc import encode_error as encode_error
from trio_mcp._codec._jsonrpc import encode_notification as encode_notification
from trio_mcp._codec._jsonrpc import encode_request as encode_request
from trio_mcp._codec._jsonrpc import encode_response as encode_response
from trio_mcp._codec._jsonrpc import from_wire as from_wire
from trio_mcp._codec._jsonrpc import id_of_fragment as id_of_fragment
from trio_mcp._codec._jsonrpc import invalid_request as invalid_request
from trio_mcp._codec._jsonrpc import is_request_fragment as is_request_fragment
from trio_mcp._codec._jsonrpc import parse_message as parse_message
from trio_mcp._codec._jsonrpc import to_wire as to_wire
from trio_mcp._codec._unstructure import downgrades_for as downgrades_for
from trio_mcp.types._fields import Member as Member
from trio_mcp.types._fields import Span as Span
from trio_mcp.types._fields import members as members
from trio_mcp.types._fields import options_of as options_of
from trio_mcp.types._fields import span_of as span_of
from trio_mcp.types._fields import wire as wire

json_module = _json
