"""How every server in Python is reached: ``program.py [TRANSPORT [OPTION…]]``, over stdio unless told otherwise.

The transports are those of the SDKs, at a port that is free, which the web server beneath them says; the options are
``json`` and ``stateless``.
"""

# It runs in other environments, on several versions of packages that are not installed in this one.
# ruff: noqa: ANN001, ANN201, ANN202, ANN204
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import contextlib
import sys

import anyio

TRANSPORT, *OPTIONS = sys.argv[1:] or ["stdio"]
SHAPES = {"json_response": "json" in OPTIONS, "stateless_http": "stateless" in OPTIONS}


class Events:
    """Keeps what was said on streams for those who take them up again."""

    def __init__(self):
        self._said = []

    async def store_event(self, stream_id, message):
        self._said.append((stream_id, message))
        return str(len(self._said) - 1)

    async def replay_events_after(self, last_event_id, send_callback):
        from mcp.server.streamable_http import EventMessage

        last = int(last_event_id)
        stream = self._said[last][0]
        for number, (stream_id, message) in enumerate(self._said[last + 1 :], last + 1):
            if stream_id == stream and message is not None:  # nothing is said by what only marks a place
                await send_callback(EventMessage(message, str(number)))
        return stream


def run_fastmcp(server):
    """Run FastMCP of the SDK, version 1."""
    server.settings.host, server.settings.port = "127.0.0.1", 0
    server.settings.log_level = "INFO"
    if TRANSPORT == "streamable-http":
        server.settings.json_response, server.settings.stateless_http = SHAPES.values()
        server._event_store = Events()
    server.run(TRANSPORT)


def run_mcpserver(server):
    """Run MCPServer of the SDK, version 2."""
    if TRANSPORT == "streamable-http":
        server.run(TRANSPORT, port=0, event_store=Events(), **SHAPES)
    elif TRANSPORT == "sse":
        server.run(TRANSPORT, port=0)
    else:
        server.run(TRANSPORT)


def run_lowlevel(server):
    """Run the low-level server of any version."""
    if TRANSPORT == "stdio":
        anyio.run(_serve_stdio, server)
    elif TRANSPORT == "sse":
        _serve_app(_sse_app(server))
    elif hasattr(server, "streamable_http_app"):
        _serve_app(server.streamable_http_app(event_store=Events(), **SHAPES))
    else:
        _serve_app(_streamable_http_app(server))


async def _serve_stdio(server):
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def _serve_app(app):
    import uvicorn

    uvicorn.run(app, port=0)


def _sse_app(server):
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("/messages/")

    async def serve(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
            await server.run(*streams, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", serve), Mount("/messages/", transport.handle_post_message)])


def _streamable_http_app(server):
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Route

    json_response, stateless = SHAPES.values()
    manager = StreamableHTTPSessionManager(server, Events(), json_response, stateless)

    class Endpoint:
        async def __call__(self, scope, receive, send):
            await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def run(_):
        async with manager.run():
            yield

    return Starlette(routes=[Route("/mcp", Endpoint())], lifespan=run)
