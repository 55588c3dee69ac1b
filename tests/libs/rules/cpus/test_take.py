"""Which CPUs may be given out, and which of them a pod gets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.rules.cpus.available import FULL_PCPUS, SPREAD_BY_PCPUS, available_cpus, references, usable_cpus
from berth.rules.cpus.cpuset import format_cpuset, read_cpuset
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.cpus.take import (
    INSUFFICIENT,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    NOT_ENOUGH,
    NUMA_NODE_LEVEL,
    PCPU_LEVEL,
    take_cpus,
    whole_cores_sum_to,
)
from berth.testing.vectors import cases


def even(sockets: int, zones: int, cores: int, threads: int) -> CpuLayout:
    """Ids count up in that nesting, as in the reference cases."""
    places = itertools.product(range(sockets), range(zones), range(cores), range(threads))
    return CpuLayout(
        Cpu(cpu, cpu // threads, socket, socket * zones + zone) for cpu, (socket, zone, _, _) in enumerate(places)
    )


def of_case(given: Mapping[str, Any]) -> CpuLayout:
    topology = given["topology"]
    return even(topology["sockets"], topology["numaPerSocket"], topology["coresPerNuma"], topology["cpusPerCore"])


def cpus(text: str) -> frozenset[int]:
    found = read_cpuset(text, "case")
    assert not isinstance(found, Problem)
    return found


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/available_cpus"))
def test_available_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    available = available_cpus(
        of_case(given),
        [cpus(each) for each in given["podCpusets"]],
        reserved=cpus(given["reserved"]),
        given_back=[cpus(each) for each in given["giveBack"]],
        sharing_max=given["maxRefCount"],
    )
    assert format_cpuset(available) == case["expect"]["available"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/cpu_take"))
def test_take_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    layout = of_case(given)
    held = {int(cpu): count for cpu, count in given.get("refCounts", {}).items()}
    sharing_max = given.get("maxRefCount", 1)
    allocated = cpus(given.get("allocated", ""))
    free = layout.all - allocated - {cpu for cpu, count in held.items() if count >= sharing_max}
    if "available" in given:
        free = cpus(given["available"])
    exclusive = given["exclusivePolicy"]
    is_rival = given.get("allocatedExclusivePolicy") == exclusive
    taken = take_cpus(
        layout,
        free,
        given["numCPUs"],
        bind=given["bindPolicy"],
        strategy=given["numaStrategy"],
        exclusive=exclusive,
        rivals=allocated | held.keys() if is_rival else frozenset(),
        preferred=cpus(given.get("preferred", "")),
        references=held if sharing_max > 1 else {},
    )
    if case["expect"].get("error"):
        assert taken.reason
        assert not taken.cpus
    else:
        assert (format_cpuset(taken.cpus), taken.reason) == (case["expect"]["cpus"], "")


@pytest.mark.parametrize(
    ("count", "bind", "strategy", "busy", "want"),
    [
        (4, FULL_PCPUS, MOST_ALLOCATED, "", "0-3"),
        (4, SPREAD_BY_PCPUS, MOST_ALLOCATED, "", "0,2,4,6"),
        (6, SPREAD_BY_PCPUS, MOST_ALLOCATED, "", "0-4,6"),
        (10, SPREAD_BY_PCPUS, LEAST_ALLOCATED, "", "0-4,6,8,10,12,14"),
        (5, FULL_PCPUS, MOST_ALLOCATED, "", "0-4"),
        (8, FULL_PCPUS, LEAST_ALLOCATED, "0-3", "8-15"),
        (4, FULL_PCPUS, MOST_ALLOCATED, "0-3", "4-7"),
        (12, FULL_PCPUS, LEAST_ALLOCATED, "", "0-11"),
    ],
)
def test_worked_examples_of_the_protocol(count: int, bind: str, strategy: str, busy: str, want: str) -> None:
    layout = even(2, 1, 4, 2)
    taken = take_cpus(layout, layout.all - cpus(busy), count, bind=bind, strategy=strategy)
    assert format_cpuset(taken.cpus) == want


# --- laws -------------------------------------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn) -> CpuLayout:
    """Up to 24 CPUs: core ids that repeat per socket, zones with gaps, cores of one to three threads; ids are mixed."""
    sockets = draw(st.integers(1, 2))
    places = [
        (socket, zone, core)
        for socket in range(sockets)
        for zone in range(draw(st.integers(1, 2)))
        for core in range(draw(st.integers(1, 4)))
    ]
    threads = draw(st.one_of(st.just([2]), st.just([1]), st.just([1, 2]), st.just([2, 3])))
    rows = [
        (zone * 8 + core, socket, 2 * (2 * socket + zone))
        for socket, zone, core in places
        for _ in range(draw(st.sampled_from(threads)))
    ][:24]
    ids = draw(st.permutations(range(len(rows))))
    return CpuLayout(Cpu(cpu, *row) for cpu, row in zip(ids, rows, strict=True))


@st.composite
def wishes(draw: st.DrawFn) -> tuple[CpuLayout, frozenset[int], int, dict[str, Any]]:
    layout = draw(layouts())
    some = st.frozensets(st.sampled_from(sorted(layout.all)))
    free = layout.all - draw(some)
    options: dict[str, Any] = {
        "bind": draw(st.sampled_from([FULL_PCPUS, SPREAD_BY_PCPUS, "", "Default"])),
        "required": draw(st.booleans()),
        "strategy": draw(st.sampled_from([MOST_ALLOCATED, LEAST_ALLOCATED, ""])),
        "exclusive": draw(st.sampled_from(["", PCPU_LEVEL, NUMA_NODE_LEVEL, "None"])),
        "rivals": draw(some),
        "preferred": draw(some),
        "references": draw(st.dictionaries(st.sampled_from(sorted(layout.all)), st.integers(1, 3))),
    }
    return layout, free, draw(st.integers(0, len(layout.all) + 1)), options


def is_possible(layout: CpuLayout, free: frozenset[int], count: int, bind: str, required: bool) -> bool:
    """By the definition, every subset of cores looked at."""
    if not required or bind not in (FULL_PCPUS, SPREAD_BY_PCPUS):
        return count <= len(free)
    if bind == SPREAD_BY_PCPUS:
        return count <= sum(1 for core in layout.cores if core.members & free)
    sizes = [len(core.cpus) for core in layout.cores if core.members <= free]
    sums = {0}
    for size in sizes:
        sums |= {each + size for each in sums}
    return count in sums


@given(wishes())
def test_as_many_as_asked_from_the_free_ones_or_none(
    wish: tuple[CpuLayout, frozenset[int], int, dict[str, Any]],
) -> None:
    layout, free, count, options = wish
    taken = take_cpus(layout, free, count, **options)
    assert taken.cpus <= free
    possible = is_possible(layout, free, count, options["bind"], options["required"])
    assert len(taken.cpus) == (count if possible else 0)
    assert bool(taken.reason) is not possible


@given(wishes())
def test_a_required_policy_holds(wish: tuple[CpuLayout, frozenset[int], int, dict[str, Any]]) -> None:
    layout, free, count, options = wish
    taken = take_cpus(layout, free, count, **options | {"required": True}).cpus
    for core in layout.cores:
        if options["bind"] == FULL_PCPUS:
            assert core.members <= taken or not core.members & taken
        if options["bind"] == SPREAD_BY_PCPUS:
            assert len(core.members & taken) <= 1


@given(wishes())
def test_whole_cores_as_long_as_some_are_free(wish: tuple[CpuLayout, frozenset[int], int, dict[str, Any]]) -> None:
    """Where all cores have as many threads, FullPCPUs cuts none that it need not."""
    layout, free, count, options = wish
    if not layout.even:
        return
    taken = take_cpus(
        layout, free, count, **options | {"bind": FULL_PCPUS, "required": False, "preferred": frozenset()}
    )
    whole = sum(1 for core in layout.cores if core.members <= taken.cpus)
    there = sum(1 for core in layout.cores if core.members <= free)
    assert whole >= (min(len(taken.cpus) // layout.threads, there) if taken.cpus else 0)


@given(wishes())
def test_preferred_cpus_are_used_up_first(wish: tuple[CpuLayout, frozenset[int], int, dict[str, Any]]) -> None:
    layout, free, count, options = wish
    taken = take_cpus(layout, free, count, **options | {"required": False})
    if taken.cpus:
        assert len(taken.cpus & options["preferred"]) == min(count, len(free & options["preferred"]))


@settings(max_examples=100)
@given(layouts(), st.data())
def test_never_one_that_is_reserved_or_held(layout: CpuLayout, data: st.DataObject) -> None:
    some = st.frozensets(st.sampled_from(sorted(layout.all)))
    reserved, pinned, back = data.draw(some), data.draw(st.lists(some)), data.draw(st.lists(some))
    available = available_cpus(layout, pinned, reserved=reserved, given_back=back)
    held = {cpu: sum(cpu in each for each in pinned) for cpu in layout.all}
    returned = {cpu: sum(cpu in each for each in back) for cpu in layout.all}
    assert available == {cpu for cpu in layout.all if cpu not in reserved and held[cpu] <= returned[cpu]}
    taken = take_cpus(layout, available, data.draw(st.integers(1, 8)), bind=FULL_PCPUS).cpus
    assert not taken & reserved


@settings(max_examples=100)
@given(wishes())
def test_pods_that_come_one_after_the_other_share_nothing(
    wish: tuple[CpuLayout, frozenset[int], int, dict[str, Any]],
) -> None:
    layout, free, count, options = wish
    held: list[frozenset[int]] = []
    while taken := take_cpus(layout, available_cpus(layout, held, reserved=layout.all - free), count, **options).cpus:
        assert not any(taken & other for other in held)
        held.append(taken)
    assert len(held) * count <= len(free)


@given(layouts(), st.integers(0, 30))
def test_a_number_that_whole_cores_cannot_have_is_known_before(layout: CpuLayout, count: int) -> None:
    taken = take_cpus(layout, layout.all, count, bind=FULL_PCPUS, required=True)
    if count <= len(layout.all):
        assert whole_cores_sum_to(layout, count) is (not taken.reason)


# --- what is special --------------------------------------------------------------------------------------------------


def test_core_ids_of_two_sockets_are_not_one_core() -> None:
    layout = CpuLayout([Cpu(0, 0, 0, 0), Cpu(1, 0, 1, 4), Cpu(2, 0, 0, 0), Cpu(3, 0, 1, 4)])
    assert [core.cpus for core in layout.cores] == [(0, 2), (1, 3)]
    assert take_cpus(layout, layout.all - {0}, 2, bind=FULL_PCPUS, required=True).cpus == {1, 3}


def test_cores_of_different_size_are_put_together_to_the_number_asked_for() -> None:
    rows = [Cpu(0, 0, 0, 0), Cpu(1, 0, 0, 0), Cpu(2, 1, 0, 0), Cpu(3, 1, 0, 0), Cpu(4, 2, 0, 0)]
    layout = CpuLayout(rows)
    assert take_cpus(layout, layout.all, 3, bind=FULL_PCPUS, required=True).cpus == {0, 1, 4}
    assert take_cpus(layout, layout.all - {4}, 3, bind=FULL_PCPUS, required=True).reason == INSUFFICIENT.format(
        FULL_PCPUS
    )
    assert take_cpus(layout, layout.all - {4}, 3, bind=FULL_PCPUS).cpus == {0, 1, 2}


def test_a_zone_that_is_larger_than_others_is_used_as_a_whole() -> None:
    """By the average of both, no zone would have six."""
    layout = CpuLayout([Cpu(0, 0, 0, 0), Cpu(1, 0, 0, 0), *(Cpu(cpu, cpu // 2, 0, 2) for cpu in range(2, 8))])
    assert take_cpus(layout, layout.all, 6, bind=FULL_PCPUS).cpus == set(range(2, 8))
    assert take_cpus(layout, layout.all, 6, bind=SPREAD_BY_PCPUS).cpus == set(range(2, 8))


def cores_of(*sizes_by_socket: tuple[int, ...]) -> CpuLayout:
    """Cores of these sizes, a zone for each socket, ids in order."""
    cores = [(socket, core, size) for socket, sizes in enumerate(sizes_by_socket) for core, size in enumerate(sizes)]
    threads = [(socket, core) for socket, core, size in cores for _ in range(size)]
    return CpuLayout(Cpu(cpu, core, socket, socket) for cpu, (socket, core) in enumerate(threads))


def test_whole_cores_of_several_sockets_come_to_the_number_asked_for() -> None:
    """The first socket as a whole would leave one CPU to find, and no core has one."""
    layout = cores_of((1, 2, 2), (2, 2))
    assert take_cpus(layout, layout.all, 6, bind=FULL_PCPUS, required=True).cpus == {1, 2, 3, 4, 5, 6}


def test_preferred_cores_that_spoil_the_number_are_left() -> None:
    layout = cores_of((1, 2, 2))
    assert take_cpus(layout, layout.all, 4, bind=FULL_PCPUS, required=True, preferred={0}).cpus == {1, 2, 3, 4}
    assert take_cpus(layout, layout.all, 3, bind=FULL_PCPUS, required=True, preferred={0}).cpus == {0, 1, 2}


def test_single_threads_are_taken_beside_the_others() -> None:
    layout = even(3, 1, 4, 2)
    taken = take_cpus(layout, layout.all, 11, bind=FULL_PCPUS, strategy=LEAST_ALLOCATED)
    assert format_cpuset(taken.cpus) == "0-10"


def test_never_more_than_asked_for_from_several_sockets() -> None:
    layout = even(2, 1, 4, 2)
    taken = take_cpus(layout, layout.all - {0, 1, 8, 9}, 11, bind=FULL_PCPUS).cpus
    assert len(taken) == 11


def test_what_conflicts_with_the_exclusive_policy_is_taken_when_nothing_else_is_left() -> None:
    layout = even(1, 1, 2, 2)
    options: dict[str, Any] = {"bind": SPREAD_BY_PCPUS, "exclusive": PCPU_LEVEL, "rivals": {0}}
    assert take_cpus(layout, {1, 2, 3}, 1, **options).cpus == {2}
    assert take_cpus(layout, {1, 2, 3}, 3, **options).cpus == {1, 2, 3}


def test_a_preferred_thread_stands_for_its_core() -> None:
    layout = even(1, 1, 4, 2)
    taken = take_cpus(layout, layout.all, 2, bind=SPREAD_BY_PCPUS, required=True, preferred={3})
    assert taken.cpus == {0, 3}


def test_reasons() -> None:
    layout = even(1, 1, 2, 2)
    assert take_cpus(layout, layout.all, 5, bind=FULL_PCPUS).reason == NOT_ENOUGH
    assert take_cpus(layout, {0, 2, 3}, 3, bind=FULL_PCPUS, required=True).reason == INSUFFICIENT.format(FULL_PCPUS)
    assert take_cpus(layout, layout.all, 3, bind=SPREAD_BY_PCPUS, required=True).reason == INSUFFICIENT.format(
        SPREAD_BY_PCPUS
    )
    assert take_cpus(layout, {0, 99}, 2, bind=FULL_PCPUS).reason == NOT_ENOUGH
    assert take_cpus(CpuLayout([]), {0}, 1, bind=FULL_PCPUS).reason == NOT_ENOUGH


def test_references_count_holders_and_never_fall_below_none() -> None:
    assert references([{1, 2}, {2}], [{1}, {1}, {2}, {3}]) == {2: 1}


def test_usable() -> None:
    layout = even(1, 1, 3, 2)
    free = {1, 2, 3, 4, 5, 77}
    assert usable_cpus(layout, free, FULL_PCPUS) == {2, 3, 4, 5}
    assert usable_cpus(layout, free, SPREAD_BY_PCPUS) == {1, 2, 4}
    assert usable_cpus(layout, free, "") == {1, 2, 3, 4, 5}
