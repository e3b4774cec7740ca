"""How a client comes to an agreement with a server: what it asks, in which order, and what the answers mean.

The rules are in `_core/_negotiation`. No transport is looked at: over HTTP the server of an older revision
answers the first question with some error, on a pipe it may be silent, and either way what comes next is
`initialize`. A channel may find an older transport behind that; see `StreamableHttpChannel`.

Spec: 2026-07-28, basic/versioning; basic/transports/stdio and basic/transports/streamable-http, "Backward
Compatibility".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import trio

from .._codec._convert import from_wire, to_wire
from .._codec._invalid import InvalidData
from .._core._negotiation import common_revision, judge_discovery, judge_initialize
from .._errors import (
    METHOD_NOT_FOUND,
    MODERN_ERRORS,
    ConnectionLost,
    McpError,
    ProtocolError,
    RemoteProtocolError,
    RequestError,
)
from .._limits import Limits
from .._peer._peer import Peer
from .._revisions import SERVER_INFO_KEY, Revision
from ..types import DiscoverResult, Implementation, InitializeRequestParams, InitializeResult
from ._connection import ClientIdentity, Connection

__all__ = ["negotiate"]

_MODERN_REFUSALS: Final = MODERN_ERRORS | {METHOD_NOT_FOUND}
"""How a server refuses `initialize` that has no such thing."""

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
    legacy server might take a modern request for one of its own (basic/transports/stdio).

    Args:
        peer: This end of a channel.
        identity: What the client says, and what it speaks.
        limits: `Limits.discover_timeout` ends the wait for a silent legacy server.
        probe: Whether to ask, if we speak both eras; without, the server counts as one of the legacy era.
        known: What the server has said of itself before. If it is of any use, it is taken for the answer.

    Raises:
        RemoteProtocolError: There is no revision in common, or the handshake is broken.
        RequestError: The server refuses the handshake.
        ConnectionLost: The connection ended first, or the server cannot be reached.
    """
    modern = [revision for revision in identity.revisions if revision.is_modern]
    legacy = [revision for revision in identity.revisions if not revision.is_modern]
    if known is not None and (revision := common_revision(known.supported_versions, identity.revisions)):
        if revision.is_modern:
            return _assumed(peer, identity, revision, known)
        probe = False
    is_settled = False
    if modern and (probe or not legacy):
        outcome = await _discover(peer, identity, max(modern), limits.discover_timeout)
        revision = _judge(outcome, identity)
        if revision is not None and revision.is_modern:
            return _discovered(peer, identity, revision, outcome)
        if not legacy:
            if isinstance(outcome, ConnectionLost):
                raise outcome
            raise RemoteProtocolError(f"the server speaks none of {', '.join(modern)}: {_in_short(outcome)}")
        if revision is not None:
            legacy = [revision]
        is_settled = outcome is not None and not isinstance(outcome, ConnectionLost)
    try:
        return await _initialize(peer, identity, legacy)
    except RequestError as error:
        refusal = error
    if modern and not is_settled and refusal.code in _MODERN_REFUSALS:
        # A modern server after all. It was only slow to say so, or what was known of it is out of date.
        outcome = await _discover(peer, identity, max(modern), math.inf)
        revision = _judge(outcome, identity)
        if revision is not None and revision.is_modern:
            return _discovered(peer, identity, revision, outcome)
    raise refusal


def _judge(outcome: _Outcome, identity: ClientIdentity) -> Revision | None:
    """Tell the era; a question that got lost on the way has told no more about it than silence does."""
    answer = None if isinstance(outcome, (ConnectionLost, ProtocolError)) else outcome
    return judge_discovery(answer if isinstance(answer, (dict, RequestError)) else None, identity.revisions)


async def _discover(peer: Peer, identity: ClientIdentity, revision: Revision, patience: float) -> _Outcome:
    with trio.move_on_after(patience):
        try:
            return await peer.request("server/discover", {"_meta": identity.meta(revision)})
        except (RequestError, RemoteProtocolError) as error:
            return error
        except ConnectionLost as lost:
            if peer.end is not None:
                raise
            return lost  # not the connection, only what this request needed of it
    return None


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


def _in_short(outcome: _Outcome) -> str:
    if outcome is None:
        return "it was silent"
    return str(outcome) if isinstance(outcome, RequestError) else "its answer was no discovery"
