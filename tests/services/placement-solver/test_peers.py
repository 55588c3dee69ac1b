"""Pods that others keep away, look for, or are spread with: through a whole solver, within a batch and a gang as well.

Each round is verified from scratch (`Solving.round`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.kube import Affinity, LabelSelector, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from berth.contracts.state import Reservation
from berth.placement_solver.core.verify import Verifier
from berth.rules.inter_pod_affinity import (
    AFFINITY_REASON,
    ANTI_AFFINITY_REASON,
    EXISTING_ANTI_AFFINITY_REASON,
)
from berth.rules.topology_spread import MISSING_REASON, REASON
from berth.testing.builders import pod
from berth.testing.peer_worlds import NAMESPACES, namespace_labels, nodes_of, pods_of

HOST = "kubernetes.io/hostname"
ZONE = "zone"
WEB = {"app": "web"}


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """Three zones with two nodes each."""
    run = solving()
    for zone in "abc":
        for number in "12":
            run.node(f"{zone}{number}", labels={ZONE: zone, HOST: f"{zone}{number}"})
    return run


def web(name: str, namespace: str = "default") -> Any:
    return pod(name, namespace).label("app", "web").requests(cpu=100)


def reasons(solution: Any) -> dict[str, list[tuple[str, str, int]]]:
    return {
        refusal.candidate.name[1]: [(reason.code, reason.message, reason.nodes) for reason in refusal.reasons]
        for refusal in solution.refusals
    }


def is_woken(run: Any) -> bool:
    """Whether somebody is tried again for what has happened."""
    run.cluster.wake()
    run.cluster.now += 20.0
    return bool(run.cluster.queue.has_ready(run.cluster.now))


def test_anti_affinity_holds_within_one_batch(run: Any) -> None:
    run.pods(web(f"p{number}").apart(HOST, WEB) for number in range(7))
    solution = run.round()
    assert len(set(run.nodes_of(solution).values())) == 6
    assert list(reasons(solution).values()) == [[("InterPodAffinity", ANTI_AFFINITY_REASON, 6)]]


def test_anti_affinity_holds_within_a_gang_which_goes_whole_or_not_at_all(run: Any) -> None:
    run.pods(web(f"p{number}").apart(ZONE, WEB).gang("g", 3) for number in range(3))
    assert {node[0] for node in run.nodes_of(run.round()).values()} == {"a", "b", "c"}
    run.pods(web(f"q{number}").apart(ZONE, {"app": "db"}).label("app", "db").gang("h", 4) for number in range(4))
    solution = run.round()
    assert not solution.placements
    assert ("InterPodAffinity", ANTI_AFFINITY_REASON, 6) in reasons(solution)["q0"]


def test_a_pod_without_terms_is_kept_away_by_one_of_the_same_batch(run: Any) -> None:
    run.pods([web("guard").apart(ZONE, {"app": "noisy"}), pod("noisy").label("app", "noisy").requests(cpu=100)])
    placed = run.nodes_of(run.round())
    assert placed["guard"][0] != placed["noisy"][0]


def test_a_pod_without_terms_is_told_who_keeps_it_away(run: Any) -> None:
    run.pods(web(f"guard-{zone}").apart(ZONE, {"app": "noisy"}).on(f"{zone}1") for zone in "abc")
    run.pod(pod("noisy").label("app", "noisy"))
    assert reasons(run.round())["noisy"] == [("InterPodAffinity", EXISTING_ANTI_AFFINITY_REASON, 6)]
    run.delete_pod("guard-b")
    waiting = run.cluster.queue.waiting["default", "noisy"]
    run.cluster.queue.make_ready(waiting)
    assert run.nodes_of(run.round())["noisy"][0] == "b"


def test_the_first_of_a_group_goes_anywhere_and_the_others_follow(run: Any) -> None:
    run.pods(web(f"p{number}").near(ZONE, WEB) for number in range(5))
    assert len({node[0] for node in run.nodes_of(run.round()).values()}) == 1


def test_affinity_without_anybody_to_follow_is_refused(run: Any) -> None:
    run.cluster.wake()
    run.pod(web("p").near(ZONE, {"app": "db"}))
    assert reasons(run.round())["p"] == [("InterPodAffinity", AFFINITY_REASON, 6)]
    run.pod(pod("other").on("b2"))
    assert not is_woken(run)
    run.pod(pod("db").label("app", "db").on("b2"))
    assert is_woken(run)
    assert run.nodes_of(run.round())["p"][0] == "b"


def test_a_gang_whose_members_follow_each_other(run: Any) -> None:
    """One member is the first of its kind, the other looks for it."""
    run.pods(
        [
            web("a-leader").gang("g", 3),
            pod("b-worker").near(ZONE, WEB).gang("g", 3),
            pod("c-worker").near(ZONE, WEB).gang("g", 3),
        ]
    )
    placed = run.nodes_of(run.round())
    assert len(placed) == 3
    assert len({node[0] for node in placed.values()}) == 1


def test_spread_holds_within_a_batch(run: Any) -> None:
    run.pods(web(f"p{number}").spread(ZONE, WEB) for number in range(7))
    zones = Counter(node[0] for node in run.nodes_of(run.round()).values())
    assert sorted(zones.values()) == [2, 2, 3]


def test_spread_beside_what_is_there_and_what_is_ending(run: Any) -> None:
    run.pods(web(f"there-{number}").on("a1") for number in range(2))
    run.pods(web(f"ending-{number}").on("b1").set(deleting=True) for number in range(2))
    run.pods(web(f"p{number}").spread(ZONE, WEB) for number in range(2))
    assert {node[0] for node in run.nodes_of(run.round()).values()} == {"b", "c"}


def test_spread_that_is_out_of_reach_says_why(run: Any) -> None:
    run.node("bare")
    run.pods(
        web(f"q{number}").spread(ZONE, WEB, node_affinity_policy="Ignore").only_on(ZONE, "a") for number in range(2)
    )
    solution = run.round()
    (refused,) = reasons(solution).values()
    assert ("PodTopologySpread", REASON, 2) in refused
    run.pod(web("r").spread("rack", WEB))
    assert reasons(run.round())["r"] == [("PodTopologySpread", MISSING_REASON, 7)]


def test_namespaces_are_chosen_by_their_labels(run: Any) -> None:
    run.namespace("red", team="a")
    run.namespace("blue", team="b")
    team_a = LabelSelector(match_labels={"team": "a"})
    run.pods([web("red-web", "red").on("a1"), web("blue-web", "blue").on("b1")])
    run.pod(pod("p").near(ZONE, WEB, namespace_selector=team_a))
    assert run.nodes_of(run.round())["p"][0] == "a"
    run.namespace("red", team="b")
    run.namespace("blue", team="a")
    run.pod(pod("q").near(ZONE, WEB, namespace_selector=team_a))
    assert run.nodes_of(run.round())["q"][0] == "b"


def test_a_bound_pod_that_is_relabelled_is_another_peer(run: Any) -> None:
    there = web("there").on("a1")
    run.pod(there)
    run.pod(pod("p").near(ZONE, {"app": "db"}))
    assert reasons(run.round())["p"] == [("InterPodAffinity", AFFINITY_REASON, 6)]
    run.cluster.happenings.clear()
    run.pod(there.label("app", "db"))
    assert is_woken(run)
    assert run.nodes_of(run.round())["p"][0] == "a"


def test_pods_that_are_ending_still_count_for_affinity(run: Any) -> None:
    run.pods(web(f"w-{zone}").on(f"{zone}1").set(deleting=True) for zone in "ab")
    run.pod(pod("p").apart(ZONE, WEB))
    assert run.nodes_of(run.round())["p"][0] == "c"


def test_what_cannot_be_used_is_refused_by_field(run: Any) -> None:
    run.pod(web("p").spread(ZONE, WEB, max_skew=0))
    run.pod(web("q").apart("", WEB))
    found = reasons(run.round())
    assert found["p"][0][1].startswith("spec.topologySpreadConstraints[0].maxSkew: ")
    path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
    assert found["q"][0][1].startswith(path)


def test_a_decision_stays_a_peer_until_its_pod_is_gone(run: Any) -> None:
    builders = [web(f"p{number}").apart(ZONE, WEB) for number in range(3)]
    run.pods(builders)
    run.round()
    for builder in builders[:2]:
        run.bind(builder)
    run.pod(web("late").apart(ZONE, WEB))
    assert not run.round().placements
    run.delete_pod("p2")
    run.cluster.queue.make_ready(run.cluster.queue.waiting["default", "late"])
    assert len(run.round().placements) == 1


def test_when_state_starts_over_decisions_go_on_being_peers(run: Any) -> None:
    run.pod(web("first").apart(ZONE, WEB))
    first = run.nodes_of(run.round())["first"]
    run.cluster.reset_state()
    for zone in "abc":
        run.node(f"{zone}1", labels={ZONE: zone})
    run.pod(web("first").apart(ZONE, WEB))
    run.complete()
    run.pod(web("second").apart(ZONE, WEB))
    assert run.nodes_of(run.round())["second"][0] != first[0]


def test_plans_share_accounts_where_terms_reach(run: Any) -> None:
    anywhere = LabelSelector()
    run.pods(
        [
            web("owner", "red").apart(HOST, WEB),
            web("matcher", "red"),
            web("far", "green"),
            web("wide", "blue").apart(HOST, WEB, namespace_selector=anywhere),
            web("even", "green").spread(ZONE, WEB),
            pod("none", "green"),
        ]
    )
    decisions, _ = run.decide(run.solve()[0])
    accounts = {each.name: {a for a in each.accounts if a.startswith("peers.")} for each in decisions}
    wide = subjects.peers_account()
    assert accounts == {
        "owner": {subjects.peers_account("red"), wide},
        "matcher": {subjects.peers_account("red"), wide},
        "far": {wide},
        "wide": {wide},
        "even": {subjects.peers_account("green"), wide},
        "none": set(),
    }
    assert subjects.parts(wide) == ("peers", "")


def test_a_reservation_keeps_to_the_terms_of_its_template_but_is_nobodys_peer(run: Any) -> None:
    run.pod(web("there").label("rev", "1").on("a1"))
    run.pod(web("other").label("rev", "2").on("b1"))
    term = PodAffinityTerm(topology_key=ZONE, label_selector=LabelSelector(match_labels=WEB), match_label_keys=["rev"])
    template = web("r").label("rev", "2").apart(ZONE, WEB).build(0).template
    affinity = template.affinity
    assert affinity is not None
    away = msgspec.structs.replace(
        affinity.pod_anti_affinity, required_during_scheduling_ignored_during_execution=[term]
    )
    template = msgspec.structs.replace(template, affinity=msgspec.structs.replace(affinity, pod_anti_affinity=away))
    run.reservation(Reservation(name="r", uid="uid-r", version=0, template=template))
    where = run.nodes_of(run.round())["r"]
    assert where[0] in "ac"  # the API server merges label keys into the terms of pods; here nobody has
    run.pod(web("p").apart(ZONE, {"rev": "2"}))
    assert run.nodes_of(run.round())["p"][0] in "ac"


def test_what_pods_prefer_decides_among_nodes_that_fit(run: Any) -> None:
    run.pod(web("there").on("b1"))
    run.pod(pod("soft").label("app", "web").spread(ZONE, WEB, when_unsatisfiable="ScheduleAnyway"))
    away = PodAffinity(
        preferred_during_scheduling_ignored_during_execution=[
            WeightedPodAffinityTerm(
                weight=100,
                pod_affinity_term=PodAffinityTerm(topology_key=ZONE, label_selector=LabelSelector(match_labels=WEB)),
            )
        ]
    )
    first = run.nodes_of(run.round())["soft"][0]
    assert first != "b"
    run.pod(pod("shy").template(affinity=Affinity(pod_anti_affinity=away)))
    assert run.nodes_of(run.round())["shy"][0] not in {"b", first}
    run.pod(pod("fond").template(affinity=Affinity(pod_affinity=away)).only_on(ZONE, "b", "c"))
    assert run.nodes_of(run.round())["fond"][0] == "b"


def test_soft_spread_holds_within_a_batch(run: Any) -> None:
    run.pods(web(f"p{number}").spread(HOST, WEB, when_unsatisfiable="ScheduleAnyway") for number in range(6))
    assert len(set(run.nodes_of(run.round()).values())) == 6


def test_what_is_kept_for_a_plan_that_may_yet_be_made_is_nobodys_peer(run: Any) -> None:
    run.pod(web("kept"))
    solution, trial = run.solve()
    trial.undo()
    run.cluster.capacity.hold([each.claim for each in solution.placements])
    run.pod(pod("follower").near(ZONE, WEB))
    assert reasons(run.round())["follower"] == [("InterPodAffinity", AFFINITY_REASON, 6)]
    run.cluster.capacity.release_held()
    run.cluster.queue.make_ready(run.cluster.queue.waiting["default", "follower"])
    run.pod(web("there").on("b1"))
    assert run.nodes_of(run.round())["follower"][0] == "b"


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_placed_together_the_verifier_agrees(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    nodes = tuple(f"n{number}" for number in range(data.draw(st.integers(1, 4))))
    for name in nodes:
        node = data.draw(nodes_of(name))
        run.node(name, labels=node.labels, taints=node.taints)
    for name in NAMESPACES:
        run.namespace(name, **data.draw(namespace_labels))
    for number in range(data.draw(st.integers(0, 3))):
        there = data.draw(pods_of(f"there{number}", nodes))
        run.state(subjects.pod_key(there.namespace, there.name), msgspec.structs.replace(there, phase="Running"))
    for _ in range(2):
        for number in range(data.draw(st.integers(1, 5))):
            waits = data.draw(pods_of(f"p{run.version}-{number}"))
            template = msgspec.structs.replace(waits.template, scheduler="berth-scheduler")
            run.state(
                subjects.pod_key(waits.namespace, waits.name),
                msgspec.structs.replace(waits, template=template, deleting=False, phase="Pending"),
            )
        solution, trial = run.solve()
        assert run.verifier.check([placement.claim for placement in solution.placements]) == []
        trial.undo()
        if solution.placements:
            assert run.commit_solution(solution)
    assert Verifier(run.cluster).check([]) == []


def test_the_verifier_sees_what_the_solver_would_not_do(run: Any) -> None:
    run.pods([web("guard").apart(ZONE, {"app": "noisy"}).on("a1"), web("there").on("b1")])
    run.pods(
        [
            pod("noisy").label("app", "noisy"),
            pod("shy").apart(ZONE, WEB),
            pod("lonely").near(ZONE, {"app": "db"}),
            web("even").spread(ZONE, WEB),
        ]
    )
    solution, trial = run.solve()
    trial.undo()
    (noisy,) = [each.claim for each in solution.placements if each.claim.name[1] == "noisy"]
    for name, amounts, node, reason in (
        ("noisy", {}, "a2", EXISTING_ANTI_AFFINITY_REASON),
        ("shy", {}, "b2", ANTI_AFFINITY_REASON),
        ("even", {"cpu": 100}, "b2", REASON),
        ("lonely", {}, "c1", AFFINITY_REASON),
    ):
        claim = noisy._replace(name=("default", name), uid=f"uid-default-{name}", node=node, amounts=amounts)
        assert run.verifier.check([claim]) == [f"default/{name}: node {node}: {reason}"]


def test_the_verifier_judges_a_plan_in_its_order(run: Any) -> None:
    """The leader makes the company of those that follow it."""
    run.pods([web("leader"), pod("will-follow").near(ZONE, WEB).requests(cpu=100)])
    solution, trial = run.solve()
    trial.undo()
    leader, follower = (each.claim for each in solution.placements)
    assert run.verifier.check([leader, follower]) == []
    reason = f"default/will-follow: node {follower.node}: {AFFINITY_REASON}"
    assert run.verifier.check([follower, leader]) == [reason]
