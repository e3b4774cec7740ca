"""Dependencies: what fills parameters that clients do not see, how often, in what order, and what is left of it.

Annotations are not postponed here, so that dependencies may be functions inside tests.
"""

import functools
import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import Annotated, Any

import pytest
import trio
import trio.testing
from eras import ENDS

from trio_mcp import Context, Depends, RequestError, Revision, Server, ToolError, open_client

NEWEST = Revision.V2026_07_28


class Database:
    """Something that has no form in JSON."""

    def __init__(self, name: str = "db") -> None:
        self.name = name


class Diary(list[str]):
    """What happened, in order."""

    def database(self, name: str = "db") -> Callable[[], AsyncGenerator[Database]]:
        """Return a dependency that writes down when it is entered and left."""

        async def open_database() -> AsyncGenerator[Database]:
            self.append(f"open {name}")
            try:
                yield Database(name)
            except BaseException as error:
                self.append(f"{name} sees {type(error).__name__}")
                raise
            finally:
                self.append(f"close {name}")

        return open_database


async def call(server: Server[Any], tool: str, revision: Revision = NEWEST, **arguments: Any) -> tuple[bool, str]:
    """Call a tool; return whether it failed, and its text."""
    async with open_client(server, revision=revision) as client:
        result = await client.request("tools/call", {"name": tool, "arguments": arguments})
    return bool(result.get("isError")), "".join(block["text"] for block in result["content"])


# What may fill a parameter.


def plain() -> str:
    return "plain"


async def in_time() -> str:
    await trio.lowlevel.checkpoint()
    return "async"


def generator() -> Generator[str]:
    yield "generator"


async def async_generator() -> AsyncGenerator[str]:
    yield "async generator"


@contextmanager
def manager() -> Generator[str]:
    yield "manager"


@asynccontextmanager
async def async_manager() -> AsyncGenerator[str]:
    yield "async manager"


def gives_manager() -> AbstractContextManager[str]:
    return nullcontext("given manager")


def gives_async_manager() -> AbstractAsyncContextManager[str]:
    return nullcontext("given async manager")


def keeps_manager() -> nullcontext[str]:
    return nullcontext("not entered")


class Callables:
    def method(self) -> str:
        return "method"

    async def async_generator_method(self) -> AsyncGenerator[str]:
        yield "async generator method"

    def __call__(self) -> str:
        return "object"


class YieldingObject:
    def __call__(self) -> Generator[str]:
        yield "yielding object"


def part(a: str, b: str = "?", /) -> str:
    return a + b


def partial_generator(name: str) -> Generator[str]:
    yield name


async def test_what_a_function_gives_fills_the_parameter(subtests: pytest.Subtests) -> None:

    async def check(function: Callable[..., Any], value: str) -> None:
        server = Server("s")

        @server.tool
        async def tell(word: str, got: Annotated[str, Depends(function)]) -> str:
            return f"{word}: {got}"

        assert await call(server, "tell", word="w") == (False, f"w: {value}")

    rows: list[tuple[Callable[..., Any], str]] = [
        (plain, "plain"),
        (in_time, "async"),
        (generator, "generator"),
        (async_generator, "async generator"),
        (manager, "manager"),
        (async_manager, "async manager"),
        (gives_manager, "given manager"),
        (gives_async_manager, "given async manager"),
        (Callables().method, "method"),
        (Callables().async_generator_method, "async generator method"),
        (Callables(), "object"),
        (YieldingObject(), "yielding object"),
        (functools.partial(part, "partial"), "partial?"),
        (functools.partial(partial_generator, name="partial generator"), "partial generator"),
    ]
    for function, value in rows:
        with subtests.test(function=function, value=value):
            await check(function, value)


async def test_only_what_is_meant_to_be_entered_is() -> None:
    """A pool that happens to be a context manager would be closed after the first call."""
    server = Server("s")

    @server.tool
    async def tell(got: Annotated[object, Depends(keeps_manager)]) -> str:
        return type(got).__name__

    assert await call(server, "tell") == (False, "nullcontext")


