"""One connection of a client, from the first word until the peer is gone: what was agreed on, and the peer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, final

import attrs
import trio

from .._codec._convert import from_wire, to_wire
from .._codec._invalid import InvalidData
from .._core._negotiation import judge_discovery, judge_initialize
from .._errors import LocalProtocolError, RemoteProtocolError, RequestError
from .._limits import Limits
from .._peer._peer import Peer
from .._revisions import (
    BATCH_REVISION,
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    METHODS,
    PROTOCOL_VERSION_KEY,
    SERVER_INFO_KEY,
    Revision,
    Side,
)
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
    evolve,
)
from ._resource_subscriptions import ResourceSubscriptions
from ._subscriptions import Subscriptions

__all__ = ["ClientIdentity", "Connection", "negotiate"]


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
    """An agreed connection.

    Attributes:
        peer: This end of it.
        revision: What is spoken.
        server_info: What the server says it is, if it has said so.
        capabilities: What the server says it can do, if it was asked.
        instructions: How a model should use the server.
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
    ) -> None:
        self.peer: Final = peer
        self.revision: Final = revision
        self.server_info: Final = server_info
        self.capabilities: Final = capabilities
        self.instructions: Final = instructions
        self._meta = dict(meta or {})

    def begin(self, subscriptions: Subscriptions, limits: Limits) -> None:
        """Begin to be listened to; called once, when the connection is agreed on."""
        self.subscriptions = subscriptions
        subscriptions.begin(self.peer, self.revision)
        can = None if self.capabilities is None else self.capabilities.resources
        self.resource_subscriptions = ResourceSubscriptions(
            self.peer,
            self.revision,
            may_subscribe=can is not None and bool(can.subscribe),
            goodbye_timeout=limits.goodbye_timeout,
        )

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
        rule = METHODS.get(method)
        if rule is not None and not rule.allows(Side.CLIENT, self.revision):
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
        if self._meta:
            params = evolve(params, meta={**self._meta, **(params.meta or {})})
        return to_wire(params, self.revision)


async def negotiate(peer: Peer, identity: ClientIdentity, limits: Limits, *, probe: bool = True) -> Connection:
    """Agree with the server on a revision.

    ``server/discover`` finds out which era the server is of, also when only one modern revision is allowed: a
    legacy server might take a modern request for one of its own (basic/transports/stdio).

    Args:
        peer: This end of a fresh connection.
        identity: What the client says, and what it speaks.
        limits: `Limits.discover_timeout` ends the wait for a silent legacy server.
        probe: Whether to ask, if we speak both eras; without, the server counts as one of the legacy era.

    Raises:
        RemoteProtocolError: There is no revision in common, or the handshake is broken.
        RequestError: The server refuses the handshake.
        ConnectionLost: The connection ended first.
    """
    modern = [revision for revision in identity.revisions if revision.is_modern]
    legacy = [revision for revision in identity.revisions if not revision.is_modern]
    if modern and (probe or not legacy):
        outcome = await _discover(peer, identity, max(modern), limits)
        revision = judge_discovery(outcome, identity.revisions)
        if revision is not None and revision.is_modern:
            return _discovered(peer, identity, revision, outcome)
        if not legacy:
            raise RemoteProtocolError(f"the server speaks none of {', '.join(modern)}: {_in_short(outcome)}")
        if revision is not None:
            legacy = [revision]
    return await _initialize(peer, identity, legacy)


async def _discover(
    peer: Peer, identity: ClientIdentity, revision: Revision, limits: Limits
) -> dict[str, Any] | RequestError | None:
    with trio.move_on_after(limits.discover_timeout):
        try:
            return await peer.request("server/discover", {"_meta": identity.meta(revision)})
        except (RequestError, RemoteProtocolError) as error:
            return error if isinstance(error, RequestError) else {}
    return None


def _discovered(
    peer: Peer, identity: ClientIdentity, revision: Revision, outcome: dict[str, Any] | RequestError | None
) -> Connection:
    meta = identity.meta(revision)
    if not isinstance(outcome, dict):
        return Connection(peer, revision, meta=meta)
    try:
        result = from_wire(outcome, DiscoverResult)
        meta_of_result: Any = outcome.get("_meta") or {}
        said: Any = meta_of_result.get(SERVER_INFO_KEY) or outcome.get("serverInfo")
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


def _in_short(outcome: dict[str, Any] | RequestError | None) -> str:
    if outcome is None:
        return "it was silent"
    return str(outcome) if isinstance(outcome, RequestError) else "its answer was no discovery"
