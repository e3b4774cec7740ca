"""What of the conformance suite has passed before, kept in a file, and whether it still does."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, final

import attrs
from scoring import SIDES, Result, Run

Baseline: TypeAlias = Mapping[Run, Mapping[str, int]]
"""The runs that pass, and in each how many checks pass, by id."""

HEADER: Final = """\
# The runs of the official conformance suite that pass, and how many checks pass in each, by what they require.
# `make conformance` fails when one of them does not, or passes less. Written by `run.py --update`.
"""
BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@final
@attrs.frozen
class Comparison:
    """What has become of a baseline.

    Attributes:
        falls: What passed before and does not now, as sentences that name the run.
        rises: What passes now and did not before, likewise.
    """

    falls: tuple[str, ...]
    rises: tuple[str, ...]


def read_baseline(text: str) -> Baseline:
    """Read what `write_baseline` has written.

    Raises:
        ValueError: It is no TOML.
    """
    tables = tomllib.loads(text)
    return {
        Run(side, revision, scenario): checks
        for side in SIDES
        for revision, scenarios in tables.get(side, {}).items()
        for scenario, checks in scenarios.items()
    }


def write_baseline(baseline: Baseline) -> str:
    """Return a baseline as TOML: in order, so that changes are easy to see."""
    tables = [HEADER]
    for run in sorted(baseline):
        head = f"[{run.side}.{_key(run.revision)}.{_key(run.scenario)}]"
        tables.append("\n".join((head, *(f"{_key(id)} = {n}" for id, n in sorted(baseline[run].items())), "")))
    return "\n".join(tables)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def renew(baseline: Baseline, selected: Iterable[Run], results: Iterable[Result]) -> Baseline:
    """Return the baseline as the results have it, for those runs of it that were selected."""
    selected = set(selected)
    kept = {run: checks for run, checks in baseline.items() if run not in selected}
    return kept | {result.run: result.passes for result in results if not result.complaints}


def compare(baseline: Baseline, results: Iterable[Result]) -> Comparison:
    """Find out what has become of a baseline.

    A run that is not in the baseline cannot fall, whatever becomes of it.
    """
    falls: list[str] = []
    rises: list[str] = []
    found = {result.run: result for result in results}
    for run in sorted(baseline.keys() | found.keys()):
        result = found.get(run)
        if result is None:
            falls.append(
                f"{run}: passed before, and was not run: the suite does not have it any more, or it is left out here"
            )
        elif run not in baseline:
            if not result.complaints:
                rises.append(f"{run}: passes now")
        elif result.complaints:
            falls.append(f"{run}: passed before, and does not now: {'; '.join(result.complaints)}")
        else:
            before = baseline[run]
            for id in sorted(before.keys() | result.passes.keys()):
                was, now = before.get(id, 0), result.passes[id]
                sentence = f"{run}: {id} passed {was} times before, and {now} times now"
                if now < was:
                    falls.append(sentence)
                elif now > was:
                    rises.append(sentence)
    return Comparison(tuple(falls), tuple(rises))
