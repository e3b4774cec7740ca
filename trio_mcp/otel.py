"""OpenTelemetry: spans and metrics of clients and servers, and traces that go on at the other end.

::

    from trio_mcp.otel import Telemetry

    telemetry = Telemetry()
    server = Server("orders", middleware=[telemetry])
    async with open_client("https://example.com/mcp", middleware=[telemetry]) as client: ...

Needs ``pip install trio-mcp[otel]``, which brings OpenTelemetry's API alone. What samples and exports is set up
by the program, with OpenTelemetry's SDK; without one, nothing is recorded.

Spec: OpenTelemetry's semantic conventions for MCP (in development); 2026-07-28, basic, "OpenTelemetry trace
context"; SEP-414.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Final, cast, final
from weakref import WeakKeyDictionary

import attrs
import trio

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as _error:
    raise ImportError("trio_mcp.otel needs OpenTelemetry: pip install 'trio-mcp[otel]'") from _error

from ._codec._json import is_object
from ._core._http1 import version_of
from ._core._lifecycle import target_of
from ._errors import METHOD_NOT_FOUND, RequestError
from ._peer._middleware import CallNext, ConnectionInfo, Message
from ._printable import printable
from ._revisions import METHODS, Revision
from ._version import __version__

__all__ = ["Telemetry"]

MAX_ATTRIBUTE: Final = 200
"""The longest text in an attribute, in characters: strangers choose methods, names and messages."""

MAX_CARRIED: Final = 8_192
"""The longest trace context that is taken from a message, in characters, and so is that of baggage."""

_FIELDS: Final = frozenset({"traceparent", "tracestate", "baggage"})
_PROPAGATOR: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])

_BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_NAMED: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_TRANSPORTS: Final = {
    "stdio": "pipe",
    "http": "tcp",
    "websocket": "tcp",
    "tls": "tcp",
    "tcp": "tcp",
    "unix": "unix",
}
_PROTOCOLS: Final = {"http": "http", "websocket": "websocket"}
_REVISIONS: Final = {revision.value: revision for revision in Revision}
_OTHER: Final = "_OTHER"

_Attributes = dict[str, str]

# Where OpenTelemetry's API keeps the providers that a program may set at any time. To ask it for them costs as
# much as all else that is done for a message which nobody records. Kept elsewhere, they count as set.
_DEFAULTS: Final = ((trace, "_TRACER_PROVIDER"), (getattr(metrics, "_internal", metrics), "_METER_PROVIDER"))


@final
class Telemetry:
    """A middleware for servers and clients that records each message as a span, and measures.

    One object serves any number of clients and servers. What a handler does belongs to the span of its request,
    in its threads and tasks, too; what a client sends belongs to the span that is current where it is called.

    A span ends when its request does, however that ends: with ``error.type`` the JSON-RPC code, ``tool_error`` of
    a tool that has failed, ``timeout`` or ``cancelled`` of a request that was given up, or else the type of the
    exception. Arguments, results and session ids are never recorded.

    The metrics: ``mcp.client.operation.duration``, ``mcp.server.operation.duration``,
    ``mcp.client.session.duration``, ``mcp.server.session.duration`` (histograms, in seconds), and how many there
    are now, ``mcp.client.active_requests``, ``mcp.server.active_requests``, ``mcp.client.active_sessions``,
    ``mcp.server.active_sessions``. Over HTTP modern requests have no sessions.

    Args:
        tracer_provider: What records spans; the program's default by default.
        meter_provider: What measures; likewise.
        joins_traces: Whether the span of a request that was received belongs to the trace that its sender names,
            whose baggage it then has. If not, a trace begins here and refers to the other one by a link: for
            servers that anybody can reach, as otherwise clients choose what is sampled.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        joins_traces: bool = True,
    ) -> None:
        self._joins_traces = joins_traces
        given = tracer_provider, meter_provider
        api = "opentelemetry.trace", "opentelemetry.metrics"  # whose own providers record nothing
        self._records = any(each is not None and not type(each).__module__.startswith(api) for each in given)
        # Of the API's providers, only these never become others: a proxy given here passes on what is set later.
        never = trace.NoOpTracerProvider, metrics.NoOpMeterProvider
        self._defaults = [
            default for each, default in zip(given, _DEFAULTS, strict=True) if not isinstance(each, never)
        ]
        self._tracer = trace.get_tracer("trio_mcp", __version__, tracer_provider)
        self._instruments = _Instruments.of(meter_provider)
        self._revisions: WeakKeyDictionary[ConnectionInfo, str] = WeakKeyDictionary()

    async def __call__(self, message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        """Record a message; see `Middleware`. Cancelled, its span ends as cancelled."""
        if message.method != "initialize" and self._has_nothing_to_do(message):
            return await call_next(message)
        operation = self._begin(message)
        token = contexts.attach(operation.context)
        try:
            if message.direction == "sent":
                message = message.evolve(params=_carrying(message.params, operation.context))
            result = await call_next(message)
            operation.note_result(result)
            if message.method == "initialize" and message.connection is not None and result is not None:
                self._revisions[message.connection] = str(result.get("protocolVersion"))
            return result
        except BaseException as error:
            operation.note_error(error)
            raise
        finally:
            contexts.detach(token)
            self._end(operation)

    @contextmanager
    def session(self, connection: ConnectionInfo) -> Generator[None]:
        """Measure a connection; see `SessionMiddleware`."""
        since = trio.current_time()
        attributes = _shared(connection.transport, None, is_call=False)
        is_open = self._instruments.open[connection.side]
        is_open.add(1, attributes)
        try:
            yield
        finally:
            is_open.add(-1, attributes)
            revision = self._revisions.get(connection)
            if revision in _REVISIONS:
                attributes = {**attributes, "mcp.protocol.version": revision}
            self._instruments.sessions[connection.side].record(trio.current_time() - since, attributes)

    def _has_nothing_to_do(self, message: Message) -> bool:
        """Whether nothing records now, and there is no context to pass on: as in programs without the SDK."""
        if self._records or contexts.get_current() or _is_carrying(message.params):
            return False
        have_been_set = [name for module, name in self._defaults if getattr(module, name, module) is not None]
        return not have_been_set

    def _begin(self, message: Message) -> _Operation:
        is_sent = message.direction == "sent"
        shared = self._shared(message)
        attributes, name = dict(shared), _cut(message.method)
        attributes["mcp.method.name"] = name
        target = target_of(message.params)
        target = None if target is None else _cut(target)
        if (named := _NAMED.get(message.method)) is not None and target is not None:
            attributes[named] = target
            name = f"{name} {target}"
        elif target is not None and message.method.startswith(("resources/", "notifications/resources/")):
            attributes["mcp.resource.uri"] = target
        if message.id is not None:
            attributes["jsonrpc.request.id"] = _cut(str(message.id))
        client = getattr(message.origin, "client", None)
        if isinstance(client, str):
            attributes["client.address"] = _cut(client)
        context, links = contexts.get_current(), list[Link]()
        if not is_sent:
            context, links = self._parent(message, context)
        span = self._tracer.start_span(
            name, context, SpanKind.CLIENT if is_sent else SpanKind.SERVER, attributes, links
        )
        if not message.is_notification:
            self._instruments.active[message.direction].add(1, shared)
        inside = trace.set_span_in_context(span, context)
        return _Operation(
            message, span, inside, shared, attributes["mcp.method.name"], target, trio.current_time()
        )

    def _parent(self, message: Message, context: Context) -> tuple[Context, list[Link]]:
        """Return the context for the span of a message that was received, and what else it refers to.

        The span that is current here may be that of an HTTP request, or of what has begun a session long ago.
        """
        here = trace.get_current_span(context)
        remote = Context()
        if _is_carrying(message.params):
            remote = _PROPAGATOR.extract(_carried(message.params), remote)
        elif not context:
            return context, []
        there = trace.get_current_span(remote).get_span_context()
        linked = [each for each in (here.get_span_context(),) if each.is_valid]
        if self._joins_traces and there.is_valid:
            return remote, [Link(each) for each in linked]
        if here.is_recording():
            linked = []
        else:
            context = trace.set_span_in_context(trace.INVALID_SPAN, context)
        if there.is_valid:
            linked.append(there)
        return context, [Link(each) for each in linked]

    def _shared(self, message: Message) -> Mapping[str, str]:
        """Return the attributes of spans and metrics that do not depend on what the message says."""
        connection = message.connection
        revision = version_of(message.params)
        if revision is None and connection is not None:
            revision = self._revisions.get(connection)
        transport = None if connection is None else connection.transport
        return _shared(
            transport, revision if revision in _REVISIONS else None, is_call=message.method == "tools/call"
        )

    def _end(self, operation: _Operation) -> None:
        message, span = operation.message, operation.span
        if operation.is_made_up or (operation.code == METHOD_NOT_FOUND and message.direction == "received"):
            span.update_name(_OTHER)
        span.end()
        if not message.is_notification:
            self._instruments.active[message.direction].add(-1, operation.shared)
        self._instruments.operations[message.direction].record(
            trio.current_time() - operation.since, operation.measured(), operation.context
        )


@final
class _Gauge:
    """How many there are now of something. To count costs little: it is looked at when metrics are collected.

    Args:
        meter: What collects them.
        name: Its name.
        unit: What is counted.
        description: For people.
    """

    def __init__(self, meter: Meter, name: str, unit: str, description: str) -> None:
        self._counts: dict[tuple[tuple[str, str], ...], int] = {}
        meter.create_observable_up_down_counter(name, [self._observe], unit, description)

    def add(self, number: int, attributes: Mapping[str, str]) -> None:
        """Count so many more with these attributes, which are those of `_shared`."""
        key = tuple(attributes.items())
        self._counts[key] = self._counts.get(key, 0) + number

    def _observe(self, _: CallbackOptions) -> list[Observation]:
        # In a thread of OpenTelemetry's: the list is made at once.
        return [Observation(count, dict(attributes)) for attributes, count in list(self._counts.items())]


@final
class _Instruments:
    """What is measured, once for each meter provider, however many `Telemetry` there are: all count together.

    Attributes:
        operations: How long requests and notifications take, by direction.
        sessions: How long sessions last, by side.
        active: How many requests there are, by direction.
        open: How many sessions there are, by side.
    """

    _default: ClassVar[_Instruments | None] = None
    _of: ClassVar[WeakKeyDictionary[MeterProvider, _Instruments]] = WeakKeyDictionary()

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter("trio_mcp", __version__)
        self.operations = {
            direction: meter.create_histogram(
                f"mcp.{side}.operation.duration",
                unit="s",
                description=f"The duration of requests and notifications, as the {whose} sees it.",
                explicit_bucket_boundaries_advisory=_BUCKETS,
            )
            for direction, side, whose in (("sent", "client", "sender"), ("received", "server", "receiver"))
        }
        self.sessions = {
            side: meter.create_histogram(
                f"mcp.{side}.session.duration",
                unit="s",
                description=f"The duration of sessions, as the {side} sees it.",
                explicit_bucket_boundaries_advisory=_BUCKETS,
            )
            for side in ("client", "server")
        }
        self.active = {
            direction: _Gauge(
                meter,
                f"mcp.{side}.active_requests",
                "{request}",
                f"How many requests are {direction} and not answered.",
            )
            for direction, side in (("sent", "client"), ("received", "server"))
        }
        self.open = {
            side: _Gauge(meter, f"mcp.{side}.active_sessions", "{session}", "How many sessions are open.")
            for side in ("client", "server")
        }

    @classmethod
    def of(cls, given: MeterProvider | None) -> _Instruments:
        """Return those of a provider, or of the program's default, which may be set later."""
        default = metrics.get_meter_provider()
        if given is None or given is default:
            if cls._default is None:
                cls._default = cls(default)
            return cls._default
        if (found := cls._of.get(given)) is None:
            found = cls._of[given] = cls(given)
        return found


@final
@attrs.define(eq=False)
class _Operation:
    """A message that is being sent or served.

    Attributes:
        message: The message.
        span: Its span.
        context: The context in which the span is current.
        shared: The attributes that its metrics share with the span.
        method: Its method, cut.
        target: The name or URI of what it is about, cut.
        since: When it began, on Trio's clock.
        failure: How it has failed, as ``error.type``; `None` if it has not.
        code: The code of the error that has answered it.
    """

    message: Message
    span: Span
    context: Context
    shared: Mapping[str, str]
    method: str
    target: str | None
    since: float
    failure: str | None = attrs.field(default=None, init=False)
    code: int | None = attrs.field(default=None, init=False)

    @property
    def is_made_up(self) -> bool:
        """Whether it is a notification that MCP does not have: unlike a request, no error tells of it."""
        message = self.message
        return message.is_notification and message.direction == "received" and message.method not in METHODS

    def note_result(self, result: Mapping[str, Any] | None) -> None:
        if result is not None and result.get("isError") is True:
            self._fail("tool_error")

    def note_error(self, error: BaseException) -> None:
        if isinstance(error, RequestError):
            self.code = error.code
            self.span.set_attribute("rpc.response.status_code", str(error.code))
            self._fail(str(error.code), error.message)
        elif (cancelled := _cancelled(error)) is not None:
            is_late = getattr(cancelled, "source", None) == "deadline"
            self._fail("timeout" if is_late else "cancelled", str(cancelled))
        else:
            kind = type(error)
            if self.message.direction == "received":
                self.span.record_exception(error)
            self._fail(f"{kind.__module__}.{kind.__qualname__}")

    def _fail(self, kind: str, description: str | None = None) -> None:
        self.failure = kind
        self.span.set_attribute("error.type", kind)
        told = None if description is None else printable(description, MAX_ATTRIBUTE)
        self.span.set_status(Status(StatusCode.ERROR, told))

    def measured(self) -> _Attributes:
        """Return the attributes of its duration. A name that a stranger has made up is none of them."""
        message, attributes = self.message, dict(self.shared)
        is_known = self.code is None or message.direction == "sent"
        is_method = not self.is_made_up and (is_known or message.method in METHODS)
        attributes["mcp.method.name"] = self.method if is_method else _OTHER
        if is_known and self.target is not None and (named := _NAMED.get(message.method)) is not None:
            attributes[named] = self.target
        if self.failure is not None:
            attributes["error.type"] = self.failure
        if self.code is not None:
            attributes["rpc.response.status_code"] = str(self.code)
        return attributes


def _cancelled(error: BaseException) -> trio.Cancelled | None:
    """Return the cancellation that an exception is, or that is all that a group of them has."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        found = [_cancelled(each) for each in group.exceptions]
        return None if None in found else found[0]
    return error if isinstance(error, trio.Cancelled) else None


@lru_cache(256)
def _shared(transport: str | None, revision: str | None, *, is_call: bool) -> Mapping[str, str]:
    """Return the attributes of what comes over a transport; all get the same ones, which nobody changes."""
    attributes: _Attributes = {}
    if transport is not None:
        if (below := _TRANSPORTS.get(transport)) is not None:
            attributes["network.transport"] = below
        if (protocol := _PROTOCOLS.get(transport)) is not None:
            attributes["network.protocol.name"] = protocol
    if revision is not None:
        attributes["mcp.protocol.version"] = revision
    if is_call:
        attributes["gen_ai.operation.name"] = "execute_tool"
    return attributes


def _cut(text: str) -> str:
    return printable(text, MAX_ATTRIBUTE)


def _carrying(params: Mapping[str, Any] | None, context: Context) -> Mapping[str, Any] | None:
    """Return parameters with the trace context in their `_meta`, unless the caller has put another one there."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, context)
    if not carrier:
        return params
    meta: Any = (params or {}).get("_meta")
    if meta is not None and not is_object(meta):
        return params  # as it is: the other side says what is wrong with it
    return {**(params or {}), "_meta": {**carrier, **(meta or {})}}


def _is_carrying(params: Mapping[str, Any] | None) -> bool:
    """Whether a message brings anything of a trace context."""
    meta: Any = None if params is None else params.get("_meta")
    return is_object(meta) and not _FIELDS.isdisjoint(meta)


def _carried(params: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the trace context of a message."""
    meta: Any = (params or {}).get("_meta")
    if not is_object(meta):
        return {}
    found = {name: meta.get(name) for name in _FIELDS}
    return {k: v for k, v in found.items() if isinstance(v, str) and len(v) <= MAX_CARRIED}
