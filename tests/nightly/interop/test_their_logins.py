"""The clients of other implementations log in to our authorization server, and use a server that it protects."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from environments import PYTHON_2_3, TYPESCRIPT_2_4, node

from trio_mcp import Context, ResourceServer, Server, serve_http
from trio_mcp.testing import AuthorizationServer

PROGRAMS: Final = Path(__file__).with_name("clients")
REVISIONS: Final = {"legacy": "2025-11-25", "auto": "2026-07-28"}


async def log_in(client: str, mode: str, url: str) -> dict[str, Any]:
    """Return what a client has found."""
    if client == "python":
        PYTHON_2_3.require()
        command = [str(PYTHON_2_3.python), str(PROGRAMS / "logging_in_python_2_3.py")]
        where = PROGRAMS
    else:
        TYPESCRIPT_2_4.require()
        command = [str(node()), str(PROGRAMS / "logging_in_typescript_2.mjs")]
        where = TYPESCRIPT_2_4.directory
    with trio.fail_after(60):
        done = await trio.run_process([*command, mode, url], cwd=where, capture_stdout=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
@pytest.mark.parametrize("mode", sorted(REVISIONS))
@pytest.mark.parametrize("client", ["python", "typescript"])
async def test_they_log_in_and_come_back_with_more(client: str, mode: str, http: Any) -> None:
    """Metadata, registration, PKCE, `resource`, `iss`; then the scopes that a tool needs, in both eras."""
    server: Server[Any] = Server("protected")

    @server.tool
    async def whoami(ctx: Context) -> str:
        assert ctx.principal is not None
        return ctx.principal.subject

    @server.tool(scopes={"orders:write"})
    async def order(title: str) -> str:
        return f"{title} is on its way"

    authorization = AuthorizationServer()
    async with authorization.serving() as issuer, trio.open_nursery() as nursery:
        with trio.socket.socket() as free:
            await free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}/mcp"
        auth = ResourceServer(url, authorization_servers=[issuer], scopes={"orders:read"})
        await nursery.start(partial(serve_http, server, port=port, http=http, auth=auth))
        found = await log_in(client, mode, url)
        nursery.cancel_scope.cancel()
    assert found == {
        "revision": REVISIONS[mode],
        "who": "ann",
        "order": "Dune is on its way",
        "tools": ["whoami", "order"],
        "pages": 2,
    }
    registered = [request for request in authorization.requests if request.path == "/register"]
    assert len(registered) == 1
