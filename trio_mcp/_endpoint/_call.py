"""One HTTP request as a host carries it, what it costs, how many there may be, and when its turn is.

`RequestLoans` is the memory that a request takes, `RequestLimits` counts requests by client, `HttpCall` is the
request itself, which hosts implement, and at a `Turnstile` the requests of busy clients wait. No message is
looked at here.
"""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from types import TracebackType, coroutine
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, final

import attrs
import trio

from .._codec._json import cost_of_json
from .._core._account import SMALL_LONG, Loan, Overdrawn, Pool, RateTable, Turns, holder_of
from .._core._http1 import HeaderField, Headers
from .._core._http_rules import EVENT_STREAM, JSON, HttpRefused, HttpServerSettings, busy
from .._limits import KIB, Limits
from .._oauth._certificates import ClientCertificate
from .._trio import LightParkingLot, call_in_run

SMALL: Final = 16 * KIB
"""What a body, a message or an answer may weigh without a loan, in bytes. All of them together weigh little, and
borrowing would cost each request more than it is worth."""

STEP: Final = 64 * KIB
"""Loans that grow do so in steps of so many bytes."""


@final
@attrs.define(eq=False, weakref_slot=False)
class MessageLoan:
    """The loan of a message, given back when nothing refers to this object any more.

    Mostly only the POST does. In the legacy era a message is served by its session, which goes on when the client
    leaves the POST, and may let the message wait; its origin refers to this (`HttpOrigin`).
    """

    loan: Final[Loan]
    _token: trio.lowlevel.TrioToken = attrs.field(factory=trio.lowlevel.current_trio_token, init=False)

    def __del__(self) -> None:
        call_in_run(self._token, self.loan.give_back)


