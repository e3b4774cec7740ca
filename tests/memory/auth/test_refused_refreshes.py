"""What becomes of a refresh token that an authorization server does not take, and of one that it could not look at."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from oauth_script import ProtectedScript, Told, connected, oauth

from trio_mcp import AuthorizationFailed, ClientCredentials, MemoryTokenStore, open_client

FORM = b"application/x-www-form-urlencoded; charset=utf-8"
REFUSALS: list[tuple[int, Any]] = [
    (400, {"error": "invalid_grant"}),
    (401, b"Unauthorized"),
    (403, b"<html>no</html>"),
    (404, {"detail": "no such token"}),
    (422, {"message": "the token is not valid"}),
    (200, {"error": "bad_refresh_token"}),
    (302, {}),
    (403, b"x" * 100_000),
    (200, b"x" * 100_000),
    (400, Told({"error": "invalid_grant"}, (b"content-encoding", b"zstd"))),
    (400, Told({"error": "invalid_grant"}, (b"content-encoding", b"gzip"))),  # which it is not
    (200, Told({}, (b"content-encoding", b"zstd"))),
    (200, Told(b"error=bad_refresh_token&error_description=no", (b"content-type", FORM))),
    (500, {"error": "invalid_grant"}),
]
TROUBLES: list[tuple[int, Any]] = [
    (408, b"late"),
    (429, {"error": "rate_limited"}),
    (500, b"oops"),
    (503, b"down"),
    (503, Told(b"down", (b"content-encoding", b"zstd"))),
    (400, {"error": "temporarily_unavailable"}),
    (0, None),  # the connection breaks
]


def shown_refresh_tokens(script: ProtectedScript) -> list[str]:
    return [each.form["refresh_token"] for each in script.at("/token") if "refresh_token" in each.form]


async def test_a_refused_refresh_means_another_login_and_is_not_tried_again(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    for answer in REFUSALS:
        with subtests.test(answer=str(answer)[:60]):
            script, store = ProtectedScript(), MemoryTokenStore()
            async with connected(script, store=store) as client:
                await client.call_tool("one")
                script.tokens.clear()
                script.answers["/token"] = [answer]
                await client.call_tool("two")
            async with connected(script, store=store) as client:
                await client.call_tool("three")
            assert shown_refresh_tokens(script) == ["refresh-1"]
            assert len(script.pages) == 2


async def test_a_refused_refresh_is_not_tried_again_although_nobody_logs_in(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Neither by the connection that has the token still, nor at the next start."""
    for answer in REFUSALS:
        with subtests.test(answer=str(answer)[:60]):
            script, store = ProtectedScript(), MemoryTokenStore()
            is_away: list[bool] = []

            async def visit(url: str, script: ProtectedScript = script, is_away: list[bool] = is_away) -> str:
                await trio.lowlevel.checkpoint()
                if is_away:
                    raise LookupError("nobody is here")
                return script.visit(url)

            auth = oauth(script, store=store, open_page=visit)
            async with open_client(script.parameters(), auth=auth) as client:
                script.tokens.clear()
                script.answers["/token"] = [answer]
                is_away.append(True)
                for _ in range(2):
                    with pytest.raises(AuthorizationFailed, match="LookupError"):
                        await client.call_tool("one")
            with pytest.raises(AuthorizationFailed, match="LookupError"):
                async with open_client(script.parameters(), auth=auth):
                    pass
            assert shown_refresh_tokens(script) == ["refresh-1"]


async def test_trouble_of_the_moment_keeps_the_refresh_token(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    for answer in TROUBLES:
        with subtests.test(answer=str(answer)[:60]):
            script, store = ProtectedScript(), MemoryTokenStore()
            async with connected(script, store=store) as client:
                script.tokens.clear()
                script.answers["/token"] = [answer]
                with pytest.raises(AuthorizationFailed) as failed:
                    await client.call_tool("one")
                assert failed.value.may_pass
            async with connected(script, store=store) as client:
                await client.call_tool("two")
            assert len(script.pages) == 1
            assert set(shown_refresh_tokens(script)) == {"refresh-1"}


async def test_the_stream_of_a_session_comes_back_after_the_token_endpoint_was_down(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Nobody calls meanwhile: a client that only listens would hear nothing for ever."""
    for answer in TROUBLES:
        with subtests.test(answer=str(answer)[:60]):
            script = ProtectedScript("2025-11-25")
            async with connected(script):
                await trio.testing.wait_all_tasks_blocked()
                assert len(script.mcp.streams) == 1
                script.tokens.clear()
                script.answers["/token"] = [answer]
                script.mcp._forgotten.set()  # the stream ends
                script.mcp._forgotten = trio.Event()
                await trio.sleep(0.7)
                assert shown_refresh_tokens(script), "it was down when the stream was opened"
                await trio.sleep(60)
                assert len(script.mcp.streams) == 2
                assert script.mcp.streams[1].headers.get("authorization") == "Bearer access-2"
            assert len(script.pages) == 1


async def test_an_error_in_a_form_reaches_the_user(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """As GitHub answers, also with the status of success: for a code, by a program, and for a registration."""
    told = (200, Told(b"error=bad_thing&error_description=The+reason", (b"content-type", FORM)))
    for path in ("/token", "/register"):
        with subtests.test(path=path):
            script = ProtectedScript()
            script.answers[path] = [told, told]
            with pytest.raises(AuthorizationFailed, match="bad_thing: The reason") as failed:
                async with connected(script):
                    pass
            assert failed.value.error == "bad_thing"
    with subtests.test(path="a program"):
        script = ProtectedScript()
        script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        script.answers["/token"] = [told]
        auth = ClientCredentials(client_id="i", client_secret="s", issuer=script.origin)
        with pytest.raises(AuthorizationFailed, match="bad_thing: The reason"):
            async with open_client(script.parameters(), auth=auth):
                pass
