"""What has to come to an end: waiting pods, decisions, strategies on their way to a node."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tests.simulation.services import SLO_MANAGER
from tests.simulation.stand import Stand
from tests.simulation.workload import STRATEGY

from berth.contracts import names
from berth.contracts.ledger import PlanStatus
from berth.contracts.slo import CONFIG_MAP
from berth.simcluster.store.resource import CONFIGMAPS, NODES, PODS
from berth.testing.simulation.kube_server import SimKube


def pods(kube: SimKube) -> Iterator[str]:
    """Pods of ours that are neither bound nor told."""
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


def decisions(stand: Stand) -> Iterator[str]:
    """Decisions that were neither carried out nor given up."""
    observer = stand.observer
    for name, held in observer.view.decisions.items():
        decision = held.decision
        pod = observer.pods.get(name)
        if pod is None or pod.uid != decision.uid or pod.node or pod.has_ended or pod.attempt > decision.attempt:
            continue
        if observer.view.plan_status(decision.plan) is not PlanStatus.ABORTED:
            yield f"the decision for {'/'.join(name)} (plan {decision.plan}) is open"


def strategies(stand: Stand) -> Iterator[str]:
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
