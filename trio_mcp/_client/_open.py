"""How a client is opened: on which targets, with which options, for a block or as a task of a nursery."""

from __future__ import annotations

import math
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, TypedDict, TypeGuard, final, get_args, runtime_checkable

import attrs
import trio
from typing_extensions import Unpack

from .._bindings._http_messages import HttpServerParameters
from .._bindings._memory import memory_channel_pair
from .._bindings._socket_client import (
    SCHEMES,
    SocketServerParameters,
    TcpServerParameters,
    UnixServerParameters,
    open_socket,
    parse_socket_url,
)
from .._bindings._stdio_client import StdioServerParameters, open_stdio_server
from .._bindings._websocket_client import WebSocketServerParameters, is_websocket_url, open_websocket
from .._channel import Channel
from .._core._http1 import NAME_SOURCES
from .._core._reconnect import RestartPolicy
from .._core._tasks import METHODS_OF_TASKS, TASKS
from .._errors import ConnectionLost
from .._http._auth import Auth
from .._http._cookies import CookieJar
from .._http._target import UNIX_SCHEME
from .._limits import Limits, check_options, check_seconds
from .._peer._call import current_clock
from .._peer._middleware import Middleware
from .._peer._send_queue import OnFrame
from .._printable import shown_command, shown_url
from .._revisions import MODERN, Revision
from .._trio import check_trio_runs, open_hidden_nursery, shield_started
from .._version import __version__
from ..types import ClientCapabilities, DiscoverResult, Implementation, LoggingLevel, SubscriptionFilter, evolve
from ._asks import AskPolicy, Asks, asks_under
from ._caches import ClientCaches, ResponseCache
from ._client import Client
from ._connection import ClientIdentity
from ._dispatch import ClientExtension, Extensions, NotificationHandlers, OnLog, OnNotification, ServerMessages
from ._listen import entered_in_trio, listen_for_callbacks
from ._low_level import ClientSettings
from ._questions import (
    DEFAULT_ELICIT_MODES,
    ElicitMode,
    OnElicit,
    OnElicitationComplete,
    OnSample,
    QuestionHandlers,
    Questions,
    RequestHandler,
    RootList,
    Roots,
)
from ._reconnecting import Connector, ReconnectingConnection
from ._subscriptions import Callbacks, Subscriptions


