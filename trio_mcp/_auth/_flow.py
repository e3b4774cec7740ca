"""What a way of OAuth needs to have a token for one server: discovery, requests for tokens, the store.

GrantSettings       how it is set up
TokenNeed, Renewal  why another token is wanted, and one attempt to have it
TokenFlow           what it needs for that; one for each connection
"""

from __future__ import annotations

import abc
import json
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final, TypeVar, final

import attrs
import trio

from .._codec._json import is_object
from .._errors import AuthorizationFailed, McpError
from .._http._auth import AuthRequest, ProtectedServer, host_names
from .._limits import check_kind, valid_kind
from .._logs import Log
from .._oauth._clients import OAuthClient
from .._oauth._dpop import DpopKey
from .._oauth._metadata import (
    AuthorizationServerMetadata,
    Discovered,
    Fetch,
    Fetched,
    Place,
    discover,
    find_server,
    is_issuer,
)
from .._oauth._tokens import Asked, TokenRequest, TokenSet, read_token, token_request
from .._printable import printable
from .._trio import LightParkingLot
from ._fetching import Fetcher, Posted
from ._stores import BINDING, LEAVING_SECONDS, MemoryTokenStore, TokenStore, person_of

_log: Final = Log("trio_mcp.auth")

_T = TypeVar("_T")

UNBROKEN_SECONDS: Final = 20.0
"""How long a request that uses up a refresh token goes on although nobody waits for it."""


@final
@attrs.frozen(kw_only=True)
class TokenNeed:
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
class Renewal:
    """One attempt to have another token."""

    def __init__(self, need: TokenNeed) -> None:
        self.need: Final = need
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


def _scopes(given: Collection[str] | str | None) -> frozenset[str] | None:
    if given is None:
        return None
    check_kind("scopes", given, Collection)
    return frozenset(given.split() if isinstance(given, str) else given)


@attrs.frozen(kw_only=True, eq=False)
class GrantSettings(abc.ABC):
    """How a way of OAuth to have tokens is set up.

    Attributes:
        issuer: The authorization server that must be used.
        scopes: The scopes to ask for. Default: what the server asks for.
        store: Where tokens are kept. Default: in memory, as long as this object.
        dpop: Whether tokens must be bound to a key; `None` if the server decides.
        insecure_hosts: Hosts whose URLs may be http.
    """

    issuer: str | None = attrs.field(default=None, validator=valid_kind)
    scopes: frozenset[str] | None = attrs.field(default=None, converter=_scopes)
    store: TokenStore = attrs.field(factory=MemoryTokenStore, validator=valid_kind)
    dpop: bool | None = attrs.field(default=None, validator=valid_kind)
    insecure_hosts: frozenset[str] = attrs.field(default=frozenset(), converter=host_names)

    @property
    def _named(self) -> Collection[str | None]:
        """The URLs that the user has named."""
        return (self.issuer,)

    @property
    def _binding(self) -> str | None:
        """By what name an authorization server is noted as the only one; `None` if any may be used."""
        return None

    @abc.abstractmethod
    def _identity(self, shown: str | None) -> str | None:
        """Return whose tokens these are, among those that a store has for one server.

        Args:
            shown: What is shown to have one (`_read_shown`); `None` if that is not known yet.

        Returns:
            `None` if it depends on that.
        """

    async def _read_shown(self) -> str | None:
        """Return what is shown to have a token, where others make it; it may change.

        Raises:
            AuthorizationFailed: It cannot be had.
        """
        await trio.lowlevel.checkpoint()
        return None


