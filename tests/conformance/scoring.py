"""What the conformance suite has found: checks, what becomes of one run of a scenario, and the score of many.

Plain data and rules; nothing here starts the suite or knows what passed before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal, TypeAlias, final

import attrs

Side: TypeAlias = Literal["server", "client"]
"""Which of our two ends a scenario tries."""

SIDES: Final[tuple[Side, ...]] = ("server", "client")


class Status(StrEnum):
    """What the suite can say of a check."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    WARNING = "WARNING"
    SKIPPED = "SKIPPED"
    INFO = "INFO"


@final
@attrs.frozen
class Check:
    """One thing the suite has looked at.

    Attributes:
        id: What is required. Several checks of a run can have the same.
        name: What was looked at.
        status: How it went.
        message: Why it did not go well, if the suite says so.
    """

    id: str
    name: str
    status: Status
    message: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.name} ({self.id}){': ' if self.message else ''}{self.message}"


def read_checks(text: str) -> tuple[Check, ...]:
    """Read a ``checks.json`` of the suite.

    Raises:
        KeyError, ValueError: It is none.
    """
    return tuple(
        Check(check["id"], check["name"], Status(check["status"]), check.get("errorMessage", ""))
        for check in json.loads(text)
    )


@final
@attrs.frozen(order=True)
class Run:
    """A scenario, to be played in one revision."""

    side: Side
    revision: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.side}/{self.revision}/{self.scenario}"

    @property
    def leg(self) -> str:
        """What it has in common with the runs that use the same server."""
        return f"{self.side} {self.revision}"


@final
@attrs.frozen
class Result:
    """What has become of a run.

    Attributes:
        run: The run.
        checks: What the suite has looked at.
        problem: What went wrong with the run itself, if anything did.
        output: What the two sides have said, for whoever must find out why.
    """

    run: Run
    checks: tuple[Check, ...]
    problem: str | None = None
    output: str = ""

    @property
    def passes(self) -> Counter[str]:
        """How many checks have passed, by id."""
        return Counter(check.id for check in self.checks if check.status is Status.SUCCESS)

    @property
    def warnings(self) -> list[Check]:
        """What the suite would rather have otherwise."""
        return [check for check in self.checks if check.status is Status.WARNING]

    @property
    def complaints(self) -> list[str]:
        """Why the run has not passed; empty if it has.

        Warnings are complaints for clients, as the suite has it. Nothing that passed is one for both: the suite is
        content with a run of which every check was skipped.
        """
        bad = {Status.FAILURE, Status.WARNING} if self.run.side == "client" else {Status.FAILURE}
        complaints = [str(check) for check in self.checks if check.status in bad]
        if self.problem is not None:
            complaints.append(self.problem)
        if not complaints and not self.passes:
            skipped = sum(check.status is Status.SKIPPED for check in self.checks)
            complaints.append(f"nothing was checked ({skipped} of {len(self.checks)} checks were skipped)")
        return complaints


@final
@attrs.frozen
class Score:
    """How many of some runs have passed, and how many checks in them."""

    passed: int
    runs: int
    checks: int

    @classmethod
    def of(cls, results: Iterable[Result]) -> Score:
        """Count."""
        results = tuple(results)
        passed = sum(not result.complaints for result in results)
        return cls(passed, len(results), sum(result.passes.total() for result in results))

    def __str__(self) -> str:
        return f"{self.passed} of {self.runs}"
