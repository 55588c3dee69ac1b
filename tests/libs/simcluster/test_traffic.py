"""Pods come, stay and go; a new process takes over, and a server that is away or forgets is no end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.traffic import GANG_EVERY, GANG_MEMBERS, LABEL, Traffic, TrafficSettings

DEADLINE_S = 30.0


@contextlib.asynccontextmanager
async def going(url: str, **settings: Any) -> AsyncIterator[Traffic]:
    traffic, asked = Traffic(TrafficSettings(url=url, **settings)), asyncio.Event()
    task = asyncio.create_task(traffic.run(asked))
    try:
        yield traffic
    finally:
        asked.set()
        await asyncio.wait_for(task, DEADLINE_S)


async def pods(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/pods") as response:
        return {pod["metadata"]["name"]: pod for pod in (await response.json())["items"]}


async def until(probe: Callable[[dict[str, Any]], bool], url: str) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE_S):
        while not probe(found := await pods(url)):
            await asyncio.sleep(0.01)
    return found


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    server = SimCluster(SimSettings())
    await server.start()
    yield server
    await server.stop()


async def test_pods_come_and_go_and_never_too_many(sim: SimCluster) -> None:
    async with going(sim.url, rate=200, stay_s=0.2, pods_max=10) as traffic:
        seen: set[str] = set()
        async with asyncio.timeout(DEADLINE_S):
            while len(seen) < 100:
                found = await pods(sim.url)
                assert len(found) < 10 + GANG_MEMBERS
                seen |= set(found)
    assert set(await pods(sim.url)) == set(traffic.ends)


async def test_gangs_come_whole(sim: SimCluster) -> None:
    async with going(sim.url, rate=500, stay_s=1000, pods_max=2 * GANG_EVERY):
        found = await until(lambda all_pods: sum("train" in name for name in all_pods) >= GANG_MEMBERS, sim.url)
    gang = [pod["metadata"]["annotations"] for name, pod in found.items() if "train" in name]
    assert {each["gang.scheduling.koordinator.sh/min-available"] for each in gang} == {str(GANG_MEMBERS)}
    assert all(pod["metadata"]["labels"][LABEL] for pod in found.values())


async def test_a_new_process_takes_over_what_is_there(sim: SimCluster) -> None:
    async with going(sim.url, rate=500, stay_s=1000, pods_max=5):
        left = set(await until(lambda found: len(found) >= 5, sim.url))
    async with going(sim.url, rate=500, stay_s=0.05, pods_max=5):
        await until(lambda found: not left & set(found), sim.url)


async def test_a_server_that_is_away_comes_back_empty() -> None:
    first = SimCluster(SimSettings())
    await first.start()
    port, url = int(first.url.rpartition(":")[2]), first.url
    async with going(url, rate=200, stay_s=0.1, pods_max=50):
        before = set(await until(bool, url))
        await first.stop()
        second = SimCluster(SimSettings(port=port))
        await second.start()
        after = set(await until(bool, url))
    await second.stop()
    assert not before & after


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"rate": 1e9}, {"stay_s": 0}, {"pods_max": 0}])
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        Traffic(TrafficSettings(url="http://127.0.0.1:1", **wrong))
