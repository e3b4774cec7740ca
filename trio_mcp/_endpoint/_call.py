"""One HTTP request and the way back, as a host carries them. What is in them is not looked at here.

What one HTTP request keeps for its client, from the second piece of its body to the last of its answer.

    the body, while it arrives ──> the message, while it is served ──> the answer, until the wire has taken it

Each of these is a loan of the server's account, in the name of whoever asks. What waits for the client, a body or
an answer, gives way when memory is short; a message that is being served does not.

How much is being served, of whom, and what is too much.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, final

import attrs
import trio

from .._codec._json import cost_of_json
from .._core._account import Loan, Overdrawn, Pool, holder_of
from .._core._http_headers import HeaderField, Headers
from .._core._http_rules import EVENT_STREAM, JSON, HttpRefused, HttpServerSettings, busy
from .._core._turns import RateTable
from .._limits import KIB, Limits

SMALL: Final = 16 * KIB
"""What a body, a message or an answer may weigh without a loan, in bytes. As many as there may be at once weigh
little, and asking for a loan would cost each request more than it is worth."""

STEP: Final = 64 * KIB
"""What grows is lent in steps of so many bytes."""


@final
class MessageLoan:
    """The loan of a message: it lasts for as long as anybody has this, and no longer.

    Mostly that is the POST alone. In the legacy era a message is served by its session, which goes on when the
    client leaves the POST, and may let it wait; it has this for as long as it has the message (`HttpOrigin`).
    """

    __slots__ = ("loan",)

    def __init__(self, loan: Loan) -> None:
        self.loan: Final = loan

    def __del__(self) -> None:
        self.loan.give_back()


@final
class RequestLoans:
    """What one request keeps.

    Args:
        pool: Lends the bytes; `None` if nobody counts them.
        key: Whose request it is.

    Attributes:
        key: The same.
        served: The loan of the message, while the POST has it; `None` if it is small.
    """

    __slots__ = ("_answer", "_body", "_pool", "key", "served")

    def __init__(self, pool: Pool | None = None, key: str = "") -> None:
        self._pool = pool
        self.key: Final = key
        self._body: Loan | None = None
        self._answer: Loan | None = None
        self.served: MessageLoan | None = None

    def grow_body(self, size: int, give_way: Callable[[], object]) -> int:
        """So much of the body has come. Returns up to how much this need not be said again.

        Args:
            size: How much, in bytes; more than `SMALL`.
            give_way: Called if it has to go before all of it is there. Must not wait.

        Raises:
            HttpRefused: There is no room for it.
        """
        amount = -(-size // STEP) * STEP
        self._body = self._grown(self._body, "bodies", amount, give_way)
        return amount

    def serve(self, body: bytes, max_decoded_bytes: int) -> None:
        """The body is there, and about to be decoded: what both take is lent, in place of what was lent for it.

        Raises:
            HttpRefused: There is no room for it, or it is more than there ever is.
        """
        if self._body is not None:
            self._give_back_body()
        cost = cost_of_json(body)
        amount = len(body) + cost
        if amount <= SMALL or self._pool is None:
            return
        if cost > max_decoded_bytes:
            raise _too_costly(
                f"{cost} bytes of memory once it is decoded; max_decoded_bytes is {max_decoded_bytes}"
            )
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
        """The request is served, and so much of its answer waits to be taken, with the message itself.

        Args:
            size: How much, in bytes.
            cut: Called if the answer has to go before its client has taken it. Must not wait.

        Raises:
            HttpRefused: There is no room for it.
        """
        served, self.served = self.served, None
        if served is not None and not served.loan.is_given_back:
            size += served.loan.amount
            served.loan.give_back()
        self.grow_answer(size, cut)

    def grow_answer(self, size: int, cut: Callable[[], object]) -> int:
        """So much of a stream waits to be taken, more than before or less; see `keep_answer`.

        Returns up to how much this need not be said again.
        """
        amount = 0 if size <= SMALL else -(-size // STEP) * STEP
        if self._answer is not None or amount:
            self._answer = self._grown(self._answer, "answers", amount, cut)
        return max(SMALL, amount)

    def _grown(
        self, loan: Loan | None, kind: Literal["bodies", "answers"], amount: int, give_way: Callable[[], object]
    ) -> Loan | None:
        """Return what is lent of something that is so large now."""
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
        """The request is over. What is served for it beyond that keeps its loan."""
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
    """Return the refusal of what was kept until others needed the room."""
    problem = f"{what} had to make room for others (max_kept_bytes, max_kept_bytes_per_principal)"
    return busy(503, problem)


@final
class _Tally:
    """How many there are of something, of all clients and of each."""

    __slots__ = ("_of", "total")

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.total: int = 0

    def of(self, client: str) -> int:
        """How many are this client's."""
        return self._of.get(client, 0)

    def add(self, client: str, places: int = 1) -> None:
        """So many more."""
        self._of[client] = self._of.get(client, 0) + places
        self.total += places

    def remove(self, client: str, places: int = 1) -> None:
        """So many less."""
        left = self._of[client] - places
        self.total -= places
        if left:
            self._of[client] = left
        else:
            del self._of[client]


