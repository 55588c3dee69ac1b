"""Two solvers share a backlog: each pod is decided once, no capacity is given twice, and one goes on alone when it
must."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.e2e.ledger_log import LedgerLog, following
from tests.e2e.objects import DEVICES, NODES, Json, refusal_of
from tests.e2e.recount import broken_gangs, over_capacity
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.cli.load.pods import PodWatch
from berth.contracts.codec import decode, encode
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import question_subject
from berth.simcluster.generate import ClusterShape, WorkloadShape, generate_cluster, generate_workload

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SOLVERS = ("placement-solver", "placement-solver-1")
PODS = "/api/v1/pods"
ALL_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups"
SETTLED_S = 150.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole() -> AsyncIterator[Whole]:
    async with run_whole(replicas={"placement-solver": 2}, sim_arguments=["--no-running"]) as running:
        yield running


@pytest.fixture(scope="module")
def backlog() -> list[Json]:
    """1,500 pods: singles with shared and whole GPUs, and gangs; more than the cluster can hold."""
    shape = WorkloadShape(pods=1340, gangs=20, gang_members=8)
    return generate_workload(shape, seed=7)


async def test_two_solvers_decide_a_backlog_once(whole: Whole, backlog: list[Json]) -> None:
    await both_alive(whole)
    log = LedgerLog()
    async with following(whole.bus, log), Api(whole.stack.kube_url) as api:
        watch = PodWatch(api)
        watching = asyncio.create_task(watch.run())
        await watch.seen.wait()
        await create_all(api, generate_cluster(ClusterShape(nodes=100), seed=7))
        await create_all(api, backlog)
        await settled(watch, backlog)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    await check(whole, log, watch)
    assert log.solvers() == set(SOLVERS)
    shares = Counter(plan.solver for plan in log.plans.values())
    print(f"\nplans by solver: {dict(shares)}; bound {watch.bound} of {len(watch.fates)}")


async def test_one_goes_on_when_the_other_is_killed(whole: Whole) -> None:
    await both_alive(whole)
    log = LedgerLog()
    shape = WorkloadShape(pods=600, prefix="second", namespace="kube-public", gangs=6, gang_members=4)
    pods = generate_workload(shape, seed=8)
    for manifest in pods:
        if manifest["kind"] == "Pod":  # small, so that there is capacity for them beside the first backlog
            resources = manifest["spec"]["containers"][0]["resources"]
            resources["requests"] = resources["limits"] = {"cpu": "10m", "memory": "1Mi"}
    async with following(whole.bus, log), Api(whole.stack.kube_url) as api:
        watch = PodWatch(api)
        watching = asyncio.create_task(watch.run())
        await watch.seen.wait()
        creating = asyncio.create_task(create_all(api, pods, in_flight=8))
        await until(lambda: _enough(log), "plans of both solvers")
        victim = whole.stack.processes[SOLVERS[1]]
        victim.signal(signal.SIGKILL)
        await creating
        await settled(watch, pods)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    await check(whole, log, watch)


async def _enough(log: LedgerLog) -> bool:
    return log.solvers() == set(SOLVERS)


async def both_alive(whole: Whole) -> None:
    """Both solvers know of each other."""

    async def look() -> bool:
        return await solver_counts(whole) == [2, 2]

    await until(look, "two solvers that know of each other")


async def solver_counts(whole: Whole) -> list[int]:
    """How many solvers each solver believes to be alive."""
    raw = await whole.bus.ask_all(question_subject("placement-solver", "status"), encode(StatusQuestion()))
    return [int(decode(each, StatusAnswer).facts["solvers"]) for each in raw]


async def settled(watch: PodWatch, manifests: list[Json]) -> None:
    """Every pod has a node, or a reason why not."""
    wanted = [
        f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in manifests if each["kind"] == "Pod"
    ]

    async def look() -> bool:
        return all(watch.expect(name).is_settled for name in wanted)

    try:
        await until(look, "every pod to be placed or told", timeout_s=SETTLED_S)
    except AssertionError as error:
        open_ones = [name for name in wanted if not watch.expect(name).is_settled]
        raise AssertionError(f"{error}: {len(open_ones)} are neither, such as {open_ones[:5]}") from None


async def check(whole: Whole, log: LedgerLog, watch: PodWatch) -> None:
    """One decision per uid and attempt; the objects agree with it; nothing beyond capacity; gangs whole."""
    pods = await whole.items(PODS)
    committed = log.committed()
    assert {key: found for key, found in committed.items() if len(found) > 1} == {}
    node_of = {key[0]: found[0].node for key, found in committed.items() if found}
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    for pod in bound:
        decided = node_of.get(pod["metadata"]["uid"])
        assert decided is None or decided == pod["spec"]["nodeName"], pod["metadata"]["name"]
    assert not [name for name, fate in watch.fates.items() if fate.moved]
    assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []
    assert broken_gangs(pods, await whole.items(ALL_GROUPS)) == {}
    assert not [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName") and not refusal_of(pod)]
    for name in SOLVERS:
        assert await whole.counted(name, "berth_solver_rejected_plans_total") == 0