@final
@attrs.define(eq=False, weakref_slot=False)
class RequestLoans:
    """The loans of one request, from the second piece of its body to the last piece of its answer.

        the body, while it arrives ──> the message, while it is served ──> the answer, until it is taken

    Each is a loan of the server's account, in the name of the client. What waits for the client, a body or an
    answer, gives way when memory is short; a message that is being served does not.

    Args:
        pool: Lends the bytes; `None` if they are not counted.
        key: In whose name.

    Attributes:
        key: In whose name.
        served: The loan of the message, while the POST has it; `None` if the message is small.
    """

    _pool: Pool | None = None
    key: str = ""
    served: MessageLoan | None = attrs.field(default=None, init=False)
    _body: Loan | None = attrs.field(default=None, init=False)
    _answer: Loan | None = attrs.field(default=None, init=False)

    def grow_body(self, size: int, give_way: Callable[[], object]) -> int:
        """Borrow for the part of the body that was received. Returns up to which size that lasts.

        Args:
            size: How large that part is, in bytes; more than `SMALL`.
            give_way: Called if the body has to be dropped before it is complete. Must not wait.

        Raises:
            HttpRefused: There is no room for it.
        """
        amount = -(-size // STEP) * STEP
        self._body = self._grown(self._body, "bodies", amount, give_way)
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
            self._give_back_body()
        cost = cost_of_json(body)
        amount = len(body) + cost
        if amount <= SMALL or self._pool is None:
            return
        if cost > max_decoded_bytes:
            raise _too_costly(f"{cost} bytes of memory decoded; max_decoded_bytes is {max_decoded_bytes}")
        if amount > self._pool.most_of_one:
            limit = f"{self._pool.own_setting} is {self._pool.most_of_one}"
            raise _too_costly(f"{amount} bytes of memory while it is served; {limit}")
        try:
            self.served = MessageLoan(self._pool.lend(self.key, "requests", amount))
        except Overdrawn as problem:
            raise _no_room(
                problem, f"there is no room for a message that takes {amount} bytes of memory"
            ) from None

    def keep_answer(self, size: int, cut: Callable[[], object]) -> None:
        """Borrow for a whole answer that waits to be sent, and for the message, which is still in memory.

        Args:
            size: How large the answer is, in bytes.
            cut: Called if the answer has to be dropped before the connection has taken it. Must not wait.

        Raises:
            HttpRefused: There is no room for it.
        """
        served, self.served = self.served, None
        if served is not None and not served.loan.is_given_back:
            size += served.loan.amount
            served.loan.give_back()
        self.grow_answer(size, cut)

    def grow_answer(self, size: int, cut: Callable[[], object]) -> int:
        """Borrow for what waits to be sent of a stream, in place of the loan before; see `keep_answer`.

        Returns up to which size that lasts.
        """
        amount = 0 if size <= SMALL else -(-size // STEP) * STEP
        if self._answer is not None or amount:
            self._answer = self._grown(self._answer, "answers", amount, cut)
        return max(SMALL, amount)

    def _grown(
        self, loan: Loan | None, kind: Literal["bodies", "answers"], amount: int, give_way: Callable[[], object]
    ) -> Loan | None:
        """Borrow, or change a loan; return the loan."""
        if self._pool is None:
            return None
        try:
            if loan is None:
                return self._pool.lend(self.key, kind, amount, give_way, own_gives_way=True)
            loan.change(amount, own_gives_way=True)
        except Overdrawn as problem:
            what = "the body" if kind == "bodies" else "the answer"
            raise _no_room(problem, f"there is no room for {what}") from None
        return loan

    def give_back(self) -> None:
        """Give back all loans, but for that of a message which a session still serves."""
        if self._body is not None:
            self._give_back_body()
        self.served = None
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.give_back()

    def _give_back_body(self) -> None:
        loan, self._body = self._body, None
        if loan is not None:
            loan.give_back()


def _too_costly(takes: str) -> HttpRefused:
    return HttpRefused(413, f"a message that takes {takes}")


def _no_room(problem: Overdrawn, what: str) -> HttpRefused:
    return busy(429 if problem.is_own else 503, f"{what}: {problem}")


def gave_way(what: str) -> HttpRefused:
    """Return the refusal of what was dropped because others needed the room."""
    return busy(503, f"{what} had to make room for others (max_kept_bytes, max_kept_bytes_per_principal)")


@final
class _Tally:
    """How many there are of something: of each client, and in total."""

    __slots__ = ("_of", "total")

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.total: int = 0

    def of(self, client: str) -> int:
        """Return how many a client has."""
        return self._of.get(client, 0)

    def add(self, client: str, count: int = 1) -> None:
        """Count more."""
        self._of[client] = self._of.get(client, 0) + count
        self.total += count

    def remove(self, client: str, count: int = 1) -> None:
        """Count less."""
        left = self._of[client] - count
        self.total -= count
        if left:
            self._of[client] = left
        else:
            del self._of[client]


@final
class RequestSlot:
    """What an HTTP request counts as at the moment: read, served, or answered. Leaving the context ends it.

    It is callable so that it can be `HttpCall.on_answer`.
    """

    __slots__ = ("_client", "_limits", "_tally")

    def __init__(self, limits: RequestLimits, client: str, tally: _Tally) -> None:
        self._limits = limits
        self._client = client
        self._tally: _Tally | None = tally
        tally.add(client)

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
        self._move(self._limits.room_to_serve(self._client))

    def __call__(self) -> None:
        """Count it as answered: only its answer is left to be sent.

        Answers refuse other requests only beyond as many as may be served: a client that has read an answer may
        send the next request at once, before we know that the answer was read.
        """
        if self._tally is not None and self._tally is not self._limits.answered:
            self._move(self._limits.answered)

    def _move(self, tally: _Tally) -> None:
        if self._tally is not None:
            self._tally.remove(self._client)
        tally.add(self._client)
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
        tally, self._tally = self._tally, None
        if tally is not None:
            tally.remove(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


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
    """

    def __init__(self, settings: HttpServerSettings, limits: Limits) -> None:
        self._settings = settings
        self._limits = limits
        self._is_rated = settings.max_request_rate < math.inf
        self._rates = RateTable(settings.max_request_rate, settings.request_burst)
        self.read: _Tally = _Tally()
        self.served: _Tally = _Tally()
        self.answered: _Tally = _Tally()
        self.subscriptions: _Tally = _Tally()

    def arrived(self, client: str) -> RequestSlot:
        """Count one HTTP request until its slot is left.

        That is while its client is authenticated, and while it is read; a POST without a request, and what gets
        no stream, also while it is answered.

        Raises:
            HttpRefused: There are too many already.
        """
        if self._is_rated:
            self._take_token(client)
        if self.answered.total > self._settings.max_requests_per_principal:
            self._check_answered(client)
        return RequestSlot(self, client, self._room_in(self.read, client, "messages are being read"))

    def _take_token(self, client: str) -> None:
        wait = self._rates.take(client, trio.current_time())
        if wait:
            rate = self._settings.max_request_rate
            raise busy(429, f"more than {rate:g} requests per second (max_request_rate)", wait)

    def pass_on(self, address: str, principal: str) -> None:
        """Check that a request which was counted for an address may count for its principal.

        Raises:
            HttpRefused: The principal has too many already.
        """
        if self._is_rated:
            self._rates.give_back(address)
            self._take_token(principal)
        self._check_own(self.read, principal, "messages are being read")

    def _check_answered(self, client: str) -> None:
        settings, answered = self._settings, self.answered
        if answered.of(client) > settings.max_requests_per_principal:
            raise busy(429, f"you have not read {answered.of(client)} answers (max_requests_per_principal)", 1)
        if answered.total > settings.max_requests and answered.of(client):  # a client without any is let in
            raise busy(503, f"{answered.total} answers are not read (max_requests)", 1)

    def room_to_serve(self, client: str) -> _Tally:
        """Return where one more served request may be counted.

        Raises:
            HttpRefused: There are too many already.
        """
        return self._room_in(self.served, client, "requests are being served")

    def _room_in(self, tally: _Tally, client: str, what: str) -> _Tally:
        if tally.total >= self._settings.max_requests_per_principal:  # otherwise no client has so many
            self._check_own(tally, client, what)
        if tally.total >= self._settings.max_requests:
            raise busy(503, f"{tally.total} {what} (max_requests)", 1)
        return tally

    def _check_own(self, tally: _Tally, client: str, what: str) -> None:
        if tally.of(client) >= self._settings.max_requests_per_principal:
            raise busy(429, f"{tally.of(client)} of your {what} (max_requests_per_principal)", 1)

    @contextmanager
    def long_lived_request(self, client: str, subscriptions: int) -> Generator[None]:
        """Count a long-lived request while the body runs.

        Raises:
            HttpRefused: There are too many already.
        """
        most = self._limits.max_subscriptions
        if self.subscriptions.of(client) + subscriptions > most:
            raise busy(429, f"with these {subscriptions} you would have more than {most} (max_subscriptions)", 1)
        self.subscriptions.add(client, subscriptions)
        try:
            yield
        finally:
            self.subscriptions.remove(client, subscriptions)


STREAM_HEADERS: Final = (
    (b"content-type", EVENT_STREAM.encode("ascii")),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""The head of a stream. Proxies must neither cache nor buffer it (2026-07-28, "Receiving Messages")."""


_NOT_LENT: Final = RequestLoans()
"""The loans of a request whose client is not known yet: not counted, so all such requests share this."""


def nothing() -> None:
    """Do nothing."""


@attrs.define(eq=False, kw_only=True, repr=False)  # its fields hold credentials
class HttpCall(abc.ABC):
    """One HTTP request, and how it is answered. Hosts implement it; one object is one request.

    Attributes:
        method: In capitals.
        path: Its path, decoded, without what the host is mounted under.
        query: What follows the question mark, as received.
        headers: Its header fields.
        client: The address of its client; `None` where there are no addresses. Hosts set that of the connection,
            and the endpoint replaces it by what a trusted proxy reports.
        scheme: ``http`` or ``https``; set and replaced likewise.
        root: What the host is mounted under, without a slash at the end.
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
    """

    method: Final[str]
    path: Final[str]
    headers: Final[Headers]
    query: str = ""
    client: str | None = None
    scheme: str = "http"
    root: str = ""
    principal: str | None = attrs.field(default=None, init=False)
    answer_headers: list[HeaderField] = attrs.field(factory=list[HeaderField], init=False)
    loans: RequestLoans = attrs.field(default=_NOT_LENT, init=False)
    valid_until: float = attrs.field(default=math.inf, init=False)
    proof: Mapping[str, Any] | None = attrs.field(default=None, init=False)
    is_started: bool = attrs.field(default=False, init=False)
    is_gone: bool = attrs.field(default=False, init=False)
    on_answer: Callable[[], object] = attrs.field(default=nothing, init=False)
    on_standing: Callable[[], object] = attrs.field(default=nothing, init=False)
    on_gone: Callable[[], object] = attrs.field(default=nothing, init=False)

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
        """Whose limits apply: the principal's, or the address's if there is none (IPv6 by network)."""
        return holder_of(self.client) if self.principal is None else f"principal {self.principal}"

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

    @final
    async def start(self, status: int, headers: Sequence[HeaderField]) -> None:
        """Begin the answer."""
        self.is_started = True
        await self.send_head(status, [*headers, *self.answer_headers])

    @final
    async def start_stream(self, headers: Sequence[HeaderField] = ()) -> None:
        """Begin an answer that is a stream of events."""
        await self.start(200, [*STREAM_HEADERS, *headers])

    @final
    async def respond(
        self, status: int, body: bytes = b"", headers: Sequence[HeaderField] = (), *, content_type: str = JSON
    ) -> None:
        """Send a whole answer.

        Raises:
            HttpRefused: There is no room for it. Nothing was sent.
        """
        self.on_answer()
        if len(body) > SMALL:
            self.loans.keep_answer(len(body), self.cut)
        fields = list(headers)
        if body:
            fields.append((b"content-type", content_type.encode("ascii")))
        if status != 204:
            fields.append((b"content-length", b"%d" % len(body)))
        self.is_started = True
        await self.send_whole(status, fields + self.answer_headers, body)


Authenticate: TypeAlias = Callable[[HttpCall], Awaitable[str | None]]
"""Authenticates a request: called with each one before its body is read.

Returns the principal, a non-empty string, or `None` for an anonymous client, which is let in only with
`HttpServerSettings.allow_anonymous`; or raises `HttpRefused` with the status and the header fields of the
refusal. Anything else that it raises or returns is its own failure: the request is refused (500), and the reason
is logged. It is cancelled after `HttpServerSettings.authenticate_timeout`, and when the client goes."""


@final
@attrs.define(eq=False)
class HttpOrigin:
    """One request as the origin of a message; see `Origin`.

    Attributes:
        principal: Who sent it.
        holder: In whose name the server keeps what outlives it.
        headers: Its header fields.
        served: The loan of the message, which lasts as long as anything refers to it.
        on_answered: Called when its request is answered, where the POST itself gets no answer.
    """

    principal: str | None
    holder: str
    headers: Headers | None = None
    served: MessageLoan | None = None
    on_answered: Callable[[], object] = nothing


@final
@attrs.define(eq=False, weakref_slot=False)
class connected:  # noqa: N801 - a context without a generator: each request of a session has one
    """A context that is cancelled when the client goes."""

    _call: HttpCall
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> None:
        self._scope.__enter__()
        self._call.on_gone = self._cancel
        if self._call.is_gone:
            self._cancel()

    def _cancel(self) -> None:
        self._scope.cancel(reason="the client has gone")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._call.on_gone = nothing
        return self._scope.__exit__(kind, error, trace)


# Where requests wait for their turn, so that no client takes all of the event loop's time.
#
# Who is next is decided by `Turns`; here requests wait and are charged for their time. A client that is alone
# never waits, nor does one that asks for little.


GREAT: Final = 64 * KIB
"""How large a body is that can hold the loop by itself, in bytes."""

FEW: Final = 4
"""So many small requests begin without a look at whose they are."""

SECONDS_PER_BYTE: Final = 4e-9
"""About how long a byte of a great answer holds the loop, from the handler that returns it to the socket."""

SECONDS_PER_REQUEST: Final = 2e-4
"""About how long a request of a batch holds the loop."""

SHARED_SECONDS: Final = 1.0
"""For how long after its last request a holder counts as asking, in seconds."""

_T = TypeVar("_T")


def is_great(body: bytes) -> bool:
    """Whether a body may take long by itself: it is large, or anything but one object (a batch)."""
    return len(body) > GREAT or not body.startswith(b"{")


@final
@attrs.define(eq=False)
class Turnstile:
    """A gate through which the requests of all clients go before they are served.

    A pass of the event loop runs every task that is ready, so one client with a thousand requests would make all
    others wait for the end of that pass. Therefore:

    * If only one holder has asked within `SHARED_SECONDS`, its requests begin at once; counting them is all it
      costs.
    * Otherwise `Turns` gives each holder a share of each pass, and of the time that its requests hold the loop:
      the steps of great requests are measured and charged (`_metered`), those of small ones only if they take
      long.
    * One task lets the next ones in, pass by pass; it runs only while requests wait.

    What would break it: a checkpoint between the decision and the beginning of a request, or a charge that is
    skipped when a request fails.

    Args:
        nursery: Where that task runs.
        among: Another turnstile whose holders count as asking here, too; `None` for none.
        clock: Returns the time in seconds, to measure how long a great request holds the loop.

    Attributes:
        last_seen: The holder of the last request; `None` if `see` is to be called for the next one.
    """

    _nursery: trio.Nursery
    _among: Turnstile | None = None
    _clock: Callable[[], float] = attrs.field(default=time.perf_counter, alias="clock", kw_only=True)
    last_seen: str | None = attrs.field(default=None, init=False)
    _variables: Context = attrs.field(factory=copy_context, init=False)
    _turns: Turns[trio.lowlevel.Task] = attrs.field(factory=Turns[trio.lowlevel.Task], init=False)
    _seen: tuple[tuple[str, float], ...] = attrs.field(default=(("", -math.inf), ("", -math.inf)), init=False)
    _begun: int = attrs.field(default=0, init=False)
    _is_turning: bool = attrs.field(default=False, init=False)
    _is_open: bool = attrs.field(default=False, init=False)
    _changed: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._turns.waiting

    def open(self) -> None:
        """Let all requests in from now on: serving is about to end."""
        self._is_open = True
        self._let_in()

    def see(self, holder: str) -> None:
        """Note that a holder asks that is not `last_seen`."""
        now = trio.current_time()
        last, before = self._seen
        self._seen = ((holder, now), before if last[0] == holder else last)
        self.last_seen = holder

    def _is_shared(self, holder: str | None = None) -> bool:
        """Whether more than one holder is asking, or was a moment ago.

        Args:
            holder: One that certainly is asking.
        """
        if self._is_open:
            return False
        since = trio.current_time() - SHARED_SECONDS
        asking = self.asking_since(since)
        if self._among is not None:
            asking |= self._among.asking_since(since)
        if holder is not None:
            asking.add(holder)
        return len(asking) > 1

    def asking_since(self, since: float) -> set[str]:
        """Return the holders that have asked since a time, or wait."""
        asking = {who for who, when in self._seen if when > since}
        asking.update(self._turns.holders)
        self.last_seen = None  # `see` is called for the next request
        return asking

    async def serve(self, call: HttpCall, body: bytes, serve: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Serve a request when its turn comes, and charge its holder for the time that it holds the loop.

        Args:
            call: The request.
            body: Its body.
            serve: Serves it.

        Raises:
            HttpRefused: Its client has gone meanwhile.
        """
        if is_great(body):
            await self._let_in_while_connected(call, great=True)
            return await self._charged(call.loans.key, serve, is_great=True)
        self._begun += 1  # how many small ones have begun since that was looked at
        if self._begun <= FEW:
            return await serve()
        await self._let_in_while_connected(call)
        return await self._charged(call.loans.key, serve, is_great=False)

    async def enter(self, holder: str) -> None:
        """Wait until something small of a holder may begin. Does not checkpoint if it may at once.

        Cancelled, it has not begun.
        """
        if holder != self.last_seen:
            self.see(holder)
        self._begun += 1
        if self._begun > FEW and not self._may_begin(holder):
            await self._wait_turn(holder)

    def charge(self, holder: str, seconds: float, *, is_great: bool, least: float = SMALL_LONG) -> None:
        """Charge a holder for time that the loop is held, if others are asking, too.

        What is not measured is estimated: `SECONDS_PER_BYTE`, `SECONDS_PER_REQUEST`.
        """
        if self._is_shared(holder):
            self._turns.charge(holder, seconds, trio.current_time(), is_great=is_great, least=least)

    async def _let_in_while_connected(self, call: HttpCall, *, great: bool = False) -> None:
        if self._may_begin(call.loans.key, great=great):
            return
        with connected(call):
            await self._wait_turn(call.loans.key, great=great)
            return
        raise HttpRefused(400, "the client went away before its request was served")

    def _may_begin(self, holder: str, *, great: bool = False) -> bool:
        if not (self._turns or self._is_shared(holder)) or self._is_open:
            self._begun = 0
            return True
        if self._turns.begin(holder, trio.current_time(), is_great=great):
            self._go_round()
            return True
        return False

    async def _wait_turn(self, holder: str, *, great: bool = False) -> None:
        task = trio.lowlevel.current_task()
        self._turns.wait(holder, task, is_great=great)
        self._go_round()

        def leave(_: object) -> trio.lowlevel.Abort:
            self._turns.leave(holder, task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    async def _charged(self, holder: str, serve: Callable[[], Coroutine[Any, Any, _T]], *, is_great: bool) -> _T:
        least = 0.0 if is_great else SMALL_LONG

        def charge(seconds: float) -> None:
            if seconds >= least:
                self.charge(holder, seconds, is_great=is_great)

        return await _metered(serve(), self._clock, charge)

    # The task that lets requests in.

    def _go_round(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            self._variables.run(lambda: self._nursery.start_soon(self._turn, name="letting requests begin"))
        elif self._changed:
            self._changed.unpark()

    async def _turn(self) -> None:
        """Let the next ones in, pass by pass, while any wait."""
        try:
            while True:
                self._let_in()
                if not self._turns:
                    self._begun = 0
                    break
                now = trio.current_time()
                until = min(self._turns.next_at(now), now + SHARED_SECONDS / 4)
                if until <= now:
                    await trio.lowlevel.checkpoint()
                else:
                    with trio.move_on_at(until):
                        await self._changed.park()
        except trio.Cancelled:
            self.open()
            raise
        finally:
            self._is_turning = False

    def _let_in(self) -> None:
        for task in self._turns.next(trio.current_time(), is_shared=self._is_shared()):
            trio.lowlevel.reschedule(task)


@final
@attrs.frozen
class Turnstiles:
    """The turnstiles of one endpoint.

    Attributes:
        requests: Where requests wait until they are served.
        notifications: Where handlers wait before each notification that they send.
    """

    requests: Turnstile
    notifications: Turnstile


@coroutine
def _metered(
    steps: Coroutine[Any, Any, _T], clock: Callable[[], float], charge: Callable[[float], object]
) -> Generator[Any, Any, _T]:
    """Run a coroutine, and charge each of its steps for how long it has held the event loop."""
    value: Any = None
    resume: Callable[[Any], Any] = steps.send
    while True:
        since = clock()
        try:
            trap = resume(value)
        except StopIteration as done:
            result: _T = done.value
            return result
        finally:
            charge(clock() - since)
        try:
            value, resume = (yield trap), steps.send
        except BaseException as error:  # noqa: ASYNC103 - it is raised in there
            value, resume = error, steps.throw
