"""What every test folder shares."""

from __future__ import annotations

import functools
import gc
import os
import re
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

# Test modules import the helpers that lie beside them; what several folders need lies in `support`.
sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "site"))

from authorization_rules import modules_of_rules
from inside_base import repetitions
from matrix_table import MatrixTable
from patient_clock import run_patiently
from protocol_table import Table

# Nothing that is collected here becomes garbage before the tests begin, and then it is the collector's no more: see below.
gc.disable()

# How long an example takes says more about the machine's neighbours than about the code. Hypothesis draws the same examples
# in each run, so that a change fails for what it changes; `make nightly` draws fresh ones, and what made a test fail there can
# be tried again here.
settings.register_profile("trio_mcp", deadline=None, derandomize=True)
settings.load_profile("trio_mcp")
settings.register_profile("fresh", deadline=None, derandomize=False, print_blob=True)
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run one process more than there are cores: many tests wait, for a process that begins or a moment that comes."""
    return (os.cpu_count() or 1) + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what would be deselected to the last test, or has no marks when only the table is wanted.

    Each worker would import and collect it first, and that takes long.
    """
    if not collection_path.match("test_*.py"):
        return None
    source = collection_path.read_text(encoding="utf-8")
    if config.getoption("--protocol-table") is not None:
        module = collection_path.relative_to(Path(__file__).parent).as_posix()
        is_shown = "mark.spec(" in source or "@shows(" in source or module in modules_of_rules()
        return None if is_shown else True
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


# What other tests say more quickly, in one more way: `make nightly` runs it. A file or folder, and which of its
# parameters; nothing for all of them.
SLOW: Final = (
    ("benchmarks/", ""),
    ("bindings/test_process.py", "fifty|killed"),
    ("contract/test_contract_after_waiting.py", ""),
    ("cli/test_bench.py", r"at_an_address\[(tcp|unix|sse)|any_server_is_measured\[words1"),
    ("cli/test_documented_sessions.py", "as_it_is_written"),
    ("contract/test_cancelled_at_every_checkpoint.py", "websocket-2025-11-25"),
    ("contract/test_contract_over_a_process.py", "three_hundred|unix"),
    ("contract/test_isolation.py", "websocket-2025|sse-2024"),
    (
        "contract/test_left_at_every_checkpoint.py",
        "proxy|unix|http-lean|http-2025|stdio.*(returns|raises|closes|cancelled)",
    ),
    ("contract/test_contract_over_sockets.py", ""),
    ("contract/test_torn_frames.py", ""),
    ("examples/test_transcripts.py", ""),
    ("http_server/", r"\[.*(application|lean)"),
    ("http_server/test_behind_nginx.py", ""),
    ("http_server/test_nothing_outlives_its_answer.py", ""),
    ("matrix/", r"^(?!test_a_batch).*((json|stateless|sse)-(hypercorn|lean)|2025-0[36]|(?<!sse-)2024|sse-2025)"),
    (
        "matrix/",
        r"(many_calls|megabytes).*\[(.*-(hypercorn|lean)|stdio|tls|unix|json|stateless|sse|proxy)",
    ),
    (
        "matrix/test_many_calls.py",
        r"\[(tcp|websocket|http)-2025",  # the other era is there
    ),
    ("matrix/", r"(tls|unix|http-lean|websocket-hypercorn)-2025|websocket-lean"),
    ("matrix/test_matrix_table.py", ""),
    ("programs/", ""),
    ("protocol/", r"\[.*(asgi|json|stateless)|2024-11-05|2025-03-26|2025-06-18"),
    ("protocol/test_table.py", ""),
    ("schema/test_hint_properties.py", ""),
    ("server/test_ending_by_signals.py", "third|lean"),
    ("server/test_redis_tasks.py", ""),
    ("siege/", ""),
    ("types/test_official_schema.py", "sent_is_valid"),
)


