"""The door of the tests to the command line: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._cli import _benching, _main, _parser
from trio_mcp._cli._arguments import read_arguments as read_arguments
from trio_mcp._cli._configured import without_secrets as without_secrets
from trio_mcp._cli._conversation import _connected as _connected
from trio_mcp._cli._conversation import _converse as _converse
from trio_mcp._cli._conversation import _Interruption as _Interruption
from trio_mcp._cli._hosts import HOSTS as HOSTS
from trio_mcp._cli._layout import cells as cells
from trio_mcp._cli._layout import columns as columns
from trio_mcp._cli._layout import cut as cut
from trio_mcp._cli._layout import first_sentence as first_sentence
from trio_mcp._cli._layout import json_text as json_text
from trio_mcp._cli._layout import short_numbers as short_numbers
from trio_mcp._cli._layout import shown_text as shown_text
from trio_mcp._cli._layout import type_name as type_name
from trio_mcp._cli._layout import wrapped as wrapped
from trio_mcp._cli._main import main as main
from trio_mcp._cli._parser import COMMANDS as COMMANDS
from trio_mcp._cli._parser import STATUSES as STATUSES
from trio_mcp._cli._parser import Exit as Exit
from trio_mcp._cli._parser import Failure as Failure
from trio_mcp._cli._parser import Options as Options
from trio_mcp._cli._parser import read_command_line as read_command_line
from trio_mcp._cli._reloading import command_of as command_of
from trio_mcp._cli._targets import reached as reached

benching_module = _benching
main_module = _main
parser_module = _parser
