"""What a server serves beside the protocol: functions, an ASGI application, its health; and WebSockets with a token."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
from http_raw import Raw, call_tool, open_raw
from inside_http import parse_target
from shared.http_server_routes import make_server
from starlette.applications import Starlette
from starlette.routing import Mount

from trio_mcp import (
    HttpCall,
    HttpServerSettings,
    McpASGI,
    ResourceServer,
    open_asgi_client,
    open_endpoint,
)
from trio_mcp.testing import AuthorizationServer


async def test_a_path_is_served_once() -> None:
    """Whoever gives one twice has made a mistake."""

    async def never(call: HttpCall) -> None:
        pass

    with pytest.raises(ValueError, match="'/mcp'"):
        async with open_endpoint(make_server(), routes={"/mcp/": never}):
            raise AssertionError
    auth = ResourceServer("https://mcp.test/mcp", authorization_servers=["https://login.test"])

    async def authenticate(call: HttpCall) -> str:
        return "ann"

    with pytest.raises(ValueError, match="not both"):
        async with open_endpoint(make_server(), auth=auth, authenticate=authenticate):
            raise AssertionError
    with pytest.raises(ValueError, match="stdio"):
        make_server().run("stdio", auth=auth)


@pytest.mark.parametrize("taken", ["/old/sse", "/old/messages", "/elsewhere"])
def test_a_program_serves_http_sse_where_its_settings_say(taken: str) -> None:
    """`run("sse")` puts it at ``/sse`` only if they do not; a route cannot be where it is served."""

    async def never(call: HttpCall) -> None:
        raise NotImplementedError

    settings = HttpServerSettings(sse="/old/sse")
    with pytest.raises(ValueError, match=f"the endpoint itself is served at '{taken}'"):
        make_server().run("sse", port=0, path="/elsewhere", settings=settings, routes={taken: never})


async def test_health_is_served_by_any_name() -> None:
    """Probes use addresses; nothing is given away."""
    async with open_raw(make_server(), HttpServerSettings(health_path="/health")) as raw:
        raw.target = attrs.evolve(raw.target, host="10.0.0.7")
        assert (await raw.send(method="GET", path="/health")).status == 200
        assert (await raw.send(method="GET", path="/mcp")).status == 421


async def test_a_mounted_application_has_its_metadata_at_the_root() -> None:
    """RFC 9728, section 3.1: the path of the resource comes behind the well-known one."""
    authorization = AuthorizationServer(issuer="https://login.test")
    app = McpASGI(make_server(), auth=authorization.protect("https://mcp.test/tools/mcp"))

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        async with app.running():
            yield

    outer = Starlette(
        routes=[Mount("/.well-known", app=app.well_known), Mount("/tools", app=app)], lifespan=lifespan
    )
    async with open_asgi_client(outer) as transport:
        raw = Raw(transport, parse_target("http://localhost/tools/mcp"))
        refused = await raw.send(call_tool("whoami"))
        assert refused.status == 401
        url = "https://mcp.test/.well-known/oauth-protected-resource/tools/mcp"
        assert f'resource_metadata="{url}"' in refused.headers["www-authenticate"]
        for path in ("/tools/mcp", ""):
            found = await raw.send(method="GET", path=f"/.well-known/oauth-protected-resource{path}")
            assert found.message["resource"] == "https://mcp.test/tools/mcp"
        own = {"Authorization": f"Bearer {authorization.issue(resource='https://mcp.test/tools/mcp')}"}
        assert (await raw.send(call_tool("whoami"), own)).status == 200
