"""Let a server and clients do anything at random for minutes, then nothing: ``python tests/nightly/soak/soak.py``, or ``make soak``.

One process serves over every transport at once and has clients of its own (`soaked`); others come and are killed at
random (`visitor`). It is watched all the time. Passes if its memory is flat, and if a while after the last client
nothing is left: see `judge`. Prints a table, draws a plot, and ends with status 1 if anything is not as it should be.
"""

# Half of what matplotlib's functions take is without types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations, pairwise
from pathlib import Path
from typing import IO, Any, Final, final

sys.path.extend(
    [str(Path(__file__).parents[up] / folder) for up, folder in ((3, ""), (2, "support"), (1, "siege"))]
)

import attrs
from asked_process import AskedProcess
from besiege import fill
from unmeasured import unmeasured

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
MIB: Final = 1024 * 1024
PAGE: Final = ROOT / "docs" / "reliability.md"

MAX_SLOPE: Final = 0.5
"""MiB a minute by which memory may grow in the second half of what happens, by the median of all slopes between two
looks at it (Theil–Sen)."""

JUDGED: Final = 120.0
"""Seconds that must be looked at for that; in less, the slope is that of chance."""

KEPT: Final = 16 * MIB
"""What may be in use afterwards that was not before: what is loaded and cached when it is first needed."""

LAST_ONES: Final = 25
"""Objects of a class of the library's that may be left: caches keep what came last. There were thousands."""

DESCRIPTIONS: Final = "types._fields.Member"
"""What the members of a type are; it is loaded with the first message that has one, and stays."""

IDLE_SHARE: Final = 0.01
"""The part of a core that an idle process may take."""

MORTALS: Final = 3
"""Client processes at once."""

LIFETIME: Final = 6.0
"""Seconds after which one of them is killed, on average."""

WARM: Final = 4.0
"""Seconds in which everything was used once, before it is looked at how things stand."""

SETTLING: Final = 45.0
"""Seconds in which everything is as before: more than any setting of the server says, and threads that wait take."""

PATIENCE: Final = 30.0
"""Seconds in which a process answers, starts and ends."""


@final
@attrs.frozen
class Look:
    """How things stood at a time.

    Attributes:
        at: When, in seconds from the beginning.
        phase: What went on.
        resident: What of the process was in memory, in bytes.
        in_use: What lived in it, in bytes, about.
        files: Its files and sockets.
        tasks: Its tasks.
        children: Its child processes.
        listeners: Its sessions and subscriptions that are told of changes.
        pools: What its server has lent, and to how many.
        objects: How many objects of the library's live, by their class; empty where that was not looked at.
        restarts: How often something that serves has ended and begun again.
        seconds: How long it has used a processor.
        odd: What its own clients have done, and met.
    """

    at: float
    phase: str
    resident: int
    in_use: int
    files: int
    tasks: int
    children: int
    listeners: int
    pools: Mapping[str, int]
    objects: Mapping[str, int]
    restarts: int
    seconds: float
    odd: Mapping[str, int]


@final
class Soaked(AskedProcess):
    """The process that is watched. A context that ends it.

    Args:
        folder: Where its socket and its log go.
        seed: What happens in it.
        mark: A word in the command line of each process that belongs to it.
    """

    def __init__(self, folder: Path, seed: str, mark: str) -> None:
        self._begun = time.monotonic()
        options = {"folder": str(folder), "seed": seed, "mark": mark}
        super().__init__(HERE / "soaked.py", options, folder / "log", PATIENCE)
        self.places: dict[str, Any] = json.loads(self.hear())

    def look(self, phase: str, command: str = "look") -> Look:
        """Ask how things stand, after a command.

        Raises:
            OSError: It has ended, or does not answer.
        """
        return Look(at=time.monotonic() - self._begun, phase=phase, **self.ask(command))

    def seconds(self) -> float:
        """Return how long it has used a processor, without asking it."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@final
class Mortals:
    """Client processes, each of which is killed after a while and followed by another.

    Args:
        places: Where there are servers, and how one is started.
        seed: What they do.
        said: Gets what they have done.
    """

    def __init__(self, places: Mapping[str, Any], seed: str, said: IO[bytes]) -> None:
        self._places = places
        self._seed = seed
        self._said = said
        self._chance = random.Random(f"{seed}/deaths")
        self._alive: list[tuple[float, subprocess.Popen[bytes]]] = []
        self.born = 0

    def _bear(self) -> None:
        options = {**self._places, "seed": f"{self._seed}/{self.born}"}
        self.born += 1
        until = time.monotonic() + 1.0 + self._chance.expovariate(1 / LIFETIME)
        arguments = [sys.executable, str(HERE / "visitor.py"), json.dumps(options)]
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=self._said, env=unmeasured())
        self._alive.append((until, process))

    def tend(self, until: float) -> None:
        """Let them live and die until a time."""
        while time.monotonic() < until:
            for each in list(self._alive):
                if each[0] < time.monotonic() or each[1].poll() is not None:
                    each[1].kill()
                    each[1].wait()
                    self._alive.remove(each)
            while len(self._alive) < MORTALS:
                self._bear()
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))

    def kill(self) -> None:
        """Kill them all."""
        for _, process in self._alive:
            process.kill()
            process.wait()
        self._alive.clear()


@final
@attrs.frozen
class Result:
    """What came of it.

    Attributes:
        looks: How things stood, from the beginning to the end.
        before: How they stood before anything happened at random, after everything was used once.
        after: How they stood a while after the last client had gone.
        settled: How many seconds that took; `None` if they were never as before.
        idle_share: The part of a core that it took then.
        done: What the clients have done, and what they met that is odd.
        born: How many client processes there were.
        status: With what status the process ended when it was asked to; `None` if it did not.
        survivors: The processes that were left when it had.
    """

    looks: Sequence[Look]
    before: Look
    after: Look
    settled: float | None
    idle_share: float
    done: Counter[str]
    born: int
    status: int | None
    survivors: Sequence[str]

    @property
    def busy(self) -> list[Look]:
        """The looks while everything happened."""
        return [look for look in self.looks if look.phase == "busy"]

    def slope(self) -> float | None:
        """By how many MiB a minute memory has grown in the second half; `None` if that was too short to tell."""
        busy = self.busy
        half = [look for look in busy if look.at >= (busy[0].at + busy[-1].at) / 2]
        if half[-1].at - half[0].at < JUDGED / 2:
            return None
        return slope([(look.at / 60, look.resident / MIB) for look in half])


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between all points, which a few that lie far away do not change."""
    return statistics.median((up - low) / (right - left) for (left, low), (right, up) in combinations(points, 2))


