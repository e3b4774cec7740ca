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
    # It says by other codes, too, that it does not know a client of an earlier time; not that it is down.
    for status in (503, 400, 404, 404):
        script.answers["/device"] = [(status, b"no")]
        with pytest.raises(AuthorizationFailed):
            await log_in(script, auth)
    clients = [each.form["client_id"] for each in script.at("/device")][2:]
    assert clients == ["client-3", "client-3", "client-4", "client-4"]


async def test_a_login_that_failed_drops_an_earlier_registration_whatever_came_back(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """A page that does not know the client shows an error, at an address of its own, which a person may paste."""
    for came, is_kept in (
        ("http://127.0.0.1:1/error?x=1", False),
        ("", False),
        (None, False),
        ("error=invalid_request", False),
        ("error=server_error", False),
        ("code=", False),  # with an `iss` that is another's
        ("error=access_denied", True),  # the person is known there, and does not want to
    ):
        with subtests.test(came=came):
            script = ProtectedScript()
            fails: list[bool] = []

            async def visit(
                url: str, script: ProtectedScript = script, fails: list[bool] = fails, came: str | None = came
            ) -> str | None:
                await trio.lowlevel.checkpoint()
                answer = script.visit(url)
                if not fails:
                    return answer
                if came == "code=":
                    return answer.replace("iss=", "iss=https%3A%2F%2Felsewhere.example&x=")
                return answer.replace("code=", f"{came}&x=") if came and came.startswith("error=") else came

            auth = oauth(script, open_page=visit)
            await log_in(script, auth)
            fails.append(True)
            with pytest.raises(AuthorizationFailed):
                await log_in(script, auth)
            fails.clear()
            await log_in(script, auth)
            assert registrations_used(script) == ["client-1", "client-1", "client-1" if is_kept else "client-2"]


async def test_a_request_for_a_token_that_failed_drops_an_earlier_registration(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Unless that may pass: the token endpoint may be down."""
    answers: list[tuple[int, Any, bool]] = [
        (400, {"error": "invalid_request"}, False),
        (404, b"who?", False),
        (503, b"down", True),
    ]
    for status, document, is_kept in answers:
        with subtests.test(status=status):
            script = ProtectedScript()
            auth = oauth(script)
            await log_in(script, auth)
            script.answers["/token"] = [(400, {"error": "invalid_grant"}), (status, document)]
            with pytest.raises(AuthorizationFailed):
                await log_in(script, auth)
            await log_in(script, auth)
            assert registrations_used(script) == ["client-1", "client-1", "client-1" if is_kept else "client-2"]
