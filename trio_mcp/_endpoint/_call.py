"""One HTTP request as a host carries it, what it costs, and how many there may be.

`RequestLoans` is the memory that a request takes, `RequestLimits` counts requests by client, and `HttpCall` is
the request itself, which hosts implement. No message is looked at here.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, TypeAlias, final

import attrs
import trio

from .._codec._json import cost_of_json
from .._core._account import Loan, Overdrawn, Pool, Tally, client_at
from .._core._http1 import BODILESS, HeaderField, Headers
from .._core._http_rules import EVENT_STREAM, JSON, CheckedAnswer, HttpRefused, HttpServerSettings, busy
from .._core._rates import RateTable, read_rate
from .._limits import KIB, Limits
from .._logs import Log
from .._oauth._principal import ClientCertificate

_log: Final = Log("trio_mcp.http")

SMALL: Final = 16 * KIB
"""What a body, a message or an answer may weigh without a loan, in bytes. All of them together weigh little, and
borrowing would cost each request more than it is worth."""

STEP: Final = 64 * KIB
"""Loans that grow do so in steps of so many bytes."""


RETRY_AFTER: Final = 10
"""After how many seconds a client that was refused for want of room should ask again."""


def nothing() -> None:
    """Do nothing."""


@final
@attrs.define(eq=False, weakref_slot=False)
class RequestLoans:
    """The loans of one request, from the second piece of its body to the last piece of its answer.

        the body, while it arrives ──> the message, while it is served ──> the answer, until it is taken

    Each is a loan of the server's account, in the name of the client. When memory is short, what is new is
    refused; who sends or reads slowly is cut by a timeout.

    Args:
        pool: Lends the bytes; `None` if they are not counted.
        key: In whose name.

    Attributes:
        key: In whose name.
        served: The loan of the message, while the POST has it; `None` if the message is small. Who goes on to
            serve the message when the POST is over takes it.
    """

    _pool: Pool | None = None
    key: str = ""
    served: Loan | None = attrs.field(default=None, init=False)
    _body: Loan | None = attrs.field(default=None, init=False)
    _answer: Loan | None = attrs.field(default=None, init=False)

    def grow_body(self, size: int) -> int:
        """Borrow for the part of the body that was received. Returns up to which size that lasts.

        Args:
            size: How large that part is, in bytes; more than `SMALL`.

        Raises:
            HttpRefused: There is no room for it.
        """
        amount = -(-size // STEP) * STEP
        self._body = self._grown(self._body, "bodies", amount)
        return amount

    def serve(self, body: bytes, max_decoded_bytes: int) -> None:
        """Borrow for the whole body and for what it takes decoded, in place of the loan for the body.

        Args:
            body: The body, which is about to be decoded.
            max_decoded_bytes: What it may take decoded; see `Limits.max_decoded_bytes`.

        Raises:
            HttpRefused: There is no room for it, or never will be.
        """
        if self._body is not None:
            self.give_back_body()
        cost = cost_of_json(body)
        amount = len(body) + cost
        if amount <= SMALL or self._pool is None:
            return
        if cost > max_decoded_bytes:
            raise _too_costly(f"{cost} bytes of memory decoded; 8 times max_message_bytes is {max_decoded_bytes}")
        if amount > self._pool.most_of_one:
            limit = f"{self._pool.own_setting} is {self._pool.most_of_one}"
            raise _too_costly(f"{amount} bytes of memory while it is served; {limit}")
        try:
            self.served = self._pool.lend(self.key, "requests", amount)
        except Overdrawn as problem:
            raise _no_room(
                problem, f"there is no room for a message that takes {amount} bytes of memory"
            ) from None

    def keep_answer(self, size: int) -> None:
        """Borrow for a whole answer that waits to be sent, and for the message, which is still in memory.

        Args:
            size: How large the answer is, in bytes.

        Raises:
            HttpRefused: There is no room for it.
        """
        served, self.served = self.served, None
        if served is not None:
            size += served.amount
            served.give_back()
        self.grow_answer(size)

    def grow_answer(self, size: int) -> int:
        """Borrow for what waits to be sent of a stream, in place of the loan before; see `keep_answer`.

        Returns up to which size that lasts.
        """
        amount = 0 if size <= SMALL else -(-size // STEP) * STEP
        if self._answer is not None or amount:
            self._answer = self._grown(self._answer, "answers", amount)
        return max(SMALL, amount)

    def _grown(self, loan: Loan | None, kind: Literal["bodies", "answers"], amount: int) -> Loan | None:
        """Borrow, or change a loan; return the loan."""
        if self._pool is None:
            return None
        try:
            if loan is None:
                return self._pool.lend(self.key, kind, amount)
            loan.change(amount)
        except Overdrawn as problem:
            what = "the body" if kind == "bodies" else "the answer"
            raise _no_room(problem, f"there is no room for {what}") from None
        return loan

    def give_back(self) -> None:
        """Give back all loans."""
        if self._body is not None:
            self.give_back_body()
        if self.served is not None:
            self.give_back_served()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.give_back()

    def give_back_served(self) -> None:
        """Give back what was lent for the message while it is served."""
        loan, self.served = self.served, None
        if loan is not None:
            loan.give_back()

    def give_back_body(self) -> None:
        """Give back what was lent for the body as it was received."""
        loan, self._body = self._body, None
        if loan is not None:
            loan.give_back()


def _too_costly(takes: str) -> HttpRefused:
    return HttpRefused(413, f"a message that takes {takes}")


def _no_room(problem: Overdrawn, what: str) -> HttpRefused:
    return busy(429 if problem.is_own else 503, f"{what}: {problem}")


@final
class RequestSlot:
    """What an HTTP request counts as at the moment: read, served, or answered. It is to be left in the end.

    It is callable so that it can be `HttpCall.on_answer`.
    """

    __slots__ = ("_client", "_limits", "_tally")

    def __init__(self, limits: RequestLimits, client: str, tally: Tally) -> None:
        self._limits = limits
        self._client = client
        self._tally: Tally | None = tally
        by_client = tally.by_client
        by_client[client] = by_client.get(client, 0) + 1
        tally.total += 1

    def belong_to(self, client: str) -> None:
        """Count it for a principal instead of the address that it came from.

        Raises:
            HttpRefused: The principal has too many already.
        """
        if client != self._client and self._tally is not None:
            self._limits.pass_on(self._client, client)
            self._tally.remove(self._client)
            self._client = client
            self._tally.add(client)

    def serve(self) -> None:
        """Count it as served: it brings a request, which is about to be.

        Raises:
            HttpRefused: There are too many already.
        """
        limits, served = self._limits, self._limits.served
        if served.total >= limits.most_of_one:  # otherwise no client has so many
            limits.check_room(served, self._client, "requests are being served")
        self._move(served)

    def __call__(self) -> None:
        """Count it as answered: only its answer is left to be sent.

        Answers refuse other requests only beyond as many as may be served: a client that has read an answer may
        send the next request at once, before we know that the answer was read.
        """
        if self._tally is not None and self._tally is not self._limits.answered:
            self._move(self._limits.answered)

    def _move(self, tally: Tally | None) -> None:
        # A client moves from one count to another four times in each request, so they are changed here at once.
        client, before = self._client, self._tally
        if before is not None:
            left = before.by_client[client] - 1
            before.total -= 1
            if left:
                before.by_client[client] = left
            else:
                del before.by_client[client]
        if tally is not None:
            tally.by_client[client] = tally.by_client.get(client, 0) + 1
            tally.total += 1
        self._tally = tally

    def outlive(self) -> RequestSlot:
        """Leave it, and return another that counts in its stead until that is left."""
        other = RequestSlot(
            self._limits, self._client, self._limits.served if self._tally is None else self._tally
        )
        self.leave()
        return other

    def leave(self) -> None:
        """Count it no more. Again does nothing."""
        if self._tally is not None:
            self._move(None)


@final
class RequestLimits:
    """Counts the requests of each client, and refuses what is too much.

    Each request counts from its arrival, for the address that it comes from; once its principal is known, for the
    principal. So authenticating costs the address alone.

    Requests that are being served do not refuse what may end them: in the legacy era cancellations, and the
    answers that handlers wait for, are POSTs as well. So each POST is read before it may be refused as one too
    many.

    Args:
        settings: How many there may be.
        limits: How many may be long-lived.

    Attributes:
        read: POSTs that are being read, or have no request and are being answered.
        served: Requests that are being served, without those that are long-lived.
        answered: Answers that connections have not taken yet.
        subscriptions: Those that the long-lived requests have.
        subscription_bytes: What these weigh.
        most_of_one: How many of a kind one client may have, at most: nothing is refused while all have fewer.
    """

    def __init__(self, settings: HttpServerSettings, limits: Limits) -> None:
        self._settings = settings
        self._limits = limits
        self.most_of_one: Final = min(settings.max_requests_per_principal, settings.max_requests)
        self._rates = None if settings.rate is None else read_rate("rate", settings.rate).table()
        self.read: Tally = Tally()
        self.served: Tally = Tally()
        self.answered: Tally = Tally()
        self.subscriptions: Tally = Tally()
        self.subscription_bytes: Tally = Tally()

    def arrived(self, client: str) -> RequestSlot:
        """Count one HTTP request until its slot is left.

        That is while its client is authenticated, and while it is read; a POST without a request, and what gets
        no stream, also while it is answered.

        Raises:
            HttpRefused: There are too many already.
        """
        if self._rates is not None:
            self._take_token(self._rates, client)
        if self.answered.total > self._settings.max_requests_per_principal:
            self._check_answered(client)
        if self.read.total >= self.most_of_one:  # otherwise no client has so many
            self.check_room(self.read, client, "messages are being read")
        return RequestSlot(self, client, self.read)

    def _take_token(self, rates: RateTable, client: str) -> None:
        wait = rates.take(client, trio.current_time())
        if wait:
            rate = self._settings.rate
            raise busy(429, f"this endpoint may be used {rate} by each client (HttpServerSettings.rate)", wait)

    def pass_on(self, address: str, principal: str) -> None:
        """Check that a request which was counted for an address may count for its principal.

        Raises:
            HttpRefused: The principal has too many already.
        """
        if self._rates is not None:
            self._rates.give_back(address)
            self._take_token(self._rates, principal)
        self._check_own(self.read, principal, "messages are being read")

    def _check_answered(self, client: str) -> None:
        settings, answered = self._settings, self.answered
        if answered.of(client) > settings.max_requests_per_principal:
            raise busy(429, f"you have not read {answered.of(client)} answers (max_requests_per_principal)", 1)
        if answered.total > settings.max_requests and answered.of(client):  # a client without any is let in
            raise busy(503, f"{answered.total} answers are not read (max_requests)", 1)

    def check_room(self, tally: Tally, client: str, what: str) -> None:
        """Check that there may be one more of a kind.

        Raises:
            HttpRefused: There are too many already.
        """
        self._check_own(tally, client, what)
        if tally.total >= self._settings.max_requests:
            raise busy(503, f"{tally.total} {what} (max_requests)", 1)

    def _check_own(self, tally: Tally, client: str, what: str) -> None:
        if tally.of(client) >= self._settings.max_requests_per_principal:
            raise busy(429, f"{tally.of(client)} of your {what} (max_requests_per_principal)", 1)

    @contextmanager
    def long_lived_request(self, client: str, subscriptions: int, size: int) -> Generator[None]:
        """Count a long-lived request while the body runs, and what it weighs.

        Raises:
            HttpRefused: There are too many already, or with it they weigh too much.
        """
        most, most_bytes = self._limits.max_subscriptions, self._limits.max_subscription_bytes
        if self.subscriptions.of(client) + subscriptions > most:
            raise busy(429, f"with these {subscriptions} you would have more than {most} (max_subscriptions)", 1)
        if self.subscription_bytes.of(client) + size > most_bytes:
            problem = f"your subscriptions would take more than {most_bytes} bytes (half of max_message_bytes)"
            raise busy(429, problem, RETRY_AFTER)
        self.subscriptions.add(client, subscriptions)
        self.subscription_bytes.add(client, size)
        try:
            yield
        finally:
            self.subscriptions.remove(client, subscriptions)
            self.subscription_bytes.remove(client, size)


STREAM_HEADERS: Final = (
    (b"content-type", EVENT_STREAM.encode("ascii")),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""The head of a stream. Proxies must neither cache nor buffer it (2026-07-28, "Receiving Messages")."""


