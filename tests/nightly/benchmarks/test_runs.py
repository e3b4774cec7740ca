"""Whole runs, with real processes: what is measured, in which order, and what is left when something fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
from inside_bench import (
    Cell,
    Cores,
    Found,
    MeasureError,
    Settings,
    contenders_of,
    count_measurements,
    open_worker,
    read_record,
    run_rounds,
)

from benchmarks.command_line import main
from benchmarks.peers.contender import Contender, Kind
from benchmarks.peers.contenders import CONTENDERS, find_contenders
from benchmarks.workloads import CELLS, WORKLOADS, find_cells

QUICK = Settings(rounds=2, seconds=0.01, warm_up=0.0, settle=0.0, cores=Cores())


def find(name: str) -> Contender:
    """Return a contender."""
    (found,) = [one for one in CONTENDERS if one.name == name]
    return found


async def measure(
    cells: Sequence[Cell], contenders: Sequence[Contender], settings: Settings = QUICK
) -> list[Found]:
    """Measure, and return what was found in the order in which it was."""
    found: list[Found] = []
    with trio.fail_after(100):
        await run_rounds(cells, contenders, settings, found.append)
    return found


async def test_every_contender_is_measured_in_every_round() -> None:
    cells = find_cells(["server/stdio/legacy/echo-1"])
    contenders = (find("floor-json"), find("floor-cattrs"))
    found = await measure(cells, contenders)
    assert [one.round for one in found] == [0, 0, 1, 1]
    for start in (0, 2):
        assert {one.contender.name for one in found[start : start + 2]} == {"floor-json", "floor-cattrs"}
    assert all(one.answer["value"] > 0 for one in found)
    assert len(found) == count_measurements(cells, contenders, QUICK)


async def test_a_contender_that_fails_costs_only_its_figure() -> None:
    broken = attrs.evolve(find("floor-json"), name="broken", server=("floors/lines.py", "nonsense"))
    absent = attrs.evolve(find("floor-json"), name="absent", server=("floors/nothing.py",))
    cells = find_cells(["server/stdio/legacy/echo-1"])
    found = await measure(cells, (absent, broken, find("floor-json")), attrs.evolve(QUICK, rounds=1))
    answers = {one.contender.name: one.answer for one in found}
    assert "nothing.py" in answers["absent"]["error"]
    assert answers["floor-json"]["value"] > 0


async def test_a_worker_that_hangs_is_given_up_and_ended() -> None:
    command = (sys.executable, "-c", "import time; time.sleep(1000)")
    with trio.fail_after(60), pytest.raises(MeasureError, match="nothing came of it"):
        async with open_worker(command, end_seconds=0.1) as worker:
            await worker.tell({"do": "open"}, within=0.1)


async def test_a_worker_that_breaks_down_says_why() -> None:
    command = (sys.executable, "-c", "raise SystemExit('out of paper')")
    with trio.fail_after(60), pytest.raises(MeasureError, match="out of paper"):
        async with open_worker(command) as worker:
            await worker.tell({"do": "open"}, within=30)


@pytest.mark.parametrize(
    ("available", "server", "load"),
    [([0], None, None), ([0, 1], (1,), (0,)), ([2, 5, 7, 9], (9,), (7,)), ([], None, None)],
)
def test_servers_and_generators_do_not_share_a_core(
    available: list[int], server: tuple[int, ...] | None, load: tuple[int, ...] | None
) -> None:
    assert Cores.of(available) == Cores(server=server, load=load)


def test_names_are_unique() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
    assert len({contender.name for contender in CONTENDERS}) == len(CONTENDERS)


def test_ours_is_measured_in_every_cell() -> None:
    assert [cell.name for cell in CELLS if find("ours") not in contenders_of(cell, CONTENDERS)] == []


def test_every_contender_is_measured_somewhere() -> None:
    measured = {one.name for cell in CELLS for one in contenders_of(cell, CONTENDERS)}
    assert measured == {one.name for one in CONTENDERS}


def test_what_a_contender_lacks_is_something_that_is_asked_for() -> None:
    asked = {
        feature for workload in WORKLOADS for era in ("legacy", "modern") for feature in workload.features(era)
    }
    assert {feature for one in CONTENDERS for feature in one.lacks} <= asked


def test_programs_of_contenders_exist() -> None:
    programs = {
        program for one in CONTENDERS for program in (one.client, *one.server[:1], *one.codec[:1]) if program
    }
    peers = Path(sys.modules[Contender.__module__].__file__ or "").parent
    assert [program for program in sorted(programs) if not (peers / program).is_file()] == []


def test_ours_is_always_among_those_that_are_chosen() -> None:
    assert {one.kind for one in find_contenders(["floor-json"])} == {Kind.OURS, Kind.FLOOR}


def test_another_checkout_is_measured_with_its_own_programs_and_environment(tmp_path: Path) -> None:
    found = {one.name: one for one in find_contenders([], tmp_path)}
    ours = [one.name for one in CONTENDERS if one.kind is Kind.OURS]
    assert list(found) == [*ours, "earlier", "earlier@lean"]
    commands = [
        found["earlier"].command("stdio"),
        found["earlier"].client_command(),
        found["earlier"].codec_command(),
    ]
    assert {command[0] for command in commands} == {str(tmp_path / ".venv/bin/python")}
    assert all(command[1].startswith(str(tmp_path / "benchmarks/peers")) for command in commands)
    assert found["earlier"].bindings == found["ours"].bindings


def test_unknown_contenders_and_cells_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="there is no lua-sdk; there are ours"):
        find_contenders(["lua-sdk"])
    with pytest.raises(ValueError, match="'nothing/like/it' fits no cell"):
        find_cells(["nothing/like/it"])


def test_a_run_from_the_command_line_is_kept_and_can_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.json"
    what = [
        "--only",
        "server/unix/modern/echo-1",
        "--contenders",
        "floor-json",
        "--rounds",
        "1",
        "--seconds",
        "0.01",
    ]
    with pytest.raises(SystemExit) as ended:
        main(["run", *what, "--output", str(path)])
    assert ended.value.code == 0
    record = read_record(path)
    assert set(record["cells"]) == {"server/unix/modern/echo-1"}
    assert record["settings"]["rounds"] == 1
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(path), str(path)])
    assert ended.value.code == 0
    assert "server/unix/modern/echo-1" in capsys.readouterr().out


def test_cells_are_chosen_by_whole_words() -> None:
    assert [cell.name for cell in find_cells(["server/tcp/modern/echo-1"])] == ["server/tcp/modern/echo-1"]
    assert {cell.workload.name for cell in find_cells(["echo"])} == {
        f"echo-{kind}" for kind in ("1", "16", "64", "256", "10k")
    }
    assert {cell.stage.transport for cell in find_cells(["*/http/*"])} == {"http"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--only", "typo"],
            "python -m benchmarks: 'typo' fits no cell; `python -m benchmarks list` shows all\n",
        ),
        (["run", "--contenders", "lua-sdk"], "python -m benchmarks: there is no lua-sdk; there are ours, "),
        (["show", "nothing.json"], "python -m benchmarks: nothing.json cannot be read: "),
        (["growth", "--only", "typo"], "python -m benchmarks: there is no growth of 'typo'; there are "),
        (["target", "gopher://example.com"], "trio-mcp: gopher://example.com cannot be measured; "),
    ],
)
def test_a_mistake_is_told_in_a_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(message)


def test_options_alone_are_those_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "--only",
                "server/stdio/modern/echo-1",
                "--contenders",
                "floor-json",
                "--quick",
                "--output",
                str(path),
            ]
        )
    assert ended.value.code == 0
    (cell,) = read_record(path)["cells"].values()
    assert cell["results"]["ours"]["facts"]["tools"] == [50]
    assert cell["results"]["ours"]["facts"]["load"][0] >= 0


def test_what_shows_figures_may_be_missing(tmp_path: Path) -> None:
    """Then a sentence says what to install."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'rich' else find(name, *rest)\n"
    )
    root = Path(sys.modules[Contender.__module__].__file__ or "").parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "list"],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])},
    )
    assert done.returncode == 1
    assert done.stderr == (
        "python -m benchmarks: measuring needs rich, which the extra brings: pip install 'trio-mcp[bench]'; "
        "in a checkout, make bench does\n"
    )
