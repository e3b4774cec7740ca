"""Clients for tests, in memory: what a handler raises comes out of the call that has caused it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Final, final

import attrs
from typing_extensions import Unpack

from .._bindings._memory import MemoryChannel, memory_channel_pair
from .._channel import Channel, Incoming, Outgoing, Received
from .._client import _open
from .._client._client import Client
from .._client._listen import entered_in_trio
from .._client._open import ClientOptions, ServesChannels, kind_of, serves_channels
from .._codec._jsonrpc import RequestId
from .._oauth._principal import Principal
from .._peer._exchange import FailureReport, reporting_failures
from .._trio import open_hidden_nursery


@entered_in_trio
@asynccontextmanager
async def open_client(
    server: ServesChannels,
    *,
    raise_exceptions: bool = True,
    principal: Principal | str | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Connect to a server in this process for as long as the block runs, as `trio_mcp.open_client` does.

    But a handler that fails does not become an answer that says so little: its own exception is raised by the
    call, as itself, with its traceback. What no call has raised, because the caller had given up, the handler was
    that of a notification or one of this client's own (`on_elicit` …), the call had become a task, a task of
    `Context.start_soon` has failed, or the call was part of a batch, is raised when the block is left; several
    together as an `ExceptionGroup`. If the block has raised something by itself, that comes out, with a note of
    the others.

    What a handler says on purpose stays an answer: a `ToolError`, a `RequestError`, arguments that do not fit.

    The messages are bytes on a wire in memory, with the same rules as on any other, and nothing in them differs.
    Leaving and cancellation are as with `trio_mcp.open_client`. All of it takes place on Trio's clock, so with a
    `trio.testing.MockClock` whatever waits does so in no time. Without a ``request_timeout`` calls wait for ever.

    Args:
        server: A `Server`, whose lifespan is entered for this client; or a `Proxy`, whose own failures come
            out, but not those of the servers behind it.
        raise_exceptions: Whether exceptions come out. If not, the client sees what any other would see.
        principal: Who the client is to the server, which its `scopes` and `Context.principal` go by. Default:
            nobody in particular, and everything is permitted, as over a pipe.
        **options: See `ClientOptions`: `revision`, `era`, `on_elicit`, `limits` and so on.

    Raises:
        TypeError: It is no server in this process, or an option is unknown.
        Others: As `trio_mcp.open_client`, and what handlers raise.
    """
    if not serves_channels(server):
        raise TypeError(
            "trio_mcp.testing.open_client opens clients of servers in this process (a Server or a Proxy), not of "
            f"{kind_of(server)}; trio_mcp.open_client opens all others"
        )
    options.setdefault("request_timeout", math.inf)
    failures = _Failures()
    ours, theirs = memory_channel_pair()
    server_end = _ServerEnd(theirs, failures, None if principal is None else _Caller(principal))
    client_end = _ClientEnd(ours, failures)
    of_server = FailureReport(server_end, failures.note)
    of_client = FailureReport(client_end, failures.note_in_client)
    try:
        async with open_hidden_nursery() as nursery:
            with _reported_to(of_server if raise_exceptions else None):
                await nursery.start(server.serve_channel, server_end)
            with ExitStack() as reported:
                reported.enter_context(_reported_to(of_client if raise_exceptions else None))
                async with _open.open_client(client_end, **options) as client:
                    reported.close()  # the tasks of the test are no part of it
                    yield client
    except BaseException as error:
        failures.mention_in(error)
        raise
    failures.raise_unseen()


@contextmanager
def _reported_to(report: FailureReport | None) -> Generator[None]:
    """Let what connections that are opened in the block do not show be reported."""
    token = reporting_failures.set(report)
    try:
        yield
    finally:
        reporting_failures.reset(token)


@final
@attrs.frozen(eq=False)
class _Caller:
    """Where the messages of a client come from that is somebody in particular."""

    principal: str


