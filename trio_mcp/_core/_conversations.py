"""The rules of conversations with a model in which tools are used. Pure functions; no I/O, no Trio."""

from __future__ import annotations

from collections.abc import Sequence

from .. import types

__all__ = ["blocks_of", "check_tool_results"]


def blocks_of(message: types.SamplingMessage) -> Sequence[types.SamplingMessageContentBlock]:
    """Return what a message says, block by block."""
    return message.content if isinstance(message.content, Sequence) else (message.content,)


def check_tool_results(messages: Sequence[types.SamplingMessage]) -> None:
    """Check that each use of a tool is answered by its result in the message after it, and by nothing else.

    Raises:
        ValueError: It is not.

    Spec: 2025-11-25, client/sampling, "Message Content Constraints".
    """
    open_uses: list[str] = []
    for number, message in enumerate(messages):
        here = f"messages[{number}]"
        blocks = blocks_of(message)
        uses = [block.id for block in blocks if isinstance(block, types.ToolUseContent)]
        results = [block.tool_use_id for block in blocks if isinstance(block, types.ToolResultContent)]
        if uses and message.role != "assistant":
            raise ValueError(f"{here}: only the assistant uses tools")
        if results and message.role != "user":
            raise ValueError(f"{here}: only the user gives results of tools")
        if results and len(results) < len(blocks):
            raise ValueError(f"{here}: results of tools are mixed with other content")
        if sorted(results) != sorted(open_uses):
            raise ValueError(_mismatch(here, open_uses, results))
        if len(set(uses)) < len(uses):
            raise ValueError(f"{here}: two uses of tools have the same id")
        open_uses = uses
    if open_uses:
        raise ValueError(f"messages[{len(messages) - 1}]: no results follow for {', '.join(open_uses)}")


def _mismatch(here: str, uses: Sequence[str], results: Sequence[str]) -> str:
    lacking = [use for use in uses if use not in results]
    if lacking:
        return f"{here}: lacks results of tools for {', '.join(lacking)}"
    foreign = [result for result in results if result not in uses]
    if foreign:
        return f"{here}: the message before has no uses of tools {', '.join(foreign)}"
    return f"{here}: a use of a tool has two results"
