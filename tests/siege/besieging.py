"""An attack on a server, an honest client beside it, and what came of both.

Each is a process of its own: the server (`fortress`), the honest client (`neighbour`), who attacks (`attacker`). What
the honest client notes is told apart by time: quiet before, under attack, and afterwards.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, Self, TypeAlias, cast, final

import attrs
from unmeasured import unmeasured

HERE: Final = Path(__file__).parent
MIB: Final = 1024 * 1024
Http: TypeAlias = Literal["hypercorn", "lean"]

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

KEPT: Final = 64 * MIB
"""What may be left of memory: what the allocator has, and caches that have filled."""

SHARE: Final = 128 * MIB
"""What one client may hold; see `Limits.max_kept_bytes_per_principal`."""

OPEN: Final = 12
"""File descriptors and tasks that come and go with the honest client's connections."""

HANGS: Final = 2.0
"""Seconds without a note of a kind of calls, after which one of these hangs."""

PATIENCE: Final = 20.0
"""Seconds in which a server answers how things stand, starts and ends."""


@attrs.frozen
class Plan:
    """An attack, and what it is played against.

    Attributes:
        attack: Its name, as `attacker` calls it.
        sse: Whether HTTP+SSE is served.
        authenticates: Whether clients have to say who they are.
        files: How many files and sockets the server may open.
        leaves_sessions: Whether sessions that were begun in good order, and parked handlers, are left: they are kept
            for as long as settings say, within their client's share.
    """

    attack: str
    sse: bool = False
    authenticates: bool = False
    files: int = 4096
    leaves_sessions: bool = False

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return self.attack if self.files == 4096 else f"{self.attack}, {self.files} files"

    def setup(self, http: Http) -> dict[str, Any]:
        """Return what the server is told."""
        return {"http": http, "sse": self.sse, "authenticates": self.authenticates, "files": self.files}


PLANS: Final = (
    Plan("host-of-dots"),
    Plan("long-fields"),
    Plan("many-fields"),
    Plan("odd-paths"),
    Plan("refused-hosts"),
    Plan("malformed-heads"),
    Plan("schema-errors"),
    Plan("schema-alternatives"),
    Plan("schema-unique"),
    Plan("schema-unevaluated"),
    Plan("typed-errors"),
    Plan("colliding-numbers"),
    Plan("empty-arrays"),
    Plan("deep-arrays"),
    Plan("long-numbers"),
    Plan("odd-uris"),
    Plan("forged-states"),
    Plan("sessions", leaves_sessions=True),
    Plan("uninitialised-sessions"),
    Plan("great-handshakes", leaves_sessions=True),
    Plan("begun-and-ended"),
    Plan("random-ids"),
    Plan("parked-handlers", leaves_sessions=True),
    Plan("great-parked-handlers", leaves_sessions=True),
    Plan("great-requests"),
    Plan("heavy-requests"),
    Plan("heavy-session-requests", leaves_sessions=True),
    Plan("unfinished-bodies"),
    Plan("unfinished-chunks"),
    Plan("slow-bodies"),
    Plan("slow-heads"),
    Plan("silent-connections"),
    Plan("silent-connections", files=256),
    Plan("new-connections"),
    Plan("great-subscriptions"),
    Plan("session-subscriptions", leaves_sessions=True),
    Plan("unread-answers"),
    Plan("unread-session-answers", leaves_sessions=True),
    Plan("unread-streams", leaves_sessions=True),
    Plan("unread-logs"),
    Plan("stored-events", leaves_sessions=True),
    Plan("absurd-event-ids", leaves_sessions=True),
    Plan("get-streams", leaves_sessions=True),
    Plan("sse-sessions", sse=True),
    Plan("unread-sse-sessions", sse=True),
    Plan("useless-messages", leaves_sessions=True),
    Plan("refused-credentials", authenticates=True),
    Plan("slow-authentication", authenticates=True),
    Plan("batches", leaves_sessions=True),
    Plan("small-requests"),
    Plan("unread-small-requests"),
    Plan("pipelined-requests"),
    Plan("pings", leaves_sessions=True),
    Plan("lists"),
    Plan("threads"),
    Plan("given-up-requests", leaves_sessions=True),
    Plan("abandoned-calls", leaves_sessions=True),
)


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


