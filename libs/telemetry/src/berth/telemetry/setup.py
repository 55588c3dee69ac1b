"""Telemetry of one process, in one call at its start and one at its end."""

import os
from collections.abc import Mapping
from typing import Final

from berth.telemetry.logs import Format, Level, configure_logging
from berth.telemetry.tracing import start_tracing, stop_tracing

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def setup(
    service: str,
    *,
    instance: str = "",
    version: str = "0",
    log_level: Level = "info",
    log_format: Format = "auto",
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Logging at once; traces over OTLP only when `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector."""
    configure_logging(service, instance=instance, level=log_level, format=log_format)
    if any(environ.get(name) for name in _ENDPOINTS) and environ.get("OTEL_SDK_DISABLED", "").lower() != "true":
        start_tracing(service, instance=instance, version=version)


def shutdown(timeout_s: float = 2.0) -> None:
    """Send the spans that wait, for at most `timeout_s`."""
    stop_tracing(timeout_s)
