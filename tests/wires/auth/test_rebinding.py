"""Names that stand for another address each time: what counts is where a connection has gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from made_up_internet import Answer, Internet

from trio_mcp import (
    AuthorizationFailed,
    AuthorizationRefused,
    EnterpriseManaged,
    HttpServerParameters,
    MemoryTokenStore,
    OAuth,
    WebSocketServerParameters,
    open_client,
)

MCP, LOGIN = "93.184.216.34", "93.184.216.35"
PRIVATE = "10.1.2.3"
URL = "https://mcp.example/mcp"
METADATA = "/.well-known/oauth-protected-resource/mcp"


def protected(
    method: str,
    host: str,
    path: str,
    *,
    login: str = "https://login.example",
    more: Mapping[str, Answer] | None = None,
) -> Answer:
    """Answer as an MCP server and its authorization server do, until somebody would log in."""
    if more is not None and path in more:
        return more[path]
    if path == "/mcp":
        return 401, {"WWW-Authenticate": f'Bearer resource_metadata="https://{host}{METADATA}"'}, {}
    if path == METADATA:
        return 200, {}, {"resource": URL, "authorization_servers": [login]}
    if path == "/.well-known/oauth-authorization-server":
        found = {
            "issuer": login,
            "authorization_endpoint": f"{login}/authorize",
            "token_endpoint": f"{login}/token",
            "registration_endpoint": f"{login}/register",
            "code_challenge_methods_supported": ["S256"],
        }
        return 200, {}, found
    if path == "/register":
        return 201, {}, {"client_id": "c"}
    if path == "/token":
        return 200, {}, {"access_token": "t", "token_type": "Bearer", "refresh_token": "r"}
    return 404, {}, {}


async def log_in(internet: Internet, **options: Any) -> AuthorizationFailed:
    """Return why a login fails."""
    options = {"open_page": None, **options}
    with pytest.raises(AuthorizationFailed) as failed:
        async with open_client(HttpServerParameters(URL, http=internet.settings), auth=OAuth(**options)):
            pass
    return failed.value


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([MCP, PRIVATE], id="from the second time on"),
        pytest.param([MCP, PRIVATE, MCP], id="the second time"),
        pytest.param([MCP, MCP, PRIVATE, MCP], id="the third time"),
    ],
)
async def test_a_public_server_does_not_become_a_private_one_by_its_name(answers: list[str]) -> None:
    internet = Internet({"mcp.example": answers, "login.example": PRIVATE})
    async with internet.running({MCP: partial(protected), PRIVATE: partial(protected)}):
        error = await log_in(internet)
    assert "private" in str(error)
    assert PRIVATE not in internet.connected
    assert MCP in internet.connected


async def test_nor_does_one_that_is_reached_by_a_websocket() -> None:
    internet = Internet({"mcp.example": [MCP, PRIVATE, MCP], "login.example": PRIVATE})
    parameters = WebSocketServerParameters(URL.replace("https", "wss"), http=internet.settings)
    async with internet.running({MCP: partial(protected), PRIVATE: partial(protected)}):
        with pytest.raises(AuthorizationFailed, match="private"):
            async with open_client(parameters, auth=OAuth(open_page=None)):
                pass
    assert PRIVATE not in internet.connected


async def test_no_form_of_a_private_address_is_connected_to(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::a00:1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "2002:a00:1::1",
        "fe80::1%1",
        "fd00:ec2::254",
        "100.100.100.200",
        "0.0.0.0",
        "224.0.0.1",
        f"{LOGIN} 10.1.2.3",
    ]
    for address in cases:
        with subtests.test(address=address):
            internet = Internet({"mcp.example": MCP, "login.example": address})
            async with internet.running({MCP: partial(protected), LOGIN: partial(protected)}):
                assert "private" in str(await log_in(internet))
            assert set(internet.connected) == {MCP}


async def test_no_redirect_leads_elsewhere(subtests: pytest.Subtests) -> None:
    for where in ("https://login.example/x", "https://10.1.2.3/x", "https://169.254.169.254/x"):
        for status in (301, 302, 303, 307, 308):
            with subtests.test(where=where, status=status):
                internet = Internet({"mcp.example": MCP, "login.example": PRIVATE})
                elsewhere: Answer = (status, {"Location": where}, {})
                parameters = HttpServerParameters(URL, http=internet.settings)
                for path in (METADATA, "/mcp"):
                    site = partial(protected, more={path: elsewhere})
                    async with internet.running({MCP: site, PRIVATE: partial(protected)}):
                        with pytest.raises(Exception, match="redirect"):
                            async with open_client(parameters, auth=OAuth()):
                                pass
                assert set(internet.connected) == {MCP}


async def test_the_users_word_is_enough_for_a_private_network() -> None:
    """An identity provider at home, for a server on the internet; and an issuer there, whose endpoint is elsewhere."""
    idp, sts = "10.1.2.5", "10.1.2.6"
    names = {"mcp.example": MCP, "login.example": LOGIN, "idp.local": idp, "sts.local": sts}
    jag = "urn:ietf:params:oauth:token-type:id-jag"
    found = {"issuer": "https://idp.local", "token_endpoint": "https://sts.local/token"}
    more: dict[str, Answer] = {
        "/.well-known/oauth-authorization-server": (200, {}, found),
        "/token": (200, {}, {"access_token": "jag", "issued_token_type": jag, "token_type": "N_A"}),
    }
    employee = EnterpriseManaged(
        id_token=lambda: "id", idp_issuer="https://idp.local", idp_client_id="there", client_id="here"
    )
    internet = Internet(names)
    at_home = partial(protected, more=more)
    async with internet.running({MCP: partial(protected), LOGIN: partial(protected), idp: at_home, sts: at_home}):
        parameters = HttpServerParameters(URL, http=internet.settings)
        with pytest.raises(AuthorizationRefused):  # the token is not good
            async with open_client(parameters, auth=employee, era="modern"):
                pass
    assert [path for _, host, path in internet.asked if host == "login.example"][-1] == "/token"
    assert [path for _, host, path in internet.asked if host == "sts.local"] == ["/token"]

    internet = Internet({"mcp.example": MCP, "login.example": PRIVATE})
    async with internet.running({MCP: partial(protected), PRIVATE: partial(protected)}):
        assert "open_page=None" in str(await log_in(internet, issuer="https://login.example"))
    assert PRIVATE in internet.connected


@pytest.mark.parametrize("is_known", [False, True])
async def test_what_the_user_has_named_is_no_place_for_what_a_server_names(is_known: bool) -> None:
    """A challenge has the client call any path there: that is the server's word again."""
    there = f"https://login.example{'/admin/delete' if not is_known else METADATA}"
    challenge: Answer = (401, {"WWW-Authenticate": f'Bearer resource_metadata="{there}"'}, {})
    internet = Internet({"mcp.example": MCP, "login.example": PRIVATE})
    site = partial(protected, more={"/mcp": challenge})
    async with internet.running({MCP: site, PRIVATE: partial(protected)}):
        error = await log_in(internet, issuer="https://login.example")
        assert "private" in str(error)
    assert PRIVATE not in internet.connected


