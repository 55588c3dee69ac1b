"""The service between a real nats-server and ResourceManagers that are doubles of their REST."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tests.services.worlds.shell import ShellWorld

from berth.bus.port import Entry
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.command import AnnotateNode
from berth.contracts.names import (
    ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    ANNOTATION_YARN_NODE_ID,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_COMPONENT,
)
from berth.contracts.slo import NodeOffer, Offer
from berth.contracts.state import Node, Pod, PodTemplate
from berth.contracts.subjects import named_key, namespaced_key
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually
from berth.yarn_operator.core.notes import Noted, read_note
from berth.yarn_operator.core.pods import DEFAULT_CLUSTER, NODE_MANAGER
from berth.yarn_operator.core.units import MIB, NONE, Share
from berth.yarn_operator.settings import SERVICE, Settings
from berth.yarn_operator.shell import main

pytestmark = pytest.mark.asyncio
ID = "worker-1:8041"
ORIGIN = {BATCH_CPU: 20_000, BATCH_MEMORY: 4000 * MIB}


class ResourceManagers:
    """A pair that shares its nodes, as far as the service talks to it."""

    def __init__(self) -> None:
        self.active = 0
        self.share = Share(1, 1)
        self.used = Share()
        self.bodies: list[dict[str, Any]] = []
        self.runners: list[web.AppRunner] = []
        self.urls: list[str] = []

    async def start(self) -> None:
        for at in range(2):
            app = web.Application()
            app.router.add_get("/ws/v1/cluster/info", partial(self._info, at))
            app.router.add_get("/ws/v1/cluster/nodes", partial(self._nodes, at))
            app.router.add_post("/ws/v1/cluster/nodes/{id}/resource", partial(self._grant, at))
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.runners.append(runner)
            self.urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")

    async def _info(self, at: int, _: web.Request) -> web.Response:
        return web.json_response({"clusterInfo": {"haState": "ACTIVE" if at == self.active else "STANDBY"}})

    async def _nodes(self, at: int, _: web.Request) -> web.Response:
        if at != self.active:
            return web.Response(status=307, headers={"Location": "/"})
        free = Share(self.share.vcores - self.used.vcores, self.share.memory_mb - self.used.memory_mb)
        node = {
            "id": ID,
            "state": "RUNNING",
            "usedMemoryMB": self.used.memory_mb,
            "availMemoryMB": free.memory_mb,
            "usedVirtualCores": self.used.vcores,
            "availableVirtualCores": free.vcores,
        }
        return web.json_response({"nodes": {"node": [node, {"id": "bad:1", "state": "RUNNING", "usedMemoryMB": -3}]}})

    async def _grant(self, at: int, request: web.Request) -> web.Response:
        assert request.match_info["id"] == ID
        assert request.query["user.name"] == "yarn"
        if at != self.active:
            return web.Response(status=307, headers={"Location": "/"})
        body = await request.json()
        self.bodies.append(body)
        self.share = Share(body["resource"]["vCores"], body["resource"]["memory"])
        return web.json_response(body["resource"])


class Nothing:
    """Takes no notice."""

    def reset(self) -> None: ...

    def apply(self, entry: Entry) -> None: ...

    def end(self, sequence: int) -> None: ...


class World(ShellWorld[Settings]):
    """cluster-writer and slo-manager, in the hands of the test."""

    service, publishes, kinds, command = SERVICE, buckets.SLO, ("nodes", "pods"), AnnotateNode

    def __init__(self, server: NatsServer) -> None:
        super().__init__(server, Nothing())
        self.version = 1
        self.yarn = ResourceManagers()
        self.note: str | None = None
        self.follows = True

    async def begin(self) -> None:
        await super().begin()
        self.slo = self.bus.owned(buckets.SLO)
        await self.slo.ready()
        await self.yarn.start()

    async def end(self) -> None:
        await super().end()
        for each in self.yarn.runners:
            await each.cleanup()

    async def start(self) -> None:
        clusters = (f"{DEFAULT_CLUSTER}={'|'.join(self.yarn.urls)}",)
        context = await self.context("one", Settings(lease_ttl_s=2, yarn_clusters=clusters, yarn_interval_s=0.02))
        self.run(context, main(context))

    def pod(self, name: str, **template: Any) -> None:
        made = Pod(
            namespace="default",
            name=name,
            uid=name,
            version=1,
            node="n1",
            phase="Running",
            template=PodTemplate(**template),
        )
        self.put(namespaced_key("pod", "default", name), made)

    @property
    def noted(self) -> Noted:
        read = read_note({ANNOTATION_THIRD_PARTY_ALLOCATIONS: self.note} if self.note else {})
        assert isinstance(read, Noted)
        return read

    def node(self) -> None:
        annotations = {ANNOTATION_THIRD_PARTY_ALLOCATIONS: self.note} if self.note else {}
        self.put(named_key("node", "n1"), Node(name="n1", uid="u1", version=1, annotations=annotations))

    def offer(self) -> None:
        charged = {BATCH_CPU: self.noted.charged.vcores * 1000, BATCH_MEMORY: self.noted.charged.memory_mb * MIB}
        offers = {name: Offer(amount=amount - charged[name]) for name, amount in ORIGIN.items()}
        offer = NodeOffer(
            node="n1", uid="u1", origin=ORIGIN, offers=offers, parties={"hadoop-yarn": self.noted.revision}
        )
        self.slo.put(named_key("offer", "n1"), encode(offer))

    async def _command(self, message: Any) -> None:
        await super()._command(message)
        command = self.commands[-1]
        name = ANNOTATION_THIRD_PARTY_ALLOCATIONS
        if command.expects != {name: self.note}:
            return
        self.note = command.annotations[name]
        self.node()
        if self.follows:
            self.offer()


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    made = World(nats_server)
    await made.begin()
    try:
        yield made
    finally:
        await made.end()


async def test_yarn_has_its_part_and_gives_it_back(world: World) -> None:
    world.follows = False
    world.node()
    world.offer()
    world.pod("nm", labels={LABEL_COMPONENT: NODE_MANAGER}, annotations={ANNOTATION_YARN_NODE_ID: ID})
    world.complete()
    await world.start()

    # Charged at once, granted when Kubernetes is offered the rest only.
    await eventually(lambda: world.noted.charged == Share(10, 2000), what="a charge")
    await asyncio.sleep(0.2)
    assert world.yarn.share == NONE  # what it came with was not charged
    world.follows = True
    world.offer()
    await eventually(lambda: world.yarn.share == Share(10, 2000), what="a grant")
    assert world.yarn.bodies[-1]["overCommitTimeout"] == -1

    # Kubernetes asks for more than was left: YARN shrinks first, to what it uses and a part of the rest.
    world.yarn.used = Share(2, 400)
    world.pod("batch", requests={BATCH_CPU: 10_000, BATCH_MEMORY: 2000 * MIB})
    await eventually(lambda: world.yarn.share == Share(6, 1200), what="a smaller grant")
    await eventually(lambda: world.noted.charged == Share(6, 1200), what="a smaller charge")

    # The other of the pair becomes active; a NodeManager that registers anew gets its part again.
    world.yarn.active = 1
    world.yarn.share = Share(1, 1)
    await eventually(lambda: world.yarn.share == Share(6, 1200), what="the grant again")
    facts = (await world.status()).facts
    assert "bad" not in str(facts.get("trouble"))
    assert facts["problems"] == 1


async def test_while_yarn_is_away_it_keeps_what_it_has(world: World) -> None:
    world.node()
    world.offer()
    world.pod("nm", labels={LABEL_COMPONENT: NODE_MANAGER}, annotations={ANNOTATION_YARN_NODE_ID: ID})
    world.complete()
    await world.start()
    await eventually(lambda: world.yarn.share == Share(10, 2000), what="a grant")
    world.yarn.active = 9
    world.pod("batch", requests={BATCH_CPU: 10_000, BATCH_MEMORY: 2000 * MIB})
    await asyncio.sleep(0.2)
    assert world.noted.charged == world.yarn.share == Share(10, 2000)
    assert "not active" in str((await world.status()).facts["trouble"])
