"""What vouches for tokens over the network: keys that are fetched and rotated, and questions that are asked."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import Raw, call_tool, open_raw
from inside_protection import TokenRefused, verifiers_module
from joserfc import jwt
from joserfc.jwk import ECKey
from misbehaving import Misbehaving
from patient_clock import STILL

from trio_mcp import (
    Context,
    HttpCall,
    HttpServerSettings,
    IntrospectionVerifier,
    JwtVerifier,
    ResourceServer,
    Server,
    serve_http,
)
from trio_mcp.testing import AuthorizationServer

RESOURCE = "https://mcp.test/mcp"


def make_server() -> Server[Any]:
    server: Server[Any] = Server("protected")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    return server


@pytest.fixture
async def authorization() -> AsyncGenerator[Misbehaving]:
    """One that listens."""
    authorization = Misbehaving()
    async with authorization.serving():
        yield authorization


def requests_of(authorization: AuthorizationServer, path: str) -> int:
    return sum(request.path == path for request in authorization.requests)


async def ask(raw: Raw, token: str) -> int:
    return (await raw.send(call_tool("whoami"), {"Authorization": f"Bearer {token}"})).status


@asynccontextmanager
async def protected(authorization: AuthorizationServer, **options: Any) -> AsyncGenerator[Raw]:
    auth = ResourceServer(RESOURCE, authorization_servers=[authorization.issuer], **options)
    async with open_raw(make_server(), auth=auth) as raw:
        yield raw


async def test_keys_are_found_and_fetched_once(authorization: AuthorizationServer) -> None:
    """By the metadata of the issuer, when the first token comes, for all who wait for them."""
    async with protected(authorization) as raw:
        assert not authorization.requests, "nothing is fetched for nobody"
        statuses: list[int] = []

        async def call(number: int) -> None:
            statuses.append(await ask(raw, authorization.issue(subject=f"s{number}", resource=RESOURCE)))

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(call, number)
        assert statuses == [200] * 30
        assert requests_of(authorization, "/jwks") == 1
        assert requests_of(authorization, "/.well-known/oauth-authorization-server") == 1


async def test_a_new_key_is_fetched_when_it_is_used(
    authorization: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that names an unknown key has the keys fetched, but not more than once a minute."""
    async with protected(authorization, keep_for=0.0) as raw:
        old = authorization.issue(resource=RESOURCE)
        assert await ask(raw, old) == 200
        authorization.rotate_key()
        new = authorization.issue(resource=RESOURCE)
        assert await ask(raw, new) == 401, "it was not fetched again within a minute"
        assert requests_of(authorization, "/jwks") == 1
    monkeypatch.setattr(verifiers_module, "_AGAIN_SECONDS", 0.0)
    async with protected(authorization, keep_for=0.0) as raw:
        assert await ask(raw, new) == 200
        authorization.rotate_key()
        newest = authorization.issue(resource=RESOURCE)
        assert await ask(raw, newest) == 200
        assert await ask(raw, new) == 401, "its key is published no more"


async def test_a_new_key_without_a_name_is_fetched_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature of none of the keys may be one of a key that has come since: as rarely as for a name."""
    issuer = "https://login.test"
    keys = [ECKey.generate_key("P-256")]
    fetches = 0

    def token(key: ECKey) -> str:
        return jwt.encode({"alg": "ES256"}, {"iss": issuer, "exp": 4e9}, key, algorithms=["ES256"])

    async def jwks(call: HttpCall) -> None:
        nonlocal fetches
        fetches += 1
        await trio.testing.wait_all_tasks_blocked()
        await call.respond(200, json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode())

    async with trio.open_nursery() as nursery:
        options: dict[str, Any] = {
            "port": 0,
            "settings": HttpServerSettings(path="/.mcp"),
            "routes": {"/keys": jwks},
        }
        serve = partial(serve_http, Server("keys"), **options)
        urls: tuple[str, ...] = await nursery.start(serve)
        verifier = JwtVerifier(issuer, jwks_uri=urls[0].replace("/.mcp", "/keys"))
        async with verifier.open() as verify:
            old = keys[0]
            assert await verify(token(old))
            keys[0] = new = ECKey.generate_key("P-256")
            with pytest.raises(TokenRefused):
                await verify(token(new))
            assert fetches == 1, "it was not fetched again within a minute"
        monkeypatch.setattr(verifiers_module, "_AGAIN_SECONDS", 0.0)
        async with verifier.open() as verify:
            keys[0] = old
            assert await verify(token(old))
            keys[0] = new
            fetches = 0
            async with trio.open_nursery() as waiting:
                for _ in range(10):
                    waiting.start_soon(verify, token(new))
            assert fetches == 1, "once for all"
            with pytest.raises(TokenRefused):
                await verify(token(old))
        async with JwtVerifier(issuer, jwks={"keys": [new.as_dict(private=False)]}).open() as verify:
            assert await verify(token(new))
            with pytest.raises(TokenRefused):
                await verify(token(old))
        nursery.cancel_scope.cancel()


async def test_old_keys_serve_while_new_ones_are_fetched(
    authorization: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key server that hangs holds up nobody whose key is known; who needs another one is told to come back."""
    monkeypatch.setattr(verifiers_module, "_FRESH_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(verifiers_module, "_AGAIN_SECONDS", 0.0)
    asked, go_on = trio.Event(), trio.Event()
    hangs = False

    async def jwks(call: HttpCall) -> None:
        if hangs:
            asked.set()
            await go_on.wait()
        await call.respond(200, json.dumps(authorization.jwks()).encode())

    async with trio.open_nursery() as nursery:

        async def serve(*, task_status: Any) -> None:
            settings = HttpServerSettings(path="/.mcp")
            options: dict[str, Any] = {"port": 0, "settings": settings, "routes": {"/keys": jwks}}
            await serve_http(Server("keys"), **options, task_status=task_status)

        urls: tuple[str, ...] = await nursery.start(serve)
        verifier = JwtVerifier(authorization.issuer, jwks_uri=urls[0].replace("/.mcp", "/keys"))
        async with protected(authorization, verifier=verifier, keep_for=0.0) as raw:
            token = authorization.issue(resource=RESOURCE)
            assert await ask(raw, token) == 200
            hangs = True
            assert await ask(raw, token) == 200
            await asked.wait()
            assert await ask(raw, token) == 200
            authorization.rotate_key()
            async with (
                trio.open_nursery() as giving_up
            ):  # who waits for another key and is cancelled harms nobody
                giving_up.start_soon(ask, raw, authorization.issue(resource=RESOURCE))
                await trio.testing.wait_all_tasks_blocked(STILL)
                assert giving_up.child_tasks
                giving_up.cancel_scope.cancel()
            hangs = False
            go_on.set()
            assert await ask(raw, authorization.issue(resource=RESOURCE)) == 200
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "wrong",
    [
        "failing-metadata",
        "another-issuer-in-metadata",
        "metadata-that-is-no-json",
        "redirecting-metadata",
        "huge-metadata",
    ],
)
async def test_without_keys_nobody_is_let_in(authorization: Misbehaving, wrong: Any) -> None:
    """503, and when to come back: it is not the client's fault."""
    authorization.misbehaviours.add(wrong)
    async with protected(authorization) as raw:
        refused = await raw.send(
            call_tool("whoami"), {"Authorization": f"Bearer {authorization.issue(resource=RESOURCE)}"}
        )
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")


