"""What other sides quote of our secrets, in errors of every kind: no log, text, body or `repr` shows it."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import quote

import pytest
import trio
import trio.testing
from authorization_pages import shows
from http_sessions import URL
from inside_base import repetitions
from oauth_script import METADATA, ORIGIN, ProtectedScript, oauth

from trio_mcp import (
    Auth,
    AuthorizationFailed,
    AuthorizationRefused,
    ClientCredentials,
    EnterpriseManaged,
    HttpServerParameters,
    McpError,
    RequestError,
    StaticToken,
    WorkloadIdentity,
    open_client,
)

SECRET = "s3cret-of-the-client"
PLATFORM = "p1atform-token/with+signs="
ID_TOKEN = "id-t0ken-of-the-person"
JAG = "j4g-of-the-organisation"
BEARER = "b3arer-token-of-somebody"


def shown_of(error: BaseException) -> str:
    """Return all that anybody can see of an error."""
    members = {name: repr(value) for name, value in vars(error).items()}
    return "".join([*traceback.TracebackException.from_exception(error).format(), repr(error), repr(members)])


def quoted(form: Any, headers: Any) -> list[str]:
    """Return ways to quote what was sent: as it is, encoded, cut, and more than is shown of a text."""
    secrets = [value for name, value in form.items() if name not in ("grant_type", "resource", "scope")]
    secrets += [headers.get("authorization", ""), headers.get("dpop", "")]
    whole = " and ".join(filter(None, secrets))
    return [
        f"cannot use {whole}",
        f"cannot use {quote(whole, safe='')}",
        f"cannot use {'; '.join(each[: len(each) * 2 // 3] for each in secrets)}",
        "x" * 290 + whole,
    ]


def quoting(script: ProtectedScript, path: str, way: int, status: int = 400) -> list[str]:
    """Let a path answer with what it was sent; returns that."""
    sent: list[str] = []
    answer = script._answer

    def quote_it(asked: str, form: Any, headers: Any) -> tuple[int, Any]:
        if asked != path or (form.get("grant_type") == "authorization_code" and not sent and way < 0):
            return answer(asked, form, headers)
        names = {"code", "code_verifier", "refresh_token", "client_secret", "assertion", "subject_token", "token"}
        sent.extend(value for name, value in form.items() if name in names | {"client_assertion", "device_code"})
        text = quoted(form, headers)[way]
        return status, {"error": "invalid_grant", "error_description": text, "more": {text: [text]}}

    script._answer = cast("Any", quote_it)  # type: ignore[method-assign]
    return sent


@shows("Token Theft")
async def test_what_an_authorization_server_quotes_is_not_shown(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:

    async def check(way: int, kind: str, status: int) -> None:
        caplog.clear()
        repetitions.forget()
        script = ProtectedScript()
        method = {"basic": "client_secret_basic", "employee": "client_secret_post"}.get(kind, "none")
        script.server["token_endpoint_auth_methods_supported"] = [
            method if kind != "post" else "client_secret_post"
        ]
        script.server["device_authorization_endpoint"] = f"{ORIGIN}/device"
        jag = "urn:ietf:params:oauth:token-type:id-jag"
        script.answers["/idp"] = [(200, {"access_token": JAG, "issued_token_type": jag})] if kind != "idp" else []
        employee: Callable[[], Auth] = lambda: EnterpriseManaged(  # noqa: E731 - one of several
            id_token=lambda: ID_TOKEN,
            idp_token_endpoint=f"{ORIGIN}/idp",
            idp_client_id="there",
            idp_client_secret=SECRET,
            client_id="me",
            client_secret=SECRET if kind == "employee" else None,
        )
        auth = {
            "person": lambda: oauth(script),
            "code": lambda: oauth(script, show_code=print),
            "post": lambda: ClientCredentials(client_id="me", client_secret=SECRET),
            "basic": lambda: ClientCredentials(client_id="me", client_secret=SECRET),
            "workload": lambda: WorkloadIdentity(token=lambda: PLATFORM, dpop=True),
            "employee": employee,
            "idp": employee,
        }[kind]()
        sent = quoting(script, {"idp": "/idp", "code": "/device"}.get(kind, "/token"), way, status)
        with caplog.at_level(logging.DEBUG), pytest.raises(AuthorizationFailed) as failed:
            async with open_client(script.parameters(), auth=auth):
                pass
        if kind != "code" and way < 3:
            assert "***" in str(failed.value)
            assert sent or kind == "basic"
        text = shown_of(failed.value) + caplog.text
        for secret in (SECRET, PLATFORM, ID_TOKEN, JAG, *sent):
            for part in (secret, quote(secret, safe=""), secret[:12]):
                assert part not in text

    for way in range(4):
        for kind in ("person", "post", "basic", "workload", "employee", "idp", "code"):
            for status in (400, 503):
                with subtests.test(way=way, kind=kind, status=status):
                    await check(way, kind, status)


async def test_what_is_quoted_while_a_token_is_refreshed_is_not_logged(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    script = ProtectedScript()
    with caplog.at_level(logging.DEBUG):
        async with open_client(script.parameters(), auth=oauth(script)) as client:
            await client.call_tool("one")
            script.tokens.clear()
            script.answers["/token"] = [
                (400, {"error": "invalid_grant", "error_description": "no such token: refresh-1"})
            ]
            await client.call_tool("two")
    assert "does not refresh the token" in caplog.text
    assert "no such token: ***" in caplog.text
    assert "refresh-1" not in caplog.text


async def test_what_comes_back_with_a_login_is_not_shown(autojump_clock: trio.testing.MockClock) -> None:
    """The browser can be sent back with anything, the code and the state among it."""
    script = ProtectedScript()
    states: list[str] = []

    async def visit(url: str) -> str:
        await trio.lowlevel.checkpoint()
        answer = script.visit(url)
        state = answer.partition("state=")[2].partition("&")[0]
        states.append(state)
        return f"{answer}&error=x-{state}&error_description=about+code-1,+{state}"

    with pytest.raises(AuthorizationFailed, match=r"x-\*\*\*") as failed:
        async with open_client(script.parameters(), auth=oauth(script, open_page=visit)):
            pass
    assert "code-1" not in shown_of(failed.value)
    assert states[0] not in shown_of(failed.value)


async def test_a_token_in_the_wrong_place_is_not_shown(autojump_clock: trio.testing.MockClock) -> None:
    for answer in (
        {"access_token": BEARER, "token_type": BEARER},
        {"access_token": BEARER, "token_type": "mac"},
    ):
        script = ProtectedScript()
        script.answers["/token"] = [(200, answer)]
        with pytest.raises(AuthorizationFailed, match="issued a token of the type") as failed:
            async with open_client(script.parameters(), auth=oauth(script)):
                pass
        assert BEARER not in shown_of(failed.value)


# The server itself.


def server_that_quotes(status: int, body: str, kind: str, headers: dict[str, str]) -> Any:
    """Return an application that answers each request so, with the token in place of ``TOKEN``."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        token = sent.get("authorization", "") or sent.get("x-api-key", "")
        fields = [(b"content-type", kind.encode())]
        fields += [(name.encode(), value.replace("TOKEN", token).encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body.replace("TOKEN", token).encode()})

    return app


