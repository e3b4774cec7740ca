"""Prompts, and completion: the functions registered for them, and the calling of these.

Completion is of arguments of prompts and of variables of resource templates, which `_resources` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sized
from itertools import islice
from typing import Any, Final, Protocol, final

import attrs
import trio

from .. import types
from .._channel import Origin
from .._codec import _json
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, RequestError
from .._printable import kind_shown
from .._schema import InvalidValue, StringArgument
from .._trio import propagating
from ._asking import failed_by_client
from ._context import Context, origin_of
from ._functions import (
    HandlerFunction,
    MethodHandler,
    Overdue,
    RunOptions,
    is_several,
    log_failure,
    pass_throttle,
    read_given,
    read_handler,
)
from ._input_required import Asking, NonFinalResult
from ._listing import MAX_SHOWN_NAME, Description, Listing, NamedRegistry, described, read_params
from ._threads import Threads


def user_message(content: str | types.ContentBlock) -> types.PromptMessage:
    """Return a message of the user, for a prompt to return.

    Args:
        content: Text, or a block of `trio_mcp.types`.
    """
    return _message("user", content)


def assistant_message(content: str | types.ContentBlock) -> types.PromptMessage:
    """Return a message of the assistant, for a prompt to return.

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
        prompt: What clients see of it.
        handler: The function.
        choices: For each argument, all texts it can be, if it can be only a few; else empty.
    """

    prompt: types.Prompt
    handler: HandlerFunction
    choices: Mapping[str, tuple[str, ...]]

    async def get(
        self, arguments: Mapping[str, str], context: Context[Any], threads: Threads
    ) -> types.GetPromptResult | NonFinalResult:
        """Call the function, and make messages of what it returns.

        Raises:
            RequestError: The arguments do not fit, it took too long, or it raised the error.
            TypeError: What it returns is not a message.
            Others: What the function raises.
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

    async def _result(self, returned: Any) -> types.GetPromptResult | NonFinalResult:
        if isinstance(returned, types.GetPromptResult | NonFinalResult):
            return returned
        self.handler.spec.check_returned(returned)
        messages = [self._as_message(part) for part in (returned if is_several(returned) else (returned,))]
        return types.GetPromptResult(description=self.prompt.description, messages=messages)

    def _as_message(self, part: Any) -> types.PromptMessage:
        if isinstance(part, types.PromptMessage):
            return part
        if isinstance(part, str | types.ContentBlock):
            return user_message(part)
        raise TypeError(
            f"prompt {self.prompt.name} returned {kind_shown(part)}; return text, blocks of content, messages, "
            "a list of those, or a GetPromptResult"
        )


class PromptOptions(Description, RunOptions, total=False):
    """The options of `Server.prompt`, which describes them."""


