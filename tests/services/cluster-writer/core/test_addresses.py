from __future__ import annotations

import pytest

from berth.cluster_writer.core.addresses import PATTERNS, check
from berth.contracts import subjects
from berth.contracts.command import (
    AnnotateNode,
    ApplyObject,
    ConfigureWebhooks,
    DeleteObject,
    EvictPod,
    OfferNode,
    PatchNode,
    PatchObject,
    RefusePod,
    ReportPod,
)
from berth.contracts.errors import InvalidMessage

EVICTION = EvictPod(namespace="a", name="p", uid="u", reason="r")
QUOTA = PatchObject(api="scheduling.sigs.k8s.io/v1alpha1/elasticquotas", namespace="a", name="q.x", uid="u")
RESERVED = PatchObject(api="scheduling.koordinator.sh/v1alpha1/reservations", name="r", uid="u")
GANG = PatchObject(api="scheduling.sigs.k8s.io/v1alpha1/podgroups", namespace="a", name="g", uid="u")
NETWORK = PatchObject(api="scheduling.koordinator.sh/v1alpha1/clusternetworktopologies", name="default", uid="u")
SCHEDULE = PatchObject(api="scheduling.berth.sh/v1alpha1/reservationschedules", name="s", uid="u")
WINDOW = ApplyObject(api="scheduling.koordinator.sh/v1alpha1/reservations", name="r")
STRATEGY = ApplyObject(api="slo.koordinator.sh/v1alpha1/nodeslos", name="n.1")
DEVICES = "scheduling.koordinator.sh/v1alpha1/devices"
USAGE = ApplyObject(api="slo.koordinator.sh/v1alpha1/nodemetrics", name="n.1")
DEVICE = ApplyObject(api=DEVICES, name="n.1")
ROOT = ApplyObject(api="scheduling.sigs.k8s.io/v1alpha1/elasticquotas", namespace="a", name="q.x")
PROFILE = PatchObject(api="quota.koordinator.sh/v1alpha1/elasticquotaprofiles", namespace="a", name="f", uid="u")
NO_RESERVATION = DeleteObject(api="scheduling.koordinator.sh/v1alpha1/reservations", name="r", uid="u", version="1")
NO_DEVICE = DeleteObject(api=DEVICES, name="n.1", uid="u")
TOPOLOGIES = "topology.node.k8s.io/v1alpha1/noderesourcetopologies"
LAYOUT = ApplyObject(api=TOPOLOGIES, name="n.1")
NO_LAYOUT = DeleteObject(api=TOPOLOGIES, name="n.1", uid="u")
NODE = PatchNode(name="n.1", uid="u")
ANNOTATION = AnnotateNode(name="n.1", uid="u")
LENT = OfferNode(name="n.1", uid="u")
REFUSAL = RefusePod(namespace="a", name="p", uid="u", message="m")
REPORT = ReportPod(namespace="a", name="p", uid="u", id="8d2f6c1e", reason="R", message="m")
WEBHOOKS = ConfigureWebhooks(kind="mutating", uid="u", version="1")
OWN = {
    subjects.command_subject("configure", "webhooks", "mutating"): WEBHOOKS,
    subjects.command_subject("evict", "pods", "a", "p"): EVICTION,
    subjects.command_subject("patch", "elasticquotas", "a", "q.x"): QUOTA,
    subjects.command_subject("patch", "elasticquotaprofiles", "a", "f"): PROFILE,
    subjects.command_subject("patch", "reservations", "r"): RESERVED,
    subjects.command_subject("patch", "reservationschedules", "s"): SCHEDULE,
    subjects.command_subject("apply", "reservations", "r"): WINDOW,
    subjects.command_subject("apply", "elasticquotas", "a", "q.x"): ROOT,
    subjects.command_subject("patch", "podgroups", "a", "g"): GANG,
    subjects.command_subject("patch", "clusternetworktopologies", "default"): NETWORK,
    subjects.command_subject("apply", "nodeslos", "n.1"): STRATEGY,
    subjects.command_subject("apply", "nodemetrics", "n.1"): USAGE,
    subjects.command_subject("apply", "devices", "n.1"): DEVICE,
    subjects.command_subject("delete", "devices", "n.1"): NO_DEVICE,
    subjects.command_subject("delete", "reservations", "r"): NO_RESERVATION,
    subjects.command_subject("apply", "noderesourcetopologies", "n.1"): LAYOUT,
    subjects.command_subject("delete", "noderesourcetopologies", "n.1"): NO_LAYOUT,
    subjects.command_subject("patch", "nodes", "n.1"): NODE,
    subjects.command_subject("annotate", "nodes", "n.1"): ANNOTATION,
    subjects.command_subject("offer", "nodes", "n.1"): LENT,
    subjects.command_subject("refuse", "pods", "a", "p"): REFUSAL,
    subjects.command_subject("report", "pods", "a", "p"): REPORT,
}


def test_every_command_has_a_subject_of_its_own() -> None:
    assert len(OWN) == len(PATTERNS)


@pytest.mark.parametrize("subject", OWN)
def test_a_command_is_taken_on_its_own_subject_alone(subject: str) -> None:
    for own, command in OWN.items():
        if own == subject:
            check(subject, command)
        else:
            with pytest.raises(InvalidMessage):
                check(subject, command)


@pytest.mark.parametrize(
    ("subject", "command", "field"),
    [
        ("berth.v1.cmd.apply.nodeslos.n", EVICTION, "type"),
        ("berth.v1.cmd.evict.pods.a.other", EVICTION, "name"),
        ("berth.v1.cmd.evict.pods.other.p", EVICTION, "namespace"),
        ("berth.v1.cmd.patch.elasticquotas.a.r", PatchObject(api=GANG.api, namespace="a", name="r", uid="u"), "api"),
        ("berth.v1.cmd.evict.pods.a", EVICTION, "subject"),
        ("berth.v1.cmd.evict.pods.a.p.q", EVICTION, "subject"),
        ("berth.v1.cmd.evict.pods.a.p%", EVICTION, "subject"),
        ("berth.v1.evt.evict.a.p", EVICTION, "subject"),
        ("evict.pods.a.p", EVICTION, "subject"),
        ("", EVICTION, "subject"),
    ],
)
def test_what_does_not_belong_together_is_named(subject: str, command: EvictPod | PatchObject, field: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        check(subject, command)
    assert refused.value.field == field
