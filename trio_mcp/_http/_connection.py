"""One HTTP/1.1 connection, and how it is opened: names, sockets, proxies, tunnels, TLS.

A connection serves one request at a time, and one task. It is used again only after a request and its response
were complete and regular; in every other case what is still in flight could be taken for the next response.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, final

import attrs
import trio

from .._core._http1 import HeaderField, ReadFields
from .._errors import ConnectionLost, McpError, RemoteProtocolError
from .._printable import reason_of, without_tls
from .._trio import READ_BYTES, ByteWriter, open_unix_socket, plain_stream, reader_of, readiness_of
from ._messages import HttpRequest, ResponseHead, ResponseReader, encode_head
from ._target import HttpProxy, HttpSettings, HttpTarget, bracketed, read_proxy

SENT_AT_ONCE: Final = 64 * 1024
"""A request up to this size fits into the buffers on its way. A larger one is sent while the response is read: a
server that refuses it does not read it."""

READS_AT_ONCE: Final = 16
"""How many times as much is read at once of a large body of known length."""

PROXY_READ_BYTES: Final = 4096
"""How much of a proxy's answer is read at once."""

ALPN: Final = ("http/1.1",)


@final
class HttpConnection:
    """One connection, from its stream to its end.

    Args:
        stream: Connected, and over TLS if that is wanted. Taken over.
        description: The server's address, for errors.
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
        self._stream = stream
        self._read = reader_of(stream, reads_at_once=READS_AT_ONCE, reads_on=self._expects_much)
        self._writer = ByteWriter(stream)
        self._is_readable = readiness_of(stream)
        self._description = description
        self._through_proxy = through_proxy
        self._reader = ResponseReader(description, max_head_bytes, read_fields)
        self._requests = 0
        self._sent_all = False
        self._returned_end = False

    @property
    def is_stale(self) -> bool:
        """Whether the server has ended an idle connection, or sent something without a request."""
        return self._is_readable()

    @property
    def is_reusable(self) -> bool:
        """Whether there can be another request: this one and its response are complete and regular."""
        return self._sent_all and self._reader.is_reusable

    async def aclose(self) -> None:
        """Close at once. Does not wait for the peer, as closing TLS politely would."""
        await trio.aclose_forcefully(self._stream)

    def _drop(self, number: int) -> None:
        """Have the server see the end of a request now, and not when the task that has sent it has its turn."""
        plain = plain_stream(self._stream)
        if self._requests != number or self._reader.is_complete:
            return  # it has ended for the server, and the connection may be idle, or serve another request
        if isinstance(plain, trio.SocketStream):
            self._sent_all = False  # so it is not used again
            with suppress(OSError):
                plain.socket.shutdown(socket.SHUT_RDWR)

    async def start(self, request: HttpRequest) -> ResponseHead:
        """Send a request and wait for the head of its response. Cancelled, the connection must be closed.

        Raises:
            ConnectionLost: The server closed the connection. It may have processed the request.
            LocalProtocolError: The request is not valid. Nothing was sent.
            RemoteProtocolError: The response is not HTTP.
        """
        head_bytes = encode_head(request, self._through_proxy)
        self._requests += 1
        self._sent_all = self._returned_end = False
        self._reader.begin(request.method)
        if len(head_bytes) + len(request.body) <= SENT_AT_ONCE:
            await self._send(head_bytes, request)
            return await self._receive_head()
        head: ResponseHead | None = None
        failures: list[McpError] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, head_bytes, request, name=f"sending to {self._description}")
            try:
                head = await self._receive_head()
            except McpError as error:
                failures.append(error)
            if head is None or head.status >= 400:
                nursery.cancel_scope.cancel(reason="the server has answered and does not want the rest")
        if failures:
            raise failures.pop()  # its frames have this one, and the request: kept here, it would be a cycle
        assert head is not None
        return head

    async def _send(self, head: bytes, request: HttpRequest) -> None:
        body = memoryview(request.body)
        try:
            if len(body) > SENT_AT_ONCE:  # joining them would make a second copy
                await self._writer.write(head, body[:-SENT_AT_ONCE])
                last: bytes | memoryview = body[-SENT_AT_ONCE:]
            else:
                last = head + request.body
            # Before and not after: when this task runs again, the server may have had all of it for long.
            if request.on_sent is not None:
                request.on_sent(partial(self._drop, self._requests))
            await self._writer.write(last)
            self._sent_all = True
        except trio.BrokenResourceError:
            pass  # the server may have answered before it closed the connection: reading shows it

    def _expects_much(self, _: bytes) -> bool:
        return self._reader.expected > READ_BYTES

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
            if self._returned_end:
                await trio.lowlevel.checkpoint()
            self._returned_end = True
        return data

    async def _receive_more(self) -> None:
        try:
            data = await self._read()
        except trio.BrokenResourceError as error:
            raise self._reader.hung_up() from error
        self._reader.feed(data)


def system_ssl_context() -> ssl.SSLContext:
    """Return a context with the system's trust store, which verifies names. Making it takes milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(list(ALPN))
    return context


