"""Raising the epoch: its order, what it fences, and what happens when it is cut off."""

from __future__ import annotations

import random

import pytest

from berth.bus import Bus, BusSettings, jetstream
from berth.bus.port import Refused, Write
from berth.cluster_writer.epochs import Epochs, LostLeaseError
from berth.contracts import names
from berth.contracts.codec import decode, encode
from berth.contracts.ledger import Epoch
from berth.kube.answer import Answer
from berth.kube.lease import KubeLease
from berth.runtime.clock import SystemClock
from berth.simcluster.store import Path


class Bench:
    def __init__(self, api, bus):
        self.api, self.bus = api, bus
        api.store.create(Path("", "v1", "namespaces"), {"metadata": {"name": "berth-system"}})
        self.lease = self.new_lease("me")
        self.epochs = self.new_epochs(self.lease)

    def new_lease(self, holder):
        return KubeLease(self.api, "berth-system", "cluster-writer", holder, clock=SystemClock(), rng=random.Random(1))

    def new_epochs(self, lease):
        return Epochs(self.bus, self.api, lease, SystemClock(), random.Random(1), [names.SCHEDULER_NAME])

    async def entry(self):
        stored = await self.bus.ledger().read("epoch")
        return None if stored is None else decode(stored.value, Epoch)

    def attempt(self, name):
        return self.api.seen(name).attempt


@pytest.fixture
async def bench(api, nats_server):
    bus = await Bus.connect(BusSettings(url=nats_server.url), service="cluster-writer")
    await bus.ensure()
    bench = Bench(api, bus)
    assert await bench.lease.try_acquire()
    yield bench
    await bus.close()


async def test_unbound_pods_and_reservations_of_ours_are_fenced(bench, api):
    for name in ("free", "bound", "foreign", "ended"):
        api.pod(name, **({"schedulerName": "other"} if name == "foreign" else {}))
    api.store.bind("default", "bound", {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}})
    api.store.patch(Path("", "v1", "pods", "default", "ended", "status"), {"status": {"phase": "Failed"}})
    api.reservation("r")
    before = api.seen("free")
    assert await bench.epochs.raise_epoch(0, "first start") == 1
    assert [bench.attempt(name) for name in ("free", "bound", "foreign", "ended")] == [1, 0, 0, 0]
    assert api.seen_reservation("r").attempt == 1
    entry = await bench.entry()
    assert (entry.epoch, bench.lease.record.mark) == (1, (1, ""))
    assert entry.pods_version == max(api.seen(name).version for name in ("free", "bound", "foreign", "ended"))
    assert entry.reservations_version == api.seen_reservation("r").version
    late = await api.bind("default", "free", uid=before.uid, version=str(before.version), node="n", annotations={})
    assert late.conflict, "no bind judged before can land now"


async def test_what_may_be_growing_is_fenced_though_it_has_its_node(bench, api):
    path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "")
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "2"}}
    for name, cores in (("grows", "3"), ("stays", "2")):
        api.reservation(name)
        notes = {names.ANNOTATION_RESERVATION_RESIZE: f'{{"resources":{{"cpu":"{cores}"}}}}'}
        api.store.patch(path._replace(name=name), {"metadata": {"annotations": notes}})
        api.store.patch(path._replace(name=name, subresource="status"), {"status": status})
    await bench.epochs.raise_epoch(0, "first start")
    assert [api.seen_reservation(name).attempt for name in ("grows", "stays")] == [1, 0]


async def test_the_order_is_lease_then_fences_then_entry(bench, api):
    api.pod("a")
    seen = []

    async def look():
        seen.append((bench.lease.record.epoch, await bench.entry(), bench.attempt("a")))

    fence = bench.epochs._fence_all

    async def fence_all():
        await look()
        not_found = await fence()
        await look()
        return not_found

    bench.epochs._fence_all = fence_all
    await bench.epochs.raise_epoch(4, "test")
    assert seen == [(5, None, 0), (5, None, 1)]
    assert (await bench.entry()).epoch == 5


async def test_cut_off_in_between_the_next_start_begins_again(bench, api):
    """After the Lease was written and before the entry was: two different epochs, so a third begins."""
    api.pod("a")
    await bench.epochs.raise_epoch(0, "first start")

    async def crash(entry):
        raise KeyboardInterrupt

    bench.epochs._write = crash
    with pytest.raises(KeyboardInterrupt):
        await bench.epochs.raise_epoch(1, "test")
    assert (bench.lease.record.epoch, (await bench.entry()).epoch) == (2, 1)
    assert await bench.new_epochs(bench.lease).raise_epoch(1, "start") == 3
    assert (await bench.entry()).epoch == 3
    assert bench.attempt("a") == 3