_NOT_LENT: Final = RequestLoans()
"""The loans of a request whose client is not known yet: not counted, so all such requests share this."""


@attrs.define(eq=False, kw_only=True, repr=False)  # its fields hold credentials
class HttpCall(CheckedAnswer, abc.ABC):
    """One HTTP request, and how it is answered. Hosts implement it; one object is one request.

    Attributes:
        is_websocket: Whether it asks to become a WebSocket.
        method: In capitals.
        path: Its path, decoded, without what the host is mounted under.
        query: What follows the question mark, as received.
        headers: Its header fields.
        client: The address of its client; `None` where there are no addresses. Hosts set that of the connection,
            and the endpoint replaces it by what a trusted proxy reports.
        scheme: ``http`` or ``https``; set and replaced likewise.
        root: What the host is mounted under, without a slash at the end.
        target: What its request line asks for, as received; empty where the host does not know it.
        principal: Who sent it, once that is known; `None` if it is anonymous.
        answer_headers: Header fields that are added to every answer.
        is_started: Whether an answer has begun.
        is_gone: Whether the client is gone, or wants no answer any more.
        loans: The memory that it takes, once its client is known.
        valid_until: When what shows who sent it expires, on Trio's clock: then a stream that it has opened ends.
        proof: What its proof says, if it came with one (RFC 9449).
        on_answer: Called, at least once, before the last part of the answer is sent: the request is served.
        on_standing: Called when it turns out to be long-lived, and no longer counts as a request being served.
        on_gone: Called when the client goes. Must not wait.
        kept_body: Its body, if it was read to be forwarded and nobody took it.
        sends_now: Whether `send_nowait` and `send_rest` may be called, and `send_head` never waits.
        left: How many bytes of the body are still to be sent; `None` if its length was not declared.
        is_misdeclared: Whether the body is not as long as was declared. Then the connection ends with it.
    """

    is_websocket: ClassVar[bool] = False
    headers: Headers
    query: str = ""
    client: str | None = None
    scheme: str = "http"
    root: str = ""
    principal: str | None = attrs.field(default=None, init=False)
    loans: RequestLoans = attrs.field(default=_NOT_LENT, init=False)
    valid_until: float = attrs.field(default=math.inf, init=False)
    proof: Mapping[str, Any] | None = attrs.field(default=None, init=False)
    on_answer: Callable[[], object] = attrs.field(default=nothing, init=False)
    on_standing: Callable[[], object] = attrs.field(default=nothing, init=False)
    on_gone: Callable[[], object] = attrs.field(default=nothing, init=False)
    kept_body: bytes | None = attrs.field(default=None, init=False)
    sends_now: bool = attrs.field(default=False, init=False)

    async def take_body(self) -> bytes:
        """Return the body: what is kept of it, once, or what `read_body` returns."""
        if self.kept_body is None:
            return await self.read_body()
        body, self.kept_body = self.kept_body, None
        return body

    @abc.abstractmethod
    async def read_body(self) -> bytes:
        """Wait for the body, within the limits of the host's settings.

        Raises:
            HttpRefused: It is too large (413), or arrived too slowly (408), or the client has gone (400).
        """

    @abc.abstractmethod
    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        """Begin the answer. The host may delay the head until the next part, which follows at once."""

    @abc.abstractmethod
    async def send(self, data: bytes) -> None:
        """Send a part of the body, and wait until the connection takes it. Does nothing once the client is gone.

        Cancelling this may leave a part half sent, so only a task that ends the answer may be cancelled here.
        """

    def send_nowait(self, data: bytes) -> bool:
        """Send a part of the body, as far as the connection takes it now. Never waits.

        Returns whether it has taken all of it. If not, nothing else may be sent before `send_rest`.
        """
        raise NotImplementedError

    async def send_rest(self) -> None:
        """Wait until the connection has taken the rest of what was sent; like `send` if that is cancelled."""
        raise NotImplementedError

    @abc.abstractmethod
    async def finish(self, data: bytes = b"") -> None:
        """Send the last part of the body, if there is one, and end the answer."""

    @abc.abstractmethod
    def cut(self) -> None:
        """Send nothing more of the answer, and close its connection at once. Must not wait."""

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        """Header fields of an answer after which the connection ends; empty where the host cannot end it."""
        return ()

    @property
    def certificate(self) -> ClientCertificate | None:
        """The certificate of its client; `None` if the connection has none, or the host does not know it."""
        return None

    @property
    def key(self) -> str:
        """Whose limits apply; the principal, or the address if there is none (IPv6 by network)."""
        client = self.client
        if self.principal is not None:
            return f"principal {self.principal}"
        return client if client is not None and ":" not in client else client_at(client)

    @final
    def gone(self) -> None:
        """Note that the client is gone. The host calls this, and may call it again."""
        if not self.is_gone:
            self.is_gone = True
            self.on_gone()

    async def send_whole(self, status: int, headers: Sequence[HeaderField], body: bytes) -> None:
        """Send a whole answer. Hosts that can send it in one piece override this."""
        await self.send_head(status, headers)
        await self.finish(b"" if self.method == "HEAD" else body)

    def note_misdeclared(self, lacks: int) -> None:
        """Note, and log, that the body is not as long as was declared; hosts call `within`, which does."""
        super().note_misdeclared(lacks)
        if lacks:
            _log.error(
                "the answer to %s %.100s lacks %d bytes of its Content-Length", self.method, self.path, lacks
            )
        else:
            _log.error("the answer to %s %.100s goes on behind its Content-Length", self.method, self.path)

    @final
    async def start(self, status: int, headers: Sequence[HeaderField]) -> None:
        """Begin the answer.

        If a field declares the length of the body, no more of it is sent, and less ends the connection.

        Raises:
            LocalProtocolError: A header field or the status cannot be sent. Nothing was sent.
        """
        fields = self.checked(status, headers)
        self.note_started()
        await self.send_head(status, fields)

    @final
    async def start_stream(self, headers: Sequence[HeaderField] = ()) -> None:
        """Begin an answer that is a stream of events."""
        fields = self.checked(200, headers) if headers or self.answer_headers else ()
        self.note_started()
        await self.send_head(200, [*STREAM_HEADERS, *fields])

    @final
    async def respond(
        self, status: int, body: bytes = b"", headers: Sequence[HeaderField] = (), *, content_type: str = JSON
    ) -> None:
        """Send a whole answer.

        Raises:
            HttpRefused: There is no room for it. Nothing was sent.
            LocalProtocolError: A header field or the status cannot be sent. Nothing was sent.
        """
        fields = self.checked(status, headers)
        is_declared = bool(fields) and any(name.lower() == b"content-length" for name, _ in fields)
        self.on_answer()
        body = b"" if status in BODILESS else body
        if len(body) > SMALL:
            self.loans.keep_answer(len(body))
        if body:
            fields.append(self.content_type_field(content_type))
        if status not in BODILESS and not is_declared:
            fields.append((b"content-length", b"%d" % len(body)))
        self.note_started()
        await self.send_whole(status, fields, body)


Authenticate: TypeAlias = Callable[[HttpCall], Awaitable[str | None] | str | None]
"""Authenticates a request: called with each one before its body is read. A plain function is called in a thread.

Returns the principal, a non-empty string, or `None` for an anonymous client, which is let in only with
`HttpServerSettings.allow_anonymous`; or raises `HttpRefused` with the status and the header fields of the
refusal. Anything else that it raises or returns is its own failure: the request is refused (500), and the reason
is logged. It is cancelled after half a minute, and when the client goes."""


@final
@attrs.define(eq=False, weakref_slot=False)
class connected:  # noqa: N801 - a context without a generator: each request of a session has one
    """A context that is cancelled when the client goes."""

    _call: HttpCall
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> trio.CancelScope:
        self._scope.__enter__()
        self._call.on_gone = self._cancel
        if self._call.is_gone:
            self._cancel()
        return self._scope

    def _cancel(self) -> None:
        self._scope.cancel(reason="the client has gone")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._call.on_gone = nothing
        return self._scope.__exit__(kind, error, trace)
