"""kill -9 of the bus: one server; a leader of three; all three. Stores that come back old, empty, without a bucket."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.errors import Error as NatsError
from tests.chaos.experiment import run
from tests.chaos.field import BUS_CONFIG, Field, open_field
from tests.e2e.waiting import until

from berth.bus.errors import BusError
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject
from berth.testing.nats_cluster import NAMES, NatsCluster
from berth.testing.nats_server import NatsServer
from berth.testing.split_cluster import SplitCluster
from berth.testing.tcp_proxy import Way

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

BAR_S = 15.0
REBUILT_S = 60.0
LOST_S = 3
DOWN_S = 0.5
"""Until whoever minds the process starts it again."""
LEDGER = f"KV_{buckets.LEDGER}"
CLUSTER_CONFIG = """
max_payload: 2MB
cluster { name: chaos, host: 127.0.0.1, port: $ROUTE_PORT, routes: [ $ROUTES ] }
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one() -> AsyncIterator[Field]:
    with NatsServer(config=BUS_CONFIG) as bus:
        async with open_field(bus) as opened:
            yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def three() -> AsyncIterator[Field]:
    with NatsCluster(CLUSTER_CONFIG, scheme="nats") as bus:
        async with open_field(bus) as opened:
            yield opened


def now() -> float:
    return asyncio.get_running_loop().time()


async def _kill(*servers: NatsServer) -> float:
    """All at once; started again a little later. From the kill on."""
    mark = now()
    for server in servers:
        await asyncio.to_thread(server.kill)
    await asyncio.sleep(DOWN_S)
    await asyncio.gather(*(asyncio.to_thread(server.start) for server in servers))
    return mark


async def leader(field: Field, stream: str = LEDGER, *, url: str = "") -> NatsServer:
    """The server that leads a stream, as the server at `url` says."""
    bus = field.bus
    assert isinstance(bus, NatsCluster)
    client = Client()
    await client.connect((url or bus.url).split(","))
    try:

        async def look() -> str:
            try:
                cluster = (await client.jetstream().stream_info(stream)).cluster
            except (TimeoutError, NatsError):
                return ""  # there is none
            return (cluster.leader or "") if cluster else ""

        return bus[await until(look, f"a leader of {stream}")]
    finally:
        await client.close()


# --- F2 ---------------------------------------------------------------------------------------------------------------


async def test_the_only_server_is_killed(one: Field) -> None:
    await run(one, "F2", "kill the bus", partial(_kill, one.server), bar_s=BAR_S)


@pytest.mark.parametrize("stream", [LEDGER, f"KV_{buckets.STATE}"])
async def test_a_leader_of_three_is_killed(three: Field, stream: str) -> None:
    async def fault() -> float:
        return await _kill(await leader(three, stream))

    await run(three, "F2", f"kill the leader of {stream}, of three", fault, bar_s=BAR_S)


async def test_all_three_are_killed(three: Field) -> None:
    assert isinstance(three.bus, NatsCluster)
    await run(three, "F2", "kill all three", partial(_kill, *(three.bus[name] for name in NAMES)), bar_s=BAR_S)


# --- F3 ---------------------------------------------------------------------------------------------------------------


async def test_one_of_three_comes_back_empty(three: Field) -> None:
    async def fault() -> float:
        server = await leader(three)
        mark = now()
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(shutil.rmtree, server.store)
        await asyncio.to_thread(server.start)
        return mark

    await run(three, "F3", "the leader of three comes back with an empty store", fault, bar_s=BAR_S)


async def test_two_of_three_come_back_with_older_stores() -> None:
    """Everybody is connected to the third, which is cut off until the others lead: no connection breaks."""
    *older, stays = NAMES
    async with AsyncExitStack() as stack:
        split = await stack.enter_async_context(SplitCluster(BUS_CONFIG))
        servers = split.servers
        field = await stack.enter_async_context(open_field(servers, url=servers[stays].url))

        async def fault() -> float:
            saved = await asyncio.to_thread(split.save, older)
            await asyncio.sleep(LOST_S)
            split.set(stays, Way.CUT)
            await asyncio.to_thread(split.restore, saved)
            await leader(field, url=servers[older[0]].url)
            split.set(stays, Way.OPEN)
            return now()

        await _losing(field, f"two of three without their last {LOST_S} s, everybody at the third", fault)


async def test_the_bus_comes_back_empty(one: Field) -> None:
    async def fault() -> float:
        mark = now()
        await asyncio.to_thread(one.server.kill)
        await asyncio.to_thread(shutil.rmtree, one.server.store)
        await asyncio.sleep(DOWN_S)
        await asyncio.to_thread(one.server.start)
        return mark

    await _losing(one, "the bus comes back with an empty store", fault)


@pytest.mark.parametrize("lost_s", [1, 6])
async def test_the_bus_has_lost_its_tail(one: Field, lost_s: int) -> None:
    async def fault() -> float:
        saved = await _saved(one.server)
        await asyncio.sleep(lost_s)
        mark = now()
        await asyncio.to_thread(one.server.kill)
        await asyncio.to_thread(one.server.restore_store, saved)
        await asyncio.to_thread(one.server.start)
        return mark

    await _losing(one, f"the last {lost_s} s of the bus are lost", fault)


async def _saved(server: NatsServer) -> Path:
    """The store as it is at one moment."""
    await asyncio.to_thread(server.pause)
    try:
        return await asyncio.to_thread(server.save_store)
    finally:
        server.resume()


@pytest.mark.parametrize(
    "bucket",
    [buckets.LEDGER, buckets.STATE, buckets.INVENTORY, buckets.QUOTA, buckets.RESERVATION, buckets.LEASE],
)
async def test_a_bucket_is_deleted_behind_everybodys_back(one: Field, bucket: str) -> None:
    async def fault() -> float:
        client = Client()
        await client.connect(one.server.url)
        try:
            mark = now()
            await client.jetstream().delete_stream(f"KV_{bucket}")
            return mark
        finally:
            await client.close()

    await _losing(one, f"{bucket} is deleted", fault, ledger_lost=bucket == buckets.LEDGER)


async def _losing(field: Field, name: str, fault: Any, *, ledger_lost: bool = True) -> None:
    before = await _epoch(field)
    await run(field, "F3", name, fault, bar_s=REBUILT_S, ledger_lost=ledger_lost)
    if ledger_lost:
        assert await _epoch(field) > before, "a loss begins a new epoch"


async def _epoch(field: Field) -> int:
    """The epoch that cluster-writer acts in."""

    async def look() -> int:
        try:
            raw = await field.whole.bus.ask(question_subject("cluster-writer", "status"), encode(StatusQuestion()))
        except BusError:
            return 0
        return int(decode(raw, StatusAnswer).facts["epoch"])

    return await until(look, "cluster-writer to say its epoch")
