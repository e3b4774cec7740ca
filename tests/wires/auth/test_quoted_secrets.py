"""What other sides quote of our secrets, in errors of every kind: no log, text, body or `repr` shows it."""

from __future__ import annotations

import logging
import traceback
from functools import partial
from typing import Any

import pytest
import trio
import trio_websocket

from trio_mcp import (
    HttpCall,
    HttpRefused,
    HttpServerSettings,
    McpError,
    RequestError,
    Server,
    StaticToken,
    WebSocketServerParameters,
    open_client,
    serve_websocket,
)

BEARER = "b3arer-token-of-somebody"


def shown_of(error: BaseException) -> str:
    """Return all that anybody can see of an error."""
    members = {name: repr(value) for name, value in vars(error).items()}
    return "".join([*traceback.TracebackException.from_exception(error).format(), repr(error), repr(members)])


async def test_what_the_other_end_of_a_websocket_quotes_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    """In the refusal of the handshake, in errors, and in why it closes."""
    server: Server[Any] = Server("orders")
    sent: list[str] = []

    @server.request_handler("orders/fail")
    async def fail(params: Any, context: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise RequestError(-5, f"no: {sent[-1]}", {"token": sent[-1]})

    async def authenticate(call: HttpCall) -> str:
        await trio.lowlevel.checkpoint()
        sent.append(call.headers.get("authorization") or "")
        if "refuse" in call.path:
            raise HttpRefused(401, f"not {sent[-1]}", [("www-authenticate", f'Bearer error="{sent[-1]}"')])
        return "ann"

    settings = HttpServerSettings(path="/mcp")
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_websocket, server, port=0, authenticate=authenticate, settings=settings)
            (url,) = await nursery.start(serve)
            async with open_client(url, auth=StaticToken(BEARER)) as client:
                with pytest.raises(RequestError, match=r"^no: Bearer \*\*\*") as failed:
                    await client.request("orders/fail", {})
                shown.append(shown_of(failed.value))
            parameters = WebSocketServerParameters(url, headers={"Authorization": f"Bearer {BEARER}"})
            async with open_client(parameters) as client:
                with pytest.raises(RequestError, match=r"^no: Bearer \*\*\*") as failed:
                    await client.request("orders/fail", {})
                shown.append(shown_of(failed.value))
            nursery.cancel_scope.cancel()
    assert BEARER not in "".join(shown)


async def test_why_a_websocket_is_closed_quotes_nothing() -> None:
    async def serve(request: Any) -> None:
        websocket = await request.accept(subprotocol="mcp")
        await websocket.get_message()
        await websocket.aclose(4000, dict(request.headers)[b"authorization"].decode())

    async with trio.open_nursery() as nursery:
        listen = partial(trio_websocket.serve_websocket, serve, "127.0.0.1", 0, None)
        listening = await nursery.start(listen)
        url = f"ws://127.0.0.1:{listening.port}/mcp"
        with pytest.raises(McpError, match=r"Bearer \*\*\*") as failed:
            async with open_client(url, auth=StaticToken(BEARER)):
                pass
        nursery.cancel_scope.cancel()
    assert BEARER not in shown_of(failed.value)
