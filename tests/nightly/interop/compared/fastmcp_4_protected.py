"""A server that takes JWTs of one issuer, made for it; to order, one needs a scope more: ``fastmcp_4_protected.py ISSUER PORT``."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import JWTVerifier, RemoteAuthProvider, require_scopes
from fastmcp.server.dependencies import get_access_token

issuer, port = sys.argv[1], int(sys.argv[2])
url = f"http://127.0.0.1:{port}"
verifier = JWTVerifier(
    jwks_uri=f"{issuer}/jwks",
    issuer=issuer,
    audience=f"{url}/mcp",
    algorithm="ES256",
    required_scopes=["orders:read"],
)
auth = RemoteAuthProvider(token_verifier=verifier, authorization_servers=[issuer], base_url=url)
server = FastMCP("orders", auth=auth)


@server.tool
async def whoami() -> str:
    """Say who is calling."""
    return f"{get_access_token().claims['sub']}"


@server.tool(auth=require_scopes("orders:write"))
async def order(title: str) -> str:
    """Order a book."""
    return f"{title} is on its way"


server.run(transport="http", port=port)
