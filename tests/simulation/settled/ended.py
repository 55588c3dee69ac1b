"""What has to come to an end: waiting pods, decisions, counters of gangs, strategies on their way to a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from tests.simulation.harness import Harness
from tests.simulation.laws import Pardon
from tests.simulation.services import SLO_MANAGER
from tests.simulation.settled.held import GROUPS, labels, objects
from tests.simulation.settled.held import SCHEDULING as KOORDINATOR
from tests.simulation.workload import STRATEGY

from berth.contracts import names
from berth.contracts.ledger import PlanStatus
from berth.contracts.slo import CONFIG_MAP
from berth.invariants import Counts
from berth.invariants.facts import ENDED
from berth.invariants.members import said_by_json
from berth.rules.gang_config import gang_name_of_pod
from berth.rules.podgroup_phase import RUNNING, SCHEDULED, SCHEDULING
from berth.simcluster.store.resource import CONFIGMAPS, NODES, PODS
from berth.testing.simulation.kube_server import SimKube

COUNTED: Final = (SCHEDULING, SCHEDULED, RUNNING)
"""Before these nobody has counted, after them nobody does any more."""


def pods(kube: SimKube, counts: Counts) -> Iterator[str]:
    """Pods of ours that are neither bound nor told, or both."""
    for key, pod in kube.store.state.of(PODS).items.items():
        spec, status = pod.data["spec"], pod.data.get("status", {})
        if spec.get("schedulerName") != names.SCHEDULER_NAME:
            continue
        counts.judged("L1")
        refusals = [
            each.get("message", "")
            for each in status.get("conditions", ())
            if each["type"] == "PodScheduled" and each["status"] == "False"
        ]
        if spec.get("nodeName"):
            yield from (f"pod {key} is bound, and shows that it is not: {message}" for message in refusals)
        elif not any(refusals) and "deletionTimestamp" in pod.meta:
            counts.excused("L1", Pardon.LEAVING)
        elif not any(refusals):
            yield f"pod {key} is neither bound nor told why not"


def decisions(harness: Harness, counts: Counts) -> Iterator[str]:
    """Decisions that were neither carried out nor given up."""
    observer = harness.observer
    for name, held in observer.view.decisions.items():
        decision = held.decision
        counts.judged("L1")
        pod = observer.pods.get(name)
        if pod is None or pod.uid != decision.uid or pod.node or pod.has_ended or pod.attempt > decision.attempt:
            continue
        if observer.view.plan_status(decision.plan) is not PlanStatus.ABORTED:
            yield f"the decision for {'/'.join(name)} (plan {decision.plan}) is open"


def gangs(harness: Harness, counts: Counts) -> Iterator[str]:
    """PodGroups whose counters are not those of their members, as long as they are counted."""
    members: dict[str, list[tuple[bool, str]]] = {}
    """By gang: whether each member is on a node, and the phase of a pod."""
    for key, pod in objects(harness, "", "pods").items():
        gang = gang_name_of_pod(labels(pod), pod.meta.get("annotations") or {})
        if gang and pod.data["spec"].get("schedulerName") == names.SCHEDULER_NAME:
            member = bool(pod.data["spec"].get("nodeName")), pod.data.get("status", {}).get("phase", "")
            members.setdefault(f"{key.partition('/')[0]}/{gang}", []).append(member)
    for reservation in objects(harness, KOORDINATOR, "reservations").values():
        status, gang = reservation.data.get("status") or {}, said_by_json(reservation.data).gang
        if gang and status.get("phase") not in ENDED:
            members.setdefault(gang, []).append((bool(status.get("nodeName")), ""))
    for key, group in objects(harness, GROUPS, "podgroups").items():
        status, there = group.data.get("status") or {}, members.get(key, [])
        if not there or status.get("phase") not in COUNTED:
            continue
        counts.judged("L1")
        phases = [phase for _, phase in there]
        counted = {each.lower(): phases.count(each) for each in ("Running", "Succeeded", "Failed")}
        counted["scheduled"] = sum(is_bound for is_bound, _ in there)
        shown = {name: status.get(name, 0) for name in counted}
        if shown != counted:
            yield f"PodGroup {key} is {status['phase']} and shows {shown}, its members are {counted}"


def strategies(harness: Harness, counts: Counts) -> Iterator[str]:
    """NodeSLO objects that do not show what the ConfigMap says."""
    items = harness.kube.store.state.of(CONFIGMAPS).items
    if CONFIG_MAP not in items or not harness.host.of(SLO_MANAGER):
        return
    wanted = msgspec.json.decode(items[CONFIG_MAP].data["data"][STRATEGY])["clusterStrategy"]
    made = harness.kube.store.state.collections["slo.koordinator.sh", "nodeslos"].items
    for name in harness.kube.store.state.of(NODES).items:
        counts.judged("L1")
        found = made.get(name)
        shown = found.data["spec"].get("resourceUsedThresholdWithBE", {}) if found is not None else {}
        if {key: shown.get(key) for key in wanted} != wanted:
            yield f"the NodeSLO of {name} shows {shown}, not {wanted}"
