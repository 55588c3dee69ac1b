"""PRICE: written when other prices hold, written again when it is lost, read when a solver starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from berth.bus import Bus, BusSettings, jetstream
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.prices import PriceTable, SharePrice
from berth.contracts.round import Arriving
from berth.contracts.subjects import prices_key
from berth.placement_solver import metrics
from berth.placement_solver.core.prices.table import Prices
from berth.placement_solver.price_tables import AGAIN_S, PriceTables
from berth.placement_solver.shell import _follow_prices
from berth.testing.builders import gpu_slots, pod
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually, eventually_async

DUALS = [0.0] * 33 + [0.3] * 47 + [1.0] * 20


class Clock:
    """Time that stands still, but for who moves it."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


Start = Callable[[Any], PriceTables]


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    bus = await Bus.connect(BusSettings(url=nats_server.url), service="test")
    await bus.ensure()
    yield bus
    await bus.close()


@pytest.fixture
async def start(bus: Bus) -> AsyncIterator[Start]:
    tasks: list[asyncio.Task[None]] = []

    def begin(run: Any) -> PriceTables:
        context: Any = SimpleNamespace(
            bus=bus,
            spawn=lambda coroutine, *, name: tasks.append(asyncio.create_task(coroutine, name=name)),
            log=SimpleNamespace(warning=lambda *_, **__: None),
        )
        found = PriceTables(run.cluster, run.clock)
        _follow_prices(context, found)
        return found

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def world(solving: Any, me: str = "s1") -> Any:
    """A node, and a solver of that name that knows shares of a third."""
    run = solving()
    run.cluster.me, run.clock = me, Clock()
    run.node("n0", cpu=64_000)
    run.devices("n0", gpu_slots(4))
    return run


def knows(run: Any, size: int = 33, *, leaving: int = 0) -> None:
    """So many shares of this size have come that others do not count, and so many pods have left."""
    run.pod(pod(f"p{size}").share(size).requests(cpu=100))
    units, _ = run.cluster.batch(1)
    cls = units[0].candidates[0].cls
    run.cluster.solver.costs.of(cls)
    for _ in range(40_000):
        run.cluster.prices.workload.came(cls)
    for _ in range(leaving):
        run.cluster.prices.workload.left()
    run.cluster.now_ms += 10
    run.cluster.prices.look(run.cluster.now_ms)


async def stored(bus: Bus, solver: str = "s1") -> PriceTable | None:
    found = await jetstream.newest(bus._link, buckets.PRICE, prices_key(solver))
    return decode(found.value, PriceTable) if found is not None else None


async def written(bus: Bus, tables: PriceTables) -> PriceTable:
    """What is there once all writes are."""
    await tables.tell()
    assert tables.bucket is not None
    await tables.bucket.drain()
    found = await stored(bus)
    assert found is not None
    return found


async def test_a_table_is_written_when_other_prices_hold(solving: Any, bus: Bus, start: Start) -> None:
    run = world(solving)
    tables = start(run)
    await tables.tell()
    assert await stored(bus) is None, "constants are no table"
    knows(run)
    assert tables.bucket is not None
    await tables.bucket.ready()
    first = await written(bus, tables)
    assert (first.solver, first.version) == ("s1", run.cluster.prices.version)
    assert first.shares == [SharePrice(percent=33, price=0.333333)]
    run.clock.at += 1.0
    assert await written(bus, tables) == first, "nothing has changed"
    knows(run, 47)
    second = await written(bus, tables)
    assert second.version > first.version
    assert [each.percent for each in second.shares] == [47]
    run.clock.at += AGAIN_S
    assert (await written(bus, tables)).written_at == run.clock.at, "or the bucket would forget it"


async def test_a_solver_that_starts_goes_on_with_its_table(solving: Any, bus: Bus, start: Start) -> None:
    run = world(solving)
    tables = start(run)
    knows(run)
    assert tables.bucket is not None
    await tables.bucket.ready()
    before = await written(bus, tables)
    for me in ("s1", "s2"):
        again = world(solving, me)
        start(again)
        prices = again.cluster.prices
        await eventually(lambda prices=prices: prices._kept is not None)  # type: ignore[misc]
        again.cluster.now_ms = before.version + 5
        again.cluster.batch(1)
        assert [size for size, _ in again.cluster.solver.costs.basis.prices.shares] == [33]
        assert again.cluster.prices.version == before.version + (0 if me == "s1" else 5)


@pytest.mark.parametrize("me", ["s1", "s2"])
async def test_what_arrives_is_known_at_a_start(solving: Any, bus: Bus, start: Start, me: str) -> None:
    run = world(solving)
    tables = start(run)
    knows(run, leaving=2000)
    assert tables.bucket is not None
    await tables.bucket.ready()
    before = await written(bus, tables)
    assert before.arriving == [Arriving(cpu=100, percent=33, cards=1, part=1.0)]
    again = world(solving, me)
    start(again)
    await eventually(lambda: again.cluster.prices._kept is not None)
    again.cluster.batch(1)
    assert again.cluster.solver.costs.basis.prices.typical == run.cluster.solver.costs.basis.prices.typical != ()


async def test_kinds_of_no_use_are_counted_and_the_rest_is_taken_up(solving: Any, bus: Bus, start: Start) -> None:
    shares, arriving = [SharePrice(percent=33, price=0.25)], [Arriving(cpu=1, percent=33, cards=1, part=-1.0)]
    table = PriceTable(solver="s1", version=7, turning_over=0.5, shares=shares, arriving=arriving)
    bus.owned(buckets.PRICE).put(prices_key("s1"), encode(table))
    await eventually_async(lambda: stored(bus))
    counter = metrics.PRICES.labels("kinds not taken up")
    before = counter._value.get()
    again = world(solving)
    start(again)
    await eventually(lambda: again.cluster.prices._kept is not None)
    again.cluster.batch(1)
    assert again.cluster.solver.costs.basis.prices == Prices(((33, 0.25),), 0.5)
    assert counter._value.get() == before + 1


async def test_a_bucket_that_is_lost_is_written_again(solving: Any, bus: Bus, start: Start) -> None:
    run = world(solving)
    tables = start(run)
    knows(run)
    assert tables.bucket is not None
    await tables.bucket.ready()
    before = await written(bus, tables)
    await jetstream.call(bus._link, f"STREAM.DELETE.KV_{buckets.PRICE}")
    await bus.ensure()

    async def is_back() -> bool:
        await tables.tell()
        return await stored(bus) == before

    await eventually_async(is_back)


async def test_nobody_waits_for_a_table_that_is_garbage(solving: Any, bus: Bus, start: Start) -> None:
    bus.owned(buckets.PRICE).put(prices_key("s1"), b'{"type":"pricetable.set.v9","solver":"s1"}')
    await eventually_async(lambda: jetstream.newest(bus._link, buckets.PRICE, prices_key("s1")))
    run = world(solving)
    tables = start(run)
    assert tables.bucket is not None
    await tables.bucket.ready()
    await eventually(lambda: tables._began)
    assert run.cluster.prices.version == 0
    knows(run)
    assert (await written(bus, tables)).version == run.cluster.prices.version