@runtime_checkable
class ServesChannels(Protocol):
    """A server in this process, such as `Server`: it serves the client at the other end of a channel."""

    async def serve_channel(
        self, channel: Channel, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve the client at the other end until it closes the channel."""
        ...


Target: TypeAlias = (
    str
    | HttpServerParameters
    | WebSocketServerParameters
    | StdioServerParameters
    | TcpServerParameters
    | UnixServerParameters
    | ServesChannels
    | Channel
)
"""What `open_client` opens; a string is the URL of a server."""


_ADDRESS: Final = re.compile(r"[\w.-]+:[0-9]+(/\S*)?")

_HTTP_SCHEMES: Final = ("http", "https", UNIX_SCHEME)

_LOST_BY_DEFAULT: Final = (
    WebSocketServerParameters,
    TcpServerParameters,
    UnixServerParameters,
    StdioServerParameters,
)

_RESTART: Final = RestartPolicy(max_restarts=10)
"""How what is lost by default is connected to again where nobody writes parameters; as it is over HTTP."""

SILENCE: Final = 300.0
"""Seconds after which a request fails of which nothing was heard, where there is no ``request_timeout``."""


def parameters_of(url: str) -> HttpServerParameters | WebSocketServerParameters | SocketServerParameters:
    """Return what to connect to for a URL.

    Raises:
        ValueError: It is not a URL that can be opened.
    """
    scheme, mark, _ = url.partition("://")
    if scheme.lower() in SCHEMES:
        return parse_socket_url(url)
    if is_websocket_url(url):
        return WebSocketServerParameters(url)
    if not mark:
        raise ValueError(
            f"a string must be the URL of a server, such as 'https://example.com/mcp', not {shown_url(url)!r}"
            f"{_meant(url)}"
        )
    if scheme.lower() not in _HTTP_SCHEMES:
        known = "http, https, http+unix, ws, wss, ws+unix, tcp, tls or unix"
        raise ValueError(f"the scheme of a server's URL must be {known}: {shown_url(url)!r}")
    return HttpServerParameters(url)


def reconnecting(target: Target) -> Target:
    """Return a target that is connected to, or started, again when it is lost, if its parameters do not say when.

    Raises:
        ValueError: It is a string, and not a URL that can be opened.
    """
    if isinstance(target, str):
        target = parameters_of(target)
    if isinstance(target, _LOST_BY_DEFAULT) and target.restart is None:
        return attrs.evolve(target, restart=_RESTART)
    return target


def connector_for(
    target: Target, names: Mapping[str, str] = NAME_SOURCES, *, name: str | None = None
) -> Connector:
    """Return how channels to the target are opened.

    Args:
        target: The target.
        names: Which parameter of a method a header field repeats, over HTTP.
        name: What errors and logs call a process, where one program has several.

    Raises:
        TypeError: A client cannot be opened on such an object.
        ValueError: It is a string, and not a URL that can be opened.
    """
    if isinstance(target, str):
        target = parameters_of(target)
    if isinstance(target, HttpServerParameters):
        return Connector(open=partial(_open_http, target, names, CookieJar()), restart=target.restart)
    if isinstance(target, WebSocketServerParameters):
        open_it = partial(_open_websocket, target, CookieJar())
        return Connector(open=open_it, restart=target.restart, survives_probe=True, name=target.description)
    if isinstance(target, (TcpServerParameters, UnixServerParameters)):
        return Connector(open=partial(open_socket, target), restart=target.restart, survives_probe=True)
    if isinstance(target, StdioServerParameters):
        open_process = partial(open_stdio_server, target, name=name)
        return Connector(open=open_process, restart=target.restart, survives_probe=True)
    if isinstance(target, Channel):
        return Connector(open=partial(_open_given, target))
    if serves_channels(target):
        return Connector(open=partial(_open_in_process, target), survives_probe=True)
    raise TypeError(
        "a client is opened on a URL, HttpServerParameters, WebSocketServerParameters, StdioServerParameters, "
        f"TcpServerParameters, UnixServerParameters, a Server, a Proxy or a Channel, not on {kind_of(target)}"
        f"{_meant(target)}"
    )


def serves_channels(given: object) -> TypeGuard[ServesChannels]:
    """Whether it is a server in this process. The class of one looks like one."""
    return not isinstance(given, type) and isinstance(given, ServesChannels)


def kind_of(given: object) -> str:
    """Return what was given in place of a server, for an error."""
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def _meant(given: object) -> str:
    """Return what to write in place of what is no target."""
    text = f"{given}" if isinstance(given, (str, os.PathLike)) else ""
    if _ADDRESS.fullmatch(text):
        url = f"http://{shown_url(text)}{'' if '/' in text else '/mcp'}"
        return f"; write {url!r}"
    if isinstance(given, Mapping) or text.endswith(".json"):
        return "; open_clients(...) opens the servers of a configuration"
    if not isinstance(given, (str, list, tuple, os.PathLike)):
        return ""
    program, *arguments = map(shown_url, text.split() or [""])
    of_python = f"sys.executable, [{program!r}]" if program.endswith(".py") else "command, args"
    command = f"{program!r}, [...]" if arguments else of_python
    return f"; a program is started by StdioServerParameters({command})"


def can_have_auth(target: Target) -> bool:
    """Whether a server is at a URL where a client can show who it is."""
    if isinstance(target, str):
        target = parameters_of(target)
    return isinstance(target, (HttpServerParameters, WebSocketServerParameters))


def with_auth(target: Target, auth: Auth | None) -> Target:
    """Return a target whose server is shown who the client is.

    Raises:
        TypeError: `auth` is no `Auth`.
        ValueError: The server is not at a URL, or not over HTTP.
    """
    if auth is None:
        return target
    if isinstance(target, str):
        target = parameters_of(target)
    if not isinstance(target, (HttpServerParameters, WebSocketServerParameters)):
        raise ValueError(
            f"auth is for servers over HTTP and WebSockets, not for {type(target).__name__}: a process gets its "
            "credentials in its environment"
        )
    return attrs.evolve(target, auth=auth)


def connector_for_http_sse(target: Target) -> Connector:
    """Return how channels over HTTP+SSE to the target are opened.

    Raises:
        ValueError: It is not at a URL.
    """
    if isinstance(target, str):
        target = parameters_of(target)
    if not isinstance(target, HttpServerParameters):
        raise ValueError(f'era="sse" is for servers at a URL, not for {type(target).__name__}; leave era out')
    return connector_for(attrs.evolve(target, transport="sse"))


def _open_http(
    parameters: HttpServerParameters, names: Mapping[str, str], cookies: CookieJar, limits: Limits
) -> AbstractAsyncContextManager[Channel]:
    # Not above: clients of other servers, and servers, start sooner without HTTP.
    from .._bindings._http_client import open_streamable_http

    clock = current_clock()  # that of connecting
    clocks = () if clock is None else (clock,)
    return open_streamable_http(parameters, limits, clocks=clocks, names=names, cookies=cookies)


def _open_websocket(
    parameters: WebSocketServerParameters, cookies: CookieJar, limits: Limits
) -> AbstractAsyncContextManager[Channel]:
    clock = current_clock()
    return open_websocket(parameters, limits, clocks=() if clock is None else (clock,), cookies=cookies)


@asynccontextmanager
async def _open_in_process(server: ServesChannels, limits: Limits) -> AsyncGenerator[Channel]:
    """Run a server in this process, for this client alone."""
    del limits  # the server has its own
    ours, theirs = memory_channel_pair()
    async with open_hidden_nursery() as nursery:
        await nursery.start(server.serve_channel, theirs)
        try:
            yield ours
        finally:
            with trio.CancelScope(shield=True):
                await ours.aclose()  # the server sees the end of its input, drains and returns


@asynccontextmanager
async def _open_given(channel: Channel, limits: Limits) -> AsyncGenerator[Channel]:
    """Use a channel that the caller has made, once."""
    del limits  # the channel was made with its own
    try:
        yield channel
    finally:
        with trio.move_on_after(0, shield=True):
            await channel.aclose()


def identity_of(target: object) -> Hashable:
    """Return a key that is equal for targets that are the same server, for caches that several clients share.

    A server at a URL is that URL, a process is the parameters it is started with. A server in this process, and
    the one at the other end of a channel, is the object itself.
    """
    if isinstance(target, str):
        target = parameters_of(target)
    if isinstance(target, HttpServerParameters):
        return target.url, _Same(target.app)
    if isinstance(target, (WebSocketServerParameters, TcpServerParameters, UnixServerParameters)):
        return target.url
    if isinstance(target, StdioServerParameters):
        return target
    return _Same(target) if isinstance(target, (Channel, ServesChannels)) else None


def name_of(target: object) -> str:
    """Return what people and records may be shown of a target: arguments and URLs can hold secrets."""
    if isinstance(target, StdioServerParameters):
        return os.path.basename(shown_command(target.command))  # noqa: PTH119 - of any system
    url = target if isinstance(target, str) else getattr(target, "url", None)
    if isinstance(url, str):
        return shown_url(url)
    info = getattr(target, "info", None)  # that of a `Server`
    return info.name if isinstance(info, Implementation) else type(target).__name__


@final
@attrs.frozen(eq=False)
class _Same:
    """A key that is equal for one object alone, hashable or not. It holds the object: no other gets its id."""

    it: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


Era: TypeAlias = Literal["auto", "modern", "legacy", "sse"]
"""What is known of a server: nothing, that it speaks 2026-07-28 or later, that it speaks an older revision, or
that it speaks an older one over HTTP+SSE."""

OURSELVES: Final = Implementation(name="trio-mcp", version=__version__)


class CommonOptions(TypedDict, total=False):
    """What `ClientOptions` and `GroupOptions` have in common; see `ClientOptions`."""

    info: Implementation
    capabilities: ClientCapabilities
    revision: Revision | str | None
    request_timeout: float
    limits: Limits
    sampling_tools: bool
    sampling_context: bool
    elicit_modes: Collection[ElicitMode] | tuple[ElicitMode, ...]  # mypy reads literals in a tuple only as one
    tasks: Literal["required", "always", "never"]
    extensions: Sequence[ClientExtension]
    middleware: Sequence[Middleware]
    log_level: LoggingLevel | None


class ClientOptions(CommonOptions, total=False):
    """The options of a client; every one has a default.

    Attributes:
        info: The name and version that are declared. Default: this library's.
        capabilities: The capabilities that are declared, beside those that follow from other options. Default:
            none.
        revision: The only revision to speak. Default: the newest that both sides know.
        era: What is known of the server. Default: ``"auto"``, nothing: ``server/discover`` of the modern era is
            sent, and if the server does not know it, ``initialize`` of the legacy era; over HTTP by Streamable
            HTTP first, and by HTTP+SSE if the server does not know that. The other values are tried alone, and
            fail if they are wrong. Or what `Client.discover` has returned before, which spares
            ``server/discover``; if it is out of date, that is sent after all.
        auth: Who this client is to a server at a URL, over HTTP or a WebSocket: `OAuth` to let a person log in,
            `ClientCredentials`, `WorkloadIdentity` or `EnterpriseManaged` for programs, `StaticToken`, or an
            `Auth` of your own. Instead of that of the server's parameters. Default: none.
        request_timeout: Seconds after which any request fails with `trio.TooSlowError`; `math.inf` for never.
            `trio.fail_after` around a call, or around many, does the same and more. The time in which handlers of
            this client answer a server's questions does not count: in 2026-07-28 those of this request, in older
            revisions all that come while it is pending. So it is not sent to a server that can ask meanwhile.
            Default: five minutes of silence. Each question, and each progress notification where there is an
            ``on_progress`` or a `fail_after_silence`, starts that time again, and the server gets no deadline.
        limits: What a connection may cost. Default: `Limits()`.
        on_sample: Samples from a model for a server; declares sampling. Handlers of questions may be plain or
            async functions; several can run at once.
        sampling_tools: Whether the model may be given tools. Default: no; then such requests are refused.
        sampling_context: Whether ``on_sample`` heeds `CreateMessageRequestParams.include_context`. Default: no.
        on_elicit: Asks the user for a server; declares elicitation. What it returns is checked against the form,
            and fields left empty get their defaults.
        elicit_modes: How the user can be asked. Default: ``("form",)``. A handler that is also given ``"url"``
            must show the whole URL, and may open it only if the user agrees; this library opens none.
        on_elicitation_complete: Called with the id of an elicitation when its user is done at the URL. In
            2025-11-25 only.
        policy: Which of all this the server may ask for, how often and how much, and what a person decides about
            before and after; see `AskPolicy`. Default: whatever there is a handler for, as often as it likes.
        roots: Where a server may work, as roots, ``file://`` URIs and paths, or a function that returns them;
            declares roots, even if there are none yet. See `Client.set_roots`.
        request_handlers: Handlers of other requests of the server, by method. Default: none.
        tasks: Which calls of tools a server may answer with a task, for which `Client.call_tool` then waits:
            ``"required"``, the default, those that it would refuse otherwise; ``"always"``, all of them, and in
            2025-11-25 those of tools that it has listed as such; ``"never"``. With `Client.start_task` it may in
            any case.
        extensions: The extensions of the protocol that are known. Default: none.
        middleware: Is around every request and notification, in either direction, the first outermost; see
            `Middleware`. Default: none.
        on_log: Called with each log message of the server. Default: they are dropped.
        log_level: Which log messages servers are asked for that declare to have them: those of at least this
            severity; `None` to leave it to the server, which sends none in 2026-07-28. `Client.set_log_level`
            asks for another. Default: ``"info"`` if ``on_log`` is given, else `None`.
        on_notification: Called with method and parameters of every other notification. Default: they are dropped.
        on_tools_list_changed: Called when the list of tools has changed, or may have while the connection was
            being restored. In the modern era the client subscribes to it, if the server declares such
            notifications. This and the next three may return an awaitable, which is awaited; they are called
            one at a time, in order.
        on_prompts_list_changed: Called when the list of prompts has changed, likewise.
        on_resources_list_changed: Called when the list of resources has changed, likewise.
        on_resource_updated: Called with the URI of each resource that has changed, of those that `Client.listen`
            is listening to, or `Client.request` has subscribed to. This option alone subscribes to none, and is
            then never called.
        cache: Where results are cached as long as the server allows; `None` for nowhere. Default: a new
            `ResponseCache` for this client alone.
        cache_partition: Who shares the private results in `cache`: clients that authenticate as the same
            principal, and only those, may be given the same. Default: this client alone.
        on_frame: Called with ``"sent"`` or ``"received"`` and each message, as it is on the wire.
    """

    era: Era | DiscoverResult
    auth: Auth | None
    on_sample: OnSample | None
    on_elicit: OnElicit | None
    on_elicitation_complete: OnElicitationComplete | None
    roots: Roots | None
    policy: AskPolicy | None
    request_handlers: Mapping[str, RequestHandler]
    on_log: OnLog | None
    on_notification: OnNotification | None
    on_tools_list_changed: Callable[[], object] | None
    on_prompts_list_changed: Callable[[], object] | None
    on_resources_list_changed: Callable[[], object] | None
    on_resource_updated: Callable[[str], object] | None
    cache: ResponseCache | None
    cache_partition: str | None
    on_frame: OnFrame | None


@entered_in_trio
@asynccontextmanager
async def open_client(target: Target, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect to a server for as long as the block runs.

    When the block is left, whatever the reason, pending requests are cancelled, on the wire too, and a server
    process is ended, within `Limits.goodbye_timeout` and twice `Limits.terminate_timeout`; no task or process
    is left. Left at its end, not by an exception, it first lets callbacks take the notifications that were
    received, for `Limits.goodbye_timeout` at most. An exception of the block is raised as itself. A lost
    connection does not end the block: calls
    raise it. Both ends are checkpoints.

    Enter and leave the block in one task, and put deadlines around the whole of it: with an `AsyncExitStack`, a
    `trio.fail_after` around ``enter_async_context`` alone breaks Trio's order of cancel scopes, which leaving
    reports as a `RuntimeError`. `Limits.connect_timeout` is the time that opening may take; several servers at
    once, and as soon as each is ready, are opened by `open_clients`.

    Args:
        target: The URL of a server or its parameters: over HTTP (``https://``, ``http://``, or for a Unix socket
            ``http+unix://%2Frun%2Fmcp.sock/mcp``), over a WebSocket (``wss://``, ``ws://``, ``ws+unix://``), or
            with one message a line (``tcp://host:port``, ``tls://host:port``, ``unix:///run/mcp.sock``); a server
            process to start, a server in this process, or a channel.
        **options: See `ClientOptions`.

    Raises:
        ConnectionLost: The server could not be reached, was silent for `Limits.connect_timeout`, or went away.
        ProtocolError: The two sides speak no common revision, or the handshake was malformed.
        RequestError: The server refused the handshake; `HttpStatusError` if it did so by a status of HTTP, and
            `AuthorizationRefused` if it wants to see an authorization.
        AuthorizationFailed: ``auth`` had none to show.
        TypeError: An option is unknown.
        ValueError: The URL is malformed, or the options contradict each other.

    Spec: 2026-07-28, basic/versioning and basic/transports/streamable-http, "Backward Compatibility"; 2025-11-25,
    basic/lifecycle and basic/transports.
    """
    reconnecting, client = make_client(target, options)
    async with open_hidden_nursery() as nursery:
        running: trio.CancelScope = await nursery.start(_run, reconnecting)
        try:
            yield client
        except BaseException:
            # What the block has raised comes out, no `Cancelled` in its place: the nursery waits in any case.
            with suppress(trio.Cancelled):
                await _leave(reconnecting.aclose, running, reconnecting.limits)  # noqa: ASYNC102 - `_run` is shielded
            raise
        await _leave(client.aclose, running, reconnecting.limits)


async def _leave(aclose: Callable[[], Awaitable[object]], running: trio.CancelScope, limits: Limits) -> None:
    try:
        await aclose()
    except BaseException:  # `Cancelled`, or Ctrl+C
        # By then cancellations have been sent. A server in this process may have a lifespan that hangs.
        running.deadline = trio.current_time() + limits.goodbye_timeout
        raise


async def run_client(
    target: Target,
    *,
    task_status: trio.TaskStatus[Client] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[ClientOptions],
) -> None:
    """Connect to a server as a task: ``client = await nursery.start(run_client, target)``.

    Any task may use the client, and any may end it with `Client.aclose`; then this returns. It also returns when
    the connection is lost for good, which calls then report: a lost server does not cancel the nursery.
    Cancelling the task closes the client as leaving the block of `open_client` does.

    Args:
        target: As for `open_client`.
        task_status: Started with the client once it is connected.
        **options: See `ClientOptions`.

    Raises:
        Others: As `open_client`, and only before the client is connected.
    """
    check_trio_runs("run_client()")
    async with open_client(target, **options) as client:
        task_status.started(client)
        await client._reconnecting.closed.wait()


async def _run(
    reconnecting: ReconnectingConnection,
    *,
    task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Connect, and from then on stay connected until the client is closed, even if all around is cancelled.

    The body is cancelled then, too, and may still need the server while it cleans up. Started with the shielded
    scope, for `_leave`: no other task can cancel this.
    """
    with trio.CancelScope() as scope:

        def started() -> None:
            task_status.started(scope)
            shield_started(scope)

        await reconnecting.run(started)


def make_client(
    target: Target,
    options: ClientOptions,
    on_connection: Callable[[ConnectionLost | None], object] | None = None,
    *,
    asks: Asks | None = None,
    name: str | None = None,
) -> tuple[ReconnectingConnection, Client]:
    """Make a client that is not connected yet: whoever runs the connection connects it.

    Args:
        target: As for `open_client`.
        options: Likewise.
        on_connection: See `ReconnectingConnection`.
        asks: What this server has asked so far, if it was opened before.
        name: See `connector_for`.

    Raises:
        TypeError, ValueError: As `open_client`.
    """
    check_options(options, ClientOptions)
    target = with_auth(target, options.get("auth"))
    request_timeout = options.get("request_timeout", math.inf)
    check_seconds("request_timeout", request_timeout, may_be_zero=False)
    limits = options.get("limits", Limits())
    tasks = options.get("tasks", "required")
    ours = [ClientExtension(TASKS, revisions=MODERN, methods=METHODS_OF_TASKS)] if tasks == "always" else []
    extensions = Extensions([*options.get("extensions", ()), *ours])
    questions = _questions(options, extensions, asks or asks_under(options.get("policy"), name_of(target)))
    era = options.get("era", "auto")
    identity = ClientIdentity(
        options.get("info", OURSELVES),
        questions.capabilities,
        _revisions(options.get("revision"), era),
        refused=extensions.refused,
        hidden=extensions.hidden,
    )
    notifications = _notification_handlers(options, extensions)
    caches = ClientCaches(
        options["cache"] if "cache" in options else ResponseCache(max_bytes=limits.max_cache_bytes),
        options.get("cache_partition"),
        questions.capabilities,
        identity_of(target),
    )
    callbacks = _callbacks(options)

    def messages() -> ServerMessages:
        warns = notifications.on_notification is None
        return ServerMessages(
            questions, notifications, Subscriptions(caches.forget, callbacks, warn_of_unknown=warns)
        )

    has_callbacks = callbacks.wanted != SubscriptionFilter()
    reconnecting = ReconnectingConnection(
        connector_for(target, extensions.names, name=name) if era != "sse" else connector_for_http_sse(target),
        identity,
        limits,
        messages=messages,
        on_frame=options.get("on_frame"),
        forget=caches.forget,
        middleware=tuple(options.get("middleware", ())),
        known=era if isinstance(era, DiscoverResult) else None,
        while_connected=partial(listen_for_callbacks, callbacks.wanted, limits) if has_callbacks else None,
        on_connection=on_connection,
        log_level=_log_level(options),
        max_silence=math.inf if "request_timeout" in options else SILENCE,
    )
    settings = ClientSettings(
        request_timeout=request_timeout, limits=limits, result_types=extensions.result_types, tasks=tasks
    )
    return reconnecting, Client(reconnecting, questions, settings, caches)


def _questions(options: ClientOptions, extensions: Extensions, asks: Asks | None) -> Questions:
    """Return who answers what the server asks, and what is declared of that."""
    handlers = _question_handlers(options, extensions)
    capabilities = options.get("capabilities", ClientCapabilities())
    if asks is not None:
        handlers, capabilities = handlers.restricted(asks), asks.restricted(capabilities)
    capabilities = handlers.declared(capabilities)
    if extensions.settings:
        capabilities = evolve(capabilities, extensions={**(capabilities.extensions or {}), **extensions.settings})
    return Questions(handlers, capabilities, asks)


def _notification_handlers(options: ClientOptions, extensions: Extensions) -> NotificationHandlers:
    return NotificationHandlers(
        on_log=options.get("on_log"),
        on_elicitation_complete=options.get("on_elicitation_complete"),
        extensions=extensions.notification_handlers,
        on_notification=options.get("on_notification"),
    )


def _callbacks(options: ClientOptions) -> Callbacks:
    return Callbacks(
        tools=options.get("on_tools_list_changed"),
        prompts=options.get("on_prompts_list_changed"),
        resources=options.get("on_resources_list_changed"),
        resource=options.get("on_resource_updated"),
    )


def _log_level(options: ClientOptions) -> LoggingLevel | None:
    """Return from which level on the server sends log messages: whoever takes some wants them from `info` on."""
    level = options.get("log_level", None if options.get("on_log") is None else "info")
    if level not in (None, *get_args(LoggingLevel)):
        known = ", ".join(get_args(LoggingLevel))
        raise ValueError(f"log_level must be one of {known}, or None, not {level!r}")
    return level


def _revisions(revision: Revision | str | None, era: Era | DiscoverResult) -> tuple[Revision, ...]:
    """Return the revisions that may be agreed on."""
    if not isinstance(era, DiscoverResult) and era not in get_args(Era):
        raise ValueError(f"era must be one of {', '.join(get_args(Era))} or a DiscoverResult, not {era!r}")
    allowed = tuple(Revision) if revision is None else (Revision(revision),)
    if isinstance(era, DiscoverResult) or era == "auto":
        return allowed
    of_era = tuple(each for each in allowed if each.is_modern is (era == "modern"))
    if not of_era:
        raise ValueError(f"revision {revision} is not of the era {era!r}; leave one of the two options out")
    return of_era


def _question_handlers(options: ClientOptions, extensions: Extensions) -> QuestionHandlers:
    roots = options.get("roots")
    return QuestionHandlers(
        on_sample=options.get("on_sample"),
        sampling_tools=options.get("sampling_tools", False),
        sampling_context=options.get("sampling_context", False),
        on_elicit=options.get("on_elicit"),
        elicit_modes=options.get("elicit_modes", DEFAULT_ELICIT_MODES),
        roots=None if roots is None else RootList(roots),
        others={**extensions.request_handlers, **options.get("request_handlers", {})},
    )
