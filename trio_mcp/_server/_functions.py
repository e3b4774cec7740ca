"""Users' functions, called with all that their parameters ask for: arguments, the context, dependencies.

Tools, prompts, completions and resources are read and called through here; they themselves handle arguments that
do not fit, results and errors. Dependencies are read and checked when a function is registered.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import types
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeGuard, TypeVar, cast, final

import attrs
import trio
import typing_extensions

from .._errors import RequestError, ToolError
from .._limits import check_seconds, check_whole
from .._logs import Log
from .._peer._exchange import report_failure
from .._schema import CallSpec, inspect_callable, is_field_of_pydantic, misplaced_field, refuse_uncalled
from .._schema._members import UnsupportedHint
from .._trio import sole_error
from ._asking import failed_by_client
from ._context import Context, client_of_request, exchange_of, sink_of_request
from ._input_required import Asking, is_non_final
from ._permits import Throttle
from ._threads import PerRun, Threads

_log: Final = Log("trio_mcp.server")

MethodHandler: TypeAlias = Callable[[Mapping[str, Any], Context[Any]], Awaitable[object]]
"""Serves a method: its parameters as plain JSON in; a wire object, plain JSON, or bytes of JSON out."""

_T = TypeVar("_T")
_Function = TypeVar("_Function", bound=Callable[..., Any])

_NOTHING: Final = object()


@final
@attrs.frozen
class Depends:
    """How a parameter is filled, inside `Annotated`: ``db: Annotated[Database, Depends(open_database)]``.

    The parameter of a tool, a prompt or a resource gets the value below, and clients do not see it. The
    function may be

    * a plain or an async function: its result;
    * a generator or an async generator that yields once, with or without `contextlib`'s decorator, or a plain
      function annotated to return an `AbstractContextManager` or an `AbstractAsyncContextManager`: what entering
      gives. It is left after the handler, the last one entered first, also when the handler fails or is
      cancelled; in a cancelled one, cleanup that has to wait needs a shielded scope.

    It may have such parameters itself, and a `Context`; all others need a default. Within one call of a
    handler, each function is called once, however many parameters it fills. It runs in Trio's thread and must
    not block.

    Attributes:
        function: The function.
        thread: Call it in a thread, because it blocks. Only for plain functions.
    """

    function: Callable[..., Any]
    thread: bool = attrs.field(default=False, kw_only=True)


def anything(_hint: Any) -> bool:
    """Accept every hint."""
    return True


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
        limiter: Limits how many calls of it run at once; further ones wait.
        asking: Whether it may ask the client, and what happens to it meanwhile.
    """

    function: Callable[..., Any]
    spec: CallSpec
    injection: Injection
    in_thread: bool
    timeout: float = math.inf
    limiter: PerRun[trio.CapacityLimiter] | None = None
    asking: Asking = Asking.PARK

    @property
    def is_simple(self) -> bool:
        """Whether calling it is all that `call` does: no limit, no timeout, no dependencies, no thread."""
        return (
            self.spec.is_async and self.limiter is None and self.timeout == math.inf and not self.injection.steps
        )

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
            threads: The threads that plain functions run in.
            finish: Makes the result of what the function returned, before its dependencies are left.

        Raises:
            Overdue: It took too long.
            Others: What the function, a dependency or `finish` raises. A `RequestError` or `ToolError` that is
                alone in the group of a nursery comes out of it.
        """
        error: Exception
        try:
            if self.limiter is None and self.timeout == math.inf:
                return await self._call(values, context, threads, finish)
            async with contextlib.nullcontext() if self.limiter is None else self.limiter.get():
                with trio.move_on_after(self.timeout):
                    return await self._call(values, context, threads, finish)
            raise Overdue(f"took longer than {self.timeout:g} s")  # only the deadline cancels that scope
        except BaseExceptionGroup as group:
            alone = error_for_caller(group)
            if alone is None:
                raise
            error = alone
        raise error

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
        try:
            async with AsyncExitStack() as stack:
                try:
                    filled = await injection.enter(context, threads, stack)
                    args, kwargs = self.spec.arrange(values, filled)
                    result = await finish(await self._run(args, kwargs, threads))
                except Exception as error:
                    failure = error
                    raise
            if result is _NOTHING:
                # A generator has caught what was thrown into it, or its own scope was cancelled.
                raise RuntimeError(f"a dependency of {self.spec.name}() has swallowed what ended it") from failure
        finally:
            del failure  # its frames have this one, and that the arguments: they would be a cycle
        made: _T = result
        return made

    async def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], threads: Threads) -> Any:
        if self.spec.is_async:
            return await self.function(*args, **kwargs)
        if not self.in_thread:
            await trio.lowlevel.checkpoint()
            return self.function(*args, **kwargs)
        return await threads.run(self.function, *args, **kwargs)


def error_for_caller(group: BaseExceptionGroup[BaseException]) -> Exception | None:
    """Return the error that a handler raised for its caller, if it is the only one in a group of nurseries."""
    error = sole_error(group)
    if isinstance(error, BaseExceptionGroup):
        return error_for_caller(cast("BaseExceptionGroup[BaseException]", error))
    return error if isinstance(error, (RequestError, ToolError)) or failed_by_client(error) else None


def log_failure(what: str, error: BaseException, context: Context[Any]) -> None:
    """Log what a prompt or a resource has raised, which clients must not see, and report it to a test.

    Args:
        what: Which one, and what was done with it.
        error: What it has raised.
        context: The request.
    """
    if isinstance(error, ToolError):
        error.add_note(
            "ToolError is for tools: a prompt raises RequestError(-32602, text), "
            "a resource ResourceNotFound(text)"
        )
    _log.exception("%s failed", what)
    report_failure(*sink_of_request(context), error)


def is_several(returned: object) -> TypeGuard[Iterable[Any]]:
    """Whether a function has returned several values, and not text, bytes or an object."""
    return isinstance(returned, Iterable) and not isinstance(returned, (str, bytes, Mapping))


class RunOptions(TypedDict, total=False):
    """Options of all functions that serve requests.

    Attributes:
        thread: Whether a plain ``def`` is called in a thread. Default: yes.
        timeout: After how many seconds a call is cancelled; `None`, the default, for never.
        resume: What happens to it in the modern era while its client answers a question.
    """

    thread: bool
    timeout: float | None
    resume: Literal["park", "replay", "never"]


def read_handler(
    function: Callable[..., Any],
    options: RunOptions,
    *,
    limit: int | None = None,
    unstructured: Callable[[Any], bool] = anything,
    may_yield: bool = False,
    is_timed: bool = True,
) -> HandlerFunction:
    """Read a function whose parameters are its arguments, except for those that are provided.

    Args:
        function: The function.
        options: How it is run.
        limit: How many calls run at once; `None` for any number.
        unstructured: Whether results with this annotation have no schema; by default none has.
        may_yield: Whether it may be a generator.
        is_timed: Whether the timeout is for the function itself, and not for something around it.

    Raises:
        TypeError: It is no function that can be meant; a parameter or the result has no form in JSON; or a
            dependency is not sound.
        ValueError: The timeout or the limit is out of bounds.
    """
    refuse_mistakes(function, may_describe=True)
    refuse_generator(function, may_yield=may_yield)
    spec = inspect_callable(function, injected=is_provided, unstructured=unstructured, aside=is_non_final)
    return _handler(function, spec, options, limit, is_timed=is_timed)


def read_given(
    function: Callable[..., Any],
    decode: Callable[[Mapping[str, Any]], list[Any]],
    options: RunOptions,
    *,
    what: str,
    optional: tuple[str, ...] = (),
    limit: int | None = None,
    unstructured: Callable[[Any], bool] = anything,
    may_yield: bool = False,
) -> HandlerFunction:
    """Read a function that is given its arguments as they are, not converted by its hints.

    Its first parameter that is not provided takes the first value, whatever its name; the other values are taken
    by the parameters named in `optional`, if it has them.

    Args:
        function: The function.
        decode: Returns the values for the arguments of a call: for the first parameter, then for each name in
            `optional`.
        options: How it is run.
        what: What the first parameter is given, for errors.
        optional: The names of further parameters that it may have.
        limit: As for `read_handler`.
        unstructured: As for `read_handler`.
        may_yield: As for `read_handler`.

    Raises:
        TypeError: It has no such parameter, or one that is never filled, or a dependency is not sound.
        ValueError: As for `read_handler`.
    """
    refuse_mistakes(function)
    refuse_generator(function, may_yield=may_yield)
    every = inspect_callable(function, injected=anything, unstructured=unstructured, aside=is_non_final)
    provided = {name: hint for name, hint in every.injected.items() if is_provided(hint)}
    own = [found for found in own_parameters(function, provided) if found.name not in optional]
    name = name_of(function)
    if not own or own[0].kind is inspect.Parameter.VAR_KEYWORD:
        raise TypeError(f"{name}() needs a parameter for {what}")
    for extra in own[1:]:
        if extra.default is extra.empty:
            raise TypeError(f"{name}(): the parameter {extra.name!r} needs a default; the first one gets {what}")
    names = inspect.signature(function).parameters
    given = {parameter: n for n, parameter in enumerate((own[0].name, *optional)) if parameter in names}

    def decode_by_name(arguments: Mapping[str, Any]) -> dict[str, Any]:
        values = decode(arguments)
        return {parameter: values[n] for parameter, n in given.items()}

    spec = attrs.evolve(every, injected=provided, decode=decode_by_name)
    return _handler(function, spec, options, limit)


def _handler(
    function: Callable[..., Any],
    spec: CallSpec,
    options: RunOptions,
    limit: int | None,
    *,
    is_timed: bool = True,
) -> HandlerFunction:
    timeout = options.get("timeout") if is_timed else None
    if timeout is not None:
        check_seconds("timeout", timeout, may_be_zero=False)
    if limit is not None:
        check_whole("limit", limit)
    injection = Injection.read(function, spec.injected)
    has_context = bool(injection.contexts) or any(step.contexts for step in injection.steps)
    return HandlerFunction(
        function=function,
        spec=spec,
        injection=injection,
        in_thread=options.get("thread", True),
        timeout=math.inf if timeout is None else timeout,
        limiter=None if limit is None else PerRun(lambda: trio.CapacityLimiter(limit)),
        asking=Asking(options.get("resume", "park")) if has_context else Asking.NEVER,
    )


# How functions are registered.


def decorator(add: Callable[[Callable[..., Any]], object]) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function and leaves it as it is."""

    def register(function: _Function) -> _Function:
        refuse_uncallable(function)
        add(function)
        return function

    return register