Admit: TypeAlias = Callable[[HttpTarget, str], object]
"""Called with a server and one of its addresses before a connection to it is made; raises if there must be
none."""

OnConnected: TypeAlias = Callable[[HttpTarget, str | None], object]
"""Called with a server and the address that a connection to it was really made to, after TLS; `None` for the
address if a proxy has made it."""


@final
@attrs.define(eq=False)
class Dialer:
    """Opens connections: through a proxy, if the settings or the environment name one. Cancelled, it leaves none.

    Args:
        settings: How connections are made.
        read_fields: Reads the fields of heads.
        admit: Checks each address of a server before a connection is made to it.
        on_connected: Called when a connection is made.
    """

    _settings: HttpSettings
    _read_fields: ReadFields
    _admit: Admit | None = attrs.field(alias="admit", default=None)
    _on_connected: OnConnected | None = attrs.field(alias="on_connected", default=None)
    _ssl_context: ssl.SSLContext | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._ssl_context = self._settings.ssl_context

    async def connect(self, target: HttpTarget) -> HttpConnection:
        """Open a connection for requests.

        Raises:
            ConnectionLost: The server cannot be reached within `HttpSettings.connect_timeout`, its certificate
                cannot be trusted, or the proxy refuses.
        """
        proxy = chosen_proxy(target, self._settings)
        return HttpConnection(
            await self.open_stream(target),
            target.address,
            max_head_bytes=self._settings.max_head_bytes,
            read_fields=self._read_fields,
            through_proxy=None if proxy is None or target.is_secure else proxy.headers,
        )

    async def open_stream(self, target: HttpTarget, *, tunnels: bool = False) -> trio.abc.Stream:
        """Open the stream of a connection.

        Args:
            target: The server.
            tunnels: Whether a proxy forwards the bytes, even without TLS, and not single requests.

        Raises:
            ConnectionLost: As for `connect`.
        """
        proxy = chosen_proxy(target, self._settings)
        timeout = self._settings.connect_timeout
        with trio.move_on_after(timeout):
            stream = await self._open(target, proxy, tunnels=tunnels)
            if self._on_connected is not None and target.socket_path is None:
                self._on_connected(target, _peer_of(stream) if proxy is None else None)
            return stream
        through = "" if proxy is None else f" through the proxy {proxy.target.address}"
        raise ConnectionLost(
            f"could not connect to {target.named}{through} within {timeout:g} s (connect_timeout)"
        )

    async def _open(self, target: HttpTarget, proxy: HttpProxy | None, *, tunnels: bool) -> trio.abc.Stream:
        if proxy is None:
            stream = await _open_socket(target, self._admit)
        else:
            name = f"{target.named}: the proxy {proxy.target.address} cannot be reached"
            stream = await _open_socket(proxy.target, name=name, hint=_proxy_hint(target, self._settings))
        try:
            if proxy is not None and proxy.target.is_secure:
                stream = await _start_tls(stream, proxy.target, system_ssl_context())
            if proxy is not None and (target.is_secure or tunnels):
                await self.open_tunnel(stream, proxy, target)
            if target.is_secure:
                self._ssl_context = self._ssl_context or system_ssl_context()
                stream = await _start_tls(stream, target, self._ssl_context)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    async def open_tunnel(self, stream: trio.abc.Stream, proxy: HttpProxy, target: HttpTarget) -> None:
        """Ask a proxy to forward bytes to a target (RFC 9110, section 9.3.6).

        Cancelled, the stream must be closed.

        Raises:
            ConnectionLost: The proxy refuses, or does not speak HTTP.
        """
        authority = f"{bracketed(target.host)}:{target.port}".encode("ascii")
        fields = b"".join(b"%b: %b\r\n" % field for field in ((b"Host", authority), *proxy.headers))
        ask = b"CONNECT %b HTTP/1.1\r\n%b\r\n" % (authority, fields)
        name = f"the proxy {proxy.target.address}"
        reader = ResponseReader(name, self._settings.max_head_bytes, self._read_fields)
        reader.begin("CONNECT")
        try:
            await stream.send_all(ask)
            while (head := reader.head) is None:
                reader.feed(bytes(await stream.receive_some(PROXY_READ_BYTES)))
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"{name} closed the connection") from error
        except RemoteProtocolError as error:
            raise ConnectionLost(str(error)) from error
        if not 200 <= head.status < 300:
            raise ConnectionLost(
                f"{name} refuses a tunnel to {target.named}: {head.status} {head.reason}".rstrip()
            )
        if reader.has_surplus:
            raise ConnectionLost(f"{name} sent bytes behind its answer, before the tunnel was used")


