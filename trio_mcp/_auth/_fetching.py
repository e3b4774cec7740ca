"""Requests to authorization servers: documents, registrations, tokens; and where no such request may go.

A server names URLs, so it could have a client call what only the client can reach. Hence: TLS, but from this
machine to itself; no address that is nearer than the server, but for what the user has named; no redirect to
another address; and little time, and few bytes, for each. Where something is, is decided by the addresses that
connections go to, and not by what a name stands for at another moment. Behind a forward proxy, which resolves the
names, only hosts that are addresses, and names of this machine, can be judged.

Spec: 2026-07-28, basic/authorization/security-considerations; security best practices, "Server-Side Request
    Forgery".
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, final
from urllib.parse import parse_qsl

import attrs
import trio

from .._codec import _json
from .._codec._json import is_object
from .._core._http_rules import JSON, media_type_of
from .._errors import AuthorizationFailed, ConnectionLost, McpError, RemoteProtocolError
from .._http._auth import ProtectedServer
from .._http._client import open_http_client, send_following
from .._http._cookies import CookieTransport
from .._http._messages import HttpRequest, HttpTransport
from .._http._target import HttpTarget, parse_target
from .._oauth._clients import refusal_in
from .._oauth._metadata import (
    MAX_DOCUMENT_BYTES,
    AuthorizationServerMetadata,
    Fetch,
    Fetched,
    Place,
    address_in,
    is_loopback,
    place_of,
    split_url,
    tells_secrets,
)
from .._oauth._tokens import TokenRequest
from .._printable import printable, secrets_in, shown_url, without_secrets

REQUEST_SECONDS: Final = 10.0
"""How long one request to an authorization server may take."""

CODES: Final = frozenset(
    (
        *("invalid_grant", "invalid_client", "invalid_request", "invalid_scope", "invalid_target"),
        *("unauthorized_client", "unsupported_grant_type", "access_denied", "server_error"),
        *("authorization_pending", "slow_down", "expired_token", "use_dpop_nonce", "invalid_dpop_proof"),
        *("invalid_redirect_uri", "invalid_client_metadata"),
    )
)
"""What OAuth calls errors."""

FORM: Final = "application/x-www-form-urlencoded"

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
        secrets: What was sent in secret. A document that says why there is nothing does not repeat it.
    """

    status: int
    document: object = attrs.field(repr=False)
    nonce: str | None = None
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)


@final
class UnusableAnswer(AuthorizationFailed):
    """There was an answer, and nobody can read it: it is too large, or in a coding that is not known."""