def registering(server: object, what: str, given: Any, add: Callable[[Callable[..., Any]], object]) -> Any:
    """Register what a decorator was given; without anything, return what registers a function.

    Args:
        server: The server.
        what: The name of the decorator.
        given: What stands after the ``@``, or in its parentheses.
        add: Registers a function.

    Raises:
        TypeError: It was given something else, or is that of the class.
    """
    if callable(server):  # the function, given to the class
        raise TypeError(f"@Server.{what} belongs to no server: write server = Server(...), @server.{what}")
    if isinstance(given, str):
        raise TypeError(f"@server.{what}({given!r:.60}) takes no name in this place: write name={given!r:.60}")
    return decorator(add) if given is None else decorator(add)(given)


def _refuse_bare(what: str, given: object, example: str) -> None:
    """Refuse what is no string as the first argument of a decorator, which needs one.

    Raises:
        TypeError: It is something else: the function itself, if the parentheses were forgotten.
    """
    if not isinstance(given, str):
        found = "()" if given is None else "a function" if callable(given) else f"{given!r:.60}"
        raise TypeError(f"@server.{what} needs more than {found}: write @server.{what}({example})")


def with_example(example: str) -> Callable[[_Function], _Function]:
    """Return a decorator for what registers by a string: it is shown an example if that is forgotten."""

    def explain(method: _Function) -> _Function:
        first = list(inspect.signature(method).parameters)[1]

        @functools.wraps(method)
        def register(*args: Any, **options: Any) -> Any:
            _refuse_bare(method.__name__, args[1] if len(args) > 1 else options.get(first), example)
            return method(*args, **options)

        return cast("_Function", register)

    return explain


