"""A server to talk to, and commands run in this process: most tests need no process of their own."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from commands import SHOP, Done, Run
from http_process import HttpProcess
from inside_cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run commands in this process, in an empty directory, for a user without configuration."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run_command(*words: object) -> Done:
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    return run_command


@pytest.fixture(scope="session")
def shop() -> Generator[str]:
    """Return the URL of the shop, a process of its own over HTTP."""
    process = HttpProcess(SHOP, env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    try:
        yield f"http://127.0.0.1:{process.port}/mcp"
    finally:
        process.terminate()
        process.wait()
