"""The door of the tests to what every floor uses: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp import _errors, _revisions, _trio
from trio_mcp._audit import MAX_FIELD as MAX_FIELD
from trio_mcp._audit import Records as Records
from trio_mcp._audit import audit as audit
from trio_mcp._errors import CANCELLED_BY_DEADLINE as CANCELLED_BY_DEADLINE
from trio_mcp._errors import HEADER_MISMATCH as HEADER_MISMATCH
from trio_mcp._errors import INTERNAL_ERROR as INTERNAL_ERROR
from trio_mcp._errors import INVALID_PARAMS as INVALID_PARAMS
from trio_mcp._errors import INVALID_REQUEST as INVALID_REQUEST
from trio_mcp._errors import METHOD_NOT_FOUND as METHOD_NOT_FOUND
from trio_mcp._errors import MISSING_REQUIRED_CLIENT_CAPABILITY as MISSING_REQUIRED_CLIENT_CAPABILITY
from trio_mcp._errors import PARSE_ERROR as PARSE_ERROR
from trio_mcp._errors import SERVER_BUSY as SERVER_BUSY
from trio_mcp._errors import TRANSPORT_FAILED as TRANSPORT_FAILED
from trio_mcp._errors import UNSUPPORTED_PROTOCOL_VERSION as UNSUPPORTED_PROTOCOL_VERSION
from trio_mcp._limits import refuse_unknown as refuse_unknown
from trio_mcp._logs import FIRST as FIRST
from trio_mcp._logs import MAX_KINDS as MAX_KINDS
from trio_mcp._logs import PERIOD as PERIOD
from trio_mcp._logs import Log as Log
from trio_mcp._logs import Repetitions as Repetitions
from trio_mcp._logs import repetitions as repetitions
from trio_mcp._printable import MASK as MASK
from trio_mcp._printable import MAX_LINES as MAX_LINES
from trio_mcp._printable import MAX_PRINTED as MAX_PRINTED
from trio_mcp._printable import SECRET_PART as SECRET_PART
from trio_mcp._printable import printable as printable
from trio_mcp._printable import printable_lines as printable_lines
from trio_mcp._printable import secrets_in as secrets_in
from trio_mcp._printable import shown as shown
from trio_mcp._printable import shown_process as shown_process
from trio_mcp._printable import without_secrets as without_secrets
from trio_mcp._revisions import BATCH_REVISION as BATCH_REVISION
from trio_mcp._revisions import CLIENT_CAPABILITIES_KEY as CLIENT_CAPABILITIES_KEY
from trio_mcp._revisions import LATEST as LATEST
from trio_mcp._revisions import LATEST_LEGACY as LATEST_LEGACY
from trio_mcp._revisions import LEGACY as LEGACY
from trio_mcp._revisions import METHODS as METHODS
from trio_mcp._revisions import MODERN as MODERN
from trio_mcp._revisions import PROTOCOL_VERSION_KEY as PROTOCOL_VERSION_KEY
from trio_mcp._revisions import MethodRule as MethodRule
from trio_mcp._revisions import Side as Side
from trio_mcp._trio import READ_BYTES as READ_BYTES
from trio_mcp._trio import Contained as Contained
from trio_mcp._trio import LightParkingLot as LightParkingLot
from trio_mcp._trio import open_hidden_nursery as open_hidden_nursery
from trio_mcp._trio import open_unix_socket as open_unix_socket
from trio_mcp._trio import plain_stream as plain_stream
from trio_mcp._trio import propagating as propagating
from trio_mcp._trio import sole_error as sole_error

errors_module = _errors
revisions_module = _revisions
contained_module = _trio
