"""What only its beginning can give a container, and limits of batch containers that change while they run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.services.node_qos_builders import BEST_EFFORT, FACTS, container, pod

from berth.contracts import names
from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.inside.beginning import AS_ASKED, Beginning, beginning
from berth.node_qos_enforcer.core.inside.board import Board
from berth.node_qos_enforcer.core.inside.cpus import AS_IT_IS, with_batch_limits
from berth.node_qos_enforcer.core.inside.creation import adjustment
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.seen import BEFORE, ContainerSeen, Limits, container_seen, limits_of, pod_seen
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.node_qos_enforcer.core.strategies.node_slo import effective
from berth.nri import Adjustment, Resources
from berth.nri import api_pb2 as api
from berth.vendors.vendor import Edits

LOW, ALL_LOW = names.ANNOTATION_OOM_SCORES, names.ANNOTATION_OOM_SCORE
BATCH = {
    names.ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps(
        {
            "containers": {
                "main": {
                    "requests": {names.BATCH_CPU: "1000"},
                    "limits": {names.BATCH_CPU: "2000", names.BATCH_MEMORY: "1Gi"},
                }
            }
        }
    )
}
CACHES = effective(
    {"resourceQOSStrategy": {"lsrClass": {"resctrlQOS": {"enable": True}}, "beClass": {"resctrlQOS": {"enable": True}}}}
)
GROUPS = frozenset({"LSR", "LS", "BE", "koordlet-uid-web"})


@pytest.mark.parametrize(
    ("annotations", "may_lower", "expected"),
    [
        ({}, None, None),
        ({ALL_LOW: "900"}, False, None),  # what kubelet gives it anyway
        ({ALL_LOW: "1000"}, None, 1000),
        ({ALL_LOW: "1000", LOW: '{"main":950}'}, None, 950),
        ({LOW: '{"other":-900}'}, False, None),
        ({LOW: '{"main":-900}'}, True, -900),
        ({LOW: '{"main":-900}'}, None, None),  # nobody has said yet whether it may
    ],
)
def test_a_container_begins_with_the_score_that_its_pod_asks_for(
    annotations: dict[str, str], may_lower: bool | None, expected: int | None
) -> None:
    of = pod(annotations=annotations)
    one = container_seen(container(of, oom_score=900))
    found, problem = beginning(pod_seen(of), one, FACTS, may_lower=may_lower)
    assert (found.oom_score_adj, problem) == (expected, None)
    assert adjustment(one, Edits(), AS_IT_IS, found).oom_score_adj == expected


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({LOW: '{"main":-900}'}, "pods[work/web].containers[main].oom_score_adj"),
        ({LOW: "{"}, f"pods[work/web].metadata.annotations[{LOW}]"),
        ({ALL_LOW: "NaN"}, f"pods[work/web].metadata.annotations[{ALL_LOW}]"),
    ],
)
def test_a_score_that_it_cannot_have_is_named_and_kubelets_stays(annotations: dict[str, str], field: str) -> None:
    of = pod(annotations=annotations)
    found, problem = beginning(pod_seen(of), container_seen(container(of, oom_score=3)), FACTS, may_lower=False)
    assert found == AS_ASKED
    assert isinstance(problem, Problem)
    assert problem.field == field


def test_where_nobody_says_what_kubelet_gives_nothing_is_said() -> None:
    of = pod(annotations={ALL_LOW: "-1000"})
    assert beginning(pod_seen(of), container_seen(container(of)), FACTS, may_lower=True) == (AS_ASKED, None)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (pod(qos="LSR"), "LSR"),
        (pod(qos="LSE"), "LSR"),
        (pod(qos="LS"), None),  # nobody holds the class
        (pod(), "LSR"),
        (pod(parent=BEST_EFFORT), "BE"),
        (pod(qos="BE", annotations={names.ANNOTATION_RESCTRL: "{}"}), "koordlet-uid-web"),
        (pod("late", qos="BE", annotations={names.ANNOTATION_RESCTRL: "{}"}), "BE"),  # its own is not made yet
        (pod(qos="SYSTEM"), None),
        (pod(qos="LSR", parent="/somewhere/{uid}"), None),
    ],
)
def test_a_container_begins_in_the_part_of_the_caches_that_is_its_own(of: api.PodSandbox, expected: str | None) -> None:
    one = container_seen(container(of))
    facts = replace(FACTS, cache_groups=GROUPS, spec=CACHES)
    found, _ = beginning(pod_seen(of), one, facts, may_lower=None)
    assert found.cache_group == expected
    assert adjustment(one, Edits(), AS_IT_IS, found).resources == Resources(rdt_class=expected)


def test_it_begins_in_no_group_that_is_not_there() -> None:
    of = pod(qos="LSR")
    one = container_seen(container(of))
    for facts in (FACTS, replace(FACTS, spec=CACHES, cache_groups=frozenset({"BE"}))):
        assert beginning(pod_seen(of), one, facts, may_lower=None) == (AS_ASKED, None)
    facts = replace(FACTS, spec=CACHES, cache_groups=GROUPS, gives_back=True)
    assert beginning(pod_seen(of), one, facts, may_lower=None) == (AS_ASKED, None)
    assert adjustment(one, Edits(), AS_IT_IS, Beginning()) == Adjustment()


def running(shares: int = 2, quota_us: int = 0, memory: int = 0, before: str = "") -> tuple[Board, ContainerSeen]:
    of = pod(qos="BE", annotations=BATCH, parent=BEST_EFFORT)
    noted = {BEFORE: before} if before else {}
    one = container_seen(container(of, shares=shares, quota_us=quota_us, memory=memory, annotations=noted))
    found = Board()
    found.hear([(pod_seen(of), True)], [one], more=False)
    return found, one


def changes(found: Board, facts: InsideFacts = FACTS) -> list[Resources]:
    return [each.resources for each in found.updates(facts, found.pools(facts), 0.0)]


def test_a_batch_container_that_began_without_its_limits_is_given_them_by_the_runtime() -> None:
    found, _ = running()
    [update] = found.updates(FACTS, found.pools(FACTS), 0.0)
    assert update.resources == Resources(cpu_quota_us=200_000, cpu_shares=1024)
    found.pushed([update], (), 0.0)
    assert changes(found) == []
    # Another node: the same work takes less time there.
    faster = replace(FACTS, node=NodeFacts(cpu_ratio=1.25))
    assert changes(found, faster) == [Resources(cpu_quota_us=160_000)]
    assert changes(found, replace(FACTS, batch_quota=False)) == [Resources(cpu_quota_us=-1)]


def test_what_kubelet_says_anew_of_a_batch_container_keeps_its_limits() -> None:
    found, one = running(1024, 200_000, 1 << 30)
    asked = api.LinuxResources(cpu=api.LinuxCPU(cpus="0-3", shares=api.OptionalUInt64(value=2)))
    found.resized(one.id, limits_of(asked))
    assert changes(found) == [Resources(cpu_shares=1024)]
    assert limits_of(asked) == Limits("0-3", None, 2)


@pytest.mark.parametrize(
    ("limits", "before", "expected"),
    [
        (
            (1024, 200_000, 1 << 30),
            '{"cpu_shares":2}',
            [Resources(cpus="0-7", cpu_quota_us=-1, cpu_shares=2, memory_limit=-1)],
        ),
        # Kubelet has asked for other limits since: they are its own.
        ((512, 300_000, 1 << 29), '{"cpu_shares":2}', [Resources(cpus="0-7")]),
    ],
)
def test_batch_limits_are_given_back(limits: tuple[int, int, int], before: str, expected: Any) -> None:
    found, _ = running(*limits, before=before)
    assert changes(found, replace(FACTS, gives_back=True)) == expected


def test_what_a_batch_container_begins_with_is_kept_with_it() -> None:
    of = pod(qos="BE", annotations=BATCH, parent=BEST_EFFORT)
    one = container_seen(container(of, shares=2))
    found = adjustment(one, Edits(), with_batch_limits(AS_IT_IS, pod_seen(of), "main", FACTS))
    assert found.resources == Resources(cpu_quota_us=200_000, cpu_shares=1024, memory_limit=1 << 30)
    assert container_seen(container(of, annotations=found.annotations)).before == Limits(cpu_shares=2)