def left_over(before: Look, after: Look) -> list[str]:
    """Return what there is afterwards that there was not before."""
    found = [
        f"{name} {getattr(before, name)} → {getattr(after, name)}"
        for name in ("files", "tasks", "children", "listeners")
        if getattr(after, name) > getattr(before, name)
    ]
    for name, most in (("pools", 0), ("objects", LAST_ONES)):
        was, now = getattr(before, name), getattr(after, name)
        found += [
            f"{kind} {was.get(kind, 0)} → {number}"
            for kind, number in now.items()
            if kind != DESCRIPTIONS and number > was.get(kind, 0) + most
        ]
    if after.in_use > before.in_use + KEPT:
        found.append(f"in use {before.in_use // MIB} → {after.in_use // MIB} MiB")
    return found


def judge(result: Result) -> list[str]:
    """Return what is not as it should be."""
    found: list[str] = []
    grown = result.slope()
    if grown is not None and grown > MAX_SLOPE:
        found.append(f"memory grows by {grown:.2f} MiB a minute, bound {MAX_SLOPE:g}")
    found += left_over(result.before, result.after)
    if result.idle_share >= IDLE_SHARE:
        found.append(f"{100 * result.idle_share:.1f} % of a core when idle, bound {100 * IDLE_SHARE:g}")
    found += [f"{count} × {what}" for what, count in result.done.items() if what.startswith("odd")]
    if (
        result.done.total() - sum(count for what, count in result.done.items() if what.startswith("odd"))
        < result.born
    ):
        found.append("the clients did next to nothing")
    if result.status != 0:
        found.append(f"asked to end, it ended with {result.status}")
    found += [f"survives: {command}" for command in result.survivors]
    return found


