"""The client's end of TCP, TLS and Unix sockets: what to connect to, and the connection as a channel.

Messages are framed as over stdio, one a line (`_stream`). What listens at the other end is in `_hosts`.

Spec: 2026-07-28, basic/transports, "Custom Transports".
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, final
from urllib.parse import quote, unquote, urlsplit

import attrs
import trio

from .._channel import Received
from .._core._framing import OversizedLine
from .._core._reconnect import RestartPolicy, as_policy
from .._errors import ConnectionLost, RemoteProtocolError
from .._http._target import bracketed, check_host_length, parse_target
from .._limits import Limits, check_kind, check_port
from .._printable import Expanded, reason_of, shown, shown_url, values_in, without_tls, without_values
from .._trio import open_unix_socket
from ._stream import StreamChannel

SCHEMES: Final = frozenset({"tcp", "tls", "unix"})
"""The schemes of URLs that name a socket."""


FIRST_BYTES: Final = 200
"""How much an error shows of what a server has sent that speaks another protocol."""

_HOST: Final = re.compile(r"[^\x00-\x20\x7f/?#@\\\[\]]+")


def _check_host(_instance: object, _attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"host must be a string, not {type(value).__name__}")
    if not _HOST.fullmatch(value):
        raise ValueError(f"host must be a name or an address without brackets, not {shown(value)}")
    if ":" not in value and value.isascii():
        check_host_length(value)


def _check_port(_instance: object, _attribute: attrs.Attribute[Any], value: object) -> None:
    check_port(value)


def _check_tls(_instance: object, _attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (bool, ssl.SSLContext)):
        raise TypeError(f"tls must be True, False or an ssl.SSLContext, not {type(value).__name__}")


def _check_path(_instance: object, _attribute: attrs.Attribute[Any], value: str) -> None:
    if not value or "\0" in value:
        raise ValueError(f"path must be that of a Unix socket, not {shown(value)}")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        raise ValueError(f"path must be one that a file can have, not {shown(value)}") from None


def _path(path: str | os.PathLike[str]) -> str:
    check_kind("path", path, str | os.PathLike)
    return Expanded.of(str(Path(path)), values_in(path))  # `Path` refuses what is no path of text


@final
@attrs.frozen
class TcpServerParameters:
    """A server that listens at a port, with one message a line; see `serve_tcp`.

    Attributes:
        host: Its name or address.
        port: Its port.
        tls: Whether the connection is encrypted: ``True`` with the certificates that the system trusts, or a
            context with those to trust, and perhaps one of the client's own.
        restart: When to connect again after the connection was lost: never, or by a policy, or ``True`` for the
            policy with its defaults. Requests under way then fail; later ones wait for the new connection.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: There is no such host or port.
    """

    host: str = attrs.field(validator=_check_host)
    port: int = attrs.field(validator=_check_port)
    tls: bool | ssl.SSLContext = attrs.field(default=False, kw_only=True, validator=_check_tls)
    restart: RestartPolicy | None = attrs.field(default=None, kw_only=True, converter=as_policy)

    @property
    def url(self) -> str:
        """Its URL."""
        url = f"{'tls' if self.tls else 'tcp'}://{bracketed(self.host)}:{self.port}"
        return Expanded.of(url, values_in(self.host))


@final
@attrs.frozen
class UnixServerParameters:
    """A server that listens at a Unix socket, with one message a line; see `serve_unix`.

    Attributes:
        path: Where the socket is.
        restart: As for `TcpServerParameters`.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: The path cannot be that of a socket.
    """

    path: str = attrs.field(converter=_path, validator=_check_path)
    restart: RestartPolicy | None = attrs.field(default=None, kw_only=True, converter=as_policy)

    @property
    def url(self) -> str:
        """Its URL."""
        return Expanded.of(f"unix://{quote(os.fsencode(Path(self.path).absolute()))}", values_in(self.path))


SocketServerParameters: TypeAlias = TcpServerParameters | UnixServerParameters


def parse_socket_url(url: str) -> SocketServerParameters:
    """Parse the URL of a socket: ``tcp://host:port``, ``tls://host:port`` or ``unix:///path``.

    Raises:
        ValueError: It is malformed, or has more than that in it.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme == "unix":
        parts = urlsplit(url)
        path = unquote(parts.path)
        if parts.netloc or parts.query or parts.fragment or not path.startswith("/") or "\0" in path:
            raise ValueError(f"the URL of a Unix socket is like unix:///run/mcp.sock, not {shown_url(url)!r}")
        return UnixServerParameters(Expanded.of(path, values_in(url)))
    target = parse_target(f"http://{rest}", given=url)
    if urlsplit(f"http://{rest}").port is None or target.path != "/" or "?" in rest or "#" in rest:
        raise ValueError(f"the URL of a socket is like {scheme}://example.com:8000, not {shown_url(url)!r}")
    host = Expanded.of(target.host, target.secrets)
    return TcpServerParameters(host, target.port, tls=scheme == "tls")


