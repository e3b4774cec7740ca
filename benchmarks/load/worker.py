"""The worker of these workloads: ``python -m benchmarks.load``."""

from __future__ import annotations

from typing import Final

from trio_mcp._bench._trials import measure_connects
from trio_mcp._bench._worker import Kinds, obey

from .asks import measure_asks
from .calls import measure_calls
from .cancels import measure_cancels
from .fanouts import measure_fanout
from .floods import measure_flood
from .growing import measure_growing
from .processes import count_tools, measure_codec, measure_import, measure_start
from .sessions import measure_burst, measure_idle

__all__ = ["KINDS", "main"]


KINDS: Final = Kinds(
    linked={"calls": measure_calls, "flood": measure_flood, "asks": measure_asks, "cancel": measure_cancels},
    opened={"listen": measure_fanout, "connect": measure_connects, "burst": measure_burst},
    alone={
        "start": measure_start,
        "import": measure_import,
        "codec": measure_codec,
        "idle": measure_idle,
        "growing": measure_growing,
    },
    settling={"what": "echo", "in_flight": 16},
    count_tools=count_tools,
)


def main() -> None:
    """Measure the servers of ``benchmarks/peers``."""
    obey(KINDS)
