"""The token of one connection: had by one task for all who wait for it, and had again when it is refused.

    headers_for, on_refused     called by the tasks that send requests; they wait for an errand and may be
    cancelled _Errand                     one attempt to have another token; a task of the connection does it
    TokenFlow                   what a grant needs for that: discovery, requests for tokens, the store

Whoever is cancelled just waits no more. When nobody waits any more, a login is cancelled with everything it has
opened; a request for a token that has been sent is not, because its answer may bring the only refresh token that
is still good.
"""

from __future__ import annotations

import abc
import copy
import json
import math
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any, Final, Literal, NoReturn, TypeVar, final

import attrs
import trio

from .._codec._json import is_object
from .._errors import AuthorizationFailed, McpError
from .._http._auth import Auth, AuthRequest, AuthResponse, ProtectedServer
from .._logs import Log
from .._oauth._challenges import DPOP, our_challenge
from .._oauth._clients import OAuthClient
from .._oauth._dpop import DpopKey
from .._oauth._metadata import (
    AuthorizationServerMetadata,
    Discovered,
    Fetch,
    Fetched,
    discover,
    find_server,
)
from .._oauth._tokens import Asked, TokenRequest, TokenSet, read_token, token_request
from .._trio import LightParkingLot, open_hidden_nursery
from ._fetching import Fetcher, Posted, open_fetcher
from ._stores import TokenStore

_log: Final = Log("trio_mcp.auth")

_T = TypeVar("_T")

EARLY_SECONDS: Final = 30.0
"""How long before its end a token is replaced; at most a tenth of its life."""

UNBROKEN_SECONDS: Final = 20.0
"""How long a request that uses up a refresh token goes on although nobody waits for it."""

LEAVING_SECONDS: Final = 2.0
"""The same, once the connection is being left."""


@final
@attrs.frozen(kw_only=True)
class Wish:
    """Why another token is wanted.

    Attributes:
        refused: The token that the server has refused, or that is about to end.
        scopes: The scopes that the server asks for; `None` if it names none.
        hint: Where the server says that its metadata are.
        is_bound: Whether it asks for a token that is bound to a key.
        must_log_in: Whether refreshing was in vain.
        is_early: Whether the token is about to end, and nothing was refused yet: nobody is asked to log in.
        step_up: Whether the token is good, and its scopes are not enough.
    """

    refused: TokenSet | None = None
    scopes: frozenset[str] | None = None
    hint: str | None = attrs.field(default=None, repr=False)
    is_bound: bool = False
    must_log_in: bool = False
    is_early: bool = False
    step_up: bool = False

    def is_met_by(self, token: TokenSet | None) -> bool:
        """Whether a token is another one, and enough."""
        if token is None or (self.refused is not None and token.access_token == self.refused.access_token):
            return False
        return not self.step_up or (self.scopes or frozenset()) <= (token.requested or frozenset())


@final
class _Errand:
    """One attempt to have another token."""

    def __init__(self, wish: Wish) -> None:
        self.wish: Final = wish
        self.scope: Final = trio.CancelScope()
        self.is_over = False
        self.is_asking = False  # a person
        self.failure: McpError | None = None
        self._waiting = 0
        self._changed = LightParkingLot()

    @property
    def is_given_up(self) -> bool:
        return self.scope.cancel_called

    def change(self) -> None:
        self._changed.unpark_all()

    async def wait(self, request: AuthRequest) -> None:
        """Wait until it is over."""
        self._waiting += 1
        try:
            while not self.is_over:
                with request.person_asked() if self.is_asking else nullcontext():
                    await self._changed.park()  # woken when either changes
        finally:
            self._waiting -= 1
            if not self._waiting and not self.is_over:
                self.scope.cancel(reason="nobody waits for the token any more")
        await trio.lowlevel.checkpoint()


