"""How the command line starts: quickly, as a program and as a module."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from unmeasured import unmeasured


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["call", "--help"], ["run", "--help"], ["bridge", "--help"], ["cal"], ["call"]],
)
def test_help_loads_nothing_of_the_protocol(words: list[str]) -> None:
    """It is there in the time that Python itself takes."""
    script = (
        "import sys, json, runpy\n"
        f"sys.argv = ['trio-mcp', *{words!r}]\n"
        "before = set(sys.modules)\n"
        "try:\n    runpy.run_module('trio_mcp', run_name='__main__')\n"
        "finally:\n    print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False, env=unmeasured()
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    packages = {name.split(".")[0] for name in loaded}
    assert not packages & {"trio", "attrs", "attr", "cattrs", "msgspec", "json", "asyncio", "socket", "logging"}
    ours = {name for name in loaded if name.startswith("trio_mcp.")} - {"trio_mcp._version"}
    assert ours == {
        "trio_mcp._absent",
        "trio_mcp._cli",
        "trio_mcp._cli._main",
        "trio_mcp._cli._parser",
        "trio_mcp._errors",
        "trio_mcp._lazily",
        "trio_mcp._printable",
    }


def test_ctrl_c_during_the_first_imports_has_no_traceback() -> None:
    """Somebody who has mistyped something is quicker than Python."""
    script = (
        "import runpy, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'argparse':\n            raise KeyboardInterrupt\n"
        "sys.modules.pop('argparse', None)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "runpy.run_module('trio_mcp', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False, env=unmeasured()
    )
    assert (done.returncode, done.stderr) == (130, "")