@final
class PromptRegistry(NamedRegistry[RegisteredPrompt]):
    """The prompts of a server, in the order in which they were registered.

    Args:
        threads: Where plain functions run.
        listing: Cuts the list into pages.
    """

    def __init__(self, threads: Threads, listing: Listing) -> None:
        super().__init__("prompt")
        self._threads = threads
        self._listing = listing

    @property
    def has_choices(self) -> bool:
        """Whether an argument of a prompt can be completed without a function."""
        return any(any(entry.item.choices.values()) for entry in self.entries.visible)

    def add(self, function: Callable[..., Any], options: PromptOptions) -> None:
        """Register a function as a prompt.

        Raises:
            TypeError: It is no function that can be meant, or its parameters have no form in JSON.
            ValueError: Its name is empty, or another prompt has it; an option is out of bounds.
        """
        handler = read_handler(function, options, may_yield=True)
        spec = handler.spec
        description = described(options, spec.name, spec.description)
        name = description["name"]
        if not name:
            raise ValueError("a prompt needs a name, not ''")
        arguments = spec.arguments_as_strings()
        prompt = types.Prompt(
            arguments=[_described_argument(argument) for argument in arguments] or None, **description
        )
        choices = {argument.name: argument.choices for argument in arguments}
        registered = RegisteredPrompt(prompt=prompt, handler=handler, choices=choices)
        self.register(name, registered, options)

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return the handler of a method; `None` if no prompt was ever registered."""
        if not self.entries.was_used:
            return None
        if method == "prompts/get":
            return self._get
        return self._list if method == "prompts/list" else None

    async def _list(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        entries = self.entries

        def list_page(own: Origin | None = None) -> types.ListPromptsResult:
            visible = entries.visible_to(own) if entries.is_guarded else entries.visible
            page, members = self._listing.page("prompts/list", params, visible, is_own=entries.is_guarded)
            return types.ListPromptsResult(prompts=[registered.prompt for registered in page], **members)

        if entries.is_guarded:
            return list_page(origin_of(context))
        return self._listing.kept("prompts/list", params, context.revision, entries.changes, list_page)

    async def _get(
        self, params: Mapping[str, Any], context: Context[Any]
    ) -> types.GetPromptResult | NonFinalResult:
        asked = read_params(params, types.GetPromptRequestParams)
        if self.entries.is_checked:
            self.check_permit(asked.name, origin_of(context), params)
            pass_throttle(self.entries.throttle(asked.name), context)
        prompt = self.get(asked.name)
        try:
            return await prompt.get(asked.arguments or {}, context, self._threads)
        except RequestError:
            raise
        except BaseException as error:
            if propagating(error) is not None or failed_by_client(error):
                raise
            # The boundary of one prompt. The exception may hold what clients must not see.
            log_failure(f"prompt {asked.name}", error, context)
            problem = f"prompt {asked.name} failed. The server's log says why."
            raise RequestError(INTERNAL_ERROR, problem) from error  # noqa: ASYNC104

    def asking(self, name: object) -> Asking:
        """Return whether a prompt may ask its client, and what happens to it meanwhile."""
        registered = self.entries.shown.get(name) if isinstance(name, str) else None
        return Asking.NEVER if registered is None else registered.handler.asking

    def choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        """Return what an argument can be, if its type allows only a few values; see `CompletionSource`.

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


def _described_argument(argument: StringArgument) -> types.PromptArgument:
    description = argument.schema.get("description")
    if argument.is_json:
        # People cannot guess what to write; other arguments are text, numbers and the like.
        schema = {keyword: value for keyword, value in argument.schema.items() if keyword != "description"}
        form = f"In JSON that fits {_json.encode(schema).decode()}"
        description = f"{description} {form}" if description else form
    return types.PromptArgument(
        name=argument.name,
        title=argument.schema.get("title"),
        description=description,
        required=argument.required,
    )


MAX_VALUES: Final = 100
"""How many values one answer has at most (2026-07-28, server/utilities/completion, "Completion Results")."""

_VALUE: Final = "the value typed so far"


class CompletionSource(Protocol):
    """A registry whose arguments have types, and so perhaps only a few values."""

    @property
    def has_choices(self) -> bool:
        """Whether there is an argument with choices at all."""
        ...

    def choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        """Return all values that an argument can have; none, if its type allows more than a few.

        Returns:
            The values, or `None` if the reference is to nothing of this registry.

        Raises:
            RequestError: The reference is of its kind, but there is no such thing or no such argument.
        """
        ...