RPC = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -5, "message": "no: TOKEN", "data": {"x": ["TOKEN"]}}}
)


@shows("Token Theft")
async def test_what_a_server_quotes_is_not_shown(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    rows: list[tuple[int, str, str, dict[str, str]]] = [
        (401, "unknown TOKEN", "text/plain", {"www-authenticate": 'Bearer error="x", error_description="TOKEN"'}),
        (
            401,
            "",
            "text/plain",
            {"www-authenticate": 'Bearer scope="TOKEN", resource_metadata="https://a/?TOKEN"'},
        ),
        (403, "{}", "application/json", {"www-authenticate": 'Bearer error="TOKEN"'}),
        (401, RPC, "application/json", {}),
        (400, RPC, "application/json", {}),
        (500, "<p>headers: TOKEN", "text/html", {}),
        (302, "", "text/plain", {"location": "https://elsewhere.test/TOKEN"}),
        (200, RPC, "application/json", {}),
        (200, "you have sent TOKEN", "text/plain", {}),
        (200, f"data: {RPC}\n\n", "text/event-stream", {}),
        (502, "x", "text/TOKEN", {}),
    ]
    for status, body, kind, headers in rows:
        for speaks in ("modern", "legacy"):
            for given in ("auth", "header", "key", "basic"):
                with subtests.test(
                    status=status, body=body, kind=kind, headers=headers, speaks=speaks, given=given
                ):
                    caplog.clear()
                    repetitions.forget()
                    fields = {
                        "auth": {},
                        "header": {"Authorization": f"Bearer {BEARER}"},
                        "key": {"X-Api-Key": BEARER},
                        "basic": {"Authorization": "Basic " + "bWU6YjNhcmVyLXRva2VuLW9mLXNvbWVib2R5"},
                    }[given]
                    auth = StaticToken(BEARER) if given == "auth" else None
                    parameters = HttpServerParameters(
                        URL, app=server_that_quotes(status, body, kind, headers), headers=fields, auth=auth
                    )
                    with caplog.at_level(logging.DEBUG), pytest.raises(McpError) as failed:
                        async with open_client(parameters, era=speaks):
                            pass
                    text = shown_of(failed.value) + caplog.text
                    for secret in (BEARER, "bWU6YjNhcmVyLXRva2VuLW9mLXNvbWVib2R5"):
                        assert secret not in text
                    if isinstance(failed.value, RequestError) and headers == {} and body == RPC:
                        assert failed.value.message.startswith("no: ")
                        assert "***" in failed.value.message
                    if isinstance(failed.value, RequestError) and status == 500:
                        assert cast("Any", failed.value.data)["body"].endswith("***")


async def test_what_a_call_returns_is_not_changed(autojump_clock: trio.testing.MockClock) -> None:
    """A tool may say what it likes; nobody has asked for an error."""
    script = ProtectedScript()
    script.tokens[BEARER] = frozenset({"mcp"})

    async def say(call: Any) -> None:
        await script.mcp.reply(call, content=[{"type": "text", "text": f"error: {BEARER}"}])

    script.mcp.handlers["tools/call"] = say
    async with open_client(script.parameters(), auth=StaticToken(BEARER)) as client:
        assert (await client.call_tool("one")).text == f"error: {BEARER}"


async def test_what_is_not_only_for_people_is_masked_as_a_whole_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A key may have a part of an address in it by chance, and where a login begins must stay what it is."""
    script = ProtectedScript()
    key = f"{ORIGIN}/.well-known/of-somebody"
    fields = {"X-Api-Key": key}
    async with open_client(script.parameters(headers=fields), auth=oauth(script)) as client:
        await client.call_tool("one")
    with pytest.raises(AuthorizationRefused) as refused:
        async with open_client(script.parameters(headers=fields)):
            pass
    assert refused.value.resource_metadata == f"{ORIGIN}{METADATA}"


async def test_a_secret_that_is_a_word_of_a_code_changes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    auth = oauth(script, client_id="me", client_secret="grant", issuer=ORIGIN)
    async with open_client(script.parameters(), auth=auth) as client:
        await client.call_tool("one")
        script.tokens.clear()
        script.refresh_tokens.clear()
        await client.call_tool("two")
    assert script.grants() == ["authorization_code", "refresh_token", "authorization_code"]
    script.answers["/token"] = [(400, {"error": ["grant"]}), (400, {"error": "invalid_grant"})]
    for error in (None, "invalid_grant"):
        script.tokens.clear()
        script.refresh_tokens.clear()
        with pytest.raises(AuthorizationFailed) as failed:
            async with open_client(
                script.parameters(), auth=oauth(script, client_id="me", client_secret="grant")
            ):
                pass
        assert failed.value.error == error
