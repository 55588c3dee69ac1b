"""Prints the table of the run."""

from __future__ import annotations

import pytest
from tests.chaos.table import FILE, TABLE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TABLE.rows:
        terminalreporter.section("faults")
        for line in TABLE.lines():
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"also in {FILE}")
