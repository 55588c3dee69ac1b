"""Servers that tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from berth.testing.nats_server import NatsServer

# Speed is never asserted, also not by hypothesis; integration tries the same examples every time, developers new ones.
# A property that says nothing of its own is tried with so many; of what nobody may have twice each says how many.
settings.register_profile("berth", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("integration", settings.get_profile("berth"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("berth"), max_examples=1000)
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
