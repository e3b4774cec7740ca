"""Programs that do the same with each library, and how many lines of code they take; `compared/` has them.

Each is written as the documentation of its library has it, and formatted as everything here.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from environments import COMPARED
from statements import code_lines

from trio_mcp import AuthorizationRefused, HttpServerParameters, RequestError, open_client
from trio_mcp.testing import AuthorizationServer

ROOT: Final = Path(__file__).parents[3]
HERE: Final = Path(__file__).parent / "compared"
LIBRARIES: Final = {"ours": "`trio_mcp`", "python_2": "`mcp` 2", "fastmcp_4": "`fastmcp` 4"}
PROGRAMS: Final = {
    "four_servers": "four servers of a configuration file, one of which does not start",
    "protected": "a server protected by JWTs, with a scope for a tool",
    "tested": "a server and its tests, one with a timeout",
    "long_job": "a long job with progress, and a deadline that stops it",
}
MAX_SECONDS: Final = 120
"""For a program. Far more than any takes; machines that run tests are slow."""

every: Final = pytest.mark.parametrize("library", LIBRARIES)


def size(library: str, program: str) -> int:
    """Return how many lines of code a program has."""
    return code_lines((HERE / f"{library}_{program}.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_ours_takes_no_more_lines(program: str) -> None:
    """Where it does, something is missing here."""
    ours, *others = (size(library, program) for library in LIBRARIES)
    assert ours <= min(others)


def test_the_table_is_current() -> None:
    """What users read are these very programs."""
    rows = [f"| a program | {' | '.join(LIBRARIES.values())} |", "| --- | --- | --- | --- |"]
    for program, does in PROGRAMS.items():
        sizes = " | ".join(str(size(library, program)) for library in LIBRARIES)
        rows.append(f"| [{does}](../tests/nightly/interop/compared/ours_{program}.py) | {sizes} |")
    assert "\n".join(rows) in (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")


def command(library: str, program: str) -> tuple[list[str], dict[str, str]]:
    """Return what runs a program, and its environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = str(HERE / f"{library}_{program}.py")
    if library == "ours":
        return [sys.executable, path], {**environment, "PYTHONPATH": str(ROOT)}
    COMPARED.require()
    return [str(COMPARED.python), path], environment


async def run(arguments: list[str], environment: dict[str, str], where: Path) -> str:
    """Return what a program prints."""
    with trio.fail_after(MAX_SECONDS):
        done = await trio.run_process(
            arguments, env=environment, cwd=where, capture_stdout=True, capture_stderr=True, check=False
        )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


@every
async def test_four_servers(library: str, tmp_path: Path) -> None:
    """The one that is not there harms no other."""
    servers: dict[str, object] = {
        name: {
            "command": sys.executable,
            "args": [str(HERE / "stock_server.py"), name],
            "env": {"PYTHONPATH": str(ROOT)},
        }
        for name in ("north", "east", "south", "west")
    }
    servers["east"] = {"command": "no-such-program", "args": []}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    arguments, environment = command(library, "four_servers")
    printed = await run([*arguments, "mcp.json"], environment, tmp_path)
    has = "has 3 of Dune"
    assert printed.splitlines() == [f"north {has}", "east failed", f"south {has}", f"west {has}"]


@every
async def test_long_job(library: str, tmp_path: Path) -> None:
    """The deadline reaches the handler."""
    printed = await run(*command(library, "long_job"), tmp_path)
    assert printed.splitlines() == ["1/3", "2/3", "3/3", "rendered 3", "stopped", "too late"]


@every
async def test_tested(library: str, tmp_path: Path) -> None:
    """Away from the configuration of these tests."""
    (python, path), environment = command(library, "tested")
    shutil.copy(path, tmp_path)
    mode = {"ours": ["-otrio_mode=true"], "fastmcp_4": ["-oasyncio_mode=auto"]}.get(library, [])
    options = ["-q", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", *mode]
    assert "3 passed" in await run([python, "-m", "pytest", *options, Path(path).name], environment, tmp_path)


@asynccontextmanager
async def serving(library: str, issuer: str, where: Path) -> AsyncGenerator[str]:
    """Run the protected server while a block runs; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    arguments, environment = command(library, "protected")
    async with trio.open_nursery() as nursery:
        run_it = [*arguments, issuer, str(port)]
        with (where / "log").open("w") as log:
            process = await trio.lowlevel.open_process(run_it, env=environment, stdout=log, stderr=log)
        nursery.start_soon(process.wait)
        try:
            with trio.fail_after(MAX_SECONDS):
                while True:
                    assert process.returncode is None, (where / "log").read_text()
                    try:
                        stream = await trio.open_tcp_stream("127.0.0.1", port)
                    except OSError:
                        await trio.sleep(0.1)
                    else:
                        await stream.aclose()
                        break
                yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@every
async def test_protected(library: str, tmp_path: Path) -> None:
    """Only tokens for this server are good, and only some of them for all tools."""
    login = AuthorizationServer()
    async with login.serving() as issuer, serving(library, issuer, tmp_path) as url:

        def own(resource: str, *scopes: str) -> HttpServerParameters:
            token = login.issue(subject="ann", scopes=scopes, resource=resource)
            return HttpServerParameters(url, headers={"Authorization": f"Bearer {token}"})

        for refused in (HttpServerParameters(url), own("https://other.test/mcp", "orders:read"), own(url)):
            with pytest.raises(AuthorizationRefused):
                async with open_client(refused):
                    pass
        async with open_client(own(url, "orders:read")) as client:
            assert (await client.call_tool("whoami")).text == "ann"
            try:
                result = await client.call_tool("order", {"title": "Dune"})
            except (AuthorizationRefused, RequestError):
                pass
            else:
                assert result.is_error
        async with open_client(own(url, "orders:read", "orders:write")) as client:
            assert (await client.call_tool("order", {"title": "Dune"})).text == "Dune is on its way"
