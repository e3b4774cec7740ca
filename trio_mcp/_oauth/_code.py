"""The codes by which a person logs in: what the browser is sent with, and what comes back; or what they enter.

Spec: 2026-07-28, basic/authorization, "Authorization Response Validation" and "Scope Selection Strategy"; all
revisions, PKCE; RFC 7636; RFC 8628; RFC 9207.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Collection, Iterable
from typing import Any, Final, final
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs

from .._codec._json import is_object
from .._errors import AuthorizationFailed
from .._printable import printable, without_secrets
from ._clients import DEVICE_CODE, is_time
from ._metadata import AuthorizationServerMetadata, Discovered
from ._principal import OFFLINE
from ._tokens import error_of_answer

MAX_SCOPES: Final = 4_096
"""How long the scopes may be that are asked for, in characters: servers can want more each time."""

MAX_ANSWER: Final = 8 * 1024
"""The longest URL of an answer, in characters."""


def scopes_to_request(
    challenged: Collection[str] | None,
    discovered: Discovered,
    *,
    before: Iterable[str] = (),
    refreshes: bool = True,
) -> frozenset[str] | None:
    """Return the scopes to ask for; `None` to name none.

    Args:
        challenged: What the server's challenge names.
        discovered: What the server says of itself, for when its challenge names nothing.
        before: What was asked for before, and must not be lost.
        refreshes: Whether a refresh token is wanted.

    Raises:
        AuthorizationFailed: They are too many.
    """
    chosen: set[str] | None = None
    if challenged is not None:
        chosen = set(challenged)
    elif discovered.scopes_supported is not None:
        chosen = set(discovered.scopes_supported)
    before = set(before)
    if before:
        chosen = (chosen or set()) | before
    if refreshes and OFFLINE in (discovered.server.scopes_supported or ()):
        chosen = (chosen or set()) | {OFFLINE}
    if len(scope_text(chosen) or "") > MAX_SCOPES:
        raise AuthorizationFailed(f"the server asks for scopes of more than {MAX_SCOPES} characters (MAX_SCOPES)")
    return None if chosen is None else frozenset(chosen)


def scope_text(scopes: Iterable[str] | None) -> str | None:
    """Return scopes as they are sent, always in the same order; `None` for none."""
    return " ".join(sorted(scopes)) or None if scopes is not None else None


def check_pkce(server: AuthorizationServerMetadata) -> None:
    """Check that an authorization server verifies who brings a code.

    Raises:
        AuthorizationFailed: It does not, or does not say so.
    """
    methods = server.code_challenge_methods_supported
    if methods is None and server.may_lack_pkce:
        return  # 2025-03-26 demands PKCE, and has nothing to say so with
    if "S256" not in (methods or ()):
        raise AuthorizationFailed(
            f"{server.name} does not offer PKCE with S256 (code_challenge_methods_supported), without which a "
            "code can be stolen"
        )


def code_challenge(verifier: str) -> str:
    """Return what is shown of a verifier before it is used (RFC 7636, section 4.2, S256)."""
    return (
        base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")
    )


def _parameters_of(answer: str) -> dict[str, list[str]]:
    """Return what is in the query of an answer; nothing if it is no URL."""
    try:
        query = urlsplit(answer).query
    except ValueError:  # a person may have copied it from anywhere
        return {}
    return parse_qs(query, keep_blank_values=True)


@final
@attrs.frozen(kw_only=True)
class LoginAttempt:
    """One attempt to log in: what must be known when its answer comes. Good for one answer.

    Attributes:
        server: The authorization server, recorded before the browser leaves.
        redirect_uri: Where the answer comes to.
        url: What to open in a browser.
        verifier: The secret that shows who has begun it.
    """

    server: AuthorizationServerMetadata
    redirect_uri: str
    url: str = attrs.field(repr=False)
    verifier: str = attrs.field(repr=False)
    _state: str = attrs.field(repr=False, alias="state")

    def is_for(self, answer: str) -> bool:
        """Whether an answer is to this attempt: it brings its state, once."""
        given = _parameters_of(answer[:MAX_ANSWER]).get("state", [])
        return len(given) == 1 and hmac.compare_digest(
            given[0].encode("utf-8", "surrogatepass"), self._state.encode()
        )

    def take(self, answer: str) -> str:
        """Return the code in an answer.

        Args:
            answer: The URL that the browser was sent to.

        Raises:
            AuthorizationFailed: It is not for this attempt, not from this authorization server, or a refusal.
        """
        if len(answer) > MAX_ANSWER:
            raise AuthorizationFailed(f"the answer to the login is longer than {MAX_ANSWER} characters")
        if not self.is_for(answer):
            raise AuthorizationFailed("the answer to the login is to another one: its state is not ours")
        fields = _parameters_of(answer)
        if any(len(values) > 1 for values in fields.values()):
            raise AuthorizationFailed("the answer to the login has a parameter more than once")
        issuer = fields.get("iss", [None])[0]
        if issuer is None:
            if self.server.authorization_response_iss_parameter_supported:
                raise AuthorizationFailed(
                    f"the answer to the login does not say that it is from {self.server.name}"
                )
        elif issuer not in (self.server.issuer, self.server.named):
            # Nothing else in it is looked at, or shown: it is somebody else's.
            raise AuthorizationFailed(
                f"the answer to the login is from {printable(issuer)}, not from {self.server.name}"
            )
        if "error" in fields:
            secret = [self._state, self.verifier, *fields.get("code", ())]
            error = without_secrets(fields["error"][0], secret)
            description = without_secrets(fields.get("error_description", [""])[0], secret)
            more = f": {printable(description, 300)}" if description else ""
            raise AuthorizationFailed(
                f"{self.server.name} refused the login ({printable(error, 100)}){more}",
                error=error,
                issuer=self.server.issuer,
            )
        code = fields.get("code", [""])[0]
        if not code:
            raise AuthorizationFailed(f"the answer of {self.server.name} to the login has no code")
        return code


def begin_login(
    discovered: Discovered, client_id: str, redirect_uri: str, scopes: Iterable[str] | None
) -> LoginAttempt:
    """Begin an attempt to log in.

    Raises:
        AuthorizationFailed: The authorization server cannot do that, or not safely.
    """
    server = discovered.server
    if server.authorization_endpoint is None:
        raise AuthorizationFailed(f"{server.name} has no authorization_endpoint, where a person could log in")
    check_pkce(server)
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": code_challenge(verifier),
        "code_challenge_method": "S256",
        "state": state,
        "resource": discovered.resource,
    }
    scope = scope_text(scopes)
    if scope is not None:
        query["scope"] = scope
        if OFFLINE in scope.split():
            query["prompt"] = "consent"  # OpenID Connect Core, section 11: without it the scope is ignored
    endpoint = server.authorization_endpoint
    separator = "&" if urlsplit(endpoint).query else "?"
    return LoginAttempt(
        server=server,
        redirect_uri=redirect_uri,
        url=f"{endpoint.partition('#')[0]}{separator}{urlencode(query)}",
        verifier=verifier,
        state=state,
    )


# A code to enter at another device.

POLL_SECONDS: Final = 5.0
"""How often it is asked whether a code was entered, if the authorization server does not say (RFC 8628, 3.2)."""

MAX_USER_CODE: Final = 100
"""The longest code that a person is asked to enter, in characters."""


@final
@attrs.frozen(kw_only=True)
class DeviceCode:
    """What a person needs who logs in at another device than this: as text, one sentence.

    Attributes:
        user_code: The code to enter.
        verification_uri: The page to enter it at.
        verification_uri_complete: The same page with the code entered already; `None` if there is none.
        expires_in: How long that is possible, in seconds.
        interval: How often it is asked whether that was done, in seconds.
    """

    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float
    interval: float = POLL_SECONDS
    _device_code: str = attrs.field(repr=False, alias="device_code")

    def __str__(self) -> str:
        return f"To log in, open {self.verification_uri} and enter the code {self.user_code}"

    def grant(self) -> dict[str, str | None]:
        """Return the request for a token."""
        return {"grant_type": DEVICE_CODE, "device_code": self._device_code}


def read_device_code(status: int, document: object, server: AuthorizationServerMetadata) -> DeviceCode:
    """Read the answer to the request for a code.

    Raises:
        AuthorizationFailed: There is none.
    """
    if (refusal := error_of_answer(status, document, server.name, server.issuer)) is not None:
        raise refusal
    said = document if is_object(document) else {}
    texts: list[Any] = [said.get(name) for name in ("device_code", "user_code", "verification_uri")]
    complete, expires_in, interval = (
        said.get(name) for name in ("verification_uri_complete", "expires_in", "interval")
    )
    if (
        not all(isinstance(each, str) and each.isprintable() and each for each in texts)
        or not (is_time(expires_in) and expires_in > 0)
        or len(texts[1]) > MAX_USER_CODE
    ):
        raise AuthorizationFailed(f"{server.name} gave no code that a person could enter")
    return DeviceCode(
        device_code=texts[0],
        user_code=texts[1],
        verification_uri=texts[2],
        verification_uri_complete=complete if isinstance(complete, str) else None,
        expires_in=float(expires_in),
        interval=max(float(interval), 1.0) if is_time(interval) else POLL_SECONDS,
    )
