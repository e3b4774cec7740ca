"""What is made of what the conformance suite finds, from checks as it writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scoring import Check, Result, Run, Score, Side, Status, read_checks
from suite import read_list, read_result

PING = Run("server", "2025-11-25", "ping")
TOOLS = Run("client", "2026-07-28", "tools_call")

LISTED = """\
Server scenarios (test against a server):
  - server-stateless [2026-07-28]
  - ping [2025-06-18,2025-11-25]
  - tasks-lifecycle [extension]
  - another-one [extension]
  - auth/dpop [extension]
"""


def written(*statuses: str) -> str:
    """Return a ``checks.json`` as the suite writes it."""
    return json.dumps(
        [
            {
                "id": f"check-{number}",
                "name": f"Check{number}",
                "description": "Something is looked at",
                "status": status,
                "timestamp": "2026-11-21T16:54:43.379Z",
                "specReferences": [{"id": "MCP-Ping", "url": "https://example.com/ping"}],
                **({"errorMessage": "it is not so"} if status in {"FAILURE", "WARNING"} else {}),
            }
            for number, status in enumerate(statuses)
        ]
    )


def result(run: Run, *statuses: str) -> Result:
    return Result(run, read_checks(written(*statuses)))


def run_of(side: Side) -> Run:
    return PING if side == "server" else TOOLS


def test_checks_are_read_with_what_they_complain_of() -> None:
    assert read_checks(written("SUCCESS", "WARNING")) == (
        Check("check-0", "Check0", Status.SUCCESS),
        Check("check-1", "Check1", Status.WARNING, "it is not so"),
    )


def test_an_unknown_status_is_not_taken_for_a_pass() -> None:
    with pytest.raises(ValueError, match="MAYBE"):
        read_checks(written("MAYBE"))


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("statuses", [("SUCCESS",), ("SUCCESS", "INFO", "SKIPPED")])
def test_a_run_passes_when_a_check_does_and_none_fails(side: Side, statuses: tuple[str, ...]) -> None:
    assert result(run_of(side), *statuses).complaints == []


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_failed_check_fails_the_run_and_says_why(side: Side) -> None:
    complaints = result(run_of(side), "SUCCESS", "FAILURE").complaints
    assert complaints == ["FAILURE: Check1 (check-1): it is not so"]


def test_warnings_fail_clients_and_not_servers() -> None:
    """The suite has it so."""
    assert result(TOOLS, "SUCCESS", "WARNING").complaints == ["WARNING: Check1 (check-1): it is not so"]
    assert result(PING, "SUCCESS", "WARNING").complaints == []
    assert [str(warning) for warning in result(PING, "SUCCESS", "WARNING").warnings] == [
        "WARNING: Check1 (check-1): it is not so"
    ]


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize(
    ("statuses", "skipped"), [((), "0 of 0"), (("SKIPPED", "SKIPPED", "INFO"), "2 of 3"), (("INFO",), "0 of 1")]
)
def test_a_run_in_which_nothing_was_checked_does_not_pass(
    side: Side, statuses: tuple[str, ...], skipped: str
) -> None:
    """The suite prints a tick."""
    assert result(run_of(side), *statuses).complaints == [f"nothing was checked ({skipped} checks were skipped)"]


def test_passes_are_counted_by_what_they_require() -> None:
    checks = [Check(id, name, Status.SUCCESS) for id, name in (("header", "a"), ("header", "b"), ("meta", "c"))]
    assert Result(PING, (*checks, Check("header", "d", Status.SKIPPED))).passes == {"header": 2, "meta": 1}


def test_a_score_counts_runs_and_checks() -> None:
    score = Score.of(
        [result(PING, "SUCCESS", "SUCCESS"), result(PING, "SUCCESS", "FAILURE"), result(PING, "SKIPPED")]
    )
    assert score == Score(passed=1, runs=3, checks=3)
    assert str(score) == "1 of 3"


# What the suite leaves behind.


def leave(directory: Path, checks: str, **said: str) -> None:
    """Leave behind what the suite does; names of scenarios can have slashes in them."""
    folder = directory / "auth" / "scenario-2026-11-21T16-54-43-379Z"
    folder.mkdir(parents=True)
    (folder / "checks.json").write_text(checks)
    for name, text in said.items():
        (folder / f"{name}.txt").write_text(text)


def test_a_run_is_read_with_what_the_client_said(tmp_path: Path) -> None:
    leave(tmp_path, written("SUCCESS"), stdout="one\n", stderr="two\n")
    found = read_result(TOOLS, 0, tmp_path, "Passed: 1/1")
    assert found == Result(TOOLS, read_checks(written("SUCCESS")), None, "two\none\n")


def test_a_client_that_ends_badly_fails_though_every_check_passes(tmp_path: Path) -> None:
    """Neither its exit status nor that it took too long is among the checks."""
    leave(tmp_path, written("SUCCESS", "INFO"), stderr="Traceback")
    (complaint,) = read_result(TOOLS, 1, tmp_path, "").complaints
    assert complaint.startswith("the suite ended with status 1")


def test_the_suite_need_not_say_twice_that_a_check_failed(tmp_path: Path) -> None:
    leave(tmp_path, written("FAILURE"))
    assert read_result(TOOLS, 1, tmp_path, "").complaints == ["FAILURE: Check0 (check-0): it is not so"]


@pytest.mark.parametrize("status", [0, 1])
def test_a_scenario_that_leaves_nothing_behind_does_not_pass(tmp_path: Path, status: int) -> None:
    """One that is not meant for the revision is skipped with status 0; one that breaks down writes nothing either."""
    found = read_result(PING, status, tmp_path, "SKIPPED: scenario 'ping' is not applicable")
    assert found.complaints == [f"the suite wrote no checks, and ended with status {status}"]
    assert "not applicable" in found.output


# What the suite lists.


def test_each_scenario_is_run_in_each_of_its_revisions_and_only_extensions_that_are_built() -> None:
    assert read_list("server", LISTED) == [
        Run("server", "2025-06-18", "ping"),
        Run("server", "2025-11-25", "auth/dpop"),
        Run("server", "2025-11-25", "ping"),
        Run("server", "2026-07-28", "auth/dpop"),
        Run("server", "2026-07-28", "server-stateless"),
        Run("server", "2026-07-28", "tasks-lifecycle"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Server scenarios (test against a server):\n", "no scenario for a server"),
        (f"{LISTED}  - odd (2026-07-28)\n", "cannot be read: '  - odd \\(2026-07-28\\)'"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    """No scenario may get lost because the suite lists it in another way."""
    with pytest.raises(ValueError, match=problem):
        read_list("server", text)
