"""`trio_mcp.otel`: what OpenTelemetry's own SDK sees of clients and servers."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Final

import pytest
import trio
import trio.testing
from opentelemetry import baggage, context, metrics, trace
from opentelemetry.trace import SpanKind, StatusCode
from shared.otel_telemetry import Watched, attributes, make_server
from shared.otel_telemetry import watched as watched

from trio_mcp import CallNext, Message, RequestError, Server, open_client
from trio_mcp.otel import MAX_ATTRIBUTE, Telemetry
from trio_mcp.types import ElicitResult

ERAS: Final = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT: Final = f"00-{TRACE}-b7ad6b7169203331-01"


@ERAS
async def test_a_call_is_one_trace_from_the_client_to_the_handler(revision: str, watched: Watched) -> None:
    """The span of the server is the child of that of the client; what the handler does is the child of both."""
    async with open_client(make_server(watched), revision=revision, middleware=[watched.telemetry]) as client:
        await client.call_tool("echo", {"text": "secret"})
    sent, served = (watched.span("tools/call echo", kind) for kind in (SpanKind.CLIENT, SpanKind.SERVER))
    inside = watched.span("in the handler", SpanKind.INTERNAL)
    assert sent.context is not None
    assert served.parent is not None
    assert served.context is not None
    assert inside.parent is not None
    assert served.parent.span_id == sent.context.span_id
    assert inside.parent.span_id == served.context.span_id
    assert {each.context.trace_id for each in (sent, served, inside) if each.context} == {sent.context.trace_id}
    assert sent.parent is None
    expected = {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.tool.name": "echo",
        "gen_ai.operation.name": "execute_tool",
    }
    assert attributes(sent) == expected
    assert attributes(served) == {**expected, "jsonrpc.request.id": attributes(served)["jsonrpc.request.id"]}
    assert sent.status.status_code is served.status.status_code is StatusCode.UNSET
    assert "secret" not in repr([attributes(span) for span in watched.spans])


@ERAS
async def test_threads_and_baggage_belong_to_the_request(revision: str, watched: Watched) -> None:
    """A plain function runs in a thread, with the span and the baggage of its caller at the other end."""
    async with open_client(make_server(watched), revision=revision, middleware=[watched.telemetry]) as client:
        token = context.attach(baggage.set_baggage("user", "ann"))
        try:
            result = await client.call_tool("threaded")
        finally:
            context.detach(token)
    assert result.text == "ann"
    served = watched.span("tools/call threaded", SpanKind.SERVER)
    inside = watched.span("in the thread", SpanKind.INTERNAL)
    assert inside.parent == served.context


async def test_concurrent_calls_do_not_mix(watched: Watched) -> None:
    """Each handler has the span of its own request, however their steps are mixed."""
    tracer = watched.tracers.get_tracer("tests")
    async with open_client(make_server(watched), middleware=[watched.telemetry]) as client:

        async def call(number: int) -> None:
            with tracer.start_as_current_span(f"caller {number}"):
                await client.call_tool("echo", {"text": str(number)})

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(call, number)
    parents = {span.context.span_id: span.parent for span in watched.spans if span.context is not None}
    traces: dict[int, list[str]] = {}
    for span in watched.spans:
        assert span.context is not None
        traces.setdefault(span.context.trace_id, []).append(span.name)
        assert span.parent is None or span.parent.span_id in parents
    called = [sorted(names)[1:] for names in traces.values() if any(name.startswith("caller") for name in names)]
    assert called == [["in the handler", "tools/call echo", "tools/call echo"]] * 20


@ERAS
async def test_how_a_request_fails_is_in_both_spans(revision: str, watched: Watched) -> None:
    """A tool that fails, a tool that does not exist, a resource whose function raises."""
    async with open_client(make_server(watched), revision=revision, middleware=[watched.telemetry]) as client:
        assert (await client.call_tool("echo", {"text": 5})).is_error
        with pytest.raises(RequestError):
            await client.call_tool("none")
        with pytest.raises(RequestError):
            await client.read_resource("note://a")
        with pytest.raises(RequestError):
            await client.request("no/such")
    for kind in (SpanKind.CLIENT, SpanKind.SERVER):
        failed = watched.span("tools/call echo", kind)
        assert (attributes(failed)["error.type"], failed.status.status_code) == ("tool_error", StatusCode.ERROR)
        unknown = watched.span("tools/call none", kind)
        assert attributes(unknown)["error.type"] == attributes(unknown)["rpc.response.status_code"] == "-32602"
        assert unknown.status.description == "Unknown tool: none"
        read = watched.span("resources/read", kind)
        assert attributes(read)["mcp.resource.uri"] == "note://a"
        assert read.status.status_code is StatusCode.ERROR
    assert attributes(watched.span("no/such", SpanKind.CLIENT))["error.type"] == "-32601"
    assert attributes(watched.span("_OTHER", SpanKind.SERVER))["mcp.method.name"] == "no/such"


@ERAS
@pytest.mark.parametrize("how", ["cancelled", "timeout"])
async def test_a_call_that_is_given_up_ends_both_spans(
    how: str, revision: str, watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    """By its caller, or by its deadline; the handler is cancelled within a nursery of its own."""
    async with open_client(make_server(watched), revision=revision, middleware=[watched.telemetry]) as client:
        with trio.CancelScope(deadline=trio.current_time() + 3 if how == "timeout" else math.inf) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "stay")
                await trio.testing.wait_all_tasks_blocked()
                if how == "cancelled":
                    scope.cancel()
        await client.ping()
    for kind in (SpanKind.CLIENT, SpanKind.SERVER):
        span = watched.span("tools/call stay", kind)
        assert span.status.status_code is StatusCode.ERROR
        expected = {how} if kind is SpanKind.CLIENT else {how, "cancelled"}
        assert attributes(span)["error.type"] in expected
    assert all(point.value == 0 for point in watched.points("mcp.server.active_requests"))
    assert all(point.value == 0 for point in watched.points("mcp.client.active_requests"))


async def test_a_question_of_a_handler_belongs_to_its_trace(watched: Watched) -> None:
    """The server is the one who asks: its span is a client's, and the client's is a server's."""

    async def answer(*_: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"value": True})

    async with open_client(
        make_server(watched), revision="2025-11-25", on_elicit=answer, middleware=[watched.telemetry]
    ) as client:
        await client.call_tool("ask")
    call, asked, answered = (
        watched.span("tools/call ask", SpanKind.SERVER),
        watched.span("elicitation/create", SpanKind.CLIENT),
        watched.span("elicitation/create", SpanKind.SERVER),
    )
    assert asked.parent is not None
    assert call.context is not None
    assert asked.parent.span_id == call.context.span_id
    assert asked.context is not None
    assert answered.parent is not None
    assert answered.parent.span_id == asked.context.span_id


