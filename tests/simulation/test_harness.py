"""What the observer is told of losses: of the streams that really lost something, and of what is left in them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.simulation import workload
from tests.simulation.harness import LEDGER, STATE, Harness, build
from tests.simulation.unmetered import unmetered


@pytest.fixture
def harness() -> Iterator[Harness]:
    """A cluster a moment after it came up."""
    harness = build(7, workload.cluster(random.Random(7), workload.Size()), {}, log_level="error")
    with harness.journal, unmetered():
        harness.world.run(5.0)
        yield harness
    harness.world.close()


@pytest.fixture
def told(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Streams of which a loss was told, and how many messages were left."""
    told: dict[str, int] = {}
    monkeypatch.setattr(harness.observer, "ledger_lost", lambda left: told.update({LEDGER: len(list(left))}))
    monkeypatch.setattr(harness.observer, "state_lost", lambda left: told.update({STATE: len(list(left))}))
    return told


def test_a_bucket_that_nobody_watches_is_no_loss(harness: Harness, told: dict[str, int]) -> None:
    with harness.nats.damaged():
        harness.nats.remake("KV_berth_quota")
    assert told == {}


def test_a_restart_loses_nothing(harness: Harness, told: dict[str, int]) -> None:
    with harness.nats.damaged():
        harness.nats.stop()
        harness.nats.start()
    assert told == {}


def test_a_lost_tail_is_told_of_its_stream_alone(harness: Harness, told: dict[str, int]) -> None:
    count = len(harness.nats.streams[STATE].messages)
    harness.nats.stop()
    with harness.nats.damaged():
        harness.nats.lose_tail(STATE, 1)
    assert list(told) == [STATE]
    assert told[STATE] in (count, count - 1)  # what the lost message had replaced is there again


def test_a_bus_that_is_empty_has_lost_both(harness: Harness, told: dict[str, int]) -> None:
    harness.nats.stop()
    with harness.nats.damaged():
        harness.nats.empty()
    assert told == {LEDGER: 0, STATE: 0}
