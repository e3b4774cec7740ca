"""A run as JSON, with the machine it was made on; ``benchmarks/schema.json`` describes it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from ._figures import describe_latencies
from ._plan import Cell, Contender, Settings
from ._running import Found

VERSION: Final = 1
PACKAGES: Final = ("trio", "attrs", "cattrs", "msgspec", "h11", "hypercorn", "httptools", "hdrhistogram")
Record: TypeAlias = Mapping[str, Any]


class RecordError(Exception):
    """A file is no record."""


@final
class Recorder:
    """Collects measurements, and makes a record of them."""

    def __init__(self, made: Mapping[str, Any], cells: Sequence[Cell], contenders: Sequence[Contender]) -> None:
        self._made = made
        self._cells = cells
        self._contenders = contenders
        self._found: dict[str, dict[str, list[Found]]] = {}

    def add(self, found: Found) -> None:
        """Add a measurement."""
        self._found.setdefault(found.cell.name, {}).setdefault(found.contender.name, []).append(found)

    def record(self) -> Record:
        """Return everything there is so far."""
        return {
            "version": VERSION,
            **self._made,
            "contenders": {
                one.name: {"title": one.title, "kind": one.kind, "version": one.version()}
                for one in self._contenders
            },
            "cells": {cell.name: self._describe(cell) for cell in self._cells if cell.name in self._found},
        }

    def _describe(self, cell: Cell) -> Mapping[str, Any]:
        workload, stage = cell.workload, cell.stage
        return {
            "side": stage.side,
            "transport": stage.transport,
            "era": stage.era,
            "workload": workload.name,
            "title": workload.title,
            "unit": workload.unit,
            "more_is_better": workload.more_is_better,
            "results": {
                one.name: _result(found)
                for one in self._contenders
                if (found := self._found[cell.name].get(one.name)) is not None
            },
        }


def _result(found: Sequence[Found]) -> Mapping[str, Any]:
    samples = [one.answer for one in found if "error" not in one.answer]
    curves = [sample["curve"] for sample in samples if sample.get("curve")]
    return {
        "values": [sample["value"] for sample in samples],
        "operations": sum(sample["operations"] for sample in samples),
        "facts": {
            name: [sample["facts"][name] for sample in samples if name in sample["facts"]]
            for name in sorted({name for sample in samples for name in sample["facts"]})
        },
        "latency": describe_latencies(pair for sample in samples for pair in sample["latencies"]),
        "errors": [one.answer["error"] for one in found if "error" in one.answer],
        **({"curve": curves[-1]} if curves else {}),
    }


def write_record(record: Record, path: Path) -> None:
    """Write a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        RecordError: It is none, or of another version.
    """
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    if not isinstance(record, dict) or record.get("version") != VERSION:
        raise RecordError(f"{path} is no record of version {VERSION}")
    return record


def describe_run(settings: Settings, command: Sequence[str]) -> Mapping[str, Any]:
    """Return what a record says of how it was made.

    Args:
        settings: How long and how often.
        command: What the harness was told, without what is secret in it.
    """
    return {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "settings": {
            "rounds": settings.rounds,
            "seconds": settings.seconds,
            "warm_up": settings.warm_up,
            "settle": settings.settle,
            "seed": settings.seed,
        },
        "cores": {
            "server": None if settings.cores.server is None else list(settings.cores.server),
            "load": None if settings.cores.load is None else list(settings.cores.load),
        },
        "machine": describe_machine(),
    }


def describe_machine() -> Mapping[str, Any]:
    """Describe this machine and what of it matters for speed."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_mib": _memory_mib(),
        "load_before": list(os.getloadavg()),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version_of(name))},
    }


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_mib() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError):
        return 0
