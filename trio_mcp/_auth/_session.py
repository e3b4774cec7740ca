"""The token of one connection: had by one task for all who wait for it, and had again when it is refused.

    headers_for, on_refused    called by tasks that send requests; they wait for a renewal, and may be cancelled
    Renewal                    one attempt to have another token; a task of the connection does it

Whoever is cancelled just waits no more. When nobody waits any more, a login is cancelled with everything it has
opened; a request for a token that has been sent is not, because its answer may bring the only refresh token that
is still good.

The key of a token is held in the store while one is requested without a person, so that no refresh token is used
twice. A person may take minutes: meanwhile nothing is held, and other connections see that there is a login, wait
for its end, and count that time as that of a person, too.
"""

from __future__ import annotations

import abc
import copy
import json
import math
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, Literal, NoReturn, TypeVar, final

import attrs
import trio

from .._codec._json import is_object
from .._errors import AuthorizationFailed, McpError
from .._http._auth import Auth, AuthRequest, AuthResponse, ProtectedServer
from .._logs import Log
from .._oauth._challenges import DPOP, our_challenge
from .._oauth._dpop import DpopKey
from .._oauth._metadata import is_issuer
from .._oauth._tokens import TokenSet
from .._trio import open_hidden_nursery
from ._fetching import open_fetcher
from ._flow import GrantSettings, Renewal, TokenFlow, TokenNeed
from ._stores import MAX_STEP_UPS, NOTED_PAUSE, Login, LoginNote, MemoryTokenStore, person_of

_log: Final = Log("trio_mcp.auth")

_Failure = TypeVar("_Failure", bound=McpError)

EARLY_SECONDS: Final = 30.0
"""How long before its end a token is replaced; at most a tenth of its life."""


