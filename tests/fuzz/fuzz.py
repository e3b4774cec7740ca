"""Fuzz the readers of what others send: ``python tests/fuzz/fuzz.py --seconds 60 'sse' 'request*'``, or ``make fuzz``.

Each target runs in a process of its own for so many seconds: guided by coverage by atheris where that is installed,
else by the tracing of Python, which is slower. A finding is made as small as possible and written into the
folder of its target below ``corpus``, where the tests replay it; then the exit status is not zero.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import os
import re
import signal
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final, NoReturn, final

import attrs

sys.path.insert(0, str(Path(__file__).parent))

from fuzzing import MAX_INPUT, TARGETS, Target, changed, covered, shorter, smallest

HANG_SECONDS: Final = 10
"""Seconds that one input may take."""

MOST_MEGABYTES: Final = 2048
MOST_KEPT: Final = 12
"""How many inputs are kept of a target, besides its findings."""

LARGEST_KEPT: Final = 1024
FOUND: Final = "found-"


@final
@attrs.frozen
class Row:
    """What came of one target."""

    name: str
    engine: str
    runs: int
    seconds: float
    edges: int
    status: int
    findings: Sequence[Path]

    def __str__(self) -> str:
        rate = self.runs / max(self.seconds, 0.1)
        found = f"{len(self.findings)} findings" if self.findings else "nothing found"
        return (
            f"{self.name:24} {self.engine:8} {self.runs:>10} runs {rate:>8.0f}/s {self.edges:>6} edges  {found}"
        )


# One target, in a process of its own.


def run_with_atheris(of: Target, seconds: float, folder: Path) -> None:
    """Run a target until it finds something or the time is over; the process then ends."""
    atheris: Any = importlib.import_module("atheris")  # it has no types
    others = _beginnings(of)
    inputs = folder / "inputs"
    inputs.mkdir()
    for number, data in enumerate(others):
        (inputs / str(number)).write_bytes(data)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = Random(seed)
        made = changed(data, chance, of, others) if chance.random() < 0.5 else atheris.Mutate(data, len(data))
        return bytes(made)[:most]

    def attempt(data: bytes) -> None:
        try:
            of.attempt(data)
        except BaseException:
            (folder / "crash-raised").write_bytes(data)
            raise

    words = folder / "words"
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in of.tokens if token), encoding="ascii")
    atheris.Setup(
        [
            sys.argv[0], str(inputs), f"-max_total_time={max(1, int(seconds))}", f"-timeout={HANG_SECONDS}", f"-dict={words}",
            f"-rss_limit_mb={MOST_MEGABYTES}", f"-max_len={MAX_INPUT}", f"-artifact_prefix={folder}/", "-print_final_stats=1",
        ],
        attempt,
        custom_mutator=mutate,
    )  # fmt: skip
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}" for byte in token
    )


def _beginnings(of: Target) -> list[bytes]:
    return [*of.corpus(), *of.seeds()]


class _HangError(Exception):
    """An input takes too long."""


def _hang(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _HangError(f"it takes more than {HANG_SECONDS} seconds")


def attempted(of: Target, data: bytes) -> BaseException | None:
    """Return what one input finds, a hang included."""
    signal.signal(signal.SIGALRM, _hang)
    signal.alarm(HANG_SECONDS)
    try:
        of.attempt(data)
    except Exception as error:
        return error
    finally:
        signal.alarm(0)
    return None


def run_with_traces(of: Target, seconds: float, folder: Path, seed: int) -> None:
    """Do the same with the tracing of Python."""
    chance = Random(seed)
    known: set[Any] = set()
    kept: list[bytes] = []
    (folder / "inputs").mkdir()
    waiting = _beginnings(of)
    runs = 0
    over = threading.Event()
    timer = threading.Timer(seconds, over.set)
    timer.daemon = True
    timer.start()
    signal.signal(signal.SIGALRM, _hang)
    while not over.is_set():
        data = waiting.pop() if waiting else changed(chance.choice(kept or [b""]), chance, of, kept)
        runs += 1
        signal.alarm(HANG_SECONDS)
        try:
            new = covered(of, data) - known
        except Exception as error:
            (folder / "crash-traced").write_bytes(data)
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            break
        finally:
            signal.alarm(0)
        if new:
            known |= new
            kept.append(data)
            (folder / "inputs" / str(len(kept))).write_bytes(data)
    print(f"cov: {len(known)} stat::number_of_executed_units: {runs}", file=sys.stderr, flush=True)


# All of them.


def started(of: Target, options: argparse.Namespace, folder: Path) -> int:
    """Run one target in a process; return its id."""
    folder.mkdir()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the other engine has its own use for it
        if options.engine == "atheris":
            run_with_atheris(of, options.seconds, folder)
        else:
            run_with_traces(of, options.seconds, folder, options.seed)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def judged(of: Target, status: int, options: argparse.Namespace, folder: Path) -> Row:
    """Tell what came of one target, and keep what is worth it."""
    said = (folder / "said").read_text(errors="replace")
    found = [kept_finding(of, path.read_bytes()) for path in sorted(folder.glob("*-*"))]
    if found or status:
        print(
            f"--- {of.name} has ended with status {status} (seed {options.seed})\n{_last_words(said)}", flush=True
        )
    if options.keep:
        inputs = [*_beginnings(of), *(path.read_bytes() for path in (folder / "inputs").glob("*"))]
        few = [data for data in inputs if len(data) <= LARGEST_KEPT and attempted(of, data) is None]
        for path in of.folder.glob("*"):
            if not path.name.startswith(FOUND):
                path.unlink()
        for data in smallest(of, few, MOST_KEPT):
            of.keep(data)
    runs = re.findall(r"stat::number_of_executed_units:\s*(\d+)|^#(\d+)", said, re.MULTILINE)
    edges = re.findall(r"cov: (\d+)", said)
    runs_ = max((int(one or other) for one, other in runs), default=0)
    return Row(of.name, options.engine, runs_, options.seconds, int(edges[-1]) if edges else 0, status, found)


def _last_words(said: str) -> str:
    lines = said.splitlines()
    begin = next((at for at, line in enumerate(lines) if "Uncaught Python exception" in line), len(lines) - 12)
    return "\n".join(line[:400] for line in lines[max(0, begin) : begin + 40])


def kept_finding(of: Target, data: bytes) -> Path:
    """Make what was found as small as it gets, and keep it."""
    first = attempted(of, data)
    if first is None:  # too much memory, or something that happens in a process of that kind only
        return of.keep(data, prefix=FOUND)

    def is_alike(candidate: bytes) -> bool:
        return type(attempted(of, candidate)) is type(first)

    tries = 30 if isinstance(first, _HangError) else 2_000
    return of.keep(shorter(of, data, is_alike, tries=tries), prefix=FOUND)


def main() -> int:
    """Run them all."""
    has_atheris = importlib.util.find_spec("atheris") is not None
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", default=["*"], metavar="TARGET", help="a pattern of names")
    parser.add_argument("--seconds", type=float, default=60, help="for each of them; 60 by default")
    parser.add_argument("--seed", type=int, default=Random().randrange(1 << 32), help="of what chance decides")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--keep", action="store_true", help="choose anew which inputs are kept in the tree")
    parser.add_argument("--list", action="store_true", help="print their names")
    parser.add_argument("--engine", choices=("atheris", "traces"), default="atheris" if has_atheris else "traces")
    options = parser.parse_args()
    import_targets(options.engine)
    chosen = [of for name, of in TARGETS.items() if any(fnmatch(name, each) for each in options.targets)]
    if options.list:
        print(*TARGETS, sep="\n")
        return 0
    if not chosen:
        parser.error(f"no target is like {' or '.join(options.targets)}; --list prints them")
    print(
        f"{len(chosen)} targets, {options.seconds:g} seconds each, by {options.engine}, seed {options.seed}",
        flush=True,
    )
    wrong = False
    waiting = deque(chosen)
    running: dict[int, tuple[Target, Path]] = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        while waiting or running:
            while waiting and len(running) < options.jobs:
                of = waiting.popleft()
                folder = Path(temporary, of.folder.name)
                running[started(of, options, folder)] = of, folder
            process, status = os.wait()
            of, folder = running.pop(process)
            row = judged(of, os.waitstatus_to_exitcode(status), options, folder)
            print(row, *(f"    {path}" for path in row.findings), sep="\n", flush=True)
            wrong = wrong or bool(row.findings or row.status)
    return 1 if wrong else 0


def import_targets(engine: str) -> None:
    """Make the targets, with what atheris is guided by in the package."""
    if engine != "atheris":
        importlib.import_module("targets")
        return
    atheris: Any = importlib.import_module("atheris")
    # It lists every module.
    with (
        redirect_stderr(io.StringIO()),
        atheris.instrument_imports(include=["trio_mcp"], enable_loader_override=False),
    ):
        importlib.import_module("targets")
        for of in TARGETS.values():
            for data in of.seeds():
                with suppress(Exception):  # it comes again, as a finding
                    of.attempt(data)  # what is imported when it is first needed is imported now


if __name__ == "__main__":
    sys.exit(main())
