"""One session of the legacy era: a peer whose connection is many POSTs and a GET.

How long it lasts, how its POSTs and its GET are answered, and cancellations that arrive before their requests.
Which session a request belongs to is decided by `_legacy`.

Spec: 2025-11-25, basic/transports, "Streamable HTTP"; 2024-11-05, basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, final

import attrs
import trio

from .._channel import Incoming, Origin
from .._codec._json import cost_of
from .._codec._jsonrpc import Request, RequestId, encode_notification, parse_message
from .._core._account import Loan, Overdrawn
from .._core._http1 import LAST_EVENT_ID, SESSION_ID, HeaderField, Headers
from .._core._http_rules import HttpRefused, HttpServerSettings, busy
from .._core._lifecycle import Agreement
from .._errors import SERVER_BUSY
from .._logs import Log
from .._revisions import Revision
from .._server._asking import CapabilityMissing
from .._server._lifetimes import Background, Shutdown
from .._server._parking import Service
from .._server._server import Hosted
from .._trio import open_hidden_nursery
from ._call import HttpCall, RequestSlot, connected, nothing
from ._event_store import EventStore
from ._kept import SessionRecord, leave_stores, revision_in
from ._session_channel import (
    EarlyCancellations,
    HttpOrigin,
    PostBody,
    PostOrigin,
    SessionChannel,
    SessionLoans,
    too_many,
)
from ._streams import EventStream, EventWriter, read_event_id
from ._unread_questions import UnreadQuestions

_log: Final = Log("trio_mcp.http")

STANDALONE: Final = 0
"""The number of the stream for messages that belong to no POST."""

STREAM_TIMEOUT: Final = 5.0
"""Seconds that a question of a handler waits for its client to open the stream of its session (GET), if responses
are no streams (`json_only`): clients that open one do so at once."""

ONLY_BEGUN: Final = 1
"""A session with so many requests was begun, and nothing else."""


def session_ended() -> HttpRefused:
    """Return the refusal of what belongs to no session; the client then begins a new one."""
    return HttpRefused(404, f"{SESSION_ID} names no session; it may have ended")


@final
@attrs.define(eq=False)
class _Asked:
    """What one POST has asked.

    Attributes:
        ids: Its requests that were not cancelled.
        stream: The stream for the answers; `None` in HTTP+SSE.
        slot: What it counts as once the POST itself is over.
    """

    ids: set[RequestId]
    stream: EventStream | None = None
    slot: RequestSlot | None = None

    def end(self) -> None:
        """Note that all is answered, or will not be."""
        if self.stream is not None:
            self.stream.end()
        if self.slot is not None:
            self.slot.leave()


@final
@attrs.define(eq=False)
class LegacySession:
    """One session.

    Its client sends each message in a POST, and reads what the server sends on several streams: one for each POST
    with requests, and the standalone one, which a GET reads. Kept true:

    * An answer goes to the stream of the POST with its request. So do the other messages of that request if this
      answer may be a stream, else they go to the standalone one.
    * The request that arrived first has its id (`_asking`); the peer refuses a second one.
    * A stream outlives its POST if its client can reconnect (there is a store, and the stream had begun). Once it
      has ended and is stored, only the store keeps it.
    * A handler is cancelled before the POST of the cancelled request is answered, so nothing contradicts it.

    Args:
        id: Its id; empty for a session that lasts for one POST.
        server: The server.
        settings: How it is served.
        principal: Who began it; no other principal may use it.
        store: Keeps events for clients that lost a connection; `None` if streams cannot be resumed.
        assumed: What holds without a handshake, for a session that lasts for one POST.
        event_type: The type of its events, where it is not the default: in HTTP+SSE.

    Attributes:
        loans: What is lent for it; set before it is served.
        record: What is kept of it for another process; `None` if it ends with this one. Set before it is served.
        revision: What its handshake agreed on; `None` before, and if that was refused.
    """

    id: str
    _server: Hosted
    _settings: HttpServerSettings
    principal: str | None
    _store: EventStore | None
    _assumed: Agreement | None = attrs.field(alias="assumed", default=None, kw_only=True)
    _event_type: str | None = attrs.field(alias="event_type", default=None, kw_only=True)
    loans: SessionLoans = attrs.field(init=False)
    record: SessionRecord | None = attrs.field(default=None, init=False)
    revision: Revision | None = attrs.field(init=False)
    _standalone: EventStream = attrs.field(init=False)
    _channel: SessionChannel = attrs.field(init=False)
    _streams: dict[int, EventStream] = attrs.field(factory=dict[int, EventStream], init=False)  # of POSTs
    _asking: dict[RequestId, _Asked] = attrs.field(factory=dict[RequestId, _Asked], init=False)
    # These are made when they are needed: many sessions do nothing.
    _questions: UnreadQuestions | None = attrs.field(default=None, init=False)
    _writer: EventWriter | None = attrs.field(default=None, init=False)
    _early_cancellations: EarlyCancellations | None = attrs.field(default=None, init=False)
    _left: set[RequestId] | None = attrs.field(default=None, init=False)  # cancelled, by a client that has gone
    # What is lent for messages that are served longer than their POSTs are open.
    _outlived: dict[Loan, None] | None = attrs.field(default=None, init=False)
    _first: int = attrs.field(default=0, init=False)  # the number after which those of this process begin
    _posts: int = attrs.field(default=0, init=False)  # after it, how many had requests
    _visits: int = attrs.field(default=0, init=False)  # how many requests of its client are open
    _uses: int = attrs.field(default=0, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _background: Background | None = attrs.field(default=None, init=False)
    _has_ended: bool = attrs.field(default=False, init=False)
    _is_left: bool = attrs.field(default=False, init=False)  # for another process

    def __attrs_post_init__(self) -> None:
        self.revision = None if self._assumed is None else self._assumed.revision
        self._standalone = self._new_stream(STANDALONE)
        self._channel = SessionChannel(
            f"HTTP session {self.id[:8]}…",
            self._standalone,
            on_question=self._asked_on_standalone,
            on_lost=lambda ids: self._cannot_ask(ids, "its connection is gone"),
            withdraw=lambda one: self._questions is not None and self._questions.withdraw(one),
        )

    def _new_stream(self, number: int) -> EventStream:
        return EventStream(
            self.id,
            number,
            self._store,
            self._store_soon,
            max_bytes=self._server.limits.max_outbox_bytes,
            keep_alive=self._settings.keep_alive_interval,
            event_type=self._event_type,
            is_optional=number == STANDALONE,
            on_dropped=self._dropped,
            on_queued=lambda more: self.loans.unread(more),  # noqa: PLW0108 - it has no loans yet
        )

    # How long it lasts.

    async def serve_session(self, service: Service[Any], shutdown: Shutdown) -> None:
        """Serve it until it is ended, or idle for too long, or `shutdown` ends it."""
        is_left = False  # for another process
        try:
            async with open_hidden_nursery() as nursery:
                self._begin(nursery.cancel_scope)
                self._background = Background(nursery, f"the session with {self._channel.description}")
                try:
                    await self._server.serve_beside(
                        self._background,
                        service,
                        self._channel,
                        shutdown,
                        assumed=self._assumed,
                        client=self.loans.client,
                        keep=partial(self.loans.keep, "subscriptions"),
                        after_id=self._first,
                    )
                finally:
                    is_left = self.record is not None and (self._is_left or not self._scope.cancel_called)
                    self._is_left = is_left
                nursery.cancel_scope.cancel(reason="the session has ended")
        except Exception:
            # The boundary of one session: what fails in it ends no other.
            is_left = self._is_left = False
            _log.exception("%s failed", self._channel.description)
        finally:
            self._has_ended = True
            self._background = None
            self.loans.give_back(is_read=False)
            for loan in self._outlived or ():
                loan.give_back()
            for stream in (self._standalone, *self._streams.values()):
                stream.end()
            if not (self._visits or is_left):  # nobody will read what is queued
                self._drop_all()
            for asked in self._asking.values():
                asked.end()
            with trio.CancelScope(shield=True):  # neither waits for a client; the stores have goodbye_timeout
                await self._channel.aclose()
                writer = None if self._store is None else self._event_writer(self._store)
                streams, limits = (self._standalone, *self._streams.values()), self._server.limits
                await leave_stores(writer, self.record, streams, limits.goodbye_timeout, is_left=is_left)
            if is_left and not self._visits:
                self._drop_all()

    # What another process had.

    def begin_after(self, number: int) -> None:
        """Go on from another process, with greater numbers for all that is numbered. Before it is served."""
        self._first = self._posts = number
        self._standalone.go_on(number)

    def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send its client a notification that belongs to no request. Never waits."""
        self._standalone.put(encode_notification(method, params))

    async def say_again(self, message: Mapping[str, Any]) -> bytes | None:
        """Hand over what its client has said to another process; return the answer, if it is a request.

        Raises:
            HttpRefused: There is no room for it.
        """
        body = json.dumps(message).encode("ascii")
        posted = PostBody(body, message, [parse_message(message)])
        if not posted.requests:
            self._channel.put_nowait(posted.incoming(HttpOrigin(self.principal, self.loans.client)))
            return None
        if posted.begins:
            self._keep_declared(posted)
        stream = self._new_stream(STANDALONE)  # nobody reads it but this
        asked = self._note_asked(posted, stream)
        origin = PostOrigin(
            self.principal,
            stream,
            self._standalone,
            partial(self._answered, asked),
            Headers(),
            is_releasable=False,
            keep_answer=self.loans.check_room,
        )
        self._channel.put_nowait(posted.incoming(origin))
        while not stream.is_ended:
            await stream.wait_changed()
        answer = stream.sole_message()
        stream.abandon()
        if posted.begins and answer is not None:
            self.revision = revision_in(answer)
        return answer

    def _begin(self, scope: trio.CancelScope) -> None:
        """Let a scope end it from now on, as it was ended or given a deadline before."""
        scope.deadline = self._scope.deadline
        if self._scope.cancel_called:
            scope.cancel(reason="the session ended before it began")
        self._scope = scope

    def end(self, reason: str) -> None:
        """End it: cancel what it serves. Never waits."""
        self._scope.cancel(reason=reason)

    def leave(self) -> None:
        """End it here, and let any process go on with it. Never waits."""
        self._is_left = True
        self.end("it is left to other processes")

    def lose(self) -> HttpRefused:
        """End it: another process has taken it. Return the refusal of what cannot be served here. Never waits."""
        self.end("another process has taken it")
        return busy(503, "another process has taken the session")

    def let_go(self, everything: bool, why: str) -> None:  # noqa: FBT001 - called with one thing or the other
        """End it, or drop what its client may never read. Never waits."""
        if everything:
            self.end(why)
            self._drop_all()
        else:
            self._standalone.drop_unread()

    def _drop_all(self) -> None:
        """Drop what is queued, and give back all loans: it has ended, or is ended for want of room."""
        asked = [asked.stream for asked in self._asking.values() if asked.stream is not None]
        for stream in (self._standalone, *self._streams.values(), *asked):
            stream.abandon()
        self.loans.give_back()

    def _keep_declared(self, posted: PostBody) -> None:
        """Borrow for what its client declares in the handshake.

        Raises:
            HttpRefused: There is no room for it.
        """
        params = posted.messages[0].params if isinstance(posted.messages[0], Request) else None
        declared = [(params or {}).get("capabilities"), (params or {}).get("clientInfo")]
        self.keep("handshake", cost_of(declared))

    def keep(self, what: Literal["handshake", "ids", "followed"], amount: int) -> None:
        """Borrow for what is kept of its client.

        Raises:
            HttpRefused: There is no room for it.
        """
        try:
            self.loans.keep(what, amount)
        except Overdrawn as error:
            raise too_many(error) from None

    def finish(self) -> None:
        """Let it end in good order: its client sends nothing more. Never waits."""
        self._channel.end_input()

    @property
    def has_ended(self) -> bool:
        """Whether it cannot be used any more."""
        return self._has_ended or self._scope.cancel_called

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and no other process goes on with it."""
        is_lost = self.record is not None and self.record.is_lost
        return self.has_ended and not (self._is_left or is_lost)

    def visit(self) -> None:
        """Keep the session while one of its client's requests is open, until `rest`."""
        self.use()
        if not self._visits:
            self.loans.hold()
        self._visits += 1
        self._scope.deadline = self._idle_until(is_open=True)

    def rest(self) -> None:
        """Note that a request is over; after the last one the session is idle."""
        self._visits -= 1
        if not self._visits:
            self._scope.deadline = self._idle_until(is_open=False)
            if self._has_ended:
                self._drop_all()
            else:
                self.loans.rest()

    def use(self) -> None:
        """Note that its client does something with it."""
        self._uses += 1
        if self._uses == ONLY_BEGUN + 1 and self._visits:
            self._scope.deadline = math.inf

    def _idle_until(self, *, is_open: bool) -> float:
        """Return when it ends if nothing happens. One that was only begun does not last long."""
        now, idle = trio.current_time(), self._settings.session_idle_timeout
        if self._uses <= ONLY_BEGUN and (self.is_of_2024 or not is_open):
            return now + min(self._settings.message_timeout, idle)
        return math.inf if is_open else now + idle

    # POSTs.

    async def post(
        self, call: HttpCall, slot: RequestSlot, posted: PostBody, headers: Sequence[HeaderField] = ()
    ) -> None:
        """Take what a POST brings, and answer it.

        Args:
            call: The POST.
            slot: What it counts as. Its requests count until they are answered, even if its client has left.
            posted: What is in it.
            headers: Further header fields of the answer, unless that is an error.

        Raises:
            HttpRefused: The session has ended.
        """
        self.visit()
        try:
            if self.record is not None:
                await self._note(self.record, posted)
            wanted = self._without_cancelled(posted)
            if wanted is not None and wanted.requests:
                await self._answer(call, slot, wanted, headers)
                return
            if wanted is None or await self._hand_over(wanted, call):
                await call.respond(202)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise session_ended() from None
        finally:
            self.rest()

    async def _note(self, record: SessionRecord, posted: PostBody) -> None:
        """Keep what lasts of what the client says, before it is served.

        Raises:
            HttpRefused: It cannot be kept now, or another process has taken the session.
        """
        if record.kept.note(posted, self._server.limits):
            self.keep("followed", record.kept.size)
            if not await record.keep():
                raise self.lose()

    def _without_cancelled(self, posted: PostBody) -> PostBody | None:
        """Return it without the requests that were cancelled before they arrived; `None` if nothing is left."""
        if posted.begins:
            return posted
        if self._early_cancellations is None:
            self._early_cancellations = EarlyCancellations()
        early, before = self._early_cancellations, self._early_cancellations.size
        now = trio.current_time() if early.has_any or posted.cancelled else 0.0
        cancelled = [request.id for request in posted.requests if early.take(request.id, now)]
        for id in posted.cancelled:
            early.add(id, now)
        if (size := early.size) != before:
            self.keep("ids", size)
        if not cancelled:
            return posted
        _log.debug("%s: cancelled before they arrived: %.200r", self._channel.description, cancelled)
        return posted.without(cancelled)

    async def _put(self, posted: PostBody, origin: Origin, call: HttpCall) -> bool:
        """Hand a POST over. Returns whether the peer has taken it; if not, its client has gone."""
        cancelled = posted.cancelled
        after = (lambda: self._cancelled(cancelled)) if cancelled else None
        leave = partial(self._left_of, posted, origin) if cancelled else nothing
        is_taken = await self._channel.put(posted.incoming(origin), call, after, leave)
        if cancelled and is_taken:
            # The handler is cancelled in this turn of the event loop; the answer can wait for the next one.
            await trio.lowlevel.checkpoint()
        return is_taken

    def _left_of(self, posted: PostBody, origin: Origin) -> Incoming | None:
        """Return what is left of a POST whose client has gone before it was taken: what cancels a request.

        Its client says that once, and reads no answer to it. So that no client keeps more here than it has asked,
        it is kept once for each request that is not answered yet.
        """
        self._left = self._left or set()
        ids = {id for id in posted.cancelled if id in self._asking and id not in self._left}
        self._left |= ids
        left = posted.only_cancelling(ids)
        return None if left is None else left.incoming(origin)

    def _cancelled(self, ids: Sequence[RequestId]) -> None:
        """Note that requests were cancelled: those that are not answered yet never will be."""
        if self._left:
            self._left.difference_update(ids)
        for id in ids:
            if (asked := self._asking.pop(id, None)) is not None:
                asked.ids.discard(id)
                if not asked.ids:
                    asked.end()
                    if asked.stream is not None:
                        self._forget_ended(asked.stream)

    def _answered(self, asked: _Asked) -> None:
        """Note that all requests of a POST are answered, or will not be."""
        for id in asked.ids:
            if self._asking.get(id) is asked:
                del self._asking[id]
        asked.end()
        if asked.stream is not None:
            self._forget_ended(asked.stream)

    async def _hand_over(
        self, posted: PostBody, call: HttpCall, answered: Callable[[], object] = nothing
    ) -> bool:
        """Hand over a POST that gets no answer to what is in it; see `_put`."""
        origin = HttpOrigin(call.principal, call.loans.key, call.headers, answered, call.client)
        try:
            return await self._put(posted, origin, call)
        finally:
            self._outlive(origin, call)

    def _outlive(self, origin: HttpOrigin | PostOrigin, call: HttpCall) -> None:
        """A POST is over: keep what is lent for its messages that are still served."""
        if origin.is_served and not self._has_ended:
            self._outlived = {} if self._outlived is None else self._outlived
            origin.outlive(call.loans, self._outlived)

    async def _answer(
        self, call: HttpCall, slot: RequestSlot, posted: PostBody, headers: Sequence[HeaderField]
    ) -> None:
        self._posts += 1
        stream = self._new_stream(self._posts)
        # Without `json_only` the client accepts streams.
        may_stream = not (self._settings.json_only or posted.begins)
        asked = self._note_asked(posted, stream)
        origin = PostOrigin(
            call.principal,
            stream,
            stream if may_stream else self._standalone,
            partial(self._answered, asked),
            call.headers,
            is_releasable=may_stream and self.can_prime,
            client=call.client,
            keep_answer=self.loans.check_room,
        )
        is_taken = has_begun = False
        try:
            is_taken = await self._put(posted, origin, call)
            if not is_taken:
                return
            if stream.is_ended and stream.last <= 1:  # as mostly: it was served at once
                await self._answer_whole(call, stream, posted, headers)
                return
            with connected(call):
                with trio.move_on_after(self._settings.keep_alive_interval if may_stream else math.inf):
                    await stream.wait_event()
                if may_stream and stream.sole_message() is None and not (stream.is_ended and not stream.last):
                    self._streams[stream.number] = stream
                    has_begun = True
                    if self.record is not None:
                        await stream.keep_asked(asked.ids)
                    await call.start_stream(headers)
                    if not await stream.deliver(call, 0, prime=self.can_prime):
                        if not asked.ids:
                            await trio.lowlevel.checkpoint()  # cancelled: here, too, the handler comes first
                        await call.finish()
                else:
                    await self._answer_whole(call, stream, posted, headers)
        finally:
            if not is_taken:
                self._answered(asked)
            elif not stream.is_ended:
                asked.slot = slot.outlive()
            if not has_begun or self._store is None:
                stream.abandon()
            self._forget_ended(stream)
            self._outlive(origin, call)

    def _note_asked(self, posted: PostBody, stream: EventStream | None = None) -> _Asked:
        """Note what a POST asks. An id in use stays with the POST that had it; the peer refuses the second."""
        asked = _Asked({request.id for request in posted.requests}, stream)
        for id in asked.ids:
            self._asking.setdefault(id, asked)
        return asked

    async def _answer_whole(
        self, call: HttpCall, stream: EventStream, posted: PostBody, headers: Sequence[HeaderField]
    ) -> None:
        """Answer with one JSON object."""
        while (message := stream.sole_message()) is None and not stream.is_ended:
            await stream.wait_changed()
        if message is not None:
            if posted.begins:
                self.revision = revision_in(message)
                self._keep_declared(posted)
            elif self.record is not None:
                self.record.kept.note_answer(posted, message)
            stream.abandon()  # the answer is counted once
            await call.respond(200, message, () if self.has_failed else headers)
        elif self.has_ended:  # not 404: that tells a client that nothing was done, and it would ask again
            raise HttpRefused(503, "the session ended before the request was done", code=SERVER_BUSY)
        else:
            # The request was cancelled, and so is not answered; its POST is, once the handler is cancelled.
            await trio.lowlevel.checkpoint()
            await call.respond(202)

    @property
    def has_failed(self) -> bool:
        """Whether its handshake was refused, so that it never began."""
        return self.revision is None

    @property
    def can_prime(self) -> bool:
        """Whether the client knows events without data; clients of older revisions fail on them."""
        return self.revision is not None and self.revision >= Revision.V2025_11_25

    def _forget_ended(self, stream: EventStream) -> None:
        """Leave a stream that has ended, and is stored, to the store."""
        if stream.number in self._streams and stream.is_ended and not stream.unstored():
            self._streams.pop(stream.number, None)

    # The GET.

    async def listen(self, call: HttpCall, first: Sequence[bytes] = ()) -> None:
        """Answer a GET: with the standalone stream, or with the rest of the stream that `Last-Event-ID` names.

        Args:
            call: The GET.
            first: What to send first.

        Raises:
            HttpRefused: `Last-Event-ID` names no event that is kept.
        """
        number, after = STANDALONE, self._standalone.position
        last_event_id = call.headers.get(LAST_EVENT_ID)
        if last_event_id is not None and self._store is not None:
            number, after = read_event_id(last_event_id, self._posts)
        stream = self._standalone if number == STANDALONE else self._streams.get(number)
        self.visit()
        try:
            with connected(call):
                if stream is None:
                    stream = self._new_stream(number)
                    is_known = await stream.recall(after, is_orphan=number <= self._first)
                else:
                    is_known = after <= stream.last
                if not is_known:
                    raise HttpRefused(
                        400, f"{LAST_EVENT_ID} {last_event_id!r} is not the id of an event that is kept"
                    )
                call.on_standing()  # from here on it counts as a connection, and not as a request
                await call.start_stream()
                try:
                    is_complete = await stream.deliver(call, after, prime=False, first=first)
                finally:
                    self._forget_ended(stream)
                if not is_complete:
                    await call.finish()
        finally:
            self.rest()

    # Messages that no connection reads.

    @property
    def dropped(self) -> int:
        """How many messages were dropped because its client had opened no stream for them."""
        return self._standalone.dropped

    def _dropped(self, number: int) -> None:
        if self._standalone.dropped == 1:
            _log.info(
                "%s: its client opens no stream, and more than %d bytes (max_outbox_bytes) are queued for it; "
                "the oldest messages are dropped",
                self._channel.description,
                self._server.limits.max_outbox_bytes,
            )
        if self._questions is not None:
            ids = self._questions.take(number)
            self._cannot_ask(ids, "too much is queued for a stream that it does not open")

    def _asked_on_standalone(self, number: int, ids: tuple[RequestId, ...]) -> None:
        if self._questions is None:
            timeout = STREAM_TIMEOUT if self.id else 0.0  # a session for one POST has no GET
            self._questions = UnreadQuestions(self._standalone, timeout, self._cannot_ask)
        self._questions.add(number, ids)
        if self._background is not None:
            self._background.start_soon(self._questions.wait_read, number, name="a request waits for a stream")

    def _cannot_ask(self, ids: Sequence[RequestId], why: str) -> None:
        """Let requests of handlers fail that cannot reach the client."""
        if ids:
            revision = self.revision or Revision.V2025_03_26
            self._channel.fail(ids, CapabilityMissing(f"the client cannot be asked: {why}", None, revision))

    @property
    def is_of_2024(self) -> bool:
        """Whether it is a session of HTTP+SSE."""
        return self._event_type is not None

    async def take_as_2024(self, call: HttpCall, slot: RequestSlot, posted: PostBody) -> None:
        """Take a message that was posted to a session of HTTP+SSE; it is answered on the session's stream."""
        self.use()
        wanted = self._without_cancelled(posted)
        try:
            if wanted is not None:
                if wanted.begins:
                    self._keep_declared(wanted)
                if not await self._put_as_2024(call, slot, wanted):
                    return
            await call.respond(202, b"Accepted", content_type="text/plain")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise session_ended() from None

    async def _put_as_2024(self, call: HttpCall, slot: RequestSlot, posted: PostBody) -> bool:
        """Hand over a message; see `_put`. Its request keeps its slot until it is answered or cancelled."""
        if posted.is_batch:  # it may be refused as a whole, which is the answer to none of its requests
            return await self._hand_over(posted, call)
        asked = self._note_asked(posted)
        if asked.ids:
            asked.slot = slot.outlive()
        answered = partial(self._answered, asked)
        is_taken = False
        try:
            is_taken = await self._hand_over(posted, call, answered)
        finally:
            if not is_taken:
                answered()
        return is_taken

    def _store_soon(self, stream: EventStream) -> None:
        if self._store is not None and self._background is not None:
            self._event_writer(self._store).soon(stream, self._background)

    def _event_writer(self, store: EventStore) -> EventWriter:
        if self._writer is None:
            self._writer = EventWriter(store, self.id, self._forget_ended)
        return self._writer
