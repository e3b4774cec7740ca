"""The agreement of a client with a server on a revision: how it is made, and for how long it holds.

`negotiate` asks ``server/discover`` and, of older servers, ``initialize``; the rules are in `_core/_lifecycle`.
No transport is looked at: over HTTP an older server answers the first question with some error, on a pipe it
may be silent, and in both cases ``initialize`` follows. Making agreements again is `_reconnecting`'s part.

Spec: 2026-07-28, basic/versioning; basic/transports/stdio and basic/transports/streamable-http, "Backward
Compatibility".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .. import types
from .._codec._json import InvalidData, cost_of, is_object
from .._codec._jsonrpc import from_wire, to_wire
from .._core._legacy_tasks import TASKS_REVISION
from .._core._lifecycle import common_revision, is_inconclusive, judge_discovery, judge_initialize
from .._core._reconnect import Backoff, RestartPolicy
from .._core._tasks import TASK, with_tasks
from .._errors import (
    METHOD_NOT_FOUND,
    MODERN_ERRORS,
    UNSUPPORTED_PROTOCOL_VERSION,
    AuthorizationFailed,
    ConnectionLost,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
    SessionLost,
)
from .._limits import MIB, Limits, check_given
from .._logs import Log
from .._peer._call import move_on_after_answer_time
from .._peer._peer import Peer
from .._revisions import (
    BATCH_REVISION,
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    PROTOCOL_VERSION_KEY,
    REFUSED,
    SERVER_INFO_KEY,
    Revision,
    Side,
)
from .._trio import open_hidden_nursery
from ._subscriptions import ResourceSubscriptions, Subscriptions

_log: Final = Log("trio_mcp.client")

MAX_DESCRIPTION_BYTES: Final = 16 * MIB
"""What a server's info, capabilities and instructions may take in memory, for as long as the connection lasts."""

_STALE: Final = "the server does not know this connection any more"


@final
@attrs.frozen
class ClientIdentity:
    """What a client declares, and which revisions it speaks.

    Attributes:
        info: Its name and version; those of another client that it speaks for are plain JSON.
        capabilities: Its capabilities, likewise.
        revisions: The revisions it may agree to.
        proposed: The legacy revision that it proposes. Default: the newest of them.
        on_description: Called with the answer that describes the server, as it came, before it is used.
        refused: By revision, which methods it may not send; extensions may add what the core does not have.
        hidden: By revision, the extensions among its capabilities that are not declared there.
    """

    info: types.Implementation | Mapping[str, Any]
    capabilities: types.ClientCapabilities | Mapping[str, Any]
    revisions: Sequence[Revision]
    proposed: Revision | None = None
    on_description: Callable[[Mapping[str, Any]], object] | None = None
    refused: Mapping[Revision, Collection[str]] = REFUSED[Side.CLIENT]
    hidden: Mapping[Revision, Collection[str]] = MappingProxyType({})

    def meta(self, revision: Revision) -> dict[str, Any]:
        """Return what each request of a modern revision carries (2026-07-28, basic, "_meta")."""
        return {
            PROTOCOL_VERSION_KEY: str(revision),
            CLIENT_INFO_KEY: _plain(self.info, revision),
            CLIENT_CAPABILITIES_KEY: self._capabilities(revision),
        }

    def handshake(self, legacy: Sequence[Revision]) -> dict[str, Any]:
        """Return the parameters of ``initialize`` (2025-11-25, basic/lifecycle)."""
        proposed = max(legacy) if self.proposed is None else self.proposed
        return {
            "protocolVersion": str(proposed),
            "capabilities": self._capabilities(proposed),
            "clientInfo": _plain(self.info, proposed),
        }

    def _capabilities(self, revision: Revision) -> Mapping[str, Any]:
        declared = _plain(self.capabilities, revision)
        hidden = self.hidden.get(revision)
        if not hidden:
            return declared
        shown = {name: of for name, of in declared["extensions"].items() if name not in hidden}
        rest = {name: value for name, value in declared.items() if name != "extensions"}
        return {**rest, "extensions": shown} if shown else rest

    def described(self, answer: Mapping[str, Any]) -> None:
        """Take the answer that describes the server."""
        if self.on_description is not None:
            self.on_description(answer)


