"""Scores against their definitions, written out for one node at a time; and the tallies below them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.images import Images
from berth.placement_solver.core.scores.balanced_allocation import BalancedAllocationScore, balance
from berth.placement_solver.core.scores.image_locality import ImageLocalityScore, image_name, locality
from berth.placement_solver.core.scores.node_resources_fit import (
    NodeResourcesFitScore,
    by_shape,
    curve_of,
    least_allocated,
    most_allocated,
)
from berth.placement_solver.core.scores.node_resources_fit_plus import NodeResourcesFitPlusScore
from berth.placement_solver.core.scores.normalise import by_highest
from berth.placement_solver.core.scores.scarce_resource_avoidance import ScarceResourceAvoidanceScore
from berth.rules.scheduler_config import (
    BalancedArgs,
    FitArgs,
    FitPlusArgs,
    PlusResource,
    Resource,
    ScarceArgs,
    ScoringStrategy,
    ShapePoint,
)
from berth.transaction.claims import of_pod

GPU = "example.com/gpu"
amounts = st.one_of(st.integers(0, 300), st.integers(0, 2**53))
resources = st.lists(st.tuples(st.integers(1, 100), amounts, amounts), min_size=1, max_size=4)
"""Of each resource its weight, what would be requested, what there is."""


def columns(filled: list[tuple[int, int, int]]) -> list[Any]:
    return [(weight, np.array([asked]), np.array([whole])) for weight, asked, whole in filled]


def mean(scores: list[tuple[int, int]]) -> int:
    total = sum(weight for weight, _ in scores)
    return sum(weight * score for weight, score in scores) // total if total else 0


@given(resources)
def test_least_allocated(filled: list[tuple[int, int, int]]) -> None:
    defined = mean([(w, 0 if r > a else (a - r) * 100 // a) for w, r, a in filled if a])
    assert least_allocated(columns(filled)).tolist() == [defined]


@given(resources)
def test_most_allocated(filled: list[tuple[int, int, int]]) -> None:
    defined = mean([(w, min(r, a) * 100 // a) for w, r, a in filled if a])
    assert most_allocated(columns(filled)).tolist() == [defined]


shapes = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=5, unique_by=lambda p: p[0])


def on_curve(points: list[tuple[int, int]], percent: int) -> int:
    """Exact, then truncated toward zero from the point before."""
    if percent <= points[0][0]:
        return 10 * points[0][1]
    for (u0, s0), (u1, s1) in itertools.pairwise(points):
        if percent <= u1:
            return 10 * s0 + math.trunc(Fraction(10 * (s1 - s0) * (percent - u0), u1 - u0))
    return 10 * points[-1][1]


@given(resources, shapes)
def test_by_shape(filled: list[tuple[int, int, int]], shape: list[tuple[int, int]]) -> None:
    points = sorted(shape)
    curve = [ShapePoint(utilization=u, score=s) for u, s in points]
    assert curve_of(curve).tolist() == [on_curve(points, percent) for percent in range(101)]
    rated = [(w, on_curve(points, 100 if r > a else r * 100 // a)) for w, r, a in filled if a]
    counted = [(w, score) for w, score in rated if score > 0]
    total = sum(w for w, _ in counted)
    defined = math.floor(Fraction(sum(w * s for w, s in counted), total) + Fraction(1, 2)) if total else 0
    assert by_shape(curve)(columns(filled)).tolist() == [defined]


def test_a_falling_curve_is_truncated_toward_zero() -> None:
    falling = [ShapePoint(utilization=0, score=10), ShapePoint(utilization=30, score=0)]
    assert curve_of(falling)[[1, 10, 29]].tolist() == [97, 67, 4]


def deviation(parts: list[float]) -> float:
    if len(parts) < 2:
        return 0.0
    if len(parts) == 2:
        return abs(parts[0] - parts[1]) / 2
    total = 0.0
    for part in parts:
        total += part
    middle, squares = total / len(parts), 0.0
    for part in parts:
        squares += (part - middle) * (part - middle)
    return math.sqrt(squares / len(parts))


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4))
def test_balance(filled: list[tuple[int, int]]) -> None:
    parts = [min(float(asked) / float(whole), 1.0) for asked, whole in filled if whole]
    found = balance([(np.array([asked]), np.array([whole])) for asked, whole in filled])
    assert found.tolist() == [int((1 - deviation(parts)) * 100)]


MIB = 1 << 20


@given(st.lists(st.tuples(st.integers(0, 2**43), st.integers(0, 7)), min_size=1, max_size=4))
def test_locality(images: list[tuple[int, int]]) -> None:
    total = sum(int(float(size) * (having / 7)) for size, having in images)
    low, high = 23 * MIB, 1000 * MIB * len(images)
    defined = 100 * (min(max(total, low), high) - low) // (high - low)
    assert locality([(np.array([size]), having / 7) for size, having in images], len(images), 1).tolist() == [defined]


@given(st.lists(st.integers(0, 1000), max_size=6), st.booleans())
def test_the_highest_becomes_100(ratings: list[int], reverse: bool) -> None:
    most = max(ratings, default=0)
    shares = [100 * each // most if most else 0 for each in ratings]
    assert by_highest(np.array(ratings, float), reverse=reverse).tolist() == [
        100 - share if reverse else share for share in shares
    ]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("r/a", "r/a:latest"),
        ("r/a:1", "r/a:1"),
        ("host:5000/a", "host:5000/a:latest"),
        ("r/a@sha256:abc", "r/a@sha256:abc"),
        ("a", "a:latest"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image: str, name: str) -> None:
    assert image_name(image) == name


# --- resources: what counts ------------------------------------------------------------------------------------------


def strategy(*resources: Resource) -> FitArgs:
    return FitArgs(scoring_strategy=ScoringStrategy(resources=resources))


def test_a_scalar_resource_counts_for_pods_that_ask_for_it(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 4000, names.MEMORY: 100, GPU: 4, names.PODS: 10, "hugepages-2Mi": 8})
    score = NodeResourcesFitScore(
        world.nodes,
        world.tally,
        strategy(Resource(name=GPU, weight=100), Resource(name=names.CPU), Resource(name=names.PODS)),
    )
    without = PodTemplate(requests={names.CPU: 1000}, scored={names.MEMORY: 200})
    assert world.scores(score, without) == [(75, 75)]
    asking = PodTemplate(requests={names.CPU: 1000, GPU: 3})
    assert world.scores(score, asking) == [((25 * 100 + 75) // 101,) * 2]


def test_devices_count_by_what_the_node_shows_and_pods_request(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 4000, names.NVIDIA_GPU: 8})
    score = NodeResourcesFitScore(world.nodes, world.tally, strategy(Resource(name=names.NVIDIA_GPU)))
    asking = PodTemplate(requests={names.NVIDIA_GPU: 2})
    assert world.scores(score, asking) == [(75, 75)]
    there = Pod(namespace="d", name="a", uid="a", version=1, node="n", template=asking)
    world.pods["d", "a"] = there
    claim = of_pod(there)
    world.apply(claim, 1)
    assert world.scores(score, asking) == [(50, 50)]
    world.apply(claim, -1)
    assert world.scores(score, asking) == [(75, 75)]


def test_pods_without_requests_fill_the_fit_score_and_not_the_balance(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 1000, names.MEMORY: 1000 * MIB})
    bare = PodTemplate(scored={names.CPU: 100, names.MEMORY: 200 * MIB})
    fit = NodeResourcesFitScore(world.nodes, world.tally)
    even = BalancedAllocationScore(world.nodes, world.tally)
    asking = PodTemplate(requests={names.CPU: 500, names.MEMORY: 500 * MIB})
    assert world.scores(fit, asking) == [(50, 50)]
    world.charge(Pod(namespace="d", name="a", uid="a", version=1, node="n", template=bare))
    assert world.scores(fit, asking) == [((40 + 30) // 2,) * 2]
    assert world.scores(even, asking) == [(100, 100)]


def test_a_request_of_the_pod_level_counts_as_it_is_on_the_node(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 1000, names.MEMORY: 1000 * MIB})
    level = PodTemplate(requests={names.CPU: 500}, scored={names.CPU: 100, names.MEMORY: 200 * MIB})
    world.charge(Pod(namespace="d", name="a", uid="a", version=1, node="n", template=level))
    rows = np.array([0])
    assert world.tally.surplus(names.CPU, rows).tolist() == [0]
    assert world.tally.surplus(names.MEMORY, rows).tolist() == [200 * MIB]


def test_nothing_is_asked_of_the_balance(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 1000})
    bare = PodTemplate(requests={names.CPU: 0, names.EPHEMERAL_STORAGE: 5}, scored={names.CPU: 100})
    assert world.scores(BalancedAllocationScore(world.nodes, world.tally, BalancedArgs()), bare) is None


# --- Koordinator's: a strategy for each resource, and what is scarce --------------------------------------------------

NAMES = (names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE, GPU, names.NVIDIA_GPU, names.BATCH_CPU)
some = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 50))
configured = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(PlusResource, type=st.sampled_from(["LeastAllocated", "MostAllocated", ""]), weight=st.integers(0, 5)),
)


def world_with(scoring: Any, nodes: list[tuple[dict[str, int], dict[str, int]]]) -> Any:
    """Nodes, each with a pod that requests something."""
    world = scoring()
    for at, (offers, taken) in enumerate(nodes):
        world.node(f"n{at}", offers)
        there = PodTemplate(requests=taken)
        world.charge(Pod(namespace="d", name=f"q{at}", uid=f"q{at}", version=1, node=f"n{at}", template=there))
    return world


@given(st.lists(st.tuples(some, some), min_size=1, max_size=3), configured, some)
def test_fit_plus(
    scoring: Any,
    nodes: list[tuple[dict[str, int], dict[str, int]]],
    resources: dict[str, PlusResource],
    asked: dict[str, int],
) -> None:
    world = world_with(scoring, nodes)
    defined = []
    for offers, taken in nodes:
        total, weights = 0, 0
        for name, of in resources.items():
            if not asked.get(name, 0):
                continue
            used, whole = taken.get(name, 0) + asked[name], offers.get(name, 0)
            least = 0 if not whole or used > whole else (whole - used) * 100 // whole
            most = min(used, whole) * 100 // whole if whole else 0
            total += of.weight * {"LeastAllocated": least, "MostAllocated": most, "": 0}[of.type]
            weights += of.weight
        defined.append(total // weights if weights else 100)
    score = NodeResourcesFitPlusScore(world.nodes, world.tally, FitPlusArgs(resources=resources))
    assert world.scores(score, PodTemplate(requests=asked)) == [(each, each) for each in defined]


def test_fit_plus_counts_containers_without_a_request_as_all_scores_do(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 1000, names.MEMORY: 1000 * MIB})
    bare = PodTemplate(scored={names.CPU: 100, names.MEMORY: 200 * MIB})
    world.charge(Pod(namespace="d", name="a", uid="a", version=1, node="n", template=bare))
    args = FitPlusArgs(resources={names.CPU: PlusResource(type="MostAllocated", weight=1)})
    score = NodeResourcesFitPlusScore(world.nodes, world.tally, args)
    half = PodTemplate(requests={names.CPU: 300}, scored={names.CPU: 400})  # a second container names none
    assert world.scores(score, half) == [(50, 50)]
    assert world.scores(score, bare) == [(100, 100)], "it requests nothing"


@given(st.lists(some, min_size=1, max_size=3), st.sets(st.sampled_from(NAMES)), some)
def test_scarce(scoring: Any, nodes: list[dict[str, int]], scarce: set[str], asked: dict[str, int]) -> None:
    world = world_with(scoring, [({**offers, names.PODS: 10}, {}) for offers in nodes])
    defined = []
    for offers in nodes:
        unused = {name for name, amount in offers.items() if amount} - {name for name, of in asked.items() if of}
        defined.append(100 * len(unused - scarce) // len(unused) if unused & scarce else 100)
    score = ScarceResourceAvoidanceScore(world.nodes, ScarceArgs(resources=tuple(scarce)))
    assert world.scores(score, PodTemplate(requests=asked)) == [(each, each) for each in defined]


def test_what_a_node_comes_to_offer_is_rated_anew(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 1000, names.MEMORY: 1})
    score = ScarceResourceAvoidanceScore(world.nodes, ScarceArgs(resources=(names.NVIDIA_GPU,)))
    assert world.scores(score, PodTemplate()) == [(100, 100)]
    before = world.nodes.touched.end
    world.node("n", {names.CPU: 1000, names.MEMORY: 1, names.NVIDIA_GPU: 2})
    assert world.nodes.touched.since(before)
    assert world.scores(score, PodTemplate()) == [(66, 66)]


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 300)), max_size=30)


@given(steps)
def test_the_tally_gives_back_what_it_charged(scoring: Any, steps: list[tuple[int, int, int]]) -> None:
    """Whatever the pods say by the time they go, a tally that has given all back is at nothing; in between it is the
    sum of what was charged."""
    world = scoring()
    for at in range(3):
        world.node(f"n{at}", {names.CPU: 1000})
    held: dict[str, tuple[Any, int, int]] = {}
    for which, node, extra in steps:
        name = f"p{which}"
        template = PodTemplate(requests={names.CPU: 100}, scored={names.CPU: 100 + extra})
        world.pods["d", name] = Pod(namespace="d", name=name, uid=name, version=1, node=f"n{node}", template=template)
        if name in held:
            world.apply(held.pop(name)[0], -1)
        else:
            claim = of_pod(world.pods["d", name])
            world.apply(claim, 1)
            held[name] = (claim, node, extra)
    sums = [sum(extra for _, at, extra in held.values() if at == node) for node in range(3)]
    assert world.tally.surplus(names.CPU, np.arange(3)).tolist() == sums


def test_a_pod_that_is_shown_after_its_claim_counts_from_then_on(scoring: Any) -> None:
    world = scoring()
    world.node("n", {names.CPU: 1000})
    rows = np.array([0])
    for scored, expected in ((300, 200), (150, 50), (100, 0), (500, 400)):
        shown = PodTemplate(requests={names.CPU: 100}, scored={names.CPU: scored})
        one = Pod(namespace="d", name="a", uid="a", version=1, node="n", template=shown)
        if scored == 300:
            claim = of_pod(one)
            world.apply(claim, 1)
            assert world.tally.surplus(names.CPU, rows).tolist() == [0], "nobody knows the pod yet"
        before = world.nodes.touched.end
        world.charges.see(("d", "a"), one)
        assert world.tally.surplus(names.CPU, rows).tolist() == [expected]
        assert world.nodes.touched.since(before) == [0]
        world.charges.see(("d", "a"), one)
        assert world.nodes.touched.since(before) == [0]
    world.charges.see(("d", "a"), Pod(namespace="d", name="a", uid="other", version=2, template=shown))
    assert world.tally.surplus(names.CPU, rows).tolist() == [0], "nobody shows it any more"
    world.apply(claim, -1)
    assert world.tally.surplus(names.CPU, rows).tolist() == [0]


# --- images ----------------------------------------------------------------------------------------------------------

changes = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)))),
    max_size=20,
)


@given(changes, st.sampled_from([1, 1 << 20]))
def test_images_are_those_of_the_nodes(changes: list[tuple[int, dict[str, int] | None]], kept: int) -> None:
    images, nodes = Images(kept), dict[int, dict[str, int] | None]()
    for row, on_it in changes:
        images.see(row, on_it)
        nodes[row] = on_it
        for name in "ab":
            sizes = images.sizes(name).tolist()
            assert sizes == [(nodes.get(each) or {}).get(name, 0) for each in range(len(sizes))]
    alive = [on_it for on_it in nodes.values() if on_it is not None]
    assert images.nodes == len(alive)
    assert [images.count(name) for name in "abc"] == [sum(name in on_it for on_it in alive) for name in "abc"]


def test_images_that_no_node_has_are_not_rated(scoring: Any) -> None:
    world = scoring()
    world.node("n", images={"a:1": 500 * MIB})
    score = ImageLocalityScore(world.images)
    assert world.scores(score, PodTemplate(images=["b:1"])) is None
    assert world.scores(score, PodTemplate(images=["b:1", "a:1"])) == [((500 - 23) * 100 // (2000 - 23),) * 2]
