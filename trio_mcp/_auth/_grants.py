"""The ways of OAuth in which a client has tokens: `OAuth`, by which a person logs in, and those of programs.

    OAuth                authorization code with PKCE, and refresh tokens
    ClientCredentials    a program in its own name, with a secret or a key
    EnterpriseManaged    a person who is logged in at an identity provider, whose organisation has decided
    WorkloadIdentity     a program that its platform vouches for

Spec: 2026-07-28, basic/authorization; extensions io.modelcontextprotocol/oauth-client-credentials and
enterprise-managed-authorization.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from typing import Final, TypeAlias, final
from urllib.parse import urlsplit

import attrs
import trio

from .._errors import AuthorizationFailed, ClientUnknown
from .._http._auth import ProtectedServer
from .._http._target import HttpSettings, parse_target
from .._limits import KIB, valid_positive
from .._logs import Log
from .._oauth._clients import (
    ClientAuthMethod,
    OAuthClient,
    PrivateKeyJwt,
    check_metadata_url,
    choose_method,
    read_registration,
    registration_body,
    unknown_client,
)
from .._oauth._code import LoginAttempt, begin_login, scope_text, scopes_to_request
from .._oauth._metadata import AuthorizationServerMetadata, Discovered
from .._oauth._tokens import (
    ID_JAG,
    ID_JAG_PROFILE,
    JWT_BEARER,
    TOKEN_EXCHANGE,
    TOKEN_TYPES,
    TokenRequest,
    TokenSet,
    read_exchanged,
)
from .._printable import printable
from .._trio import open_hidden_nursery
from ._fetching import open_fetcher
from ._listener import LoginListener, OpenPage, open_in_browser, open_listener
from ._session import TokenFlow, TokenGrant, Wish
from ._stores import MemoryTokenStore, TokenStore

_log: Final = Log("trio_mcp.auth")

TokenSource: TypeAlias = str | os.PathLike[str] | Callable[[], str | Awaitable[str]]
"""Where a token comes from: a file, which is read each time, or a plain or async function."""

MAX_TOKEN_FILE: Final = 64 * KIB
"""The largest file with a token."""

REGISTER_AGAIN: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Refusals that mean that a registration is not good any more."""


def _scopes(given: Collection[str] | str | None) -> frozenset[str] | None:
    if given is None:
        return None
    return frozenset(given.split() if isinstance(given, str) else given)


def _hosts(given: Collection[str]) -> frozenset[str]:
    if isinstance(given, str):
        raise TypeError("insecure_hosts is a collection of host names")
    return frozenset(given)


def _check_metadata_url(_instance: object, _attribute: object, value: str | None) -> None:
    if value is not None:
        check_metadata_url(value)


def _check_redirect(_instance: object, _attribute: object, value: str | None) -> None:
    if value is not None and (not urlsplit(value).scheme or "#" in value):
        raise ValueError("redirect_uri must be a URL without a fragment")


def _requested(
    scopes: frozenset[str] | None,
    discovered: Discovered,
    wish: Wish,
    previous: TokenSet | None,
    *,
    refreshes: bool = False,
) -> frozenset[str] | None:
    """Return the scopes to ask for; `None` to name none.

    What was asked for before is asked for again: a token with less would lose what other requests need.

    Args:
        scopes: Those that the user has chosen.
        discovered: What the server says of itself.
        wish: What it asks for.
        previous: The token so far.
        refreshes: Whether a refresh token is wanted. Programs need none, for they can always ask again.
    """
    before = frozenset[str]()
    if previous is not None and previous.issuer == discovered.server.issuer:
        before = (previous.requested or before) | (previous.granted or before)
    challenged = wish.scopes
    if scopes is not None:
        challenged = scopes | challenged if wish.step_up and challenged is not None else scopes
    return scopes_to_request(challenged, discovered, before=before, refreshes=refreshes)


