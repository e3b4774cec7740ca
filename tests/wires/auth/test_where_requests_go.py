"""Where no request of a client may go, whatever servers name; and WebSockets, which are authorized once."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from trio_mcp import (
    Auth,
    AuthorizationRefused,
    AuthRequest,
    AuthResponse,
    HttpCall,
    HttpRefused,
    Server,
    StaticToken,
    open_client,
    serve_websocket,
)

# WebSockets.


class Badge(Auth):
    """Shows a badge, and gets another one when it is refused."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def headers_for(self, request: AuthRequest) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        self.shown.append("new" if self.shown else "old")
        return {"Authorization": f"Bearer {self.shown[-1]}"}

    async def on_refused(self, request: AuthRequest, response: AuthResponse) -> bool:
        await trio.lowlevel.checkpoint()
        assert response.status == 401
        assert response.challenges[0].get("scope") == "mcp"
        return True


async def authenticate(call: HttpCall) -> str:
    await trio.lowlevel.checkpoint()
    if call.headers.get("authorization") != "Bearer new":
        raise HttpRefused(401, "no", [("WWW-Authenticate", 'Bearer scope="mcp"')])
    return "somebody"


async def test_a_websocket_is_authorized_in_its_handshake() -> None:
    server = Server("protected")

    @server.tool
    def hello() -> str:
        return "hello"

    badge = Badge()
    async with trio.open_nursery() as nursery:
        serve = partial(serve_websocket, server, port=0, authenticate=authenticate)
        (url,) = await nursery.start(serve)
        async with open_client(url, auth=badge) as client:
            await client.call_tool("hello")
        with pytest.raises(AuthorizationRefused, match="auth=OAuth") as refused:
            async with open_client(url):
                pass
        assert (refused.value.status, refused.value.scope) == (401, "mcp")
        with pytest.raises(AuthorizationRefused, match="is not accepted"):
            async with open_client(url, auth=StaticToken("other")):
                pass
        nursery.cancel_scope.cancel()
    assert badge.shown == ["old", "new"]
