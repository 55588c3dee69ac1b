"""Whom what has happened may help: by the constraints that rejected them."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts.base import Reason
from berth.contracts.kube import Affinity, LabelSelector, PodAffinity, PodAffinityTerm, Taint
from berth.contracts.state import Node
from berth.placement_solver.core.happenings import EVENTS_MAX, Happenings
from berth.placement_solver.core.queue import Waiting
from berth.rules.queueing.events import NODE
from berth.testing.builders import PodBuilder, pod

TAINT = Taint(key="k", effect="NoSchedule")


def node(**fields: Any) -> Node:
    return Node(**{"name": "n", "uid": "uid-n", "version": 1, "allocatable": {"cpu": 4_000, "pods": 10}, **fields})


def waiting(*codes: str, builder: PodBuilder | None = None) -> Waiting:
    reasons = tuple(Reason(code=code, message=code) for code in codes)
    made = (builder or pod("p")).requests(cpu=2_000).build(1)
    return Waiting(("default", "p"), made, since=0.0, seen_ms=0, reasons=reasons)


@pytest.fixture
def happenings() -> Happenings:
    return Happenings(lambda namespace: {})


def test_nothing_concerns_nobody(happenings: Happenings) -> None:
    assert not happenings
    assert not happenings.concern(waiting("NodeResourcesFit"))


def test_a_taint_that_went_concerns_those_whom_taints_kept_off(happenings: Happenings) -> None:
    happenings.changed(NODE, node(taints=[TAINT]), node())
    assert happenings.concern(waiting("TaintToleration"))
    assert happenings.concern(waiting("NodeResourcesFit", "TaintToleration"))
    assert not happenings.concern(waiting("NodeResourcesFit"))
    assert not happenings.concern(waiting("TaintToleration", builder=pod("p").tolerates("k")))


def test_a_pod_that_left_concerns_those_who_lack_capacity(happenings: Happenings) -> None:
    happenings.left(pod("gone").on("n").build(1))
    assert happenings.concern(waiting("NodeResourcesFit"))
    assert not happenings.concern(waiting("NodeAffinity"))
    assert not happenings.concern(waiting("NodePorts", builder=pod("p").port(80)))


def test_who_is_rejected_for_another_reason_is_tried_whatever_is_given_back(happenings: Happenings) -> None:
    happenings.came(pod("new").on("n").build(1))
    assert not happenings.concern(waiting("quota"))
    happenings.left(pod("gone").on("n").build(1))
    assert happenings.concern(waiting("quota"))
    assert happenings.concern(waiting())


def test_a_pod_that_kept_another_away_is_gone(happenings: Happenings) -> None:
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "web"}))
    terms = PodAffinity(required_during_scheduling_ignored_during_execution=[term])
    gone = pod("gone").template(affinity=Affinity(pod_anti_affinity=terms)).on("n").build(1)
    happenings.left(gone)
    assert happenings.concern(waiting("InterPodAffinity", builder=pod("p").label("app", "web")))
    assert not happenings.concern(waiting("InterPodAffinity", builder=pod("p").label("app", "db")))
    assert not happenings.concern(waiting("InterPodAffinity", builder=pod("p", "other").label("app", "web")))


def test_a_pod_that_is_not_known_any_more_concerns_everybody_who_listens(happenings: Happenings) -> None:
    happenings.left(None)
    assert happenings.concern(waiting("NodePorts", builder=pod("p").port(80)))
    assert not happenings.concern(waiting("NodeAffinity"))


def test_a_flood_concerns_everybody_who_listens(happenings: Happenings) -> None:
    asked = waiting("NodePorts", builder=pod("p").port(80))
    for number in range(EVENTS_MAX):
        happenings.left(pod(f"gone{number}").on("n").build(1))
    assert not happenings.concern(asked)
    happenings.left(pod("last").on("n").build(1))
    assert happenings.concern(asked)


def test_another_node_under_the_same_name_is_a_new_one(happenings: Happenings) -> None:
    happenings.changed(NODE, node(), node(uid="another"))
    assert happenings.concern(waiting("NodeResourcesFit"))
    assert happenings.concern(waiting("NodeName"))


def test_what_was_looked_at_is_forgotten(happenings: Happenings) -> None:
    happenings.left(None)
    happenings.clear()
    assert not happenings.concern(waiting("NodeResourcesFit"))


# --- in the view ------------------------------------------------------------------------------------------------------


def refused(run: Any, builder: PodBuilder) -> list[str]:
    run.pod(builder)
    run.cluster.wake()
    return [reason.code for refusal in run.round().refusals for reason in refusal.reasons]


def is_woken(run: Any) -> bool:
    run.cluster.wake()
    run.cluster.now += 20.0
    return bool(run.cluster.queue.has_ready(run.cluster.now))


def test_a_larger_node_wakes_and_a_small_one_does_not(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=1_000)
    assert refused(run, pod("p").requests(cpu=2_000)) == ["NodeResourcesFit"]
    assert not is_woken(run)
    run.node("n1", cpu=1_500)
    assert not is_woken(run)
    run.node("n1", cpu=2_000)
    assert is_woken(run)


@pytest.mark.parametrize("ends", ["deleted", "Succeeded"])
def test_a_pod_that_is_gone_wakes(solving: type[Any], ends: str) -> None:
    run = solving()
    old = pod("old").requests(cpu=1_000)
    run.node("n0", cpu=2_000)
    run.pod(old.on("n0"))
    assert refused(run, pod("p").requests(cpu=2_000)) == ["NodeResourcesFit"]
    assert not is_woken(run)
    if ends == "deleted":
        run.delete_pod("old")
    else:
        run.pod(old.on("n0", phase=ends))
    assert is_woken(run)


def test_a_port_wakes_only_for_its_own_number(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=8_000)
    for number in (80, 81):
        run.pod(pod(f"old{number}").port(number).on("n0"))
    assert refused(run, pod("p").port(80)) == ["NodePorts"]
    run.delete_pod("old81")
    assert not is_woken(run)
    run.delete_pod("old80")
    assert is_woken(run)


def test_what_a_withdrawn_decision_held_wakes(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=2_000)
    run.pod(pod("first").requests(cpu=2_000))
    solution = run.round()
    assert run.commit_solution(solution)
    assert refused(run, pod("p").requests(cpu=2_000)) == ["NodeResourcesFit"]
    assert not is_woken(run)
    run.pod(pod("first").requests(cpu=2_000).set(attempt=1).template(gates=["later"]))
    assert is_woken(run)
