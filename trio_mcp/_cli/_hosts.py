"""Where the hosts of models keep which servers they start: paths and formats, as their documentation has them.

Plain functions over paths; nothing is read or written here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from .._codec._json import is_array, is_object
from .._http._target import shown_url
from ._configured import settings_folder, user_place

HIDDEN: Final = "…"
"""What is shown in place of a secret."""


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


# What is shown of an entry.

_SECRET: Final = re.compile(r"key|token|secret|passw|pwd|auth|bearer|jwt|credential|cookie", re.IGNORECASE)
_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "dpop", "token"})
"""Words behind which credentials stand."""
_LOOKS_SECRET: Final = re.compile(r"(?:sk|pk|gh[opsu]|glpat|xox\w|AKIA|eyJ)[-_\w]{12,}")


def without_secrets(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry in which no value is shown that may be a secret.

    That is every variable of the environment, every header field, the query and the password of a URL, and of a
    command line, in whatever pieces it is written, what follows a word such as ``--api-key`` or ``Bearer``, and
    what looks like a token.
    """
    hidden: dict[str, Any] = {}
    for name, value in entry.items():
        if is_object(value):
            hidden[name] = dict.fromkeys(value, HIDDEN)
        elif is_array(value):
            hidden[name] = _arguments_without_secrets([str(each) for each in value])
        elif _SECRET.search(name) and not isinstance(value, bool):
            hidden[name] = HIDDEN
        else:
            hidden[name] = _arguments_without_secrets([value])[0] if isinstance(value, str) else value
    return hidden


def _arguments_without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command; one may be a command line of its own, as that of a shell is."""
    shown: list[str] = []
    is_next_secret = False
    for argument in arguments:
        words: list[str] = []
        for word in argument.split(" "):
            visible, is_next_secret = _without_secret(word, is_next_secret=is_next_secret)
            if visible != HIDDEN or words[-1:] != [HIDDEN]:
                words.append(visible)
        shown.append(" ".join(words))
        # What follows a header field is another argument, what follows an option is its value.
        is_next_secret = is_next_secret and argument.startswith("-") and " " not in argument
    return shown


def _without_secret(word: str, *, is_next_secret: bool) -> tuple[str, bool]:
    """Return what is shown of a word, and whether the next one is a secret."""
    bare = word.strip("'\"")
    name, equals, _ = word.partition("=")
    field, colon, rest = word.partition(":")
    if is_next_secret:
        return HIDDEN, bare.lower() in _SCHEMES or not bare
    if "://" in word:
        start = word.index("://")
        start = max(word.rfind(each, 0, start) for each in "='\"") + 1
        return word[:start] + shown_url(word[start:]), False
    if _LOOKS_SECRET.search(word):
        return HIDDEN, False
    if equals and _SECRET.search(name):
        return f"{name}={HIDDEN}", bare.partition("=")[2].lower() in _SCHEMES
    if colon and _SECRET.search(field):
        return f"{field}: {HIDDEN}" if rest else word, not rest or rest.lower() in _SCHEMES
    is_option = bare.startswith("-") and not equals and _SECRET.search(bare) is not None
    return word, is_option or bare.lower() in _SCHEMES
