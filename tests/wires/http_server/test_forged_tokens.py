"""Tokens that attackers make, key servers and authorization servers that mean harm: what each of them gets."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from inside_protection import verifiers_module
from patient_clock import pass_time
from shared.http_server_forged_tokens import ISSUER, JWKS, RESOURCE, ask, protected, signed

from trio_mcp import (
    HttpCall,
    HttpServerSettings,
    IntrospectionVerifier,
    JwtVerifier,
    Server,
    serve_http,
)

# Key servers.


@asynccontextmanager
async def keys_at(respond: Callable[[HttpCall], Any]) -> AsyncGenerator[str]:
    """Serve keys by a function, at a URL of this machine."""
    async with trio.open_nursery() as nursery:

        async def serve(*, task_status: Any) -> None:
            options: dict[str, Any] = {"port": 0, "settings": HttpServerSettings(path="/.mcp"), "http": "lean"}
            await serve_http(Server("keys"), **options, routes={"/keys": respond}, task_status=task_status)

        urls: tuple[str, ...] = await nursery.start(serve)
        yield urls[0].replace("/.mcp", "/keys")
        nursery.cancel_scope.cancel()


async def test_a_flood_of_unknown_keys_has_them_fetched_once() -> None:
    """In a minute, for all who make up ids; known ones are verified meanwhile."""
    fetched: list[float] = []

    async def serve(call: HttpCall) -> None:
        fetched.append(trio.current_time())
        await call.respond(200, json.dumps(JWKS).encode())

    async with keys_at(serve) as uri, protected(JwtVerifier(ISSUER, jwks_uri=uri)) as raw:
        statuses: list[int] = []

        async def call(number: int) -> None:
            statuses.append((await ask(raw, signed({"kid": f"made up {number}"}, sub=str(number))))[0])

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(call, number)
        assert (await ask(raw, signed()))[0] == 200
        assert statuses == [401] * 100
        assert len(fetched) == 1


@pytest.mark.parametrize(
    "wrong", ["hangs", "trickles", "huge", "redirects", "no JSON", "no keys", "deep", "error"]
)
async def test_keys_that_cannot_be_had(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 within the time that fetching may take; nobody is sent elsewhere, nor is more read than is allowed."""
    monkeypatch.setattr(verifiers_module, "FETCH_SECONDS", 20.0)
    visited: list[str] = []

    async def serve(call: HttpCall) -> None:
        visited.append(call.query)
        if wrong == "hangs":
            await trio.sleep_forever()
        if wrong == "trickles":
            await call.start(200, [(b"content-type", b"application/json")])
            while True:
                await call.send(b" ")
                await trio.sleep(0.5)
        if wrong == "redirects":
            await call.respond(302, b"", [(b"location", b"/keys?elsewhere")])
            return
        bodies = {
            "huge": json.dumps({**JWKS, "padding": "x" * 300_000}),
            "no JSON": "<html>",
            "no keys": '{"keys": {}}',
            "deep": "[" * 100_000,
            "error": json.dumps(JWKS),
        }
        await call.respond(500 if wrong == "error" else 200, bodies[wrong].encode())

    async with (
        keys_at(serve) as uri,
        protected(JwtVerifier(ISSUER, jwks_uri=uri)) as raw,
        trio.open_nursery() as nursery,
    ):

        @nursery.start_soon
        async def pass_the_time() -> None:
            while not visited:
                await trio.sleep(0.01)
            await pass_time(20)

        assert (await ask(raw, signed()))[0] == 503
        assert visited == [""]


# Authorization servers that are asked.

ACTIVE: dict[str, Any] = {"active": True, "sub": "ann", "aud": RESOURCE}


async def test_answers_about_tokens(subtests: pytest.Subtests) -> None:
    """RFC 7662, section 2.2. One authorization server cannot speak for another, nor a refresh token open anything."""
    cases: list[tuple[Any, int]] = [
        (ACTIVE, 200),
        ({**ACTIVE, "iss": ISSUER, "token_type": "Bearer"}, 200),
        ({**ACTIVE, "iss": "https://other.test"}, 401),
        ({**ACTIVE, "iss": [ISSUER]}, 401),
        ({**ACTIVE, "token_type": "refresh_token"}, 401),
        ({**ACTIVE, "token_type": ["Bearer"]}, 401),
        ({**ACTIVE, "active": "true"}, 401),
        ({**ACTIVE, "active": 1}, 401),
        ({**ACTIVE, "exp": 1}, 401),
        ({**ACTIVE, "exp": "later"}, 401),
        ({**ACTIVE, "aud": None}, 401),
        ({**ACTIVE, "sub": {"ann": 1}}, 401),
        ({**ACTIVE, "cnf": 7}, 401),
        ({**ACTIVE, "scope": {"a": 1}}, 200),
        ([ACTIVE], 503),
        ("x" * 300_000, 503),
    ]

    async def serve(call: HttpCall) -> None:
        await call.read_body()
        await call.respond(200, json.dumps(answer).encode())

    async with keys_at(serve) as url:
        for answer, status in cases:
            # Another one each time: it keeps what it was answered.
            verifier = IntrospectionVerifier(url, client_id="a", client_secret="b", issuer=ISSUER)
            with subtests.test(answer=answer):
                async with protected(verifier, authorization_servers=[ISSUER, "https://other.test"]) as raw:
                    assert (await ask(raw, "opaque"))[0] == status
