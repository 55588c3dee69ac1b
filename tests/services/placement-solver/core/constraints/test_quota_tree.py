"""Pods of a tree that has a pool of nodes go to these nodes."""

from __future__ import annotations

from berth.contracts import names
from berth.contracts.kube import Requirement
from berth.placement_solver.core.constraints.quota_tree import REASON
from berth.testing.builders import pod

POOL = [Requirement(key="pool", operator="In", values=["a"])]


def world(solving, nodes=POOL):
    run = solving()
    run.node("in", labels={"pool": "a"})
    run.node("out", labels={"pool": "b"})
    run.quota("team", tree="t", nodes=nodes, namespaces=["of-team"])
    run.complete()
    return run


def nodes_of(solution):
    return {placement.claim.name[1]: placement.claim.node for placement in solution.placements}


def reasons_of(solution):
    return {
        refusal.candidate.name[1]: [(reason.code, reason.message) for reason in refusal.reasons]
        for refusal in solution.refusals
    }


def labelled(name, **fields):
    return pod(name, **fields).label(names.LABEL_QUOTA_NAME, "team")


def test_a_pod_goes_to_its_pool_whether_it_or_its_namespace_says_so(solving):
    run = world(solving)
    for at in range(4):
        run.pod(labelled(f"said-{at}"))
        run.pod(pod(f"of-{at}", namespace="of-team"))
    assert set(nodes_of(run.round()).values()) == {"in"}


def test_a_pod_that_must_be_elsewhere_waits_and_is_told_why(solving):
    run = world(solving)
    run.pod(labelled("waits").only_on("pool", "b"))
    reasons = reasons_of(run.round())["waits"]
    assert any(code == "QuotaTree" and REASON in message for code, message in reasons)


def test_what_quota_says_of_the_pool_wakes_who_waits(solving):
    run = world(solving, [Requirement(key="pool", operator="In", values=["none"])])
    run.pod(labelled("waits"))
    assert {code for code, _ in reasons_of(run.round())["waits"]} == {"QuotaTree"}
    run.quota("team", tree="t", nodes=POOL)
    run.cluster.wake()
    run.cluster.now += 1000
    assert nodes_of(run.round()) == {"waits": "in"}


def test_a_node_that_joins_the_pool_wakes_who_waits(solving):
    run = world(solving, [Requirement(key="pool", operator="In", values=["c"])])
    run.pod(labelled("waits"))
    assert {code for code, _ in reasons_of(run.round())["waits"]} == {"QuotaTree"}
    run.node("out", labels={"pool": "c"})
    run.cluster.wake()
    run.cluster.now += 1000
    assert nodes_of(run.round()) == {"waits": "out"}


def test_others_go_anywhere(solving):
    run = world(solving)
    run.pod(pod("elsewhere").only_on("pool", "b"))
    assert nodes_of(run.round()) == {"elsewhere": "out"}
