"""What somebody reads whose server cannot be reached, does not start, or is none: what was found, and what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from shared.client_what_connecting_says import said_by

from trio_mcp import (
    HttpServerParameters,
    HttpStatusError,
    RemoteProtocolError,
    open_client,
)

pytestmark = pytest.mark.timeout(60)


# URLs.


def application(status: int, content_type: str, body: bytes) -> Any:
    """Return an ASGI application that answers everything so."""

    async def answer(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        headers = [(b"content-type", content_type.encode())] if content_type else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


PAGE = b"<!DOCTYPE html>\n<html>\n  <title>Sign in</title>"


async def test_what_is_no_endpoint_is_quoted(subtests: pytest.Subtests) -> None:
    """With the whole URL, but for its query, which may be a secret."""
    rows: list[tuple[int, str, bytes, type[Exception], str]] = [
        (
            200,
            "text/html; charset=utf-8",
            PAGE,
            RemoteProtocolError,
            (
                "the server at http://localhost/wiki answered with text/html instead of a message: "
                "'<!DOCTYPE html> <html> <title>Sign in</title>'; "
                "is this the URL of its MCP endpoint? Often that ends in /mcp"
            ),
        ),
        (
            200,
            "",
            b"ok",
            RemoteProtocolError,
            (
                "the server at http://localhost/wiki answered with a body without a type instead of a message: 'ok'; "
                "is this the URL of its MCP endpoint? Often that ends in /mcp"
            ),
        ),
        (
            200,
            "application/json",
            b'{"hello": 1}',
            RemoteProtocolError,
            (
                'the server at http://localhost/wiki answered with an invalid message: jsonrpc must be "2.0"; '
                "is this the URL of its MCP endpoint? Often that ends in /mcp"
            ),
        ),
        (
            404,
            "text/html",
            b"<h1>Not Found</h1>",
            HttpStatusError,
            (
                "http://localhost/wiki answered with HTTP status 404 "
                "(is this the URL of its MCP endpoint? Often that ends in /mcp), text/html: <h1>Not Found</h1>"
            ),
        ),
        (
            405,
            "application/json",
            b'{"detail": "Method Not Allowed"}',
            HttpStatusError,
            (
                "http://localhost/wiki answered with HTTP status 405 "
                "(is this the URL of its MCP endpoint? Often that ends in /mcp), application/json: "
                '{"detail": "Method Not Allowed"}'
            ),
        ),
        (
            501,
            "text/html;charset=utf-8",
            b"<h1>Error response</h1>",
            HttpStatusError,
            (
                "http://localhost/wiki answered with HTTP status 501 "
                "(is this the URL of its MCP endpoint? Often that ends in /mcp), text/html: <h1>Error response</h1>"
            ),
        ),
        (
            403,
            "text/HTML",
            PAGE,
            HttpStatusError,
            (
                "http://localhost/wiki answered with HTTP status 403 (is this the URL of its MCP endpoint? Often "
                "that ends in /mcp), text/html: <!DOCTYPE html>\\n<html>\\n  <title>Sign in</title>"
            ),
        ),
        (
            502,
            "text/html",
            b"<h1>Bad Gateway</h1>",
            HttpStatusError,
            "http://localhost/wiki answered with HTTP status 502, text/html: <h1>Bad Gateway</h1>",
        ),
        (
            500,
            "text/plain",
            b"boom",
            HttpStatusError,
            "http://localhost/wiki answered with HTTP status 500, text/plain: boom",
        ),
    ]
    for status, content_type, body, kind, said in rows:
        with subtests.test(status=status, content_type=content_type, body=body, kind=kind):
            url = "http://localhost/wiki?key=secret"
            assert (
                await said_by(HttpServerParameters(url, app=application(status, content_type, body)), kind)
                == said
            )


async def test_where_an_endpoint_often_is_is_said_of_another_url_alone() -> None:
    """The hint helps nobody whose URL ends like that."""
    app = application(404, "text/html", b"<h1>Not Found</h1>")
    assert await said_by(HttpServerParameters("http://localhost/mcp", app=app), HttpStatusError) == (
        "http://localhost/mcp answered with HTTP status 404 (is this the URL of its MCP endpoint?), "
        "text/html: <h1>Not Found</h1>"
    )


async def test_what_is_no_url_is_said() -> None:
    """A path, a command, or a URL without its scheme."""
    with pytest.raises(ValueError, match=r"URL") as caught:
        async with open_client("example.com/mcp"):
            raise AssertionError
    assert str(caught.value) == (
        "a string must be the URL of a server, such as 'https://example.com/mcp', not 'example.com/mcp'; "
        "a program is started by StdioServerParameters(command, args)"
    )
