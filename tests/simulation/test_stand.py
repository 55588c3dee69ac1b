"""What the observer is told of losses: of the streams that really lost something, and of what is left in them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.simulation import workload
from tests.simulation.stand import LEDGER, STATE, Stand, build
from tests.simulation.unmetered import unmetered


@pytest.fixture
def stand() -> Iterator[Stand]:
    """A cluster a moment after it came up."""
    stand = build(7, workload.cluster(random.Random(7), workload.Size()), {}, log_level="error")
    with stand.journal, unmetered():
        stand.world.run(5.0)
        yield stand
    stand.world.close()


@pytest.fixture
def told(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Streams of which a loss was told, and how many messages were left."""
    told: dict[str, int] = {}
    monkeypatch.setattr(stand.observer, "ledger_lost", lambda left: told.update({LEDGER: len(list(left))}))
    monkeypatch.setattr(stand.observer, "state_lost", lambda left: told.update({STATE: len(list(left))}))
    return told


def test_a_bucket_that_nobody_watches_is_no_loss(stand: Stand, told: dict[str, int]) -> None:
    with stand.nats.damaged():
        stand.nats.remake("KV_berth_quota")
    assert told == {}


def test_a_restart_loses_nothing(stand: Stand, told: dict[str, int]) -> None:
    with stand.nats.damaged():
        stand.nats.stop()
        stand.nats.start()
    assert told == {}


def test_a_lost_tail_is_told_of_its_stream_alone(stand: Stand, told: dict[str, int]) -> None:
    count = len(stand.nats.streams[STATE].messages)
    stand.nats.stop()
    with stand.nats.damaged():
        stand.nats.lose_tail(STATE, 1)
    assert list(told) == [STATE]
    assert told[STATE] in (count, count - 1)  # what the lost message had replaced is there again


def test_a_bus_that_is_empty_has_lost_both(stand: Stand, told: dict[str, int]) -> None:
    stand.nats.stop()
    with stand.nats.damaged():
        stand.nats.empty()
    assert told == {LEDGER: 0, STATE: 0}
