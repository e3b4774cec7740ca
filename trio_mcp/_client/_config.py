"""What a group of clients is opened with: ``mcp.json`` and its relatives, mappings of names to targets, options.

`read_config` returns for each server what `open_client` takes, or raises one error that names everything that is
wrong. Nothing is started here. The keys are those that hosts have in common; `HONOURED` are used, others ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from .._bindings._http_messages import HttpServerParameters
from .._bindings._stdio_client import StdioServerParameters
from .._bindings._websocket_client import WebSocketServerParameters, is_websocket_url
from .._core._reconnect import RestartPolicy
from .._errors import ConfigError
from .._http._auth import Auth
from .._limits import MIB
from .._logs import Log
from .._printable import Expanded, printable, shown_name
from ..types import (
    CreateMessageRequestParams,
    ElicitRequestParams,
    LoggingMessageNotificationParams,
)
from ._asks import AskPolicy
from ._open import ClientOptions, CommonOptions, Target, connector_for, reconnecting
from ._questions import ElicitAnswer, RootLike, SampleAnswer

_log: Final = Log("trio_mcp.client")

ClientsConfig: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""The path of an ``mcp.json``, its contents as a dict, or a mapping of names to targets or to entries of one."""

# Options


GroupRoots: TypeAlias = Iterable[RootLike] | Callable[[str], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]
"""The roots of all servers, or what returns those of the server that is named."""


class GroupOptions(CommonOptions, total=False):
    """The options of a group of clients; every one has a default. Handlers get the name of the server that asks.

    Attributes:
        prefix: Returns the prefix that the tools and prompts of a server have in the group, given the server's
            name. Default: that name and ``_``.
        retry: When opening a server that could not be opened, or was lost for good, is tried again: never, or by
            a policy, or ``True`` for the policy with its defaults. Default: never.
        server_timeout: Seconds after which a list goes on without a server that has not answered; it is then in
            `Listing.failures`. `ClientGroup.listen` waits as long for servers to agree. Default: 10.
        environment: The variables that a configuration may refer to. Default: those of this program.
        server_options: More options of single servers, by name. They take precedence, and their handlers are
            called as `open_client` calls them. Default: none.
        auth: Who this client is to the servers at URLs: one for all, or a function that returns one for the name
            of a server, and `None` for none. Other servers get none.
        policy: What servers may ask for: one policy, under which each is counted by itself, or policies by name,
            and then the other servers may ask for nothing. What was asked still counts when a server is opened
            again. Default: see `ClientOptions`.
        info, capabilities, revision, request_timeout, limits, sampling_tools, sampling_context, elicit_modes,
            tasks, extensions, middleware, log_level: As in `ClientOptions`, for each server.
        on_sample, on_elicit, on_elicitation_complete, on_log, on_notification, on_tools_list_changed,
            on_prompts_list_changed, on_resources_list_changed, on_resource_updated, on_frame: As in
            `ClientOptions`, called with the server's name before everything else.
        request_handlers: By method, likewise.
        roots: As in `ClientOptions`; a function is called with the server's name.
    """

    prefix: Callable[[str], str]
    retry: RestartPolicy | bool | None
    server_timeout: float
    environment: Mapping[str, str]
    server_options: Mapping[str, ClientOptions]
    auth: Auth | Callable[[str], Auth | None] | None
    policy: AskPolicy | Mapping[str, AskPolicy] | None
    on_sample: Callable[[str, CreateMessageRequestParams], SampleAnswer | Awaitable[SampleAnswer]] | None
    on_elicit: Callable[[str, ElicitRequestParams], ElicitAnswer | Awaitable[ElicitAnswer]] | None
    on_elicitation_complete: Callable[[str, str], object] | None
    on_log: Callable[[str, LoggingMessageNotificationParams], object] | None
    on_notification: Callable[[str, str, Mapping[str, Any]], object] | None
    on_tools_list_changed: Callable[[str], object] | None
    on_prompts_list_changed: Callable[[str], object] | None
    on_resources_list_changed: Callable[[str], object] | None
    on_resource_updated: Callable[[str, str], object] | None
    on_frame: Callable[[str, Literal["sent", "received"], bytes], object] | None
    request_handlers: Mapping[str, Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]]
    roots: GroupRoots | None


