"""The pytest plugin, in test runs of its own: with pytest-trio, with anyio, and with neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_runs import ON_TRIO
from shared.testing_pytest_plugin import run_tests

import trio_mcp


def test_what_a_test_leaves_behind_fails_it(tmp_path: Path) -> None:
    """A descriptor, a process, a thread; and what no call has raised."""
    printed = run_tests(
        tmp_path,
        """
        async def test_descriptor(mcp_client):
            await mcp_client(server)
            os.pipe()

        async def test_process(mcp_client):
            await mcp_client(server)
            global process
            process = subprocess.Popen([sys.executable, "-c", "pass"])

        async def test_late_failure(mcp_client):
            @server.tool
            async def clean_up_badly() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    raise LookupError("in the cleanup")
            client = await mcp_client(server)
            with trio.move_on_after(0.1):
                await client.call_tool("clean_up_badly")
            process.wait()

        async def test_good(mcp_client):
            await mcp_client(server)
        """,
        *ON_TRIO,
    )
    assert "3 failed, 1 passed" in printed, printed
    assert "a descriptor: " in printed
    assert "a process: " in printed
    assert "in the cleanup" in printed


def test_programs_that_keep_connections_can_do_without_the_check(tmp_path: Path) -> None:
    """One that is opened by the first test that needs it, and lasts."""
    tests = """
        async def test_descriptor(mcp_client):
            await mcp_client(server)
            os.pipe()
    """
    assert "1 failed" in run_tests(tmp_path, tests, *ON_TRIO)
    assert "1 passed" in run_tests(tmp_path, tests, *ON_TRIO, "-o", "mcp_nothing_left=false")


def test_mistakes_are_told(tmp_path: Path) -> None:
    """A test that is not async; what is asked for too late, or opened too early; a command in one string."""
    printed = run_tests(
        tmp_path,
        """
        @pytest.mark.parametrize("n", [1])
        def test_plain(mcp_client, n):
            pass

        def test_lifetime(mcp_lifetime):
            pass

        @pytest.fixture
        async def early(mcp_client):
            return await mcp_client(server)

        async def test_early(early):
            pass

        async def test_too_late(request):
            request.getfixturevalue("mcp_client")

        def test_plain_and_late(request):
            request.getfixturevalue("mcp_client")

        @pytest.fixture
        def asked(request):
            return request.getfixturevalue("mcp_client")

        async def test_in_a_fixture(asked):
            assert await (await asked(server)).call_tool("add", {"a": 1, "b": 2}, returns=int) == 3

        async def test_command(mcp_process):
            await mcp_process("server.py")

        @pytest.fixture
        async def client():
            async with trio_mcp.testing.open_client(server) as client:
                yield client

        async def test_what_is_said_to_be_written(client):
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        """,
        *ON_TRIO,
    )
    assert "2 passed" in printed, printed
    for says in (
        "Failed: test_too_late runs already: let it have the fixtures of trio_mcp as arguments",
        "Failed: test_plain_and_late is not async, and mcp_lifetime needs Trio",
        "Failed: test_plain[1] is not async, and mcp_client needs Trio: write async def test_plain(...)",
        "Failed: test_lifetime is not async, and mcp_lifetime needs Trio: write async def test_lifetime(...)",
        "the fixtures of trio_mcp are for tests, and not for other fixtures: in an async fixture, write async with",
        "trio_mcp.testing.open_client(server) as client: yield client",
        "TypeError: a command is a list, not a string: mcp_process([sys.executable, 'server.py'])",
    ):
        assert says in printed


def test_hypothesis_gives_each_example_its_own(tmp_path: Path) -> None:
    """They are run one after another in one test."""
    printed = run_tests(
        tmp_path,
        """
        from hypothesis import HealthCheck, given, settings, strategies as st

        @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
        @given(a=st.integers(0, 99))
        async def test_adding(mcp_client, a):
            client = await mcp_client(server)
            assert await client.call_tool("add", {"a": a, "b": 1}, returns=int) == a + 1
        """,
        *ON_TRIO,
    )
    assert "1 passed" in printed, printed


def test_pytest_finds_the_plugin_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an installed package, all of whose modules it then imports in a way of its own, to rewrite assertions."""
    installed = tmp_path / "site" / "fixtures_of_trio_mcp-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: fixtures-of-trio-mcp\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\ntrio_mcp = trio_mcp.testing.pytest_plugin\n")
    (installed / "RECORD").write_text("trio_mcp/__init__.py,,\ntrio_mcp/testing/pytest_plugin.py,,\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{Path(trio_mcp.__file__).parents[1]}")
    (tmp_path / "tests").mkdir()
    tests = """
        async def test_adding(mcp_client):
            client = await mcp_client(server)
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
    """
    assert "1 passed" in run_tests(tmp_path / "tests", tests, *ON_TRIO, plugin=None)
    assert "fixture 'mcp_client' not found" in run_tests(
        tmp_path / "tests", tests, *ON_TRIO, plugin="no:trio_mcp"
    )
