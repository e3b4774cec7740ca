"""An authorization server for tests, as an ASGI application: pages, endpoints and documents.

What it issues is in `_issuing`. It is for tests and for trying things out, on one machine: it asks nobody for a
password, keeps everything in memory, and forgets it when it ends.

Spec: RFC 6749, 7009, 7591, 7636, 7662, 8414, 8693, 8707, 9207, 9449; the drafts of client id metadata documents
and of identity assertion authorization grants; 2026-07-28, basic/authorization.
"""

from __future__ import annotations

import html
import secrets
import ssl
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import attrs
import trio
from attrs.validators import in_

from .._auth._verifiers import ResourceServer
from .._codec import _json
from .._codec._json import is_object
from .._core._http_rules import HttpServerSettings
from .._errors import McpError
from .._hosts._serve_http import serve_http
from .._http._client import open_http_client, send_following
from .._http._messages import HttpRequest
from .._http._target import parse_target
from .._limits import KIB
from .._oauth._clients import DEVICE_CODE
from .._server._server import Server
from .._trio import open_hidden_nursery
from ._answers import NOT_STORED, Answer, ReceivedRequest, json_answer, page_of, random_text
from ._grants import TokenEndpoint
from ._issuing import (
    AUTHENTICATION_METHODS,
    GRANT_TYPES,
    AuthorizationClient,
    Code,
    DeviceLogin,
    Issuer,
    Login,
    OAuthRefused,
    client_of_metadata,
    is_local,
    keep,
)

_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY: Final = 64 * KIB
"""The largest body that it reads, in bytes."""

MAX_DOCUMENT: Final = 5 * KIB
"""The largest client id metadata document, in bytes."""

DOCUMENT_SECONDS: Final = 5.0
"""How long one may take to fetch."""


