"""What is kept of a session of the legacy era, so that another process can go on with it.

That is what its client has said and what lasts: the handshake, the log level, what it follows. The other process
says it again to a peer of its own. What the session was doing is lost with its process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, final

import attrs
import trio

from .._codec import _json
from .._codec._json import is_object
from .._codec._jsonrpc import Notification, Request
from .._core._http_rules import HttpRefused, busy
from .._core._lifecycle import LEVELS
from .._errors import RequestError
from .._limits import Limits
from .._logs import Log
from .._revisions import Revision
from .._server._session import MAX_CLIENT_INFO_BYTES
from ._session_channel import PostBody
from ._shared import SessionStore
from ._streams import EventStream, EventWriter

_log: Final = Log("trio_mcp.http")

TURN: Final = 10**9
"""Each time a session is taken, the numbers of its streams and events go on with the next multiple of this: what
its last process gave out and could not store any more is behind."""

MAX_VERSION: Final = 64
"""How much is kept of the name of a revision; there is none that is longer."""

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
            self._note_handshake(params)
        elif method == "notifications/initialized":
            self._is_initialized = True
        elif method == "logging/setLevel":
            level = params.get("level")
            self._level = level if level in LEVELS else self._level
        elif not isinstance(uri, str):
            pass
        elif method == "resources/unsubscribe":
            self.drop(uri)
        elif len(self._uris) < limits.max_subscriptions:
            size = len(uri.encode(errors="surrogatepass"))
            if self.size + size <= limits.max_subscription_bytes:
                self._uris[uri] = size

    def _note_handshake(self, params: Mapping[str, Any]) -> None:
        """Note the handshake, unless who serves it refuses that: a second one, or one that is too large."""
        said = {name: params[name] for name in _HANDSHAKE if name in params}
        version = said.get("protocolVersion")
        said["protocolVersion"] = version[:MAX_VERSION] if isinstance(version, str) else None
        size = len(json.dumps(said, ensure_ascii=False, separators=(",", ":")))  # characters: never too many
        if not self._handshake and size <= MAX_CLIENT_INFO_BYTES + 2 * MAX_VERSION:
            self._handshake = said

    def note_answer(self, posted: PostBody, answer: bytes) -> None:
        """Note how the only request of a POST is answered: its client does not follow what it was refused."""
        (request,) = posted.requests
        uri = (request.params or {}).get("uri")
        if request.method == "resources/subscribe" and isinstance(uri, str) and "error" in _json.decode(answer):
            self.drop(uri)

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

    async def is_ours(self, seconds: float) -> bool | None:
        """Return whether it still is one of this process; `None` if that is not known in so many seconds."""
        with trio.move_on_after(seconds), suppress(HttpRefused):
            return await self.keep()
        return None

    async def end(self, seconds: float, *, is_over: bool) -> None:
        """Forget a session that is over, or let another process have it, within so many seconds."""
        try:
            with trio.move_on_after(seconds):
                await (self._store.forget(self.id) if is_over else self._store.release(self.id))
        except Exception:
            _log.exception("the store failed; it may keep a session that has ended")


async def leave_stores(
    writer: EventWriter | None,
    record: SessionRecord | None,
    streams: Iterable[EventStream],
    seconds: float,
    *,
    is_left: bool,
) -> None:
    """Have the stores forget a session that has ended, unless another process has it, or goes on with it.

    Args:
        writer: Writes its events; `None` if none are kept.
        record: What is kept of it; `None` if it ends with its process.
        streams: Its streams, for a process that goes on with it.
        seconds: How long each store may take.
        is_left: Whether another process may go on with it.
    """
    is_ours: bool | None = True
    if record is not None and (record.is_lost or not is_left):
        is_ours = not record.is_lost and await record.is_ours(seconds)
    if writer is not None and is_left and is_ours:
        await writer.flush(seconds, streams)
    elif writer is not None and is_ours:
        await writer.forget(seconds)
    if record is not None and is_ours is not False:
        await record.end(seconds, is_over=not is_left)


def revision_in(answer: bytes) -> Revision | None:
    """Return the revision in the answer to a handshake; `None` if it was refused."""
    result = _json.decode(answer).get("result")
    version = result.get("protocolVersion") if is_object(result) else None
    return next((revision for revision in Revision if revision == version), None)
