"""The pytest plugin, in test runs of its own: with pytest-trio, with anyio, and with neither."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pytest_runs import ON_TRIO
from shared.testing_pytest_plugin import run_tests
from unmeasured import unmeasured


def test_clients_urls_and_processes_with_pytest_trio(tmp_path: Path) -> None:
    """As many as a test wants, in any scope; each ends with the test."""
    (tmp_path / "program.py").write_text(
        "from trio_mcp import Server\nserver = Server('program')\n@server.tool\ndef two() -> int: return 2\nserver.run()\n"
    )
    printed = run_tests(
        tmp_path,
        """
        async def test_memory(mcp_client):
            with trio.fail_after(1_000):  # the client lives on
                one = await mcp_client(server, revision="2025-11-25")
            two = await mcp_client(server)
            assert await one.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
            with pytest.raises(LookupError, match="out of stock"):
                await two.call_tool("fail")

        async def test_in_time(mcp_client, autojump_clock):
            client = await mcp_client(server)
            with trio.move_on_after(600):
                await client.call_tool("wait")
            await trio.testing.wait_all_tasks_blocked()
            assert left == ["wait"]

        async def test_url(mcp_url, mcp_client):
            url = await mcp_url(server, http="lean")
            async with open_client(url) as client:
                assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3

        async def test_process(mcp_process):
            client = await mcp_process([sys.executable, "program.py"])
            assert await client.call_tool("two", returns=int) == 2

        async def test_beside_a_nursery(mcp_url, nursery):
            nursery.start_soon(trio.sleep_forever)
            assert (await mcp_url(server)).startswith("http://127.0.0.1:")

        def test_nothing_is_open():
            with pytest.raises(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
        """,
        *ON_TRIO,
    )
    assert "6 passed" in printed, printed


def test_anyio_runs_them_too(tmp_path: Path) -> None:
    """With its Trio backend; on asyncio they say what is wrong."""
    pytest.importorskip("anyio")
    printed = run_tests(
        tmp_path,
        """
        pytestmark = pytest.mark.anyio

        @pytest.fixture(params=["trio", "asyncio"])
        def anyio_backend(request):
            return request.param

        async def test_memory(mcp_client, mcp_url):
            one = await mcp_client(server)
            assert await one.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
            async with open_client(await mcp_url(server)) as client:
                assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        """,
        "-p",
        "no:trio",
    )
    assert "1 failed, 1 passed" in printed, printed
    says = (
        "test_memory[asyncio] does not run on Trio: install pytest-trio and set trio_mode = true, or mark it with "
        "@pytest.mark.trio; beside it, pytest-asyncio needs asyncio_mode = strict; with anyio, let anyio_backend be 'trio'"
    )
    assert f"Failed: {says}" in printed


def test_each_test_sees_the_failures_of_its_own_calls_in_the_log(tmp_path: Path) -> None:
    """However many tests before it have made the same ones: a log is spared what repeats, and a test is not."""
    printed = run_tests(
        tmp_path,
        """
        @pytest.mark.parametrize("number", range(25))
        async def test_failure(number, caplog):
            async with open_client(server) as client:
                await client.call_tool("fail")
            assert "out of stock" in caplog.text
        """,
        *ON_TRIO,
    )
    assert "25 passed" in printed, printed


def test_nothing_is_loaded_before_it_is_used(tmp_path: Path) -> None:
    """Every run of pytest loads the plugin; it must not cost a run that has nothing to do with this library."""
    script = """
        import json, sys
        import pytest
        before = set(sys.modules)
        import trio_mcp.testing.pytest_plugin
        print(json.dumps(sorted(set(sys.modules) - before)))
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        env=unmeasured(),
    )
    loaded: list[str] = json.loads(done.stdout)
    assert not [name for name in loaded if name.split(".")[0] in {"trio", "attrs", "cattrs", "h11", "hypercorn"}]
    assert len([name for name in loaded if name.startswith("trio_mcp")]) < 12, loaded


def test_only_the_plugin_knows_pytest() -> None:
    """Who uses the rest needs no pytest."""
    script = """
        import json, sys
        sys.modules["pytest"] = None
        import trio_mcp.testing
        from trio_mcp.testing import *
        print(json.dumps(sorted(trio_mcp.testing.__all__)))
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        env=unmeasured(),
    )
    assert "open_client" in json.loads(done.stdout)
