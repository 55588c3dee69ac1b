"""Kubernetes and YARN share what a node lends: the whole control plane, and Hadoop's own processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.clusters import HOME
from tests.e2e.corner import Corner
from tests.e2e.koordlet import Koordlet
from tests.e2e.objects import NODES, PODS
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole
from tests.yarn.hadoop import LEAST_MB, PAIR, Hadoop, MissingError, Rest

from berth.bus.jetstream import newest
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.names import (
    ANNOTATION_YARN_NODE_ID,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_COMPONENT,
)
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.slo import CONFIG_MAP, NodeOffer
from berth.contracts.subjects import named_key, question_subject
from berth.testing.environment import environment_of
from berth.yarn_operator.core.notes import Noted, read_note
from berth.yarn_operator.core.pods import DEFAULT_CLUSTER, NODE_MANAGER
from berth.yarn_operator.core.units import MIB, NONE, Share
from berth.yarn_operator.settings import SERVICE, Settings

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SLOW_S = 90.0
"""A Java process needs a while to begin."""
LOOK_S = 0.02
LOOKS_MIN = 50
OVER_S = 2
MAP = f"/api/v1/namespaces/{HOME}/configmaps"
COLOCATION = {"enable": True, "cpuReclaimThresholdPercent": 75, "updateTimeThresholdSeconds": 1}
BE = {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch"}


@pytest.fixture(scope="module")
def hadoop() -> Iterator[Hadoop]:
    try:
        made = Hadoop()
    except MissingError as error:
        pytest.skip(str(error))
    with made:
        made.start(*PAIR, "nm")
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(hadoop: Hadoop) -> AsyncIterator[Whole]:
    async with run_whole() as running:
        yield running


@asynccontextmanager
async def operator(whole: Whole, hadoop: Hadoop, number: int) -> AsyncIterator[None]:
    """yarn-operator as a process; killed on the way out."""
    settings = Settings(
        nats_url=whole.stack.nats_url,
        instance=f"{SERVICE}-{number}",
        lease_ttl_s=2,
        yarn_clusters=(f"{DEFAULT_CLUSTER}={'|'.join(map(hadoop.url, PAIR))}",),
        yarn_interval_s=0.2,
        yarn_over_commit_timeout_s=OVER_S,
    )
    with (hadoop.home / f"{SERVICE}.out").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "berth.yarn_operator"],
            env={**os.environ, **environment_of(settings)},
            stdout=out,
            stderr=out,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Node:
    """The node with the NodeManager, as Kubernetes, slo-manager and YARN show it."""

    def __init__(self, whole: Whole, name: str, yarn: list[Rest]) -> None:
        self._whole = whole
        self._yarn = yarn
        self.name = name
        self.looks = 0
        self.beyond: list[str] = []

    async def noted(self) -> Noted:
        """What YARN is charged with."""
        node = await self._whole.call("GET", f"{NODES}/{self.name}")
        read = read_note(node["metadata"].get("annotations") or {})
        assert isinstance(read, Noted), read
        return read

    async def offer(self) -> NodeOffer | None:
        """The newest one that the bus has stored."""
        stored = await newest(self._whole.bus._link, buckets.SLO, named_key("offer", self.name))
        return decode(stored.value, NodeOffer) if stored is not None and stored.value else None

    async def manager(self) -> dict[str, Any] | None:
        """The NodeManager as the active ResourceManager lists it."""
        for each in self._yarn:
            for found in await each.nodes():
                if found["state"] == "RUNNING":
                    return found
        return None

    async def shares(self) -> tuple[Share, Share] | None:
        """What YARN is granted, and what it uses."""
        found = await self.manager()
        if found is None:
            return None
        used = Share(found["usedVirtualCores"], found["usedMemoryMB"])
        free = Share(found["availableVirtualCores"], found["availMemoryMB"])
        return Share(used.vcores + free.vcores, used.memory_mb + free.memory_mb), used

    async def watch(self) -> None:
        """Look again and again whether offer and grant are more than the node lends. An offer that changed during the
        look says nothing."""
        while True:
            before = await self.offer()
            shares = await self.shares()
            after = await self.offer()
            if shares is not None and before is not None and before == after:
                self.looks += 1
                granted = shares[0]
                amounts = {BATCH_CPU: granted.vcores * 1000, BATCH_MEMORY: granted.memory_mb * MIB}
                for name, amount in amounts.items():
                    if before.offers[name].amount + amount > before.origin[name]:
                        self.beyond.append(f"look {self.looks}, offer {before}: {granted}")
            await asyncio.sleep(LOOK_S)

    async def until_granted(self, *, at_least: Share = NONE, at_most: Share | None = None, what: str) -> Share:
        """What YARN is granted, once it is what it is charged with, no less than `at_least` and no more than
        `at_most`."""

        async def look() -> Share | None:
            shares, noted = await self.shares(), await self.noted()
            if shares is None or shares[0] != noted.charged or not at_least.within(shares[0]):
                return None
            return shares[0] if at_most is None or shares[0].within(at_most) else None

        try:
            return await until(look, what, timeout_s=SLOW_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.shares()}, {(await self.noted()).charged}") from None


@asynccontextmanager
async def watched(node: Node) -> AsyncIterator[None]:
    """Offer and grant are never more than there is, meanwhile."""
    watching = asyncio.create_task(node.watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert not node.beyond
    assert node.looks >= LOOKS_MIN


async def test_kubernetes_and_yarn_share_a_node(whole: Whole, hadoop: Hadoop) -> None:
    async with whole.corner() as corner:
        await asyncio.to_thread(hadoop.activate, "rm1")
        rests = [Rest(whole.session, hadoop.url(name)) for name in PAIR]
        name = await corner.node("worker", cpu="40", memory="64Gi")
        node = Node(whole, name, rests)
        found = await until(node.manager, "a NodeManager", timeout_s=SLOW_S)
        assert (found["availableVirtualCores"], found["availMemoryMB"]) == (1, LEAST_MB)
        koordlet = await _lends(whole, node)
        await _node_manager(corner, node, found["id"])
        await _shared(whole, hadoop, corner, node, rests, koordlet)


async def _shared(
    whole: Whole, hadoop: Hadoop, corner: Corner, node: Node, rests: list[Rest], koordlet: Koordlet
) -> None:
    async with operator(whole, hadoop, 1):
        half = await node.until_granted(at_least=Share(10, 1), what="YARN's part")
        offer = await node.offer()
        assert offer is not None
        assert half.vcores == offer.origin[BATCH_CPU] // 2000
        async with watched(node):
            # Batch pods come for all that Kubernetes is offered: YARN shrinks, and Kubernetes is offered more.
            offered = offer.offers[BATCH_CPU].amount
            await corner.pod("batch", {BATCH_CPU: str(offered), BATCH_MEMORY: "1Gi"}, labels=BE)
            await corner.bound("batch")
            less = await node.until_granted(at_most=half._replace(vcores=half.vcores - 1), what="a smaller part")

            # They go: YARN grows again.
            await corner.delete_pod("batch")
            await node.until_granted(at_least=half, what="its part again")
            assert less.vcores < half.vcores

            # A NodeManager that registers anew comes with what its configuration says.
            hadoop.kill("nm")
            hadoop.start("nm")
            await _until_registered_anew(node)
            await node.until_granted(at_least=half, what="its part again after the NodeManager")

            # No ResourceManager is active: it stays charged, whatever Kubernetes' pods would like.
            charged = (await node.noted()).charged
            hadoop.kill("rm1")
            await until(lambda: _trouble(whole), "yarn-operator to say that YARN is away", timeout_s=SLOW_S)
            await corner.pod("batch-2", {BATCH_CPU: str(offered), BATCH_MEMORY: "1Gi"}, labels=BE)
            await corner.bound("batch-2")
            await asyncio.sleep(2.0)
            assert (await node.noted()).charged == charged
            await asyncio.to_thread(hadoop.activate, "rm2")
            await node.until_granted(at_least=less, at_most=charged, what="its part from the other ResourceManager")
            await corner.delete_pod("batch-2")
            await node.until_granted(at_least=half, what="all of its part from the other ResourceManager")

    # Another replica takes over, and finds a container that runs. When the node comes to lend less, what is over ends.
    async with operator(whole, hadoop, 2):
        command = "sleep 1000"
        app = await rests[1].submit(command, memory_mb=1024, vcores=half.vcores)

        async def uses(vcores: int) -> bool:
            shares = await node.shares()
            return shares is not None and shares[1].vcores == vcores

        await until(lambda: uses(half.vcores), "a container that runs", timeout_s=SLOW_S)
        await node.until_granted(at_least=half, what="more than what it uses")
        await koordlet.report("28")
        few = Share(half.vcores - 1, half.memory_mb * 2)
        await node.until_granted(at_most=few, what="a part of what is left")
        await until(lambda: uses(0), "YARN to end what is over", timeout_s=SLOW_S)
        assert await rests[1].state(app) in ("FAILED", "KILLED", "FINISHED")
        offer = await node.offer()
        assert offer is not None
        assert (await node.noted()).charged.vcores * 1000 <= offer.origin[BATCH_CPU]


async def _lends(whole: Whole, node: Node) -> Koordlet:
    """Have the node lend what it does not use."""
    await whole.try_call("POST", "/api/v1/namespaces", {"metadata": {"name": HOME}})
    koordlet = Koordlet(whole, node.name)
    await koordlet.start()
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP.partition("/")[2]}}
    head["metadata"] |= {"namespace": HOME}
    await whole.call("POST", MAP, head | {"data": {"colocation-config": json.dumps(COLOCATION)}})

    async def is_offered() -> bool:
        offer = await node.offer()
        return offer is not None and BATCH_CPU in offer.offers and offer.offers[BATCH_CPU].amount > 0

    await koordlet.report("2")
    await until(lambda: _is_there(node), "an offer, of nothing yet")
    await koordlet.report("2")
    await until(is_offered, "an offer")
    return koordlet


async def _is_there(node: Node) -> bool:
    return await node.offer() is not None


async def _node_manager(corner: Corner, node: Node, node_id: str) -> None:
    """The pod of the NodeManager, where a DaemonSet would have it."""
    pod = corner.manifest(
        "node-manager",
        labels={LABEL_COMPONENT: NODE_MANAGER},
        annotations={ANNOTATION_YARN_NODE_ID: node_id},
        nodeName=node.name,
    )
    await corner.whole.call("POST", PODS.format(corner.namespace), pod)


async def _until_registered_anew(node: Node) -> None:
    """Return once YARN lists the NodeManager with the little that its configuration says; it is given its part at
    once, so that this may never be seen."""
    before = (await node.manager() or {}).get("lastHealthUpdate", 0)

    async def look() -> bool:
        found = await node.manager()
        return found is not None and found["lastHealthUpdate"] > before + 2000

    await until(look, "the NodeManager to register anew", timeout_s=SLOW_S)


async def _trouble(whole: Whole) -> bool:
    answer = await whole.bus.ask(question_subject(SERVICE, "status"), encode(StatusQuestion()))
    return decode(answer, StatusAnswer).facts["trouble"] != "none"