@final
class RequestSlot:
    """What a request of HTTP takes. A context that gives it back; calling it says that its answer is left."""

    __slots__ = ("_client", "_load", "_tally")

    def __init__(self, load: RequestLimits, client: str, tally: _Tally) -> None:
        self._load = load
        self._client = client
        self._tally: _Tally | None = tally
        tally.add(client)

    def belong_to(self, client: str) -> None:
        """It is known now who has sent it: it counts for them, and no more for the address that it came from.

        Raises:
            HttpRefused: They have too many already.
        """
        if client != self._client and self._tally is not None:
            self._load.pass_on(self._client, client)
            self._tally.remove(self._client)
            self._client = client
            self._tally.add(client)

    def serve(self) -> None:
        """It brings a request: let it take a place among those instead, as long as that is being served.

        Raises:
            HttpRefused: There are too many already.
        """
        self._move(self._load.room_to_serve(self._client))

    def __call__(self) -> None:
        """Only its answer has to be sent: let it take a place among those instead, until its client has taken it.

        What waits to be read keeps others out only beyond as many as may be served: who has read an answer may
        ask again at once, whether we have heard of that or not.
        """
        if self._tally is not None and self._tally is not self._load.answered:
            self._move(self._load.answered)

    def _move(self, tally: _Tally) -> None:
        if self._tally is not None:
            self._tally.remove(self._client)
        tally.add(self._client)
        self._tally = tally

    def outlive(self) -> RequestSlot:
        """Give it back, and return one of the same kind that takes its place, to be given back by itself."""
        other = RequestSlot(self._load, self._client, self._load.served if self._tally is None else self._tally)
        self.leave()
        return other

    def leave(self) -> None:
        """Give it back."""
        tally, self._tally = self._tally, None
        if tally is not None:
            tally.remove(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


@final
class RequestLimits:
    """Counts what comes, and what is read and served at once, by client.

    Everything counts from its arrival, for the address that it comes from, and once it is known who has sent it,
    for them. So it costs the address alone to find out, and whoever is refused has had it.

    The requests that are being served do not keep out what may end them: in the legacy era cancellations, and the
    answers that their handlers wait for, are POSTs as well. So each POST is read before it may be too much.

    Args:
        settings: How many there may be.
        limits: How many may stand open.

    Attributes:
        served: Requests that are being served.
        answered: Answers that their clients have not taken yet.
    """

    def __init__(self, settings: HttpServerSettings, limits: Limits) -> None:
        self._settings = settings
        self._limits = limits
        self._is_rated = settings.max_request_rate < math.inf
        self._rates = RateTable(settings.max_request_rate, settings.request_burst)
        self._read = _Tally()
        self.served: _Tally = _Tally()
        self.answered: _Tally = _Tally()
        self._standing = _Tally()

    @property
    def running(self) -> int:
        """How many requests are being served, but for those that stand open."""
        return self.served.total

    @property
    def reading(self) -> int:
        """How many POSTs are being read, or are no requests and being answered."""
        return self._read.total

    @property
    def answering(self) -> int:
        """How many answers their clients have not taken yet."""
        return self.answered.total

    @property
    def standing(self) -> int:
        """How many places the requests that stand open take."""
        return self._standing.total

    def arrived(self, client: str) -> RequestSlot:
        """Count one request of HTTP until its place is given back.

        That is while it is found out who has sent it, and while it is read; of a POST that brings no request and
        of what gets no stream also while it is answered.

        Raises:
            HttpRefused: There are too many already.
        """
        if self._is_rated:
            self._take_token(client)
        if self.answered.total > self._settings.max_requests_per_principal:
            self._check_answered(client)
        return RequestSlot(self, client, self._room_in(self._read, client, "messages are being read"))

    def _take_token(self, client: str) -> None:
        wait = self._rates.take(client, trio.current_time())
        if wait:
            rate = self._settings.max_request_rate
            raise busy(429, f"more than {rate:g} requests per second (max_request_rate)", wait)

    def pass_on(self, address: str, principal: str) -> None:
        """Count what has come from an address for who has sent it. There is a place for it already.

        Raises:
            HttpRefused: They have too many already.
        """
        if self._is_rated:
            self._rates.give_back(address)
            self._take_token(principal)
        self._check_own(self._read, principal, "messages are being read")

    def _check_answered(self, client: str) -> None:
        settings, answered = self._settings, self.answered
        if answered.of(client) > settings.max_requests_per_principal:
            raise busy(429, f"{answered.of(client)} answers are not read by you (max_requests_per_principal)", 1)
        if answered.total > settings.max_requests and answered.of(client):  # who reads them gets in
            raise busy(503, f"{answered.total} answers are not read (max_requests)", 1)

    def room_to_serve(self, client: str) -> _Tally:
        """Return where one request more may be counted.

        Raises:
            HttpRefused: There are too many already.
        """
        return self._room_in(self.served, client, "requests are being served")

    def _room_in(self, tally: _Tally, client: str, what: str) -> _Tally:
        if tally.total >= self._settings.max_requests_per_principal:  # else nobody has so many
            self._check_own(tally, client, what)
        if tally.total >= self._settings.max_requests:
            raise busy(503, f"{tally.total} {what} (max_requests)", 1)
        return tally

    def _check_own(self, tally: _Tally, client: str, what: str) -> None:
        if tally.of(client) >= self._settings.max_requests_per_principal:
            raise busy(429, f"{tally.of(client)} of your {what} (max_requests_per_principal)", 1)

    @contextmanager
    def long_lived_request(self, client: str, places: int) -> Generator[None]:
        """Count one request that stands open while the body runs.

        Raises:
            HttpRefused: There are too many already.
        """
        if self._standing.of(client) + places > self._limits.max_subscriptions:
            raise busy(429, f"with these {places} you had more than max_subscriptions", 1)
        self._standing.add(client, places)
        try:
            yield
        finally:
            self._standing.remove(client, places)


STREAM_HEADERS: Final = (
    (b"content-type", EVENT_STREAM.encode("ascii")),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""The head of a stream. Proxies must neither keep it nor gather it (2026-07-28, "Receiving Messages")."""


_NOT_LENT: Final = RequestLoans()
"""What a request keeps before it is known who sent it: nobody counts it, and so it holds nothing itself."""


def nothing() -> None:
    """Do nothing."""


class HttpCall(abc.ABC):
    """One HTTP request and the way back. Hosts implement it; one object is one request.

    Attributes:
        method: In capitals.
        path: Where it goes, decoded, without what the host is mounted under.
        query: What follows the question mark, as it came.
        headers: Its header fields.
        client: The address it came from; `None` where there are no addresses. Hosts give that of the connection,
            and the endpoint replaces it by what a trusted proxy says.
        scheme: ``http`` or ``https``; the same holds for it.
        root: What the host is mounted under, without a slash at the end.
        principal: Who sent it, once that is known.
        answer_headers: What every answer to it says beside its own header fields.
        is_started: Whether an answer has begun.
        is_gone: Whether the other side is gone, or wants no answer any more.
        loans: What is kept for it, once it is known who sent it.
        on_answer: Called before the last of the answer is sent, at least once: nothing is being done any more.
        on_standing: Called when it turns out to stand open, and to be no request among others.
        on_gone: Called when the other side goes. Must not wait.
    """

    def __init__(
        self,
        *,
        method: str,
        path: str,
        headers: Headers,
        query: str = "",
        client: str | None = None,
        scheme: str = "http",
        root: str = "",
    ) -> None:
        self.method: Final = method
        self.path: Final = path
        self.query: Final = query
        self.headers: Final = headers
        self.client = client
        self.scheme = scheme
        self.root: Final = root
        self.principal: str | None = None
        self.answer_headers: list[HeaderField] = []
        self.loans = _NOT_LENT
        self.is_started: bool = False
        self.is_gone: bool = False
        self.on_answer: Callable[[], object] = nothing
        self.on_standing: Callable[[], object] = nothing
        self.on_gone: Callable[[], object] = nothing

    @abc.abstractmethod
    async def read_body(self) -> bytes:
        """Wait for the body, within the limits that the host was given.

        Raises:
            HttpRefused: It is too large (413), or came too slowly (408), or its sender has gone (400).
        """

    @abc.abstractmethod
    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        """Begin the answer. The host may send this only together with what follows, which comes at once."""

    @abc.abstractmethod
    async def send(self, data: bytes) -> None:
        """Send a part of the body, and wait until the wire has taken it. Does nothing when nobody reads on.

        Cancelling this may tear what is sent, so only a task that ends the answer may be cancelled here.
        """

    @abc.abstractmethod
    async def finish(self, data: bytes = b"") -> None:
        """Send the last part of the body, if there is one, and end the answer."""

    @abc.abstractmethod
    def cut(self) -> None:
        """Let nothing more of the answer be sent, and end what it is sent over, at once. Must not wait."""

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        """What an answer says after which the connection ends; nothing where hosts cannot end it."""
        return ()

    @property
    def key(self) -> str:
        """Whose limits count: the principal's, or the address's where nobody authenticates (IPv6 by network)."""
        return holder_of(self.client) if self.principal is None else f"principal {self.principal}"

    @final
    def gone(self) -> None:
        """The other side is gone. For the host to call, as often as it likes."""
        if not self.is_gone:
            self.is_gone = True
            self.on_gone()

    async def send_whole(self, status: int, headers: Sequence[HeaderField], body: bytes) -> None:
        """Send a whole answer. For hosts that can do so in one go."""
        await self.send_head(status, headers)
        await self.finish(body)

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
"""Finds out who sends a request: called with each before its body is read.

Returns the principal, which is no empty text, or `None` for nobody, who is let in only with
`HttpServerSettings.allow_anonymous`; or raises `HttpRefused` with the status and the header fields of the
refusal. Everything else, raised or returned, is its own failure: the request is refused (500), and the log says
why. It is cancelled after `HttpServerSettings.authenticate_timeout`, and when the client goes."""


@final
@attrs.frozen(eq=False)
class HttpOrigin:
    """One request as the origin of a message; see `Origin`.

    Attributes:
        principal: Who sent it.
        holder: In whose name is kept what outlives it.
        served: What is lent for the message, for as long as anybody has it.
        place: What its request takes until it is answered, where the POST itself gets no answer.
    """

    principal: str | None
    holder: str
    served: MessageLoan | None = None
    place: RequestSlot | None = None


@final
class connected:  # noqa: N801 - a context, and no generator: each request of a session has one
    """Run the body while the other side is there; when it goes, the body is cancelled."""

    __slots__ = ("_call", "_scope")

    def __init__(self, call: HttpCall) -> None:
        self._call = call
        self._scope = trio.CancelScope()

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