# Parameters that are provided, and the plan for filling them.

_Kind: TypeAlias = Literal["plain", "thread", "async", "manager", "async manager"]

_MANAGERS: Final[Mapping[Any, _Kind]] = {
    contextlib.AbstractContextManager: "manager",
    contextlib.AbstractAsyncContextManager: "async manager",
}


def is_context(hint: Any) -> bool:
    """Whether a parameter with this hint gets the context."""
    return hint is Context or typing.get_origin(hint) is Context


def is_provided(hint: Any) -> bool:
    """Whether a parameter with this hint is filled by the server, not by the client.

    Raises:
        UnsupportedHint: It is none, and is meant to be: the error says what to write.
    """
    if is_context(hint) or _marker(hint) is not None:
        return True
    cls = typing.get_origin(hint) or hint
    name = getattr(cls, "__name__", None)
    if name in {"Client", "NotificationContext"} and cls.__module__.partition(".")[0] == "trio_mcp":
        raise UnsupportedHint(f"no parameter is a {name}; write ctx: Context, which reaches the client")
    if typing.get_origin(hint) is typing.Annotated:
        for item in typing.get_args(hint)[1:]:
            refuse_uncalled(item)
        function = next(filter(inspect.isfunction, typing.get_args(hint)[1:]), None)
        if function is not None:
            wanted = "Depends(...)" if function.__name__ == "<lambda>" else f"Depends({function.__name__})"
            raise UnsupportedHint(f"a function inside Annotated fills no parameter; write {wanted} there")
    return False


