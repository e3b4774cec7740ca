"""An internet of a test: names that stand for other addresses each time, and addresses that lead to listeners here."""

# pyright: reportArgumentType=false, reportUnknownMemberType=false
# trustme takes the contexts of a library that is not here as well.

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, final

import trio
import trustme

from trio_mcp import HttpSettings

Answer = tuple[int, Mapping[str, str], object]
Site = Callable[[str, str, str], Answer]
"""Answers a request: method, host, path."""


@final
class Internet(trio.abc.HostnameResolver, trio.abc.SocketFactory):
    """Resolves names, and connects to addresses.

    Args:
        names: The addresses of each name, separated by blanks; a list is one answer after the other, and the last
            of it stays.

    Attributes:
        connected: The addresses that were connected to, in order.
        asked: The requests that came, in order: method, host, path.
    """

    def __init__(self, names: Mapping[str, str | list[str]]) -> None:
        self._names = {name: [each] if isinstance(each, str) else list(each) for name, each in names.items()}
        self._ports: dict[str, int] = {}
        self.connected: list[str] = []
        self.asked: list[tuple[str, str, str]] = []
        self._authority: Final = trustme.CA()

    @property
    def settings(self) -> HttpSettings:
        context = ssl.create_default_context()
        self._authority.configure_trust(context)
        return HttpSettings(ssl_context=context, use_environment_proxies=False)

    async def getaddrinfo(
        self, host: bytes | None, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        await trio.lowlevel.checkpoint()
        name = host.decode() if isinstance(host, bytes) else str(host)
        answers = self._names.get(name)
        if answers is None:
            raise OSError("no such name")
        addresses = (answers.pop(0) if len(answers) > 1 else answers[0]).split()
        return [
            (
                trio.socket.AF_INET6 if ":" in address else trio.socket.AF_INET,
                trio.socket.SOCK_STREAM,
                6,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        raise NotImplementedError

    def socket(self, family: int = 0, type: int = 0, proto: int = 0) -> trio.socket.SocketType:
        made = trio.socket.from_stdlib_socket(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        connect = made.connect

        async def connect_here(address: Any) -> None:
            self.connected.append(address[0])
            if address[0] not in self._ports:
                await trio.lowlevel.checkpoint()
                raise OSError("nobody is there")
            await connect(("127.0.0.1", self._ports[address[0]]))
            made.getpeername = lambda: tuple(address)  # type: ignore[method-assign]

        made.connect = connect_here  # type: ignore[method-assign]
        return made

    @asynccontextmanager
    async def running(self, sites: Mapping[str, Site]) -> AsyncGenerator[None]:
        """Serve sites at addresses, over TLS, by certificates for every name."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(*self._names).configure_cert(context)
        async with trio.open_nursery() as nursery:
            for address, site in sites.items():
                listener = socket.create_server(("127.0.0.1", 0))
                listener.setblocking(False)
                self._ports[address] = listener.getsockname()[1]
                listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
                serve = partial(self._serve, site, context)
                await nursery.start(partial(trio.serve_listeners, serve, listeners))
            trio.socket.set_custom_hostname_resolver(self)
            trio.socket.set_custom_socket_factory(self)
            try:
                yield
            finally:
                trio.socket.set_custom_hostname_resolver(None)
                trio.socket.set_custom_socket_factory(None)
                nursery.cancel_scope.cancel()

    async def _serve(self, site: Site, context: ssl.SSLContext, plain: trio.SocketStream) -> None:
        stream = trio.SSLStream(plain, context, server_side=True, https_compatible=True)
        try:
            data = b""
            while b"\r\n\r\n" not in data:
                more = await stream.receive_some()
                if not more:
                    return
                data += more
            head = data.partition(b"\r\n\r\n")[0].decode().splitlines()
            method, path, _ = head[0].split()
            host = next(line.split()[1] for line in head if line.lower().startswith("host:"))
            self.asked.append((method, host, path))
            status, fields, document = site(method, host, path)
            body = json.dumps(document).encode()
            lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Content-Type: application/json"]
            lines += [f"{name}: {value}" for name, value in fields.items()]
            await stream.send_all("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)