@final
@attrs.define(eq=False)
class _Failures:
    """What handlers have raised, by the request they were for, until a call has raised it.

    Attributes:
        on_the_way: For each message that is sent to the client and not received there, what its call is to raise.
    """

    on_the_way: deque[Exception | None] = attrs.field(factory=deque[Exception | None], init=False)
    _of_requests: dict[RequestId, Exception] = attrs.field(factory=dict[RequestId, Exception], init=False)
    _unseen: list[BaseException] = attrs.field(factory=list[BaseException], init=False)
    _given: list[tuple[Exception, TracebackType | None]] = attrs.field(factory=list[Any], init=False)

    def note(self, id: RequestId | None, error: BaseException) -> None:
        """Note what the handler of a request has raised; see `reporting_failures`."""
        self._unseen.append(error)
        if id is not None and isinstance(error, Exception):
            self._of_requests[id] = error

    def note_in_client(self, _: RequestId | None, error: BaseException) -> None:
        """Note what a handler of the client has raised, whose caller is the server."""
        self._unseen.append(error)

    def of(self, message: Outgoing) -> Exception | None:
        """Return what the call that a message answers is to raise."""
        if len(message.answers) != 1 or message.data.startswith(b"["):
            return None
        return self._of_requests.pop(message.answers[0], None)

    def give(self, error: Exception) -> None:
        """Note that a call is given an exception, which it raises unless its caller has given up meanwhile."""
        self._given = [each for each in self._given if _is_untouched(*each)]
        self._given.append((error, error.__traceback__))
        self._unseen = [other for other in self._unseen if other is not error]

    def raise_unseen(self) -> None:
        """Raise what no call has raised."""
        unseen = self._taken()
        if len(unseen) == 1:
            raise unseen[0]
        if unseen:
            raise BaseExceptionGroup("handlers have failed, and no call has raised it", unseen)

    def mention_in(self, error: BaseException) -> None:
        """Add notes of what no call has raised to another exception."""
        for unseen in self._taken():
            error.add_note(f"besides, a handler has raised {unseen!r}")

    def _taken(self) -> list[BaseException]:
        unseen, given, self._unseen, self._given = self._unseen, self._given, [], []
        return [*unseen, *(error for error, traceback in given if _is_untouched(error, traceback))]


def _is_untouched(error: Exception, traceback: TracebackType | None) -> bool:
    """Return whether nobody has raised an exception since it had this traceback: raising adds to it."""
    return error.__traceback__ is traceback


class _End(Channel):
    """An end of the wire."""

    def __init__(self, inner: MemoryChannel, failures: _Failures) -> None:
        self._inner: Final = inner
        self._failures: Final = failures
        self.transport = inner.transport

    @property
    def description(self) -> str:
        return self._inner.description

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self._inner.send(messages)

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        return self._inner.send_nowait(messages)

    async def aclose(self) -> None:
        await self._inner.aclose()


@final
class _ServerEnd(_End):
    """The server's end of the wire. It notes which answers stand for failures."""

    def __init__(self, inner: MemoryChannel, failures: _Failures, caller: _Caller | None) -> None:
        super().__init__(inner, failures)
        self._caller: Final = caller

    async def receive(self) -> Sequence[Received]:
        received = await self._inner.receive()
        if self._caller is not None:
            for message in received:
                if isinstance(message, Incoming):
                    message.origin = self._caller
        return received

    async def send(self, messages: Sequence[Outgoing]) -> None:
        # Before, because the other end may take them, and run, before this task goes on.
        self._failures.on_the_way.extend(map(self._failures.of, messages))
        await self._inner.send(messages)

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        taken = self._inner.send_nowait(messages)
        self._failures.on_the_way.extend(map(self._failures.of, messages))
        return taken


@final
class _ClientEnd(_End):
    """The client's end of the wire. It lets calls raise what their handlers have raised."""

    async def receive(self) -> Sequence[Received]:
        received = await self._inner.receive()
        for message in received:
            failure = self._failures.on_the_way.popleft()
            if failure is not None and isinstance(message, Incoming):
                message.failure = failure
                self._failures.give(failure)
        return received
