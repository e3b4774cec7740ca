"""Requests of the legacy era: which session they belong to, and how sessions begin and end.

Spec: 2025-11-25, basic/transports, "Session Management"; 2024-11-05, basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

import secrets
from typing import Any, Final, final
from urllib.parse import parse_qs

import trio

from .._core._account import Overdrawn, Pool
from .._core._http_headers import PROTOCOL_VERSION, SESSION_ID
from .._core._http_rules import EVENT_STREAM, HttpRefused, HttpServerSettings, busy, check_accept
from .._core._lifecycle import DEFAULT_LOG_LEVEL, Agreement
from .._core._turns import RateTable
from .._errors import SERVER_BUSY
from .._revisions import BATCH_REVISION, Revision
from .._server._lifetimes import Shutdown
from .._server._parking import Service
from .._server._server import Server
from .._trio import LightParkingLot, open_hidden_nursery
from ._call import HttpCall, RequestSlot
from ._event_store import EventStore, count_against
from ._session import LegacySession, session_ended
from ._session_channel import PostBody, SessionLoans, too_many
from ._turnstile import Turnstiles

SESSION_ID_BYTES: Final = 24
REPLACED_SECONDS: Final = 30.0
"""In what time a client that has as many sessions as it may can have all of them replaced by others, in seconds:
making and ending them costs everybody time, in the garbage collector too."""

REPLACED_AT_ONCE: Final = 100
"""How many of them at once, before that counts."""

ASSUMED: Final = Revision.V2025_03_26
"""What a request without `MCP-Protocol-Version` is of, where nothing else says so ("Protocol Version Header")."""


@final
class LegacySessions:
    """All sessions of one endpoint.

    Args:
        server: The server.
        service: The run of it.
        nursery: Where sessions run.
        settings: How many there may be, and how they are served.
        store: Keeps events for clients that lost a connection.
        turnstiles: Where what is done for clients waits for its turn.
    """

    def __init__(
        self,
        server: Server[Any],
        service: Service[Any],
        nursery: trio.Nursery,
        settings: HttpServerSettings,
        store: EventStore,
        turnstiles: Turnstiles,
    ) -> None:
        self._server = server
        self._service = service
        self._nursery = nursery
        self._settings = settings
        self._store = store
        self._turnstiles = turnstiles
        self._shutdown = Shutdown()
        self._sessions: dict[str, LegacySession] = {}
        self._legacy = frozenset(revision for revision in server.revisions if not revision.is_modern)
        self._places = service.account.places(
            "sessions",
            "max_sessions",
            settings.max_sessions,
            settings.max_sessions_per_principal,
            "max_sessions_per_principal",
        )
        self._replaced = RateTable(self._places.most_of_one / REPLACED_SECONDS, REPLACED_AT_ONCE)
        self._bytes = service.account.bytes
        self._ended = LightParkingLot()
        self._dropped = 0  # in sessions that have ended

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def dropped(self) -> int:
        """How many messages were dropped that nobody has read."""
        return self._dropped + sum(session.dropped for session in self._sessions.values())

    @property
    def is_served(self) -> bool:
        """Whether the server speaks any revision of this era."""
        return bool(self._legacy)

    # Streamable HTTP.

    async def post(self, call: HttpCall, place: RequestSlot, posted: PostBody) -> None:
        """Answer a POST.

        Raises:
            HttpRefused: It belongs to no session, or cannot begin one.
        """
        revision = self._check_version(call)
        if self._settings.stateless:
            self._check_batch(posted, revision)
            await self._serve_alone(call, place, posted, None if posted.begins else revision)
        elif SESSION_ID in call.headers:
            session = self._find(call)
            self._check_batch(posted, session.revision)
            await session.post(call, place, posted)
        elif posted.begins:
            await self._begin(call, place, posted)
        else:
            raise HttpRefused(400, f"{SESSION_ID} is missing; sessions begin with initialize")

    @staticmethod
    def _check_batch(posted: PostBody, revision: Revision | None) -> None:
        if posted.is_batch and revision is not BATCH_REVISION:
            raise HttpRefused(400, "invalid request: the revision in use has no batches")

    def _check_version(self, call: HttpCall) -> Revision:
        version = call.headers.get(PROTOCOL_VERSION)
        if version is None:
            return ASSUMED
        for revision in self._legacy:
            if revision == version:
                return revision
        raise HttpRefused(400, f"{PROTOCOL_VERSION} {version[:40]!r} is not a revision that this server speaks")

    def _find(self, call: HttpCall) -> LegacySession:
        session = self._sessions.get(call.headers.get(SESSION_ID) or "")
        if session is None or session.has_ended or session.principal != call.principal:
            raise session_ended()  # nobody learns whether others have sessions
        return session

    def _open(self, call: HttpCall, *, event_type: str | None = None) -> LegacySession:
        if self._shutdown.is_draining:
            raise HttpRefused(503, "serving is about to end", code=SERVER_BUSY)
        self._check_replacing(call.key)
        session = LegacySession(
            secrets.token_urlsafe(SESSION_ID_BYTES),
            self._server,
            self._settings,
            call.principal,
            None if event_type is not None else self._store,
            turnstiles=self._turnstiles,
            holder=call.key,
            event_type=event_type,
        )
        session.kept = self._kept_for(session, call.key, self._places)
        if not session.is_of_2024:
            count_against(self._store, session.id, call.key, self._bytes)
        self._sessions[session.id] = session
        self._nursery.start_soon(self._run, session, name=f"session {session.id[:8]}…")
        return session

    def _check_replacing(self, holder: str) -> None:
        """Refuse a session that one of its client's own would give way to, if too many of these just have.

        Raises:
            HttpRefused: It was.
        """
        most = self._places.most_of_one
        if self._places.lent_to(holder) < most:
            return
        wait = self._replaced.take(holder, trio.current_time())
        if wait:
            setting = self._places.own_setting
            raise busy(429, f"{most} sessions are kept for you, and you begin others too fast ({setting})", wait)

    def _kept_for(self, session: LegacySession, holder: str, places: Pool | None) -> SessionLoans:
        """Lend a session its bytes, and its place if it lasts for more than one request.

        Of whoever has most, the one that is idle for longest gives way.

        Raises:
            HttpRefused: All are in use.
        """
        try:
            return SessionLoans(places, self._bytes, holder, session.let_go)
        except Overdrawn as error:
            raise too_many(error) from None

    async def _run(self, session: LegacySession) -> None:
        try:
            await session.serve_session(self._service, self._shutdown)
        finally:
            del self._sessions[session.id]
            self._dropped += session.dropped
            self._ended.unpark_all()

    async def _begin(self, call: HttpCall, place: RequestSlot, posted: PostBody) -> None:
        session = self._open(call)
        try:
            await session.post(call, place, posted, [(SESSION_ID.encode("ascii"), session.id.encode("ascii"))])
        except BaseException:
            session.end("its client has gone before it began")
            raise
        if session.has_failed:
            session.end("its handshake was refused")

    async def _serve_alone(
        self, call: HttpCall, place: RequestSlot, posted: PostBody, revision: Revision | None
    ) -> None:
        """Serve a POST by a session that lasts for it alone."""
        assumed = None if revision is None else Agreement(revision, {}, None, DEFAULT_LOG_LEVEL)
        session = LegacySession(
            "",
            self._server,
            self._settings,
            call.principal,
            None,
            turnstiles=self._turnstiles,
            holder=call.key,
            assumed=assumed,
        )
        session.kept = self._kept_for(session, call.key, None)
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(session.serve_session, self._service, self._shutdown)
            await session.post(call, place, posted)
            if len(posted.requests) < len(posted.messages):
                session.finish()  # notifications are accepted before they are handled
            else:
                session.end("its POST is answered")

    async def get(self, call: HttpCall) -> None:
        """Answer a GET with a stream.

        Raises:
            HttpRefused: There is none.
        """
        self._refuse_without_sessions()
        check_accept(call.headers, EVENT_STREAM)
        self._check_version(call)
        if SESSION_ID not in call.headers:
            raise HttpRefused(400, f"{SESSION_ID} is missing")
        await self._find(call).listen(call)

    async def delete(self, call: HttpCall) -> None:
        """Answer a DELETE: the client has no more use for its session.

        Raises:
            HttpRefused: There is none.
        """
        self._refuse_without_sessions()
        self._check_version(call)
        if SESSION_ID not in call.headers:
            raise HttpRefused(400, f"{SESSION_ID} is missing")
        self._find(call).end("its client ended it")
        await call.respond(204)

    def _refuse_without_sessions(self) -> None:
        if self._settings.stateless or not self.is_served:
            raise HttpRefused(405, "this endpoint has no sessions", [(b"allow", b"POST")])

    # HTTP+SSE.

    async def stream_as_2024(self, call: HttpCall) -> None:
        """Answer the GET that begins a session of HTTP+SSE, and is it.

        Raises:
            HttpRefused: There cannot be one.
        """
        check_accept(call.headers, EVENT_STREAM)
        session = self._open(call, event_type="message")
        url = f"{call.root}{self._settings.messages_path}?session_id={session.id}"
        await session.listen_as_2024(call, url)

    async def post_as_2024(self, call: HttpCall, place: RequestSlot, posted: PostBody) -> None:
        """Take a POST that belongs to a session of HTTP+SSE.

        Raises:
            HttpRefused: It belongs to none.
        """
        ids = parse_qs(call.query).get("session_id", [])
        session = self._sessions.get(ids[0]) if len(ids) == 1 else None
        if session is None or session.has_ended or session.principal != call.principal or not session.is_of_2024:
            raise session_ended()
        await session.take_as_2024(call, place, posted)

    # How it ends.

    async def drain(self) -> None:
        """Begin no more sessions, and end those that there are in good order."""
        self._shutdown.drain()
        while self._sessions:
            await self._ended.park()
