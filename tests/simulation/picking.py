"""Nodes on which kubelet picks the cards: two of three, of which one has an agent that asks kubelet what it has given
to whom, and hears of it at once, late or never.

What kubelet picks is drawn, and never looked up anywhere but here: no card of it may be given out by minor, and none
of those that are held by minor may be picked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import grpc
import msgspec
from tests.simulation import inside
from tests.simulation.harness import Harness
from tests.simulation.inside_machine import InsideMachine
from tests.simulation.node_agent import CORES, NODE
from tests.simulation.workload import Create, Delete, Json, Place, Size, Timed

from berth.contracts import names
from berth.contracts.base import Problem
from berth.invariants.facts import ENDED, read_devices
from berth.kubelet.client import Unanswered
from berth.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerDevices,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)
from berth.node_qos_enforcer import kubelet_reading, pod_resources
from berth.simcluster.kubelet import DURATION
from berth.simcluster.store import Event
from berth.simcluster.store.collection import DELETED
from berth.simcluster.store.resource import NODES, PODS
from berth.testing.simulation.services import ServiceSpec

LAW: Final = "kubelet"
CARDS: Final = 4
"""Of the node with an agent."""
PICKING: Final = 2
"""On so many nodes, the first ones, kubelet picks."""
SAID_AFTER_S: Final = (0.0, 0.0, 0.0, 4.0, 15.0, 1e9)
ANSWER_S: Final = 1.5
AWAY: Final = 0.05


class Pick(NamedTuple):
    """What kubelet has picked for a pod, and when it begins to say so."""

    node: str
    namespace: str
    name: str
    minors: tuple[int, ...]
    said_at_s: float


class Picks:
    """What kubelets have picked, and what pods hold by minor on the same nodes, by uid."""

    def __init__(self, harness: Harness, rng: random.Random) -> None:
        self._harness, self._rng = harness, rng
        self._picked: dict[str, Pick] = {}
        self._chosen: dict[str, tuple[str, str, frozenset[int]]] = {}
        self.broken: list[str] = []
        harness.kube.store.listen(self._see)

    def said(self) -> ListPodResourcesResponse:
        """What kubelet of the node with an agent says now."""
        said = [
            each for each in self._picked.values() if each.node == NODE and each.said_at_s <= self._harness.world.now
        ]
        return ListPodResourcesResponse(
            pod_resources=[
                PodResources(name=each.name, namespace=each.namespace, containers=[_container(each.minors)])
                for each in said
            ]
        )

    def pods(self) -> list[Json]:
        """The pods of that node, as kubelet lists them."""
        pods = self._harness.kube.store.state.of(PODS).items.values()
        return [pod.data for pod in pods if pod.data["spec"].get("nodeName") == NODE and not _is_over(pod.data)]

    def _see(self, event: Event) -> None:
        if event.resource is not PODS:
            return
        uid, data = event.obj.uid, event.obj.data
        node = data["spec"].get("nodeName", "")
        if event.kind == DELETED or _is_over(data):
            self._picked.pop(uid, None)
            self._chosen.pop(uid, None)
        elif node and uid not in self._picked and uid not in self._chosen:
            cards = self._cards(node)
            if not cards:
                return
            count = int(data["spec"]["containers"][0]["resources"]["requests"].get(names.NVIDIA_GPU, 0))
            if count:
                self._pick(uid, event.obj.meta, node, count, cards)
            else:
                self._choose(uid, event.obj.key, node, event.obj.meta.get("annotations") or {})

    def _pick(self, uid: str, meta: Json, node: str, count: int, cards: int) -> None:
        self._harness.observer.verdicts.judged(LAW)
        key = f"{meta['namespace']}/{meta['name']}"
        free = sorted({*range(cards)} - {minor for pick in self._on(node) for minor in pick.minors})
        if len(free) < count:
            self.broken.append(f"{key} asks for {count} on {node}, where kubelet has {len(free)} left")
            return
        minors = tuple(self._rng.sample(free, count))
        for other, holder, held in self._chosen.values():
            if other == node and held & {*minors}:
                self.broken.append(f"{key} gets {minors} on {node}, of which {holder} has some by minor")
        said_at_s = self._harness.world.now + self._rng.choice(SAID_AFTER_S)
        self._picked[uid] = Pick(node, meta["namespace"], meta["name"], minors, said_at_s)

    def _choose(self, uid: str, key: str, node: str, notes: Json) -> None:
        minors = frozenset(grant.minor for grant in read_devices(notes) if grant.kind == "gpu")
        if not minors:
            return
        self._harness.observer.verdicts.judged(LAW)
        self._chosen[uid] = node, key, minors
        for pick in self._on(node):
            if minors & {*pick.minors}:
                self.broken.append(f"{key} has {sorted(minors)} on {node}, of which kubelet gave some to {pick.name}")

    def _on(self, node: str) -> Iterator[Pick]:
        return (pick for pick in self._picked.values() if pick.node == node)

    def _cards(self, node: str) -> int:
        seen = self._harness.kube.store.state.of(NODES).items.get(node)
        return int(seen.data["status"]["allocatable"].get(names.NVIDIA_GPU, 0)) if seen is not None else 0


class PickingMachine(InsideMachine):
    """The node whose agent asks kubelet."""

    def __init__(self, folder: Path, rng: random.Random, end_s: float) -> None:
        super().__init__(folder, rng, end_s)
        self._rng = rng
        self._picks: Picks | None = None
        self.cpus(tuple(range(CORES // 2)), tuple(range(CORES // 2, CORES)))
        self.cards(*((f"card-{minor}", True) for minor in range(CARDS)))
        self._patches = ExitStack()
        machine = self

        class Client(_Client):
            picking = machine

        class Api(_Api):
            picking = machine

        self._patches.enter_context(patch.object(pod_resources, "PodResourcesClient", Client))
        self._patches.enter_context(patch.object(kubelet_reading, "KubeletApi", Api))

    def close(self) -> None:
        """See `Machine`."""
        self._patches.close()
        super().close()

    def spec(self) -> ServiceSpec:
        """Its agent, which asks kubelet what it has given to whom, and which pods it has."""
        spec = super().spec()
        environ = {"BERTH_PODRESOURCES_SOCKET": "/kubelet.sock", "BERTH_KUBELET_URL": "http://kubelet"}
        return replace(spec, environ={**spec.environ, **environ})

    def live(self, harness: Harness) -> None:
        """See `Machine`."""
        if self._picks is None:
            self._picks = Picks(harness, self._rng)
        super().live(harness)

    def broken(self) -> list[str]:
        """See `Machine`."""
        return self._picks.broken if self._picks is not None else []

    def is_away(self) -> bool:
        """Whether kubelet answers nothing just now."""
        return self._rng.random() < AWAY

    async def said(self) -> ListPodResourcesResponse:
        """What kubelet says; its answer takes a while."""
        if self.is_away() or self._picks is None:
            raise Unanswered(grpc.StatusCode.UNAVAILABLE, "restarts")
        said = self._picks.said()
        await asyncio.sleep(self._rng.uniform(0.0, ANSWER_S))
        return said

    def asked(self, path: str) -> str | Problem:
        """What kubelet answers over HTTP."""
        if path == "configz":
            return '{"kubeletconfig":{"cpuManagerPolicy":"none"}}'
        if self.is_away() or self._picks is None:
            return Problem(field=path, message="kubelet does not answer")
        return msgspec.json.encode({"items": self._picks.pods()}).decode()


class _Client:
    """In place of a connection to kubelet's PodResources."""

    picking: PickingMachine

    def __init__(self, *_: Any, **__: Any) -> None: ...

    async def __aenter__(self) -> _Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def list(self) -> ListPodResourcesResponse:
        return await self.picking.said()

    async def allocatable(self) -> AllocatableResourcesResponse:
        return AllocatableResourcesResponse()


