"""Getting a prompt. Spec: server/prompts, "Getting a Prompt"."""

from collections.abc import Mapping, Sequence
from typing import final

from ._fields import member, wire
from ._input_required import InputResponseRequestParams
from ._messages import Result
from ._prompts import PromptMessage

__all__ = ["GetPromptRequestParams", "GetPromptResult"]


@final
@wire
class GetPromptRequestParams(InputResponseRequestParams):
    """Ask for a prompt.

    Attributes:
        name: The prompt.
        arguments: What it is told, by name.
    """

    name: str
    arguments: Mapping[str, str] | None = None


@final
@wire
class GetPromptResult(Result):
    """A prompt, filled in.

    Attributes:
        description: What it is for.
        messages: What is said, in order.
    """

    description: str | None = member(default=None, hint=True)
    messages: Sequence[PromptMessage]