_OWN: Final = frozenset({"prefix", "retry", "server_timeout", "environment", "server_options", "auth"})
"""The options of the group itself; the others are its clients'."""


NOTHING_ALLOWED: Final = AskPolicy(allow=())


def options_of(server: str, options: Mapping[str, Any]) -> ClientOptions:
    """Return the options of one client, whose handlers name the server to those of the group."""
    made: dict[str, Any] = {}
    for name, value in options.items():
        if name in _OWN:
            continue
        if name == "policy" and isinstance(value, Mapping):
            made[name] = cast("Mapping[str, AskPolicy]", value).get(server, NOTHING_ALLOWED)
        elif name == "request_handlers":
            made[name] = {method: partial(handler, server) for method, handler in value.items()}
        elif value is not None and (name.startswith("on_") or (name == "roots" and callable(value))):
            made[name] = partial(value, server)
        else:
            made[name] = value
    made.update(options.get("server_options", {}).get(server, {}))
    made_options: Any = made
    return made_options  # type: ignore[no-any-return]


# Configurations


MAX_CONFIG_BYTES: Final = 1 * MIB
"""The largest file that is read, in bytes."""

MAX_DIGITS: Final = 4_300
"""How many digits of an integer Python reads."""

MAX_PROBLEMS: Final = 100
"""How many problems of a configuration are told: a file of the largest size may have a hundred thousand."""

MAX_SHOWN_NAME: Final = 200
"""How many characters of a server's name are in each."""

DOCUMENT_KEYS: Final = ("mcpServers", "servers")
"""Under which the servers are: in VS Code the second, everywhere else the first."""

HONOURED: Final = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "type", "transport", "disabled", "enabled"}
) | {"serverUrl", "httpUrl"}

_URLS: Final = ("url", "serverUrl", "httpUrl")
"""What hosts call the URL."""

HttpTransport: TypeAlias = Literal["auto", "streamable-http", "sse"]

_HTTP_TYPES: Final[Mapping[str, HttpTransport]] = {
    "http": "auto",
    "streamable-http": "streamable-http",
    "streamable_http": "streamable-http",
    "streamableHttp": "streamable-http",
    "sse": "sse",
}
_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = {
    "websocket": ("ws", "wss"),
    "ws": ("ws", "wss"),
    "tcp": ("tcp", "tls"),
    "tls": ("tls",),
    "unix": ("unix",),
    **dict.fromkeys(_HTTP_TYPES, ("http", "https", "http+unix")),
}
_TYPES: Final = ("stdio", *_SCHEMES)

# VS Code's files have comments and commas behind the last item. A string is passed over, or the rest of one.
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)
_NOT_BLANK: Final = re.compile(r"[^\n]")

_REFERENCE: Final = re.compile(r"\$(\$?)\{([^{}]*)([{}])")
_VARIABLE: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*|/)(?::-(.*))?", re.DOTALL)


class _Written(float):
    """A number as it is written: Python has 3.1 for 3.10, and 1000.0 for 1e3."""

    def __init__(self, text: str) -> None:  # pyright: ignore[reportInconsistentConstructor] - `float` reads it, too
        self.text = text


class _Twice:
    """The value of a name that is there twice: one of the two would be lost silently."""


_NO_SECRETS: Final = frozenset({"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"})
"""What files refer to that is no variable of the environment."""

_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    _Written: "a number",
    _Twice: "two values: the name is there twice",
}


@final
@attrs.frozen
class ServerEntry:
    """One server of a configuration.

    Attributes:
        target: What a client is opened on; `None` if the server is disabled, or cannot be used.
        error: Why it cannot be used. Only what is read from a file has it: that is written for several programs.
    """

    target: Target | None
    error: ConfigError | None = None