async def _bound(flow: TokenFlow, client_id: str, issuer: str) -> None:
    """Bind credentials to the authorization server that they are used at first.

    Raises:
        AuthorizationFailed: They were used at another one.
    """
    known = await flow.stored(f"issuer {client_id}")
    if known is None:
        await flow.keep(f"issuer {client_id}", {"issuer": issuer})
    elif known.get("issuer") != issuer:
        raise AuthorizationFailed(
            f"the client {printable(client_id)} is known to {printable(str(known.get('issuer')))}, and the "
            f"server now names {printable(issuer)}: its credentials are not shown to another authorization "
            "server; give issuer "
            "if it has moved",
            issuer=issuer,
        )


@final
@attrs.frozen(kw_only=True, eq=False)
class OAuth(TokenGrant):
    """Lets a person log in: ``open_client(url, auth=OAuth())``.

    Nothing is asked of anybody before the server refuses a request. Then its authorization server is found out,
    the client registered there if it must be, and the person sent there by the browser of this machine, which
    brings the answer back to a port that is listened on meanwhile. Tokens are refreshed before they end. Calls
    wait for all this; the time in which a person is asked does not count for ``request_timeout``, and nobody is
    asked twice because many calls wait. A call that is cancelled waits no more; when none is left, the login is
    given up and leaves nothing.

    Attributes:
        scopes: The scopes to ask for. Default: what the server asks for.
        client_name: The name that people see where they log in.
        client_metadata_url: The URL of a document about this client, which is its id where authorization servers
            take such ids; ``trio-mcp`` publishes none for you.
        client_id: The id of a client that was registered by hand.
        client_secret: Its secret, if it has one.
        key: Its key, if it authenticates by one.
        token_endpoint_auth_method: How it authenticates. Default: as the authorization server offers.
        issuer: The authorization server to use, as servers name it. With ``client_id``, the only one that its
            credentials are shown to; without it that is the first that they were used at.
        store: Where tokens and registrations are kept. Default: in memory, as long as this object.
        open_page: Shows a URL to the person, and may return the one to which the browser was sent in the end.
            Default: opens the browser of this machine, and writes the URL to standard error. `None`: nobody can
            be asked, so that a login fails at once.
        redirect_uri: Where the answer comes to. Default: a port of 127.0.0.1 that the system gives.
        listen: Whether to listen there. If not, `open_page` must return the URL.
        login_timeout: How long a person may take, in seconds.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        offline: Whether to ask for a refresh token where there is a scope for that.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.
    """

    scopes: frozenset[str] | None = attrs.field(default=None, converter=_scopes)
    client_name: str = "trio-mcp"
    client_metadata_url: str | None = attrs.field(default=None, validator=_check_metadata_url)
    client_id: str | None = None
    client_secret: str | None = attrs.field(default=None, repr=False)
    key: PrivateKeyJwt | None = attrs.field(default=None, repr=False)
    token_endpoint_auth_method: ClientAuthMethod | None = None
    issuer: str | None = None
    store: TokenStore = attrs.field(factory=MemoryTokenStore)
    open_page: OpenPage | None = attrs.field(default=open_in_browser, repr=False)
    redirect_uri: str | None = attrs.field(default=None, validator=_check_redirect)
    listen: bool = True
    login_timeout: float = attrs.field(default=300.0, validator=valid_positive)
    dpop: bool | None = None
    offline: bool = True
    insecure_hosts: frozenset[str] = attrs.field(default=frozenset(), converter=_hosts)

    def __attrs_post_init__(self) -> None:
        if self.client_id is None and (self.client_secret is not None or self.key is not None):
            raise ValueError("client_secret and key belong to a client_id: give it, too")
        if not self.listen and self.redirect_uri is None:
            raise ValueError("listen=False needs redirect_uri, where the answer comes to instead")

    @property
    def _identity(self) -> str:
        """Whose tokens these are."""
        return f"person {self.client_id or self.client_metadata_url or ''}"

    async def log_out(self, url: str) -> bool:
        """Forget the token for a server, and revoke it where its authorization server lets that be done.

        Cancelled, it is forgotten, or nothing has happened. Connections that are open go on with it.

        Args:
            url: The URL of the server.

        Returns:
            Whether there was one.

        Raises:
            AuthorizationFailed: The store cannot be used.
            ValueError: The URL cannot be used.

        Spec: RFC 7009.
        """
        target = parse_target(url)
        server = ProtectedServer(target.shown, target, HttpSettings())
        async with open_fetcher(server, self.insecure_hosts) as fetcher:
            flow = TokenFlow(self, server, fetcher)
            async with self.store.exclusive(flow.token_key):
                stored = await flow.stored(flow.token_key)
                if stored is None:
                    return False
                await flow.forget(flow.token_key)
            try:
                await self._revoke(flow, TokenSet.from_json(stored))
            except (AuthorizationFailed, KeyError, TypeError, ValueError) as error:
                _log.info("the token for %s was forgotten, and not revoked: %s", server.url, error)
        return True

    async def _revoke(self, flow: TokenFlow, token: TokenSet) -> None:
        server = await flow.find_server(token.issuer)
        client = await self._known_client(flow, server)
        if server.revocation_endpoint is None or client is None:
            return
        grant = {"token": token.refresh_token or token.access_token}
        if token.refresh_token is not None:
            grant["token_type_hint"] = "refresh_token"
        posted = await flow.post_form(server.revocation_endpoint, server.issuer, client, grant)
        if posted.status >= 400:
            raise AuthorizationFailed(f"{server.name} answered with HTTP status {posted.status}")

    async def _obtain(self, flow: TokenFlow, wish: Wish, previous: TokenSet | None) -> TokenSet:
        """Refresh the token if that is possible, else let the person log in."""
        discovered = await flow.discover(wish)
        if not (wish.must_log_in or wish.step_up):
            refreshed = await self._refresh(flow, discovered, previous)
            if refreshed is not None:
                return refreshed
        if wish.is_early:
            raise AuthorizationFailed("the token is about to end, and there is none to refresh it with")
        return await self._log_in(flow, discovered, wish, previous)

    # Refreshing.

    async def _refresh(
        self, flow: TokenFlow, discovered: Discovered, previous: TokenSet | None
    ) -> TokenSet | None:
        server = discovered.server
        if (
            previous is None
            or previous.refresh_token is None
            or previous.issuer != server.issuer
            or previous.resource != discovered.resource
        ):
            await trio.lowlevel.checkpoint()
            return None
        client = await self._known_client(flow, server)
        if client is None or client.client_id != previous.client_id:
            # Another login, for another server, may have registered this client once more.
            client = await self._registration(flow, f"client {server.issuer} {previous.client_id}", server)
        if client is None or client.client_id != previous.client_id:
            return None
        if previous.token_type == "DPoP" and flow.key is None:
            flow.key = await flow.key_for(server.issuer)  # the refresh token is bound to it, too
        grant = {
            "grant_type": "refresh_token",
            "refresh_token": previous.refresh_token,
            "scope": scope_text(previous.granted),
        }
        try:
            with flow.unbroken():
                token = await flow.request_token(
                    discovered, client, grant, scopes=previous.requested, refresh_token=previous.refresh_token
                )
                if token.granted == token.requested and previous.granted is not None:
                    token = attrs.evolve(token, granted=previous.granted)
                await flow.keep_token(token)
        except AuthorizationFailed as error:
            if error.error is None:
                raise  # it was not refused: the refresh token may still be good
            _log.info("%s does not refresh the token: %s", server.name, error)
            await flow.forget(flow.token_key)
            if error.error in REGISTER_AGAIN:
                await flow.forget(f"client {server.issuer}")
            return None
        flow.was_refreshed = True
        return token

    # Who we are.

    async def _known_client(self, flow: TokenFlow, server: AuthorizationServerMetadata) -> OAuthClient | None:
        """Return who this client is to an authorization server, if it need not be registered for that."""
        if self.client_id is not None:
            if self.issuer is None:
                await _bound(flow, self.client_id, server.issuer)
            await trio.lowlevel.checkpoint()
            return _client_of(
                self.client_id, self.client_secret, self.key, self.token_endpoint_auth_method, server
            )
        if self.client_metadata_url is not None and server.client_id_metadata_document_supported:
            await trio.lowlevel.checkpoint()
            return OAuthClient(client_id=self.client_metadata_url)
        return await self._registration(flow, f"client {server.issuer}", server)

    @staticmethod
    async def _registration(flow: TokenFlow, key: str, server: AuthorizationServerMetadata) -> OAuthClient | None:
        stored = await flow.stored(key)
        if stored is None:
            return None
        try:
            return OAuthClient.from_json(stored)
        except (KeyError, TypeError, ValueError):
            _log.warning("the stored registration at %s cannot be used", server.name)
            return None

    async def _client(
        self, flow: TokenFlow, server: AuthorizationServerMetadata, redirect_uri: str, scope: str | None
    ) -> OAuthClient:
        client = await self._known_client(flow, server)
        if client is not None and client.redirect_uri in (None, redirect_uri):
            return client
        if server.registration_endpoint is None:
            tried = () if self.client_metadata_url is None else ("client_metadata_url",)
            raise unknown_client(server, tried)
        client = await self._register(flow, server, redirect_uri, scope)
        await flow.keep(f"client {server.issuer}", client.to_json())  # for the next login
        await flow.keep(
            f"client {server.issuer} {client.client_id}", client.to_json()
        )  # for this one's refreshes
        return client

    async def _register(
        self, flow: TokenFlow, server: AuthorizationServerMetadata, redirect_uri: str, scope: str | None
    ) -> OAuthClient:
        """Register, and once more as the other type of application if the redirect URI is refused."""
        assert server.registration_endpoint is not None
        headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
        body = registration_body(
            server, name=self.client_name, redirect_uri=redirect_uri, scope=scope, bound=flow.key is not None
        )
        refusal: ClientUnknown | None = None
        for _ in range(2):
            posted = await flow.post(
                TokenRequest(url=server.registration_endpoint, headers=headers, body=json.dumps(body).encode())
            )
            try:
                return read_registration(posted.status, posted.document, server, redirect_uri)
            except ClientUnknown as error:
                refusal = refusal or error
                if error.error not in ("invalid_redirect_uri", "invalid_client_metadata"):
                    break
            body["application_type"] = "web" if body["application_type"] == "native" else "native"
        assert refusal is not None
        raise refusal

    # Logging in.

    async def _log_in(
        self, flow: TokenFlow, discovered: Discovered, wish: Wish, previous: TokenSet | None
    ) -> TokenSet:
        server = discovered.server
        open_page = self.open_page
        if open_page is None:
            raise AuthorizationFailed(
                f"{printable(flow.server.url)} wants a person to log in at {server.name}, and nobody can be "
                "asked (open_page=None)",
                issuer=server.issuer,
            )
        scopes = _requested(self.scopes, discovered, wish, previous, refreshes=self.offline)
        async with AsyncExitStack() as stack:
            listener: LoginListener | None = None
            redirect_uri = self.redirect_uri
            if self.listen:
                listener = await self._listen(stack, flow, server)
                redirect_uri = listener.redirect_uri
            assert redirect_uri is not None
            client = await self._client(flow, server, redirect_uri, scope_text(scopes))
            attempt = begin_login(discovered, client.client_id, redirect_uri, scopes)
            await flow.check(attempt.url)
            answer = await self._answer(flow, attempt, open_page, listener)
            refusal: AuthorizationFailed | None = None
            code = ""
            try:
                code = attempt.take(answer)
            except AuthorizationFailed as error:
                refusal = error
            if listener is not None:
                await listener.finish(accepted=refusal is None)
            if refusal is not None:
                raise refusal
        grant = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        try:
            return await flow.request_token(discovered, client, grant, scopes=scopes)
        except AuthorizationFailed as error:
            refusal = error
        if refusal.error in REGISTER_AGAIN and self.client_id is None:
            await flow.forget(f"client {server.issuer}")  # the next login registers anew
        raise refusal

    async def _listen(
        self, stack: AsyncExitStack, flow: TokenFlow, server: AuthorizationServerMetadata
    ) -> LoginListener:
        """Listen where the registration says, if that port is free: authorization servers compare it."""
        if self.redirect_uri is None:
            known = await flow.stored(f"client {server.issuer}") or {}
            registered = known.get("redirect_uri")
            if (
                self.client_id is None
                and isinstance(registered, str)
                and registered.startswith("http://127.0.0.1:")
            ):
                try:
                    return await stack.enter_async_context(open_listener(registered))
                except AuthorizationFailed:
                    _log.debug("the port of %s is taken", registered)
        return await stack.enter_async_context(open_listener(self.redirect_uri))

    async def _answer(
        self, flow: TokenFlow, attempt: LoginAttempt, open_page: OpenPage, listener: LoginListener | None
    ) -> str:
        """Show the page, and wait for the answer, from wherever it comes first."""
        answers: list[str] = []
        with flow.asking(), trio.move_on_after(self.login_timeout):
            async with open_hidden_nursery() as nursery:
                if listener is not None:

                    async def wait() -> None:
                        answers.append(await listener.wait_answer(attempt.is_for))
                        nursery.cancel_scope.cancel(reason="the login was answered")

                    nursery.start_soon(wait)
                shown = open_page(attempt.url)
                returned = await shown if isinstance(shown, Awaitable) else shown
                if returned is not None:
                    answers.append(returned)
                    nursery.cancel_scope.cancel(reason="the login was answered")
                elif listener is None:
                    raise AuthorizationFailed(
                        "open_page returned no URL, and nothing listens for the answer (listen=False)"
                    )
        if not answers:
            raise AuthorizationFailed(
                f"nobody has logged in at {attempt.server.name} within {self.login_timeout:g} s (login_timeout)",
                issuer=attempt.server.issuer,
            )
        return answers[0]


