"""Dependencies: what a handler's parameters are filled with besides its arguments, and the plan for filling them.

Graphs are read and checked here, when a function is registered. Who calls the function is in `_calling`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import typing_extensions

from .._schema import CallSpec, inspect_callable
from ._context import Context
from ._threads import Threads

__all__ = [
    "Depends",
    "Injection",
    "anything",
    "is_context",
    "is_provided",
    "name_of",
    "own_parameters",
    "refuse_misplaced",
]

_Kind: TypeAlias = Literal["plain", "thread", "async", "manager", "async manager"]

_MANAGERS: Final[Mapping[Any, _Kind]] = {
    contextlib.AbstractContextManager: "manager",
    contextlib.AbstractAsyncContextManager: "async manager",
}


@final
@attrs.frozen
class Depends:
    """How a parameter is filled, inside `Annotated`: ``db: Annotated[Database, Depends(open_database)]``.

    The parameter of a tool, a prompt or a resource gets what the function gives, and clients do not see it. The
    function may be

    * a plain or an async function: its result;
    * a generator or an async generator that yields once, with or without `contextlib`'s decorator, or a plain
      function annotated to return an `AbstractContextManager` or an `AbstractAsyncContextManager`: what entering
      gives. It is left after the handler, the last one entered first, whatever happens, cancellation included:
      cleanup that has to wait needs a shielded scope of its own then.

    It may have parameters like these itself, and a `Context`; all others need a default. Within one call of a
    handler, each function is called once, however many parameters it fills. It runs in Trio's thread and must
    not block.

    Attributes:
        function: The function.
        thread: Call it in a thread, because it blocks. Only for plain functions.
    """

    function: Callable[..., Any]
    thread: bool = attrs.field(default=False, kw_only=True)


def anything(_hint: Any) -> bool:
    """Say of every hint that it is so."""
    return True


def is_context(hint: Any) -> bool:
    """Whether a parameter with this hint gets the context."""
    return hint is Context or typing.get_origin(hint) is Context


def is_provided(hint: Any) -> bool:
    """Whether a parameter with this hint is filled by us, not by the client."""
    return is_context(hint) or _marker(hint) is not None


def _marker(hint: Any) -> Depends | None:
    """Return the dependency that a hint, or a branch of it, asks for."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        found = next((remark for remark in arguments[1:] if isinstance(remark, Depends)), None)
        return _marker(arguments[0]) if found is None else found
    if origin in {typing.Union, types.UnionType}:
        return next(filter(None, map(_marker, arguments)), None)
    return None


def refuse_misplaced(function: Callable[..., Any]) -> None:
    """Refuse dependencies where nobody would see them.

    Raises:
        TypeError: A parameter has one for its default.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, Depends):
            raise TypeError(
                f"{name_of(function)}(): parameter {name!r}: Depends(...) belongs inside Annotated, "
                "not where the default is"
            )


def own_parameters(function: Callable[..., Any], provided: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function that are not provided."""
    return [found for name, found in inspect.signature(function).parameters.items() if name not in provided]


@final
@attrs.frozen(kw_only=True, eq=False)
class _Step:
    """One function of a graph.

    Attributes:
        marker: What asks for it.
        enter: Calls it.
        spec: How it is called.
        kind: What is done with what it gives.
        contexts: Its parameters that get the context.
        needs: Its other parameters, each with the number of the step before this one that fills it.
    """

    marker: Depends
    enter: Callable[..., Any]
    spec: CallSpec
    kind: _Kind
    contexts: tuple[str, ...]
    needs: tuple[tuple[str, int], ...]


@final
@attrs.frozen(kw_only=True, eq=False)
class Injection:
    """How the provided parameters of one function are filled.

    Attributes:
        contexts: The parameters that get the context.
        needs: The others, each with the number of its step.
        steps: What is called, in order: each after all that it needs.
    """

    contexts: tuple[str, ...]
    needs: tuple[tuple[str, int], ...]
    steps: tuple[_Step, ...]

    @classmethod
    def read(cls, function: Callable[..., Any], provided: Mapping[str, Any]) -> Injection:
        """Read the graph of dependencies below a function.

        Args:
            function: The function.
            provided: Its parameters that are provided, with their hints.

        Raises:
            TypeError: The graph has a circle, a parameter that nobody fills, or something that is no function.
        """
        graph = _Graph(name_of(function))
        contexts, needs = graph.read(provided)
        return cls(contexts=contexts, needs=needs, steps=tuple(graph.steps))

    async def enter(
        self, context: Context[Any], threads: Threads, stack: contextlib.AsyncExitStack
    ) -> dict[str, Any]:
        """Call what has to be called, in order, and return the values of the parameters."""
        values: list[Any] = []
        for step in self.steps:
            values.append(await _enter(step, _filled(step.contexts, step.needs, context, values), threads, stack))
        return _filled(self.contexts, self.needs, context, values)


