"""What runs on the node, and which limits have to be put right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.node_qos_builders import BEST_EFFORT, FACTS, container, pod
from tests.services.worlds.enforcer.inside import cpu_list, wanted

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.inside.board import RETRY_S, Board
from berth.node_qos_enforcer.core.inside.cpus import Wanted
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.findings import FINDINGS_MAX, Findings, Key
from berth.node_qos_enforcer.core.inside.seen import BEFORE, Limits, container_seen, pod_seen
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.nri import api_pb2 as api
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.kubelet import Checkpoint, HeldCpus
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.testing.vectors import cases


def board(*told: tuple[api.PodSandbox, list[api.Container]]) -> Board:
    found = Board()
    pods = [(pod_seen(each), each.pid > 0) for each, _ in told]
    found.hear(pods, [container_seen(one) for _, listed in told for one in listed], more=False)
    return found


def updates(of: Board, facts: InsideFacts = FACTS, now_s: float = 0.0) -> dict[str, tuple[str | None, int | None]]:
    listed = of.updates(facts, of.pools(facts), now_s)
    return {each.container_id: (each.resources.cpus, each.resources.cpu_quota_us) for each in listed}


def test_cores_of_what_runs_already_are_put_right() -> None:
    own, other = pod("own", qos="LSR", cpus="2-3"), pod("other")
    found = board((own, [container(own, quota_us=200_000)]), (other, [container(other)]))
    assert updates(found) == {"own-main": ("2-3", -1), "other-main": ("0-1,4-7", None)}
    listed = found.updates(FACTS, found.pools(FACTS), 0.0)
    assert found.pushed(listed, (), 0.0) == []
    assert updates(found) == {}


def test_others_leave_the_cpus_of_a_pod_before_its_first_container() -> None:
    other = pod("other")
    found = board((other, [container(other, cpus="0-7")]))
    assert updates(found) == {}
    found.begin(pod_seen(pod("own", qos="LSR", cpus="2-3")))
    assert updates(found) == {"other-main": ("0-1,4-7", None)}
    found.end("sandbox-own")
    assert updates(found) == {}, "it was not moved yet"


def test_a_container_that_is_being_created_is_updated_when_it_runs() -> None:
    other = pod("other")
    found = board((other, []))
    asked = container_seen(container(other, state=api.CONTAINER_CREATED))
    found.create(asked, wanted(other))
    found.begin(pod_seen(pod("own", qos="LSR", cpus="2-3")))
    assert updates(found) == {}
    found.start("other-main")
    assert updates(found) == {"other-main": ("0-1,4-7", None)}


def test_a_refused_update_is_tried_again_later() -> None:
    own = pod("own", qos="LSR", cpus="2-3")
    found = board((own, [container(own)]))
    listed = found.updates(FACTS, found.pools(FACTS), 0.0)
    assert found.pushed(listed, ["own-main"], 0.0) == [("sandbox-own", "main")]
    assert updates(found, now_s=RETRY_S - 1) == {}
    assert updates(found, now_s=RETRY_S + 1) == {"own-main": ("2-3", None)}


def test_a_state_in_parts_counts_once_it_is_whole() -> None:
    own, other = pod("own", qos="LSR", cpus="2-3"), pod("other")
    found = board()
    assert found.hear([(pod_seen(own), True)], [], more=True) is None
    assert found.hear([], [container_seen(container(other))], more=True) is None
    assert not found.pods
    whole = found.hear([(pod_seen(other), True)], [], more=False)
    assert whole is not None
    assert [each.id for each in whole] == ["other-main"]
    assert set(found.pods) == {"sandbox-own", "sandbox-other"}


def test_a_connection_that_broke_amid_the_state_leaves_nothing_of_it() -> None:
    own, other = pod("own"), pod("other")
    found = board((own, []))
    found.hear([(pod_seen(other), True)], [], more=True)
    found.disconnected()
    assert set(found.pods) == {"sandbox-own"}
    found.hear([(pod_seen(own), True)], [], more=False)
    assert set(found.pods) == {"sandbox-own"}


def test_a_pod_that_has_ended_holds_nothing() -> None:
    ended, other = pod("ended", qos="LSR", cpus="2-3", pid=0), pod("other")
    assert updates(board((ended, []), (other, [container(other)]))) == {"other-main": ("0-3,4-7", None)}
    alone = board((ended, []))
    assert set(alone.pods) == {"sandbox-ended"}, "a runtime that tells no pids"
    over = board((ended, [container(ended, state=api.CONTAINER_STOPPED)]), (other, []))
    assert set(over.pods) == {"sandbox-other"}


def test_kubelets_word_is_the_base_of_a_quota() -> None:
    facts = replace(FACTS, node=NodeFacts(cpu_ratio=2.0))
    of = pod(qos="LS")
    found = board((of, []))
    found.create(container_seen(container(of, quota_us=100_000)), wanted(of, facts, Limits("", 100_000)))
    found.start("web-main")
    assert updates(found, facts) == {}
    assert updates(found, FACTS) == {"web-main": (None, 100_000)}
    assert updates(found, replace(FACTS, node=NodeFacts(cpu_ratio=1.0))) == {"web-main": (None, 100_000)}
    assert found.resized("web-main", Limits("", 300_000)) == Limits("", 300_000)
    assert updates(found, facts) == {"web-main": (None, 150_000)}


def test_a_quota_that_nobody_knows_the_base_of_is_not_scaled() -> None:
    facts = replace(FACTS, node=NodeFacts(cpu_ratio=2.0))
    of = pod(qos="LS")
    assert updates(board((of, [container(of, cpus="0-7", quota_us=100_000)])), facts) == {}
    noted = {BEFORE: '{"cpus":"","quota_us":100000}'}
    known = container(of, cpus="0-7", quota_us=100_000, annotations=noted)
    assert updates(board((of, [known])), facts) == {"web-main": (None, 50_000)}
    resized = container(of, cpus="0-7", quota_us=70_000, annotations=noted)
    assert updates(board((of, [resized])), facts) == {}


def test_everything_is_given_back() -> None:
    facts = replace(FACTS, gives_back=True)
    own, other, static = pod("own", qos="LSR", cpus="2-3"), pod("other"), pod("be", parent=BEST_EFFORT)
    noted = {BEFORE: '{"cpus":"","quota_us":200000}'}
    found = board(
        (own, [container(own, cpus="2-3", quota_us=-1, annotations=noted)]),
        (other, [container(other, cpus="0-1,4-7")]),
        (static, [container(static, cpus="1")]),
    )
    assert updates(found, facts) == {"own-main": ("0-7", 200_000), "other-main": ("0-7", None)}
    assert wanted(own, facts) == Wanted()


def test_not_even_best_effort_has_what_is_exclusive() -> None:
    lse, lsr = pod("lse", qos="LSE", cpus="1"), pod("lsr", qos="LSR", cpus="2")
    found = board((lse, []), (lsr, []), (pod("k"), []))
    facts = replace(FACTS, checkpoint=Checkpoint("static", {"uid-k": {"main": frozenset({7})}}))
    assert found.exclusive(facts) == {1, 7}
    assert found.exclusive(FACTS) == {1}
    held = replace(FACTS, held=(HeldCpus("work", "k", frozenset({6})), HeldCpus("work", "lsr", frozenset({0}))))
    assert found.exclusive(held) == {1, 6}, "CPUs of a record are not kubelet's"
    assert {cpu for each in found.pools(held).shared for cpu in each.cpus} == {0, 3, 4, 5, 7}
    assert replace(FACTS, gives_cpus=True).kubelet_is_static


def test_two_pods_with_one_cpu_are_told() -> None:
    one, two = pod("one", qos="LSR", cpus="2-3"), pod("two", qos="LSR", cpus="3-4")
    found = board((one, []), (two, [])).shared_twice()
    assert set(found) == {"sandbox-two"}
    assert "CPUs 3 are those of work/one as well" in found["sandbox-two"].message


@pytest.mark.parametrize("case", cases("node-qos/cpu-share-pools"))
def test_cpu_share_pools(case: dict[str, Any]) -> None:
    told, expect = case["given"], case["expect"]
    pods = []
    for each in told["pods"]:
        of = pod(each["uid"], qos=each["qos"], cpus=each["cpuset"])
        of.uid = each["uid"]
        pods.append((of, []))
    system = cpu_list((told.get("system_qos") or {}).get("cpuset", ""))
    is_exclusive = (told.get("system_qos") or {}).get("cpusetExclusive") is not False
    entries = {
        uid: {name: cpu_list(text) for name, text in containers.items()}
        for uid, containers in told.get("kubelet_entries", {}).items()
    }
    facts = InsideFacts(
        layout=CpuLayout(Cpu(*row) for row in told["processors"]),
        node=NodeFacts(
            reserved_cpus=cpu_list(told.get("reserved_cpus", "")), system_cpus=system if is_exclusive else frozenset()
        ),
        checkpoint=Checkpoint(told.get("kubelet_policy", ""), entries),
    )
    found = board(*pods).pools(facts)
    for pools, expected in ((found.shared, expect["pools"]), (found.best_effort, expect["be_pools"])):
        assert [
            {"socket": each.socket, "node": each.zone, "cpuset": format_cpuset(each.cpus)} for each in pools
        ] == expected


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["begin", "end"])), max_size=30))
def test_who_has_no_cpus_of_its_own_never_has_those_of_another(steps: list[tuple[int, str]]) -> None:
    other = pod("other")
    found = board((other, [container(other, cpus="0-7")]))
    held: set[int] = set()
    for number, what in steps:
        if what == "begin":
            found.begin(pod_seen(pod(f"own{number}", qos="LSR", cpus=str(number))))
            held.add(number)
        else:
            found.end(f"sandbox-own{number}")
            held.discard(number)
        listed = found.updates(FACTS, found.pools(FACTS), 0.0)
        found.pushed(listed, (), 0.0)
        assert updates(found) == {}
        expected = wanted(other, pools=found.pools(FACTS)).cpus or ""
        assert cpu_list(expected) == frozenset(range(8)) - held


def test_findings_are_bounded_and_go_with_their_pod() -> None:
    found = Findings()
    problem = Problem(field="f", message="m")
    assert found.note(Key("cpus", "p", "c"), problem)
    assert not found.note(Key("cpus", "p", "c"), problem), "it is not new"
    found.forget(lambda key: key.pod == "p")
    assert found.problems() == ()
    for number in range(FINDINGS_MAX + 10):
        found.note(Key("cpus", str(number)), Problem(field=str(number), message="m"))
    assert len(found.problems()) == FINDINGS_MAX
