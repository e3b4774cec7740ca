"""All contenders: ours, the others, and the floors. A new one is one entry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from benchmarks.peers.contender import LEGACY, Contender, Kind
from benchmarks.peers.environments import FASTMCP, PYTHON_1, PYTHON_2, TYPESCRIPT_1, TYPESCRIPT_2

__all__ = ["CONTENDERS", "find_contenders"]

OURS: Final = Contender(
    name="ours",
    title="trio_mcp",
    kind=Kind.OURS,
    package="trio-mcp",
    module="trio_mcp",
    server=("servers/ours.py",),
    bindings={"stdio": "stdio", "tcp": "tcp", "unix": "unix", "http": "hypercorn"},
)
PYTHON_2_UVICORN: Final = Contender(
    name="python-2",
    title="Python SDK 2",
    environment=PYTHON_2,
    package="mcp",
    module="mcp",
    server=("servers/python_2.py",),
    bindings={"stdio": "stdio", "http": "uvicorn"},
)
PYTHON_2_HYPERCORN: Final = Contender(
    name="python-2@hypercorn",
    title="Python SDK 2 on Hypercorn",
    environment=PYTHON_2,
    package="mcp",
    server=("servers/python_2.py",),
    bindings={"http": "hypercorn"},
)
FLOORS: Final = (
    Contender(
        name="floor-json",
        title="floor: lines, JSON",
        kind=Kind.FLOOR,
        package="trio",
        module="trio",
        server=("floors/lines.py", "json"),
        bindings={"stdio": "stdio", "tcp": "tcp", "unix": "unix"},
    ),
    Contender(
        name="floor-cattrs",
        title="floor: lines, JSON, cattrs",
        kind=Kind.FLOOR,
        package="trio",
        server=("floors/lines.py", "structured"),
        bindings={"stdio": "stdio", "tcp": "tcp", "unix": "unix"},
    ),
    *(
        Contender(
            name=f"floor-{host}",
            title=f"floor: POST on {host}",
            kind=Kind.FLOOR,
            package=host,
            server=("floors/posts.py",),
            bindings={"http": host},
        )
        for host in ("hypercorn", "h11", "httptools")
    ),
)
CONTENDERS: Final = (OURS, PYTHON_2_UVICORN, PYTHON_2_HYPERCORN, *FLOORS)


def find_contenders(names: Iterable[str]) -> tuple[Contender, ...]:
    """Return those with these names, and ours; all if no name is given.

    Raises:
        ValueError: There is none of such a name.
    """
    wanted = set(names)
    unknown = wanted - {contender.name for contender in CONTENDERS}
    if unknown:
        known = ", ".join(contender.name for contender in CONTENDERS)
        raise ValueError(f"there is no {', '.join(sorted(unknown))}; there are {known}")
    return tuple(one for one in CONTENDERS if not wanted or one.name in wanted or one.kind is Kind.OURS)