async def test_a_blocking_function_can_have_a_thread() -> None:
    server = Server("s")

    def where() -> str:
        try:
            trio.lowlevel.current_trio_token()
        except RuntimeError:
            return "thread"
        return "loop"

    @server.tool
    async def tell(
        here: Annotated[str, Depends(where)], there: Annotated[str, Depends(where, thread=True)]
    ) -> str:
        return f"{here} {there}"

    assert await call(server, "tell") == (False, "loop thread")


@pytest.mark.parametrize("revision", ENDS)
async def test_clients_do_not_see_dependencies(revision: Revision) -> None:
    server = Server("s")

    @server.tool
    async def find(title: str, db: Annotated[Database, Depends(Database().name.upper)]) -> str:
        return f"{title} in {db}"

    @server.prompt
    async def ask(title: str, db: Annotated[Database | None, Depends(plain)], *, ctx: Context | None) -> str:
        return f"{title} in {db}, {type(ctx).__name__}"

    async with open_client(server, revision=revision) as client:
        (tool,) = (await client.request("tools/list"))["tools"]
        assert list(tool["inputSchema"]["properties"]) == ["title"]
        (prompt,) = (await client.request("prompts/list"))["prompts"]
        assert [argument["name"] for argument in prompt["arguments"]] == ["title"]
        got = await client.request("prompts/get", {"name": "ask", "arguments": {"title": "Dune"}})
        assert got["messages"][0]["content"]["text"] == "Dune in plain, Context"
        result = await client.request("tools/call", {"name": "find", "arguments": {"title": "Dune"}})
        assert result["content"][0]["text"] == "Dune in DB"
        result = await client.request("tools/call", {"name": "find", "arguments": {"title": "D", "db": "mine"}})
        assert result["content"][0]["text"] == "D in DB", "what no schema knows is left out"


async def test_a_dependency_can_be_a_branch_of_a_union() -> None:
    server = Server("s")

    @server.tool
    async def tell(db: Annotated[Database, Depends(plain)] | None = None) -> str:
        return str(db)

    assert await call(server, "tell") == (False, "plain")


# Graphs.


async def test_dependencies_have_dependencies_contexts_and_defaults() -> None:
    @asynccontextmanager
    async def lifespan(_: Server[str]) -> AsyncGenerator[str]:
        yield "pool"

    server = Server[str]("s", lifespan=lifespan)

    def pool(ctx: Context[str]) -> str:
        return ctx.state

    async def connection(pool: Annotated[str, Depends(pool)], size: int = 3) -> str:
        return f"connection {size} of {pool}"

    def user(
        connection: Annotated[str, Depends(connection)], /, *, ctx: Context[str], size: Any = 1, **rest: object
    ) -> str:  # fmt: skip
        return f"user by {ctx.method} over {connection}"

    @server.tool
    def tell(who: Annotated[str, Depends(user)], over: Annotated[str, Depends(connection)]) -> str:
        return f"{who}; {over}"

    assert await call(server, "tell") == (
        False,
        "user by tools/call over connection 3 of pool; connection 3 of pool",
    )


async def test_each_function_is_called_once_per_call() -> None:
    server = Server("s")
    made: list[Database] = []

    def make() -> Database:
        made.append(Database())
        return made[-1]

    def first(db: Annotated[Database, Depends(make)]) -> Database:
        return db

    def second(db: Annotated[Database, Depends(make)]) -> Database:
        return db

    @server.tool
    async def same(
        a: Annotated[Database, Depends(first)],
        b: Annotated[Database, Depends(second)],
        c: Annotated[Database, Depends(make)],
    ) -> bool:
        return a is b is c

    assert await call(server, "same") == (False, "true")
    assert len(made) == 1
    assert await call(server, "same") == (False, "true")
    assert len(made) == 2
    assert made[0] is not made[1]


