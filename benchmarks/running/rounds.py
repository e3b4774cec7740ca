"""A B A B: in each round every contender is started anew, and each workload is measured of all of them in turn.

What disturbs a machine for some seconds so disturbs all contenders alike, and what is peculiar to one process,
such as where its memory lies, is different in every round.
"""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, final

import attrs
import trio

from benchmarks.peers.contender import Contender
from benchmarks.running.cores import Cores
from benchmarks.running.workers import NEUTRAL, MeasureError, Worker, open_worker
from benchmarks.workloads.workload import Cell, Stage

__all__ = ["Found", "Observer", "Settings", "contenders_of", "count_measurements", "run_rounds"]

OPEN_SECONDS: Final = 90.0
PATIENCE: Final = 90.0
FEWER_ROUNDS: Final = 3
"""How often what is not among the targets is measured."""
FIXED: Final = "benchmarks.load.fixed_server"


@final
@attrs.frozen(kw_only=True)
class Settings:
    """How long and how often things are measured.

    Attributes:
        rounds: How often.
        seconds: How long a measurement takes.
        warm_up: How long the same is done before, unmeasured.
        settle: How long what is compiled while it runs serves calls before anything is measured of it.
        seed: What the order in which contenders take their turns is drawn from, anew in each round.
        cores: Who runs where.
        at_once: How many stages are run at once; more than one spoils all figures.
    """

    rounds: int = 5
    seconds: float = 0.2
    warm_up: float = 0.1
    settle: float = 0.7
    seed: int = 1
    cores: Cores = attrs.field(factory=Cores.here)
    at_once: int = 1


@final
@attrs.frozen(kw_only=True)
class Found:
    """One measurement.

    Attributes:
        cell: What was measured.
        contender: Of whom.
        round: In which round, from 0.
        answer: What the worker said; an error if it could not.
    """

    cell: Cell
    contender: Contender
    round: int
    answer: Mapping[str, Any]


Observer = Callable[[Found], None]


def contenders_of(cell: Cell, contenders: Iterable[Contender]) -> list[Contender]:
    """Return who can do it."""
    return [one for one in contenders if can(cell, one)]


def can(cell: Cell, one: Contender) -> bool:
    """Whether a contender can do it."""
    stage, workload = cell.stage, cell.workload
    if one.only and workload.name not in one.only:
        return False
    if stage.side == "codec":
        return bool(one.codec) and stage.era in one.revisions
    if stage.era not in one.eras or any(feature in one.lacks for feature in workload.features(stage.era)):
        return False
    if stage.side == "client":
        return bool(one.client)
    return (
        stage.transport in one.bindings
        and (workload.kind != "import" or bool(one.module))
        and (stage.side != "both" or bool(one.client))
    )


def rounds_of(cell: Cell, settings: Settings) -> int:
    """Return how often a cell is measured."""
    return min(settings.rounds, FEWER_ROUNDS) if cell.is_minor else settings.rounds


def count_measurements(cells: Iterable[Cell], contenders: Sequence[Contender], settings: Settings) -> int:
    """Return how many measurements there will be."""
    return sum(rounds_of(cell, settings) * len(contenders_of(cell, contenders)) for cell in cells)


async def run_rounds(
    cells: Sequence[Cell], contenders: Sequence[Contender], settings: Settings, observe: Observer
) -> None:
    """Measure all cells of all contenders, and tell of each measurement."""
    limit = trio.CapacityLimiter(settings.at_once)

    async def run_stage(stage: Stage, *, task_status: trio.TaskStatus[None]) -> None:
        async with limit:
            task_status.started()
            for round in range(settings.rounds):
                in_round = [cell for cell in cells if cell.stage == stage and round < rounds_of(cell, settings)]
                await run_round(stage, in_round, contenders, settings, round, observe)

    async with trio.open_nursery() as nursery:
        for stage in dict.fromkeys(cell.stage for cell in cells):
            await nursery.start(run_stage, stage)


async def run_round(
    stage: Stage,
    cells: Sequence[Cell],
    contenders: Sequence[Contender],
    settings: Settings,
    round: int,
    observe: Observer,
) -> None:
    """Start everybody, measure each cell of all in turn, and end everybody."""
    taking_part = [one for one in contenders if any(one in contenders_of(cell, [one]) for cell in cells)]
    async with AsyncExitStack() as stack:
        workers: dict[str, Worker] = {}
        for cell in cells:
            able = contenders_of(cell, taking_part)
            # Nobody is always the one to run after somebody else's heat.
            random.Random(f"{settings.seed} {round} {cell.name}").shuffle(able)
            for contender in able:
                answer: Mapping[str, Any]
                try:
                    worker = workers.get(contender.name)
                    if worker is None:
                        worker = await stack.enter_async_context(open_session(stage, contender, settings))
                        workers[contender.name] = worker
                    answer = await worker.tell(job_of(cell, contender, settings), within=PATIENCE)
                except MeasureError as error:
                    # What is left of it is of no use; the next cell starts another.
                    workers.pop(contender.name, None)
                    answer = {"error": str(error)}
                observe(Found(cell=cell, contender=contender, round=round, answer=answer))


@asynccontextmanager
async def open_session(stage: Stage, contender: Contender, settings: Settings) -> AsyncGenerator[Worker]:
    """Start a contender and the load for it."""
    command = contender.client_command() if stage.side in ("client", "both") else NEUTRAL
    async with open_worker(command) as worker:
        if stage.side in ("server", "client", "both"):
            await worker.tell({"do": "open", **server_of(stage, contender, settings)}, within=OPEN_SECONDS)
        yield worker


def server_of(stage: Stage, contender: Contender, settings: Settings) -> Mapping[str, Any]:
    """Return how a contender's server is started and spoken to."""
    if stage.side == "client":
        command = [sys.executable, "-m", FIXED, stage.transport, stage.era]
    else:
        command = contender.command(stage.transport)
    return {
        "transport": stage.transport,
        "era": stage.era,
        "command": command,
        "cwd": contender.directory,
        "cores": settings.cores.load,
        "server_cores": settings.cores.server,
        "settle": settings.settle if contender.is_compiled_late else 0,
    }


def job_of(cell: Cell, contender: Contender, settings: Settings) -> Mapping[str, Any]:
    """Return what a worker is told to measure."""
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
            "command": [*contender.codec_command(), workload.options["what"], cell.stage.era],
            "server_cores": settings.cores.server,
        }
    if cell.stage.side == "process":
        job.update(server_of(cell.stage, contender, settings))
        job |= {"python": contender.interpreter, "module": contender.module}
    return job
