"""The matrix: every transport, the revisions that it carries, and what cannot be had there, each with its reason.

A scenario, which is a test function of `tests/memory/matrix`, is decorated with `carried()`, and then runs in every cell:
over each transport in those revisions that `RUN` names. One that needs what not all cells have names it,
``@carried("reports")``, and leaves out the cells for which `LACKS` gives a reason. A transport that is added is a row
of `TRANSPORTS` and one of `RUN` here, and a way of opening it in `lines.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, final

import attrs
import pytest

from trio_mcp import Revision

__all__ = [
    "BY_NAME",
    "CELLS",
    "LACKS",
    "SPARED",
    "TRANSPORTS",
    "Lack",
    "Need",
    "Transport",
    "carried",
    "lack_of",
    "marks_of",
]

ALL: Final = tuple(Revision)
LEGACY: Final = tuple(revision for revision in Revision if not revision.is_modern)
MODERN: Final = tuple(revision for revision in Revision if revision.is_modern)
STREAMABLE: Final = ALL[1:]

NO_STREAMABLE: Final = (
    "2024-11-05 has no Streamable HTTP, which replaced HTTP+SSE in 2025-03-26 (basic/transports, "
    '"Streamable HTTP"). A server of 2024-11-05 is in the rows of HTTP+SSE.'
)
NO_SSE: Final = (
    "HTTP+SSE is the transport of 2024-11-05. It needs the stream that a session keeps open, and 2026-07-28 has no "
    'sessions and answers each POST by itself (basic/transports/streamable-http, "Backward Compatibility").'
)
NO_STATE: Final = "2026-07-28 has no sessions that could be left out (basic/versioning): it is in the rows without the word stateless."

NO_CROSSING: Final = "This row crosses from one era to the other (basic/versioning); where client and server speak alike is in the row above."

Kind: TypeAlias = Literal["duplex", "http"]
Need: TypeAlias = Literal[
    "batches",
    "cancelled notifications",
    "changes",
    "forms",
    "handshake",
    "levels",
    "one revision",
    "questions",
    "reports",
    "server requests",
]
"""What a scenario may need that not every cell has: several requests in one message; giving up by a notification; notifications of changes; elicitation;
``initialize``; a log level that is kept; a server that speaks one revision alone; asking the client, in whatever way; what a handler says before its answer, in
order with it; requests of the server.
"""


@final
@attrs.frozen(kw_only=True)
class Transport:
    """A way of connecting a client and a server.

    Attributes:
        name: What it is called in the ids of tests.
        title: What it is called in docs/transports.md.
        kind: Whether there is one wire for everything, where giving up is a message in all revisions, or HTTP.
        revisions: Those that it carries.
        reason: Why it does not carry the others.
    """

    name: str
    title: str
    kind: Kind = "duplex"
    revisions: Sequence[Revision] = ALL
    reason: str = ""


def _over_http(
    mode: str, title: str, revisions: Sequence[Revision], reason: str | Sequence[str]
) -> tuple[Transport, ...]:
    """Return a mode of serving HTTP, over each of the hosts."""
    hosts = {"": "an ASGI application", "-hypercorn": "Hypercorn", "-lean": "the lean host"}
    return tuple(
        Transport(
            name=f"{mode}{suffix}",
            title=f"{title}, {host}",
            kind="http",
            revisions=revisions,
            reason=reason if isinstance(reason, str) else " ".join(reason),
        )
        for suffix, host in hosts.items()
    )


TRANSPORTS: Final = (
    Transport(name="memory", title="memory"),
    Transport(name="stdio", title="stdio"),
    Transport(name="tcp", title="TCP"),
    Transport(name="tls", title="TLS"),
    Transport(name="unix", title="Unix socket"),
    Transport(name="websocket", title="WebSocket, in memory"),
    Transport(name="websocket-hypercorn", title="WebSocket, Hypercorn"),
    Transport(name="websocket-lean", title="WebSocket, the lean host"),
    *_over_http("http", "Streamable HTTP", STREAMABLE, NO_STREAMABLE),
    *_over_http("json", "Streamable HTTP, JSON only", STREAMABLE, NO_STREAMABLE),
    *_over_http("stateless", "Streamable HTTP, stateless", LEGACY[1:], (NO_STREAMABLE, NO_STATE)),
    *_over_http("sse", "HTTP+SSE", LEGACY, NO_SSE),
    Transport(name="proxy", title="memory, a proxy, memory"),
    Transport(
        name="proxy-to-modern",
        title="Streamable HTTP, a proxy, a server of 2026-07-28",
        kind="http",
        revisions=LEGACY[1:],
        reason=f"{NO_STREAMABLE} {NO_CROSSING}",
    ),
    Transport(
        name="proxy-to-legacy",
        title="Streamable HTTP, a proxy, a server of 2025-11-25",
        kind="http",
        revisions=MODERN,
        reason=NO_CROSSING,
    ),
)
BY_NAME: Final = {transport.name: transport for transport in TRANSPORTS}

OLDEST: Final = "2024-11-05"
OLDEST_STREAMABLE: Final = "2025-03-26"
NEWEST_LEGACY: Final = "2025-11-25"
MODERN_ONE: Final = "2026-07-28"
ENDS: Final = (OLDEST, NEWEST_LEGACY, MODERN_ONE)
NEWEST: Final = (NEWEST_LEGACY, MODERN_ONE)

RUN: Final[Mapping[str, Sequence[str]]] = {
    "memory": tuple(map(str, ALL)),
    **dict.fromkeys(("stdio", "tcp", "websocket", "proxy"), ENDS),
    **dict.fromkeys(("http", "json"), (OLDEST_STREAMABLE, *NEWEST)),
    **dict.fromkeys(("http-hypercorn", "http-lean", "websocket-hypercorn", "websocket-lean"), NEWEST),
    **dict.fromkeys(("stateless", "proxy-to-modern"), (OLDEST_STREAMABLE, NEWEST_LEGACY)),
    "sse": (OLDEST, NEWEST_LEGACY),
    **dict.fromkeys(("tls", "unix", "json-hypercorn", "json-lean", "proxy-to-legacy"), (MODERN_ONE,)),
    **dict.fromkeys(("stateless-hypercorn", "stateless-lean"), (NEWEST_LEGACY,)),
    **dict.fromkeys(("sse-hypercorn", "sse-lean"), (OLDEST,)),
}
"""The cells: over each transport, the revisions in which every scenario runs.

