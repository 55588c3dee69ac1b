"""The pods of this node, as kubelet's list and the container runtime have them, for those who ask by pod.

Kubelet's list has a pod before its sandbox is made, which is when its network asks what devices it has. The runtime has
it from then on, and needs no right at the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from berth.contracts.base import Problem
from berth.contracts.kube import Pod
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.kubelet_reading import KubeletPods

FRESH_S = 1.0
"""For so long kubelet's answer serves all who ask."""

Annotations = Mapping[tuple[str, str], Mapping[str, str]]
"""By namespace and name."""


class PodsOfNode:
    """Where each source is None, it is not to be asked; with neither, nobody knows the pods."""

    def __init__(self, inside: Inside | None, kubelet: KubeletPods | None, monotonic: Callable[[], float]) -> None:
        """Take both sources."""
        self._inside = inside
        self._kubelet = kubelet
        self._monotonic = monotonic
        self._asked_s: float | None = None
        self._lock = asyncio.Lock()

    async def annotations(self) -> Annotations | None:
        """The annotations of each pod; None while none of both knows any."""
        listed, seen = await self._listed(), self._inside.board if self._inside is not None else None
        if not listed and (seen is None or not seen.is_known):
            return None
        found = (
            {(each.namespace, each.name): each.annotations for each in seen.pods.values()} if seen is not None else {}
        )
        return found | {
            (each.metadata.namespace, each.metadata.name): each.metadata.annotations or {} for each in listed
        }

    async def names(self) -> dict[str, tuple[str, str]]:
        """Namespace and name of each pod, by uid."""
        seen = self._inside.board.pods.values() if self._inside is not None else ()
        found = {each.uid: (each.namespace, each.name) for each in seen}
        return found | {
            each.metadata.uid: (each.metadata.namespace, each.metadata.name) for each in await self._listed()
        }

    def problems(self) -> tuple[Problem, ...]:
        """What was wrong with kubelet's last list."""
        return () if self._kubelet is None or self._kubelet.problem is None else (self._kubelet.problem,)

    async def _listed(self) -> tuple[Pod, ...]:
        if self._kubelet is None:
            return ()
        async with self._lock:
            now_s = self._monotonic()
            if self._asked_s is None or now_s - self._asked_s >= FRESH_S:
                await asyncio.to_thread(self._kubelet.read)
                self._asked_s = self._monotonic()
            return self._kubelet.pods
