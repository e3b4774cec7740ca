"""A server asking the client's model. Spec: client/sampling. Deprecated since 2026-07-28 (SEP-2577)."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, final

from .._revisions import Revision
from ._content import SamplingMessageContentBlock, TextContent, ToolUseContent
from ._fields import member, wire
from ._metadata import JSONObject, MetaObject, Role
from ._tasks import TaskMetadata
from ._tools import Tool

__all__ = [
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "IncludeContext",
    "ModelHint",
    "ModelPreferences",
    "SamplingMessage",
    "ToolChoice",
]

IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
"""Whose context a model is given besides the messages. All but ``"none"`` is deprecated (SEP-2596)."""


@final
@wire
class ModelHint:
    """A wish for a model.

    Attributes:
        name: A part of a model's name, or of the name of one much like it.
    """

    name: str | None = member(default=None, hint=True)


@final
@wire
class ModelPreferences:
    """Which model a server would like. The client decides.

    Attributes:
        hints: Models it would like, best first; they go before the priorities.
        cost_priority: How much a low price matters, from 0 to 1.
        speed_priority: How much speed matters, from 0 to 1.
        intelligence_priority: How much ability matters, from 0 to 1.
    """

    hints: Sequence[ModelHint] | None = member(default=None, hint=True)
    cost_priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)
    speed_priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)
    intelligence_priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)


@final
@wire
class SamplingMessage:
    """What one side says in a conversation with a model.

    Attributes:
        role: Who says it.
        content: What is said, as one block or several. A revision before 2025-11-25 is sent as many messages.
    """

    role: Role
    content: SamplingMessageContentBlock | Sequence[SamplingMessageContentBlock]
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_11_25)
class ToolChoice:
    """Whether a model may, must or must not use tools.

    Attributes:
        mode: Where it is missing: ``"auto"``.
    """

    mode: Literal["auto", "required", "none"] | None = None


@final
@wire
class CreateMessageRequestParams:
    """Ask the client's model to go on with a conversation.

    Attributes:
        messages: The conversation so far.
        model_preferences: Which model to use.
        system_prompt: What to tell the model beforehand.
        include_context: Whose context to give the model.
        temperature: How freely it speaks.
        max_tokens: How many tokens it may produce.
        stop_sequences: What ends its answer.
        metadata: What to pass on to whoever runs the model.
        tools: The tools it may wish to use.
        tool_choice: Whether it may, must or must not use them.
        task: Ask that the request become a task.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    messages: Sequence[SamplingMessage]
    model_preferences: ModelPreferences | None = member(default=None, hint=True)
    system_prompt: str | None = None
    include_context: IncludeContext | None = None
    temperature: int | float | None = None
    max_tokens: int
    stop_sequences: Sequence[str] | None = None
    metadata: JSONObject | None = None
    tools: Sequence[Tool] | None = member(default=None, since=Revision.V2025_11_25)
    tool_choice: ToolChoice | None = member(default=None, since=Revision.V2025_11_25)
    task: TaskMetadata | None = member(default=None, since=Revision.V2025_11_25, until=Revision.V2025_11_25)


@final
@wire
class CreateMessageResult:
    """What the client's model said.

    Attributes:
        role: Who says it: as a rule the assistant.
        content: What is said, as one block or several. A revision before 2025-11-25 is sent one.
        model: The model that said it.
        stop_reason: Why it stopped: ``"endTurn"``, ``"stopSequence"``, ``"maxTokens"``, ``"toolUse"``, or what
            its provider calls it.
    """

    meta: MetaObject | None = member(default=None, hint=True)
    role: Role
    content: SamplingMessageContentBlock | Sequence[SamplingMessageContentBlock]
    model: str
    stop_reason: str | None = member(default=None, hint=True)

    @property
    def blocks(self) -> Sequence[SamplingMessageContentBlock]:
        """What is said, as blocks, however many there are."""
        return self.content if isinstance(self.content, Sequence) else (self.content,)

    @property
    def text(self) -> str:
        """What is said in text, without anything else; several blocks are on lines of their own."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    @property
    def tool_uses(self) -> Sequence[ToolUseContent]:
        """The tools that the model wishes to have called."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUseContent))