async def read_config(
    config: ClientsConfig, environment: Mapping[str, str], file: str | None = None
) -> dict[str, ServerEntry]:
    """Return the servers of a configuration, in its order.

    Args:
        config: The configuration.
        environment: The variables that may be referred to.
        file: The path of the file that a mapping is from.

    Raises:
        ConfigError: It cannot be read, or something in it is wrong; of a file, something beside single servers.
        TypeError: It is neither a path nor a mapping, but for instance a URL.
    """
    if isinstance(config, (str, os.PathLike)):
        path = os.fspath(config)
        if "://" in path:
            raise TypeError(
                "a configuration is a path or a mapping, not a URL; for a server at a URL, {name: url}"
            )
        reader = _Reader(path, environment, path)
        reader.is_forgiving = True
        return reader.document(await _read_file(path), where="the file")
    await trio.lowlevel.checkpoint()
    if not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users are not checked
        raise TypeError(f"a configuration is a path or a mapping, not {type(config).__name__}")
    reader = _Reader("configuration", environment, file)
    servers = config
    if any(isinstance(servers.get(key), Mapping) for key in DOCUMENT_KEYS):
        return reader.document(servers, where="it")
    return reader.servers(servers, place="")


async def _read_file(path: str) -> object:
    try:
        async with await trio.open_file(path, "rb") as file:
            data = await file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(path, [f"cannot be read: {error.strerror or type(error).__name__}"]) from error
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(path, [f"more than {MAX_CONFIG_BYTES} bytes"])
    try:
        return parse_config(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ConfigError(path, [f"line {error.lineno}, column {error.colno}: {error.msg}"]) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(path, [f"not JSON in UTF-8: {type(error).__name__}"]) from None


def parse_config(text: str) -> object:
    """Return the value of JSON with comments, and with commas behind the last items.

    Raises:
        ValueError: It is not; the place in a `json.JSONDecodeError` is that in the text.
    """
    for unwanted in (_COMMENT, _LAST_COMMA):
        text = unwanted.sub(lambda found: found[1] or _NOT_BLANK.sub(" ", found[0]), text)
    value: object = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_Written)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    times = Counter(name for name, _ in pairs)
    return {name: value if times[name] == 1 else _Twice() for name, value in pairs}


def _integer(digits: str) -> float:
    return int(digits) if len(digits) < MAX_DIGITS and digits != "-0" else _Written(digits)


