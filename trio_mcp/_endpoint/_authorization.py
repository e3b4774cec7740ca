"""Authorization of a server over HTTP: it is the resource server of OAuth, and lets in who shows a token for it.

    a request ──> was its token accepted before? (`Guard.recall`, no waiting)
              └─> the verifiers ──> what it says (`_oauth`) ──> its proof, its certificate ──> the principal
    a message ──> does the principal have the scopes for it? (`Guard.check_body`)

What is refused gets a challenge that says where to get a token and which scopes it needs.

Spec: 2026-07-28, basic/authorization; RFC 6750; RFC 8705; RFC 9449; RFC 9728.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio

from .._auth._verifiers import (
    FETCH_SECONDS,
    CertificateVerifier,
    IntrospectionVerifier,
    JwtVerifier,
    ResourceServer,
    Verify,
    awaited,
)
from .._codec import _json
from .._codec._json import cost_of, is_array, is_object
from .._core._account import Overdrawn, Pool
from .._core._http_rules import HttpRefused, busy
from .._core._reconnect import may_pass
from .._logs import Log
from .._oauth._access_tokens import MAX_TOKEN, AcceptedToken, TokenRefused, TokenRules, read_token
from .._oauth._metadata import is_issuer
from .._oauth._principal import Principal, as_principal
from .._oauth._protected_resource import (
    WELL_KNOWN,
    ProofRefused,
    ProofRules,
    challenge,
    check_digest,
    metadata_path,
    metadata_url,
)
from .._printable import shown
from .._server._server import Hosted
from .._trio import Contained, open_hidden_nursery
from ._call import Authenticate, HttpCall
from ._routes import Route, document

_log: Final = Log("trio_mcp.authorization")

Missing: TypeAlias = Callable[[str, Mapping[str, Any], Principal | None], frozenset[str] | None]
"""Returns the scopes that a request needs, if its principal lacks any of them: of its method and its
parameters."""

RECHECK_SECONDS: Final = 5.0
"""How often it is looked at, at most, whether tokens are still accepted with which streams were opened."""

_RECHECKED_AT_ONCE: Final = 10
"""How many of them are looked at at once."""

_KEPT_BYTES: Final = 1_000
"""About what a token takes that is remembered, besides what it says, in bytes."""

_REFUSED_SECONDS: Final = 10.0
"""How long a token that was not genuine is refused without asking again."""

_MAX_REFUSED: Final = 10_000
"""How many of those are remembered, each in about 150 bytes."""

_ROOM_SECONDS: Final = 60.0
"""When a client may find room again for its proofs."""


@final
@attrs.define(eq=False)
class _Kept:
    """What is remembered about a token.

    Attributes:
        accepted: What it gives.
        suffices: Whether it lets a request in by itself: it has the scopes, and is bound to nothing.
        until: When it expires, in seconds since 1970.
        asked_again: When its verifier is asked again, on Trio's clock.
        weight: What it takes in memory, in bytes.
    """

    accepted: AcceptedToken
    suffices: bool
    until: float
    asked_again: float
    weight: int


def _credentials(field: str) -> tuple[str, str]:
    """Return the scheme, in lower case, and the token of `Authorization`."""
    scheme, _, token = field.partition(" ")
    return scheme.lower(), token.strip()


@final
@attrs.define(eq=False)
class Guard:
    """Lets requests in, as long as a server runs. Made by `open_guard`.

    Args:
        settings: Who is let in.
        verify: The verifiers' functions, in order.
        missing: Says which scopes a message needs.
        memory: Lends what is remembered of proofs.
        nonce_key: Seals nonces; by default a new one.
    """

    settings: ResourceServer
    _verify: Sequence[Callable[[str], Awaitable[object]]]
    _missing: Missing
    _memory: Pool
    _nonce_key: bytes | None = None
    _rules: TokenRules = attrs.field(init=False)
    _proofs: ProofRules = attrs.field(init=False)
    _url: str = attrs.field(init=False)
    _kept: OrderedDict[bytes, _Kept] = attrs.field(factory=OrderedDict[bytes, _Kept], init=False)
    _kept_bytes: int = attrs.field(default=0, init=False)
    _refused: OrderedDict[bytes, float] = attrs.field(factory=OrderedDict[bytes, float], init=False)
    _certificates: CertificateVerifier | None = attrs.field(default=None, init=False)
    # By what `Authorization` says.
    _standing: dict[str, dict[trio.CancelScope, HttpCall]] = attrs.field(
        factory=dict[str, dict[trio.CancelScope, HttpCall]], init=False
    )
    _some_stand: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        settings = self.settings
        own = [
            each.issuer for each in settings.verifier if isinstance(each, (JwtVerifier, IntrospectionVerifier))
        ]
        issuers = [issuer for issuer in own if issuer is not None]
        self._rules = TokenRules(
            audiences={settings.resource, *settings.audiences},
            issuers=frozenset({*settings.authorization_servers, *issuers}),
            implies=settings.scope_implies,
            leeway=settings.leeway,
        )
        secret = (self._nonce_key or secrets.token_bytes(32)) if settings.dpop_nonces else None
        self._proofs = ProofRules(settings.resource, secret, self._memory)
        self._url = metadata_url(settings.resource)
        for each in settings.verifier:
            if isinstance(each, CertificateVerifier):
                self._certificates = each

    def routes(self, path: str) -> dict[str, Route]:
        """Return what serves the metadata: at the root, for the path of the resource, and for another path.

        Args:
            path: The path of the endpoint, which a proxy may have changed.
        """
        serve = document(_json.encode(self.settings.metadata()))
        paths = (metadata_path(self.settings.resource), WELL_KNOWN, f"{WELL_KNOWN}{path.rstrip('/')}")
        return dict.fromkeys(paths, serve)

    # Who it is.

    def recall(self, call: HttpCall) -> Principal | None:
        """Return the principal of a request whose token was accepted before and suffices. Never waits."""
        kept = self._kept
        field = call.headers.get("authorization")
        if field is None or field[:7].lower() != "bearer ":
            return None
        digest = hashlib.sha256(field[7:].encode("latin-1")).digest()
        known = kept.get(digest)
        if known is None or not known.suffices:
            return None
        now = time.time()
        if now >= known.until or trio.current_time() >= known.asked_again:
            return None
        kept.move_to_end(digest)
        call.valid_until = trio.current_time() + known.until - now
        return known.accepted.principal

    async def authenticate(self, call: HttpCall) -> Principal:
        """Return the principal of a request.

        Raises:
            HttpRefused: It is not let in.
        """
        field = call.headers.get("authorization")
        if field is None:
            return self._by_certificate(call)
        scheme, token = _credentials(field)
        if scheme not in {"bearer", "dpop"} or not token:
            raise self._refusal(call, 401)
        accepted = await self._accepted(call, token)
        now = time.time()
        call.valid_until = trio.current_time() + accepted.until - now
        self._check_binding(call, scheme, token, accepted, now)
        if not self.settings.scopes <= accepted.principal.scopes:
            raise self._insufficient(call, self.settings.scopes)
        return accepted.principal

    def _by_certificate(self, call: HttpCall) -> Principal:
        certificate = call.certificate if self._certificates is not None else None
        principal = None
        if self._certificates is not None and certificate is not None:
            principal = self._certificates.identify(certificate)
        if principal is None:
            raise self._refusal(call, 401)
        if not self.settings.scopes <= principal.scopes:
            raise HttpRefused(403, "this client may not use the server")
        self._check_certificate(call)
        return principal

    def _check_certificate(self, call: HttpCall) -> None:
        """Check that a certificate has not expired since the connection began; nor what it opens outlives it.

        Raises:
            HttpRefused: It has.
        """
        end: object = None if call.certificate is None else call.certificate.fields.get("notAfter")
        if isinstance(end, str):
            left = ssl.cert_time_to_seconds(end) - time.time()
            if left <= 0:
                raise self._refusal(call, 401, None, "the certificate has expired")
            call.valid_until = min(call.valid_until, trio.current_time() + left)

    async def _accepted(self, call: HttpCall, token: str) -> AcceptedToken:
        """Return what a token gives, as it was found out before or is now.

        Raises:
            HttpRefused: It gives nothing.
        """
        if len(token) > MAX_TOKEN:
            raise self._invalid(call, "the token is too long")
        digest = hashlib.sha256(token.encode("latin-1")).digest()
        if self._refused.get(digest, -math.inf) > trio.current_time():
            raise self._invalid(call, "the token is not valid")
        known = self._kept.get(digest)
        if known is not None and trio.current_time() < known.asked_again:
            self._kept.move_to_end(digest)
            if time.time() >= known.until:
                raise self._invalid(call, "the token has expired")
            return known.accepted
        try:
            claims = await self._claims(token)
            if claims is None:
                self._refuse_for_a_while(digest)
                self._log_stranger(token)
                raise self._invalid(call, "the token is not valid")
            accepted = self._rules.accept(claims, time.time(), token if self.settings.hands_on_tokens else None)
        except TokenRefused as refused:
            if refused.details:
                _log.info("refused a token: %s", refused.details)
            raise self._invalid(call, refused.reason) from None
        if self.settings.keep_for:
            self._keep(digest, accepted, claims, self.settings.keep_for)
        return accepted

    def _log_stranger(self, token: str) -> None:
        """Log whose token was not genuine for any verifier, if it says that and is of none that is known."""
        if not any(isinstance(each, JwtVerifier) for each in self.settings.verifier):
            return
        read = read_token(token)
        issuer: object = None if read is None else read.claims.get("iss")
        if isinstance(issuer, str) and not any(is_issuer(issuer, each) for each in self._rules.issuers):
            known = sorted(self._rules.issuers)
            _log.info("refused a token: issuer %s is none of authorization_servers %s", shown(issuer), known)

    async def _claims(self, token: str) -> Mapping[str, Any] | None:
        troubles: list[HttpRefused] = []
        for verify in self._verify:
            try:
                claims = await verify(token)
            except HttpRefused as error:
                if not may_pass(error.status):
                    raise
                troubles = troubles or [error.with_traceback(None)]  # the next one may know the token
                continue
            if isinstance(claims, Mapping):
                return cast("Mapping[str, Any]", claims)
            if claims is not None:
                raise TypeError(
                    "a verifier must return what the token contains, a mapping with aud and sub, or None if it "
                    f"is not genuine, and not {type(claims).__name__}"
                )
        if troubles:
            raise troubles.pop()  # its frames have this one: kept here, it would be a cycle
        return None

    def _keep(self, digest: bytes, accepted: AcceptedToken, claims: Mapping[str, Any], seconds: float) -> None:
        """Remember a token by its hash.

        Those that were not seen for longest are forgotten if they would not be believed without asking again, or
        if there is no room.
        """
        settings, now = self.settings, trio.current_time()
        is_bound = accepted.key is not None or accepted.certificate is not None or settings.dpop == "required"
        suffices = not is_bound and settings.scopes <= accepted.principal.scopes
        weight = _KEPT_BYTES + cost_of(dict(claims))
        self._forget(digest)
        while self._kept and self._kept[oldest := next(iter(self._kept))].asked_again <= now:
            self._forget(oldest)
        self._kept[digest] = _Kept(accepted, suffices, accepted.until, now + seconds, weight)
        self._kept_bytes += weight
        while self._kept_bytes > settings.max_kept_bytes:
            self._forget(next(iter(self._kept)))

    def _refuse_for_a_while(self, digest: bytes) -> None:
        """Remember a token that was not genuine, apart from the others: made-up ones displace none of them."""
        now = trio.current_time()
        self._refused[digest] = now + _REFUSED_SECONDS
        self._refused.move_to_end(digest)
        while len(self._refused) > _MAX_REFUSED or self._refused[next(iter(self._refused))] <= now:
            self._refused.popitem(last=False)

    def _forget(self, digest: bytes) -> None:
        known = self._kept.pop(digest, None)
        if known is not None:
            self._kept_bytes -= known.weight

    def _check_binding(
        self, call: HttpCall, scheme: str, token: str, accepted: AcceptedToken, now: float
    ) -> None:
        """Check that a token comes with what it is bound to.

        Raises:
            HttpRefused: It does not.
        """
        if accepted.certificate is not None:
            certificate = call.certificate
            if certificate is None or certificate.thumbprint != accepted.certificate:
                raise self._invalid(call, "the token is bound to another certificate")
            self._check_certificate(call)
        if accepted.key is None:
            if scheme == "dpop" or self.settings.dpop == "required":
                raise self._invalid(call, "the token is not bound to a key")
            return
        if scheme != "dpop" or self.settings.dpop is None:
            raise self._invalid(call, "the token is bound to a key, and needs a proof")
        proofs = call.headers.get_all("dpop")
        path = f"{call.root}{call.path}"
        try:
            said = self._proofs.check(
                proofs,
                client=f"principal {accepted.principal}",
                method=call.method,
                path=path,
                token=token,
                key=accepted.key,
                now=now,
            )
        except ProofRefused as refused:
            raise self._refusal(call, 401, refused.error, refused.reason) from None
        except Overdrawn as error:
            problem = f"there is no room to remember your proof: {error}"
            raise busy(429 if error.is_own else 503, problem, _ROOM_SECONDS) from None
        call.proof = said
        nonce = self._proofs.nonce(now)
        if nonce is not None:
            call.answer_headers.append((b"dpop-nonce", nonce.encode("ascii")))

    # For how long.

    def watch(self, call: HttpCall, scope: trio.CancelScope) -> None:
        """Cancel a scope when what a stream was opened with is not accepted any more, until `unwatch` is called.

        It has expired, or is looked at again and refused: within twice `ResourceServer.keep_for`.
        """
        scope.deadline = call.valid_until
        field = call.headers.get("authorization")
        if field is not None:
            self._standing.setdefault(field, {})[scope] = call
            self._some_stand.set()

    def unwatch(self, call: HttpCall, scope: trio.CancelScope) -> None:
        """The stream of a scope has ended."""
        field = call.headers.get("authorization")
        streams = self._standing.get(field or "")
        if streams is not None:
            streams.pop(scope, None)
            if field is not None and not streams:
                del self._standing[field]

    async def recheck_standing(self) -> None:
        """Look again and again at the tokens with which streams were opened that still stand."""
        while True:
            await self._some_stand.wait()
            await trio.sleep(max(self.settings.keep_for, RECHECK_SECONDS))
            ahead = iter(list(self._standing))
            async with trio.open_nursery() as nursery:
                for _ in range(min(_RECHECKED_AT_ONCE, len(self._standing))):
                    nursery.start_soon(self._recheck, ahead)
            if not self._standing:
                self._some_stand = trio.Event()

    async def _recheck(self, fields: Iterator[str]) -> None:
        for field in fields:
            await trio.lowlevel.checkpoint()
            streams = self._standing.get(field)
            if not streams:
                continue
            principal = await self._accepted_still(next(iter(streams.values())), field)
            for scope, call in list(streams.items()):
                if principal is None or principal != call.principal:
                    if trio.current_time() < call.valid_until:
                        call.valid_until = -math.inf  # it has not expired
                    scope.cancel(reason="the token with which the stream was opened is not accepted any more")

    async def _accepted_still(self, call: HttpCall, field: str) -> Principal | None:
        """Return whose a token is; `None` if it is refused. A verifier that fails, or hangs, refuses it."""
        accepted: list[AcceptedToken] = []

        def note_failure(
            error: BaseException,
        ) -> None:  # kept in a list here, it would be a cycle with this frame
            if not isinstance(error, HttpRefused):
                _log.error("a verifier has failed for the token of a stream", exc_info=error)

        with Contained(note_failure, trio.CancelScope(deadline=trio.current_time() + FETCH_SECONDS)):
            accepted.append(await self._accepted(call, _credentials(field)[1]))
        principals = [each.principal for each in accepted if self.settings.scopes <= each.principal.scopes]
        return principals[0] if principals else None

    # What it may do.

    def check_body(self, call: HttpCall, body: bytes, value: Any) -> None:
        """Check that the body is that of the proof, and that a principal has the scopes for the messages in it.

        Raises:
            HttpRefused: Not so.
        """
        if call.proof is not None:
            try:
                check_digest(call.proof, body)
            except ProofRefused as refused:
                raise self._refusal(call, 401, refused.error, refused.reason) from None
        principal = as_principal(call.principal)
        for message in value if is_array(value) else (value,):
            if is_object(message) and isinstance(message.get("method"), str):
                params = message.get("params")
                missing = self._missing(message["method"], params if is_object(params) else {}, principal)
                if missing is not None:
                    raise self._insufficient(call, missing)

    def _insufficient(self, call: HttpCall, scopes: Iterable[str]) -> HttpRefused:
        needed = self.settings.scopes | frozenset(scopes)
        reason = f"this needs the scopes {', '.join(sorted(needed))}"
        return self._refusal(call, 403, "insufficient_scope", reason, needed)

    def _invalid(self, call: HttpCall, reason: str) -> HttpRefused:
        return self._refusal(call, 401, "invalid_token", reason)

    def _refusal(
        self,
        call: HttpCall,
        status: int,
        error: str | None = None,
        reason: str | None = None,
        scopes: frozenset[str] | None = None,
    ) -> HttpRefused:
        """Return a refusal with its challenge. Its text is constant: nothing of the token."""
        settings = self.settings
        proves = (call.headers.get("authorization") or "")[:5].lower() == "dpop "
        scheme = "DPoP" if settings.dpop == "required" or (proves and settings.dpop is not None) else "Bearer"
        needed = settings.scopes if scopes is None else scopes
        headers = [("www-authenticate", challenge(scheme, self._url, needed, error, reason))]
        nonce = self._proofs.nonce(time.time()) if scheme == "DPoP" else None
        if nonce is not None:
            headers.append(("dpop-nonce", nonce))
        return HttpRefused(status, reason or "the request is not authorized", headers)


def identifier(
    server: Hosted, auth: ResourceServer | None, authenticate: Authenticate | None
) -> Callable[[HttpCall], Awaitable[object]] | None:
    """Return what authenticates requests without a guard; `None` for nothing.

    Raises:
        ValueError: Both are given.
    """
    if authenticate is not None:
        if auth is not None:
            raise ValueError("give auth or authenticate, not both")
        return awaited(authenticate)
    scopes = None if auth is not None else server.lacking_scopes("", {}, None)
    if scopes:
        _log.warning(
            "nobody can use what needs the scopes %s: no client is asked for a token, because neither auth= nor "
            "authenticate= is given",
            ", ".join(sorted(scopes)),
        )
    return None


@asynccontextmanager
async def open_guard(
    settings: ResourceServer, missing: Missing, memory: Pool, nonce_key: bytes | None = None
) -> AsyncGenerator[Guard]:
    """Let requests in while a block runs.

    Args:
        settings: Who is let in.
        missing: Says which scopes a message needs.
        memory: Lends what is remembered for clients.
        nonce_key: Seals nonces; by default a new one.
    """
    async with open_hidden_nursery() as nursery, AsyncExitStack() as stack:
        verify: list[Callable[[str], Awaitable[object]]] = []
        for each in settings.verifier:
            if isinstance(each, CertificateVerifier):
                continue
            opens = getattr(each, "open", None)
            if opens is not None:
                verify.append(await stack.enter_async_context(opens()))
            else:
                verify.append(awaited(cast("Verify", each)))
        guard = Guard(settings, verify, missing, memory, nonce_key)
        nursery.start_soon(guard.recheck_standing)
        yield guard
        nursery.cancel_scope.cancel(reason="the endpoint was closed")