def _client_of(
    client_id: str,
    secret: str | None,
    key: PrivateKeyJwt | None,
    method: ClientAuthMethod | None,
    server: AuthorizationServerMetadata,
) -> OAuthClient:
    chosen = choose_method(
        server.token_endpoint_auth_methods_supported,
        has_secret=secret is not None,
        has_key=key is not None,
        wanted=method,
        name=server.name,
    )
    return OAuthClient(client_id=client_id, client_secret=secret, key=key, method=chosen)


@final
@attrs.frozen(kw_only=True, eq=False)
class ClientCredentials(TokenGrant):
    """Authorizes a program in its own name: ``auth=ClientCredentials(client_id="…", client_secret="…")``.

    Attributes:
        client_id: The id of the client.
        client_secret: Its secret, if it has one.
        key: Its key instead, which is safer: only signatures leave the program.
        token_endpoint_auth_method: How it authenticates. Default: as the authorization server offers.
        issuer: The authorization server that the credentials are for. Default: the first that they were used at,
            as long as the store lasts.
        scopes: The scopes to ask for. Default: what the server asks for.
        store: Where tokens are kept. Default: in memory, as long as this object.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.

    Spec: extension io.modelcontextprotocol/oauth-client-credentials.
    """

    client_id: str
    client_secret: str | None = attrs.field(default=None, repr=False)
    key: PrivateKeyJwt | None = attrs.field(default=None, repr=False)
    token_endpoint_auth_method: ClientAuthMethod | None = None
    issuer: str | None = None
    scopes: frozenset[str] | None = attrs.field(default=None, converter=_scopes)
    store: TokenStore = attrs.field(factory=MemoryTokenStore)
    dpop: bool | None = None
    insecure_hosts: frozenset[str] = attrs.field(default=frozenset(), converter=_hosts)

    def __attrs_post_init__(self) -> None:
        if self.client_secret is None and self.key is None:
            raise ValueError("ClientCredentials needs client_secret or key")

    @property
    def _identity(self) -> str:
        """Whose tokens these are."""
        return f"client {self.client_id}"

    async def _obtain(self, flow: TokenFlow, wish: Wish, previous: TokenSet | None) -> TokenSet:
        """Ask for a token."""
        discovered = await flow.discover(wish)
        server = discovered.server
        if self.issuer is None:
            await _bound(flow, self.client_id, server.issuer)
        client = _client_of(self.client_id, self.client_secret, self.key, self.token_endpoint_auth_method, server)
        scopes = _requested(self.scopes, discovered, wish, previous)
        grant = {"grant_type": "client_credentials", "scope": scope_text(scopes)}
        return await flow.request_token(discovered, client, grant, scopes=scopes)