@final
class _Reader:
    """Reads one configuration, and collects what is wrong in it.

    Attributes:
        is_forgiving: Whether what is wrong with one server costs only that one.
    """

    is_forgiving = False

    def __init__(self, source: str, environment: Mapping[str, str], file: str | None) -> None:
        self._source = source
        self._environment = environment
        if file is not None:  # the variables of Visual Studio Code
            folder = Path(file).absolute().parent  # the project's, or one such as .vscode in it
            folder = folder.parent if folder.name.startswith(".") else folder
            named = {"workspaceFolder": str(folder), "workspaceFolderBasename": folder.name}
            self._environment = {
                **named,
                "userHome": os.path.expanduser("~"),  # noqa: PTH111 - it may be unknown
                "pathSeparator": os.sep,
                "/": os.sep,
                **environment,
            }
        self._problems: list[str] = []  # the first of them
        self._wrongs = 0

    def document(self, document: object, *, where: str) -> dict[str, ServerEntry]:
        """Read what has the servers under one of `DOCUMENT_KEYS`."""
        if not isinstance(document, Mapping):
            raise ConfigError(self._source, [f"expected an object with mcpServers, not {_kind(document)}"])
        members = cast("Mapping[str, object]", document)
        keys = [key for key in DOCUMENT_KEYS if key in members]
        if len(keys) != 1:
            problem = (
                "has both mcpServers and servers: expected one" if keys else "has no mcpServers (or servers)"
            )
            raise ConfigError(self._source, [f"{where} {problem}"])
        (key,) = keys
        servers = members[key]
        if not isinstance(servers, Mapping):
            raise ConfigError(self._source, [f"{key}: expected an object, not {_kind(servers)}"])
        return self.servers(cast("Mapping[str, object]", servers), place=f"{key}.")

    def servers(self, servers: Mapping[str, object], *, place: str) -> dict[str, ServerEntry]:
        """Read servers by name."""
        entries: dict[str, ServerEntry] = {}
        for name, given in servers.items():
            where = f"{place}{printable(name, MAX_SHOWN_NAME)}"  # it is in all problems of the server
            if not name:
                self._wrong(f"{place}{name!r}: expected a name that is not empty")
            elif isinstance(given, Mapping):
                entries[name] = self._entry(where, cast("Mapping[str, object]", given))
            elif place:
                self._wrong(f"{where}: expected an object with command or url, not {_kind(given)}")
            else:
                entries[name] = ServerEntry(self._made(where, partial(cast, "Target", given)))
            if self.is_forgiving and self._problems:
                entries[name] = ServerEntry(None, self._error())
                self._problems, self._wrongs = [], 0
        if self._problems:
            raise self._error()
        return entries

    def _error(self) -> ConfigError:
        more = self._wrongs - len(self._problems)
        return ConfigError(self._source, [*self._problems, *([f"and {more} more"] if more else [])])

    def _wrong(self, problem: str) -> None:
        self._wrongs += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(problem)

    # One entry.

    def _entry(self, place: str, entry: Mapping[str, object]) -> ServerEntry:
        before = self._wrongs
        urls = [key for key in _URLS if entry.get(key) is not None]
        if len(urls) > 1:
            self._wrong(f"{place}: {' and '.join(urls)} are one thing: expected one of them")
        elif urls:
            entry = {**entry, "url": entry[urls[0]]}
        if self._is_disabled(place, entry):
            return ServerEntry(None)
        kind = self._kind_of(place, entry)
        target: Target | None = None
        if self._wrongs == before and kind is not None:
            target = self._stdio(place, entry) if kind == "stdio" else self._at_url(place, entry, kind)
        ignored = [shown_name(key) for key in entry if key not in HONOURED]
        if ignored:
            _log.info("%s: %s: ignored what other hosts use: %s", self._source, place, ", ".join(ignored))
        return ServerEntry(target)

    def _is_disabled(self, place: str, entry: Mapping[str, object]) -> bool:
        for key in ("disabled", "enabled"):
            value = entry.get(key)
            if value is not None and not isinstance(value, bool):
                self._wrong(f"{place}.{key}: expected true or false, not {_kind(value)}")
        return entry.get("disabled") is True or entry.get("enabled") is False

    def _kind_of(self, place: str, entry: Mapping[str, object]) -> str | None:
        """Return the type of an entry: as it says, or ``"stdio"``, or ``""`` for what the URL says."""
        has = [key for key in ("command", "url") if entry.get(key) is not None]
        if len(has) != 1:
            what = "both command and url: expected one of them" if has else "neither command nor url"
            self._wrong(f"{place}: {what}")
            return None
        implied = "stdio" if has == ["command"] else ""
        said = [key for key in ("type", "transport") if entry.get(key) is not None]
        if not said:
            return implied
        kind = entry[said[0]]
        if not isinstance(kind, str) or kind not in _TYPES:
            shown = repr(kind) if isinstance(kind, str) else _kind(kind)
            self._wrong(f"{place}.{said[0]}: expected one of {', '.join(_TYPES)}, not {shown}")
        elif (kind == "stdio") is not (implied == "stdio"):
            self._wrong(f"{place}.{said[0]}: {kind} goes with {'command' if kind == 'stdio' else 'url'}")
        elif len(said) == 2 and entry["transport"] != kind:
            self._wrong(f"{place}: type and transport differ: expected one of them")
        else:
            return kind
        return None

    def _stdio(self, place: str, entry: Mapping[str, object]) -> Target | None:
        if entry.get("headers") is not None:
            self._wrong(f"{place}.headers: goes with url, not with command")
        before = self._wrongs
        command = self._text(f"{place}.command", entry["command"])
        args = self._list(f"{place}.args", entry.get("args"))
        env = self._texts(f"{place}.env", entry.get("env"))
        cwd = None if entry.get("cwd") is None else self._text(f"{place}.cwd", entry["cwd"])
        if self._wrongs > before:
            return None
        return self._made(place, lambda: StdioServerParameters(command, args, env=env, cwd=cwd, restart=True))

    def _at_url(self, place: str, entry: Mapping[str, object], kind: str) -> Target | None:
        for key in ("args", "env", "cwd"):
            if entry.get(key):
                self._wrong(f"{place}.{key}: goes with command, not with url")
        before = self._wrongs
        url = self._text(f"{place}.url", entry["url"])
        headers = self._texts(f"{place}.headers", entry.get("headers"))
        if self._wrongs > before:
            return None
        scheme = url.partition(":")[0].lower()
        if kind and scheme not in _SCHEMES[kind]:
            schemes = " or ".join(f"{each}://" for each in _SCHEMES[kind])
            self._wrong(f"{place}.url: expected {schemes} for {kind}")
            return None
        if scheme in _SCHEMES["http"]:
            transport = _HTTP_TYPES.get(kind, "auto")
            return self._made(place, lambda: HttpServerParameters(url, headers=headers, transport=transport))
        if headers and is_websocket_url(url):
            return self._made(place, lambda: reconnecting(WebSocketServerParameters(url, headers=headers)))
        if headers:
            self._wrong(f"{place}.headers: goes with http://, https://, ws:// and wss:// only")
            return None
        return self._made(f"{place}.url", lambda: reconnecting(url))

    def _made(self, place: str, make: Callable[[], Target]) -> Target | None:
        try:
            target = make()
            connector_for(target)
        except (TypeError, ValueError) as error:
            self._wrong(f"{place}: {error}")
            return None
        return target

    # Its members.

    def _list(self, place: str, given: object) -> list[str]:
        if given is None:
            return []
        if not isinstance(given, (list, tuple)):
            self._wrong(f"{place}: expected an array of strings, not {_kind(given)}")
            return []
        items = cast("list[object]", given)
        return [self._text(f"{place}[{number}]", item) for number, item in enumerate(items)]

    def _texts(self, place: str, given: object) -> dict[str, str]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            self._wrong(f"{place}: expected an object of strings, not {_kind(given)}")
            return {}
        members = cast("Mapping[str, object]", given)
        numbers = {name: value for name, value in members.items() if isinstance(value, (int, float))}
        texts = {name: getattr(value, "text", None) or json.dumps(value) for name, value in numbers.items()}
        if not place.endswith(".env"):
            texts.clear()  # only variables are text whatever was meant
        given = {**members, **texts}
        return {name: self._text(f"{place}.{shown_name(name)}", value) for name, value in given.items()}

    def _text(self, place: str, given: object) -> str:
        """Return a string with its references replaced by what they refer to, which nothing shows."""
        values: list[str] = []
        if not isinstance(given, str):
            self._wrong(f"{place}: expected a string, not {_kind(given)}")
            return ""

        def value_of(found: re.Match[str]) -> str:
            if found[1]:
                return found[0][1:]  # "$${" is a "${" that is meant as it is
            if found[2].startswith("input:"):
                self._wrong(f"{place}: {found[0]} asks a person, and nobody is asked here; write ${{env:NAME}}")
                return ""
            named = (
                _VARIABLE.fullmatch(found[2]) if found[3] == "}" else None
            )  # it has another one in it, or a brace
            if named is None:
                self._wrong(
                    f"{place}: {found[0]} is no environment variable: expected ${{NAME}}, ${{NAME:-default}} or "
                    f"${{env:NAME}}; $${{ stands for ${{ itself"
                )
                return ""
            value, default = self._environment.get(named[1]), named[2]
            if value and named[1] not in _NO_SECRETS:
                values.append(value)
            if default is not None:
                return value or default
            if value is None:
                self._wrong(
                    f"{place}: the environment variable {named[1]} is not set; set it, or write "
                    f"${{{named[1]}:-default}}"
                )
                return ""
            return value

        text = _REFERENCE.sub(value_of, given)
        return Expanded.of(text, values)


def _kind(value: object) -> str:
    """Return what JSON calls the type of a value; the value may be a secret."""
    return next((name for kind, name in _KINDS.items() if type(value) is kind), type(value).__name__)
