"""Users' functions, called with everything they ask for: arguments, context, dependencies.

Tools, prompts, completions and resources are called through here. What becomes of arguments that do not fit, of
results and of errors is their business.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, TypeGuard, TypeVar, cast, final

import attrs
import trio

from .._errors import RequestError, ToolError
from .._groups import sole_error
from .._limits import check_seconds, check_whole
from .._schema import CallSpec, inspect_callable, is_unstructured
from ._asking import is_answered_wrongly
from ._context import Context
from ._depends import Injection, anything, is_provided, name_of, own_parameters, refuse_misplaced
from ._interim import is_interim
from ._threads import Threads

__all__ = ["HandlerFunction", "Overdue", "is_several", "read_given", "read_handler", "said"]

_T = TypeVar("_T")

_NOTHING: Final = object()


@final
class Overdue(Exception):
    """A handler took longer than its registration allows. It was cancelled, and its cleanup has run."""


@final
@attrs.frozen(kw_only=True, eq=False)
class HandlerFunction:
    """A function that serves requests.

    Attributes:
        function: The function.
        spec: How it is called with JSON.
        injection: How the parameters that clients do not see are filled.
        in_thread: Whether it is called in a thread, because it may block.
        timeout: After how many seconds it is cancelled.
        limiter: How many calls of it run at once; further ones wait.
    """

    function: Callable[..., Any]
    spec: CallSpec
    injection: Injection
    in_thread: bool
    timeout: float = math.inf
    limiter: trio.CapacityLimiter | None = None

    @property
    def may_ask(self) -> bool:
        """Whether it, or something it depends on, is given a context, by which the client can be asked."""
        return bool(self.injection.contexts) or any(step.contexts for step in self.injection.steps)

    @property
    def is_simple(self) -> bool:
        """Whether there is nothing around the function: `call_simply` does what `call` does."""
        return (
            self.spec.is_async and self.limiter is None and self.timeout == math.inf and not self.injection.steps
        )

    def call_simply(self, values: dict[str, Any], context: Context[Any]) -> Awaitable[Any]:
        """Call a function that is simple. What awaiting it raises may have to be looked at with `said`.

        Args:
            values: Its arguments, as `spec` decoded them. Taken over.
            context: The request.
        """
        for name in self.injection.contexts:
            values[name] = context
        args, kwargs = self.spec.arrange(values)
        awaitable: Awaitable[Any] = self.function(*args, **kwargs)
        return awaitable

    async def call(
        self,
        values: dict[str, Any],
        context: Context[Any],
        threads: Threads,
        finish: Callable[[Any], Awaitable[_T]],
    ) -> _T:
        """Call the function.

        Its dependencies are entered before and left after it, also when it is cancelled. Time runs from when it
        has a place among the calls that run at once; dependencies count.

        Args:
            values: Its arguments, as `spec` decoded them. Taken over.
            context: The request.
            threads: How many threads there may be.
            finish: Makes the result of what the function returned, while its dependencies are still there.

        Raises:
            Overdue: It took too long.
            Others: What the function, a dependency or `finish` raises. A `RequestError` or `ToolError` that is
                alone in the group of a nursery comes out of it.
        """
        error: Exception
        try:
            if self.limiter is None:
                return await self._call_in_time(values, context, threads, finish)
            async with self.limiter:
                return await self._call_in_time(values, context, threads, finish)
        except BaseExceptionGroup as group:
            alone = said(group)
            if alone is None:
                raise
            error = alone
        raise error

    async def _call_in_time(
        self,
        values: dict[str, Any],
        context: Context[Any],
        threads: Threads,
        finish: Callable[[Any], Awaitable[_T]],
    ) -> _T:
        if self.timeout == math.inf:
            return await self._call(values, context, threads, finish)
        with trio.move_on_after(self.timeout) as scope:
            return await self._call(values, context, threads, finish)
        # Only the deadline leads here: nobody else has the scope.
        assert scope.cancelled_caught
        raise Overdue(f"took longer than {self.timeout:g} s")

    async def _call(
        self,
        values: dict[str, Any],
        context: Context[Any],
        threads: Threads,
        finish: Callable[[Any], Awaitable[_T]],
    ) -> _T:
        injection = self.injection
        if not injection.steps:
            args, kwargs = self.spec.arrange(values, dict.fromkeys(injection.contexts, context))
            return await finish(await self._run(args, kwargs, threads))
        result: Any = _NOTHING
        failure: Exception | None = None
        async with AsyncExitStack() as stack:
            try:
                filled = await injection.enter(context, threads, stack)
                args, kwargs = self.spec.arrange(values, filled)
                result = await finish(await self._run(args, kwargs, threads))
            except Exception as error:
                failure = error
                raise
        if result is _NOTHING:
            # A generator that catches what is thrown into it, or whose own scope was cancelled, leads here.
            raise RuntimeError(f"a dependency of {self.spec.name}() has swallowed what ended it") from failure
        made: _T = result
        return made

    async def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], threads: Threads) -> Any:
        if self.spec.is_async:
            return await self.function(*args, **kwargs)
        if not self.in_thread:
            await trio.lowlevel.checkpoint()
            return self.function(*args, **kwargs)
        return await threads.run(self.function, *args, **kwargs)


def said(group: BaseExceptionGroup[BaseException]) -> Exception | None:
    """Return what a handler has to say to its caller, if the nurseries around it hold nothing else."""
    error = sole_error(group)
    if isinstance(error, BaseExceptionGroup):
        return said(cast("BaseExceptionGroup[BaseException]", error))
    return error if isinstance(error, (RequestError, ToolError)) or is_answered_wrongly(error) else None


def is_several(returned: object) -> TypeGuard[Iterable[Any]]:
    """Whether a function has returned several things, and not text, bytes or an object."""
    return isinstance(returned, Iterable) and not isinstance(returned, (str, bytes, Mapping))


def read_handler(
    function: Callable[..., Any],
    *,
    thread: bool,
    timeout: float | None = None,
    limit: int | None = None,
    unstructured: Callable[[Any], bool] = is_unstructured,
) -> HandlerFunction:
    """Read a function whose parameters are its arguments, but for those that are provided.

    Args:
        function: The function.
        thread: Whether a plain ``def`` is called in a thread.
        timeout: After how many seconds a call is cancelled; `None` for never.
        limit: How many calls run at once; `None` for any number.
        unstructured: Whether results with this annotation have no schema.

    Raises:
        TypeError: A parameter or the result has no form in JSON, or a dependency is not sound.
        ValueError: The timeout or the limit is out of bounds.
    """
    refuse_misplaced(function)
    spec = inspect_callable(function, injected=is_provided, unstructured=unstructured, aside=is_interim)
    return _handler(function, spec, thread=thread, timeout=timeout, limit=limit)


def read_given(
    function: Callable[..., Any],
    decode: Callable[[Mapping[str, Any]], list[Any]],
    *,
    what: str,
    optional: tuple[str, ...] = (),
    unstructured: Callable[[Any], bool] | None = None,
    thread: bool,
    timeout: float | None = None,
    limit: int | None = None,
) -> HandlerFunction:
    """Read a function that is given its arguments as they are, and not converted by its hints.

    Its first parameter that is not provided takes the first thing given, whatever it is called; the rest are
    taken by the names in `optional`, if it has them.

    Args:
        function: The function.
        decode: Makes the things given, of the arguments of a call: for the first parameter, then for each name in
            `optional`.
        what: What the first parameter is given, for errors.
        optional: The names of the parameters that it may have besides.
        unstructured: As for `read_handler`; by default no result has a schema.
        thread: As for `read_handler`.
        timeout: As for `read_handler`.
        limit: As for `read_handler`.

    Raises:
        TypeError: It has no such parameter, or one that nobody fills, or a dependency is not sound.
        ValueError: As for `read_handler`.
    """
    refuse_misplaced(function)
    every = inspect_callable(function, injected=anything, unstructured=unstructured or anything, aside=is_interim)
    provided = {name: hint for name, hint in every.injected.items() if is_provided(hint)}
    own = [found for found in own_parameters(function, provided) if found.name not in optional]
    name = name_of(function)
    if not own or own[0].kind is inspect.Parameter.VAR_KEYWORD:
        raise TypeError(f"{name}() needs a parameter for {what}")
    for extra in own[1:]:
        if extra.default is extra.empty:
            raise TypeError(f"{name}(): nobody fills the parameter {extra.name!r}; the first one gets {what}")
    names = inspect.signature(function).parameters
    given = {parameter: n for n, parameter in enumerate((own[0].name, *optional)) if parameter in names}

    def decode_by_name(arguments: Mapping[str, Any]) -> dict[str, Any]:
        things = decode(arguments)
        return {parameter: things[n] for parameter, n in given.items()}

    spec = attrs.evolve(every, injected=provided, decode=decode_by_name)
    return _handler(function, spec, thread=thread, timeout=timeout, limit=limit)


def _handler(
    function: Callable[..., Any], spec: CallSpec, *, thread: bool, timeout: float | None, limit: int | None
) -> HandlerFunction:
    if timeout is not None:
        check_seconds("timeout", timeout, may_be_zero=False)
    if limit is not None:
        check_whole("limit", limit)
    return HandlerFunction(
        function=function,
        spec=spec,
        injection=Injection.read(function, spec.injected),
        in_thread=thread,
        timeout=math.inf if timeout is None else timeout,
        limiter=None if limit is None else trio.CapacityLimiter(limit),
    )
