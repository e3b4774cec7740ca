"""The five revisions of the protocol as data: their methods, who may send each, and which capability it needs.

The rules that use these tables are in `_core`. Which *fields* a revision has is written beside each field, in
`trio_mcp.types`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, final

import attrs


@final
class Revision(enum.StrEnum):
    """A released revision of the specification. Compares by date, as text and as a revision.

    Attributes:
        is_modern: Whether each request carries its revision (2026-07-28 on), instead of a handshake.
    """

    is_modern: bool

    def __init__(self, date: str) -> None:
        self.is_modern = date >= "2026-07-28"

    __hash__ = str.__hash__  # that of `Enum` is no function in C, and differs from that of an equal text

    @classmethod
    def _missing_(cls, value: object) -> Revision:
        raise ValueError(f"{value!r:.40} is no revision of MCP: these are {', '.join(cls)}")

    V2024_11_05 = "2024-11-05"
    V2025_03_26 = "2025-03-26"
    V2025_06_18 = "2025-06-18"
    V2025_11_25 = "2025-11-25"
    V2026_07_28 = "2026-07-28"


MODERN: Final = tuple(r for r in Revision if r.is_modern)
LEGACY: Final = tuple(r for r in Revision if not r.is_modern)
LATEST: Final = MODERN[-1]
LATEST_LEGACY: Final = LEGACY[-1]
BATCH_REVISION: Final = Revision.V2025_03_26
"""The only revision with JSON-RPC batches (2025-03-26, basic, "Batching"; gone in 2025-06-18)."""

INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that may be answered by asking for input (2026-07-28, basic/patterns/mrtr, "Supported Requests")."""

QUESTIONS: Final = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
"""The requests of a server to its client; from 2026-07-28 on they are parts of results (basic/patterns/mrtr)."""

# Reserved keys of `_meta` (2026-07-28, basic, "_meta").
PROGRESS_TOKEN_KEY: Final = "progressToken"
PROTOCOL_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
TIMEOUT_KEY: Final = "trio-mcp/timeoutMs"
"""Ours: for how many milliseconds the caller will still wait. Peers that do not know it ignore it."""


@final
class Side(enum.Flag):
    """Who may send a method."""

    __hash__ = object.__hash__  # each is one object; Enum would hash the name, in Python

    CLIENT = enum.auto()
    SERVER = enum.auto()
    EITHER = CLIENT | SERVER


@final
@attrs.frozen
class MethodRule:
    """When a method exists: in which revisions, and sent by which side.

    Attributes:
        senders: The side or sides that may send it, in the legacy era.
        since: The first revision that has it.
        until: The last revision that has it, or `None`.
        capability: The capability that its receiver (of a request) or its sender (of a notification) must have
            declared.
        modern_senders: The side that may send it in the modern era, where that differs.
    """

    senders: Side
    since: Revision = Revision.V2024_11_05
    until: Revision | None = None
    capability: str | None = None
    modern_senders: Side | None = None

    def is_in(self, revision: Revision) -> bool:
        """Whether a revision has the method, whoever sends it."""
        return self.since <= revision and (self.until is None or revision <= self.until)

    def allows(self, sender: Side, revision: Revision) -> bool:
        """Whether `sender` may send this method to a peer of `revision`."""
        if not self.is_in(revision):
            return False
        senders = self.senders
        if revision.is_modern and self.modern_senders is not None:
            senders = self.modern_senders
        return bool(sender & senders)


_V06: Final = Revision.V2025_06_18
_V11: Final = Revision.V2025_11_25
_V07: Final = Revision.V2026_07_28
_C: Final = Side.CLIENT
_S: Final = Side.SERVER
_E: Final = Side.EITHER

METHODS: Final[Mapping[str, MethodRule]] = MappingProxyType(
    {
        # Lifecycle
        "initialize": MethodRule(_C, until=_V11),
        "notifications/initialized": MethodRule(_C, until=_V11),
        "server/discover": MethodRule(_C, since=_V07),
        "ping": MethodRule(_E, until=_V11),
        # A modern server sends it for one purpose only: to end a subscription (basic/patterns/cancellation).
        "notifications/cancelled": MethodRule(_E),
        "notifications/progress": MethodRule(_E, modern_senders=_S),
        # Server features
        "tools/list": MethodRule(_C, capability="tools"),
        "tools/call": MethodRule(_C, capability="tools"),
        "notifications/tools/list_changed": MethodRule(_S, capability="tools.listChanged"),
        "resources/list": MethodRule(_C, capability="resources"),
        "resources/templates/list": MethodRule(_C, capability="resources"),
        "resources/read": MethodRule(_C, capability="resources"),
        "resources/subscribe": MethodRule(_C, until=_V11, capability="resources.subscribe"),
        "resources/unsubscribe": MethodRule(_C, until=_V11, capability="resources.subscribe"),
        "notifications/resources/list_changed": MethodRule(_S, capability="resources.listChanged"),
        "notifications/resources/updated": MethodRule(_S, capability="resources.subscribe"),
        "prompts/list": MethodRule(_C, capability="prompts"),
        "prompts/get": MethodRule(_C, capability="prompts"),
        "notifications/prompts/list_changed": MethodRule(_S, capability="prompts.listChanged"),
        "completion/complete": MethodRule(_C, capability="completions"),
        "logging/setLevel": MethodRule(_C, until=_V11, capability="logging"),
        "notifications/message": MethodRule(_S, capability="logging"),
        "subscriptions/listen": MethodRule(_C, since=_V07),
        "notifications/subscriptions/acknowledged": MethodRule(_S, since=_V07),
        # Client features. In the modern era they travel inside an InputRequiredResult, not as requests.
        "roots/list": MethodRule(_S, until=_V11, capability="roots"),
        "notifications/roots/list_changed": MethodRule(_C, until=_V11, capability="roots.listChanged"),
        "sampling/createMessage": MethodRule(_S, until=_V11, capability="sampling"),
        "elicitation/create": MethodRule(_S, since=_V06, until=_V11, capability="elicitation"),
        "notifications/elicitation/complete": MethodRule(_S, since=_V11, until=_V11),
        # Tasks, experimental in one revision; an extension since.
        "tasks/get": MethodRule(_E, since=_V11, until=_V11, capability="tasks"),
        "tasks/result": MethodRule(_E, since=_V11, until=_V11, capability="tasks"),
        "tasks/list": MethodRule(_E, since=_V11, until=_V11, capability="tasks.list"),
        "tasks/cancel": MethodRule(_E, since=_V11, until=_V11, capability="tasks.cancel"),
        "notifications/tasks/status": MethodRule(_E, since=_V11, until=_V11, capability="tasks"),
    }
)
"""Every method of the core protocol. All others belong to an extension or to the user."""


REFUSED: Final[Mapping[Side, Mapping[Revision, frozenset[str]]]] = {
    side: {
        revision: frozenset(method for method, rule in METHODS.items() if not rule.allows(side, revision))
        for revision in Revision
    }
    for side in Side
}
"""By side and revision, which methods of the core protocol that side may not send; all others it may."""

WITHOUT_HANDLER: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})
"""The requests that a server's connection itself answers; see `ServerSession`."""

_NEVER_FREE: Final = QUESTIONS | WITHOUT_HANDLER | {"notifications/initialized"}
"""What peers answer before they look at the revision, and what input requests ask for."""


def is_free(method: str, revision: Revision) -> bool:
    """Whether an extension may have a method of this name in a revision, because the core protocol has none."""
    rule = METHODS.get(method)
    return rule is None or not (method in _NEVER_FREE or rule.is_in(revision))
