"""Serving stdio's framing, one message a line, over TCP, TLS and Unix sockets.

    listeners ──> the accept loop ──> one task for each connection ──> a session of the server

To end: no connection is accepted any more; each session drains, so that requests are answered; then the remaining
ones are cancelled. Each step is bounded. One run of the server, and so one lifespan, serves all connections.

Spec: 2026-07-28, basic/transports, "Custom Transports".
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote

import attrs
import trio

from .._audit import audit
from .._bindings._stream import READS_AT_ONCE, StreamChannel, has_few_lines
from .._channel import Incoming, Origin, Received, TooLarge
from .._codec._json import cost_of_json
from .._codec._jsonrpc import FRAGMENT_BYTES, id_of_fragment, is_response_fragment
from .._core._account import Loan, Overdrawn, Pool, client_at
from .._core._framing import OversizedLine
from .._core._http_rules import ProxyRules
from .._errors import SERVER_BUSY, ConnectionLost, RequestError
from .._http._target import bracketed
from .._limits import KIB, SocketServerSettings, check_given, check_port
from .._logs import Log
from .._server._lifetimes import Lifetime, Shutdown, open_background
from .._server._parking import Service
from .._server._server import Hosted, Servable, hosted
from .._trio import reader_of
from ._connections import ConnectionLimits, Connections
from ._listening import ConnectionBounds, Hosting, check_mode, open_listeners, serve_until_drain
from ._requests import HostedSocket, ServedConnection

_log: Final = Log("trio_mcp.sockets")

STEP: Final = 64 * KIB
"""Loans grow in steps of so many bytes, and so many have `send_timeout` to be taken by the client."""

ALLOWANCE: Final = 128 * KIB
"""What is kept for a connection without a loan, in bytes: borrowing for each small message would cost much."""

SMALL: Final = 400
SMALL_WEIGHT: Final = 1 * KIB
"""Lines of up to `SMALL` bytes are not weighed, and count as `SMALL_WEIGHT` more."""

_CREDENTIALS: Final = struct.Struct("3i")

_connections: Final = count(1)


# The client of a connection.


def principal_of(connection: socket.socket) -> tuple[str | None, str | None]:
    """Return who has connected to a Unix socket, and whose that is for limits: the process, and its user.

    Both are `None` where the system does not report it.
    """
    try:
        option = socket.SO_PEERCRED  # type: ignore[attr-defined,unused-ignore]  # not on all platforms
        packed = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    except (AttributeError, OSError):
        return None, None
    pid, uid, gid = _CREDENTIALS.unpack(packed)
    return f"uid={uid} gid={gid} pid={pid}", f"uid={uid}"


_SHORT_NAMES: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The attributes of a name that have short ones (RFC 4514, section 3)."""

_SPECIAL: Final = re.compile(r'[",+;<>\\]|^[ #]| $')


def name_in(certificate: Mapping[str, Any]) -> str | None:
    """Return whose a certificate is that was verified, as `ssl` decodes it.

    That is its subject as RFC 4514 writes it, or the first of its alternative names if the subject is empty, with
    its kind: ``CN=alice,O=Example``, ``URI:spiffe://example.com/worker``. `None` if it has neither.
    """
    parts = [
        "+".join(f"{_SHORT_NAMES.get(kind, kind)}={_escaped(value)}" for kind, value in together)
        for together in reversed(certificate.get("subject", ()))
    ]
    if parts:
        return ",".join(parts)
    return next((f"{kind}:{value}" for kind, value in certificate.get("subjectAltName", ())), None)


