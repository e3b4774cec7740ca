"""Files that clients ask for and do not read: what a server keeps of them is counted, and bounded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from places import MEASURED


@pytest.mark.parametrize("how", ["http", "tcp"])
def test_large_files_are_not_in_memory_many_times(how: str) -> None:
    """A hundred reads of 8 MiB took 2.3 GiB: file, Base64 and JSON of each at once, and all until a collection."""
    program = MEASURED / "unread_files.py"
    done = subprocess.run([sys.executable, program, how, "100"], stdout=subprocess.PIPE, text=True, check=True)
    assert int(done.stdout) < 512
