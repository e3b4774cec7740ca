"""Requests to authorization servers: documents, registrations, tokens; and where no such request may go.

A server names URLs, so it could have a client call what only the client can reach. Hence: TLS, but on this
machine; no address of a private network, unless the server is in one; no redirect to another address; and little
time, and few bytes, for each.

Spec: 2026-07-28, basic/authorization/security-considerations; security best practices, "Server-Side Request
    Forgery".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, final

import attrs
import trio

from .._codec import _json
from .._core._http_rules import JSON
from .._errors import AuthorizationFailed, McpError
from .._http._auth import ProtectedServer
from .._http._client import open_http_client, send_following
from .._http._messages import HttpRequest, HttpTransport
from .._http._target import HttpTarget, parse_target, shown_url
from .._oauth._metadata import (
    MAX_DOCUMENT_BYTES,
    Fetch,
    Fetched,
    is_address,
    is_link_local,
    is_loopback,
    is_public_address,
    split_url,
)
from .._oauth._tokens import TokenRequest
from .._printable import printable

REQUEST_SECONDS: Final = 15.0
"""How long one request to an authorization server may take."""

MAX_REDIRECTS: Final = 3
"""How many redirects are followed for a document, all of them at its own address."""


@final
@attrs.frozen(kw_only=True)
class Posted:
    """The answer to a POST.

    Attributes:
        status: The HTTP status.
        document: The body, decoded; `None` if it is not JSON.
        nonce: What proofs for this server must show (``DPoP-Nonce``).
    """

    status: int
    document: object = attrs.field(repr=False)
    nonce: str | None = None


@final
class Fetcher:
    """Sends requests to authorization servers.

    Args:
        server: The server whose tokens are wanted.
        insecure_hosts: Hosts that may be spoken to without TLS.

    Attributes:
        client: Carries the requests.
    """

    client: HttpTransport

    def __init__(self, server: ProtectedServer, insecure_hosts: Collection[str]) -> None:
        self._server = server
        self._insecure_hosts = frozenset(host.lower() for host in insecure_hosts)
        self._is_local: bool | None = None

    async def is_local(self) -> bool:
        """Return whether the server is on this machine, or in a private network."""
        if self._is_local is None:
            self._is_local = await self._find_local()
        else:
            await trio.lowlevel.checkpoint()
        return self._is_local

    async def _find_local(self) -> bool:
        target = self._server._target  # noqa: SLF001 - opaque to users
        if target.socket_path is not None or self._server._transport is not None:  # noqa: SLF001 - opaque to users
            await trio.lowlevel.checkpoint()
            return True
        # A server on the internet may have a private address among its own: that makes it no local one.
        found = await resolved(target)
        return (bool(found) and not any(map(is_public_address, found))) or is_loopback(target.host)

    async def check(self, url: str) -> HttpTarget:
        """Check that a URL may be called.

        Raises:
            AuthorizationFailed: It may not.
        """
        try:
            host = (split_url(url).hostname or "").lower()
            target = parse_target(url)
        except ValueError as error:
            raise AuthorizationFailed(f"the URL {shown_url(url)[:200]!r} cannot be used: {error}") from None
        if host in self._insecure_hosts:
            await trio.lowlevel.checkpoint()
            return target
        local = await self.is_local()
        if not target.is_secure and not (local and is_loopback(target.host)):
            raise AuthorizationFailed(
                f"{target.address} is not https, so what it says, and is told, could be somebody else's; "
                "insecure_hosts names hosts for which that is accepted"
            )
        if is_loopback(target.host) and not local:
            raise self._private(target, target.host)
        if is_address(target.host):  # names are looked at when they are resolved
            self.admit(target, target.host)
        return target

    def admit(self, target: HttpTarget, address: str) -> None:
        """Check an address before a connection to it is made; see `HttpClient`.

        Raises:
            AuthorizationFailed: It is in a private network, and the server is not; or it is link-local, where
                clouds tell their machines secrets.
        """
        own = self._server._target.address  # noqa: SLF001 - opaque to users
        if target.address == own or target.host.lower() in self._insecure_hosts:
            return
        if is_link_local(address) or not (self._is_local or is_public_address(address)):
            raise self._private(target, address)

    @staticmethod
    def _private(target: HttpTarget, address: str) -> AuthorizationFailed:
        return AuthorizationFailed(
            f"{target.address} is on this machine or in a private network ({printable(address)}), and the "
            "server that names it is not: it is not called"
        )

    async def get(self, fetch: Fetch) -> Fetched:
        """Fetch a document.

        Raises:
            AuthorizationFailed: It may not be fetched, or there is no answer.
        """
        target = await self.check(fetch.url)
        headers = [(b"Accept", JSON.encode())]
        headers += [(name.encode("ascii"), value.encode("ascii")) for name, value in fetch.headers]
        request = HttpRequest(method="GET", target=target, headers=headers)
        answer = await self._send(request, MAX_REDIRECTS)
        return Fetched(answer.status, answer.document)

    async def post(self, request: TokenRequest, more: Mapping[str, str] | None = None) -> Posted:
        """Send a request with a body.

        Args:
            request: The request.
            more: Further header fields.

        Raises:
            AuthorizationFailed: It may not be sent, or there is no answer.
        """
        target = await self.check(request.url)
        fields = [*request.headers, *(more or {}).items()]
        headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in fields]
        return await self._send(HttpRequest(method="POST", target=target, headers=headers, body=request.body), 0)

    def _transport(self, target: HttpTarget) -> HttpTransport:
        given: HttpTransport | None = self._server._transport  # noqa: SLF001 - opaque to users
        if given is not None and target.address == self._server._target.address:  # noqa: SLF001 - opaque to users
            return given
        return self.client

    async def _send(self, request: HttpRequest, redirects: int) -> Posted:
        address = request.target.address
        with trio.move_on_after(REQUEST_SECONDS):
            try:
                transport = self._transport(request.target)
                async with await send_following(
                    transport, request, urgent=True, max_redirects=redirects
                ) as response:
                    if 300 <= response.status < 400:
                        raise AuthorizationFailed(
                            f"{address} answered with a redirect (HTTP status {response.status}) that is not "
                            "followed"
                        )
                    body = await response.read(MAX_DOCUMENT_BYTES, "MAX_DOCUMENT_BYTES")
                    return Posted(
                        status=response.status,
                        document=_decoded(body),
                        nonce=response.headers.get("dpop-nonce"),
                    )
            except AuthorizationFailed:
                raise
            except McpError as error:
                raise AuthorizationFailed(f"{address} could not be asked: {error}") from error
        raise AuthorizationFailed(f"{address} has not answered within {REQUEST_SECONDS:g} s")


def _decoded(body: bytes) -> object:
    try:
        value: Any = _json.decode(body)
    except (ValueError, RecursionError):
        return None
    return value


async def resolved(target: HttpTarget) -> list[str]:
    """Return the addresses of a host; none if it has none."""
    try:
        found = await trio.socket.getaddrinfo(target.host, target.port, type=trio.socket.SOCK_STREAM)
    except OSError:
        await trio.lowlevel.checkpoint()
        return []
    return [str(each[4][0]) for each in found]


@asynccontextmanager
async def open_fetcher(server: ProtectedServer, insecure_hosts: Collection[str]) -> AsyncGenerator[Fetcher]:
    """Open what calls the authorization servers of a server, for as long as the block runs."""
    fetcher = Fetcher(server, insecure_hosts)
    async with open_http_client(server._settings, admit=fetcher.admit) as client:  # noqa: SLF001 - opaque to users
        fetcher.client = client
        yield fetcher