def _escaped(value: str) -> str:
    """Return the value of an attribute, so that it cannot be taken for another one (RFC 4514, section 2.4)."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", value).replace("\0", "\\00")


@final
class StreamSocket(HostedSocket):
    """An accepted socket, with Trio's streams over it.

    Args:
        connection: The socket, which does not block.
        client: The address of its client, or what else tells clients apart; `None` for nothing.
        principal: Who its client is, if that is known.
        ssl_context: For TLS; `None` for none.

    Attributes:
        principal: Who its client is, if that is known.
        client_key: The client that is counted. Over TLS both may change in `start`.
        stream: The connection, over TLS if that is wanted.
        transport: Its name: ``"tcp"``, ``"tls"`` or ``"unix"``.
    """

    def __init__(
        self,
        connection: socket.socket,
        client: str | None,
        principal: str | None,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        super().__init__(client)
        self.principal = principal
        self.client_key = f"socket {next(_connections)}" if client is None else client_at(client)
        self._transport = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
        self._secured = (
            None if ssl_context is None else trio.SSLStream(self._transport, ssl_context, server_side=True)
        )
        self.stream: Final[trio.abc.Stream] = self._secured or self._transport
        is_ip = connection.family in (socket.AF_INET, socket.AF_INET6)
        self.transport: Final = "tls" if ssl_context is not None else "tcp" if is_ip else "unix"

    async def start(self) -> None:
        if self._secured is not None:
            try:
                await self._secured.do_handshake()
            except trio.ClosedResourceError as error:
                raise trio.BrokenResourceError("the connection was cut") from error
            certificate = self._secured.getpeercert()  # empty unless it was verified
            self.principal = name_in(certificate) if certificate else None
            if self.principal is not None:
                self.client_key = f"principal {self.principal}"
        else:
            await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        self._transport.socket.close()


def _audit(socket: StreamSocket, reason: str, limit: str | None) -> None:
    """Write the audit record of a connection that is cut."""
    audit(
        "connection",
        reason,
        limit=limit,
        transport=socket.transport,
        client=socket.client,
        principal=socket.principal,
    )


# What a connection keeps.
#
# Kept true: `_kept` is what the client has sent of the next line, plus the amounts of all origins that are open.
# Each message has an origin, which is open until it is done with, and gives its amount back then. Of very many
# that are read together, small ones share some. When none is open, the connection rests.
#
# Up to `ALLOWANCE` nothing is lent; beyond it, one loan of the account covers everything. A message for which
# there is no room is refused, and the connection of one that is not complete is cut.


@final
class LineOrigin:
    """A line, or some that were read together, as the origin of the messages in them; see `Origin`.

    Attributes:
        principal: Who has sent them.
        client_key: The client that is counted.
        client: The address of who has sent them.
    """

    __slots__ = ("_amount", "_channel", "_messages", "client", "client_key", "principal")

    def __init__(self, channel: ServedChannel, socket: StreamSocket, messages: int, amount: int) -> None:
        self.principal = socket.principal
        self.client_key = socket.client_key
        self.client = socket.client
        self._channel = channel
        self._messages = messages
        self._amount = amount

    def keep_answer(self, size: int) -> None:
        """Count an answer until it is written.

        Raises:
            RequestError: There is no room for it.
        """
        if not self._messages:
            return  # all of them are answered already
        refusal = self._channel.keep(size)
        if refusal is not None:
            raise refusal
        self._amount += size

    def hold(self) -> None:
        """A part of a message lasts by itself; see `Origin`."""
        self._messages += 1

    def done(self) -> None:
        """A message is done with; see `Origin`."""
        self._messages -= 1
        if not self._messages:
            self._channel.let_go(self._amount)


@final
class ServedChannel(StreamChannel):
    """The channel to the client of an accepted socket.

    Args:
        socket: The socket.
        limits: Notified when it rests and when it works.
        pool: Lends the memory that its messages take.
        send_timeout: How long the client may take to read `STEP` bytes, in seconds.
        max_message_bytes: The longest line that is read.
        message_timeout: How long the client may take to send a message while a request of it is open, in seconds;
            while none is, that is up to `limits`.
    """

    def __init__(
        self,
        socket: StreamSocket,
        limits: ConnectionLimits[StreamSocket],
        pool: Pool,
        send_timeout: float,
        max_message_bytes: int,
        message_timeout: float,
    ) -> None:
        who = socket.principal or socket.client or "a client without an address"
        super().__init__(
            socket.stream, socket.stream, max_message_bytes=max_message_bytes, description=f"the client {who}"
        )
        self.transport = socket.transport
        self._socket = socket
        self._limits = limits
        self._pool = pool
        self._send_timeout = send_timeout
        self._message_timeout = message_timeout
        self._awaited = 0.0  # for how long the rest of a line was, while requests were open
        self._behind: list[bytes] = []
        self._read_now = reader_of(
            socket.stream, reads_at_once=READS_AT_ONCE, reads_on=self._reads_on, ahead=self._behind
        )
        self._read = self._read_counted
        self._counted = 0  # bytes that are counted of what was read behind that
        self._held = 0  # of the line whose end has not come
        self._origins = 0
        self._kept = 0
        self._lent = ALLOWANCE
        self._loan: Loan | None = None
        self._has_begun = False
        self._is_closed = False

    async def _read_counted(self) -> bytes:
        """Read, and count what was read behind that: it may be a megabyte of each of many clients.

        Raises:
            ConnectionLost: There is no room for it.
        """
        data = await (self._read_rest() if self._held and self._origins else self._read_now())
        ahead = sum(map(len, self._behind))
        if ahead != self._counted:
            more, self._counted = ahead - self._counted, ahead
            self._count(more)
        return data

    def _reads_on(self, data: bytes) -> bool:
        """Whether a megabyte may be read behind these bytes."""
        return self._pool.has_plenty and has_few_lines(data)

    async def _read_rest(self) -> bytes:
        """Read on in a line while a request is open. Only the time in which it is waited for counts.

        Raises:
            ConnectionLost: It takes too long.
        """
        since = trio.current_time()
        with trio.move_on_after(self._message_timeout - self._awaited):
            data = await self._read_now()
            self._awaited += trio.current_time() - since
            return data
        self._socket.cut()
        limit = f"{self._message_timeout:g} s (message_timeout)"
        _audit(self._socket, f"it has not ended a message for {limit}", "message_timeout")
        raise ConnectionLost(f"{self.description} has not ended a message for {limit}")

    def _received(self, lines: Sequence[bytes | OversizedLine]) -> Sequence[Received]:
        self._hold()
        if lines:
            self._awaited = 0.0
        else:
            if self._held:
                self._limits.begin(self._socket)
            return ()
        if not self._has_begun:
            self._begin(lines[0])
        if not self._origins:
            self._limits.work(self._socket)
        sizes = [len(line) if isinstance(line, bytes) else 2 * FRAGMENT_BYTES for line in lines]
        are_few = len(sizes) <= STEP // SMALL  # then each has an origin, and none lasts as long as another
        messages: list[Received] = []
        group: list[bytes | OversizedLine] = []
        amount = 0
        for line, size in zip(lines, sizes, strict=True):
            group.append(line)
            amount += size
            if are_few and size <= SMALL:
                amount += SMALL_WEIGHT
            elif isinstance(line, bytes):
                amount += cost_of_json(line)
            if are_few or amount >= STEP:
                messages += self._messages(group, amount)
                group, amount = [], 0
        return messages + self._messages(group, amount) if group else messages

    def _begin(self, line: bytes | OversizedLine) -> None:
        """Check the first line, so that a web page cannot smuggle messages in by a request over HTTP.

        Raises:
            ConnectionLost: It is no message.
        """
        head = line if isinstance(line, bytes) else line.head
        if not head.lstrip().startswith((b"{", b"[")):
            self._socket.cut()
            _audit(self._socket, f"it has begun with what is no message: {head[:40]!r}", None)
            raise ConnectionLost(f"{self.description} has begun with what is no message: {head[:40]!r}")
        self._has_begun = True

    def _hold(self) -> None:
        """Count what was received of the next line.

        Raises:
            ConnectionLost: There is no room for it.
        """
        more = self._lines.held - self._held
        if more:
            self._count(more)
        self._held += more

    def _count(self, more: int) -> None:
        """Count so many more bytes of messages that are not complete, or fewer.

        Raises:
            ConnectionLost: There is no room for them.
        """
        if more < 0:
            self._give_back(-more)
        elif (refusal := self.keep(more)) is not None:
            self._socket.cut()
            self._drop_unread()
            _audit(self._socket, refusal.message, "max_kept_bytes")
            raise ConnectionLost(f"a message of {self.description} was not read on: {refusal.message}")

    def _drop_unread(self) -> None:
        self._lines.drop()
        self._behind.clear()

    def _messages(self, lines: Sequence[bytes | OversizedLine], amount: int) -> list[Received]:
        """Return the messages in some lines, with their origin."""
        refusal = self.keep(amount)
        origin = LineOrigin(self, self._socket, len(lines), 0 if refusal else amount)
        self._origins += 1
        if refusal is None:
            return [
                Incoming(line, origin) if isinstance(line, bytes) else _message(line, origin, None)
                for line in lines
            ]
        return [_message(line, origin, refusal) for line in lines]

    def keep(self, amount: int) -> RequestError | None:
        """Count so many more bytes. Returns why they must not be kept, if there is no room for them."""
        kept = self._kept + amount
        if kept > self._lent:
            try:
                self._borrow(-(-kept // STEP) * STEP)
            except Overdrawn as problem:
                return RequestError(
                    SERVER_BUSY, f"there is no room for what takes {amount} bytes in memory: {problem}"
                )
        self._kept = kept
        return None

    def _borrow(self, amount: int) -> None:
        if self._loan is None:
            self._loan = self._pool.lend(self._socket.client_key, "connections", amount)
        else:
            self._loan.change(amount)
        self._lent = amount

    def let_go(self, amount: int) -> None:
        """The messages of an origin are done with, and so many bytes are not kept."""
        self._give_back(amount)
        self._origins -= 1
        if not (self._origins or self._is_closed):
            self._limits.rest(self._socket)
            if self._held:
                self._limits.begin(self._socket)

    def _give_back(self, amount: int) -> None:
        self._kept -= amount
        if self._loan is not None and self._kept <= self._lent // 2:
            if self._kept > ALLOWANCE:
                self._lent = -(-self._kept // STEP) * STEP
                self._loan.change(self._lent)
            else:
                self._end_loan()

    def _end_loan(self) -> None:
        loan, self._loan = self._loan, None
        self._lent = ALLOWANCE
        if loan is not None:
            loan.give_back()

    async def _send_all(self, data: bytes | memoryview) -> None:
        with memoryview(data) as view:
            for at in range(0, len(view), STEP):
                with trio.move_on_after(self._send_timeout) as scope:
                    await super()._send_all(view[at : at + STEP])
                if scope.cancelled_caught:
                    self._socket.cut()
                    problem = f"has not read for {self._send_timeout:g} s (send_timeout)"
                    _audit(self._socket, f"it {problem}", "send_timeout")
                    raise ConnectionLost(f"{self.description} {problem}")

    async def aclose(self) -> None:
        """Close it, and give everything back."""
        self._is_closed = True
        try:
            await super().aclose()
        finally:
            self._end_loan()


def _message(line: bytes | OversizedLine, origin: Origin, refusal: RequestError | None) -> Received:
    """Return a line as a message. Without room, answers and notifications pass: they may end what takes it."""
    if isinstance(line, OversizedLine):
        return TooLarge(line.size, line.head, line.tail, origin)
    if refusal is None:
        return Incoming(line, origin)
    head, tail = line[:FRAGMENT_BYTES], line[-FRAGMENT_BYTES:]
    if len(line) <= STEP and (is_response_fragment(head, tail) or id_of_fragment(head, tail) is None):
        return Incoming(line, origin)
    return TooLarge(len(line), head, tail, origin, refusal)


@final
@attrs.define(eq=False, repr=False)
class SocketConnection:
    """One connection: a session of the server.

    Args:
        server: The server.
        service: Its run, which all connections share.
        settings: What a connection may cost.
        shutdown: Ends all of them.
        socket: The socket.
        limits: Notified when it rests and when it works.

    Attributes:
        is_draining: Whether nothing new is to be served; `shutdown` says the same.
    """

    _server: Hosted
    _service: Service[Any]
    _settings: SocketServerSettings
    _shutdown: Shutdown
    _socket: StreamSocket
    _limits: ConnectionLimits[StreamSocket]
    is_draining: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._limits.begin(self._socket)

    async def serve(self) -> None:
        """Serve it until the client goes, or `shutdown` is drained."""
        server, socket = self._server, self._socket
        if socket.principal is not None and not self._limits.belong_to(socket, socket.client_key):
            _audit(socket, "too many connections", "max_connections_per_address")
            socket.cut()
            await trio.lowlevel.checkpoint()
            return
        channel = ServedChannel(
            socket,
            self._limits,
            self._service.account.bytes,
            self._settings.send_timeout,
            server.limits.max_message_bytes,
            self._settings.message_timeout,
        )
        try:
            async with open_background(f"the session with {channel.description}") as background:
                await server.serve_beside(
                    background, self._service, channel, self._shutdown, client=socket.client_key
                )
        finally:
            with trio.move_on_after(server.limits.goodbye_timeout, shield=True):
                await channel.aclose()


# Serving.


async def serve_tcp(
    server: Servable[Any],
    host: str | None = "127.0.0.1",
    port: int = 8000,
    *,
    ssl_context: ssl.SSLContext | None = None,
    settings: SocketServerSettings | None = None,
    shutdown: Shutdown | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve at a TCP port until `shutdown`: ``urls = await nursery.start(serve_tcp, server)``.

    Messages are framed as over stdio, one a line. All connections share one run of the server, and its lifespan.
    What fails on one ends no other. At `shutdown` no more are accepted, requests are answered within
    `Limits.drain_timeout`, and the remaining ones are cancelled. Cancelled, all handlers are cancelled and their
    cleanup runs. Either way no task and no socket is left. A lifespan that `shutdown` interrupts while it is
    being entered is cancelled, and this returns without having served.

    Without certificates clients are not authenticated: whoever can connect is served. Only this machine can reach
    the default, but any user of it can. A connection that does not begin with a message, such as a request of a
    web page over HTTP, is cut. For other machines use an `ssl_context` with ``verify_mode = ssl.CERT_REQUIRED``,
    or `serve_http`.

    The principal of a connection (`Context.principal`) is then its client's certificate: the subject, as RFC 4514
    writes it (``"CN=alice,O=Example"``), or the first alternative name if the subject is empty
    (``"URI:spiffe://example.com/worker"``). What a server keeps for clients, and how many connections they have,
    is counted by it. Trust only authorities that give no two clients the same name. With ``CERT_OPTIONAL``, who
    has no certificate is anonymous.

    Args:
        server: The server.
        host: The name or address to listen on; `None` for all.
        port: The port; 0 for one that is free.
        ssl_context: The certificate for TLS, and whether clients need one; `None` for no TLS.
        settings: What connections may cost.
        shutdown: When to end.
        task_status: Gets the URLs, as `open_client` takes them, once clients can connect.

    Raises:
        OSError: The address cannot be listened on, or not any more. An error of one connection ends that alone.
        ssl.SSLError: `ssl_context` is for clients.
        TypeError: `port` is no whole number.
        ValueError: There is no such `port`.

    Spec: 2026-07-28, basic/transports, "Custom Transports".
    """
    served = hosted(server, "serve_tcp()")
    check_given(serve_tcp, locals())
    check_port(port, at_least=0)
    if ssl_context is not None:
        ssl_context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)  # refuses what is for clients

    def take(connection: socket.socket, client: str | None) -> StreamSocket:
        return StreamSocket(connection, client, None, ssl_context)

    scheme = "tcp" if ssl_context is None else "tls"
    await _serve(served, (host, port, None, 0), take, scheme, settings, shutdown, task_status.started)