def _plain(declared: object, revision: Revision) -> Mapping[str, Any]:
    if is_object(declared):
        return declared
    plain: Mapping[str, Any] = to_wire(declared, revision)
    return plain


@final
@attrs.define(eq=False)
class Connection:
    """An agreement with a server, for as long as it holds.

    It ends with the channel it was made over, or becomes stale before: when the server shows that it does not
    know the connection any more. Then another one is made over the same channel, and other calls there go on.

    Attributes:
        peer: This end of the channel.
        revision: The revision that is spoken.
        server_info: The server's name and version, if it has sent them.
        capabilities: The server's capabilities, if it was asked.
        instructions: How a model should use the server.
        is_assumed: Whether it was made without asking the server, which has not confirmed it yet.
        is_certain: Whether an answer has decided the era. If not, `settle_era` asks again.
        subscriptions: Who listens to what on it.
        resource_subscriptions: Which resources it is subscribed to, in the legacy era.
    """

    peer: Final[Peer]
    revision: Final[Revision]
    server_info: Final[types.Implementation | None] = attrs.field(default=None, kw_only=True)
    capabilities: Final[types.ServerCapabilities | None] = attrs.field(default=None, kw_only=True)
    instructions: Final[str | None] = attrs.field(default=None, kw_only=True)
    _meta: dict[str, Any] = attrs.field(alias="meta", factory=dict[str, Any], kw_only=True)
    _refused: Collection[str] = attrs.field(alias="refused", kw_only=True)
    is_assumed: bool = attrs.field(default=False, kw_only=True)
    is_certain: bool = attrs.field(default=True, init=False)
    subscriptions: Subscriptions = attrs.field(init=False)
    resource_subscriptions: ResourceSubscriptions = attrs.field(init=False)
    _stale: ConnectionLost | None = attrs.field(default=None, init=False)
    _scopes: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)

    def check_size(self) -> None:
        """Check that the server's description of itself is small enough to keep.

        Raises:
            RemoteProtocolError: It takes more than `MAX_DESCRIPTION_BYTES` in memory.
        """
        described = (self.server_info, self.capabilities)
        written = [None if one is None else to_wire(one, self.revision) for one in described]
        if cost_of([self.instructions, *written]) > MAX_DESCRIPTION_BYTES:
            raise RemoteProtocolError(
                "the server's info, capabilities and instructions take more than "
                f"{MAX_DESCRIPTION_BYTES} bytes in memory"
            )

    def begin(self, subscriptions: Subscriptions, limits: Limits) -> None:
        """Let listeners subscribe; called once, when the connection is agreed on."""
        self.subscriptions = subscriptions
        subscriptions.begin(self.peer, self.revision)
        can = None if self.capabilities is None else self.capabilities.resources
        self.resource_subscriptions = ResourceSubscriptions(
            self.peer,
            self.revision,
            is_declared=can is not None and bool(can.subscribe),
            goodbye_timeout=limits.goodbye_timeout,
        )

    # How it ends.

    @property
    def end(self) -> ConnectionLost | None:
        """Why it does not hold any more, once that is so and unless this side closed."""
        return self.peer.end or self._stale

    async def wait_over(self) -> None:
        """Wait until it does not hold any more, or this side closes."""
        with self.until_stale():
            await self.peer.wait_input_ended()

    @contextmanager
    def until_stale(self) -> Generator[None]:
        """Cancel the block once the server does not know the connection any more."""
        with trio.CancelScope() as scope:
            if self._stale is not None:
                scope.cancel(reason=_STALE)
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    def become_stale(self, why: McpError) -> None:
        """End the agreement: the server does not know it any more, so nothing of it is sent any more."""
        if self._stale is None:
            self._stale = ConnectionLost(str(why))
            self._stale.__cause__ = copy(why)  # whose frames have this, and what was sent: they would be a cycle
            self.resource_subscriptions.forget()
            for scope in tuple(self._scopes):
                scope.cancel(reason=_STALE)

    def ends_with(self, error: McpError) -> bool:
        """Return whether the failure of a request shows that this is stale, which it is from then on.

        The server has then refused the request unseen, so it may be made again after another agreement.
        """
        is_stale = isinstance(error, SessionLost)
        if not is_stale and isinstance(error, RequestError) and self.revision.is_modern:
            # Modern servers know such errors; others only prove that something has answered.
            is_stale = error.code == UNSUPPORTED_PROTOCOL_VERSION or (
                self.is_assumed and error.code not in MODERN_ERRORS
            )
        if is_stale:
            self.become_stale(error)
        return is_stale

    # What is sent in it.

    async def set_log_level(self, level: types.LoggingLevel, meta: Mapping[str, object] | None = None) -> None:
        """Ask for log messages: at once in the legacy era, with each request from now on in the modern."""
        if self.revision.is_modern:
            self._meta[LOG_LEVEL_KEY] = level
            await trio.lowlevel.checkpoint()
        else:
            await self.peer.request(
                "logging/setLevel", self.write(types.SetLevelRequestParams(level=level, meta=meta))
            )

    def check(self, method: str) -> None:
        """Check that a client may send the method in this revision.

        Raises:
            LocalProtocolError: The revision has no such method, or only servers may send it.
        """
        if method in self._refused:
            raise LocalProtocolError(f"a client of {self.revision} has no method {method}")

    def check_batch(self, methods: Iterable[str]) -> None:
        """Check that a client may send requests of these methods as a batch.

        Raises:
            LocalProtocolError: The revision has no batches, or lacks one of the methods.
        """
        if self.revision is not BATCH_REVISION:
            raise LocalProtocolError(f"{self.revision} has no batches")
        for method in methods:
            self.check(method)

    @property
    def declared(self) -> Mapping[str, Any]:
        """The capabilities that each request declares, as plain JSON; empty in the legacy era."""
        declared: Mapping[str, Any] = self._meta.get(CLIENT_CAPABILITIES_KEY, {})
        return declared

    def with_meta(self, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the parameters of a request with what the revision requires in their `_meta`."""
        if not self._meta:
            return params
        if params is None:
            return {"_meta": self._meta}
        return {**params, "_meta": {**self._meta, **(params.get("_meta") or {})}}

    def write(self, params: types.RequestParams) -> dict[str, Any]:
        """Return the parameters of a request as plain JSON, with what the revision requires in their `_meta`."""
        try:
            if not self._meta:
                return to_wire(params, self.revision)
            wire = to_wire(params, self.revision, without="_meta")
            wire["_meta"] = {**self._meta, **(params.meta or {})}
        except (AttributeError, TypeError):
            check_params(params)
            raise
        return wire


def tasks_declared(connection: Connection) -> dict[str, Any]:
    """Return what a request says in its `_meta` to declare that it knows tasks, whatever others declare."""
    return {CLIENT_CAPABILITIES_KEY: with_tasks(connection.declared)}


def has_legacy_tasks(connection: Connection) -> bool:
    """Whether a server of 2025-11-25 has declared that calls of tools may be tasks ("Capability Negotiation")."""
    tasks = None if connection.capabilities is None else connection.capabilities.tasks
    requests = None if tasks is None or connection.revision is not TASKS_REVISION else tasks.requests
    return requests is not None and requests.tools is not None and requests.tools.call is not None


def can_cancel_tasks(connection: Connection) -> bool:
    """Whether a server can cancel tasks; in 2025-11-25 it has to declare that."""
    tasks = None if connection.capabilities is None else connection.capabilities.tasks
    return connection.revision.is_modern or (tasks is not None and tasks.cancel is not None)


MAX_LATE_TASKS: Final = 100
"""How many tasks of calls that were given up are being cancelled at once; no more, however many come."""


def late_tasks_canceller(
    connection: Connection, nursery: trio.Nursery, timeout: float
) -> Callable[[Mapping[str, Any]], object] | None:
    """Return what cancels each task that answers a call which was given up; `None` where there are no tasks.

    Nobody knows the id of such a task, so nobody would come for it. Called with each result that no call awaits.

    Args:
        connection: The connection.
        nursery: Runs what is sent.
        timeout: How many seconds the server may take to answer.
    """
    running, is_modern = 0, connection.revision.is_modern

    async def cancel(id: str) -> None:
        nonlocal running
        params = {"taskId": id, "_meta": tasks_declared(connection)} if is_modern else {"taskId": id}
        try:
            with trio.move_on_after(timeout):
                await connection.peer.request("tasks/cancel", connection.with_meta(params))
        except (McpError, trio.ClosedResourceError) as error:
            _log.info("task %.60s could not be cancelled: %s", id, error)
        finally:
            running -= 1

    def take(result: Mapping[str, Any]) -> None:
        nonlocal running
        created: object = result
        if not is_modern:  # a result of a tool has no such member, but has content
            created = None if "content" in result else result.get("task")
        elif result.get("resultType") != TASK:
            created = None
        id = created.get("taskId") if is_object(created) else None
        if isinstance(id, str) and running < MAX_LATE_TASKS:
            running += 1
            nursery.start_soon(cancel, id)

    return take if is_modern or (has_legacy_tasks(connection) and can_cancel_tasks(connection)) else None


def check_params(params: types.RequestParams) -> None:
    """Refuse parameters of another kind than their hints say, once a request with them has failed.

    Raises:
        TypeError: One is.
    """
    kind: Any = type(params)
    check_given(kind, {field.name: getattr(params, field.name) for field in attrs.fields(kind)})


_MODERN_REFUSALS: Final = MODERN_ERRORS | {METHOD_NOT_FOUND}
"""How a server refuses ``initialize`` that has no such method."""

_AGAIN: Final = RestartPolicy(max_restarts=1, first_delay=0.2)
"""How often, and how soon, an unanswered ``server/discover`` is sent again before there is an agreement."""

_AFTERWARDS: Final = RestartPolicy(max_restarts=3, first_delay=1.0, max_delay=30.0)
"""The same, once there is an agreement with a server whose era is not certain."""

_Outcome: TypeAlias = dict[str, Any] | McpError | None
"""What ``server/discover`` has brought: a result, an error, or no answer yet."""


async def negotiate(
    peer: Peer,
    identity: ClientIdentity,
    limits: Limits,
    *,
    probe: bool = True,
    known: types.DiscoverResult | None = None,
) -> Connection:
    """Agree with the server on a revision.

    ``server/discover`` finds out the era of the server, also when only one modern revision is allowed: a legacy
    server might take a modern request for one it knows (basic/transports/stdio). Only an answer decides. Without
    one ``initialize`` is sent, and an answer to the discovery that comes meanwhile still counts.

    Args:
        peer: This end of a channel.
        identity: What the client declares, and the revisions it speaks.
        limits: `Limits.discover_timeout` ends the wait for a silent legacy server. Where we speak only modern
            revisions, silence leaves nothing else to try, and only the time to connect ends it.
        probe: Whether to send ``server/discover`` if we speak both eras; if not, the server counts as a legacy
            one.
        known: An earlier answer of the server. If it names a common revision, it replaces the question.

    Returns:
        The agreement. `Connection.is_certain` is whether an answer has decided the era.

    Raises:
        RemoteProtocolError: There is no revision in common, or the handshake is broken.
        RequestError: The server refuses the handshake, or this client.
        ConnectionLost: The connection ended first, or the server cannot be reached.
    """
    modern = [revision for revision in identity.revisions if revision.is_modern]
    legacy = [revision for revision in identity.revisions if not revision.is_modern]
    if known is not None and (revision := common_revision(known.supported_versions, identity.revisions)):
        if revision.is_modern:
            return _assumed(peer, identity, revision, known)
        probe = False
    if not modern:
        return await _initialize(peer, identity, legacy)
    discovery = _Discovery(peer, identity, max(modern))
    if legacy and not probe:
        return await _fall_back(discovery, identity, legacy)
    found: Connection | None = None
    async with open_hidden_nursery() as nursery:
        timeout = limits.discover_timeout if legacy else math.inf
        with move_on_after_answer_time(timeout, is_told=False):
            nursery.start_soon(discovery.ask, _AGAIN)  # inside, because a login stands between it and the server
            await discovery.over.wait()
        discovery.check()
        revision = discovery.revision
        if revision is not None and revision.is_modern:
            found = discovery.connection(revision)
        elif not legacy:
            raise discovery.failure(modern)
        else:
            found = await _fall_back(discovery, identity, legacy if revision is None else [revision])
        nursery.cancel_scope.cancel(reason="there is an agreement")
    assert found is not None
    return found


async def settle_era(connection: Connection, identity: ClientIdentity, limits: Limits) -> None:
    """Find out the era of a server that was taken for a legacy one although none of its answers shows that.

    If it is modern after all, the agreement becomes stale. Returns early when the agreement ends.

    Args:
        connection: The agreement.
        identity: What the client declares, and the revisions it speaks.
        limits: `Limits.connect_timeout` is how long a server may be silent that has taken part in the handshake.
    """
    discovery = _Discovery(connection.peer, identity, max(identity.revisions))
    with connection.until_stale():
        with trio.move_on_after(limits.connect_timeout):
            await discovery.ask(_AFTERWARDS)
    if connection.end is not None:
        return
    if discovery.is_modern:
        connection.become_stale(ConnectionLost(f"the server speaks {max(identity.revisions)} after all"))
    else:
        connection.is_certain = discovery.is_answered


@final
@attrs.define(eq=False)
class _Discovery:
    """The request ``server/discover``, and what it has brought.

    Attributes:
        peer: This end of the channel.
        identity: What the client declares, and the revisions it speaks.
        asked: The revision in which it is sent.
        is_begun: Whether it was sent at all.
        over: Set when there is an answer, or it is not sent again.
    """

    peer: Peer
    identity: ClientIdentity
    asked: Revision
    is_begun: bool = attrs.field(default=False, init=False)
    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _outcome: _Outcome = attrs.field(default=None, init=False)

    async def ask(self, policy: RestartPolicy) -> None:
        """Send it, and again if it was refused unseen."""
        self.is_begun = True
        backoff = Backoff(policy)
        while True:
            self._outcome = await self._ask_once()
            delay = None if self.is_answered or self.peer.end is not None else backoff.next_delay(0)
            if delay is None:
                break
            if isinstance(self._outcome, RequestError):
                await trio.sleep(max(delay, self._outcome.retry_after or 0))
            else:
                await trio.sleep(0 if policy is _AGAIN else delay)
        self.over.set()

    async def _ask_once(self) -> _Outcome:
        try:
            return await self.peer.request("server/discover", {"_meta": self.identity.meta(self.asked)})
        except McpError as error:
            return error
        except trio.ClosedResourceError as error:
            return ConnectionLost(str(error))  # calls raise it as it is

    @property
    def is_answered(self) -> bool:
        """Whether an answer has decided the era."""
        outcome = self._outcome
        if isinstance(outcome, RequestError):
            return not is_inconclusive(outcome)
        return outcome is not None and not isinstance(outcome, ConnectionLost)

    @property
    def revision(self) -> Revision | None:
        """The revision to speak, if an answer has decided it.

        Raises:
            RemoteProtocolError: The server is modern and speaks none of our revisions.
        """
        outcome = self._outcome
        if not self.is_answered or not isinstance(outcome, (dict, RequestError)):
            return None
        return judge_discovery(outcome, self.identity.revisions)

    @property
    def is_modern(self) -> bool:
        """Whether an answer shows that both sides speak a modern revision."""
        try:
            return self.revision is not None and self.revision.is_modern
        except RemoteProtocolError:
            return False

    def check(self) -> None:
        """Check that the connection has not ended, and that this client may use it.

        Raises:
            ConnectionLost: It has.
            AuthorizationFailed: It may not; nobody is asked to log in once more for the next request.
        """
        if isinstance(self._outcome, AuthorizationFailed):
            raise self._outcome
        if isinstance(self._outcome, ConnectionLost) and self.peer.end is not None:
            raise self._outcome

    def failure(self, modern: Sequence[Revision]) -> McpError:
        """Return why there is no agreement with a server that must be modern."""
        outcome = self._outcome
        if isinstance(outcome, McpError) and not self.is_answered:
            return outcome
        said = outcome if isinstance(outcome, RequestError) else "its answer is not a DiscoverResult"
        return RemoteProtocolError(f"the server speaks none of {', '.join(modern)}: {said}")

    def connection(self, revision: Revision) -> Connection:
        """Return the agreement on a modern revision.

        Raises:
            RemoteProtocolError: The server's answer cannot be read.
        """
        outcome = self._outcome
        if not isinstance(outcome, dict):
            return _agreed(self.peer, self.identity, revision)
        try:
            result = from_wire(outcome, types.DiscoverResult)
            info = (result.meta or {}).get(SERVER_INFO_KEY) or outcome.get("serverInfo")
            self.identity.described(outcome)
            return _agreed(self.peer, self.identity, revision, result, _read_info(info))
        except InvalidData as error:
            raise RemoteProtocolError(f"server/discover: {error}") from error


async def _fall_back(discovery: _Discovery, identity: ClientIdentity, legacy: Sequence[Revision]) -> Connection:
    """Send ``initialize``, unless an answer shows meanwhile that the server is modern.

    Args:
        discovery: May still be waited for. If it was never sent, the era counts as decided.
        identity: What the client declares, and the revisions it speaks.
        legacy: Which of those are of the legacy era.
    """
    was_begun = discovery.is_begun
    agreed: Connection | None = None
    errors: list[McpError] = []
    async with open_hidden_nursery() as nursery:

        async def watch_discovery() -> None:
            await discovery.over.wait()
            if discovery.is_modern:
                nursery.cancel_scope.cancel(reason="the server is modern after all")

        nursery.start_soon(watch_discovery)
        try:
            agreed = await _initialize(discovery.peer, identity, legacy)
        except McpError as error:
            errors.append(error)
        nursery.cancel_scope.cancel(reason="the handshake is over")
    refused = any(isinstance(error, RequestError) and error.code in _MODERN_REFUSALS for error in errors)
    if refused and not discovery.is_answered:
        # A modern server after all: it was only slow to answer, or what was known of it is out of date.
        discovery = _Discovery(discovery.peer, identity, max(identity.revisions))
        await discovery.ask(_AGAIN)
    if discovery.is_modern and (revision := discovery.revision) is not None:
        return discovery.connection(revision)
    if errors:
        raise errors.pop()  # its frames have this one: kept in it, it would be a cycle
    assert agreed is not None
    agreed.is_certain = discovery.is_answered or not was_begun
    return agreed


def _assumed(peer: Peer, identity: ClientIdentity, revision: Revision, known: types.DiscoverResult) -> Connection:
    info: types.Implementation | None = None
    with suppress(InvalidData):  # it is only shown
        info = _read_info((known.meta or {}).get(SERVER_INFO_KEY))
    assumed = _agreed(peer, identity, revision, known, info)
    assumed.is_assumed = True
    return assumed


def _read_info(info: object) -> types.Implementation | None:
    return None if info is None else from_wire(info, types.Implementation)


def _agreed(
    peer: Peer,
    identity: ClientIdentity,
    revision: Revision,
    result: types.DiscoverResult | types.InitializeResult | None = None,
    info: types.Implementation | None = None,
) -> Connection:
    return Connection(
        peer,
        revision,
        meta=identity.meta(revision) if revision.is_modern else {},
        refused=identity.refused[revision],
        server_info=info,
        capabilities=None if result is None else result.capabilities,
        instructions=None if result is None else result.instructions,
    )


async def _initialize(peer: Peer, identity: ClientIdentity, legacy: Sequence[Revision]) -> Connection:
    """Send ``initialize`` and ``notifications/initialized`` (2025-11-25, basic/lifecycle)."""
    answer = await peer.request("initialize", identity.handshake(legacy))
    revision = judge_initialize(answer, legacy)
    try:
        result = from_wire(answer, types.InitializeResult)
    except InvalidData as error:
        raise RemoteProtocolError(f"initialize: {error}") from error
    identity.described(answer)
    await peer.notify("notifications/initialized")
    return _agreed(peer, identity, revision, result, result.server_info)
