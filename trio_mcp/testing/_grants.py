"""The token endpoint of an authorization server for tests: which grants give which tokens.

Spec: RFC 6749, sections 4 to 6; RFC 7523; RFC 8693; RFC 9449, section 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from .._oauth._clients import DEVICE_CODE
from .._oauth._tokens import ID_JAG, JWT_BEARER, TOKEN_EXCHANGE
from ._answers import NOT_STORED, Answer, ReceivedRequest, json_answer, random_text
from ._issuing import (
    ID_TOKEN,
    AuthorizationClient,
    Code,
    Issuer,
    Login,
    OAuthRefused,
    audiences,
    unverified,
    verified,
)

ASSERTION_SECONDS: Final = 300
"""How long an identity assertion is good that it issues."""

_Client: TypeAlias = AuthorizationClient | None
_Form: TypeAlias = Mapping[str, str]


class TokenEndpoint:
    """Gives tokens; an `AuthorizationServer` is one."""

    issuer: str
    scopes: Collection[str] | None
    lifetime: float
    dpop: Literal["offered", "required"] | None
    dpop_nonces: bool
    trusted_issuers: dict[str, Mapping[str, Any]]
    grants: Counter[str]
    _issued: Issuer

    def _url(self, path: str) -> str:
        return self.issuer.rstrip("/") + path

    def _granted(self, asked: Iterable[str]) -> frozenset[str]:
        return frozenset(asked) if self.scopes is None else frozenset(asked) & frozenset(self.scopes)

    async def _token(self, request: ReceivedRequest) -> Answer:
        form = request.parameters
        kind = form.get("grant_type", "")
        self.grants[kind] += 1
        client = self._issued.authenticate(form, request.headers.get("authorization"), self._url("/token"))
        if client is not None and kind not in client.grant_types:
            raise OAuthRefused("unauthorized_client", f"the client may not use {kind:.80}")
        key = self._key_of(request)
        grants: dict[str, Callable[[_Client, _Form, str | None], Answer]] = {
            "authorization_code": self._by_code,
            "refresh_token": self._by_refresh_token,
            "client_credentials": self._by_credentials,
            DEVICE_CODE: self._by_device_code,
            JWT_BEARER: self._by_assertion,
            TOKEN_EXCHANGE: self._by_exchange,
        }
        grant = grants.get(kind)
        if grant is None:
            raise OAuthRefused("unsupported_grant_type", f"{kind:.80} is not supported")
        return grant(client, form, key)

    def _key_of(self, request: ReceivedRequest) -> str | None:
        """Return the thumbprint of the key that the token is to be bound to."""
        if self.dpop is None:
            return None
        proof = request.headers.get("dpop")
        key = self._issued.check_proof(proof, "POST", self._url("/token"), wants_nonce=self.dpop_nonces)
        if key is None and self.dpop == "required":
            raise OAuthRefused("invalid_dpop_proof", "a proof is required")
        return key

    def _by_code(self, client: _Client, form: _Form, key: str | None) -> Answer:
        given = self._issued.use_code(form.get("code", ""), named(client), form)
        if given.key is not None and given.key != key:
            raise OAuthRefused(
                "invalid_dpop_proof", "the proof is by another key than the authorization request named"
            )
        return self._agreed_on(given, client, key)

    def _by_device_code(self, client: _Client, form: _Form, key: str | None) -> Answer:
        """Give a token once somebody has entered the code that was shown (RFC 8628, section 3.5)."""
        devices, given = self._issued.devices, form.get("device_code")
        shown = next((shown for shown, login in devices.items() if login.device_code == given), "")
        login = devices.get(shown)
        if login is None or login.code.client_id != named(client).client_id:
            raise OAuthRefused("invalid_grant", "the device code is not valid")
        if login.code.until < self._issued.now():
            raise OAuthRefused("expired_token", "nobody has entered the code in time")
        if login.is_allowed is None:
            raise OAuthRefused("authorization_pending", "nobody has entered the code so far")
        del devices[shown]
        if not login.is_allowed:
            raise OAuthRefused("access_denied", "the person does not agree")
        return self._agreed_on(login.code, client, key)

    def _agreed_on(self, given: Code, client: _Client, key: str | None) -> Answer:
        login = Login(
            client_id=given.client_id,
            subject=given.subject,
            scopes=given.scopes,
            resource=given.resource,
            key=key,
        )
        return self._tokens(login, refreshed=named(client))

    def _by_refresh_token(self, client: _Client, form: _Form, key: str | None) -> Answer:
        login = self._issued.use_refresh_token(form.get("refresh_token", ""), named(client), key)
        if form.get("resource", login.resource) != login.resource:
            raise OAuthRefused("invalid_target", "resource is not that of the login")
        fewer = frozenset(form.get("scope", "").split()) or login.scopes
        if not fewer <= login.scopes:
            raise OAuthRefused("invalid_scope", "the login has not so many scopes")
        return self._tokens(login, scopes=fewer, refreshed=named(client))

    def _by_credentials(self, client: _Client, form: _Form, key: str | None) -> Answer:
        who = named(client)
        if who.method == "none":
            raise OAuthRefused("unauthorized_client", "a client without credentials has no tokens of its own")
        return self._tokens(self._login(who.client_id, who.client_id, form, key))

    def _login(self, client_id: str, subject: str, form: _Form, key: str | None) -> Login:
        scopes = self._granted(form.get("scope", "").split())
        return Login(client_id=client_id, subject=subject, scopes=scopes, resource=form.get("resource"), key=key)

    def _by_assertion(self, client: _Client, form: _Form, key: str | None) -> Answer:
        """Give a token for the assertion of a trusted issuer: an identity provider, a workload's platform."""
        assertion = form.get("assertion", "")
        header, said = unverified(assertion)
        issuer = str(said.get("iss"))
        jwks = self.trusted_issuers.get(issuer)
        if jwks is None:
            raise OAuthRefused("invalid_grant", "the issuer of the assertion is not trusted")
        claims = verified(assertion, jwks)
        self._issued.check_times(claims, "invalid_grant")
        if not set(audiences(claims)) & {self.issuer, self._url("/token")}:
            raise OAuthRefused("invalid_grant", "the assertion is for another server")
        subject = str(claims.get("sub", ""))
        if header.get("typ") != "oauth-id-jag+jwt":
            return self._tokens(self._login("" if client is None else client.client_id, subject, form, key))
        who = named(client)
        if claims.get("client_id") != who.client_id:
            raise OAuthRefused("invalid_grant", "the assertion is for another client")
        self._issued.use_once(f"assertion {issuer}", claims, "invalid_grant")
        offered = str(claims.get("scope", "")).split()
        asked = form.get("scope", "").split() or offered
        login = self._login(who.client_id, subject, form, key)
        login.scopes = self._granted(set(asked) & set(offered))
        login.resource = str(claims["resource"]) if "resource" in claims else login.resource
        return self._tokens(login)

    def _by_exchange(self, client: _Client, form: _Form, key: str | None) -> Answer:
        """Give an identity assertion for an id token of ours (RFC 8693)."""
        del key
        who = named(client)
        if form.get("requested_token_type") != ID_JAG or form.get("subject_token_type") != ID_TOKEN:
            raise OAuthRefused("invalid_request", "only an id token is exchanged, for an identity assertion")
        claims = verified(form.get("subject_token", ""), self._issued.jwks())
        self._issued.check_times(claims, "invalid_grant")
        if who.client_id not in audiences(claims):
            raise OAuthRefused("invalid_grant", "the id token is another client's")
        if not form.get("audience"):
            raise OAuthRefused("invalid_request", "audience is missing")
        now = int(self._issued.now())
        said: dict[str, Any] = {
            "iss": self.issuer,
            "sub": claims.get("sub"),
            "aud": form["audience"],
            "client_id": form.get("client_id", who.client_id),
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": random_text(),
        }
        said |= {name: form[name] for name in ("resource", "scope") if name in form}
        answer = {
            "access_token": self._issued.sign(said, "oauth-id-jag+jwt"),
            "issued_token_type": ID_JAG,
            "token_type": "N_A",
            "expires_in": ASSERTION_SECONDS,
        }
        return json_answer(answer, headers=NOT_STORED)

    def _tokens(self, login: Login, *, scopes: frozenset[str] | None = None, refreshed: _Client = None) -> Answer:
        scope = " ".join(sorted(login.scopes if scopes is None else scopes))
        answer: dict[str, Any] = {
            "access_token": self._issued.access_token(login, self.lifetime, {"scope": scope}),
            "token_type": "Bearer" if login.key is None else "DPoP",
            "expires_in": int(self.lifetime),
            "scope": scope,
        }
        # Where refreshing has a scope, it is something that is asked for.
        may_refresh = "offline_access" in login.scopes or "offline_access" not in (self.scopes or ())
        if refreshed is not None and "refresh_token" in refreshed.grant_types and may_refresh:
            answer["refresh_token"] = self._issued.refresh_token(login)
        headers = dict(NOT_STORED)
        if self.dpop_nonces and login.key is not None:
            headers["dpop-nonce"] = self._issued.nonce()
        return json_answer(answer, headers=headers)


def named(client: _Client) -> AuthorizationClient:
    if client is None:
        raise OAuthRefused("invalid_client", "the client is not named")
    return client
