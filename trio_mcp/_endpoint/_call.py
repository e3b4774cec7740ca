"""One HTTP request and the way back, as a host carries them. What is in them is not looked at here."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, TypeAlias, final

import attrs
import trio

from .._core._addresses import holder_of
from .._core._headers import HeaderField, Headers
from .._core._http_admission import EVENT_STREAM, JSON
from ._load import Place
from ._request_loans import SMALL, RequestLoans, Served

__all__ = ["Authenticate", "HttpCall", "HttpOrigin", "connected", "nothing"]

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
    served: Served | None = None
    place: Place | None = None


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
