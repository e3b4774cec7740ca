"""What is measured: an implementation on a host, its programs and what it cannot do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, final

import attrs

from benchmarks.environments import NodeEnvironment, PythonEnvironment, node

__all__ = ["BOTH", "LEGACY", "REVISIONS", "Contender", "Kind"]

HERE: Final = Path(__file__).parent
BOTH: Final = frozenset({"legacy", "modern"})
LEGACY: Final = frozenset({"legacy"})
REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"})


class Kind(StrEnum):
    """What a contender is to us."""

    OURS = "ours"
    PEER = "peer"
    FLOOR = "floor"


@final
@attrs.frozen(kw_only=True)
class Contender:
    """An implementation as it is measured over some transports.

    Attributes:
        name: What it is called in results: ``python-2``, or ``python-2@hypercorn`` for one of several hosts.
        title: What it is called in tables.
        kind: What it is to us.
        environment: Where it is installed; `None` for what is installed beside the harness.
        package: The package whose version is told.
        module: What its users import first.
        server: Its server, a program in this directory, with the arguments before the binding.
        bindings: For each transport, what the program is told to serve; what is not here it does not have.
        eras: The eras it speaks.
        lacks: The features it does not have, and why.
        only: The workloads it is measured with, by name; all if there is none.
        client: Its client, a worker; it needs no binding of its own.
        codec: Its codec alone, a program, with the arguments before what is to be done.
        revisions: The revisions that its codec knows.
        checkout: The checkout whose programs and environment are used; `None` for this one.
    """

    name: str
    title: str
    kind: Kind = Kind.PEER
    environment: PythonEnvironment | NodeEnvironment | None = None
    package: str = ""
    module: str = ""
    server: tuple[str, ...] = ()
    bindings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    eras: frozenset[str] = BOTH
    lacks: Mapping[str, str] = attrs.field(factory=dict[str, str])
    only: frozenset[str] = frozenset()
    client: str = ""
    codec: tuple[str, ...] = ()
    revisions: frozenset[str] = REVISIONS
    checkout: Path | None = None

    @property
    def interpreter(self) -> str:
        """What runs its programs.

        Raises:
            MissingEnvironmentError: It is not installed.
        """
        if self.checkout is not None:
            return str(self.checkout / ".venv/bin/python")
        if self.environment is None:
            return sys.executable
        self.environment.require()
        return str(node() if isinstance(self.environment, NodeEnvironment) else self.environment.python)

    @property
    def _programs(self) -> Path:
        return HERE if self.checkout is None else self.checkout / "benchmarks" / "peers"

    @property
    def is_compiled_late(self) -> bool:
        """Whether it becomes fast only after it has served for a while."""
        return isinstance(self.environment, NodeEnvironment)

    @property
    def directory(self) -> str | None:
        """Where its programs are started: those for Node.js find their packages there."""
        return str(self.environment.directory) if isinstance(self.environment, NodeEnvironment) else None

    def command(self, transport: str) -> list[str]:
        """Return what starts its server."""
        program, *arguments = self.server
        return [self.interpreter, str(self._programs / program), *arguments, self.bindings[transport]]

    def client_command(self) -> list[str]:
        """Return what starts its client."""
        return [self.interpreter, str(self._programs / self.client)]

    def codec_command(self) -> list[str]:
        """Return what does a thing with its codec."""
        program, *arguments = self.codec
        return [self.interpreter, str(self._programs / program), *arguments]

    def version(self) -> str:
        """Return which version it is."""
        if isinstance(self.environment, NodeEnvironment):
            return next(pin.rpartition("@")[2] for pin in self.environment.pins if pin.startswith(self.package))
        ask = f"import importlib.metadata as m; print(m.version({self.package!r}))"
        done = subprocess.run((self.interpreter, "-c", ask), capture_output=True, text=True, check=True)
        return done.stdout.strip()
