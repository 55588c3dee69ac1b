"""The workload's actions, carried out on the API server as somebody with kubectl would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from tests.simulation.workload import (
    HOME,
    NAMESPACE,
    Action,
    Change,
    Create,
    Delete,
    Json,
    Place,
    Put,
    Scale,
    Timed,
    part_of,
)

from berth.contracts.kube import PodSpec
from berth.invariants.facts import ENDED, amounts_of
from berth.resources.amounts import Amounts, add_into
from berth.resources.pod_request import request_of
from berth.simcluster.store import Path
from berth.simcluster.store.resource import NODES, PODS
from berth.simcluster.store.status import Reply
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.world import World

PATHS: Final = {
    "Pod": Path("", "v1", "pods", NAMESPACE, ""),
    "Node": Path("", "v1", "nodes", "", ""),
    "PodGroup": Path("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", NAMESPACE, ""),
    "Reservation": Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", ""),
    "ClusterNetworkTopology": Path("scheduling.koordinator.sh", "v1alpha1", "clusternetworktopologies", "", ""),
    "ReservationSchedule": Path("scheduling.berth.sh", "v1alpha1", "reservationschedules", "", ""),
    "NodeMetric": Path("slo.koordinator.sh", "v1alpha1", "nodemetrics", "", ""),
    "Device": Path("scheduling.koordinator.sh", "v1alpha1", "devices", "", ""),
    "NodeResourceTopology": Path("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "", ""),
    "ReplicaSet": Path("apps", "v1", "replicasets", NAMESPACE, ""),
    "PodDisruptionBudget": Path("policy", "v1", "poddisruptionbudgets", NAMESPACE, ""),
    "PersistentVolumeClaim": Path("", "v1", "persistentvolumeclaims", NAMESPACE, ""),
    "PersistentVolume": Path("", "v1", "persistentvolumes", "", ""),
    "ConfigMap": Path("", "v1", "configmaps", HOME, ""),
    "ElasticQuotaProfile": Path("quota.koordinator.sh", "v1alpha1", "elasticquotaprofiles", NAMESPACE, ""),
    "ElasticQuota": Path("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", NAMESPACE, ""),
}


NO_SPACE: Final = Reply(409, b"")


def _request(pod: Json) -> Amounts:
    return dict(request_of(msgspec.convert(pod["spec"], PodSpec))[0])


class Users:
    """Does what was planned, at its time. `refused` counts what the API server did not take (a name in use, say)."""

    def __init__(self, world: World, kube: SimKube) -> None:
        self._world = world
        self._kube = kube
        self.done = 0
        self.refused = 0
        self._specs: dict[str, Any] = {}

    def plan(self, actions: list[Timed]) -> None:
        """Set a timer for each."""
        for timed in actions:
            self._world.later(timed.at_s - self._world.now, None, self._act, timed.action)

    def act(self, actions: Iterable[Action]) -> None:
        """Do it now."""
        for action in actions:
            self._act(action)

    def _act(self, action: Action) -> None:
        reply = self._perform(action)
        self.done += 1
        self.refused += reply.status >= 400

    def _perform(self, action: Action) -> Any:
        match action:
            case Create(manifest):
                return self._kube.perform("create", PATHS[manifest["kind"]], msgspec.json.encode(manifest))
            case Put(manifest):
                path, body = PATHS[manifest["kind"]], msgspec.json.encode(manifest)
                made = self._kube.perform("create", path, body)
                if made.status != 409:
                    return made
                return self._kube.perform("patch", path._replace(name=manifest["metadata"]["name"]), body)
            case Delete(kind, name, grace_s):
                return self._kube.perform("delete", PATHS[kind]._replace(name=name), gracePeriodSeconds=str(grace_s))
            case Change(kind, name, patch, part):
                path = PATHS[kind]._replace(name=name, subresource=part)
                return self._kube.perform("patch", path, msgspec.json.encode(patch))
            case Scale(group, share):
                return self._scale(group, share)

            case Place(manifest):
                return self._place(manifest)

    def _place(self, manifest: Json) -> Any:
        """Another scheduler looks at what is bound. Of what is decided it knows nothing."""
        state, name = self._kube.store.state, manifest["spec"]["nodeName"]
        node = state.of(NODES).items.get(name)
        bound = (pod.data for pod in state.of(PODS).items.values() if pod.data["spec"].get("nodeName") == name)
        held = _request(manifest)
        for pod in bound:
            if pod.get("status", {}).get("phase") not in ENDED:
                add_into(held, _request(pod))
        capacity = amounts_of(node.data["status"].get("allocatable")) if node is not None else {}
        if any(held.get(each, 0) > capacity.get(each, 0) for each in ("cpu", "memory")):
            return NO_SPACE
        return self._kube.perform("create", PATHS["Pod"], msgspec.json.encode(manifest))

    def _scale(self, group: str, share: float) -> Any:
        """Of what the group says when it is first changed."""
        path = PATHS["ElasticQuota"]._replace(name=group)
        shown = self._kube.perform("get", path)
        if shown.status >= 400:
            return shown
        spec = self._specs.setdefault(group, msgspec.json.decode(shown.body)["spec"])
        scaled = {limit: part_of(spec[limit], share) for limit in ("min", "max")}
        return self._kube.perform("patch", path, msgspec.json.encode({"spec": scaled}))
