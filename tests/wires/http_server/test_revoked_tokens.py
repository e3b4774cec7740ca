"""What ends, and when, after a token was revoked; and what a valid token of one's own opens of what is another's."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Literal

import pytest
import trio
from inside_protection import guard_module
from patient_clock import pass_time
from shared.http_server_revoked_tokens import ISSUER, RESOURCE, Tokens, bearer, make_server

from trio_mcp import (
    ConnectionLost,
    HttpServerSettings,
    RequestError,
    ResourceServer,
    WebSocketServerParameters,
    open_client,
    serve_http,
    serve_websocket,
)


async def test_a_websocket_keeps_the_scopes_that_it_was_begun_with() -> None:
    """There is no answer on it that could ask for more, so the error says what to do."""
    tokens = Tokens()
    tokens.scopes["ann"] = "mcp"
    auth = ResourceServer(RESOURCE, authorization_servers=[ISSUER], verifier=tokens.verify)
    async with trio.open_nursery() as nursery:
        serving = partial(serve_websocket, make_server(), port=0, auth=auth)
        urls: tuple[str, ...] = await nursery.start(serving)
        parameters = WebSocketServerParameters(urls[0], headers=bearer("ann"))
        async with open_client(parameters) as client:
            with pytest.raises(RequestError, match=r"the scopes orders:write, and .*: connect again with them"):
                await client.call_tool("order")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("http", ["lean", "hypercorn"])
@pytest.mark.parametrize("why", ["revoked", "expired"])
async def test_a_websocket_ends_with_its_token(
    why: str, http: Literal["lean", "hypercorn"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a stream does: what comes over it later is served for nobody. It is closed with the reason."""
    monkeypatch.setattr(guard_module, "RECHECK_SECONDS", 5.0 if why == "revoked" else 10_000.0)
    tokens = Tokens()

    async def verify(token: str) -> dict[str, Any] | None:
        said = await tokens.verify(token)
        return said if said is None or why == "revoked" else {**said, "exp": ends_at}

    ends_at = time.time() + 1_000
    auth = ResourceServer(RESOURCE, authorization_servers=[ISSUER], verifier=verify, keep_for=0, leeway=0)
    settings = HttpServerSettings(websocket=True)
    async with trio.open_nursery() as nursery:
        serving = partial(serve_http, make_server(), port=0, auth=auth, settings=settings, http=http)
        urls: tuple[str, ...] = await nursery.start(serving)
        url = urls[0].replace("http:", "ws:")
        parameters = WebSocketServerParameters(url, headers=bearer("ann"))
        async with open_client(parameters) as client:
            assert (await client.call_tool("whoami")).text == f"{ISSUER} ann"
            await pass_time(20)
            await client.ping()
            if why == "revoked":
                tokens.revoked.add("ann")
            await pass_time(1_000)
            reason = "is not accepted any more" if why == "revoked" else "has expired"
            with pytest.raises(ConnectionLost, match=rf"1008 \(policy violation\).* authorized by {reason}"):
                while True:
                    await client.ping()
                    await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
