"""Each example prints what its docstring says it prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest
from places import EXAMPLES

FILES: Final = sorted(EXAMPLES.glob("*.py"))
MAX_SECONDS: Final = 120
"""Far more than any takes; machines that run tests are slow."""

SHOWN_OTHERWISE: Final = {
    "app_host",  # interop/test_apps_in_a_browser.py
    "dice_app",  # likewise
    "agent_host",  # test_examples.py: somebody types
    "consent",  # test_examples.py: somebody types
    "demo",  # test_examples.py: it prints times
    "framed_channel",  # testing/test_channel_tests.py
    "ten_lines",
    "library_server",
    "test_warehouse",  # test_testing_example.py: pytest runs it
}


def docstring_of(path: Path) -> str:
    """Return what an example says about itself."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def transcript_of(docstring: str) -> str | None:
    """Return what one should see, according to a docstring."""
    found = re.search(r"You see::\n\n((?: {4}.*\n?|\n)+)", docstring)
    return None if found is None else textwrap.dedent(found[1]).strip()


TRANSCRIPTS: Final = {
    path.stem: transcript for path in FILES if (transcript := transcript_of(docstring_of(path))) is not None
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_an_example_prints_what_it_says(name: str) -> None:
    """To the letter, and nothing else; where the docstring ends with "...", more may follow."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    assert (ran.stderr, ran.returncode) == ("", 0)
    expected, shown = TRANSCRIPTS[name], ran.stdout.strip()
    if expected.endswith("\n..."):
        expected = expected.removesuffix("...")
        assert shown.startswith(expected)
    else:
        assert shown == expected


@pytest.mark.parametrize("name", ["elicitation_wizard", "live_resource"])
def test_both_eras_look_the_same(name: str) -> None:
    """What is written once is seen twice."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=True).stdout
    _, legacy, modern = re.split(r"^-- over .*\n", shown, flags=re.MULTILINE)
    assert legacy == modern


def test_every_example_is_run() -> None:
    """A program with a transcript is run here; a server is run by the client that names it, or by another test."""
    for path in FILES:
        runners = [
            name for name in TRANSCRIPTS if path.name in (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        ]
        assert path.stem in TRANSCRIPTS or runners or path.stem in SHOWN_OTHERWISE, path.name


def test_the_list_of_examples_is_whole() -> None:
    """A reader of the directory finds what is in it."""
    listed = re.findall(
        r"^\| \[`(\w+\.py)`\]\(\1\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == [path.name for path in FILES]
