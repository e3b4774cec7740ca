"""What is kept of a session of the legacy era, so that another process can go on with it.

That is what its client has said and what lasts: the handshake, the log level, what it follows. The other process
says it again to a peer of its own. What the session was doing is lost with its process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, final

import attrs
import trio

from .._codec._jsonrpc import Notification, Request
from .._core._http_rules import busy
from .._errors import RequestError
from .._limits import Limits
from .._logs import Log
from ._session_channel import PostBody
from ._shared import SessionStore

_log: Final = Log("trio_mcp.http")

TURN: Final = 10**9
"""Each time a session is taken, the numbers of its streams and events go on with the next multiple of this: what
its last process gave out and could not store any more is behind."""

_HANDSHAKE: Final = ("protocolVersion", "capabilities", "clientInfo")
_LASTING: Final = frozenset(
    {
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    }
)


@final
@attrs.define(eq=False)
class KeptSession:
    """What the client of a session has said, as far as it lasts.

    Args:
        principal: Whose session it is.
    """

    principal: str | None
    _handshake: dict[str, Any] = attrs.field(factory=dict[str, Any])
    _is_initialized: bool = False
    _level: object = None
    _uris: dict[str, int] = attrs.field(factory=dict[str, int])  # how large each is

    @property
    def followed(self) -> tuple[str, ...]:
        """The URIs of the resources that its client follows."""
        return tuple(self._uris)

    @property
    def is_initialized(self) -> bool:
        """Whether its client has ended the handshake."""
        return self._is_initialized

    @property
    def size(self) -> int:
        """How large these are together, in bytes."""
        return sum(self._uris.values())

    def drop(self, uri: str | None) -> None:
        """Note that its client does not follow a resource after all."""
        if uri is not None:
            self._uris.pop(uri, None)

    def note(self, posted: PostBody, limits: Limits) -> bool:
        """Note what lasts of what a client says. Returns whether that is anything.

        What it follows beyond the limits is not noted: who serves it refuses that.
        """
        found = False
        for message in posted.messages:
            if isinstance(message, (Request, Notification)) and message.method in _LASTING:
                found = True
                self._note(message.method, message.params or {}, limits)
        return found

    def _note(self, method: str, params: Mapping[str, Any], limits: Limits) -> None:
        uri = params.get("uri")
        if method == "initialize":
            self._handshake = {name: params[name] for name in _HANDSHAKE if name in params}
        elif method == "notifications/initialized":
            self._is_initialized = True
        elif method == "logging/setLevel":
            self._level = params.get("level")
        elif not isinstance(uri, str):
            pass
        elif method == "resources/unsubscribe":
            self.drop(uri)
        elif len(self._uris) < limits.max_subscriptions:
            size = len(uri.encode(errors="surrogatepass"))
            if self.size + size <= limits.max_subscription_bytes:
                self._uris[uri] = size

    def messages(self) -> list[dict[str, Any]]:
        """Return what is said again to another process, the handshake first."""
        said: list[tuple[str, dict[str, Any]]] = [("initialize", self._handshake)]
        if self._is_initialized:
            said.append(("notifications/initialized", {}))
        if self._level is not None:
            said.append(("logging/setLevel", {"level": self._level}))
        said += [("resources/subscribe", {"uri": uri}) for uri in self._uris]
        return [
            {"jsonrpc": "2.0", "method": method, "params": params}
            | ({} if method.startswith("notifications/") else {"id": f"again-{n}"})
            for n, (method, params) in enumerate(said)
        ]

    def encode(self) -> bytes:
        """Return it as bytes: ASCII, for what clients say may have half a surrogate pair in it."""
        written = {
            "principal": self.principal,
            "handshake": self._handshake,
            "initialized": self._is_initialized,
            "level": self._level,
            "uris": list(self._uris),
        }
        return json.dumps(written).encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> KeptSession:
        """Return it from bytes.

        Raises:
            HttpRefused: They are of another version of this library.
        """
        try:
            read = json.loads(data)
            return cls(
                read["principal"],
                read["handshake"],
                read["initialized"],
                read["level"],
                {uri: len(uri.encode(errors="surrogatepass")) for uri in read["uris"]},
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            raise busy(503, "the session was kept by another version of the server") from None


@final
@attrs.define(eq=False)
class SessionRecord:
    """What is kept of one session of this process, and where.

    Args:
        id: The id of the session.
        store: Where.
        kept: What.

    Attributes:
        is_lost: Whether another process has taken the session.
    """

    id: str
    _store: SessionStore
    kept: KeptSession
    is_lost: bool = attrs.field(default=False, init=False)

    async def keep(self) -> bool:
        """Keep it as it is now. Returns whether the session still is one of this process.

        Raises:
            HttpRefused: It cannot be kept now.
        """
        try:
            self.is_lost = not await self._store.keep(self.id, self.kept.encode())
        except RequestError as error:
            raise busy(503, error.message) from None
        return not self.is_lost

    async def end(self, seconds: float, *, is_over: bool) -> None:
        """Forget a session that is over, or let another process have it, within so many seconds."""
        try:
            with trio.move_on_after(seconds):
                await (self._store.forget(self.id) if is_over else self._store.release(self.id))
        except Exception:
            _log.exception("the store failed; it may keep a session that has ended")