async def read_source(source: TokenSource) -> str:
    """Return a token from where the user has said.

    Raises:
        AuthorizationFailed: It cannot be had, or is empty. The message does not show it.
    """
    if not callable(source):
        try:
            async with await trio.open_file(source, encoding="utf-8") as file:
                text = await file.read(MAX_TOKEN_FILE + 1)
        except (OSError, UnicodeError) as error:
            raise AuthorizationFailed(f"the token in {os.fspath(source)} cannot be read: {error}") from error
        return text.strip()
    await trio.lowlevel.checkpoint()
    returned = source()
    return await returned if inspect.isawaitable(returned) else returned


@final
@attrs.frozen(kw_only=True, eq=False)
class WorkloadIdentity(TokenGrant):
    """Authorizes a program that its platform vouches for, by a token that the platform gives to it.

    A refusal is final: it is neither tried again nor by another grant.

    Attributes:
        token: The platform's token: the path of a file, which is read each time because platforms replace it, or
            a plain or async function that returns it.
        client_id: The id of the client, where the authorization server wants one. Default: none is sent.
        issuer: The authorization server that the token is for. Default: the one that the server names.
        scopes: The scopes to ask for. Default: what the server asks for.
        store: Where tokens are kept. Default: in memory, as long as this object.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.

    Spec: SEP-1933; RFC 7523, section 2.1.
    """

    token: TokenSource = attrs.field(repr=False)
    client_id: str | None = None
    issuer: str | None = None
    scopes: frozenset[str] | None = attrs.field(default=None, converter=_scopes)
    store: TokenStore = attrs.field(factory=MemoryTokenStore)
    dpop: bool | None = None
    insecure_hosts: frozenset[str] = attrs.field(default=frozenset(), converter=_hosts)

    @property
    def _identity(self) -> str:
        """Whose tokens these are."""
        return f"workload {self.client_id or ''}"

    async def _obtain(self, flow: TokenFlow, wish: Wish, previous: TokenSet | None) -> TokenSet:
        """Ask for a token."""
        discovered = await flow.discover(wish)
        scopes = _requested(self.scopes, discovered, wish, previous)
        grant = {
            "grant_type": JWT_BEARER,
            "assertion": await read_source(self.token),
            "scope": scope_text(scopes),
        }
        client = None if self.client_id is None else OAuthClient(client_id=self.client_id)
        return await flow.request_token(discovered, client, grant, scopes=scopes)