KINDS: Final = ("modern", "session", "fresh", "newcomer")
"""The ways in which the honest client makes its calls; see `neighbour`."""

INTERVAL: Final = 0.1
"""Seconds between two calls of a kind, at most, when all is quiet."""


@final
class Calls:
    """Calls of the honest client within some time."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls

    def latency(self, kind: str) -> Latency:
        """Return how long those took that succeeded, of a kind."""
        taken = [call.seconds for call in self.calls if call.kind == kind and call.outcome == "ok"]
        return Latency.of(taken, every=INTERVAL)

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
        memory: What it takes, in bytes.
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


@final
class Fortress:
    """A server in a process of its own.

    Args:
        setup: What it is told; see `fortress`.
        log: What it says goes there.
    """

    def __init__(self, setup: Mapping[str, Any], log: Path) -> None:
        self.log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "fortress.py"), json.dumps(setup)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=unmeasured(),
            )
        self.pid = self._process.pid
        self.port = int(self._line())

    def _line(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], PATIENCE)
        line: bytes = stdout.readline() if ready else b""
        if not line:
            raise TimeoutError("the server does not answer how things stand")
        return line

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, which it should not by itself."""
        return self._process.poll() is not None

    def memory(self) -> tuple[int, int]:
        """Return what it takes, and the most that it has taken, in bytes."""
        found = {"VmRSS": 0, "VmHWM": 0}
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
                name, _, value = line.partition(":")
                if name in found:
                    found[name] = int(value.split()[0]) * 1024
        return found["VmRSS"], found["VmHWM"]

    def forget_peak(self) -> None:
        """Let the most that it has taken be what it takes."""
        with suppress(OSError):
            Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def standing(self) -> Standing:
        """Ask how things stand.

        Raises:
            OSError: It has ended, or does not answer.
        """
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(b"\n")
        stdin.flush()
        said: dict[str, Any] = json.loads(self._line())
        names = [(name, count) for name, count in said["names"]]
        return Standing(self.memory()[0], said["fds"], said["tasks"], flat(said["statistics"]), names)

    def lines(self) -> int:
        """Return how many lines it has logged."""
        with self.log.open("rb") as log:
            return sum(1 for _ in log)

    def end(self) -> int | None:
        """Ask it to end, as an operator does, and return its status; `None` if it had to be killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@final
class Neighbour:
    """The honest client, in a process of its own."""

    def __init__(self, port: int, notes: Path, authorization: str) -> None:
        notes.touch()
        self._notes: IO[str] = notes.open(encoding="utf-8")
        arguments = [sys.executable, str(HERE / "neighbour.py"), str(port), str(notes), authorization]
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=unmeasured()
        )
        self._calls: list[Call] = []
        self._rest = ""

    def calls(self, since: float, until: float) -> Calls:
        """Return the calls that were begun in a time, and have ended until now."""
        self._rest += self._notes.read()
        *lines, self._rest = self._rest.split("\n")
        self._calls += [Call(*json.loads(line)) for line in lines]
        calls = [*self._calls, *self._hanging(time.monotonic())]
        return Calls([call for call in calls if since <= call.since < until])

    def _hanging(self, now: float) -> list[Call]:
        """Return the calls that have not ended yet although they were begun long ago."""
        last: dict[str, float] = {}
        for call in self._calls:
            last[call.kind] = max(last.get(call.kind, 0.0), call.since + call.seconds)
        return [
            Call(kind, ended, now - ended, "no answer yet") for kind, ended in last.items() if now - ended > HANGS
        ]

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._notes.close()


@attrs.frozen
class Row:
    """What came of an attack.

    Attributes:
        plan: The attack.
        http: What read and wrote HTTP.
        quiet: The honest client's calls before it.
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
    http: Http
    quiet: Calls
    during: Calls
    after: Calls
    peak: int
    back: float | None
    left: Sequence[str]
    lines: int
    done: Mapping[str, int]
    died: str = ""

    def bound(self, kind: str) -> float:
        """Return how long nearly all calls of a kind may take under attack, in seconds."""
        return TIMES * max(self.quiet.latency(kind).most, AT_LEAST)

    @property
    def slowest(self) -> str:
        """The kind of calls that suffered most."""
        return max(KINDS, key=lambda kind: self.during.latency(kind).most / self.bound(kind))

    def complaints(self) -> list[str]:
        """Return what is not as it should be."""
        return [*self.faults(), *self.delays()]

    def faults(self) -> list[str]:
        """Return what is not as it should be, but for how long calls took."""
        found: list[str] = []
        if self.died:
            found.append(self.died)
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


