"""What is measured while an attack is played, and what is called good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

import attrs
from plans import Host, Plan

MIB: Final = 1024 * 1024

MEMORY: Final = 512 * MIB
"""What a server may take, whatever comes: docs/deployment.md says so."""

MOST_LINES: Final = 500
"""Lines that an attack may add to the log."""

KEPT: Final = 32 * MIB
"""What may be left in memory: caches that have filled."""

SHARE: Final = 128 * MIB
"""What one client may hold; see `Limits.max_kept_bytes_per_principal`."""

OPEN: Final = 12
"""File descriptors and tasks that come and go with the honest client's connections."""


@attrs.frozen
class Call:
    """A call of the honest client.

    Attributes:
        kind: How it was made; see `neighbour`.
        since: When.
        seconds: How long it took.
        outcome: What became of it: `ok`, `refused`, or what went wrong.
    """

    kind: str
    since: float
    seconds: float
    outcome: str


INTERVALS: Final = {"modern": 0.03, "session": 0.05, "fresh": 0.05, "newcomer": 0.2}
"""The ways in which the honest client makes its calls (see `neighbour`), and how many seconds lie between two."""

KINDS: Final = tuple(INTERVALS)


@final
class Calls:
    """Calls of the honest client within some time."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls

    @property
    def refused(self) -> list[Call]:
        """Those that were refused, and told when to come back."""
        return [call for call in self.calls if call.outcome == "refused"]

    @property
    def failed(self) -> Counter[str]:
        """What has become of those that neither succeeded nor were refused in good order."""
        return Counter(call.outcome for call in self.calls if call.outcome not in ("ok", "refused"))


@attrs.frozen
class Standing:
    """How things stand with the server.

    Attributes:
        memory: What lives in it, in bytes, about; beside that the allocator may have more.
        files: How many files and sockets it has open.
        tasks: How many tasks live in it.
        statistics: What its endpoint counts, in one level.
        names: What most of the tasks are.
    """

    memory: int
    files: int
    tasks: int
    statistics: Mapping[str, float]
    names: Sequence[tuple[str, int]] = ()

    def more_than(self, before: Standing, *, leaves_sessions: bool = False) -> list[str]:
        """Return what there is more of than there was before.

        Args:
            before: How things stood then.
            leaves_sessions: Whether what is kept for clients that may come back can be more, within their share.
        """
        found: list[str] = []
        memory = before.memory + KEPT + (SHARE if leaves_sessions else 0)
        if self.memory > memory:
            found.append(f"memory {before.memory // MIB} → {self.memory // MIB} MiB")
        if self.files > before.files + OPEN:
            found.append(f"files {before.files} → {self.files}")
        if leaves_sessions:
            return found
        if self.tasks > before.tasks + OPEN:
            found.append(f"tasks {before.tasks} → {self.tasks}")
        for name, value in self.statistics.items():
            was = before.statistics.get(name, 0)
            if name not in COUNTED_UP and value > was + (MIB if "bytes" in name else OPEN):
                found.append(f"{name} {was:g} → {value:g}")
        return found


COUNTED_UP: Final = frozenset({"dropped"})
"""What only ever grows."""


def flat(statistics: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers in statistics, by the way to them."""
    found: dict[str, float] = {}
    for name, value in statistics.items():
        if name in ("refused", "taken_back", "most"):
            continue  # they only grow, or are settings
        if isinstance(value, dict):
            found |= flat(cast("dict[str, Any]", value), f"{prefix}{name}.")
        elif isinstance(value, (int, float)):
            found[prefix + name] = value
    return found


@attrs.frozen
class Row:
    """What came of an attack.

    Attributes:
        plan: The attack.
        host: What served.
        during: Those under attack.
        after: Those afterwards.
        peak: The most memory that the server took, in bytes.
        back: Seconds until everything was as before; `None` if it never was.
        left: What there was more of at the end.
        lines: How many lines the server logged.
        done: What the attacker has done and was answered.
        died: What has become of the server, if it ended or did not answer any more.
    """

    plan: Plan
    host: Host
    during: Calls
    after: Calls
    peak: int
    back: float | None
    left: Sequence[str]
    lines: int
    done: Mapping[str, int]
    died: str = ""

    def faults(self) -> list[str]:
        """Return what is not as it should be. How long calls took is the business of the proxy in front."""
        found: list[str] = []
        if self.died:
            found.append(self.died)
        if not self.done.get("connections"):
            found.append("the attacker did nothing")
        for when, calls in (("", self.during), (" afterwards", self.after)):
            found += [f"{count} × {outcome}{when}" for outcome, count in calls.failed.most_common(2)]
        if self.after.refused:
            found.append(f"{len(self.after.refused)} refused afterwards")
        if self.peak > MEMORY:
            found.append(f"{self.peak // MIB} MiB")
        if self.left:
            found.append("left: " + ", ".join(self.left))
        if self.lines > MOST_LINES:
            found.append(f"{self.lines} lines logged")
        return found


HEAD: Final = (
    "attack",
    "host",
    "answered, refused, failed",
    "peak, MiB",
    "as before after, s",
    "verdict",
)


def table(rows: Sequence[Row]) -> list[str]:
    """Return rows as a table in Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- | ---: | ---: | ---: | --- |"]
    return lines + [line_of(row) for row in rows]


def line_of(row: Row) -> str:
    """Return a row as a line of the table."""
    answered = sum(call.outcome == "ok" for call in row.during.calls)
    cells = (
        row.plan.title,
        row.host,
        f"{answered}, {len(row.during.refused)}, {row.during.failed.total()}",
        f"{row.peak // MIB}",
        "–" if row.back is None else f"{row.back:.0f}",
        "; ".join(row.faults()).replace("|", "\\|").replace("\n", " ") or "held",
    )
    return "| " + " | ".join(cells) + " |"