class _Api:
    """In place of kubelet's server."""

    picking: PickingMachine

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def get(self, path: str, field: str, bytes_max: int) -> str | Problem:
        return self.picking.asked(path)


# --- who is there -----------------------------------------------------------------------------------------------------


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """Nodes of several kinds; the first ones name a count."""
    made = inside.whole_cluster(rng, size)
    agents = [each for each in made if each["metadata"]["name"] != NODE or each["kind"] == "Node"]
    for node in agents:
        number = node["metadata"]["name"].removeprefix("node-")
        if node["kind"] == "Node" and int(number) < PICKING:
            cards = CARDS if number == "0" else inside.MACHINES[int(number)].cards
            node["status"]["allocatable"][names.NVIDIA_GPU] = f"{cards}"
    return agents


def counted(rng: random.Random) -> inside.Asks:
    """Whole cards by a vendor's count."""
    return inside.amounts(1) | {names.NVIDIA_GPU: rng.choice(("1", "1", "2"))}, {}, ""


def actions(rng: random.Random, size: Size) -> list[Timed]:
    """Pods that ask for counts, and for cards by minor; those of another scheduler come first, since nobody can keep it
    from putting one beside a share. Some come again under their name."""
    done = inside.crowd(rng, size, {counted: 3, inside.cards: 3, inside.plain: 1})
    for number in range(size.strangers):
        theirs = inside.pod(f"foreign-{number}", counted(rng), {DURATION: f"{rng.uniform(8, 50):.1f}s"}, "other")
        theirs["spec"]["nodeName"] = f"node-{number % PICKING}"
        done.append(Timed(rng.uniform(0.5, 2.0), Place(theirs)))
    again = [each for each in done if isinstance(each.action, Create) and rng.random() < 0.2]
    for at_s, action in again:
        back_s = at_s + rng.uniform(3.0, 12.0)
        done.append(Timed(back_s, Delete("Pod", action.manifest["metadata"]["name"], 0)))  # type: ignore[union-attr]
        done.append(Timed(back_s + rng.uniform(0.05, 1.0), action))
    return sorted(done, key=lambda timed: timed.at_s)


def _container(minors: tuple[int, ...]) -> ContainerResources:
    ids = [f"card-{minor}" for minor in minors]
    return ContainerResources(
        name="main", devices=[ContainerDevices(resource_name=names.NVIDIA_GPU, device_ids=[each]) for each in ids]
    )


def _is_over(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED
