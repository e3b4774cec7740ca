"""Authorization servers and protected servers that mean harm, or hang: what a client does, and how long."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from authorization_pages import shows
from http_sessions import URL
from inside_base import repetitions
from oauth_script import METADATA, ORIGIN, SERVER_METADATA, ProtectedScript, connected, oauth

from trio_mcp import (
    Auth,
    AuthorizationFailed,
    AuthorizationRefused,
    ClientCredentials,
    EnterpriseManaged,
    McpError,
    MemoryTokenStore,
    PrivateKeyJwt,
    WorkloadIdentity,
    open_client,
    open_clients,
)

# Hanging.


class Hanging:
    """An application that hangs at a path, in one of several ways; everything else is the script's."""

    def __init__(self, script: ProtectedScript, path: str, how: str) -> None:
        self._script = script
        self._path = path
        self._how = how
        self.is_hanging = True
        self.cancelled = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != self._path or not self.is_hanging:
            await self._script(scope, receive, send)
            return
        if self._how != "head":
            fields = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": fields})
            await send({"type": "http.response.body", "body": b'{"access_token": "', "more_body": True})
        try:
            while self._how == "drops":
                await trio.sleep(1)
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
            while self._how == "endless":
                await send({"type": "http.response.body", "body": b"x" * 16_384, "more_body": True})
            await trio.sleep_forever()
        finally:
            self.cancelled += 1


PATHS = (METADATA, SERVER_METADATA, "/register", "/token")


