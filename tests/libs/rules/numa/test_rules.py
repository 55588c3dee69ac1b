"""Policies, charges, texts and scores of NUMA nodes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_NUMA_SPEC, CPU, LABEL_NUMA_POLICY, LABEL_NUMA_STRATEGY, MEMORY
from berth.rules.cpus.kubelet import BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.cpus.take import LEAST_ALLOCATED, MOST_ALLOCATED
from berth.rules.numa.amplified_cpu import amplified_use, amplified_uses, lacking_cpu
from berth.rules.numa.charges import Held, amplified_capacity, charge, in_proportion, total_charges, zone_use
from berth.rules.numa.policy import (
    NO_MATCH,
    PREFERRED,
    REQUIRED,
    NumaSpec,
    PairPolicy,
    node_policy,
    pair_policy,
    read_numa_spec,
    zone_strategy,
)
from berth.rules.numa.scores import allocation_score, least_allocated, most_allocated, zones_score
from berth.rules.numa.zone_sets import mask_text

LAYOUT = CpuLayout(Cpu(cpu, cpu // 2, cpu // 8, 0 if cpu < 8 else 4) for cpu in range(16))
CAPACITY = {0: {CPU: 8000, MEMORY: 300}, 4: {CPU: 8000, MEMORY: 100}}


def spec(text: str) -> NumaSpec | Problem:
    return read_numa_spec({ANNOTATION_NUMA_SPEC: text})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, NumaSpec()),
        ({"numaTopologyPolicy": "SingleNUMANode"}, NumaSpec(SINGLE_NUMA_NODE, REQUIRED)),
        ({"numaTopologyPolicy": "Restricted", "singleNUMANodeExclusive": "Preferred"}, NumaSpec(RESTRICTED, PREFERRED)),
        ({"numaTopologyPolicy": "None"}, NumaSpec()),
        ({"singleNUMANodeExclusive": "Required"}, NumaSpec("", REQUIRED)),
    ],
)
def test_spec_of_a_pod(content: dict[str, str], expected: NumaSpec) -> None:
    assert spec(json.dumps(content)) == expected


def test_a_pod_without_the_annotation_asks_for_nothing() -> None:
    assert read_numa_spec({}) == NumaSpec()
    assert not NumaSpec().is_exclusive


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", ""),
        ("[]", ""),
        ('{"numaTopologyPolicy": 3}', ""),
        ('{"numaTopologyPolicy": "singlenumanode"}', ".numaTopologyPolicy"),
        ('{"numaTopologyPolicy": "%s"}' % ("x" * 5000), ".numaTopologyPolicy"),
        ('{"singleNUMANodeExclusive": "Maybe"}', ".singleNUMANodeExclusive"),
        ("[" * 100_000, ""),
    ],
)
def test_what_cannot_be_read_names_the_field(text: str, field: str) -> None:
    found = spec(text)
    assert isinstance(found, Problem)
    assert found.field == f"metadata.annotations[{ANNOTATION_NUMA_SPEC}]{field}"
    assert len(found.message) < 300


@given(st.text(max_size=20))
def test_no_text_of_an_annotation_raises(text: str) -> None:
    spec(text)
    spec(json.dumps({"numaTopologyPolicy": text}))


@pytest.mark.parametrize("reported", ["SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel", "SingleNUMANode"])
def test_policy_of_kubelet_counts_at_every_level_and_before_the_label(reported: str) -> None:
    node = node_policy({LABEL_NUMA_POLICY: BEST_EFFORT}, [reported])
    assert node == SINGLE_NUMA_NODE
    assert pair_policy("", node) == PairPolicy(SINGLE_NUMA_NODE)
    assert pair_policy(BEST_EFFORT, node) == PairPolicy(reason=NO_MATCH)


@pytest.mark.parametrize("text", ["None", "", "Strict", "restricted"])
def test_a_text_that_is_no_policy_is_none(text: str) -> None:
    assert pair_policy("", node_policy({LABEL_NUMA_POLICY: text}, [text])) == PairPolicy()
    assert node_policy({LABEL_NUMA_POLICY: RESTRICTED}, [text]) == RESTRICTED
    assert node_policy({}, []) == ""
    assert pair_policy(RESTRICTED, text) == PairPolicy(RESTRICTED)


@pytest.mark.parametrize(
    ("label", "default", "strategy"),
    [
        (None, "", LEAST_ALLOCATED),
        (None, "MostAllocated", MOST_ALLOCATED),
        ("LeastAllocated", "MostAllocated", LEAST_ALLOCATED),
        ("MostAllocated", "LeastAllocated", MOST_ALLOCATED),
        ("DistributeEvenly", "MostAllocated", LEAST_ALLOCATED),
    ],
)
def test_strategy_of_zones(label: str | None, default: str, strategy: str) -> None:
    assert zone_strategy({} if label is None else {LABEL_NUMA_STRATEGY: label}, default) == strategy


@pytest.mark.parametrize(
    ("zones", "text"),
    [
        ((0,), "01"), ((0, 1), "11"), ((2,), "100"), ((0, 2), "0101"), ((4,), "10000"), ((0, 4), "010001"),
        (None, "<nil>"), ((), "00"), ((0, 300), "{0,300}"),
    ],
)  # fmt: skip
def test_texts_of_sets(zones: tuple[int, ...] | None, text: str) -> None:
    assert mask_text(zones) == text


amounts = st.dictionaries(st.sampled_from((CPU, MEMORY)), st.integers(0, 10_000))
pods = st.builds(
    Held,
    amounts,
    st.frozensets(st.integers(0, 20), max_size=5),
    st.dictionaries(st.sampled_from((0, 4, 9)), amounts, max_size=2),
)


@given(st.lists(pods, max_size=5), st.randoms(use_true_random=False))
def test_charges_do_not_depend_on_order(held: list[Held], chance: Any) -> None:
    shuffled = chance.sample(held, len(held))
    assert total_charges(charge(each, CAPACITY, LAYOUT) for each in held) == total_charges(
        charge(each, CAPACITY, LAYOUT) for each in shuffled
    )


@given(amounts, st.frozensets(st.integers(0, 15), max_size=5))
def test_all_of_a_pod_without_a_record_is_charged(of: dict[str, int], cpus: frozenset[int]) -> None:
    charged = charge(Held(of, cpus), CAPACITY, LAYOUT)
    expected = of | {CPU: 1000 * len(cpus) if cpus else of.get(CPU, 0)}
    for name in (CPU, MEMORY):
        assert sum(each.get(name, 0) for each in charged.values()) == expected.get(name, 0)
    for zone in CAPACITY:
        if cpus:
            assert charged.get(zone, {}).get(CPU, 0) == 1000 * len(cpus & LAYOUT.zone_cpus[zone])


def test_charges() -> None:
    assert charge(Held({CPU: 4000, MEMORY: 40}), CAPACITY, LAYOUT) == {
        0: {CPU: 2000, MEMORY: 30},
        4: {CPU: 2000, MEMORY: 10},
    }
    pinned = Held({CPU: 3000, MEMORY: 30, "example.com/x": 1}, frozenset({0, 1, 8, 99}))
    assert charge(pinned, CAPACITY, LAYOUT) == {0: {CPU: 2000, MEMORY: 20}, 4: {CPU: 1000, MEMORY: 10}}
    recorded = Held({CPU: 3000, MEMORY: 30}, zones={4: {CPU: 3000, MEMORY: 30}, 9: {CPU: 1}})
    assert charge(recorded, CAPACITY, LAYOUT) == {4: {CPU: 3000, MEMORY: 30}}
    elsewhere = Held({CPU: 2000}, zones={9: {CPU: 2000}})
    assert charge(elsewhere, CAPACITY, LAYOUT) == {0: {CPU: 1000}, 4: {CPU: 1000}}
    both = Held({CPU: 2000, MEMORY: 4}, frozenset({0, 1}), {0: {CPU: 2000, MEMORY: 4}})
    assert charge(both, CAPACITY, LAYOUT) == {0: {CPU: 2000, MEMORY: 4}}
    assert charge(Held({CPU: 2000}), {}) == {}
    wrong = Held({CPU: 2000, MEMORY: 4}, frozenset({0, 1}), {0: {CPU: 1000, MEMORY: 4}, 4: {CPU: 1000}})
    assert charge(wrong, CAPACITY, LAYOUT) == {0: {CPU: 2000, MEMORY: 4}}, "CPUs lie where they lie"


@given(st.integers(0, 2**63), st.dictionaries(st.integers(0, 9), st.integers(-3, 2**62), max_size=5))
def test_nothing_is_lost_in_proportion(amount: int, weights: dict[int, int]) -> None:
    parts = in_proportion(amount, weights)
    assert sum(parts.values()) == (amount if any(weight > 0 for weight in weights.values()) else 0)
    assert all(weights[zone] > 0 for zone in parts)


def test_own_cpus_count_times_the_ratio_even_where_nobody_is_charged() -> None:
    assert zone_use({}, {0: 2}, ratio=1.5) == {0: {CPU: 3000}}
    assert zone_use({0: {CPU: 1000}}, {0: 2}, ratio=1.5) == {0: {CPU: 3000}}
    assert zone_use({0: {CPU: 5000, MEMORY: 1}}, {0: 2}, ratio=1.5) == {0: {CPU: 6000, MEMORY: 1}}
    assert zone_use({0: {CPU: 5000}}, {0: 2}, reusable={0: {CPU: 1500, MEMORY: 9}, 7: {CPU: 1}}) == {0: {CPU: 3500}}
    assert amplified_capacity({0: {CPU: 3333, MEMORY: 5}}, 1.33) == {0: {CPU: 4433, MEMORY: 5}}


@pytest.mark.parametrize(("request_milli", "lacking"), [(16_000, 0), (17_000, 1500)])
def test_worked_amplified_cpu(request_milli: int, lacking: int) -> None:
    asked: dict[str, Any] = {"allocatable_milli": 48_000, "requested_milli": 20_000, "own_cpus": 8, "ratio": 1.5}
    assert amplified_use(20_000, 8, 1.5) == 24_000
    assert lacking_cpu(request_milli, own_milli=request_milli, **asked) == lacking
    assert lacking_cpu(request_milli, own_milli=request_milli, **asked | {"ratio": 1.0}) == 0
    assert lacking_cpu(0, own_milli=request_milli, **asked | {"requested_milli": 90_000}) == 0


def test_own_cpus_that_no_request_covers_change_nothing() -> None:
    assert amplified_use(4000, 8, 2.0) == 4000


def test_scores() -> None:
    weights = {CPU: 1, MEMORY: 1}
    asked = {CPU: 4000, MEMORY: 40}
    whole = {"weights": weights, "capacity": {CPU: 52_000, MEMORY: 128}, "requested": {}, "request": asked}
    assert allocation_score(MOST_ALLOCATED, **whole) == 19
    assert allocation_score(LEAST_ALLOCATED, **whole) == 80
    assert allocation_score("", **whole) == 80
    assert (least_allocated(3, 2), least_allocated(0, 0), most_allocated(3, 2), most_allocated(1, 0)) == (0, 0, 100, 0)
    zones: dict[str, Any] = {"capacity": CAPACITY, "use": {0: {CPU: 4000}}, "request": {CPU: 4000}}
    assert zones_score(MOST_ALLOCATED, {CPU: 1}, (0,), **zones) == 100
    assert zones_score(MOST_ALLOCATED, {CPU: 1}, (0, 4, 9), **zones) == 50


def test_resources_that_nobody_has_or_asks_for_do_not_count() -> None:
    capacity = {CPU: 10, "example.com/x": 10}
    score = {"capacity": capacity, "requested": {}}
    assert allocation_score(LEAST_ALLOCATED, {CPU: 1, "example.com/x": 1}, request={CPU: 5}, **score) == 50
    assert allocation_score(LEAST_ALLOCATED, {CPU: 1, MEMORY: 5}, request={CPU: 5}, **score) == 50
    assert allocation_score(LEAST_ALLOCATED, {"example.com/x": 1}, request={CPU: 5}, **score) == 0
    assert allocation_score(LEAST_ALLOCATED, {CPU: 0}, request={CPU: 5}, **score) == 0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 200), st.floats(1.0, 5.0)), min_size=1))
def test_amplified_use_of_many_nodes_is_that_of_each(nodes: list[tuple[int, int, float]]) -> None:
    requested, own, ratios = zip(*nodes, strict=True)
    found = amplified_uses(np.array(requested), np.array(own), np.array(ratios))
    assert found.tolist() == [amplified_use(*node) for node in nodes]
