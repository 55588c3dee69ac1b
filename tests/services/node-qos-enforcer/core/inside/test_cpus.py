"""CPUs and quota of a container, from its pod's annotations and the node's facts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.services.node_qos_builders import BEST_EFFORT, FACTS, LAYOUT, pod
from tests.services.worlds.enforcer.inside import cpu_list, wanted

from berth.contracts import names
from berth.node_qos_enforcer.core.inside.cpus import Wanted
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.seen import Limits
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.rules.cpus.kubelet import Checkpoint, NodePod
from berth.rules.cpus.shared_pools import Pool, SharedPools, shared_pools
from berth.testing.vectors import cases


def test_a_pod_with_cpus_of_its_own_has_them_and_no_quota() -> None:
    assert wanted(pod(qos="LSR", cpus="2-3"), base=Limits("", 200_000)) == Wanted("2-3", -1)


def test_others_have_what_is_left() -> None:
    pools = shared_pools(LAYOUT, pods=[NodePod("a", "LSR", frozenset({2, 3}))])
    assert wanted(pod(qos="LS"), pools=pools).cpus == "0-1,4-7"
    assert wanted(pod(), pools=pools).cpus == "0-1,4-7"
    assert wanted(pod(parent=BEST_EFFORT), pools=pools) == Wanted()


def test_cpus_of_system_pods_are_theirs_also_where_they_share_them() -> None:
    facts = replace(FACTS, node=NodeFacts(system_pod_cpus=frozenset({6, 7})))
    assert wanted(pod(qos="SYSTEM"), facts).cpus == "6-7"


def test_kubelets_own_choice_is_left_alone() -> None:
    facts = replace(FACTS, checkpoint=Checkpoint("static"))
    assert wanted(pod(), facts) == Wanted()
    assert wanted(pod(qos="LS"), facts).cpus == "0-3,4-7"


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ("{", ""),
        ('{"cpuset":"0-99999999"}', ".cpuset"),
        ('{"cpuset":"3-1"}', ".cpuset"),
        ('{"numaNodeResources":[{"node":-1}]}', ""),
        ('{"numaNodeResources":[{"node":0,"resources":{"cpu":"x"}}]}', ".numaNodeResources[0].resources"),
        ("[" * 100_000, ""),
    ],
)
def test_a_record_that_cannot_be_read_leaves_the_container_alone(record: str, field: str) -> None:
    found = wanted(pod(annotations={names.ANNOTATION_RESOURCE_STATUS: record}))
    assert (found.cpus, found.quota_us) == (None, None)
    assert found.problem is not None
    expected = f"pods[work/web].metadata.annotations[{names.ANNOTATION_RESOURCE_STATUS}]{field}"
    assert found.problem.field.startswith(expected)


def test_cpus_that_are_not_there_are_named_and_the_others_given() -> None:
    some = wanted(pod(qos="LSR", cpus="6-9"))
    assert (some.cpus, some.quota_us) == ("6-7", -1)
    assert some.problem is not None
    assert "CPUs 8-9 are not online" in some.problem.message
    none = wanted(pod(qos="LSR", cpus="8-9"))
    assert (none.cpus, none.quota_us, none.problem is not None) == (None, None, True)
    assert wanted(pod(qos="LSR", cpus="8-9"), InsideFacts()) == Wanted("8-9", -1), "nothing is known of the node"


def test_no_cpu_left_in_a_zone_is_told() -> None:
    record = json.dumps({"numaNodeResources": [{"node": 1, "resources": {"cpu": "2"}}]})
    pools = shared_pools(LAYOUT, pods=[NodePod("a", "LSR", frozenset({4, 5, 6, 7}))])
    found = wanted(pod(annotations={names.ANNOTATION_RESOURCE_STATUS: record}), pools=pools)
    assert found.cpus is None
    assert found.problem is not None
    assert "NUMA node 1" in found.problem.message


def test_a_quota_means_the_same_work_on_every_node() -> None:
    facts = replace(FACTS, node=NodeFacts(cpu_ratio=1.2))
    assert wanted(pod(qos="LS"), facts, Limits("", 100_000)).quota_us == 83_334
    assert wanted(pod(qos="LS"), facts, Limits("", -1)).quota_us is None
    assert wanted(pod(qos="BE"), facts, Limits("", 100_000)).quota_us is None
    assert wanted(pod(qos="LSR", cpus="1"), facts, Limits("", 100_000)).quota_us == -1
    assert wanted(pod(qos="LS"), replace(facts, node=NodeFacts(cpu_ratio=1.0)), Limits("", 100_000)).quota_us == 100_000


@pytest.mark.parametrize("case", cases("node-qos/cpuset-hook"))
def test_cpuset_hook(case: dict[str, Any]) -> None:
    told, expect = case["given"], case["expect"]

    def pools(listed: Any) -> tuple[Pool, ...]:
        return tuple(Pool(each["socket"], each["node"], cpu_list(each["cpuset"])) for each in listed or ())

    record = told.get("resource_status")
    of = pod(
        qos=told["qos"],
        annotations={} if record is None else {names.ANNOTATION_RESOURCE_STATUS: record},
        parent=told["cgroup_parent"],
    )
    facts = InsideFacts(
        node=NodeFacts(system_pod_cpus=cpu_list(told.get("system_cpuset", ""))),
        checkpoint=Checkpoint(told.get("kubelet_policy", "")),
    )
    found = wanted(of, facts, pools=SharedPools(pools(told["pools"]), pools(told.get("be_pools"))))
    assert (found.problem is not None) is expect.get("error", False)
    if not told.get("be_cpu_manager", False):
        # An empty list says the same to a runtime as none.
        assert (found.cpus or "") == (expect.get("cpuset") or "")
