"""``bench``: which servers and clients are meant, and what is wanted of them; measuring is done in `_bench`."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from .._bindings._http_messages import HttpServerParameters
from .._bindings._socket_client import TcpServerParameters, UnixServerParameters
from .._bindings._stdio_client import StdioServerParameters
from .._bindings._websocket_client import WebSocketServerParameters
from .._printable import shown_url
from ._arguments import read_object
from ._configured import configured
from ._parser import Exit, Failure, Options, pairs_of
from ._targets import FILE

if TYPE_CHECKING:
    from .._bench._targets import Plan, Target

NEEDED: Final = {"hdrh": "hdrhistogram", "matplotlib": "matplotlib", "rich": "rich"}
"""What shows figures, by the names of their modules."""
SCHEMES: Final = ("http", "https", "ws", "wss", "tcp", "tls", "unix")
WITH_FIELDS: Final = ("http", "https", "ws", "wss")
AT: Final = " @ "
"""Stands between a command and where what it starts can be reached."""


def check_installed() -> None:
    """Check that what shows figures is there.

    Raises:
        Failure: It is not; the text says what to install.
    """
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise Failure(
            Exit.USAGE,
            f"measuring needs {', '.join(missing)}, which the extra brings: pip install 'trio-mcp[bench]'",
        )


def bench(options: Options) -> int:
    """Measure servers or clients, or show what was measured. Returns the exit status.

    Ctrl+C and SIGTERM end what was started; what was measured until then is shown and kept.

    Raises:
        Failure: A target stands for nothing, an option does not go with it, or nothing can be measured.
    """
    check_installed()
    records = [word for word in options.words if word.endswith(".json") and Path(word).is_file()]
    if records:
        return _show(records, options)
    targets = trio.run(_targets_of, options)
    if not targets:
        raise Failure(Exit.USAGE, "a TARGET is missing; see trio-mcp bench --help")
    plan = _plan_of(options)
    from .._bench._targets import NothingToMeasure, measure_targets

    is_terminated = False

    def terminate(*_: object) -> None:
        nonlocal is_terminated
        is_terminated = True
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        return Exit.DONE if measure_targets(targets, plan) else Exit.FAILED
    except NothingToMeasure as error:
        raise Failure(Exit.USAGE if plan.only else Exit.UNREACHABLE, str(error)) from error
    except KeyboardInterrupt:
        if is_terminated:
            return 128 + signal.SIGTERM
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(records: Sequence[str], options: Options) -> int:
    from .._bench._records import RecordError, read_record
    from .._bench._targets import compare_records, show_record

    if len(records) != len(options.words) or len(records) > 2:
        raise Failure(Exit.USAGE, "one record is shown, two are compared; nothing is measured with them")
    try:
        if len(records) == 2:
            compare_records(Path(records[0]), Path(records[1]))
        else:
            show_record(read_record(Path(records[0])))
    except RecordError as error:
        raise Failure(Exit.USAGE, str(error)) from error
    return Exit.DONE


def _plan_of(options: Options) -> Plan:
    from .._bench._targets import QUICK, QUICK_GROWTH, Plan

    plan = Plan(
        only=tuple(options.only or ()),
        asked={
            "tool": options.tool,
            "arguments": _object_of("--arguments", options.arguments_json),
            "slow": options.slow,
            "slow_arguments": _object_of("--slow-arguments", options.slow_arguments),
            "flood": options.flood,
            "flood_arguments": _object_of("--flood-arguments", options.flood_arguments),
        },
        output=None if options.output is None else Path(options.output),
        is_client=options.client,
    )
    if options.quick:
        plan = attrs.evolve(plan, settings=QUICK, growth=QUICK_GROWTH)
    settings = attrs.evolve(
        plan.settings,
        rounds=plan.settings.rounds if options.rounds is None else options.rounds,
        seconds=plan.settings.seconds if options.seconds is None else options.seconds,
    )
    return attrs.evolve(
        plan,
        settings=settings,
        patience=plan.patience if options.timeout == float("inf") else options.timeout,
        growth=plan.growth if options.growth is None else options.growth,
    )


def _object_of(option: str, text: str | None) -> Mapping[str, Any] | None:
    return None if text is None else read_object(text, option)


async def _targets_of(options: Options) -> list[Target]:
    pairs = pairs_of(options.header, ":", "--header must be 'Name: value'")
    fields = {name.strip(): value.strip() for name, value in pairs}
    if any(not (name + value).isprintable() for name, value in fields.items()):
        raise Failure(Exit.USAGE, "--header must be 'Name: value', of printable characters")
    found = [await _target_of(word, options) for word in options.words]
    if options.server_command is not None:
        found.append(_of_command(shlex.join(options.server_command), options.server_command))
    if fields:
        reached = [one for one in found if one.address is not None and _scheme(one.address) in WITH_FIELDS]
        if not reached:
            raise Failure(Exit.USAGE, "--header is for servers that are reached over HTTP or a WebSocket")
        found = [attrs.evolve(one, fields={**one.fields, **fields}) if one in reached else one for one in found]
    if options.era == "both":
        found = [
            attrs.evolve(one, era=era, label=f"{one.label}, {era}")
            for one in found
            for era in ("modern", "legacy")
        ]
    else:
        found = [attrs.evolve(one, era=options.era) for one in found]
    return list(_told_apart(found))


def _told_apart(targets: Sequence[Target]) -> Iterator[Target]:
    """Yield targets of which no two have the same name."""
    seen: dict[str, int] = {}
    for target in targets:
        count = seen[target.label] = seen.get(target.label, 0) + 1
        yield target if count == 1 else attrs.evolve(target, label=f"{target.label} ({count})")


def _scheme(address: str) -> str:
    return address.partition("://")[0].lower()


async def _target_of(word: str, options: Options) -> Target:
    from .._bench._targets import Target

    command, at, address = word.rpartition(AT)
    if options.client:
        if "{url}" not in word and "{server}" not in word:
            raise Failure(Exit.USAGE, "the command of a client needs {url} or {server}, for what it is to call")
        return _of_command(word, _split(word))
    if at:
        _check_address(address)
        return attrs.evolve(_of_command(word, _split(command)), address=address)
    if "://" in word and " " not in word:
        _check_address(word)
        return Target(label=shown_url(word), address=word)
    if (file := FILE.fullmatch(word)) is not None:
        if not await trio.Path(file["file"]).is_file():
            raise Failure(Exit.USAGE, f"there is no file {file['file']}")
        return _of_command(word, [sys.executable, "-P", "-m", "trio_mcp", "run", word])
    words = _split(word)
    if len(words) > 1 or (words and options.config is None and shutil.which(words[0])):
        return _of_command(word, words)
    return _of_parameters(word, await configured(word, options.config, stderr=lambda _: None))


def _check_address(address: str) -> None:
    if _scheme(address) not in SCHEMES:
        raise Failure(
            Exit.USAGE, f"{shown_url(address)} cannot be measured; what can begins with {', '.join(SCHEMES)}"
        )


def _split(word: str) -> list[str]:
    try:
        return shlex.split(word)
    except ValueError as error:
        raise Failure(Exit.USAGE, f"{word!r} is no command: {error}") from None


def _of_command(label: str, words: Sequence[str]) -> Target:
    from .._bench._targets import Target

    short = " ".join(Path(word).name if word.startswith("/") else word for word in label.split(" "))
    # A process inherits the whole environment, as every command does that is started in this terminal.
    return Target(label=short, command=tuple(words), variables=dict(os.environ))


def _of_parameters(name: str, found: object) -> Target:
    """Return what an ``mcp.json`` says of a server.

    Raises:
        Failure: It is reached in a way in which nothing is measured.
    """
    from .._bench._targets import Target

    match found:
        case StdioServerParameters():
            return Target(
                label=name,
                command=(found.command, *found.args),
                cwd=None if found.cwd is None else os.fspath(found.cwd),
                variables=found.environment(),
            )
        case HttpServerParameters() | WebSocketServerParameters() if not callable(found.headers):
            return Target(label=name, address=found.url, fields=dict(found.headers))
        case TcpServerParameters() | UnixServerParameters():
            return Target(label=name, address=found.url)
        case str():
            return Target(label=name, address=found)
        case _:
            raise Failure(Exit.USAGE, f"{name} is reached in a way in which nothing is measured")
