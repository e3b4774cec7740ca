"""One session of the legacy era: a peer whose wire is many POSTs and a GET.

Spec: 2025-11-25, basic/transports, "Streamable HTTP"; 2024-11-05, basic/transports, "HTTP with SSE".

Cancellations that come before what they cancel: in the legacy era each has a POST of its own, and no order.

No I/O and no clock; nothing here knows what a POST is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar, final

import trio

from .._channel import Origin
from .._codec import _json
from .._codec._json import cost_of, is_object
from .._codec._jsonrpc import Request, RequestId
from .._core._account import Overdrawn
from .._core._framing import encode_sse_event
from .._core._http_headers import LAST_EVENT_ID, SESSION_ID, HeaderField
from .._core._http_rules import EVENT_STREAM, HttpRefused, HttpServerSettings, accepts
from .._core._lifecycle import Agreement
from .._logs import Log
from .._revisions import Revision
from .._server._asking import CapabilityMissing
from .._server._lifetimes import Background, Shutdown
from .._server._parking import Service
from .._server._server import Server
from .._trio import open_hidden_nursery
from ._call import HttpCall, HttpOrigin, RequestSlot, connected
from ._event_store import EventStore
from ._session_channel import PostBody, PostOrigin, SessionChannel, SessionLoans, too_many
from ._streams import EventStream, EventWriter
from ._turnstile import Turnstiles

_T = TypeVar("_T")

KEPT_FOR: Final = 30.0
"""Seconds: as long as a request may wait to be read at a server that is busy, and its client may think of it."""

MAX_IDS: Final = 512
MAX_ID_LENGTH: Final = 64

ID_BYTES: Final = 256
"""What it takes to remember an id: one of the longest, or, where numbers are ids, one and a half of them."""


@final
class EarlyCancellations:
    """What one client has given up and not yet asked, as far as that can be told; bounded in number and in time.

    A goodbye to a request that was here is none of these, even if that is long answered: a client that uses an
    id twice, which it must not, then gets its second answer.
    """

    __slots__ = ("_early", "_seen")

    def __init__(self) -> None:
        self._seen: dict[RequestId, None] = {}
        self._early: dict[RequestId, float] = {}

    @property
    def size(self) -> int:
        """What it takes to remember them at most, in bytes."""
        return ID_BYTES * (len(self._seen) + len(self._early))

    def say(self, id: RequestId, now: float) -> None:
        """Note that a request was given up."""
        if id not in self._seen and not _is_long(id):
            _keep(self._early, id, now)

    def is_given_up(self, id: RequestId, now: float) -> bool:
        """Note that a request has come, and return whether it was given up before."""
        if not _is_long(id):
            _keep(self._seen, id, None)
        said_at = self._early.pop(id, None)
        return said_at is not None and now - said_at < KEPT_FOR


def _keep(kept: dict[RequestId, _T], id: RequestId, value: _T) -> None:
    """Keep something as the newest, and no more than so many."""
    kept.pop(id, None)
    kept[id] = value
    if len(kept) > MAX_IDS:
        del kept[next(iter(kept))]


def _is_long(id: RequestId) -> bool:
    """Whether an id is too long to be kept. Nobody's are, but for those who want to fill the memory."""
    return isinstance(id, str) and len(id) > MAX_ID_LENGTH


_log: Final = Log("trio_mcp.http")

STANDALONE: Final = 0
"""The number of the stream for what belongs to no POST."""

ONLY_BEGUN: Final = 1
"""With how many requests of its client a session is begun, and of no use to anybody yet."""

_EVENT_ID: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")


def session_ended() -> HttpRefused:
    """Return the refusal of what belongs to no session; the client then begins a new one."""
    return HttpRefused(404, f"{SESSION_ID} names no session; it may have ended")