async def test_a_server_that_hangs_is_not_waited_for(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """One request takes 10 seconds and 64 KiB at most; whoever comes next gets what there is."""
    for how in ("head", "body", "drops", "endless"):
        for path in PATHS:
            with subtests.test(how=how, path=path):
                script = ProtectedScript()
                hanging = Hanging(script, path, how)
                parameters = behind(script, hanging)
                began = trio.current_time()
                with pytest.raises(AuthorizationFailed, match=r"10 s|65536|MAX_DOCUMENT_BYTES"):
                    async with open_client(parameters, auth=oauth(script), era="modern"):
                        pass
                assert trio.current_time() - began <= 31, (
                    "once for each time that the client asks which era it is"
                )
                assert not script.at("/token")
                hanging.is_hanging = False
                async with open_client(parameters, auth=oauth(script), era="modern") as client:
                    await client.call_tool("one")


async def test_a_deadline_covers_a_server_that_hangs(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    for how in ("head", "body", "drops"):
        for path in PATHS:
            with subtests.test(how=how, path=path):
                script = ProtectedScript()
                hanging = Hanging(script, path, how)
                parameters = behind(script, hanging)
                auth = oauth(script)
                began = trio.current_time()
                with trio.move_on_after(3) as hasty:
                    async with open_client(parameters, auth=auth, era="modern"):
                        pass
                assert hasty.cancelled_caught
                assert trio.current_time() - began == pytest.approx(3, abs=2.5)
                hanging.is_hanging = False
                async with open_client(parameters, auth=auth, era="modern") as client:
                    await client.call_tool("one")


@pytest.mark.parametrize("how", ["head", "body", "drops", "endless"])
async def test_a_refresh_that_hangs_costs_its_caller_no_more_than_they_allow(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """And it costs no refresh token that may still be good, and no other call its own deadline.

    An answer that never ends has said with its status that there is no token: it is a refusal.
    """
    script = ProtectedScript()
    hanging = Hanging(script, "/token", how)
    hanging.is_hanging = False
    async with open_client(behind(script, hanging), auth=oauth(script)) as client:
        await client.call_tool("one")
        script.tokens.clear()
        hanging.is_hanging = True
        began = trio.current_time()
        with trio.move_on_after(2), suppress(AuthorizationFailed):  # one that never ends has said too much soon
            await client.call_tool("hasty")
        assert trio.current_time() - began <= 2.5
        with pytest.raises(AuthorizationFailed):
            await client.call_tool("patient")
        assert trio.current_time() - began <= 40
        hanging.is_hanging = False
        await client.call_tool("next")
    is_refusal = how == "endless"
    assert (len(script.pages) == 1) is not is_refusal
    assert script.grants() == ["authorization_code", "authorization_code" if is_refusal else "refresh_token"]


def behind(script: ProtectedScript, app: Any) -> Any:
    """Return the parameters of a script behind an application."""
    parameters = script.parameters()
    return type(parameters)(parameters.url, app=app)


# Redirects, and other ways elsewhere.


class Redirecting(Hanging):
    """An application that sends everybody elsewhere from a path."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != self._path or not self.is_hanging:
            await self._script(scope, receive, send)
            return
        self.cancelled += 1
        fields = [(b"location", self._how.encode())]
        await send({"type": "http.response.start", "status": 307, "headers": fields})
        await send({"type": "http.response.body", "body": b""})


async def test_what_is_secret_follows_no_redirect(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """A code, a verifier and a registration go where they were meant to, and nowhere else; not even next door."""

    async def check(where: str, path: str) -> None:
        if path == SERVER_METADATA and where.startswith(ORIGIN):
            return  # a document may lie next door
        script = ProtectedScript()
        redirecting = Redirecting(script, path, where)
        with pytest.raises(AuthorizationFailed, match="redirect"):
            async with open_client(behind(script, redirecting), auth=oauth(script), era="modern"):
                pass
        assert not script.at("/elsewhere")
        assert not script.tokens

    targets: list[str] = ["https://evil.example/x", "http://localhost:8001/x", f"{ORIGIN}/elsewhere"]
    paths: list[str] = ["/register", "/token", SERVER_METADATA]
    for where in targets:
        for path in paths:
            with subtests.test(where=where, path=path):
                await check(where, path)


@shows("Token Theft")
@pytest.mark.parametrize(
    "endpoint", ["https://evil.example/messages", "//evil.example/messages", "http://localhost:8001/messages"]
)
async def test_a_stream_that_names_another_origin_gets_no_token_there(
    endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HTTP+SSE: the server names where messages are sent to, with the token."""
    script = ProtectedScript("sse")
    hosts: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            hosts.append(headers[b"host"].decode())
            if scope["path"] == "/mcp" and b"authorization" in headers:
                fields = [(b"content-type", b"text/event-stream")]
                await send({"type": "http.response.start", "status": 200, "headers": fields})
                event = f"event: endpoint\ndata: {endpoint}\n\n".encode()
                await send({"type": "http.response.body", "body": event, "more_body": True})
                await trio.sleep_forever()
        await script(scope, receive, send)

    with caplog.at_level(logging.DEBUG), pytest.raises(McpError, match="another server"), trio.fail_after(10):
        async with open_client(type(script.parameters())(URL, app=app, transport="sse"), auth=oauth(script)):
            pass
    assert set(hosts) == {"localhost:8000"}
    assert script.grants() == ["authorization_code"]
    assert "access-1" not in caplog.text


# Refusing for ever.


async def test_a_server_that_wants_more_each_time_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    """Each challenge names a scope that was not asked for before: one request asks a person once, the next once more."""
    script = ProtectedScript()
    wanted = 0

    class Needs(dict[str, str]):
        def get(self, method: str, default: Any = None) -> Any:
            nonlocal wanted
            if method != "tools/call":
                return default
            wanted += 1
            return f"scope-{wanted}"

        def __getitem__(self, method: str) -> str:
            return f"scope-{wanted}"

    script.needs = Needs()
    async with connected(script) as client:
        before = len(script.pages)
        for calls in range(1, 4):
            with pytest.raises(AuthorizationRefused) as refused:
                await client.call_tool("one")
            assert refused.value.status == 403
            assert len(script.pages) == before + calls


async def test_scopes_without_end_are_not_asked_for(autojump_clock: trio.testing.MockClock) -> None:
    """What was asked for before is asked for again, so it would grow with each call."""
    script = ProtectedScript()
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    calls = 0
    auth = ClientCredentials(client_id="me", client_secret="s3cret")
    async with open_client(script.parameters(), auth=auth) as client:
        with pytest.raises(AuthorizationFailed, match="MAX_SCOPES"):
            for calls in range(20):
                script.needs["tools/call"] = " ".join(f"scope-{calls}-{n}" for n in range(50))
                await client.call_tool("one")
    assert 2 <= calls < 10
    assert all(len(each.form.get("scope", "")) <= 4_096 for each in script.at("/token"))


async def test_another_challenge_each_time_does_not_ask_a_person_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """401, with other metadata, scopes and errors each time."""
    script = ProtectedScript()
    n = 0

    async def refuse(scope: Any, receive: Any, send: Any, headers: Any) -> None:
        nonlocal n
        n += 1
        script.seen.append(headers.get("authorization"))
        hints = (f"{ORIGIN}{METADATA}?{n}", f"{ORIGIN}{METADATA}")
        challenge = f'Bearer resource_metadata="{hints[n % 2]}", scope="s{n}", error="invalid_token"'
        await script._send(send, 401, {"error": "no"}, challenge)

    script._serve_mcp = refuse  # type: ignore[method-assign]
    with pytest.raises(AuthorizationRefused):
        async with open_client(script.parameters(), auth=oauth(script), era="modern"):
            pass
    assert len(script.pages) == 1
    assert n <= 4


# What is seen of secrets.


SECRETS = ("s3cret", "access-", "refresh-", "code-", "PRIVATE KEY", "p1atform", "id-t0ken", "j4g")


@shows("Token Theft")
async def test_no_error_shows_a_secret(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """Neither its text nor its notes, its causes, or the arguments of what is on its way."""

    async def check(fails_at: str, kind: str) -> None:
        caplog.clear()
        repetitions.forget()
        script = ProtectedScript()
        script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post", "private_key_jwt"]
        jag = "urn:ietf:params:oauth:token-type:id-jag"
        script.answers["/idp"] = [
            (200, {"access_token": "j4g", "issued_token_type": jag, "token_type": "N_A"})
        ] * 4
        pem = "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----"
        makers: dict[str, Callable[[], Auth]] = {
            "person": lambda: oauth(script, client_id="me", client_secret="s3cret", issuer=ORIGIN),
            "program": lambda: ClientCredentials(client_id="me", client_secret="s3cret"),
            "key": lambda: ClientCredentials(client_id="me", key=PrivateKeyJwt(key=pem)),
            "workload": lambda: WorkloadIdentity(token=lambda: "p1atform"),
            "employee": lambda: EnterpriseManaged(
                id_token=lambda: "id-t0ken",
                idp_token_endpoint=f"{ORIGIN}/idp",
                idp_client_id="there",
                idp_client_secret="s3cret",
                client_id="me",
                client_secret="s3cret",
            ),
        }
        auth = makers[kind]()
        script.answers[fails_at] = [(500, {"error": "x"}), (500, {"error": "x"}), (500, {"error": "x"})]
        shown = [repr(auth), str(auth), repr(script.parameters(auth=auth))]
        with caplog.at_level(logging.DEBUG):
            try:
                async with open_client(script.parameters(), auth=auth, era="modern") as client:
                    await client.call_tool("one")
            except McpError as error:
                shown += traceback.TracebackException.from_exception(error).format()
                shown += [repr(error), str(vars(error)), str(getattr(error, "__notes__", ""))]
        shown.append(caplog.text)
        for secret in SECRETS:
            assert secret not in "".join(shown), secret

    failing: list[str] = ["/token", "/idp", SERVER_METADATA, METADATA]
    for fails_at in failing:
        for kind in ("person", "program", "key", "workload", "employee"):
            with subtests.test(fails_at=fails_at, kind=kind):
                await check(fails_at, kind)


@shows("Token Theft")
async def test_no_log_of_any_logger_shows_a_secret(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """With everything logged, and with every message recorded, over a login, a refresh and proofs."""
    script = ProtectedScript()
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    frames: list[bytes] = []
    with caplog.at_level(logging.DEBUG):
        for dpop in (None, True):
            auth = oauth(script, client_id="me", client_secret="s3cret", issuer=ORIGIN, dpop=dpop)
            try:
                async with open_client(
                    script.parameters(), auth=auth, on_frame=lambda _, frame: frames.append(frame)
                ) as client:
                    await client.call_tool("one")
                    script.tokens.clear()
                    await client.call_tool("two")
            except AuthorizationFailed as error:
                assert dpop, error  # the script binds no tokens
    proofs = [each.headers["dpop"] for each in script.at("/token") if "dpop" in each.headers]
    verifiers = [each.form["code_verifier"] for each in script.at("/token") if "code_verifier" in each.form]
    assert len(proofs) == 1
    assert len(verifiers) == 2
    text = caplog.text + repr(frames)
    for secret in (*SECRETS, *proofs, *verifiers):
        assert secret not in text, secret


# Streams, sessions and groups.


async def test_a_stream_that_is_refused_has_another_token(autojump_clock: trio.testing.MockClock) -> None:
    """The GET of a session: its token has ended while nothing was asked. Nobody logs in twice for it."""
    script = ProtectedScript("2025-11-25")
    gets: list[str | None] = []
    serve = script._serve_mcp

    async def note(scope: Any, receive: Any, send: Any, headers: Any) -> None:
        if scope["method"] == "GET":
            gets.append(headers.get("authorization"))
            if len(gets) == 1:
                script.tokens.clear()
        await serve(scope, receive, send, headers)

    script._serve_mcp = note  # type: ignore[method-assign]
    async with connected(script) as client:
        await client.call_tool("one")
    assert gets[:2] == ["Bearer access-1", "Bearer access-2"]
    assert script.grants() == ["authorization_code", "refresh_token"]
    assert len(script.pages) == 1


async def test_entries_of_a_group_have_authorizations_of_their_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """No token of one server comes to another, and the failure of one login costs no other server."""
    good, bad = ProtectedScript(), ProtectedScript()
    bad.answers["/token"] = [(400, {"error": "invalid_grant"})] * 9
    store = MemoryTokenStore()
    entries = {
        "good": type(good.parameters())(
            URL, app=good, auth=oauth(good, store=store, client_id="a", issuer=ORIGIN)
        ),
        "bad": type(bad.parameters())(URL, app=bad, auth=oauth(bad, store=store, client_id="b", issuer=ORIGIN)),
        "none": type(bad.parameters())(URL, app=bad),
    }
    async with open_clients(entries) as group:
        await group.wait_ready("good")
        await group["good"].call_tool("x")
    assert set(good.seen) == {None, "access-1"}
    assert set(bad.seen) == {None}
