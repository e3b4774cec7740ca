"""One thing that is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import attrs

__all__ = ["Cell", "Side", "Stage", "Workload"]

Side = Literal["server", "client", "both", "process", "codec"]
"""What is measured: a server, under the neutral load; a client, at the fixed server; both of one implementation,
at each other; a process of its own for each figure; or a codec alone, whose era is a revision."""


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
        feature: What a contender must have for it, where not all have; see `Contender.lacks`.
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
    feature: str = ""

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
