"""Servers that an ``mcp.json`` names: `configured` finds one, `configurations` all of them.

The format is the one that hosts share: ``{"mcpServers": {"name": {"command": …} or {"url": …}}}``; VS Code calls
the outer member ``servers``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import trio

from .._bindings._stdio_client import StdioServerParameters
from .._client._config import DOCUMENT_KEYS, parse_config, read_config
from .._client._open import Target
from .._codec._json import is_array, is_object
from .._errors import ConfigError
from .._printable import HIDDEN, SECRET_WORD, arguments_without_secrets
from ._layout import shown_line
from ._parser import Exit, Failure


def places(config: str | None) -> tuple[Path, ...]:
    """Return the files in which a name is looked up, the first that has it counts.

    Args:
        config: The only file to look at, if it was given.
    """
    if config is not None:
        return (Path(config),)
    return (Path("mcp.json"), Path(".mcp.json"), user_place())


def user_place() -> Path:
    """Return the file for all directories: ``~/.config/mcp/mcp.json``, or where the system keeps such files."""
    # On macOS, too, where programs without windows use the same folder as elsewhere.
    return settings_folder("linux" if sys.platform == "darwin" else sys.platform) / "mcp" / "mcp.json"


def settings_folder(platform: str = sys.platform) -> Path:
    """Return where programs with windows keep their settings on a system."""
    if platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def read_json(path: Path, parse: Callable[[str], object] = json.loads) -> dict[str, Any] | None:
    """Return the object in a file of JSON, or `None` if there is no such file.

    What is written again is read strictly: comments would be lost.

    Raises:
        Failure: It cannot be read, or is not an object.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        value: object = parse(text) if text.strip() else {}
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(Exit.USAGE, f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, or no JSON
        raise Failure(Exit.USAGE, f"{path} is not JSON: {error}") from None
    if not is_object(value):
        raise Failure(Exit.USAGE, f"{path} must hold a JSON object")
    return value


def servers_in(value: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the servers of a configuration, by name. What is no server is left out."""
    return {name: entry for name, entry in _entries_in(value).items() if is_object(entry)}


def _entries_in(value: Mapping[str, Any]) -> Mapping[str, Any]:
    for member in DOCUMENT_KEYS:
        servers: object = value.get(member)
        if is_object(servers):
            return servers
    return {}


def configurations(config: str | None) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield each file that there is, with what it has as servers, by name."""
    for path in places(config):
        value = read_json(path, parse_config)
        if value is not None:
            yield path, _entries_in(value)


async def configured(name: str, config: str | None, *, stderr: Callable[[str], object]) -> Target:
    """Return the server that a name stands for.

    Args:
        name: The name.
        config: The file to look at; `None` for those where such files usually are.
        stderr: Gets each line that the server writes to its standard error, if it is a process.

    Raises:
        Failure: No file has it, or what a file says of it cannot be used.
    """
    await trio.lowlevel.checkpoint()
    if config is not None and not await trio.Path(config).exists():
        raise Failure(Exit.USAGE, f"there is no file {config} (--config)")
    known: list[str] = []
    for path, servers in configurations(config):
        if name in servers:
            try:
                given = {DOCUMENT_KEYS[0]: {name: servers[name]}}
                (entry,) = (await read_config(given, os.environ, str(path))).values()
            except ConfigError as error:
                raise Failure(Exit.USAGE, str(ConfigError(str(path), error.problems))) from None
            if entry.target is None:
                raise Failure(Exit.USAGE, f"{path}: {name} is disabled")
            if not isinstance(entry.target, StdioServerParameters):
                return entry.target
            if not path.is_absolute() and config is None:
                # Somebody else may have put the file into this directory, before the user's own of that name.
                words = without_secrets({"command": entry.target.command, "args": [*entry.target.args]})
                command = shown_line(" ".join((words["command"], *words["args"])))
                stderr(f"trio-mcp: {path} in this directory starts {shown_line(name)}: {command}")
            return attrs.evolve(entry.target, stderr=stderr)
        known += servers
    looked = ", ".join(map(str, places(config)))
    names = f"; there are {', '.join(map(shown_line, known))}" if known else ""
    raise Failure(
        Exit.USAGE,
        f"{name!r} is not a URL such as http://localhost:8000/mcp, not a Python file, and not a name in {looked}"
        f"{names}; a command to start a server follows --",
    )


# What is shown of a server in a configuration.


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
            hidden[name] = arguments_without_secrets([str(each) for each in value])
        elif SECRET_WORD.search(name) and not isinstance(value, bool):
            hidden[name] = HIDDEN
        else:
            hidden[name] = arguments_without_secrets([value])[0] if isinstance(value, str) else value
    return hidden
