"""Which node is taken: by scores as kube-scheduler sums them, or by the cost less what the pod prefers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.kube import Affinity, NodeAffinity, NodeSelectorTerm, PreferredTerm, Requirement, Taint
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.ranking import Rated, best, preferred, total
from berth.placement_solver.core.rated_rows import Rating, follow
from berth.testing.builders import GI, PodBuilder, pod

BY_SCORE = {"name": "Berth", "args": {"decides": "kube-scheduler"}}
SOFT = Taint(key="old", effect="PreferNoSchedule")


def likes(builder: PodBuilder, *zones: str, weight: int = 10) -> PodBuilder:
    terms = [
        PreferredTerm(
            weight=weight,
            preference=NodeSelectorTerm(match_expressions=[Requirement(key="zone", operator="In", values=[zone])]),
        )
        for zone in zones
    ]
    affinity = NodeAffinity(preferred_during_scheduling_ignored_during_execution=terms)
    return builder.template(affinity=Affinity(node_affinity=affinity))


# --- the arithmetic --------------------------------------------------------------------------------------------------


class Plain:
    """A score without a normalisation of its own."""

    name = "Plain"

    def normalise(self, query: object, raw: Any, rows: Any) -> Any:
        return raw


scores = st.lists(st.integers(0, 100), min_size=4, max_size=4)
costs = st.lists(st.integers(0, 3).map(float), min_size=4, max_size=4)


@given(st.lists(st.tuples(scores, st.integers(1, 5)), max_size=3), costs)
def test_the_best_has_the_highest_sum_then_the_least_cost_then_is_the_first(
    rated: list[tuple[list[int], int]], cost: list[float]
) -> None:
    rows = np.arange(4)
    given_ = [Rated(Plain(), weight, None, np.array(raw, float)) for raw, weight in rated]  # type: ignore[arg-type]
    sums = [sum(weight * raw[at] for raw, weight in rated) for at in range(4)]
    assert total(given_, rows).tolist() == sums
    assert best(given_, rows, np.array(cost)) == min(range(4), key=lambda at: (-sums[at], cost[at], at))


@given(costs, st.integers(0, 100))
def test_who_likes_all_nodes_alike_pays_the_same_cost(cost: list[float], score: int) -> None:
    rated = Rated(Plain(), 3, None, np.full(4, float(score)))  # type: ignore[arg-type]
    assert preferred([rated], np.arange(4), np.array(cost) / 3, 0.5).tolist() == (np.array(cost) / 3).tolist()


# --- a whole pick ----------------------------------------------------------------------------------------------------


def taken(run: Any, builder: PodBuilder) -> str:
    run.pod(builder)
    nodes: dict[str, str] = run.nodes_of(run.round())
    return nodes[builder.build(0).name]


def test_scores_decide_where_the_profile_says_so(run: Any) -> None:
    """The cost of Berth prefers the emptier node, MostAllocated the fuller."""
    run.node("empty", cpu=4000, memory=8 * GI)
    run.node("full", cpu=4000, memory=8 * GI)
    run.pod(pod("there").requests(cpu=2000, memory=4 * GI).on("full"))
    most = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    assert taken(run, pod("a").requests(cpu=500, memory=GI)) == "empty"
    run.delete_pod("a")
    assert run.configure(pluginConfig=[most])
    assert taken(run, pod("b").requests(cpu=500, memory=GI)) == "empty"
    run.delete_pod("b")
    assert run.configure(pluginConfig=[most, BY_SCORE])
    assert taken(run, pod("c").requests(cpu=500, memory=GI)) == "full"


def test_pods_of_one_batch_count_for_the_scores_of_the_next(run: Any) -> None:
    run.configure(pluginConfig=[BY_SCORE])
    for name in ("n0", "n1", "n2"):
        run.node(name, cpu=4000, memory=8 * GI)
    run.pods(pod(f"p{at}").requests(cpu=500, memory=GI) for at in range(6))
    nodes = list(run.nodes_of(run.round()).values())
    assert sorted(nodes) == ["n0", "n0", "n1", "n1", "n2", "n2"]


def test_images_draw_a_pod_where_scores_decide(run: Any) -> None:
    run.configure(pluginConfig=[BY_SCORE])
    run.node("a")
    run.node("b", images={"r/app:1": 1000 << 20})
    run.node("c")
    assert taken(run, pod("p").requests(cpu=100).template(images=["r/app:1"])) == "b"
    run.node("b")
    run.node("c", images={"r/app:1": 1000 << 20})
    run.delete_pod("p")
    assert taken(run, pod("q").requests(cpu=100).template(images=["r/app:1"])) == "c"


def test_weights_of_the_profile_count(run: Any) -> None:
    run.node("liked", labels={"zone": "a"}, cpu=4000)
    run.node("idle", labels={"zone": "b"}, cpu=4000)
    run.pod(pod("there").requests(cpu=3000).on("liked"))
    run.configure(pluginConfig=[BY_SCORE])
    assert taken(run, likes(pod("p").requests(cpu=500), "a")) == "liked"
    run.delete_pod("p")
    run.configure(
        plugins={"score": {"disabled": [{"name": "NodeAffinity"}]}},
        pluginConfig=[BY_SCORE],
    )
    assert taken(run, likes(pod("q").requests(cpu=500), "a")) == "idle"


def test_a_pod_goes_where_it_likes_to_be_beside_the_cost(run: Any) -> None:
    run.node("other", labels={"zone": "b"}, cpu=4000)
    run.node("liked", labels={"zone": "a"}, cpu=4000)
    run.pod(pod("there").requests(cpu=2000).on("liked"))
    assert taken(run, pod("plain").requests(cpu=500)) == "other"
    run.delete_pod("plain")
    assert taken(run, likes(pod("p").requests(cpu=500), "a", weight=1)) == "liked"


def test_a_soft_taint_is_kept_away_from_while_there_is_another_node(run: Any) -> None:
    run.node("soft", cpu=4000, taints=[SOFT])
    run.node("other", cpu=4000)
    run.pod(pod("there").requests(cpu=3000).on("other"))
    assert taken(run, pod("p").requests(cpu=500)) == "other"
    assert taken(run, pod("q").requests(cpu=900)) == "soft"
    assert taken(run, pod("r").requests(cpu=100).tolerates("old")) == "soft"


def test_the_configuration_adds_a_preference_to_every_pod(run: Any) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    args = {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}
    run.node("a", labels={"zone": "a"})
    run.node("b", labels={"zone": "b"})
    run.configure(pluginConfig=[{"name": "NodeAffinity", "args": args}])
    assert taken(run, pod("p").requests(cpu=100)) == "b"


# --- ratings kept up to date -----------------------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "labelled": lambda run: run.node("n1", cpu=4000, labels={"zone": "a"}),
    "relabelled": lambda run: run.node("n1", cpu=4000, labels={"zone": "b"}),
    "tainted": lambda run: run.node("n0", cpu=4000, taints=[SOFT]),
    "clean": lambda run: run.node("n0", cpu=4000),
    "gone": lambda run: run.delete("node.n1"),
    "smaller": lambda run: run.node("n0", cpu=2000),
    "one more": lambda run: run.node("n2", cpu=500, labels={"zone": "a"}, taints=[SOFT]),
    "taken": lambda run: run.pod(pod("x").requests(cpu=500).template(scored={names.MEMORY: GI}).on("n0")),
    "moved": lambda run: run.pod(pod("x").requests(cpu=100).on("n2")),
    "given back": lambda run: run.delete_pod("x"),
}


@settings(max_examples=100, deadline=None)
@given(changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=8))
def test_kept_ratings_equal_fresh_ones(solving: Any, changes: list[str]) -> None:
    run = solving()
    run.configure(pluginConfig=[BY_SCORE])
    run.node("n0", cpu=4000)
    run.node("n1", cpu=4000, labels={"zone": "a"})
    nodes = run.cluster.nodes
    wanted = likes(pod("p").requests(cpu=100), "a").build(0)
    kept = run.cluster.classes.of(wanted.template, []).ratings
    assert {rating.score.name for rating in kept} == {
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
    }
    for change in ["", *changes]:
        if change:
            CHANGES[change](run)
        for rating in kept:
            follow(rating, nodes)
            fresh = Rating(rating.score, rating.weight, rating.query)
            follow(fresh, nodes)
            rows = np.flatnonzero(nodes.alive[: len(nodes)])
            assert rating.among(rows).raw.tolist() == fresh.among(rows).raw.tolist(), rating.score.name


def test_a_pod_without_preferences_keeps_no_ratings(run: Any) -> None:
    """What it costs a cluster without soft taints: nothing that grows with the nodes."""
    run.node("n0")
    plain, liking = pod("p").requests(cpu=100).build(0), likes(pod("q"), "a").build(0)
    solver = run.cluster.solver
    for each, expected in ((plain, []), (liking, [])):
        cls = run.cluster.classes.of(each.template, [])
        assert solver.picker.asked(Candidate(("default", "p"), each, cls)) == expected
    run.node("n1", labels={"zone": "a"})
    cls = run.cluster.classes.of(liking.template, [])
    assert len(solver.picker.asked(Candidate(("default", "q"), liking, cls))) == 1


@pytest.fixture
def run(solving: Any) -> Any:
    return solving()
