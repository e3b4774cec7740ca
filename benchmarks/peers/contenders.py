"""All contenders: ours, the others, and the floors. A new one is one entry."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from benchmarks.peers.contender import LEGACY, Contender, Kind
from benchmarks.peers.environments import FASTMCP, PYTHON_1, PYTHON_2, TYPESCRIPT_1, TYPESCRIPT_2

__all__ = ["CONTENDERS", "find_contenders"]

EARLIER: Final = "earlier"
"""What ours of another checkout is called."""

OURS: Final = Contender(
    name="ours",
    title="trio_mcp",
    kind=Kind.OURS,
    package="trio-mcp",
    imports="from trio_mcp import Server, open_client",
    server=("servers/ours.py",),
    bindings={
        "stdio": "stdio",
        "tcp": "tcp",
        "unix": "unix",
        "websocket": "websocket",
        "http": "hypercorn",
        "sse": "sse",
        "memory": "memory",
    },
    client="clients/ours.py",
    codec=("codecs/ours.py",),
)
LEAN: Final = Contender(
    name="ours@lean",
    title="trio_mcp, lean host",
    kind=Kind.OURS,
    package="trio-mcp",
    server=("servers/ours.py",),
    bindings={"http": "lean", "sse": "lean-sse"},
)
HOSTED: Final = tuple(
    Contender(
        name=f"ours@{host}",
        title=f"trio_mcp, McpASGI on {title}",
        kind=Kind.OURS,
        package="trio-mcp",
        server=("servers/ours.py",),
        bindings={"http": f"asgi-{host}"},
        only=frozenset({"echo-1", "echo-64", "sse-64", "tools-50", "progress", "cancel-1", "result-1m"}),
    )
    for host, title in (("hypercorn", "stock Hypercorn"), ("anycorn", "anycorn"))
)
"""On hosts as they come. What `ours` runs on is Hypercorn as well, but embedded: what reads requests and writes
answers in it is ours."""
LOW: Final = Contender(
    name="ours@low",
    title="trio_mcp, low level",
    kind=Kind.OURS,
    package="trio-mcp",
    server=("servers/ours_low.py",),
    bindings={"stdio": "stdio"},
    only=frozenset({"echo-1", "echo-64", "tools-50"}),
)
PROTECTED: Final = tuple(
    Contender(
        name=f"{ours.name}{'-' if '@' in ours.name else '@'}{kind}",
        title=f"{ours.title}, {title}",
        kind=Kind.OURS,
        package="trio-mcp",
        server=("servers/ours.py",),
        bindings={"http": f"{host}-{kind}"},
        only=frozenset({"echo-1", "echo-64"}),
    )
    for ours, host in ((OURS, "hypercorn"), (LEAN, "lean"))
    for kind, title in (("protected", "protected"), ("verifying", "each token as if never seen"))
)
"""Beside the same without authorization: each request brings a signed token (RS256), which was seen before; or
which is verified, and remembered, as if it never was."""
WATCHED: Final = tuple(
    Contender(
        name=f"ours@{kind}",
        title=f"trio_mcp, {title}",
        kind=Kind.OURS,
        package="trio-mcp",
        server=("servers/ours.py",),
        bindings={"stdio": f"stdio-{kind}", "http": f"lean-{kind}"},
        only=frozenset({"echo-1", "echo-64"}),
    )
    for kind, title in (("recorded", "access records"), ("traced", "OpenTelemetry"))
)
"""Beside the same without: each request makes a record, or spans and metrics, of which nothing is written."""
STORED: Final = tuple(
    Contender(
        name=f"ours@lean-{store}",
        title=f"trio_mcp, lean host, {title}",
        kind=Kind.OURS,
        package="trio-mcp",
        server=("servers/ours.py",),
        bindings={"http": f"lean-{store}"},
        only=frozenset({"echo-1", "echo-64", "progress", "connect"}),
    )
    for store, title, program in (
        ("sqlite", "sessions in SQLite", None),
        ("redis", "sessions in Redis", "redis-server"),
    )
    if program is None or shutil.which(program)
)
"""Beside the same with sessions in memory."""
PEERS: Final = (
    Contender(
        name="python-2",
        title="Python SDK 2",
        environment=PYTHON_2,
        package="mcp",
        imports="from mcp import Client; from mcp.server.mcpserver import MCPServer",
        server=("servers/python_2.py",),
        bindings={"stdio": "stdio", "http": "uvicorn", "sse": "sse", "memory": "memory"},
        client="clients/python_2.py",
        codec=("codecs/python_2.py",),
        revisions=frozenset({"2025-11-25", "2026-07-28"}),
    ),
    Contender(
        name="python-2@hypercorn",
        title="Python SDK 2 on Hypercorn",
        environment=PYTHON_2,
        package="mcp",
        server=("servers/python_2.py",),
        bindings={"http": "hypercorn"},
        only=frozenset({"echo-1", "echo-64", "sse-64", "tools-50", "progress", "cancel-1"}),
    ),
    Contender(
        name="python-1",
        title="Python SDK 1",
        environment=PYTHON_1,
        package="mcp",
        imports="from mcp import ClientSession; from mcp.server.fastmcp import FastMCP",
        server=("servers/python_1.py",),
        bindings={"stdio": "stdio", "http": "uvicorn", "sse": "sse", "memory": "memory"},
        eras=LEGACY,
        client="clients/python_1.py",
        codec=("codecs/python_1.py",),
        revisions=frozenset({"2025-11-25"}),
    ),
    Contender(
        name="fastmcp",
        title="FastMCP 4",
        environment=FASTMCP,
        package="fastmcp",
        imports="from fastmcp import Client, FastMCP",
        server=("servers/fastmcp_4.py",),
        bindings={"stdio": "stdio", "http": "uvicorn"},
        lacks={
            "sample": "handlers cannot ask the model",
            "ask-modern": "handlers cannot ask in the modern era",
            "listen": "nobody can subscribe",
            "idle-modern": "nobody can subscribe",
        },
    ),
    Contender(
        name="typescript-2",
        title="TypeScript SDK 2",
        environment=TYPESCRIPT_2,
        package="@modelcontextprotocol/server",
        server=("servers/typescript_2.mjs",),
        bindings={"stdio": "stdio", "http": "node"},
    ),
    Contender(
        name="typescript-1",
        title="TypeScript SDK 1",
        environment=TYPESCRIPT_1,
        package="@modelcontextprotocol/sdk",
        server=("servers/typescript_1.mjs",),
        bindings={"stdio": "stdio", "http": "node", "sse": "sse"},
        eras=LEGACY,
    ),
)
BEYOND_FLOORS: Final[tuple[str, ...]] = (
    "ask",
    "sample",
    "cancel",
    "listen",
    "connect",
    "idle",
    "burst",
    "give-up",
)
NO_PROTOCOL: Final[Mapping[str, str]] = dict.fromkeys(BEYOND_FLOORS, "it answers, and no more")
FLOORS: Final = (
    Contender(
        name="floor-json",
        title="floor: lines, JSON",
        kind=Kind.FLOOR,
        package="trio",
        imports="import trio",
        server=("floors/lines.py", "json"),
        bindings={"stdio": "stdio", "tcp": "tcp", "unix": "unix"},
        lacks=NO_PROTOCOL,
    ),
    Contender(
        name="floor-cattrs",
        title="floor: lines, JSON, cattrs",
        kind=Kind.FLOOR,
        package="trio",
        server=("floors/lines.py", "structured"),
        bindings={"stdio": "stdio", "tcp": "tcp", "unix": "unix"},
        lacks=NO_PROTOCOL,
    ),
    Contender(
        name="floor-websocket",
        title="floor: bare trio-websocket",
        kind=Kind.FLOOR,
        package="trio-websocket",
        imports="import trio_websocket",
        server=("floors/websockets.py",),
        bindings={"websocket": "websocket"},
        lacks=NO_PROTOCOL,
    ),
    *(
        Contender(
            name=f"floor-{host}",
            title=title,
            kind=Kind.FLOOR,
            package=host,
            server=("floors/posts.py",),
            bindings={"http": host},
            lacks=NO_PROTOCOL,
        )
        for host, title in (
            ("hypercorn", "floor: ASGI hello, stock Hypercorn"),
            ("anycorn", "floor: ASGI hello, anycorn"),
            ("h11", "floor: POST on h11"),
            ("httptools", "floor: POST on httptools"),
        )
    ),
    Contender(
        name="floor-msgspec",
        title="floor: msgspec, plain objects",
        kind=Kind.FLOOR,
        package="msgspec",
        codec=("floors/json_alone.py", "msgspec"),
    ),
    Contender(
        name="floor-json-stdlib",
        title="floor: json, plain objects",
        kind=Kind.FLOOR,
        package="msgspec",
        codec=("floors/json_alone.py", "json"),
        revisions=frozenset({"2026-07-28"}),
    ),
)
CONTENDERS: Final[tuple[Contender, ...]] = (
    OURS,
    LEAN,
    *HOSTED,
    LOW,
    *PROTECTED,
    *WATCHED,
    *STORED,
    *PEERS,
    *FLOORS,
)


def find_contenders(names: Iterable[str], earlier: Path | None = None) -> tuple[Contender, ...]:
    """Return those with these names, and ours; all if neither a name nor an earlier checkout is given.

    Args:
        names: Which.
        earlier: Another checkout of ours, with an environment in ``.venv``, to be measured beside this one.

    Raises:
        ValueError: There is none of such a name.
    """
    wanted = set(names)
    unknown = wanted - {contender.name for contender in CONTENDERS}
    if unknown:
        known = ", ".join(contender.name for contender in CONTENDERS)
        raise ValueError(f"there is no {', '.join(sorted(unknown))}; there are {known}")
    is_all = not wanted and earlier is None
    found = tuple(one for one in CONTENDERS if is_all or one.name in wanted or one.kind is Kind.OURS)
    return found if earlier is None else (*found, *(_at(one, earlier) for one in (OURS, LEAN)))


def _at(ours: Contender, checkout: Path) -> Contender:
    """Return ours as it is in another checkout."""
    name = ours.name.replace(OURS.name, EARLIER)
    return attrs.evolve(
        ours, name=name, title=f"{ours.title}, earlier", kind=Kind.PEER, checkout=checkout.resolve()
    )
