"""Where the hosts of models keep which servers they start: paths and formats, as their documentation has them.

Plain functions over paths; nothing is read or written here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ._configured import settings_folder, user_place


class Host(NamedTuple):
    """A host of models.

    Attributes:
        title: Its name, for people.
        member: The member of the configuration that holds the servers by name.
        user: Its file for the user, below `base` if it is relative.
        base: What `user` is below: the home, or where the system keeps the settings of programs.
        project: Its file for the project in the current directory; `None` if it has none.
        has_type: Whether an entry says of which type the server is.
    """

    title: str
    member: str
    user: str
    base: str = "home"
    project: str | None = None
    has_type: bool = False


HOSTS: Final[Mapping[str, Host]] = MappingProxyType(
    {
        "claude-desktop": Host(
            "Claude Desktop", "mcpServers", "Claude/claude_desktop_config.json", base="settings"
        ),
        "claude-code": Host("Claude Code", "mcpServers", ".claude.json", project=".mcp.json", has_type=True),
        "cursor": Host("Cursor", "mcpServers", ".cursor/mcp.json", project=".cursor/mcp.json"),
        "vscode": Host(
            "VS Code", "servers", "Code/User/mcp.json", base="settings", project=".vscode/mcp.json", has_type=True
        ),
        "windsurf": Host("Windsurf", "mcpServers", ".codeium/windsurf/mcp_config.json"),
        "gemini": Host("Gemini CLI", "mcpServers", ".gemini/settings.json", project=".gemini/settings.json"),
        "mcp-json": Host("mcp.json", "mcpServers", "", base="ours", project="mcp.json"),
    }
)
"""By the word for ``--to``. The last is no host but the file that this program reads itself."""


def user_file(host: Host) -> Path:
    """Return a host's file for this user."""
    if host.base == "ours":
        return user_place()
    return (settings_folder() if host.base == "settings" else Path.home()) / host.user


def entry_for(host: Host, spec: str, arguments: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Return what a host's configuration says of a server in a file: this interpreter runs it.

    Args:
        host: The host.
        spec: ``FILE[:object]``, with an absolute path: hosts start servers anywhere.
        arguments: The command line of the file.
        env: Variables that the server gets; hosts pass on few of their own.
    """
    entry: dict[str, Any] = {"type": "stdio"} if host.has_type else {}
    entry |= {"command": sys.executable, "args": ["-P", "-m", "trio_mcp", "run", spec]}
    if arguments:
        entry["args"] += ["--", *arguments]
    if env:
        entry["env"] = dict(env)
    return entry
