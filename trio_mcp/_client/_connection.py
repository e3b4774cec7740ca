"""What a client and a server have agreed on, for as long as it holds, and the peer that it holds for.

How a client comes to an agreement with a server: what it asks, in which order, and what the answers mean.

The rules are in `_core/_negotiation`. No transport is looked at: over HTTP the server of an older revision
answers the first question with some error, on a pipe it may be silent, and either way what comes next is
`initialize`. A channel may find an older transport behind that; see `StreamableHttpChannel`.

Spec: 2026-07-28, basic/versioning; basic/transports/stdio and basic/transports/streamable-http, "Backward
Compatibility".
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .._codec._convert import from_wire, to_wire
from .._codec._json import cost_of
from .._codec._jsonrpc import InvalidData
from .._core._lifecycle import common_revision, is_inconclusive, judge_discovery, judge_initialize
from .._core._reconnect import Backoff, RestartPolicy
from .._errors import (
    METHOD_NOT_FOUND,
    MODERN_ERRORS,
    UNSUPPORTED_PROTOCOL_VERSION,
    ConnectionLost,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
    SessionLost,
)
from .._limits import Limits
from .._peer._peer import Peer
from .._revisions import (
    BATCH_REVISION,
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    PROTOCOL_VERSION_KEY,
    SERVER_INFO_KEY,
    Revision,
    Side,
    may_send,
)
from .._trio import open_hidden_nursery
from ..types import (
    ClientCapabilities,
    DiscoverResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    LoggingLevel,
    RequestParams,
    ServerCapabilities,
    SetLevelRequestParams,
)
from ._subscriptions import ResourceSubscriptions, Subscriptions

_VOID: Final = "the server knows nothing of the connection any more"


@final
@attrs.frozen
class ClientIdentity:
    """What a client says of itself, and which revisions it speaks.

    Attributes:
        info: What the client is.
        capabilities: What it can do.
        revisions: The revisions it may agree to.
    """

    info: Implementation
    capabilities: ClientCapabilities
    revisions: Sequence[Revision]

    def meta(self, revision: Revision) -> dict[str, Any]:
        """Return what each request of a modern revision carries (2026-07-28, basic, "_meta")."""
        return {
            PROTOCOL_VERSION_KEY: str(revision),
            CLIENT_INFO_KEY: to_wire(self.info, revision),
            CLIENT_CAPABILITIES_KEY: to_wire(self.capabilities, revision),
        }


@final
class Connection:
    """An agreement with a server, for as long as it holds.

    It ends with the channel it was made over; or before, when the server shows that it knows nothing of it any
    more. Then another one is made over the same channel, and what else goes on there goes on.

    Attributes:
        peer: This end of the channel.
        revision: What is spoken.
        server_info: What the server says it is, if it has said so.
        capabilities: What the server says it can do, if it was asked.
        instructions: How a model should use the server.
        is_assumed: Whether it was made without asking the server, which has not confirmed it yet.
        is_certain: Whether an answer has decided the era. Without, it is asked for again.
        subscriptions: Who listens to what on it.
        resource_subscriptions: Which resources it is subscribed to, in the legacy era.
    """

    subscriptions: Subscriptions
    resource_subscriptions: ResourceSubscriptions

    def __init__(
        self,
        peer: Peer,
        revision: Revision,
        *,
        meta: Mapping[str, Any] | None = None,
        server_info: Implementation | None = None,
        capabilities: ServerCapabilities | None = None,
        instructions: str | None = None,
        is_assumed: bool = False,
    ) -> None:
        self.peer: Final = peer
        self.revision: Final = revision
        self.server_info: Final = server_info
        self.capabilities: Final = capabilities
        self.instructions: Final = instructions
        self.is_assumed = is_assumed
        self.is_certain = True
        self._meta = dict(meta or {})
        self._void: ConnectionLost | None = None
        self._scopes: set[trio.CancelScope] = set()

    def check_size(self, most: int) -> None:
        """Refuse to remember more of what the server says of itself than may be.

        Args:
            most: How many bytes it may take in memory.

        Raises:
            RemoteProtocolError: It takes more.
        """
        said = (self.server_info, self.capabilities)
        written = [None if one is None else to_wire(one, self.revision) for one in said]
        if cost_of([self.instructions, *written]) > most:
            raise RemoteProtocolError(
                f"what the server says of itself takes more than {most} bytes in memory, "
                "a quarter of max_remembered_bytes"
            )

    def begin(self, subscriptions: Subscriptions, limits: Limits) -> None:
        """Begin to be listened to; called once, when the connection is agreed on."""
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
        return self.peer.end or self._void

    async def wait_over(self) -> None:
        """Wait until it does not hold any more, or this side closes."""
        with self.until_void():
            await self.peer.wait_input_ended()

    @contextmanager
    def until_void(self) -> Generator[None]:
        """Cancel what the block does once the server knows nothing of the connection any more."""
        with trio.CancelScope() as scope:
            if self._void is not None:
                scope.cancel(reason=_VOID)
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    def void(self, why: McpError) -> None:
        """The server knows nothing of it any more. It must not be told anything that only makes sense in it."""
        if self._void is None:
            self._void = ConnectionLost(str(why))
            self._void.__cause__ = why
            self.resource_subscriptions.forget()
            for scope in tuple(self._scopes):
                scope.cancel(reason=_VOID)

    def is_voided_by(self, error: McpError) -> bool:
        """Tell from the failure of a request whether this still holds, and end it if it does not.

        The request was refused unseen then, so that it may be made again once there is another agreement.
        """
        lost = isinstance(error, SessionLost)
        if not lost and isinstance(error, RequestError) and self.revision.is_modern:
            # A server that speaks this era knows such errors; all others only prove that somebody has answered.
            lost = error.code == UNSUPPORTED_PROTOCOL_VERSION or (
                self.is_assumed and error.code not in MODERN_ERRORS
            )
        if lost:
            self.void(error)
        return lost

    # What is said in it.

    async def set_log_level(self, level: LoggingLevel, meta: Mapping[str, object] | None = None) -> None:
        """Ask for log messages: at once in the legacy era, with each request from now on in the modern."""
        if self.revision.is_modern:
            self._meta[LOG_LEVEL_KEY] = level
            await trio.lowlevel.checkpoint()
        else:
            await self.peer.request("logging/setLevel", self.write(SetLevelRequestParams(level=level, meta=meta)))

    def check(self, method: str) -> None:
        """Check that a client may send the method to a peer of this revision.

        Raises:
            LocalProtocolError: The revision has no such method, or only the other side may send it.
        """
        if not may_send(Side.CLIENT, method, self.revision):
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

    def with_meta(self, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the parameters of a request with what the revision wants in their `_meta`."""
        if not self._meta:
            return params
        if params is None:
            return {"_meta": self._meta}
        return {**params, "_meta": {**self._meta, **(params.get("_meta") or {})}}

    def write(self, params: RequestParams) -> dict[str, Any]:
        """Return the parameters of a request as they go out."""
        if not self._meta:
            return to_wire(params, self.revision)
        wire = to_wire(params, self.revision, without="_meta")
        wire["_meta"] = {**self._meta, **(params.meta or {})}
        return wire