@final
@attrs.frozen(kw_only=True, eq=False)
class EnterpriseManaged(TokenGrant):
    """Authorizes a person who is logged in at an identity provider, as their organisation has decided.

    The identity provider exchanges the person's token for an assertion (ID-JAG) for the authorization server of
    the MCP server, which gives a token for it. Nobody is asked anything.

    Attributes:
        id_token: The person's token of the identity provider: the path of a file, or a plain or async function.
        idp_issuer: The identity provider, whose metadata name its token endpoint.
        idp_token_endpoint: That endpoint, if the identity provider has no metadata.
        idp_client_id: The id of this client at the identity provider.
        idp_client_secret: Its secret there, if it has one.
        idp_key: Its key there, if it has one.
        client_id: The id of this client at the authorization server of the MCP server.
        client_secret: Its secret there, if it has one.
        key: Its key there, if it has one.
        token_endpoint_auth_method: How it authenticates there. Default: as the authorization server offers.
        subject_token_type: What `id_token` returns: ``"id_token"``, ``"saml2"`` or ``"refresh_token"``.
        issuer: The authorization server. Default: the one that the MCP server names.
        scopes: The scopes to ask for. Default: what the server asks for.
        store: Where tokens are kept. Default: in memory, as long as this object.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.

    Spec: extension io.modelcontextprotocol/enterprise-managed-authorization.
    """

    id_token: TokenSource = attrs.field(repr=False)
    idp_issuer: str | None = None
    idp_token_endpoint: str | None = None
    idp_client_id: str
    idp_client_secret: str | None = attrs.field(default=None, repr=False)
    idp_key: PrivateKeyJwt | None = attrs.field(default=None, repr=False)
    client_id: str
    client_secret: str | None = attrs.field(default=None, repr=False)
    key: PrivateKeyJwt | None = attrs.field(default=None, repr=False)
    token_endpoint_auth_method: ClientAuthMethod | None = None
    subject_token_type: str = "id_token"
    issuer: str | None = None
    scopes: frozenset[str] | None = attrs.field(default=None, converter=_scopes)
    store: TokenStore = attrs.field(factory=MemoryTokenStore)
    dpop: bool | None = None
    insecure_hosts: frozenset[str] = attrs.field(default=frozenset(), converter=_hosts)

    def __attrs_post_init__(self) -> None:
        if self.idp_issuer is None and self.idp_token_endpoint is None:
            raise ValueError("EnterpriseManaged needs idp_issuer or idp_token_endpoint")

    @property
    def _identity(self) -> str:
        """Whose tokens these are."""
        return f"enterprise {self.client_id} {self.idp_client_id}"

    async def _obtain(self, flow: TokenFlow, wish: Wish, previous: TokenSet | None) -> TokenSet:
        """Exchange the person's token, and ask for another with what comes."""
        discovered = await flow.discover(wish)
        server = discovered.server
        profiles = server.authorization_grant_profiles_supported
        if profiles is not None and ID_JAG_PROFILE not in profiles:
            raise AuthorizationFailed(
                f"{server.name} does not take assertions of identity providers ({ID_JAG_PROFILE} is not among "
                "its authorization_grant_profiles_supported)",
                issuer=server.issuer,
            )
        if self.issuer is None:
            await _bound(flow, self.client_id, server.issuer)
        scopes = _requested(self.scopes, discovered, wish, previous)
        assertion = await self._exchange(flow, discovered, scope_text(scopes))
        client = _client_of(self.client_id, self.client_secret, self.key, self.token_endpoint_auth_method, server)
        grant: Mapping[str, str | None] = {
            "grant_type": JWT_BEARER,
            "assertion": assertion,
            "scope": scope_text(scopes),
        }
        return await flow.request_token(discovered, client, grant, scopes=scopes)

    async def _exchange(self, flow: TokenFlow, discovered: Discovered, scope: str | None) -> str:
        """Return the assertion for the authorization server (RFC 8693)."""
        endpoint, issuer, offered = self.idp_token_endpoint, self.idp_issuer, None
        if endpoint is None:
            assert self.idp_issuer is not None
            idp: AuthorizationServerMetadata = await flow.find_server(self.idp_issuer)
            endpoint, offered = idp.token_endpoint, idp.token_endpoint_auth_methods_supported
        issuer = issuer or endpoint
        name = f"the identity provider {printable(issuer)}"
        has_secret, has_key = self.idp_client_secret is not None, self.idp_key is not None
        method = choose_method(offered, has_secret=has_secret, has_key=has_key, name=name)
        client = OAuthClient(
            client_id=self.idp_client_id, client_secret=self.idp_client_secret, key=self.idp_key, method=method
        )
        grant = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": discovered.server.issuer,
            "resource": discovered.resource,
            "scope": scope,
            "subject_token": await read_source(self.id_token),
            "subject_token_type": f"{TOKEN_TYPES}{self.subject_token_type}",
        }
        posted = await flow.post_form(endpoint, issuer, client, grant)
        return read_exchanged(posted.status, posted.document, name, issuer)
