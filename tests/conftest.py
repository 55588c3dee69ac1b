"""Servers that tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from berth.testing.nats_server import NatsServer

# Speed is never asserted, also not by hypothesis; integration tries the same examples every time, developers new ones.
settings.register_profile("berth", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("integration", settings.get_profile("berth"), derandomize=True)
settings.load_profile("integration" if os.environ.get("CI") else "berth")


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: a collection of garbage, which each simulated world makes, passes them by."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    """A nats-server of this test's own; kill it, restart it, as you like."""
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="module")
def shared_nats_server() -> Iterator[NatsServer]:
    """A nats-server for the tests of one file, which leave each other's streams and subjects alone."""
    with NatsServer() as server:
        yield server
