"""Requests for tokens, of every grant, and the answers to them.

Spec: RFC 6749, sections 4.1.3, 4.4, 5 and 6; RFC 8707, section 2.2; RFC 7523, section 2.1; RFC 8693, section 2;
the extensions of MCP for client credentials, enterprise-managed authorization and workload identity.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, final
from urllib.parse import urlencode

import attrs

from .._codec._json import is_object
from .._errors import AuthorizationFailed
from .._printable import printable, without_secrets
from ._clients import ASSERTION_TYPE, OAuthClient, basic_credentials, client_assertion, is_time, refusal_in

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
ID_JAG_PROFILE: Final = "urn:ietf:params:oauth:grant-profile:id-jag"
TOKEN_TYPES: Final = "urn:ietf:params:oauth:token-type:"

_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")
"""What a token may consist of: it goes into a header field (RFC 6750, section 2.1, and what servers really
send)."""

MAX_TOKEN: Final = 32 * 1024
"""The longest token, in characters."""

_SECRETS: Final = frozenset(
    (
        *("code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion"),
        *("subject_token", "token", "device_code"),
    )
)
"""Parameters of requests whose values are secrets."""


@final
@attrs.frozen(kw_only=True)
class TokenRequest:
    """One request to a token endpoint. It holds secrets.

    Attributes:
        url: The endpoint.
        headers: Its fields.
        body: Its body.
        secrets: What in its body is secret, and is not shown where an answer quotes it.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)


def token_request(
    url: str, client: OAuthClient | None, grant: Mapping[str, str | None], *, audience: str, now: float
) -> TokenRequest:
    """Return a request to a token endpoint.

    Args:
        url: The endpoint.
        client: Who asks; `None` for nobody but who is in the grant.
        grant: The grant; what is `None` is left out.
        audience: The issuer, to which the client proves itself with a key.
        now: The time of day, in seconds since 1970.

    Raises:
        AuthorizationFailed: The client's key cannot be used.
    """
    form = {name: value for name, value in grant.items() if value is not None}
    headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")]
    if client is not None:
        # Beside Basic, too: the Python SDK's endpoint refuses requests without.
        form["client_id"] = client.client_id
        if client.method == "client_secret_basic":
            headers.append(("Authorization", basic_credentials(client.client_id, client.client_secret or "")))
        if client.method == "client_secret_post":
            form["client_secret"] = client.client_secret or ""
        elif client.method == "private_key_jwt":
            assert client.key is not None
            form["client_assertion_type"] = ASSERTION_TYPE
            form["client_assertion"] = client_assertion(client.client_id, client.key, audience, now=now)
    secrets = tuple(value for name, value in form.items() if name in _SECRETS)
    body = urlencode(form).encode("ascii")
    return TokenRequest(url=url, headers=tuple(headers), body=body, secrets=secrets)


@final
@attrs.frozen(kw_only=True)
class TokenSet:
    """A token, and what belongs to it. Its secrets are not in its `repr`.

    Attributes:
        access_token: The token.
        token_type: ``Bearer`` or ``DPoP``: how it is sent.
        resource: The server that it is for, as it was named.
        issuer: Who has issued it.
        client_id: To which client.
        requested: The scopes that were asked for; `None` for those that the issuer chooses.
        granted: The scopes that it has; as asked, if the issuer does not say.
        expires_at: The time of day when it ends, in seconds since 1970; `None` if that is not known.
        refresh_token: What brings the next one.
        registration: The client that it was issued to, if that has registered itself: it is needed for
            refreshing, for as long as this token lasts and no longer.
    """

    access_token: str = attrs.field(repr=False)
    token_type: str = "Bearer"
    resource: str
    issuer: str
    client_id: str | None = None
    requested: frozenset[str] | None = None
    granted: frozenset[str] | None = None
    expires_at: float | None = None
    refresh_token: str | None = attrs.field(default=None, repr=False)
    registration: OAuthClient | None = attrs.field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return what is stored."""
        return {
            "access_token": self.access_token,
            "token_type": self.token_type,
            "resource": self.resource,
            "issuer": self.issuer,
            "client_id": self.client_id,
            "requested": None if self.requested is None else sorted(self.requested),
            "granted": None if self.granted is None else sorted(self.granted),
            "expires_at": self.expires_at,
            "refresh_token": self.refresh_token,
            "registration": None if self.registration is None else self.registration.to_json(),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TokenSet:
        """Return what was stored.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        requested, granted, expires_at = stored["requested"], stored["granted"], stored["expires_at"]
        registration = stored.get("registration")
        texts = [stored[name] for name in ("access_token", "token_type", "resource", "issuer")]
        others = (stored.get("client_id"), stored.get("refresh_token"))
        if (
            not all(isinstance(each, str) for each in texts)
            or not all(isinstance(each, (str, NoneType)) for each in others)
            or not _SENDABLE.fullmatch(texts[0])
            or not (expires_at is None or is_time(expires_at))
        ):
            raise ValueError("not a token")
        return cls(
            access_token=stored["access_token"],
            token_type="DPoP" if stored["token_type"] == "DPoP" else "Bearer",
            resource=stored["resource"],
            issuer=stored["issuer"],
            client_id=stored.get("client_id"),
            requested=None if requested is None else frozenset(map(str, requested)),
            granted=None if granted is None else frozenset(map(str, granted)),
            expires_at=None if expires_at is None else float(expires_at),
            refresh_token=stored.get("refresh_token"),
            registration=None if registration is None else OAuthClient.from_json(registration),
        )