@final
class _SocketChannel(StreamChannel):
    """A connection to a server, which notices before the first message that another protocol is spoken there."""

    _has_spoken: bool = False  # our language
    _first_line: bytes | None = None  # which was no message

    def _received(self, lines: Sequence[bytes | OversizedLine]) -> Sequence[Received]:
        if not self._has_spoken:
            self._look_at(lines)
        return super()._received(lines)

    def _look_at(self, lines: Sequence[bytes | OversizedLine]) -> None:
        for line in lines:
            head = line if isinstance(line, bytes) else line.head
            if head.lstrip().startswith((b"{", b"[")):
                self._has_spoken = True
                return
            self._first_line = self._first_line or head
        # A banner may come before the first message; a server of HTTP may wait for more and never send one.
        first = self._first_line
        if first is not None and (self._at_end or first.startswith(b"HTTP/")):
            shown = first[:FIRST_BYTES].decode("utf-8", "replace").strip()
            problem = f"{self.description} speaks another protocol; what it has sent begins with: {shown}"
            raise ConnectionLost(problem) from RemoteProtocolError(problem)


@asynccontextmanager
async def open_socket(parameters: SocketServerParameters, limits: Limits) -> AsyncGenerator[StreamChannel]:
    """Connect to a socket, and close the connection on leaving.

    Args:
        parameters: What to connect to.
        limits: `Limits.max_message_bytes` bounds a line, `Limits.goodbye_timeout` how long closing may take.

    Raises:
        ConnectionLost: It cannot be connected to.
    """
    url = without_values(parameters.url)
    try:
        stream = await _connect(parameters)
    except (OSError, RuntimeError, UnicodeError) as error:  # Trio: `RuntimeError` where there are no Unix sockets
        raise ConnectionLost(f"could not connect to {url}: {reason_of(error)}") from error
    except trio.BrokenResourceError as error:
        cause = error.__cause__ or error
        problem = getattr(cause, "reason", None) or str(cause) or type(cause).__name__
        problem += without_tls(problem, "tcp")
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = f"{problem}: {cause.verify_message}"
        raise ConnectionLost(f"could not connect to {url}: TLS failed: {problem}") from error
    channel = _SocketChannel(
        stream, stream, max_message_bytes=limits.max_message_bytes, description=f"the server at {url}"
    )
    channel.transport = url.partition(":")[0]
    try:
        yield channel
    finally:
        with trio.move_on_after(limits.goodbye_timeout, shield=True):
            await channel.aclose()


async def _connect(parameters: SocketServerParameters) -> trio.abc.Stream:
    """Connect. Cancelled, nothing is left open."""
    if isinstance(parameters, UnixServerParameters):
        return await open_unix_socket(parameters.path)
    stream = await trio.open_tcp_stream(parameters.host, parameters.port)
    if not parameters.tls:
        return stream
    context = ssl.create_default_context() if parameters.tls is True else parameters.tls
    secured = trio.SSLStream(stream, context, server_hostname=parameters.host.partition("%")[0])
    try:
        await secured.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secured