@final
class TokenFlow:
    """What a grant needs to have a token for one server.

    Attributes:
        server: The server.
        need: Why a token is wanted.
        previous: The token so far; `None` for none.
        found: What is known of the server's protection.
        key: The key that tokens are bound to, if they are.
        shown: What is shown to have a token, where others make it.
        token_key: Under which the token is in the store; empty if that is not known before one is needed.
        was_refreshed: Whether the token came of a refresh token, and has been stored.
    """

    def __init__(self, grant: GrantSettings, server: ProtectedServer, fetcher: Fetcher) -> None:
        self.server: Final = server
        self.shown: str | None = None
        self.token_key = self._token_key(grant)
        self.need = TokenNeed()
        self.previous: TokenSet | None = None
        self._found: Discovered | None = None
        self.key: DpopKey | None = None
        self.was_refreshed = False
        self._grant = grant
        self._fetcher = fetcher
        self._nonces: dict[str, str] = {}  # of each token endpoint
        self._renewal: Renewal | None = None
        self._unbroken: trio.CancelScope | None = None
        self._is_leaving = False

    def _token_key(self, grant: GrantSettings) -> str:
        identity = grant._identity(self.shown)
        return "" if identity is None else f"token {identity} {self.server.url}"

    # Finding out.

    @property
    def found(self) -> Discovered:
        assert self._found is not None
        return self._found

    async def discover(self) -> None:
        """Find out who issues tokens, and make the key that they are bound to, if they must be.

        Raises:
            AuthorizationFailed: Nothing was found that may be used.
        """
        await trio.lowlevel.checkpoint()
        need = self.need
        if self._found is None or not need.is_early:
            former = await self.bound_issuer() if self.previous is None else self.previous.issuer
            url = self.server._target.documented_url
            walk = discover(url, need.hint, self._grant.issuer, former)
            self._found = await self._walk(walk, need.hint)
            self._fetcher.trust_endpoints(self.found.server)
        wanted = self._grant.dpop
        if wanted is None:
            wanted = self.found.needs_dpop or need.is_bound
        self.key = await self.key_for(self.found.server.issuer) if wanted else None

    async def find_server(self, issuer: str) -> AuthorizationServerMetadata:
        """Return the metadata of another authorization server.

        Raises:
            AuthorizationFailed: There are none that may be used.
        """
        found = await self._walk(find_server(issuer))
        self._fetcher.trust_endpoints(found)
        return found

    async def _walk(self, walk: Generator[Fetch, Fetched, _T], hint: str | None = None) -> _T:
        step = partial(next, walk)
        while True:  # noqa: ASYNC913 - there are few documents
            try:
                fetch = step()
            except StopIteration as stop:
                await trio.lowlevel.checkpoint()
                found: _T = stop.value
                return found
            try:
                fetched = await self._fetcher.get(fetch)
            except AuthorizationFailed as error:
                step = partial(walk.throw, error)  # there may be another authorization server
                continue
            step = partial(walk.send, fetched)
            if fetch.url == hint and fetched.members is None:  # the usual places are tried, which may mislead
                _log.warning(
                    "the resource_metadata %s that the challenge of %s names cannot be used: %s",
                    hint,
                    self.server.url,
                    fetched.outcome,
                )

    async def bound_issuer(self) -> str | None:
        """Return the authorization server that credentials were used at first; `None` for none so far."""
        await trio.lowlevel.checkpoint()
        name = self._grant._binding
        known = None if name is None else await self.stored(f"{BINDING}{name}")
        issuer: object = None if known is None else known.get("issuer")
        return issuer if isinstance(issuer, str) else None

    async def bind(self, issuer: str, what: str) -> None:
        """Bind credentials to the authorization server that they are used at first, if the user has named none.

        Args:
            issuer: The authorization server.
            what: Whose credentials they are, for errors.

        Raises:
            AuthorizationFailed: They were used at another one.
        """
        name = self._grant._binding
        bound = await self.bound_issuer()
        if name is not None and bound is None:
            key = f"{BINDING}{name}"
            async with self._grant.store.exclusive(key):  # or two servers would both be the first
                bound = await self.bound_issuer()
                if bound is None:
                    await self.keep(key, {"issuer": issuer})
                    return
        if name is None or bound is None or is_issuer(issuer, bound):
            return
        raise AuthorizationFailed(
            f"{what} was first used at {printable(bound)}, and {printable(self.server.url)} names "
            f"{printable(issuer)}: its credentials are not shown to another authorization server, unless issuer "
            "(or --issuer) says that they are for it",
            issuer=issuer,
        )

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
        """Put the token of the server into the store, with where the server is: for when nobody is connected."""
        place = self._fetcher.place
        where = {"is_local": place < Place.FAR, "is_here": place is Place.HERE}
        await self.keep(self.token_key, {**token.to_json(), **where})

    async def forget(self, key: str) -> None:
        """Take something out of the store."""
        await self._grant.store.delete(key)

    # Asking.

    @contextmanager
    def asking(self) -> Generator[None]:
        """A person is asked something in this block: the clocks of all that wait stand still."""
        renewal = self._renewal
        assert renewal is not None
        renewal.is_asking = True
        renewal.change()
        try:
            yield
        finally:
            renewal.is_asking = False
            renewal.change()

    def count_page(self) -> None:
        """Note that a person is about to be shown a page.

        Raises:
            AuthorizationFailed: They were shown enough.
        """
        person = person_of(self._grant.store, self.token_key)
        person.count_page(self.server.url, is_step_up=self.need.step_up)

    def check(self, url: str) -> None:
        """Check that a URL may be called, or shown to a person.

        Raises:
            AuthorizationFailed: It may not.
        """
        self._fetcher.check(url)

    async def post(self, request: TokenRequest) -> Posted:
        """Send a request that is for no token, such as a registration."""
        return await self._fetcher.post(request)

    async def request_token(
        self,
        client: OAuthClient | None,
        grant: Mapping[str, str | None],
        *,
        scopes: frozenset[str] | None,
        refresh_token: str | None = None,
    ) -> TokenSet:
        """Request a token.

        Args:
            client: Who asks.
            grant: The grant, without ``resource`` and ``scope``.
            scopes: The scopes that it should have.
            refresh_token: What goes on being good if the answer has no other one.

        Raises:
            AuthorizationFailed: It is refused.
        """
        return self.read_token(await self.post_for_token(client, grant), client, scopes, refresh_token)

    async def post_for_token(self, client: OAuthClient | None, grant: Mapping[str, str | None]) -> Posted:
        """Send a request for a token, and once more with a proof if the authorization server wants to see one."""
        server = self.found.server
        form = {**grant, "resource": self.found.resource}
        posted = await self.post_form(server.token_endpoint, server.issuer, client, form, key=self.key)
        if self.key is None and self._grant.dpop is None and _wants_proof(posted):
            self.key = await self.key_for(server.issuer)
            posted = await self.post_form(server.token_endpoint, server.issuer, client, form, key=self.key)
        return posted

    def read_token(
        self,
        posted: Posted,
        client: OAuthClient | None,
        scopes: frozenset[str] | None,
        refresh_token: str | None = None,
    ) -> TokenSet:
        """Return the token in the answer to a request for one; see `request_token`."""
        server = self.found.server
        asked = Asked(
            issuer=server.issuer,
            name=server.name,
            resource=self.found.resource,
            client_id=None if client is None else client.client_id,
            scopes=scopes,
            refresh_token=refresh_token,
            secrets=posted.secrets,
        )
        is_bound = self.key is not None
        token = read_token(posted.status, posted.document, asked, now=time.time(), bound=is_bound)
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
            raise AuthorizationFailed(f"the token was not renewed within {UNBROKEN_SECONDS:g} s", may_pass=True)

    def leave(self) -> None:
        """The connection is being left."""
        self._is_leaving = True
        if self._unbroken is not None:
            self._unbroken.deadline = min(self._unbroken.deadline, trio.current_time() + LEAVING_SECONDS)

    # For the session.

    async def begin(self, renewal: Renewal) -> None:
        """Note on whose behalf this works, and find out whose tokens are to be had.

        Raises:
            AuthorizationFailed: That cannot be found out.
        """
        self._renewal, self.need = renewal, renewal.need
        self.was_refreshed = False
        self.shown = await self._grant._read_shown()
        self.token_key = self._token_key(self._grant)


def _wants_proof(posted: Posted) -> bool:
    """Whether an authorization server issues nothing but tokens that are bound to a key (RFC 9449, section 5)."""
    return is_object(posted.document) and posted.document.get("error") == "invalid_dpop_proof"
