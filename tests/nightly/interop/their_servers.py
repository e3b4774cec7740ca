"""Servers of other implementations: how each is started, what it speaks and what it can do.

Those in `SDK_SERVERS` are written for these tests, on one implementation each, and have the same tools: `add`,
`picture`, `fail`, `count` (progress and log messages), `block` (never ends), `ended` (waits until a `block` has
been cancelled) and, where there is such a thing, `measure` (structured output).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, final

import attrs
from environments import (
    PYTHON_1_0,
    PYTHON_1_2,
    PYTHON_1_30,
    PYTHON_2_3,
    TYPESCRIPT_1_4,
    TYPESCRIPT_1_32,
    TYPESCRIPT_2_4,
    NodeEnvironment,
    PythonEnvironment,
    node,
)
from inside_base import LEGACY
from listening import Listener, Transport, open_listener

from trio_mcp import Revision

PROGRAMS: Final = Path(__file__).with_name("servers")
ANNOUNCE: Final = PROGRAMS / "announce.mjs"
ALL_LEGACY: Final = tuple(LEGACY)
EVERYTHING: Final = "@modelcontextprotocol/server-everything"


@final
@attrs.frozen(kw_only=True)
class TheirServer:
    """A server of another implementation.

    Attributes:
        name: What it calls itself.
        environment: Where it is installed.
        program: The program: one of ours in ``servers``, or one that is installed.
        transport: How it is reached.
        arguments: What its program is told; by default the transport, and `options`.
        options: What else it is told: ``json`` for answers without streams, ``stateless`` for no sessions.
        url: Where it is, if it is running already.
        agreed: The revision it and a client that speaks all of them agree on.
        legacy: The revisions of the legacy era it can be made to speak.
        pages: In how many pages it lists its tools.
        answers_probe: Whether it answers a question that comes before `initialize`, or breaks down over it.
        has_measure: Whether its SDK has structured output.
        shows_progress: Whether its SDK lets a tool report progress.
        serves_log_level: Whether it can be told which log messages are wanted; if not, it sends all.
        cancels: Whether its SDK cancels a tool when told to, rather than breaking down.
        answers_unknown_methods: Whether its SDK does, rather than breaking down.
    """

    name: str
    environment: PythonEnvironment | NodeEnvironment
    program: Path
    agreed: Revision
    transport: Transport = "stdio"
    arguments: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    url: str | None = None
    legacy: tuple[Revision, ...] = ALL_LEGACY
    pages: int = 1
    answers_probe: bool = True
    has_measure: bool = True
    shows_progress: bool = True
    serves_log_level: bool = True
    cancels: bool = True
    answers_unknown_methods: bool = True

    @property
    def id(self) -> str:
        """What to call it in the name of a test."""
        reached = () if self.transport == "stdio" else (self.transport, *self.options)
        return "-".join((self.environment.name, self.program.stem, *reached))

    @property
    def directory(self) -> Path:
        """Where it is to be started: programs for Node.js find their packages there."""
        return self.environment.directory

    @property
    def command(self) -> tuple[str, ...]:
        """What starts it.

        Raises:
            MissingEnvironmentError: It is not installed.
        """
        self.environment.require()
        if isinstance(self.environment, NodeEnvironment):
            announcing = () if self.transport == "stdio" else ("--import", str(ANNOUNCE))
            return str(node()), *announcing, str(self.program), *self._told
        if self.program.suffix == ".py":
            return str(self.environment.python), str(self.program), *self._told
        return (str(self.program),)

    @property
    def _told(self) -> Sequence[str]:
        if self.arguments is not None:
            return self.arguments
        return () if self.transport == "stdio" else (self.transport, *self.options)

    def open_listener(self) -> AbstractContextManager[Listener]:
        """Start it where it listens."""
        return open_listener(self.command, directory=self.directory, more={"PORT": "0"})

    @property
    def tools(self) -> list[str]:
        """The tools of a server in `SDK_SERVERS`, in their order."""
        tools = ["add", "picture", "fail", "count", "block", "ended"]
        return [*tools, "measure"] if self.has_measure else tools


ONLY_2024: Final = (Revision.V2024_11_05,)

STDIO_SERVERS: Final = (
    TheirServer(
        name="python low-level",
        environment=PYTHON_1_0,
        program=PROGRAMS / "python_1_lowlevel.py",
        agreed=Revision.V2024_11_05,
        legacy=ONLY_2024,
        answers_probe=False,
        has_measure=False,
        shows_progress=False,
        cancels=False,
        answers_unknown_methods=False,
    ),
    TheirServer(
        name="python high-level",
        environment=PYTHON_1_2,
        program=PROGRAMS / "python_1_fastmcp.py",
        agreed=Revision.V2024_11_05,
        serves_log_level=False,
        legacy=ONLY_2024,
        answers_probe=False,
        has_measure=False,
        cancels=False,
        answers_unknown_methods=False,
    ),
    TheirServer(
        name="python low-level",
        environment=PYTHON_1_30,
        program=PROGRAMS / "python_1_lowlevel.py",
        agreed=Revision.V2025_11_25,
        pages=3,
    ),
    TheirServer(
        name="python high-level",
        environment=PYTHON_1_30,
        program=PROGRAMS / "python_1_fastmcp.py",
        agreed=Revision.V2025_11_25,
        serves_log_level=False,
    ),
    TheirServer(
        name="python low-level",
        environment=PYTHON_2_3,
        program=PROGRAMS / "python_2_lowlevel.py",
        agreed=Revision.V2026_07_28,
        pages=3,
    ),
    TheirServer(
        name="python high-level",
        environment=PYTHON_2_3,
        program=PROGRAMS / "python_2_mcpserver.py",
        agreed=Revision.V2026_07_28,
    ),
    TheirServer(
        name="typescript low-level",
        environment=TYPESCRIPT_1_4,
        program=PROGRAMS / "typescript_1_lowlevel.mjs",
        agreed=Revision.V2024_11_05,
        legacy=ONLY_2024,
        pages=2,
        has_measure=False,
    ),
    TheirServer(
        name="typescript high-level",
        environment=TYPESCRIPT_1_4,
        program=PROGRAMS / "typescript_1_mcpserver.mjs",
        agreed=Revision.V2024_11_05,
        serves_log_level=False,
        legacy=ONLY_2024,
        has_measure=False,
        shows_progress=False,
    ),
    TheirServer(
        name="typescript low-level",
        environment=TYPESCRIPT_1_32,
        program=PROGRAMS / "typescript_1_lowlevel.mjs",
        agreed=Revision.V2025_11_25,
        pages=3,
    ),
    TheirServer(
        name="typescript high-level",
        environment=TYPESCRIPT_1_32,
        program=PROGRAMS / "typescript_1_mcpserver.mjs",
        agreed=Revision.V2025_11_25,
    ),
    TheirServer(
        name="typescript 2",
        environment=TYPESCRIPT_2_4,
        program=PROGRAMS / "typescript_2.mjs",
        agreed=Revision.V2026_07_28,
    ),
)


def over(
    transport: Transport, name: str, environment: PythonEnvironment | NodeEnvironment, **differs: object
) -> TheirServer:
    """Return one of `STDIO_SERVERS` as it is over another transport."""
    (server,) = (server for server in STDIO_SERVERS if (server.environment, server.name) == (environment, name))
    agreed = min(server.agreed, Revision.V2025_11_25) if transport == "sse" else server.agreed
    # Who breaks down over a probe does not see one here.
    over_it: dict[str, Any] = {"transport": transport, "agreed": agreed, "answers_probe": True, **differs}
    return attrs.evolve(server, **over_it)


HTTP_SERVERS: Final = (
    over("sse", "python high-level", PYTHON_1_2),
    over("streamable-http", "python low-level", PYTHON_1_30),
    over("streamable-http", "python high-level", PYTHON_1_30),
    over("sse", "python low-level", PYTHON_1_30),
    over("streamable-http", "python low-level", PYTHON_2_3),
    over("streamable-http", "python high-level", PYTHON_2_3),
    over("sse", "python high-level", PYTHON_2_3, serves_log_level=False),  # in the legacy era
    over("sse", "typescript low-level", TYPESCRIPT_1_4),
    over("streamable-http", "typescript low-level", TYPESCRIPT_1_32),
    over("streamable-http", "typescript high-level", TYPESCRIPT_1_32),
    over("sse", "typescript low-level", TYPESCRIPT_1_32),
    over("streamable-http", "typescript 2", TYPESCRIPT_2_4),
)
SDK_SERVERS: Final = (*STDIO_SERVERS, *HTTP_SERVERS)
ONE_OF_EACH: Final = tuple({(server.environment, server.transport): server for server in SDK_SERVERS}.values())
"""One server of each SDK and transport, for what its high and its low level have in common."""

EVERYTHING_2025: Final = TheirServer(
    name="example-servers/everything",
    environment=TYPESCRIPT_1_4,
    program=TYPESCRIPT_1_4.package(EVERYTHING) / "dist" / "index.js",
    agreed=Revision.V2024_11_05,
    legacy=ONLY_2024,
)
EVERYTHING_2026: Final = TheirServer(
    name="mcp-servers/everything",
    environment=TYPESCRIPT_1_32,
    program=TYPESCRIPT_1_32.package(EVERYTHING) / "dist" / "index.js",
    agreed=Revision.V2025_11_25,
)
EVERY_EVERYTHING_2025: Final = (
    EVERYTHING_2025,
    attrs.evolve(
        EVERYTHING_2025,
        program=EVERYTHING_2025.program.with_name("sse.js"),
        transport="sse",
        arguments=(),
    ),
)
"""As it is reached: this one ends when its only client goes."""
EVERY_EVERYTHING_2026: Final = (
    EVERYTHING_2026,
    attrs.evolve(EVERYTHING_2026, transport="streamable-http", arguments=("streamableHttp",)),
    attrs.evolve(EVERYTHING_2026, transport="sse", arguments=("sse",)),
)
TIME: Final = TheirServer(
    name="mcp-time",
    environment=PYTHON_2_3,
    program=PYTHON_2_3.program("mcp-server-time"),
    agreed=Revision.V2026_07_28,
)
GIT: Final = TheirServer(
    name="mcp-git",
    environment=PYTHON_2_3,
    program=PYTHON_2_3.program("mcp-server-git"),
    agreed=Revision.V2026_07_28,
)
RELEASED_SERVERS: Final = (*EVERY_EVERYTHING_2025, *EVERY_EVERYTHING_2026, TIME, GIT)

_FULL: Final = (
    TheirServer(
        name="full", environment=PYTHON_1_30, program=PROGRAMS / "full_python_1.py", agreed=Revision.V2025_11_25
    ),
    TheirServer(
        name="full", environment=PYTHON_2_3, program=PROGRAMS / "full_python_2.py", agreed=Revision.V2026_07_28
    ),
    TheirServer(
        name="full",
        environment=TYPESCRIPT_1_32,
        program=PROGRAMS / "full_typescript_1.mjs",
        agreed=Revision.V2025_11_25,
    ),
    TheirServer(
        name="full",
        environment=TYPESCRIPT_2_4,
        program=PROGRAMS / "full_typescript_2.mjs",
        agreed=Revision.V2026_07_28,
    ),
)
_FULL_PYTHON_1, _FULL_PYTHON_2, _FULL_TYPESCRIPT_1, _FULL_TYPESCRIPT_2 = _FULL
_FULL_OVER_HTTP: Final = tuple(
    attrs.evolve(server, transport="streamable-http", options=options)
    for server, options in [
        (_FULL_PYTHON_1, ()),
        (_FULL_PYTHON_1, ("json",)),
        (_FULL_PYTHON_2, ()),
        (_FULL_PYTHON_2, ("json",)),
        (_FULL_TYPESCRIPT_1, ()),
        (_FULL_TYPESCRIPT_1, ("json",)),
        (_FULL_TYPESCRIPT_2, ()),
    ]
)
_FULL_STATELESS: Final = tuple(
    attrs.evolve(
        server, transport="streamable-http", options=("stateless",), agreed=Revision.V2025_11_25
    )  # the modern era has no sessions anyway
    for server in (_FULL_PYTHON_1, _FULL_PYTHON_2, _FULL_TYPESCRIPT_2)
)
_FULL_OVER_SSE: Final = tuple(
    attrs.evolve(server, transport="sse", agreed=Revision.V2025_11_25)
    for server in (_FULL_PYTHON_1, _FULL_PYTHON_2, _FULL_TYPESCRIPT_1)
)
FULL_SERVERS: Final = (*_FULL, *_FULL_OVER_HTTP, *_FULL_STATELESS, *_FULL_OVER_SSE)
"""One server of each SDK, with all that it can offer and ask but what those in `SDK_SERVERS` show."""