def _filled(
    contexts: tuple[str, ...], needs: tuple[tuple[str, int], ...], context: Context[Any], values: list[Any]
) -> dict[str, Any]:
    filled: dict[str, Any] = dict.fromkeys(contexts, context)
    for name, number in needs:
        filled[name] = values[number]
    return filled


async def _enter(step: _Step, filled: dict[str, Any], threads: Threads, stack: contextlib.AsyncExitStack) -> Any:
    args, kwargs = step.spec.arrange(filled)
    match step.kind:
        case "plain":
            return step.enter(*args, **kwargs)
        case "async":
            return await step.enter(*args, **kwargs)
        case "manager":
            return stack.enter_context(step.enter(*args, **kwargs))
        case "async manager":
            return await stack.enter_async_context(step.enter(*args, **kwargs))
        case "thread":
            # It has nothing to clean up, so it can be left to end by itself.
            return await threads.run(step.enter, *args, **kwargs)


@final
class _Graph:
    """The steps found so far below one function."""

    def __init__(self, root: str) -> None:
        self.steps: list[_Step] = []
        self._root = root
        self._path: list[Depends] = []  # what is being read, outermost first

    def read(self, provided: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
        """Read the provided parameters of a function: which get the context, and which a step's value."""
        contexts: list[str] = []
        needs: list[tuple[str, int]] = []
        for name, hint in provided.items():
            marker = _marker(hint)
            if marker is None:
                contexts.append(name)
            else:
                needs.append((name, self._number(marker, name)))
        return tuple(contexts), tuple(needs)

    def _number(self, marker: Depends, parameter: str) -> int:
        """Return the number of a dependency's step, after reading it if it is new."""
        for number, step in enumerate(self.steps):
            if step.marker == marker:
                return number
        if marker in self._path:
            circle = [*self._path[self._path.index(marker) :], marker]
            told = " -> ".join(f"{name_of(step.function)}()" for step in circle)
            raise TypeError(f"{self._root}(): its dependencies go round in a circle: {told}")
        given: object = marker.function
        if not callable(given) or isinstance(given, type):
            asking = name_of(self._path[-1].function) if self._path else self._root
            raise TypeError(
                f"{asking}(): parameter {parameter!r}: Depends takes a function, not {marker.function!r}"
            )
        self._path.append(marker)
        self._read_step(marker, name_of(marker.function))
        self._path.pop()
        return len(self.steps) - 1

    def _read_step(self, marker: Depends, name: str) -> None:
        refuse_misplaced(marker.function)
        spec = inspect_callable(marker.function, injected=anything, unstructured=anything)
        provided = {parameter: hint for parameter, hint in spec.injected.items() if is_provided(hint)}
        for found in own_parameters(marker.function, provided):
            if found.default is found.empty and found.kind is not found.VAR_KEYWORD:
                raise TypeError(
                    f"{self._root}(): nobody fills the parameter {found.name!r} of its dependency {name}(); "
                    "give it a default, or annotate it with Context or Annotated[..., Depends(...)]"
                )
        contexts, needs = self.read(provided)
        kind, enter = _kind_of(marker, is_async=spec.is_async)
        if marker.thread and kind != "thread":
            raise TypeError(f"{self._root}(): Depends({name}, thread=True) is only for plain functions")
        self.steps.append(_Step(marker=marker, enter=enter, spec=spec, kind=kind, contexts=contexts, needs=needs))


def _kind_of(marker: Depends, *, is_async: bool) -> tuple[_Kind, Callable[..., Any]]:
    """Return what is done with what a dependency gives, and what is called for it."""
    function = marker.function
    plain: Any = function
    while isinstance(plain, functools.partial):
        plain = cast("Any", plain.func)
    annotated = plain if inspect.isroutine(plain) else type(plain).__call__
    if inspect.isasyncgenfunction(annotated):
        return "async manager", contextlib.asynccontextmanager(
            cast("Callable[..., AsyncGenerator[Any]]", function)
        )
    if inspect.isgeneratorfunction(annotated):
        return "manager", contextlib.contextmanager(cast("Callable[..., Generator[Any]]", function))
    # What contextlib's decorators have made of a generator.
    inner = inspect.unwrap(annotated)
    if inspect.isasyncgenfunction(inner):
        return "async manager", function
    if inspect.isgeneratorfunction(inner):
        return "manager", function
    if is_async:
        return "async", function
    returned = typing_extensions.get_type_hints(annotated).get("return")
    kind = _MANAGERS.get(typing.get_origin(returned) or returned)
    return kind or ("thread" if marker.thread else "plain"), function


def name_of(function: Any) -> str:
    """Return what to call a function in a message."""
    while isinstance(function, functools.partial):
        function = cast("Any", function.func)
    name: str = getattr(function, "__name__", type(function).__name__)
    return name
