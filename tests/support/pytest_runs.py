"""Runs of pytest in processes of their own, with this library's plugin."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from unmeasured import unmeasured

__all__ = ["ON_TRIO", "PLUGIN", "run_pytest"]

ON_TRIO: Final = ("-o", "trio_mode=true")
"""By which pytest-trio runs every async test."""

_MODULE: Final = "trio_mcp.testing.pytest_plugin"

PLUGIN: Final = "trio_mcp" if any(each.value == _MODULE for each in entry_points(group="pytest11")) else _MODULE
"""The plugin: by its name where the package is installed with it, and by its module in a tree of sources."""


def run_pytest(path: Path, *options: str, plugin: str | None = PLUGIN) -> str:
    """Run the tests of a file, or of all files in a folder, and return what is printed.

    Args:
        path: The file, or the folder.
        *options: Options of pytest.
        plugin: The plugin to load; `None` for those that pytest finds by itself.
    """
    folder = path if path.is_dir() else path.parent
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-q"]
    if plugin is not None:
        command += ["-p", plugin]
    done = subprocess.run(
        [*command, "-W", "error", "--rootdir", str(folder), "-c", "/dev/null", *options, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env=unmeasured(),
        cwd=folder,
    )
    return done.stdout + done.stderr
