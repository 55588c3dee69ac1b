"""Spans that follow a pod through the services, at a price that is only paid when somebody records them.

`span` surrounds work that happens now; `emit_span` records, afterwards, a piece of batch work whose start and end are
known. Both take and give traces as traceparent strings, since that is what messages carry.

Three cases, from cheap to dear. No exporter: nothing is recorded and the SDK is not even imported, but a traceparent
that came in goes out again, and a new trace gets ids, so that log lines of several services can be joined. An exporter,
but this trace is not sampled: the same. An exporter and a sampled trace: an OpenTelemetry SDK span.

Spans are for paths, not for every inner function. Nothing here fails the work it observes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Final

from berth.telemetry import traceparent as w3c

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import Link, Span, Tracer

AttributeValue = str | bool | int | float
Attributes = Mapping[str, AttributeValue]

LINKS_MAX: Final = 128

_current: ContextVar[str | None] = ContextVar("berth_traceparent", default=None)


class _Recording:
    """The provider in use and its tracer; both None while nothing is recorded."""

    provider: TracerProvider | None = None
    tracer: Tracer | None = None


_recording = _Recording()


def current_traceparent() -> str | None:
    """The traceparent of the innermost `span` of this task, for the header of an outgoing message; None outside any
    span.
    """
    return _current.get()


class span:  # noqa: N801 - reads as a statement: `with span("solve", parent=message.traceparent):`
    """Work that happens now, as a context manager.

    `parent` is the traceparent of the message that caused the work; without one (or with a malformed one) the span
    joins the current one of this task, or starts a trace. An exception marks the span as failed and goes on its way.
    """

    __slots__ = ("_attributes", "_context_token", "_links", "_name", "_parent", "_span", "_token", "traceparent")

    def __init__(
        self,
        name: str,
        parent: str | None = None,
        attributes: Attributes | None = None,
        links: Sequence[str | None] = (),
    ) -> None:
        self._name = name
        self._parent = parent
        self._attributes = attributes
        self._links = links
        self._span: Span | None = None
        self._context_token: Token[Context] | None = None
        self._token: Token[str | None] | None = None
        self.traceparent: str = ""

    def __enter__(self) -> span:
        parent = w3c.parse(self._parent) or w3c.parse(_current.get())
        if _recording.tracer is not None and (parent is None or parent.sampled):
            self._start(_recording.tracer, parent)
        else:
            self.traceparent = str(parent) if parent is not None else w3c.unsampled_root()
        self._token = _current.set(self.traceparent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        if self._span is not None:
            self._finish(self._span, error)

    def set(self, name: str, value: AttributeValue) -> None:
        """Add an attribute that was not known at the start."""
        if self._span is not None:
            self._span.set_attribute(name, value)

    @property
    def recording(self) -> bool:
        """Whether anybody will see this span: ask before computing a costly attribute."""
        return self._span is not None

    def _start(self, tracer: Tracer, parent: w3c.Traceparent | None) -> None:
        from opentelemetry import context, trace

        started = tracer.start_span(
            self._name, context=_context_of(parent), attributes=self._attributes, links=_links(self._links)
        )
        self.traceparent = _text_of(started)
        if started.is_recording():
            self._span = started
            self._context_token = context.attach(trace.set_span_in_context(started))

    def _finish(self, started: Span, error: BaseException | None) -> None:
        from opentelemetry import context
        from opentelemetry.trace import Status, StatusCode

        if self._context_token is not None:
            context.detach(self._context_token)
            self._context_token = None
        if isinstance(error, Exception):
            started.record_exception(error)
            started.set_status(Status(StatusCode.ERROR, type(error).__name__))
        started.end()
        self._span = None


def emit_span(
    name: str,
    parent: str | None,
    start_ns: int,
    end_ns: int,
    attributes: Attributes | None = None,
    links: Sequence[str | None] = (),
) -> str | None:
    """Record work that is already over, between two times in nanoseconds since the epoch.

    Returns the traceparent under which further work on the same thing should go on: the new span's when it was
    recorded, otherwise `parent` as it came (None when it was absent or malformed). Without a parent a new trace is
    started if an exporter is set.
    """
    origin = w3c.parse(parent)
    tracer = _recording.tracer
    if tracer is None or (origin is not None and not origin.sampled):
        return parent if origin is not None else None
    started = tracer.start_span(
        name, context=_context_of(origin), attributes=attributes, links=_links(links), start_time=start_ns
    )
    started.end(end_time=max(start_ns, end_ns))
    return _text_of(started)


def recording(parent: str | None = None) -> bool:
    """Whether a span under `parent` could be recorded; lets batch work skip the collecting of times and attributes."""
    if _recording.tracer is None:
        return False
    origin = w3c.parse(parent)
    return origin is None or origin.sampled


def tracer(name: str) -> Tracer:
    """An OpenTelemetry tracer, for code that needs more than `span`; it does nothing while nothing is recorded.

    Spans made with it are children of the enclosing `span`, but `current_traceparent` knows only `span`.
    """
    if _recording.provider is not None:
        return _recording.provider.get_tracer(name)
    from opentelemetry import trace

    return trace.NoOpTracer()


def start_tracing(service: str, *, instance: str, version: str, exporter: SpanExporter | None = None) -> None:
    """Record spans and send them over OTLP/HTTP (or to `exporter`), in batches, from a thread of their own.

    Endpoint, headers, time-outs, sampling (`OTEL_TRACES_SAMPLER`, default: follow the parent, record every new trace)
    and resource attributes are the standard `OTEL_*` variables, read by the SDK.
    """
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if exporter is None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    provider = _provider(service, instance, version)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _use(provider)


def stop_tracing(timeout_s: float = 2.0) -> bool:
    """Send what is waiting and stop recording.

    False when that took longer than `timeout_s`; the rest is then abandoned.
    """
    provider = _recording.provider
    _use(None)
    if provider is None:
        return True
    # Exporters retry for longer than a stopping process may live, so they get a thread that can be left behind.
    stopper = threading.Thread(target=provider.shutdown, name="stop-tracing", daemon=True)
    stopper.start()
    stopper.join(timeout_s)
    return not stopper.is_alive()


@contextlib.contextmanager
def recorded_spans() -> Iterator[InMemorySpanExporter]:
    """Record into memory for the length of a `with` block, whatever the environment says; for tests."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    before = _recording.provider
    exporter = InMemorySpanExporter()
    provider = _provider("test", "test", "0")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    _use(provider)
    try:
        yield exporter
    finally:
        _use(before)
        provider.shutdown()


def _provider(service: str, instance: str, version: str) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    resource = Resource.create(
        {
            "service.name": service,
            "service.namespace": "berth",
            "service.instance.id": instance,
            "service.version": version,
        }
    )
    return TracerProvider(resource=resource, shutdown_on_exit=False)


def _use(provider: TracerProvider | None) -> None:
    _recording.provider = provider
    _recording.tracer = provider.get_tracer("berth") if provider is not None else None


def _context_of(parent: w3c.Traceparent | None) -> Context:
    from opentelemetry import trace
    from opentelemetry.context import Context

    if parent is None:
        return Context()  # empty, not None: None would mean "whatever is current"
    remote = trace.SpanContext(
        trace_id=int(parent.trace_id, 16),
        span_id=int(parent.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED if parent.sampled else trace.TraceFlags.DEFAULT),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(remote), Context())


def _links(texts: Sequence[str | None]) -> list[Link]:
    if not texts:
        return []
    from opentelemetry import trace

    links = []
    for text in texts[:LINKS_MAX]:
        linked = w3c.parse(text)
        if linked is not None and linked.sampled:
            links.append(trace.Link(trace.get_current_span(_context_of(linked)).get_span_context()))
    return links


def _text_of(started: Span) -> str:
    context = started.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"
