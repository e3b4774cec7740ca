"""A layer is a folder: what its tests may use, and in which layers nothing is measured."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from machine import ForbiddenError
from places import TESTS

CLOCKS = re.compile(
    r"\b(perf_counter|monotonic|thread_time|process_time|ru_maxrss|VmRSS|statm|tracemalloc)(_ns)?\b"
)
ABOUT_CLOCKS = {"unit/test_layers.py", "unit/test_clocks.py"}


def test_nothing_is_measured_but_nightly() -> None:
    """A neighbour on the machine must not decide whether a change is taken."""
    measuring = {
        name
        for path in TESTS.rglob("*.py")
        if not (name := path.relative_to(TESTS).as_posix()).startswith("nightly/")
        if CLOCKS.search(path.read_text(encoding="utf-8"))
    }
    assert measuring == ABOUT_CLOCKS


@pytest.mark.parametrize(
    "use",
    [
        lambda: socket.create_connection(("127.0.0.1", 1)),
        lambda: subprocess.run([sys.executable, "-c", ""], check=False),
        lambda: time.sleep(0),
    ],
    ids=["socket", "process", "sleep"],
)
def test_tests_in_memory_use_nothing_of_the_machine(use: Callable[[], object]) -> None:
    """An event loop may still wake itself by a pair of sockets."""
    for each in socket.socketpair():
        each.close()
    with pytest.raises(ForbiddenError, match="tests/wires"):
        use()
