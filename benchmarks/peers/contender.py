"""What is measured: an implementation on a host, its programs and what it cannot do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, final

import attrs

from benchmarks.environments import NodeEnvironment, PythonEnvironment, node
from trio_mcp._bench._plan import Cell, Settings, Stage
from trio_mcp._bench._processes import module_command, quiet_environment

__all__ = ["BOTH", "LEGACY", "REVISIONS", "Contender", "Kind", "programs_of"]

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
NEUTRAL: Final = "benchmarks.load.worker"
FIXED: Final = "trio_mcp._bench._fixed_server"
BOTH: Final = frozenset({"legacy", "modern"})
LEGACY: Final = frozenset({"legacy"})
REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"})


VARIABLES: Final = {**quiet_environment(), "PYTHONPATH": str(ROOT)}
"""Of our own programs: they use this checkout, wherever the environment has another one."""


def programs_of(program: str, *arguments: str) -> tuple[list[str], Mapping[str, str]]:
    """Return the command of a program of ours in this directory, and its environment."""
    return [sys.executable, str(HERE / program), *arguments], VARIABLES


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
        imports: The statement with which programs that use it begin.
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
    imports: str = ""
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

    @property
    def variables(self) -> Mapping[str, str] | None:
        """The environment of its programs; `None` for a quiet one."""
        return VARIABLES if self.checkout is None and self.environment is None else None

    def codec_command(self) -> list[str]:
        """Return what does a thing with its codec."""
        program, *arguments = self.codec
        return [self.interpreter, str(self._programs / program), *arguments]

    def can(self, cell: Cell) -> bool:
        """Whether it can be measured in a cell."""
        stage, workload = cell.stage, cell.workload
        if self.only and workload.name not in self.only:
            return False
        if stage.side == "codec":
            return bool(self.codec) and stage.era in self.revisions
        if stage.era not in self.eras or any(feature in self.lacks for feature in workload.features(stage.era)):
            return False
        if stage.side == "client":
            return bool(self.client) and workload.feature not in self.lacks
        return (
            stage.transport in self.bindings
            and (workload.kind != "import" or bool(self.imports))
            and (stage.side != "both" or bool(self.client))
        )

    def worker(self, stage: Stage) -> Sequence[str]:
        """Return what is told to measure it: its own client, or the neutral load generator."""
        return self.client_command() if stage.side in ("client", "both") else module_command(NEUTRAL)

    def opening(self, stage: Stage, settings: Settings) -> Mapping[str, Any] | None:
        """Return how the worker opens it."""
        return None if stage.side in ("process", "codec") else self._server(stage, settings)

    def _server(self, stage: Stage, settings: Settings) -> Mapping[str, Any]:
        is_fixed = stage.side == "client"
        return {
            "transport": stage.transport,
            "era": stage.era,
            "command": module_command(FIXED, stage.transport, stage.era)
            if is_fixed
            else self.command(stage.transport),
            "cwd": self.directory,
            "variables": None if is_fixed else self.variables,
            "cores": settings.cores.load,
            "server_cores": settings.cores.server,
            "settle": settings.settle if self.is_compiled_late else 0,
        }

    def job(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:
        """Return what the worker is told to measure."""
        workload = cell.workload
        job: dict[str, Any] = {
            "do": "measure",
            "kind": workload.kind,
            "options": dict(workload.options),
            "seconds": settings.seconds,
            "warm_up": settings.warm_up,
            "cores": settings.cores.load,
        }
        if cell.stage.side == "codec":
            job |= {
                "command": [*self.codec_command(), workload.options["what"], cell.stage.era],
                "server_cores": settings.cores.server,
                "variables": self.variables,
            }
        if cell.stage.side == "process":
            job.update(self._server(cell.stage, settings))
            job |= {"python": self.interpreter, "imports": self.imports}
        return job

    def version(self) -> str:
        """Return which version it is."""
        if isinstance(self.environment, NodeEnvironment):
            return next(pin.rpartition("@")[2] for pin in self.environment.pins if pin.startswith(self.package))
        ask = f"import importlib.metadata as m; print(m.version({self.package!r}))"
        done = subprocess.run((self.interpreter, "-c", ask), capture_output=True, text=True, check=True)
        return done.stdout.strip()
