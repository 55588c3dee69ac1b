"""Who leaves for the sake of quota: within a group, and out of one that has used more than its runtime."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.state import Pod, PodTemplate
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.rules.quota_reclaim import Charged, may_displace, may_leave_within, over, to_revoke
from berth.testing.vectors import cases

PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"


def pod(name: str = "p", priority: int = 0, **more: Any) -> Pod:
    label = more.pop("preemptible", None)
    template = PodTemplate(
        requests={},
        priority=priority,
        preemption_policy=more.pop("policy", None) or "",
        labels={} if label is None else {PREEMPTIBLE: label},
    )
    return Pod(namespace="default", name=name, uid=name, version=1, template=template, **more)


@pytest.mark.parametrize("case", cases("quota/in_quota_preemption"))
def test_who_leaves_within_a_group(case: dict[str, Any]) -> None:
    waits, other = case["given"]["preemptor"], case["given"]["victim"]
    victim = Charged(pod(priority=other["priority"], preemptible=other["preemptibleLabel"]), other["quota"], {})
    keeps = case["given"]["disableDefaultQuotaPreemption"]
    found = may_leave_within(waits["priority"], waits["quota"], victim, keeps_default=keeps)
    assert found is case["expect"]["canPreempt"]


@pytest.mark.parametrize("case", cases("quota/in_quota_preemption_eligibility"))
def test_for_whom_others_leave(case: dict[str, Any]) -> None:
    said = case["given"]["pod"]
    waits = pod(priority=said["priority"], policy=said["preemptionPolicy"], nominated=said["nominatedNode"] or "")
    there = [
        Charged(pod(priority=each["priority"], deleting=each["terminating"]), each["quota"], {})
        for each in case["given"]["podsOnNominatedNode"]
    ]
    hopeless = case["given"]["nominatedNodeStatus"] == "UnschedulableAndUnresolvable"
    found = may_displace(waits, said["quota"], there, is_nominated_unresolvable=hopeless)
    assert found is case["expect"]["eligible"]


def charged(item: dict[str, Any]) -> Charged:
    started = f"2026-01-01T00:{item.get('start', 0) // 60:02}:{item.get('start', 0) % 60:02}Z"
    label = "false" if item.get("nonPreemptible") else None
    return Charged(pod(item["name"], item["priority"], preemptible=label, started=started), "q", item["request"])


@pytest.mark.parametrize("case", cases("quota/overuse_revoke"))
def test_who_is_revoked(case: dict[str, Any]) -> None:
    said = case["given"]
    pods = [charged(item) for item in said["pods"] if item.get("assigned", True)]
    revoked = to_revoke(said["runtime"], said["used"], [(each,) for each in pods])
    assert [each.pod.name for (each,) in revoked] == case["expect"]["revoke"]


AMOUNTS = st.fixed_dictionaries({"cpu": st.integers(0, 5), "memory": st.integers(0, 5)})


@given(
    st.lists(st.tuples(st.integers(0, 3), AMOUNTS, st.booleans()), max_size=8),
    st.fixed_dictionaries({"cpu": st.integers(0, 20), "memory": st.integers(0, 20)}),
)
def test_nobody_is_revoked_who_could_stay(
    drawn: list[tuple[int, dict[str, int], bool]], runtime: dict[str, int]
) -> None:
    pods = [
        Charged(pod(f"p{at}", priority, preemptible="false" if stays else None), "q", amounts)
        for at, (priority, amounts, stays) in enumerate(drawn)
    ]
    used = {name: sum(each.amounts[name] for each in pods) for name in runtime}
    revoked = [each for (each,) in to_revoke(runtime, used, [(each,) for each in pods])]
    assert all(not (each.pod.template.labels) for each in revoked)
    left = {name: used[name] - sum(each.amounts[name] for each in revoked) for name in used}
    if over(left, runtime):
        assert len(revoked) == sum(1 for each in pods if not each.pod.template.labels)
    else:
        for each in revoked:
            again = {name: left[name] + each.amounts[name] for name in left}
            assert over(again, runtime)


def test_who_leaves_together_is_as_important_as_the_most_important_of_them() -> None:
    gang = [Charged(pod(f"m{at}", at), "q", {"cpu": 1}) for at in (0, 9)]
    single = Charged(pod("single", 5), "q", {"cpu": 1})
    assert to_revoke({"cpu": 2}, {"cpu": 3}, [gang, (single,)]) == [(single,)]
    assert to_revoke({"cpu": 1}, {"cpu": 3}, [gang, (single,)]) == [gang]


def test_a_pod_that_leaves_alone_or_with_its_gang_counts_once() -> None:
    spared, other = (Charged(pod(f"m{at}", at), "q", {"cpu": 2}) for at in (0, 9))
    gang, single = (other, spared), Charged(pod("single", 5), "q", {"cpu": 1})
    revoked = to_revoke({"cpu": 0}, {"cpu": 5}, [(spared,), gang, (single,)])
    assert {each.pod.name for unit in revoked for each in unit} == {"m0", "m9", "single"}


def test_the_default_group_is_left_alone() -> None:
    other = Charged(pod(priority=1), DEFAULT_GROUP, {})
    assert not may_leave_within(5, DEFAULT_GROUP, other)