async def test_each_request_of_a_parked_handler_is_one_span(watched: Watched) -> None:
    """In the modern era the question is a result, and the answer comes with the request sent again."""

    async def answer(*_: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"value": True})

    async with open_client(
        make_server(watched), revision="2026-07-28", on_elicit=answer, middleware=[watched.telemetry]
    ) as client:
        await client.call_tool("ask")
    served = [span for span in watched.spans if span.kind is SpanKind.SERVER and span.name == "tools/call ask"]
    assert [span.status.status_code for span in served] == [StatusCode.UNSET] * 2


class Meta:
    """Puts something into the `_meta` of each request that a client sends."""

    def __init__(self, **meta: object) -> None:
        self.meta = meta

    async def __call__(self, message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        params = message.params or {}
        meta: dict[str, Any] = {**(params.get("_meta") or {}), **self.meta}
        return await call_next(message.evolve(params={**params, "_meta": meta}))


@ERAS
async def test_the_trace_of_another_library_goes_on(revision: str, watched: Watched) -> None:
    """SEP-414: `traceparent` in the `_meta` is all that a client needs."""
    async with open_client(
        make_server(watched), revision=revision, middleware=[Meta(traceparent=TRACEPARENT)]
    ) as client:
        await client.get_prompt("greet")
    span = watched.span("prompts/get greet", SpanKind.SERVER)
    assert span.context is not None
    assert trace.format_trace_id(span.context.trace_id) == TRACE
    assert attributes(span)["gen_ai.prompt.name"] == "greet"


async def test_a_server_for_everybody_begins_traces_of_its_own(watched: Watched) -> None:
    """`joins_traces=False`: the other trace is a link, its baggage is dropped, and nobody chooses what is sampled."""
    watched.telemetry = Telemetry(tracer_provider=watched.tracers, joins_traces=False)
    server = make_server(watched)
    meta = Meta(traceparent=TRACEPARENT, baggage="user=eve")
    async with open_client(server, middleware=[meta]) as client:
        assert (await client.call_tool("threaded")).text == "None"
    span = watched.span("tools/call threaded", SpanKind.SERVER)
    assert span.context is not None
    assert span.parent is None
    (link,) = span.links
    assert trace.format_trace_id(link.context.trace_id) == TRACE


@pytest.mark.parametrize(
    "meta",
    [
        {"traceparent": 5},
        {"traceparent": "00-zz-1-01"},
        {"traceparent": TRACEPARENT, "tracestate": {"a": 1}, "baggage": ["x"]},
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
        {"tracestate": "a=1," * 100_000, "baggage": "a=1," * 100_000},
    ],
)
async def test_a_trace_context_that_is_none_harms_nothing(meta: dict[str, Any], watched: Watched) -> None:
    """What a stranger writes there fails no request, and is kept nowhere."""
    async with open_client(make_server(watched), middleware=[Meta(**meta)]) as client:
        assert (await client.call_tool("echo", {"text": "a"})).text == "a"
    assert watched.span("tools/call echo", SpanKind.SERVER).status.status_code is StatusCode.UNSET


async def test_strangers_choose_no_names_of_metrics(watched: Watched) -> None:
    """Methods and tools that do not exist become one; what is long is cut in spans, too."""
    async with open_client(make_server(watched)) as client:
        for number in range(10):
            with pytest.raises(RequestError):
                await client.call_tool(f"tool {number}")
            with pytest.raises(RequestError):
                await client.request(f"made/up-{number}" + "x" * 1_000)
    found = [dict(point.attributes or {}) for point in watched.points("mcp.server.operation.duration")]
    assert not any("gen_ai.tool.name" in each for each in found)
    assert {each["mcp.method.name"] for each in found} <= {"server/discover", "tools/call", "_OTHER"}
    assert all(
        len(str(value)) <= MAX_ATTRIBUTE + 1 for span in watched.spans for value in attributes(span).values()
    )


@ERAS
async def test_nor_do_notifications_that_no_error_answers(revision: str, watched: Watched) -> None:
    """Those that MCP has keep their names."""
    async with open_client(make_server(watched), revision=revision) as client:
        for number in range(10):
            await client.notify(f"made/up-{number}")
        assert (await client.call_tool("echo", {"text": "a"})).text == "a"
    found = {
        dict(point.attributes or {})["mcp.method.name"]
        for point in watched.points("mcp.server.operation.duration")
    }
    legacy, modern = {"initialize", "notifications/initialized"}, {"server/discover"}
    assert found == {"tools/call", "_OTHER"} | (legacy if revision == "2025-11-25" else modern)
    assert len([span for span in watched.spans if span.name == "_OTHER"]) == 10


@ERAS
async def test_durations_are_measured(
    revision: str, watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    """Of requests on both sides, and of sessions, in seconds."""
    server = make_server(watched)

    @server.tool
    async def doze() -> None:
        assert [point.value for point in watched.points("mcp.server.active_sessions")] == [1]
        await trio.sleep(3)

    async with open_client(server, revision=revision, middleware=[watched.telemetry]) as client:
        await client.call_tool("doze")
        await trio.sleep(4)
    for side in ("client", "server"):
        (doze_,) = (
            point
            for point in watched.points(f"mcp.{side}.operation.duration")
            if point.attributes.get("gen_ai.tool.name") == "doze"
        )
        assert (doze_.count, doze_.sum) == (1, 3)
        assert doze_.explicit_bounds[:2] == (0.01, 0.02)
        assert dict(doze_.attributes or {}) == {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": "doze",
            "gen_ai.operation.name": "execute_tool",
            "mcp.protocol.version": revision,
        }
        (session,) = watched.points(f"mcp.{side}.session.duration")
        assert (session.count, session.sum) == (1, 7)
        assert all(point.value == 0 for point in watched.points(f"mcp.{side}.active_sessions"))


@ERAS
async def test_where_nothing_records_nothing_is_begun_and_what_comes_is_passed_on(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the SDK there is no span to make; the trace and the baggage of others reach whom the handler calls."""
    begun: list[str] = []
    begin: Any = Telemetry._begin

    def note(self: Telemetry, message: Message) -> Any:
        begun.append(message.method)
        return begin(self, message)

    monkeypatch.setattr(Telemetry, "_begin", note)
    silent = Telemetry(tracer_provider=trace.NoOpTracerProvider(), meter_provider=metrics.NoOpMeterProvider())
    server, seen = Server("silent", middleware=[silent]), list[Any]()

    @server.tool
    async def where() -> None:
        seen.append((trace.get_current_span().get_span_context().trace_id, baggage.get_baggage("user")))

    async with open_client(server, revision=revision, middleware=[silent]) as client:
        begun.clear()
        await client.call_tool("where")
        await client.call_tool("where", meta={"traceparent": TRACEPARENT})
        theirs = trace.NonRecordingSpan(trace.SpanContext(int(TRACE, 16), 7, is_remote=False))
        token = context.attach(trace.set_span_in_context(theirs, baggage.set_baggage("user", "ann")))
        try:
            await client.call_tool("where")
        finally:
            context.detach(token)
    assert seen == [(0, None), (int(TRACE, 16), None), (int(TRACE, 16), "ann")]
    assert begun == ["tools/call"] * 4


async def test_attributes_of_metrics_can_be_copied() -> None:
    """Exporters do so by `copy.deepcopy`, and older SDKs keep the very mapping that they are given."""
    seen: list[Any] = []

    class Keeps(metrics.NoOpMeterProvider):
        def get_meter(self, *args: Any, **kwargs: Any) -> metrics.Meter:
            return KeepsAttributes("keeps")

    class Kept(metrics.Histogram):
        def __init__(self) -> None: ...

        def record(self, amount: float, attributes: Any = None, context: Any = None) -> None:
            seen.append(attributes)

    class KeepsAttributes(metrics.NoOpMeter):
        def create_histogram(self, *args: Any, **kwargs: Any) -> Any:
            return Kept()

    telemetry = Telemetry(meter_provider=Keeps())
    server: Server[Any] = Server("kept", middleware=[telemetry])

    @server.tool
    async def nothing() -> None: ...

    async with open_client(server, revision="2025-11-25", middleware=[telemetry]) as client:
        await client.call_tool("nothing")
    assert seen
    assert [copy.deepcopy(each) for each in seen] == seen


async def test_several_count_together_for_one_provider(watched: Watched) -> None:
    """Each server may have its own; a metric is one even so."""
    other = Telemetry(tracer_provider=watched.tracers, meter_provider=watched.meters)
    begun = [trio.Event(), trio.Event()]

    def server(telemetry: Telemetry, number: int) -> Server[Any]:
        server: Server[Any] = Server("counted", middleware=[telemetry])

        @server.tool
        async def wait() -> None:
            begun[number].set()
            await trio.sleep_forever()

        return server

    def running() -> list[int]:
        metrics = ("mcp.server.active_requests", "mcp.server.active_sessions")
        return [sum(point.value for point in watched.points(metric)) for metric in metrics]

    async with (
        open_client(server(watched.telemetry, 0), revision="2025-11-25") as one,
        open_client(server(other, 1), revision="2025-11-25") as two,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(one.call_tool, "wait")
        nursery.start_soon(two.call_tool, "wait")
        for each in begun:
            await each.wait()
        assert running() == [2, 2]
        nursery.cancel_scope.cancel()
    assert running() == [0, 0]
