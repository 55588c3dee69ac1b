"""A node whose pods ask for more than they use, what its agent reports, and batch pods that borrow the rest."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.slo import CONFIG_MAP
from berth.simcluster.generate import PodRequest, pod_manifest
from berth.simcluster.store.objects import Json

NAME: Final = "shop"
"""The node, its label and its taint, so that nobody else goes there."""
LABEL: Final = "demo.berth.sh/shop"
CORES: Final = 8
TILL: Final = PodRequest(7_000, 8_192)
"""Nearly all of the node; of the CPU it uses one core on a quiet day."""
BORROWED_MILLI: Final = 2_000
QUIET, BUSY = 1, 5
"""Cores in use."""
KEPT_PERCENT: Final = 25


class Shop(NamedTuple):
    """The node, the strategy, the pod that asks for most of it, and batch pods: one that finds something to borrow, and
    one that comes too late."""

    node: Json
    strategy: Json
    till: Json
    early: Json
    late: Json

    @property
    def pods(self) -> list[Json]:
        """All pods of the act."""
        return [self.till, self.early, self.late]


def shop(namespace: str) -> Shop:
    """What the act creates."""
    till = _there(pod_manifest("till", TILL, namespace=namespace, qos="LS", priority_class="koord-prod"))
    return Shop(_node(), _strategy(), till, _batch("stocktake", namespace), _batch("invoices", namespace))


def report(namespace: str, cores: int, minute: int) -> Json:
    """What the node's agent says of its use, in its report of a minute."""
    used = {"resources": {"cpu": str(cores), "memory": "1Gi"}}
    till = {"namespace": namespace, "name": "till", "priority": "koord-prod", "podUsage": used}
    system = {"resources": {"cpu": "0", "memory": "1Gi"}}
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": NAME},
        "spec": {},
        "status": {
            "updateTime": f"2026-01-01T00:{minute:02}:00Z",
            "nodeMetric": {"nodeUsage": used, "systemUsage": system},
            "podsMetric": [till],
        },
    }


def _node() -> Json:
    amounts = {"cpu": str(CORES), "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME, "labels": {"kubernetes.io/hostname": NAME, LABEL: "true"}},
        "spec": {"taints": [{"key": LABEL, "value": "true", "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _strategy() -> Json:
    namespace, _, name = CONFIG_MAP.partition("/")
    colocation: dict[str, Any] = {
        "enable": True,
        "cpuReclaimThresholdPercent": 100 - KEPT_PERCENT,
        "updateTimeThresholdSeconds": 1,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"colocation-config": msgspec.json.encode(colocation).decode()},
    }


def _batch(name: str, namespace: str) -> Json:
    manifest = pod_manifest(name, PodRequest(0, 0), namespace=namespace, qos="BE", priority_class="koord-batch")
    amounts = {names.BATCH_CPU: str(BORROWED_MILLI), names.BATCH_MEMORY: "1Gi"}
    manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return _there(manifest)


def _there(manifest: Json) -> Json:
    """To the shop and nowhere else."""
    spec = manifest["spec"]
    spec["nodeSelector"] = {LABEL: "true"}
    spec["tolerations"] = [{"key": LABEL, "operator": "Exists"}]
    return manifest
