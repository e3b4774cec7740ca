"""`OAuth` as calls see it: who is asked, what is sent, and what is left when somebody is cancelled."""

from __future__ import annotations

import json
import logging
import re
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
import trio.testing
from authorization_pages import shows
from http_sessions import URL
from inside_http import parse_target
from inside_oauth import OAuthClient, read_proof
from oauth_script import (
    CALLBACK,
    METADATA,
    ORIGIN,
    SERVER_METADATA,
    Person,
    ProtectedScript,
    connected,
    oauth,
)
from steps import cancelled_after_steps

from trio_mcp import (
    Auth,
    AuthorizationFailed,
    AuthorizationRefused,
    AuthRequest,
    AuthResponse,
    ClientCredentials,
    ClientUnknown,
    EnterpriseManaged,
    FileTokenStore,
    HttpSettings,
    Limits,
    MemoryTokenStore,
    OAuth,
    ProtectedServer,
    StaticToken,
    StdioServerParameters,
    TokenStore,
    WorkloadIdentity,
    open_client,
    open_clients,
)


@pytest.mark.parametrize("speaks", ["2025-03-26", "2025-11-25", "2026-07-28"])
@shows(
    "Authorization Flow Steps",
    "Authorization Flow",
    "Example: authorization code grant",
    "Overview",
    "Token Requirements",
    "Access Token Usage",
    "Dynamic Client Registration",
    "Client Registration",
)
async def test_a_person_logs_in_once(speaks: str, autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript(speaks)
    async with connected(script) as client:
        await client.call_tool("one")
        await client.call_tool("two")
    assert len(script.pages) == 1
    assert script.grants() == ["authorization_code"]
    assert [each.path for each in script.asked] == [METADATA, SERVER_METADATA, "/register", "/token"]
    assert script.seen[0] is None
    assert set(script.seen[1:]) == {"access-1"}, "every request carries it, that which ends the session, too"
    (registered,) = script.at("/register")
    assert registered.form["application_type"] == "native"
    assert registered.form["grant_types"] == ["authorization_code", "refresh_token"]
    assert registered.form["redirect_uris"] == [CALLBACK]


@shows("Refresh Tokens", "Token Theft")
async def test_a_token_is_refreshed_before_it_ends(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        await trio.sleep(3600 - 31)
        await client.call_tool("still good")
        assert script.grants() == ["authorization_code"]
        await trio.sleep(2)
        await client.call_tool("nearly over")
    assert script.grants() == ["authorization_code", "refresh_token"]
    assert script.seen.count(None) == 1, "nothing was refused"


@shows("Refresh Tokens")
async def test_a_refresh_token_that_is_not_replaced_goes_on_being_good(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    script.rotates = False
    async with connected(script) as client:
        for _ in range(3):
            await client.call_tool("one")
            script.tokens.clear()
        await client.call_tool("one")
    assert script.grants() == ["authorization_code", "refresh_token", "refresh_token", "refresh_token"]


async def test_a_token_is_refreshed_by_the_client_that_it_was_issued_to(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Two logins at once, for two servers, may register twice."""
    script = ProtectedScript()
    store = MemoryTokenStore()
    async with connected(script, store=store) as client:
        await client.call_tool("one")
        other = OAuthClient(client_id="other", redirect_uri=CALLBACK)
        await store.set(f"client {ORIGIN}", json.dumps(other.to_json()))
        script.tokens.clear()
        await client.call_tool("two")
    assert [each.form["client_id"] for each in script.at("/token")] == ["client-1", "client-1"]
    assert script.grants() == ["authorization_code", "refresh_token"]


async def test_when_refreshing_is_refused_the_person_logs_in_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        script.tokens.clear()
        script.refresh_tokens.clear()
        await client.call_tool("two")
    assert script.grants() == ["authorization_code", "refresh_token", "authorization_code"]
    assert len(script.at("/register")) == 1


async def test_a_failure_of_the_authorization_server_does_not_cost_the_refresh_token(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        script.tokens.clear()
        script.answers["/token"] = [(503, {"detail": "later"})]
        with pytest.raises(AuthorizationFailed, match="503"):
            await client.call_tool("two")
        await client.call_tool("three")
    assert len(script.pages) == 1
    assert script.grants() == ["authorization_code", "refresh_token", "refresh_token"]


@shows("Step-Up Authorization Flow", "Scope Challenge Handling", "Runtime Insufficient Scope Errors")
async def test_a_greater_authorization_is_asked_for_with_the_union_of_scopes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    script.needs["tools/call"] = "write"
    async with connected(script) as client:
        await client.list_tools()
        await client.call_tool("one")
    asked = [page.partition("scope=")[2].partition("&")[0] for page in script.pages]
    assert asked == ["mcp", "mcp+write"]


@shows("Step-Up Authorization Flow")
async def test_a_server_that_asks_for_ever_more_scopes_gets_few_pages_shown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Of one connection: each request may ask for more once, and there is no end of requests."""
    script = ProtectedScript()
    made: list[str] = []

    async def think_up() -> None:
        await trio.lowlevel.checkpoint()
        made.append("x")
        script.needs["tools/call"] = f"s{len(made)}"

    async with connected(script) as client:
        await client.list_tools()
        script.before["/mcp"] = think_up
        for n in range(3):
            with pytest.raises(AuthorizationRefused):
                await client.call_tool("one")
            assert len(script.pages) == 1 + n + 1
        for _ in range(3):
            with pytest.raises(AuthorizationFailed, match=r"more scopes 3 times within 300 s, .*scopes="):
                await client.call_tool("again")
        assert len(script.pages) == 1 + 3
        del script.before["/mcp"]
        await trio.sleep(301)
        await client.call_tool("later")
    assert len(script.pages) == 1 + 4


@shows("Step-Up Authorization Flow")
async def test_scopes_that_are_refused_although_granted_are_no_reason_to_log_in_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    script.needs["tools/call"] = "write"
    async with connected(script) as client:
        await client.list_tools()
        await client.call_tool("one")
        script.tokens = dict.fromkeys(script.tokens, frozenset({"mcp"}))
        with pytest.raises(AuthorizationRefused, match="'write'") as refused:
            await client.call_tool("two")
    assert (refused.value.status, refused.value.error, refused.value.scope) == (
        403,
        "insufficient_scope",
        "write",
    )
    assert len(script.pages) == 2


@shows("Error Handling")
async def test_a_server_that_refuses_every_token_is_not_asked_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    issue = script._issue

    def forget(form: Any) -> Any:
        answer = issue(form)
        script.tokens.clear()
        return answer

    script._issue = forget  # type: ignore[method-assign]
    with pytest.raises(AuthorizationRefused) as refused:
        async with open_client(script.parameters(), auth=oauth(script), era="modern"):
            pass
    assert refused.value.status == 401
    assert len(script.pages) == 1
    assert set(script.seen[1:]) == {"access-1"}
    assert len(script.seen) <= 3, "once for each time that the client asks which era it is"


# Who waits, and for how long.


async def test_a_login_is_charged_neither_to_connecting_nor_to_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    person = Person(script)
    auth = oauth(script, open_page=person.open_page)
    limits = Limits(connect_timeout=10.0, discover_timeout=3.0)
    async with trio.open_nursery() as nursery:

        async def wait_for_the_person() -> None:
            await trio.sleep(100)
            person.log_in()

        nursery.start_soon(wait_for_the_person)
        async with open_client(script.parameters(), auth=auth, limits=limits, request_timeout=5.0) as client:
            script.tokens.clear()
            script.refresh_tokens.clear()
            person._ready = trio.Event()
            nursery.start_soon(wait_for_the_person)
            began = trio.current_time()
            await client.call_tool("one")
            assert trio.current_time() - began >= 100
    assert person.asked == 2


async def test_a_deadline_of_the_caller_covers_a_login(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    person = Person(script)
    auth = oauth(script, open_page=person.open_page)
    with pytest.raises(trio.TooSlowError), trio.fail_after(7):
        async with open_client(script.parameters(), auth=auth):
            pass
    assert trio.current_time() == pytest.approx(7, abs=2.5)
    assert person.gave_up == 1


async def test_a_person_who_does_nothing_is_waited_for_so_long(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    person = Person(script)
    auth = oauth(script, open_page=person.open_page, login_timeout=60.0)
    with pytest.raises(AuthorizationFailed, match="login_timeout"):
        async with open_client(script.parameters(), auth=auth):
            pass
    assert trio.current_time() == pytest.approx(60, abs=1)
    assert person.asked == 1, "nobody is asked twice, though the client would try another era"


async def logged_out(script: ProtectedScript, person: Person) -> None:
    """The next call needs somebody to log in."""
    script.tokens.clear()
    script.refresh_tokens.clear()
    person._ready = trio.Event()
    person.asked = 0


async def test_who_is_cancelled_in_a_login_waits_no_more_and_the_others_get_theirs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    person = Person(script)
    person.log_in()
    auth = oauth(script, open_page=person.open_page)
    async with open_client(script.parameters(), auth=auth) as client:
        await logged_out(script, person)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "patient")
            with trio.move_on_after(5) as hasty:
                await client.call_tool("hasty")
            assert hasty.cancelled_caught
            assert person.gave_up == 0
            person.log_in()
    assert person.asked == 1
    assert len(script.mcp.asked("tools/call")) == 1


async def test_a_login_that_nobody_waits_for_is_given_up_and_the_next_call_begins_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    person = Person(script)
    person.log_in()
    auth = oauth(script, open_page=person.open_page)
    async with open_client(script.parameters(), auth=auth) as client:
        await logged_out(script, person)
        with trio.move_on_after(5):
            await client.call_tool("hasty")
        await trio.testing.wait_all_tasks_blocked()
        assert person.gave_up == 1
        person.log_in()
        await client.call_tool("again")
    assert person.asked == 2


async def test_a_refresh_goes_on_although_its_caller_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """Its answer brings the only refresh token that is still good."""
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        script.tokens.clear()
        script.before["/token"] = partial(trio.sleep, 3)
        with trio.move_on_after(1):
            await client.call_tool("hasty")
        await client.call_tool("again")
    assert script.grants() == ["authorization_code", "refresh_token"]
    assert len(script.pages) == 1


async def test_leaving_in_the_middle_of_a_login_leaves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    person = Person(script)
    person.log_in()
    auth = oauth(script, open_page=person.open_page)
    async with trio.open_nursery() as nursery, open_client(script.parameters(), auth=auth) as client:
        await logged_out(script, person)

        async def call() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.call_tool("one")

        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        assert person.asked == 1
    assert person.gave_up == 1


@pytest.mark.parametrize("refreshes", [False, True])
async def test_cancelled_at_every_checkpoint_the_next_call_works(
    refreshes: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever the login or the refresh has come to: no poisoned lock, no half login."""
    script = ProtectedScript()
    n = 0
    async with connected(script) as client:
        while True:
            n += 1
            script.tokens.clear()
            if not refreshes:
                script.refresh_tokens.clear()
                await trio.sleep(301)  # a person is shown few pages at a time
            with cancelled_after_steps(n) as scope:
                await client.call_tool("one")
            await client.call_tool("the next")
            if not scope.cancelled_caught:
                break
    assert n > 20
    if refreshes:
        assert len(script.pages) == 1, "a refresh token was lost"


async def test_cancelled_at_every_checkpoint_of_opening_nothing_is_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The store is shared by what comes after: what a cancelled login had held is free again."""
    script = ProtectedScript()
    auth = oauth(script)
    n = 0
    while True:
        n += 1
        script.tokens.clear()
        script.refresh_tokens.clear()
        await trio.sleep(301)  # a person is shown few pages at a time
        with cancelled_after_steps(n) as scope:
            async with open_client(script.parameters(), auth=auth, era="modern") as client:
                await client.call_tool("one")
        if not scope.cancelled_caught:
            break
    assert n > 50
    await trio.sleep(301)
    async with open_client(script.parameters(), auth=auth, era="modern") as client:
        await client.call_tool("one")


async def test_a_login_is_not_charged_to_opening_a_stream(autojump_clock: trio.testing.MockClock) -> None:
    """The stream of HTTP+SSE is given three seconds; a person needs more."""
    script = ProtectedScript("sse")
    person = Person(script)
    auth = oauth(script, open_page=person.open_page)
    async with trio.open_nursery() as nursery:

        async def wait_for_the_person() -> None:
            await trio.sleep(100)
            person.log_in()

        nursery.start_soon(wait_for_the_person)
        async with open_client(script.parameters(transport="sse"), auth=auth) as client:
            await client.call_tool("one")
    assert person.asked == 1


# Stores.


async def test_two_connections_share_a_login_and_a_refresh(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    auth = oauth(script)
    async with (
        open_client(script.parameters(), auth=auth) as one,
        open_client(script.parameters(), auth=auth) as two,
    ):
        assert len(script.pages) == 1
        script.tokens.clear()
        async with trio.open_nursery() as nursery:
            for client in (one, two):
                nursery.start_soon(client.call_tool, "both")
    assert len(script.pages) == 1
    assert script.grants() == ["authorization_code", "refresh_token"]


@shows("Token Theft")
async def test_a_file_keeps_tokens_for_the_next_process(tmp_path: Path) -> None:
    script = ProtectedScript()
    path = tmp_path / "state" / "tokens.json"
    for _ in range(2):
        async with connected(script, store=FileTokenStore(path)) as client:
            await client.call_tool("one")
    assert len(script.pages) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert "access-1" not in repr(FileTokenStore(path))


async def test_a_stored_token_that_has_ended_is_refreshed(autojump_clock: trio.testing.MockClock) -> None:
    """Its issuer may not say how long it lasts; nobody is asked to log in as long as there is a refresh token."""
    script = ProtectedScript()
    script.lifetime = None
    store = MemoryTokenStore()
    for _ in range(3):
        async with connected(script, store=store) as client:
            await client.call_tool("one")
        script.tokens.clear()
    assert script.grants() == ["authorization_code", "refresh_token", "refresh_token"]
    assert len(script.pages) == 1


async def test_a_refreshed_token_that_is_refused_means_another_login(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        script.tokens.clear()
        issue = script._issue

        def refresh_in_vain(form: Any) -> Any:
            answer = issue(form)
            if form["grant_type"] == "refresh_token":
                script.tokens.clear()
            return answer

        script._issue = refresh_in_vain  # type: ignore[method-assign]
        await client.call_tool("two")
    assert script.grants() == ["authorization_code", "refresh_token", "authorization_code"]


@pytest.mark.parametrize("late", [3, 5])
async def test_a_refreshed_token_that_ends_on_its_way_is_refreshed_again(
    autojump_clock: trio.testing.MockClock, late: int
) -> None:
    """That it is refused says nothing about the next; a server that is always slower is asked five times at most."""
    script = ProtectedScript()
    script.lifetime = 10
    serve, waits = script._serve_mcp, iter([20.0] * late)
    async with connected(script) as client:
        await client.call_tool("one")

        async def serve_late(scope: Any, receive: Any, send: Any, headers: Any) -> None:
            wait = next(waits, 0.0)
            await trio.sleep(wait)
            if wait:
                script.tokens.clear()
            await serve(scope, receive, send, headers)

        script._serve_mcp = serve_late  # type: ignore[method-assign]
        if late < 5:
            await client.call_tool("two")
        else:
            with pytest.raises(AuthorizationRefused, match="not accepted"):
                await client.call_tool("two")
    assert len(script.pages) == 1, "nobody is asked to log in again"
    assert script.grants()[1:] == ["refresh_token"] * len(script.grants()[1:])


@pytest.mark.parametrize("url", ["http://login.example/authorize", "javascript:alert(1)"])
async def test_a_page_that_must_not_be_opened_is_not(url: str) -> None:
    script = ProtectedScript()
    script.server["authorization_endpoint"] = url
    await fails(script, "cannot be used|https")
    assert not script.pages


@shows("Authorization Server Binding", "Authorization Server Location")
async def test_another_authorization_server_means_another_registration(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What one has issued is never shown to another."""
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        script.tokens.clear()
        script.move()
        await client.call_tool("two")
    assert script.grants() == ["authorization_code", "authorization_code"]
    assert len(script.at("/register")) == 2
    assert "client_id=client-2" in script.pages[1]


async def test_a_registration_is_kept_once_and_no_longer_than_it_is_good(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The token has its own, so that none stays behind when there is another."""
    script = ProtectedScript()
    store = Watched()
    forgotten = {"client_id": "forgotten", "client_secret": "s", "client_secret_expires_at": int(time.time()) - 1}
    script.answers["/register"] = [(201, forgotten)]
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    for n in range(4):
        async with connected(script, store=store) as client:
            await client.call_tool("one")
        script.tokens.clear()
        if n != 1:
            script.refresh_tokens.clear()
    assert [each.form["client_id"] for each in script.at("/token")] == [
        "forgotten", "forgotten", "client-1", "client-1", "client-1", "client-1",
    ]  # fmt: skip
    assert len(script.at("/register")) == 2, "its secret has ended"
    assert sorted(key.partition(" ")[0] for key in store.kept) == ["client", "token"]


@pytest.mark.parametrize("long", ["client_id", "client_secret"])
async def test_a_registration_that_is_too_long_is_not_kept(long: str) -> None:
    script = ProtectedScript()
    script.answers["/register"] = [(201, {"client_id": "c", long: "x" * 5_000})]
    store = Watched()
    await fails(script, "4096 characters", store=store)
    assert not store.kept


@pytest.mark.parametrize(
    "stored", ["{", "[]", '{"client_id": "c", "method": "none", "client_secret": 5}', "null"]
)
async def test_what_cannot_be_used_in_a_store_is_done_anew(
    stored: str, autojump_clock: trio.testing.MockClock
) -> None:
    script = ProtectedScript()
    store = MemoryTokenStore()
    await store.set(f"client {ORIGIN}", stored)
    await store.set(f"token person  {URL}", stored)
    async with connected(script, store=store) as client:
        await client.call_tool("one")
    assert len(script.pages) == 1


@shows("Authorization Server Binding", "Pre-registration", "Preregistration")
async def test_credentials_are_bound_to_the_first_authorization_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    store = MemoryTokenStore()
    auth = ClientCredentials(client_id="me", client_secret="s3cret", store=store)
    async with open_client(script.parameters(), auth=auth) as client:
        await client.call_tool("one")
    assert script.grants() == ["client_credentials"]
    script.tokens.clear()
    moved = script.move()
    with pytest.raises(AuthorizationFailed, match="not shown to another") as failed:
        async with open_client(script.parameters(), auth=auth):
            pass
    assert failed.value.issuer == moved
    assert script.grants() == ["client_credentials"]


@shows("Advertising CIMD Support", "Client ID Metadata Documents Flow", "Discovery")
async def test_a_url_is_the_id_of_a_client_where_that_is_taken(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    script.server["client_id_metadata_document_supported"] = True
    url = "https://client.example/metadata.json"
    async with connected(script, client_metadata_url=url) as client:
        await client.call_tool("one")
    assert not script.at("/register")
    assert {each.form["client_id"] for each in script.at("/token")} == {url}


@shows("Client Registration", "Client Registration Approaches", "Pre-registration", "Preregistration")
@shows("Client ID Metadata Documents", "Dynamic Client Registration")
@pytest.mark.parametrize(
    ("by_hand", "documents", "client_id"),
    [
        (True, True, "by-hand"),
        (False, True, "https://client.example/metadata.json"),
        (False, False, "client-1"),
    ],
)
async def test_the_ways_to_be_known_are_tried_in_their_order(
    by_hand: bool, documents: bool, client_id: str, autojump_clock: trio.testing.MockClock
) -> None:
    """By hand, by a document, by registration, even if the later ones would do, too."""
    script = ProtectedScript()
    script.server["client_id_metadata_document_supported"] = documents
    own = {"client_id": "by-hand"} if by_hand else {}
    url = "https://client.example/metadata.json"
    async with connected(script, client_metadata_url=url, **own) as client:
        await client.call_tool("one")
    assert [each.form["client_id"] for each in script.at("/token")] == [client_id]
    assert len(script.at("/register")) == (client_id == "client-1")


@shows("Application Type and Redirect URI Constraints")
async def test_a_refused_registration_is_tried_as_the_other_kind_and_reported() -> None:
    script = ProtectedScript()
    refusal = {"error": "invalid_redirect_uri", "error_description": "no loopback here"}
    script.answers["/register"] = [(400, refusal), (400, refusal)]
    error = await fails(script, "refused to register this client.*no loopback here")
    assert isinstance(error, ClientUnknown)
    assert error.error == "invalid_redirect_uri"
    assert [each.form["application_type"] for each in script.at("/register")] == ["native", "web"]
    script.answers["/register"] = [(400, refusal)]
    async with connected(script) as client:
        await client.call_tool("one")


@shows("Communication Security", "Implementation Requirements")
def test_answers_come_to_this_machine_or_by_https() -> None:
    """Whoever is on the way could read the code."""
    with pytest.raises(ValueError, match="redirect_uri must be https"):
        OAuth(redirect_uri="http://app.example/callback")
    for uri in (
        "https://app.example/callback",
        "http://localhost:3000/x",
        "http://[::1]/x",
        "com.example.app:/x",
    ):
        assert OAuth(redirect_uri=uri).redirect_uri == uri
    OAuth(redirect_uri="http://desk/callback", insecure_hosts=["desk"])


@shows("Resource Parameter Implementation", "Canonical Server URI", "Access Token Privilege Restriction")
async def test_tokens_are_asked_for_one_server(autojump_clock: trio.testing.MockClock) -> None:
    """In every request for one, by an authorization server, too, that does not say that it knows `resource`."""
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        script.tokens.clear()
        await client.call_tool("two")
    assert script.grants() == ["authorization_code", "refresh_token"]
    assert [each.form["resource"] for each in script.at("/token")] == [URL, URL]
    assert [parse_qs(urlsplit(page).query)["resource"] for page in script.pages] == [[URL]]


@shows("Token Requirements")
@pytest.mark.parametrize("speaks", ["2025-11-25", "2026-07-28"])
async def test_no_url_has_a_token_in_it(speaks: str, autojump_clock: trio.testing.MockClock) -> None:
    """Of no request to either server, and no page."""
    script = ProtectedScript(speaks)
    urls: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            urls.append(f"{scope['path']}?{scope['query_string'].decode()}")
        await script(scope, receive, send)

    async with open_client(type(script.parameters())(URL, app=app), auth=oauth(script)) as client:
        await client.call_tool("one")
        script.tokens.clear()
        await client.call_tool("two")
    assert script.grants() == ["authorization_code", "refresh_token"]
    for secret in ("access-1", "access-2", "refresh-1"):
        assert not any(secret in url for url in [*urls, *script.pages])


# Programs.


async def test_the_token_of_a_platform_is_read_each_time(tmp_path: Path) -> None:
    """Platforms replace the file before the token in it ends."""
    script = ProtectedScript()
    file = tmp_path / "token"
    file.write_text("first\n")
    async with open_client(script.parameters(), auth=WorkloadIdentity(token=file)) as client:
        await client.call_tool("one")
        file.write_text("second\n")
        script.tokens.clear()
        await client.call_tool("two")
    asked = script.at("/token")
    assert [each.form["assertion"] for each in asked] == ["first", "second"]
    assert {each.form["grant_type"] for each in asked} == {"urn:ietf:params:oauth:grant-type:jwt-bearer"}
    assert all("client_id" not in each.form for each in asked)


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client"])
async def test_a_refused_workload_is_not_tried_again(error: str) -> None:
    script = ProtectedScript()
    script.answers["/token"] = [(400, {"error": error})]

    async def token() -> str:
        await trio.lowlevel.checkpoint()
        return "t"

    with pytest.raises(AuthorizationFailed, match=error) as failed:
        async with open_client(script.parameters(), auth=WorkloadIdentity(token=token)):
            pass
    assert failed.value.error == error
    assert len(script.at("/token")) == 1


async def test_a_file_without_a_token_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name, problem in (("no-such-file", "No such file"), ("empty", "the file is empty")):
        with pytest.raises(AuthorizationFailed, match=f"{name} cannot be read: .*{problem}"):
            async with open_client(ProtectedScript().parameters(), auth=WorkloadIdentity(token=tmp_path / name)):
                pass


async def test_an_employee_brings_the_assertion_of_their_organisation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    jag = "urn:ietf:params:oauth:token-type:id-jag"
    script.answers["/idp"] = [(200, {"access_token": "jag", "issued_token_type": jag, "token_type": "N_A"})]
    auth = EnterpriseManaged(
        id_token=lambda: "id",
        idp_token_endpoint=f"{ORIGIN}/idp",
        idp_client_id="me-there",
        client_id="me-here",
        client_secret="s3cret",
    )
    async with open_client(script.parameters(), auth=auth) as client:
        await client.call_tool("one")
    (exchange,), (grant,) = script.at("/idp"), script.at("/token")
    assert exchange.form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert exchange.form["requested_token_type"] == jag
    assert exchange.form["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token"
    assert grant.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert exchange.form["audience"] == ORIGIN
    assert exchange.form["resource"] == URL
    assert (exchange.form["subject_token"], exchange.form["client_id"]) == ("id", "me-there")
    assert (grant.form["assertion"], grant.form["client_id"]) == ("jag", "me-here")
    assert "s3cret" not in repr(auth)
    script.server["authorization_grant_profiles_supported"] = ["other"]
    script.tokens.clear()
    with pytest.raises(AuthorizationFailed, match="identity providers"):
        async with open_client(script.parameters(), auth=auth):
            pass


async def test_a_token_that_must_be_bound_to_a_key_and_is_not_is_refused() -> None:
    script = ProtectedScript()
    with pytest.raises(AuthorizationFailed, match="dpop=True"):
        async with connected(script, dpop=True):
            pass
    (asked,) = script.at("/token")
    assert read_proof(asked.headers["dpop"]).claims["htu"] == f"{ORIGIN}/token"
    assert set(script.seen) == {None}


# Without authorization, and with one's own.


@pytest.mark.parametrize("speaks", ["2025-11-25", "2026-07-28"])
@shows("Error Handling")
async def test_without_auth_the_error_says_what_the_server_wants_and_what_to_write(speaks: str) -> None:
    script = ProtectedScript(speaks)
    with pytest.raises(AuthorizationRefused, match="auth=OAuth") as refused:
        async with open_client(script.parameters()):
            pass
    error = refused.value
    assert (error.status, error.scheme, error.scope) == (401, "bearer", "mcp")
    assert error.resource_metadata == f"{ORIGIN}{METADATA}"


@shows("Token Requirements")
async def test_a_static_token_is_sent_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    script = ProtectedScript()
    script.tokens["sesame"] = frozenset({"mcp"})
    auth = StaticToken("sesame")
    with caplog.at_level(logging.DEBUG):
        async with open_client(script.parameters(), auth=auth) as client:
            await client.call_tool("one")
            del script.tokens["sesame"]
            with pytest.raises(AuthorizationRefused, match="is not accepted") as refused:
                await client.call_tool("two")
    assert set(script.seen) == {"sesame"}
    for shown in (
        repr(auth),
        repr(script.parameters(auth=auth)),
        str(refused.value),
        repr(refused.value),
        caplog.text,
    ):
        assert "sesame" not in shown


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ümlaut"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="characters") as refused:
        StaticToken(token)
    assert not token or token not in str(refused.value)


@pytest.mark.parametrize(
    ("token", "scheme", "problem"),
    [
        (
            "Bearer eyJ",
            "Bearer",
            "token must not begin with 'Bearer': leave that out, for scheme= is sent before it",
        ),
        (
            "bearer eyJ",
            "Bearer",
            "token must not begin with 'Bearer': leave that out, for scheme= is sent before it",
        ),
        ("DPoP eyJ", "DPoP", "token must not begin with 'DPoP': leave that out, for scheme= is sent before it"),
        ("eyJ\n", "Bearer", "token has a line break or blanks around it: write token.strip()"),
        (" eyJ", "Bearer", "token has a line break or blanks around it: write token.strip()"),
    ],
)
def test_a_token_that_was_copied_with_something_else_says_so(token: str, scheme: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        StaticToken(token, scheme=scheme)


@pytest.mark.parametrize(
    ("challenge", "body", "text"),
    [
        (
            'Bearer error="insufficient_scope", error_description="this needs the scopes a:r, b:w", scope="a:r b:w"',
            {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32600, "message": "this needs the scopes a:r, b:w"},
            },
            "refused the request with HTTP status 403 (insufficient_scope: this needs the scopes a:r, b:w)",
        ),
        (
            'Bearer error="insufficient_scope", error_description="no", scope="a:r b:w"',
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "not for you"}},
            (
                "refused the request with HTTP status 403 (insufficient_scope: no); it asks for the scope 'a:r b:w': "
                "not for you"
            ),
        ),
    ],
)
async def test_a_refusal_names_the_scopes_once(challenge: str, body: Any, text: str) -> None:
    script = ProtectedScript()

    async def refuse(scope: Any, receive: Any, send: Any, headers: Any) -> None:
        await script._send(send, 403, body, challenge)

    script._serve_mcp = refuse  # type: ignore[method-assign]
    with pytest.raises(AuthorizationRefused) as refused:
        async with open_client(script.parameters(), auth=StaticToken("sesame"), era="modern"):
            pass
    assert str(refused.value) == f"{URL} {text}"
    assert refused.value.was_authorized


async def test_an_authorization_without_a_token_is_no_reason_to_give_one() -> None:
    """It was given: what it lacks is another matter."""

    class Silent(Auth):
        async def headers_for(self, request: AuthRequest) -> dict[str, str]:
            await trio.lowlevel.checkpoint()
            return {}

    script = ProtectedScript()
    with pytest.raises(AuthorizationRefused) as refused:
        async with open_client(script.parameters(), auth=Silent(), era="modern"):
            pass
    assert str(refused.value) == (
        f"{URL} refused the request with HTTP status 401; it asks for the scope 'mcp'; auth= had no token to send"
    )
    assert not refused.value.was_authorized


class Badge(Auth):
    """Shows a badge, and gets another one when it is refused."""

    def __init__(self) -> None:
        self.badge = "old"
        self.asked: list[AuthRequest] = []

    async def headers_for(self, request: AuthRequest) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        return {"Authorization": f"Bearer {self.badge}"}

    async def on_refused(self, request: AuthRequest, response: AuthResponse) -> bool:
        await trio.lowlevel.checkpoint()
        assert response.challenges[0].get("error") == "invalid_token"
        self.badge = "new"
        return True


async def test_an_auth_of_ones_own_is_asked_before_a_request_and_after_a_refusal() -> None:
    script = ProtectedScript()
    script.tokens["new"] = frozenset({"mcp"})
    badge = Badge()
    async with open_client(script.parameters(), auth=badge) as client:
        await client.call_tool("one")
    assert script.seen == ["old", "new", "new"]
    assert {(each.method, each.url) for each in badge.asked} == {("POST", URL)}


async def test_an_auth_of_ones_own_that_never_gives_up_is_not_asked_for_ever() -> None:
    script = ProtectedScript()
    badge = Badge()
    with pytest.raises(AuthorizationRefused):
        async with open_client(script.parameters(), auth=badge, era="modern"):
            pass
    assert len(script.seen) == 10, "twice, for the client asks twice which era it is"


async def test_an_auth_of_ones_own_that_fails_costs_the_request() -> None:
    class Broken(Auth):
        async def headers_for(self, request: AuthRequest) -> dict[str, str]:
            raise RuntimeError("secret")

    script = ProtectedScript()
    with pytest.raises(Exception, match="could not be authorized: RuntimeError") as failed:
        async with open_client(script.parameters(), auth=Broken(), era="modern"):
            pass
    assert "secret" not in str(failed.value)
    assert script.seen == []


@shows("Communication Security", "Token Theft")
async def test_a_static_token_goes_to_no_other_machine_without_tls(subtests: pytest.Subtests) -> None:
    auth, trusting = StaticToken("sesame"), StaticToken("sesame", insecure_hosts=["Orders"])
    for url in ("http://orders/mcp", "http://10.0.0.5/mcp", "http://orders.example:8000/mcp", "ws://orders/mcp"):
        with (
            subtests.test(url=url),
            pytest.raises(
                AuthorizationFailed, match=r"not https.* StaticToken\(\.\.\., insecure_hosts="
            ) as failed,
        ):
            async with open_client(url, auth=auth):
                pass
        assert "sesame" not in str(failed.value)
    for url, given in (
        ("https://orders.example/mcp", auth),
        ("http://127.0.0.1:1/mcp", auth),
        ("http://[::1]:1/mcp", auth),
        ("http://orders/mcp", trusting),
    ):
        with subtests.test(url=url):
            target = parse_target(url)
            async with given.open(ProtectedServer(target.shown, target, HttpSettings())) as opened:
                assert await opened.headers_for(AuthRequest("GET", url, b"")) == {
                    "Authorization": "Bearer sesame"
                }
    with pytest.raises(TypeError, match="collection of host names"):
        StaticToken("sesame", insecure_hosts="orders")


@shows("Protocol Requirements")
async def test_auth_is_for_servers_at_urls() -> None:
    """Elsewhere, credentials are in the environment of the server."""
    for target in ("tcp://localhost:1", StdioServerParameters("no-such-program")):
        with pytest.raises(ValueError, match="environment"):
            async with open_client(target, auth=StaticToken("x")):
                pass


async def test_a_group_authorizes_each_server_at_a_url(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    asked: list[str] = []

    def auth(name: str) -> Auth | None:
        asked.append(name)
        return oauth(script)

    async with open_clients({"one": script.parameters(), "two": script.parameters()}, auth=auth) as group:
        await group.wait_ready()
        await group["one"].call_tool("x")
    assert asked == ["one", "two"]
    assert len(script.pages) == 2


# What is refused.


async def fails(script: ProtectedScript, match: str, **options: Any) -> AuthorizationFailed:
    with pytest.raises(AuthorizationFailed, match=match) as failed:
        async with connected(script, **options):
            pass
    assert set(script.seen) == {None}
    assert not script.at("/token")
    return failed.value


@shows("Access Token Privilege Restriction")
async def test_metadata_of_another_server_are_refused() -> None:
    script = ProtectedScript()
    script.resource["resource"] = "https://evil.example/mcp"
    await fails(script, "somebody else")
    assert not script.at(SERVER_METADATA)


async def test_resource_metadata_that_are_named_and_not_there_are_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The usual places are tried then, and an error about those would mislead."""
    script = ProtectedScript()
    script.answers[METADATA] = [(404, {})]
    async with connected(script):
        pass
    assert "resource_metadata" in caplog.text
    assert "HTTP status 404" in caplog.text


@pytest.mark.parametrize("name", ["client_id", "client_secret"])
def test_credentials_are_strings(name: str) -> None:
    """The error does not show the secret."""
    wrong: dict[str, Any] = {"client_id": "job", "client_secret": "s3cret", name: b"s3cret"}
    with pytest.raises(TypeError, match=rf"^{name} must be a str, not bytes$"):
        ClientCredentials(**wrong)
    wrong[name] = ""
    with pytest.raises(ValueError, match=rf"^{name} must not be empty$"):
        ClientCredentials(**wrong)


@shows("Authorization Server Metadata Discovery")
async def test_metadata_with_another_issuer_are_refused() -> None:
    script = ProtectedScript()
    script.server["issuer"] = f"{ORIGIN}/other"
    await fails(script, "not used")
    assert not script.pages


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
@shows("Authorization Code Protection")
async def test_without_pkce_nobody_is_sent_to_log_in(methods: Any) -> None:
    script = ProtectedScript()
    script.server["code_challenge_methods_supported"] = methods
    await fails(script, "S256")
    assert not script.pages


@shows("Mix-Up Attacks", "Authorization Response Validation")
async def test_an_answer_of_another_authorization_server_is_refused() -> None:
    script = ProtectedScript()

    def mix_up(url: str) -> str:
        return script.visit(url).replace("localhost%3A8000", "evil.example")

    await fails(script, "evil", open_page=mix_up)


@shows("Open Redirection")
async def test_an_answer_to_another_login_is_refused() -> None:
    script = ProtectedScript()

    def replay(url: str) -> str:
        return script.visit(url).replace("state=", "state=x")

    await fails(script, "state", open_page=replay)


@shows("Communication Security")
async def test_plain_http_elsewhere_is_refused() -> None:
    script = ProtectedScript()
    script.server["token_endpoint"] = "http://tokens.example/token"
    with pytest.raises(AuthorizationFailed, match="insecure_hosts"):
        async with connected(script):
            pass


@shows("Client Registration Approaches", "Client Registration")
async def test_an_authorization_server_that_registers_nobody_is_named() -> None:
    script = ProtectedScript()
    del script.server["registration_endpoint"]
    error = await fails(script, "client_id")
    assert isinstance(error, ClientUnknown)
    assert error.issuer == ORIGIN


async def test_a_server_that_wants_another_scheme_is_not_logged_in_at() -> None:
    script = ProtectedScript()

    async def refuse(scope: Any, receive: Any, send: Any, headers: Any) -> None:
        await script._send(send, 401, {"error": "no"}, 'Basic realm="old"')

    script._serve_mcp = refuse  # type: ignore[method-assign]
    with pytest.raises(AuthorizationRefused) as refused:
        async with connected(script):
            pass
    assert refused.value.scheme == "basic"
    assert script.asked == []


async def test_nobody_is_asked_where_nobody_is() -> None:
    script = ProtectedScript()
    await fails(script, "open_page=None", open_page=None)


@shows("Token Theft")
async def test_no_secret_is_shown_by_anything(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    script = ProtectedScript()
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    frames: list[bytes] = []
    auth = oauth(script, client_id="me", client_secret="s3cret", issuer=ORIGIN)
    with caplog.at_level(logging.DEBUG):
        async with open_client(
            script.parameters(), auth=auth, on_frame=lambda _, frame: frames.append(frame)
        ) as client:
            await client.call_tool("one")
            script.tokens.clear()
            script.refresh_tokens.clear()
            await client.call_tool("two")
    shown = "".join([repr(auth), repr(auth.store), repr(script.parameters(auth=auth)), caplog.text, repr(frames)])
    for secret in ("s3cret", "access-1", "access-2", "refresh-1", "code-1"):
        assert secret not in shown, secret
    assert {each.form.get("client_secret") for each in script.at("/token")} == {"s3cret"}


class Watched(TokenStore):
    """Notes what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, str] = {}

    async def get(self, key: str) -> str | None:
        await trio.lowlevel.checkpoint()
        return self.kept.get(key)

    async def set(self, key: str, value: str) -> None:
        await trio.lowlevel.checkpoint()
        self.kept[key] = value

    async def delete(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        del self.kept[key]


async def test_stored_times_are_times_of_day(autojump_clock: trio.testing.MockClock) -> None:
    """Another process has another clock: what is stored must mean the same to it."""
    script = ProtectedScript()
    store = Watched()
    async with connected(script, store=store) as client:
        await client.call_tool("one")
    (stored,) = [json.loads(value) for key, value in store.kept.items() if key.startswith("token")]
    assert stored["expires_at"] == pytest.approx(time.time() + 3600, abs=60)
    assert stored["issuer"] == ORIGIN


@shows("Refresh Tokens")
async def test_a_token_that_is_good_for_less_than_half_a_minute_is_used_for_most_of_that(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Half a minute before its end it did not exist: each call would have another one."""
    script = ProtectedScript()
    script.lifetime = 20
    async with connected(script) as client:
        await client.call_tool("one")
        await trio.sleep(15)
        await client.call_tool("still good")
        assert script.grants() == ["authorization_code"]
        await trio.sleep(4)
        await client.call_tool("nearly over")
    assert script.grants() == ["authorization_code", "refresh_token"]
    assert script.seen.count(None) == 1, "nothing was refused"


async def test_a_token_that_was_not_refreshed_before_its_end_is_used_until_then(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The authorization server is not asked with each request that goes out meanwhile."""
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        await trio.sleep(3600 - 20)
        script.answers["/token"] = [(503, {})] * 10
        for _ in range(5):
            await client.call_tool("nearly over")
        assert len(script.answers["/token"]) == 9
    assert script.grants().count("refresh_token") == 1
    assert len(script.pages) == 1


async def test_what_follows_a_login_is_charged_to_the_call_again(autojump_clock: trio.testing.MockClock) -> None:
    """The person has answered: from then on it is the authorization server that is slow."""
    script = ProtectedScript()
    person = Person(script)
    person.log_in()
    auth = oauth(script, open_page=person.open_page)
    async with open_client(script.parameters(), auth=auth, request_timeout=5.0) as client:
        await logged_out(script, person)
        async with trio.open_nursery() as nursery:

            async def log_in_later() -> None:
                await trio.sleep(50)
                script.before["/token"] = partial(trio.sleep, 100)
                person.log_in()

            nursery.start_soon(log_in_later)
            began = trio.current_time()
            with pytest.raises(trio.TooSlowError, match="request_timeout"):
                await client.call_tool("one")
            assert 50 <= trio.current_time() - began <= 50 + 5


async def test_a_slash_in_place_of_no_path_makes_no_other_authorization_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its documents, its answers and what is kept may differ in it."""
    script = ProtectedScript()
    store = MemoryTokenStore()
    script.resource["authorization_servers"] = [f"{ORIGIN}/"]
    async with connected(script, store=store, client_id="ours") as client:
        await client.call_tool("one")
    script.tokens.clear()
    script.server["issuer"] = f"{ORIGIN}/"
    async with connected(script, store=store, client_id="ours") as client:
        await client.call_tool("two")
    script.resource["authorization_servers"] = [ORIGIN]
    script.tokens.clear()
    async with connected(script, store=store, client_id="ours") as client:
        await client.call_tool("three")
    assert script.grants() == ["authorization_code", "refresh_token", "refresh_token"]
