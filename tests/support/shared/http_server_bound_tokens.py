"""What the tests of bound tokens share in several layers."""

from __future__ import annotations

import json
import time
from typing import Any

from http_raw import call_tool
from inside_protection import (
    DpopKey,
    Pool,
)

from trio_mcp import (
    Context,
    HttpServerParameters,
    HttpSettings,
    JwtVerifier,
    ResourceServer,
    Server,
    open_client,
)
from trio_mcp.testing import AuthorizationServer

ISSUER = "https://login.test"

RESOURCE = "http://localhost:8000/mcp"

AUTHORIZATION = AuthorizationServer(issuer=ISSUER)

KEY = DpopKey()


def make_server() -> Server[Any]:
    server: Server[Any] = Server("protected")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return repr(ctx.principal)

    return server


def protection(**options: Any) -> ResourceServer:
    verifier = JwtVerifier(ISSUER, jwks=AUTHORIZATION.jwks())
    given: dict[str, Any] = {"verifier": verifier, **options}
    return ResourceServer(RESOURCE, authorization_servers=[ISSUER], **given)


def memory(most: int = 1_000_000) -> Pool:
    return Pool("max_kept_bytes", most)


TOKEN = AUTHORIZATION.issue(resource=RESOURCE, key=KEY.thumbprint)

BODY = json.dumps(call_tool("whoami")).encode()


def proof(**changes: Any) -> str:
    given: dict[str, Any] = {"access_token": TOKEN, "body": BODY, **changes}
    given["now"] = time.time() - given.pop("ago", 0)
    key: DpopKey = given.pop("by", KEY)
    return key.prove(given.pop("method", "POST"), given.pop("url", RESOURCE), **given)


def signed(proof: str, token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"DPoP {token}", "DPoP": proof}


async def whoami(url: str, settings: HttpSettings, token: str | None = None) -> str:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with open_client(HttpServerParameters(url, headers=headers, http=settings)) as client:
        content: Any = (await client.call_tool("whoami")).content
        return str(content[0].text)
