"""A person who logs in: `OAuth`, by a page in a browser of this machine, or by a code at another one.

Spec: 2026-07-28, basic/authorization; RFC 6749, section 4.1; RFC 7636; RFC 8628; RFC 9207.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import (
    AsyncGenerator,
    Collection,  # noqa: F401  # pyright: ignore[reportUnusedImport] - hints of `__init__`, where it is inherited, are looked up here
)
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, final
from urllib.parse import urlsplit

import attrs
import trio

from .._codec._json import is_object
from .._core._reconnect import may_pass
from .._errors import AuthorizationFailed, ClientUnknown
from .._http._auth import ProtectedServer
from .._http._target import HttpSettings, parse_target
from .._limits import check_kind, valid_kind, valid_positive
from .._logs import Log
from .._oauth._clients import (
    ClientAuthMethod,  # noqa: F401  # pyright: ignore[reportUnusedImport] - as above
    OAuthClient,
    PrivateKeyJwt,  # noqa: F401  # pyright: ignore[reportUnusedImport] - as above
    check_metadata_url,
    choose_method,
    read_registration,
    registration_body,
    unknown_client,
)
from .._oauth._code import DeviceCode, LoginAttempt, begin_login, read_device_code, scope_text
from .._oauth._metadata import AuthorizationServerMetadata, Place, is_issuer, is_loopback
from .._oauth._tokens import TokenRequest, TokenSet
from .._printable import printable
from .._trio import open_hidden_nursery
from ._fetching import Posted, UnusableAnswer, open_fetcher
from ._flow import TokenFlow
from ._grants import KnownClient, check_text, name_of, requested_scopes
from ._listener import (
    PAGE_SECONDS,
    LoginListener,
    OpenPage,
    ShowCode,
    call_shown,
    open_in_browser,
    open_listener,
    path_for,
    port_in_turn,
    show_page,
)
from ._stores import (
    LEAVING_SECONDS,
    TokenStore,  # noqa: F401  # pyright: ignore[reportUnusedImport] - as above
)

_log: Final = Log("trio_mcp.auth")

REGISTER_AGAIN: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Refusals that mean that a registration is not good any more."""

SLOWER_SECONDS: Final = 5.0
"""By how much seldomer it is asked whether a code was entered, each time that this is wished (RFC 8628, 3.5)."""


def _check_metadata_url(_instance: object, _attribute: object, value: str | None) -> None:
    check_kind("client_metadata_url", value, str | None)
    if value is not None:
        check_metadata_url(value)


def _check_redirect(_instance: object, _attribute: object, value: str | None) -> None:
    check_kind("redirect_uri", value, str | None)
    if value is not None and (not urlsplit(value).scheme or "#" in value):
        raise ValueError("redirect_uri must be a URL without a fragment")