@final
class Siege:
    """A server and an honest client. A context that ends both.

    Args:
        setup: What the server is told.
        folder: Where notes and logs go.
        quiet: How many seconds the honest client is watched before the first attack.
    """

    def __init__(self, setup: Mapping[str, Any], folder: Path, quiet: float) -> None:
        self._folder = folder
        self._setup = dict(setup)
        self.http: Http = setup["http"]
        stem = f"{time.time_ns()}"
        self.fortress = Fortress(setup, folder / f"{stem}.log")
        authorization = "Bearer friend" if setup.get("authenticates") else ""
        self.neighbour = Neighbour(self.fortress.port, folder / f"{stem}.calls", authorization)
        begun = time.monotonic()
        while not self._is_warm(begun):
            time.sleep(0.1)
        since = time.monotonic()
        time.sleep(quiet)
        self.quiet = self.neighbour.calls(since, time.monotonic())

    def _is_warm(self, begun: float) -> bool:
        """Return whether everything is imported, and every kind of call was made a few times."""
        if time.monotonic() > begun + PATIENCE:
            raise TimeoutError("the honest client does not get on")
        kinds = Counter(call.kind for call in self.neighbour.calls(begun, time.monotonic()).calls)
        return len(kinds) == len(KINDS) and min(kinds.values()) >= 3

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.neighbour.kill()
        self.fortress.end()

    def storm(self, plan: Plan, seconds: float, after: float) -> Row:
        """Attack, and wait until everything is as before.

        Args:
            plan: The attack.
            seconds: How long it lasts.
            after: How many seconds everything may take to be as before.
        """
        fortress = self.fortress
        before = fortress.standing()
        lines = fortress.lines()
        fortress.forget_peak()
        begun = time.monotonic()
        with tempfile.TemporaryFile() as said:
            arguments = [sys.executable, str(HERE / "attacker.py"), plan.attack, str(fortress.port), str(seconds)]
            attacker = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=said, env=unmeasured())
            try:
                attacker.wait(seconds + PATIENCE)
            finally:
                attacker.kill()
                attacker.wait()
            said.seek(0)
            output = said.read().splitlines()
        done: dict[str, int] = json.loads(output[-1]) if len(output) > 1 else {"the attacker failed": 1}
        ended = time.monotonic()
        died, back, left = "", None, ["?"]
        while back is None and time.monotonic() < ended + max(after, 1.0):
            time.sleep(min(0.3, after / 4))
            try:
                left = fortress.standing().more_than(before, leaves_sessions=plan.leaves_sessions)
            except OSError as error:
                died = f"the server has ended: {fortress.end()}" if fortress.has_ended else str(error)
                break
            back = None if left else time.monotonic() - ended
        peak = fortress.memory()[1]
        recovered = time.monotonic()
        time.sleep(min(2.0, after / 4))
        now = time.monotonic()
        # Who has asked during the attack may be answered a little later.
        return Row(
            plan=plan,
            http=self.http,
            quiet=self.quiet,
            during=self.neighbour.calls(begun, ended),
            after=self.neighbour.calls(recovered, now),
            peak=peak,
            back=back,
            left=left,
            lines=fortress.lines() - lines,
            done=done,
            died=died,
        )


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
        row.http,
        f"{1000 * quiet.most:.0f}",
        f"{1000 * during.median:.0f}, {1000 * during.most:.0f}, {1000 * during.worst:.0f} ({row.slowest})",
        f"{answered}, {len(row.during.refused)}, {row.during.failed.total()}",
        f"{row.peak // MIB}",
        "–" if row.back is None else f"{row.back:.0f}",
        "; ".join(row.complaints()).replace("|", "\\|").replace("\n", " ") or "held",
    )
    return "| " + " | ".join(cells) + " |"