async def test_tokens_of_several_issuers(authorization: AuthorizationServer) -> None:
    """Each with its own keys; one cannot speak for another."""
    other = AuthorizationServer(issuer="https://other.test")
    verifiers = [JwtVerifier(authorization.issuer), JwtVerifier("https://other.test", jwks=other.jwks())]
    async with protected(authorization, verifier=verifiers) as raw:
        assert await ask(raw, authorization.issue(resource=RESOURCE)) == 200
        assert await ask(raw, other.issue(resource=RESOURCE)) == 200
        assert await ask(raw, other.issue(resource=RESOURCE, iss=authorization.issuer)) == 401


# Introspection.


def asking(authorization: AuthorizationServer, **options: Any) -> dict[str, Any]:
    authorization.add_client("server", secret="s3cret")
    endpoint = f"{authorization.issuer}/introspect"
    given: dict[str, Any] = {"client_id": "server", "client_secret": "s3cret", **options}
    return {"verifier": IntrospectionVerifier(endpoint, **given)}


async def test_a_question_is_asked_once_for_all(authorization: AuthorizationServer) -> None:
    """RFC 7662; answers are kept for a while, also those that say no."""
    async with protected(authorization, **asking(authorization)) as raw:
        token = authorization.issue(resource=RESOURCE)
        statuses: list[int] = []

        async def call(token: str) -> None:
            statuses.append(await ask(raw, token))

        for each, status in ((token, 200), ("unknown", 401)):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(call, each)
            assert statuses == [status] * 20
            statuses.clear()
        assert requests_of(authorization, "/introspect") == 2


async def test_a_revoked_token_is_refused(authorization: AuthorizationServer) -> None:
    """Within `keep_for`; here at once."""
    async with protected(authorization, keep_for=0.0, **asking(authorization)) as raw:
        token = authorization.issue(resource=RESOURCE)
        assert await ask(raw, token) == 200
        authorization.revoke(token)
        assert await ask(raw, token) == 401


async def test_a_question_outlives_who_has_asked_it(authorization: AuthorizationServer) -> None:
    """Whoever is cancelled while they wait leaves the answer to the others."""
    async with protected(authorization, **asking(authorization)) as raw:
        token = authorization.issue(resource=RESOURCE)
        statuses: list[int] = []
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                statuses.append(await ask(raw, token))

            first = trio.CancelScope()

            async def give_up() -> None:
                with first:
                    await ask(raw, token)

            nursery.start_soon(give_up)
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            first.cancel()
        assert statuses == [200]


async def test_a_question_ends_with_the_last_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that make up tokens, and leave, have no questions open; who comes then asks anew."""
    monkeypatch.setattr(verifiers_module, "FETCH_SECONDS", math.inf)  # no question ends by itself
    open_now, most = 0, 0
    came, gone = trio.Event(), trio.Event()

    async def say_nothing(stream: trio.SocketStream) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        if open_now == 5:
            came.set()
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        open_now -= 1
        if not open_now:
            gone.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, say_nothing, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        verifier = IntrospectionVerifier(f"http://127.0.0.1:{port}/x", client_id="a", client_secret="b")
        async with verifier.open() as verify:
            for _ in range(2):
                came, gone = trio.Event(), trio.Event()
                async with trio.open_nursery() as asking:
                    for number in range(5):
                        asking.start_soon(verify, f"made up {number}")
                    await came.wait()
                    asking.cancel_scope.cancel()
                await gone.wait()
        nursery.cancel_scope.cancel()
    assert most == 5


@pytest.mark.parametrize("secret", ["wrong", "s3cret"])
async def test_without_an_answer_nobody_is_let_in(authorization: AuthorizationServer, secret: str) -> None:
    """A server that cannot ask is broken; a token is not."""
    options = asking(authorization, client_secret=secret)
    if secret == "s3cret":
        options["verifier"] = IntrospectionVerifier("http://127.0.0.1:9/x", client_id="a", client_secret="b")
    async with protected(authorization, **options) as raw:
        assert await ask(raw, authorization.issue(resource=RESOURCE)) == 503
