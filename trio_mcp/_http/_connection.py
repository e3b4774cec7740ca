"""One HTTP/1.1 connection: sends requests, waits for responses, and says when it can be used again.

A connection serves one request at a time, and one task. It is used again only after a request and its response
were complete and regular; in every other case what is still in flight could be taken for the next response.

Which proxy the environment names for an origin, and how it is asked for a tunnel.

The bytes of one connection of ours, plain or over TLS.

A plain socket is written and read here without Trio's own stream around it: what the system takes at once is
sent without a turn of the event loop, and an answer is waited for before anybody looks whether it is there.

From a target to a connection: names, sockets, proxies, TLS.
"""

from __future__ import annotations

import abc
import ipaddress
import select
import ssl
import sys
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast, final

import trio

from .._core._http1 import ReadFields
from .._core._http_headers import HeaderField
from .._errors import ConnectionLost, McpError, RemoteProtocolError
from .._trio import close, send_some, take_over
from ._messages import HttpRequest, ResponseHead, ResponseReader, encode_request
from ._target import HttpProxy, HttpSettings, HttpTarget, read_proxy

PROXY_ANSWER_READ_BYTES: Final = 4096


def proxy_for(target: HttpTarget) -> HttpProxy | None:
    """Return the proxy that the environment names for a target, if it is to be asked through one.

    Raises:
        ValueError: It names one that we cannot use, such as a SOCKS proxy.
    """
    if target.socket_path is not None or _is_local(target.host):
        return None
    proxies = urllib.request.getproxies()
    url = proxies.get(target.scheme) or proxies.get("all")
    if not url or urllib.request.proxy_bypass(f"{target.host}:{target.port}"):
        return None
    if urllib.request.proxy_bypass(target.host):
        return None
    return read_proxy(url)


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


async def open_tunnel(
    stream: trio.abc.Stream,
    proxy: HttpProxy,
    target: HttpTarget,
    *,
    max_head_bytes: int,
    read_fields: ReadFields,
) -> None:
    """Ask a proxy to pass bytes on to a target (RFC 9110, section 9.3.6). Cancelled, the stream is of no use.

    Raises:
        ConnectionLost: It refuses, or does not speak HTTP.
    """
    host = f"[{target.host}]" if ":" in target.host else target.host
    authority = f"{host}:{target.port}".encode("ascii")
    import h11  # few programs use a proxy

    connection = h11.Connection(h11.CLIENT)
    headers = [(b"Host", authority), *proxy.headers]
    ask = connection.send(h11.Request(method=b"CONNECT", target=authority, headers=headers))
    ask += connection.send(h11.EndOfMessage())
    name = f"the proxy {proxy.target.origin}"
    # What it answers is read like any other response: h11 alone is lenient, and slow with many blanks.
    reader = ResponseReader(name, max_head_bytes, read_fields)
    reader.begin("CONNECT")
    try:
        await stream.send_all(ask)
        while (head := reader.head) is None:
            reader.feed(bytes(await stream.receive_some(PROXY_ANSWER_READ_BYTES)))
    except trio.BrokenResourceError as error:
        raise ConnectionLost(f"{name} closed the connection") from error
    except RemoteProtocolError as error:
        raise ConnectionLost(str(error)) from error
    if not 200 <= head.status < 300:
        raise ConnectionLost(f"{name} refuses a tunnel to {target.origin}: {head.status} {head.reason}".rstrip())
    if reader.has_surplus:
        raise ConnectionLost(f"{name} sent what nobody asked for")


READ_BYTES: Final = 64 * 1024


class Wire(abc.ABC):
    """The bytes of a connection. One task sends and one receives at a time."""

    @abc.abstractmethod
    async def send(self, data: bytes | memoryview) -> None:
        """Send all of it. Cancelled before that, it sends nothing; it waits only if it must.

        Raises:
            trio.BrokenResourceError: The other side is gone.
        """

    @abc.abstractmethod
    async def receive(self) -> bytes:
        """Wait for what comes next; nothing once nothing will come.

        Raises:
            trio.BrokenResourceError: The connection broke.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Close it at once, without another word."""

    @property
    @abc.abstractmethod
    def is_readable(self) -> bool:
        """Whether something has come, or the end of it."""


def wire_over(stream: trio.abc.Stream) -> Wire:
    """Return what moves bytes over a stream, which it takes over."""
    return _SocketWire(stream) if isinstance(stream, trio.SocketStream) else _StreamWire(stream)


