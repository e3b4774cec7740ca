"""Who a client is to an authorization server: its id, how it proves that, and registration.

Spec: 2026-07-28, basic/authorization/client-registration; RFC 7591; RFC 6749, section 2.3; RFC 7523, section 2.2.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast, final
from urllib.parse import quote_plus, urlsplit

import attrs

from .._codec._json import is_array, is_object
from .._core._reconnect import may_pass
from .._errors import AuthorizationFailed, ClientUnknown
from .._printable import printable, shown, without_secrets
from ._metadata import AuthorizationServerMetadata, is_loopback
from ._signed import needs_auth_extra

ClientAuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How a client authenticates at a token endpoint."""

METHODS: Final[tuple[ClientAuthMethod, ...]] = (
    "private_key_jwt",
    "client_secret_basic",
    "client_secret_post",
    "none",
)

MAX_CREDENTIAL: Final = 4_096
"""The longest id, or secret, of a client that is registered, in characters: they are kept."""

LAST_TIME: Final = 1e15
"""The latest time that is read, in seconds since 1970: an integer may be too large for a float."""

DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_SECONDS: Final = 60
"""How long an assertion is good for: for one request."""


def is_time(value: object) -> TypeGuard[float]:
    """Whether a value of others is a time in seconds."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LAST_TIME


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
        expires_at: The time of day when its secret ends, in seconds since 1970; `None` for never.
    """

    client_id: str
    client_secret: str | None = attrs.field(default=None, repr=False)
    key: PrivateKeyJwt | None = attrs.field(default=None, repr=False)
    method: ClientAuthMethod = "none"
    redirect_uri: str | None = None
    expires_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is stored of a registration."""
        return {
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "method": self.method,
            "redirect_uri": self.redirect_uri,
            "expires_at": self.expires_at,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> OAuthClient:
        """Return a stored registration.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        method, expires_at = stored["method"], stored.get("expires_at")
        others = (stored.get("client_secret"), stored.get("redirect_uri"))
        if (
            method not in METHODS
            or not isinstance(stored["client_id"], str)
            or not all(isinstance(each, (str, NoneType)) for each in others)
            or not (expires_at is None or is_time(expires_at))
        ):
            raise ValueError("not a registration")
        return cls(
            client_id=stored["client_id"],
            client_secret=stored.get("client_secret"),
            method=method,
            redirect_uri=stored.get("redirect_uri"),
            expires_at=None if expires_at is None else float(expires_at),
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
    except ImportError as error:
        raise needs_auth_extra(error) from error
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
        return jwt.encode(header, claims, _signer(key), algorithms=[key.algorithm])
    except Exception:
        # Not as its cause: what such a library says of a key may show a part of it.
        raise AuthorizationFailed(
            f"the key of the client {printable(client_id)} cannot sign with {printable(key.algorithm)}"
        ) from None


def _signer(key: PrivateKeyJwt) -> Any:
    """Return a key of joserfc, whose errors may show a part of it."""
    from joserfc.jwk import JWKRegistry

    kind = "RSA" if key.algorithm.startswith(("RS", "PS")) else "OKP" if key.algorithm == "EdDSA" else "EC"
    material: Any = dict(key.key) if isinstance(key.key, Mapping) else key.key
    return JWKRegistry.import_key(material, kind)


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


def metadata_document(
    url: str, name: str, redirect_uris: Sequence[str], key: PrivateKeyJwt | None = None
) -> dict[str, Any]:
    """Return the document to publish at a URL that is used as client id.

    Args:
        url: The URL.
        name: The name that people see.
        redirect_uris: Where answers to logins may come to.
        key: The key by which the client authenticates; `None` if it does not. The document has its public half.

    Raises:
        ValueError: The URL, or the key, cannot be used.
    """
    document: dict[str, Any] = {
        "client_id": check_metadata_url(url),
        "client_name": name,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none" if key is None else "private_key_jwt",
    }
    if key is not None:
        try:
            public: dict[str, Any] = _signer(key).as_dict(private=False)
        except Exception:
            # What such a library says of a key may show a part of it.
            raise ValueError(f"the key is none for {printable(key.algorithm)}") from None
        public |= {"alg": key.algorithm, "use": "sig"}
        more = {} if key.key_id is None else {"kid": key.key_id}
        document |= {"token_endpoint_auth_signing_alg": key.algorithm, "jwks": {"keys": [public | more]}}
    return document


def check_metadata_document(url: str, document: object) -> None:
    """Check what was found at a URL that is used as client id.

    Raises:
        ValueError: No authorization server would take it.
    """
    if not is_object(document):
        raise ValueError("it is not a JSON object")
    if document.get("client_id") != url:
        raise ValueError(f"its client_id is {shown(document.get('client_id'))}, not {url!r}")
    uris = document.get("redirect_uris")
    if not isinstance(document.get("client_name"), str) or not is_array(uris) or not uris:
        raise ValueError("it has no client_name, or no redirect_uris")
    if "client_secret" in document or str(document.get("token_endpoint_auth_method")).startswith("client_secret"):
        raise ValueError("it has to do with a secret, and everybody can read it")


def registration_body(
    server: AuthorizationServerMetadata, *, name: str, redirect_uri: str, scope: str | None, bound: bool = False
) -> dict[str, Any]:
    """Return the request to register a client (RFC 7591, section 2).

    Args:
        server: The authorization server.
        name: The name that people see.
        redirect_uri: Where answers to logins come to; empty for a client that shows codes to enter elsewhere.
        scope: What will be asked for.
        bound: Whether its tokens are bound to a key (RFC 9449, section 5.2).
    """
    offered = server.token_endpoint_auth_methods_supported
    method = "none"
    if offered is not None and "none" not in offered:
        method = next((each for each in METHODS if each in offered and each != "private_key_jwt"), "none")
    parts = urlsplit(redirect_uri)
    is_native = parts.scheme not in ("http", "https") or is_loopback(parts.hostname or "")
    body: dict[str, Any] = {
        "client_name": name,
        "redirect_uris": [redirect_uri] if redirect_uri else [],
        "grant_types": ["authorization_code" if redirect_uri else DEVICE_CODE, "refresh_token"],
        "response_types": ["code"] if redirect_uri else [],
        "token_endpoint_auth_method": method,
        "application_type": "native" if is_native else "web",
    }
    if scope is not None:
        body["scope"] = scope
    if bound:
        body["dpop_bound_access_tokens"] = True
    return body


REFUSALS: Final = frozenset(
    (
        *("invalid_grant", "invalid_client", "invalid_request", "invalid_scope", "invalid_target"),
        *("unauthorized_client", "unsupported_grant_type", "access_denied", "expired_token"),
        *("use_dpop_nonce", "invalid_dpop_proof", "invalid_redirect_uri", "invalid_client_metadata"),
    )
)
"""What OAuth calls errors that the same request meets again, whatever the status they come with."""


def refusal_in(status: int, document: object) -> tuple[list[str], str | None, bool] | None:
    """Return what an authorization server has said instead of what it was asked for; `None` if it did not refuse.

    Servers refuse in many ways: 401 with a text, 422 with a ``message``, or 200 with an ``error``.

    Returns:
        Its words; the code of its error, if it has one; and whether the same may succeed later.
    """
    members = document if is_object(document) else {}
    error = members.get("error")
    code = error if isinstance(error, str) and error else None
    if 200 <= status < 300 and (code is None or "access_token" in members):
        return None
    described = members.get("error_description", members.get("message"))
    words = [printable(each, 300) for each in (code, described) if isinstance(each, str)]
    if 300 <= status < 400:
        words = [f"a redirect (HTTP status {status}) that is not followed"]
    passes = code == "temporarily_unavailable" or (may_pass(status) and code not in REFUSALS)
    return words, None if passes else code, passes


def read_registration(
    status: int, document: object, server: AuthorizationServerMetadata, redirect_uri: str
) -> OAuthClient:
    """Read the answer to a registration.

    Raises:
        ClientUnknown: The authorization server refuses it.
        AuthorizationFailed: The answer is not valid.
    """
    members = document if is_object(document) else {}
    if (refusal := refusal_in(status, document)) is not None:
        words, code, passes = refusal
        why = ", ".join([f"HTTP status {status}", *([": ".join(words)] if words else [])])
        if passes:
            raise AuthorizationFailed(
                f"{server.name} could not answer the registration of this client ({why})",
                issuer=server.issuer,
                may_pass=True,
            )
        raise ClientUnknown(
            f"{server.name} refused to register this client ({why}); "
            "register one by hand, and give client_id (and client_secret) and issuer",
            error=code,
            issuer=server.issuer,
        )
    client_id, secret = members.get("client_id"), members.get("client_secret")
    if not isinstance(client_id, str) or not client_id or not (secret is None or isinstance(secret, str)):
        raise AuthorizationFailed(f"{server.name} answered the registration without a client_id")
    wanted = members.get("token_endpoint_auth_method")
    if len(client_id) > MAX_CREDENTIAL or len(secret or "") > MAX_CREDENTIAL:
        raise AuthorizationFailed(
            f"{server.name} answered the registration with a client_id or a client_secret of more than "
            f"{MAX_CREDENTIAL} characters"
        )
    secret = secret or None
    expires_at = members.get("client_secret_expires_at")
    method = choose_method(
        server.token_endpoint_auth_methods_supported,
        has_secret=secret is not None,
        has_key=False,
        wanted=without_secrets(wanted, [secret or ""]) if isinstance(wanted, str) else None,
        name=server.name,
    )
    return OAuthClient(
        client_id=client_id,
        client_secret=secret,
        method=method,
        redirect_uri=redirect_uri,
        # 0 is never (RFC 7591, section 3.2.1).
        expires_at=float(expires_at)
        if secret and isinstance(expires_at, int) and 0 < expires_at < 1e12
        else None,
    )


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
