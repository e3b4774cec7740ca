"""The score of the conformance suite may rise, and must not fall."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from baseline import Baseline, Comparison, compare, read_baseline, renew, write_baseline
from run import BASELINE, NOT_YET, matches, summary, verdict
from scoring import Check, Result, Run, Status

PING = Run("server", "2025-11-25", "ping")
STATELESS = Run("server", "2026-07-28", "server-stateless")
SCOPE = Run("client", "2026-07-28", "auth/scope-step-up")
BEFORE: Baseline = {PING: {"ping": 1, "wire": 2}}


def passed(run: Run, passes: Mapping[str, int], *others: Check) -> Result:
    """Return a result with so many checks that pass, and others."""
    checks = (Check(id, "Name", Status.SUCCESS) for id, count in passes.items() for _ in range(count))
    return Result(run, (*checks, *others))


FAILED = Check("wire", "WireSchemaValid", Status.FAILURE, "no result")


def test_a_score_that_stays_is_neither_a_fall_nor_a_rise() -> None:
    assert compare(BEFORE, [passed(PING, {"ping": 1, "wire": 2})]) == Comparison((), ())


def test_checks_that_fail_are_a_fall() -> None:
    assert compare(BEFORE, [passed(PING, {"ping": 1, "wire": 1}, FAILED)]).falls == (
        "server/2025-11-25/ping: passed before, and does not now: FAILURE: WireSchemaValid (wire): no result",
    )


@pytest.mark.parametrize("status", [Status.SKIPPED, Status.WARNING, Status.INFO])
def test_checks_that_only_do_not_pass_any_more_are_a_fall(status: Status) -> None:
    """Skipping passes with the suite, and so do servers that it warns of."""
    result = passed(PING, {"ping": 1, "wire": 1}, Check("wire", "WireSchemaValid", status))
    assert result.complaints == []
    falls = ("server/2025-11-25/ping: wire passed 2 times before, and 1 times now",)
    assert compare(BEFORE, [result]) == Comparison(falls, ())


def test_checks_that_are_not_made_any_more_are_a_fall() -> None:
    assert compare(BEFORE, [passed(PING, {"wire": 2})]).falls == (
        "server/2025-11-25/ping: ping passed 1 times before, and 0 times now",
    )


def test_a_pass_that_has_become_vacuous_is_a_fall() -> None:
    (fall,) = compare(BEFORE, [Result(PING, (Check("ping", "Ping", Status.SKIPPED),))]).falls
    problem = "nothing was checked (1 of 1 checks were skipped)"
    assert fall == f"server/2025-11-25/ping: passed before, and does not now: {problem}"


def test_a_run_that_went_wrong_is_a_fall_though_its_checks_pass() -> None:
    result = Result(SCOPE, (Check("scope", "Scope", Status.SUCCESS),), "the suite ended with status 1")
    assert compare({SCOPE: {"scope": 1}}, [result]).falls == (
        "client/2026-07-28/auth/scope-step-up: passed before, and does not now: the suite ended with status 1",
    )


def test_a_run_that_has_vanished_is_a_fall() -> None:
    (fall,) = compare({**BEFORE, SCOPE: {"scope": 1}}, [passed(PING, BEFORE[PING])]).falls
    assert fall.startswith("client/2026-07-28/auth/scope-step-up: passed before, and was not run")


def test_more_checks_and_more_runs_are_a_rise() -> None:
    results = [passed(PING, {"ping": 1, "wire": 3}), passed(STATELESS, {"discover": 1})]
    rises = (
        "server/2025-11-25/ping: wire passed 2 times before, and 3 times now",
        "server/2026-07-28/server-stateless: passes now",
    )
    assert compare(BEFORE, results) == Comparison((), rises)


def test_a_run_that_never_passed_is_no_fall() -> None:
    assert compare({}, [passed(PING, {"ping": 1}, FAILED)]) == Comparison((), ())


def test_a_baseline_can_be_written_and_read_again() -> None:
    baseline: Baseline = {**BEFORE, STATELESS: {}, SCOPE: {"2020-12-$schema-preserved": 1, 'a "quoted" one': 12}}
    text = write_baseline(baseline)
    assert read_baseline(text) == baseline
    assert write_baseline({run: baseline[run] for run in reversed(list(baseline))}) == text


def test_a_renewed_baseline_has_what_passes_now() -> None:
    """Of the runs that were selected; what became of others nobody knows."""
    results = [passed(PING, {"ping": 2}), passed(SCOPE, {"scope": 1}, FAILED)]
    before = {**BEFORE, STATELESS: {"discover": 1}, SCOPE: {"scope": 1}}
    assert renew(before, [PING, SCOPE], results) == {PING: {"ping": 2}, STATELESS: {"discover": 1}}


def test_the_verdict_names_what_has_fallen(capsys: pytest.CaptureFixture[str]) -> None:
    assert not verdict(BEFORE, [])
    assert "the score has fallen: server/2025-11-25/ping: " in capsys.readouterr().out


def test_the_verdict_says_how_to_keep_what_has_risen(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict({}, [passed(PING, {"ping": 1})])
    said = capsys.readouterr().out
    assert "the score has risen: server/2025-11-25/ping: passes now\n" in said
    assert said.rstrip().endswith("--update")


def test_the_summary_has_each_leg_and_both_sides() -> None:
    results = [
        passed(PING, {"ping": 1}),
        passed(STATELESS, {"discover": 2}),
        passed(STATELESS, {"discover": 1}, FAILED),
        passed(SCOPE, {"scope": 1}),
    ]
    assert summary(results, 44) == [
        "server 2025-11-25: 1 of 1, 1 checks passed",
        "server 2026-07-28: 1 of 2, 3 checks passed",
        "client 2026-07-28: 1 of 1, 1 checks passed",
        f"conformance: 2 of 3 server, 1 of 1 client (44 runs are not tried yet: {', '.join(NOT_YET)})",
    ]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("*", {PING, STATELESS, SCOPE}),
        ("server/*", {PING, STATELESS}),
        ("*/2026-*", {STATELESS, SCOPE}),
        ("client/*/auth/*", {SCOPE}),
        ("ping", set[Run]()),
    ],
)
def test_patterns_mean_runs_by_side_revision_and_scenario(pattern: str, meant: set[Run]) -> None:
    assert {run for run in (PING, STATELESS, SCOPE) if matches(run, ("none", pattern))} == meant


def test_the_baseline_of_this_project_is_as_it_was_written() -> None:
    """So that the next one who renews it sees only what has changed."""
    text = BASELINE.read_text()
    assert write_baseline(read_baseline(text)) == text
