"""How a server is protected by OAuth, and who vouches for a token: keys, an authorization server, a certificate.

A verifier says what a genuine token contains. Whether that is enough is decided by the rules of `_oauth`, which
`_endpoint` applies.

What is fetched is fetched by a task of the verifier, for all who wait for it: whoever is cancelled meanwhile
holds up nobody.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast, final
from urllib.parse import quote, urlencode

import attrs
import trio

from .._codec import _json
from .._codec._json import is_object
from .._core._http_rules import busy
from .._http._client import HttpClient, open_http_client, send_following
from .._http._messages import HttpRequest
from .._http._target import HttpSettings, parse_target
from .._limits import KIB, MIB, _size
from .._logs import Log
from .._oauth._access_tokens import JwtRules, TokenRefused, VerificationKeys, read_token
from .._oauth._metadata import AuthorizationServerMetadata, Fetched, find_server, is_issuer
from .._oauth._principal import OFFLINE, ClientCertificate, Principal
from .._oauth._protected_resource import check_url, resource_metadata
from .._oauth._signed import ALGORITHMS, SignedToken
from .._printable import secrets_in, shown_url, without_secrets
from .._trio import open_hidden_nursery

_log: Final = Log("trio_mcp.authorization")

_T = TypeVar("_T")

Verify: TypeAlias = Callable[[str], Awaitable[Mapping[str, Any] | None]]
"""Verifies a token: returns what it contains, with the names of RFC 7519, or `None` if it is not genuine. A plain
function is called in a thread, if it is given for this.

What it contains is then checked: ``aud`` must name the resource, ``exp`` and ``nbf`` are kept, ``iss`` is one of
the authorization servers, and ``sub`` says whose it is; without it, or if it is the same, ``client_id`` does, and
the subject is ``client_id=…``, which is nobody's ``sub``. So a function that knows these by other means adds
them. It may raise `HttpRefused`, such as 503 when what it asks cannot be reached."""

FETCH_SECONDS: Final = 10.0
"""How long fetching keys, or an answer about a token, may take."""

MAX_FETCHED: Final = 256 * KIB
"""The largest document that is fetched, in bytes."""

_FRESH_SECONDS: Final = (300.0, 86_400.0)
"""For how long keys are not fetched again, at least and at most; between these, as their server says."""

_USABLE_SECONDS: Final = 86_400.0
"""For how long keys are used while they cannot be fetched again."""

_AGAIN_SECONDS: Final = 60.0
"""How often keys are fetched because a token names one that is not known, or names none and is by none."""

_RETRY_SECONDS: Final = 5.0
"""How soon they are fetched again if that has failed."""

_ACCESS: Final = frozenset({"bearer", "dpop", "access_token", "at+jwt"})
"""What servers call the type of an access token (RFC 7662, section 2.2; RFC 6749, section 5.1), in lower case."""

VERIFYING: Final = 4
"""How many threads verify signatures at once by keys with which that takes long."""

THREADS: Final = 40
"""How many threads run a plain function of the user's at once that authenticates clients."""

_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})")


def awaited(function: Callable[[_T], object]) -> Callable[[_T], Awaitable[object]]:
    """Return an async function that does what a function of the user's does: a plain one in a thread."""
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        return cast("Callable[[_T], Awaitable[object]]", function)
    threads = trio.CapacityLimiter(THREADS)

    async def call(argument: _T) -> object:
        # In a tuple, because it may return a coroutine, which Trio would refuse.
        (returned,) = await trio.to_thread.run_sync(
            lambda: (function(argument),), abandon_on_cancel=True, limiter=threads
        )
        return await returned if isawaitable(returned) else returned

    return call


class TokenVerifier(Protocol):
    """Vouches for tokens: `JwtVerifier`, `IntrospectionVerifier`, or one of your own."""

    def open(self) -> AbstractAsyncContextManager[Verify]:
        """Return a context in which tokens are verified. Each server enters one of its own."""
        ...


# JSON Web Tokens.


