"""CPUs that pods without CPUs of their own share: one pool for each socket and zone, and one more for best effort."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

import msgspec

from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset
from berth.rules.cpus.kubelet import NodePod, PodCpus
from berth.rules.cpus.layout import CpuLayout
from berth.rules.cpus.qos import LSE


class Pool(NamedTuple):
    """The shared CPUs of one zone, as far as they lie in this socket."""

    socket: int
    zone: int
    cpus: frozenset[int]


class SharedPools(NamedTuple):
    """By socket, then by zone. `best_effort` may use what pods of class LSR leave idle, `shared` has none of it."""

    shared: tuple[Pool, ...] = ()
    best_effort: tuple[Pool, ...] = ()


class _Pool(msgspec.Struct, frozen=True):
    socket: int
    node: int
    cpuset: str


def shared_pools(
    layout: CpuLayout,
    *,
    kubelet: Iterable[PodCpus] = (),
    pods: Iterable[NodePod] = (),
    reserved: Set[int] = NO_CPUS,
    system: Set[int] = NO_CPUS,
) -> SharedPools:
    """All CPUs of the layout but those that somebody has to himself.

    Pods of kubelet's and of class LSE share with nobody, other pods with CPUs of their own with best effort alone. What
    is `reserved` for the node and exclusive to its `system` is nobody's. A place whose CPUs pods have all taken has no
    pool; one that is emptied by what is reserved has an empty one.
    """
    pods = tuple(pods)
    held = frozenset(cpu for each in kubelet for cpu in each.cpus)
    exclusive = held | {cpu for pod in pods if pod.qos == LSE for cpu in pod.cpus}
    pinned = held | {cpu for pod in pods for cpu in pod.cpus}
    nobodys = reserved | system
    return SharedPools(
        without(pools_of(layout, layout.all - pinned), nobodys),
        without(pools_of(layout, layout.all - exclusive), nobodys),
    )


def pools_of(layout: CpuLayout, cpus: Set[int]) -> tuple[Pool, ...]:
    """These CPUs by socket and zone; places that have none of them are left out."""
    by_place: dict[tuple[int, int], set[int]] = {}
    for cpu in cpus & layout.all:
        core = layout.core_of[cpu]
        by_place.setdefault((core.socket, core.zone), set()).add(cpu)
    return tuple(Pool(*place, frozenset(by_place[place])) for place in sorted(by_place))


def without(pools: Iterable[Pool], cpus: Set[int]) -> tuple[Pool, ...]:
    """The pools less these CPUs; a pool that loses its last one stays, empty."""
    return tuple(each._replace(cpus=each.cpus - cpus) for each in pools)


def format_pools(pools: Iterable[Pool]) -> str:
    """The text of one of the annotations."""
    return msgspec.json.encode([_Pool(each.socket, each.zone, format_cpuset(each.cpus)) for each in pools]).decode()
