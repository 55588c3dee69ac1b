"""What earlier epochs left in LEDGER is deleted, and nothing else."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence

import pytest

from berth.bus import Bus, BusSettings, Committed, Refused, Stored, TimedOut, Unknown, Write, jetstream
from berth.bus.topology import TOPOLOGY
from berth.cluster_writer import old_epochs
from berth.cluster_writer.old_epochs import OldEpochs
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.ledger import Epoch
from berth.testing.nats_server import NatsServer
from berth.transaction.ledger_view import LedgerView


class Store:
    """The ledger's leader in memory."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}
        self.sequence = 0
        self.fails = 0

    def put(self, key: str, view: LedgerView | None = None) -> None:
        self.sequence += 1
        value = encode(Epoch(epoch=int(key.partition("=")[2]))) if key.startswith("epoch=") else b"x"
        key = key.partition("=")[0]
        self.stored[key] = Stored(self.sequence, value, False)
        if view is not None:
            view.apply(key, value, False, self.sequence)

    def there(self) -> set[str]:
        return {key for key, stored in self.stored.items() if not stored.deleted}

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Committed | Refused | Unknown:
        if any(write.expected != self.stored[write.key].sequence for write in writes):
            return Refused(10071, "wrong last sequence")
        for write in writes:
            self.sequence += 1
            self.stored[write.key] = Stored(self.sequence, b"", True)
        return Committed(self.sequence)

    async def read(self, key: str) -> Stored | None:
        if self.fails:
            self.fails -= 1
            raise TimedOut("no answer")
        return self.stored.get(key)

    async def keys(self, pattern: str) -> list[str]:
        return sorted(key for key in self.stored if key.startswith(pattern.removesuffix(">")))


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def view(store: Store) -> LedgerView:
    """In epoch 3, with keys of the two before and of its own."""
    made = LedgerView()
    for number in range(5):
        store.put(f"e1.decision.default.p{number}", made)
    store.put("epoch=2", made)
    store.put("epoch=3", made)
    store.put("e2.plan.p", made)
    store.put("e2.account.node.n")
    store.put("e3.plan.p")
    return made


async def test_epochs_before_the_one_of_the_lease_go_and_it_stays(store: Store, view: LedgerView) -> None:
    old = OldEpochs(store)
    await old.delete_some(view, 3)
    assert store.there() == {"epoch", "e2.plan.p", "e2.account.node.n", "e3.plan.p"}
    await old.delete_some(view, 3)
    assert store.there() == {"epoch", "e3.plan.p"}
    sequence = store.sequence
    await old.delete_some(view, 3)
    assert store.sequence == sequence, "markers are not deleted again"


async def test_a_few_at_a_time(store: Store, view: LedgerView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_epochs, "KEYS_MAX", 2)
    old = OldEpochs(store)
    await old.delete_some(view, 3)
    assert sum(key.startswith("e1.") for key in store.there()) == 3
    for _ in range(3):
        await old.delete_some(view, 3)
    assert store.there() == {"epoch", "e3.plan.p"}


async def test_what_a_solver_writes_that_lags_behind_goes_too(store: Store, view: LedgerView) -> None:
    old = OldEpochs(store)
    for _ in range(2):
        await old.delete_some(view, 3)
    store.put("e2.decision.default.late", view)
    await old.delete_some(view, 3)
    assert store.there() == {"epoch", "e3.plan.p"}


async def test_while_the_bus_does_not_answer_nothing_is_forgotten(store: Store, view: LedgerView) -> None:
    old = OldEpochs(store)
    store.fails = 1
    await old.delete_some(view, 3)
    for _ in range(3):
        await old.delete_some(view, 3)
    assert store.there() == {"epoch", "e3.plan.p"}


async def test_the_epoch_of_the_view_goes_while_the_next_cannot_be_written(store: Store, view: LedgerView) -> None:
    """The Lease names epoch 4, and the bucket is full."""
    old = OldEpochs(store)
    for _ in range(3):
        await old.delete_some(view, 4)
    assert store.there() == {"epoch", "e3.plan.p"}
    await old.delete_some(view, 4, free_space=True)
    assert store.there() == {"epoch"}


@pytest.fixture
async def full() -> AsyncIterator[Bus]:
    """A ledger of a real server without space for the smallest entry, filled in epoch 1."""
    with NatsServer() as server:
        bus = await Bus.connect(BusSettings(url=server.url), service="tester")
        await bus.ensure()
        (ledger,) = (each for each in TOPOLOGY if each.name == buckets.LEDGER)
        await jetstream.call(bus._link, "STREAM.UPDATE.KV_berth_ledger", ledger.config(1) | {"max_bytes": 60_000})
        assert isinstance(await bus.ledger().commit([Write("epoch", encode(Epoch(epoch=1)), 0)]), Committed)
        rng, number = random.Random(1), 0
        for size in (600, 60, 1):
            while isinstance(
                await bus.ledger().commit([Write(f"e1.plan.{number}", rng.randbytes(size), 0)]), Committed
            ):
                number += 1
        yield bus
        await bus.close()


async def test_a_full_ledger_has_space_for_a_new_epoch_soon(full: Bus) -> None:
    view = LedgerView()
    view.apply("epoch", encode(Epoch(epoch=1)), False, 1)
    entry = [Write("epoch", encode(Epoch(epoch=2, pods_version=1 << 60, reservations_version=1 << 60)), 1)]
    outcome = await full.ledger().commit(entry)
    assert isinstance(outcome, Refused)
    assert outcome.is_full
    await OldEpochs(full.ledger()).delete_some(view, 2, free_space=True)
    assert isinstance(await full.ledger().commit(entry), Committed)
