"""Logging in by hand: requests to an authorization server, and what came back."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs
import trio
from inside_http import HttpRequest, HttpTransport, open_http_client, parse_target

from trio_mcp import open_asgi_client
from trio_mcp.testing import AuthorizationServer

VERIFIER: Final = "v" * 43
CHALLENGE: Final = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
BACK: Final = "http://127.0.0.1:3000/callback"
RESOURCE: Final = "https://mcp.test/mcp"
ISSUER: Final = "https://login.test"


@attrs.frozen
class Said:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value

    @property
    def sent_back(self) -> dict[str, str]:
        """The parameters of the redirect."""
        return dict(parse_qsl(urlsplit(self.headers["location"]).query))


@attrs.define
class Person:
    """Somebody who logs in, with everything that a client does written out."""

    authorization: AuthorizationServer
    _transport: HttpTransport

    async def get(self, path: str, /, headers: Mapping[str, str] | None = None, **query: str) -> Said:
        where = f"{path}?{urlencode(query)}" if query else path
        return await self.send("GET", where, b"", headers or {})

    async def post(self, path: str, /, headers: Mapping[str, str] | None = None, **form: str) -> Said:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self.send("POST", path, urlencode(form).encode(), {**kind, **(headers or {})})

    async def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Said:
        base = "" if path.startswith("http") else self.authorization.issuer
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        request = HttpRequest(method=method, target=parse_target(base + path), headers=fields, body=body)
        async with await self._transport.send(request) as response:
            received = {name.decode().lower(): value.decode() for name, value in response.headers}
            return Said(response.status, received, await response.read(10_000_000))

    async def authorize(self, **other: str) -> Said:
        query = {
            "response_type": "code",
            "client_id": "app",
            "redirect_uri": BACK,
            "state": "s",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": RESOURCE,
            "scope": "a b",
            **other,
        }
        return await self.get("/authorize", None, **{name: value for name, value in query.items() if value})

    async def redeem(self, code: str, headers: Mapping[str, str] | None = None, **other: str) -> Said:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": BACK,
            "client_id": "app",
            "code_verifier": VERIFIER,
            "resource": RESOURCE,
            **other,
        }
        return await self.post("/token", headers, **{name: value for name, value in form.items() if value})

    async def log_in(self, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the tokens of a whole login."""
        back = (await self.authorize()).sent_back
        said = await self.redeem(back["code"], headers)
        assert said.status == 200, said.body
        return said.json


@asynccontextmanager
async def open_person(authorization: AuthorizationServer | None = None) -> AsyncGenerator[Person]:
    """Run an authorization server in this process, and know a client there."""
    if authorization is None:
        authorization = AuthorizationServer(issuer=ISSUER)
    authorization.add_client("app", redirect_uris=["http://127.0.0.1/callback"])
    async with open_asgi_client(authorization) as transport:
        yield Person(authorization, transport)


@asynccontextmanager
async def open_person_at(authorization: AuthorizationServer) -> AsyncGenerator[Person]:
    """The same over the network."""
    authorization.add_client("app", redirect_uris=["http://127.0.0.1/callback"])
    async with open_http_client() as http:
        yield Person(authorization, http)


def _visit(url: str) -> str | None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().getheader("Location")
    finally:
        connection.close()


async def log_in_at(url: str) -> str | None:
    """Open a page as a browser would; returns where it sends the browser."""
    return await trio.to_thread.run_sync(_visit, url)


def basic(client_id: str, secret: str) -> dict[str, str]:
    """Return the field by which a client authenticates."""
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


def claims_of(token: str) -> dict[str, Any]:
    """Return what a token says; its signature is not looked at."""
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims
