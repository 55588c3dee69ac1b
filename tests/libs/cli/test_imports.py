"""What the first pod of `berth up` does not have to wait for: most of a start is spent on imports."""

from __future__ import annotations

import subprocess
import sys

import pytest


def imported(modules: str) -> set[str]:
    """Everything that importing these brings along, in a process of its own."""
    code = f"import sys, {modules}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_up_on_a_cluster_imports_no_bus_and_no_simulated_cluster() -> None:
    found = imported("berth.cli.commands.up")
    assert "berth.cli.stack.stack" in found
    assert not {"nats", "berth.bus", "berth.simcluster"} & found


@pytest.mark.parametrize("service", ["cluster_watcher", "quota_manager"])
def test_services_import_nothing_for_terminals(service: str) -> None:
    pytest.importorskip("rich")
    found = imported(f"berth.{service}.__main__")
    assert "structlog" in found
    assert not {"rich", "pygments"} & found
