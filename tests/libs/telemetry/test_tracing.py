import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import structlog
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode, get_current_span

from berth.telemetry import (
    current_traceparent,
    emit_span,
    recorded_spans,
    recording,
    setup,
    shutdown,
    span,
    tracer,
)
from berth.telemetry import traceparent as w3c
from berth.telemetry.tracing import LINKS_MAX, start_tracing, stop_tracing

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def test_without_an_exporter_what_came_in_goes_out():
    assert current_traceparent() is None
    with span("handle", parent=SAMPLED) as outer:
        assert outer.traceparent == current_traceparent() == SAMPLED
        assert not outer.recording
        with span("inner"):
            assert current_traceparent() == SAMPLED
    assert current_traceparent() is None
    assert emit_span("batch", SAMPLED, 1, 2) == SAMPLED
    assert emit_span("batch", None, 1, 2) is None
    assert not recording(SAMPLED)


def test_without_an_exporter_a_new_trace_still_has_ids():
    with span("start"):
        first = w3c.parse(current_traceparent())
    with span("start"):
        second = w3c.parse(current_traceparent())
    assert first is not None
    assert second is not None
    assert first.trace_id != second.trace_id
    assert not first.sampled


def test_a_malformed_parent_is_never_passed_on():
    evil = SAMPLED + "\r\nX: y"
    with span("handle", parent=evil):
        assert current_traceparent() != evil
        assert w3c.parse(current_traceparent())
    assert emit_span("batch", evil, 1, 2) is None


def test_recorded_spans_form_a_tree_across_messages():
    with recorded_spans() as exporter:
        with span("watch") as first:
            carried = current_traceparent()
            assert carried == first.traceparent
        with span("solve", parent=carried, attributes={"pods": 3}) as second:
            second.set("path", "fast")
            assert second.recording
            carried = current_traceparent()
        after = emit_span("bind", carried, 1_000, 5_000, {"node": "n1"})
        spans = {item.name: item for item in exporter.get_finished_spans()}
    assert set(spans) == {"watch", "solve", "bind"}
    trace_ids = {item.context.trace_id for item in spans.values()}
    assert len(trace_ids) == 1
    assert spans["watch"].parent is None
    assert spans["solve"].parent.span_id == spans["watch"].context.span_id
    assert spans["solve"].parent.is_remote
    assert dict(spans["solve"].attributes) == {"pods": 3, "path": "fast"}
    assert spans["bind"].parent.span_id == spans["solve"].context.span_id
    assert (spans["bind"].start_time, spans["bind"].end_time) == (1_000, 5_000)
    assert w3c.parse(after).span_id == f"{spans['bind'].context.span_id:016x}"


def test_an_unsampled_parent_is_not_recorded_but_passed_on():
    with recorded_spans() as exporter:
        with span("handle", parent=UNSAMPLED) as handle:
            assert current_traceparent() == UNSAMPLED
            handle.set("ignored", 1)
        assert emit_span("batch", UNSAMPLED, 1, 2) == UNSAMPLED
        assert not recording(UNSAMPLED)
        assert recording(SAMPLED)
        assert recording()
        assert exporter.get_finished_spans() == ()


def test_a_failure_is_marked_and_goes_on():
    with recorded_spans() as exporter:
        with pytest.raises(KeyError), span("handle"):
            raise KeyError("node")
        (failed,) = exporter.get_finished_spans()
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "KeyError"
    assert failed.events[0].name == "exception"
    assert current_traceparent() is None


def test_links_are_bounded_and_malformed_ones_dropped():
    with recorded_spans() as exporter:
        with span("batch", links=[SAMPLED, None, "x", UNSAMPLED]):
            pass
        emit_span("later", None, 1, 2, links=[SAMPLED] * 500)
        batch, later = exporter.get_finished_spans()
    assert [f"{link.context.span_id:016x}" for link in batch.links] == ["b7ad6b7169203331"]
    assert len(later.links) == LINKS_MAX


def test_an_end_before_the_start_becomes_the_start():
    with recorded_spans() as exporter:
        emit_span("later", None, 10, 2)
        assert exporter.get_finished_spans()[0].end_time == 10


async def test_tasks_have_their_own_current_span():
    async def handle(parent):
        with span("handle", parent=parent):
            await asyncio.sleep(0)
            return current_traceparent()

    other = SAMPLED.replace("0af7", "1af7")
    assert await asyncio.gather(handle(SAMPLED), handle(other)) == [SAMPLED, other]
    assert current_traceparent() is None


def test_opentelemetry_api_sees_the_current_span():
    with recorded_spans() as exporter:
        with span("outer") as outer, tracer("library").start_as_current_span("inner"):
            assert get_current_span().is_recording()
        inner = next(item for item in exporter.get_finished_spans() if item.name == "inner")
    assert f"{inner.parent.span_id:016x}" == w3c.parse(outer.traceparent).span_id
    assert not get_current_span().is_recording()
    with tracer("library").start_as_current_span("nothing") as nothing:
        assert not nothing.is_recording()


class _Keeps(SpanExporter):
    def __init__(self):
        self.names = []
        self.services = set()

    def export(self, spans):
        self.names += [item.name for item in spans]
        self.services |= {item.resource.attributes["service.name"] for item in spans}
        return SpanExportResult.SUCCESS


class _Hangs(SpanExporter):
    def export(self, spans):
        time.sleep(30)
        return SpanExportResult.FAILURE


def test_stopping_sends_what_waits():
    exporter = _Keeps()
    start_tracing("quota-manager", instance="q-0", version="1", exporter=exporter)
    with span("handle"):
        pass
    assert stop_tracing()
    assert exporter.names == ["handle"]
    assert exporter.services == {"quota-manager"}
    assert not recording()
    assert stop_tracing()


def test_stopping_does_not_wait_for_a_dead_collector():
    start_tracing("quota-manager", instance="q-0", version="1", exporter=_Hangs())
    with span("handle"):
        pass
    began = time.monotonic()
    assert not stop_tracing(timeout_s=0.05)
    assert time.monotonic() - began < 10


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


def test_an_endpoint_in_the_environment_gets_the_spans(monkeypatch):
    with HTTPServer(("127.0.0.1", 0), _Collector) as collector:
        collector.received = []
        thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
            with _logging_restored():
                setup("quota-manager", instance="q-0", version="1")
            with span("handle-message"):
                pass
            shutdown(timeout_s=20)
        finally:
            collector.shutdown()
            thread.join()
        ((path, body),) = collector.received
    assert path == "/v1/traces"
    assert b"handle-message" in body
    assert b"quota-manager" in body


@contextlib.contextmanager
def _logging_restored():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)


def test_the_sdk_is_not_loaded_until_needed():
    script = """
import sys
import berth.telemetry
from berth.telemetry import span, emit_span, setup
setup("quota-manager", environ={})
with span("handle"):
    emit_span("x", None, 1, 2)
for heavy in ("opentelemetry", "aiohttp"):
    assert heavy not in sys.modules, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
