"""A client for one command: connected, interrupted by signals, late; and how its errors are told."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast, final

import trio

from .._client._client import Client
from .._client._open import ClientOptions, Era, Target, open_client
from .._errors import (
    AuthorizationFailed,
    AuthorizationRefused,
    ConnectionLost,
    HttpStatusError,
    ProtocolError,
    RequestError,
)
from .._limits import Limits
from .._printable import printable
from .._trio import open_hidden_nursery
from ..types import LoggingLevel, LoggingMessageNotificationParams
from . import _calls, _login, _offers
from ._console import Console, is_terminal
from ._frames import open_frame_log
from ._layout import json_text, shown_line
from ._parser import LOG_LEVELS, LOGGING, Exit, Failure, Options
from ._questions import DECLINED_SAMPLING, Questioner
from ._targets import reached, target_of

Work: TypeAlias = Callable[[Client, Options, Console], Awaitable[int]]
"""What a command does with a connected client; returns the exit status."""

WORKS: Final[Mapping[str, Work]] = MappingProxyType(
    {
        "list": _offers.list_offers,
        "describe": _offers.describe,
        "discover": _offers.discover,
        "call": _calls.call,
        "read": _calls.read,
        "prompt": _calls.prompt,
        "ping": _calls.ping,
        "listen": _calls.listen,
        "login": _login.log_in,
    }
)

LOG_LEVEL: Final = "info"
"""The least severity of the log messages that are shown by default: what authors of servers tell users."""

_ENDING: Final = tuple(
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__
)


def converse(name: str, options: Options) -> int:
    """Connect, do what a command asks for, and leave nothing behind.

    Ctrl+C cancels what is under way, at the server as well, and then leaves in an orderly way, which takes a few
    seconds at most; a second one leaves sooner. SIGTERM and SIGHUP do the same.

    Returns:
        The exit status.

    Raises:
        Failure: What the command says cannot be done, or the server has failed it.
        BrokenPipeError: Nobody reads the output any more.
    """
    return trio.run(_converse, name, options)


async def _converse(name: str, options: Options) -> int:
    console = Console()
    interruption = _Interruption()
    target, label = await target_of(options, stderr=console.quote_line)
    if options.auth or name == "login":
        target = _login.with_login(target, label, options, console)
    questioner = Questioner(console, label)
    with open_frame_log(console, is_wire=options.wire, record=options.record) as on_frame:
        client_options: ClientOptions = {
            "era": cast("Era", options.era),
            "on_frame": on_frame,
            "log_level": None,  # `_ask_for_logs` does, for the commands that show them
            "on_log": partial(_show_log, console, _severity(options.log_level or LOG_LEVEL)),
            "on_elicit": questioner,
            "elicit_modes": ("form", "url"),
            "on_sample": questioner.sample if is_terminal(sys.stdin) else None,
            "roots": None if options.root is None else [Path(root) for root in options.root],
        }
        async with open_hidden_nursery() as nursery:
            await nursery.start(interruption.watch)

            async def work(client: Client) -> int:
                if name in LOGGING:
                    await _ask_for_logs(client, options.log_level)
                return await WORKS[name](client, options, console)

            try:
                server = reached(target, is_kept=name == "listen")
                status = await _connected(server, client_options, label, options.timeout, work, interruption)
            finally:
                console.end_progress()
            nursery.cancel_scope.cancel()
    if status is None and interruption.number is not None:
        return 128 + interruption.number
    if status is None and name == "listen":  # its time is over
        return Exit.DONE
    if status is None:
        raise Failure(Exit.LATE, f"{label}: not done within {options.timeout:g} s (--timeout)")
    return status


async def _connected(
    reached_server: AbstractAsyncContextManager[Target],
    client_options: ClientOptions,
    label: str,
    timeout: float,  # noqa: ASYNC109 - the user's, for connecting and working together
    work: Callable[[Client], Awaitable[int]],
    interruption: _Interruption,
) -> int | None:
    """Return what the work returns, or `None` if it was interrupted or took too long.

    Until there is a connection everything is cancelled; from then on only the work, so that leaving is orderly.
    """
    status: int | None = None
    is_connected = False
    if timeout < math.inf:  # it alone limits connecting, and what is asked
        limits = Limits(connect_timeout=math.inf)
        client_options = {**client_options, "limits": limits, "request_timeout": math.inf}
    with trio.CancelScope(deadline=trio.current_time() + timeout) as whole:
        interruption.scopes.append(whole)
        try:
            async with reached_server as server, open_client(server, **client_options) as client:
                is_connected = True
                with trio.CancelScope(deadline=whole.deadline) as working:
                    whole.deadline = math.inf
                    interruption.scopes.append(working)
                    status = await work(client)
                if working in interruption.scopes:
                    interruption.scopes.remove(working)
        except (AuthorizationFailed, ConnectionLost, ProtocolError, RequestError) as error:
            raise _failure(error, label, is_connected=is_connected) from error
        except trio.TooSlowError as error:  # without --timeout a silence is not waited for for ever, either
            why = str(error).replace("request_timeout; math.inf waits for ever", "--timeout SECONDS waits longer")
            raise Failure(Exit.LATE, f"{label}: {why}") from error
        except ValueError as error:
            if is_connected:
                raise
            raise Failure(
                Exit.USAGE, str(error)
            ) from error  # a URL that is none, options that exclude each other
    if not is_connected and interruption.number is None:
        raise Failure(Exit.LATE, f"{label}: not connected within {timeout:g} s (--timeout)")
    return status


def _failure(error: Exception, label: str, *, is_connected: bool) -> Failure:
    match error:
        case ConnectionLost(reason=reason):  # the last of its standard error was printed as it came
            what = "the connection was lost" if is_connected else f"cannot connect to {label}"
            # What is written in Python is not what is written here.
            reason = reason.replace("pass limits=Limits(connect_timeout=...)", "--timeout SECONDS gives it more")
            return Failure(Exit.UNREACHABLE, f"{what}: {reason.replace(' (connect_timeout)', '')}")
        case AuthorizationFailed():
            return Failure(Exit.FAILED, f"not logged in at {label}: {error}")
        case AuthorizationRefused(was_authorized=True):
            return Failure(Exit.UNREACHABLE, str(error))
        case AuthorizationRefused():
            sent = error.body if error.message == error.reason else error.message
            said = shown_line("" if sent.strip() == "{}" else sent) or f"HTTP status {error.status}"
            return Failure(Exit.UNREACHABLE, f"{label} wants a login (--auth), or a token (--header): {said}")
        case RequestError() if not is_connected:
            return Failure(Exit.UNREACHABLE, f"cannot connect to {label}: {error}")
        case RequestError() if (
            error.code,
            error.message,
        ) == DECLINED_SAMPLING:  # a call of the modern era ends by it
            return Failure(Exit.FAILED, "you declined to answer for a model")
        case RequestError():
            return Failure(Exit.PROTOCOL, f"the server answers with an error: {_told(error)}")
        case _:
            return Failure(Exit.PROTOCOL, str(error))


def _told(error: RequestError) -> str:
    """Return an error in words, with its data as JSON."""
    if error.data is None or isinstance(error, HttpStatusError):
        return str(error)
    try:
        data = json_text(error.data, indent=None)
    except (TypeError, ValueError, RecursionError):
        return str(error)
    return f"{printable(error.message)} [{error.code}] {printable(data)}"


@final
class _Interruption:
    """Ends a command by signals: the work first, then everything.

    Attributes:
        scopes: What is cancelled by the next signal, the last one first.
        number: The number of the first signal; `None` if none has come.
    """

    def __init__(self) -> None:
        self.scopes: list[trio.CancelScope] = []
        self.number: int | None = None

    async def watch(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.open_signal_receiver(*_ENDING) as signals:
            task_status.started()
            async for number in signals:
                if self.number is None:
                    self.number = number
                if self.scopes:
                    self.scopes.pop().cancel(reason=f"{signal.Signals(number).name} has come")


async def _ask_for_logs(client: Client, level: str | None) -> None:
    """Ask for log messages: without that, servers of the modern era send none, and others what they like."""
    declared = client.server_capabilities
    if level == "none" or (declared is not None and declared.logging is None):
        await trio.lowlevel.checkpoint()
        return
    try:
        await client.set_log_level(cast("LoggingLevel", level or LOG_LEVEL))
    except RequestError:
        if level is not None:  # else nobody has asked for it, and the command works without
            raise


def _severity(level: str) -> int:
    return LOG_LEVELS.index(level)


def _show_log(console: Console, least: int, message: LoggingMessageNotificationParams) -> None:
    if _severity(message.level) < least:  # a server may send more than it was asked for
        return
    data: Any = "" if message.data is None else message.data
    text = data if isinstance(data, str) else json_text(data, indent=None)
    source = f" {shown_line(message.logger)}" if message.logger else ""
    console.quote(f"[{message.level}{source}] ", text)
