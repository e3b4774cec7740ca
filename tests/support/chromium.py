"""A headless Chromium that opens one page, and is gone with everything it has started."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Final

import pytest
import trio

__all__ = ["browsing", "processes_with"]

PROGRAM: Final = shutil.which("chromium")
FLAGS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
)


def processes_with(text: str) -> list[int]:
    """Return the processes with a text on their command lines."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@asynccontextmanager
async def browsing(folder: Path, url: str) -> AsyncGenerator[None]:
    """Open a page while the block runs. Afterwards no process of the browser is left.

    Args:
        folder: An empty one, for what the browser keeps.
        url: The page.
    """
    if PROGRAM is None:
        pytest.skip("chromium is not installed; `make debian` does it for root")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [PROGRAM, *FLAGS, *sandbox, f"--user-data-dir={folder}", url]
    process = await trio.lowlevel.open_process(
        command,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
        env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder)},
    )
    try:
        yield
    finally:
        # Some of its processes leave its group; all of them have the folder on their command lines.
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            while found := processes_with(str(folder)):
                for pid in found:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await trio.sleep(0.02)
