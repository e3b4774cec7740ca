"""The door of the tests to the server: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._core._changes import LIST_CHANGES as LIST_CHANGES
from trio_mcp._core._changes import ListKind as ListKind
from trio_mcp._server import _files, _lifetimes
from trio_mcp._server._asking import MAX_PATH_LENGTH as MAX_PATH_LENGTH
from trio_mcp._server._asking import MAX_ROOTS as MAX_ROOTS
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
from trio_mcp._server._files import DirectorySource as DirectorySource
from trio_mcp._server._files import described_file as described_file
from trio_mcp._server._files import is_plain_name as is_plain_name
from trio_mcp._server._input_required import UsedStates as UsedStates
from trio_mcp._server._parking import open_service as open_service
from trio_mcp._server._prompts import PromptOptions as PromptOptions
from trio_mcp._server._reading import guess_type as guess_type
from trio_mcp._server._reading import sniff_type as sniff_type
from trio_mcp._server._reading import text_of as text_of
from trio_mcp._server._redis_scripts import ADD as ADD
from trio_mcp._server._resources import FunctionOptions as FunctionOptions
from trio_mcp._server._resources import ResourceOptions as ResourceOptions
from trio_mcp._server._sampling import conversation as conversation
from trio_mcp._server._sampling import sample as sample
from trio_mcp._server._server import Servable as Servable
from trio_mcp._server._session import ServerSession as ServerSession
from trio_mcp._server._session import _serving as _serving
from trio_mcp._server._skills import SkillCatalog as SkillCatalog
from trio_mcp._server._skills import SkillRoot as SkillRoot
from trio_mcp._server._threads import _Places as _Places
from trio_mcp._server._tools import ToolOptions as ToolOptions
from trio_mcp.types import _questions as _wire_questions

files_module = _files
lifetimes_module = _lifetimes
with_drive = _wire_questions._with_drive
