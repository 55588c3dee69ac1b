"""Kill -9 of every service and of the bus, and lost buckets, in the middle of a workload. The end has to be complete
and correct: every pod bound or told why not, nothing beyond capacity, nothing bound twice, gangs whole.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from nats.aio.client import Client
from tests.e2e.recount import broken_gangs, over_capacity
from tests.e2e.whole import DEVICES, NODES, Json, Whole, refusal_of, run_whole, until

from berth.bus.errors import BusError
from berth.cli.load.api import Api, path_of
from berth.cli.load.creator import Creation, create, create_all
from berth.cli.load.pods import PodWatch
from berth.cli.stack.stack import NATS_SERVER
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject
from berth.simcluster.generate import ClusterShape, WorkloadShape, generate_cluster, generate_workload

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

PODS = "/api/v1/pods"
ALL_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups"
ALL_RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
SETTLED_S = 180.0
RECOVERED_S = 60.0
PROBE = "probe"
RATE = 40.0
"""Pods a second, so that they come in for as long as the faults last."""


@pytest_asyncio.fixture
async def whole() -> AsyncIterator[Whole]:
    async with run_whole(sim_arguments=["--no-running"], say=lambda text: print(f"    {text}")) as running:
        yield running


class Load:
    """A workload on its way in, and the eyes on it."""

    def __init__(self, whole: Whole, api: Api, manifests: list[Json]) -> None:
        self.whole = whole
        self.watch = PodWatch(api)
        self.names = [
            f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in manifests if each["kind"] == "Pod"
        ]
        self._api = api
        self._manifests = manifests
        self._tasks: list[asyncio.Task[Any]] = []
        self._probes = 0

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self.watch.run()), asyncio.create_task(self._create())]
        await self.watch.seen.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _create(self) -> None:
        creations = [Creation(path_of(each), encode(each)) for each in self._manifests]
        await create(self._api, creations, in_flight=4, rate=RATE)

    async def probe(self) -> float:
        """Seconds until a new pod that fits anywhere is bound."""
        self._probes += 1
        name = f"{PROBE}-{self._probes}"
        amounts = {"cpu": "1m", "memory": "1Mi"}
        container = {"name": "main", "image": "probe", "resources": {"requests": amounts, "limits": amounts}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": "berth-scheduler", "priorityClassName": PROBE, "containers": [container]},
        }
        began = time.monotonic()
        await self.whole.call("POST", "/api/v1/namespaces/default/pods", pod)

        async def bound() -> bool:
            return bool(self.watch.expect(f"default/{name}").node)

        await until(bound, "a probe to be bound", timeout_s=RECOVERED_S)
        return time.monotonic() - began

    async def settled(self) -> None:
        """Every pod is created, and bound or told why not."""
        await self._tasks[1]

        async def look() -> bool:
            return all(self.watch.expect(name).is_settled for name in self.names)

        try:
            await until(look, "every pod to be placed or told", timeout_s=SETTLED_S)
        except AssertionError as error:
            left = [name for name in self.names if not self.watch.expect(name).is_settled]
            said = [(name, (await self.whole.why(*name.split("/"))).message) for name in left[:4]]
            raise AssertionError(f"{error}: {len(left)} are neither: {said}") from None

    async def check(self) -> None:
        """Complete and correct, by the API server's own objects."""
        whole = self.whole
        pods = await whole.items(PODS)
        assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []
        assert broken_gangs(pods, await whole.items(ALL_GROUPS)) == []
        assert [name for name, fate in self.watch.fates.items() if fate.moved] == []
        here = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
        assert set(self.names) <= set(here), "no pod is lost"
        silent = [name for name, pod in here.items() if not pod["spec"].get("nodeName") and not refusal_of(pod)]
        assert silent == []
        reserved = [each.get("status", {}).get("phase") for each in await whole.items(ALL_RESERVATIONS)]
        assert all(phase in ("Available", "Succeeded", "Pending") for phase in reserved), reserved
        assert await whole.counted("placement-solver", "berth_solver_rejected_plans_total") == 0


async def epoch(whole: Whole) -> int:
    """The epoch that cluster-writer acts in."""
    try:
        raw = await whole.bus.ask(question_subject("cluster-writer", "status"), encode(StatusQuestion()))
    except BusError:
        return 0
    return int(decode(raw, StatusAnswer).facts["epoch"])


