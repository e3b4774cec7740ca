"""The two ways to have a client: for as long as a block runs, or as a task of a nursery."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, TypeAlias, TypedDict, get_args

import trio
from typing_extensions import Unpack

from .._limits import Limits, check_seconds
from .._peer._middleware import Middleware
from .._peer._send_queue import OnFrame
from .._revisions import Revision
from .._trio import open_hidden_nursery, shield_started
from .._version import __version__
from ..types import ClientCapabilities, DiscoverResult, Implementation, evolve
from ._caches import ClientMemory, ResponseCache
from ._client import Client
from ._connection import ClientIdentity
from ._dispatch import ClientExtension, Extensions, NoticeHandlers, OnLog, OnNotification, ServerMessages
from ._low_level import ClientSettings, refuse_unknown
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
from ._reconnecting import ConnectionKeeper, Target, connector_for, connector_for_http_sse, identity_of
from ._subscriptions import Callbacks, Subscriptions

Era: TypeAlias = Literal["auto", "modern", "legacy", "sse"]
"""What is known of a server: nothing, that it speaks 2026-07-28 or later, that it speaks something older, or that
it speaks something older over HTTP+SSE."""

OURSELVES: Final = Implementation(name="trio-mcp", version=__version__)


class ClientOptions(TypedDict, total=False):
    """What a client can be told; every option has a default.

    Attributes:
        info: What the client says it is. Default: this library.
        capabilities: What it says it can do, beside what follows from the other options. Default: nothing.
        revision: The only revision to speak. Default: the newest that both sides know.
        era: What is known of the server. Default: ``"auto"``, nothing: it is asked in the way of the modern era,
            and if it does not know that, in the way of the legacy era; over HTTP that is Streamable HTTP first,
            and HTTP+SSE if it does not know that either. Everything else is tried alone, and fails if it is
            wrong. Or what `Client.discover` has returned before: it spares the question, and if it has become
            wrong, the server is asked after all.
        request_timeout: Seconds after which any request fails with `trio.TooSlowError`. Default: `math.inf`;
            `trio.fail_after` around a call, or around many, does the same and more. The time in which handlers of
            this client answer a server's questions does not count: in 2026-07-28 those of this request, in older
            revisions all that come while it is pending. So a server is not told of it that can ask meanwhile.
        limits: What a connection may cost. Default: `Limits()`.
        on_sample: Asks a model when a server wants to, and so declares sampling. Handlers of questions may be
            plain or async functions; several can run at once.
        sampling_tools: Whether the model may be given tools. Default: no; then such requests are refused.
        sampling_context: Whether ``on_sample`` heeds `CreateMessageRequestParams.include_context`. Default: no.
        on_elicit: Asks the user when a server wants to, and so declares elicitation. What it returns is checked
            against the form, and fields left empty get their defaults.
        elicit_modes: How the user can be asked. Default: ``("form",)``. A handler that is also given ``"url"``
            must show the whole URL, and may go there only if the user agrees; nothing here opens it.
        on_elicitation_complete: Called with the id of an elicitation when its user is done at the URL. In
            2025-11-25 only.
        roots: Where a server may work, as roots, ``file://`` URIs and paths, or what returns them; declares
            roots, even if there are none yet. See `Client.set_roots`.
        max_input_rounds: How often a modern server may ask back before it answers one request. Default: 10.
        request_handlers: Who answers which other question of the server, by method. Default: nobody.
        extensions: The extensions of the protocol that are known. Default: none.
        middleware: What every request and notification goes through, in either direction, the first outermost;
            see `Middleware`. Default: nothing.
        on_log: Called with each log message of the server. Default: they are dropped.
        on_notification: Called with method and parameters of every other notification. Default: they are dropped.
        on_tools_list_changed: Called when the list of tools has changed, or may have while the connection was
            being restored. In the modern era the client subscribes for it, if the server tells about it. This and
            the next three may return an awaitable, which is awaited; they are called one at a time, in order.
        on_prompts_list_changed: Called when the list of prompts has changed, likewise.
        on_resources_list_changed: Called when the list of resources has changed, likewise.
        on_resource_updated: Called with the URI of each resource that has changed, as far as `Client.listen` or
            `Client.request` has subscribed to it.
        cache: Where results are kept while the server says that they are fresh; `None` for nowhere. Default: a
            `ResponseCache` of this client's own.
        cache_partition: Whom the private results in `cache` belong to: clients that authenticate as the same
            principal, and only those, may be given the same. Default: this client alone.
        on_frame: Called with ``"sent"`` or ``"received"`` and each message, as it is on the wire.
    """

    info: Implementation
    capabilities: ClientCapabilities
    revision: Revision | str | None
    era: Era | DiscoverResult
    request_timeout: float
    limits: Limits
    on_sample: OnSample | None
    sampling_tools: bool
    sampling_context: bool
    on_elicit: OnElicit | None
    elicit_modes: Collection[ElicitMode] | tuple[ElicitMode, ...]  # mypy reads literals in a tuple only as one
    on_elicitation_complete: OnElicitationComplete | None
    roots: Roots | None
    max_input_rounds: int
    request_handlers: Mapping[str, RequestHandler]
    extensions: Sequence[ClientExtension]
    middleware: Sequence[Middleware]
    on_log: OnLog | None
    on_notification: OnNotification | None
    on_tools_list_changed: Callable[[], object] | None
    on_prompts_list_changed: Callable[[], object] | None
    on_resources_list_changed: Callable[[], object] | None
    on_resource_updated: Callable[[str], object] | None
    cache: ResponseCache | None
    cache_partition: str | None
    on_frame: OnFrame | None


@asynccontextmanager
async def open_client(target: Target, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect to a server for as long as the block runs.

    When the block is left, whatever the reason, every request still waited for is given up, the server is told
    and a server process is ended, within `Limits.goodbye_timeout` and twice `Limits.terminate_timeout`; nothing
    is left. An exception of the block comes out as itself. That the connection is lost does not end the block:
    the calls say so. Both ends are checkpoints.

    Args:
        target: The URL of a server (``https://``, ``http://``, or for a Unix socket
            ``http+unix://%2Frun%2Fmcp.sock/mcp``) or `HttpServerParameters`, a server process to start, a server
            in this process, or a channel.
        **options: See `ClientOptions`.

    Raises:
        ConnectionLost: The server could not be reached, was silent for `Limits.connect_timeout`, or went away.
        ProtocolError: The two sides speak no common revision, or the handshake was broken.
        RequestError: The server refused the handshake; `HttpStatusError` if HTTP says so.
        TypeError: There is no such option.
        ValueError: The URL is none, or the options contradict each other.

    Spec: 2026-07-28, basic/versioning and basic/transports/streamable-http, "Backward Compatibility"; 2025-11-25,
    basic/lifecycle and basic/transports.
    """
    keeper, client = _make_client(target, options)
    async with open_hidden_nursery() as nursery:
        keeping: trio.CancelScope = await nursery.start(_keep, keeper)
        try:
            yield client
        except BaseException:
            # What the block has raised comes out, no `Cancelled` in its place: the nursery waits in any case.
            with suppress(trio.Cancelled):
                await _leave(client, keeping, keeper.limits)  # noqa: ASYNC102 - `_keep` is shielded
            raise
        await _leave(client, keeping, keeper.limits)


