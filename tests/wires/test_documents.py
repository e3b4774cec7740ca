"""What the documents say is so: their code runs and prints what is written below it, their links lead somewhere.

The Python blocks of a page are run in order, in one module, inside Trio; they may await. A block that calls
`trio.run` is a program of its own. A block that begins with a file's name in a comment is also saved under it,
where the blocks after it find it. A `text` block right after one is what that prints. A block in a comment is not seen
by readers; a process that it starts, and keeps in a name, ends with the page.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
import trio
from shared.documents import PAGES, blocks_of

MAX_SECONDS: Final = 240
"""For a page. Far more than any takes; machines that run tests are slow."""


WITH_CODE: Final = [page for page in PAGES if any(blocks_of(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
async def test_the_code_on_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From top to bottom, as a reader would try it."""
    module = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # types are looked up there
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.defpath)  # of a reader who has activated no environment
    for name in ("access", "audit"):  # what a page sets is set back
        logger = logging.getLogger(f"trio_mcp.{name}")
        monkeypatch.setattr(logger, "handlers", list(logger.handlers))
        monkeypatch.setattr(logger, "level", logger.level)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    loaded = set(sys.modules)
    try:
        with trio.fail_after(MAX_SECONDS):
            await run_blocks(page, module, tmp_path, capsys)
    finally:
        for value in vars(module).values():
            if isinstance(value, trio.Process) and value.returncode is None:
                value.kill()
                with trio.CancelScope(shield=True):
                    await value.wait()
        for name in sys.modules.keys() - loaded:  # modules of other pages may have the same names
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]


async def run_blocks(page: Path, module: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run what is on a page, and compare what it prints."""
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.file_name is not None:
            (folder / block.file_name).write_text(block.code, encoding="utf-8")
        if block.is_program:
            ran = await trio.run_process([sys.executable, "-W", "error", "-c", block.code], capture_stdout=True)
            printed = ran.stdout.decode()
        elif block.is_server:
            compile(block.code, str(page), "exec")
            continue
        else:
            outcome = eval(block.compiled(page), vars(module))
            if inspect.iscoroutine(outcome):
                await outcome
            printed = capsys.readouterr().out
        if block.printed is not None:
            assert printed == block.printed, f"{page.name}, line {block.line}"
