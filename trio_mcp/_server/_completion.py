"""Completion: what the arguments of prompts and the variables of templates may go on to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import islice
from typing import Any, Final, Protocol, final

import trio

from .. import types
from .._errors import INVALID_PARAMS, RequestError
from ._calling import HandlerFunction, is_several, read_given
from ._context import Context
from ._threads import Threads

__all__ = ["Completer", "CompletionSource"]

MAX_VALUES: Final = 100
"""How many values one answer has at most (2026-07-28, server/utilities/completion, "Completion Results")."""

MAX_SHOWN: Final = 128
"""Characters of an unknown name that are said back."""

_VALUE: Final = "the value typed so far"


class CompletionSource(Protocol):
    """What a registry knows of the values that arguments can have, from their types."""

    @property
    def has_choices(self) -> bool:
        """Whether there is an argument with choices at all."""
        ...

    def choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        """Return all values that an argument can have; none, if its type does not say.

        Returns:
            The values, or `None` if the reference is to nothing of this registry.

        Raises:
            RequestError: The reference is of its kind, but there is no such thing or no such argument.
        """
        ...


@final
class Completer:
    """Completes arguments: by the functions registered for it, else by what their types say.

    Args:
        sources: Registries that know prompts and templates.
        check: Checks what is typed for variables of a template before a function is called with it.
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
            TypeError: The function has no parameter for the value, or one that nobody fills.
            ValueError: The argument has such a function already.
        """
        kind = types.ResourceTemplateReference if "{" in reference else types.PromptReference
        key = (kind, reference, argument)
        if key in self._functions:
            raise ValueError(f"{reference!r} has a completion for {argument!r} already")
        self._functions[key] = read_given(function, _given, what=_VALUE, optional=("arguments",), thread=thread)

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
            raise RequestError(
                INVALID_PARAMS,
                f"Unknown reference: {name[:MAX_SHOWN]} has no argument {argument.name[:MAX_SHOWN]!r}",
            )
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
        return types.CompleteResult(completion=_cut(returned))
    # It may go on for ever; one more than can be sent says that there is more.
    values: list[Any] = list(islice(_several(returned), MAX_VALUES + 1))
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


def _cut(completion: types.Completion) -> types.Completion:
    count, total = len(completion.values), completion.total
    if count <= MAX_VALUES:
        return completion
    values = completion.values[:MAX_VALUES]
    return types.Completion(values=values, total=count if total is None else total, has_more=True)


def _several(returned: object) -> Iterable[Any]:
    if not is_several(returned):
        raise TypeError(f"a completion returns strings or a Completion, not {type(returned).__qualname__}")
    return returned
