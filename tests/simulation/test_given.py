"""What a node was told when a pod was bound to it stays its word, whatever is written on the pod later."""

from __future__ import annotations

import random

import msgspec
from tests.simulation.given import Given
from tests.simulation.users import PATHS
from tests.simulation.workload import node

from berth.contracts import names
from berth.invariants import Counts, NodeHold
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import KubeletSettings
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.scheduling import WorldScheduler
from berth.testing.simulation.world import World

NOTE = names.ANNOTATION_DEVICE_ALLOCATED
POD = PATHS["Pod"]


def card(minor: int, core: int) -> str:
    """The annotation of a pod with one card."""
    return msgspec.json.encode({"gpu": [{"minor": minor, "resources": {names.GPU_CORE: str(core)}}]}).decode()


def note(kube: SimKube, name: str, text: str) -> None:
    body = msgspec.json.encode({"metadata": {"annotations": {NOTE: text}}})
    assert kube.perform("patch", POD._replace(name=name), body).status == 200


def test_a_node_holds_what_it_was_told_at_the_bind() -> None:
    world = World(1)
    quiet = KubeletSettings(heartbeat_s=0.0)
    kube = SimKube(WorldScheduler(world), random.Random(1), wall=world.wall, kubelet=quiet)
    counts = Counts()
    given = Given(kube, counts)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    bound = [
        pod_manifest(name, PodRequest(500, 512, 1), namespace="team", annotations={NOTE: card(number, 50)})
        for number, name in enumerate(("a", "b"))
    ]
    for pod in bound:
        pod["spec"]["nodeName"] = "n1"
    waits = pod_manifest("c", PodRequest(500, 512, 1), namespace="team", annotations={NOTE: card(3, 50)})
    kube.load([home, *node("n1", 4), *bound, waits])
    world.run(30.0)

    def holds() -> list[tuple[str, int, int]]:
        return sorted((each.node, each.id, each.percent) for each in given.holds())

    assert all(isinstance(each, NodeHold) for each in given.holds())
    assert (holds(), given.rewritten()) == ([("n1", "0", 50), ("n1", "1", 50)], [])
    note(kube, "c", card(2, 100))
    assert given.rewritten() == []
    note(kube, "a", card(1, 50))
    note(kube, "b", card(1, 25))
    told = given.rewritten()
    assert [text.split(" ")[0] for text in told] == ["team/a", "team/b"]
    assert counts.judgements["I1d"] > 0
    assert holds() == [("n1", "0", 50), ("n1", "1", 50)]
    kube.perform("delete", POD._replace(name="a"), gracePeriodSeconds="0")
    assert holds() == [("n1", "1", 50)]
    world.close()
