"""Shows the messages of a connection to whoever looks on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, final

from .._logs import Log

__all__ = ["Frames", "OnFrame"]

_log: Final = Log("trio_mcp.peer")

OnFrame: TypeAlias = Callable[[Literal["sent", "received"], bytes], object]
"""Called with each message as it is handed to the wire or comes from it, for logs and tests."""


@final
class Frames:
    """Calls a bystander, as long as that goes well: what it does must not change what it looks at.

    Args:
        on_frame: The bystander.
    """

    def __init__(self, on_frame: OnFrame) -> None:
        self._on_frame: OnFrame | None = on_frame

    def sent(self, data: bytes) -> None:
        """A message is handed to the wire."""
        self._show("sent", data)

    def received(self, data: bytes) -> None:
        """A message has come."""
        self._show("received", data)

    def _show(self, direction: Literal["sent", "received"], data: bytes) -> None:
        if self._on_frame is not None:
            try:
                self._on_frame(direction, data)
            except Exception:
                _log.exception("on_frame failed and is not called again")
                self._on_frame = None
