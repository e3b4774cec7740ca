"""What a tool gives. Spec: server/tools, "Tool Result"."""

from collections.abc import Sequence
from typing import final

from .._absent import ABSENT, Absent
from .._revisions import Revision
from ._content import ContentBlock, TextContent
from ._fields import member, wire
from ._messages import Result

__all__ = ["CallToolResult"]


@final
@wire
class CallToolResult(Result):
    """What a tool gave.

    Attributes:
        content: For the model.
        structured_content: For programs: any JSON value that fits the tool's `output_schema`; an object before
            2026-07-28.
        is_error: Whether the tool failed. The model reads in `content` why.
    """

    content: Sequence[ContentBlock]
    structured_content: object | Absent = member(default=ABSENT, since=Revision.V2025_06_18)
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """What it gave in text, without anything else; several blocks are on lines of their own."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))
