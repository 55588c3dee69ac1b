"""ElasticQuotas and the pods that name them, as they are written."""

from __future__ import annotations

import json
from typing import Any

from tests.libs.rules.admission.cluster import Json, ask, container, mutated, pod, rules_of, views

from berth.contracts import names, state
from berth.contracts.kube import LabelSelector
from berth.rules.admission import gates as g
from berth.rules.admission.views import Views
from berth.rules.quota_admission.quota import KnownQuotas, Quota
from berth.rules.quota_of_pod import QuotaClaim, QuotaMap
from berth.rules.quota_trees import read_profile

PATH = "scheduling-sigs-k8s-io-v1alpha1-elasticquota"
CPU = {"cpu": 40_000}
QUOTAS = (
    Quota(name="org", namespace="d", is_parent=True, tree="t", min=CPU, max=CPU),
    Quota(name="team", namespace="d", parent="org", tree="t", min={"cpu": 30_000}, max=CPU),
)


def known(**more: Any) -> Views:
    claims = QuotaMap(QuotaClaim(quota.name, quota.namespace) for quota in QUOTAS)
    return views(**({"quotas": KnownQuotas(QUOTAS), "quota_map": claims} | more))


def quota(name: str = "new", minimum: str = "5", **labels: str) -> Json:
    told = {names.QUOTA_PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "namespace": "d", "labels": told},
        "spec": {"min": {"cpu": minimum}, "max": {"cpu": "40"}},
    }


def test_a_creation_is_filled_in() -> None:
    stored = mutated(quota(parent="org"), known(), f"/mutate-{PATH}")
    assert stored["metadata"]["labels"] == {names.LABEL_QUOTA_PARENT: "org", names.LABEL_QUOTA_TREE: "t"}
    assert json.loads(stored["metadata"]["annotations"][names.ANNOTATION_QUOTA_WEIGHT]) == {"cpu": "40"}
    assert mutated(stored, known(), f"/mutate-{PATH}") == stored
    assert ask(f"/validate-{PATH}", stored, known()).is_allowed
    assert rules_of(ask(f"/mutate-{PATH}", quota(parent="nobody"), known())) == ["parentNotFound"]


def test_a_tree_stays_consistent() -> None:
    too_much = quota(minimum="15", parent="org", tree_id="t")
    assert "siblingsMinSum" in rules_of(ask(f"/validate-{PATH}", too_much, known()))
    taken = quota("team", parent="org", tree_id="t")
    assert "nameTaken" in rules_of(ask(f"/validate-{PATH}", taken, known()))
    moved = quota("team", parent="org", tree_id="u")
    assert "treeIdChanged" in rules_of(ask(f"/validate-{PATH}", moved, known(), old=taken))
    deleting = ask(f"/validate-{PATH}", None, known(), operation="DELETE", name="org")
    assert rules_of(deleting) == ["hasChildren"]
    with_pods = known(bound_pods=lambda name: 3 if name == "team" else 0)
    assert rules_of(ask(f"/validate-{PATH}", None, with_pods, operation="DELETE", name="team")) == ["hasPods"]


def test_bad_amounts_are_named() -> None:
    bad = ask(f"/validate-{PATH}", quota(minimum="lots", parent="org"), known())
    assert [(each.rule, each.field) for each in bad.refusals] == [("badQuantity", "spec.min[cpu]")]
    assert "minNegative" in rules_of(ask(f"/validate-{PATH}", quota(minimum="-1", parent="org", tree_id="t"), known()))
    item = quota(parent="org", tree_id="t")
    item["metadata"]["annotations"] = {names.ANNOTATION_QUOTA_WEIGHT: "{"}
    assert rules_of(ask(f"/validate-{PATH}", item, known())) == ["badSharedWeight"]


def test_a_quota_that_goes_may_lose_its_finalizers() -> None:
    item = quota("team", minimum="99", parent="org", tree_id="t")
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert ask(f"/validate-{PATH}", item, known(), old=item).is_allowed


def of_quota(name: str, cpu: str = "1", **labels: str) -> Json:
    return pod(container(requests={"cpu": cpu}), labels={names.LABEL_QUOTA_NAME: name, **labels})


def test_pods_go_to_leaves() -> None:
    assert rules_of(ask("/validate-pod", of_quota("org"), known())) == ["parentQuota"]
    assert ask("/validate-pod", of_quota("org"), known(), gates=g.DEFAULT | {g.PARENTS_TAKE_PODS}).is_allowed
    assert ask("/validate-pod", of_quota("org"), known(), old=of_quota("org")).is_allowed
    changed = ask(
        "/validate-pod", of_quota("team", **{names.LABEL_QUOTA_PREEMPTIBLE: "false"}), known(), old=of_quota("team")
    )
    assert rules_of(changed) == ["preemptibleChanged"]


def test_a_quota_has_room_or_not() -> None:
    on = g.DEFAULT | {g.BOOKS_PODS}
    nearly_full = known(booked=lambda name: {"cpu": 39_500})
    answer = ask("/validate-pod", of_quota("team"), nearly_full, gates=on)
    assert answer.message.endswith("exceeded quota: d/team, requested: cpu=1, used: cpu=39500m, limited: cpu=40")
    assert ask("/validate-pod", of_quota("team", "500m"), nearly_full, gates=on).is_allowed
    assert ask("/validate-pod", of_quota("team"), nearly_full).is_allowed
    limited = known(quota_limits={"team": {"cpu": 500}})
    assert rules_of(ask("/validate-pod", of_quota("team"), limited, gates=on)) == ["exceededQuota"]
    assert rules_of(ask("/validate-pod", of_quota("team"), known(quota_namesakes=frozenset({"team"})), gates=on)) == [
        "ambiguousQuota"
    ]
    moving = ask("/validate-pod", of_quota("team"), nearly_full, old=of_quota("other"), gates=on | {g.BOOKS_CHANGES})
    assert rules_of(moving) == ["exceededQuota"]
    assert ask("/validate-pod", of_quota("team"), nearly_full, old=of_quota("other"), gates=on).is_allowed


def test_pods_of_a_tree_go_to_its_nodes() -> None:
    profile = state.ElasticQuotaProfile(
        namespace="d",
        name="p",
        uid="u",
        version=1,
        labels={names.LABEL_QUOTA_TREE: "t"},
        quota_name="org",
        selector=LabelSelector(match_labels={"pool": "a"}),
    )
    seen = known(tree_profiles=(read_profile(profile),))
    on = g.DEFAULT | {g.QUOTA_TREES}
    stored = mutated(of_quota("team"), seen, gates=on)
    required = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]
    }
    assert mutated(stored, seen, gates=on) == stored
    assert mutated(of_quota("team"), seen) == of_quota("team")
    assert mutated(of_quota("unknown"), seen, gates=on) == of_quota("unknown")
