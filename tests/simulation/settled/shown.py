"""STATE against the API server: every object is shown as it is, in its newest version, and nothing else is.

Read with no code of cluster-watcher. Of pods and Reservations everything that somebody is charged for is compared, of
nodes what they offer; what devices and quota groups say is compared where it arrives, in INVENTORY and QUOTA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from tests.simulation.harness import Harness
from tests.simulation.settled.held import GROUPS, SCHEDULING, entries, labels, objects

from berth.contracts import buckets, subjects
from berth.contracts.codec import decode
from berth.contracts.inventory import NPU_TEMPLATES
from berth.contracts.slo import CONFIG_MAP
from berth.contracts.state import Node, Pod
from berth.invariants import Counts, World
from berth.invariants.facts import Facts, amounts_of
from berth.invariants.snapshots import differences, snapshot_of_facts
from berth.simcluster.store.objects import Obj

KINDS: Final = {
    "node": ("", "nodes"),
    "pod": ("", "pods"),
    "namespace": ("", "namespaces"),
    "priorityclass": ("scheduling.k8s.io", "priorityclasses"),
    "poddisruptionbudget": ("policy", "poddisruptionbudgets"),
    "service": ("", "services"),
    "replicationcontroller": ("", "replicationcontrollers"),
    "replicaset": ("apps", "replicasets"),
    "statefulset": ("apps", "statefulsets"),
    "podgroup": (GROUPS, "podgroups"),
    "elasticquota": (GROUPS, "elasticquotas"),
    "elasticquotaprofile": ("quota.koordinator.sh", "elasticquotaprofiles"),
    "device": (SCHEDULING, "devices"),
    "reservation": (SCHEDULING, "reservations"),
    "configmap": ("", "configmaps"),
    "persistentvolumeclaim": ("", "persistentvolumeclaims"),
    "persistentvolume": ("", "persistentvolumes"),
    "storageclass": ("storage.k8s.io", "storageclasses"),
    "noderesourcetopology": ("topology.node.k8s.io", "noderesourcetopologies"),
    "csinode": ("storage.k8s.io", "csinodes"),
}
"""By the first token of their keys: API group and plural."""


QUIET: Final = ("service", "replicationcontroller", "replicaset", "statefulset")
"""Of these STATE shows the version of the last change of their selector."""


class _Shown(msgspec.Struct):
    version: int = 0
    uid: str = ""
    selector: Any = None


_SHOWN: Final = msgspec.json.Decoder(_Shown)


def state(harness: Harness, facts: Facts, counts: Counts) -> Iterator[str]:
    """What STATE shows otherwise than it is."""
    believed = entries(harness.nats, buckets.STATE)
    counts.judged("I8", len(believed))
    yield from _versions(harness, believed)
    yield from _pods(facts, believed)
    yield from _nodes(harness, believed)
    world = World.of(believed=believed)
    yield from world.unreadable
    if world.believed is not None:
        for finding in differences(snapshot_of_facts(facts), world.believed, "the API says", "STATE says"):
            yield finding.text


def _versions(harness: Harness, believed: Mapping[str, tuple[int, bytes]]) -> Iterator[str]:
    there = {
        _key(kind, key): obj
        for kind, (group, plural) in KINDS.items()
        for key, obj in _followed(harness, group, plural)
    }
    for key, obj in there.items():
        if key not in believed:
            yield f"STATE shows no {key}, which is there in version {obj.version}"
            continue
        shown = _SHOWN.decode(believed[key][1])
        if key.partition(".")[0] in QUIET:
            selects = obj.data.get("spec", {}).get("selector")
            yield from _compared(key, (selects or None,), (shown.selector or None,))
            if shown.version > obj.version:
                yield f"STATE shows {key} in version {shown.version}, it is in version {obj.version}"
            continue
        if shown.version != obj.version or shown.uid not in ("", obj.uid):
            yield (
                f"STATE shows {key} in version {shown.version} of uid {shown.uid or 'any'}, "
                f"it is in version {obj.version} of {obj.uid}"
            )
    for key in believed:
        if key not in there and key.partition(".")[0] in KINDS:
            yield f"STATE shows {key}, which is not there"


def _pods(facts: Facts, believed: Mapping[str, tuple[int, bytes]]) -> Iterator[str]:
    for seen in facts.pods.values():
        key = subjects.pod_key(*seen.key)
        if key in believed:
            pod = decode(believed[key][1], Pod)
            is_leaving = bool(seen.pod.metadata.deletion_timestamp)
            is_so = (seen.node, seen.pod.status.phase, is_leaving, seen.attempt, seen.plan, seen.amounts, seen.labels)
            asks = pod.template
            says = (pod.node, pod.phase, pod.deleting, pod.attempt, pod.plan, asks.requests, asks.labels)
            yield from _compared(f"pod {seen.text}", is_so, says)


def _nodes(harness: Harness, believed: Mapping[str, tuple[int, bytes]]) -> Iterator[str]:
    for name, obj in objects(harness, "", "nodes").items():
        key = subjects.named_key("node", name)
        if key in believed:
            node = decode(believed[key][1], Node)
            offers = amounts_of(obj.data.get("status", {}).get("allocatable"))
            is_cordoned = bool(obj.data.get("spec", {}).get("unschedulable"))
            told = [(each.key, each.value, each.effect) for each in node.taints]
            is_so = (offers, is_cordoned, labels(obj), _taints(obj))
            says = (node.allocatable, node.unschedulable, node.labels, told)
            yield from _compared(f"node {name}", is_so, says)


def _taints(node: Obj) -> list[tuple[str, str, str]]:
    taints = node.data.get("spec", {}).get("taints") or ()
    return [(each["key"], each.get("value") or "", each["effect"]) for each in taints]


def _compared(what: str, is_so: tuple[Any, ...], says: tuple[Any, ...]) -> Iterator[str]:
    wrong = [f"{here} is shown as {there}" for here, there in zip(is_so, says, strict=True) if here != there]
    if wrong:
        yield f"{what}: {'; '.join(wrong)}"


def _followed(harness: Harness, group: str, plural: str) -> Iterator[tuple[str, Obj]]:
    for key, obj in objects(harness, group, plural).items():
        if plural != "configmaps" or key in (CONFIG_MAP, NPU_TEMPLATES):
            yield key, obj


def _key(kind: str, key: str) -> str:
    namespace, _, name = key.rpartition("/")
    return subjects.namespaced_key(kind, namespace, name) if namespace else subjects.named_key(kind, name)
