"""Logs, traces, metrics and health of a Berth service.

Everything here is cheap to import and cheap when unused: the OpenTelemetry SDK and the HTTP server are loaded when they
are first needed.
"""

from berth.telemetry.capture import Line, captured_logs
from berth.telemetry.collected import collected_gauge
from berth.telemetry.health import Health, Verdict
from berth.telemetry.http import HealthServer, health_app, serve_health
from berth.telemetry.logs import Logger, configure_logging, get_logger
from berth.telemetry.metrics import counter, gauge, histogram
from berth.telemetry.setup import setup, shutdown
from berth.telemetry.tracing import current_traceparent, emit_span, recorded_spans, recording, span, tracer

__all__ = [
    "Health",
    "HealthServer",
    "Line",
    "Logger",
    "Verdict",
    "captured_logs",
    "collected_gauge",
    "configure_logging",
    "counter",
    "current_traceparent",
    "emit_span",
    "gauge",
    "get_logger",
    "health_app",
    "histogram",
    "recorded_spans",
    "recording",
    "serve_health",
    "setup",
    "shutdown",
    "span",
    "tracer",
]