@final
@attrs.frozen(kw_only=True)
class Asked:
    """What a token was asked for, for reading the answer.

    Attributes:
        issuer: Who was asked.
        name: The same, for errors.
        resource: The server that the token is for.
        client_id: Who has asked.
        scopes: The scopes.
        refresh_token: The refresh token that goes on being good if there is no other in the answer.
        secrets: What was sent in secret.
    """

    issuer: str
    name: str
    resource: str
    client_id: str | None = None
    scopes: frozenset[str] | None = None
    refresh_token: str | None = attrs.field(default=None, repr=False)
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)


def error_of_answer(status: int, document: object, name: str, issuer: str) -> AuthorizationFailed | None:
    """Return the error for a refusal of a token endpoint (RFC 6749, section 5.2), if the answer is one."""
    refusal = refusal_in(status, document)
    if refusal is None:
        return None
    words, code, passes = refusal
    if passes:
        why = ": ".join([f"HTTP status {status}", *words])
        return AuthorizationFailed(
            f"{name} could not answer the request for a token ({why})", issuer=issuer, may_pass=True
        )
    return AuthorizationFailed(
        f"{name} refused a token ({': '.join(words) or f'HTTP status {status}'})", error=code, issuer=issuer
    )


def read_token(status: int, document: object, asked: Asked, *, now: float, bound: bool) -> TokenSet:
    """Read the answer of a token endpoint.

    Args:
        status: The HTTP status.
        document: The body, decoded.
        asked: What was asked for.
        now: The time of day, in seconds since 1970.
        bound: Whether a proof was sent along, so that the token may be bound to its key.

    Raises:
        AuthorizationFailed: It is a refusal, or not valid. Nothing of it is shown but ``error`` and its
            description.
    """
    if (refusal := error_of_answer(status, document, asked.name, asked.issuer)) is not None:
        raise refusal
    if not is_object(document):
        raise AuthorizationFailed(
            f"{asked.name} answered the request for a token with something that is not JSON"
        )
    access_token, kind = document.get("access_token"), document.get("token_type")
    if (
        not isinstance(access_token, str)
        or len(access_token) > MAX_TOKEN
        or not _SENDABLE.fullmatch(access_token)
    ):
        raise AuthorizationFailed(f"{asked.name} issued an access_token that cannot be sent")
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "dpop"):
        shown = without_secrets(str(kind), [access_token, *asked.secrets])
        raise AuthorizationFailed(
            f"{asked.name} issued a token of the type {printable(shown, 40)!r}, not Bearer or DPoP"
        )
    is_bound = kind.lower() == "dpop"
    if is_bound and not bound:
        raise AuthorizationFailed(
            f"{asked.name} issued a token that is bound to a key, for which dpop=True is needed"
        )
    scope, refresh = document.get("scope"), document.get("refresh_token")
    lifetime = document.get("expires_in")
    if isinstance(lifetime, str) and lifetime.isascii() and lifetime.isdigit():
        lifetime = int(lifetime[:12])
    expires_at = None
    if is_time(lifetime) and 0 < lifetime < 1e12:  # 0 says nothing: no token is issued for no time
        expires_at = now + float(lifetime)
    return TokenSet(
        access_token=access_token,
        token_type="DPoP" if is_bound else "Bearer",
        resource=asked.resource,
        issuer=asked.issuer,
        client_id=asked.client_id,
        requested=asked.scopes,
        granted=frozenset(scope.split()) if isinstance(scope, str) else asked.scopes,
        expires_at=expires_at,
        refresh_token=refresh if isinstance(refresh, str) and refresh else asked.refresh_token,
    )


def holder_of(token: str) -> str:
    """Return a name for whomever an issuer has made a token for; if it does not say that, for the token alone."""
    said: Any = None
    try:
        claims = token.split(".")[1].encode("ascii")
        said = json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))
    except (IndexError, ValueError, RecursionError):
        pass  # it is no JWT
    who = [said.get("iss"), said.get("sub")] if is_object(said) else []
    is_said = len(who) == 2 and all(isinstance(each, str) and each for each in who)
    text = json.dumps(["for", *who] if is_said else ["token", token])
    return hashlib.sha256(text.encode()).hexdigest()


def read_exchanged(status: int, document: object, name: str, issuer: str) -> str:
    """Return the assertion for another authorization server that an identity provider has issued (an ID-JAG).

    Raises:
        AuthorizationFailed: It has not.
    """
    if (refusal := error_of_answer(status, document, name, issuer)) is not None:
        raise refusal
    members = document if is_object(document) else {}
    token = members.get("access_token")
    if members.get("issued_token_type") != ID_JAG or not isinstance(token, str) or len(token) > MAX_TOKEN:
        raise AuthorizationFailed(f"{name} exchanged the token for something that is not an ID-JAG ({ID_JAG})")
    return token
