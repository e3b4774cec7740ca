"""Ways to log in beside a browser of this machine, clients that are a URL, and servers at a Unix socket."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trio
from inside_oauth import (
    metadata_document,
    open_listener,
)
from logging_in import log_in_at
from oauth_script import CALLBACK

from trio_mcp import (
    Auth,
    AuthorizationFailed,
    ClientCredentials,
    Context,
    DeviceCode,
    HttpServerParameters,
    McpASGI,
    MemoryTokenStore,
    OAuth,
    PrivateKeyJwt,
    ResourceServer,
    Server,
    StaticToken,
    open_client,
    serve_http,
)
from trio_mcp.testing import AuthorizationServer

RESOURCE = "http://localhost/mcp"


def make_server() -> Server[Any]:
    server: Server[Any] = Server("orders")

    @server.tool
    async def who(ctx: Context) -> str:
        assert ctx.principal is not None
        return f"{ctx.principal.subject}, {'bound' if 'cnf' in ctx.principal.claims else 'not bound'}"

    return server


# Unix sockets.


@pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")
@pytest.mark.parametrize("kind", ["token", "program", "person", "bound"])
async def test_a_server_at_a_unix_socket_is_logged_in_at(kind: str, tmp_path: Path) -> None:
    """Its metadata are asked for through its socket; tokens and proofs are for ``http://localhost``."""
    path = tmp_path / "mcp.sock"
    login = AuthorizationServer(dpop="required" if kind == "bound" else None)
    login.add_client("job", secret="s3cret")
    async with login.serving() as issuer, trio.open_nursery() as nursery:
        makers: dict[str, Callable[[], Auth]] = {
            "token": lambda: StaticToken(login.issue(resource=RESOURCE)),
            "program": lambda: ClientCredentials(client_id="job", client_secret="s3cret", issuer=issuer),
            "person": lambda: OAuth(open_page=log_in_at, listen=False, redirect_uri=CALLBACK),
            "bound": lambda: OAuth(open_page=log_in_at, listen=False, redirect_uri=CALLBACK),
        }
        auth = makers[kind]()
        protection = login.protect(RESOURCE, dpop="required" if kind == "bound" else "accepted")
        serve = partial(serve_http, make_server(), unix_path=path, auth=protection, http="lean")
        urls: tuple[str, ...] = await nursery.start(serve)
        assert urls == (f"http+unix://{quote(str(path), safe='')}/mcp",)
        async with open_client(urls[0], auth=auth) as client:
            said = (await client.call_tool("who")).text
        nursery.cancel_scope.cancel()
    assert (
        said
        == f"{'client_id=job' if kind == 'program' else 'ann'}, {'bound' if kind == 'bound' else 'not bound'}"
    )


async def test_a_code_is_entered_at_the_authorization_server_for_tests() -> None:
    """For one that binds tokens, too, and refuses whom nobody has let in."""
    login = AuthorizationServer()
    async with login.serving() as issuer:
        protection = ResourceServer(RESOURCE, authorization_servers=[issuer])
        app = McpASGI(make_server(), auth=protection)
        parameters = HttpServerParameters(RESOURCE, app=app)
        shown: list[str] = []

        def enter(code: DeviceCode) -> None:  # in a thread, as a plain function
            shown.append(code.user_code)
            with urllib.request.urlopen(code.verification_uri) as page:
                assert b"Which code was shown to you?" in page.read()
            assert code.verification_uri_complete is not None
            urllib.request.urlopen(code.verification_uri_complete).close()

        async with open_client(parameters, auth=OAuth(show_code=enter)) as client:
            assert (await client.call_tool("who")).text == "ann, not bound"
        login.dpop = "required"
        async with open_client(parameters, auth=OAuth(show_code=enter)) as client:
            assert (await client.call_tool("who")).text == "ann, bound"
        login.consent = "denied"
        with pytest.raises(AuthorizationFailed, match="access_denied: the person does not agree"):
            async with open_client(parameters, auth=OAuth(show_code=enter)):
                pass
    assert len(set(shown)) == 3
    assert login.grants["authorization_code"] == 0


# Where answers come to.


async def test_a_machine_without_ipv4_is_listened_on_as_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    open_tcp_listeners = trio.open_tcp_listeners

    async def only_ipv6(port: int, *, host: str) -> Any:
        if host == "127.0.0.1":
            raise OSError("no such address")
        return await open_tcp_listeners(port, host=host)

    monkeypatch.setattr(trio, "open_tcp_listeners", only_ipv6)
    try:
        (probe,) = await only_ipv6(0, host="::1")
        await probe.aclose()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with open_listener(None) as listener:
        assert listener.redirect_uri.startswith("http://[::1]:")
        assert listener.redirect_uri.endswith("/callback")
        answers: list[str] = []

        async def browse() -> None:
            url = f"{listener.redirect_uri}?code=c&state=s"
            read = partial(urllib.request.urlopen, url)
            answers.append((await trio.to_thread.run_sync(read)).read().decode())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(browse)
            assert (await listener.wait_answer(lambda _: True)).endswith("?code=c&state=s")
            await listener.finish(accepted=True)
    assert "You are logged in" in answers[0]


# Clients that are a URL.

CLIENT = "https://reader.example/client.json"


def key_for_tests() -> PrivateKeyJwt:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return PrivateKeyJwt(key=pem, key_id="k1")


async def test_a_client_that_is_a_url_proves_itself_by_its_key() -> None:
    key = key_for_tests()
    document = metadata_document(
        CLIENT, "Reader", ["http://127.0.0.1/callback", "http://localhost/callback"], key
    )
    (public,) = document["jwks"]["keys"]
    assert sorted(public) == ["alg", "crv", "kid", "kty", "use", "x", "y"]
    assert (document["token_endpoint_auth_method"], public["kid"], public["alg"]) == (
        "private_key_jwt",
        "k1",
        "ES256",
    )
    login = AuthorizationServer(documents={CLIENT: document}, registration=False)
    async with login.serving() as issuer:
        protection = ResourceServer(RESOURCE, authorization_servers=[issuer])
        parameters = HttpServerParameters(RESOURCE, app=McpASGI(make_server(), auth=protection))
        store = MemoryTokenStore()
        given: dict[str, Any] = {"open_page": log_in_at, "listen": False, "redirect_uri": CALLBACK}
        auth = OAuth(client_metadata_url=CLIENT, key=key, store=store, **given)
        async with open_client(parameters, auth=auth) as client:
            assert (await client.call_tool("who")).text == "ann, not bound"
        other = OAuth(client_metadata_url=CLIENT, key=key_for_tests(), **given)
        with pytest.raises(AuthorizationFailed, match="invalid_client"):
            async with open_client(parameters, auth=other):
                pass
        with pytest.raises(AuthorizationFailed, match="invalid_client"):
            async with open_client(parameters, auth=OAuth(client_metadata_url=CLIENT, **given)):
                pass
    forms = [each.parameters for each in login.requests if each.path == "/token"]
    assert all("client_secret" not in each for each in forms)
    assert forms[0]["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