_MODERN_REFUSALS: Final = MODERN_ERRORS | {METHOD_NOT_FOUND}
"""How a server refuses `initialize` that has no such thing."""

_AGAIN: Final = RestartPolicy(max_restarts=1, first_delay=0.2)
"""How often, and how soon, the first question is asked again that nobody has answered."""

_AFTERWARDS: Final = RestartPolicy(max_restarts=3, first_delay=1.0, max_delay=30.0)
"""The same, once there is an agreement with a server whose era is not certain."""

_Outcome: TypeAlias = dict[str, Any] | McpError | None
"""What came of asking: a result, an error, or silence."""


async def negotiate(
    peer: Peer,
    identity: ClientIdentity,
    limits: Limits,
    *,
    probe: bool = True,
    known: DiscoverResult | None = None,
) -> Connection:
    """Agree with the server on a revision.

    ``server/discover`` finds out which era the server is of, also when only one modern revision is allowed: a
    legacy server might take a modern request for one of its own (basic/transports/stdio). Only an answer decides.
    Without one the server is asked as one of the legacy era is, and what it answers meanwhile still counts.

    Args:
        peer: This end of a channel.
        identity: What the client says, and what it speaks.
        limits: `Limits.discover_timeout` ends the wait for a silent legacy server. Where we speak only modern
            revisions, silence leaves nothing else to try, and only the time to connect ends it.
        probe: Whether to ask, if we speak both eras; without, the server counts as one of the legacy era.
        known: What the server has said of itself before. If it is of any use, it is taken for the answer.

    Returns:
        What was agreed on. `Connection.is_certain` tells whether an answer has decided the era.

    Raises:
        RemoteProtocolError: There is no revision in common, or the handshake is broken.
        RequestError: The server refuses the handshake, or whoever asks.
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
        nursery.start_soon(discovery.ask, _AGAIN)
        with trio.move_on_after(limits.discover_timeout if legacy else math.inf):
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
    """Find out the era of a server that was taken for one of the legacy era without having said so.

    If it is modern after all, the agreement with it is void.

    Args:
        connection: The agreement.
        identity: What the client says, and what it speaks.
        limits: `Limits.connect_timeout` is how long a server may be silent that has taken part in the handshake.
    """
    discovery = _Discovery(connection.peer, identity, max(identity.revisions))
    with trio.move_on_after(limits.connect_timeout):
        await discovery.ask(_AFTERWARDS)
    if discovery.is_modern:
        connection.void(ConnectionLost(f"the server speaks {max(identity.revisions)} after all"))
    else:
        connection.is_certain = discovery.is_answered


@final
class _Discovery:
    """The question which era the server is of, and what has come of it.

    Args:
        peer: Whom to ask.
        identity: What the client says, and what it speaks.
        asked: The revision that the question is of.

    Attributes:
        is_begun: Whether it was asked at all.
        over: There is an answer, or nothing more is done to get one.
    """

    def __init__(self, peer: Peer, identity: ClientIdentity, asked: Revision) -> None:
        self.peer: Final = peer
        self._identity = identity
        self._asked = asked
        self._outcome: _Outcome = None
        self.is_begun = False
        self.over: Final = trio.Event()

    async def ask(self, policy: RestartPolicy) -> None:
        """Ask, and again if that was refused without a look at the question."""
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
            return await self.peer.request("server/discover", {"_meta": self._identity.meta(self._asked)})
        except McpError as error:
            return error
        except trio.ClosedResourceError as error:
            return ConnectionLost(str(error))  # who asks anything else learns it as it is

    @property
    def is_answered(self) -> bool:
        """Whether an answer has decided the era."""
        outcome = self._outcome
        if isinstance(outcome, RequestError):
            return not is_inconclusive(outcome)
        return outcome is not None and not isinstance(outcome, ConnectionLost)

    @property
    def revision(self) -> Revision | None:
        """What to speak, if an answer says so.

        Raises:
            RemoteProtocolError: The server is modern and speaks none of our revisions.
        """
        outcome = self._outcome
        if not self.is_answered or not isinstance(outcome, (dict, RequestError)):
            return None
        return judge_discovery(outcome, self._identity.revisions)

    @property
    def is_modern(self) -> bool:
        """Whether an answer says that we both speak a modern revision."""
        try:
            return self.revision is not None and self.revision.is_modern
        except RemoteProtocolError:
            return False

    def check(self) -> None:
        """Raise what has ended the connection, if it has ended.

        Raises:
            ConnectionLost: It has.
        """
        if isinstance(self._outcome, ConnectionLost) and self.peer.end is not None:
            raise self._outcome

    def failure(self, modern: Sequence[Revision]) -> McpError:
        """Return why there is no agreement with a server that must be modern."""
        outcome = self._outcome
        if isinstance(outcome, McpError) and not self.is_answered:
            return outcome
        return RemoteProtocolError(f"the server speaks none of {', '.join(modern)}: {_in_short(outcome)}")

    def connection(self, revision: Revision) -> Connection:
        """Return the agreement on a modern revision.

        Raises:
            RemoteProtocolError: What the server says of itself cannot be read.
        """
        return _discovered(self.peer, self._identity, revision, self._outcome)


async def _fall_back(discovery: _Discovery, identity: ClientIdentity, legacy: Sequence[Revision]) -> Connection:
    """Shake hands as with a server of the legacy era, unless it turns out meanwhile that it is modern.

    Args:
        discovery: May still go on. If it was never begun, it is not what decides.
        identity: What the client says, and what it speaks.
        legacy: What it speaks of that era.
    """
    was_begun = discovery.is_begun
    agreed: Connection | None = None
    refusal: McpError | None = None
    async with open_hidden_nursery() as nursery:

        async def overhear() -> None:
            await discovery.over.wait()
            if discovery.is_modern:
                nursery.cancel_scope.cancel(reason="the server is modern after all")

        nursery.start_soon(overhear)
        try:
            agreed = await _initialize(discovery.peer, identity, legacy)
        except McpError as error:
            refusal = error
        nursery.cancel_scope.cancel(reason="the handshake is over")
    if not discovery.is_answered and isinstance(refusal, RequestError) and refusal.code in _MODERN_REFUSALS:
        # A modern server after all. It was only slow to say so, or what was known of it is out of date.
        discovery = _Discovery(discovery.peer, identity, max(identity.revisions))
        await discovery.ask(_AGAIN)
    if discovery.is_modern and (revision := discovery.revision) is not None:
        return discovery.connection(revision)
    if refusal is not None:
        raise refusal
    assert agreed is not None
    agreed.is_certain = discovery.is_answered or not was_begun
    return agreed


def _assumed(peer: Peer, identity: ClientIdentity, revision: Revision, known: DiscoverResult) -> Connection:
    said = (known.meta or {}).get(SERVER_INFO_KEY)
    try:
        server_info = None if said is None else from_wire(said, Implementation)
    except InvalidData:
        server_info = None  # it is only shown
    return Connection(
        peer,
        revision,
        meta=identity.meta(revision),
        server_info=server_info,
        capabilities=known.capabilities,
        instructions=known.instructions,
        is_assumed=True,
    )


def _discovered(peer: Peer, identity: ClientIdentity, revision: Revision, outcome: _Outcome) -> Connection:
    meta = identity.meta(revision)
    if not isinstance(outcome, dict):
        return Connection(peer, revision, meta=meta)
    try:
        result = from_wire(outcome, DiscoverResult)
        said: Any = (result.meta or {}).get(SERVER_INFO_KEY) or outcome.get("serverInfo")
        server_info = None if said is None else from_wire(said, Implementation)
    except InvalidData as error:
        raise RemoteProtocolError(f"server/discover: {error}") from error
    return Connection(
        peer,
        revision,
        meta=meta,
        server_info=server_info,
        capabilities=result.capabilities,
        instructions=result.instructions,
    )


async def _initialize(peer: Peer, identity: ClientIdentity, legacy: Sequence[Revision]) -> Connection:
    """Shake hands (2025-11-25, basic/lifecycle)."""
    newest = max(legacy)
    params = InitializeRequestParams(
        protocol_version=newest, capabilities=identity.capabilities, client_info=identity.info
    )
    answer = await peer.request("initialize", to_wire(params, newest))
    revision = judge_initialize(answer, legacy)
    try:
        result = from_wire(answer, InitializeResult)
    except InvalidData as error:
        raise RemoteProtocolError(f"initialize: {error}") from error
    await peer.notify("notifications/initialized")
    return Connection(
        peer,
        revision,
        server_info=result.server_info,
        capabilities=result.capabilities,
        instructions=result.instructions,
    )


def _in_short(outcome: _Outcome) -> str:
    return str(outcome) if isinstance(outcome, RequestError) else "its answer was no discovery"
