"""How much of the network each class of pods has, in the units of who enforces it.

Strategies say bits a second, as text, or a percentage of the node's total as a number. Three levels share the network
device: the system and whatever is not managed, latency-sensitive pods (1), best-effort ones (2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_NETWORK_QOS
from berth.resources.quantity import QuantityError, parse_units
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import BE, BEST_EFFORT, BURSTABLE, GUARANTEED, LS, LSE, LSR, SYSTEM

BITS: Final = 8
TC: Final = "tc"
TERWAY: Final = "terway-qos"
LEVEL_0: Final = 0
LEVEL_1: Final = 1
LEVEL_2: Final = 2
_OF_QOS: Final = {SYSTEM: LEVEL_0, LSE: LEVEL_1, LSR: LEVEL_1, LS: LEVEL_1, BE: LEVEL_2}
_OF_KUBE_QOS: Final = {GUARANTEED: LEVEL_1, BURSTABLE: LEVEL_1, BEST_EFFORT: LEVEL_2}
_INGRESS: Final = "ingresslimit"
_EGRESS: Final = "egresslimit"


class Level(NamedTuple):
    """What a level has at least and at most, both ways, in one unit; 0 is no limit."""

    ingress_min: int = 0
    ingress_max: int = 0
    egress_min: int = 0
    egress_max: int = 0


NO_LEVEL: Final = Level()
_FIELDS: Final = ("ingressRequest", "ingressLimit", "egressRequest", "egressLimit")


class PodLimits(NamedTuple):
    """What a pod of its own may have, in bytes a second; 0 is no limit."""

    ingress: int = 0
    egress: int = 0


def level_of_pod(qos: str, kube_qos: str) -> int:
    """The level of a pod: by its label, else by Kubernetes' class; without either nobody manages it."""
    return _OF_QOS.get(qos, _OF_KUBE_QOS.get(kube_qos, LEVEL_0))


def bits_of(total: int, value: object) -> int:
    """Bits a second for the policy `tc`; whatever is neither a quantity nor a percentage is 0."""
    if isinstance(value, str):
        try:
            return parse_units(value)
        except QuantityError:
            return 0
    if type(value) is int and 0 <= value <= 100:
        return total * value // 100
    return 0


def level_in_bits(total: int, section: Mapping[str, Any]) -> Level:
    """A level for the policy `tc`, in bits a second. A class that is switched off has nothing of its own."""
    return Level(*(bits_of(total, section.get(field)) for field in _FIELDS)) if section.get("enable") else NO_LEVEL


def level_in_bytes(total_bits: int, section: Mapping[str, Any], field: str) -> Level | Problem:
    """A level for Terway, in bytes a second.

    Koordinator gives a percentage of the total without turning it into bytes, eight times too much; here it is one of
    bytes.
    """
    if not section.get("enable"):
        return NO_LEVEL
    amounts: list[int] = []
    for name in _FIELDS:
        value = section.get(name)
        if value is None:
            amounts.append(0)
        elif type(value) is int:
            if not 0 <= value <= 100:
                return Problem(field=f"{field}.{name}", message=f"is no percentage: {value}")
            amounts.append(total_bits // BITS * value // 100)
        else:
            try:
                amount = parse_units(value) // BITS
            except QuantityError as error:
                return Problem(field=f"{field}.{name}", message=str(error))
            if amount > total_bits:
                return Problem(field=f"{field}.{name}", message="is more than the node's whole bandwidth")
            amounts.append(amount)
    return Level(*amounts)


def terway_node_text(total_bits: int, level_1: Level, level_2: Level) -> str:
    """The text of Terway's file for the node; levels are in bytes a second."""
    total = total_bits // BITS
    lines = [("hw_tx_bps_max", total), ("hw_rx_bps_max", total)]
    for name, level in (("l1", level_1), ("l2", level_2)):
        lines += [
            (f"offline_{name}_tx_bps_min", level.egress_min),
            (f"offline_{name}_tx_bps_max", level.egress_max),
            (f"offline_{name}_rx_bps_min", level.ingress_min),
            (f"offline_{name}_rx_bps_max", level.ingress_max),
        ]
    return "".join(f"{key} {amount}\n" for key, amount in lines)


def pod_limits(annotations: Mapping[str, str]) -> PodLimits | Problem:
    """What a pod asks to be held to. Both ways have to be said; case does not count in their names."""
    found = read_annotation(annotations, ANNOTATION_NETWORK_QOS, dict[str, Any])
    if isinstance(found, Problem):
        return found
    if found is None:
        return PodLimits()
    field = annotation_field(ANNOTATION_NETWORK_QOS)
    values = {key.lower(): value for key, value in found.items()}
    amounts: list[int] = []
    for name in (_INGRESS, _EGRESS):
        if name not in values:
            return Problem(field=field, message="needs both ingressLimit and egressLimit")
        try:
            amounts.append(parse_units(values[name]) // BITS)
        except QuantityError as error:
            return Problem(field=f"{field}.{name}", message=str(error))
    return PodLimits(*amounts)


def terway_pod(
    *, name: str, namespace: str, uid: str, level: int, cgroup_dir: str, limits: PodLimits
) -> dict[str, Any]:
    """The entry of a pod in Terway's file."""
    return {
        "podName": name,
        "podNamespace": namespace,
        "podUID": uid,
        "prio": level,
        "cgroupDir": cgroup_dir,
        "qosConfig": {"ingressBandwidth": limits.ingress, "egressBandwidth": limits.egress},
    }


def terway_pods_text(pods: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of Terway's file of pods, by uid."""
    return json.dumps(pods, separators=(",", ":"), sort_keys=True)


def class_id(major: int, minor: int) -> int:
    """What `net_cls.classid` has for a class: its numbers one after the other, the minor one as four digits, read as
    hexadecimal."""
    return int(f"{major}{minor:04d}", 16)