def _algorithms(names: Sequence[str]) -> tuple[str, ...]:
    return JwtRules(tuple(names)).algorithms


@final
@attrs.frozen(kw_only=True)
class JwtVerifier:
    """Verifies tokens that are JWTs (RFC 9068), by the public keys of their issuer.

    The keys are fetched when the first token comes, and again when their server says that they are old: between 5
    minutes and 24 hours, with the old ones in use meanwhile. A token that names a key which is not known has them
    fetched at once, but not more than once a minute. For one that names none, the keys are tried that sign by its
    algorithm: 10 at most; if it is by none of them, they are fetched likewise.

    Args:
        issuer: The URL of the issuer, exactly as tokens have it, but for a slash in place of no path.
        jwks_uri: Where its keys are; by default its metadata say it.
        jwks: The keys, as plain JSON, if they are not to be fetched.
        algorithms: How tokens may be signed. None with a shared secret is possible.
        requires_exp: Whether tokens must say when they expire (RFC 9068, section 2.2). One that does not is good
            until its key is withdrawn: `False` is for issuers that cannot do otherwise.
        http: How connections are made.

    Raises:
        ValueError: A URL is no https URL (http is only for this machine), or an algorithm is none.
    """

    issuer: str = attrs.field(kw_only=False)
    jwks_uri: str | None = None
    jwks: Mapping[str, Any] | None = None
    algorithms: Sequence[str] = attrs.field(default=ALGORITHMS, converter=_algorithms)
    requires_exp: bool = True
    http: HttpSettings | None = None

    def __attrs_post_init__(self) -> None:
        check_url("issuer", self.issuer)
        if self.jwks_uri is not None:
            check_url("jwks_uri", self.jwks_uri)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Verify]:
        """Return a context in which tokens are verified; see `TokenVerifier`."""
        async with open_http_client(self.http) as http, open_hidden_nursery() as nursery:
            yield _JwtVerification(self, http, nursery).verify
            nursery.cancel_scope.cancel(reason="no more tokens are verified")


