"""Devices and nodes hold no more than they have, and pods use the devices they were given: I1, I1b, I1c, I1d."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.invariants.worlds import broken, check_of, decision, ledger, meta, node, on_gpu, pod

from berth.contracts import names
from berth.contracts.ledger import Allocation, DeviceGrant
from berth.invariants import NodeHold, World, check

# --- I1 ---------------------------------------------------------------------------------------------------------------


def test_shares_up_to_a_whole_are_fine() -> None:
    assert check_of(pods=[on_gpu("a", 0, 60), on_gpu("b", 0, 40), on_gpu("c", 1, 100)]) == []


def test_one_percent_too_much_is_not() -> None:
    report = check(World.of(pods=[on_gpu("a", 0, 60), on_gpu("b", 0, 41)]))
    assert broken(report) == ["I1"]
    assert "default/a 60, default/b 41" in report.broken[0].evidence[0]


@pytest.mark.parametrize("free", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"node": "n2"}])
def test_what_has_ended_or_is_elsewhere_does_not_count(free: dict[str, str]) -> None:
    assert check_of(pods=[on_gpu("a", 0, 60), on_gpu("b", 0, 41, **free)]) == []


def test_a_decision_holds_like_a_bound_pod_while_it_is_current() -> None:
    grant = DeviceGrant(kind="gpu", minor=0, amounts={names.GPU_CORE: 41})
    held = ledger(decision("b", allocation=Allocation(devices=[grant])))
    waiting = pod("b")
    assert check_of(pods=[on_gpu("a", 0, 60), waiting], ledger=held, is_quiet=False) == ["I1"]
    withdrawn = {**waiting, "metadata": {**waiting["metadata"], "annotations": {names.ANNOTATION_ATTEMPT: "1"}}}
    assert check_of(pods=[on_gpu("a", 0, 60), withdrawn], ledger=held, is_quiet=False) == []


def test_memory_is_bounded_by_the_device() -> None:
    device = {
        "metadata": meta("n1"),
        "spec": {"devices": [{"type": "gpu", "minor": 0, "health": True, "resources": {names.GPU_MEMORY: "16Gi"}}]},
    }

    def taking(name: str, memory: str) -> dict[str, Any]:
        note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"%s"}}]}' % memory  # noqa: UP031
        return pod(name, "n1", {names.GPU_MEMORY: memory}, notes={names.ANNOTATION_DEVICE_ALLOCATED: note})

    assert check_of(pods=[taking("a", "8Gi"), taking("b", "8Gi")], devices=[device]) == []
    assert check_of(pods=[taking("a", "8Gi"), taking("b", "9Gi")], devices=[device]) == ["I1"]


def test_what_others_do_among_themselves_is_theirs() -> None:
    others = {"scheduler": "default-scheduler", "plan": ""}
    assert check_of(pods=[on_gpu("a", 0, 60, **others), on_gpu("b", 0, 60, **others)]) == []
    assert check_of(pods=[on_gpu("a", 0, 60, **others), on_gpu("b", 0, 60)]) == ["I1"]


def pinned(name: str, cpus: str, cpu: str = "2", **more: Any) -> dict[str, Any]:
    """A pod of class LSR with these CPUs of its own."""
    made = pod(name, "n1", {"cpu": cpu}, notes={names.ANNOTATION_RESOURCE_STATUS: f'{{"cpuset":"{cpus}"}}'}, **more)
    made["metadata"]["labels"] = {names.LABEL_QOS: "LSR"}
    return made


def test_a_cpu_is_given_once() -> None:
    assert check_of(pods=[pinned("a", "0-1"), pinned("b", "2-3")]) == []
    report = check(World.of(pods=[pinned("a", "0-1"), pinned("b", "1-2")]))
    assert broken(report) == ["I23"]
    assert report.broken[0].evidence == ("node n1, cpu 1: 2 of 1 count: default/a 1, default/b 1",)
    assert check_of(pods=[pinned("a", "0-99999999"), pinned("b", "0-1")]) == [], "nobody knows which"


def test_cpus_that_a_pod_does_not_ask_for_are_not_its_own() -> None:
    assert check_of(pods=[pinned("a", "0-3"), pinned("b", "2-3")]) == []


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 70)), max_size=6))
def test_devices_are_judged_by_their_sum(shares: list[tuple[int, int]]) -> None:
    pods = [on_gpu(f"p{index}", minor, percent) for index, (minor, percent) in enumerate(shares)]
    sums = [sum(percent for minor, percent in shares if minor == each) for each in (0, 1)]
    assert ("I1" in check_of(pods=pods)) == any(total > 100 for total in sums)


# --- I1b, I1c ---------------------------------------------------------------------------------------------------------


def test_a_node_filled_to_the_brim_is_fine() -> None:
    pods = [pod("a", "n1", {"cpu": "5"}), pod("b", "n1", {"cpu": "3"})]
    assert check_of(pods=pods, nodes=[node(pods="2")]) == []


def test_a_node_beyond_what_it_offers_is_not() -> None:
    pods = [pod("a", "n1", {"cpu": "5"}), pod("b", "n1", {"cpu": "3001m"})]
    assert check_of(pods=pods, nodes=[node()]) == ["I1b"]
    assert check_of(pods=[pod("a", "n1"), pod("b", "n1")], nodes=[node(pods="1")]) == ["I1b"]
    assert check_of(pods=[pod("a", "n1", {"example.org/thing": "1"})], nodes=[node()]) == ["I1b"]


def test_a_node_that_has_gone_is_not_judged() -> None:
    assert check_of(pods=[pod("a", "n1", {"cpu": "5"})]) == []


def test_node_reports_are_summed() -> None:
    two = [NodeHold("n1", "gpu", "0", "u1", 60), NodeHold("n1", "gpu", "0", "u2", 40)]
    assert check_of(holds=two) == []
    assert check_of(holds=[*two, NodeHold("n1", "gpu", "0", "u3", 1)]) == ["I1c"]


def test_without_node_reports_nothing_is_said_of_them() -> None:
    def unjudged(*holds: NodeHold) -> list[str]:
        report = check(World.of(pods=[on_gpu("a", 0, 100)], holds=holds))
        assert not {result.name for result in report.broken if result.not_judged}
        return [result.name for result in report.results if result.not_judged]

    assert unjudged() == ["I1c", "I1d"]
    assert unjudged(NodeHold("n1", "gpu", "0", "uid-a")) == []
    assert unjudged(NodeHold("n1", "gpu", "1", "uid-a"), NodeHold("n1", "gpu", "1", "uid-b")) == []


def test_what_kubelet_has_picked_is_held() -> None:
    counted = pod("c", "n1", {names.NVIDIA_GPU: "1"})
    said = {
        "metadata": meta("n1", annotations={names.ANNOTATION_KUBELET_CARDS: '{"uid-c":[1]}'}),
        "spec": {"devices": []},
    }
    nodes = [node(**{names.NVIDIA_GPU: "2"})]
    assert check_of(nodes=nodes, devices=[said], pods=[counted, on_gpu("a", 0, 100)]) == []
    assert check_of(nodes=nodes, devices=[said], pods=[counted, on_gpu("a", 1, 10)]) == ["I1"]
    assert check_of(nodes=nodes, pods=[counted, on_gpu("a", 1, 10)]) == [], "nobody knows"
    unread = {"metadata": meta("n1", annotations={names.ANNOTATION_KUBELET_CARDS: "{"}), "spec": {"devices": []}}
    assert check_of(nodes=nodes, devices=[unread], pods=[counted, on_gpu("a", 1, 10)]) == []
    assert check_of(nodes=nodes, pods=[counted], holds=[NodeHold("n1", "gpu", "0", "uid-c")]) == [], "kubelet picks"
    assert check_of(nodes=nodes, devices=[said], pods=[counted], holds=[NodeHold("n1", "gpu", "0", "uid-c")]) == ["I1d"]


# --- I1d --------------------------------------------------------------------------------------------------------------


def test_a_device_used_by_a_pod_that_was_given_another() -> None:
    pods = [on_gpu("a", 0, 100)]
    assert check_of(pods=pods, holds=[NodeHold("n1", "gpu", "0", "uid-a")]) == []
    assert check_of(pods=pods, holds=[NodeHold("n1", "gpu", "1", "uid-a")]) == ["I1d"]
    assert check_of(pods=[pod("a", "n1")], holds=[NodeHold("n1", "gpu", "1", "uid-a", 10)]) == ["I1d"]
    foreign = [on_gpu("a", 0, 100, scheduler="default-scheduler", plan="")]
    for others in ([], foreign, [on_gpu("a", 0, 100, phase="Succeeded")], [on_gpu("a", 0, 100, node="n2")]):
        assert check_of(pods=others, holds=[NodeHold("n1", "gpu", "1", "uid-a")]) == []