def _marker(hint: Any) -> Depends | None:
    """Return the dependency that a hint, or a branch of it, asks for."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        found = next((remark for remark in arguments[1:] if isinstance(remark, Depends)), None)
        return _marker(arguments[0]) if found is None else found
    if origin in {typing.Union, types.UnionType}:
        return next(filter(None, map(_marker, arguments)), None)
    return None


def refuse_generator(function: Callable[..., Any], *, may_yield: bool) -> None:
    """Refuse a function that yields its result, where nobody would take it.

    Args:
        function: The function.
        may_yield: Whether several values may be yielded by a plain one.

    Raises:
        TypeError: It is such a function.
    """
    plain = _without_partials(function)
    if inspect.isasyncgenfunction(plain) or (inspect.isgeneratorfunction(plain) and not may_yield):
        kind = "an async generator" if inspect.isasyncgenfunction(plain) else "a generator"
        raise TypeError(
            f"{name_of(function)}() is {kind}: return the whole result, and report steps by Context.progress()"
        )


def refuse_mistakes(function: Callable[..., Any], *, may_describe: bool = False) -> None:
    """Refuse what can be registered, and is not meant: the error says what to write instead.

    Args:
        function: The function.
        may_describe: Whether clients give its arguments, so that pydantic's `Field` may be a default.

    Raises:
        TypeError: It is no function; its first parameter is an object that no client can give; a context is not
            annotated; or a default is what belongs inside `Annotated`.
    """
    refuse_uncallable(function)
    name, plain = name_of(function), _without_partials(function)
    for position, (parameter, found) in enumerate(_parameters(function).items()):
        is_bare = found.annotation is found.empty
        if position == 0 and (parameter == "self" or (parameter == "cls" and is_bare)):
            path = getattr(plain, "__qualname__", name).rpartition("<locals>.")[2]
            owner = path.rpartition(".")[0] or "Class"
            wanted = f"{owner}(...).{name}" if parameter == "self" else f"{owner}.{name}, a classmethod"
            raise TypeError(f"{name}(): no client can give {parameter!r}; register the bound method, {wanted}")
        if parameter in {"ctx", "context"} and is_bare:
            raise TypeError(
                f"{name}(): parameter {parameter!r} needs an annotation; write {parameter}: Context, "
                f"or {parameter}: Any if clients are to give it"
            )
        if isinstance(found.default, Depends):
            raise TypeError(
                f"{name}(): parameter {parameter!r} has Depends(...) as its default; write it inside Annotated"
            )
        annotation = "..." if is_bare else inspect.formatannotation(found.annotation).strip("'")
        is_described = may_describe and is_field_of_pydantic(found.default)
        mistake = None if is_described else misplaced_field(parameter, annotation, found.default)
        if mistake is not None:
            raise TypeError(f"{name}(): parameter {parameter!r}: {mistake}")


def refuse_uncallable(function: object) -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: It is no function; or a classmethod before its class is there.
    """
    if isinstance(function, classmethod):
        name = name_of(function)
        raise TypeError(f"{name}() is a classmethod, which cannot be called yet: register it after its class")
    if not callable(function):
        raise TypeError(f"what is registered is a function, not {function!r:.60}")


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # of some written in C; who reads it says so
        return {}


