"""Which message travels where: the table behind the generated schemas and the subject page.

Every message type that leaves a process is listed with the bucket or stream that keeps it, its key or subject pattern,
and who writes it: once in a bucket, since a bucket has one writer, and once for each writer and subject in a stream. A
name in angle brackets is one escaped token of a pattern, but for `<account>`, which is all that `node_account`,
`quota_account`, `reservation_account` or `peers_account` give. Leases are between the replicas of one service, so they
are not here.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from berth.contracts import (
    buckets,
    command,
    event,
    gang_question,
    inventory,
    ledger,
    metrics,
    network,
    node_audit,
    node_pressure,
    node_report,
    node_runtime,
    prices,
    question,
    quota,
    quota_question,
    reservation,
    slo,
    state,
    topology,
    what_if,
)
from berth.contracts.subjects import PREFIX


class Channel(NamedTuple):
    """Where a message travels. `place` is a bucket, a stream, or `request` and `reply`, which nothing keeps."""

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
_INVENTORY = "device-inventory"
_QUOTA = "quota-manager"
_RESERVATION = "reservation-manager"
_SLO = "slo-manager"
_AGENT = "node-qos-enforcer"
_AUDITOR = "auditor"
_YARN = "yarn-operator"
_WEBHOOK = "admission-webhook"
_EVT = f"{PREFIX}.evt"
_CMD = f"{PREFIX}.cmd"
_SVC = f"{PREFIX}.svc"

CHANNELS = (
    Channel(state.Pod, buckets.STATE, "pod.<namespace>.<name>", _WATCHER),
    Channel(state.Node, buckets.STATE, "node.<name>", _WATCHER),
    Channel(state.Namespace, buckets.STATE, "namespace.<name>", _WATCHER),
    Channel(state.PriorityClass, buckets.STATE, "priorityclass.<name>", _WATCHER),
    Channel(state.ConfigMap, buckets.STATE, "configmap.<namespace>.<name>", _WATCHER),
    Channel(state.PodDisruptionBudget, buckets.STATE, "poddisruptionbudget.<namespace>.<name>", _WATCHER),
    Channel(state.Service, buckets.STATE, "service.<namespace>.<name>", _WATCHER),
    Channel(state.ReplicationController, buckets.STATE, "replicationcontroller.<namespace>.<name>", _WATCHER),
    Channel(state.ReplicaSet, buckets.STATE, "replicaset.<namespace>.<name>", _WATCHER),
    Channel(state.StatefulSet, buckets.STATE, "statefulset.<namespace>.<name>", _WATCHER),
    Channel(state.PodGroup, buckets.STATE, "podgroup.<namespace>.<name>", _WATCHER),
    Channel(state.ElasticQuota, buckets.STATE, "elasticquota.<namespace>.<name>", _WATCHER),
    Channel(state.ElasticQuotaProfile, buckets.STATE, "elasticquotaprofile.<namespace>.<name>", _WATCHER),
    Channel(state.Device, buckets.STATE, "device.<node>", _WATCHER),
    Channel(state.Reservation, buckets.STATE, "reservation.<name>", _WATCHER),
    Channel(state.ReservationSchedule, buckets.STATE, "reservationschedule.<name>", _WATCHER),
    Channel(state.PersistentVolumeClaim, buckets.STATE, "persistentvolumeclaim.<namespace>.<name>", _WATCHER),
    Channel(state.PersistentVolume, buckets.STATE, "persistentvolume.<name>", _WATCHER),
    Channel(state.StorageClass, buckets.STATE, "storageclass.<name>", _WATCHER),
    Channel(state.CSINode, buckets.STATE, "csinode.<name>", _WATCHER),
    Channel(state.CSIDriver, buckets.STATE, "csidriver.<name>", _WATCHER),
    Channel(state.CSIStorageCapacity, buckets.STATE, "csistoragecapacity.<namespace>.<name>", _WATCHER),
    Channel(state.VolumeAttachment, buckets.STATE, "volumeattachment.<name>", _WATCHER),
    Channel(state.NodeResourceTopology, buckets.STATE, "noderesourcetopology.<name>", _WATCHER),
    Channel(state.ClusterNetworkTopology, buckets.STATE, "clusternetworktopology.<name>", _WATCHER),
    Channel(state.NodeMetric, buckets.STATE, "nodemetric.<name>", _WATCHER),
    Channel(state.NodeSLO, buckets.STATE, "nodeslo.<name>", _WATCHER),
    Channel(state.ClusterColocationProfile, buckets.STATE, "clustercolocationprofile.<name>", _WATCHER),
    Channel(state.MutatingWebhookConfiguration, buckets.STATE, "mutatingwebhookconfiguration.<name>", _WATCHER),
    Channel(state.ValidatingWebhookConfiguration, buckets.STATE, "validatingwebhookconfiguration.<name>", _WATCHER),
    Channel(state.Synced, buckets.STATE, "synced.<kind>", _WATCHER),
    Channel(inventory.NodeInventory, buckets.INVENTORY, "node.<name>", _INVENTORY),
    Channel(topology.NodeTopology, buckets.INVENTORY, "topology.<name>", _INVENTORY),
    Channel(network.NetworkLayers, buckets.INVENTORY, "network.<name>", _INVENTORY),
    Channel(network.NodeDomains, buckets.INVENTORY, "domains.<name>", _INVENTORY),
    Channel(quota.QuotaGroup, buckets.QUOTA, "group.<tree>.<name>", _QUOTA),
    Channel(quota.PodCharge, buckets.QUOTA, "charge.<class>", _QUOTA),
    Channel(reservation.ReservedCapacity, buckets.RESERVATION, "reservation.<name>", _RESERVATION),
    Channel(slo.NodeSLO, buckets.SLO, "node.<name>", _SLO),
    Channel(slo.NodeOffer, buckets.SLO, "offer.<name>", _SLO),
    Channel(slo.NodePod, buckets.SLO, "pod.<node>.<uid>", _SLO),
    Channel(metrics.NodeMetrics, buckets.METRICS, "node.<name>", _AGENT),
    Channel(node_report.NodeReport, buckets.METRICS, "report.<name>", _AGENT),
    Channel(node_runtime.NodeRuntime, buckets.METRICS, "runtime.<name>", _AGENT),
    Channel(node_pressure.NodePressure, buckets.METRICS, "pressure.<name>", _AGENT),
    Channel(prices.PriceTable, buckets.PRICE, "prices.<solver>", _SOLVER),
    Channel(ledger.Epoch, buckets.LEDGER, "epoch", _WRITER),
    Channel(ledger.Decision, buckets.LEDGER, "e<epoch>.decision.<namespace>.<name>", _SOLVER),
    Channel(ledger.AccountStamp, buckets.LEDGER, "e<epoch>.account.<account>", _SOLVER),
    Channel(ledger.Plan, buckets.LEDGER, "e<epoch>.plan.<id>", _SOLVER),
    Channel(command.PatchNode, buckets.COMMANDS, f"{_CMD}.patch.nodes.<name>", _INVENTORY),
    Channel(command.AnnotateNode, buckets.COMMANDS, f"{_CMD}.annotate.nodes.<name>", _SLO),
    Channel(command.AnnotateNode, buckets.COMMANDS, f"{_CMD}.annotate.nodes.<name>", _YARN),
    Channel(command.OfferNode, buckets.COMMANDS, f"{_CMD}.offer.nodes.<name>", _SLO),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.elasticquotas.<namespace>.<name>", _QUOTA),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.elasticquotaprofiles.<namespace>.<name>", _QUOTA),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.reservations.<name>", _RESERVATION),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.reservations.<name>", _SOLVER),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.reservationschedules.<name>", _RESERVATION),
    Channel(command.ApplyObject, buckets.COMMANDS, f"{_CMD}.apply.reservations.<name>", _RESERVATION),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.podgroups.<namespace>.<name>", _SOLVER),
    Channel(command.ApplyObject, buckets.COMMANDS, f"{_CMD}.apply.elasticquotas.<namespace>.<name>", _QUOTA),
    Channel(command.ApplyObject, buckets.COMMANDS, f"{_CMD}.apply.nodeslos.<name>", _SLO),
    Channel(command.ApplyObject, buckets.COMMANDS, f"{_CMD}.apply.nodemetrics.<name>", _SLO),
    Channel(command.ApplyObject, buckets.COMMANDS, f"{_CMD}.apply.devices.<name>", _INVENTORY),
    Channel(command.ApplyObject, buckets.COMMANDS, f"{_CMD}.apply.noderesourcetopologies.<name>", _INVENTORY),
    Channel(command.DeleteObject, buckets.COMMANDS, f"{_CMD}.delete.noderesourcetopologies.<name>", _INVENTORY),
    Channel(command.PatchObject, buckets.COMMANDS, f"{_CMD}.patch.clusternetworktopologies.<name>", _INVENTORY),
    Channel(command.DeleteObject, buckets.COMMANDS, f"{_CMD}.delete.devices.<name>", _INVENTORY),
    Channel(command.DeleteObject, buckets.COMMANDS, f"{_CMD}.delete.reservations.<name>", _RESERVATION),
    Channel(command.ConfigureWebhooks, buckets.COMMANDS, f"{_CMD}.configure.webhooks.<kind>", _WEBHOOK),
    Channel(command.RefusePod, buckets.COMMANDS, f"{_CMD}.refuse.pods.<namespace>.<name>", _SOLVER),
    Channel(command.ReportPod, buckets.COMMANDS, f"{_CMD}.report.pods.<namespace>.<name>", _INVENTORY),
    Channel(command.EvictPod, buckets.COMMANDS, f"{_CMD}.evict.pods.<namespace>.<name>", _SLO),
    Channel(event.PlacementDecided, buckets.EVENTS, f"{_EVT}.placement.decided.<plan>", _SOLVER),
    Channel(event.PlacementBounded, buckets.EVENTS, f"{_EVT}.placement.bounded.<plan>", _SOLVER),
    Channel(event.PlacementUnschedulable, buckets.EVENTS, f"{_EVT}.placement.unschedulable.<namespace>.<pod>", _SOLVER),
    Channel(event.PlacementBound, buckets.EVENTS, f"{_EVT}.placement.bound.<namespace>.<pod>", _WRITER),
    Channel(event.PlacementEnded, buckets.EVENTS, f"{_EVT}.placement.ended.<namespace>.<pod>", _WRITER),
    Channel(event.PlacementFailed, buckets.EVENTS, f"{_EVT}.placement.failed.<namespace>.<pod>", _WRITER),
    Channel(event.PlacementNominated, buckets.EVENTS, f"{_EVT}.placement.nominated.<namespace>.<pod>", _SOLVER),
    Channel(event.EvictionMarked, buckets.EVENTS, f"{_EVT}.eviction.marked.<namespace>.<pod>", _WRITER),
    Channel(event.EvictionSent, buckets.EVENTS, f"{_EVT}.eviction.sent.<namespace>.<pod>", _WRITER),
    Channel(event.EvictionRefused, buckets.EVENTS, f"{_EVT}.eviction.refused.<namespace>.<pod>", _WRITER),
    Channel(event.EvictionSpared, buckets.EVENTS, f"{_EVT}.eviction.spared.<namespace>.<pod>", _WRITER),
    Channel(event.NominationWithdrawn, buckets.EVENTS, f"{_EVT}.nomination.withdrawn.<namespace>.<pod>", _WRITER),
    Channel(event.GangScattered, buckets.EVENTS, f"{_EVT}.gang.scattered.<namespace>.<name>", _SOLVER),
    Channel(event.EpochRaised, buckets.EVENTS, f"{_EVT}.epoch.raised.<epoch>", _WRITER),
    Channel(event.QuotaChanged, buckets.EVENTS, f"{_EVT}.quota.changed.exceeded.<tree>.<group>", _QUOTA),
    Channel(event.QuotaChanged, buckets.EVENTS, f"{_EVT}.quota.changed.recovered.<tree>.<group>", _QUOTA),
    Channel(event.ReservationChanged, buckets.EVENTS, f"{_EVT}.reservation.changed.<phase>.<name>", _RESERVATION),
    Channel(event.NodeChanged, buckets.EVENTS, f"{_EVT}.node.changed.<name>", _INVENTORY),
    Channel(event.FindingReported, buckets.EVENTS, f"{_EVT}.finding.reported.<namespace>.<pod>", _INVENTORY),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.elasticquotas.<namespace>.<name>", _QUOTA),
    Channel(
        event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.elasticquotaprofiles.<namespace>.<name>", _QUOTA
    ),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.reservations.<name>", _RESERVATION),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.reservationschedules.<name>", _RESERVATION),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.devices.<name>", _INVENTORY),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.noderesourcetopologies.<name>", _INVENTORY),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.clusternetworktopologies.<name>", _INVENTORY),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.configmaps.<namespace>.<name>", _SLO),
    Channel(event.ObjectRefused, buckets.EVENTS, f"{_EVT}.object.refused.clustercolocationprofiles.<name>", _WEBHOOK),
    Channel(event.AuditReported, buckets.EVENTS, f"{_EVT}.audit.reported.found.<promise>.<id>", _AUDITOR),
    Channel(event.AuditReported, buckets.EVENTS, f"{_EVT}.audit.reported.gone.<promise>.<id>", _AUDITOR),
    Channel(question.WhyQuestion, "request", f"{_SVC}.placement-solver.why", "anybody"),
    Channel(question.WhyAnswer, "reply", f"{_SVC}.placement-solver.why", _SOLVER),
    Channel(question.NodeQuestion, "request", f"{_SVC}.placement-solver.node", "anybody"),
    Channel(question.NodeAnswer, "reply", f"{_SVC}.placement-solver.node", _SOLVER),
    Channel(gang_question.GangQuestion, "request", f"{_SVC}.placement-solver.gang", "anybody"),
    Channel(gang_question.GangAnswer, "reply", f"{_SVC}.placement-solver.gang", _SOLVER),
    Channel(what_if.WhatIfQuestion, "request", f"{_SVC}.placement-solver.whatif", "anybody"),
    Channel(what_if.WhatIfAnswer, "reply", f"{_SVC}.placement-solver.whatif", _SOLVER),
    Channel(what_if.QuotasIfQuestion, "request", f"{_SVC}.quota-manager.quotasif", "anybody"),
    Channel(what_if.QuotasIfAnswer, "reply", f"{_SVC}.quota-manager.quotasif", _QUOTA),
    Channel(prices.PricesQuestion, "request", f"{_SVC}.placement-solver.prices", "anybody"),
    Channel(prices.PricesAnswer, "reply", f"{_SVC}.placement-solver.prices", _SOLVER),
    Channel(quota_question.QuotaQuestion, "request", f"{_SVC}.quota-manager.quota", "anybody"),
    Channel(quota_question.QuotaAnswer, "reply", f"{_SVC}.quota-manager.quota", _QUOTA),
    Channel(node_audit.LendingQuestion, "request", f"{_SVC}.slo-manager.lending", "anybody"),
    Channel(node_audit.LendingAnswer, "reply", f"{_SVC}.slo-manager.lending", _SLO),
    Channel(node_audit.TrailQuestion, "request", f"{_SVC}.node-qos-enforcer.trail", "anybody"),
    Channel(node_audit.TrailAnswer, "reply", f"{_SVC}.node-qos-enforcer.trail", _AGENT),
    Channel(question.StatusQuestion, "request", f"{_SVC}.<service>.status", "anybody"),
    Channel(question.StatusAnswer, "reply", f"{_SVC}.<service>.status", "every service"),
)