def processes_of(mark: str) -> list[str]:
    """Return the command lines of processes with a word in them."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = each.read_text(encoding="utf-8", errors="replace").split("\0")
            if any(mark in word for word in words):
                found.append(" ".join(words)[:200])
    return found


def settle(soaked: Soaked, before: Look) -> tuple[Look, float | None]:
    """Wait until everything is as before; return how things stand then, and how long it took."""
    since = time.monotonic()
    while True:
        time.sleep(1)
        after = soaked.look("idle", "all")
        if not left_over(before, after):
            return after, time.monotonic() - since
        if time.monotonic() > since + SETTLING:
            return after, None


def soak(seed: str, minutes: float, every: float, idle: float, folder: Path) -> Result:
    """Let everything happen for so many minutes, and then nothing.

    Args:
        seed: What happens.
        minutes: For how long.
        every: How many seconds lie between two looks.
        idle: How many seconds are looked at then to see what an idle process takes.
        folder: Where files go.
    """
    mark = f"soak-{secrets.token_hex(4)}"
    said = folder / "said"
    with said.open("wb") as done, Soaked(folder, seed, mark) as soaked:
        mortals = Mortals(soaked.places, seed, done)
        try:
            looks = [soaked.look("warm", "busy")]
            mortals.tend(time.monotonic() + WARM)
            mortals.kill()
            soaked.look("warm", "idle")
            time.sleep(SETTLING / 3)
            before = soaked.look("before", "all")
            looks += [before, soaked.look("busy", "busy")]
            until = time.monotonic() + 60 * minutes
            while time.monotonic() < until:
                mortals.tend(min(until, time.monotonic() + every))
                looks.append(soaked.look("busy"))
                print(line_of(looks[-2], looks[-1]), flush=True)
        finally:
            mortals.kill()
        looks.append(soaked.look("idle", "idle"))
        after, settled = settle(soaked, before)
        looks.append(after)
        time.sleep(1)  # what looking at it has cost is over
        begun, seconds = time.monotonic(), soaked.seconds()
        time.sleep(idle)
        share = (soaked.seconds() - seconds) / (time.monotonic() - begun)
        status = soaked.end()
        time.sleep(0.5)
        counts = Counter(after.odd)
        for line in said.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # its writer was killed
                counts.update(json.loads(line))
        return Result(looks, before, after, settled, share, counts, mortals.born, status, processes_of(mark))


HEAD: Final = (
    "time, s",
    "",
    "resident, MiB",
    "in use, MiB",
    "files",
    "tasks",
    "children",
    "lent, KiB",
    "restarts",
    "CPU, %",
)


def line_of(last: Look, look: Look) -> str:
    """Return how things stood as a line of the table."""
    share = (look.seconds - last.seconds) / max(look.at - last.at, 1e-9)
    cells = (
        f"{look.at:.0f}", look.phase, f"{look.resident / MIB:.1f}", f"{look.in_use / MIB:.1f}", look.files, look.tasks,
        look.children, look.pools.get("bytes", 0) // 1024, look.restarts, f"{100 * share:.0f}",
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def table(result: Result, rows: int = 24) -> list[str]:
    """Return a table in Markdown, of so many rows at most beside the last ones."""
    looks = result.looks
    step = max(1, len(looks) // rows)
    lines = ["| " + " | ".join(HEAD) + " |", "| ---: | --- |" + " ---: |" * (len(HEAD) - 2)]
    for number, look in enumerate(looks):
        if number % step == 0 or look.phase != "busy":
            lines.append(line_of(looks[max(0, number - step)], look))
    return lines


def sentences(result: Result) -> list[str]:
    """Return what came of it in words."""
    calls = sum(count for what, count in result.done.items() if not what.startswith("odd"))
    grown = result.slope()
    settled = "never" if result.settled is None else f"after {result.settled:.0f} s"
    return [
        f"{calls} visits, {result.born} client processes killed, {result.after.restarts} restarts of what serves",
        "the slope of memory in the second half: "
        + ("not judged, too short" if grown is None else f"{grown:+.2f} MiB a minute (bound {MAX_SLOPE:g})"),
        f"everything as before: {settled}; in use {result.before.in_use / MIB:.1f} → {result.after.in_use / MIB:.1f} MiB",
        f"idle again: {100 * result.idle_share:.2f} % of a core (bound {100 * IDLE_SHARE:g})",
    ]


def draw(result: Result, file: Path) -> None:
    """Draw memory, what is open, and the use of a processor, over time."""
    from inside_bench_tables import panels, save  # matplotlib takes a second, and is not needed elsewhere

    looks = result.looks
    at = [look.at for look in looks]
    figure, (memory, things, processor) = panels("the process that is soaked", 3)
    memory.plot(at, [look.resident / MIB for look in looks], label="resident")
    memory.plot(at, [look.in_use / MIB for look in looks], label="in use")
    memory.set_ylabel("MiB")
    for name in ("files", "tasks", "children"):
        things.plot(at, [getattr(look, name) for look in looks], label=name)
    things.set_ylabel("number")
    shares = [
        100 * (look.seconds - last.seconds) / max(look.at - last.at, 1e-9) for last, look in pairwise(looks)
    ]
    processor.plot(at[1:], shares, label="CPU")
    processor.set_ylabel("% of a core")
    processor.set_xlabel("seconds")
    for axes in (memory, things, processor):
        axes.set_ylim(bottom=0)
        axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    save(figure, file)


def main() -> int:
    """Soak."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long everything happens")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="what happens; a new one by default")
    parser.add_argument("--every", type=float, default=5.0, help="how many seconds lie between two looks")
    parser.add_argument(
        "--idle", type=float, default=15.0, help="how many seconds are looked at when it is idle again"
    )
    parser.add_argument("--plot", type=Path, help="draw a picture into this file")
    parser.add_argument("--fill", action="store_true", help="write the table into docs/reliability.md")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        result = soak(options.seed, options.minutes, options.every, options.idle, Path(folder))
    lines = [*table(result), "", *(f"* {sentence}" for sentence in sentences(result))]
    print("\n" + "\n".join(lines))
    if options.plot is not None:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        draw(result, options.plot)
    if options.fill:
        fill(PAGE, lines, "soak")
    problems = judge(result)
    print("\n" + ("\n".join(problems) if problems else "passed"))
    if problems:
        print(f"again: python tests/nightly/soak/soak.py --seed {options.seed} --minutes {options.minutes:g}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
