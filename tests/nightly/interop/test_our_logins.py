"""Our client logs in to servers of other implementations, by their own authorization servers."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest
import trio
from environments import PYTHON_2_3, TYPESCRIPT_1_32, TYPESCRIPT_2_4, node
from listening import open_listener
from logging_in import log_in_at

from trio_mcp import MemoryTokenStore, OAuth, open_client

PROGRAMS: Final = Path(__file__).with_name("servers")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


async def _wait_listening(port: int) -> None:
    """Wait until somebody listens; a process that does not say where it is leaves nothing else to look at."""
    while True:
        try:
            await (await trio.open_tcp_stream("localhost", port)).aclose()
        except OSError:
            await trio.sleep(0.05)
        else:
            return


async def test_we_log_in_at_a_server_of_the_typescript_sdk() -> None:
    """By the authorization server of its own demonstration, which issues tokens for the right resource only."""
    TYPESCRIPT_1_32.require()
    program = (
        TYPESCRIPT_1_32.package("@modelcontextprotocol/sdk") / "dist/esm/examples/server/simpleStreamableHttp.js"
    )
    ports = {"MCP_PORT": _free_port(), "MCP_AUTH_PORT": _free_port()}
    pages: list[str] = []

    async def open_page(url: str) -> str | None:
        pages.append(url)
        return await log_in_at(url)

    command = [str(node()), str(program), "--oauth", "--oauth-strict"]
    environment = {**os.environ, **{name: str(port) for name, port in ports.items()}}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            with trio.fail_after(60):
                for port in ports.values():
                    await _wait_listening(port)
                url = f"http://localhost:{ports['MCP_PORT']}/mcp"
                async with open_client(url, auth=OAuth(open_page=open_page)) as client:
                    assert "greet" in [tool.name async for tool in client.list_tools()]
        finally:
            process.terminate()
    assert len(pages) == 1
    assert f"resource=http%3A%2F%2Flocalhost%3A{ports['MCP_PORT']}%2Fmcp" in pages[0]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_we_log_in_at_a_server_of_the_typescript_sdk_2(revision: str) -> None:
    """Its metadata, its challenges and its check of the resource, in both eras."""
    TYPESCRIPT_2_4.require()
    TYPESCRIPT_1_32.require()
    demo = (
        TYPESCRIPT_1_32.package("@modelcontextprotocol/sdk")
        / "dist/esm/examples/server/demoInMemoryOAuthProvider.js"
    )
    pages: list[str] = []

    async def open_page(url: str) -> str | None:
        pages.append(url)
        return await log_in_at(url)

    login = _free_port()
    program = PROGRAMS / "protected_typescript_2.mjs"
    command = [str(node()), str(program), "streamable-http", str(demo), str(login)]
    with open_listener(command, directory=TYPESCRIPT_2_4.directory) as listener, trio.fail_after(60):
        await _wait_listening(login)
        url = listener.url("streamable-http")
        auth = OAuth(open_page=open_page)
        names: set[str] = set()
        for _ in range(2):
            async with open_client(url, auth=auth, revision=revision) as client:
                names.add((await client.call_tool("whoami")).text)
    assert len(pages) == 1
    assert len(names) == 1
    assert names.pop() in pages[0]
    assert "scope=mcp%3Atools" in pages[0]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_we_log_in_and_refresh_at_a_server_of_the_python_sdk(revision: str) -> None:
    """Its metadata, its registration, its codes, and refresh tokens that are good for once."""
    PYTHON_2_3.require()
    pages: list[str] = []

    async def open_page(url: str) -> str | None:
        pages.append(url)
        return await log_in_at(url)

    port = _free_port()
    command = [str(PYTHON_2_3.python), str(PROGRAMS / "protected_python_2.py"), str(port)]
    store = MemoryTokenStore()
    with open_listener(command) as listener, trio.fail_after(60):
        url = listener.url("streamable-http")
        auth = OAuth(
            open_page=open_page, store=store, redirect_uri="http://localhost:3000/callback", listen=False
        )
        names: set[str] = set()
        async with open_client(url, auth=auth, revision=revision) as client:
            for _ in range(2):
                names.add((await client.call_tool("whoami")).text)
                await trio.sleep(2.1)  # a token is good for two seconds of the other process
        async with open_client(url, auth=auth, revision=revision) as client:
            names.add((await client.call_tool("whoami")).text)
        assert await auth.log_out(url)
        assert not await auth.log_out(url)
    assert len(pages) == 1, "everything after the login was refreshed"
    assert len(names) == 1