async def test_they_are_entered_in_order_and_left_in_reverse() -> None:
    server = Server("s")
    diary = Diary()
    open_one = diary.database("one")

    async def open_two(one: Annotated[Database, Depends(open_one)]) -> AsyncGenerator[Database]:
        diary.append("open two")
        yield Database("two")
        diary.append("close two")

    @server.tool
    async def use(
        three: Annotated[Database, Depends(diary.database("three"))],
        two: Annotated[Database, Depends(open_two)],
        one: Annotated[Database, Depends(open_one)],
    ) -> str:
        diary.append("use")
        return "used"

    assert await call(server, "use") == (False, "used")
    assert diary == [
        "open three", "open one", "open two", "use", "close two", "close one", "close three",
    ]  # fmt: skip


# What happens when things go wrong.


async def test_bad_arguments_are_found_before_anything_is_opened() -> None:
    server = Server("s")
    diary = Diary()

    @server.tool
    async def use(count: int, db: Annotated[Database, Depends(diary.database())]) -> str:
        return "used"

    failed, text = await call(server, "use", count="many")
    assert failed
    assert "count: expected an integer" in text
    assert diary == []


@pytest.mark.parametrize("revision", ENDS)
async def test_cleanup_runs_when_the_handler_fails(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    diary = Diary()

    @server.tool
    async def use(how: str, db: Annotated[Database, Depends(diary.database())]) -> str:
        if how == "said":
            raise ToolError("no such order")
        raise OSError("disk on fire")

    assert await call(server, "use", revision, how="said") == (True, "no such order")
    with caplog.at_level(logging.ERROR):
        failed, text = await call(server, "use", revision, how="unsaid")
    assert failed
    assert "disk on fire" not in text
    assert "disk on fire" in caplog.text
    assert diary == ["open db", "db sees ToolError", "close db", "open db", "db sees OSError", "close db"]


async def test_a_result_that_does_not_fit_is_seen_by_dependencies(caplog: pytest.LogCaptureFixture) -> None:
    """So that a transaction is not committed when its caller is told that the call failed."""
    server = Server("s")
    diary = Diary()

    @server.tool
    async def use(db: Annotated[Database, Depends(diary.database())]) -> int:
        return "text"  # type: ignore[return-value] # pyright: ignore[reportReturnType]

    with caplog.at_level(logging.CRITICAL):
        failed, _ = await call(server, "use")
    assert failed
    assert diary == ["open db", "db sees InvalidValue", "close db"]


@pytest.mark.parametrize("revision", ENDS)
async def test_cleanup_runs_when_the_call_is_cancelled(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    server = Server("s")
    diary = Diary()

    async def shielded() -> AsyncGenerator[str]:
        try:
            yield "x"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            diary.append("close shielded")

    @server.tool
    async def wait(
        db: Annotated[Database, Depends(diary.database())], other: Annotated[str, Depends(shielded)]
    ) -> str:
        await trio.sleep_forever()
        raise AssertionError

    async with open_client(server, revision=revision) as client:
        with trio.move_on_after(5):
            await client.request("tools/call", {"name": "wait", "arguments": {}})
        await trio.sleep(10)
        assert diary == ["open db", "close shielded", "db sees Cancelled", "close db"]


async def test_what_was_entered_is_left_when_the_next_one_fails() -> None:
    server = Server("s")
    diary = Diary()

    async def fail() -> AsyncGenerator[str]:
        if server.info.name:
            raise ToolError("nobody is logged in")
        yield ""

    @server.tool
    async def use(db: Annotated[Database, Depends(diary.database())], user: Annotated[str, Depends(fail)]) -> str:
        pytest.fail("must not be called")

    assert await call(server, "use") == (True, "nobody is logged in")
    assert diary == ["open db", "db sees ToolError", "close db"]


async def test_what_is_meant_for_the_caller_gets_through_a_dependencys_nursery() -> None:
    """A dependency with a nursery wraps what passes it into a group."""
    server = Server("s")

    async def nursery() -> AsyncGenerator[trio.Nursery]:
        async with trio.open_nursery() as nursery, trio.open_nursery():
            yield nursery
            nursery.cancel_scope.cancel()

    @server.tool
    async def use(how: str, nursery: Annotated[trio.Nursery, Depends(nursery)]) -> str:
        nursery.start_soon(trio.sleep, math.inf)
        if how == "tool":
            raise ToolError("no such order")
        if how == "request":
            raise RequestError(-32001, "no such client")
        return "used"

    assert await call(server, "use", how="well") == (False, "used")
    assert await call(server, "use", how="tool") == (True, "no such order")
    with pytest.raises(RequestError) as caught:
        await call(server, "use", how="request")
    assert (caught.value.code, caught.value.message) == (-32001, "no such client")


async def test_several_failures_are_all_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def use() -> str:
        raise ExceptionGroup("both", [ToolError("one"), OSError("two")])

    with caplog.at_level(logging.ERROR):
        failed, text = await call(server, "use")
    assert failed
    assert "one" not in text.replace("server's", "")
    assert "two" in caplog.text


async def test_a_dependency_that_swallows_an_error_is_found_out(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    async def swallow() -> AsyncGenerator[str]:
        with suppress(OSError):
            yield "x"

    async def cut_short() -> AsyncGenerator[str]:
        with trio.move_on_after(0):
            yield "x"

    @server.tool
    async def fail(x: Annotated[str, Depends(swallow)]) -> str:
        raise OSError("disk on fire")

    @server.tool
    async def wait(x: Annotated[str, Depends(cut_short)]) -> str:
        await trio.sleep_forever()
        raise AssertionError

    with caplog.at_level(logging.ERROR):
        assert (await call(server, "fail"))[0]
        assert "has swallowed what ended it" in caplog.text
        assert "disk on fire" in caplog.text
        assert (await call(server, "wait"))[0]


# What is refused at registration.


def test_a_circle_is_refused() -> None:
    def first(x: Annotated[str, "to be replaced"]) -> str:
        return x

    def second(x: Annotated[str, Depends(first)]) -> str:
        return x

    first.__annotations__["x"] = Annotated[str, Depends(second)]

    def tell(x: Annotated[str, Depends(first)]) -> str:
        return x

    with pytest.raises(TypeError, match=r"tell\(\): .* circle: first\(\) -> second\(\) -> first\(\)"):
        Server("s").tool(tell)


def unfilled(title: str) -> str:
    return title


def default_in_place(db: Any = Depends(plain)) -> str:  # noqa: B008 - what others' users write
    return ""


def starred(*args: Any) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (unfilled, r"tell\(\): the parameter 'title' of its dependency unfilled\(\) is never filled"),
        (
            default_in_place,
            r"default_in_place\(\): parameter 'db' has Depends\(...\) as its default; write it inside Annotated",
        ),
        (Database, r"tell\(\): parameter 'x': Depends takes a function, not <class"),
        (5, r"tell\(\): parameter 'x': Depends takes a function, not 5"),
        (starred, r"starred\(\)"),
    ],
)
def test_a_graph_that_cannot_be_filled_is_refused(function: Any, told: str) -> None:
    def tell(word: str, x: Annotated[str, Depends(function)]) -> str:
        return x

    server = Server("s")
    for register in (server.tool, server.prompt, server.completion("x", "y")):
        with pytest.raises(TypeError, match=told):
            register(tell)


def test_a_bad_dependency_of_a_dependency_names_who_asks() -> None:
    not_a_function: Any = 5

    def middle(y: Annotated[str, Depends(not_a_function)]) -> str:
        return y

    def tell(x: Annotated[str, Depends(middle)]) -> str:
        return x

    with pytest.raises(TypeError, match=r"middle\(\): parameter 'y'"):
        Server("s").tool(tell)


@pytest.mark.parametrize("function", [in_time, generator, async_manager, gives_manager])
def test_only_plain_functions_get_a_thread(function: Callable[..., Any]) -> None:
    def tell(x: Annotated[str, Depends(function, thread=True)]) -> str:
        return x

    with pytest.raises(TypeError, match="thread=True"):
        Server("s").tool(tell)


def test_a_dependency_for_a_default_is_refused() -> None:
    def tell(x: str = Depends(plain)) -> str:  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
        return x

    with pytest.raises(TypeError, match="write it inside Annotated"):
        Server("s").tool(tell)
