"""What is played: each attack, against which servers, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import attrs

Host: TypeAlias = Literal[
    "hypercorn", "lean", "websocket", "websocket-hypercorn", "websocket-lean", "tcp", "tls", "unix"
]
"""What serves: HTTP by one of two hosts; WebSockets alone, or beside HTTP; a message a line over sockets."""

HOSTS: Final = cast("tuple[Host, ...]", get_args(Host))
HTTP: Final[tuple[Host, ...]] = ("hypercorn", "lean")
WIRES: Final[tuple[Host, ...]] = ("websocket", "tcp", "unix")
BESIDE: Final[tuple[Host, ...]] = ("websocket-hypercorn", "websocket-lean")
"""WebSockets where HTTP is served as well: accepting and reading is then the host's."""

ADDRESSES: Final = tuple(f"127.0.0.{number}" for number in range(2, 10))
"""Where attackers come from; the honest client comes from 127.0.0.1."""


@attrs.frozen
class Plan:
    """An attack, and what it is played against.

    Attributes:
        attack: Its name, as `attacker` calls it.
        hosts: What serves.
        sse: Whether HTTP+SSE is served.
        authenticates: Whether clients have to say who they are.
        is_principal: Whether the attacker is a client like others, with a token, and comes from many addresses.
        addresses: From how many addresses it is played otherwise, at once.
        files: How many files and sockets the server may open.
        leaves_sessions: Whether sessions that were begun in good order, and parked handlers, are left: they are kept
            for as long as settings say, within their client's share.
        times: How many times as long as others it lasts.
    """

    attack: str
    hosts: tuple[Host, ...] = HTTP
    sse: bool = False
    authenticates: bool = False
    is_principal: bool = False
    addresses: int = 1
    files: int = 4096
    leaves_sessions: bool = False
    times: int = 1

    @property
    def title(self) -> str:
        """What it is called in tables."""
        parts = [self.attack]
        if self.files != 4096:
            parts.append(f"{self.files} files")
        if self.addresses == 2:
            parts.append("two addresses")
        if self.is_principal:
            parts.append("a token")
        return ", ".join(parts)

    def setup(self, host: Host) -> dict[str, Any]:
        """Return what the server is told."""
        return {
            "host": host,
            "sse": self.sse,
            "authenticates": self.authenticates,
            "protected": self.is_principal,
            "files": self.files,
        }

    @property
    def sources(self) -> Sequence[str]:
        """The addresses that it comes from."""
        return ADDRESSES if self.is_principal else ADDRESSES[: self.addresses]


OVER_HTTP: Final = (
    Plan("host-of-dots"),
    Plan("long-fields"),
    Plan("many-fields"),
    Plan("odd-paths"),
    Plan("refused-hosts"),
    Plan("malformed-heads"),
    Plan("schema-errors"),
    Plan("schema-alternatives"),
    Plan("schema-unique"),
    Plan("schema-unevaluated"),
    Plan("typed-errors"),
    Plan("colliding-numbers"),
    Plan("empty-arrays"),
    Plan("deep-arrays"),
    Plan("long-numbers"),
    Plan("slow-numbers"),
    Plan("odd-uris"),
    Plan("forged-states"),
    Plan("sessions", leaves_sessions=True, times=4),
    Plan("uninitialised-sessions", times=2),
    Plan("great-handshakes", leaves_sessions=True),
    Plan("begun-and-ended"),
    Plan("random-ids"),
    Plan("parked-handlers", leaves_sessions=True),
    Plan("great-parked-handlers", leaves_sessions=True),
    Plan("great-requests"),
    Plan("heavy-requests"),
    Plan("heavy-session-requests", leaves_sessions=True),
    Plan("unfinished-bodies"),
    Plan("unfinished-chunks"),
    Plan("slow-bodies"),
    Plan("slow-heads"),
    Plan("silent-connections", hosts=(*HTTP, *WIRES)),
    Plan("silent-connections", files=256),
    Plan("connections-of-two"),
    Plan("new-connections", hosts=(*HTTP, *WIRES)),
    Plan("great-subscriptions"),
    Plan("session-subscriptions", leaves_sessions=True),
    Plan("unread-answers"),
    Plan("unread-session-answers", leaves_sessions=True),
    Plan("unread-streams", leaves_sessions=True),
    Plan("unread-logs"),
    Plan("stored-events", leaves_sessions=True),
    Plan("absurd-event-ids", leaves_sessions=True),
    Plan("get-streams", leaves_sessions=True),
    Plan("sse-sessions", sse=True),
    Plan("unread-sse-sessions", sse=True),
    Plan("useless-messages", leaves_sessions=True),
    Plan("refused-credentials", authenticates=True),
    Plan("slow-authentication", authenticates=True),
    Plan("batches", leaves_sessions=True),
    Plan("small-requests"),
    Plan("unread-small-requests"),
    Plan("pipelined-requests"),
    Plan("pings", leaves_sessions=True),
    Plan("lists"),
    Plan("threads"),
    Plan("given-up-requests", leaves_sessions=True),
    Plan("abandoned-calls", leaves_sessions=True),
)