def own_parameters(function: Callable[..., Any], provided: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function that are not provided."""
    return [found for name, found in inspect.signature(function).parameters.items() if name not in provided]


@final
@attrs.frozen(kw_only=True, eq=False)
class _Step:
    """One function of a graph.

    Attributes:
        marker: The `Depends` that asks for it.
        enter: Calls it.
        spec: How it is called.
        kind: How its value is got from what it returns.
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
            TypeError: The graph has a circle, a parameter that is never filled, or something that is not a
                function.
        """
        graph = _Graph(name_of(function))
        contexts, needs = graph.read(provided)
        return cls(contexts=contexts, needs=needs, steps=tuple(graph.steps))

    async def enter(
        self, context: Context[Any], threads: Threads, stack: contextlib.AsyncExitStack
    ) -> dict[str, Any]:
        """Call the steps in order, and return the values of the parameters."""
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
            # It has nothing to clean up, so its thread can be left behind.
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
            path = " -> ".join(f"{name_of(step.function)}()" for step in circle)
            raise TypeError(f"{self._root}(): its dependencies form a circle: {path}")
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
        refuse_mistakes(marker.function)
        spec = inspect_callable(marker.function, injected=anything, unstructured=anything)
        provided = {parameter: hint for parameter, hint in spec.injected.items() if is_provided(hint)}
        for found in own_parameters(marker.function, provided):
            if found.default is found.empty and found.kind is not found.VAR_KEYWORD:
                raise TypeError(
                    f"{self._root}(): the parameter {found.name!r} of its dependency {name}() is never filled; "
                    "give it a default, or annotate it with Context or Annotated[..., Depends(...)]"
                )
        contexts, needs = self.read(provided)
        kind, enter = _kind_of(marker, is_async=spec.is_async)
        if marker.thread and kind != "thread":
            raise TypeError(f"{self._root}(): Depends({name}, thread=True) is only for plain functions")
        self.steps.append(_Step(marker=marker, enter=enter, spec=spec, kind=kind, contexts=contexts, needs=needs))


def _kind_of(marker: Depends, *, is_async: bool) -> tuple[_Kind, Callable[..., Any]]:
    """Return how a dependency's value is got, and the function that is called for it."""
    function = marker.function
    plain = _without_partials(function)
    annotated = plain if inspect.isroutine(plain) else type(plain).__call__
    if inspect.isasyncgenfunction(annotated):
        return "async manager", contextlib.asynccontextmanager(
            cast("Callable[..., AsyncGenerator[Any]]", function)
        )
    if inspect.isgeneratorfunction(annotated):
        return "manager", contextlib.contextmanager(cast("Callable[..., Generator[Any]]", function))
    # A generator with one of contextlib's decorators.
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
    """Return the name of a function, for messages."""
    function = _without_partials(function)
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def _without_partials(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = cast("Any", function.func)
    return function


def pass_throttle(throttle: Throttle | None, context: Context[Any]) -> None:
    """Count a request as a use of something, if its clients may not use that as often as they like.

    Raises:
        RequestError: Its client has used it too often.
    """
    if throttle is not None:
        throttle.pass_by(client_of_request(context)[0], exchange_of(context))
