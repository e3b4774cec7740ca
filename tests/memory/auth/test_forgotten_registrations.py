"""Registrations that an authorization server has forgotten, which it may tell to the person at its page alone."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from oauth_script import ProtectedScript, oauth

from trio_mcp import AuthorizationFailed, DeviceCode, MemoryTokenStore, OAuth, open_client


def registrations_used(script: ProtectedScript) -> list[str]:
    return [page.partition("client_id=")[2].partition("&")[0] for page in script.pages]


class Visitor:
    """A person who is sent back only by a page that knows the client."""

    def __init__(self, script: ProtectedScript) -> None:
        self._script = script
        self.known = "client-"
        self.shown: list[str] = []

    async def open_page(self, url: str) -> str:
        await trio.lowlevel.checkpoint()
        client = url.partition("client_id=")[2].partition("&")[0]
        self.shown.append(client)
        if not client.startswith(self.known):
            await trio.sleep_forever()
        return self._script.visit(url)


async def log_in(script: ProtectedScript, auth: OAuth) -> None:
    script.tokens.clear()
    script.refresh_tokens.clear()
    async with open_client(script.parameters(), auth=auth):
        pass


async def test_a_login_from_which_nobody_came_back_drops_an_earlier_registration(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    visitor = Visitor(script)
    auth = oauth(script, open_page=visitor.open_page, login_timeout=60.0)
    await log_in(script, auth)
    visitor.known = "client-2"
    with pytest.raises(AuthorizationFailed, match="login_timeout"):
        await log_in(script, auth)
    await log_in(script, auth)
    assert visitor.shown == ["client-1", "client-1", "client-2"]


async def test_a_login_that_was_given_up_drops_an_earlier_registration(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Who sees at the page that the client is not known waits no longer."""
    script = ProtectedScript()
    visitor = Visitor(script)
    auth = oauth(script, open_page=visitor.open_page)
    await log_in(script, auth)
    visitor.known = "client-2"
    with trio.move_on_after(5) as scope:
        await log_in(script, auth)
    assert scope.cancelled_caught
    await log_in(script, auth)
    assert visitor.shown == ["client-1", "client-1", "client-2"]


async def test_a_registration_that_was_made_in_the_same_login_is_kept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    visitor = Visitor(script)
    visitor.known = "nobody"
    auth = oauth(script, open_page=visitor.open_page, login_timeout=60.0)
    with pytest.raises(AuthorizationFailed, match="login_timeout"):
        await log_in(script, auth)
    visitor.known = "client-1"
    await log_in(script, auth)
    assert visitor.shown == ["client-1", "client-1"]


async def test_a_client_that_an_answer_refuses_is_registered_anew(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """By whatever the authorization server says it: the answer to the login, or that to the request for a token."""
    for code in ("unauthorized_client", "invalid_client"):
        with subtests.test(code=code):
            script = ProtectedScript()
            refuses: list[bool] = []

            async def visit(
                url: str, script: ProtectedScript = script, refuses: list[bool] = refuses, code: str = code
            ) -> str:
                await trio.lowlevel.checkpoint()
                answer = script.visit(url)
                return answer.replace("code=", f"error={code}&x=") if refuses else answer

            auth = oauth(script, open_page=visit)
            await log_in(script, auth)
            refuses.append(True)
            with pytest.raises(AuthorizationFailed, match=code):
                await log_in(script, auth)
            refuses.clear()
            await log_in(script, auth)
            assert registrations_used(script) == ["client-1", "client-1", "client-2"]


async def test_a_client_that_gets_no_code_to_enter_is_registered_anew(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    script.server["device_authorization_endpoint"] = f"{script.origin}/device"
    refusal: tuple[int, Any] = (401, {"error": "invalid_client"})

    async def show(code: DeviceCode) -> None:
        raise AssertionError(f"there is none: {code}")

    auth = OAuth(store=MemoryTokenStore(), show_code=show)
    for _ in range(2):
        script.answers["/device"] = [refusal]
        with pytest.raises(AuthorizationFailed, match="invalid_client"):
            await log_in(script, auth)
    assert [each.form["client_id"] for each in script.at("/device")] == ["client-1", "client-2"]
