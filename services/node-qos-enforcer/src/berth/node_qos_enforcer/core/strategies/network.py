"""Latency-sensitive pods have their part of the network, best-effort ones what is left: the policy `tc`.

What is sent is shared at the device; what is received has been sent by others already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.laws.bandwidth import (
    BITS,
    TC,
    bits_of,
    class_id,
    level_in_bits,
    level_of_pod,
    pod_limits,
)
from berth.node_qos_enforcer.core.laws.shaping import (
    CLASS_OF_LEVEL,
    ROOT,
    Sender,
    default_device,
    marks_text,
    own_classes,
    tree_text,
)
from berth.node_qos_enforcer.core.strategies.knobs import CLASS_ID, NET_CLASSES, NET_TREE, ROUTES
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, LS_CLASS, SYSTEM
from berth.node_qos_enforcer.core.strategies.seam import Decided, Needs, Pod, Ref, Snapshot, Spec, Strategy, Wanted
from berth.node_qos_enforcer.core.strategies.sections import block_of, is_enabled, policy_of

BLOCK: Final = "networkQOS"
HOST_NETWORK: Final = "1/net"
"""Where /proc shows the node's own network, whichever this process is in."""


def decide(snapshot: Snapshot, spec: Spec, memory: Mapping[str, int]) -> Decided:
    """Give the tree of the device, and who is in which class."""
    device = default_device(snapshot.found.get(Ref(HOST_NETWORK, ROUTES), ""))
    total = total_bits(spec)
    if not device or not total:
        what = "no device has the default route" if not device else "the bandwidth of the node is not known"
        return Decided(memory=memory, skipped=what)
    reports: list[Problem] = []
    senders = [_sender(pod, reports) for pod in snapshot.pods if pod.is_known]
    own = own_classes(senders, memory)
    bits = {own[each.uid]: each.egress_bits for each in senders if each.uid in own}
    level_1, level_2 = (level_in_bits(total, block_of(spec, name, BLOCK)) for name in (LS_CLASS, BE_CLASS))
    wanted = [
        Wanted(device, NET_TREE, tree_text(device, total, level_1, level_2, bits)),
        Wanted(device, NET_CLASSES, marks_text(senders, own, has_groups=snapshot.node.version == 2)),
    ]
    if snapshot.node.version == 1:
        classes = {each.uid: own.get(each.uid, CLASS_OF_LEVEL[each.level]) for each in senders}
        wanted += [
            Wanted(pod.group, CLASS_ID, str(class_id(ROOT, classes[pod.uid])))
            for pod in snapshot.pods
            if pod.group and pod.uid in classes
        ]
    return Decided(tuple(wanted), own, tuple(reports), facts={"device": device, "total_bits": total})


def total_bits(spec: Spec) -> int:
    """What the node's device can send, in bits a second; 0: nobody has said it."""
    section = spec.get(SYSTEM)
    value = section.get("totalNetworkBandwidth") if isinstance(section, Mapping) else None
    return bits_of(0, str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else 0


def _sender(pod: Pod, reports: list[Problem]) -> Sender:
    limits = pod_limits(pod.annotations)
    egress = 0
    if isinstance(limits, Problem):
        reports.append(Problem(field=f"{pod.key}.{limits.field}"[:300], message=limits.message))
    else:
        egress = limits.egress * BITS
    group = pod.group if pod.host_network else ""
    ips = () if pod.host_network else pod.ips
    return Sender(pod.uid, level_of_pod(pod.qos, pod.kube_qos), ips, group, egress)


def _reads(snapshot: Snapshot, spec: Spec) -> tuple[Ref, ...]:
    return (Ref(HOST_NETWORK, ROUTES),)


def _is_on(spec: Spec) -> bool:
    chosen: Any = policy_of(spec, "netQOSPolicy")
    return chosen in ("", TC) and any(is_enabled(spec, each, BLOCK) for each in (LS_CLASS, BE_CLASS))


NETWORK: Final = Strategy(
    "network",
    "enforce-network",
    decide,
    _is_on,
    needs=Needs(
        knobs=(NET_TREE, NET_CLASSES, CLASS_ID),
        capabilities=("NET_ADMIN",),
        host_pid=True,
        host_network=True,
        tools=("tc", "nft"),
    ),
    reads=_reads,
    memory={},
    is_steady=True,
)
