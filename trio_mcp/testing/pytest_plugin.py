"""The pytest plugin: fixtures that open clients and servers, and end them with the test.

Tests are async, and run on Trio by pytest-trio or by anyio. No fixture is used unless a test asks for it, and
nothing is imported before.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, final

import pytest

if TYPE_CHECKING:  # a run of tests that uses none of it does not load it
    import trio
    from typing_extensions import Unpack

    from .._bindings._stdio_client import StdioServerParameters
    from .._client._client import Client
    from .._client._open import ClientOptions, ServesChannels
    from .._server._server import Servable

_T = TypeVar("_T")

CHECKS: Final = "mcp_nothing_left"
"""The name of the option by which tests are not checked for what they leave."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a project with lasting connections of its own do without the check of what is left."""
    says = "whether tests fail that leave a process, a descriptor or a thread behind (default: true)"
    parser.addini(CHECKS, says, type="bool", default=True)


def pytest_runtest_setup() -> None:
    """Let each test's failures be logged as if for the first time.

    Repetitions are counted for the whole process, in real time: those of other tests would be counted with them.
    """
    logs = sys.modules.get("trio_mcp._logs")  # not loaded: nothing was logged
    if logs is not None:
        logs.repetitions.forget()


class McpClient(Protocol):
    """What the fixture `mcp_client` is."""

    async def __call__(
        self,
        server: ServesChannels,
        *,
        raise_exceptions: bool = True,
        principal: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> Client:
        """Open a client; see `trio_mcp.testing.open_client`."""
        ...


class McpUrl(Protocol):
    """What the fixture `mcp_url` is."""

    async def __call__(self, server: Servable[Any], **options: Any) -> str:
        """Serve a server, and return its URL; see `trio_mcp.serve_http`."""
        ...


class McpProcess(Protocol):
    """What the fixture `mcp_process` is."""

    async def __call__(
        self, command: Sequence[str] | StdioServerParameters, **options: Unpack[ClientOptions]
    ) -> Client:
        """Start a server process, and return a client of it."""
        ...


@pytest.fixture
def mcp_client(mcp_lifetime: Lifetime) -> McpClient:
    """Open clients of servers in this process, until the test ends.

    ``client = await mcp_client(server)``. As `trio_mcp.testing.open_client`: exceptions of handlers come out.
    They are closed when the test ends, the last one first.
    """

    async def open_one(server: ServesChannels, **options: Any) -> Client:
        from ._clients import open_client

        return await mcp_lifetime.enter(open_client(server, **options))

    return open_one


@pytest.fixture
def mcp_url(mcp_lifetime: Lifetime) -> McpUrl:
    """Serve servers over HTTP on free ports of this machine, until the test ends.

    ``url = await mcp_url(server)``. Options are those of `trio_mcp.serve_http`. Serving ends with the test. The
    network takes real time: not with a mock clock.
    """

    async def serve_one(server: Servable[Any], **options: Any) -> str:
        return await mcp_lifetime.enter(_served(server, options))

    return serve_one


@pytest.fixture
def mcp_process(mcp_lifetime: Lifetime) -> McpProcess:
    """Start server processes over stdio, and open clients of them, until the test ends.

    ``client = await mcp_process([sys.executable, "server.py"])``. Options are those of `trio_mcp.open_client`.
    Each process has ended when the test has. Processes take real time: not with a mock clock.

    A process gets a small environment, not that of the tests: what it needs is named by
    ``StdioServerParameters(sys.executable, ["server.py"], env={"DATABASE": path})`` in place of the command.
    """

    async def start_one(
        command: Sequence[str] | StdioServerParameters, **options: Unpack[ClientOptions]
    ) -> Client:
        from .._bindings._stdio_client import StdioServerParameters
        from .._client._open import open_client

        if isinstance(command, str):
            raise TypeError(f"a command is a list, not a string: mcp_process([sys.executable, {command!r}])")
        if not isinstance(command, StdioServerParameters):
            program, *arguments = command
            command = StdioServerParameters(program, arguments)
        return await mcp_lifetime.enter(open_client(command, **options))

    return start_one


@pytest.fixture
def mcp_lifetime(request: pytest.FixtureRequest) -> Generator[Lifetime]:
    """Hold what lasts as long as the test: ``value = await mcp_lifetime.enter(async_context_manager)``.

    What the other fixtures are made of. A test that has it fails if it leaves a child process, a descriptor or a
    thread behind, unless tasks go on that another fixture will end: they may need them. ``mcp_nothing_left =
    false`` in pytest's configuration is for programs that keep connections of their own.
    """
    import trio

    item: Any = request.node
    if trio.lowlevel.in_trio_task():
        pytest.fail(f"{item.name} runs already: let it have the fixtures of trio_mcp as arguments")
    lifetime = Lifetime(checks=bool(request.config.getini(CHECKS)))
    hypothesis = getattr(item.obj, "hypothesis", None)
    owner, name = (item, "obj") if hypothesis is None else (hypothesis, "inner_test")
    function = getattr(owner, name)
    if not inspect.iscoroutinefunction(function):
        asked = next((name for name in request.fixturenames if name.startswith("mcp_")), "mcp_lifetime")
        pytest.fail(f"{item.name} is not async, and {asked} needs Trio: write async def {item.originalname}(...)")

    @functools.wraps(function)
    async def within_lifetime(*arguments: Any, **keywords: Any) -> None:
        if not trio.lowlevel.in_trio_run():
            pytest.fail(
                f"{item.name} does not run on Trio: install pytest-trio and set trio_mode = true, or mark it "
                "with @pytest.mark.trio; beside it, pytest-asyncio needs asyncio_mode = strict; with anyio, let "
                "anyio_backend be 'trio'"
            )
        async with lifetime.running():
            await function(*arguments, **keywords)

    # The test itself is what runs on Trio, whoever runs it; fixtures may not.
    setattr(owner, name, within_lifetime)
    yield lifetime
    setattr(owner, name, function)


@final
class Lifetime:
    """Context managers that are left when the test ends. Each has a task of its own, so order is free."""

    def __init__(self, *, checks: bool = True) -> None:
        self._checks = checks
        self._nursery: trio.Nursery | None = None
        self._entered: list[tuple[trio.Event, trio.Event]] = []

    async def enter(self, manager: AbstractAsyncContextManager[_T]) -> _T:
        """Enter a context manager, to be left when the test ends, and return what it gives.

        Raises:
            RuntimeError: The test has not begun, or has ended.
            Others: What entering raises. What leaving raises fails the test.
        """
        import trio

        if self._nursery is None:
            raise RuntimeError(
                "the fixtures of trio_mcp are for tests, and not for other fixtures: in an async fixture, write "
                "async with trio_mcp.testing.open_client(server) as client: yield client"
            )
        leave, left = trio.Event(), trio.Event()
        value: _T = await self._nursery.start(_hold, manager, leave, left)
        self._entered.append((leave, left))
        return value

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Be the test: what is entered in the block is left at its end, the last one first."""
        from .._trio import open_hidden_nursery
        from ._leftovers import Living

        before = Living.now()
        async with open_hidden_nursery() as nursery:
            self._nursery = nursery
            try:
                yield
            finally:
                self._nursery = None
                entered, self._entered = self._entered, []
                for leave, left in reversed(entered):
                    leave.set()
                    await left.wait()  # noqa: ASYNC102 - cancelled, they all are
        now = Living.now()
        if self._checks and now.tasks.keys() <= before.tasks.keys():
            now.check_since(before)


async def _hold(  # noqa: ASYNC114 - started above, and waited for
    manager: AbstractAsyncContextManager[Any],
    leave: trio.Event,
    left: trio.Event,
    *,
    task_status: trio.TaskStatus[Any],
) -> None:
    try:
        async with manager as value:
            task_status.started(value)
            await leave.wait()
    finally:
        left.set()


@asynccontextmanager
async def _served(server: Servable[Any], options: dict[str, Any]) -> AsyncGenerator[str]:
    from .._hosts._serve_http import serve_http
    from .._trio import open_hidden_nursery

    serve: Callable[..., Any] = functools.partial(serve_http, server, **{"port": 0, **options})
    async with open_hidden_nursery() as nursery:
        urls: tuple[str, ...] = await nursery.start(serve)
        try:
            yield urls[0]
        finally:
            nursery.cancel_scope.cancel(reason="the test has ended")
