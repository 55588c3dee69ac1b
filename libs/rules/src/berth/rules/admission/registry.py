"""Which rules each door asks, in their order."""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.rules.admission import (
    config_map,
    devices,
    elastic_quotas,
    extended_spec,
    gates,
    node_amplification,
    node_conflicts,
    pod_protocol,
    pod_quota,
    profile_rule,
    required_labels,
    reservations,
    tree_affinity,
)
from berth.rules.admission.seam import CREATE, DELETE, UPDATE, Rule

_QUOTAS: Final = "scheduling-sigs-k8s-io-v1alpha1-elasticquota"
_WRITTEN: Final = frozenset({CREATE, UPDATE})
_CHANGED: Final = frozenset({UPDATE})
_ANY: Final = frozenset({CREATE, UPDATE, DELETE})


class Door(NamedTuple):
    """A path: the gate that opens it, and its rules. Those of one door see what those before them have changed."""

    gate: str
    rules: tuple[Rule, ...]


DOORS: Final = {
    "/mutate-pod": Door(
        gates.POD_MUTATING,
        (
            Rule("profiles", profile_rule.run),
            Rule("extended-resource-spec", extended_spec.run, _WRITTEN),
            Rule("quota-tree", tree_affinity.run, is_asked=lambda on: gates.QUOTA_TREES in on),
            Rule("devices", devices.mutating, is_asked=lambda on: gates.KEEPS_DEVICES not in on),
        ),
    ),
    "/validate-pod": Door(
        gates.POD_VALIDATING,
        (
            Rule("protocol", pod_protocol.run, _WRITTEN),
            Rule("quota", pod_quota.run, _WRITTEN),
            Rule("quota-room", pod_quota.booking, is_asked=lambda on: gates.BOOKS_PODS in on),
            Rule(
                "quota-room-of-changes",
                pod_quota.booking,
                _CHANGED,
                lambda on: gates.BOOKS_PODS in on and gates.BOOKS_CHANGES in on,
            ),
            Rule("devices", devices.validating, is_asked=lambda on: gates.CHECKS_DEVICES in on),
            Rule("required-labels", required_labels.run, is_asked=lambda on: gates.REQUIRES_LABELS in on),
        ),
    ),
    "/mutate-node-status": Door(gates.NODE_MUTATING, (Rule("amplification", node_amplification.run, _CHANGED),)),
    "/validate-configmap": Door(gates.CONFIG_MAP_VALIDATING, (Rule("strategies", config_map.run, _WRITTEN),)),
    "/validate-node": Door(gates.NODE_VALIDATING, (Rule("strategies", node_conflicts.run, _CHANGED),)),
    "/mutate-reservation": Door(gates.RESERVATION_MUTATING, (Rule("profiles", reservations.run),)),
    f"/mutate-{_QUOTAS}": Door(gates.QUOTA_MUTATING, (Rule("defaults", elastic_quotas.defaulting),)),
    f"/validate-{_QUOTAS}": Door(gates.QUOTA_VALIDATING, (Rule("quota", elastic_quotas.validating, _ANY),)),
}
"""By path."""