@final
class Fetcher:
    """Sends requests to authorization servers.

    Args:
        server: The server whose tokens are wanted.
        insecure_hosts: Hosts that may be spoken to without TLS, and be anywhere.
        named: URLs that the user has named: these may be in private networks, too.

    Attributes:
        client: Carries the requests.
    """

    client: HttpTransport

    def __init__(
        self, server: ProtectedServer, insecure_hosts: Collection[str], named: Iterable[str | None] = ()
    ) -> None:
        self._server = server
        self._insecure_hosts = frozenset(host.lower() for host in insecure_hosts)
        self._named: set[str] = set()
        self._near: dict[str, str] = {}  # where those of them are that are not on the internet
        self._is_by_server = False
        self._trust(named)

    def _trust(self, urls: Iterable[str | None]) -> None:
        for url in urls:
            with suppress(ValueError):  # which is said when it is used
                self._named |= {parse_target(url).address} if url is not None else set()

    def trust_endpoints(self, server: AuthorizationServerMetadata) -> None:
        """Let an authorization server that the user has named, and that is in a private network, name others."""
        with suppress(ValueError):
            if parse_target(server.issuer).address in self._near:
                self._trust((server.token_endpoint, server.authorization_endpoint, server.registration_endpoint))
                self._trust((server.revocation_endpoint, server.device_authorization_endpoint))

    @property
    def place(self) -> Place:
        """Where the server is, by where connections went."""
        return self._server._place

    def _is_own(self, target: HttpTarget) -> bool:
        return target.address == self._server._target.address

    def check(self, url: str) -> HttpTarget:
        """Check that a URL may be called, as far as it says where it leads: names are looked at when resolved.

        Raises:
            AuthorizationFailed: It may not.
        """
        try:
            host = (split_url(url).hostname or "").lower()
            target = parse_target(url)
        except ValueError as error:
            raise AuthorizationFailed(f"the URL {shown_url(url)[:200]!r} cannot be used: {error}") from None
        own = self._server._target
        if own.socket_path is not None and target.address == own.documented_address:
            return attrs.evolve(target, socket_path=own.socket_path)  # the server itself, by its socket
        if host in self._insecure_hosts:
            return target
        is_here = is_loopback(target.host)
        if not target.is_secure and not (is_here and self.place is Place.HERE):
            raise AuthorizationFailed(
                f"{target.address} is not https, so what it says, and is told, could be somebody else's; "
                "insecure_hosts names hosts for which that is accepted"
            )
        is_plain = "." not in target.host.strip(".") and ":" not in target.host and not is_here
        is_known = self._is_own(target) or target.address in self._named
        if is_plain and not is_known and self.place is Place.FAR and address_in(target.host) is None:
            # Behind a forward proxy nothing else shows where it leads.
            raise AuthorizationFailed(
                f"{target.address} is a name of a private network, nearer than the server that names it: it is "
                "not called"
            )
        literal = address_in(target.host) or ("127.0.0.1" if is_here else None)
        if literal is not None:
            self.admit(target, literal)
        return target

    def admit(self, target: HttpTarget, address: str) -> None:
        """Check an address before a connection to it is made; see `HttpClient`.

        Raises:
            AuthorizationFailed: It is nearer than the server, whose word is not enough for that; or clouds tell
                their machines secrets there.
        """
        place, is_own = place_of(address), self._is_own(target)
        is_named = target.address in self._named and not self._is_by_server
        if place is Place.FAR or target.host.lower() in self._insecure_hosts:
            return
        if is_own and self._server._reached.place is None:
            return  # the first connection to the server itself, which shows where that is
        is_of_clouds = tells_secrets(address) and not is_own
        if is_of_clouds or (place < self.place and not is_named):
            why = "where clouds set up their machines" if is_of_clouds else "nearer than the server that names it"
            raise AuthorizationFailed(
                f"{target.address} is on this machine or in a private network ({printable(address)}), {why}: it "
                "is not called"
            )

    def note(self, target: HttpTarget, address: str | None) -> None:
        """Take note of a connection; see `OnConnected`."""
        if self._is_own(target):
            self._server._reached.note(target, address)
        if target.address in self._named and address is not None and place_of(address) is not Place.FAR:
            self._near[target.address] = address

    async def get(self, fetch: Fetch) -> Fetched:
        """Fetch a document.

        Raises:
            AuthorizationFailed: It may not be fetched, or there is no answer.
        """
        target = self.check(fetch.url)
        headers = [(b"Accept", JSON.encode())]
        headers += [(name.encode("ascii"), value.encode("ascii")) for name, value in fetch.headers]
        request = HttpRequest(method="GET", target=target, headers=headers)
        # What the user has named is no place for whatever a server would have fetched there.
        self._is_by_server = fetch.is_hint
        try:
            if fetch.is_hint and target.address in self._near:
                self.admit(target, self._near[target.address])
            answer = await self._send(request, MAX_REDIRECTS)
        finally:
            self._is_by_server = False
        return Fetched(answer.status, answer.document)

    async def post(self, request: TokenRequest, more: Mapping[str, str] | None = None) -> Posted:
        """Send a request with a body.

        Args:
            request: The request.
            more: Further header fields.

        Raises:
            AuthorizationFailed: It may not be sent, or there is no answer.
        """
        target = self.check(request.url)
        fields = [*request.headers, *(more or {}).items()]
        headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in fields]
        sent = HttpRequest(method="POST", target=target, headers=headers, body=request.body)
        return await self._send(sent, 0, (*request.secrets, *secrets_in(headers)))

    def _transport(self, target: HttpTarget) -> HttpTransport:
        given: HttpTransport | None = self._server._transport
        if given is not None and self._is_own(target):
            return given
        return self.client

    async def _send(self, request: HttpRequest, redirects: int, secrets: tuple[str, ...] = ()) -> Posted:
        address = request.target.address
        with trio.move_on_after(REQUEST_SECONDS):
            try:
                transport = self._transport(request.target)
                async with await send_following(
                    transport, request, urgent=True, max_redirects=redirects
                ) as response:
                    if 300 <= response.status < 400 and redirects:
                        raise AuthorizationFailed(
                            f"{address} answered with a redirect (HTTP status {response.status}) that is not "
                            "followed"
                        )
                    status = response.status
                    if status >= 300:  # what is refused by a page that is long, or cannot be read, is refused
                        try:
                            body = await response.read_excerpt(MAX_DOCUMENT_BYTES)
                        except RemoteProtocolError as error:
                            body = json.dumps({"message": str(error)}).encode()
                    else:
                        body = await response.read(MAX_DOCUMENT_BYTES, "MAX_DOCUMENT_BYTES")
                    document = _decoded(body)
                    if media_type_of(response.headers.get("content-type")) == FORM:
                        document = _error_in_form(body)
                    if refusal_in(status, document) is not None:
                        document = _without_secrets(document, secrets)
                    nonce = response.headers.get("dpop-nonce")
                    return Posted(status=status, document=document, nonce=nonce, secrets=secrets)
            except AuthorizationFailed:
                raise
            except McpError as error:
                text = without_secrets(str(error), secrets)
                cause = error if text == str(error) else None  # or it would be shown after all
                if isinstance(error, RemoteProtocolError):
                    raise UnusableAnswer(
                        f"{address} has answered, but not so that it can be used: {text}"
                    ) from cause
                raise AuthorizationFailed(
                    f"{address} could not be asked: {text}", may_pass=isinstance(error, ConnectionLost)
                ) from cause
        raise AuthorizationFailed(f"{address} has not answered within {REQUEST_SECONDS:g} s", may_pass=True)


def _without_secrets(document: object, secrets: tuple[str, ...]) -> object:
    """Return why there is nothing, without what was sent in secret.

    The codes that decide what follows stay what they are: a secret may be a word of one.
    """
    shown: object = without_secrets(document, secrets)
    code = document.get("error") if is_object(document) else None
    if is_object(shown) and isinstance(code, str) and code in CODES:
        shown["error"] = code
    return shown


def _decoded(body: bytes) -> object:
    try:
        value: Any = _json.decode(body)
    except (ValueError, RecursionError):
        return None
    return value


def _error_in_form(body: bytes) -> object:
    """Return the error in an answer that is a form, such as GitHub's; `None` if there is none."""
    form = dict(parse_qsl(body.decode(errors="replace")))
    return {name: form[name] for name in ("error", "error_description") if name in form} or None


@asynccontextmanager
async def open_fetcher(
    server: ProtectedServer, insecure_hosts: Collection[str], named: Iterable[str | None] = ()
) -> AsyncGenerator[Fetcher]:
    """Open what calls the authorization servers of a server, for as long as the block runs."""
    fetcher = Fetcher(server, insecure_hosts, named)
    settings = server._settings
    async with open_http_client(settings, admit=fetcher.admit, on_connected=fetcher.note) as client:
        fetcher.client = CookieTransport(client, server._reached.cookies)
        yield fetcher
