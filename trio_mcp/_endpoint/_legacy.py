"""Requests of the legacy era: which session they belong to, and how sessions begin and end.

Spec: 2025-11-25, basic/transports, "Session Management"; 2024-11-05, basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, final
from urllib.parse import parse_qs

import attrs
import trio

from .._codec import _json
from .._codec._json import is_object
from .._codec._jsonrpc import Message, Notification, Request
from .._core._account import Overdrawn, Pool
from .._core._framing import encode_sse_event
from .._core._http1 import PROTOCOL_VERSION, SESSION_ID
from .._core._http_rules import EVENT_STREAM, HttpRefused, HttpServerSettings, busy, check_accept
from .._core._lifecycle import DEFAULT_LOG_LEVEL, Agreement, names_era
from .._core._rates import RateTable
from .._errors import RequestError
from .._logs import Log
from .._revisions import BATCH_REVISION, Revision
from .._server._lifetimes import Shutdown
from .._server._parking import Service
from .._server._server import Hosted
from .._trio import LightParkingLot, open_hidden_nursery
from ._call import HttpCall, RequestSlot
from ._event_store import EventStore, count_against
from ._kept import TURN, KeptSession, SessionRecord
from ._session import LegacySession, session_ended
from ._session_channel import PostBody, SessionLoans, session_places, too_many
from ._shared import SessionStore, TakenSession

_log: Final = Log("trio_mcp.http")

SESSION_ID_BYTES: Final = 24
REPLACED_SECONDS: Final = 30.0
"""In how many seconds a client with as many sessions as it may have can have all of them replaced by others: to
begin and to end sessions costs all clients time, in the garbage collector too."""

REPLACED_AT_ONCE: Final = 100
"""How many of them it can have replaced at once, before that rate counts."""

LOOK_AGAIN_SECONDS: Final = 5.0
"""After how many seconds it is looked again whose a session is, if the store cannot say so."""

ASSUMED: Final = Revision.V2025_03_26
"""The revision of a request without `MCP-Protocol-Version` ("Protocol Version Header")."""


@final
@attrs.define(eq=False)
class _Taking:
    """A session of another process that is being taken.

    Attributes:
        done: Set once it is, or cannot be.
        owner: The number of the process that has it.
        problem: Why it cannot be.
    """

    done: trio.Event = attrs.field(factory=trio.Event)
    owner: int | None = None
    problem: RequestError | HttpRefused | None = attrs.field(factory=lambda: busy(503, "serving is about to end"))


@final
@attrs.define(eq=False)
class LegacySessions:
    """All sessions of one endpoint.

    Args:
        server: The server.
        service: The run of it.
        nursery: Where sessions run.
        settings: How many there may be, and how they are served.
        store: Keeps events for clients that lost a connection.
        kept: Keeps sessions for other processes; `None` if they end with this one.

    Attributes:
        is_served: Whether the server serves any revision of this era.
    """

    _server: Hosted
    _service: Service[Any]
    _nursery: trio.Nursery
    _settings: HttpServerSettings
    _store: EventStore
    _kept: SessionStore | None = None
    _shutdown: Shutdown = attrs.field(factory=Shutdown, init=False)
    _sessions: dict[str, LegacySession] = attrs.field(factory=dict[str, LegacySession], init=False)
    _revisions: dict[str, Revision] = attrs.field(init=False)
    is_served: bool = attrs.field(init=False)
    _places: Pool = attrs.field(init=False)
    _replaced: RateTable = attrs.field(init=False)
    _ended: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _dropped: int = attrs.field(default=0, init=False)  # in sessions that have ended
    _taking: dict[str, _Taking] = attrs.field(factory=dict[str, "_Taking"], init=False)

    def __attrs_post_init__(self) -> None:
        self._revisions = {each.value: each for each in self._server.revisions if not each.is_modern}
        self.is_served = bool(self._revisions)
        self._places = session_places(self._service.account, self._settings)
        self._replaced = RateTable(self._places.most_of_one / REPLACED_SECONDS, REPLACED_AT_ONCE)

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def dropped(self) -> int:
        """How many messages were dropped because no client had opened a stream for them."""
        return self._dropped + sum(session.dropped for session in self._sessions.values())

    # Streamable HTTP.

    async def post(self, call: HttpCall, slot: RequestSlot, posted: PostBody) -> None:
        """Answer a POST.

        Raises:
            HttpRefused: It belongs to no session, or cannot begin one.
        """
        revision = self._check_version(call)
        if self._settings.stateless:
            self._check_serving()
            self._check_batch(posted, revision)
            await self._serve_alone(call, slot, posted, None if posted.begins else revision)
        elif SESSION_ID in call.headers:
            session = self._find(call)
            self._check_batch(posted, session.revision)
            await session.post(call, slot, posted)
        elif posted.begins:
            await self._begin(call, slot, posted)
        else:
            raise HttpRefused(400, f"{SESSION_ID} is missing; begin a session with initialize")

    def _check_serving(self) -> None:
        if self._shutdown.is_draining:
            raise busy(503, "serving is about to end")

    @staticmethod
    def _check_batch(posted: PostBody, revision: Revision | None) -> None:
        if posted.is_batch and revision is not BATCH_REVISION:
            raise HttpRefused(
                400, f"invalid request: only {BATCH_REVISION} has batches; send one message per POST"
            )

    def _check_version(self, call: HttpCall) -> Revision:
        version = call.headers.get(PROTOCOL_VERSION)
        if version is None:
            return ASSUMED
        revision = self._revisions.get(version)
        if revision is not None:
            return revision
        raise HttpRefused(400, f"{PROTOCOL_VERSION} {version[:40]!r} is not a revision that this server serves")

    def _find(self, call: HttpCall) -> LegacySession:
        session = self._sessions.get(call.headers.get(SESSION_ID) or "")
        if session is None or session.has_ended or session.principal != call.principal:
            raise session_ended()  # the same whether it exists or not: others' sessions stay unknown
        return session

    def _open(self, call: HttpCall, *, event_type: str | None = None) -> LegacySession:
        """Begin a session, and serve it in the nursery.

        Raises:
            HttpRefused: There is no room for it, or serving is about to end.
        """
        self._check_serving()
        self._check_replacing(call.key)
        id = self._service.tag + secrets.token_urlsafe(SESSION_ID_BYTES)
        store = None if event_type is not None else self._store
        session = self._new_session(call, id, store, self._places, event_type=event_type)
        if not session.is_of_2024:
            self._begin_record(session, KeptSession(call.principal))
        self._serve(session, call.key)
        return session

    def _begin_record(self, session: LegacySession, kept: KeptSession) -> None:
        if self._kept is not None:
            session.record = SessionRecord(session.id, self._kept, kept)

    def _serve(self, session: LegacySession, client: str) -> None:
        if not session.is_of_2024:
            count_against(self._store, session.id, client, self._service.account.bytes)
        self._sessions[session.id] = session
        self._nursery.start_soon(self._run, session, name=f"session {session.id[:8]}…")

    def _new_session(
        self,
        call: HttpCall,
        id: str,
        store: EventStore | None,
        places: Pool | None,
        *,
        assumed: Agreement | None = None,
        event_type: str | None = None,
    ) -> LegacySession:
        """Make a session, and lend it its bytes, and its place if it lasts for more than one request.

        If all places are taken, the session that is idle for longest is ended.

        Raises:
            HttpRefused: All are in use.
        """
        session = LegacySession(
            id, self._server, self._settings, call.principal, store, assumed=assumed, event_type=event_type
        )
        try:
            session.loans = SessionLoans(places, self._service.account.bytes, call.key, session.let_go)
        except Overdrawn as error:
            raise too_many(error) from None
        return session

    def _check_replacing(self, client: str) -> None:
        """Check that a client does not have its own sessions replaced by others too fast.

        Raises:
            HttpRefused: It does.
        """
        most = self._places.most_of_one
        if self._places.lent_to(client) < most:
            return
        wait = self._replaced.take(client, trio.current_time())
        if wait:
            setting = self._places.own_setting
            problem = f"you have {most} sessions ({setting}), and begin others too fast; end some first"
            raise busy(429, problem, wait)

    async def _run(self, session: LegacySession) -> None:
        try:
            await session.serve_session(self._service, self._shutdown)
        finally:
            del self._sessions[session.id]
            self._dropped += session.dropped
            self._ended.unpark_all()

    async def _begin(self, call: HttpCall, slot: RequestSlot, posted: PostBody) -> None:
        session = self._open(call)
        try:
            await session.post(call, slot, posted, [(SESSION_ID.encode("ascii"), session.id.encode("ascii"))])
        except BaseException:
            session.end("its client left before it began")
            raise
        if session.has_failed:
            session.end("its handshake was refused")

    async def _serve_alone(
        self, call: HttpCall, slot: RequestSlot, posted: PostBody, revision: Revision | None
    ) -> None:
        """Serve a POST in a session that lasts for it alone."""
        assumed = None if revision is None else Agreement(revision, {}, None, DEFAULT_LOG_LEVEL)
        session = self._new_session(call, "", None, None, assumed=assumed)
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(session.serve_session, self._service, self._shutdown)
            await session.post(call, slot, posted)
            if len(posted.requests) < len(posted.messages):
                session.finish()  # notifications are accepted before they are handled
            else:
                session.end("its POST is answered")

    async def get(self, call: HttpCall) -> None:
        """Answer a GET with a stream.

        Raises:
            HttpRefused: There is none.
        """
        await self._session_of(call, EVENT_STREAM).listen(call)

    async def delete(self, call: HttpCall) -> None:
        """Answer a DELETE: the client ends its session.

        Raises:
            HttpRefused: There is none.
        """
        self._session_of(call).end("its client ended it")
        await call.respond(204)

    def _session_of(self, call: HttpCall, *forms: str) -> LegacySession:
        """Return the session of a GET or a DELETE whose client must accept these forms of an answer."""
        if self._settings.stateless or not self.is_served:
            raise HttpRefused(405, "this endpoint has no sessions; send POSTs", [(b"allow", b"POST")])
        if forms:
            check_accept(call.headers, *forms)
        self._check_version(call)
        if SESSION_ID not in call.headers:
            if (call.headers.get("upgrade") or "").lower() == "websocket":
                raise HttpRefused(400, "no WebSocket is served here, but HTTP; connect to http:// or https://")
            raise HttpRefused(400, f"{SESSION_ID} is missing")
        return self._find(call)

    # HTTP+SSE.

    async def stream_as_2024(self, call: HttpCall) -> None:
        """Answer the GET that begins a session of HTTP+SSE; the session lasts as long as its answer.

        Raises:
            HttpRefused: The session cannot begin.
        """
        check_accept(call.headers, EVENT_STREAM)
        session = self._open(call, event_type="message")
        url = f"{call.root}{self._settings.sse_paths[1]}?session_id={session.id}"
        try:
            await session.listen(call, [encode_sse_event(url.encode("utf-8"), event="endpoint")])
        finally:
            session.end("its stream was closed")

    async def post_as_2024(self, call: HttpCall, slot: RequestSlot, posted: PostBody) -> None:
        """Take a POST that belongs to a session of HTTP+SSE.

        Raises:
            HttpRefused: It belongs to none.
        """
        ids = parse_qs(call.query).get("session_id", [])
        session = self._sessions.get(ids[0]) if len(ids) == 1 else None
        if session is None or session.has_ended or session.principal != call.principal or not session.is_of_2024:
            raise session_ended()
        await session.take_as_2024(call, slot, posted)

    # Sessions that other processes had.

    def is_here(self, id: str) -> bool:
        """Whether this process serves a session."""
        session = self._sessions.get(id)
        return session is not None and not session.has_ended and id not in self._taking

    async def has(self, id: str) -> bool:
        """Wait until it is known whether this process serves a session, and return that.

        Of one that is left to others that is known when they can have it. One that is over is not waited for,
        though what it serves may take its time to end: this process says that it is no more.
        """
        while (taking := self._taking.get(id)) is not None:
            await taking.done.wait()
        while (session := self._sessions.get(id)) is not None and session.has_ended and not session.is_over:
            await self._ended.park()
        return session is not None

    async def take(self, call: HttpCall, id: str) -> int | None:
        """Go on with a session that no process has any more, if the sender of a request may use it.

        Returns the number of the process that has it; `None` if it is this one now, or if there is none.

        Raises:
            RequestError: The store cannot be used now.
            HttpRefused: There is no room for it, or serving is about to end.
        """
        assert self._kept is not None
        with trio.move_on_after(self._settings.message_timeout) as waiting:
            if await self.has(id):
                return None
        if waiting.cancelled_caught:
            raise busy(503, "the session has not ended yet where it was")
        data = await self._kept.find(id)
        if data is None or KeptSession.decode(data).principal != call.principal:
            return None  # it is refused like one that never was
        taking = self._taking.get(id)
        if taking is None and id not in self._sessions:
            self._check_serving()
            self._taking[id] = taking = _Taking()
            # It goes on if the client of this request leaves.
            self._nursery.start_soon(self._take, call, id, taking, self._kept, name=f"taking session {id[:8]}…")
        if taking is None:
            return None
        await taking.done.wait()
        if taking.problem is not None:
            raise taking.problem
        return taking.owner

    async def _take(self, call: HttpCall, id: str, taking: _Taking, store: SessionStore) -> None:
        try:
            taken = await store.take(id)
            if isinstance(taken, TakenSession):
                try:
                    await self._go_on(call, id, taken)
                except BaseException:
                    if id not in self._sessions:
                        await self._give_back(id, store)  # noqa: ASYNC102 - shields itself, and is bounded
                    raise
            else:
                taking.owner = taken
            taking.problem = None
        except (RequestError, HttpRefused) as error:
            taking.problem = error
        except Exception:
            # The boundary of one session.
            _log.exception("a session that another process had cannot be taken")
            taking.problem = HttpRefused(503, "the session cannot be taken from another process")
        finally:
            del self._taking[id]
            taking.done.set()

    async def _give_back(self, id: str, store: SessionStore) -> None:
        """Let others take a session that cannot be served here."""
        with trio.move_on_after(self._server.limits.goodbye_timeout, shield=True), suppress(RequestError):
            await store.release(id)

    async def _go_on(self, call: HttpCall, id: str, taken: TakenSession) -> None:
        self._check_serving()
        kept = KeptSession.decode(taken.data)
        session = self._new_session(call, id, self._store, self._places)
        self._begin_record(session, kept)
        session.begin_after(taken.turn * TURN)
        self._serve(session, call.key)
        try:
            with trio.move_on_after(self._settings.message_timeout) as scope:
                await _say_again(session, kept)
            if session.has_failed:
                self._check_serving()
        except BaseException:
            session.leave()
            raise
        if scope.cancelled_caught or session.has_failed:
            session.end("its handshake was refused, or took too long")
            raise session_ended()
        _log.info("session %.8s… of another process goes on here", id)

    def look_again(self) -> None:
        """Look which sessions others have taken, who may have taken this process for gone. Never waits."""
        for session in tuple(self._sessions.values()):
            if session.record is not None:
                self._nursery.start_soon(self._look_again, session, session.record)

    @staticmethod
    async def _look_again(session: LegacySession, record: SessionRecord) -> None:
        while not session.has_ended:
            try:
                if not await record.keep():
                    session.lose()
                return
            except HttpRefused:
                await trio.sleep(LOOK_AGAIN_SECONDS)

    # How it ends.

    async def drain(self) -> None:
        """Begin no more sessions, and end the others in good order."""
        self._shutdown.drain()
        while self._sessions:
            await self._ended.park()


async def _say_again(session: LegacySession, kept: KeptSession) -> None:
    """Say again what its client has said, to a session that has not heard it.

    What its client follows, and all lists, are told as changed: they may have, while no process had the session.

    Raises:
        HttpRefused: There is no room for it.
    """
    lists: Sequence[str] = ()
    session.visit()
    try:
        session.keep("followed", kept.size)
        for message in kept.messages():
            answer = await session.say_again(message)
            if message["method"] == "initialize" and answer is not None:
                lists = _changing_lists(answer)
            elif answer is None or "error" in _json.decode(answer):
                kept.drop(message["params"].get("uri"))  # it was refused before, too
        if kept.is_initialized:
            session.use()
            for method in lists:
                session.tell(method)
        for uri in kept.followed:
            session.tell("notifications/resources/updated", {"uri": uri})
    finally:
        session.rest()


def _changing_lists(answer: bytes) -> list[str]:
    """Return the methods by which a server that answers a handshake so notifies its client of changed lists."""
    result = _json.decode(answer).get("result")
    declared = result.get("capabilities") if is_object(result) else None
    offers = declared if is_object(declared) else {}
    return [
        f"notifications/{name}/list_changed"
        for name, offer in offers.items()
        if is_object(offer) and offer.get("listChanged")
    ]


def check_legacy(message: Message) -> None:
    """Check that a message which goes to a session is of the legacy era.

    A modern message is the only one of its POST, and its header fields repeat what it contains, by which
    proxies route and filter. A way around that check would be a way past those proxies.

    Spec: 2026-07-28, basic/transports/streamable-http, "Sending Messages" and "Request Metadata".

    Raises:
        HttpRefused: It is of the modern era.
    """
    if isinstance(message, (Request, Notification)) and names_era(message.params):
        newest = max(revision for revision in Revision if revision.is_modern)
        raise HttpRefused(400, f"invalid request: a message of {newest} must be the only one of its POST")