@final
@attrs.frozen(kw_only=True, eq=False)
class OAuth(KnownClient):
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
            take such ids. ``trio-mcp cimd`` writes it, and you publish it.
        client_id: The id of a client that was registered by hand.
        client_secret: Its secret, if it has one.
        key: The key of that client, or the one that its document names, if it authenticates by one.
        token_endpoint_auth_method: How it authenticates. Default: as the authorization server offers.
        account: A name for the person, where one store has the tokens of several. It is part of the key in the
            store: who comes with another one, or with none, does not get the token.
        issuer: The authorization server to use, as servers name it. With ``client_id``, the only one that its
            credentials are shown to; without it that is the first that they were used at.
        store: Where tokens and registrations are kept. Default: in memory, as long as this object.
        open_page: Shows a URL to the person, and may return the one to which the browser was sent in the end. A
            plain function runs in a thread, and may follow the page. What it raises is the ``__cause__`` of
            `AuthorizationFailed`, and not logged: there may be a code in it. The code is redeemed when the answer
            has come, while it may still run; it is cancelled when the page has shown what came of that (a thread
            goes on alone). Default: opens the browser of this machine, and writes the URL to standard error.
            `None`: nobody can be asked, so that a login fails at once.
        show_code: Shows the person a code to enter at any other machine, instead of a page at this one: a plain
            or async function that gets a `DeviceCode`, such as `print` (RFC 8628). Plain ones run in a thread.
        redirect_uri: Where the answer comes to: https, or this machine. Default: a port of 127.0.0.1 that the
            system gives. Logins of one process that need the same port wait for each other.
        listen: Whether to listen there. If not, `open_page` must return the URL.
        login_timeout: How long a person may take, in seconds.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        offline: Whether to ask for a refresh token where there is a scope for that.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.
    """

    client_name: str = attrs.field(default="trio-mcp", validator=valid_kind)
    client_metadata_url: str | None = attrs.field(default=None, validator=_check_metadata_url)
    client_id: str | None = attrs.field(default=None, validator=check_text)
    account: str | None = attrs.field(default=None, validator=check_text)
    open_page: OpenPage | None = attrs.field(default=open_in_browser, repr=False, validator=valid_kind)
    show_code: ShowCode | None = attrs.field(default=None, repr=False, validator=valid_kind)
    redirect_uri: str | None = attrs.field(default=None, validator=_check_redirect)
    listen: bool = attrs.field(default=True, validator=valid_kind)
    login_timeout: float = attrs.field(default=300.0, validator=valid_positive)
    offline: bool = attrs.field(default=True, validator=valid_kind)

    def __attrs_post_init__(self) -> None:
        if self.client_id is None and self.client_secret is not None:
            raise ValueError("client_secret belongs to a client_id: give it, too")
        if self.client_id is None and self.client_metadata_url is None and self.key is not None:
            raise ValueError("key belongs to a client_id, or to a client_metadata_url: give one, too")
        if not self.listen and self.redirect_uri is None:
            raise ValueError("listen=False needs redirect_uri, where the answer comes to instead")
        parts = urlsplit(self.redirect_uri or "")
        host = parts.hostname or ""
        if parts.scheme == "http" and not is_loopback(host) and host not in self.insecure_hosts:
            raise ValueError("redirect_uri must be https, or lead to this machine, or to one of insecure_hosts")

    def _identity(self, shown: str | None) -> str:
        """Whose tokens these are."""
        del shown
        account = () if self.account is None else (f"account {self.account}",)
        return f"person {name_of(self.client_id or self.client_metadata_url, *account)}"

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
        server = ProtectedServer(target.without_query, target, HttpSettings())
        async with open_fetcher(server, self.insecure_hosts, self._named) as fetcher:
            flow = TokenFlow(self, server, fetcher)
            async with self.store.exclusive(flow.token_key):
                stored = await flow.stored(flow.token_key)
                if stored is None:
                    return False
                is_here, is_local = stored.get("is_here") is True, stored.get("is_local") is True
                place = Place.HERE if is_here else Place.NEAR if is_local else Place.FAR
                server._reached.place = place
                await flow.forget(flow.token_key)
            try:
                await self._revoke(flow, TokenSet.from_json(stored))
            except (AuthorizationFailed, KeyError, TypeError, ValueError) as error:
                _log.info("the token for %s was forgotten, and not revoked: %s", server.url, error)
        return True

    async def _revoke(self, flow: TokenFlow, token: TokenSet) -> None:
        server = await flow.find_server(token.issuer)
        client = token.registration or await self._known_client(flow, server)
        if server.revocation_endpoint is None or client is None:
            return
        grant = {"token": token.refresh_token or token.access_token}
        if token.refresh_token is not None:
            grant["token_type_hint"] = "refresh_token"
        posted = await flow.post_form(server.revocation_endpoint, server.issuer, client, grant)
        if posted.status >= 400:
            raise AuthorizationFailed(f"{server.name} answered with HTTP status {posted.status}")

    async def _obtain(self, flow: TokenFlow) -> TokenSet | None:
        """Refresh the token, if that is possible. Fail at once, if else nobody can be asked."""
        token = await self._refresh(flow)
        if token is None and self.open_page is None and self.show_code is None:
            server = flow.found.server
            raise AuthorizationFailed(
                f"{printable(flow.server.url)} wants a person to log in at {server.name}, and nobody can be "
                "asked (open_page=None)",
                issuer=server.issuer,
            )
        return token

    # Refreshing.

    async def _refresh(self, flow: TokenFlow) -> TokenSet | None:
        server, need, previous = flow.found.server, flow.need, flow.previous
        if (
            need.must_log_in
            or need.step_up
            or previous is None
            or previous.refresh_token is None
            or not is_issuer(previous.issuer, server.issuer)
            or previous.resource != flow.found.resource
        ):
            await trio.lowlevel.checkpoint()
            return None
        # Another login, for another server, may have registered this client once more.
        client = previous.registration or await self._known_client(flow, server)
        if client is None or client.client_id != previous.client_id:
            await trio.lowlevel.checkpoint()
            return None
        if previous.token_type == "DPoP" and flow.key is None:
            flow.key = await flow.key_for(server.issuer)  # the refresh token is bound to it, too
        grant = {
            "grant_type": "refresh_token",
            "refresh_token": previous.refresh_token,
            "scope": scope_text(previous.granted),
        }
        posted: Posted | None = None
        with flow.unbroken():
            try:
                posted = await flow.post_for_token(client, grant)
                token = flow.read_token(posted, client, previous.requested, previous.refresh_token)
            except AuthorizationFailed as error:
                if error.may_pass or (posted is None and not isinstance(error, UnusableAnswer)):
                    raise  # the refresh token may still be good
                refusal = error
            else:
                if token.granted == token.requested and previous.granted is not None:
                    token = attrs.evolve(token, granted=previous.granted)
                token = attrs.evolve(token, registration=previous.registration)
                await flow.keep_token(token)
                flow.was_refreshed = True
                return token
        _log.info("%s does not refresh the token: %s", server.name, refusal)
        await flow.forget(flow.token_key)
        if refusal.error in REGISTER_AGAIN:
            await flow.forget(self._registered(server))
        return None

    # Who we are.

    async def _known_client(self, flow: TokenFlow, server: AuthorizationServerMetadata) -> OAuthClient | None:
        """Return who this client is to an authorization server, if it need not be registered for that."""
        if self.client_id is not None:
            return await self._client_of(flow, server)
        if self.client_metadata_url is not None and server.client_id_metadata_document_supported:
            await trio.lowlevel.checkpoint()
            if self.key is None:
                return OAuthClient(client_id=self.client_metadata_url)
            offered = server.token_endpoint_auth_methods_supported
            method = choose_method(offered, has_secret=False, has_key=True, name=server.name)
            return OAuthClient(client_id=self.client_metadata_url, key=self.key, method=method)
        return await self._registration(flow, server)

    def _registered(self, server: AuthorizationServerMetadata) -> str:
        """Return under which key the registration is: one that asks by a code is not one with a redirect URI."""
        return f"client {server.issuer}" if self.show_code is None else f"client with a code {server.issuer}"

    async def _registration(self, flow: TokenFlow, server: AuthorizationServerMetadata) -> OAuthClient | None:
        stored = await flow.stored(self._registered(server))
        if stored is None:
            return None
        try:
            client = OAuthClient.from_json(stored)
        except (KeyError, TypeError, ValueError):
            _log.warning("the stored registration at %s cannot be used", server.name)
            return None
        return None if client.expires_at is not None and client.expires_at <= time.time() else client

    async def _client(
        self, flow: TokenFlow, server: AuthorizationServerMetadata, redirect_uri: str, scope: str | None
    ) -> OAuthClient:
        """Return who this client is, registered if it must be.

        Args:
            flow: What is needed for that.
            server: The authorization server.
            redirect_uri: Where answers come to; empty for none.
            scope: What will be asked for.
        """
        client = await self._known_client(flow, server)
        if client is not None and client.redirect_uri in (None, redirect_uri):
            return client
        if server.registration_endpoint is None:
            tried = () if self.client_metadata_url is None else ("client_metadata_url",)
            raise unknown_client(server, tried)
        client = await self._register(flow, server, redirect_uri, scope)
        await flow.keep(self._registered(server), client.to_json())  # for the next login
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

    async def _log_in(self, flow: TokenFlow) -> TokenSet:
        scopes = requested_scopes(self.scopes, flow, refreshes=self.offline)
        refusal: AuthorizationFailed | None = None
        try:
            if self.show_code is not None:
                return await self._log_in_by_code(flow, self.show_code, scopes)
            return await self._log_in_by_page(flow, scopes)
        except AuthorizationFailed as error:
            refusal = error
        if refusal.error in REGISTER_AGAIN and self.client_id is None:
            await flow.forget(self._registered(flow.found.server))  # the next login registers anew
        raise refusal

    async def _log_in_by_page(self, flow: TokenFlow, scopes: frozenset[str] | None) -> TokenSet:
        server, open_page = flow.found.server, self.open_page
        assert open_page is not None
        async with AsyncExitStack() as stack:
            listener: LoginListener | None = None
            redirect_uri = self.redirect_uri
            if self.listen:
                listener = await self._listen(stack, flow, server)
                redirect_uri = listener.redirect_uri
            assert redirect_uri is not None
            earlier = await self._registration(flow, server)
            client = await self._client(flow, server, redirect_uri, scope_text(scopes))
            attempt = begin_login(flow.found, client.client_id, redirect_uri, scopes)
            flow.check(attempt.url)
            flow.count_page()
            refusal: AuthorizationFailed | None = None
            token: TokenSet | None = None
            is_kept = False
            try:
                async with self._answered(flow, attempt, open_page, listener) as answer:
                    is_kept = True
                    try:
                        token = await self._redeem(flow, client, attempt, answer, scopes)
                    except AuthorizationFailed as error:
                        refusal = error
                        is_kept = error.may_pass or error.error == "access_denied"  # which a person has said
                    if listener is not None:  # the person is shown what has come of it
                        await listener.finish(accepted=refusal is None)
            finally:
                if not is_kept and client == earlier:
                    # The authorization server may have forgotten it, and tell that to the person alone, or not
                    # where answers come to.
                    with trio.move_on_after(LEAVING_SECONDS, shield=True):
                        await flow.forget(self._registered(server))
        if refusal is not None:
            raise refusal
        assert token is not None
        return token

    async def _log_in_by_code(
        self, flow: TokenFlow, show_code: ShowCode, scopes: frozenset[str] | None
    ) -> TokenSet:
        """Have a person enter a code at another device, and ask again and again whether that was done."""
        server = flow.found.server
        endpoint = server.device_authorization_endpoint
        if endpoint is None:
            raise AuthorizationFailed(
                f"{server.name} lets nobody log in by a code (device_authorization_endpoint); without show_code "
                "they do so in a browser",
                issuer=server.issuer,
            )
        earlier = await self._registration(flow, server)
        client = await self._client(flow, server, "", scope_text(scopes))
        asked = {"scope": scope_text(scopes), "resource": flow.found.resource}
        posted = await flow.post_form(endpoint, server.issuer, client, asked)
        if client == earlier and posted.status >= 400 and not may_pass(posted.status):
            await flow.forget(self._registered(server))
        code = read_device_code(posted.status, posted.document, server)
        for url in (code.verification_uri, code.verification_uri_complete):
            flow.check(url or code.verification_uri)
        flow.count_page()
        with flow.asking():
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(call_shown, show_code, code, "show_code")
                answer = await self._polled(flow, client, code)
                nursery.cancel_scope.cancel(reason="the login is over")
        return self._judged(flow, client, answer, scopes)

    async def _polled(self, flow: TokenFlow, client: OAuthClient, code: DeviceCode) -> Posted:
        """Return the answer that is not to wait."""
        server = flow.found.server
        interval = code.interval
        with trio.move_on_after(min(code.expires_in, self.login_timeout)):
            while True:
                await trio.sleep(interval)
                try:
                    answer = await flow.post_for_token(client, code.grant())
                except UnusableAnswer:
                    raise
                except AuthorizationFailed as error:
                    _log.info("%s", error)  # it may be there again in a while
                    interval *= 2
                    continue
                said = answer.document.get("error") if is_object(answer.document) else None
                if may_pass(answer.status) and said != "slow_down":
                    interval *= 2
                elif said == "slow_down":
                    interval += SLOWER_SECONDS
                elif said != "authorization_pending":
                    return answer
        raise AuthorizationFailed(
            f"nobody has entered the code for {server.name} in time (login_timeout: {self.login_timeout:g} s)",
            issuer=server.issuer,
        )

    async def _redeem(
        self,
        flow: TokenFlow,
        client: OAuthClient,
        attempt: LoginAttempt,
        answer: str,
        scopes: frozenset[str] | None,
    ) -> TokenSet:
        """Return the token for the code in an answer.

        Raises:
            AuthorizationFailed: There is none, or it is not for this login.
        """
        grant = {
            "grant_type": "authorization_code",
            "code": attempt.take(answer),
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        posted = await flow.post_for_token(client, grant)
        return self._judged(flow, client, posted, scopes)

    @staticmethod
    def _judged(flow: TokenFlow, client: OAuthClient, posted: Posted, scopes: frozenset[str] | None) -> TokenSet:
        """Return the token in the answer to a login.

        Raises:
            AuthorizationFailed: There is none.
        """
        own = None if client.redirect_uri is None else client
        return attrs.evolve(flow.read_token(posted, client, scopes), registration=own)

    async def _listen(
        self, stack: AsyncExitStack, flow: TokenFlow, server: AuthorizationServerMetadata
    ) -> LoginListener:
        """Listen where the registration says, if that port is free: authorization servers compare it.

        What this client registers by itself has a path of its own for each authorization server, so that the
        answer of one is not taken for that of another which has sent the browser there, even if they say nothing
        of who they are (RFC 9700, section 4.4.2). Clients that others have registered have one path for all.
        """
        if self.redirect_uri is not None:
            with flow.asking():  # a person who is asked for another server has the port
                await stack.enter_async_context(port_in_turn(self.redirect_uri))
            return await stack.enter_async_context(open_listener(self.redirect_uri))
        is_document = self.client_metadata_url is not None and server.client_id_metadata_document_supported
        if self.client_id is not None or is_document:
            return await stack.enter_async_context(open_listener(None))
        path = path_for(server.issuer)
        known = await flow.stored(self._registered(server)) or {}
        registered = known.get("redirect_uri")
        if isinstance(registered, str) and re.fullmatch(rf"http://(127\.0\.0\.1|\[::1\]):\d+{path}", registered):
            try:
                return await stack.enter_async_context(open_listener(registered))
            except AuthorizationFailed:
                _log.debug("the port of %s is taken", registered)
        return await stack.enter_async_context(open_listener(None, path))

    @asynccontextmanager
    async def _answered(
        self, flow: TokenFlow, attempt: LoginAttempt, open_page: OpenPage, listener: LoginListener | None
    ) -> AsyncGenerator[str]:
        """Show the page, and give the answer to the block, from wherever it comes first.

        What shows the page may follow it to its end, which shows what the block has made of the answer. So it
        goes on meanwhile, and is cancelled soon after the block (`PAGE_SECONDS`).
        """
        answers: list[str] = []
        failures: list[AuthorizationFailed] = []
        is_over, is_left = trio.Event(), trio.Event()

        async def show() -> None:
            try:
                returned = await show_page(open_page, attempt.url)
                if returned is not None:
                    answers.append(returned)
                elif listener is not None:
                    return
                else:
                    raise AuthorizationFailed(
                        "open_page returned no URL, and nothing listens for the answer (listen=False)"
                    )
            except AuthorizationFailed as error:
                failures.append(error)
            finally:
                is_left.set()
            is_over.set()

        async def listen(listener: LoginListener) -> None:
            answers.append(await listener.wait_answer(attempt.is_for))
            is_over.set()

        async with open_hidden_nursery() as nursery:
            with flow.asking(), trio.move_on_after(self.login_timeout):
                nursery.start_soon(show)
                if listener is not None:
                    nursery.start_soon(listen, listener)
                await is_over.wait()
            if failures and not answers:
                raise failures[0]
            if not answers:
                raise AuthorizationFailed(
                    f"nobody has logged in at {attempt.server.name} within {self.login_timeout:g} s "
                    "(login_timeout)",
                    issuer=attempt.server.issuer,
                )
            yield answers[0]
            if listener is not None:
                with trio.move_on_after(PAGE_SECONDS):
                    await is_left.wait()
            nursery.cancel_scope.cancel(reason="the login is over")
