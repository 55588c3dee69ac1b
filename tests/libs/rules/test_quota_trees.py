"""ElasticQuotaProfiles: root quotas, and where the pods of a tree may go."""

from decimal import Decimal

import pytest

from berth.contracts import names, state
from berth.contracts.kube import LabelSelector, NodeSelectorTerm, Requirement
from berth.rules.quota_of_pod import QuotaClaim, QuotaMap
from berth.rules.quota_trees import (
    UNLIMITED,
    made_tree,
    profile_of_tree,
    read_profile,
    root_quota,
    with_requirements,
)
from berth.testing.vectors import cases


def profile_of(given):
    selector = given.get("nodeSelector")
    labels = given.get("matchLabels")
    if labels is not None:
        selector = {"matchLabels": labels}
    annotations = {}
    if "resourceKeys" in given:
        annotations[names.ANNOTATION_QUOTA_RESOURCE_KEYS] = str(given["resourceKeys"]).replace("'", '"')
    return state.ElasticQuotaProfile(
        namespace=given.get("namespace", ""),
        name=given["name"],
        uid="u",
        version=1,
        labels={names.LABEL_QUOTA_TREE: given["treeId"]} if given.get("treeId") else {},
        annotations=annotations,
        quota_name=given.get("quotaName", "q"),
        quota_labels=given.get("quotaLabels", {}),
        ratio=given.get("resourceRatio", ""),
        selector=None if selector is None else LabelSelector(match_labels=selector.get("matchLabels")),
    )


@pytest.mark.parametrize("case", cases("quota/profile_totals"))
def test_reference_root_quotas(case):
    profile = read_profile(profile_of(case["given"]["profile"]))
    total, idle = {}, {}
    for node in case["given"]["nodes"]:
        if profile.selector.matches(node["labels"]):
            sums = [total]
            if node.get("unschedulable") or not node.get("ready", True):
                sums.append(idle)
            for each in sums:
                for key, amount in node["allocatable"].items():
                    each[key] = each.get(key, 0) + amount
    quota = root_quota(profile, total, idle)
    assert quota.min == case["expect"]["min"]
    assert quota.max == dict.fromkeys(case["expect"]["maxKeys"], UNLIMITED)
    assert quota.total == case["expect"]["totalResource"]
    assert quota.unschedulable == case["expect"]["unschedulableResource"]
    assert quota.labels == case["expect"]["labels"]


@pytest.mark.parametrize("case", cases("quota/pod_tree_affinity"))
def test_reference_affinity(case):
    given = case["given"]
    quotas = {quota["name"]: quota for quota in given["quotas"]}
    claims = [
        QuotaClaim(each["name"], each["namespace"], tuple(each.get("namespaces", ()))) for each in quotas.values()
    ]
    pod = given["pod"]
    quota = QuotaMap(claims).group_of(pod["quotaLabel"], pod["namespace"])
    profile = profile_of_tree(
        quotas.get(quota, {}).get("treeId", ""), [read_profile(profile_of(each)) for each in given["profiles"]]
    )
    terms = pod["requiredNodeTerms"]
    if terms is not None:
        terms = [NodeSelectorTerm(match_expressions=[Requirement(**each) for each in term]) for term in terms]
    required = with_requirements(terms, profile.requirements if profile is not None else ())
    shown = required and [
        [{"key": each.key, "operator": each.operator, "values": each.values} for each in term.match_expressions]
        for term in required
    ]
    assert shown == case["expect"]["requiredNodeTerms"]


def test_a_ratio_is_exact():
    profile = read_profile(profile_of({"name": "p", "resourceRatio": "0.29", "nodeSelector": {}}))
    assert root_quota(profile, {"cpu": 100}, {}).min == {"cpu": 29, "memory": 0}


@pytest.mark.parametrize("ratio", ["1.5", "nan", "inf", "-1", "0", "0x1p-1", "1e-99x", "9" * 100])
def test_a_ratio_that_is_none_is_named(ratio):
    profile = read_profile(profile_of({"name": "p", "resourceRatio": ratio, "nodeSelector": {}}))
    assert profile.ratio == Decimal(1)
    assert [problem.field for problem in profile.problems] == ["spec.resourceRatio"]


def test_what_cannot_be_read_is_named():
    bad = state.ElasticQuotaProfile(
        namespace="ns",
        name="p",
        uid="u",
        version=1,
        annotations={names.ANNOTATION_QUOTA_RESOURCE_KEYS: "cpu"},
        selector=LabelSelector(match_expressions=[Requirement(key="a", operator="Near", values=["b"])]),
    )
    profile = read_profile(bad)
    assert [problem.field for problem in profile.problems] == [
        f"metadata.annotations[{names.ANNOTATION_QUOTA_RESOURCE_KEYS}]",
        "spec.nodeSelector.matchExpressions[0].operator",
        "spec.quotaName",
    ]
    assert not profile.selector.matches({"a": "b"})
    assert not profile.is_usable


def test_expressions_of_a_selector_hold_as_well():
    selector = LabelSelector(match_labels={"pool": "a"}, match_expressions=[Requirement(key="zone", operator="Exists")])
    profile = read_profile(
        state.ElasticQuotaProfile(namespace="ns", name="p", uid="u", version=1, quota_name="q", selector=selector)
    )
    assert [each.key for each in profile.requirements] == ["pool", "zone"]


def test_of_two_profiles_of_a_tree_the_first_counts():
    profiles = [read_profile(profile_of({"name": name, "treeId": "t"})) for name in ("b", "a")]
    assert profile_of_tree("t", profiles).name == "a"
    assert profile_of_tree("", profiles) is None


def test_a_made_tree_is_the_reference_hash():
    assert made_tree("kube-system", "gpu-pool") == "17661029769335466936"
