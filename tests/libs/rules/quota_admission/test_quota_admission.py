"""What admission asks of ElasticQuotas and pods."""

import pytest
from hypothesis import given, strategies

from berth.contracts.base import Problem
from berth.rules.quota_admission.bookings import Asked, book, retries_of
from berth.rules.quota_admission.defaults import with_defaults
from berth.rules.quota_admission.object_checks import object_refusals
from berth.rules.quota_admission.pods import PodOfQuota, pod_refusals
from berth.rules.quota_admission.quota import KnownQuotas, Quota, Refusal, Switches
from berth.rules.quota_admission.requests import (
    creation_refusals,
    deletion_refusals,
    standing_refusals,
    update_refusals,
)
from berth.rules.quota_of_pod import ROOT_GROUP
from berth.testing.vectors import cases


def first(refusals):
    """The rule that a webhook answers with."""
    refusal = next(iter(refusals), None)
    return None if refusal is None else refusal.rule


def quota_of(given):
    weight = given.get("sharedWeight")
    if isinstance(weight, str):
        weight = Problem(field="metadata.annotations[shared-weight]", message="is no JSON object")
    return Quota(
        name=given.get("name", "q"),
        parent=given.get("parent", ""),
        is_parent=given.get("isParent", False),
        is_root=given.get("isRoot", False),
        tree=given.get("treeId", ""),
        is_forced=given.get("allowForceUpdate", False),
        min=given.get("min", {}),
        max=given.get("max", {}),
        weight=weight,
        guaranteed=given.get("guaranteed", {}),
        namespaces=tuple(given.get("namespaces", ())),
        used=given.get("used", {}),
        strict_keys=tuple(given.get("maxStrictCheckKeys", ())),
    )


@pytest.mark.parametrize("case", cases("quota/webhook_defaults"))
def test_reference_defaults(case):
    filled = with_defaults(
        quota_of(case["given"]["quota"]), KnownQuotas(quota_of(each) for each in case["given"]["existing"])
    )
    if isinstance(filled, Refusal):
        assert case["expect"] == {"error": filled.rule}
    else:
        assert case["expect"] == {"parent": filled.parent, "treeId": filled.tree, "sharedWeight": filled.weight}


@pytest.mark.parametrize("case", cases("quota/webhook_self_validation"))
def test_reference_checks_of_one_object(case):
    assert first(object_refusals(quota_of(case["given"]["quota"]))) == case["expect"]["error"]


@pytest.mark.parametrize("case", cases("quota/webhook_topology_validation"))
def test_reference_checks_within_a_tree(case):
    given = case["given"]
    quota, known = quota_of(given["quota"]), KnownQuotas(quota_of(each) for each in given["existing"])
    gates = given.get("gates", ())
    switches = Switches(
        strict_keys="ElasticQuotaEnableUpdateResourceKey" not in gates,
        guarantees_use="ElasticQuotaGuaranteeUsage" in gates,
    )
    pods = given.get("boundPods", 0)
    refusals = {
        "create": lambda: creation_refusals(quota, known, switches),
        "update": lambda: update_refusals(quota, known, bound_pods=pods, switches=switches),
        "delete": lambda: deletion_refusals(quota.name, known, bound_pods=pods),
    }[given["operation"]]()
    assert first(refusals) == case["expect"]["error"]


@pytest.mark.parametrize("case", cases("quota/webhook_pod_validation"))
def test_reference_checks_of_pods(case):
    given = case["given"]
    known = KnownQuotas(Quota(name=name, is_parent=each["isParent"]) for name, each in given["quotas"].items())
    switches = Switches(parents_take_pods=given.get("supportParentQuotaSubmitPod", False))

    def pod_of(each):
        return PodOfQuota(each["quota"], each.get("preemptible", ""))

    old = pod_of(given["old"]) if "old" in given else None
    assert first(pod_refusals(pod_of(given["new"]), known, old=old, switches=switches)) == case["expect"]["error"]


