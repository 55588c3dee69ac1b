"""Nodes whose kubelet picks the cards: whatever it picks, no card is given twice."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from berth.contracts import names
from berth.placement_solver.core import explain
from berth.placement_solver.core.devices import kubelet_counts
from berth.placement_solver.core.verify.laws.devices import numbers_beyond
from berth.placement_solver.core.ways_out import way_out
from berth.rules.device_cordon import REASON
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


def test_kubelet_may_pick_a_cordoned_card(solving: type[Any]) -> None:
    """So the node takes nobody by number, and goes on giving cards by minor and NICs."""
    run = solving()
    machine(run)
    cordoned = [
        structs.replace(each, healthy=each.minor != 2, reason=REASON * (each.minor == 2)) for each in gpu_slots(4)
    ]
    run.devices("n", [*cordoned, *nic_slots(1)])
    run.pod(pod("a").gpus(1))
    assert kubelet_counts.CORDONED in told(run.round())
    assert way_out(kubelet_counts.CORDONED)
    (problem,) = numbers_beyond(run.cluster.nodes.states[0], run.cluster.nodes.inventory("n"), [], [count_of(1)])
    assert problem == f"{names.NVIDIA_GPU}: kubelet may pick gpu 2, which is cordoned"
    run.delete_pod("a")
    run.pods([pod("share").share(50), pod("nic").requests({names.RDMA: 1})])
    assert set(run.nodes_of(run.round())) == {"share", "nic"}
    run.delete_pod("share")
    run.devices("n", [*gpu_slots(4), *nic_slots(1)])
    run.pod(pod("b").gpus(4))
    assert "b" in run.nodes_of(run.round())


def count_of(cards: int) -> Claim:
    return Claim(("default", "x"), "x", "n", amounts={names.NVIDIA_GPU: cards})


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


def test_a_node_on_which_kubelet_counts_otherwise_is_news(solving: type[Any]) -> None:
    run = solving()
    nodes = run.cluster.nodes
    run.node("n")
    told_of = [
        nodes.see_node("n", structs.replace(nodes.state("n"), allocatable=nodes.state("n").allocatable | more))
        for more in ({}, {names.GPU_CORE: 0}, {names.GPU_CORE: 100}, {names.NVIDIA_GPU: 0}, {names.NVIDIA_GPU: 0})
    ]
    assert told_of == [False, False, True, True, False]


def test_cards_go_by_minor_beside_numbers_once_kubelet_says_which_they_are(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    run.pods([pod("a").gpus(1), pod("theirs").template(scheduler="other").gpus(2).on("n")])
    run.round()
    run.bind(pod("a").gpus(1))
    slots = [*gpu_slots(4), *nic_slots(1)]
    run.devices("n", slots, kubelet_cards={"uid-default-a": [2], "uid-default-theirs": [0]})
    run.pod(pod("early").share(50))
    assert kubelet_counts.BY_NUMBER in told(run.round()), "it has not said all of one"
    run.delete_pod("early")
    run.devices("n", slots, kubelet_cards={"uid-default-a": [2], "uid-default-theirs": [0, 1], "uid-gone": [3]})
    (held,) = run.cluster.book.claims_of(("default", "a"))
    assert (held.unreadable, held.by_kubelet, [each.minor for each in held.grants]) == ((), True, [2])
    run.pod(pod("share").share(50))
    assert run.nodes_of(run.round()) == {"share": "n"}
    decision = run.cluster.book.ledger.decisions["default", "share"].decision
    assert [grant.minor for grant in decision.allocation.devices] == [3]
    run.bind(pod("share").share(50))
    run.pod(pod("b").gpus(1))
    assert kubelet_counts.BY_MINOR in told(run.round()), "kubelet might pick that very card"
    run.delete_pod("b")
    run.devices("n", slots)
    run.pod(pod("late").share(50))
    assert kubelet_counts.BY_NUMBER in told(run.round()), "it says nothing any more"
    for name in ("a", "theirs"):
        run.delete_pod(name)
    run.pod(pod("last").share(50))
    assert "last" in run.nodes_of(run.round())


def test_a_word_about_a_former_pod_says_nothing_of_its_successor(solving: type[Any]) -> None:
    run = solving()
    machine(run)
    run.pod(pod("a").gpus(1).on("n"))
    run.devices("n", gpu_slots(4), kubelet_cards={"uid-default-a": [2]})
    run.delete_pod("a")
    run.pods([pod("a").set(uid="another").gpus(1).on("n"), pod("share").share(50)])
    assert kubelet_counts.BY_NUMBER in told(run.round())


KINDS = st.sampled_from(["one", "two", "share", "whole", "leave", "told", "told", "lost"])


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_kubelet_picks_no_card_is_given_twice(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    gpus = data.draw(st.integers(1, 3))
    listed = data.draw(st.sampled_from([gpus, gpus, 0]))
    machine(run, shown=gpus, gpus=listed)
    picked: dict[str, list[int]] = {}
    chosen: dict[str, list[int]] = {}
    for step, kind in enumerate(data.draw(st.lists(KINDS, min_size=3, max_size=10))):
        there = [*picked, *chosen]
        if kind in ("told", "lost"):
            names_told = data.draw(st.sets(st.sampled_from([*picked]))) if picked and kind == "told" else set()
            word = {f"uid-default-{name}": sorted(picked[name]) for name in names_told}
            run.devices("n", gpu_slots(listed), kubelet_cards=word)
            continue
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


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_verifier_lets_through_what_a_recount_lets_through(solving: type[Any], data: st.DataObject) -> None:
    """Beside pods of which kubelet has said which cards they have, and pods of which it has not."""
    run = solving()
    gpus = data.draw(st.integers(1, 4))
    machine(run, shown=gpus, gpus=gpus)
    order = data.draw(st.permutations(range(gpus)))
    sizes = data.draw(st.lists(st.integers(1, 2), max_size=3))
    picked: dict[str, list[int]] = {}
    for place, size in enumerate(sizes):
        if len(order) < size:
            break
        picked[f"c{place}"], order = order[:size], order[size:]
        run.pod(pod(f"c{place}").gpus(size).on("n"))
    chosen = order[: data.draw(st.integers(0, len(order)))]
    for minor in chosen:
        run.pod(pod(f"s{minor}").share(50).on("n", [gpu_grant(minor, 50)]))
    word = {name: picked[name] for name in picked if data.draw(st.booleans())}
    run.devices("n", gpu_slots(gpus), kubelet_cards={f"uid-default-{name}": minors for name, minors in word.items()})
    by_kubelet = {minor for minors in picked.values() for minor in minors}
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1, 2))
        run.pod(pod("me").gpus(count))
        mine = Claim(("default", "me"), "uid-default-me", "n", {names.NVIDIA_GPU: count}, plan="p")
        may = not chosen and len(by_kubelet) + count <= gpus
    else:
        minor, percent = data.draw(st.integers(0, gpus - 1)), data.draw(st.sampled_from([50, 60]))
        run.pod(pod("me").share(percent))
        amounts = {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent}
        mine = Claim(("default", "me"), "uid-default-me", "n", amounts, (gpu_grant(minor, percent),), plan="p")
        may = word == picked and minor not in by_kubelet and (minor not in chosen or percent == 50)
    assert (run.verifier.check([mine]) == []) == may
