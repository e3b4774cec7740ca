"""A server's questions to the client's model: the user's handler, and what it may answer with."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, cast, get_args

import trio

from ..types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessageContentBlock,
    TextContent,
)

__all__ = ["OnSample", "SampleAnswer", "sample"]

SampleAnswer: TypeAlias = (
    CreateMessageResult | str | SamplingMessageContentBlock | Sequence[SamplingMessageContentBlock]
)
"""What a handler of sampling may return: the whole result, or only what the assistant says."""

OnSample: TypeAlias = Callable[[CreateMessageRequestParams], SampleAnswer | Awaitable[SampleAnswer]]
"""Asks the model. Raise ``RequestError(-1, ...)`` if the user says no (2025-11-25, client/sampling)."""

UNNAMED_MODEL: Final = "unspecified"
"""A result must name the model, and a handler that returns only what was said has not."""

_BLOCKS: Final[tuple[type, ...]] = get_args(SamplingMessageContentBlock)


async def sample(on_sample: OnSample, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Ask the user's handler.

    Raises:
        TypeError: The handler returned something else than an answer.
        Others: Whatever the handler raises.
    """
    answer: Any = on_sample(params)
    if inspect.isawaitable(answer):
        answer = await answer
    await trio.lowlevel.checkpoint()
    if isinstance(answer, CreateMessageResult):
        return answer
    content: Any = TextContent(text=answer) if isinstance(answer, str) else answer
    several = isinstance(content, (list, tuple))
    blocks = cast("Sequence[object]", content if several else (content,))
    if not all(isinstance(block, _BLOCKS) for block in blocks):
        raise TypeError(f"on_sample returns a CreateMessageResult, text or content, not {answer!r:.60}")
    return CreateMessageResult(role="assistant", content=content, model=UNNAMED_MODEL)
