"""Records: what is kept of measurements is what the schema says, and can be shown, drawn and written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from inside_bench import (
    Found,
    Recorder,
    RecordError,
    curve,
    describe_latencies,
    describe_run,
    read_record,
    write_record,
)
from inside_bench_tables import tables
from rich.console import Console

from benchmarks.measuring import QUICK, THOROUGH
from benchmarks.peers.contender import Contender, Kind
from benchmarks.peers.contenders import find_contenders
from benchmarks.results import plots
from benchmarks.results.report import update_readme, write_report
from benchmarks.results.table import targets_table
from benchmarks.results.targets import hold_to_targets
from benchmarks.workloads import CELLS

SCHEMA: dict[str, Any] = json.loads((Path(plots.__file__).parents[1] / "schema.json").read_text())
OURS = find_contenders(["floor-json"])[0]
THEIRS = Contender(name="python-2", title="Theirs", package="trio")
FLOOR = next(one for one in find_contenders(["floor-json"]) if one.name == "floor-json")
CONTENDERS = (OURS, THEIRS, FLOOR)


def answer(value: float, *latencies: int) -> Mapping[str, Any]:
    """Return what a worker says."""
    counts = [(latency, 1) for latency in latencies]
    return {
        "value": value,
        "operations": 3,
        "seconds": 0.1,
        "latencies": counts,
        "facts": {"cpu_us": 1e6 / value},
    }


def make_record() -> Mapping[str, Any]:
    """Return a record of everything, by a worker that knows the figures beforehand."""
    recorder = Recorder(describe_run(THOROUGH.settings, ["run"]), CELLS, CONTENDERS)
    for cell in CELLS:
        for round in range(3):
            for contender, value in ((OURS, 400.0), (THEIRS, 100.0), (FLOOR, 500.0)):
                said = answer(value + round, 1_000, 2_000, 3_000)
                recorder.add(Found(cell=cell, contender=contender, round=round, answer=said))
    failed = {"error": "the server has ended"}
    recorder.add(Found(cell=CELLS[0], contender=THEIRS, round=3, answer=failed))
    return recorder.record()


@pytest.fixture(scope="module")
def record() -> Mapping[str, Any]:
    return make_record()


def test_records_are_as_the_schema_says(record: Mapping[str, Any]) -> None:
    jsonschema_rs.validate(SCHEMA, json.loads(json.dumps(record)))


def test_a_record_keeps_every_round_and_every_failure(record: Mapping[str, Any]) -> None:
    results = record["cells"][CELLS[0].name]["results"]
    assert results["ours"]["values"] == [400.0, 401.0, 402.0]
    assert results["python-2"]["errors"] == ["the server has ended"]
    assert results["ours"]["latency"]["count"] == 9


def test_a_record_can_be_read_again(record: Mapping[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.json"
    write_record(record, path)
    assert read_record(path) == json.loads(json.dumps(record))


def test_records_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"version": 0}')
    with pytest.raises(RecordError, match="no record of version 1"):
        read_record(path)


def test_latencies_survive_their_histogram() -> None:
    described = describe_latencies([(1_000_000, 98), (2_000_000, 1), (50_000_000, 1)])
    assert described is not None
    assert described["microseconds"]["p50"] == pytest.approx(1_000, rel=0.002)
    assert described["microseconds"]["p100"] == pytest.approx(50_000, rel=0.002)
    assert curve(described["histogram"], [98.0, 99.0]) == pytest.approx([1_000, 2_000], rel=0.002)


def test_nothing_has_no_latency() -> None:
    assert describe_latencies([]) is None


def test_tables_show_every_row_and_who_failed() -> None:
    recorder = Recorder(describe_run(QUICK.settings, ["run"]), CELLS[:1], CONTENDERS)
    recorder.add(Found(cell=CELLS[0], contender=OURS, round=0, answer=answer(50.0)))
    recorder.add(Found(cell=CELLS[0], contender=THEIRS, round=0, answer={"error": "no"}))
    console = Console(width=200)
    record = recorder.record()
    with console.capture() as capture:
        for table in tables(record):
            console.print(table)
        console.print(targets_table(hold_to_targets(record)))
    said = capture.get()
    assert CELLS[0].workload.title in said
    assert "failed" in said
    assert "not measured" in said


def test_tables_say_how_many_times_as_good_ours_is(record: Mapping[str, Any]) -> None:
    console = Console(width=250)
    with console.capture() as capture:
        for table in tables(record):
            console.print(table)
    said = capture.get()
    assert "ours is 3.97×" in said  # where more is better: the round in the middle, 401 / 101
    assert "ours is 0.25×" in said  # where less is


def test_a_record_can_be_drawn(record: Mapping[str, Any], tmp_path: Path) -> None:
    some = {
        **record,
        "cells": {name: cell for name, cell in record["cells"].items() if name.startswith("server/stdio/modern")},
    }
    files = plots.draw_all(some, tmp_path)
    assert {path.name for path in files} == {
        f"{name}.{format}"
        for name in ("latency-server-stdio-modern", "throughput-server-stdio-modern", "ratios")
        for format in ("svg", "png")
    }
    assert all(path.stat().st_size > 1_000 for path in files)


def test_the_page_of_results_has_the_targets_and_every_workload(
    record: Mapping[str, Any], tmp_path: Path
) -> None:
    some = {
        **record,
        "cells": {name: cell for name, cell in record["cells"].items() if name.startswith("server/stdio/modern")},
    }
    page = tmp_path / "RESULTS.md"
    write_report(some, page)
    said = page.read_text()
    assert "| stdio server, one at a time, modern | Theirs | ≥ 3.5× | 3.97×" in said
    assert all(cell["title"] in said for cell in some["cells"].values())
    assert all((tmp_path / name).is_file() for name in ("plots/ratios.svg",) if name in said)


def test_the_readme_is_changed_between_its_marks_alone(record: Mapping[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")
    for _ in range(2):
        assert update_readme(record, page)
    said = page.read_text()
    assert said.startswith("before\n<!-- measured -->\n| ")
    assert said.endswith("<!-- /measured -->\nafter\n")
    assert "| echo, one at a time, stdio, calls/s | 401 | 101 |" in said
    assert "old" not in said


def test_a_readme_without_marks_is_left_alone(record: Mapping[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("nothing\n")
    assert not update_readme(record, page)
    assert page.read_text() == "nothing\n"


def test_ours_is_ours() -> None:
    assert OURS.kind is Kind.OURS
