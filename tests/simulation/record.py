"""What happened, in order: plain JSON, for a checker that knows nothing of what has written it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import attrs

End: TypeAlias = Literal["client", "server"]


@attrs.define(eq=False)
class Log:
    """All events of one program.

    Attributes:
        clock: Tells the time.
        events: What happened: each has its number ``i``, its time ``t``, its kind ``ev``, and what belongs to that.
        kinds: How often each kind has happened, for what is not worth an event.
    """

    clock: Callable[[], float]
    events: list[dict[str, Any]] = attrs.field(factory=list[dict[str, Any]])

    def add(self, ev: str, **data: Any) -> None:
        """Note that something happened now."""
        self.events.append({"i": len(self.events), "t": self.clock(), "ev": ev, **data})

    def has(self, ev: str) -> bool:
        """Whether something of a kind has happened."""
        return any(event["ev"] == ev for event in self.events)
