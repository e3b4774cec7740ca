"""``run --reload``: the server is a child process, which is started again when a Python file changes."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .._limits import Limits
from ._parser import Exit, Failure, Options
from ._serving import split_file


def run_again_and_again(options: Options) -> int:
    """Run a server until a signal comes, and start it again whenever a ``.py`` file in its folder changes.

    A server that ends by itself is started again by the next change. Returns the exit status.

    Raises:
        Failure: watchfiles is not installed, there is no such file, or the transport is stdio.
    """
    if options.transport == "stdio":
        raise Failure(
            Exit.USAGE, "--reload needs a --transport over which clients come again; a client over stdio cannot"
        )
    file, _ = split_file(options.file)
    try:
        watchfiles: Any = import_module("watchfiles")
    except ModuleNotFoundError:
        raise Failure(
            Exit.USAGE, "--reload needs the package watchfiles: pip install 'trio-mcp[reload]'"
        ) from None
    limits = Limits()
    watchfiles.run_process(
        file.resolve().parent,
        target=shlex.join(command_of(options)),
        target_type="command",
        watch_filter=watchfiles.PythonFilter(),
        # Handlers are cancelled, and their cleanup and the lifespan's have this time.
        sigint_timeout=math.ceil(limits.drain_timeout + limits.goodbye_timeout),
    )
    return 130  # only a signal ends it


def command_of(options: Options) -> Sequence[str]:
    """Return the command of ``run`` that serves what these options say, without --reload."""
    given = (
        ("--transport", options.transport),
        ("--host", options.host),
        ("--port", options.port),
        ("--path", options.path),
        ("--workers", options.workers),
        ("--store", options.store),
        *(("--allow-host", name) for name in options.allow_host or ()),
    )
    words = [word for option, value in given if value is not None for word in (option, str(value))]
    own = ["--", *options.file_arguments] if options.file_arguments else []
    return [sys.executable, "-P", "-m", "trio_mcp", "run", options.file, *words, *own]
