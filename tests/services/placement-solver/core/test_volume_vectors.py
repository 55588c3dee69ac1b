"""The reference cases of the plugins about volumes, through the constraints of the solver."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from berth.cluster_watcher.core.nodes import node_of
from berth.cluster_watcher.kinds import KINDS
from berth.contracts import kube, state
from berth.contracts.codec import encode
from berth.placement_solver.core.constraints.node_volume_limits import NodeVolumeLimits
from berth.placement_solver.core.constraints.volume_restrictions import VolumeRestrictions
from berth.placement_solver.core.constraints.volume_zone import VolumeZone
from berth.placement_solver.core.node_labels import NodeLabels
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Charge, Rejection, Spec, Target
from berth.placement_solver.core.tallies.volumes import VolumesTally
from berth.placement_solver.core.volumes import Volumes
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pods import pod_of
from berth.testing.vectors import cases
from berth.transaction.claims import Claim, Name

SECTIONS = {
    "persistentVolumeClaims": "persistentvolumeclaim",
    "persistentVolumes": "persistentvolume",
    "storageClasses": "storageclass",
    "csiNodes": "csinode",
    "csiDrivers": "csidriver",
    "csiStorageCapacities": "csistoragecapacity",
    "volumeAttachments": "volumeattachment",
}
KIND = {kind.prefix: kind for kind in KINDS}


def read_pod(item: dict[str, Any]) -> state.Pod:
    metadata = {"namespace": "default", "uid": f"uid-{item['metadata']['name']}"} | item["metadata"]
    return pod_of(msgspec.json.decode(msgspec.json.encode(item | {"metadata": metadata}), type=PodItem), 1)


class World:
    """What a case gives, in the columns and tallies of a solver."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.nodes = Nodes()
        self.volumes = Volumes()
        self.pods: dict[Name, state.Pod] = {}
        self.tally = VolumesTally(self.nodes, self.volumes, self.pods.get)
        for item in given["nodes"]:
            node = node_of(msgspec.convert(item, kube.Node), 1)
            self.nodes.see_node(node.name, node)
        for section, prefix in SECTIONS.items():
            for item in given.get(section, []):
                self.see(prefix, item)
        for tracker in self.volumes.complete.values():
            tracker.marked(1, complete=True)
            tracker.end()
        for item in given.get("pods", []):
            pod = read_pod(item)
            self.pods[pod.namespace, pod.name] = pod
            claim = Claim((pod.namespace, pod.name), pod.uid, pod.node, pod.template.requests)
            self.tally.apply(Charge(claim, self.nodes.row(pod.node), pod), 1)

    def see(self, prefix: str, item: dict[str, Any]) -> None:
        kind = KIND[prefix]
        metadata = {"namespace": "default", "uid": f"uid-{item['metadata']['name']}"} | item["metadata"]
        message = kind.convert(msgspec.convert(item | {"metadata": metadata}, kind.item), 1)
        rest = kind.key(metadata["namespace"], metadata["name"]).partition(".")[2]
        self.volumes.read(prefix, rest, encode(message), deleted=False)


def judge(constraint: Any, world: World, case: dict[str, Any]) -> None:
    pod = read_pod(case["given"]["pod"])
    assert not pod.problems
    assert not pod.template.constraints
    query = constraint.prefilter(Spec((pod.namespace, pod.name), pod.namespace, pod.uid, pod.template))
    expect = case["expect"]
    if "preFilter" in expect:
        assert isinstance(query, Rejection)
        assert written(query) == expect["preFilter"]
        return
    rows = np.arange(len(world.nodes))
    for name, expected in expect["nodes"].items():
        row = world.nodes.rows[name]
        rejection = query
        if query is not None and not isinstance(query, Rejection):
            rejection = constraint.filter(query, Target(row))
            assert bool(constraint.mask(query, rows)[row]) == (rejection is None)
            told = [each.reason for each in constraint.rejections(query, rows) if each.rows[row]]
            assert told == list(rejection.reasons if rejection else ())
        assert written(rejection) == expected


def written(rejection: Rejection | None) -> dict[str, Any]:
    if rejection is None:
        return {"code": "Success"}
    code = "Unschedulable" if rejection.resolvable else "UnschedulableAndUnresolvable"
    return {"code": code, "reasons": list(rejection.reasons)}


@pytest.mark.parametrize("case", cases("kube-scheduler/volume_restrictions"))
def test_volume_restrictions(case: dict[str, Any]) -> None:
    world = World(case["given"])
    judge(VolumeRestrictions(world.nodes, world.volumes, world.tally), world, case)


@pytest.mark.parametrize("case", cases("kube-scheduler/node_volume_limits"))
def test_node_volume_limits(case: dict[str, Any]) -> None:
    world = World(case["given"])
    judge(NodeVolumeLimits(world.nodes, world.volumes, world.tally), world, case)


@pytest.mark.parametrize("case", cases("kube-scheduler/volume_zone"))
def test_volume_zone(case: dict[str, Any]) -> None:
    world = World(case["given"])
    judge(VolumeZone(NodeLabels(world.nodes), world.volumes), world, case)