async def test_a_server_in_a_private_network_sends_nobody_to_this_machine() -> None:
    internet = Internet({"mcp.example": PRIVATE, "login.example": "127.0.0.1"})
    async with internet.running({PRIVATE: partial(protected), "127.0.0.1": partial(protected)}):
        assert "nearer than the server" in str(await log_in(internet))
    assert set(internet.connected) == {PRIVATE}


async def test_a_server_in_a_private_network_may_have_its_authorization_server_there() -> None:
    internet = Internet({"mcp.example": PRIVATE, "login.example": "10.1.2.4"})
    async with internet.running({PRIVATE: partial(protected), "10.1.2.4": partial(protected)}):
        assert "open_page=None" in str(await log_in(internet))
    assert "10.1.2.4" in internet.connected


async def test_clouds_keep_their_secrets_from_servers_in_private_networks() -> None:
    for address in ("169.254.169.254", "fd00:ec2::254"):
        internet = Internet({"mcp.example": PRIVATE, "login.example": address})
        async with internet.running({PRIVATE: partial(protected)}):
            assert "clouds" in str(await log_in(internet)) or "private" in str(await log_in(internet))
        assert set(internet.connected) == {PRIVATE}


@pytest.mark.parametrize("was_local", [True, False])
async def test_logging_out_goes_by_where_the_server_was(was_local: bool) -> None:
    """Nobody is connected then, and the name may stand for anything."""
    internet = Internet({"mcp.example": PRIVATE, "login.example": PRIVATE})
    auth = OAuth(store=MemoryTokenStore())
    token: dict[str, Any] = {
        "access_token": "t",
        "token_type": "Bearer",
        "resource": URL,
        "issuer": "https://login.example",
    }
    token |= {"requested": None, "granted": None, "expires_at": None}
    async with internet.running({PRIVATE: partial(protected)}):
        await auth.store.set(f"token person  {URL}", json.dumps({**token, "is_local": was_local}))
        assert await auth.log_out(URL)
    assert (PRIVATE in internet.connected) is was_local


async def test_where_a_server_was_is_stored_with_its_token() -> None:
    for where in (PRIVATE, MCP):
        internet = Internet({"mcp.example": where, "login.example": where})
        store = MemoryTokenStore()

        def visit(url: str) -> str:
            state = url.partition("state=")[2].partition("&")[0]
            return f"http://localhost:3000/x?code=c&state={state}"

        auth = OAuth(store=store, open_page=visit, redirect_uri="http://localhost:3000/x", listen=False)
        async with internet.running({where: partial(protected)}):
            with pytest.raises(AuthorizationRefused):  # the token is not good, either
                async with open_client(HttpServerParameters(URL, http=internet.settings), auth=auth):
                    pass
        stored = json.loads(await store.get(f"token person  {URL}") or "{}")
        assert stored["is_local"] is (where == PRIVATE)
