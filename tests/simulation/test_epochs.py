"""An epoch holds up everybody, so each that is raised has a loss of LEDGER of its own to explain it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from tests.simulation import workload
from tests.simulation.harness import LEDGER, Harness, build
from tests.simulation.run import _raised_for_nothing as raised_for_nothing
from tests.simulation.unmetered import unmetered

from berth.contracts import names
from berth.simcluster.store import Path

LEASE = Path("coordination.k8s.io", "v1", "leases", "berth-system", "cluster-writer")


@pytest.fixture
def harness() -> Iterator[Harness]:
    """A cluster that is at work in its first epoch."""
    harness = build(7, workload.cluster(random.Random(7), workload.Size()), {}, log_level="error")
    with harness.journal, unmetered():
        harness.world.run(10.0)
        assert harness.observer.view.epoch.epoch == 1
        yield harness
    harness.world.close()


def lose_ledger(harness: Harness) -> None:
    harness.nats.stop()
    with harness.nats.damaged():
        harness.nats.lose_stream(LEDGER)
    harness.nats.start()


def mislead(harness: Harness) -> None:
    """The Lease names a plan that never was, and whoever holds it takes that for a loss."""
    body = {"metadata": {"annotations": {names.ANNOTATION_PLAN: "never-was"}}}
    assert harness.kube.perform("patch", LEASE, msgspec.json.encode(body)).status == 200


def until_epoch(harness: Harness, epoch: int) -> None:
    assert harness.world.run_until(lambda: harness.observer.view.epoch.epoch == epoch, 60.0)
    harness.world.run(harness.world.now + 5.0)


def test_an_epoch_after_a_loss_is_raised_for_something(harness: Harness) -> None:
    lose_ledger(harness)
    until_epoch(harness, 2)
    assert raised_for_nothing(harness) == []


def test_an_epoch_without_any_loss_is_raised_for_nothing(harness: Harness) -> None:
    mislead(harness)
    until_epoch(harness, 2)
    (told,) = raised_for_nothing(harness)
    assert told.startswith("L1 an epoch for nothing: ")


@pytest.mark.xfail(strict=True, reason="one loss excuses every epoch of a run")
def test_a_loss_explains_one_epoch_and_not_the_next(harness: Harness) -> None:
    lose_ledger(harness)
    until_epoch(harness, 2)
    mislead(harness)
    until_epoch(harness, 3)
    assert len(raised_for_nothing(harness)) == 1


@pytest.mark.xfail(strict=True, reason="one loss excuses every epoch of a run")
def test_a_loss_that_comes_later_explains_nothing(harness: Harness) -> None:
    mislead(harness)
    until_epoch(harness, 2)
    lose_ledger(harness)
    until_epoch(harness, 3)
    assert len(raised_for_nothing(harness)) == 1