@final
@attrs.define(eq=False)
class _JwtVerification:
    """The keys of one issuer, as long as a server runs."""

    _settings: JwtVerifier
    _http: HttpClient
    _nursery: trio.Nursery
    _rules: JwtRules = attrs.field(init=False)
    _keys: VerificationKeys | None = attrs.field(default=None, init=False)
    _fresh_until: float = attrs.field(default=0.0, init=False)
    _usable_until: float = attrs.field(default=0.0, init=False)
    _next_fetch: float = attrs.field(default=-1.0, init=False)
    _fetching: trio.Event | None = attrs.field(default=None, init=False)
    _threads: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(VERIFYING), init=False)

    def __attrs_post_init__(self) -> None:
        self._rules = JwtRules(self._settings.algorithms)
        if self._settings.jwks is not None:
            self._keys = VerificationKeys(self._settings.jwks)
            self._fresh_until = self._usable_until = self._next_fetch = float("inf")

    async def verify(self, token: str) -> Mapping[str, Any] | None:
        """Verify a token; see `Verify`. Waits only for keys that are not known yet."""
        read = read_token(token)
        if read is None or not is_issuer(read.claims.get("iss"), self._settings.issuer):
            return None
        # What costs nothing comes first.
        if self._settings.requires_exp and read.claims.get("exp") is None:
            raise TokenRefused("the token does not say when it expires")
        self._rules.check(read)
        id, algorithm = read.header.get("kid"), read.header["alg"]
        keys = await self._keys_for(id, algorithm)
        known = self._keys
        is_genuine = await self._is_by(read, keys)
        if not is_genuine and id is None:
            # It may be by a key that has come since, which has no name either.
            if self._keys is known and (self._fetching is not None or trio.current_time() >= self._next_fetch):
                await self._fetch().wait()
            if self._keys is not known:
                is_genuine = await self._is_by(read, await self._keys_for(id, algorithm))
        if not is_genuine:
            raise TokenRefused("the signature of the token is wrong")
        return read.claims

    async def _is_by(self, read: SignedToken, keys: list[Any]) -> bool:
        if self._keys is not None and self._keys.are_slow(keys):
            # A thread that is left behind does no harm: it only calculates.
            is_by = partial(self._rules.is_by, read, keys)
            return await trio.to_thread.run_sync(is_by, abandon_on_cancel=True, limiter=self._threads)
        return self._rules.is_by(read, keys)

    async def _keys_for(self, id: object, algorithm: object) -> list[Any]:
        now = trio.current_time()
        if self._keys is not None and now < self._usable_until:
            if now >= self._fresh_until and now >= self._next_fetch:
                self._fetch()
            keys = self._keys.find(id, algorithm)
            if keys:
                return keys
        if self._fetching is not None or now >= self._next_fetch:
            await self._fetch().wait()
        if self._keys is None or trio.current_time() >= self._usable_until:
            raise busy(503, "the keys of the authorization server cannot be fetched; try again", _RETRY_SECONDS)
        keys = self._keys.find(id, algorithm)
        if not keys:
            raise TokenRefused("the token is signed by a key that is not known")
        return keys

    def _fetch(self) -> trio.Event:
        """Fetch the keys, unless that is being done; return what is set when it is done."""
        if self._fetching is None:
            self._fetching = trio.Event()
            self._nursery.start_soon(self._fetch_keys, self._fetching, name=f"keys of {self._settings.issuer}")
        return self._fetching

    async def _fetch_keys(self, done: trio.Event) -> None:
        wait = _RETRY_SECONDS
        try:
            with trio.fail_after(FETCH_SECONDS):
                uri = self._settings.jwks_uri or await self._find()
                fetched, age = await _fetched(self._http, uri)
            if fetched.members is None:
                raise ValueError(f"{shown_url(uri)} answered with HTTP status {fetched.status}, and with no keys")
            keys = VerificationKeys(fetched.members)
            if keys.left_out:
                _log.log(logging.WARNING, "%s has too many keys: %d are not used", shown_url(uri), keys.left_out)
            now = trio.current_time()
            self._keys, self._fresh_until, self._usable_until = keys, now + age, now + max(age, _USABLE_SECONDS)
            wait = _AGAIN_SECONDS
        except Exception as error:
            # The boundary of one fetch: whoever waits for it is told, and the next one may work.
            _log.log(logging.WARNING, "the keys of %s cannot be fetched: %s", self._settings.issuer, error)
        finally:
            self._next_fetch = trio.current_time() + wait
            self._fetching = None
            done.set()

    async def _find(self) -> str:
        """Return where the keys are, as the metadata of the issuer say.

        Raises:
            AuthorizationFailed: There are no metadata that may be used.
            ValueError: They do not say it.
        """
        walk = find_server(self._settings.issuer)
        fetch = next(walk)
        while True:
            fetched, _ = await _fetched(self._http, fetch.url)
            try:
                fetch = walk.send(fetched)
            except StopIteration as stop:
                found: AuthorizationServerMetadata = stop.value
                if found.jwks_uri is None:
                    raise ValueError("its metadata do not say where they are (jwks_uri)") from None
                if self._settings.issuer.startswith("https:") and not found.jwks_uri.startswith("https:"):
                    raise ValueError("its metadata name an address of this machine (jwks_uri)") from None
                return check_url("jwks_uri", found.jwks_uri)


async def _fetched(http: HttpClient, url: str) -> tuple[Fetched, float]:
    """Fetch a document; return it, and for how long it may be kept, in seconds. Redirects are not followed.

    Raises:
        McpError: The server cannot be reached, or the document is too large.
    """
    request = HttpRequest(method="GET", target=parse_target(url), headers=[(b"accept", b"application/json")])
    async with await send_following(http, request, max_redirects=0) as response:
        try:
            document: object = _json.decode(await response.read(MAX_FETCHED))
        except (ValueError, RecursionError):
            document = None
        said = _MAX_AGE.search((response.headers.get("cache-control") or "").lower())
    least, most = _FRESH_SECONDS
    age = least if said is None else min(max(float(said[1]), least), most)
    return Fetched(response.status, document), age


