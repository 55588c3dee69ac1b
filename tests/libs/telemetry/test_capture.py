"""Lines as values: all of them, from the level asked for, and nothing left behind."""

import logging

import pytest
import structlog

from berth.telemetry import captured_logs, get_logger

made_early = get_logger("berth.early")


def test_lines_of_services_and_libraries_come_as_values(capfd):
    lines = []
    with captured_logs(lines.append):
        made_early.info("pod placed", node="n1")
        made_early.debug("not asked for")
        logging.getLogger("berth.lib").warning("of a %s", "library", extra={"stream": "s"})
        error = ValueError("x")
        get_logger("berth.late").error("failed", exc_info=error)
    assert [(line.level, line.logger, line.message) for line in lines] == [
        ("info", "berth.early", "pod placed"),
        ("warning", "berth.lib", "of a library"),
        ("error", "berth.late", "failed"),
    ]
    assert lines[0].fields == {"node": "n1"}
    assert lines[1].fields == {"stream": "s"}
    assert lines[2].fields == {"exc_info": error}
    assert capfd.readouterr() == ("", "")


def test_afterwards_everything_is_as_before():
    before = structlog.get_config(), structlog.is_configured(), logging.getLogger("berth").level
    taken = []
    with pytest.raises(KeyError), captured_logs(taken.append, "debug"):
        raise KeyError
    assert (structlog.get_config(), structlog.is_configured(), logging.getLogger("berth").level) == before
    logging.getLogger("berth.lib").warning("nobody takes this")
    assert taken == []