def chosen_proxy(target: HttpTarget, settings: HttpSettings) -> HttpProxy | None:
    """Return the proxy for a target; `None` for none.

    Raises:
        ConnectionLost: The settings or the environment name one that cannot be used.
    """
    try:
        if settings.proxy is not None and target.socket_path is None:
            return read_proxy(settings.proxy)
        return proxy_for(target) if settings.use_environment_proxies else None
    except ValueError as error:
        raise ConnectionLost(f"could not connect to {target.named}: {error}") from error


def proxy_for(target: HttpTarget) -> HttpProxy | None:
    """Return the proxy that the environment names for a target, if there is one.

    Raises:
        ValueError: The environment names a proxy that cannot be used, such as a SOCKS proxy.
    """
    if target.socket_path is not None or _is_local(target.host):
        return None
    from urllib.request import getproxies, proxy_bypass  # brings parsers of mail: not before it is needed

    proxies = getproxies()
    url = proxies.get(target.scheme) or proxies.get("all")
    if not url or proxy_bypass(f"{target.host}:{target.port}") or proxy_bypass(target.host):
        return None
    return read_proxy(url)


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _proxy_hint(target: HttpTarget, settings: HttpSettings) -> str:
    """Return who has named the proxy for a target, and what to write to do without it."""
    if settings.proxy is not None:
        return "; HttpSettings(proxy=...) names it"
    names = [name for scheme in (target.scheme, "all") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())]
    named = next((name for name in names if os.environ.get(name)), "the system's settings")
    return (
        f"; {named} names it: correct that, add {target.host} to no_proxy, "
        "or pass HttpSettings(use_environment_proxies=False)"
    )


async def _open_socket(
    target: HttpTarget, admit: Admit | None = None, *, name: str | None = None, hint: str = ""
) -> trio.abc.Stream:
    name = target.named if name is None else name
    try:
        if target.socket_path is not None:
            return await open_unix_socket(target.socket_path)
        if admit is None:
            return await trio.open_tcp_stream(target.host, target.port)
        # Resolved once: what is connected to is what was checked, whatever the name stands for a moment later.
        found = await trio.socket.getaddrinfo(target.host, target.port, type=trio.socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        for address in addresses:
            admit(target, address)
        for address in addresses[:-1]:
            with suppress(OSError):
                return await trio.open_tcp_stream(address, target.port)
        return await trio.open_tcp_stream(addresses[-1], target.port)
    except (OSError, UnicodeError) as error:  # the latter for a name that no resolver is asked for
        raise ConnectionLost(f"could not connect to {name}: {reason_of(error)}{hint}") from error
    except ExceptionGroup as group:  # of the nursery in which Trio tries one address after another
        first = group.exceptions[0]
        raise ConnectionLost(f"could not connect to {name}: {reason_of(first)}{hint}") from group


def _peer_of(stream: trio.abc.Stream) -> str | None:
    plain = plain_stream(stream)
    try:
        return str(plain.socket.getpeername()[0]) if isinstance(plain, trio.SocketStream) else None
    except OSError:  # it has left
        return None


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
            reason = getattr(cause, "reason", None) or str(cause) or type(cause).__name__
            problem = f"TLS failed: {reason}{without_tls(reason, 'ws' if target.is_websocket else 'http')}"
        raise ConnectionLost(f"could not connect to {target.named}: {problem}") from error
    return secured
