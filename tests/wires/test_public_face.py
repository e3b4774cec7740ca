"""What `import trio_mcp` gives, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

from unmeasured import unmeasured

import trio_mcp


def run_python(script: str) -> Any:
    """Run a script in a fresh interpreter, and return the JSON it prints last."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=unmeasured(),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_errors_are_public_from_the_start() -> None:
    """A traceback names the class that a program can catch, even if nothing has asked for it before."""
    assert run_python("""
        import json
        import trio_mcp
        from trio_mcp._errors import McpError, RequestError
        print(json.dumps([McpError.__module__, RequestError.__module__, "ABSENT" in vars(trio_mcp)]))
    """) == ["trio_mcp", "trio_mcp", True]


def test_names_are_found_without_files_of_source(tmp_path: Path) -> None:
    """As programs are often delivered: an archive of compiled modules."""
    archive = tmp_path / "package.zip"
    with zipfile.PyZipFile(str(archive), "w", optimize=0) as file:
        file.writepy(str(Path(trio_mcp.__file__).parent))
    assert not [name for name in file.namelist() if not name.endswith(".pyc")]
    assert run_python(f"""
        import json, sys
        sys.path.insert(0, {str(archive)!r})
        import trio_mcp
        from trio_mcp import *
        from trio_mcp.types import *
        print(json.dumps([trio_mcp.__file__, Server.__module__, Tool.__module__]))
    """) == [str(archive / "trio_mcp" / "__init__.pyc"), "trio_mcp", "trio_mcp.types"]


# What an import leaves alone.


def test_importing_loads_no_other_event_loop_and_nothing_that_is_optional() -> None:
    """A stdio server starts in the time it takes to import this; extras are loaded when they are used."""
    loaded = run_python("""
        import json, sys
        from trio_mcp import *
        from trio_mcp.types import *
        print(json.dumps(sorted(sys.modules)))
    """)
    packages = {name.split(".")[0] for name in loaded}
    assert "trio" in packages
    assert not packages & {
        "asyncio", "anyio", "hypercorn", "h11", "h2", "wsproto", "trio_websocket",
        "jsonschema", "jsonschema_rs", "referencing", "pydantic", "httpx", "httpx2", "opentelemetry", "rich", "pytest",
    }  # fmt: skip


def test_importing_the_package_alone_loads_next_to_nothing() -> None:
    """What a name needs is loaded when it is asked for."""
    loaded = run_python("""
        import json, sys
        import trio_mcp
        print(json.dumps(sorted(sys.modules)))
    """)
    assert len(loaded) < 250
    assert "trio" not in loaded


MODULES_OF_A_STDIO_SERVER = 450


def test_a_stdio_server_loads_neither_http_nor_a_client_nor_what_it_does_not_use() -> None:
    """It has answered a call by then. The bound is there to be noticed when it is passed."""
    loaded = run_python("""
        import json, sys
        import trio
        from trio_mcp import Server, memory_channel_pair
        from trio_mcp import Incoming, Outgoing

        server = Server("shelf")

        @server.tool
        async def reserve(title: str, copies: int = 1) -> str:
            return f"{copies} of {title}"

        @server.prompt
        async def recommend(genre: str) -> str:
            return f"Recommend {genre}"

        @server.resource("shelf://books/{title}")
        async def book(title: str) -> str:
            return title

        def request(id, method, **params):
            return Outgoing(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())

        async def main():
            ours, theirs = memory_channel_pair()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.serve_channel, theirs)
                client = {"name": "t", "version": "1"}
                hello = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
                await ours.send([hello])
                await ours.receive()
                await ours.send([request(1, "tools/call", name="reserve", arguments={"title": "Dune"})])
                (answer,) = await ours.receive()
                assert b"1 of Dune" in answer.data
                await ours.send([request(2, "tools/list")])
                await ours.receive()
                await ours.aclose()

        trio.run(main)
        print(json.dumps(sorted(sys.modules)))
    """)
    assert len(loaded) < MODULES_OF_A_STDIO_SERVER
    forbidden = (
        "asyncio", "hypercorn", "h11", "wsproto", "sqlite3", "email", "http", "urllib.request", "cryptography",
        "jsonschema", "jsonschema_rs", "trio_mcp._client", "trio_mcp._endpoint", "trio_mcp._hosts", "trio_mcp._http",
        "trio_mcp._server._files", "trio_mcp._server._media", "trio_mcp._server._sampling",
        "trio_mcp.types._questions", "trio_mcp.types._questions", "trio_mcp.types._tasks",
    )  # fmt: skip
    assert [
        name for name in loaded if name.startswith(tuple(f"{one}." for one in forbidden)) or name in forbidden
    ] == []


ROUND_TRIP = """
    import json, sys
    import trio, trio.testing, trio_mcp

    server = trio_mcp.Server("shelf", version="1")

    @server.tool
    async def reserve(title: str, copies: int = 1) -> str:
        return f"{copies} of {title}"

    frames = []

    async def main():
        async with trio_mcp.open_client(server, on_frame=lambda direction, data: frames.append(data)) as client:
            result = await client.call_tool("reserve", {"title": "Dune \u00fc", "copies": 2})
        return result.content[0].text
"""


def test_without_the_compiled_json_library_everything_works() -> None:
    """It is a dependency only where it has a wheel; what goes over the wire is the same."""
    script = (
        ROUND_TRIP
        + """
    text = trio.run(main, clock=trio.testing.MockClock())
    print(json.dumps({
        "text": text, "frames": [frame.decode() for frame in frames], "msgspec": "msgspec" in sys.modules
    }))
    """
    )
    blocker = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "msgspec":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())
    """
    with_it = run_python(script)
    without_it = run_python(blocker + script)
    assert (with_it.pop("msgspec"), without_it.pop("msgspec")) == (True, False)
    assert with_it["text"] == "2 of Dune ü"
    assert without_it == with_it


def test_the_logging_configuration_is_the_programs_own() -> None:
    """No handler, no level and no filter is set, neither by importing nor by serving."""
    watch = """
    import logging

    def configuration():
        loggers = [logging.root, *(logging.getLogger(name) for name in sorted(logging.root.manager.loggerDict))]
        return {
            logger.name: [
                logger.level, logger.propagate, logger.disabled, len(logger.filters),
                [type(handler).__name__ for handler in logger.handlers],
            ]
            for logger in loggers
            if logger is logging.root or logger.name.split(".")[0] == "trio_mcp"
        } | {"raise": logging.raiseExceptions, "disable": logging.root.manager.disable,
             "class": logging.getLoggerClass().__name__, "factory": logging.getLogRecordFactory().__name__}

    before = configuration()
    """
    states = run_python(
        watch
        + ROUND_TRIP
        + """
    imported = configuration()
    trio.run(main, clock=trio.testing.MockClock())
    print(json.dumps([before, imported, configuration()]))
    """
    )
    before, imported, served = states
    assert before["root"] == imported["root"] == served["root"] == [30, True, False, 0, []]
    for state in (imported, served):
        assert {name: state[name] for name in before} == before
        for name in set(state) - set(before):
            assert state[name] == [0, True, False, 0, []], name
