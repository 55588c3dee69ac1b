"""What of each zone a pod gets: laws on nodes of every shape, against definitions that try everything."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.names import CPU, MEMORY
from berth.rules.amplification import amplify
from berth.rules.cpus.available import FULL_PCPUS, SPREAD_BY_PCPUS
from berth.rules.cpus.bind_policy import NO_LAYOUT
from berth.rules.cpus.kubelet import BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.cpus.resource_status import ZoneShare
from berth.rules.cpus.take import LEAST_ALLOCATED, MOST_ALLOCATED
from berth.rules.numa.align import align
from berth.rules.numa.exclusive import SHARED, SINGLE
from berth.rules.numa.hints import NO_ZONES, Hint, zone_hints
from berth.rules.numa.policy import POLICIES, REQUIRED
from berth.rules.numa.split import Need, NodeZones, ZoneRequest, allocate, can_split, split, zone_needs
from berth.rules.numa.zone_sets import SETS_MAX, ZoneSet, zone_sets

IDS = (0, 2, 7)
"""Zone ids with gaps."""
HUGE = "hugepages-2Mi"


def layout_of(cores: dict[int, list[int]]) -> CpuLayout:
    """By zone how many threads each of its cores has."""
    found: list[Cpu] = []
    for zone, threads in cores.items():
        for core, count in enumerate(threads):
            found += [Cpu(len(found) + thread, core, zone, zone) for thread in range(count)]
    return CpuLayout(found)


class Scene(NamedTuple):
    node: NodeZones
    request: ZoneRequest
    zones: ZoneSet


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    zones = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True).map(sorted))
    threads = st.just(2) if draw(st.booleans()) else st.integers(1, 3)
    layout = layout_of({zone: draw(st.lists(threads, min_size=1, max_size=4)) for zone in zones})
    free = draw(st.sets(st.sampled_from(sorted(layout.all))))
    ratio = draw(st.sampled_from((1.0, 1.1, 1.5)))
    capacity, use = {}, {}
    for zone in zones:
        shown = amplify(1000 * len(layout.zone_cpus[zone]), ratio)
        capacity[zone] = {CPU: shown, MEMORY: draw(st.integers(0, 20))}
        use[zone] = {CPU: draw(st.integers(0, shown // 500)) * 500, MEMORY: draw(st.integers(0, 20))}
    own = draw(st.integers(0, 7))
    bind = draw(st.sampled_from((FULL_PCPUS, SPREAD_BY_PCPUS)))
    amounts = {CPU: 1000 * own or draw(st.integers(0, 9000)), MEMORY: draw(st.integers(0, 30)), "example.com/x": 3}
    request = ZoneRequest(
        amounts,
        own,
        bind,
        required=draw(st.booleans()),
        strategy=draw(st.sampled_from((MOST_ALLOCATED, LEAST_ALLOCATED))),
    )
    some = draw(st.lists(st.sampled_from(zones), min_size=1, unique=True).map(sorted))
    return Scene(NodeZones(capacity, use, ratio, layout, frozenset(free)), request, tuple(some))


def countable(scene: Scene, zone: int) -> set[int]:
    """How many CPUs of its own a pod can have of a zone, by trying."""
    node, request = scene.node, scene.request
    layout = node.layout
    assert layout is not None
    free = node.free_cpus & layout.zone_cpus[zone]
    if not request.required:
        counts = set(range(len(free) + 1))
    elif request.bind == SPREAD_BY_PCPUS:
        counts = set(range(sum(bool(core.members & free) for core in layout.zones[zone]) + 1))
    else:
        full = [len(core.cpus) for core in layout.zones[zone] if core.members <= free]
        counts = {sum(some) for size in range(len(full) + 1) for some in itertools.combinations(full, size)}
    return {count for count in counts if amplify(1000 * count, node.ratio) <= node.available[zone][CPU]}


def exists(scene: Scene, zones: Iterable[int]) -> bool:
    """Whether the zones can hold the pod, by trying."""
    chosen = list(zones)
    if sum(scene.node.available[zone][MEMORY] for zone in chosen) < scene.request.amounts[MEMORY]:
        return False
    if not scene.request.own_cpus:
        return sum(scene.node.available[zone][CPU] for zone in chosen) >= scene.request.amounts[CPU]
    ways = itertools.product(*(countable(scene, zone) for zone in chosen))
    return any(sum(way) == scene.request.own_cpus for way in ways)


@given(scenes())
def test_a_pod_is_placed_on_zones_exactly_if_they_can_hold_it(scene: Scene) -> None:
    found = allocate(scene.node, scene.request, scene.zones)
    assert found.fits == exists(scene, scene.zones)
    if not found.fits:
        assert (found.zones, found.cpus) == ((), frozenset())


@settings(max_examples=100)
@given(scenes())
def test_shares_come_to_the_request_and_exceed_no_zone(scene: Scene) -> None:
    node, request, layout = scene.node, scene.request, scene.node.layout
    found = allocate(node, request, scene.zones)
    if not found.fits or layout is None:
        return
    assert [share.zone for share in found.zones] == sorted({share.zone for share in found.zones} & {*scene.zones})
    for name in (CPU, MEMORY):
        assert sum(share.amounts.get(name, 0) for share in found.zones) == request.amounts[name]
    assert all(share.amounts.keys() <= {CPU, MEMORY} and all(share.amounts.values()) for share in found.zones)
    for share in found.zones:
        ratio = node.ratio if request.own_cpus else 1.0
        assert amplify(share.amounts.get(CPU, 0), ratio) <= node.available[share.zone][CPU]
        assert share.amounts.get(MEMORY, 0) <= node.available[share.zone][MEMORY]
        of_zone = found.cpus & layout.zone_cpus[share.zone]
        assert 1000 * len(of_zone) == (share.amounts.get(CPU, 0) if request.own_cpus else 0)
    assert len(found.cpus) == request.own_cpus
    assert found.cpus <= node.free_cpus
    touched = {layout.core_of[cpu].members for cpu in found.cpus}
    if request.required and request.bind == FULL_PCPUS:
        assert all(core <= found.cpus for core in touched)
    if request.required and request.bind == SPREAD_BY_PCPUS:
        assert len(touched) == len(found.cpus)


@given(scenes(), st.sampled_from(POLICIES))
def test_a_set_has_a_hint_exactly_if_it_can_hold_the_pod(scene: Scene, policy: str) -> None:
    node, request = scene.node, scene.request
    found = zone_hints(node, request, policy=policy, weights={CPU: 1})
    needs = {need.name: need for need in zone_needs(node, request)}
    assert found.hints.keys() == needs.keys()
    for name, hints in found.hints.items():
        expected = [
            zones
            for size in range(1, len(node.zones) + 1)
            for zones in itertools.combinations(node.zones, size)
            if exists(scene, zones) and all(needs[name].offered[zone] > 0 for zone in zones)
        ]
        assert [hint.zones for hint in hints] == expected
        smallest = min(map(len, expected), default=0)
        assert all(hint.preferred == (policy == RESTRICTED or len(hint.zones or ()) == smallest) for hint in hints)


@given(scenes(), st.sampled_from(POLICIES))
def test_a_placed_pod_has_what_it_asks_for(scene: Scene, policy: str) -> None:
    node, request = scene.node, scene.request
    found = align(node, request, policy=policy, weights={CPU: 1})
    if found.reasons:
        assert (found.allocation.zones, found.allocation.cpus) == ((), frozenset())
        one_holds_it = any(exists(scene, (zone,)) for zone in node.zones)
        assert policy == BEST_EFFORT or request.amounts[MEMORY] or not one_holds_it
        assert policy != BEST_EFFORT or not exists(scene, node.zones)
        return
    assert sum(share.amounts.get(CPU, 0) for share in found.allocation.zones) == request.amounts[CPU]
    if policy == SINGLE_NUMA_NODE and zone_needs(node, request):
        assert found.zones is not None
        assert len(found.zones) == 1
        assert [share.zone for share in found.allocation.zones] == list(found.zones)


@given(scenes(), st.dictionaries(st.sampled_from(IDS), st.sampled_from((SINGLE, SHARED))))
def test_one_zone_exactly_if_some_zone_can_hold_it(scene: Scene, status: dict[int, str]) -> None:
    node, request = scene.node, scene.request
    needs = zone_needs(node, request)
    found = align(node, request, policy=SINGLE_NUMA_NODE, exclusive=REQUIRED, status=status)
    can = [
        zone
        for zone in node.zones
        if exists(scene, (zone,)) and status.get(zone) != SHARED and all(need.offered[zone] > 0 for need in needs)
    ]
    assert (not found.reasons) == (bool(can) or not needs)
    if needs and not found.reasons:
        assert found.zones is not None
        assert found.zones[0] in can


@pytest.mark.parametrize(
    ("amount", "offered", "step", "parts"),
    [
        (10_000, {0: 3000, 1: 20_000}, 1, {0: 3000, 1: 7000}),
        (33_000, {0: 32_000, 1: 32_000}, 1, {0: 16_500, 1: 16_500}),
        (33_000, {0: 32_000, 1: 32_000}, 1000, {0: 16_000, 1: 17_000}),
        (6000, {0: 8000, 1: 8000}, 2000, {0: 2000, 1: 4000}),
        (9, {1: 9, 4: 2, 9: 9}, 1, {4: 2, 1: 3, 9: 4}),
        (5, {0: 2, 1: 2}, 1, None),
        (3000, {0: 8000}, 2000, None),
        (5, {}, 1, None),
    ],
)
def test_worked_splits(amount: int, offered: dict[int, int], step: int, parts: dict[int, int] | None) -> None:
    need = Need(CPU, amount, offered, step)
    assert split(need, sorted(offered)) == parts
    assert can_split(need, sorted(offered)) == (parts is not None)


def test_whole_cores_of_different_sizes_are_put_together() -> None:
    node = NodeZones(
        {0: {CPU: 9000}, 2: {CPU: 9000}}, layout=(layout := layout_of({0: [3, 3], 2: [2, 2]})), free_cpus=layout.all
    )
    request = ZoneRequest({CPU: 7000}, 7, FULL_PCPUS, required=True)
    found = allocate(node, request, (0, 2))
    assert found.zones == (ZoneShare(0, {CPU: 3000}), ZoneShare(2, {CPU: 4000}))
    assert not allocate(node, ZoneRequest({CPU: 9000}, 9, FULL_PCPUS, required=True), (0, 2)).fits


def test_a_zone_gives_as_near_to_an_equal_part_as_its_cores_allow() -> None:
    layout = layout_of({0: [1, 1, 3], 2: [1, 1, 3]})
    node = NodeZones({0: {CPU: 5000}, 2: {CPU: 5000}}, layout=layout, free_cpus=layout.all)
    found = allocate(node, ZoneRequest({CPU: 5000}, 5, FULL_PCPUS, required=True), (0, 2))
    assert found.zones == (ZoneShare(0, {CPU: 2000}), ZoneShare(2, {CPU: 3000}))


def test_cpu_that_makes_no_whole_core_is_none() -> None:
    layout = layout_of({0: [2, 2], 2: [2, 2]})
    left = {0: {CPU: 1000}, 2: {CPU: 1000}}
    node = NodeZones({0: {CPU: 4000}, 2: {CPU: 4000}}, left, layout=layout, free_cpus=layout.all)
    request = ZoneRequest({CPU: 6000}, 6, FULL_PCPUS, required=True)
    assert zone_hints(node, request, policy=BEST_EFFORT).hints == {CPU: []}
    assert align(node, request, policy=RESTRICTED).lacking == {CPU: 2000}


def test_reserved_cpus_of_the_pod_are_used_up_first() -> None:
    layout = layout_of({0: [2, 2, 2]})
    node = NodeZones({0: {CPU: 6000}}, layout=layout, free_cpus=layout.all)
    request = ZoneRequest({CPU: 2000}, 2, FULL_PCPUS, preferred=frozenset({4, 5}))
    assert allocate(node, request, (0,)).cpus == {4, 5}


def test_overhead_is_not_pinned() -> None:
    layout = layout_of({0: [2, 2]})
    node = NodeZones({0: {CPU: 4000}}, layout=layout, free_cpus=layout.all)
    found = allocate(node, ZoneRequest({CPU: 2250}, 2, FULL_PCPUS, required=True), (0,))
    assert found.zones == (ZoneShare(0, {CPU: 2000}),)
    assert len(found.cpus) == 2


def test_hugepages_of_each_size_are_a_resource_of_their_own() -> None:
    node = NodeZones({0: {CPU: 4000, HUGE: 2}, 1: {CPU: 4000, HUGE: 8}})
    request = ZoneRequest({CPU: 1000, HUGE: 4, "ephemeral-storage": 5})
    found = zone_hints(node, request, policy=BEST_EFFORT)
    assert {name: [hint.zones for hint in hints] for name, hints in found.hints.items()} == {
        CPU: [(1,), (0, 1)],
        HUGE: [(1,), (0, 1)],
    }
    assert align(node, request, policy=SINGLE_NUMA_NODE).zones == (1,)


def test_worked_hints() -> None:
    gi = 2**30
    node = NodeZones({zone: {CPU: 8000, MEMORY: 16 * gi} for zone in (0, 1)}, {0: {CPU: 6000, MEMORY: 8 * gi}})
    request = ZoneRequest({CPU: 4000, MEMORY: 4 * gi})
    found = zone_hints(node, request, policy=BEST_EFFORT, weights={CPU: 1, MEMORY: 1})
    expected = [Hint((1,), True, 62), Hint((0, 1), False, 49)]
    assert found.hints == {CPU: expected, MEMORY: expected}


def test_what_is_lacking_is_said() -> None:
    node = NodeZones({0: {CPU: 2000, MEMORY: 9}, 1: {CPU: 1000, MEMORY: 9}})
    found = align(node, ZoneRequest({CPU: 4000, MEMORY: 1}), policy=RESTRICTED)
    assert found.reasons == ("Unsatisfied NUMA cpu", "Unsatisfied NUMA memory")
    assert found.lacking == {CPU: 1000}


def test_a_node_that_cannot_be_used_says_why() -> None:
    request = ZoneRequest({CPU: 2000}, 2, FULL_PCPUS)
    assert align(NodeZones({}), request, policy=RESTRICTED).reasons == (NO_ZONES,)
    assert align(NodeZones({0: {CPU: 4000}}), request, policy=RESTRICTED).reasons == (NO_LAYOUT,)
    assert allocate(NodeZones({0: {CPU: 4000}}), request, (0,)).reasons == (NO_LAYOUT,)
    layout = layout_of({0: [2, 2]})
    without_cpu = NodeZones({0: {MEMORY: 1}}, layout=layout, free_cpus=layout.all)
    assert align(without_cpu, request, policy=RESTRICTED).reasons == ("Insufficient NUMA cpu",)
    assert allocate(without_cpu, request, (0,)).reasons == ("Insufficient NUMA cpu",)


def test_without_a_policy_nothing_is_bound_to_zones() -> None:
    found = align(NodeZones({0: {CPU: 4000}}), ZoneRequest({CPU: 2000}), policy="")
    assert (found.zones, found.allocation.zones, found.reasons) == (None, (), ())
    nothing = align(NodeZones({0: {CPU: 4000}}), ZoneRequest({"example.com/x": 1}), policy=SINGLE_NUMA_NODE)
    assert (nothing.zones, nothing.allocation.zones, nothing.reasons) == (None, (), ())


def test_best_effort_takes_the_whole_node_where_the_agreed_zones_have_not_enough() -> None:
    node = NodeZones({0: {CPU: 3000}, 1: {CPU: 3000}})
    gpu = {"gpu": [Hint((0,), True, 500)]}
    request = ZoneRequest({CPU: 4000})
    assert align(node, request, policy=BEST_EFFORT, others=[gpu]).zones == (0, 1)
    assert align(node, request, policy=RESTRICTED, others=[gpu]).reasons != ()
    alone = [{"cpu-like": [Hint((0,), False), Hint((0, 1), False)]}, {"gpu": [Hint((0,), True)]}]
    assert align(node, request, policy=BEST_EFFORT, others=alone, exclusive=REQUIRED, status={1: SINGLE}).reasons != ()


def test_devices_are_a_provider_like_any_other() -> None:
    node = NodeZones({0: {CPU: 4000}, 4: {CPU: 4000}})
    gpu = {"gpu": [Hint((4,), True, 0), Hint((0, 4), False, 500)]}
    assert align(node, ZoneRequest({CPU: 1000}), policy=SINGLE_NUMA_NODE).zones == (0,)
    assert align(node, ZoneRequest({CPU: 1000}), policy=SINGLE_NUMA_NODE, others=[gpu]).zones == (4,)


def test_many_zones_do_not_explode() -> None:
    node = NodeZones({3 * zone: {CPU: 1000 * zone, MEMORY: 100 - zone} for zone in range(36)})
    found = zone_hints(node, ZoneRequest({CPU: 100_000, MEMORY: 20}), policy=RESTRICTED)
    sets = [hint.zones for hint in found.hints[CPU]]
    assert 0 < len(sets) <= SETS_MAX + 1
    # 35 + 34 + 33 = 102: three zones hold it, and so do the three that have most.
    assert sets[0] == (99, 102, 105)
    assert align(node, ZoneRequest({CPU: 100_000}), policy=RESTRICTED).zones == (99, 102, 105)


@given(st.integers(1, 60))
def test_sets_are_bounded(number: int) -> None:
    zones = tuple(range(0, 2 * number, 2))
    found = list(zone_sets(zones, [zones, zones[::-1]]))
    assert len(found) == len(set(found)) <= SETS_MAX + 1
    assert found[-1] == zones
    assert [len(each) for each in found] == sorted(len(each) for each in found)
    assert {len(each) for each in found} == set(range(1, number + 1))
    if number <= 10:
        assert len(found) == 2**number - 1
    if number <= 40:
        assert sum(len(each) <= 2 for each in found) == number * (number + 1) // 2
