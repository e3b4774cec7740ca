"""How the command line starts: quickly, as a program and as a module."""

from __future__ import annotations

import tomllib
from importlib import import_module

from inside_cli import COMMANDS, STATUSES, Exit, main
from places import ROOT


def test_the_program_is_the_same_as_the_module() -> None:
    """What pip installs under the name is `main`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["scripts"]["trio-mcp"].partition(":")
    assert getattr(import_module(module), name) is main
    assert project["optional-dependencies"]["reload"]


def test_every_exit_status_is_documented() -> None:
    """In the help, and in the documentation."""
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for status in set(Exit) - {Exit.BUG}:
        assert f"\n  {status.value}  " in STATUSES
        assert f"\n| {status.value} | " in page
    assert f"\n| {Exit.BUG.value} | " in page


def test_every_command_is_documented() -> None:
    """Under a heading, or in an example."""
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"trio-mcp {name} " in page
