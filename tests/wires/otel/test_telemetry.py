"""`trio_mcp.otel`: what OpenTelemetry's own SDK sees of clients and servers."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio
import trio.testing
from lines import open_line
from opentelemetry.trace import SpanKind
from shared.otel_telemetry import Watched, attributes, make_server
from shared.otel_telemetry import watched as watched
from unmeasured import unmeasured


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
