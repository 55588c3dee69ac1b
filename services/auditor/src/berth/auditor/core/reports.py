"""What nodes say of their devices: which pod uses which, from NodeMetric objects of the protocol's agents.

A report names pods, not uids, and is some seconds old. So it is held against a pod only if the pod was there before
the report, on that node, and is there now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from berth.contracts import kube, names
from berth.invariants import NodeHold
from berth.invariants.facts import read_devices

PODS_MAX = 10_000


def holds_of(metrics: Iterable[kube.NodeMetric], pods: Iterable[kube.Pod]) -> list[NodeHold]:
    """The devices in use by pods that are there.

    A pod uses as much of a device as it was given, and the whole of one that it was not given.
    """
    by_place = {(pod.spec.node_name, pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    return [hold for metric in metrics for hold in _of_node(metric, by_place)]


def _of_node(metric: kube.NodeMetric, pods: Mapping[tuple[str, str, str], kube.Pod]) -> Iterator[NodeHold]:
    status = metric.status if isinstance(metric.status, dict) else {}
    updated = _time(status.get("updateTime"))
    reported = status.get("podsMetric")
    if updated is None or not isinstance(reported, list):
        return
    node = metric.metadata.name
    for each in reported[:PODS_MAX]:
        if not isinstance(each, dict):
            continue
        pod = pods.get((node, str(each.get("namespace")), str(each.get("name"))))
        created = _time(pod.metadata.creation_timestamp) if pod is not None else None
        if pod is None or created is None or created >= updated:
            continue
        given = {(grant.kind, grant.id): _percent(grant.amounts) for grant in read_devices(_notes(pod))}
        for device in _devices(each):
            yield NodeHold(node, *device, pod.metadata.uid, given.get(device, 100))


def _devices(reported: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    usage = reported.get("podUsage")
    devices = usage.get("devices") if isinstance(usage, dict) else None
    for device in devices if isinstance(devices, list) else ():
        kind, minor = (device.get("type"), device.get("minor")) if isinstance(device, dict) else (None, None)
        if isinstance(kind, str) and isinstance(minor, int) and kind:
            yield kind, str(minor)


def _percent(amounts: Mapping[str, int]) -> int:
    shares = [amounts.get(name, 0) for name in (names.GPU_CORE, names.GPU_MEMORY_RATIO)]
    return min(100, max(shares)) or 100


def _notes(pod: kube.Pod) -> Mapping[str, str]:
    return pod.metadata.annotations or {}


def _time(text: object) -> datetime | None:
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
