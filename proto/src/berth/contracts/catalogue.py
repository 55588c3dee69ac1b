"""Which message travels where: the table behind the generated schemas and the subject page.

Every message type that leaves a process is listed once, with the bucket or stream that keeps it, its key or subject
pattern, and its sole writer.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from berth.contracts import buckets, command, event, inventory, ledger, metrics, question, quota, reservation, state


class Channel(NamedTuple):
    """Where a message travels."""

    message: type[msgspec.Struct]
    place: str
    pattern: str
    writer: str

    @property
    def tag(self) -> str:
        """The tag in the message's `type` field."""
        return str(self.message.__struct_config__.tag)


_WATCHER = "cluster-watcher"
_SOLVER = "placement-solver"
_WRITER = "cluster-writer"
_EVT = "berth.v1.evt"
_CMD = "berth.v1.cmd"
_SVC = "berth.v1.svc"

CHANNELS = (
    Channel(state.Pod, buckets.STATE, "pod.<namespace>.<name>", _WATCHER),
    Channel(state.Node, buckets.STATE, "node.<name>", _WATCHER),
    Channel(state.Namespace, buckets.STATE, "namespace.<name>", _WATCHER),
    Channel(state.PriorityClass, buckets.STATE, "priorityclass.<name>", _WATCHER),
    Channel(state.ConfigMap, buckets.STATE, "configmap.<namespace>.<name>", _WATCHER),
    Channel(state.DisruptionBudget, buckets.STATE, "pdb.<namespace>.<name>", _WATCHER),
    Channel(state.PodGroup, buckets.STATE, "podgroup.<namespace>.<name>", _WATCHER),
    Channel(state.ElasticQuota, buckets.STATE, "elasticquota.<namespace>.<name>", _WATCHER),
    Channel(state.Device, buckets.STATE, "device.<node>", _WATCHER),
    Channel(state.Reservation, buckets.STATE, "reservation.<name>", _WATCHER),
    Channel(state.NodeResourceTopology, buckets.STATE, "nodetopology.<name>", _WATCHER),
    Channel(state.NodeMetric, buckets.STATE, "nodemetric.<name>", _WATCHER),
    Channel(state.Synced, buckets.STATE, "synced.<kind>", _WATCHER),
    Channel(inventory.NodeInventory, buckets.INVENTORY, "node.<name>", "device-inventory"),
    Channel(quota.QuotaGroup, buckets.QUOTA, "group.<tree>.<name>", "quota-manager"),
    Channel(reservation.ReservedRoom, buckets.RESERVATION, "reservation.<name>", "reservation-manager"),
    Channel(metrics.NodeMetrics, buckets.METRICS, "node.<name>", "node-qos-enforcer"),
    Channel(ledger.Epoch, buckets.LEDGER, "epoch", _WRITER),
    Channel(ledger.Decision, buckets.LEDGER, "e<epoch>.decision.<namespace>.<name>", _SOLVER),
    Channel(ledger.AccountStamp, buckets.LEDGER, "e<epoch>.account.<account>", _SOLVER),
    Channel(ledger.Plan, buckets.LEDGER, "e<epoch>.plan.<id>", _SOLVER),
    Channel(command.PatchNode, buckets.COMMANDS, f"{_CMD}.patch.node.<name>", "device-inventory"),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.<kind>.<name>", "the owner of the status"),
    Channel(command.RefusePod, buckets.COMMANDS, f"{_CMD}.refuse.<namespace>.<name>", _SOLVER),
    Channel(command.EvictPod, buckets.COMMANDS, f"{_CMD}.evict.<namespace>.<name>", _SOLVER),
    Channel(event.PlacementDecided, buckets.EVENTS, f"{_EVT}.placement.decided.<plan>", _SOLVER),
    Channel(event.PlacementUnschedulable, buckets.EVENTS, f"{_EVT}.placement.unschedulable.<namespace>.<pod>", _SOLVER),
    Channel(event.PlacementBound, buckets.EVENTS, f"{_EVT}.placement.bound.<namespace>.<pod>", _WRITER),
    Channel(event.PlacementFailed, buckets.EVENTS, f"{_EVT}.placement.failed.<namespace>.<pod>", _WRITER),
    Channel(event.EpochRaised, buckets.EVENTS, f"{_EVT}.placement.epoch.<epoch>", _WRITER),
    Channel(event.QuotaChanged, buckets.EVENTS, f"{_EVT}.quota.<verb>.<tree>.<group>", "quota-manager"),
    Channel(event.ReservationChanged, buckets.EVENTS, f"{_EVT}.reservation.<phase>.<name>", "reservation-manager"),
    Channel(event.NodeChanged, buckets.EVENTS, f"{_EVT}.node.<verb>.<name>", "device-inventory"),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.<noun>.refused.<kind>.<name>", "the owner of the noun"),
    Channel(question.WhyQuestion, "request", f"{_SVC}.placement-solver.why", "anybody"),
    Channel(question.WhyAnswer, "reply", f"{_SVC}.placement-solver.why", _SOLVER),
    Channel(question.StatusQuestion, "request", f"{_SVC}.<service>.status", "anybody"),
    Channel(question.StatusAnswer, "reply", f"{_SVC}.<service>.status", "every service"),
)