# Introspection.


@final
@attrs.frozen(kw_only=True)
class IntrospectionVerifier:
    """Verifies tokens by asking their authorization server (RFC 7662), whatever they look like.

    One question is asked for a token at a time, for all requests that bring it. Answers are kept for
    `ResourceServer.keep_for`: a token that is revoked is accepted for so long.

    Args:
        endpoint: The URL of the introspection endpoint.
        client_id: As whom the server asks.
        client_secret: Its secret there.
        issuer: Who issues the tokens. Answers need not say it then, and may not name another one.
        http: How connections are made.

    Raises:
        ValueError: A URL is no https URL (http is only for this machine).
    """

    endpoint: str = attrs.field(kw_only=False)
    client_id: str
    client_secret: str = attrs.field(repr=False)
    issuer: str | None = None
    http: HttpSettings | None = None

    def __attrs_post_init__(self) -> None:
        check_url("endpoint", self.endpoint)
        if self.issuer is not None:
            check_url("issuer", self.issuer)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Verify]:
        """Return a context in which tokens are verified; see `TokenVerifier`."""
        async with open_http_client(self.http) as http, open_hidden_nursery() as nursery:
            yield _Introspection(self, http, nursery).verify
            nursery.cancel_scope.cancel(reason="no more tokens are verified")


@final
@attrs.define(eq=False)
class _Question:
    """What is asked about a token, for all who wait for it."""

    done: trio.Event = attrs.field(factory=trio.Event)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    waiting: int = 0
    answer: Mapping[str, Any] | None = None


@final
@attrs.define(eq=False)
class _Introspection:
    """The questions that are open, as long as a server runs."""

    _settings: IntrospectionVerifier
    _http: HttpClient
    _nursery: trio.Nursery
    _open: dict[bytes, _Question] = attrs.field(factory=dict[bytes, _Question], init=False)

    async def verify(self, token: str) -> Mapping[str, Any] | None:
        """Verify a token; see `Verify`."""
        key = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        question = self._open.get(key)
        if question is None:
            question = self._open[key] = _Question()
            self._nursery.start_soon(self._ask, token, key, question, name="introspection")
        question.waiting += 1
        try:
            await question.done.wait()
        finally:
            question.waiting -= 1
            if not question.waiting and not question.done.is_set():
                # Or clients that make up tokens, and leave, would have any number of questions open.
                del self._open[key]
                question.scope.cancel(reason="nobody waits for what is known about the token any more")
        if question.answer is None:
            raise busy(503, "the authorization server cannot be asked about the token; try again", _RETRY_SECONDS)
        said, issuer = question.answer, self._settings.issuer
        if said.get("active") is not True:
            return None
        kind: object = said.get("token_type")
        if kind is not None and (not isinstance(kind, str) or kind.lower() not in _ACCESS):
            return None  # a refresh token is active, too
        if issuer is None or is_issuer(said.get("iss"), issuer):
            return said
        return None if said.get("iss") is not None else {**said, "iss": issuer}

    async def _ask(self, token: str, key: bytes, question: _Question) -> None:
        settings = self._settings
        plain = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret, safe='')}"
        request = HttpRequest(
            method="POST",
            target=parse_target(settings.endpoint),
            headers=[
                (b"accept", b"application/json"),
                (b"content-type", b"application/x-www-form-urlencoded"),
                (b"authorization", b"Basic " + base64.b64encode(plain.encode())),
            ],
            body=urlencode({"token": token, "token_type_hint": "access_token"}).encode("ascii"),
        )
        try:
            with question.scope, trio.fail_after(FETCH_SECONDS):
                async with await send_following(self._http, request, max_redirects=0) as response:
                    if response.status != 200:
                        raise ValueError(f"the status is {response.status}")
                    answer = _json.decode(await response.read(MAX_FETCHED))
                if not is_object(answer):
                    raise ValueError("the answer is no JSON object")
                question.answer = cast("Mapping[str, Any]", answer)
        except Exception as error:
            # The boundary of one question; without an answer nobody is let in.
            said = without_secrets(str(error), [token, settings.client_secret, *secrets_in(request.headers)])
            _log.log(logging.WARNING, "%s cannot be asked about a token: %s", request.target.address, said)
        finally:
            if self._open.get(key) is question:
                del self._open[key]
            question.done.set()


