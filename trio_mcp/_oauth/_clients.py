"""Who a client is to an authorization server: its id, how it proves that, and registration.

Spec: 2026-07-28, basic/authorization/client-registration; RFC 7591; RFC 6749, section 2.3; RFC 7523, section 2.2.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast, final
from urllib.parse import quote_plus, urlsplit

import attrs

from .._codec._json import is_object
from .._errors import AuthorizationFailed, ClientUnknown
from .._printable import printable
from ._dpop import needs_auth_extra
from ._metadata import AuthorizationServerMetadata, is_loopback

ClientAuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How a client authenticates at a token endpoint."""

METHODS: Final[tuple[ClientAuthMethod, ...]] = (
    "private_key_jwt",
    "client_secret_basic",
    "client_secret_post",
    "none",
)

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_SECONDS: Final = 60
"""How long an assertion is good for: for one request."""


@final
@attrs.frozen(kw_only=True)
class PrivateKeyJwt:
    """A private key that proves who a client is.

    Attributes:
        key: The key: PEM, or a JWK as a mapping.
        algorithm: What it signs with, such as ``ES256`` or ``RS256``.
        key_id: Its name (``kid``), if the authorization server knows several.
    """

    key: str | bytes | Mapping[str, Any] = attrs.field(repr=False)
    algorithm: str = "ES256"
    key_id: str | None = None


@final
@attrs.frozen(kw_only=True)
class OAuthClient:
    """A client, as one authorization server knows it.

    Attributes:
        client_id: Its id.
        client_secret: Its secret, if it has one.
        key: Its key, if it has one.
        method: How it authenticates at the token endpoint.
        redirect_uri: Where answers to logins come to, if that was registered.
    """

    client_id: str
    client_secret: str | None = attrs.field(default=None, repr=False)
    key: PrivateKeyJwt | None = attrs.field(default=None, repr=False)
    method: ClientAuthMethod = "none"
    redirect_uri: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is stored of a registration."""
        return {
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "method": self.method,
            "redirect_uri": self.redirect_uri,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> OAuthClient:
        """Return a stored registration.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        method = stored["method"]
        if method not in METHODS or not isinstance(stored["client_id"], str):
            raise ValueError("not a registration")
        return cls(
            client_id=stored["client_id"],
            client_secret=stored.get("client_secret"),
            method=method,
            redirect_uri=stored.get("redirect_uri"),
        )


def choose_method(
    offered: Sequence[str] | None,
    *,
    has_secret: bool,
    has_key: bool,
    wanted: str | None = None,
    name: str = "the authorization server",
) -> ClientAuthMethod:
    """Return how to authenticate at a token endpoint.

    Args:
        offered: What the authorization server offers; `None` means basic (RFC 8414, section 2).
        has_secret: Whether the client has a secret.
        has_key: Whether it has a key.
        wanted: What the user, or the registration, names.
        name: The authorization server, for errors.

    Raises:
        AuthorizationFailed: The two have none in common.
    """
    able = {"none"}
    if has_secret:
        able |= {"client_secret_basic", "client_secret_post"}
    if has_key:
        able.add("private_key_jwt")
    if wanted is not None:
        if wanted not in able:
            raise AuthorizationFailed(
                f"{name} wants {printable(wanted)}, for which this client has no credentials"
            )
        return cast("ClientAuthMethod", wanted)
    if offered is None:
        return "private_key_jwt" if has_key else "client_secret_basic" if has_secret else "none"
    for method in METHODS:
        if method in able and method in offered and (method != "none" or not has_key):
            return method
    if not has_secret and not has_key:
        return "none"  # a public client; many do not list that
    raise AuthorizationFailed(
        f"{name} offers {printable(', '.join(offered))} at its token endpoint, and this client can do "
        f"{', '.join(sorted(able - {'none'}))}"
    )