@final
class Completer:
    """Completes arguments: by the functions registered for that, else by their types.

    Args:
        sources: Registries that know prompts and templates.
        check: Refuses values of a template's variables that must not reach a function.
    """

    def __init__(self, *sources: CompletionSource, check: Callable[[str, Mapping[str, str]], None]) -> None:
        self._sources = sources
        self._check = check
        # By kind of reference, name or template, and argument.
        self._functions: dict[tuple[type, str, str], HandlerFunction] = {}

    @property
    def can_complete(self) -> bool:
        """Whether there is anything to complete."""
        return bool(self._functions) or any(source.has_choices for source in self._sources)

    def add(self, function: Callable[..., Any], reference: str, argument: str, *, thread: bool) -> None:
        """Register a function that completes an argument.

        Args:
            function: Takes what has been typed, and under the name `arguments` what is filled in already.
            reference: A prompt's name, or a template, which has a brace in it.
            argument: The argument's or variable's name.
            thread: Whether a plain ``def`` is called in a thread.

        Raises:
            TypeError: The function has no parameter for the value, or one that is never filled.
            ValueError: The argument has such a function already, or there is no such prompt or argument.
        """
        kind = types.ResourceTemplateReference if "{" in reference else types.PromptReference
        key = (kind, reference, argument)
        if key in self._functions:
            raise ValueError(f"{reference!r} has a completion for {argument!r} already")
        completer = read_given(
            function, _given, {"thread": thread}, what=_VALUE, optional=("arguments",), may_yield=True
        )
        self._refuse_missing(reference, argument)
        self._functions[key] = completer

    def _refuse_missing(self, reference: str, argument: str) -> None:
        template = types.ResourceTemplateReference(uri=reference)
        try:
            self._choices(template if "{" in reference else types.PromptReference(name=reference), argument)
        except RequestError as error:
            raise ValueError(
                f"completion({reference!r}, {argument!r}) has nothing to complete yet: {error.message}"
            ) from None

    def check_templates(self, known: Container[str]) -> None:
        """Check that there is what is completed for templates, which may be registered after their completions.

        Args:
            known: The templates of the server.

        Raises:
            ValueError: There is no such template, or it has no such variable.
        """
        for kind, reference, argument in self._functions:
            if kind is not types.ResourceTemplateReference:
                continue
            if reference not in known:
                raise ValueError(
                    f"completion({reference!r}, {argument!r}) has nothing to complete: "
                    f"this server has no template {reference}"
                )
            self._refuse_missing(reference, argument)

    async def complete(
        self, params: types.CompleteRequestParams, context: Context[Any], threads: Threads
    ) -> types.CompleteResult:
        """Answer a request for completion.

        Raises:
            RequestError: There is no such prompt or template, or it has no such argument, or a variable of the
                template can have no such value.

        Spec: 2026-07-28, server/utilities/completion.
        """
        reference, argument = params.ref, params.argument
        name = reference.name if isinstance(reference, types.PromptReference) else reference.uri
        choices = self._choices(reference, argument.name)
        function = self._functions.get((type(reference), name, argument.name))
        if function is not None:
            filled = {} if params.context is None else params.context.arguments or {}
            if isinstance(reference, types.ResourceTemplateReference):
                self._check(name, {**filled, argument.name: argument.value})
            given = {"value": argument.value, "arguments": filled}
            return await function.call(function.spec.decode(given), context, threads, _finished)
        await trio.lowlevel.checkpoint()
        if choices is None:
            raise RequestError(INVALID_PARAMS, f"Unknown template: {name[:MAX_SHOWN_NAME]}")
        begun = argument.value.casefold()
        return _result([choice for choice in choices if choice.casefold().startswith(begun)])

    def _choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        found = (source.choices(reference, argument) for source in self._sources)
        return next((choices for choices in found if choices is not None), None)


def _given(arguments: Mapping[str, Any]) -> list[Any]:
    return [arguments["value"], arguments["arguments"]]


async def _finished(returned: object) -> types.CompleteResult:
    return _result(returned)


def _result(returned: object) -> types.CompleteResult:
    if isinstance(returned, types.Completion):
        count, total = len(returned.values), returned.total
        if count > MAX_VALUES:
            values = returned.values[:MAX_VALUES]
            returned = types.Completion(values=values, total=count if total is None else total, has_more=True)
        return types.CompleteResult(completion=returned)
    if not is_several(returned):
        raise TypeError(f"a completion returns strings or a Completion, not {type(returned).__qualname__}")
    # It may be endless; one more than can be sent shows that there are more.
    values = list(islice(returned, MAX_VALUES + 1))
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"a completion returns strings, not {type(value).__qualname__}")
    has_more = len(values) > MAX_VALUES
    total = len(values) if not has_more else None
    if has_more and isinstance(returned, Sized):
        total = len(returned)
    return types.CompleteResult(
        completion=types.Completion(values=values[:MAX_VALUES], total=total, has_more=has_more)
    )