In memory those are all. Over other transports they are the oldest and the newest of each era, since nothing of a transport
depends on the revisions between; and one, where two rows say already what it is made of: TLS and a Unix socket frame as TCP does,
and a mode of HTTP answers over a host what it answers in an ASGI application.
"""
SPARED: Final = (
    "It carries this revision as well, but no scenario runs there, unless no other revision has what it is about (batches). "
    "What differs between revisions is shown in memory; what differs "
    "between transports, in the oldest and the newest revision of an era; what differs between hosts of HTTP, in one of each era."
)
CELLS: Final = tuple((name, revision) for name in BY_NAME for revision in RUN[name])
"""Every transport with each revision in which the scenarios run."""


@final
@attrs.frozen(kw_only=True)
class Lack:
    """What cannot be had in some cells.

    Attributes:
        need: What that is.
        reason: Why.
        revisions: In these revisions …
        over: … over the transports whose names begin so; nothing for all.
    """

    need: Need
    reason: str
    revisions: Collection[Revision] = ALL
    over: tuple[str, ...] = ("",)

    def is_at(self, binding: str, revision: str) -> bool:
        """Return whether it concerns a cell."""
        return Revision(revision) in self.revisions and binding.startswith(self.over)


NO_SESSION: Final = (
    "Without a session a request of the server has no stream, and its answer finds nobody (2025-11-25, basic/transports, "
    '"Session Management": sessions are optional).'
)

LACKS: Final = (
    Lack(
        need="batches",
        reason='Only 2025-03-26 has batches (basic, "Batching").',
        revisions=tuple(revision for revision in ALL if revision != "2025-03-26"),
    ),
    Lack(
        need="handshake",
        reason="2026-07-28 has no handshake: each request says everything (basic/versioning).",
        revisions=MODERN,
    ),
    Lack(
        need="server requests",
        reason="2026-07-28 has no requests of servers: a question is a result, which the client answers with the request "
        "sent again (basic/patterns/mrtr).",
        revisions=MODERN,
    ),
    Lack(need="server requests", reason=NO_SESSION, over=("stateless",)),
    Lack(
        need="server requests",
        reason="The server behind the proxy speaks 2026-07-28, where a question is a result (basic/patterns/mrtr).",
        over=("proxy-to-modern",),
    ),
    Lack(
        need="one revision",
        reason="A proxy speaks all revisions, whichever the server behind it speaks: the two sides agree each for itself "
        "(basic/versioning).",
        over=("proxy",),
    ),
    Lack(need="questions", reason=NO_SESSION, over=("stateless",)),
    Lack(need="forms", reason="Elicitation came with 2025-06-18 (client/elicitation).", revisions=ALL[:2]),
    Lack(need="forms", reason=NO_SESSION, over=("stateless",)),
    Lack(
        need="changes",
        reason='Without a session there is no stream for notifications of changes (2025-11-25, basic/transports, "Listening '
        'for Messages from the Server").',
        over=("stateless",),
    ),
    Lack(
        need="levels",
        reason="Without a session nobody remembers what `logging/setLevel` has set (2025-11-25, server/utilities/logging).",
        over=("stateless",),
    ),
    Lack(
        need="reports",
        reason="An answer that is one JSON object leaves no place before it for what its handler says (2026-07-28, "
        'basic/transports/streamable-http, "Sending Messages"): in older revisions it takes the stream of the session, in no '
        "order with the answer; in 2026-07-28 there is none.",
        over=("json",),
    ),
    Lack(
        need="cancelled notifications",
        reason="Over HTTP 2026-07-28 gives a request up by closing its response stream (basic/patterns/cancellation).",
        revisions=MODERN,
        over=("http", "json", "proxy-to-legacy"),
    ),
)


def lack_of(needs: Collection[str], binding: str, revision: str) -> Lack | None:
    """Return the first reason why a cell has not all of these."""
    return next((lack for lack in LACKS if lack.need in needs and lack.is_at(binding, revision)), None)


_Test = TypeVar("_Test", bound=Callable[..., Any])


SHOWN: Final = {
    **dict.fromkeys(("memory", "websocket", "proxy"), ENDS),
    "http": NEWEST,
    "json": (MODERN_ONE,),
    "stateless": (NEWEST_LEGACY,),
    "sse": (OLDEST,),
    "proxy-to-modern": (NEWEST_LEGACY,),
    "proxy-to-legacy": (MODERN_ONE,),
}
"""The cells without sockets that `make test` runs: of each way to connect, the revisions in which it differs most."""
SHOWN_ON_WIRES: Final = {
    **dict.fromkeys(("stdio", "http-hypercorn", "websocket-hypercorn"), NEWEST),
    **dict.fromkeys(("tcp", "tls", "unix", "http-lean"), (MODERN_ONE,)),
}
"""Those with sockets or processes that `make wires` runs."""


def marks_of(binding: str, revision: str) -> list[pytest.MarkDecorator]:
    """Return the layer of a cell: that of `make test` has no mark; what neither runs is for `make nightly`."""
    if revision in SHOWN.get(binding, ()):
        return []
    if revision in SHOWN_ON_WIRES.get(binding, ()):
        return [pytest.mark.wires]
    return [pytest.mark.nightly]


def carried(*needs: Need, also: Sequence[tuple[str, str]] = ()) -> Callable[[_Test], _Test]:
    """Let a scenario run in every cell that has what it needs, with parameters ``binding`` and ``revision``.

    What only a revision between has, is run in these cells, too.
    """
    chosen = [*(cell for cell in CELLS if lack_of(needs, *cell) is None), *also]
    cells = [pytest.param(*cell, marks=marks_of(*cell)) for cell in chosen]

    def mark(test: _Test) -> _Test:
        marked: _Test = pytest.mark.needs(*needs)(pytest.mark.parametrize(("binding", "revision"), cells)(test))
        return marked

    return mark
