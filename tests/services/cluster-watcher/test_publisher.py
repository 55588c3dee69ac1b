"""Which markers the publisher writes when steps, lists and other writers of STATE come in an awkward order.

Without sockets, on virtual time.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable
from unittest.mock import MagicMock

import pytest

from berth.bus.port import Entry
from berth.cluster_watcher.core.published_view import PublishedView
from berth.cluster_watcher.kinds import scopes
from berth.cluster_watcher.outbox import Began, Finished, Nothing, Outbox, Put, Reached
from berth.cluster_watcher.publisher import Publisher, gather_s
from berth.cluster_watcher.source import Source
from berth.contracts.codec import decode, encode
from berth.contracts.state import Synced
from berth.runtime.crowding import Crowding, Turns
from berth.testing.virtual_loop import LoopClock, VirtualLoop

SYNCED_PODS = "synced.pods"


class Owned:
    """Acknowledges every write when it is waited for."""

    def __init__(self) -> None:
        self.written: list[tuple[str, bytes]] = []
        self.deleted: list[str] = []
        self.in_flight: set[str] = set()
        self.drains = 0

    def put(self, key: str, value: bytes, *, traceparent: str | None = None) -> bool:
        self._send(key)
        self.written.append((key, value))
        return True

    def delete(self, key: str, value: bytes = b"") -> bool:
        self._send(key)
        self.deleted.append(key)
        return True

    async def drain(self) -> None:
        await asyncio.sleep(0)
        self.drains += 1
        self.in_flight.clear()

    def _send(self, key: str) -> None:
        assert not self.in_flight or SYNCED_PODS not in {key, *self.in_flight}, "a marker is written alone"
        self.in_flight.add(key)


class Bench:
    """A publisher of pods at work, and what STATE showed it before that."""

    def __init__(self, *shown: tuple[str, bytes], crowding: Crowding | None = None) -> None:
        clock = LoopClock()
        self.source = Source(next(scope for scope in scopes([]) if scope.name == "pods"))
        self.published, self.outbox, self.owned = PublishedView(), Outbox(clock), Owned()
        self.publisher = Publisher(
            [self.source],
            self.outbox,
            self.published,
            clock=clock,
            crowding=crowding or Crowding(),
            log=MagicMock(),
            halt=lambda: None,
        )
        for key, value in shown:
            self.see(key, value)
        self.published.adopt_markers()
        self.task = asyncio.create_task(self.publisher.run(self.owned))  # type: ignore[arg-type]

    def see(self, key: str, value: bytes, *, deleted: bool = False) -> None:
        self.publisher.apply(Entry(key, value, deleted, 1, 0, False, None))

    async def taken_over(self, key: str, value: bytes, *, deleted: bool = False) -> None:
        """Somebody else writes a key, and the publisher has thought about it."""
        self.see(key, value, deleted=deleted)
        self.publisher.on_conflict(key)
        await asyncio.sleep(0.3)

    @property
    def markers(self) -> list[tuple[int, bool]]:
        """Version and completeness of the markers written."""
        found = [decode(value, Synced) for key, value in self.owned.written if key == SYNCED_PODS]
        return [(marker.version, marker.complete) for marker in found]


def pod(version: int) -> bytes:
    return b'{"version":%d}' % version


def marker(version: int) -> bytes:
    return encode(Synced(kind="pods", version=version, complete=True))


def on_virtual_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test())  # type: ignore[arg-type]

    return run


@on_virtual_time
async def test_a_change_that_needs_no_write_is_told_though_nothing_follows() -> None:
    bench = Bench()
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Finished(bench.source, 10, frozenset()))
    await asyncio.sleep(0.3)
    assert bench.markers == [(10, True)]
    bench.outbox.add(Nothing(bench.source, 11))
    await asyncio.sleep(0.3)
    assert bench.markers == [(10, True)]
    await asyncio.sleep(2.0)
    assert bench.markers == [(10, True), (11, True)]


@on_virtual_time
async def test_a_kind_is_not_complete_while_it_is_listed_again() -> None:
    """Not by a bookmark of the watch before it, and not because it stays quiet in the middle of the list."""
    bench = Bench((SYNCED_PODS, marker(10)), ("pod.ns.old", pod(9)))
    bench.source.reached(10)
    bench.source.synced = True
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.new", 20, pod(20)))
    await asyncio.sleep(3.0)
    assert bench.markers == [(10, False)]
    bench.outbox.add(Reached(bench.source, 25))
    await asyncio.sleep(3.0)
    assert bench.markers == [(10, False)]
    bench.outbox.add(Finished(bench.source, 30, frozenset({"ns/new"})))
    await asyncio.sleep(0.3)
    assert (bench.markers, bench.owned.deleted) == ([(10, False), (30, True)], ["pod.ns.old"])


@on_virtual_time
async def test_a_bookmark_after_an_older_list_does_not_tell_completeness() -> None:
    bench = Bench((SYNCED_PODS, marker(1000)))
    bench.source.reached(1000)
    bench.source.synced = True
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.new", 505, pod(505)))
    bench.outbox.add(Finished(bench.source, 510, frozenset({"ns/new"})))
    bench.outbox.add(Reached(bench.source, 515))
    await asyncio.sleep(3.0)
    assert bench.source.older == 1
    assert bench.markers == [(1000, False)]


@on_virtual_time
async def test_what_somebody_deletes_during_a_list_is_written_again() -> None:
    bench = Bench(("pod.ns.x", pod(100)))
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.a", 50, pod(50)))
    await asyncio.sleep(0.3)
    await bench.taken_over("pod.ns.x", b"", deleted=True)
    bench.outbox.add(Put(bench.source, "pod.ns.x", 100, pod(100)))
    bench.outbox.add(Finished(bench.source, 105, frozenset({"ns/a", "ns/x"})))
    await asyncio.sleep(0.3)
    assert ("pod.ns.x", pod(100)) in bench.owned.written


@on_virtual_time
async def test_a_marker_that_became_unreadable_is_written_again() -> None:
    bench = Bench((SYNCED_PODS, marker(10)))
    await bench.taken_over(SYNCED_PODS, b"garbage")
    assert bench.source.relist.is_set()
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Finished(bench.source, 10, frozenset()))
    await asyncio.sleep(0.3)
    assert bench.markers == [(10, True)]


@on_virtual_time
async def test_a_list_begun_before_the_doubt_does_not_tell_completeness() -> None:
    """Its end may still wait here when the next one was asked for, and that wish was taken up."""
    bench = Bench(("pod.ns.x", pod(100)))
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.x", 100, pod(100)))
    bench.outbox.add(Put(bench.source, "pod.ns.y", 101, pod(101)))
    await asyncio.sleep(0.3)
    await bench.taken_over("pod.ns.x", pod(1))
    assert bench.source.relist.is_set()
    bench.source.relist.clear()
    bench.outbox.add(Finished(bench.source, 105, frozenset({"ns/x", "ns/y"})))
    await asyncio.sleep(0.3)
    assert not any(complete for _, complete in bench.markers)
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.x", 100, pod(100)))
    bench.outbox.add(Finished(bench.source, 106, frozenset({"ns/x", "ns/y"})))
    await asyncio.sleep(0.3)
    assert bench.markers[-1] == (106, True)


@on_virtual_time
async def test_what_a_predecessor_writes_while_a_list_is_announced_is_not_written_over() -> None:
    bench = Bench(("pod.ns.p", pod(9)), ("pod.ns.q", pod(8)), (SYNCED_PODS, marker(9)))
    drain = bench.owned.drain

    async def meanwhile() -> None:
        if bench.markers == [(9, False)]:
            bench.see("pod.ns.p", pod(12))
        await drain()

    bench.owned.drain = meanwhile  # type: ignore[method-assign]
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.p", 10, pod(10)))
    bench.outbox.add(Finished(bench.source, 10, frozenset({"ns/p", "ns/q"})))
    await asyncio.sleep(0.3)
    assert [key for key, _ in bench.owned.written] == [SYNCED_PODS, SYNCED_PODS]
    assert bench.markers == [(9, False), (10, True)]
    assert not bench.owned.deleted


@on_virtual_time
async def test_what_was_read_before_a_loss_is_not_claimed_of_an_older_list_behind_it() -> None:
    bench = Bench()
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Finished(bench.source, 100, frozenset()))
    bench.outbox.add(Put(bench.source, "pod.ns.b", 140, pod(140)))
    await asyncio.sleep(0.3)
    bench.publisher.reset()
    bench.publisher.on_reset()
    bench.owned.written.clear()
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.a", 90, pod(90)))
    bench.outbox.add(Finished(bench.source, 120, frozenset({"ns/a"})))
    await asyncio.sleep(3.0)
    assert bench.markers == [(0, False), (120, True)]


@on_virtual_time
async def test_a_list_that_was_given_up_claims_nothing_of_the_older_one_behind_it() -> None:
    bench = Bench((SYNCED_PODS, marker(100)))
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.a", 150, pod(150)))
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Put(bench.source, "pod.ns.a", 90, pod(90)))
    bench.outbox.add(Finished(bench.source, 120, frozenset({"ns/a"})))
    await asyncio.sleep(3.0)
    assert bench.markers[-1] == (120, True)


@on_virtual_time
async def test_a_marker_that_somebody_else_has_just_written_is_not_written_over() -> None:
    bench = Bench((SYNCED_PODS, marker(100)))
    bench.outbox.add(Began(bench.source))
    bench.outbox.add(Finished(bench.source, 100, frozenset()))
    await asyncio.sleep(0.3)
    bench.see(SYNCED_PODS, encode(Synced(kind="pods", version=100, complete=False)))
    bench.outbox.add(Reached(bench.source, 125))
    bench.publisher.on_conflict(SYNCED_PODS)
    await asyncio.sleep(0.3)
    assert bench.markers == []
    assert bench.source.is_doubtful


@pytest.mark.parametrize(
    ("took_s", "steps", "crowded", "pause_s"),
    [
        pytest.param(0.01, 1, 0.0, 0.002, id="alone"),
        pytest.param(0.001, 512, 0.0, 0.005, id="many, quickly written"),
        pytest.param(0.03, 512, 0.0, 0.06, id="many on a busy bus"),
        pytest.param(3.0, 512, 0.0, 0.2, id="never longer than that"),
        pytest.param(0.01, 1, 0.7, 0.007, id="alone on a machine with no core free"),
        pytest.param(0.004, 10, 0.7, 0.049, id="many there"),
        pytest.param(0.004, 10, 0.1, 0.008, id="a core is nearly always free"),
        pytest.param(0.04, 512, 1.0, 0.08, id="the longer of both"),
    ],
)
def test_what_comes_alone_holds_up_nobody(took_s: float, steps: int, crowded: float, pause_s: float) -> None:
    assert gather_s(took_s, steps, crowded) == pytest.approx(pause_s)


@on_virtual_time
async def test_a_publisher_that_waits_for_cores_gathers_more() -> None:
    """A pod comes every 5 ms."""

    async def batches(crowding: Crowding) -> int:
        bench = Bench(crowding=crowding)
        for version in range(1, 101):
            bench.outbox.add(Put(bench.source, f"pod.ns.p{version}", version, pod(version)))
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.3)
        bench.task.cancel()
        assert len(bench.owned.written) == 100
        return bench.owned.drains

    times = itertools.count(1)
    crowded = Crowding(lambda: Turns(ran_s=next(times), waited_s=2.0 * next(times)))
    assert await batches(crowded) < await batches(Crowding()) / 3
