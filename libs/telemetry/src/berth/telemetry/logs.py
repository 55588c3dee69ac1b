"""One log line per event: JSON for machines, readable on a terminal.

Every line carries time, level, service, instance, logger and, inside a span, trace and span id. Lines of libraries that
use Python's `logging` take the same road. Secrets are hidden (see `redaction`). Logging never raises into the work it
reports.
"""

import contextlib
import logging
import sys
import traceback
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import msgspec

from berth.telemetry import traceparent as w3c
from berth.telemetry.bare_structlog import (
    EventDict,
    ExcInfo,
    FilteringBoundLogger,
    Processor,
    WrappedLogger,
    structlog,
)
from berth.telemetry.redaction import redacted
from berth.telemetry.tracing import current_traceparent

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "pretty"]
Logger = FilteringBoundLogger

_LEVELS: Final[dict[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_LIBRARY_LEVEL: Final = logging.INFO  # their debug lines are about themselves
_RECORD_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_encoder = msgspec.json.Encoder(enc_hook=str)


def get_logger(name: str) -> Logger:
    """A logger.

    Call it as `log.info("pod placed", node=..., duration_ms=...)`: a fixed text, and fields for what varies.
    """
    logger: Logger = structlog.get_logger(name)
    return logger


def configure_logging(
    service: str,
    *,
    instance: str = "",
    level: Level = "info",
    format: Format = "auto",  # noqa: A002 - the setting is called log_format
    stream: TextIO | None = None,
) -> None:
    """Set up logging of this process, to standard error by default. Calling it again replaces the earlier set-up."""
    pretty = format == "pretty" or (format == "auto" and _Out(stream, "").is_terminal())
    identity = {"service": service, **({"instance": instance} if instance else {})}
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            _Identity(identity),
            _add_trace,
            _format_exception,
            _redact,
            _pretty_renderer() if pretty else _render_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda name="": _Out(stream, name),
        cache_logger_on_first_use=False,
    )
    _route_standard_logging(max(_LEVELS[level], _LIBRARY_LEVEL))


class _Out:
    """Where rendered lines go. A closed or broken stream loses the line, not the work."""

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._stream = stream
        self.name = name

    def is_terminal(self) -> bool:
        with contextlib.suppress(ValueError, AttributeError):
            return (self._stream or sys.stderr).isatty()
        return False

    def write(self, line: str) -> None:
        stream = self._stream or sys.stderr
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.write(line + "\n")  # one write, so that lines of several threads don't mix
            stream.flush()

    debug = info = warning = warn = error = critical = fatal = exception = log = msg = write


class _Identity:
    def __init__(self, identity: dict[str, str]) -> None:
        self._identity = identity

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        event.update(self._identity)
        name = getattr(logger, "name", "")
        if name:
            event["logger"] = name
        return event


def _add_trace(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    current = w3c.parse(current_traceparent())
    if current is not None:
        event.setdefault("trace_id", current.trace_id)
        event.setdefault("span_id", current.span_id)
    return event


def _format_exception(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    error = _error_of(event.pop("exc_info", None))
    if error is not None:
        event["exception"] = "".join(traceback.format_exception(error)).rstrip()
    return event


def _error_of(given: ExcInfo | BaseException | bool | None) -> BaseException | None:
    if isinstance(given, BaseException):
        return given
    if isinstance(given, tuple):
        return given[1]
    return sys.exc_info()[1] if given else None


def _redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    try:
        return {str(name): redacted(str(name), value) for name, value in event.items()}
    except Exception as error:  # a value whose __str__ fails
        return {"event": str(event.get("event", ""))[:1000], "level": method, "log_problem": type(error).__name__}


def _render_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    line: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": event.pop("level", method),
        "service": event.pop("service", ""),
        "message": event.pop("event", ""),
    }
    for name, value in event.items():
        line[name if name not in line else f"{name}_"] = value
    try:
        return _encoder.encode(line).decode()
    except (ValueError, TypeError, OverflowError):  # lone surrogates, integers above 64 bits
        return _encoder.encode({_ascii(name): _ascii(value) for name, value in line.items()}).decode()


def _ascii(value: object) -> str:
    return str(value).encode("ascii", "backslashreplace").decode()


def _pretty_renderer() -> Processor:
    # Plain tracebacks: the rich ones print local variables, which may hold secrets.
    render = structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)

    def pretty(logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
        event["timestamp"] = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        return render(logger, method, event)

    return pretty


class _Route(logging.Handler):
    """Hands records of Python's `logging` to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            method = record.levelname.lower() if record.levelname.lower() in _LEVELS else "error"
            if record.levelno < logging.INFO:
                method = "debug"
            logger = structlog.get_logger(record.name)
            getattr(logger, method)(_message(record), exc_info=record.exc_info, **extra_of(record))
        except Exception:
            self.handleError(record)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that don't fit the format: better than losing the line
        return f"{record.msg} {record.args}"


def extra_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra=`, without names that our lines use themselves."""
    return {
        name: value
        for name, value in record.__dict__.items()
        if name not in _RECORD_FIELDS and name not in ("event", "exc_info")
    }


def _route_standard_logging(level: int) -> None:
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Route) or type(handler) is logging.StreamHandler:
            root.removeHandler(handler)
    root.addHandler(_Route())
    root.setLevel(level)
    logging.captureWarnings(True)