async def cluster(whole: Whole, api: Api, nodes: int = 100) -> None:
    """Nodes with GPUs, known to Berth."""
    first = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PROBE},
        "value": 10_000,
    }
    await create_all(api, [first, *generate_cluster(ClusterShape(nodes=nodes), seed=3)])

    async def counted() -> bool:
        found = await whole.items(NODES)
        return sum("koordinator.sh/gpu-core" in node["status"]["allocatable"] for node in found) >= nodes * 0.6

    await until(counted, "the GPUs of the nodes")


def workload(pods: int = 1_200) -> list[Json]:
    """Singles with shared and whole GPUs, gangs, reservations with owners, quota groups."""
    return generate_workload(WorkloadShape(pods=pods, gangs=30, gang_members=8, reservations=20), seed=3)


class Recovery(NamedTuple):
    what: str
    seconds: float


def print_table(rows: list[Recovery], load: Load, took_s: float) -> None:
    bound = sum(bool(fate.node) for fate in load.watch.fates.values())
    print(f"\n{len(load.names)} pods in {took_s:.0f} s, {bound} bound (probes included), the rest told why not")
    print("a pod created right after the fault is bound after")
    for row in rows:
        print(f"  {row.what:<34}{row.seconds:6.1f} s")


async def test_every_service_and_the_bus_are_killed_once(whole: Whole) -> None:
    async with Api(whole.stack.kube_url) as api:
        await cluster(whole, api)
        rows = [Recovery("no fault", 0.0)]
        began = time.monotonic()
        async with Load(whole, api, workload()) as load:
            rows[0] = Recovery("no fault", await load.probe())
            for name in [*(process.name for process in whole.stack.services()), NATS_SERVER]:
                process = whole.stack.processes[name]
                starts = process.starts
                process.signal(signal.SIGKILL)
                rows.append(Recovery(f"kill -9 {name}", await load.probe()))

                async def again(process: Any = process, starts: int = starts) -> bool:
                    return process.starts > starts and bool(process.pid)

                await until(again, f"{name} to be started again")
            await load.settled()
            print_table(rows, load, time.monotonic() - began)
            await load.check()


async def _delete_stream(whole: Whole, bucket: str) -> None:
    """Delete a bucket behind everybody's back."""
    client = Client()
    await client.connect(whole.stack.nats_url)
    try:
        await client.jetstream().delete_stream(f"KV_{bucket}")
    finally:
        await client.close()


async def _lose(whole: Whole, bucket: str, after: Callable[[Load], Awaitable[None]]) -> None:
    async with Api(whole.stack.kube_url) as api:
        await cluster(whole, api)
        began = time.monotonic()
        async with Load(whole, api, workload(800)) as load:
            await load.probe()

            async def some_bound() -> bool:
                return load.watch.bound >= 150

            await until(some_bound, "150 pods bound")
            await _delete_stream(whole, bucket)
            rows = [Recovery(f"{bucket} deleted", await load.probe())]
            await after(load)
            await load.settled()
            print_table(rows, load, time.monotonic() - began)
            await load.check()


async def test_the_ledger_is_deleted(whole: Whole) -> None:
    before = await epoch(whole)

    async def raised(load: Load) -> None:
        async def look() -> bool:
            return await epoch(whole) > before

        await until(look, "a new epoch", timeout_s=RECOVERED_S)

    await _lose(whole, buckets.LEDGER, raised)


@pytest.mark.parametrize(
    "bucket", [buckets.STATE, buckets.INVENTORY, buckets.QUOTA, buckets.RESERVATION, buckets.LEASE]
)
async def test_a_bucket_that_can_be_made_again_is_deleted(whole: Whole, bucket: str) -> None:
    async def nothing(load: Load) -> None:
        pass

    await _lose(whole, bucket, nothing)


async def test_a_paused_writer_that_wakes_up_does_no_harm(whole: Whole) -> None:
    """Longer than its Lease lasts, with a successor started beside it."""
    async with Api(whole.stack.kube_url) as api:
        await cluster(whole, api)
        began = time.monotonic()
        async with Load(whole, api, workload(600)) as load:
            rows = [Recovery("no fault", await load.probe())]
            for name in ("cluster-writer", "placement-solver", "cluster-watcher", NATS_SERVER):
                async with whole.paused(name):
                    await asyncio.sleep(8)
                rows.append(Recovery(f"{name} paused for 8 s, then", await load.probe()))
            await load.settled()
            print_table(rows, load, time.monotonic() - began)
            await load.check()
