"""What a client and a server have agreed on, for as long as it holds, and the peer that it holds for."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import attrs
import trio

from .._codec._convert import to_wire
from .._codec._cost import cost_of
from .._errors import (
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
    Revision,
    Side,
    may_send,
)
from ..types import (
    ClientCapabilities,
    Implementation,
    LoggingLevel,
    RequestParams,
    ServerCapabilities,
    SetLevelRequestParams,
)
from ._resource_subscriptions import ResourceSubscriptions
from ._subscriptions import Subscriptions

__all__ = ["ClientIdentity", "Connection"]

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
