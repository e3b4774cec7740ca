"""The witness over each binding; see `witness_lines`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_process import HttpProcess
from lines import ALL_LINES
from witness_lines import SCRIPT, Diary, Witness


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the matrix where its scenarios are run once more in another way: every kind of transport is enough."""

    def is_too_much(item: pytest.Item) -> bool:
        is_again = item.path.name == "test_contract_after_waiting.py"
        if not is_again or not getattr(item, "function", None).__module__.endswith("test_cancellation_contract"):
            return False
        params: dict[str, Any] = getattr(item, "callspec").params  # noqa: B009 - not of every item
        return (params["binding"], params["revision"]) not in ALL_LINES

    left_out = [item for item in items if is_too_much(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not is_too_much(item)]


@pytest.fixture(scope="module")
def witness_at_a_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HttpProcess, Path]]:
    """One server process for all clients over HTTP of a module, and its diary.

    It is gone with the module: tests elsewhere look for processes that are left.
    """
    yield from _witness(tmp_path_factory)


@pytest.fixture(scope="module")
def witness_at_tcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HttpProcess, Path]]:
    """The same over TCP."""
    yield from _witness(tmp_path_factory, "tcp")


@pytest.fixture(scope="module")
def witness_at_unix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HttpProcess, Path]]:
    """The same at a Unix socket."""
    yield from _witness(tmp_path_factory, "unix", str(tmp_path_factory.mktemp("socket") / "it"))


def _witness(folders: pytest.TempPathFactory, *how: str) -> Iterator[tuple[HttpProcess, Path]]:
    path = folders.mktemp("witness") / "diary"
    settings = {"max_requests_per_principal": 1_000, "websocket": True}
    process = HttpProcess(SCRIPT, settings, {"DIARY": str(path)}, how)
    yield process, path
    process.terminate()
    assert process.wait() == 0
    assert path.read_text().splitlines()[-1] == "lifespan ends"


@pytest.fixture
def witness(request: pytest.FixtureRequest, binding: str, revision: str, tmp_path: Path) -> Witness:
    """The witness."""
    if binding == "stdio":
        return Witness(binding, revision, Diary(tmp_path / "diary"), None)
    where = {"tcp": "witness_at_tcp", "unix": "witness_at_unix"}.get(binding, "witness_at_a_port")
    process, path = request.getfixturevalue(where)
    return Witness(binding, revision, Diary(path), process)
