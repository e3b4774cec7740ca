"""What a client can be opened on, and how each becomes a channel, once or again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias, final, runtime_checkable

import attrs
import trio

from .._bindings._http_parameters import HttpServerParameters
from .._bindings._memory import memory_channel_pair
from .._bindings._parameters import StdioServerParameters
from .._bindings._stdio_client import open_stdio_server
from .._channel import Channel
from .._core._restart import RestartPolicy
from .._groups import open_hidden_nursery
from .._limits import Limits

__all__ = ["Connector", "ServesChannels", "Target", "connector_for", "connector_for_http_sse", "identity_of"]


@runtime_checkable
class ServesChannels(Protocol):
    """A server in this process: it serves whoever is at the other end of a channel."""

    async def serve_channel(
        self, channel: Channel, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve the client at the other end until it goes."""
        ...


Target: TypeAlias = str | HttpServerParameters | StdioServerParameters | ServesChannels | Channel
"""What `open_client` opens; a string is the URL of a server."""


class Connector(Protocol):
    """Opens a channel to one server."""

    @property
    def restart(self) -> RestartPolicy | None:
        """Whether and how often to open again when the connection is lost."""
        ...

    @property
    def survives_probe(self) -> bool:
        """Whether a server that a probe has ended can be had again."""
        ...

    def open(self, limits: Limits) -> AbstractAsyncContextManager[Channel]:
        """Open a channel, and close it on leaving."""
        ...


@final
class _StdioConnector:
    """Starts a server process, as often as it takes."""

    survives_probe = True

    def __init__(self, parameters: StdioServerParameters) -> None:
        self._parameters = parameters

    @property
    def restart(self) -> RestartPolicy | None:
        return self._parameters.restart

    def open(self, limits: Limits) -> AbstractAsyncContextManager[Channel]:
        return open_stdio_server(self._parameters, limits)


@final
class _HttpConnector:
    """Reaches a server at a URL, which nobody has to start."""

    survives_probe = False

    def __init__(self, parameters: HttpServerParameters) -> None:
        self._parameters = parameters

    @property
    def restart(self) -> RestartPolicy | None:
        return self._parameters.restart

    def open(self, limits: Limits) -> AbstractAsyncContextManager[Channel]:
        # Not above: clients of other servers, and servers, start sooner without HTTP.
        from .._bindings._streamable_http_client import open_streamable_http

        return open_streamable_http(self._parameters, limits)


@final
class _InProcessConnector:
    """Runs a server in this process, for this client alone."""

    restart = None
    survives_probe = True

    def __init__(self, server: ServesChannels) -> None:
        self._server = server

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        del limits  # the server has its own
        ours, theirs = memory_channel_pair()
        async with open_hidden_nursery() as nursery:
            await nursery.start(self._server.serve_channel, theirs)
            try:
                yield ours
            finally:
                with trio.CancelScope(shield=True):
                    await ours.aclose()  # the server sees the end of its input, drains and returns


@final
class _ChannelConnector:
    """Uses a channel that somebody else made, once."""

    restart = None
    survives_probe = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        del limits  # whoever made the channel gave it some
        try:
            yield self._channel
        finally:
            with trio.move_on_after(0, shield=True):
                await self._channel.aclose()


def connector_for(target: Target) -> Connector:
    """Return what opens channels to the target.

    Raises:
        TypeError: It is nothing a client can be opened on.
        ValueError: It is a string, and not a URL that can be opened.
    """
    if isinstance(target, str):
        target = HttpServerParameters(target)
    if isinstance(target, HttpServerParameters):
        return _HttpConnector(target)
    if isinstance(target, StdioServerParameters):
        return _StdioConnector(target)
    if isinstance(target, Channel):
        return _ChannelConnector(target)
    if isinstance(target, ServesChannels):  # pyright: ignore[reportUnnecessaryIsInstance] - users are not checked
        return _InProcessConnector(target)
    raise TypeError(
        "a client is opened on a URL, HttpServerParameters, StdioServerParameters, a Server or a Channel, "
        f"not on {type(target).__name__}"
    )


def identity_of(target: object) -> Hashable:
    """Return what makes two targets the same server, so that what one says can be taken for what the other says.

    A server at a URL is that URL, a process what it is started with. A server in this process is itself, and so
    is what is at the other end of a channel.
    """
    if isinstance(target, str):
        target = HttpServerParameters(target)
    if isinstance(target, HttpServerParameters):
        return target.url, _Itself(target.app)
    if isinstance(target, StdioServerParameters):
        return target
    return _Itself(target) if isinstance(target, (Channel, ServesChannels)) else None


@final
@attrs.frozen(eq=False)
class _Itself:
    """An object that need not be hashable; kept, so that no other gets its id."""

    it: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


def connector_for_http_sse(target: Target) -> Connector:
    """Return what opens channels over HTTP+SSE to the target.

    Raises:
        ValueError: It is not at a URL.
    """
    if isinstance(target, str):
        target = HttpServerParameters(target)
    if not isinstance(target, HttpServerParameters):
        raise ValueError(f'era="sse" is for servers at a URL, not for {type(target).__name__}')
    return _HttpConnector(attrs.evolve(target, transport="sse"))