class TokenGrant(Auth):
    """A way of OAuth to have tokens. `open_client` opens it; its object can be used for several servers."""

    store: TokenStore
    insecure_hosts: frozenset[str]
    issuer: str | None
    """The authorization server that must be used."""
    dpop: bool | None
    """Whether tokens must be bound to a key; `None` if the server decides."""

    @property
    @abc.abstractmethod
    def _identity(self) -> str:
        """Whose tokens these are, among those that a store has for one server."""

    @abc.abstractmethod
    async def _obtain(self, flow: TokenFlow, wish: Wish, previous: TokenSet | None) -> TokenSet:
        """Have another token.

        Raises:
            AuthorizationFailed: There is none.
        """

    def open(self, server: ProtectedServer) -> AbstractAsyncContextManager[Auth]:
        """Open it for one connection."""
        return open_session(self, server)

    async def headers_for(self, request: AuthRequest) -> NoReturn:
        """Refuse: only what `open` gives knows the token of a server.

        Raises:
            RuntimeError: Always.
        """
        del request
        await trio.lowlevel.checkpoint()
        raise RuntimeError(f"{type(self).__name__} is for open_client(url, auth=...), which opens it")


@final
class TokenFlow:
    """What a grant needs to have a token for one server.

    Attributes:
        server: The server.
        discovered: What is known of its protection, for a token that is refreshed early.
        key: The key that tokens are bound to, if they are.
        token_key: Under which the token is in the store.
        was_refreshed: Whether the token came of a refresh token, and has been stored.
    """

    def __init__(self, grant: TokenGrant, server: ProtectedServer, fetcher: Fetcher) -> None:
        self.server: Final = server
        self.token_key: Final = f"token {grant._identity} {server.url}"  # noqa: SLF001 - its own kind
        self.discovered: Discovered | None = None
        self.key: DpopKey | None = None
        self.was_refreshed = False
        self._grant = grant
        self._fetcher = fetcher
        self._nonces: dict[str, str] = {}  # of each token endpoint
        self._errand: _Errand | None = None
        self._unbroken: trio.CancelScope | None = None
        self._is_leaving = False

    # Finding out.

    async def discover(self, wish: Wish) -> Discovered:
        """Find out who issues tokens, and make the key that they are bound to, if they must be.

        Raises:
            AuthorizationFailed: Nothing was found that may be used.
        """
        await trio.lowlevel.checkpoint()
        if not (wish.is_early and self.discovered is not None):
            self.discovered = await self._walk(discover(self.server.url, wish.hint, self._grant.issuer))
        found = self.discovered
        assert found is not None
        wanted = self._grant.dpop
        if wanted is None:
            wanted = found.needs_dpop or wish.is_bound
        self.key = await self.key_for(found.server.issuer) if wanted else None
        return found

    async def find_server(self, issuer: str) -> AuthorizationServerMetadata:
        """Return the metadata of another authorization server.

        Raises:
            AuthorizationFailed: There are none that may be used.
        """
        return await self._walk(find_server(issuer))

    async def _walk(self, walk: Generator[Fetch, Fetched, _T]) -> _T:
        fetched: Fetched | None = None
        while True:
            try:
                fetch = next(walk) if fetched is None else walk.send(fetched)
            except StopIteration as stop:
                await trio.lowlevel.checkpoint()
                found: _T = stop.value
                return found
            fetched = await self._fetcher.get(fetch)

    # Storing.

    async def key_for(self, issuer: str) -> DpopKey:
        """Return the key for the tokens of an issuer, the same for all connections."""
        name = f"dpop {issuer}"
        async with self._grant.store.exclusive(name):
            stored = await self.stored(name)
            if stored is not None:
                try:
                    return DpopKey(stored)
                except (ValueError, KeyError, TypeError):
                    _log.warning("the stored key for %s cannot be used", issuer)
            key = DpopKey()
            await self.keep(name, key.private_jwk())
            return key

    async def stored(self, key: str) -> dict[str, Any] | None:
        """Return an object from the store."""
        text = await self._grant.store.get(key)
        if text is None:
            return None
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return value if is_object(value) else None

    async def keep(self, key: str, value: Mapping[str, Any]) -> None:
        """Put an object into the store."""
        await self._grant.store.set(key, json.dumps(value))

    async def keep_token(self, token: TokenSet) -> None:
        """Put the token of the server into the store."""
        await self.keep(self.token_key, token.to_json())

    async def forget(self, key: str) -> None:
        """Take something out of the store."""
        await self._grant.store.delete(key)

    # Asking.

    @contextmanager
    def asking(self) -> Generator[None]:
        """A person is asked something in this block: the clocks of all that wait stand still."""
        errand = self._errand
        assert errand is not None
        errand.is_asking = True
        errand.change()
        try:
            yield
        finally:
            errand.is_asking = False
            errand.change()

    async def check(self, url: str) -> None:
        """Check that a URL may be called, or shown to a person.

        Raises:
            AuthorizationFailed: It may not.
        """
        await self._fetcher.check(url)

    async def post(self, request: TokenRequest) -> Posted:
        """Send a request that is for no token, such as a registration."""
        return await self._fetcher.post(request)

    async def request_token(
        self,
        discovered: Discovered,
        client: OAuthClient | None,
        grant: Mapping[str, str | None],
        *,
        scopes: frozenset[str] | None,
        refresh_token: str | None = None,
    ) -> TokenSet:
        """Request a token.

        Args:
            discovered: Of whom.
            client: Who asks.
            grant: The grant, without ``resource`` and ``scope``.
            scopes: The scopes that it should have.
            refresh_token: What goes on being good if the answer has no other one.

        Raises:
            AuthorizationFailed: It is refused.
        """
        server = discovered.server
        asked = Asked(
            issuer=server.issuer,
            name=server.name,
            resource=discovered.resource,
            client_id=None if client is None else client.client_id,
            scopes=scopes,
            refresh_token=refresh_token,
        )
        form = {**grant, "resource": discovered.resource}
        posted = await self.post_form(server.token_endpoint, server.issuer, client, form, key=self.key)
        if self.key is None and self._grant.dpop is None and _wants_proof(posted):
            self.key = await self.key_for(server.issuer)
            posted = await self.post_form(server.token_endpoint, server.issuer, client, form, key=self.key)
        token = read_token(posted.status, posted.document, asked, now=time.time(), bound=self.key is not None)
        if self._grant.dpop and token.token_type != "DPoP":
            raise AuthorizationFailed(
                f"{server.name} issued a token that is not bound to a key, which dpop=True demands"
            )
        return token

    async def post_form(
        self,
        url: str,
        issuer: str,
        client: OAuthClient | None,
        grant: Mapping[str, str | None],
        *,
        key: DpopKey | None = None,
    ) -> Posted:
        """Send a request to a token endpoint, and once more if it wants to see a nonce (RFC 9449, section 8)."""
        posted: Posted | None = None
        for _ in range(2):
            now = time.time()
            request = token_request(url, client, grant, audience=issuer, now=now)
            nonce = self._nonces.get(url)
            more = {} if key is None else {"DPoP": key.prove("POST", url, now=now, nonce=nonce)}
            posted = await self._fetcher.post(request, more)
            if posted.nonce is not None and key is not None:
                self._nonces[url] = posted.nonce
            document = posted.document
            if (
                key is None
                or posted.status not in (400, 401)
                or not is_object(document)
                or document.get("error") != "use_dpop_nonce"
                or posted.nonce in (None, nonce)
            ):
                break
        assert posted is not None
        return posted

    @contextmanager
    def unbroken(self) -> Generator[None]:
        """What is begun in this block is brought to its end, although nobody waits for it: bounded."""
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + (LEAVING_SECONDS if self._is_leaving else UNBROKEN_SECONDS)
            self._unbroken = scope
            try:
                yield
            finally:
                self._unbroken = None
        if scope.cancelled_caught:
            raise AuthorizationFailed(f"the token was not renewed within {UNBROKEN_SECONDS:g} s")

    def leave(self) -> None:
        """The connection is being left."""
        self._is_leaving = True
        if self._unbroken is not None:
            self._unbroken.deadline = min(self._unbroken.deadline, trio.current_time() + LEAVING_SECONDS)

    # For the session.

    def begin(self, errand: _Errand) -> None:
        """Note on whose behalf this works."""
        self._errand = errand
        self.was_refreshed = False


