"""Log in with the Python SDK 2.3: ``logging_in_python_2_3.py MODE URL``. Prints what the server has said, as JSON."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN201
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import json
import sys
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp import Client
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


class Memory:
    """Where tokens are kept."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Browser:
    """Opens the page, and notes where it is sent back to."""

    back = ""
    pages = 0

    async def open(self, url):
        self.pages += 1
        async with httpx2.AsyncClient() as http:
            self.back = (await http.get(url)).headers["location"]

    async def answer(self):
        found = parse_qs(urlsplit(self.back).query)
        return AuthorizationCodeResult(**{name: found[name][0] for name in ("code", "state", "iss")})


async def main(mode, url):
    browser = Browser()
    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(redirect_uris=["http://127.0.0.1:3000/callback"], client_name="theirs"),
        Memory(),
        browser.open,
        browser.answer,
    )
    async with httpx2.AsyncClient(auth=provider) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode) as client:
            who = await client.call_tool("whoami", {})
            ordered = await client.call_tool("order", {"title": "Dune"})
            listed = await client.list_tools()
            found = {
                "revision": client.protocol_version,
                "who": who.content[0].text,
                "order": ordered.content[0].text,
                "tools": [tool.name for tool in listed.tools],
                "pages": browser.pages,
            }
    print(json.dumps(found))


mode, url = sys.argv[1:]
anyio.run(main, mode, url)
