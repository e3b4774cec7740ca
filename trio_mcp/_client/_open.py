"""The two ways to have a client: for as long as a block runs, or as a task of a nursery."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypedDict

import trio
from typing_extensions import Unpack

from .._groups import shield_started, sole_error
from .._limits import Limits
from .._peer._peer import OnFrame
from .._revisions import Revision
from .._version import __version__
from ..types import ClientCapabilities, Implementation
from ._client import Client
from ._connection import ClientIdentity
from ._connectors import Target, connector_for
from ._dispatch import OnLog, OnNotification, RequestHandler, ServerMessages
from ._keeper import ConnectionKeeper

__all__ = ["ClientOptions", "open_client", "run_client"]

OURSELVES: Final = Implementation(name="trio-mcp", version=__version__)


class ClientOptions(TypedDict, total=False):
    """What a client can be told; every option has a default.

    Attributes:
        info: What the client says it is. Default: this library.
        capabilities: What it says it can do, beside what follows from the other options. Default: nothing.
        revision: The only revision to speak. Default: the newest that both sides know.
        request_timeout: Seconds after which any request fails with `trio.TooSlowError`. Default: `math.inf`;
            `trio.fail_after` around a call, or around many, does the same and more.
        limits: What a connection may cost. Default: `Limits()`.
        request_handlers: Who answers which request of the server, by method. Default: nobody.
        on_log: Called with each log message of the server. Default: they are dropped.
        on_notification: Called with method and parameters of every other notification. Default: they are dropped.
        on_frame: Called with ``"sent"`` or ``"received"`` and each message, as it is on the wire.
    """

    info: Implementation
    capabilities: ClientCapabilities
    revision: Revision | str | None
    request_timeout: float
    limits: Limits
    request_handlers: Mapping[str, RequestHandler]
    on_log: OnLog | None
    on_notification: OnNotification | None
    on_frame: OnFrame | None


@asynccontextmanager
async def open_client(target: Target, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect to a server for as long as the block runs.

    When the block is left, whatever the reason, every request still waited for is given up, the server is told
    and a server process is ended, within `Limits.goodbye_timeout` and twice `Limits.terminate_timeout`; nothing
    is left. An exception of the block comes out as itself. That the connection is lost does not end the block:
    the calls say so. Both ends are checkpoints.

    Args:
        target: A server process to start, a server in this process, or a channel.
        **options: See `ClientOptions`.

    Raises:
        ConnectionLost: The server could not be reached, was silent for `Limits.connect_timeout`, or went away.
        ProtocolError: The two sides speak no common revision, or the handshake was broken.
        RequestError: The server refused the handshake.

    Spec: 2026-07-28, basic/versioning; 2025-11-25, basic/lifecycle.
    """
    keeper, client = _make_client(target, options)
    error: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(_keep, keeper)
            try:
                yield client
            finally:
                await client.aclose()
    except BaseExceptionGroup as group:
        error = sole_error(group)
        if error is None:
            raise
    if error is not None:
        raise error


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
    keeper: ConnectionKeeper, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Keep a client connected, and from then on until it is closed, even if everything around is cancelled.

    The body is cancelled then, too, and may still want to talk to the server while it cleans up.
    """
    with trio.CancelScope() as scope:

        def started() -> None:
            task_status.started()
            shield_started(scope)

        await keeper.run(started)


def _make_client(target: Target, options: ClientOptions) -> tuple[ConnectionKeeper, Client]:
    request_timeout = options.get("request_timeout", math.inf)
    if not request_timeout > 0:
        raise ValueError(f"request_timeout must be more than 0 seconds, not {request_timeout!r}")
    revision = options.get("revision")
    identity = ClientIdentity(
        options.get("info", OURSELVES),
        options.get("capabilities", ClientCapabilities()),
        tuple(Revision) if revision is None else (Revision(revision),),
    )

    def messages() -> ServerMessages:
        return ServerMessages(
            options.get("request_handlers", {}), options.get("on_log"), options.get("on_notification")
        )

    keeper = ConnectionKeeper(
        connector_for(target),
        identity,
        options.get("limits", Limits()),
        messages=messages,
        on_frame=options.get("on_frame"),
    )
    return keeper, Client(keeper, request_timeout)
