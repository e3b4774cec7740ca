"""An MCP server that wants tokens, and the authorization server that issues them, at one origin and in memory.

It follows the rules, checks those that clients must follow, and can be told to break its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, final
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs
import trio
from http_mcp import HttpCall
from http_sessions import URL, HttpServer
from inside_oauth import code_challenge

from trio_mcp import Client, HttpServerParameters, OAuth, open_client

ORIGIN: Final = "http://localhost:8000"
CALLBACK: Final = "http://localhost:3000/callback"
METADATA: Final = "/.well-known/oauth-protected-resource/mcp"
SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"

Message = Mapping[str, Any]


@final
@attrs.frozen
class Asked:
    """A request to the authorization server."""

    path: str
    form: Mapping[str, Any]
    headers: Mapping[str, str]


@final
class Told:
    """A document that is answered with header fields of its own."""

    def __init__(self, document: object, *fields: tuple[bytes, bytes]) -> None:
        self.document = document
        self.fields = fields

    def __repr__(self) -> str:
        return f"{self.document!r} with {self.fields}"


@final
class ProtectedScript:
    """One origin with both servers.

    Attributes:
        tokens: The tokens that are good, and their scopes.
        refresh_tokens: The refresh tokens that are good, and the scopes they are for.
        asked: What the authorization server was asked, in order.
        seen: The tokens that came to the MCP server, in order; `None` for none.
        pages: The URLs of the pages that a person was shown.
        needs: The scopes that a method needs beyond being logged in.
        lifetime: What a token is good for, in seconds.
        rotates: Whether a refresh brings another refresh token.
        resource, server: The two documents.
        before: Called before a path is answered; it may wait.
        answers: What is answered at a path instead, once each: status and document. Status 0 breaks the connection.
    """

    def __init__(self, speaks: str = "2026-07-28", origin: str = ORIGIN) -> None:
        self.origin = origin
        self.url = f"{origin}/mcp"

        async def answer(call: HttpCall) -> None:
            await self.mcp.reply(call, content=[{"type": "text", "text": "done"}])

        async def no_tools(call: HttpCall) -> None:
            await self.mcp.reply(call, tools=[], ttlMs=0, cacheScope="private")

        self.mcp = HttpServer(speaks, {"tools/call": answer, "tools/list": no_tools})
        self.tokens: dict[str, frozenset[str]] = {}
        self.refresh_tokens: dict[str, frozenset[str]] = {}
        self.asked: list[Asked] = []
        self.seen: list[str | None] = []
        self.pages: list[str] = []
        self.needs: dict[str, str] = {}
        self.basic_scope: str | None = "mcp"
        self.lifetime: int | None = 3600
        self.rotates = True
        self.has_challenge_metadata = True
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        self.resource: dict[str, Any] = {"resource": self.url, "authorization_servers": [origin]}
        self.server: dict[str, Any] = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "revocation_endpoint": f"{origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }
        self._codes: dict[str, dict[str, str]] = {}
        self._made: Counter[str] = Counter()

    def parameters(self, **options: Any) -> HttpServerParameters:
        return HttpServerParameters(URL, app=self, **options)

    def at(self, path: str) -> list[Asked]:
        """Return the requests for a path of the authorization server."""
        return [each for each in self.asked if each.path == path]

    def grants(self) -> list[str]:
        """Return the grants that tokens were requested by."""
        return [each.form["grant_type"] for each in self.at("/token")]

    def move(self) -> str:
        """Let the server name another authorization server from now on; returns its issuer."""
        moved = f"{self.origin}/other"
        self.resource["authorization_servers"] = [moved]
        self.server["issuer"] = moved
        self.answers["/.well-known/oauth-authorization-server/other"] = [(200, self.server)]
        return moved

    def _new(self, kind: str) -> str:
        self._made[kind] += 1
        return f"{kind}-{self._made[kind]}"

    # The person.

    def visit(self, url: str) -> str:
        """Log in at a page; returns where the browser is sent."""
        self.pages.append(url)
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["resource"] == self.resource.get("resource", self.url)
        code = self._new("code")
        self._codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.server["issuer"]}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    # The origin, as an application.

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.mcp.script(scope, receive, send)
            return
        path: str = scope["path"]
        if path in self.before:
            await self.before[path]()
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        if path in ("/mcp", "/messages"):
            await self._serve_mcp(scope, receive, send, headers)
            return
        if path == "/authorize":
            there = self.visit(f"{self.origin}/authorize?{scope['query_string'].decode()}")
            await send({"type": "http.response.start", "status": 302, "headers": [(b"location", there.encode())]})
            await send({"type": "http.response.body", "body": b""})
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        form = {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
        if headers.get("content-type") == "application/json":
            form = json.loads(body)
        self.asked.append(Asked(path, form, headers))
        status, document = self._answer(path, form, headers)
        await self._send(send, status, document)

    def _answer(self, path: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, Any]:
        if self.answers.get(path):
            return self.answers[path].pop(0)
        if path == METADATA:
            return 200, self.resource
        if path == SERVER_METADATA:
            return 200, self.server
        if path == "/register":
            return 201, {"client_id": self._new("client"), "redirect_uris": form["redirect_uris"]}
        if path == "/token":
            return self._issue(form)
        if path == "/revoke":
            self.refresh_tokens.pop(form["token"], None)
            return 200, {}
        return 404, {"detail": "not here"}

    def _issue(self, form: Mapping[str, str]) -> tuple[int, Any]:
        grant = form["grant_type"]
        if "resource" not in form:
            return 400, {"error": "invalid_target"}
        if grant == "authorization_code":
            query = self._codes.pop(form["code"], None)
            if query is None or code_challenge(form["code_verifier"]) != query["code_challenge"]:
                return 400, {"error": "invalid_grant"}
            assert form["redirect_uri"] == query["redirect_uri"]
            assert form["client_id"] == query["client_id"]
            scopes = frozenset(query.get("scope", "").split())
        elif grant == "refresh_token":
            known = self.refresh_tokens.get(form["refresh_token"])
            if known is None:
                return 400, {"error": "invalid_grant", "error_description": "it was used before"}
            scopes = known
            if self.rotates:
                del self.refresh_tokens[form["refresh_token"]]
        else:
            scopes = frozenset(form.get("scope", "").split())
        token = self._new("access")
        self.tokens[token] = scopes
        answer: dict[str, Any] = {
            "access_token": token,
            "token_type": "bearer",
            "scope": " ".join(sorted(scopes)),
        }
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if grant != "refresh_token" or self.rotates:
            refresh = self._new("refresh")
            self.refresh_tokens[refresh] = scopes
            answer["refresh_token"] = refresh
        return 200, answer

    async def _serve_mcp(self, scope: Any, receive: Any, send: Any, headers: Mapping[str, str]) -> None:
        token = headers.get("authorization", "").removeprefix("Bearer ") or None
        self.seen.append(token)
        method = headers.get("mcp-method", "")
        scopes = self.tokens.get(token or "")
        challenge = (
            f'resource_metadata="{self.origin}{METADATA}"' if self.has_challenge_metadata else 'realm="mcp"'
        )
        if scopes is None:
            if self.basic_scope is not None:
                challenge += f', scope="{self.basic_scope}"'
            if token is not None:
                challenge += ', error="invalid_token"'
            await self._send(send, 401, {}, f"Bearer {challenge}")
        elif not set(self.needs.get(method, "").split()) <= scopes:
            challenge = f'Bearer error="insufficient_scope", scope="{self.needs[method]}", {challenge}'
            await self._send(send, 403, {"error": "no"}, challenge)
        else:
            await self.mcp.script(scope, receive, send)

    @staticmethod
    async def _send(send: Any, status: int, document: Any, challenge: str | None = None) -> None:
        if not status:
            return
        fields = [(b"content-type", b"application/json")]
        if isinstance(document, Told):
            fields = list({**dict(fields), **dict(document.fields)}.items())
            document = document.document
        if challenge is not None:
            fields.append((b"www-authenticate", challenge.encode()))
        await send({"type": "http.response.start", "status": status, "headers": fields})
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        await send({"type": "http.response.body", "body": body})


def oauth(script: ProtectedScript, **options: Any) -> OAuth:
    """Return the authorization of somebody who logs in at once."""

    async def visit(url: str) -> str:  # a plain function would run in a thread, which a mock clock does not await
        await trio.lowlevel.checkpoint()
        return script.visit(url)

    given: dict[str, Any] = {"open_page": visit, "redirect_uri": CALLBACK, "listen": False, **options}
    return OAuth(**given)


@asynccontextmanager
async def connected(script: ProtectedScript, **options: Any) -> AsyncGenerator[Client]:
    """Connect somebody who logs in at once."""
    async with open_client(script.parameters(), auth=oauth(script, **options)) as client:
        yield client


@final
class Person:
    """Somebody who logs in when a test says so.

    Attributes:
        asked: How often a page was shown.
        gave_up: How often nobody waited any more.
    """

    def __init__(self, script: ProtectedScript) -> None:
        self._script = script
        self._ready = trio.Event()
        self.asked = 0
        self.gave_up = 0

    def log_in(self) -> None:
        self._ready.set()

    async def open_page(self, url: str) -> str:
        self.asked += 1
        try:
            await self._ready.wait()
        except trio.Cancelled:
            self.gave_up += 1
            raise
        return self._script.visit(url)