async def test_a_pod_that_changes_meanwhile_is_looked_at_again(bench, api):
    api.pod("a")
    api.pod("b")
    body = {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}}
    api.on(
        "patch",
        lambda *args: None,  # the Lease
        lambda name, body_: api.touch(name),
        lambda name, body_: api.store.bind("default", "b", body) and None,
        lambda *args: Answer(500),
        lambda *args: Answer(0),
        lambda *args: Answer(422),
    )
    api.on("get", lambda name: Answer(503), lambda name: Answer(0))
    await bench.epochs.raise_epoch(0, "test")
    assert bench.attempt("a") >= 1
    assert bench.attempt("b") == 0, "bound is fine"


async def test_a_page_of_a_proxy_is_no_answer(bench, api):
    api.pod("a")
    api.on("patch", lambda *args: None, lambda *args: Answer(0))  # the Lease, the fence
    api.on("get", lambda name: Answer(200, b"<html>"), lambda name: Answer(200, b"\xff"))
    await bench.epochs.raise_epoch(0, "test")
    assert bench.attempt("a") == 1


async def test_lists_that_fail_are_asked_for_again(bench, api):
    api.pod("a")
    api.on("list", lambda s: Answer(500), lambda s: Answer(0), lambda s: Answer(429))
    await bench.epochs.raise_epoch(0, "test")
    assert bench.attempt("a") == 1


async def test_a_ledger_that_is_gone_is_created(bench):
    await bench.epochs.raise_epoch(0, "first start")
    await jetstream.call(bench.bus._link, "STREAM.DELETE.KV_berth_ledger")
    await bench.epochs.raise_epoch(1, "gone")
    assert (await bench.entry()).epoch == 2


async def test_the_entry_is_tried_again_soon_however_long_the_ledger_is_full(bench):
    """Solvers in the epoch before fill again what was deleted to make space for it."""
    pauses, commit = [], bench.epochs._ledger.commit

    class Impatient(SystemClock):
        async def sleep(self, seconds):
            pauses.append(seconds)

    class Full:
        read = bench.epochs._ledger.read

        async def commit(self, writes):
            return Refused(10077, "maximum bytes exceeded") if len(pauses) < 40 else await commit(writes)

    bench.epochs._clock, bench.epochs._ledger = Impatient(), Full()
    await bench.epochs.raise_epoch(0, "test")
    assert max(pauses) <= 2.0
    assert not bench.epochs.finds_ledger_full


async def test_an_entry_that_cannot_be_read_is_overwritten(bench):
    await bench.bus.ledger().commit([Write("epoch", b"junk", 0)])
    await bench.epochs.raise_epoch(0, "junk")
    assert (await bench.entry()).epoch == 1


async def test_an_epoch_never_goes_back(bench):
    """A writer that was paused while its successor went on finds out at the last step at the latest."""

    async def overtaken():
        await bench.bus.ledger().commit([Write("epoch", encode(Epoch(epoch=9)), 0)])

    bench.epochs._fence_all = overtaken
    with pytest.raises(LostLeaseError):
        await bench.epochs.raise_epoch(0, "paused")
    assert (await bench.entry()).epoch == 9


async def test_without_the_lease_nothing_is_raised(bench, api):
    other = bench.new_lease("other")
    with pytest.raises(LostLeaseError):
        await bench.new_epochs(other).raise_epoch(0, "not mine")
    api.store.patch(
        Path("coordination.k8s.io", "v1", "leases", "berth-system", "cluster-writer"),
        {"spec": {"holderIdentity": "other"}},
    )
    with pytest.raises(LostLeaseError):
        await bench.epochs.raise_epoch(0, "taken away")
    assert await bench.entry() is None


async def test_a_writer_that_has_lost_the_lease_fences_no_more(bench, api):
    """What another holder's solvers decide from its epoch on is not taken back."""
    api.pod("a")
    lease = Path("coordination.k8s.io", "v1", "leases", "berth-system", "cluster-writer")

    def successor(*_args):
        """While this fence is on its way another writer takes the Lease, and fences."""
        api.store.patch(lease, {"spec": {"holderIdentity": "other"}})
        notes = {names.ANNOTATION_ATTEMPT: "1"}
        api.store.patch(Path("", "v1", "pods", "default", "a"), {"metadata": {"annotations": notes}})
        bench.lease._set_held(False)  # as the renewal finds out

    api.on("patch", lambda *args: None, successor)  # the Lease, the fence
    with pytest.raises(LostLeaseError):
        await bench.epochs.raise_epoch(0, "paused")
    assert bench.attempt("a") == 1


async def test_an_epoch_is_not_raised_on_a_list_that_is_absent(bench, api):
    api.pod("a")
    api.on("list", lambda selection: Answer(404, b"404 page not found", "Not Found"))
    await bench.epochs.raise_epoch(0, "test")
    assert bench.attempt("a") == 1
    assert (await bench.entry()).pods_version >= api.seen("a").version


async def test_a_pod_is_fenced_whoever_says_404(bench, api):
    api.pod("a")
    api.on("patch", lambda name, body: None, lambda name, body: Answer(404, b"404 page not found", "Not Found"))
    await bench.epochs.raise_epoch(0, "test")
    assert api.seen("a").attempt == 1
    assert names.ANNOTATION_ATTEMPT in api.raw("a")["metadata"]["annotations"]
