"""Sampling: asks the client's model to continue a conversation. How a question travels lives in `_asking`.

Spec: client/sampling; tools from 2025-11-25 on (SEP-1577). Deprecated since 2026-07-28 (SEP-2577).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from .. import types
from .._codec._unstructure import blocks_of
from .._core._forms import check_tool_results
from .._errors import LocalProtocolError
from .._limits import check_given, check_number, check_whole
from .._peer._exchange import OnProgress
from .._revisions import Revision
from ._asking import AskableClient, ClientFeatures

_METHOD: Final = "sampling/createMessage"
_WITH_TOOLS: Final = Revision.V2025_11_25

_Part: TypeAlias = (
    str
    | types.TextContent
    | types.ImageContent
    | types.AudioContent
    | types.ToolResultContent
    | types.SamplingMessage
    | types.CreateMessageResult
)
SamplingInput: TypeAlias = _Part | Iterable[_Part]
"""A conversation. Text and content is the user's; a `CreateMessageResult` is an earlier answer of the model."""

Preferences: TypeAlias = str | Sequence[str | types.ModelHint] | types.ModelPreferences
"""Which model a server prefers: a part of its name, several in order of preference, or all preferences."""

_BY_USERS: Final = (types.TextContent, types.ImageContent, types.AudioContent, types.ToolResultContent)


async def sample(
    client: AskableClient,
    messages: SamplingInput,
    *,
    max_tokens: int,
    system_prompt: str | None,
    model_preferences: Preferences | None,
    temperature: float | None,
    stop_sequences: Sequence[str] | None,
    include_context: types.IncludeContext | None,
    metadata: Mapping[str, Any] | None,
    tools: Sequence[types.Tool | str] | None,
    tool_choice: types.ToolChoice | Literal["auto", "required", "none"] | None,
    find_tool: Callable[[str], types.Tool],
    on_progress: OnProgress | None,
) -> types.CreateMessageResult:
    """Ask the model; see `Context.sample`."""
    check_given(sample, locals())
    check_whole("max_tokens", max_tokens)
    if temperature is not None:
        check_number("temperature", temperature)
    if tool_choice is not None and tools is None:
        raise ValueError("tool_choice is given without tools; give the tools to choose from")
    params = types.CreateMessageRequestParams(
        messages=conversation(messages),
        max_tokens=max_tokens,
        system_prompt=system_prompt,
        model_preferences=_preferences(model_preferences),
        temperature=temperature,
        stop_sequences=stop_sequences,
        include_context=include_context,
        metadata=metadata,
        tools=None if tools is None else _tools(tools, find_tool),
        tool_choice=types.ToolChoice(mode=tool_choice) if isinstance(tool_choice, str) else tool_choice,
    )
    require_sampling(client, params)
    return await client.ask(_METHOD, params, types.CreateMessageResult, on_progress=on_progress)


def require_sampling(client: ClientFeatures, params: types.CreateMessageRequestParams) -> None:
    """Check that the client has declared what these parameters need.

    Raises:
        CapabilityMissing: It has not.
    """
    needs_tools = params.tools is not None
    needs_context = params.include_context in {"thisServer", "allServers"}
    if needs_tools:
        client.require_revision(_WITH_TOOLS, "sampling with tools")
    if client.revision >= _WITH_TOOLS:
        # In older revisions results of tools are described in text, and the context needs no capability.
        needs_tools = needs_tools or any(_is_about_tools(message) for message in params.messages)
    else:
        needs_context = False
    declared = client.capabilities.sampling
    lacks_tools = needs_tools and (declared is None or declared.tools is None)
    lacks_context = needs_context and (declared is None or declared.context is None)
    if declared is None or lacks_tools or lacks_context:
        details = [
            name for name, is_lacking in (("tools", lacks_tools), ("context", lacks_context)) if is_lacking
        ]
        what = f"sampling with {' and '.join(details)}" if details else "sampling"
        lacks = types.SamplingCapability(tools={} if lacks_tools else None, context={} if lacks_context else None)
        raise client.missing(what, types.ClientCapabilities(sampling=lacks))


def _preferences(wanted: Preferences | None) -> types.ModelPreferences | None:
    if wanted is None or isinstance(wanted, types.ModelPreferences):
        return wanted
    names = [wanted] if isinstance(wanted, str) else wanted
    return types.ModelPreferences(
        hints=[name if isinstance(name, types.ModelHint) else types.ModelHint(name=name) for name in names]
    )


def _tools(wanted: Sequence[types.Tool | str], find_tool: Callable[[str], types.Tool]) -> list[types.Tool]:
    found = [find_tool(tool) if isinstance(tool, str) else tool for tool in wanted]
    names = [tool.name for tool in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"tools has two tools called {name!r}")
    return found


# The conversation.


def conversation(given: SamplingInput) -> tuple[types.SamplingMessage, ...]:
    """Return a conversation as messages.

    Adjacent content becomes one message, except that results of tools are not mixed with other content.

    Raises:
        ValueError: It is empty.
        TypeError: A part is no content, message or result.
        LocalProtocolError: Uses and results of tools do not match.
    """
    messages: list[types.SamplingMessage] = []
    blocks: list[types.SamplingMessageContentBlock] = []

    def finish() -> None:
        if blocks:
            content = blocks[0] if len(blocks) == 1 else tuple(blocks)
            messages.append(types.SamplingMessage(role="user", content=content))
            blocks.clear()

    for part in _parts(given):
        if isinstance(part, (types.SamplingMessage, types.CreateMessageResult)):
            finish()
            if isinstance(part, types.CreateMessageResult):
                part = types.SamplingMessage(role=part.role, content=part.content)  # noqa: PLW2901 - the same, as a message
            messages.append(part)
            continue
        if not isinstance(part, (str, *_BY_USERS)):
            hint = (
                "; put it into a SamplingMessage, which has a role"
                if isinstance(part, types.ToolUseContent)
                else ""
            )
            raise TypeError(f"messages cannot contain an object of type {type(part).__name__}{hint}")
        block = types.TextContent(text=part) if isinstance(part, str) else part
        if blocks and isinstance(block, types.ToolResultContent) is not isinstance(
            blocks[-1], types.ToolResultContent
        ):
            finish()
        blocks.append(block)
    finish()
    if not messages:
        raise ValueError("messages must have at least one message")
    try:
        check_tool_results(messages)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
    return tuple(messages)


def _parts(given: Any) -> Iterable[Any]:
    kind = type(given).__name__
    if isinstance(
        given, (str, types.SamplingMessage, types.CreateMessageResult, types.ToolUseContent, *_BY_USERS)
    ):
        return (given,)
    if isinstance(given, (bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"messages must be text, content or messages, not {kind}")
    return given  # pyright: ignore[reportUnknownVariableType]  # the caller checks the parts


def _is_about_tools(message: types.SamplingMessage) -> bool:
    return any(isinstance(block, (types.ToolUseContent, types.ToolResultContent)) for block in blocks_of(message))
