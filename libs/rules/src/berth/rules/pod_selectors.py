"""Which pods belong together by the Services that select them and the controller that owns them.

This is kube-scheduler's `helper.DefaultSelector`: constraints of the configuration, which name no pods, spread those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from berth.contracts.kube import LabelSelector, OwnerReference, Requirement
from berth.contracts.state import ReplicaSet, ReplicationController, Service, StatefulSet
from berth.rules.selectors import Labels, all_equal, compile_selector

OwnerSelector: TypeAlias = LabelSelector | Mapping[str, str]
"""The selector of a ReplicaSet or a StatefulSet; the labels of a ReplicationController."""
Controller: TypeAlias = ReplicationController | ReplicaSet | StatefulSet
Name: TypeAlias = tuple[str, str]
"""Namespace and name."""

_OWNERS: Final[dict[tuple[str, str], type[Controller]]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}
_NOTHING: Final[Mapping[str, Mapping[str, str]]] = {}


def default_selector(
    labels: Labels, services: Iterable[Mapping[str, str] | None], owner: OwnerSelector | None = None
) -> LabelSelector:
    """What selects the fellows of a pod: the selectors of the services of its namespace that select it, and that of the
    controller that owns it. Empty: it has none. A selector that cannot be read counts as none."""
    wanted: dict[str, str] = {}
    for selector in services:
        if selector and all_equal(selector)(labels):
            wanted.update(selector)
    expressions: list[Requirement] = []
    if isinstance(owner, LabelSelector):
        if not compile_selector(owner).problems:
            expressions += owner.match_expressions or ()
            for key, value in (owner.match_labels or {}).items():
                if wanted.setdefault(key, value) != value:
                    expressions.append(Requirement(key=key, operator="In", values=[value]))
    elif owner is not None:
        wanted.update(owner)
    return LabelSelector(match_labels=wanted or None, match_expressions=expressions or None)


class SelectingObjects:
    """The Services and controllers that one view shows."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        self._by_label: dict[tuple[str, str, str], dict[str, Mapping[str, str]]] = {}
        """By namespace, and one label of the selector."""
        self._controllers: dict[tuple[type[Controller], Name], OwnerSelector | None] = {}

    def clear(self) -> None:
        """Nothing is shown."""
        self._services.clear()
        self._by_label.clear()
        self._controllers.clear()

    def see_service(self, name: Name, service: Service | None) -> bool:
        """A Service is there, or (None) is not; whether it selects otherwise than before."""
        namespace, own = name
        there = self._services.setdefault(namespace, {})
        before = there.pop(own, {})
        after = service.selector if service is not None else {}
        if before:
            label = (namespace, *min(before.items()))
            indexed = self._by_label[label]
            del indexed[own]
            if not indexed:
                del self._by_label[label]
        if after:
            there[own] = after
            self._by_label.setdefault((namespace, *min(after.items())), {})[own] = after
        if not there:
            del self._services[namespace]
        return before != after

    def see_controller(self, kind: type[Controller], name: Name, controller: Controller | None) -> bool:
        """A controller is there, or (None) is not; whether it selects otherwise than before."""
        before = self._controllers.pop((kind, name), None)
        after = controller.selector if controller is not None else None
        if controller is not None:
            self._controllers[kind, name] = after
        return before != after

    def services(self, namespace: str) -> Iterable[Mapping[str, str]]:
        """The selectors of all Services of a namespace that have one."""
        return self._services.get(namespace, _NOTHING).values()

    def services_for(self, namespace: str, labels: Labels) -> Iterator[Mapping[str, str]]:
        """Selectors of Services, among them all that select a pod with these labels."""
        for key, value in labels.items():
            yield from self._by_label.get((namespace, key, value), _NOTHING).values()

    def of_owner(self, namespace: str, owners: Sequence[OwnerReference]) -> OwnerSelector | None:
        """The selector of the controller among the owners; None: there is none, or it is of another kind."""
        for owner in owners:
            if owner.controller:
                kind = _OWNERS.get((owner.api_version, owner.kind))
                return None if kind is None else self._controllers.get((kind, (namespace, owner.name)))
        return None
