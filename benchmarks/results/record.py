"""A run as JSON; ``schema.json`` beside this package describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

from benchmarks.peers.contender import Contender
from benchmarks.results.latencies import describe_latencies
from benchmarks.running.rounds import Found
from benchmarks.workloads.workload import Cell

__all__ = ["VERSION", "Recorder", "read_record", "write_record"]

VERSION: Final = 1
Record = Mapping[str, Any]


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
                one.name: {"title": one.title, "kind": one.kind.value, "version": one.version()}
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
    return {
        "values": [sample["value"] for sample in samples],
        "operations": sum(sample["operations"] for sample in samples),
        "facts": {
            name: [sample["facts"][name] for sample in samples if name in sample["facts"]]
            for name in sorted({name for sample in samples for name in sample["facts"]})
        },
        "latency": describe_latencies(pair for sample in samples for pair in sample["latencies"]),
        "errors": [one.answer["error"] for one in found if "error" in one.answer],
    }


def write_record(record: Record, path: Path) -> None:
    """Write a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        ValueError: It is none, or of another version.
    """
    record: Record = json.loads(path.read_text())
    if record.get("version") != VERSION:
        raise ValueError(f"{path} is no record of version {VERSION}")
    return record
