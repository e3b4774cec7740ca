"""The servers of a group: the task that keeps each of them connected, and the states that everybody can look at.

    connecting ─→ ready ⇄ lost        the transport connects again by its own policy
        │           └───┴─→ failed    there is no policy, or it has given up
        └─→ failed                    it could not be opened
    failed ─→ connecting              only with a policy for that: `retry`

Nothing that happens to one server is known to the task of another one. What they are asked, and what is gathered
of their answers, is in `_group`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from threading import get_ident
from typing import Final, Literal, TypeAlias, cast, final

import attrs
import trio

from .._core._reconnect import Backoff, RestartPolicy
from .._errors import ConnectionLost, McpError, ServerUnavailable
from .._limits import Limits
from .._logs import Log
from .._printable import printable
from .._trio import LightParkingLot, check_thread
from ._client import Client
from ._reconnecting import ReconnectingConnection

_log: Final = Log("trio_mcp.client")

ServerStatus: TypeAlias = Literal["connecting", "ready", "lost", "failed", "disabled", "closed"]
"""What a server of a group can be."""

_MAY_COME: Final[frozenset[ServerStatus]] = frozenset({"connecting", "lost"})


@final
@attrs.frozen
class ServerState:
    """What one server of a group is at a moment.

    Attributes:
        server: Its name in the group.
        status: ``"connecting"``: it is being opened, also once more, after a failure or by `ClientGroup.restart`.
            ``"ready"``: it can be asked. ``"lost"``: the connection has ended, and another one is being opened by
            the policy of its transport; without a policy, it is still being closed, which shows why.
            ``"failed"``: it could not be opened, or was lost for good, and nothing more will be tried by itself.
            ``"disabled"``: the configuration says so. ``"closed"``: its client was closed, or the group was left.
        reason: Why, in one sentence, made printable; `None` if there is nothing to say. Of a server that is being
            opened once more, why it failed before.
        error: The error behind that.
        attempts: How often opening it has failed since it was ready last, or since the beginning.
    """

    server: str
    status: ServerStatus
    reason: str | None = None
    error: Exception | None = attrs.field(default=None, eq=False, repr=False)
    attempts: int = 0


@final
class StateChanges(AsyncIterator[ServerState]):
    """Iterates over the states that servers get, from when `ClientGroup.changes` has made this.

    Of a server that changes several times before it is its turn, only the last state is returned; so nothing
    piles up, and nothing has to be closed. It ends when the block of the group has been left.
    """

    def __init__(self, states: States) -> None:
        self._states = states
        self._seen = states.changes

    async def __anext__(self) -> ServerState:
        self._states.check_thread()  # not only where it waits: there may be a state already
        await trio.lowlevel.checkpoint()
        while True:
            following = self._states.first_after(self._seen)
            if following is not None:
                self._seen, state = following
                return state
            if self._states.are_final:
                raise StopAsyncIteration
            await self._states.wait_changed()


@final
class States:
    """The states of all servers of a group, and waiting for them.

    Whoever has got `ConnectionLost` from a call finds the server lost, although its task may not have run since.
    So a server that is said to be ready is looked at before anything is returned.
    """

    def __init__(self) -> None:
        self.changes: int = 0
        self.changed: Final = LightParkingLot()
        self.are_final: bool = False
        self._states: dict[str, tuple[int, ServerState]] = {}
        self._thread = get_ident()
        self._look: dict[str, Callable[[], object]] = {}

    async def wait_changed(self) -> None:
        """Wait until a server gets another state, or there will be no other states."""
        self.check_thread()
        await self.changed.park()

    def check_thread(self) -> None:
        """Check that this is the thread of the group; see there."""
        check_thread(self._thread, "this group", "group.call_tool")

    def watch(self, server: str, look: Callable[[], object]) -> None:
        """Call a function, which may `set` another state, before anybody is told that a server is ready."""
        self._look[server] = look

    def _current(self) -> dict[str, tuple[int, ServerState]]:
        for name, (_, state) in tuple(self._states.items()):
            if state.status == "ready":
                self._look[name]()
        return self._states

    def __getitem__(self, name: str) -> ServerState:
        return self._current()[name][1]

    def all(self) -> dict[str, ServerState]:
        """Return the states by server, in the order of the configuration."""
        return {name: state for name, (_, state) in self._current().items()}

    def set(self, state: ServerState) -> None:
        """Give a server another state, and wake all who wait for one."""
        if state.server in self._states and self._states[state.server][1] == state:
            return
        self.changes += 1
        self._states[state.server] = self.changes, state
        self.changed.unpark_all()

    def finish(self) -> None:
        """There will be no other states any more."""
        self.are_final = True
        self.changed.unpark_all()

    def first_after(self, change: int) -> tuple[int, ServerState] | None:
        """Return the oldest state that was set after so many changes, and its number."""
        later = [numbered for numbered in self._current().values() if numbered[0] > change]
        return min(later, key=lambda numbered: numbered[0], default=None)

    async def wait_ready(self, names: Iterable[str], at_least: int) -> list[str]:
        """Wait until so many of these servers are ready, and return which are.

        Raises:
            ServerUnavailable: That cannot be any more; about the first of those that will not become ready.
        """
        of = tuple(names)
        while True:
            states = self.all()
            statuses = {name: states[name].status for name in of}
            ready = [name for name, status in statuses.items() if status == "ready"]
            if len(ready) >= at_least:
                await trio.lowlevel.checkpoint()
                return ready
            out = [name for name, status in statuses.items() if status not in _MAY_COME and status != "ready"]
            if len(of) - len(out) < at_least:
                raise self.unavailable(out[0])
            await self.wait_changed()

    async def wait_settled(self) -> None:
        """Wait until no server is being opened or restored."""
        while any(state.status in _MAY_COME for _, state in self._current().values()):
            await self.wait_changed()
        await trio.lowlevel.checkpoint()

    def unavailable(self, name: str) -> ServerUnavailable:
        """Return the error for a server that is not ready."""
        state = self[name]
        error = ServerUnavailable(name, state.status, state.reason)
        error.__cause__ = state.error
        return error


@final
@attrs.define(eq=False, repr=False)
class Member:
    """One server of a group. Its task is `run`, which raises nothing but what ends the program.

    Args:
        name: Its name in the group.
        make: Makes a client of it, given what to call when its connection changes.
        retry: When opening it is tried again after a failure: a policy; `None` for never.
        limits: How long closing it may take.
        states: Where its state is kept.

    Attributes:
        is_over: Whether it is being closed, or was.
    """

    name: str
    _make: Callable[[Callable[[ConnectionLost | None], object]], tuple[ReconnectingConnection, Client]]
    _retry: RestartPolicy | None
    _limits: Limits
    _states: States
    client: Client | None = attrs.field(default=None, init=False)
    finished: trio.Event = attrs.field(factory=trio.Event, init=False)
    is_over: bool = attrs.field(default=False, init=False)
    # The client that is open now is to be closed: for good if `is_over`, else another one is opened after it.
    _ending: trio.Event = attrs.field(factory=trio.Event, init=False)
    _reconnecting: ReconnectingConnection | None = attrs.field(default=None, init=False)
    _failures: int = attrs.field(default=0, init=False)
    _ready_at: float | None = attrs.field(default=None, init=False)
    # The body of the group is cancelled first, and may still need the server while it cleans up.
    _scope: trio.CancelScope = attrs.field(factory=partial(trio.CancelScope, shield=True), init=False)
    # Around one client: what bounds its end when another one is to follow.
    _client_scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self._states.set(ServerState(self.name, "connecting"))
        self._states.watch(self.name, self._look)

    async def run(self) -> None:
        """Open the server, keep it connected, open it once more as `retry` and `restart` say; until closed."""
        try:
            with self._scope:
                while True:
                    await self._keep()
                    await self._ending.wait()
                    if self.is_over:
                        return
                    self._ending = trio.Event()
        finally:
            self.is_over = True
            if self._states[self.name].status != "failed":
                self._set("closed")
            self.client = None
            self.finished.set()

    async def _keep(self) -> None:
        """Open the server, and once more as often as `retry` says, until it has failed or is closed."""
        backoff = None if self._retry is None else Backoff(self._retry)
        while True:
            error = await self._connect()
            if self._ending.is_set():
                return
            if error is None:  # by `Client.aclose`
                self._set("closed")
                return
            self._failures += 1
            lasted = 0.0 if self._ready_at is None else trio.current_time() - self._ready_at
            delay = None if backoff is None else backoff.next_delay(lasted)
            if delay is None:
                self._set("failed", error)
                return
            self._set("connecting", error)
            _log.warning("%s: %s; opening it again in %g s", self.name, error, delay)
            with trio.move_on_after(delay):
                await self._ending.wait()
            if self._ending.is_set():  # perhaps in the step in which the pause was over
                return

    async def _connect(self) -> Exception | None:
        """Open the server and keep it connected. Returns why that has ended; `None` if it was closed.

        If the group is being left already, this only closes a channel that was given.
        """
        self._ready_at = None
        reconnecting, client = self._make(lambda end: self._connection_changed(client, end))
        self._reconnecting = reconnecting
        if self.is_over:  # `begin_closing` has found nothing to close, or what came before this
            reconnecting.begin_closing()
        try:
            with trio.CancelScope() as self._client_scope:
                await reconnecting.run(lambda: None)
        except McpError as error:
            return error
        # The boundary of a server: what is wrong with one, even with its program in this process, ends no other.
        except Exception as error:
            if not self._ending.is_set():
                _log.exception("%s: the client has failed", self.name)
            return error
        finally:
            self.client = None
        return reconnecting.failure

    def _connection_changed(self, client: Client, end: ConnectionLost | None) -> None:
        if self._ending.is_set():
            return
        if end is None:
            self.client = client
            self._failures = 0
            self._ready_at = trio.current_time()
            self._set("ready")
        else:
            self._set("lost", end)

    def _look(self) -> None:
        """Notice that the connection has ended before its task does."""
        end = None if self._reconnecting is None else self._reconnecting.channel_end
        if end is not None and not self._ending.is_set():
            self._set("lost", end)

    def _set(self, status: ServerStatus, error: Exception | None = None) -> None:
        reason = None if error is None else _reason_of(error)
        self._states.set(ServerState(self.name, status, reason, error, self._failures))

    # Closing.

    def restart(self) -> None:
        """Let `run` close the client, within the time that an orderly end can take, and open another one."""
        if self._reconnecting is None or self._ending.is_set():
            return  # it has not begun to be opened, or is being restarted
        self.client = None
        self._failures = 0
        self._set("connecting")
        self._client_scope.deadline = self._end_client()

    async def finish_notifications(self) -> None:
        """Wait until callbacks have taken what was received, as `Client.aclose` does first."""
        await trio.lowlevel.checkpoint()
        if self._reconnecting is not None:
            await self._reconnecting.finish_notifications()

    def begin_closing(self) -> None:
        """Let `run` close the client and return, within the time that an orderly end can take. Does not wait."""
        self.is_over = True
        self._scope.deadline = self._end_client()

    def _end_client(self) -> float:
        """Begin to close the client. Returns when that must be over."""
        self._ending.set()
        if self._reconnecting is not None:
            self._reconnecting.begin_closing()
        limits = self._limits
        # What each part of an end may take: the messages, the handlers and lifespan of a server here, a process.
        seconds = limits.goodbye_timeout + limits.drain_timeout + limits.lifespan_timeout
        return trio.current_time() + seconds + 2 * limits.terminate_timeout

    def hurry(self) -> None:
        """Close within `Limits.goodbye_timeout`; a process still gets the time that it may take to exit."""
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + self._limits.goodbye_timeout)


def _reason_of(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        # The text of a group says how many errors it has, and not which.
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    if isinstance(error, ConnectionLost) and error.stderr:
        # Of a traceback the last line says what has happened; `ServerState.error` has the others.
        return printable(f"{error.reason}; the last line of its standard error: {error.stderr[-1]}")
    return printable(" ".join(str(error).split()) or type(error).__name__)
