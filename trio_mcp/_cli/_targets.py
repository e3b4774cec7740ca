"""What a TARGET on the command line stands for: a URL, a Python file, a command, or a configured name."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, final

import attrs
import trio

from .._bindings._http_messages import HttpServerParameters
from .._bindings._stdio_client import StdioServerParameters, open_stdio_server
from .._bindings._websocket_client import WebSocketServerParameters, is_websocket_url
from .._client._open import Target, reconnecting
from .._limits import Limits
from .._printable import shown_process, shown_url
from ._configured import configured
from ._parser import Exit, Failure, Options, pairs_of

FILE: Final = re.compile(r"(?P<file>.+\.py)(?::[\w.]+)?", re.DOTALL)
_HTTP: Final = ("http://", "https://", "http+unix://")
_WITH_HEADERS: Final = (HttpServerParameters, WebSocketServerParameters)


@final
@attrs.frozen
class ServedFile:
    """A Python file whose server is started by `trio-mcp run`."""

    process: StdioServerParameters


@asynccontextmanager
async def reached(target: Target | ServedFile, *, is_kept: bool = False) -> AsyncGenerator[Target]:
    """Start the server of a Python file, and return what a client is opened on.

    If `is_kept`, a connection to a server at a URL is made again when it is lost.

    Some servers exit at the first question of a client and are started again, which is asked differently then.
    One of ours has not been loaded if it exits; started again, it would print its traceback again.
    """
    if isinstance(target, ServedFile):
        async with open_stdio_server(target.process, Limits()) as channel:
            yield channel
    else:
        yield reconnecting(target) if is_kept and not isinstance(target, StdioServerParameters) else target


async def target_of(options: Options, *, stderr: Callable[[str], object]) -> tuple[Target | ServedFile, str]:
    """Return what a client is opened on, and what to call it in messages.

    Args:
        options: The command line.
        stderr: Gets each line that a server process writes to its standard error.

    Raises:
        Failure: It stands for nothing, or the options do not go with it.
    """
    pairs = pairs_of(options.header, ":", "--header must be 'Name: value'")
    headers = {name.strip(): value.strip() for name, value in pairs}
    found, name = await _found(options, stderr)
    if headers:
        try:
            if isinstance(found, str) and found.lower().startswith(_HTTP):
                found = HttpServerParameters(found)
            elif isinstance(found, str) and is_websocket_url(found):
                found = WebSocketServerParameters(found)
            if not isinstance(found, _WITH_HEADERS) or callable(found.headers):
                over = "HTTP or a WebSocket"
                raise Failure(Exit.USAGE, f"--header is for servers that are reached over {over}, not for {name}")
            found = attrs.evolve(found, headers={**found.headers, **headers})
        except ValueError as error:
            raise Failure(Exit.USAGE, str(error)) from None
    return found, name


async def _found(options: Options, stderr: Callable[[str], object]) -> tuple[Target | ServedFile, str]:
    await trio.lowlevel.checkpoint()
    # A process inherits the whole environment, as every command does that is started in this terminal.
    command = options.server_command
    target = options.target or ""
    if options.config is not None and (command is not None or "://" in target or FILE.fullmatch(target)):
        raise Failure(
            Exit.USAGE, "--config is for servers that are given by a name, not for a URL, file or command"
        )
    if command is not None:
        program, *arguments = command
        try:
            return StdioServerParameters(program, arguments, inherit_env=True, stderr=stderr), shown_process(
                program, arguments
            )
        except ValueError as error:
            raise Failure(Exit.USAGE, str(error)) from None
    if "://" in target:
        return target, shown_url(target)
    if (found := FILE.fullmatch(target)) is not None:
        if not await trio.Path(found["file"]).is_file():
            raise Failure(Exit.USAGE, f"there is no file {found['file']}")
        # -P: what lies in the current directory is not imported in place of what is installed.
        arguments = ["-P", "-m", "trio_mcp", "run", target]
        process = StdioServerParameters(sys.executable, arguments, inherit_env=True, stderr=stderr)
        return ServedFile(process), target
    return await configured(target, options.config, stderr=stderr), target
