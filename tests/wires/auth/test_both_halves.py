"""Our client logs in at our authorization server and uses a server that it protects; and it is not fooled."""

from __future__ import annotations

import socket
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, get_args

import pytest
import trio
import trio.testing
from logging_in import log_in_at
from misbehaving import Misbehaving, Misbehaviour
from patient_clock import STILL, pass_time
from shared.auth_both_halves import logged_in

from trio_mcp import (
    AuthorizationFailed,
    AuthorizationRefused,
    ConnectionLost,
    Context,
    OAuth,
    RestartPolicy,
    Resynced,
    Server,
    ToolsListChanged,
    WebSocketServerParameters,
    open_client,
    serve_websocket,
)
from trio_mcp.testing import AuthorizationServer

HARMLESS = {"refused-refreshes", "same-refresh-token", "no-refresh-token"}
"""What a client lives with."""

SLOW = {"hanging-metadata", "hanging-token-endpoint"}


@pytest.mark.parametrize("dpop", [None, "bound", "with nonces"])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_person_logs_in_and_comes_back_with_more(revision: str, dpop: str | None) -> None:
    login = AuthorizationServer(dpop="offered" if dpop is None else "required", dpop_nonces=dpop == "with nonces")
    async with logged_in(login, revision, dpop=None if dpop is None else True) as client:
        assert (await client.call_tool("whoami")).text == "ann"
        assert (await client.call_tool("order", {"title": "Dune"})).text == "ordered Dune"
        assert (await client.call_tool("whoami")).text == "ann"
    assert login.grants["authorization_code"] >= 2
    assert "refresh_token" not in login.grants


async def test_an_authorization_server_that_does_wrong_gets_nothing(subtests: pytest.Subtests) -> None:
    for wrong in sorted(set(get_args(Misbehaviour)) - SLOW):
        login = Misbehaving(misbehaviours={wrong})
        with subtests.test(wrong):
            if wrong in HARMLESS:
                async with logged_in(login, "2026-07-28") as client:
                    assert (await client.call_tool("whoami")).text == "ann"
                continue
            with pytest.raises((AuthorizationFailed, AuthorizationRefused)):
                async with logged_in(login, "2026-07-28") as client:
                    await client.call_tool("whoami")


async def test_a_listener_outlives_the_token_with_which_it_was_opened() -> None:
    """The server ends the stream when the token expires; the client subscribes again with a fresh one."""
    login = AuthorizationServer()
    async with (
        logged_in(login, "2026-07-28", {"leeway": 0.0}) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        await pass_time(login.lifetime + 1)
        assert isinstance(await anext(changes), Resynced), "changes may have been missed meanwhile"
        assert dict(login.grants)["refresh_token"] >= 1
        await client.call_tool("open_shop")
        assert isinstance(await anext(changes), ToolsListChanged), "they are heard again"
    assert login.grants["authorization_code"] == 1, "nobody was asked again"


async def test_the_end_of_a_token_is_logged_once_for_all_listeners(caplog: pytest.LogCaptureFixture) -> None:
    login = AuthorizationServer()
    with caplog.at_level("WARNING"):
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(logged_in(login, "2026-07-28", {"leeway": 0.0}))
            listeners = [
                await stack.enter_async_context(client.listen(tools_list_changed=True)) for _ in range(5)
            ]
            await pass_time(login.lifetime + 1)
            for changes in listeners:
                assert isinstance(await anext(changes), Resynced)
    assert caplog.text.count("interrupted") == 1
    assert dict(login.grants) == {"authorization_code": 1, "refresh_token": 1}


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
async def test_a_session_does_not_outlive_the_person(revision: str) -> None:
    """Somebody else logs in where a session is open: it is not theirs, and they get one of their own."""
    login = AuthorizationServer()
    async with logged_in(login, revision) as client:
        assert (await client.call_tool("whoami")).text == "ann"
        login.revoke_all()
        login.subject = "ben"
        assert (await client.call_tool("whoami")).text == "ben"
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.call_tool, "whoami")
    assert login.grants["authorization_code"] == 2


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_websocket_whose_token_ends(restarts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server closes it; the client comes back with another token, if it may, and asks nobody."""
    real, ahead = time.time, 0.0

    def now() -> float:
        return real() + ahead

    monkeypatch.setattr(time, "time", now)  # both halves and what is stored tell the end of a token by it
    login = AuthorizationServer(now=now)
    server: Server[Any] = Server("orders")

    @server.tool
    async def whoami(ctx: Context[Any]) -> str:
        assert ctx.principal is not None
        return ctx.principal.subject

    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    resource = f"ws://127.0.0.1:{port}/mcp"
    auth = OAuth(open_page=log_in_at, listen=False, redirect_uri="http://localhost:3000/callback")
    parameters = WebSocketServerParameters(
        resource, auth=auth, restart=RestartPolicy(max_restarts=3, first_delay=0.05) if restarts else None
    )
    async with login.serving(), trio.open_nursery() as nursery:
        protected = login.protect(resource.replace("ws:", "http:"), leeway=0.0)
        await nursery.start(partial(serve_websocket, server, port=port, auth=protected))
        async with open_client(parameters) as client:
            assert (await client.call_tool("whoami")).text == "ann"
            ahead = login.lifetime + 1
            await pass_time(ahead)
            await trio.testing.wait_all_tasks_blocked(STILL)  # it has been closed
            if restarts:
                assert (await client.call_tool("whoami")).text == "ann"
            else:
                with pytest.raises(ConnectionLost):
                    await client.call_tool("whoami")
        async with open_client(parameters) as client:
            assert (await client.call_tool("whoami")).text == "ann"
        nursery.cancel_scope.cancel()
    assert dict(login.grants) == {"authorization_code": 1, "refresh_token": 1}
