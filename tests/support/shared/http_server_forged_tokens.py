"""What the tests of forged tokens share in several layers."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from http_raw import Raw, call_tool, open_raw
from joserfc.jwk import ECKey, OKPKey

from trio_mcp import (
    Context,
    JwtVerifier,
    ResourceServer,
    Server,
)

ISSUER = "https://login.test"

RESOURCE = "https://mcp.test/mcp"

KEY = ECKey.generate_key("P-256", {"kid": "ours", "use": "sig"})

EDWARDS = OKPKey.generate_key("Ed25519", {"kid": "edwards"})

JWKS: dict[str, Any] = {"keys": [KEY.as_dict(private=False), EDWARDS.as_dict(private=False)]}


def make_server() -> Server[Any]:
    server: Server[Any] = Server("protected")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    return server


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    said = {"iss": ISSUER, "sub": "ann", "aud": RESOURCE, "exp": now + 600, "iat": now, **changes}
    return {name: value for name, value in said.items() if value is not ...}


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def signed(header: dict[str, Any] | None = None, by: Any = KEY, **changes: Any) -> str:
    return signed_text(json.dumps({"alg": "ES256", "kid": "ours", **(header or {})}), by, claims(**changes))


def signed_text(header: str, by: Any, said: dict[str, Any] | str) -> str:
    """Return a token with any header, written by hand."""
    payload = said if isinstance(said, str) else json.dumps(said)
    text = f"{encoded(header)}.{encoded(payload)}"
    name = {"EC": "ES256", "OKP": "EdDSA"}[by.key_type]
    from joserfc.jws import JWSRegistry

    signature: bytes = JWSRegistry.algorithms[name].sign(text.encode(), by)
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@asynccontextmanager
async def protected(verifier: Any = None, **options: Any) -> AsyncGenerator[Raw]:
    given: dict[str, Any] = {
        "authorization_servers": [ISSUER],
        "verifier": verifier or JwtVerifier(ISSUER, jwks=JWKS),
        **options,
    }
    async with open_raw(make_server(), auth=ResourceServer(RESOURCE, **given)) as raw:
        yield raw


async def ask(raw: Raw, token: str) -> tuple[int, str]:
    answer = await raw.send(call_tool("whoami"), {"Authorization": f"Bearer {token}"})
    return answer.status, answer.headers.get("www-authenticate", "")
