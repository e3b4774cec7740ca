"""The tools a client has seen over HTTP, as far as their calls need header fields. No I/O.

Spec: 2026-07-28, basic/transports/streamable-http, "Schema Extension" and "Client Behavior".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from .._codec._json import is_array, is_object
from ._header_marks import HeaderMark, InvalidMarks, header_marks

__all__ = ["MarkedTools"]

MAX_TOOLS: Final = 10_000
"""Tools with marks that are remembered; those that were seen first are forgotten first."""


TEXT_BYTES: Final = 128
"""What a text takes in memory beside its letters, and with its place in what holds it."""


@final
class MarkedTools:
    """What `tools/list` has said about header fields.

    Args:
        max_bytes: What it may take in memory; the tools that were seen first are forgotten first.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._marks: dict[str, tuple[HeaderMark, ...]] = {}
        self._bytes = 0

    def marks_of(self, method: str, params: Mapping[str, Any] | None) -> tuple[HeaderMark, ...]:
        """Return the marks that a request must mirror; none for a tool that was never listed."""
        name = params.get("name") if method == "tools/call" and params is not None else None
        return self._marks.get(name, ()) if isinstance(name, str) else ()

    def learn(self, result: dict[str, Any]) -> list[str]:
        """Take a result of `tools/list`, and take the tools out of it that break the rules.

        Returns:
            Why which tool was taken out, one sentence each.
        """
        tools = result.get("tools")
        if not is_array(tools):
            return []
        problems: list[str] = []
        kept: list[Any] = []
        for tool in tools:
            name = tool.get("name") if is_object(tool) else None
            schema = tool.get("inputSchema") if is_object(tool) else None
            if isinstance(name, str) and is_object(schema):
                try:
                    self._remember(name, header_marks(schema))
                except InvalidMarks as error:
                    self._forget(name)
                    problems.append(f"tool {name!r} cannot be used over HTTP: {error}")
                    continue
            kept.append(tool)
        if problems:
            result["tools"] = kept
        return problems

    def _remember(self, name: str, marks: tuple[HeaderMark, ...]) -> None:
        self._forget(name)
        if marks:
            self._marks[name] = marks
            self._bytes += _weight(name, marks)
            while len(self._marks) > MAX_TOOLS or self._bytes > self._max_bytes:
                self._forget(next(iter(self._marks)))

    def _forget(self, name: str) -> None:
        marks = self._marks.pop(name, None)
        if marks is not None:
            self._bytes -= _weight(name, marks)


def _weight(name: str, marks: tuple[HeaderMark, ...]) -> int:
    """Return what the marks of a tool take in memory at most: four bytes for each letter, and the objects."""
    texts = [name, *(text for mark in marks for text in (mark.header, *mark.path))]
    return TEXT_BYTES * (1 + len(texts) + len(marks)) + 4 * sum(map(len, texts))
