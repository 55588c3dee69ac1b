"""The act of a gang in the network: its members have to lie in one zone."""

from __future__ import annotations

import json
from typing import Final

from berth.cli.demo.scenario import NAMESPACE, PRIORITY_CLASS, ZONE, Scenario
from berth.cli.demo.stage import Stage
from berth.contracts import names
from berth.simcluster.generate import PodRequest, pod_manifest
from berth.simcluster.store.objects import Json

GANG: Final = "nearby"
MEMBERS: Final = 4
LAYER: Final = "ZoneLayer"
NODES: Final = "/api/v1/nodes"


def network() -> Json:
    """The zones as the one layer of the network above the nodes."""
    zone = {"topologyLayer": LAYER, "labelKey": [ZONE]}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": [zone, {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": LAYER}]},
    }


def members() -> list[Json]:
    """A PodGroup that asks for one zone, and its pods."""
    spec = {"gatherStrategy": [{"layer": LAYER, "strategy": "MustGather"}]}
    group: Json = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": GANG,
            "namespace": NAMESPACE,
            "annotations": {names.ANNOTATION_GANG_TOPOLOGY: json.dumps(spec)},
        },
        "spec": {"minMember": MEMBERS},
    }
    labels = {names.LABEL_POD_GROUP: GANG}
    request = PodRequest(500, 1_024)
    pods = [
        pod_manifest(
            f"{GANG}-{number}",
            request,
            namespace=NAMESPACE,
            qos="LS",
            priority_class=PRIORITY_CLASS,
            labels=labels,
            annotations={names.ANNOTATION_GANG_TOPOLOGY_INDEX: str(number)},
        )
        for number in range(MEMBERS)
    ]
    return [group, *pods]


async def gathered(stage: Stage, plot: Scenario) -> bool:
    """Members of a gang are placed in one zone."""
    await stage.create([network()])
    listed = await stage.create(members())
    fates = [stage.watch.expect(name) for name in listed]
    await stage.until(lambda: all(fate.node for fate in fates))
    nodes = sorted({fate.node for fate in fates if fate.node})
    zones = {(await stage.object(f"{NODES}/{node}"))["metadata"]["labels"].get(ZONE, "") for node in nodes}
    placed = sum(1 for fate in fates if fate.node)
    facts = f"in {', '.join(sorted(zones)) or 'no zone'}, on {len(nodes)} node{'s' if len(nodes) != 1 else ''}"
    stage.tell("gang", GANG, f"placed {placed}/{MEMBERS}", facts)
    return placed == MEMBERS and len(zones) == 1