@final
class LegacySession:
    """One session.

    Args:
        id: Its id.
        server: The server.
        settings: How it is served.
        principal: Who began it; nobody else may use it.
        store: Keeps events for clients that lost a connection; `None` if nothing can be taken up again.
        turnstiles: Where what is done for its client waits for its turn.
        holder: Who that is.
        assumed: What holds without a handshake, for a session that lasts for one POST.
        event_type: What events are called, where it is not the default.

    Attributes:
        kept: What is lent for it, before it is served.
    """

    kept: SessionLoans

    def __init__(
        self,
        id: str,
        server: Server[Any],
        settings: HttpServerSettings,
        principal: str | None,
        store: EventStore | None,
        *,
        turnstiles: Turnstiles,
        holder: str,
        assumed: Agreement | None = None,
        event_type: str | None = None,
    ) -> None:
        self.id: Final = id
        self.principal: Final = principal
        self._server = server
        self._settings = settings
        self._store = store
        self._assumed = assumed
        self._event_type = event_type
        self.revision: Revision | None = None if assumed is None else assumed.revision
        # Made when there is something to be stored: many sessions say nothing.
        self._storing: EventWriter | None = None
        self._standalone = self._new_stream(STANDALONE)
        self._channel = SessionChannel(
            f"HTTP session {id[:8]}…",
            self._standalone,
            on_question=self._asked_on_standalone,
            on_lost=lambda ids: self._cannot_ask(ids, "its connection is gone"),
            turnstiles=turnstiles,
            holder=holder,
        )
        # Questions on that stream that nobody was sent yet.
        self._unread: dict[int, tuple[RequestId, ...]] | None = None
        self._streams: dict[int, EventStream] = {}  # of POSTs
        self._asking: dict[RequestId, tuple[EventStream, set[RequestId]]] = {}
        self._early_cancellations: EarlyCancellations | None = None
        self._posts = 0
        self._visits = 0
        self._uses = 0
        self._scope = trio.CancelScope()
        self._background: Background | None = None
        self._has_ended = False

    def _new_stream(self, number: int) -> EventStream:
        settings = self._settings
        return EventStream(
            self.id,
            number,
            self._store,
            self._store_soon,
            max_bytes=self._server.limits.max_outbox_bytes,
            keep_alive=settings.keep_alive_interval,
            retry_ms=round(settings.retry_delay * 1000),
            event_type=self._event_type,
            is_optional=number == STANDALONE,
            on_dropped=self._dropped,
            on_queued=self._queued,
        )

    # How long it lasts.

    async def serve_session(self, service: Service[Any], shutdown: Shutdown) -> None:
        """Serve it until it is ended, or idle for too long, or `shutdown` says so."""
        try:
            async with open_hidden_nursery() as nursery:
                self._begin(nursery.cancel_scope)
                self._background = Background(nursery, f"the session with {self._channel.description}")
                await self._server.serve_beside(
                    self._background,
                    service,
                    self._channel,
                    shutdown,
                    assumed=self._assumed,
                    holder=self.kept.holder,
                    keep=self._keep_subscribed,
                )
                nursery.cancel_scope.cancel(reason="the session has ended")
        except Exception:
            # The boundary of one session: whatever fails in it costs nobody else theirs.
            _log.exception("%s failed", self._channel.description)
        finally:
            self._has_ended = True
            self._background = None
            self.kept.give_back()
            posts = (*self._streams.values(), *(stream for stream, _ in self._asking.values()))
            for stream in (self._standalone, *posts):
                stream.end()
            with trio.CancelScope(shield=True):  # both only tidy up
                await self._channel.aclose()
                if self._store is not None:
                    storing = self._storing or EventWriter(self._store, self.id, self._forget_ended)
                    await storing.forget(self._server.limits.goodbye_timeout)

    def _begin(self, scope: trio.CancelScope) -> None:
        """From here on it can be ended, or too long idle; what it was told before holds."""
        scope.deadline = self._scope.deadline
        if self._scope.cancel_called:
            scope.cancel(reason="the session ended before it began")
        self._scope = scope

    def end(self, reason: str) -> None:
        """End it: cancel what it serves. Never waits."""
        self._scope.cancel(reason=reason)

    def let_go(self, everything: bool) -> None:  # noqa: FBT001 - called with one thing or the other
        """Others have use for what it keeps: end it, or drop what its client may never read. Never waits."""
        if everything:
            self.end("it gave way to others")
        else:
            self._standalone.drop_unread()

    def _keep_subscribed(self, amount: int) -> None:
        self.kept.keep("subscriptions", amount)

    def _keep_said(self, posted: PostBody) -> None:
        """Have lent what its client says of itself, and is kept.

        Raises:
            HttpRefused: There is no room for it.
        """
        params = posted.messages[0].params if isinstance(posted.messages[0], Request) else None
        said = [(params or {}).get("capabilities"), (params or {}).get("clientInfo")]
        self._keep("handshake", cost_of(said))

    def _keep(self, what: Literal["handshake", "ids"], amount: int) -> None:
        """Have lent what is kept of something.

        Raises:
            HttpRefused: There is no room for it.
        """
        try:
            self.kept.keep(what, amount)
        except Overdrawn as error:
            raise too_many(error) from None

    def _queued(self, amount: int) -> None:
        self.kept.unread(amount)

    def finish(self) -> None:
        """Let it end in good order: nothing more will come. Never waits."""
        self._channel.end_input()

    @property
    def has_ended(self) -> bool:
        """Whether nobody can use it any more."""
        return self._has_ended or self._scope.cancel_called

    def _visit(self) -> None:
        """Keep the session while one of its client's requests is open, until `_leave`."""
        self._use()
        if not self._visits:
            self.kept.hold()
        self._visits += 1
        self._scope.deadline = self._idle_until(is_open=True)

    def _leave(self) -> None:
        """One of them is over; after the last the session is idle."""
        self._visits -= 1
        if not self._visits:
            self._scope.deadline = self._idle_until(is_open=False)
            self.kept.rest()

    def _use(self) -> None:
        """Its client does something with it."""
        self._uses += 1
        if self._uses == ONLY_BEGUN + 1 and self._visits:
            self._scope.deadline = math.inf

    def _idle_until(self, *, is_open: bool) -> float:
        """Return when it ends if nothing happens. One that was only begun does not last long."""
        if self._uses <= ONLY_BEGUN and (self.is_of_2024 or not is_open):
            settings = self._settings
            return trio.current_time() + min(settings.handshake_timeout, settings.session_idle_timeout)
        return math.inf if is_open else trio.current_time() + self._settings.session_idle_timeout

    # POSTs.

    async def post(
        self, call: HttpCall, place: RequestSlot, posted: PostBody, headers: Sequence[HeaderField] = ()
    ) -> None:
        """Take what a POST brings, and answer it.

        Args:
            call: The POST.
            place: What it takes among those that are served. Its requests take one until they are answered, even
                if nobody waits for that any more.
            posted: What is in it.
            headers: What the answer says beside its own header fields, if it is a good one.

        Raises:
            HttpRefused: The session has ended.
        """
        self._visit()
        try:
            wanted = self._still_wanted(posted)
            if wanted is None:
                await call.respond(202)
            elif wanted.requests:
                await self._answer(call, place, wanted, headers)
            else:
                await self._take(call, wanted)
                await call.respond(202)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise session_ended() from None
        finally:
            self._leave()

    def _still_wanted(self, posted: PostBody) -> PostBody | None:
        """Return what a POST brings without the requests whose goodbyes have overtaken them."""
        if posted.begins:
            return posted
        if self._early_cancellations is None:
            self._early_cancellations = EarlyCancellations()
        goodbyes, now, before = self._early_cancellations, trio.current_time(), self._early_cancellations.size
        given_up = {request.id for request in posted.requests if goodbyes.is_given_up(request.id, now)}
        for id in posted.cancelled:
            goodbyes.say(id, now)
        if goodbyes.size != before:
            self._keep("ids", goodbyes.size)
        if not given_up:
            return posted
        _log.debug("%s: given up before they came: %.200r", self._channel.description, given_up)
        return posted.without(given_up)

    async def _take(self, call: HttpCall, posted: PostBody) -> None:
        with connected(call):
            await self._put(posted, HttpOrigin(call.principal, call.loans.key, call.loans.served))

    async def _put(self, posted: PostBody, origin: Origin) -> None:
        cancelled = posted.cancelled
        after = (lambda: self._gave_up(cancelled)) if cancelled else None
        await self._channel.put(posted.incoming(origin), after)
        if cancelled:
            # In this turn of the event loop the handler hears of it; what is said on the network can wait.
            await trio.lowlevel.checkpoint()

    def _gave_up(self, ids: Sequence[RequestId]) -> None:
        """Requests that were given up are never answered, unless they already are."""
        self._channel.gave_up(ids)
        for id in ids:
            if id in self._asking:
                stream, open_ids = self._asking.pop(id)
                open_ids.discard(id)
                if not open_ids:
                    stream.end()
                    self._forget_ended(stream)

    async def _answer(
        self, call: HttpCall, place: RequestSlot, posted: PostBody, headers: Sequence[HeaderField]
    ) -> None:
        self._posts += 1
        stream = self._new_stream(self._posts)
        wants_stream = accepts(call.headers.get("accept"), EVENT_STREAM) and not posted.begins
        may_stream = wants_stream and not self._settings.json_only
        open_ids = {request.id for request in posted.requests}
        # An id that is in use stays with the POST that had it first; the peer refuses the second.
        mine = [id for id in open_ids if self._asking.setdefault(id, (stream, open_ids))[0] is stream]

        def answered() -> None:
            for id in mine:
                if id in self._asking and self._asking[id][0] is stream:
                    del self._asking[id]

        origin = PostOrigin(
            call.principal,
            stream,
            stream if may_stream else self._standalone,
            answered,
            is_releasable=may_stream and self.can_prime,
            served=call.loans.served,
        )
        is_taken = has_begun = False
        try:
            with connected(call):
                await self._put(posted, origin)
                is_taken = True
                with trio.move_on_after(self._settings.keep_alive_interval if may_stream else math.inf):
                    await stream.wait_something()
                if may_stream and stream.sole_message() is None and not (stream.is_ended and not stream.has_said):
                    self._streams[stream.number] = stream
                    has_begun = True
                    await call.start_stream(headers)
                    await stream.deliver(call, 0, prime=self.can_prime)
                    if not open_ids:
                        await trio.lowlevel.checkpoint()  # given up: here, too, the handler hears of it first
                    await call.finish()
                else:
                    await self._answer_whole(call, stream, posted, headers)
        finally:
            if not is_taken:
                answered()
            elif not stream.is_ended:
                stream.place = place.outlive()
            if not has_begun or self._store is None:
                stream.abandon()
            self._forget_ended(stream)

    async def _answer_whole(
        self, call: HttpCall, stream: EventStream, posted: PostBody, headers: Sequence[HeaderField]
    ) -> None:
        """Answer with one JSON object."""
        while (message := stream.sole_message()) is None and not stream.is_ended:
            await stream.wait_changed()
        if message is not None:
            if posted.begins:
                self.revision = _revision_in(message)
                self._keep_said(posted)
            await call.respond(200, message, () if self.has_failed else headers)
        elif self._has_ended:
            raise session_ended()
        else:
            # The request was given up, and so is not answered; its POST is, once the handler has heard of it.
            await trio.lowlevel.checkpoint()
            await call.respond(202)

    @property
    def has_failed(self) -> bool:
        """Whether its handshake was refused, so that it is none."""
        return self.revision is None

    @property
    def can_prime(self) -> bool:
        """Whether the client knows events without data; those of older revisions stumble over them."""
        return self.revision is not None and self.revision >= Revision.V2025_11_25

    def _forget_ended(self, stream: EventStream) -> None:
        """Only the store knows of streams that have ended."""
        if stream.is_ended and not stream.unstored():
            self._streams.pop(stream.number, None)

    # The GET.

    async def listen(self, call: HttpCall, first: Sequence[bytes] = ()) -> None:
        """Answer a GET: with what belongs to no POST, or with the rest of a stream that was lost.

        Args:
            call: The GET.
            first: What to send first.

        Raises:
            HttpRefused: `Last-Event-ID` is none of ours.
        """
        number, after = STANDALONE, self._standalone.position
        last_event_id = call.headers.get(LAST_EVENT_ID)
        if last_event_id is not None and self._store is not None:
            number, after = self._read_event_id(last_event_id)
        stream = self._standalone if number == STANDALONE else self._streams.get(number)
        self._visit()
        try:
            with connected(call):
                if stream is None:
                    stream = self._new_stream(number)
                    is_known = await stream.recall(after)
                else:
                    is_known = after <= stream.last
                if not is_known:
                    raise HttpRefused(
                        400, f"{LAST_EVENT_ID} {last_event_id!r} is not the id of an event that is kept"
                    )
                call.on_standing()  # it is no request among others; it takes a connection
                await call.start_stream()
                try:
                    await stream.deliver(call, after, prime=False, first=first)
                finally:
                    self._forget_ended(stream)
                await call.finish()
        finally:
            self._leave()

    # What nobody reads.

    @property
    def dropped(self) -> int:
        """How many messages were dropped, because nobody has read the stream that they are for."""
        return self._standalone.dropped

    def _dropped(self, number: int) -> None:
        if self._standalone.dropped == 1:
            _log.info(
                "%s: its client opens no stream, and what there is for it exceeds %d bytes (max_outbox_bytes); "
                "the oldest is dropped",
                self._channel.description,
                self._server.limits.max_outbox_bytes,
            )
        self._cannot_ask(self._take_question(number), "too much else waits for a stream that nobody opens")

    def _asked_on_standalone(self, number: int, ids: tuple[RequestId, ...]) -> None:
        self._unread = {} if self._unread is None else self._unread
        self._unread[number] = ids
        if self._background is not None:
            self._background.start_soon(self._wait_read, number, name="a question waits for a stream")

    def _take_question(self, number: int) -> tuple[RequestId, ...]:
        return () if self._unread is None else self._unread.pop(number, ())

    async def _wait_read(self, number: int) -> None:
        """Wait until a question was sent, but without anybody to whom it could be sent not for long."""
        stream = self._standalone
        timeout = self._settings.stream_timeout if self.id else 0.0  # a session for one POST has no GET
        until = math.inf
        while number in (self._unread or ()) and stream.position < number and not stream.is_ended:
            until = math.inf if stream.is_read else min(until, trio.current_time() + timeout)
            with trio.move_on_at(until) as waiting:
                await stream.wait_changed()
            if waiting.cancelled_caught and not stream.is_read:
                stream.withdraw(number)
                self._cannot_ask(
                    self._take_question(number),
                    "the answer to its request is no stream (json_only), and it has opened none beside "
                    f"for {timeout:g} s (stream_timeout)",
                )
        self._take_question(number)

    def _cannot_ask(self, ids: Sequence[RequestId], why: str) -> None:
        """Tell handlers that their questions do not reach the client."""
        if ids:
            revision = self.revision or Revision.V2025_03_26
            self._channel.fail(ids, CapabilityMissing(f"the client cannot be asked: {why}", None, revision))

    def _read_event_id(self, value: str) -> tuple[int, int]:
        found = _EVENT_ID.fullmatch(value)
        if found is None or int(found[1]) > self._posts:
            raise HttpRefused(400, f"{LAST_EVENT_ID} {value[:100]!r} is not the id of an event")
        return int(found[1]), int(found[2])

    async def listen_as_2024(self, call: HttpCall, messages_url: str) -> None:
        """Answer the GET that is a whole session of HTTP+SSE, and end with it."""
        endpoint = encode_sse_event(messages_url.encode("utf-8"), event="endpoint")
        try:
            await self.listen(call, [endpoint])
        finally:
            self.end("its stream was closed")

    @property
    def is_of_2024(self) -> bool:
        """Whether it is a session of HTTP+SSE."""
        return self._event_type is not None

    async def take_as_2024(self, call: HttpCall, place: RequestSlot, posted: PostBody) -> None:
        """Take a message that was posted to a session of HTTP+SSE; it is answered on the session's stream."""
        self._use()
        wanted = self._still_wanted(posted)
        try:
            with connected(call):
                if wanted is not None:
                    if wanted.begins:
                        self._keep_said(wanted)
                    await self._put_as_2024(call, place, wanted)
                await call.respond(202, b"Accepted", content_type="text/plain")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise session_ended() from None

    async def _put_as_2024(self, call: HttpCall, place: RequestSlot, posted: PostBody) -> None:
        """Hand over a message. Its request has a place until it is answered or given up."""
        kept = place.outlive() if posted.requests else None
        if kept is not None:
            self._channel.keep_places(posted.requests, kept)
        try:
            await self._put(posted, HttpOrigin(call.principal, call.loans.key, call.loans.served, kept))
        except BaseException:
            self._channel.answered([request.id for request in posted.requests], kept)
            raise

    def _store_soon(self, stream: EventStream) -> None:
        if self._store is not None and self._background is not None:
            if self._storing is None:
                self._storing = EventWriter(self._store, self.id, self._forget_ended)
            self._storing.soon(stream, self._background)


def _revision_in(answer: bytes) -> Revision | None:
    """Return the revision in the answer to a handshake; `None` if it was refused."""
    result = _json.decode(answer).get("result")
    version = result.get("protocolVersion") if is_object(result) else None
    return next((revision for revision in Revision if revision == version), None)