def basic_credentials(client_id: str, client_secret: str) -> str:
    """Return the field `Authorization` of a client with a secret (RFC 6749, section 2.3.1)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    return f"Basic {base64.b64encode(pair.encode('ascii')).decode('ascii')}"


def client_assertion(client_id: str, key: PrivateKeyJwt, audience: str, *, now: float) -> str:
    """Sign who a client is (RFC 7523, section 3).

    Args:
        client_id: The client.
        key: Its key.
        audience: The issuer of the authorization server.
        now: The time of day, in seconds since 1970.

    Raises:
        AuthorizationFailed: The key cannot be used.
        RuntimeError: joserfc is not installed.
    """
    try:
        from joserfc import jwt
        from joserfc.jwk import JWKRegistry
    except ImportError as error:
        raise needs_auth_extra(error) from error
    kind = "RSA" if key.algorithm.startswith(("RS", "PS")) else "OKP" if key.algorithm == "EdDSA" else "EC"
    header: dict[str, Any] = {"alg": key.algorithm}
    if key.key_id is not None:
        header["kid"] = key.key_id
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": int(now),
        "exp": int(now) + ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    try:
        material: Any = dict(key.key) if isinstance(key.key, Mapping) else key.key
        signer = JWKRegistry.import_key(material, kind)
        return jwt.encode(header, claims, signer, algorithms=[key.algorithm])
    except Exception:
        # Not as its cause: what such a library says of a key may show a part of it.
        raise AuthorizationFailed(
            f"the key of the client {printable(client_id)} cannot sign with {printable(key.algorithm)}"
        ) from None


# Registration.


def check_metadata_url(url: str) -> str:
    """Return a URL that may be a client id (Client ID Metadata Document, section 3).

    Raises:
        ValueError: It may not.
    """
    parts = urlsplit(url)
    if (
        parts.scheme != "https"
        or not parts.hostname
        or parts.path in ("", "/")
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise ValueError(f"client_metadata_url must be an https URL with a path, not {url!r}")
    if any(segment in (".", "..") for segment in parts.path.split("/")):
        raise ValueError("the path of client_metadata_url must not have . or .. in it")
    return url


def metadata_document(url: str, name: str, redirect_uris: Sequence[str]) -> dict[str, Any]:
    """Return the document to publish at a URL that is used as client id."""
    check_metadata_url(url)
    return {
        "client_id": url,
        "client_name": name,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def registration_body(
    server: AuthorizationServerMetadata,
    *,
    name: str,
    redirect_uri: str,
    scope: str | None,
    is_native: bool | None = None,
    bound: bool = False,
) -> dict[str, Any]:
    """Return the request to register a client (RFC 7591, section 2).

    Args:
        server: The authorization server.
        name: The name that people see.
        redirect_uri: Where answers to logins come to.
        scope: What will be asked for.
        is_native: Whether the client runs where its user is; `None` to tell by the redirect URI.
        bound: Whether its tokens are bound to a key (RFC 9449, section 5.2).
    """
    offered = server.token_endpoint_auth_methods_supported
    method = "none"
    if offered is not None and "none" not in offered:
        method = next((each for each in METHODS if each in offered and each != "private_key_jwt"), "none")
    if is_native is None:
        parts = urlsplit(redirect_uri)
        is_native = parts.scheme not in ("http", "https") or is_loopback(parts.hostname or "")
    body: dict[str, Any] = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native" if is_native else "web",
    }
    if scope is not None:
        body["scope"] = scope
    if bound:
        body["dpop_bound_access_tokens"] = True
    return body


def read_registration(
    status: int, document: object, server: AuthorizationServerMetadata, redirect_uri: str
) -> OAuthClient:
    """Read the answer to a registration.

    Raises:
        ClientUnknown: The authorization server refuses it.
        AuthorizationFailed: The answer is not valid.
    """
    members = document if is_object(document) else {}
    if not 200 <= status < 300:
        error = members.get("error")
        description = members.get("error_description")
        why = ": ".join(printable(each, 300) for each in (error, description) if isinstance(each, str))
        raise ClientUnknown(
            f"{server.name} refused to register this client (HTTP status {status}{f', {why}' if why else ''}); "
            "register one by hand, and give client_id (and client_secret) and issuer",
            error=error if isinstance(error, str) else None,
            issuer=server.issuer,
        )
    client_id, secret = members.get("client_id"), members.get("client_secret")
    if not isinstance(client_id, str) or not client_id or not (secret is None or isinstance(secret, str)):
        raise AuthorizationFailed(f"{server.name} answered the registration without a client_id")
    wanted = members.get("token_endpoint_auth_method")
    secret = secret or None
    method = choose_method(
        server.token_endpoint_auth_methods_supported,
        has_secret=secret is not None,
        has_key=False,
        wanted=wanted if isinstance(wanted, str) else None,
        name=server.name,
    )
    return OAuthClient(client_id=client_id, client_secret=secret, method=method, redirect_uri=redirect_uri)


def unknown_client(server: AuthorizationServerMetadata, tried: Collection[str]) -> ClientUnknown:
    """Return the error for an authorization server that a client has no way to be known to."""
    options = "give client_id (and client_secret) and issuer, from a registration by hand"
    if server.client_id_metadata_document_supported and "client_metadata_url" not in tried:
        options += ", or client_metadata_url: it takes client ids that are the URL of a document"
    return ClientUnknown(
        f"{server.name} does not know this client, and registers none by itself (registration_endpoint): "
        f"{options}",
        issuer=server.issuer,
    )