# Certificates.


def _named(certificate: ClientCertificate) -> str | None:
    """Return the name of a client: that of its workload, else its subject."""
    names = certificate.alternative_names("URI")
    return names[0] if names else certificate.subject or None


@final
@attrs.frozen(kw_only=True)
class CertificateVerifier:
    """Knows clients by the certificate of their TLS connection, without any token (mutual TLS).

    The `ssl_context` of the server must demand it: ``verify_mode=ssl.CERT_REQUIRED``, and the authorities that
    are trusted. Tokens that are bound to a certificate (RFC 8705) need no such verifier: that is checked with
    each token.

    Args:
        subject: Returns the client's name, or `None` to refuse it. Default: the first URI of the alternative
            names, such as a SPIFFE id, else the subject.
        scopes: What these clients may do: a set of scopes, or a function of the certificate.
    """

    subject: Callable[[ClientCertificate], str | None] = _named
    scopes: Collection[str] | Callable[[ClientCertificate], Collection[str]] = ()

    def identify(self, certificate: ClientCertificate) -> Principal | None:
        """Return who has shown a certificate; `None` for nobody who is let in."""
        subject = self.subject(certificate)
        if not subject:
            return None
        scopes = self.scopes(certificate) if callable(self.scopes) else self.scopes
        issuer = certificate.issuer.replace("%", "%25").replace(" ", "%20") or None
        return Principal(subject, issuer=issuer, scopes=scopes, claims={"x5t#S256": certificate.thumbprint})


# A server.

Verifier: TypeAlias = TokenVerifier | CertificateVerifier | Verify | Callable[[str], Mapping[str, Any] | None]
"""What vouches for clients: one of the verifiers, or a function that does what `Verify` says."""


def _urls(urls: Iterable[str]) -> tuple[str, ...]:
    if isinstance(urls, str):
        raise TypeError(f"authorization_servers must be several URLs, not the string {urls!r}")
    return tuple(check_url("authorization_servers", url) for url in urls)


def _texts(scopes: Iterable[str]) -> frozenset[str]:
    if isinstance(scopes, str):
        raise TypeError(f"scopes must be several strings, not the string {scopes!r}")
    return frozenset(scopes)


def _scopes(given: Iterable[str]) -> frozenset[str]:
    scopes = _texts(given)
    if OFFLINE in scopes:
        raise ValueError(f"scopes: {OFFLINE} is between a client and its authorization server, and no server's")
    return scopes


def _verifiers(given: Verifier | Sequence[Verifier] | None) -> tuple[Verifier, ...]:
    if given is None:
        return ()
    verifiers: tuple[object, ...] = tuple(cast("Any", given)) if isinstance(given, Sequence) else (given,)
    for each in verifiers:
        if isinstance(each, type) or not (hasattr(each, "open") or hasattr(each, "identify") or callable(each)):
            raise TypeError(
                "verifier must be a function, or an object such as JwtVerifier(...), or a list of these, not "
                f"{each!r:.80}"
            )
    return cast("tuple[Verifier, ...]", verifiers)


