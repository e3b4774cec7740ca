"""The authorization server that users' tests log in to: what it gives, what it refuses, and what it does wrong."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trio
from logging_in import BACK, claims_of, open_person, open_person_at

from trio_mcp import Server, serve_http
from trio_mcp.testing import AuthorizationServer


async def test_documents_of_clients_are_fetched() -> None:
    """From the URL that is the id of the client; what is no JSON, or not there, is no document."""
    bodies: dict[str, bytes] = {"/no-json": b"<html>"}

    async def publish(scope: Any, receive: Any, send: Any) -> None:
        body = bodies.get(scope["path"])
        await send({"type": "http.response.start", "status": 404 if body is None else 200, "headers": []})
        await send({"type": "http.response.body", "body": body or b""})

    async with trio.open_nursery() as nursery:
        urls: tuple[str, ...] = await nursery.start(partial(serve_http, Server("app"), port=0, routes=publish))
        origin = urls[0].removesuffix("/mcp")
        url = f"{origin}/client.json"
        document = {"client_id": url, "client_name": "App", "redirect_uris": [BACK]}
        bodies["/client.json"] = json.dumps(document).encode()
        async with open_person() as person:
            assert (await person.authorize(client_id=url)).status == 302
            for other in ("/no-json", "/nothing"):
                assert (await person.authorize(client_id=origin + other)).status == 400
        nursery.cancel_scope.cancel()


async def test_it_is_served_with_the_limits_of_every_server() -> None:
    """`serving` listens at a free port of this machine, and leaves nothing."""
    authorization = AuthorizationServer()
    async with authorization.serving() as issuer, open_person_at(authorization) as person:
        assert issuer.startswith("http://127.0.0.1:")
        tokens = await person.log_in()
        assert claims_of(tokens["access_token"])["iss"] == issuer
        keys = await person.get("/jwks")
        assert keys.json == authorization.jwks()
        authorization.rotate_key()
        assert (await person.get("/jwks")).json != keys.json
