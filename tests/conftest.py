"""What every test folder shares."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

# Test modules import the helpers that lie beside them; what several folders need lies in `support`.
sys.path.insert(0, str(Path(__file__).parent / "support"))

from inside_base import repetitions
from matrix_table import MatrixTable
from patient_clock import run_patiently
from protocol_table import Table

# How long an example takes says more about the machine's neighbours than about the code; what made a test fail
# somewhere else can be tried again here.
settings.register_profile("trio_mcp", deadline=None, print_blob=True)
settings.load_profile("trio_mcp")


# A shell that starts the tests in the background lets them ignore SIGINT, and so would what they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tables of the documents be written from a collection."""
    parser.addoption("--protocol-table", metavar="FILE", help="write which test shows which section, and end")
    parser.addoption(
        "--matrix-table", metavar="FILE", help="write what runs over which transport into it, and end"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what has no marks when only the table is wanted: collecting everything takes long."""
    if config.getoption("--protocol-table") is None or not collection_path.match("test_*.py"):
        return None
    return "mark.spec(" not in collection_path.read_text(encoding="utf-8") or None


# What other tests say more quickly, in one more way: `make check` runs it as well. A file or folder, and which of its
# parameters; nothing for all of them.
SLOW: Final = (
    ("benchmarks/", ""),
    ("bindings/test_process.py", "fifty|killed"),
    ("contract/test_contract_after_waiting.py", ""),
    ("contract/test_contract_over_sockets.py", ""),
    ("contract/test_torn_frames.py", ""),
    ("examples/test_transcripts.py", ""),
    ("http_server/", r"\[.*(application|lean)"),
    ("http_server/test_behind_nginx.py", ""),
    ("http_server/test_nothing_outlives_its_answer.py", ""),
    ("matrix/", r"^(?!test_a_batch).*((json|stateless|sse)-(hypercorn|lean)|2025-0[36]|(?<!sse-)2024|sse-2025)"),
    (
        "matrix/",
        r"(thousand|two_hundred|megabytes).*\[(.*-(hypercorn|lean)|stdio|tls|unix|json|stateless|sse|proxy)",
    ),
    ("matrix/", r"tls-2025|websocket-lean|websocket-hypercorn-2025"),
    ("matrix/test_matrix_table.py", ""),
    ("programs/", ""),
    ("protocol/", r"\[.*(asgi|json|stateless)|2024-11-05|2025-03-26|2025-06-18"),
    ("protocol/test_table.py", ""),
    ("schema/test_hint_properties.py", ""),
    ("server/test_ending_by_signals.py", "third"),
    ("siege/", ""),
    ("types/test_official_schema.py", "sent_is_valid"),
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is slow, before anything is chosen by its marks."""
    path = item.path.relative_to(Path(__file__).parent).as_posix()
    if any(path.startswith(where) and re.search(which, item.name) is not None for where, which in SLOW):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)  # when it is known which tests are Trio's
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run on a clock that does not mind how busy the machine is."""
    for item in items:
        if item.get_closest_marker("trio") is not None:
            item.add_marker(pytest.mark.trio(run=run_patiently), append=False)


@pytest.hookimpl(tryfirst=True)  # before everything that was collected is listed
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write a table, if one is asked for."""
    problems: Sequence[str]
    if (path := session.config.getoption("--protocol-table")) is not None:
        table = Table()
        table.add(session.items)
        Path(path).write_text(table.markdown(), encoding="utf-8")
        problems = [*table.problems, *(f"no test and no reason: {hole}" for hole in table.holes())]
    elif (path := session.config.getoption("--matrix-table")) is not None:
        matrix = MatrixTable(session.items)
        page = Path(path)
        page.write_text(matrix.write_into(page.read_text(encoding="utf-8")), encoding="utf-8")
        problems = matrix.problems
    else:
        return
    session.items.clear()
    pytest.exit("\n" + "\n".join(problems or [f"{path} is written"]), returncode=1 if problems else 0)


@pytest.fixture(autouse=True)
def _everything_is_logged_for_the_first_time() -> None:
    """What the tests before have made the package log is nothing that this one repeats."""
    repetitions.forget()
