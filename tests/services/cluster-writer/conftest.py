"""A writer between a real nats-server and the simulated API, with a mirror that plays cluster-watcher."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from tests.services.worlds.writer.bind_bench import BindBench
from tests.services.worlds.writer.decisions import make_decision
from tests.services.worlds.writer.solvers import Solvers
from tests.services.worlds.writer.store_api import StoreApi
from tests.services.worlds.writer.world import World

from berth.contracts import buckets
from berth.contracts.ledger import Decision
from berth.simcluster import SimCluster, SimSettings, serve
from berth.testing.nats_server import NatsServer


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    async with serve(SimSettings(bookmark_s=0.5, kubelet=None)) as cluster:
        yield cluster


@pytest.fixture
async def world(nats_server: NatsServer, sim: SimCluster) -> AsyncIterator[World]:
    world = World(nats_server, sim)
    await world.begin()
    yield world
    await world.end()


@pytest.fixture
async def solvers(world: World) -> AsyncIterator[Solvers]:
    solvers = Solvers(world)
    world.spawn(world.bus.follow(buckets.LEDGER, solvers.ledger).run())
    yield solvers
    for instance in list(solvers.running):
        await solvers.stop(instance)


@pytest.fixture
def api() -> StoreApi:
    """The simulated API as plain calls, with every CRD."""
    return StoreApi(SimCluster(SimSettings(kubelet=None)).store)


@pytest.fixture
def decide() -> Callable[..., Decision]:
    """Makes decisions: `decide(pod, plan, node, minors=..., basis=...)`."""
    return make_decision


@pytest.fixture
async def desk(api: StoreApi) -> AsyncIterator[BindBench]:
    """Binds at work."""
    desk = BindBench(api)
    task = asyncio.create_task(desk.binds.run())
    yield desk
    assert not task.done(), "no answer ends the workers"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
