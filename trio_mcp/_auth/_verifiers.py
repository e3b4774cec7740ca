"""Who vouches for a token: keys that are fetched and kept, an authorization server that is asked, a certificate.

A verifier says what a genuine token contains. Whether that is enough is decided by the rules of `_oauth`.

What is fetched is fetched by a task of the verifier, for all who wait for it: whoever is cancelled meanwhile
holds up nobody.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol, TypeAlias, cast, final
from urllib.parse import quote, urlencode

import attrs
import trio

from .._codec import _json
from .._codec._json import is_object
from .._core._http_rules import busy
from .._http._client import HttpClient, open_http_client
from .._http._messages import HttpRequest
from .._http._target import HttpSettings, parse_target, shown_url
from .._limits import KIB
from .._logs import Log
from .._oauth._access_tokens import ALGORITHMS, JwtRules, TokenRefused, VerificationKeys, read_token
from .._oauth._certificates import ClientCertificate
from .._oauth._metadata import AuthorizationServerMetadata, Fetched, find_server
from .._oauth._principal import Principal
from .._oauth._protected_resource import check_url
from .._trio import open_hidden_nursery

_log: Final = Log("trio_mcp.authorization")

Verify: TypeAlias = Callable[[str], Awaitable[Mapping[str, Any] | None]]
"""Verifies a token: returns what it contains, with the names of RFC 7519, or `None` if it is not genuine.

What it contains is then checked: ``aud`` must name the resource, ``exp`` and ``nbf`` are kept, ``iss`` is one of
the authorization servers, and ``sub`` or ``client_id`` says whose it is. So a function that knows these by other
means adds them. It may raise `HttpRefused`, such as 503 when what it asks cannot be reached."""

FETCH_SECONDS: Final = 10.0
"""How long fetching keys, or an answer about a token, may take."""

MAX_FETCHED: Final = 256 * KIB
"""The largest document that is fetched, in bytes."""

_FRESH_SECONDS: Final = (300.0, 86_400.0)
"""For how long keys are not fetched again, at least and at most; between these, as their server says."""

_USABLE_SECONDS: Final = 86_400.0
"""For how long keys are used while they cannot be fetched again."""

_AGAIN_SECONDS: Final = 60.0
"""How often keys are fetched because a token names one that is not known."""

_RETRY_SECONDS: Final = 5.0
"""How soon they are fetched again if that has failed."""

_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})")


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
    fetched at once, but not more than once a minute.

    Args:
        issuer: The URL of the issuer, exactly as tokens have it.
        jwks_uri: Where its keys are; by default its metadata say it.
        jwks: The keys, as plain JSON, if they are not to be fetched.
        algorithms: How tokens may be signed. None with a shared secret is possible.
        http: How connections are made.

    Raises:
        ValueError: A URL is no https URL (http is only for this machine), or an algorithm is none.
    """

    issuer: str = attrs.field(kw_only=False)
    jwks_uri: str | None = None
    jwks: Mapping[str, Any] | None = None
    algorithms: Sequence[str] = attrs.field(default=ALGORITHMS, converter=_algorithms)
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

    def __attrs_post_init__(self) -> None:
        self._rules = JwtRules(self._settings.algorithms)
        if self._settings.jwks is not None:
            self._keys = VerificationKeys(self._settings.jwks)
            self._fresh_until = self._usable_until = self._next_fetch = float("inf")

    async def verify(self, token: str) -> Mapping[str, Any] | None:  # noqa: ASYNC910 - not public
        """Verify a token; see `Verify`. Waits only for keys that are not known yet."""
        read = read_token(token)
        if read is None or read.issuer != self._settings.issuer:
            return None
        self._rules.verify(read, await self._key(read.key_id))
        return read.claims

    async def _key(self, id: object) -> Any:
        now = trio.current_time()
        if self._keys is not None and now < self._usable_until:
            if now >= self._fresh_until and now >= self._next_fetch:
                self._fetch()
            key = self._keys.find(id)
            if key is not None:
                return key
        if self._fetching is not None or now >= self._next_fetch:
            await self._fetch().wait()
        if self._keys is None or trio.current_time() >= self._usable_until:
            raise busy(503, "the keys of the authorization server cannot be fetched; try again", _RETRY_SECONDS)
        key = self._keys.find(id)
        if key is None:
            raise TokenRefused("the token is signed by a key that is not known")
        return key

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
                return check_url("jwks_uri", found.jwks_uri)


async def _fetched(http: HttpClient, url: str) -> tuple[Fetched, float]:
    """Fetch a document; return it, and for how long it may be kept, in seconds. Redirects are not followed.

    Raises:
        McpError: The server cannot be reached, or the document is too large.
    """
    request = HttpRequest(method="GET", target=parse_target(url), headers=[(b"accept", b"application/json")])
    async with await http.send(request) as response:
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
        issuer: Who issues the tokens, if the answers do not say it.
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
        if question.answer.get("active") is not True:
            return None
        said = question.answer
        return said if self._settings.issuer is None or "iss" in said else {**said, "iss": self._settings.issuer}

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
                async with await self._http.send(request) as response:
                    if response.status != 200:
                        raise ValueError(f"the status is {response.status}")
                    answer = _json.decode(await response.read(MAX_FETCHED))
                if not is_object(answer):
                    raise ValueError("the answer is no JSON object")
                question.answer = cast("Mapping[str, Any]", answer)
        except Exception as error:
            # The boundary of one question; without an answer nobody is let in.
            _log.log(logging.WARNING, "%s cannot be asked about a token: %s", request.target.address, error)
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
        issuer = certificate.issuer.replace(" ", "%20") or None
        return Principal(subject, issuer=issuer, scopes=scopes, claims={"x5t#S256": certificate.thumbprint})
