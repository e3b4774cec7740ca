"""What an authorization server for tests issues, and to whom: clients, codes, tokens, refresh tokens, proofs.

Plain functions of what a request says and of the time. How requests come and go is in `_authorization_server`.

Spec: RFC 6749; RFC 7521 and 7523 for assertions; RFC 8693; RFC 8707; RFC 9068; RFC 9449.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, cast, final
from urllib.parse import unquote_plus, urlsplit

import attrs

from .._oauth._access_tokens import texts
from .._oauth._clients import ASSERTION_TYPE, DEVICE_CODE
from .._oauth._code import code_challenge
from .._oauth._dpop import InvalidProof, read_proof
from .._oauth._tokens import JWT_BEARER, TOKEN_EXCHANGE, TOKEN_TYPES

ID_TOKEN: Final = f"{TOKEN_TYPES}id_token"

GRANT_TYPES: Final = (
    *("authorization_code", "refresh_token", "client_credentials", JWT_BEARER, TOKEN_EXCHANGE, DEVICE_CODE),
)
AUTHENTICATION_METHODS: Final = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")

PROOF_SECONDS: Final = 300
"""How old a proof of possession may be, and how far ahead its clock."""

MAX_KEPT: Final = 100_000
"""How many codes, tokens, clients and used ids are kept, each; the oldest are forgotten."""


@final
class OAuthRefused(Exception):
    """A request is refused, with an error code of OAuth.

    Args:
        error: The code, such as ``invalid_grant``.
        description: Why, for people.
        status: The HTTP status; by default that of the code (RFC 6749, section 5.2).
        headers: Further header fields.
    """

    def __init__(
        self, error: str, description: str, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(error, description)
        self.error = error
        self.description = description
        self.status: int = (401 if error == "invalid_client" else 400) if status is None else status
        self.headers: dict[str, str] = dict(headers or {})


@final
@attrs.define(kw_only=True)
class AuthorizationClient:
    """A client that an authorization server knows.

    Attributes:
        client_id: Its id.
        secret: Its secret; `None` for none.
        redirect_uris: Where it may be sent back to. The port of an address of this machine does not count.
        grant_types: By which grants it may get tokens.
        method: How it authenticates at the token endpoint.
        jwks: Its keys, as plain JSON, for ``private_key_jwt``.
        name: Its name, for people.
        metadata: What else it has said of itself.
    """

    client_id: str
    secret: str | None = attrs.field(default=None, repr=False)
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = GRANT_TYPES
    method: str = "none"
    jwks: Mapping[str, Any] | None = None
    name: str = ""
    metadata: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def allows_redirect(self, uri: str) -> bool:
        """Whether it may be sent back to a URI: one of its own, exactly, but for the port of a loopback address.

        Spec: RFC 8252, section 7.3.
        """
        return any(uri == own or _are_same_but_for_the_port(uri, own) for own in self.redirect_uris)


def is_local(uri: str) -> bool:
    """Whether a redirect URI leads to a port of this machine."""
    parts = urlsplit(uri)
    return parts.scheme == "http" and parts.hostname in {"127.0.0.1", "::1", "localhost"}


def _is_safe(uri: str) -> bool:
    """Whether nobody else can read what is sent to a redirect URI: an app may have a scheme (RFC 8252, 7.1)."""
    scheme = urlsplit(uri).scheme
    return scheme == "https" or "." in scheme or is_local(uri)


def _are_same_but_for_the_port(one: str, other: str) -> bool:
    """Whether both are addresses of this machine and differ in their ports at most."""
    parts, others = urlsplit(one), urlsplit(other)
    if not is_local(one):
        return False
    return parts._replace(netloc=parts.hostname or "") == others._replace(netloc=others.hostname or "")


def client_of_metadata(metadata: Mapping[str, Any], client_id: str, *, secret: bool) -> AuthorizationClient:
    """Return the client that a registration or a client id metadata document describes.

    Raises:
        OAuthRefused: It is not valid.

    Spec: RFC 7591, section 2.
    """
    uris = metadata.get("redirect_uris") or ()
    if not isinstance(uris, (list, tuple)) or not all(
        isinstance(uri, str) for uri in cast("Iterable[object]", uris)
    ):
        raise OAuthRefused("invalid_redirect_uri", "redirect_uris must be a list of strings")
    if not all(_is_safe(uri) for uri in cast("Iterable[str]", uris)):
        raise OAuthRefused("invalid_redirect_uri", "redirect_uris must be https, or of this machine")
    grants = metadata.get("grant_types") or ["authorization_code"]
    if "authorization_code" in grants and not uris:
        raise OAuthRefused("invalid_redirect_uri", "redirect_uris is missing")
    method = metadata.get("token_endpoint_auth_method") or ("client_secret_basic" if secret else "none")
    if method not in AUTHENTICATION_METHODS:
        raise OAuthRefused(
            "invalid_client_metadata", f"token_endpoint_auth_method {method!r:.60} is not supported"
        )
    jwks = metadata.get("jwks")
    return AuthorizationClient(
        client_id=client_id,
        secret=secrets.token_urlsafe(24) if secret and str(method).startswith("client_secret") else None,
        redirect_uris=tuple(cast("Iterable[str]", uris)),
        grant_types=tuple(grants),
        method=str(method),
        jwks=cast("Mapping[str, Any] | None", jwks) if isinstance(jwks, dict) else None,
        name=str(metadata.get("client_name") or client_id),
        metadata=dict(metadata),
    )


@final
@attrs.frozen(kw_only=True)
class Code:
    """A code that was given out, and what it is good for.

    Attributes:
        client_id: Whose it is.
        subject: Who has agreed.
        redirect_uri: Where it was sent.
        challenge: The challenge of PKCE.
        scopes: What was agreed on.
        resource: For which server.
        until: When it expires, in seconds since 1970.
        key: The thumbprint of the key it is bound to.
    """

    client_id: str
    subject: str
    redirect_uri: str
    challenge: str
    scopes: frozenset[str]
    resource: str | None
    until: float
    key: str | None = None


@final
@attrs.define
class DeviceLogin:
    """A code that was shown, for somebody to enter at another device (RFC 8628).

    Attributes:
        code: What it will be good for.
        device_code: By what the client asks for the tokens.
        is_allowed: What has been decided; `None` for nothing so far.
    """

    code: Code
    device_code: str
    is_allowed: bool | None = None


@final
@attrs.define(kw_only=True)
class Login:
    """What one consent has given: all tokens that came of it end together.

    Attributes:
        client_id: Whose it is.
        subject: Who has agreed.
        scopes: What was agreed on.
        resource: For which server.
        key: The thumbprint of the key that its tokens are bound to.
        is_over: Whether it was revoked, or one of its refresh tokens was used twice.
    """

    client_id: str
    subject: str
    scopes: frozenset[str]
    resource: str | None
    key: str | None
    is_over: bool = False


@final
@attrs.define
class _RefreshToken:
    login: Login
    is_used: bool = False


def keep(table: dict[str, Any], key: str, value: object) -> None:
    """Keep something, and forget the oldest if there is too much."""
    table[key] = value
    while len(table) > MAX_KEPT:
        del table[next(iter(table))]


def _new_key(algorithm: str) -> Any:
    from joserfc.jwk import ECKey, RSAKey

    parameters: Any = {"kid": secrets.token_hex(4), "use": "sig", "alg": algorithm}
    if algorithm == "ES256":
        return ECKey.generate_key("P-256", parameters)
    return RSAKey.generate_key(2048, parameters)


@final
class Issuer:
    """Signs tokens, and remembers what it has given out.

    Args:
        now: Returns the time, in seconds since 1970.
        algorithm: How tokens are signed.

    Attributes:
        url: The issuer's URL.
        codes: The codes that were given out and not used.
        clients: The clients that are known.
        devices: The logins at other devices, by what is to be entered there.
    """

    def __init__(self, now: Callable[[], float], algorithm: str) -> None:
        self.url = ""
        self.now: Final = now
        self.algorithm: Final = algorithm
        self._key = _new_key(algorithm)
        self.codes: dict[str, Code] = {}
        self.clients: dict[str, AuthorizationClient] = {}
        self.devices: dict[str, DeviceLogin] = {}
        self._refresh: dict[str, _RefreshToken] = {}
        self._logins: dict[str, Login] = {}  # by the id of each access token
        self._used: dict[str, float] = {}
        self._nonce_key = secrets.token_bytes(16)

    def rotate(self) -> None:
        """Sign with another key from now on; the old one is published no more."""
        self._key = _new_key(self.algorithm)

    def jwks(self) -> dict[str, Any]:
        """Return the public keys, as plain JSON."""
        public = self._key.as_dict(private=False)
        return {"keys": [{name: value for name, value in public.items() if name != "key_ops"}]}

    def sign(self, claims: Mapping[str, Any], typ: str) -> str:
        """Return a token with these claims."""
        from joserfc import jwt

        if not self.url:
            raise RuntimeError("a token names its issuer's URL: issue it within serving(), or give an issuer")
        header = {"alg": self.algorithm, "typ": typ, "kid": self._key.kid}
        return jwt.encode(header, dict(claims), self._key, algorithms=[self.algorithm])

    def access_token(self, login: Login, lifetime: float, claims: Mapping[str, Any] | None = None) -> str:
        """Return an access token (RFC 9068)."""
        now = self.now()
        id = secrets.token_urlsafe(12)
        keep(self._logins, id, login)
        said: dict[str, Any] = {
            "iss": self.url,
            "sub": login.subject,
            "client_id": login.client_id,
            "iat": int(now),
            "exp": math.ceil(now + lifetime),  # not before the `expires_in` that goes with it
            "jti": id,
            "scope": " ".join(sorted(login.scopes)),
        }
        if login.resource is not None:
            said["aud"] = login.resource
        if login.key is not None:
            said["cnf"] = {"jkt": login.key}
        return self.sign({**said, **(claims or {})}, "at+jwt")

    def refresh_token(self, login: Login) -> str:
        """Return a refresh token, good for one use."""
        token = secrets.token_urlsafe(32)
        keep(self._refresh, token, _RefreshToken(login))
        return token

    def use_refresh_token(self, token: str, client: AuthorizationClient, key: str | None) -> Login:
        """Return what a refresh token belongs to. One that was used before ends all that came of its login.

        Raises:
            OAuthRefused: It is not valid, not this client's, or bound to another key.

        Spec: RFC 9700, section 4.14.
        """
        kept = self._refresh.get(token)
        if kept is None or kept.login.is_over or kept.login.client_id != client.client_id:
            raise OAuthRefused("invalid_grant", "the refresh token is not valid")
        if kept.login.key != key:
            raise OAuthRefused("invalid_dpop_proof", "the refresh token is bound to another key")
        if kept.is_used:
            kept.login.is_over = True
            raise OAuthRefused(
                "invalid_grant", "the refresh token was used before; everything of its login has ended"
            )
        kept.is_used = True
        return kept.login

    def use_code(self, code: str, client: AuthorizationClient, form: Mapping[str, str]) -> Code:
        """Return what a code is good for. It is used up, whatever comes of it.

        Raises:
            OAuthRefused: It is not valid, or not for this request.
        """
        given = self.codes.pop(code, None)
        if given is None or given.until < self.now() or given.client_id != client.client_id:
            raise OAuthRefused("invalid_grant", "the code is not valid")
        if form.get("redirect_uri") != given.redirect_uri:
            raise OAuthRefused("invalid_grant", "redirect_uri is not that of the authorization request")
        verifier = form.get("code_verifier", "")
        if not verifier.isascii() or code_challenge(verifier) != given.challenge:
            raise OAuthRefused("invalid_grant", "code_verifier does not fit code_challenge")
        if given.resource is not None and form.get("resource", given.resource) != given.resource:
            raise OAuthRefused("invalid_target", "resource is not that of the authorization request")
        return given

    def revoke(self, token: str) -> None:
        """End what a token belongs to. Unknown ones are none of it (RFC 7009, section 2.2)."""
        kept = self._refresh.get(token)
        with suppress(OAuthRefused):
            login = self._logins.get(str(verified(token, self.jwks()).get("jti"))) if kept is None else kept.login
            if login is not None:
                login.is_over = True

    def revoke_all(self) -> None:
        """End all logins: tokens that were given out are no longer active."""
        for login in self._logins.values():
            login.is_over = True

    def introspect(self, token: str) -> dict[str, Any]:
        """Return what is known about a token (RFC 7662, section 2.2)."""
        try:
            claims = verified(token, self.jwks())
        except OAuthRefused:
            return {"active": False}
        login = self._logins.get(str(claims.get("jti")))
        if login is None or login.is_over or claims.get("exp", 0) <= self.now():
            return {"active": False}
        return {"active": True, "token_type": "DPoP" if login.key else "Bearer", **claims}

    # Clients, proofs, and assertions.

    def authenticate(
        self, form: Mapping[str, str], authorization: str | None, endpoint: str
    ) -> AuthorizationClient | None:
        """Return the client that a request to the token endpoint is from; `None` if it names none.

        Raises:
            OAuthRefused: It could not be authenticated.
        """
        refused = OAuthRefused(
            "invalid_client",
            "the client is not authenticated",
            401,
            {"www-authenticate": 'Basic realm="clients"'},
        )
        if form.get("client_assertion_type") == ASSERTION_TYPE:
            return self._by_assertion(form.get("client_assertion", ""), endpoint)
        used, client_id, secret = "none", form.get("client_id"), form.get("client_secret")
        if authorization is not None and authorization[:6].lower() == "basic ":
            try:
                plain = base64.b64decode(authorization[6:].strip(), validate=True).decode()
            except ValueError:
                raise refused from None
            used, (client_id, _, secret) = "client_secret_basic", map(unquote_plus, plain.partition(":"))
        elif secret is not None:
            used = "client_secret_post"
        if client_id is None:
            return None
        client = self.clients.get(client_id)
        if client is None or client.method != used:
            raise refused
        if client.secret is not None and not hmac.compare_digest(client.secret.encode(), (secret or "").encode()):
            raise refused
        return client

    def _by_assertion(self, assertion: str, endpoint: str) -> AuthorizationClient:
        """Return the client that has signed an assertion (RFC 7523, section 3)."""
        client = self.clients.get(str(unverified(assertion)[1].get("sub")))
        if client is None or client.jwks is None or client.method != "private_key_jwt":
            raise OAuthRefused("invalid_client", "the client of the assertion has no keys")
        try:
            claims = verified(assertion, client.jwks)
        except OAuthRefused as error:
            raise OAuthRefused("invalid_client", error.description) from None
        self.check_times(claims, "invalid_client")
        if claims.get("iss") != client.client_id or not set(audiences(claims)) & {self.url, endpoint}:
            raise OAuthRefused("invalid_client", "iss or aud of the assertion is wrong")
        self.use_once(f"client {client.client_id}", claims, "invalid_client")
        return client

    def check_times(self, claims: Mapping[str, Any], error: str) -> None:
        """Check that a token is good at this time.

        Raises:
            OAuthRefused: It is not, or it does not say until when.
        """
        now = self.now()
        until = claims.get("exp")
        if not isinstance(until, (int, float)) or until <= now:
            raise OAuthRefused(error, "the assertion has expired")
        if isinstance(claims.get("nbf"), (int, float)) and claims["nbf"] > now + 60:
            raise OAuthRefused(error, "the assertion is not valid yet")

    def use_once(self, who: str, claims: Mapping[str, Any], error: str) -> None:
        """Note that a token was used.

        Raises:
            OAuthRefused: It was used before, or has no id.
        """
        id = claims.get("jti")
        if not isinstance(id, str) or f"{who} {id}" in self._used:
            raise OAuthRefused(error, "jti is missing, or was used before")
        keep(self._used, f"{who} {id}", self.now())

    def nonce(self, ahead: int = 0) -> str:
        """Return the nonce of this minute, or of another."""
        minute = int(self.now() // 60) + ahead
        return hmac.new(self._nonce_key, b"%d" % minute, hashlib.sha256).hexdigest()[:32]

    def check_proof(self, proof: str | None, method: str, url: str, *, wants_nonce: bool) -> str | None:
        """Return the thumbprint of the key by which a request was signed; `None` if it was not.

        Raises:
            OAuthRefused: The proof is not valid, or lacks the nonce.

        Spec: RFC 9449, sections 4.3 and 8.
        """
        if proof is None:
            return None
        try:
            read = read_proof(proof)
        except InvalidProof as error:
            raise OAuthRefused("invalid_dpop_proof", str(error)) from None
        claims = read.claims
        is_recent = (
            isinstance(claims.get("iat"), (int, float)) and abs(claims["iat"] - self.now()) <= PROOF_SECONDS
        )
        if claims.get("htm") != method or claims.get("htu") != url or not is_recent:
            raise OAuthRefused("invalid_dpop_proof", "htm, htu or iat is not that of the request")
        if wants_nonce and claims.get("nonce") not in {self.nonce(), self.nonce(-1)}:
            raise OAuthRefused("use_dpop_nonce", "use the nonce", headers={"dpop-nonce": self.nonce()})
        self.use_once(f"proof {read.thumbprint}", claims, "invalid_dpop_proof")
        return read.thumbprint


def audiences(claims: Mapping[str, Any]) -> Collection[str]:
    """Return whom a token is for."""
    return texts(claims.get("aud"))


def unverified(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the header and the claims of a token, which may be anybody's.

    Raises:
        OAuthRefused: It is no JWT.
    """
    from joserfc import jws
    from joserfc.errors import JoseError

    from .._codec import _json

    try:
        parts = jws.extract_compact(token.encode("ascii"))
        claims = _json.decode(parts.payload)
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise OAuthRefused("invalid_grant", "the assertion is no JWT") from error
    header: Any = parts.protected
    if not _json.is_object(header) or not _json.is_object(claims):
        raise OAuthRefused("invalid_grant", "the assertion is no JWT")
    return header, claims


def verified(token: str, jwks: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claims of a token that one of these keys has signed.

    Raises:
        OAuthRefused: None has.
    """
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        keys = KeySet.import_key_set(cast("Any", jwks))
        return jwt.decode(token, keys, algorithms=["ES256", "RS256", "PS256", "ES384", "EdDSA"]).claims
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OAuthRefused("invalid_grant", "the signature of the assertion is wrong") from error
