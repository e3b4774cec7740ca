"""What is measured, of whom, how long, and on which cores. Nothing here measures."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias, final

import attrs

Side: TypeAlias = Literal["server", "client", "both", "process", "codec", "target"]
"""What is measured: a server, under the neutral load; a client, at the fixed server; both of one implementation,
at each other; a process of its own for each figure; a codec alone, whose era is a revision; or what somebody
names on the command line."""


@final
@attrs.frozen(kw_only=True)
class Stage:
    """Where workloads are run: all contenders that can are started, and measured in turn.

    Attributes:
        side: What is measured.
        transport: Over what.
        era: In which era.
        is_minor: Whether fewer rounds will do.
    """

    side: Side
    transport: str
    era: str
    is_minor: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.side}/{self.transport}/{self.era}"


@final
@attrs.frozen(kw_only=True)
class Workload:
    """One thing that is measured.

    Attributes:
        name: What it is called in results.
        title: What it is called in tables.
        unit: Of its figure.
        more_is_better: Whether a larger figure is the better one.
        kind: What the worker does.
        options: How.
        transports: Over which transports.
        eras: In which eras.
        sides: Of what.
        is_minor: Whether fewer rounds will do.
        most_rounds: In how many rounds it is measured at most; `None` for all.
        feature: What a contender must have for it, where not all have; see `Contender.lacks`.
        meaning: What the figure says, in a sentence.
    """

    name: str
    title: str
    unit: str = "calls/s"
    more_is_better: bool = True
    kind: str = "calls"
    options: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    transports: tuple[str, ...] = ("stdio", "http")
    eras: tuple[str, ...] = ("legacy", "modern")
    sides: tuple[Side, ...] = ("server",)
    is_minor: bool = False
    most_rounds: int | None = None
    feature: str = ""
    meaning: str = ""

    def features(self, era: str) -> tuple[str, str]:
        """Return what a contender must have for it in an era."""
        return self.feature, f"{self.feature}-{era}"

    def is_in(self, stage: Stage) -> bool:
        """Whether it is run in a stage."""
        return stage.side in self.sides and stage.transport in self.transports and stage.era in self.eras


@final
@attrs.frozen(kw_only=True)
class Cell:
    """A workload in a stage: a row of the results."""

    stage: Stage
    workload: Workload

    @property
    def is_minor(self) -> bool:
        """Whether fewer rounds will do."""
        return self.stage.is_minor or self.workload.is_minor

    @property
    def name(self) -> str:
        """What it is called: ``server/stdio/legacy/echo-64``."""
        return f"{self.stage.name}/{self.workload.name}"


@final
@attrs.frozen(kw_only=True)
class Cores:
    """Which cores processes run on; nobody is moved where there is only one core, or no way to move.

    Attributes:
        server: The cores of what is measured.
        load: The cores of what measures.
    """

    server: tuple[int, ...] | None = None
    load: tuple[int, ...] | None = None

    @classmethod
    def of(cls, available: Sequence[int]) -> Self:
        """Share out cores: the last is the server's, the one before it the generator's."""
        if len(available) < 2:
            return cls()
        *_, load, server = available
        return cls(server=(server,), load=(load,))

    @classmethod
    def here(cls) -> Self:
        """Share out the cores of this machine."""
        if sys.platform == "linux":
            return cls.of(sorted(os.sched_getaffinity(0)))
        else:
            return cls()


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
        cores: Which processes run where.
        at_once: How many stages are run at once; more than one spoils all figures.
        patience: How long a measurement may take in all, in seconds.
    """

    rounds: int = 5
    seconds: float = 0.2
    warm_up: float = 0.1
    settle: float = 0.7
    seed: int = 1
    cores: Cores = attrs.field(factory=Cores.here)
    at_once: int = 1
    patience: float = 90.0


class Contender(Protocol):
    """What is measured, as rounds see it."""

    @property
    def name(self) -> str:
        """What it is called in results."""
        ...

    @property
    def title(self) -> str:
        """What it is called in tables."""
        ...

    @property
    def kind(self) -> str:
        """What it is to us: ``ours``, ``peer`` or ``floor``."""
        ...

    def version(self) -> str:
        """Return which version it is."""
        ...

    def can(self, cell: Cell) -> bool:
        """Whether it can be measured there."""
        ...

    def worker(self, stage: Stage) -> Sequence[str]:
        """Return the command of what generates the load."""
        ...

    def opening(self, stage: Stage, settings: Settings) -> Mapping[str, Any] | None:
        """Return how the worker opens it; `None` where each measurement does."""
        ...

    def job(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:
        """Return what the worker is told to measure."""
        ...