@final
class _SocketWire(Wire):
    """A plain socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._socket = take_over(stream)
        self._is_readable = _readable(self._socket.fileno())

    async def send(self, data: bytes | memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        sent = send_some(self._socket, data)
        if sent < len(data):
            with memoryview(data) as rest:
                while sent < len(data):
                    await trio.lowlevel.wait_writable(self._socket)
                    sent += send_some(self._socket, rest[sent:])

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(READ_BYTES)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError("the connection broke") from error

    async def aclose(self) -> None:
        close(self._socket)
        await trio.lowlevel.checkpoint()

    @property
    def is_readable(self) -> bool:
        return self._is_readable()


@final
class _StreamWire(Wire):
    """Any other stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        plain: object = stream
        while isinstance(plain, trio.SSLStream):
            plain = cast("trio.SSLStream[trio.abc.Stream]", plain).transport_stream
        self._is_readable = (
            _readable(plain.socket.fileno()) if isinstance(plain, trio.SocketStream) else lambda: False
        )

    async def send(self, data: bytes | memoryview) -> None:
        await self._stream.send_all(data)

    async def receive(self) -> bytes:
        return bytes(await self._stream.receive_some(READ_BYTES))

    async def aclose(self) -> None:
        # Polite closing may wait for the other side, and nobody waits here.
        await trio.aclose_forcefully(self._stream)

    @property
    def is_readable(self) -> bool:
        return self._is_readable()


def _readable(fd: int) -> Callable[[], bool]:
    """Return what tells whether there is something to read."""
    if sys.platform != "win32":  # where `select` knows no descriptors above 1023
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        look: Callable[[], object] = partial(poll.poll, 0)
    else:
        look = partial(_select, fd)
    return lambda: bool(look())


def _select(fd: int) -> list[int]:
    return select.select([fd], [], [], 0)[0]


SENT_AT_ONCE: Final = 64 * 1024
"""A request up to this size fits into the buffers on its way. A larger one may only go while somebody reads its
answer: a server that refuses it does not read it."""


@final
class HttpConnection:
    """One connection, from its stream to its end.

    Args:
        stream: Connected, and over TLS if that is wanted. Taken over.
        description: What is at the other end, for errors.
        max_head_bytes: The largest head of a response.
        read_fields: Reads the fields of heads.
        through_proxy: Fields for a proxy that forwards single requests. Then the request line has the whole URL.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        description: str,
        *,
        max_head_bytes: int,
        read_fields: ReadFields,
        through_proxy: Sequence[HeaderField] | None = None,
    ) -> None:
        self._wire = wire_over(stream)
        self._description = description
        self._through_proxy = through_proxy
        self._reader = ResponseReader(description, max_head_bytes, read_fields)
        self._sent_all = False
        self._told_end = False

    @property
    def is_stale(self) -> bool:
        """Whether the other side has ended an idle connection, or said something that nobody asked for."""
        return self._wire.is_readable

    @property
    def is_reusable(self) -> bool:
        """Whether there can be another request: this one and its response are complete and regular."""
        return self._sent_all and self._reader.is_reusable

    async def aclose(self) -> None:
        """Close at once."""
        await self._wire.aclose()

    async def start(self, request: HttpRequest) -> ResponseHead:
        """Send a request and wait for the head of its response. Cancelled, the connection is good for nothing.

        Raises:
            ConnectionLost: The other side hung up. It may have done what was asked.
            LocalProtocolError: The request is none. Nothing was sent.
            RemoteProtocolError: What came is not HTTP.
        """
        data = encode_request(request, self._through_proxy)
        self._sent_all = self._told_end = False
        self._reader.begin(request.method)
        if len(data) <= SENT_AT_ONCE:
            await self._send(data, request)
            return await self._receive_head()
        head: ResponseHead | None = None
        failure: McpError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, data, request, name=f"sending to {self._description}")
            try:
                head = await self._receive_head()
            except McpError as error:
                failure = error
            if head is None or head.status >= 400:
                nursery.cancel_scope.cancel(reason="the server has answered and does not want the rest")
        if failure is not None:
            raise failure
        assert head is not None
        return head

    async def _send(self, data: bytes, request: HttpRequest) -> None:
        last = memoryview(data)[-SENT_AT_ONCE:]
        try:
            if len(data) > len(last):
                await self._wire.send(memoryview(data)[: -len(last)])
            # Before and not after: until this task runs again, the server may have had it all for long.
            if request.on_sent is not None:
                request.on_sent()
            await self._wire.send(last)
            self._sent_all = True
        except trio.BrokenResourceError:
            pass  # the server may have said why before it hung up: reading tells

    async def _receive_head(self) -> ResponseHead:
        while (head := self._reader.head) is None:
            await self._receive_more()
        return head

    async def receive_some(self) -> bytes:
        """Wait for some of the body; see `HttpResponse.receive_some`."""
        reader = self._reader
        while not (data := reader.take()) and not reader.is_complete:
            await self._receive_more()
        if not data:
            if self._told_end:
                await trio.lowlevel.checkpoint()
            self._told_end = True
        return data  # noqa: ASYNC910 - what is here is here; who asks again behind the end waits

    async def _receive_more(self) -> None:
        try:
            data = await self._wire.receive()
        except trio.BrokenResourceError as error:
            raise self._reader.hung_up() from error
        self._reader.feed(data)


ALPN: Final = ("http/1.1",)


def system_ssl_context() -> ssl.SSLContext:
    """Return a context that trusts whom the system trusts and verifies names. Making it takes milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(list(ALPN))
    return context


