"""The workload's actions, carried out on the API server as somebody with kubectl would."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from tests.simulation.workload import HOME, NAMESPACE, Action, Change, Create, Delete, Put, Timed

from berth.simcluster.store import Path
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.world import World

PATHS: Final = {
    "Pod": Path("", "v1", "pods", NAMESPACE, ""),
    "Node": Path("", "v1", "nodes", "", ""),
    "PodGroup": Path("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", NAMESPACE, ""),
    "Reservation": Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", ""),
    "Device": Path("scheduling.koordinator.sh", "v1alpha1", "devices", "", ""),
    "ConfigMap": Path("", "v1", "configmaps", HOME, ""),
    "ElasticQuota": Path("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", NAMESPACE, ""),
}


class Users:
    """Does what was planned, at its time. `refused` counts what the API server did not take (a name in use, say)."""

    def __init__(self, world: World, kube: SimKube) -> None:
        self._world = world
        self._kube = kube
        self.done = 0
        self.refused = 0

    def plan(self, actions: list[Timed]) -> None:
        """Set a timer for each."""
        for timed in actions:
            self._world.later(timed.at_s - self._world.now, None, self._act, timed.action)

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
            case Change(kind, name, patch):
                return self._kube.perform("patch", PATHS[kind]._replace(name=name), msgspec.json.encode(patch))
