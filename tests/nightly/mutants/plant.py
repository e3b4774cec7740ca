"""Plant wrong implementations into copies of the package, one at a time, and see what notices each.

    python tests/nightly/mutants/plant.py                       all of them; `make mutants`
    python tests/nightly/mutants/plant.py 'parks-*' --tests     some of them, by their tests alone

`mutants.toml` says of each what is replaced in which file, what that breaks, and which tests notice it. The simulator
is tried first, with up to 2,000 programs; those tests, if it finds nothing. The exit status is 1 if one survives both.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGE: Final = ROOT / "trio_mcp"
MUTANTS: Final = Path(__file__).with_name("mutants.toml")

LONGEST: Final = 240.0
"""Seconds after which a run counts as hanging. Wrong implementations often hang, and that is noticed as well."""


@attrs.frozen
class Mutant:
    """One wrong implementation.

    Attributes:
        name: Its name.
        file: The file of the package that is changed.
        breaks: What is wrong then.
        find: The text that is replaced; the file has it once.
        replace: What stands there instead.
        tests: The tests that notice it.
    """

    name: str
    file: str
    breaks: str
    find: str
    replace: str
    tests: Sequence[str]

    def planted(self, source: str) -> str:
        """Return the source of its file with it.

        Raises:
            ValueError: The file does not have the text, or more than once: it has changed.
        """
        if (found := source.count(self.find)) != 1:
            raise ValueError(f"{self.file} has the text that {self.name} replaces {found} times, not once")
        return source.replace(self.find, self.replace)


def read_mutants() -> list[Mutant]:
    """Return all of them."""
    read = tomllib.loads(MUTANTS.read_text(encoding="utf-8"))
    return [Mutant(name, **members) for name, members in read.items()]


@contextmanager
def planted(mutant: Mutant) -> Generator[dict[str, str]]:
    """Make a copy of the package with a mutant, and yield the environment in which Python imports that."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory) / "trio_mcp"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / mutant.file
        file.write_text(mutant.planted(file.read_text(encoding="utf-8")), encoding="utf-8")
        yield {**os.environ, "PYTHONPATH": f"{directory}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}


def run(environment: dict[str, str], *arguments: str) -> tuple[int | None, str]:
    """Run Python, which must not import the package of the current directory. Returns no status if it hangs."""
    try:
        ended = subprocess.run(
            [sys.executable, "-P", *arguments],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return ended.returncode, ended.stdout


def by_simulator(environment: dict[str, str], programs: int) -> str | None:
    """Return what the simulator says of it, if it notices."""
    status, output = run(environment, "-m", "tests.simulation", "--seeds", f"0-{programs - 1}", "--first")
    if status == 0:
        return None
    found = re.search(r"(?m)^program (\d+) of", output)
    return "simulator: hangs" if status is None else f"simulator: program {found[1] if found else '?'}"


def by_tests(environment: dict[str, str], tests: Sequence[str]) -> str | None:
    """Return which of some tests notices it."""
    if not tests:
        return None
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--timeout=60", "--no-header")
    # What pytest puts before everything else is this directory, with the package as it is.
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"][
        "pythonpath"
    ]
    copy = environment["PYTHONPATH"].partition(os.pathsep)[0]
    status, output = run(
        environment, "-m", "pytest", "-o", f"pythonpath={shlex.join([copy, *folders])}", *options, *tests
    )
    if status == 0:
        return None
    if status not in (None, 1):
        raise RuntimeError(f"pytest ended with {status}:\n{output}")
    found = re.search(r"(?m)^(?:FAILED|ERROR) (?:tests/)?(\S+)", output)
    return found[1] if found else f"{tests[0]}: hangs"


def try_one(mutant: Mutant, programs: int) -> tuple[Mutant, str | None, float]:
    """Plant a mutant. Returns what notices it, and how many seconds that took."""
    began = time.monotonic()
    with planted(mutant) as environment:
        caught = by_simulator(environment, programs) if programs else None
        caught = caught or by_tests(environment, mutant.tests)
    return mutant, caught, time.monotonic() - began


def main() -> int:
    """Plant what was asked for, and show a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=["*"], help="a pattern of names")
    parser.add_argument("--programs", type=int, default=2000, help="of the simulator, at most")
    parser.add_argument("--tests", action="store_true", help="try the tests alone, and not the simulator")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    options = parser.parse_args()
    mutants = [one for one in read_mutants() if any(fnmatch(one.name, name) for name in options.names)]
    if not mutants:
        parser.error(f"no mutant is called {' or '.join(options.names)}")
    programs = 0 if options.tests else options.programs
    if programs and (found := by_simulator({**os.environ, "PYTHONPATH": str(ROOT)}, programs)):
        parser.error(f"the package as it is breaks a promise, so that says nothing of a mutant: {found}")
    survivors = 0
    print("| mutant | what is wrong | noticed by | seconds |\n| --- | --- | --- | ---: |", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, caught, seconds in pool.map(partial(try_one, programs=programs), mutants):
            survivors += caught is None
            noticed = caught or "**nothing**"
            print(f"| {mutant.name} | {mutant.breaks} | {noticed} | {seconds:.0f} |", flush=True)
    print(f"\n{len(mutants) - survivors} of {len(mutants)} were noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