@final
@attrs.frozen(kw_only=True)
class ResourceServer:
    """How a server over HTTP is protected by OAuth: ``serve_http(server, auth=ResourceServer(…))``.

        ResourceServer("https://example.com/mcp", authorization_servers=["https://login.example.com"])

    Each request needs an access token in its `Authorization` field that was issued for this server (``aud``), by
    one of its authorization servers, has not expired, and has the scopes. `Context.principal` is whose it is; all
    that a server keeps for somebody belongs to its issuer and subject, so a client that comes with a new token
    finds it again. A token in a URL is never looked at.

    Clients without one get 401, and find the way to the authorization servers by metadata at
    ``/.well-known/oauth-protected-resource``, with and without the path of the resource. What tools, resources
    and prompts need beyond `scopes` is said where they are registered; a client that lacks it gets 403, with a
    challenge that names the scopes.

    A stream, a subscription or a WebSocket ends when the token expires with which it was opened.

    Args:
        resource: The URL of the endpoint as clients use it; what tokens must be issued for.
        authorization_servers: The issuers of the tokens: their URLs, exactly as tokens have them, but for a
            slash in place of no path.
        verifier: What vouches for tokens: `JwtVerifier`, `IntrospectionVerifier`, `CertificateVerifier`, a
            function (see `Verify`), or a list of these, which are asked in order. Default: a `JwtVerifier` for
            each authorization server.
        scopes: Those that every request needs.
        scopes_supported: Those that the metadata offer to clients; by default `scopes`.
        scope_implies: Which scopes include which others: ``{"orders:write": {"orders:read"}}``.
        audiences: For whom else tokens may be issued, such as a former URL of the server.
        name: The server's name, for people, in the metadata.
        documentation: The URL of a page for developers, in the metadata.
        dpop: Whether tokens that are bound to a key are ``"accepted"`` (RFC 9449), beside others; ``"required"``;
            or `None`, neither. A token that is bound is never accepted without a proof.
        dpop_nonces: Whether proofs need a nonce of this server, which shows that they are new.
        leeway: By how many seconds the clocks of two machines may differ.
        keep_for: For how many seconds a token is accepted without asking its verifier again, and never after it
            has expired. So long a revoked token may be accepted. 0 for asking each time.
        max_kept_bytes: How much memory the tokens take that are remembered; the ones not seen for longest are
            forgotten.
        hands_on_tokens: Whether handlers get the token, as `Principal.token`: for exchanging it for another one.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: A URL is no https URL without a fragment (http is only for this machine), nothing vouches for
            tokens, or the scopes have ``offline_access``, which no server needs.
    """

    resource: str = attrs.field(kw_only=False)
    authorization_servers: tuple[str, ...] = attrs.field(default=(), converter=_urls)
    verifier: tuple[Verifier, ...] = attrs.field(default=(), converter=_verifiers)
    scopes: frozenset[str] = attrs.field(default=frozenset[str](), converter=_scopes)
    scopes_supported: frozenset[str] | None = attrs.field(
        default=None, converter=attrs.converters.optional(_scopes)
    )
    scope_implies: Mapping[str, Collection[str]] = attrs.field(factory=dict[str, Collection[str]])
    audiences: frozenset[str] = attrs.field(default=frozenset[str](), converter=_texts)
    name: str | None = None
    documentation: str | None = None
    dpop: Literal["accepted", "required"] | None = attrs.field(
        default="accepted", validator=attrs.validators.in_(("accepted", "required", None))
    )
    dpop_nonces: bool = False
    leeway: float = attrs.field(default=60.0, validator=attrs.validators.ge(0))
    keep_for: float = attrs.field(default=60.0, validator=attrs.validators.ge(0))
    max_kept_bytes: int = _size(16 * MIB)
    hands_on_tokens: bool = False

    def __attrs_post_init__(self) -> None:
        check_url("resource", self.resource)
        if not self.verifier:
            if not self.authorization_servers:
                raise ValueError("authorization_servers or verifier is needed: nothing vouches for tokens")
            default = tuple(JwtVerifier(issuer) for issuer in self.authorization_servers)
            object.__setattr__(self, "verifier", default)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the resource (RFC 9728, section 2)."""
        offered = self.scopes if self.scopes_supported is None else self.scopes_supported
        return resource_metadata(
            self.resource,
            authorization_servers=self.authorization_servers,
            scopes=offered,
            name=self.name,
            documentation=self.documentation,
            dpop=self.dpop,
            binds_certificates=any(isinstance(each, CertificateVerifier) for each in self.verifier),
        )