@attrs.frozen(kw_only=True, eq=False)
class TokenGrant(GrantSettings, Auth):
    """A way of OAuth to have tokens. `open_client` opens it; its object can be used for several servers."""

    @abc.abstractmethod
    async def _obtain(self, flow: TokenFlow) -> TokenSet | None:
        """Have another token without a person; `None` if a person must log in.

        Raises:
            AuthorizationFailed: There is none.
        """

    async def _log_in(self, flow: TokenFlow) -> TokenSet:
        """Have a person log in.

        Raises:
            AuthorizationFailed: There is no token.
        """
        raise NotImplementedError

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
class TokenSession(Auth):
    """Authorizes the requests of one connection with a token. Made by `open_session`."""

    def __init__(self, grant: TokenGrant, flow: TokenFlow, nursery: trio.Nursery) -> None:
        self._grant = grant
        self._flow = flow
        self._nursery = nursery
        self._token: TokenSet | None = None
        self._proof_key: DpopKey | None = None
        self._renew_at = math.inf
        self._ends_at = math.inf
        self._is_proven = False  # the server has taken the token once
        self._origin: Literal["stored", "refreshed", "issued"] = "stored"
        self._nonce: str | None = None
        self._renewal: Renewal | None = None

    def __repr__(self) -> str:
        return f"<TokenSession {self._grant!r}>"

    # For requests.

    async def headers_for(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the token, had again if it is about to end; nothing if there is none yet."""
        token = self._token
        if token is not None and trio.current_time() >= self._renew_at:
            try:
                await self._renew(TokenNeed(refused=token, is_early=True), request)
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
        if request.method == "DELETE" or request.was_asked or (response.challenges and challenge is None):
            await trio.lowlevel.checkpoint()
            # Nobody logs in to leave, or twice for one request; no token helps where another scheme is wanted.
            return False
        if self._token is not None and sent is None and "Authorization" in response.sent:
            await trio.lowlevel.checkpoint()
            return True  # others have had another token meanwhile
        scopes = None if challenge is None else challenge.scopes
        hint = None if challenge is None else challenge.get("resource_metadata")
        is_bound = challenge is not None and challenge.scheme == DPOP
        if response.status == 403:
            is_step_up = challenge is not None and challenge.get("error") == "insufficient_scope"
            if not is_step_up or not scopes or sent is None or request.sends > MAX_STEP_UPS:
                await trio.lowlevel.checkpoint()
                return False
            if scopes <= (sent.requested or frozenset()) | (sent.granted or frozenset()):
                await trio.lowlevel.checkpoint()
                return False  # that was asked for before: more of the same does not help
            need = TokenNeed(refused=sent, scopes=scopes, hint=hint, is_bound=is_bound, step_up=True)
        else:
            # One that has ended on its way says nothing about the next; `MAX_SENDS` bounds how often.
            is_new = sent is not None and not self._is_proven and trio.current_time() < self._ends_at
            if is_new and self._origin == "issued":
                await trio.lowlevel.checkpoint()
                return False  # another one would be no better
            in_vain = is_new and self._origin == "refreshed"
            need = TokenNeed(refused=sent, scopes=scopes, hint=hint, is_bound=is_bound, must_log_in=in_vain)
        await self._renew(need, request)
        return True

    # Having another token.

    async def _renew(self, need: TokenNeed, request: AuthRequest) -> None:
        """Wait until there is another token.

        Raises:
            McpError: There is none.
        """
        while not need.is_met_by(self._token):
            renewal = self._renewal
            is_ours = renewal is None
            if renewal is None:
                renewal = self._renewal = Renewal(need)
                self._nursery.start_soon(self._do, renewal, name="having a token")
            await renewal.wait(request)
            covers = is_ours or (renewal.need == need and not renewal.is_given_up)
            if renewal.failure is not None and covers:
                raise _copied(renewal.failure)
            if is_ours:
                return
        await trio.lowlevel.checkpoint()

    async def _do(self, renewal: Renewal) -> None:
        try:
            with renewal.scope:
                try:
                    await self._obtain(renewal)
                except McpError as error:
                    renewal.failure = error
                except Exception as error:
                    # The boundary of users' code: of their store, and their functions. There may be secrets in
                    # what it says, so only the caller has that.
                    _log.error("having a token failed: %s", type(error).__name__)
                    renewal.failure = AuthorizationFailed(f"having a token failed: {type(error).__name__}")
                    renewal.failure.__cause__ = error
            if renewal.scope.cancelled_caught and renewal.failure is None:
                renewal.failure = AuthorizationFailed("the login was given up: nobody waited for it any more")
        finally:
            renewal.is_over = True
            self._renewal = None
            renewal.change()

    async def _obtain(self, renewal: Renewal) -> None:
        flow, need = self._flow, renewal.need
        await flow.begin(renewal)
        flow.previous = await self._load()
        if await self._use_stored(flow.previous, need):
            return
        await flow.discover()
        while not await self._try(need):
            pass

    async def _try(self, need: TokenNeed) -> bool:
        """Have another token: from the store, by a request, by a person. Returns whether there is one now.

        Raises:
            AuthorizationFailed: There is none.
        """
        flow, grant = self._flow, self._grant
        store, key = grant.store, flow.token_key
        mine, person = Login((grant, need)), None
        note = None if isinstance(store, MemoryTokenStore) else LoginNote(store, key)
        try:
            # What is decided while the key is held, others find decided who hold it next.
            async with store.exclusive(key):
                previous = await self._load()
                if await self._use_stored(previous, need):
                    return True
                # The store has no refresh token any more that was refused, or logged out.
                flow.previous = previous or (need.refused and attrs.evolve(need.refused, refresh_token=None))
                token = await grant._obtain(flow)
                if token is not None:
                    if not flow.was_refreshed:
                        await flow.keep_token(token)
                    await self._use(token, "refreshed" if flow.was_refreshed else "issued")
                    return True
                if need.is_early:
                    raise AuthorizationFailed("the token is about to end, and there is none to refresh it with")
                is_elsewhere = note is not None and await note.is_of_others()
                person = person_of(store, key)
                login = person.login = person.login or mine
                if login is mine and note is not None and not is_elsewhere:
                    await note.write()
            if login is not mine or is_elsewhere:
                with flow.asking():
                    await _wait_over(login if login is not mine else note)
                if login.failure is not None and login.need == mine.need:
                    raise _copied(login.failure)
                return False
            async with nullcontext() if note is None else note.kept():
                token = await grant._log_in(flow)
            async with store.exclusive(key):
                await flow.keep_token(token)
            await self._use(token, "issued")
        except AuthorizationFailed as error:
            mine.failure = error
            raise
        finally:
            mine.over.set()
            if person is not None and person.login is mine:
                person.login = None
            if note is not None:
                await note.delete()  # noqa: ASYNC102 - it has a shield of its own
        return True

    async def _use_stored(self, token: TokenSet | None, need: TokenNeed) -> bool:
        """Use a token that another connection, or another process, has had, if it is what is wanted."""
        await trio.lowlevel.checkpoint()
        if token is None or not need.is_met_by(token):
            return False
        if token.expires_at is not None and token.expires_at <= time.time():
            return False
        await self._use(token, "stored")
        return True

    async def _load(self) -> TokenSet | None:
        """Return the stored token, if there is one that may be used."""
        stored = await self._flow.stored(self._flow.token_key)
        if stored is None:
            return None
        try:
            token = TokenSet.from_json(stored)
        except (KeyError, TypeError, ValueError):
            _log.warning("the stored token for %s cannot be used", self._flow.server.url)
            return None
        issuer, dpop = self._grant.issuer, self._grant.dpop
        # Its `OAuth` may have been set up otherwise than this one.
        is_ours = (issuer is None or is_issuer(token.issuer, issuer)) and dpop in (
            None,
            token.token_type == "DPoP",
        )
        return token if is_ours else None

    async def load(self) -> None:
        """Use the stored token, if there is one, and if it is known whose that must be."""
        await trio.lowlevel.checkpoint()
        token = await self._load() if self._flow.token_key else None
        if token is not None:
            await self._use(token, "stored")

    async def _use(self, token: TokenSet, origin: Literal["stored", "refreshed", "issued"]) -> None:
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


def _copied(failure: _Failure) -> _Failure:
    """Return a failure for one of several who fail by it."""
    made = copy.copy(failure).with_traceback(None)
    made.__cause__ = failure.__cause__  # which a copy has not
    return made


async def _wait_over(login: Login | LoginNote | None) -> None:
    """Wait until a login of another connection is over, or of another process."""
    await trio.lowlevel.checkpoint()
    if isinstance(login, Login):
        await login.over.wait()
    while isinstance(login, LoginNote) and await login.is_of_others():  # noqa: ASYNC110 - it wakes nobody here
        await trio.sleep(NOTED_PAUSE)


def _is_sent(token: TokenSet, response: AuthResponse) -> bool:
    return response.sent.get("Authorization", "").partition(" ")[2] == token.access_token


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
    named = grant._named
    async with open_fetcher(server, grant.insecure_hosts, named) as fetcher, open_hidden_nursery() as nursery:
        flow = TokenFlow(grant, server, fetcher)
        session = TokenSession(grant, flow, nursery)
        await session.load()
        try:
            yield session
        finally:
            flow.leave()
            nursery.cancel_scope.cancel(reason="the connection was left")
