"""Servers that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berth.testing.nats_server import NatsServer


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
