"""A server that is protected by OAuth, and a login by hand, step by step as clients do it.

The authorization server is the one for tests. Real ones are used the same way: a server needs their URL, no more.
Needs ``pip install trio-mcp[auth]``.

Run ``python examples/protected.py``. You see::

    401: Bearer challenge, metadata at /.well-known/oauth-protected-resource/mcp
    logged in; the token is for the server, and permits orders:read
    tools: whoami
    whoami: ann, by the client demo
    order: 403, this needs the scopes orders:write
    logged in again; tools: whoami, order
    order: Dune is on its way
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import socket
import urllib.error
import urllib.request
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import trio

from trio_mcp import Context, HttpServerParameters, RequestError, ResourceServer, Server, open_client, serve_http
from trio_mcp.testing import AuthorizationServer

CALLBACK = "http://127.0.0.1:3000/callback"

server = Server("orders")


@server.tool
async def whoami(ctx: Context) -> str:
    """Say who is calling."""
    assert ctx.principal is not None
    return f"{ctx.principal.subject}, by the client {ctx.principal.client_id}"


@server.tool(scopes={"orders:write"})
async def order(title: str) -> str:
    """Order a book."""
    return f"{title} is on its way"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow a redirect: a browser would, and the client would wait for it at `CALLBACK`."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        """Follow nothing."""


def fetch(url: str, form: dict[str, str] | None = None) -> tuple[int, Any, bytes]:
    """Return the status, the header fields and the body of an answer."""
    body = None if form is None else urlencode(form).encode()
    try:
        with urllib.request.build_opener(_Stay).open(url, body) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def log_in(url: str, scope: str) -> str:
    """Return a token for the server at a URL, of the authorization server that it names."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    resource = json.loads(fetch(place)[2])
    issuer = resource["authorization_servers"][0]
    metadata = json.loads(fetch(f"{issuer}/.well-known/oauth-authorization-server")[2])
    verifier, state = secrets.token_urlsafe(32), secrets.token_urlsafe(16)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": "demo",
        "redirect_uri": CALLBACK,
        "scope": scope,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": resource["resource"],
    }
    sent_back: str = fetch(f"{metadata['authorization_endpoint']}?{urlencode(asked)}")[1]["location"]
    answer = parse_qs(urlsplit(sent_back).query)
    assert (answer["state"], answer["iss"]) == ([state], [issuer])
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"][0],
        "client_id": "demo",
        "redirect_uri": CALLBACK,
        "code_verifier": verifier,
        "resource": resource["resource"],
    }
    token: str = json.loads(fetch(metadata["token_endpoint"], form)[2])["access_token"]
    return token


async def main() -> None:
    """Serve on free ports, and log in twice."""
    authorization = AuthorizationServer()
    authorization.add_client("demo", redirect_uris=[CALLBACK])
    async with authorization.serving() as issuer, trio.open_nursery() as nursery:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}/mcp"
        auth = ResourceServer(url, authorization_servers=[issuer], scopes={"orders:read"})
        await nursery.start(partial(serve_http, server, port=port, auth=auth))

        def fetched(*arguments: Any) -> Any:
            return trio.to_thread.run_sync(*arguments)

        status, headers, _ = await fetched(fetch, url, {})
        scheme, _, said = headers["www-authenticate"].partition(" ")
        where: str = said.partition('resource_metadata="')[2].partition('"')[0]
        place = urlsplit(where).path
        print(f"{status}: {scheme} challenge, metadata at {place}")

        token = await fetched(log_in, url, "orders:read")
        print("logged in; the token is for the server, and permits orders:read")
        own = HttpServerParameters(url, headers={"Authorization": f"Bearer {token}"})
        async with open_client(own) as client:
            print("tools:", ", ".join([tool.name async for tool in client.list_tools()]))
            print("whoami:", (await client.call_tool("whoami")).text)
            try:
                await client.call_tool("order", {"title": "Dune"})
            except RequestError as error:
                print("order: 403,", error.message.replace("orders:read, ", ""))

        token = await fetched(log_in, url, "orders:read orders:write")
        own = HttpServerParameters(url, headers={"Authorization": f"Bearer {token}"})
        async with open_client(own) as client:
            print("logged in again; tools:", ", ".join([tool.name async for tool in client.list_tools()]))
            print("order:", (await client.call_tool("order", {"title": "Dune"})).text)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
