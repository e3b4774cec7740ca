"""`trio_mcp.otel`: what OpenTelemetry's own SDK sees of clients and servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing
from lines import open_line
from opentelemetry import baggage
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from unmeasured import unmeasured

from trio_mcp import Context, Server
from trio_mcp.otel import Telemetry


class Watched:
    """A tracer and a meter, and what they have seen."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self.reader])
        self.telemetry = Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def span(self, name: str, kind: SpanKind) -> ReadableSpan:
        (span,) = (each for each in self.spans if (each.name, each.kind) == (name, kind))
        return span

    def points(self, metric: str) -> list[Any]:
        data: Any = self.reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Iterator[Watched]:
    """Of nothing that it is told OpenTelemetry complains, least of all that a context is left in another one."""
    watched = Watched()
    yield watched
    watched.tracers.shutdown()
    watched.meters.shutdown()
    assert not [record.getMessage() for record in caplog.get_records("call") if record.name.startswith("opentel")]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def make_server(watched: Watched) -> Server[Any]:
    server: Server[Any] = Server("traced", middleware=[watched.telemetry])
    tracer = watched.tracers.get_tracer("tests")

    @server.tool
    async def echo(text: str) -> str:
        with tracer.start_as_current_span("in the handler"):
            await trio.lowlevel.checkpoint()
        return text

    @server.tool
    def threaded() -> str:
        with tracer.start_as_current_span("in the thread"):
            return str(baggage.get_baggage("user"))

    @server.tool
    async def stay() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)

    @server.tool
    async def ask(ctx: Context[Any]) -> bool:
        return bool(await ctx.elicit("Really?", bool))

    @server.prompt
    async def greet() -> str:
        return "Hello"

    @server.resource("note://a")
    async def note() -> str:
        raise OSError("the disk is gone")

    return server


@pytest.mark.parametrize("binding", ["http", "http-lean", "stateless", "tcp", "unix", "websocket", "sse"])
async def test_the_transport_is_named(
    binding: str, watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    """On both sides, whatever carries it; and at the server the address of the client."""
    revision = "2024-11-05" if binding == "sse" else "2025-06-18" if binding == "stateless" else "2026-07-28"
    async with open_line(make_server(watched), binding, revision, middleware=[watched.telemetry]) as line:
        await line.client.call_tool("echo", {"text": "a"})
    transport = "unix" if binding == "unix" else "tcp"
    for kind in (SpanKind.CLIENT, SpanKind.SERVER):
        found = attributes(watched.span("tools/call echo", kind))
        assert found["network.transport"] == transport
        assert found.get("mcp.protocol.version") == revision or (
            binding == "stateless" and kind is SpanKind.SERVER
        )
        assert ("client.address" in found) is (kind is SpanKind.SERVER)


@pytest.mark.parametrize(
    "given", ["", "tracer_provider=trace.get_tracer_provider(), meter_provider=metrics.get_meter_provider()"]
)
def test_a_provider_that_is_set_later_takes_effect(given: str) -> None:
    """In a process of its own: a program sets it once."""
    script = """
import trio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from trio_mcp import Server, open_client
from trio_mcp.otel import Telemetry

server = Server("late", middleware=[Telemetry(GIVEN)])
server.tool(lambda: None, name="nothing")

async def main():
    async with open_client(server, revision="2025-11-25") as client:
        await client.call_tool("nothing")
        exporter, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
        await client.call_tool("nothing")
        trace.set_tracer_provider(tracers)
        await client.call_tool("nothing")
    (found,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    (duration,) = (each for each in found.metrics if each.name == "mcp.server.operation.duration")
    (point,) = duration.data.data_points
    print(point.count, point.attributes["mcp.protocol.version"], [each.name for each in exporter.get_finished_spans()])

trio.run(main)
"""
    played = subprocess.run(
        [sys.executable, "-c", script.replace("GIVEN", given)],
        capture_output=True,
        encoding="utf-8",
        env=unmeasured(),
        check=True,
    )
    assert played.stdout.split() == ["2", "2025-11-25", "['tools/call", "nothing']"], played.stderr
