"""Prompts: what they are, what they say, and their lists. Spec: server/prompts.

Getting one lives in `_prompt_gets`, because it may need more input first.
"""

from collections.abc import Sequence
from typing import final

from .._revisions import Revision
from ._content import ContentBlock, TextContent
from ._fields import member, wire
from ._messages import PaginatedResult
from ._metadata import Icon, MetaObject, Role

__all__ = [
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
]


@final
@wire
class PromptArgument:
    """Something a prompt can be told.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is, for people.
        required: Whether the prompt cannot do without. Where it is missing: no.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    required: bool | None = None


@final
@wire
class Prompt:
    """A beginning of a conversation that a server has ready.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it is for.
        arguments: What it can be told.
        icons: What to show for it.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    arguments: Sequence[PromptArgument] | None = None
    icons: Sequence[Icon] | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class PromptMessage:
    """What one side says in a prompt.

    Attributes:
        role: Who says it.
        content: What is said.
    """

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """What is said, if it is text; else nothing."""
        return self.content.text if isinstance(self.content, TextContent) else ""


@final
@wire
class ListPromptsResult(PaginatedResult):
    """One page of a server's prompts."""

    prompts: Sequence[Prompt]
