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
# For `make quick`. A test that needs more or fewer examples than others says so in parts of `settings().max_examples`.
settings.register_profile("quick", settings.get_profile("trio_mcp"), max_examples=15)


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
    """Leave out what would be deselected to the last test, or has no marks when only the table is wanted.

    Each worker would import and collect it first, and that takes long.
    """
    if not collection_path.match("test_*.py"):
        return None
    source = collection_path.read_text(encoding="utf-8")
    if config.getoption("--protocol-table") is not None:
        return "mark.spec(" not in source or None
    chosen: str = config.getoption("-m") or ""
    if "not interop" in chosen and "\npytestmark = pytest.mark.interop\n" in source:
        return True
    path = collection_path.relative_to(Path(__file__).parent).as_posix()
    return (
        any(
            f"not {mark}" in chosen and not which and path.startswith(where)
            for mark, table in TABLES.items()
            for where, which in table
        )
        or None
    )


# What other tests say more quickly, in one more way: `make check` runs it as well. A file or folder, and which of its
# parameters; nothing for all of them.
SLOW: Final = (
    ("benchmarks/", ""),
    ("bindings/test_process.py", "fifty|killed"),
    ("contract/test_contract_after_waiting.py", ""),
    ("cli/test_documented_sessions.py", "as_it_is_written"),
    ("contract/test_cancelled_at_every_checkpoint.py", "websocket-2025-11-25"),
    ("contract/test_contract_over_a_process.py", "three_hundred|unix"),
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
    ("server/test_ending_by_signals.py", "third|lean"),
    ("siege/", ""),
    ("types/test_official_schema.py", "sent_is_valid"),
)


# What takes long and seldom breaks, of the folders that `make quick` runs: how time grows with size, what is refused
# because it would cost too much, real processes and signals. In the same form.
THOROUGH: Final = (
    ("client/test_group.py", "killed|not_restarted|any_step|leaving_while|says_so_until"),
    ("client/test_first_connecting.py", "descendant|half_an_end|silent_process|at_every_step"),
    ("client/test_remembering.py", "hundreds"),
    ("client/test_storms.py", ""),
    ("codec/test_cost.py", "objects_never|is_linear"),
    ("codec/test_slow_numbers.py", "take_about_their_size"),
    ("core/test_account.py", "as_long_among_many"),
    ("core/test_time_against_size.py", ""),
    ("core/test_sse.py", "endless_empty|many_lines|in_one_pass"),
    ("core/test_http_chunks.py", "for_ever"),
    ("core/test_sealing.py", "no_two"),
    ("schema/test_colliding_keys.py", "time_by_its_size"),
    ("schema/test_time_of_reading_values.py", ""),
    ("schema/test_validator.py", "absurd|cost|doubles|steps|by_its_length|out_of_proportion|however_much"),
    ("server/test_ending_by_signals.py", ""),
    ("server/test_kept_parked.py", "given_back"),
    ("server/test_parking.py", "a_thousand"),
    ("server/test_resources.py", "long_list"),
    ("server/test_serve_listen.py", "a_thousand"),
)
TABLES: Final = {"slow": SLOW, "thorough": THOROUGH}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is slow, before anything is chosen by its marks."""
    path = item.path.relative_to(Path(__file__).parent).as_posix()
    for mark, table in TABLES.items():
        if any(path.startswith(where) and re.search(which, item.name) is not None for where, which in table):
            item.add_marker(mark)


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
