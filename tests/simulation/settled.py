"""What is not settled yet, and what nodes say that their pods use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from tests.simulation import node_agent
from tests.simulation.services import SLO_MANAGER
from tests.simulation.stand import Stand
from tests.simulation.workload import STRATEGY

from berth.contracts import buckets, names
from berth.contracts.ledger import PlanStatus
from berth.contracts.slo import CONFIG_MAP
from berth.invariants import NodeHold
from berth.simcluster.store.resource import CONFIGMAPS, NODES, PODS
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.nats.message import NANO
from berth.testing.simulation.world import EPOCH_S

SHOWN = 8
UNDONE_S = 60.0
"""How long a decision may stay undone before the auditor says so."""


def unsettled(stand: Stand) -> list[str]:
    """Why the cluster is not at rest yet; empty when it is."""
    found = [f"{replica.instance} is not ready" for replica in stand.host.replicas if not replica.ready]
    found += list(_pods(stand.kube))
    found += list(_decisions(stand))
    found += list(_strategies(stand))
    found += list(node_agent.unsettled(stand))
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN} more"]


def _pods(kube: SimKube) -> Iterator[str]:
    for key, pod in kube.store.state.of(PODS).items.items():
        spec, status = pod.data["spec"], pod.data.get("status", {})
        if spec.get("schedulerName") != names.SCHEDULER_NAME or spec.get("nodeName"):
            continue
        told = any(
            each["type"] == "PodScheduled" and each["status"] == "False" and each.get("message")
            for each in status.get("conditions", ())
        )
        if not told and "deletionTimestamp" not in pod.meta:
            yield f"pod {key} is neither bound nor told why not"


def _decisions(stand: Stand) -> Iterator[str]:
    observer = stand.observer
    for name, held in observer.view.decisions.items():
        decision = held.decision
        pod = observer.pods.get(name)
        if pod is None or pod.uid != decision.uid or pod.node or pod.has_ended or pod.attempt > decision.attempt:
            continue
        if observer.view.plan_status(decision.plan) is not PlanStatus.ABORTED:
            yield f"the decision for {'/'.join(name)} (plan {decision.plan}) is open"


def _strategies(stand: Stand) -> Iterator[str]:
    """NodeSLO objects that do not show what the ConfigMap says."""
    items = stand.kube.store.state.of(CONFIGMAPS).items
    if CONFIG_MAP not in items or not stand.host.of(SLO_MANAGER):
        return
    wanted = msgspec.json.decode(items[CONFIG_MAP].data["data"][STRATEGY])["clusterStrategy"]
    objects = stand.kube.store.state.collections["slo.koordinator.sh", "nodeslos"].items
    for name in stand.kube.store.state.of(NODES).items:
        found = objects.get(name)
        shown = found.data["spec"].get("resourceUsedThresholdWithBE", {}) if found is not None else {}
        if {key: shown.get(key) for key in wanted} != wanted:
            yield f"the NodeSLO of {name} shows {shown}, not {wanted}"


def alarms(stand: Stand, troubles: Iterable[tuple[float, float]]) -> list[str]:
    """Differences that the auditor has raised and that were none.

    A gang caught by a loss may be half there for long, and is one (I3). So is a decision that stays undone (I4) while
    there is trouble.
    """
    events = stand.nats.streams.get(buckets.EVENTS)
    found = []
    for each in events.messages.values() if events is not None else ():
        at_s = each.time / NANO - EPOCH_S
        is_excused = ".I4." in each.subject and any(begin < at_s and end > at_s - UNDONE_S for begin, end in troubles)
        if ".audit.found." in each.subject and ".I3." not in each.subject and not is_excused:
            found.append(each.subject)
    return found


def held_by_nodes(kube: SimKube) -> list[NodeHold]:
    """Every device that a pod which runs on a node has been given there."""
    found: list[NodeHold] = []
    for pod in kube.store.state.of(PODS).items.values():
        node = pod.data["spec"].get("nodeName")
        text = pod.meta.get("annotations", {}).get(names.ANNOTATION_DEVICE_ALLOCATED)
        if node and text and pod.data.get("status", {}).get("phase") == "Running":
            given: dict[str, list[dict[str, Any]]] = msgspec.json.decode(text)
            for kind, devices in given.items():
                for device in devices:
                    percent = int(device.get("resources", {}).get(names.GPU_CORE, 100))
                    found.append(NodeHold(node, kind, int(device["minor"]), pod.uid, percent))
    return found
