"""The door of the tests to the server: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._core._changes import LIST_CHANGES as LIST_CHANGES
from trio_mcp._core._changes import ListKind as ListKind
from trio_mcp._server import _files
from trio_mcp._server._asking import AskableClient as AskableClient
from trio_mcp._server._asking import LegacyInputRequester as LegacyInputRequester
from trio_mcp._server._asking import list_roots as list_roots
from trio_mcp._server._changes import ChangeHub as ChangeHub
from trio_mcp._server._context import AskingContext as AskingContext
from trio_mcp._server._elicitation import elicit as elicit
from trio_mcp._server._elicitation import elicit_url as elicit_url
from trio_mcp._server._elicitation import form_for as form_for
from trio_mcp._server._files import MAX_DEPTH as MAX_DEPTH
from trio_mcp._server._files import MAX_LINKS as MAX_LINKS
from trio_mcp._server._files import _described as _described
from trio_mcp._server._files import is_plain_name as is_plain_name
from trio_mcp._server._input_required import UsedStates as UsedStates
from trio_mcp._server._parking import open_service as open_service
from trio_mcp._server._reading import guess_type as guess_type
from trio_mcp._server._reading import sniff_type as sniff_type
from trio_mcp._server._reading import text_of as text_of
from trio_mcp._server._sampling import conversation as conversation
from trio_mcp._server._sampling import sample as sample
from trio_mcp._server._server import Servable as Servable
from trio_mcp._server._session import ServerSession as ServerSession
from trio_mcp._server._session import _serving as _serving
from trio_mcp._server._threads import Holder as Holder
from trio_mcp._server._threads import _Places as _Places

files_module = _files
