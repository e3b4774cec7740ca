"""Every number that users can give: what is no sensible one is refused where it is given, by name and with the rule."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, Final

import attrs
import pytest
import trio
from lines import LINES, open_line
from trio.testing import MockClock

from trio_mcp import (
    AskPolicy,
    CacheHint,
    Context,
    HttpServerParameters,
    HttpServerSettings,
    HttpSettings,
    Limits,
    LogHandler,
    MemoryEventStore,
    RequestError,
    ResponseCache,
    RestartPolicy,
    Server,
    fail_after_silence,
    open_client,
    open_sqlite_event_store,
    open_sqlite_task_store,
)
from trio_mcp.types import CallToolResult, CreateMessageResult, ElicitResult, TextContent

Give = Callable[[Any], object]

HUGE: Final = 10**400
"""An integer that no float can hold."""
LONG: Final = 1e300
"""A finite duration that no number of milliseconds can hold."""

NO_NUMBERS: Final = ("5", True, None, [5], 1j)
NO_WHOLE_NUMBERS: Final = (*NO_NUMBERS, 1.5, 5.0, math.inf, math.nan)


def enter(give: Callable[[Any], AbstractContextManager[object]]) -> Give:
    """Return what gives a number to something that is entered."""

    def run(value: Any) -> None:
        async def main() -> None:
            await trio.lowlevel.checkpoint()
            with give(value):
                pass

        trio.run(main)

    return run


def opened(give: Callable[[Any], AbstractAsyncContextManager[object]]) -> Give:
    """Return what gives a number to something that is opened asynchronously."""

    def run(value: Any) -> None:
        async def main() -> None:
            async with give(value):
                pass

        trio.run(main)

    return run


def within_a_request(give: Callable[[Context[Any], Any], Any]) -> Give:
    """Return what gives a number to a context."""

    def run(value: Any) -> None:
        server: Server[None] = Server("numbers")
        raised: list[BaseException] = []

        @server.tool
        async def given(ctx: Context[Any]) -> None:
            try:
                await give(ctx, value)
            except (TypeError, ValueError) as error:
                raised.append(error)

        async def main() -> None:
            async with open_client(server) as client:
                await client.call_tool("given")

        trio.run(main)
        if raised:
            raise raised[0]

    return run


async def sample(ctx: Context[Any], **options: Any) -> None:
    await ctx.sample("x", **options)


async def progress(ctx: Context[Any], *, total: float) -> None:
    async with ctx.progress(total):
        pass


def tool(**options: Any) -> None:
    @Server("numbers").tool(**options)
    async def some() -> None:
        raise NotImplementedError


def resource(**options: Any) -> None:
    @Server("numbers").resource("a:b", **options)
    async def some() -> str:
        raise NotImplementedError


def prompt(**options: Any) -> None:
    @Server("numbers").prompt(**options)
    async def some() -> str:
        raise NotImplementedError


def fields(cls: Any, kind: str) -> list[tuple[str, Give]]:
    """Return the settings of a class that are numbers of a kind."""
    return [named(field.name, cls) for field in attrs.fields(cls) if field.type == kind and field.init]


def named(name: str, give: Callable[..., object]) -> tuple[str, Give]:
    return name, lambda value: give(**{name: value})


parameters = partial(HttpServerParameters, "http://localhost/mcp")

WHOLE: Final = [
    *fields(Limits, "int"),
    *fields(HttpServerSettings, "int"),
    *fields(HttpSettings, "int"),
    *fields(RestartPolicy, "int"),
    *fields(AskPolicy, "int"),
    named("max_resumptions", parameters),
    named("max_entries", ResponseCache),
    named("max_bytes", ResponseCache),
    named("max_bytes", MemoryEventStore),
    named("max_session_bytes", MemoryEventStore),
    named("max_session_events", MemoryEventStore),
    ("max_session_events", opened(lambda n: open_sqlite_event_store(":memory:", max_session_events=n))),
    ("max_tasks", opened(lambda n: open_sqlite_task_store(":memory:", max_tasks=n))),
    ("max_bytes", opened(lambda n: open_sqlite_task_store(":memory:", max_bytes=n))),
    named("max_waiting", LogHandler),
    ("max_tokens", within_a_request(lambda ctx, n: sample(ctx, max_tokens=n))),
]
WHOLE_OR_NONE: Final = [
    named("page_size", partial(Server, "numbers")),
    named("limit", tool),
    named("size", resource),
]
DURATIONS: Final = [
    *fields(Limits, "float"),
    *fields(HttpServerSettings, "float"),
    *fields(HttpSettings, "float"),
    *fields(RestartPolicy, "float"),
    *fields(AskPolicy, "float"),
    named("stream_timeout", parameters),
    named("notification_timeout", parameters),
    ("idle", enter(lambda seconds: fail_after_silence(seconds, at_most=1))),
    ("at_most", enter(lambda seconds: fail_after_silence(1, at_most=seconds))),
    ("max_age", opened(lambda seconds: open_sqlite_task_store(":memory:", max_age=seconds))),
    ("request_timeout", opened(lambda seconds: open_client(Server("numbers"), request_timeout=seconds))),
]
DURATIONS_OR_NONE: Final = [named("timeout", tool), named("timeout", prompt), named("timeout", resource)]
TOLD_DURATIONS: Final = [
    named("ttl", CacheHint),
    named("ttl", resource),
]
TOLD_DURATIONS_OR_NONE: Final = [
    ("retry_after", within_a_request(lambda ctx, seconds: ctx.release_connection(seconds)))
]
NUMBERS: Final = [
    ("progress", within_a_request(lambda ctx, n: ctx.report_progress(n))),
    ("amount|progress", within_a_request(lambda ctx, n: ctx.progress().advance(n))),
    ("progress", within_a_request(lambda ctx, n: ctx.progress().report(n))),
]
NUMBERS_OR_NONE: Final = [
    ("total", within_a_request(lambda ctx, n: ctx.report_progress(1, n))),
    ("total", within_a_request(lambda ctx, n: progress(ctx, total=n))),
    ("temperature", within_a_request(lambda ctx, n: sample(ctx, max_tokens=1, temperature=n))),
]


def given(places: list[tuple[str, Give]], *values: object) -> list[tuple[str, Give, tuple[object, ...]]]:
    return [(name, give, values) for name, give in places]


def test_what_is_no_number_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    """`True` is no number of seconds, and 5.0 no number of requests."""
    cases = [
        *given(WHOLE, *NO_WHOLE_NUMBERS),
        *given(WHOLE_OR_NONE, *(value for value in NO_WHOLE_NUMBERS if value is not None)),
        *given([*DURATIONS, *TOLD_DURATIONS, *NUMBERS], *NO_NUMBERS),
        *given([*DURATIONS_OR_NONE, *TOLD_DURATIONS_OR_NONE, *NUMBERS_OR_NONE], *(value for value in NO_NUMBERS if value is not None)),
    ]  # fmt: skip
    for name, give, values in cases:
        for value in values:
            with (
                subtests.test(name=name, value=value),
                pytest.raises(TypeError, match=rf"^({name}) must be a (whole )?number"),
            ):
                give(value)


def test_what_is_out_of_bounds_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    cases = [
        *given([*WHOLE, *WHOLE_OR_NONE], -1, HUGE),
        *given([*DURATIONS, *DURATIONS_OR_NONE], -1, -0.5, math.nan, -math.inf, HUGE),
        *given([*TOLD_DURATIONS, *TOLD_DURATIONS_OR_NONE], -1, -0.5, math.nan, math.inf, -math.inf, HUGE, LONG),
        *given([*NUMBERS, *NUMBERS_OR_NONE], math.nan, math.inf, -math.inf, HUGE),
        *given([named("parked_timeout", Limits)], 0),
    ]
    for name, give, values in cases:
        for value in values:
            with subtests.test(name=name, value=value):
                with pytest.raises(ValueError, match=rf"^({name}) must ") as caught:
                    give(value)
                assert "internal" not in str(caught.value)


def test_what_means_never_or_no_end_is_taken(subtests: pytest.Subtests) -> None:
    """``math.inf`` is a duration; what is sent to a peer, for whom JSON has no infinity, is finite."""
    cases = [
        *given([*WHOLE, *WHOLE_OR_NONE], 2**62),
        *given([*DURATIONS, *DURATIONS_OR_NONE], math.inf, LONG),
        *given([*TOLD_DURATIONS, *TOLD_DURATIONS_OR_NONE], 86_400),
    ]
    for name, give, values in cases:
        for value in values:
            with subtests.test(name=name, value=value):
                try:
                    give(value)
                except RequestError:
                    assert name == "max_tokens", "no client here can be asked"


ENDLESS: Final = dict.fromkeys((name for name, _ in fields(Limits, "float")), math.inf)
LASTING: Final = dict.fromkeys((name for name, _ in fields(Limits, "float")), LONG)


@LINES
@pytest.mark.parametrize("durations", [ENDLESS, LASTING], ids=["inf", "1e300"])
async def test_a_server_without_any_time_limit_works(
    durations: dict[str, Any], binding: str, revision: str, autojump_clock: MockClock
) -> None:
    """Nothing that is written computes with infinity: it was an internal error with the first question."""
    server: Server[None] = Server("patient", limits=Limits(**durations))

    @server.tool(timeout=durations["parked_timeout"])
    async def ask(ctx: Context[Any]) -> str:
        async with ctx.progress() as progress:
            await progress.advance()
        if revision in {"2024-11-05", "2025-03-26"}:
            return "cannot"
        return (await ctx.elicit("who?", str)).action

    async def elicited(_: object) -> ElicitResult:
        await trio.lowlevel.checkpoint()
        return ElicitResult(action="decline")

    options: dict[str, Any] = {"on_elicit": elicited, "request_timeout": durations["parked_timeout"]}
    waits: dict[str, Any] = dict.fromkeys(
        (name for name, _ in fields(HttpServerSettings, "float")), durations["parked_timeout"]
    )
    settings = HttpServerSettings(**waits)
    async with open_line(server, binding, revision, settings, limits=Limits(**durations), **options) as line:
        await line.client.call_tool("ask")
        assert await line.client.list_tools() != []


# What JSON has no number for. `null` in its place would be another value, so nothing is sent.


def saying(text: str) -> Any:
    return pytest.raises(ValueError, match=f"^{re.escape(text)} is not a number in JSON$")


@LINES
async def test_what_is_no_number_in_json_is_not_sent_by_a_client(
    binding: str, revision: str, autojump_clock: MockClock
) -> None:
    """The error says which argument it is; the client goes on."""
    server: Server[None] = Server("numbers")

    @server.tool
    async def echo(x: float | None = None) -> str:
        return repr(x)

    async with open_line(server, binding, revision) as line:
        client = line.client
        await client.list_tools(fresh=True)
        before = len(line.tape.sent)
        for call, path in (
            (lambda: client.call_tool("echo", {"x": math.nan}), "arguments.x: nan"),
            (lambda: client.call_tool("echo", {"x": {"y": [None, -math.inf]}}), "arguments.x.y[1]: -inf"),
            (lambda: client.call_tool("echo", meta={"x/y": math.inf}), '_meta["x/y"]: inf'),
            (lambda: client.request("tools/call", {"name": "echo", "arguments": {"x": math.nan}}), "arguments.x: nan"),
            (lambda: client.request_many([("tools/list", None), ("tools/list", {"x": math.nan})]), "x: nan"),
            (lambda: client.notify("x/y", {"x": math.nan}), "x: nan"),
        ):  # fmt: skip
            with saying(path):
                await call()
        sent = line.tape.sent[before:]
        assert {message["method"] for message in sent} <= {"tools/list", "notifications/cancelled"}
        assert (await client.call_tool("echo", {"x": 1.5})).text == "1.5"
        assert (await client.call_tool("echo", {"x": None})).text == "None"
        statistics = client.statistics()
        assert (statistics.calls, statistics.outbox_bytes) == (0, 0)


@LINES
async def test_what_is_no_number_in_json_is_not_sent_by_a_server(
    binding: str, revision: str, autojump_clock: MockClock
) -> None:
    """What a handler sends is refused there; what it returns or raises is written as text, for its work is done."""
    server: Server[None] = Server("numbers")

    @server.tool
    async def send(ctx: Context[Any]) -> str:
        with saying("data.x: nan"):
            await ctx.info({"x": math.nan})
        with saying("x: inf"):
            await ctx.notify("x/y", {"x": math.inf})
        with pytest.raises(ValueError, match=r"^progress must be a finite number, not nan$"):
            await ctx.report_progress(math.nan)
        with pytest.raises(ValueError, match=r"^total must be a finite number, not inf$"):
            await ctx.report_progress(1, math.inf)
        return "sent nothing"

    @server.tool
    async def meta() -> CallToolResult:
        return CallToolResult(content=(), meta={"x": math.nan})

    @server.tool
    async def data() -> str:
        raise RequestError(-5, "why", {"x": math.nan})

    @server.request_handler("x/low")
    async def low(*_: object) -> dict[str, Any]:
        return {"x": [math.nan]}

    async with open_line(server, binding, revision, on_log=lambda _: None) as line:
        client = line.client
        assert (await client.call_tool("send", on_progress=lambda _: None)).text == "sent nothing"
        assert ((await client.call_tool("meta")).meta or {})["x"] == "NaN"
        with pytest.raises(RequestError) as caught:
            await client.call_tool("data")
        assert (caught.value.code, caught.value.data) == (-5, {"x": "NaN"})
        assert (await client.request("x/low"))["x"] == ["NaN"]
        assert ": None" not in repr(line.tape.received)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_is_no_number_in_json_in_an_answer(revision: str) -> None:
    """A question is not answered by what cannot be sent: the call ends here, or the server's handler has an error."""
    server: Server[None] = Server("asking")

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        return repr(await ctx.sample("?", max_tokens=1))

    async def answer(_: object) -> CreateMessageResult:
        await trio.lowlevel.checkpoint()
        return CreateMessageResult(
            role="assistant", model="m", content=TextContent(text="x"), meta={"x": math.nan}
        )

    async with open_client(server, revision=revision, on_sample=answer) as client:
        if revision == "2026-07-28":
            with saying("inputResponses.1._meta.x: nan"):
                await client.call_tool("ask")
        else:
            assert (await client.call_tool("ask")).is_error


def test_what_is_no_number_in_json_is_not_registered() -> None:
    """Otherwise no list that it is in could be sent."""
    server: Server[None] = Server("numbers")
    with saying("meta.x: nan"):
        server.tool(name="a", meta={"x": math.nan})(lambda: "a")
    with saying("meta.x: inf"):
        server.add_resource("x:y", "text", meta={"x": math.inf})