@final
class TokenSession(Auth):
    """Authorizes the requests of one connection with a token. Made by `open_session`."""

    def __init__(self, grant: TokenGrant, flow: TokenFlow, nursery: trio.Nursery) -> None:
        self._grant = grant
        self._flow = flow
        self._nursery = nursery
        self._key = flow.token_key
        self._token: TokenSet | None = None
        self._proof_key: DpopKey | None = None
        self._renew_at = math.inf
        self._ends_at = math.inf
        self._is_proven = False  # the server has taken the token once
        self._origin: Literal["stored", "refreshed", "issued"] = "stored"
        self._nonce: str | None = None
        self._errand: _Errand | None = None

    def __repr__(self) -> str:
        return f"<TokenSession {self._grant!r}>"

    # For requests.

    async def headers_for(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the token, had again if it is about to end; nothing if there is none yet."""
        token = self._token
        if token is not None and trio.current_time() >= self._renew_at:
            try:
                await self._renew(Wish(refused=token, is_early=True), request)
            except AuthorizationFailed as error:
                _log.debug("the token was not renewed before its end: %s", error)
                if self._token is token:
                    self._renew_at = self._ends_at  # not again before that
                    if trio.current_time() >= self._ends_at:
                        self._token = None  # the server's challenge says what to do
            token = self._token
        await trio.lowlevel.checkpoint()
        if token is None:
            return {}
        fields = {"Authorization": f"{token.token_type} {token.access_token}"}
        if token.token_type == "DPoP" and self._proof_key is not None:
            fields["DPoP"] = self._proof_key.prove(
                request.method,
                request.url,
                now=time.time(),
                access_token=token.access_token,
                nonce=self._nonce,
                body=request.body or None,
            )
        return fields

    def on_response(self, request: AuthRequest, response: AuthResponse) -> None:
        """Note that the token is good, and what the next proof must show."""
        del request
        self._nonce = response.headers.get("dpop-nonce", self._nonce)
        token = self._token
        if response.status != 401 and token is not None and _is_sent(token, response):
            self._is_proven = True

    async def on_refused(self, request: AuthRequest, response: AuthResponse) -> bool:
        """Have another token, if the server's challenge says that this can help."""
        challenge = our_challenge(response.challenges)
        sent = self._token if self._token is not None and _is_sent(self._token, response) else None
        if (
            challenge is not None
            and challenge.get("error") == "use_dpop_nonce"
            and sent is not None
            and "dpop-nonce" in response.headers
        ):
            await trio.lowlevel.checkpoint()
            return not _shows(response, self._nonce)
        if request.method == "DELETE" or (response.challenges and challenge is None):
            await trio.lowlevel.checkpoint()
            return False  # nobody logs in to leave, and no token helps where another scheme is wanted
        if self._token is not None and sent is None and "Authorization" in response.sent:
            await trio.lowlevel.checkpoint()
            return True  # others have had another token meanwhile
        scopes = None if challenge is None else challenge.scopes
        hint = None if challenge is None else challenge.get("resource_metadata")
        is_bound = challenge is not None and challenge.scheme == DPOP
        if response.status == 403:
            if challenge is None or challenge.get("error") != "insufficient_scope" or not scopes or sent is None:
                await trio.lowlevel.checkpoint()
                return False
            if scopes <= (sent.requested or frozenset()) | (sent.granted or frozenset()):
                await trio.lowlevel.checkpoint()
                return False  # that was asked for before: more of the same does not help
            wish = Wish(refused=sent, scopes=scopes, hint=hint, is_bound=is_bound, step_up=True)
        else:
            is_new = sent is not None and not self._is_proven
            if is_new and self._origin == "issued":
                await trio.lowlevel.checkpoint()
                return False  # another one would be no better
            in_vain = is_new and self._origin == "refreshed"
            wish = Wish(refused=sent, scopes=scopes, hint=hint, is_bound=is_bound, must_log_in=in_vain)
        await self._renew(wish, request)
        return True

    # Having another token.

    async def _renew(self, wish: Wish, request: AuthRequest) -> None:
        """Wait until there is another token.

        Raises:
            McpError: There is none.
        """
        while not wish.is_met_by(self._token):
            errand = self._errand
            is_ours = errand is None
            if errand is None:
                errand = self._errand = _Errand(wish)
                self._nursery.start_soon(self._do, errand, name="having a token")
            await errand.wait(request)
            covers = is_ours or (errand.wish == wish and not errand.is_given_up)
            if errand.failure is not None and covers:
                raise copy.copy(errand.failure).with_traceback(None)
            if is_ours:
                return
        await trio.lowlevel.checkpoint()

    async def _do(self, errand: _Errand) -> None:  # noqa: ASYNC910 - having a token is waiting
        try:
            with errand.scope:
                try:
                    await self._obtain(errand)
                except McpError as error:
                    errand.failure = error
                except Exception as error:
                    # The boundary of users' code: of their store, their page, their functions.
                    _log.exception("having a token failed")
                    errand.failure = AuthorizationFailed(f"having a token failed: {type(error).__name__}")
                    errand.failure.__cause__ = error
            if errand.scope.cancelled_caught and errand.failure is None:
                errand.failure = AuthorizationFailed("the login was given up: nobody waited for it any more")
        finally:
            errand.is_over = True
            self._errand = None
            errand.change()

    async def _obtain(self, errand: _Errand) -> None:
        wish, flow = errand.wish, self._flow
        flow.begin(errand)
        async with self._grant.store.exclusive(self._key):
            previous = await self._load()
            if wish.is_met_by(previous):
                assert previous is not None
                if previous.expires_at is None or previous.expires_at > time.time():
                    await self._use(previous, "stored")  # another connection has had it
                    return
            token = await self._grant._obtain(flow, wish, previous or wish.refused)  # noqa: SLF001 - its own kind
            if not flow.was_refreshed:
                await flow.keep_token(token)
            await self._use(token, "refreshed" if flow.was_refreshed else "issued")

    async def _load(self) -> TokenSet | None:
        stored = await self._flow.stored(self._key)
        if stored is None:
            return None
        try:
            return TokenSet.from_json(stored)
        except (KeyError, TypeError, ValueError):
            _log.warning("the stored token for %s cannot be used", self._flow.server.url)
            return None

    async def load(self) -> None:
        """Use the stored token, if there is one."""
        token = await self._load()
        if token is not None and (token.token_type != "DPoP" or self._grant.dpop is not False):
            await self._use(token, "stored")

    async def _use(  # noqa: ASYNC910 - no checkpoint may come between having a token and using it
        self, token: TokenSet, origin: Literal["stored", "refreshed", "issued"]
    ) -> None:
        key: DpopKey | None = None
        if token.token_type == "DPoP":
            key = await self._flow.key_for(token.issuer)
        self._token, self._proof_key, self._origin = token, key, origin
        self._is_proven = False
        self._renew_at = self._ends_at = math.inf
        if token.expires_at is not None:
            left = token.expires_at - time.time()
            now = trio.current_time()
            self._ends_at = now + left
            self._renew_at = now + left - min(EARLY_SECONDS, max(0.0, left) / 10)


def _is_sent(token: TokenSet, response: AuthResponse) -> bool:
    return response.sent.get("Authorization", "").partition(" ")[2] == token.access_token


def _wants_proof(posted: Posted) -> bool:
    """Whether an authorization server issues nothing but tokens that are bound to a key (RFC 9449, section 5)."""
    return is_object(posted.document) and posted.document.get("error") == "invalid_dpop_proof"


def _shows(response: AuthResponse, nonce: str | None) -> bool:
    """Whether the proof that was refused has shown this nonce already."""
    from joserfc import jws

    try:
        value: Any = json.loads(jws.extract_compact(response.sent["DPoP"].encode("ascii")).payload)
    except (KeyError, ValueError):
        return True
    return is_object(value) and value.get("nonce") == nonce


@asynccontextmanager
async def open_session(grant: TokenGrant, server: ProtectedServer) -> AsyncGenerator[Auth]:
    """Open what authorizes the requests of one connection, for as long as the block runs.

    Leaving cancels a login that is under way, and lets a request for a token that has been sent come to its end,
    within `LEAVING_SECONDS`.
    """
    async with open_fetcher(server, grant.insecure_hosts) as fetcher, open_hidden_nursery() as nursery:
        flow = TokenFlow(grant, server, fetcher)
        session = TokenSession(grant, flow, nursery)
        await session.load()
        try:
            yield session
        finally:
            flow.leave()
            nursery.cancel_scope.cancel(reason="the connection was left")