@pytest.mark.parametrize("case", cases("quota/admission_evaluate"))
def test_reference_bookings(case):
    given = case["given"]
    asked = [Asked(each["operation"], each["request"]) for each in given["requests"]]
    results, booked = book(given["max"], given.get("admission", {}), given.get("childRequest", {}), asked)
    shown = [
        {"allowed": True} if excess is None else {"allowed": False, "exceed": list(excess.used)} for excess in results
    ]
    assert shown == case["expect"]["results"]
    assert booked == case["expect"]["childRequest"]


@pytest.mark.parametrize("case", cases("quota/booking_retries"))
def test_reference_retries(case):
    assert retries_of(case["given"]["batch"], case["given"]["maxRetries"]) == case["expect"]["retries"]


def test_the_creator_of_a_pod_is_told_what_is_exceeded():
    [excess], booked = book({"cpu": 20000}, {}, {"cpu": 19000}, [Asked("CREATE", {"cpu": 2000, "memory": 1})])
    assert excess.text("ns", "team") == "exceeded quota: ns/team, requested: cpu=2, used: cpu=19, limited: cpu=20"
    assert booked == {"cpu": 19000}


def test_a_quota_of_other_resources_lets_every_pod_in():
    results, booked = book({"pods": 1}, {}, {"pods": 1}, [Asked("CREATE", {"pods": 1})])
    assert results == [None]
    assert booked == {"pods": 1}


def test_loose_keys_are_the_default():
    known = KnownQuotas([Quota(name="p", is_parent=True, max={"cpu": 9, "gpu": 1})])
    child = Quota(name="c", parent="p", max={"cpu": 9})
    assert first(creation_refusals(child, known)) is None
    assert first(creation_refusals(child, known, Switches(strict_keys=True))) == "maxKeys"


def test_a_quota_cannot_move_below_itself():
    known = KnownQuotas(
        [
            Quota(name="a", is_parent=True),
            Quota(name="b", is_parent=True, parent="a"),
            Quota(name="c", is_parent=True, parent="b"),
        ]
    )
    moved = Quota(name="a", is_parent=True, parent="c")
    assert [refusal.rule for refusal in update_refusals(moved, known)] == ["parentIsDescendant"]


def test_a_name_is_taken_once():
    known = KnownQuotas([Quota(name="a", namespace="x")])
    assert first(creation_refusals(Quota(name="a", namespace="y"), known)) == "nameTaken"


def test_the_root_is_left_alone_by_defaults():
    root = Quota(name=ROOT_GROUP)
    assert with_defaults(root, KnownQuotas()) is root


def test_a_child_takes_the_tree_of_its_parent():
    filled = with_defaults(Quota(name="c", parent="p"), KnownQuotas([Quota(name="p", tree="t")]))
    assert not isinstance(filled, Refusal)
    assert filled.tree == "t"


AMOUNTS = strategies.dictionaries(strategies.sampled_from(("cpu", "gpu")), strategies.integers(0, 5), max_size=2)
QUOTAS = strategies.builds(
    Quota,
    name=strategies.sampled_from("abcde"),
    parent=strategies.sampled_from(("", *"abcde")),
    is_parent=strategies.booleans(),
    tree=strategies.sampled_from(("", "t")),
    min=AMOUNTS,
    max=AMOUNTS,
    guaranteed=AMOUNTS,
    namespaces=strategies.lists(strategies.sampled_from("xyz"), max_size=2).map(tuple),
)


@given(strategies.lists(QUOTAS, max_size=12), strategies.lists(strategies.sampled_from("abcde"), max_size=3))
def test_what_is_known_depends_on_the_last_version_of_each(quotas, gone):
    grown = KnownQuotas(quotas)
    for name in gone:
        grown.remove(name)
    fresh = KnownQuotas(quota for name, quota in {quota.name: quota for quota in quotas}.items() if name not in gone)
    switches = Switches(guarantees_use=True)
    for quota in quotas:
        assert list(standing_refusals(quota, grown, switches)) == list(standing_refusals(quota, fresh, switches))
        assert list(creation_refusals(quota, grown)) == list(creation_refusals(quota, fresh))
