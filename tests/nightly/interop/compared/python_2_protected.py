"""A server that takes JWTs of one issuer, made for it; to order, one needs a scope more: ``python_2_protected.py ISSUER PORT``."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false

import sys

import anyio.to_thread
import jwt
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

issuer, port = sys.argv[1], int(sys.argv[2])
url = f"http://127.0.0.1:{port}/mcp"
keys = jwt.PyJWKClient(f"{issuer}/jwks")


class Verifier:
    """Verifies tokens; this library leaves it to its users."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token says, if it is good."""
        try:
            key = await anyio.to_thread.run_sync(keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(token, key, algorithms=["ES256", "RS256"], audience=url, issuer=issuer)
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
            resource=url,
            subject=claims["sub"],
        )


auth = AuthSettings(
    issuer_url=issuer, resource_server_url=url, required_scopes=["orders:read"], validate_token_resource=True
)
server = MCPServer("orders", token_verifier=Verifier(), auth=auth)


@server.tool()
async def whoami() -> str:
    """Say who is calling."""
    return f"{get_access_token().subject}"


@server.tool()
async def order(title: str) -> str:
    """Order a book."""
    if "orders:write" not in get_access_token().scopes:
        raise ToolError("this needs the scope orders:write")
    return f"{title} is on its way"


server.run("streamable-http", port=port)
