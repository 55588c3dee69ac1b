"""An epoch holds up everybody, so each that is raised has a loss of LEDGER of its own to explain it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from tests.simulation import workload
from tests.simulation.epochs import Loss, Named, for_nothing
from tests.simulation.harness import LEDGER, Harness, build
from tests.simulation.unmetered import unmetered

from berth.contracts import buckets, names
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


def raised_for_nothing(harness: Harness) -> list[str]:
    return for_nothing(harness.nats.losses, harness.lease.named, harness.nats.begun, harness.observer.verdicts)


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
    assert harness.observer.verdicts.judgements["epochs"] == 1
    assert harness.observer.verdicts.excuses == {("epochs", "loss"): 1}


def test_an_epoch_without_any_loss_is_raised_for_nothing(harness: Harness) -> None:
    mislead(harness)
    until_epoch(harness, 2)
    (told,) = raised_for_nothing(harness)
    assert told.startswith("L1 an epoch for nothing: ")


def test_a_loss_explains_one_epoch_and_not_the_next(harness: Harness) -> None:
    lose_ledger(harness)
    until_epoch(harness, 2)
    mislead(harness)
    until_epoch(harness, 3)
    assert len(raised_for_nothing(harness)) == 1


def test_a_loss_that_comes_later_explains_nothing(harness: Harness) -> None:
    mislead(harness)
    until_epoch(harness, 2)
    lose_ledger(harness)
    until_epoch(harness, 3)
    assert len(raised_for_nothing(harness)) == 1


LOST = [Loss(20.0, buckets.LEDGER)]


@pytest.mark.parametrize(
    ("losses", "named", "begun", "found"),
    [
        ([], [Named(1, 1)], {1: 2}, 0),
        ([], [Named(1, 1), Named(3, 2)], {2: 4}, 0),  # the first was given up before LEDGER held any
        ([], [Named(1, 1), Named(3, 2)], {1: 2, 2: 4}, 1),
        (LOST, [Named(1, 1), Named(21, 2)], {1: 2, 2: 22}, 0),
        (LOST, [Named(1, 1), Named(19, 2)], {1: 2, 2: 22}, 1),  # it was named before
        (LOST, [Named(1, 1), Named(90, 2)], {1: 2, 2: 91}, 0),  # it shows when a device is found held twice
        (LOST, [Named(1, 1), Named(21, 2), Named(30, 3)], {1: 2, 3: 31}, 0),  # the second never began
        (LOST, [Named(1, 1), Named(21, 2), Named(30, 3)], {1: 2, 2: 33, 3: 34}, 0),  # or not before the third was named
        (LOST, [Named(1, 1), Named(21, 2), Named(30, 3)], {1: 2, 2: 22, 3: 31}, 1),
        (LOST, [Named(1, 1), Named(21, 2), Named(30, 3, "b", 28)], {1: 2, 2: 22, 3: 31}, 1),
        (LOST, [Named(1, 1), Named(21, 2), Named(30, 3, "b", 28)], {1: 2, 2: 29, 3: 31}, 0),  # another's, that had read
        (LOST, [Named(1, 1), Named(19, 2), Named(21, 3)], {1: 2, 2: 20.5, 3: 22}, 1),  # while one was being raised
        ([Loss(20.0, buckets.STATE)], [Named(1, 1), Named(21, 2)], {1: 2, 2: 22}, 1),
        ([*LOST, *LOST], [Named(1, 1), Named(21, 2), Named(30, 3)], {1: 2, 2: 22, 3: 31}, 1),
        ([*LOST, Loss(25, buckets.LEDGER)], [Named(1, 1), Named(21, 2), Named(30, 3)], {1: 2, 2: 22, 3: 31}, 0),
    ],
)
def test_each_epoch_is_matched_to_a_loss(
    losses: list[Loss], named: list[Named], begun: dict[int, float], found: int
) -> None:
    assert len(for_nothing(losses, named, begun)) == found


def test_every_bucket_that_loses_something_is_noted(harness: Harness) -> None:
    with harness.nats.damaged():
        harness.nats.remake("KV_berth_quota")
    assert harness.nats.losses == [Loss(harness.world.now, "berth_quota")]
