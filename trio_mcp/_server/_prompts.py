"""Prompts: functions registered as beginnings of conversations, and the calling of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

import attrs

from .. import types
from .._codec import _json
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, RequestError
from .._schema import InvalidValue, StringArgument
from ._calling import HandlerFunction, Overdue, is_several, read_handler
from ._context import Context
from ._depends import anything
from ._input_required import Asking
from ._interim import Interim
from ._registry import Registry
from ._threads import Threads

__all__ = ["PromptRegistry", "RegisteredPrompt", "assistant_message", "user_message"]

MAX_SHOWN_NAME: Final = 128
"""Characters of an unknown name that are said back."""


def user_message(content: str | types.ContentBlock) -> types.PromptMessage:
    """Return what a user says, for a prompt to return.

    Args:
        content: Text, or a block of `trio_mcp.types`.
    """
    return _message("user", content)


def assistant_message(content: str | types.ContentBlock) -> types.PromptMessage:
    """Return what an assistant says, for a prompt to return.

    Args:
        content: Text, or a block of `trio_mcp.types`.
    """
    return _message("assistant", content)


def _message(role: types.Role, content: str | types.ContentBlock) -> types.PromptMessage:
    return types.PromptMessage(
        role=role, content=types.TextContent(text=content) if isinstance(content, str) else content
    )


@final
@attrs.frozen(kw_only=True, eq=False)
class RegisteredPrompt:
    """A function as a prompt.

    Attributes:
        prompt: What clients are told about it.
        handler: The function.
        choices: For each argument, all strings it can be, if it can be only a few; else none.
    """

    prompt: types.Prompt
    handler: HandlerFunction
    choices: Mapping[str, tuple[str, ...]]

    async def get(
        self, arguments: Mapping[str, str], context: Context[Any], threads: Threads
    ) -> types.GetPromptResult | Interim:
        """Call the function, and make messages of what it returns.

        Raises:
            RequestError: The arguments do not fit, it took too long, or it raised the error.
            Others: What the function raises, or `TypeError` if what it returns can be no message.
        """
        name = self.prompt.name
        try:
            values = self.handler.spec.decode_strings(arguments)
        except InvalidValue as error:
            raise RequestError(INVALID_PARAMS, f"Invalid arguments for prompt {name}: {error}") from error
        try:
            return await self.handler.call(values, context, threads, self._result)
        except Overdue as error:
            raise RequestError(INTERNAL_ERROR, f"prompt {name} {error} and was cancelled") from error

    async def _result(self, returned: Any) -> types.GetPromptResult | Interim:
        if isinstance(returned, types.GetPromptResult | Interim):
            return returned
        messages = [self._said(part) for part in (returned if is_several(returned) else (returned,))]
        return types.GetPromptResult(description=self.prompt.description, messages=messages)

    def _said(self, part: Any) -> types.PromptMessage:
        if isinstance(part, types.PromptMessage):
            return part
        if isinstance(part, str | types.ContentBlock):
            return user_message(part)
        raise TypeError(
            f"prompt {self.prompt.name} may return text, blocks of content, messages, a list of those or a "
            f"GetPromptResult, but nothing of type {type(part).__qualname__}"
        )


@final
class PromptRegistry:
    """The prompts of a server, in the order in which they were registered."""

    def __init__(self) -> None:
        self.entries: Final = Registry[RegisteredPrompt]("prompt")

    @property
    def has_choices(self) -> bool:
        """Whether an argument of a prompt can be completed without anybody's help."""
        return any(any(entry.item.choices.values()) for entry in self.entries.visible)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None,
        title: str | None,
        description: str | None,
        icons: Sequence[types.Icon] | None,
        meta: Mapping[str, object] | None,
        thread: bool,
        timeout: float | None,
    ) -> None:
        """Register a function as a prompt.

        Raises:
            TypeError: Its parameters have no form in JSON.
            ValueError: Its name is empty, or another prompt has it; an option is out of bounds.
        """
        handler = read_handler(function, thread=thread, timeout=timeout, unstructured=anything)
        spec = handler.spec
        name = spec.name if name is None else name
        if not name:
            raise ValueError("a prompt needs a name")
        arguments = spec.arguments_as_strings()
        prompt = types.Prompt(
            name=name,
            title=title,
            description=spec.description if description is None else description,
            arguments=[_told(argument) for argument in arguments] or None,
            icons=icons,
            meta=meta,
        )
        choices = {argument.name: argument.choices for argument in arguments}
        self.entries.add(name, RegisteredPrompt(prompt=prompt, handler=handler, choices=choices))

    def asking(self, name: object) -> Asking:
        """Return whether a prompt may ask its client, and what becomes of it then."""
        registered = self.entries.get(name) if isinstance(name, str) else None
        return Asking.PARK if registered is not None and registered.handler.may_ask else Asking.NEVER

    def get(self, name: str) -> RegisteredPrompt:
        """Return the prompt of this name.

        Raises:
            RequestError: There is none.
        """
        registered = self.entries.get(name)
        if registered is None:
            raise RequestError(INVALID_PARAMS, f"Unknown prompt: {name[:MAX_SHOWN_NAME]}")
        return registered

    def choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        """Return what an argument can be, as far as its type says; see `Completer`.

        Raises:
            RequestError: There is no such prompt, or it has no such argument.
        """
        if not isinstance(reference, types.PromptReference):
            return None
        choices = self.get(reference.name).choices
        if argument not in choices:
            known = ", ".join(choices) or "none"
            raise RequestError(
                INVALID_PARAMS,
                f"prompt {reference.name} has no argument {argument[:MAX_SHOWN_NAME]!r}; it has {known}",
            )
        return choices[argument]


def _told(argument: StringArgument) -> types.PromptArgument:
    description = argument.schema.get("description")
    if argument.is_json:
        # Nobody could guess what to write; other arguments are text, numbers and the like.
        schema = {keyword: value for keyword, value in argument.schema.items() if keyword != "description"}
        form = f"In JSON that fits {_json.encode(schema).decode()}"
        description = f"{description} {form}" if description else form
    return types.PromptArgument(
        name=argument.name,
        title=argument.schema.get("title"),
        description=description,
        required=argument.required,
    )
