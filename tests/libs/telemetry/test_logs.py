import io
import json
import logging
import warnings

import pytest
import structlog

from berth.telemetry import configure_logging, get_logger, span
from berth.telemetry.redaction import HIDDEN

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def out():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_says_who_when_and_what(out):
    configure_logging("quota-manager", instance="q-0", stream=out)
    get_logger("berth.quota_manager.shell").info("runtime changed", group="team-a", cpu_milli=1500)
    (line,) = lines(out)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "service": "quota-manager",
        "instance": "q-0",
        "message": "runtime changed",
        "logger": "berth.quota_manager.shell",
        "group": "team-a",
        "cpu_milli": 1500,
    }


def test_the_trace_of_the_span_is_on_the_line(out):
    configure_logging("quota-manager", stream=out)
    with span("handle", parent=SAMPLED):
        get_logger("x").info("in")
    get_logger("x").info("out")
    inside, outside = lines(out)
    assert inside["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert inside["span_id"] == "b7ad6b7169203331"
    assert "trace_id" not in outside


def test_levels(out):
    configure_logging("s", level="warning", stream=out)
    get_logger("x").info("no")
    get_logger("x").warning("yes")
    logging.getLogger("lib").info("no")
    assert [line["message"] for line in lines(out)] == ["yes"]


def test_standard_logging_takes_the_same_road(out):
    configure_logging("s", stream=out)
    logging.getLogger("aiohttp.server").warning("slow %s", "client")
    logging.getLogger("noisy").debug("hidden")
    logging.getLogger("lib").log(logging.CRITICAL, "very bad")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("lib").exception("failed")
    first, second, third = lines(out)
    assert (first["level"], first["logger"], first["message"]) == ("warning", "aiohttp.server", "slow client")
    assert (second["level"], second["message"]) == ("error", "very bad")
    assert third["exception"].endswith("ValueError: broken")


def test_extra_fields_of_a_library_are_kept(out):
    configure_logging("s", stream=out)
    logging.getLogger("lib").warning(
        "slow", extra={"subject": "a.b", "password": "hunter2", "event": "lost", "service": "x"}
    )
    (line,) = lines(out)
    assert (line["subject"], line["password"], line["message"], line["service"]) == ("a.b", HIDDEN, "slow", "s")


def test_a_library_whose_arguments_do_not_fit_keeps_its_line(out):
    configure_logging("s", stream=out)
    route = logging.getLogger().handlers[-1]
    route.handle(logging.LogRecord("lib", logging.WARNING, "f.py", 1, "%d pods", ("many",), None))
    assert lines(out)[0]["message"] == "%d pods ('many',)"


def test_warnings_are_logged(out):
    configure_logging("s", stream=out)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert "old thing" in lines(out)[0]["message"]


def test_exceptions_are_text_with_the_traceback_and_without_secrets(out):
    configure_logging("s", stream=out)
    try:
        raise ConnectionError("nats://u:hunter2@bus refused")
    except ConnectionError as error:
        get_logger("x").error("no bus", exc_info=error)
        get_logger("x").exception("no bus")
    for line in lines(out):
        assert "Traceback" in line["exception"]
        assert HIDDEN in line["exception"]
        assert "hunter2" not in line["exception"]


def test_secrets_are_hidden(out):
    configure_logging("s", stream=out)
    get_logger("x").info(
        "settings", nats_password="hunter2", nested={"token": "hunter2"}, headers=[{"Authorization": "x"}]
    )
    assert "hunter2" not in out.getvalue()
    assert lines(out)[0]["nats_password"] == HIDDEN


class _Unprintable:
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value", ["\ud800", 2**100, float("nan"), {1: {2: 3}}, object(), b"\xff", {"a", "b"}, _Unprintable(), "x" * 10**6]
)
def test_no_value_breaks_the_log(out, value):
    configure_logging("s", stream=out)
    get_logger("x").info("odd", value=value)
    (line,) = lines(out)
    assert "odd" in line.get("message", "")
    assert len(out.getvalue()) < 40_000


def test_fields_cannot_replace_the_frame_of_a_line(out):
    configure_logging("s", stream=out)
    get_logger("x").info("m", time="never", message="other")
    (line,) = lines(out)
    assert line["message"] == "m"
    assert line["time"] != "never"
    assert line["time_"] == "never"


def test_a_closed_stream_loses_the_line_only():
    out = io.StringIO()
    try:
        configure_logging("s", stream=out)
        out.close()
        get_logger("x").info("lost")
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers[:] = [
            handler for handler in logging.getLogger().handlers if type(handler).__name__ != "_Route"
        ]


def test_pretty_on_request(out):
    configure_logging("s", format="pretty", stream=out)
    try:
        password = "hunter2"
        raise ValueError(len(password))
    except ValueError:
        get_logger("x").exception("failed", node="n1")
    text = out.getvalue()
    assert "failed" in text
    assert "n1" in text
    assert "ValueError: 7" in text
    assert "hunter2" not in text.replace('password = "hunter2"', "")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def test_json_where_nobody_watches(out):
    configure_logging("s", stream=out)
    get_logger("x").info("m")
    assert lines(out)