@attrs.define(eq=False, kw_only=True, repr=False)
class AuthorizationServer(TokenEndpoint):
    """An authorization server to log in to, for tests and for trying things out. Not for production.

        async with AuthorizationServer().serving() as issuer:
            ...

    Or give it a fixed `issuer`, and let any ASGI host serve it, or ``serve_http(…, routes=…)``. It gives codes
    with PKCE (S256) on a consent page, and tokens for codes, refresh tokens (each for one use), clients' own
    credentials, assertions of trusted issuers, and by token exchange. It knows clients by `add_client`, by
    registration, and by client id metadata documents. Access tokens are JWTs, for the `resource` that was asked
    for.

    It asks nobody for a password: who logs in is `subject`. All it knows is in memory, and no request is limited.

    Args:
        issuer: Its URL; by default that at which `serving` serves it.
        subject: Who logs in.
        scopes: Those it knows; others are not granted. Default: it grants whatever is asked for.
        consent: ``"given"``: the authorization endpoint redirects at once; ``"asked"``: on a page, by a person;
            ``"denied"``.
        registration: Whether clients may register (RFC 7591).
        client_id_metadata: Whether a client may be known by the URL of its metadata document.
        documents: Such documents by URL, in place of fetching them.
        lifetime: How long access tokens are good, in seconds.
        code_lifetime: How long codes are good, in seconds.
        algorithm: How tokens are signed.
        dpop: Whether tokens are bound to keys (RFC 9449): ``"offered"`` to clients that send proofs,
            ``"required"``.
        dpop_nonces: Whether proofs must have a nonce of this server.
        trusted_issuers: Whose assertions give tokens (RFC 7523): their keys, as plain JSON, by issuer.
        now: Returns the time, in seconds since 1970.

    Attributes:
        requests: The latest thousand requests.
        grants: How many tokens were asked for by each type of grant.

    Raises:
        RuntimeError: joserfc is not installed (``pip install trio-mcp[auth]``).
        TypeError: `scopes` is one string.
        ValueError: There is no such `consent`, `algorithm` or `dpop`.
    """

    issuer: str = ""
    subject: str = "ann"
    scopes: Collection[str] | None = None
    consent: Literal["given", "asked", "denied"] = attrs.field(
        default="given", validator=in_(("given", "asked", "denied"))
    )
    registration: bool = True
    client_id_metadata: bool = True
    documents: dict[str, Mapping[str, Any]] = attrs.field(factory=dict[str, Mapping[str, Any]])
    lifetime: float = 3_600.0
    code_lifetime: float = 60.0
    algorithm: Literal["ES256", "RS256"] = attrs.field(default="ES256", validator=in_(("ES256", "RS256")))
    dpop: Literal["offered", "required"] | None = attrs.field(
        default="offered", validator=in_(("offered", "required", None))
    )
    dpop_nonces: bool = False
    trusted_issuers: dict[str, Mapping[str, Any]] = attrs.field(factory=dict[str, Mapping[str, Any]])
    now: Callable[[], float] = time.time
    requests: deque[ReceivedRequest] = attrs.field(factory=lambda: deque(maxlen=1_000), init=False)
    grants: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _issued: Issuer = attrs.field(init=False)
    _asked: dict[str, tuple[Code, str]] = attrs.field(factory=dict[str, tuple[Code, str]], init=False)

    def __attrs_post_init__(self) -> None:
        _check_several(self.scopes)
        try:
            self._issued = Issuer(lambda: self.now(), self.algorithm)  # noqa: PLW0108 - it may be replaced
        except ImportError as error:
            from .._oauth._signed import needs_auth_extra

            raise needs_auth_extra(error) from error
        self._issued.url = self.issuer

    # What a test does with it.

    @asynccontextmanager
    async def serving(
        self, host: str = "127.0.0.1", port: int = 0, *, ssl_context: ssl.SSLContext | None = None
    ) -> AsyncGenerator[str]:
        """Serve it while a block runs; yields the issuer's URL.

        Args:
            host: The address to listen on.
            port: The port; 0 for one that is free.
            ssl_context: The certificate for TLS; `None` for no TLS.

        Raises:
            OSError: The address cannot be listened on.
        """
        async with open_hidden_nursery() as nursery:
            # The limits and the cleanliness of our own host; the MCP server in it has nothing to offer.
            serve = partial(
                serve_http,
                Server("authorization server"),
                host,
                port,
                http="lean",
                settings=HttpServerSettings(path="/.mcp", allowed_hosts=None, allowed_origins=None),
                ssl_context=ssl_context,
                routes=self,
            )
            urls: tuple[str, ...] = await nursery.start(serve)
            if not self.issuer:
                self.issuer = self._issued.url = urls[0].removesuffix("/.mcp")
            try:
                yield self.issuer
            finally:
                nursery.cancel_scope.cancel(reason="the authorization server is not needed any more")

    def add_client(
        self,
        client_id: str,
        *,
        secret: str | None = None,
        redirect_uris: Iterable[str] = (),
        method: Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"] | None = None,
        jwks: Mapping[str, Any] | None = None,
        grant_types: Iterable[str] = GRANT_TYPES,
    ) -> AuthorizationClient:
        """Let a client be known.

        Args:
            client_id: Its id.
            secret: Its secret.
            redirect_uris: Where it may be sent back to.
            method: How it authenticates at the token endpoint. Default: by its secret in `Authorization`, by its
                keys, or not at all, as it has them.
            jwks: Its public keys, as plain JSON.
            grant_types: By which grants it may get tokens.
        """
        by_default = (
            "client_secret_basic" if secret is not None else "none" if jwks is None else "private_key_jwt"
        )
        client = AuthorizationClient(
            client_id=client_id,
            secret=secret,
            redirect_uris=tuple(redirect_uris),
            grant_types=tuple(grant_types),
            method=method or by_default,
            jwks=jwks,
            name=client_id,
        )
        self._issued.clients[client_id] = client
        return client

    @property
    def clients(self) -> Mapping[str, AuthorizationClient]:
        """The clients that are known, by id."""
        return self._issued.clients

    def issue(
        self,
        *,
        subject: str | None = None,
        client_id: str = "tests",
        scopes: Iterable[str] = (),
        resource: str | None = None,
        lifetime: float | None = None,
        key: str | None = None,
        **claims: object,
    ) -> str:
        """Return an access token without any login.

        Args:
            subject: Whose it is; by default `subject` of the server.
            client_id: The client that it is for.
            scopes: What it permits.
            resource: The server that it is for.
            lifetime: How long it is good, in seconds; less than 0 for one that has expired.
            key: The thumbprint of the key that it is bound to.
            **claims: Further claims, or others.

        Raises:
            RuntimeError: It has no URL before `serving`, and was given no `issuer`.
            TypeError: `scopes` is one string.
        """
        _check_several(scopes)
        login = Login(
            client_id=client_id,
            subject=subject or self.subject,
            scopes=frozenset(scopes),
            resource=resource,
            key=key,
        )
        return self._issued.access_token(login, self.lifetime if lifetime is None else lifetime, claims)

    def issue_id_token(self, client_id: str, *, subject: str | None = None) -> str:
        """Return an id token for a client, as a login at an identity provider gives it.

        Raises:
            RuntimeError: As `issue`.
        """
        now = int(self.now())
        claims = {
            "iss": self.issuer,
            "sub": subject or self.subject,
            "aud": client_id,
            "iat": now,
            "exp": now + 3_600,
        }
        return self._issued.sign(claims, "JWT")

    def protect(self, resource: str, **options: Any) -> ResourceServer:
        """Return what protects a server by this one: ``serve_http(server, auth=authorization.protect(url))``.

        Tokens are looked up in this process, and a revoked one is refused at once.

        Args:
            resource: The URL of the server.
            **options: As for `ResourceServer`.
        """

        async def verify(token: str) -> Mapping[str, Any] | None:
            await trio.lowlevel.checkpoint()
            known = self._issued.introspect(token)
            known.pop("iat", None)  # by its own clock, which a test may have moved
            return known if known["active"] else None

        given: dict[str, Any] = {"verifier": verify, "keep_for": 0.0, **options}
        return ResourceServer(resource, authorization_servers=[self.issuer], **given)

    def jwks(self) -> dict[str, Any]:
        """Return its public keys, as plain JSON."""
        return self._issued.jwks()

    def rotate_key(self) -> None:
        """Sign with another key from now on, and publish the old one no more."""
        self._issued.rotate()

    def revoke(self, token: str) -> None:
        """Revoke a token, and all that came of the same login."""
        self._issued.revoke(token)

    def revoke_all(self) -> None:
        """Revoke all tokens."""
        self._issued.revoke_all()

    # HTTP.

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer one request of an ASGI host."""
        if scope["type"] == "lifespan":
            for _ in range(2):
                kind = str((await receive())["type"])
                await send({"type": f"{kind}.complete"})
            return
        if scope["type"] != "http":
            raise NotImplementedError(f"ASGI {scope['type']} is not served")
        body = bytearray()
        more = True
        while more and len(body) <= MAX_BODY:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {
            bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in scope["headers"]
        }
        parameters = dict(parse_qsl(bytes(scope.get("query_string") or b"").decode("latin-1")))
        if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            parameters |= dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        request = ReceivedRequest(str(scope["method"]), str(scope["path"]), parameters, headers)
        self.requests.append(request)
        answer = await self._answer(request, bytes(body))
        fields = {"content-length": str(len(answer.body)), **answer.headers}
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()],
            }
        )
        await send({"type": "http.response.body", "body": answer.body if request.method != "HEAD" else b""})

    async def _answer(self, request: ReceivedRequest, body: bytes) -> Answer:
        root = urlsplit(self.issuer).path.rstrip("/")
        try:
            # In front of the issuer's path (RFC 8414), or behind it (OpenID Connect).
            metadata = {f"{root}/.well-known/openid-configuration", f"/.well-known/openid-configuration{root}"}
            if request.path in metadata | {f"/.well-known/oauth-authorization-server{root}"}:
                return json_answer(self.metadata(), headers={"access-control-allow-origin": "*"})
            match request.method, request.path.removeprefix(root):
                case "GET", "/jwks":
                    return json_answer(self.jwks(), headers={"cache-control": "max-age=300"})
                case "POST", "/device_authorization":
                    return await self._show_code(request)
                case "GET", "/device":
                    return self._device(request.parameters.get("user_code", ""))
                case "GET", "/authorize":
                    return await self._authorize(request.parameters)
                case "POST", "/consent":
                    return self._consented(request)
                case "POST", "/token":
                    return await self._token(request)
                case "POST", "/register":
                    return self._register(body)
                case "POST", "/revoke":
                    self._authenticated(request)
                    self._issued.revoke(request.parameters.get("token", ""))
                    return Answer()
                case "POST", "/introspect":
                    self._authenticated(request)
                    return json_answer(self._issued.introspect(request.parameters.get("token", "")))
                case _:
                    return page_of("Not found", "", 404)
        except OAuthRefused as refused:
            said = {"error": refused.error, "error_description": refused.description}
            return json_answer(said, refused.status, {**NOT_STORED, **refused.headers})

    def metadata(self) -> dict[str, Any]:
        """Return its metadata document (RFC 8414, section 2)."""
        metadata: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": self._url("/authorize"),
            "device_authorization_endpoint": self._url("/device_authorization"),
            "token_endpoint": self._url("/token"),
            "jwks_uri": self._url("/jwks"),
            "revocation_endpoint": self._url("/revoke"),
            "introspection_endpoint": self._url("/introspect"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": list(GRANT_TYPES),
            "token_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
            "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256"],
            "revocation_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
            "introspection_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.client_id_metadata,
            "authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.algorithm],
        }
        if self.registration:
            metadata["registration_endpoint"] = self._url("/register")
        if self.scopes is not None:
            metadata["scopes_supported"] = sorted(self.scopes)
        if self.dpop is not None:
            metadata["dpop_signing_alg_values_supported"] = ["ES256"]
        return metadata

    # Authorization.

    async def _authorize(self, form: Mapping[str, str]) -> Answer:
        try:
            client = await self._known_client(form.get("client_id", ""))
        except OAuthRefused as refused:
            return page_of("Unknown client", f"<p>{html.escape(refused.description)}</p>", 400)
        uri = form.get("redirect_uri", "")
        if not client.allows_redirect(uri):
            # Never redirected: the address may be an attacker's.
            return page_of("Wrong redirect_uri", f"<p>{html.escape(uri)} is not one of the client's.</p>", 400)
        state = form.get("state", "")
        if form.get("response_type") != "code":
            return self._sent_back(uri, state, error="unsupported_response_type")
        challenge = form.get("code_challenge", "")
        if form.get("code_challenge_method") != "S256" or len(challenge) != 43:
            return self._sent_back(
                uri, state, error="invalid_request", error_description="PKCE (S256) is required"
            )
        if self.consent == "denied":
            return self._sent_back(uri, state, error="access_denied")
        code = self._code(client, form, uri, challenge)
        if self.consent == "given":
            return self._agreed(code, state)
        id = random_text()
        keep(self._asked, id, (code, state))
        return self._consent_page(client, code, id)

    def _code(
        self, client: AuthorizationClient, form: Mapping[str, str], uri: str = "", challenge: str = ""
    ) -> Code:
        return Code(
            client_id=client.client_id,
            subject=self.subject,
            redirect_uri=uri,
            challenge=challenge,
            scopes=self._granted(form.get("scope", "").split()),
            resource=form.get("resource"),
            until=self.now() + self.code_lifetime,
            key=form.get("dpop_jkt"),
        )

    async def _show_code(self, request: ReceivedRequest) -> Answer:
        """Begin a login at another device (RFC 8628, section 3.2)."""
        await self._known_client(request.parameters.get("client_id", ""))
        client = self._authenticated(request)
        if DEVICE_CODE not in client.grant_types:
            raise OAuthRefused("unauthorized_client", "the client may not log anybody in by a code")
        shown, device_code = f"{secrets.randbelow(10**8):08}", random_text()
        keep(self._issued.devices, shown, DeviceLogin(self._code(client, request.parameters), device_code))
        page = self._url("/device")
        answer = {"device_code": device_code, "user_code": shown, "verification_uri": page, "interval": 1}
        answer |= {"verification_uri_complete": f"{page}?user_code={shown}", "expires_in": self.code_lifetime}
        return json_answer(answer, headers=NOT_STORED)

    def _device(self, shown: str) -> Answer:
        login = self._issued.devices.get(shown)
        if login is None:
            action = html.escape(quote(self._url("/device"), safe="/:"))
            content = f"<form action={action}><input name=user_code></form>"
            return page_of("Which code was shown to you?", content)
        if self.consent == "asked":
            id = random_text()
            keep(self._asked, id, (login.code, shown))
            return self._consent_page(self.clients[login.code.client_id], login.code, id)
        return self._decide(login, is_allowed=self.consent == "given")

    @staticmethod
    def _decide(login: DeviceLogin | None, *, is_allowed: bool) -> Answer:
        if login is not None:
            login.is_allowed = is_allowed
        return page_of("You are logged in" if is_allowed else "You are not logged in", "")

    def _consent_page(self, client: AuthorizationClient, code: Code, id: str) -> Answer:
        host = urlsplit(code.redirect_uri).netloc
        # Any program of this machine could listen there, under any name.
        is_anybody = bool(host) and all(map(is_local, client.redirect_uris))
        warning = "<p>Agree only if you have just started it on this machine.</p>" if is_anybody else ""
        wanted = "".join(f"<li>{html.escape(scope)}</li>" for scope in sorted(code.scopes))
        buttons = "".join(
            f"<button name=decision value={value}>{label}</button>"
            for value, label in (("allow", "Allow"), ("deny", "Deny"))
        )
        page = page_of(
            "Do you agree?",
            f"<p><b>{html.escape(client.name)}</b>, at {html.escape(host or 'another device')}, wants to act for "
            f"<b>{html.escape(code.subject)}</b> at {html.escape(code.resource or 'any server')}.</p>"
            f"{warning}<ul>{wanted}</ul>"
            f"<form method=post action={html.escape(quote(self._url('/consent'), safe='/:'))}>"
            f"<input type=hidden name=request value={id}>{buttons}</form>",
        )
        # Another page cannot agree in somebody's name: it has not got the cookie.
        return attrs.evolve(
            page, headers={**page.headers, "set-cookie": f"consent={id}; HttpOnly; SameSite=Strict; Path=/"}
        )

    def _consented(self, request: ReceivedRequest) -> Answer:
        id = request.parameters.get("request", "")
        asked = self._asked.pop(id, None)
        if asked is None or f"consent={id}" not in request.headers.get("cookie", "").split("; "):
            return page_of("That was not asked", "", 400)
        code, state = asked
        if not code.redirect_uri:  # of a login at another device
            is_allowed = request.parameters.get("decision") == "allow"
            return self._decide(self._issued.devices.get(state), is_allowed=is_allowed)
        if request.parameters.get("decision") != "allow":
            return self._sent_back(code.redirect_uri, state, error="access_denied")
        return self._agreed(code, state)

    def _agreed(self, code: Code, state: str) -> Answer:
        value = random_text()
        keep(self._issued.codes, value, code)
        return self._sent_back(code.redirect_uri, state, code=value)

    def _sent_back(self, uri: str, state: str, **parameters: str) -> Answer:
        if state:
            parameters["state"] = state
        parameters["iss"] = self.issuer
        joint = "&" if urlsplit(uri).query else "?"
        return Answer(302, headers={"location": f"{uri}{joint}{urlencode(parameters)}", **NOT_STORED})

    # Clients.

    async def _known_client(self, client_id: str) -> AuthorizationClient:
        client = self._issued.clients.get(client_id)
        is_url = urlsplit(client_id).scheme == "https" or is_local(client_id)
        if client is None and self.client_id_metadata and is_url:
            client = client_of_metadata(await self._document(client_id), client_id, secret=False)
            keep(self._issued.clients, client_id, client)
        if client is None:
            raise OAuthRefused("invalid_client", "the client is not known")
        return client

    async def _document(self, url: str) -> Mapping[str, Any]:
        """Return a client id metadata document, which must say that it is one of this URL."""
        document: object = self.documents.get(url)
        if document is None:
            try:
                with trio.fail_after(DOCUMENT_SECONDS):
                    async with open_http_client() as http:
                        sent = HttpRequest(method="GET", target=parse_target(url))
                        async with await send_following(http, sent, max_redirects=0) as response:
                            document = (
                                _json.decode(await response.read(MAX_DOCUMENT))
                                if response.status == 200
                                else None
                            )
            except (McpError, OSError, ValueError, trio.TooSlowError) as error:
                raise OAuthRefused("invalid_client", "the client's metadata cannot be fetched") from error
        if not is_object(document) or document.get("client_id") != url or "client_secret" in document:
            raise OAuthRefused("invalid_client", "the client's metadata is not of this URL")
        if not isinstance(document.get("client_name"), str) or not document.get("redirect_uris"):
            raise OAuthRefused("invalid_client", "the client's metadata has no client_name or no redirect_uris")
        return cast("Mapping[str, Any]", document)

    def _register(self, body: bytes) -> Answer:
        """Register a client (RFC 7591)."""
        if not self.registration:
            raise OAuthRefused("invalid_client_metadata", "clients are not registered here", 403)
        try:
            metadata = _json.decode(body)
        except ValueError:
            metadata = None
        if not is_object(metadata):
            raise OAuthRefused("invalid_client_metadata", "the body is no JSON object")
        client = client_of_metadata(cast("Mapping[str, Any]", metadata), f"client-{random_text(9)}", secret=True)
        keep(self._issued.clients, client.client_id, client)
        answer: dict[str, Any] = {
            **metadata,
            "client_id": client.client_id,
            "client_id_issued_at": int(self.now()),
            "token_endpoint_auth_method": client.method,
        }
        if client.secret is not None:
            answer |= {"client_secret": client.secret, "client_secret_expires_at": 0}
        return json_answer(answer, 201, NOT_STORED)

    def _authenticated(self, request: ReceivedRequest) -> AuthorizationClient:
        client = self._issued.authenticate(
            request.parameters, request.headers.get("authorization"), self._url(request.path)
        )
        if client is None:
            raise OAuthRefused("invalid_client", "the client is not named")
        return client


def _check_several(scopes: object) -> None:
    if isinstance(scopes, str):
        raise TypeError(f"scopes are several strings, as [{scopes!r}], not one string")
