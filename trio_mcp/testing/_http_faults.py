"""Faults of HTTP between a client and an application in this process."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from typing import Any, Final, Literal, Self, TypeAlias, final, get_args

import attrs
import trio

from .._codec._json import is_array, is_object
from .._http._asgi import AsgiApplication
from .._limits import MIB, check_seconds, check_whole
from .._trio import open_hidden_nursery
from ._faults import RATE, SECONDS, WithFaults, begin_by_seed, check_chances, damaged

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]

HttpFaultKind: TypeAlias = Literal[
    "delay", "reset", "status", "drop", "duplicate", "reorder", "split", "corrupt", "half_close", "cut", "stall"
]

_OF_BODIES: Final = frozenset({"split", "corrupt", "half_close", "cut", "stall"})
"""What goes wrong in the body of a response."""

MAX_BODY: Final = 64 * MIB
"""The largest body of a request, in bytes."""

MAX_REQUESTS: Final = 1_000
"""Up to which request a seed makes faults."""


@final
@attrs.frozen(repr=False)
class HttpFault:
    """One thing that goes wrong with one request.

    ================  =====================================================================================
    kind
    ================  =====================================================================================
    ``"delay"``       the request arrives ``seconds`` later
    ``"reset"``       the connection is closed before the request arrives; the server never sees it
    ``"status"``      a gateway answers with ``status``, and ``retry_after`` if given; the server never sees it
    ``"drop"``        the server serves it, and the connection is closed in place of the response
    ``"duplicate"``   the server gets it twice, one after the other; the second response is returned
    ``"reorder"``     it arrives after the next request, whatever that is
    ``"split"``       the first ``size`` bytes of the response's body come by themselves, and the rest ``seconds``
                      later, by default at once
    ``"corrupt"``     the byte behind the first ``size`` of the response's body is wrong
    ``"half_close"``  the response ends after ``size`` bytes of its body, in good order, as if they were all
    ``"cut"``         the connection is closed after ``size`` bytes of the response's body
    ``"stall"``       nothing more comes after ``size`` bytes of the response's body for ``seconds``, by default
                      never; the connection stays open
    ================  =====================================================================================

    What goes wrong in a response has happened when its request has come, also if the response is shorter than
    ``size``, and nothing is wrong with it.

    Args:
        kind: What goes wrong.
        at: Which request, from 1, of those with this `method`.
        method: Which requests count: a method of MCP, such as ``"tools/call"``, or of HTTP: ``"GET"`` is the
            stream of a session, ``"DELETE"`` its end. Default: all.
        seconds: How long, on Trio's clock. Default for a delay: 1.
        size: How many bytes.
        status: The status of HTTP.
        retry_after: After how many seconds the gateway asks to come back.

    Raises:
        ValueError: There is no such kind, or a number is out of bounds.
    """

    kind: HttpFaultKind
    at: int
    method: str | None = None
    seconds: float | None = attrs.field(default=None, kw_only=True)
    size: int = attrs.field(default=0, kw_only=True)
    status: int = attrs.field(default=503, kw_only=True)
    retry_after: int | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.kind not in get_args(HttpFaultKind):
            raise ValueError(f"kind must be one of {', '.join(get_args(HttpFaultKind))}, not {self.kind!r}")
        check_whole("at", self.at)
        check_whole("size", self.size, at_least=0)
        check_whole("status", self.status)
        check_whole("retry_after", self.retry_after or 0, at_least=0)
        if not 400 <= self.status <= 599:
            raise ValueError(f"status must be from 400 to 599, not {self.status!r}")
        if self.seconds is not None:
            check_seconds("seconds", self.seconds)

    @property
    def pause(self) -> float:
        """How long it lasts, in seconds."""
        if self.seconds is not None:
            return self.seconds
        return {"stall": math.inf, "split": 0.0}.get(self.kind, SECONDS)

    def __repr__(self) -> str:
        named = ((field, getattr(self, field.name)) for field in attrs.fields(type(self))[2:])
        more = "".join(f", {field.name}={value!r}" for field, value in named if value != field.default)
        return f"HttpFault({self.kind!r}, {self.at!r}{more})"


@final
class FaultyApp(WithFaults[HttpFault]):
    """An ASGI application between which and its client things go wrong, by script.

    ::

        faults = [HttpFault("drop", 1, "tools/call"), HttpFault("cut", 2, "GET", size=100)]
        app = FaultyApp(McpASGI(server), faults)
        async with open_client(HttpServerParameters("http://localhost/mcp", app=app)) as client:

    Lifespans and WebSockets pass as they are. A request whose connection is closed, or whose response ends early,
    is a disconnect for the application, which has ended it when the client sees the connection close. A request
    that was to arrive after the next one stays away if there is no next one. A response that is lost is waited
    for, as is the first one to a duplicate, and that of the stream of a session ends with the client. So put
    deadlines around calls.

    Args:
        app: The application that works: `McpASGI`, or what it is mounted in.
        faults: What goes wrong. Of several for one request, the first.

    Attributes:
        faults: What goes wrong.
        requests: How many requests there were, by method of MCP and of HTTP; all of them by `None`.
    """

    def __init__(self, app: AsgiApplication, faults: Sequence[HttpFault] = ()) -> None:
        if not callable(app):
            raise TypeError(f"FaultyApp wraps an ASGI application, as McpASGI(server), not {type(app).__name__}")
        for fault in faults:
            if not isinstance(fault, HttpFault):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
                raise TypeError(f"what goes wrong over HTTP is an HttpFault, not {fault!r}")
        super().__init__(faults)
        self.requests: Counter[str | None] = Counter()
        self._app: Final = app
        self._late: list[trio.Event] = []  # of the requests that arrive after the next one

    @classmethod
    def random(
        cls,
        app: AsgiApplication,
        seed: int | None = None,
        *,
        rate: float = RATE,
        kinds: Collection[HttpFaultKind] = get_args(HttpFaultKind),
    ) -> Self:
        """Wrap an application with which things go wrong at random, but the same things each time for one seed.

        Prints the seed to standard error, which pytest shows of a test that fails, and each fault as it happens.

        Args:
            app: The application that works.
            seed: The seed. Default: one that nobody has chosen.
            rate: With how many requests something goes wrong, from 0 to 1, of the first thousand.
            kinds: What goes wrong. A delay, and a stall, is one second at most.
        """
        check_chances(rate, kinds, get_args(HttpFaultKind))
        seed = begin_by_seed(seed, "FaultyApp.random(app, {seed}, …)")
        dice = random.Random(seed)
        ordered = sorted(kinds)
        faults: list[HttpFault] = []
        for at in range(1, MAX_REQUESTS + 1):
            if dice.random() < rate:
                kind = dice.choice(ordered)
                seconds = round(dice.uniform(0, SECONDS), 3) if kind in {"delay", "split", "stall"} else None
                faults.append(HttpFault(kind, at, seconds=seconds, size=dice.randrange(64)))
        faulty = cls(app, faults)
        faulty._seed = seed
        return faulty

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Serve a request, or let it go wrong."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await _body_of(receive)
        fault = self._fault_of(scope, body)
        late, self._late = self._late, []
        exchange = _Exchange(body, fault, send, late)
        try:
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(exchange.listen, receive)
                await self._serve(scope, exchange, fault)
                nursery.cancel_scope.cancel(reason="the request is served")
        finally:
            exchange.arrive()

    async def _serve(self, scope: _Message, exchange: _Exchange, fault: HttpFault | None) -> None:
        send: _Send = exchange.send
        match None if fault is None else fault.kind:
            case "delay":
                await trio.sleep(exchange.pause)
            case "reorder":
                self._late.append(turn := trio.Event())
                await turn.wait()
            case "reset":
                return
            case "status":
                assert fault is not None
                fields = [(b"content-type", b"text/plain")]
                if fault.retry_after is not None:
                    fields.append((b"retry-after", b"%d" % fault.retry_after))
                await send({"type": "http.response.start", "status": fault.status, "headers": fields})
                await send({"type": "http.response.body", "body": b"a gateway of the test", "more_body": False})
                return
            case "drop":
                send = _discard
            case "duplicate":
                await self._app(scope, exchange.body(), _discard)
            case _:
                pass
        await self._app(scope, exchange.body(), send)

    def _fault_of(self, scope: _Message, body: bytes) -> HttpFault | None:
        methods = {None, str(scope["method"]), *_methods_in(body)}
        self.requests.update(methods)
        for fault in self.faults:
            if fault.method in methods and self.requests[fault.method] == fault.at:
                self._note(fault)
                return fault
        return None


@final
class _Exchange:
    """One request on its way to the application, and the response on its way back."""

    def __init__(self, body: bytes, fault: HttpFault | None, send: _Send, late: Sequence[trio.Event]) -> None:
        self._body: Final = body
        self._kind: Final = None if fault is None else fault.kind
        self.pause: Final = 0.0 if fault is None else fault.pause
        # Bytes of the response before it goes wrong.
        self._left: float = math.inf if fault is None else fault.size
        self._send: Final = send
        self._late: Final = late
        self._is_closed = False  # by what went wrong
        self._gone: Final = trio.Event()

    async def listen(self, receive: _Receive) -> None:
        """Wait until the client goes."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone.set()

    def arrive(self) -> None:
        """Let those arrive that had to wait for this one."""
        for event in self._late:
            event.set()

    def body(self) -> _Receive:
        """Return a `receive` that gives the body, and then waits until the connection is closed."""
        is_given = False

        async def receive() -> _Message:
            nonlocal is_given
            await trio.lowlevel.checkpoint()
            if is_given:
                await self._gone.wait()
                return {"type": "http.disconnect"}
            is_given = True
            self.arrive()
            return {"type": "http.request", "body": self._body, "more_body": False}

        return receive

    async def send(self, message: _Message) -> None:
        """Pass on a part of the response, or what is to come in its place."""
        self.arrive()  # to answer a GET nobody reads its body
        if self._is_closed:
            await trio.lowlevel.checkpoint()  # sending after a disconnect is no error
            return
        part, is_last = bytes(message.get("body", b"")), not message.get("more_body", False)
        is_before = message["type"] != "http.response.body" or len(part) < self._left
        if is_before or (len(part) == self._left and not is_last) or self._kind not in _OF_BODIES:
            self._left -= len(part)
            await self._send(message)
            return
        at, self._left = int(self._left), math.inf
        if self._kind == "corrupt":
            await self._send({**message, "body": damaged(part, at, 1)})
            return
        ends = self._kind == "half_close"
        await self._send({"type": "http.response.body", "body": part[:at], "more_body": not ends})
        if ends or self._kind == "cut":
            self._is_closed = True
            self._gone.set()
            return
        with trio.move_on_after(self.pause):
            await self._gone.wait()
        await self._send({**message, "body": part[at:]})


async def _body_of(receive: _Receive) -> bytes:
    body, has_more = bytearray(), True
    while has_more:
        message = await receive()  # a disconnect has no body, and no more of it
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise RuntimeError(f"the body of a request is larger than {MAX_BODY} bytes (MAX_BODY)")
        has_more = message.get("more_body", False)
    return bytes(body)


async def _discard(_: _Message) -> None:
    await trio.lowlevel.checkpoint()


def _methods_in(body: bytes) -> set[str]:
    try:
        value: Any = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return set()
    messages = value if is_array(value) else [value]
    return {str(message["method"]) for message in messages if is_object(message) and "method" in message}