async def serve_unix(
    server: Servable[Any],
    path: str | os.PathLike[str],
    *,
    mode: int = 0o600,
    settings: SocketServerSettings | None = None,
    shutdown: Shutdown | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve at a Unix socket until `shutdown`: ``await nursery.start(serve_unix, server, path)``.

    The principal of a connection (`Context.principal`) is the process that has made it, as the system reports it:
    ``"uid=1000 gid=1000 pid=4711"``; `None` on systems other than Linux. Everything else is as for `serve_tcp`.

    Args:
        server: The server.
        path: Where the socket is to be. One that a killed process has left there is replaced; if a server listens
            at it, this fails. The file is removed when no more connections are accepted, if it is still the same.
        mode: Who may connect, as for `chmod`.
        settings: What connections may cost.
        shutdown: When to end.
        task_status: Gets the URL, as `open_client` takes it, once clients can connect.

    Raises:
        OSError: The path cannot be listened on, or not any more: ``EADDRINUSE`` where another server listens, or
            what is there is no socket.
        TypeError: `mode` is no whole number.
        ValueError: There is no such `mode`, or there are no Unix sockets on this system.

    Spec: 2026-07-28, basic/transports, "Custom Transports".
    """
    served = hosted(server, "serve_unix()")
    check_given(serve_unix, locals())
    check_mode("mode", mode)

    def take(connection: socket.socket, client: str | None) -> StreamSocket:
        del client
        principal, user = principal_of(connection)
        return StreamSocket(connection, user, principal, None)

    await _serve(served, (None, 0, path, mode), take, "unix", settings, shutdown, task_status.started)


async def _serve(
    server: Hosted,
    address: tuple[str | None, int, str | os.PathLike[str] | None, int],
    take: Callable[[socket.socket, str | None], StreamSocket],
    scheme: str,
    settings: SocketServerSettings | None,
    shutdown: Shutdown | None,
    on_serving: Callable[[tuple[str, ...]], None],
) -> None:
    settings = SocketServerSettings() if settings is None else settings
    shutdown = Shutdown() if shutdown is None else shutdown
    limits = server.limits
    bounds = ConnectionBounds(
        settings.max_connections,
        settings.max_connections_per_address,
        settings.idle_timeout,
        settings.message_timeout,
        ProxyRules((), "x-forwarded"),  # no address is a proxy's
    )

    @asynccontextmanager
    async def running() -> AsyncGenerator[Hosting[StreamSocket]]:
        async with server.open_service(Lifetime(shutdown, limits)) as service:

            def begin(socket: StreamSocket, limits: ConnectionLimits[StreamSocket]) -> ServedConnection:
                return SocketConnection(server, service, settings, shutdown, socket, limits)

            async def finish(connections: Connections[StreamSocket]) -> None:
                with trio.move_on_after(limits.drain_timeout + 2 * limits.goodbye_timeout):
                    await connections.wait_empty()

            yield Hosting(
                begin,
                bounds,
                take,
                partial(_url_of, scheme),
                finish,
                cuts_rest=False,
                task_name=f"a connection over {scheme}",
            )

    await serve_until_drain(running(), open_listeners(*address), shutdown, _log, on_serving)


def _url_of(scheme: str, listener: trio.SocketListener) -> str:
    address = listener.socket.getsockname()
    if isinstance(address, str):
        return f"unix://{quote(str(Path(address).absolute()))}"
    return f"{scheme}://{bracketed(address[0])}:{address[1]}"
