"""What every test folder shares."""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

import pytest
from authorization_rules import modules_of_rules
from hypothesis import settings
from machine import forbid
from matrix_table import MatrixTable
from patient_clock import run_patiently
from places import TESTS
from protocol_table import Table

# Nothing that is collected here becomes garbage before the tests begin, and then it is the collector's no more: see below.
gc.disable()

# How long an example takes says more about the machine's neighbours than about the code. Hypothesis draws the same examples
# in each run, so that a change fails for what it changes; `make nightly` draws fresh ones, and what made a test fail there can
# be tried again here.
settings.register_profile("trio_mcp", deadline=None, derandomize=True)
settings.load_profile("trio_mcp")
settings.register_profile("fresh", deadline=None, derandomize=False, print_blob=True)

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
    """Leave out what would be deselected to the last test, or has no marks when only a table is wanted.

    Each worker would import and collect it first, and that takes long.
    """
    if config.getoption("--protocol-table") is not None and collection_path.match("test_*.py"):
        source = collection_path.read_text(encoding="utf-8")
        module = collection_path.relative_to(TESTS).as_posix()
        is_shown = "mark.spec(" in source or "@shows(" in source or module in modules_of_rules()
        return None if is_shown else True
    chosen: str = config.getoption("-m") or ""
    return any(f"not {layer}" in chosen and collection_path == TESTS / layer for layer in LAYERS) or None


# The layers. A folder says of which layer its tests are: `unit` and `memory` have neither sockets nor processes, and are what
# `make test` runs, with `smoke`; `wires` has, and is run by `make wires`; `nightly` takes long, measures, or needs other
# programs. A case of a table that belongs to a later layer than its folder has the mark of that.
LAYERS: Final = ("wires", "nightly")
MIDDLE: Final = {"2025-03-26", "2025-06-18"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what a folder says, before anything is chosen by its marks."""
    layer = item.path.relative_to(TESTS).parts[0]
    if layer in LAYERS:
        item.add_marker(layer)


def _leave_out_the_middle(items: Sequence[pytest.Item]) -> None:
    """Of a function that runs in several revisions, those between the oldest and the newest are for `make nightly`."""
    ends = {
        item.nodeid.partition("[")[0] for item in items if str(_revision_of(item)) in {"2025-11-25", "2026-07-28"}
    }
    for item in items:
        is_there_already = item.nodeid.partition("[")[0] in ends
        if (
            is_there_already
            and str(_revision_of(item)) in MIDDLE
            and item.path.relative_to(TESTS).parts[0] != "unit"
        ):
            item.add_marker("nightly")


def _revision_of(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec and callspec.params.get("revision")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark cases before any are chosen; then, when it is known which tests are Trio's, give these a clock.

    It does not mind how busy the machine is.
    """
    _leave_out_the_middle(items)
    yield
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keep tests in memory from the machine."""
    layer = item.path.relative_to(TESTS).parts[0]
    forbid(is_forbidden=layer in {"unit", "memory"} and not any(map(item.get_closest_marker, LAYERS)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """What lives longer than a test may end as it likes."""
    forbid(is_forbidden=False)
