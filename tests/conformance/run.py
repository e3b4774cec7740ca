"""Play every scenario of the official conformance suite, one for each core at a time: ``python tests/conformance/run.py``.

The score is printed, for each leg and in total, and compared with ``baseline.toml``; what passed before and does not
now makes this fail.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from baseline import Baseline, compare, read_baseline, renew, write_baseline
from scoring import SIDES, Result, Run, Score
from suite import ServerProblemError, list_runs, open_server, play_client, play_server

BASELINE: Final = Path(__file__).with_name("baseline.toml")

NOT_YET: Final[Sequence[str]] = ("server/*/tasks-status-notifications",)
"""What cannot be passed yet, and so is not run: patterns of runs. This one the suite itself always skips."""

OUTPUT_LINES: Final = 30
"""How much is shown of what both sides said in a run that did not pass."""


def matches(run: Run, patterns: Iterable[str]) -> bool:
    """Say whether one of the patterns means a run."""
    return any(fnmatch(str(run), pattern) for pattern in patterns)


def play(runs: Iterable[Run], http: str, *, through_proxy: bool) -> list[Result]:
    """Play the runs one after another, and show them; each leg has a server of its own, over a host for HTTP."""
    results: list[Result] = []
    for leg, of_leg in groupby(runs, key=lambda run: run.leg):
        if leg.startswith("client"):
            results += (play_one(partial(play_client, run)) for run in of_leg)
        else:
            with open_server(http, through_proxy=through_proxy) as (url, log):
                results += (play_one(partial(play_server, run, url, log)) for run in of_leg)
    return results


def play_one(play: Callable[[], Result]) -> Result:
    """Play a run, and print what has become of it."""
    result = play()
    show(result)
    return result


def show(result: Result) -> None:
    """Print what has become of a run: all of it at once, for others print too."""
    passes = result.passes.total()
    lines = [f"{'FAIL' if result.complaints else 'ok  '} {result.run}: {passes} passed"]
    lines += (f"     {complaint}" for complaint in result.complaints)
    if result.complaints:
        lines += (f"     | {line}" for line in result.output.splitlines()[-OUTPUT_LINES:])
    else:
        lines += (f"     {warning}" for warning in result.warnings)
    print("\n".join(lines) + "\n", end="", flush=True)


def summary(results: Sequence[Result], left_out: int) -> list[str]:
    """Return the scores, as lines: of each leg, and in the last one of all."""
    lines = [
        f"{leg}: {score}, {score.checks} checks passed"
        for leg, of_leg in groupby(results, key=lambda result: result.run.leg)
        for score in [Score.of(of_leg)]
    ]
    totals = [f"{Score.of(each for each in results if each.run.side == side)} {side}" for side in SIDES]
    later = f" ({left_out} runs are not tried yet: {', '.join(NOT_YET)})" if left_out else ""
    return [*lines, f"conformance: {', '.join(totals)}{later}"]


def verdict(baseline: Baseline, results: Sequence[Result]) -> bool:
    """Print what has changed since the baseline was written, and return whether it is kept."""
    comparison = compare(baseline, results)
    for fall in comparison.falls:
        print(f"the score has fallen: {fall}")
    for rise in comparison.rises:
        print(f"the score has risen: {rise}")
    if comparison.rises:
        print(f"Keep it there: python {shlex.join(sys.argv)} --update")
    return not comparison.falls


def main() -> int:
    """Run what the command line names, and return the exit status.

    Raises:
        SystemExit: Our server did not begin or did not end.
    """
    parser = argparse.ArgumentParser(description="Play the scenarios of the official conformance suite.")
    parser.add_argument("--update", action="store_true", help=f"write what passes to {BASELINE.name}")
    parser.add_argument(
        "--http", default="hypercorn", help="what serves: hypercorn or lean; the baseline is the same"
    )
    parser.add_argument(
        "--through-proxy", action="store_true", help="put our proxy before our server; the baseline is the same"
    )
    parser.add_argument("pattern", nargs="*", help="only these runs, for example 'server/2025-*/tools-*'")
    arguments = parser.parse_args()
    patterns: list[str] = arguments.pattern or ["*"]
    selected = [run for side in SIDES for run in list_runs(side) if matches(run, patterns)]
    runs = [run for run in selected if not matches(run, NOT_YET)]
    cores = os.cpu_count() or 1
    try:
        with ThreadPoolExecutor(cores) as players:
            shares = [runs[core::cores] for core in range(cores)]
            play_share = partial(play, http=arguments.http, through_proxy=arguments.through_proxy)
            results = [result for share in players.map(play_share, shares) for result in share]
    except ServerProblemError as error:
        raise SystemExit(f"conformance: {error}") from error
    results.sort(key=lambda result: runs.index(result.run))
    print(*summary(results, len(selected) - len(runs)), sep="\n")
    baseline = read_baseline(BASELINE.read_text())
    of_selected = {run: checks for run, checks in baseline.items() if matches(run, patterns)}
    if arguments.update:
        BASELINE.write_text(write_baseline(renew(baseline, of_selected, results)))
        return 0
    return 0 if verdict(of_selected, results) else 1


if __name__ == "__main__":
    sys.exit(main())
