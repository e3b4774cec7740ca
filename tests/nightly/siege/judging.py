"""What is measured while an attack is played, and what is called good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self, cast, final

import attrs
from plans import Host, Plan

MIB: Final = 1024 * 1024

MEMORY: Final = 512 * MIB
"""What a server may take, whatever comes: docs/deployment.md says so."""

TIMES: Final = 10
"""How many times as long as in quiet a call may take."""

AT_LEAST: Final = 0.01
"""Seconds that are not called slow, however fast it is in quiet."""

AT_ONCE: Final = 0.5
"""Seconds within which a call is refused, if it is."""

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


@final
@attrs.frozen
class Latency:
    """How long calls took, in seconds.

    Attributes:
        median: Half of them took less.
        most: All but one in twenty took less.
        worst: The longest.
        count: How many there were.
    """

    median: float
    most: float
    worst: float
    count: int

    @classmethod
    def of(cls, seconds: Iterable[float], *, every: float) -> Self:
        """Return the latency of calls that were to be made every so many seconds.

        While one takes longer, those are not made that would have waited with it; they count all the same, or a
        server that answers nobody for a minute would have one slow call.
        """
        waited: list[float] = []
        for each in seconds:
            waited.append(each)
            missed = each - every
            while missed > 0:
                waited.append(missed)
                missed -= every
        waited.sort()
        if not waited:
            return cls(0.0, 0.0, 0.0, 0)
        return cls(
            waited[len(waited) // 2],
            waited[min(len(waited) * 19 // 20, len(waited) - 1)],
            waited[-1],
            len(waited),
        )


INTERVALS: Final = {"modern": 0.03, "session": 0.05, "fresh": 0.05, "newcomer": 0.2}
"""The ways in which the honest client makes its calls (see `neighbour`), and how many seconds lie between two."""

KINDS: Final = tuple(INTERVALS)


@final
class Calls:
    """Calls of the honest client within some time."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls

    def latency(self, kind: str) -> Latency:
        """Return how long those took that succeeded, of a kind."""
        taken = [call.seconds for call in self.calls if call.kind == kind and call.outcome == "ok"]
        return Latency.of(taken, every=INTERVALS[kind])

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
        quiet: The honest client's calls before it.
        during: Those under attack.
        after: Those afterwards.
        peak: The most memory that the server took, in bytes.
        back: Seconds until everything was as before; `None` if it never was.
        left: What there was more of at the end.
        lines: How many lines the server logged.
        done: What the attacker has done and was answered.
        died: What has become of the server, if it ended or did not answer any more.
        is_busy: Whether the machine was busy with other things: how long calls took is not judged then.
    """

    plan: Plan
    host: Host
    quiet: Calls
    during: Calls
    after: Calls
    peak: int
    back: float | None
    left: Sequence[str]
    lines: int
    done: Mapping[str, int]
    died: str = ""
    is_busy: bool = False

    def bound(self, kind: str) -> float:
        """Return how long nearly all calls of a kind may take under attack, in seconds."""
        return TIMES * max(self.quiet.latency(kind).most, AT_LEAST)

    @property
    def slowest(self) -> str:
        """The kind of calls that suffered most."""
        return max(KINDS, key=lambda kind: self.during.latency(kind).most / self.bound(kind))

    def complaints(self) -> list[str]:
        """Return what is not as it should be."""
        return self.faults() if self.is_busy else [*self.faults(), *self.delays()]

    def faults(self) -> list[str]:
        """Return what is not as it should be, but for how long calls took."""
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

    def delays(self) -> list[str]:
        """Return which calls took too long."""
        found: list[str] = []
        for kind in KINDS:
            latency = self.during.latency(kind)
            if latency.most > self.bound(kind):
                found.append(f"{kind}: {1000 * latency.most:.0f} ms, bound {1000 * self.bound(kind):.0f}")
        late = sum(call.seconds > AT_ONCE for call in self.during.refused)
        return [*found, f"{late} refused late"] if late else found


HEAD: Final = (
    "attack",
    "host",
    "quiet, ms",
    "under attack, ms: median, 95 %, worst",
    "answered, refused, failed",
    "peak, MiB",
    "as before after, s",
    "verdict",
)


HELD: Final = ("held", "held; times not judged")
"""The verdicts on what is as it should be, as far as that was looked at."""


def table(rows: Sequence[Row]) -> list[str]:
    """Return rows as a table in Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    return lines + [line_of(row) for row in rows]


def line_of(row: Row) -> str:
    """Return a row as a line of the table."""
    quiet, during = row.quiet.latency(row.slowest), row.during.latency(row.slowest)
    answered = sum(call.outcome == "ok" for call in row.during.calls)
    cells = (
        row.plan.title,
        row.host,
        f"{1000 * quiet.most:.0f}",
        f"{1000 * during.median:.0f}, {1000 * during.most:.0f}, {1000 * during.worst:.0f} ({row.slowest})",
        f"{answered}, {len(row.during.refused)}, {row.during.failed.total()}",
        f"{row.peak // MIB}",
        "–" if row.back is None else f"{row.back:.0f}",
        "; ".join(row.complaints()).replace("|", "\\|").replace("\n", " ") or HELD[row.is_busy],
    )
    return "| " + " | ".join(cells) + " |"
