"""Services, and controllers that own pods, as STATE shows them: which pods are spread as one by constraints of the
configuration."""

from __future__ import annotations

from typing import Final

from berth.contracts.codec import decode
from berth.contracts.kube import LabelSelector
from berth.contracts.state import ReplicaSet, ReplicationController, Service, StatefulSet
from berth.placement_solver.core.seams import Spec
from berth.placement_solver.core.state_keys import namespaced, tombstone_version
from berth.rules.pod_selectors import Controller, SelectingObjects, default_selector
from berth.transaction.completeness import Completeness

NOT_READ: Final = "the services and controllers of the cluster are not all read yet"

SERVICE: Final = "service"
CONTROLLERS: Final[dict[str, tuple[str, type[Controller]]]] = {
    "replicationcontroller": ("replicationcontrollers", ReplicationController),
    "replicaset": ("replicasets", ReplicaSet),
    "statefulset": ("statefulsets", StatefulSet),
}
"""By the first token of their keys: their name in markers, and their messages."""
KINDS: Final = frozenset({SERVICE, *CONTROLLERS})


class PodSelectors:
    """`complete` holds through which version each kind is complete, by its name in markers."""

    def __init__(self) -> None:
        self.objects = SelectingObjects()
        self.complete = {plural: Completeness() for plural in ("services", *(each for each, _ in CONTROLLERS.values()))}

    @property
    def is_complete(self) -> bool:
        """Whether every kind was read to its end."""
        return all(tracker.is_known for tracker in self.complete.values())

    def reset(self) -> None:
        """STATE starts over."""
        self.objects.clear()
        for tracker in self.complete.values():
            tracker.reset()

    def read(self, prefix: str, rest: str, value: bytes, *, deleted: bool) -> bool:
        """Take in one message of a kind of `KINDS`; whether pods are selected otherwise. Raises InvalidMessage."""
        name = namespaced(rest)
        if prefix == SERVICE:
            service = None if deleted else decode(value, Service)
            self.complete["services"].seen(tombstone_version(value) if service is None else service.version)
            return self.objects.see_service(name, service)
        plural, kind = CONTROLLERS[prefix]
        controller = None if deleted else decode(value, kind)
        self.complete[plural].seen(tombstone_version(value) if controller is None else controller.version)
        return self.objects.see_controller(kind, name, controller)

    def fellows(self, spec: Spec) -> LabelSelector:
        """What selects a pod together with its fellows; empty where it has none."""
        labels, objects = spec.template.labels, self.objects
        owner = objects.of_owner(spec.namespace, spec.owners)
        return default_selector(labels, objects.services_for(spec.namespace, labels), owner)
