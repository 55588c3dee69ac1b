"""What pods say alike is kept once: of a hundred thousand of them it is most of what they say."""

from __future__ import annotations

from sys import intern
from typing import Any, Final

from msgspec.structs import replace

from berth.contracts.slo import NodePod
from berth.slo_manager.core.offers.facts import Holder

POOL_MAX: Final = 20_000
"""A pool that is larger begins anew; whoever has something of it keeps that."""


class Shared:
    """Equal mappings as one object, which nobody may change."""

    def __init__(self) -> None:
        self._pool: dict[tuple[Any, ...], dict[str, Any]] = {}

    def mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        """One that is equal."""
        if len(self._pool) > POOL_MAX:
            self._pool.clear()
        return self._pool.setdefault(tuple(value.items()), value)

    def entry(self, pod: NodePod) -> NodePod:
        """The same entry."""
        return replace(
            pod,
            node=intern(pod.node),
            namespace=intern(pod.namespace),
            kube_qos=intern(pod.kube_qos),
            labels=self.mapping(pod.labels),
            annotations=self.mapping(pod.annotations),
            requests=self.mapping(pod.requests),
            limits=self.mapping(pod.limits),
            phase=intern(pod.phase),
            priority_class=intern(pod.priority_class),
            workload=intern(pod.workload),
        )

    def holder(self, holder: Holder, pod: NodePod | None) -> Holder:
        """The same holder, of a pod with this entry."""
        holder = holder._replace(requests=self.mapping(holder.requests))
        return holder if pod is None else holder._replace(name=(pod.namespace, pod.name), uid=pod.uid)
