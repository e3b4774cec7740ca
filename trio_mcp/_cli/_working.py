"""``run --workers``: what a Python file offers, served over HTTP by several processes."""

from __future__ import annotations

import logging
import sys

import attrs

from .._core._http_rules import HttpServerSettings
from .._server._serve import CannotServe
from ._parser import Exit, Failure, Options
from ._reloading import command_of
from ._serving import arguments_of, as_program, load_server, split_file, warn_of_hosts


def run_workers(options: Options) -> int:
    """Serve in several processes, or be one of them. Only those load the file. Returns the exit status.

    Raises:
        Failure: As `_serving.run`; or something else does not go with it.
        SystemExit: See `trio_mcp.run_workers`.
    """
    if options.reload:
        raise Failure(Exit.USAGE, "--reload does not go with --workers; SIGHUP loads the file again")
    if options.transport not in {"streamable-http", "sse"}:
        raise Failure(Exit.USAGE, f"--workers does not go with --transport {options.transport}")
    arguments, workers = arguments_of(options), options.workers or 1
    if sys.platform == "win32":
        raise Failure(Exit.USAGE, "--workers needs processes that inherit sockets; on Windows there are none")
    else:
        from .._workers import _running
        from .._workers._supervisor import supervise
        from .._workers._worker import assigned

        settings: HttpServerSettings = arguments.setdefault("settings", HttpServerSettings())
        if options.transport == "sse":
            arguments["settings"] = settings = attrs.evolve(settings, sse=settings.sse or True)
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        try:
            if assigned() is not None:
                with as_program(options):
                    _running.run_workers(load_server(options.file), workers=workers, **arguments)
            else:
                split_file(options.file)
                warn_of_hosts(options)
                port = 8000 if options.port is None else options.port
                address = (options.host or "127.0.0.1", port, None, 0o600)
                supervise(command_of(options), workers, address, _running.url_over_http(settings))
        except CannotServe as error:
            raise Failure(Exit.FAILED, str(error)) from None
        return Exit.DONE
