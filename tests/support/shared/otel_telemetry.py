"""What the tests of telemetry share in several layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from opentelemetry import baggage
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

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