# What takes long and seldom breaks: how time grows with size, what is refused because it would cost too much, thousands
# of anything, many seeds, the fourth run of pytest in a process of its own. `make nightly` runs it. In the same form.
THOROUGH: Final = (
    ("auth/test_both_halves.py", "a_thousand"),
    ("auth/test_oauth_calls.py", "a_thousand"),
    ("bindings/test_stdio_server.py", "linear|twenty_thousand"),
    ("cli/test_bridging.py", r"deadline_at_the_client.*\[(True-legacy|False)"),
    ("cli/test_terminal.py", r"is_full_is_said\[words[1-4]|is_missing_is_said\[(?!list)|declined\[answers[12]"),
    ("client/test_first_connecting.py", "descendant|half_an_end|silent_process|at_every_step"),
    ("client/test_group.py", "killed|not_restarted|any_step|leaving_while|says_so_until"),
    ("client/test_group_config.py", "hundred_thousand"),
    ("client/test_remembering.py", "hundreds"),
    ("client/test_storms.py", ""),
    ("codec/test_cost.py", "objects_never|is_linear"),
    ("codec/test_slow_numbers.py", "take_about_their_size"),
    ("contract/test_cancelled_at_every_checkpoint.py", "with_(progress|a_question)-(http-2025|websocket|sse)"),
    ("core/test_account.py", "as_long_among_many"),
    ("core/test_http_chunks.py", "for_ever"),
    ("core/test_sealing.py", "no_two"),
    ("core/test_sse.py", "endless_empty|many_lines|in_one_pass"),
    ("core/test_time_against_size.py", ""),
    ("fuzz/test_fuzz.py", "fresh_inputs|work_grows"),
    ("http_server/test_hosting.py", "many_servers"),
    ("http_server/test_idle_sessions.py", "20_kib|nothing_behind|hundreds"),
    ("http_server/test_kept_subscriptions.py", "as_many_ordinary"),
    ("mutants/", "notice_it"),
    ("peer/test_send_queue.py", "costs_no_more"),
    ("schema/test_colliding_keys.py", "time_by_its_size"),
    ("schema/test_time_of_reading_values.py", ""),
    ("schema/test_validator.py", "absurd|cost|doubles|steps|by_its_length|out_of_proportion|however_much"),
    ("server/test_ending_by_signals.py", ""),
    ("server/test_kept_parked.py", "given_back"),
    ("server/test_parking.py", "a_thousand"),
    ("server/test_resources.py", "long_list"),
    ("server/test_serve_listen.py", "a_thousand"),
    ("simulation/test_simulation.py", r"fresh_programs|every_kind|same_log\[(?!memory|http)"),
    ("test_fresh_seeds.py", "each_run|n2"),
    ("testing/test_pytest_plugin.py", "mistakes|hypothesis|leaves_behind|without_the_check|by_itself"),
)
TABLES: Final = {"slow": SLOW, "thorough": THOROUGH}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is slow, before anything is chosen by its marks."""
    for mark, which in _rows_of(item.path):
        if which.search(item.name) is not None:
            item.add_marker(mark)


@functools.cache
def _rows_of(path: Path) -> list[tuple[str, re.Pattern[str]]]:
    """Return the marks that the tables have for tests of a file, and for which of them."""
    where = path.relative_to(Path(__file__).parent).as_posix()
    return [
        (mark, re.compile(which))
        for mark, table in TABLES.items()
        for begin, which in table
        if where.startswith(begin)
    ]


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
        # Thousands of tests with their parameters and modules stay to the end: the garbage collector need not look at
        # them whenever it runs, nor when a test asks it to.
        gc.freeze()
        gc.enable()
        return
    session.items.clear()
    pytest.exit("\n" + "\n".join(problems or [f"{path} is written"]), returncode=1 if problems else 0)


# What chance decides. A seed is printed of runs that pass, too: they are what was tried.
MOST_SEEDS: Final = 1 << 40
CHANCE: Final = "chance"
"""The property of a test that says how to do again what it did by chance."""


@pytest.fixture(scope="session")
def fresh_seed() -> int:
    """Return a number that is the same for all tests of one run, in all its processes, and another one in the next.

    ``FRESH_SEED=… pytest …`` gives it. What is done by it is said by ``record_property(CHANCE, …)``.
    """
    if (given := os.environ.get("FRESH_SEED")) is not None:
        return int(given)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return secrets.randbelow(MOST_SEEDS) if run is None else int(run, 16) % MOST_SEEDS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was done by chance, and how to do it again."""
    reports = [each for of_kind in terminalreporter.stats.values() for each in of_kind]
    said = {
        value
        for report in reports
        if isinstance(report, pytest.TestReport)
        for name, value in report.user_properties
        if name == CHANCE
    }
    for line in sorted(map(str, said)):
        terminalreporter.write_line(f"by chance: {line}")


def pytest_runtest_setup() -> None:
    """Let everything be logged as if for the first time: what earlier tests have made the package log repeats nothing."""
    repetitions.forget()