OVER_WIRES: Final = (
    Plan("half-handshakes", hosts=(*WIRES, *BESIDE, "tls")),
    Plan("slow-messages", hosts=(*WIRES, "tls")),
    Plan("half-messages", hosts=(*WIRES, *BESIDE, "tls")),
    Plan("endless-messages", hosts=(*WIRES, *BESIDE)),
    Plan("empty-messages", hosts=(*WIRES, *BESIDE)),
    Plan("unread-empty-messages", hosts=WIRES),
    Plan("broken-messages", hosts=(*WIRES, *BESIDE, "tls")),
    Plan("great-messages", hosts=WIRES),
    Plan("heavy-messages", hosts=WIRES),
    Plan("hostile-messages", hosts=WIRES),
    Plan("message-floods", hosts=(*WIRES, *BESIDE, "tls")),
    Plan("unread-message-floods", hosts=WIRES),
    Plan("notification-floods", hosts=WIRES),
    Plan("given-up-messages", hosts=WIRES),
    Plan("uninitialised-wires", hosts=(*WIRES, *BESIDE)),
    Plan("wires-begun-and-ended", hosts=(*WIRES, *BESIDE, "tls")),
    Plan("parked-wires", hosts=WIRES, leaves_sessions=True),
    Plan("asking-wires", hosts=WIRES),
    Plan("wire-subscriptions", hosts=WIRES),
    Plan("unread-messages", hosts=(*WIRES, *BESIDE, "tls")),
    Plan("message-batches", hosts=WIRES),
)

FROM_TWO: Final = (
    Plan("sessions", addresses=2, leaves_sessions=True, times=4),
    Plan("great-requests", addresses=2),
    Plan("heavy-requests", addresses=2),
    Plan("great-parked-handlers", addresses=2, leaves_sessions=True),
    Plan("unfinished-bodies", addresses=2),
    Plan("great-subscriptions", addresses=2),
    Plan("unread-answers", addresses=2),
    Plan("unread-streams", addresses=2, leaves_sessions=True),
    Plan("unread-sse-sessions", addresses=2, sse=True),
    Plan("pipelined-requests", addresses=2),
    Plan("half-messages", addresses=2, hosts=("websocket", "tcp")),
    Plan("great-messages", addresses=2, hosts=("websocket", "tcp")),
    Plan("unread-messages", addresses=2, hosts=("websocket", "tcp")),
    Plan("uninitialised-wires", addresses=2, hosts=("websocket", "tcp")),
    Plan("message-floods", addresses=2, hosts=("websocket", "tcp")),
)

BY_A_PRINCIPAL: Final = (
    Plan("sessions", is_principal=True, leaves_sessions=True, times=4),
    Plan("great-requests", is_principal=True),
    Plan("great-parked-handlers", is_principal=True, leaves_sessions=True),
    Plan("great-subscriptions", is_principal=True),
    Plan("unread-answers", is_principal=True),
    Plan("stored-events", is_principal=True, leaves_sessions=True),
    Plan("pipelined-requests", is_principal=True),
    Plan("threads", is_principal=True),
    Plan("batches", is_principal=True, leaves_sessions=True),
    Plan("great-messages", is_principal=True, hosts=("websocket",)),
    Plan("unread-messages", is_principal=True, hosts=("websocket",)),
    Plan("message-floods", is_principal=True, hosts=("websocket",)),
    Plan("uninitialised-wires", is_principal=True, hosts=("websocket",)),
)

PLANS: Final = (*OVER_HTTP, *OVER_WIRES, *FROM_TWO, *BY_A_PRINCIPAL)
