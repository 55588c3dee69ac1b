"""Nodes whose kubelet picks the cards: whatever it picks, no card is given twice."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from berth.contracts import names
from berth.placement_solver.core import explain
from berth.placement_solver.core.devices import kubelet_counts
from berth.placement_solver.core.ways_out import way_out
from berth.rules.devices.kubelet_counts import DIVIDED, NUMBER
from berth.testing.builders import PodBuilder, gpu_grant, gpu_slots, nic_slots, pod
from berth.transaction.claims import Claim, of_decision


def machine(run: Any, shown: int | None = 4, gpus: int = 4, name: str = "n") -> None:
    run.node(name, extended={} if shown is None else {names.NVIDIA_GPU: shown})
    if gpus:
        run.devices(name, [*gpu_slots(gpus), *nic_slots(1)])


def told(solution: Any) -> str:
    (refusal,) = solution.refusals
    return explain.message(refusal.reasons, 1)


def test_a_count_is_a_number_until_the_pod_is_gone(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    run.pod(pod("a").gpus(3))
    solution = run.round()
    assert run.nodes_of(solution) == {"a": "n"}
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    assert not decision.allocation.devices
    assert names.ANNOTATION_DEVICE_ALLOCATED not in {k for k, v in decision.annotations.items() if v not in ("", "{}")}
    claim = of_decision(decision)
    assert claim.unreadable == (NUMBER,)
    run.bind(pod("a").gpus(3))
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(claim)
    run.pod(pod("share").share(50))
    assert kubelet_counts.BY_NUMBER in told(run.round())
    run.delete_pod("share")
    run.pod(pod("two").gpus(2))
    assert f"Insufficient {names.NVIDIA_GPU}" in told(run.round())
    run.delete_pod("two")
    run.pods([pod("one").gpus(1), pod("nic").requests({names.RDMA: 1})])
    assert run.nodes_of(run.round()) == {"one": "n", "nic": "n"}, "NICs go by minor as ever"


def test_no_count_beside_cards_that_kubelet_does_not_know_to_be_held(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    run.pod(pod("share").share(50).on("n", [gpu_grant(0, 50)]))
    run.pod(pod("a").gpus(1))
    assert kubelet_counts.BY_MINOR in told(run.round())
    run.delete_pod("share")
    run.pod(pod("b").gpus(1))
    assert "b" in run.nodes_of(run.round())


def test_pods_of_others_count_alike(solving: type[Any]) -> None:
    run = solving()
    machine(run, shown=2)
    run.pod(pod("theirs").template(scheduler="other").gpus(1).on("n"))
    run.pods([pod("a").gpus(1), pod("b").gpus(1), pod("share").share(10)])
    solution = run.round()
    assert len(run.nodes_of(solution)) == 1
    assert "share" not in run.nodes_of(solution)


def test_no_device_is_needed_for_a_count_and_one_is_for_other_names(solving: type[Any]) -> None:
    run = solving()
    machine(run, shown=1, gpus=0)
    run.pod(pod("share").share(50))
    assert "Insufficient gpu devices" in told(run.round())
    run.delete_pod("share")
    run.pod(pod("a").gpus(1))
    assert run.nodes_of(run.round()) == {"a": "n"}


def test_parts_of_a_card_that_mig_divides_are_counted_by_kubelet_alone(solving: type[Any]) -> None:
    run = solving()
    machine(run, shown=3, gpus=1)
    run.pods([pod("a").gpus(1), pod("b").gpus(1)])
    assert len(run.nodes_of(run.round())) == 1, "there is one card"
    run.devices("n", [structs.replace(each, healthy=False, reason=DIVIDED) for each in gpu_slots(1)])
    run.pods([pod("c").gpus(2), pod("d").gpus(1), pod("share").share(10)])
    assert set(run.nodes_of(run.round())) == {"c"}


def test_a_node_that_shows_an_asked_name_at_0_takes_no_such_pod(solving: type[Any]) -> None:
    run = solving()
    machine(run, shown=0)
    run.pod(pod("a").gpus(1))
    text = told(run.round())
    assert kubelet_counts.AT_ZERO in text
    assert way_out(kubelet_counts.AT_ZERO)
    machine(run, shown=1)
    run.pod(pod("b").gpus(1))
    assert "b" in run.nodes_of(run.round())


KINDS = st.sampled_from(["one", "two", "share", "whole", "leave"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_kubelet_picks_no_card_is_given_twice(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    gpus = data.draw(st.integers(1, 3))
    machine(run, shown=gpus, gpus=data.draw(st.sampled_from([gpus, gpus, 0])))
    picked: dict[str, list[int]] = {}
    chosen: dict[str, list[int]] = {}
    for step, kind in enumerate(data.draw(st.lists(KINDS, min_size=3, max_size=8))):
        there = [*picked, *chosen]
        if kind == "leave":
            if there:
                name = data.draw(st.sampled_from(there))
                picked.pop(name, None)
                chosen.pop(name, None)
                run.delete_pod(name)
            continue
        name = f"p{step}"
        made = _made(name, kind)
        run.pod(made)
        if name not in run.nodes_of(run.round()):
            run.delete_pod(name)
            continue
        decision = run.cluster.book.ledger.decisions["default", name].decision
        minors = [grant.minor for grant in decision.allocation.devices]
        run.bind(_made(name, kind))
        by_kubelet = {minor for minors in picked.values() for minor in minors}
        by_minor = {minor for minors in chosen.values() for minor in minors}
        if kind in ("one", "two"):
            assert not minors
            free = [minor for minor in range(gpus) if minor not in by_kubelet]
            count = 1 if kind == "one" else 2
            picked[name] = data.draw(st.permutations(free))[:count]
            assert len(picked[name]) == count, "kubelet has as many"
            assert not by_minor & {*picked[name]}, "it takes what it thinks to be free"
        else:
            assert minors
            chosen[name] = minors
            assert not by_kubelet & {*minors}


def _made(name: str, kind: str) -> PodBuilder:
    made = pod(name)
    if kind in ("one", "two"):
        return made.gpus(1 if kind == "one" else 2)
    return made.share(60) if kind == "share" else made.requests({names.KOORD_GPU: 100})


def test_the_verifier_sees_it_by_itself(solving: type[Any]) -> None:
    run = solving()
    machine(run, shown=2, gpus=2)
    run.pods([pod("noted").gpus(1).on("n", [gpu_grant(0)]), pod("waiting").gpus(1)])
    machine(run, shown=2, gpus=2, name="idle")
    run.node("plain")
    run.devices("plain", gpu_slots(2))

    def claim(name: str, node: str, grants: tuple[Any, ...] = (), **amounts: int) -> Claim:
        names_of = {"cards": names.NVIDIA_GPU, "core": names.GPU_CORE, "ratio": names.GPU_MEMORY_RATIO}
        run.pod(pod(name).requests({names_of[key]: amount for key, amount in amounts.items()}))
        asked = {names_of[key]: amount for key, amount in amounts.items()}
        return Claim(("default", name), f"uid-default-{name}", node, asked, grants, plan="p")

    share = (gpu_grant(1, 50),)
    one, two, three = (claim(f"c{count}", "idle", cards=count) for count in (1, 2, 3))
    assert run.verifier.check([one]) == []
    assert run.verifier.check([one, claim("c4", "idle", cards=1)]) == []
    for wrong in (
        [three],
        [one, two],
        [one, claim("s1", "idle", share, core=50, ratio=50)],
        [claim("s2", "n", share, core=50, ratio=50)],
        [claim("c5", "idle", (gpu_grant(1),), cards=1)],
        [claim("c6", "plain", cards=1)],
    ):
        assert run.verifier.check(wrong) != [], wrong
    run.devices("idle", gpu_slots(2, unhealthy=(1,)))
    assert run.verifier.check([two]) != [], "one of them is ill"
