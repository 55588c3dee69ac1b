"""Does a pod's request fit beside what a node already holds, resource by resource.

This is the scalar rule of Kubernetes' NodeResourcesFit, with its texts and its order of reasons. Devices, cores and
NUMA nodes are other rules. Use it to explain and to check; placing thousands of pods works on columns.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

TOO_MANY_PODS: Final = "Too many pods"

_RANK: Final = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}


class NodeFit(NamedTuple):
    """`reasons` empty: it fits. `unresolvable`: no eviction can help, the request exceeds the whole node."""

    reasons: tuple[str, ...] = ()
    unresolvable: bool = False

    @property
    def fits(self) -> bool:
        """Whether nothing is missing."""
        return not self.reasons


def node_fit(
    request: Mapping[str, int],
    *,
    allocatable: Mapping[str, int],
    requested: Mapping[str, int],
    pod_count: int,
    ignored: Collection[str] = (),
) -> NodeFit:
    """All reasons why one more pod does not fit; amounts as in `berth.resources.amounts`.

    `requested` is the sum over the `pod_count` pods on the node. A resource that the pod does not ask for is not
    looked at, so a pod without requests fits an overcommitted node. `ignored` names extended resources.
    """
    short = [
        name
        for name, amount in request.items()
        if amount > 0
        and amount > allocatable.get(name, 0) - requested.get(name, 0)
        and name != PODS
        and not is_ignored(name, ignored)
    ]
    reasons = [TOO_MANY_PODS] if pod_count + 1 > allocatable.get(PODS, 0) else []
    reasons += [f"Insufficient {name}" for name in in_order(short)]
    return NodeFit(tuple(reasons), any(request[name] > allocatable.get(name, 0) for name in short))


def is_extended_resource(name: str) -> bool:
    """Whether Kubernetes treats the name as an extended resource: it has a domain, and not one of Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_scalar_resource(name: str) -> bool:
    """Whether scores leave the resource out for a pod that does not ask for it, as kube-scheduler does with extended
    resources, hugepages, attachable volumes and names of Kubernetes' own domain."""
    return (
        is_extended_resource(name) or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))
    )


def is_ignored(name: str, ignored: Collection[str]) -> bool:
    """Whether this resource is left to somebody else. Native resources never are."""
    return name in ignored and is_extended_resource(name)


def in_order(names: Iterable[str]) -> list[str]:
    """Resources in the order in which what is missing of them is reported."""
    return sorted(names, key=_order)


def _order(name: str) -> tuple[int, str]:
    return (_RANK.get(name, len(_RANK)), name)