async def _leave(client: Client, keeping: trio.CancelScope, limits: Limits) -> None:
    try:
        await client.aclose()
    except BaseException:  # `Cancelled`, or Ctrl+C
        # What was still to be said is said by then. A server in this process may have a lifespan that hangs.
        keeping.deadline = trio.current_time() + limits.goodbye_timeout
        raise


async def run_client(
    target: Target,
    *,
    task_status: trio.TaskStatus[Client] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[ClientOptions],
) -> None:
    """Connect to a server as a task: ``client = await nursery.start(run_client, target)``.

    Any task may use the client, and any may end it with `Client.aclose`; then this returns. It also returns when
    the connection is lost for good, which the calls then say: a lost server ends nobody's nursery. Cancelling
    the task closes the client as leaving the block of `open_client` does.

    Args:
        target: As for `open_client`.
        task_status: Told the client when it is connected.
        **options: See `ClientOptions`.

    Raises:
        Others: As `open_client`, and only before the client is connected.
    """
    keeper, client = _make_client(target, options)
    await keeper.run(lambda: task_status.started(client))


async def _keep(
    keeper: ConnectionKeeper, *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    """Keep a client connected, and from then on until it is closed, even if everything around is cancelled.

    The body is cancelled then, too, and may still want to talk to the server while it cleans up. Started with the
    scope that is shielded, for whoever has left the body: nobody else can cancel this.
    """
    with trio.CancelScope() as scope:

        def started() -> None:
            task_status.started(scope)
            shield_started(scope)

        await keeper.run(started)


def _make_client(target: Target, options: ClientOptions) -> tuple[ConnectionKeeper, Client]:
    refuse_unknown(options, ClientOptions)
    request_timeout = options.get("request_timeout", math.inf)
    check_seconds("request_timeout", request_timeout, may_be_zero=False)
    max_input_rounds = options.get("max_input_rounds", 10)
    if max_input_rounds < 1:
        raise ValueError(f"max_input_rounds must be at least 1, not {max_input_rounds!r}")
    limits = options.get("limits", Limits())
    extensions = Extensions(options.get("extensions", ()))
    handlers = _question_handlers(options, extensions)
    capabilities = handlers.declared(options.get("capabilities", ClientCapabilities()))
    if extensions.settings:
        capabilities = evolve(capabilities, extensions={**(capabilities.extensions or {}), **extensions.settings})
    era = options.get("era", "auto")
    identity = ClientIdentity(
        options.get("info", OURSELVES), capabilities, _revisions(options.get("revision"), era)
    )
    questions = Questions(handlers, capabilities, limits)
    notices = NoticeHandlers(
        on_log=options.get("on_log"),
        on_elicitation_complete=options.get("on_elicitation_complete"),
        extensions=extensions.notification_handlers,
        on_notification=options.get("on_notification"),
    )
    memory = ClientMemory(
        options["cache"] if "cache" in options else ResponseCache.within(limits),
        options.get("cache_partition"),
        identity.capabilities,
        limits,
        identity_of(target),
    )
    callbacks = Callbacks(
        tools=options.get("on_tools_list_changed"),
        prompts=options.get("on_prompts_list_changed"),
        resources=options.get("on_resources_list_changed"),
        resource=options.get("on_resource_updated"),
    )

    def messages() -> ServerMessages:
        strays = notices.on_notification is None
        return ServerMessages(questions, notices, Subscriptions(memory.forget, callbacks, warn_of_strays=strays))

    keeper = ConnectionKeeper(
        connector_for(target) if era != "sse" else connector_for_http_sse(target),
        identity,
        limits,
        messages=messages,
        on_frame=options.get("on_frame"),
        callbacks=callbacks,
        forget=memory.forget,
        middleware=tuple(options.get("middleware", ())),
        known=era if isinstance(era, DiscoverResult) else None,
    )
    settings = ClientSettings(
        request_timeout=request_timeout,
        max_input_rounds=max_input_rounds,
        limits=limits,
        result_types=extensions.result_types,
    )
    return keeper, Client(keeper, questions, settings, memory)


def _revisions(revision: Revision | str | None, era: Era | DiscoverResult) -> tuple[Revision, ...]:
    """Return the revisions that may be agreed on."""
    if not isinstance(era, DiscoverResult) and era not in get_args(Era):
        raise ValueError(f"era must be one of {', '.join(get_args(Era))} or a DiscoverResult, not {era!r}")
    allowed = tuple(Revision) if revision is None else (Revision(revision),)
    if isinstance(era, DiscoverResult) or era == "auto":
        return allowed
    of_era = tuple(each for each in allowed if each.is_modern is (era == "modern"))
    if not of_era:
        raise ValueError(f"revision {revision} is not of the era {era!r}")
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