async def connect(
    target: HttpTarget, settings: HttpSettings, ssl_context: ssl.SSLContext | None, read_fields: ReadFields
) -> HttpConnection:
    """Open a connection to the origin of a target, through a proxy if the settings or the environment name one.

    Cancelled, it leaves nothing open.

    Raises:
        ConnectionLost: It cannot be reached, takes longer than `HttpSettings.connect_timeout`, is not who it says
            it is, or the proxy refuses.
    """
    try:
        proxy = _proxy_for(target, settings)
    except ValueError as error:
        raise ConnectionLost(f"could not connect to {target.origin}: {error}") from error
    with trio.move_on_after(settings.connect_timeout):
        stream = await _connect(target, proxy, settings, ssl_context, read_fields)
        return HttpConnection(
            stream,
            target.origin,
            max_head_bytes=settings.max_head_bytes,
            read_fields=read_fields,
            through_proxy=None if proxy is None or target.is_secure else proxy.headers,
        )
    through = "" if proxy is None else f" through the proxy {proxy.target.origin}"
    raise ConnectionLost(
        f"could not connect to {target.origin}{through} within {settings.connect_timeout:g} s (connect_timeout)"
    )


def _proxy_for(target: HttpTarget, settings: HttpSettings) -> HttpProxy | None:
    if settings.proxy is not None and target.socket_path is None:
        return read_proxy(settings.proxy)
    return proxy_for(target) if settings.use_environment_proxies else None


async def _connect(
    target: HttpTarget,
    proxy: HttpProxy | None,
    settings: HttpSettings,
    ssl_context: ssl.SSLContext | None,
    read_fields: ReadFields,
) -> trio.abc.Stream:
    stream = await _open_stream(target if proxy is None else proxy.target)
    try:
        if proxy is not None and proxy.target.is_secure:
            stream = await _start_tls(stream, proxy.target, system_ssl_context())
        if proxy is not None and target.is_secure:
            max_head_bytes = settings.max_head_bytes
            await open_tunnel(stream, proxy, target, max_head_bytes=max_head_bytes, read_fields=read_fields)
        if target.is_secure:
            stream = await _start_tls(stream, target, ssl_context or system_ssl_context())
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def _open_stream(target: HttpTarget) -> trio.abc.Stream:
    try:
        if target.socket_path is not None:
            return await trio.open_unix_socket(target.socket_path)
        return await trio.open_tcp_stream(target.host, target.port)
    except OSError as error:
        raise ConnectionLost(f"could not connect to {target.origin}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Say in a few words why: Trio puts the errors of all addresses into a group behind the one it raises."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        reasons = dict.fromkeys(_reason(each) for each in cause.exceptions)  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType,reportUnknownArgumentType]
        return "; ".join(reasons)
    if isinstance(cause, OSError):
        return _reason(cause)
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


async def _start_tls(stream: trio.abc.Stream, target: HttpTarget, context: ssl.SSLContext) -> trio.abc.Stream:
    secured = trio.SSLStream(
        stream, context, server_hostname=target.host.partition("%")[0], https_compatible=True
    )
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        cause = error if error.__cause__ is None else error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = f"its certificate cannot be trusted: {cause.verify_message}"
        else:
            problem = f"TLS failed: {getattr(cause, 'reason', None) or str(cause) or type(cause).__name__}"
        raise ConnectionLost(f"could not connect to {target.origin}: {problem}") from error
    return secured
