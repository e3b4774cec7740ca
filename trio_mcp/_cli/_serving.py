"""``run``: a Python file is loaded, its server found and run."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import sys
import traceback
from collections.abc import Generator, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, TypeGuard

from .._printable import kind_shown
from .._server._serve import CannotServe
from .._server._server import Server
from ._layout import shown_line
from ._parser import Exit, Failure, Options, check_standard_streams

NAMES: Final = ("server", "mcp", "app")
"""What the server is called if the file has several, the first that there is."""


def run(options: Options) -> int:
    """Serve what a file offers, until the client goes or a signal ends it. Returns the exit status.

    Over stdio standard output belongs to the protocol, also while the file is being loaded.

    Raises:
        Failure: There is no such file or no such server, or its address cannot be listened on.
        SystemExit: See `Server.run`.
    """
    arguments = arguments_of(options)
    with as_program(options):
        if options.transport == "stdio":
            check_standard_streams()
            with contextlib.redirect_stdout(sys.stderr):
                server = load_server(options.file)
        else:
            server = load_server(options.file)
            warn_of_hosts(options)
            # Where it can be reached is logged. What the file has set up counts.
            logging.basicConfig(level=logging.INFO, format="%(message)s")
        serve: Any = server.run
        try:
            serve(options.transport, **arguments)
        except CannotServe as error:  # any other error of the system is the lifespan's
            raise Failure(Exit.FAILED, str(error)) from None
        except Exception as error:  # of the lifespan, also `BrokenPipeError`: who reads our output was not asked
            _print_own_part(error, split_file(options.file)[0].resolve())
            return Exit.BUG
    return Exit.DONE


@contextlib.contextmanager
def as_program(options: Options, env: Mapping[str, str] = MappingProxyType({})) -> Generator[None]:
    """Give a file the command line and the variables that it has where it is started as a program.

    Raises:
        Failure: There is no such file.
    """
    argv, variables = sys.argv, {name: os.environ.get(name) for name in env}
    sys.argv = [str(split_file(options.file)[0]), *options.file_arguments]
    os.environ.update(env)
    try:
        yield
    finally:
        sys.argv = argv
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_OF_HTTP: Final = frozenset({"host", "port", "path"})
_OPTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    dict.fromkeys(("streamable-http", "sse", "websocket"), _OF_HTTP)
    | {"stdio": frozenset(), "tcp": frozenset({"host", "port"}), "unix": frozenset({"path"})}
)
"""Which options of ``run`` say where a transport is served."""


def arguments_of(options: Options) -> dict[str, Any]:
    """Return what `Server.run` is called with.

    Everything that may be wrong with it is found here: a `ValueError` of `Server.run` is the server's own.

    Raises:
        Failure: An option does not go with the transport, is missing, or cannot be used.
    """
    arguments: dict[str, Any] = {
        name: value
        for name, value in (("host", options.host), ("port", options.port), ("path", options.path))
        if value is not None
    }
    for name in arguments:
        if name not in _OPTIONS[options.transport]:
            raise Failure(Exit.USAGE, f"--{name} does not go with --transport {options.transport}")
    if options.transport == "unix" and options.path is None:
        raise Failure(Exit.USAGE, "--transport unix needs the --path of the socket")
    if options.host is not None:
        try:
            options.host.encode("idna")  # as the resolver of names does
        except UnicodeError as error:
            raise Failure(Exit.USAGE, f"--host {options.host[:80]!r} is no name of a host: {error}") from None
    is_http = _OPTIONS[options.transport] is _OF_HTTP
    if options.allow_host and not is_http:
        raise Failure(Exit.USAGE, f"--allow-host does not go with --transport {options.transport}")
    if is_http and (options.path is not None or options.allow_host):
        from .._core._http_rules import LOCAL_HOSTS, HttpServerSettings

        settings: dict[str, Any] = {}
        if options.path is not None:
            settings["path"] = arguments.pop("path")
        if options.allow_host:
            settings["allowed_hosts"] = LOCAL_HOSTS | frozenset(options.allow_host)
        try:
            arguments["settings"] = HttpServerSettings(**settings)
        except ValueError as error:
            raise Failure(Exit.USAGE, str(error)) from None
    if options.store is not None:
        if not is_http:
            raise Failure(Exit.USAGE, f"--store does not go with --transport {options.transport}")
        arguments["store"] = _store_of(options.store)
    return arguments


def _store_of(text: str) -> object:
    """Return the store that a text names: a URL of Redis, or a file.

    Raises:
        Failure: It names none.
    """
    from .._workers._redis_store import RedisStore
    from .._workers._sqlite_store import SqliteStore

    try:
        return RedisStore(text) if "://" in text else SqliteStore(text)
    except (ValueError, RuntimeError) as error:
        raise Failure(Exit.USAGE, f"--store: {error}") from None


def warn_of_hosts(options: Options) -> None:
    """Say what lets clients in, if the server listens to other machines and refuses all names that they know."""
    from .._oauth._metadata import is_loopback

    host = options.host
    if host is None or options.allow_host or _OPTIONS[options.transport] is not _OF_HTTP or is_loopback(host):
        return
    known = "NAME, the name in their URL" if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host  # noqa: S104
    sys.stderr.write(f"only clients that call it localhost are let in; for others add --allow-host {known}\n")


def split_file(spec: str) -> tuple[Path, str | None]:
    """Return the file and the object that ``FILE[:object]`` names.

    Raises:
        Failure: There is no such file.
    """
    path, name = Path(spec), None
    if not path.is_file():
        file, colon, name = spec.rpartition(":")
        if not colon or not Path(file).is_file():
            raise Failure(Exit.USAGE, f"there is no file {file or spec}")
        path = Path(file)
    return path, name


def load_server(spec: str) -> Server[Any]:
    """Load a file and return its server.

    Args:
        spec: ``FILE[:object]``. Without an object it is the one `Server` in the file, else the first of `NAMES`.

    Raises:
        Failure: There is no such file or server, or the file cannot be loaded; why was printed.
    """
    path, name = split_file(spec)
    module = _load(path)
    if name is not None:
        found: Any = module
        for step in name.split("."):
            if not hasattr(found, step):
                raise Failure(Exit.USAGE, f"{path} has no {name}{_there_are(module)}")
            found = getattr(found, step)
        if not _is_server(found):
            raise Failure(Exit.USAGE, f"{name} in {path} is {kind_shown(found)}, not a Server")
        return found
    servers = _servers_in(module)
    if len({id(server) for server in servers.values()}) == 1:
        return next(iter(servers.values()))
    for usual in NAMES:
        if usual in servers:
            return servers[usual]
    if not servers:
        raise Failure(Exit.USAGE, f"{path} has no server: no variable of the module is a trio_mcp.Server")
    raise Failure(
        Exit.USAGE, f"{path} has several servers{_there_are(module)}; name one: {path}:{next(iter(servers))}"
    )


def _is_server(value: object) -> TypeGuard[Server[Any]]:
    return isinstance(value, Server)


def _servers_in(module: ModuleType) -> Mapping[str, Server[Any]]:
    return {name: value for name, value in vars(module).items() if _is_server(value)}


def _there_are(module: ModuleType) -> str:
    servers = ", ".join(_servers_in(module))
    return f"; its servers are {servers}" if servers else ""


def _load(path: Path) -> ModuleType:
    """Run a file as a module that is not ``__main__``, with its folder first where it imports from."""
    name = re.sub(r"\W", "_", path.stem)
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        name = f"served_{name}"  # so that it hides no other module
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise Failure(Exit.USAGE, f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module  # where hints are looked up
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's code raises
        _print_own_part(error, path.resolve())
        raise Failure(Exit.USAGE, f"{shown_line(str(path))} cannot be loaded") from None
    return module


def _print_own_part(error: Exception, path: Path) -> None:
    """Print a traceback from where the file begins; all of it, if that is not in it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)
