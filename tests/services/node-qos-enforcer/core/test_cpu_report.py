"""Cores, NUMA nodes and kubelet's pins: what the kernel's files and kubelet's words become, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.node_report import PinnedCpus, ReportedCore
from berth.kubelet.core.configz import KubeletConfig
from berth.node_qos_enforcer.core.cpu_report import (
    PINNED_MAX,
    Cpus,
    cores_of,
    cpu_of,
    kubelet_of,
    memory_total,
    socket_of_zones,
    zone_of,
)
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.topology import Processor
from berth.rules.cpus.kubelet import Checkpoint

MEMINFO = "Node 0 MemTotal:       1048576 kB\nNode 0 MemFree: 7 kB\n"


def test_cpus_of_one_core_stand_together() -> None:
    rows = [Processor(0, 0, 0, 0), Processor(4, 0, 0, 0), Processor(1, 1, 0, 0), Processor(2, 0, 1, 2)]
    cores = cores_of(rows)
    assert cores == (
        ReportedCore(socket=0, core=0, zone=0, cpus="0,4"),
        ReportedCore(socket=0, core=1, zone=0, cpus="1"),
        ReportedCore(socket=1, core=0, zone=2, cpus="2"),
    )
    assert socket_of_zones(cores) == {0: 0, 2: 1}
    layout = Cpus(cores, ()).layout
    assert {zone: set(cpus) for zone, cpus in layout.zone_cpus.items()} == {0: {0, 1, 4}, 2: {2}}


def test_dies_that_number_their_cores_each_for_itself_have_cores_of_their_own() -> None:
    rows = [Processor(0, 0, 0, 0), Processor(1, 0, 0, 0), Processor(2, 0, 0, 1), Processor(3, 0, 0, 1)]
    assert [(core.core, core.zone, core.cpus) for core in cores_of(rows)] == [(0, 0, "0-1"), (2, 1, "2-3")]


PLACES = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2))


@given(st.lists(PLACES, max_size=64))
def test_every_cpu_is_in_one_core_and_no_core_in_two_zones(places: list[tuple[int, int, int]]) -> None:
    rows = [Processor(cpu, core, socket, zone) for cpu, (core, socket, zone) in enumerate(places)]
    layout = Cpus(cores_of(rows), ()).layout
    assert layout.all == set(range(len(rows)))
    assert all(layout.cpus[row.cpu].zone == row.node for row in rows)
    assert len({(core.socket, core.id) for core in layout.cores}) == len(layout.cores)


def test_a_zone_has_its_memory_hugepages_and_distances() -> None:
    pages = {"hugepages-2048kB": "10\n", "hugepages-1048576kB": "0\n", "nr": "9"}
    zone = zone_of(3, MEMINFO, pages, "10 21\n", "node3")
    assert (zone.zone, zone.memory, zone.distances) == (3, 1 << 30, [10, 21])
    assert zone.hugepages == {"hugepages-2Mi": 10 * 2 << 20, "hugepages-1Gi": 0}


@pytest.mark.parametrize(
    ("meminfo", "pages", "distances", "field"),
    [
        ("", {}, "", "node0/meminfo"),
        ("Node 0 MemTotal: -5 kB", {}, "", "node0/meminfo"),
        ("Node 0 MemTotal: 5 MB", {}, "", "node0/meminfo"),
        ("Node 0 MemTotal: 18446744073709551615 kB", {}, "", "node0/meminfo"),
        (MEMINFO, {"hugepages-2048kB": "-1"}, "", "node0/hugepages/hugepages-2048kB"),
        (MEMINFO, {"hugepages-2048kB": "many"}, "", "node0/hugepages/hugepages-2048kB"),
        (MEMINFO, {"hugepages-2048kB": "9" * 19}, "", "node0/hugepages/hugepages-2048kB"),
        (MEMINFO, {"hugepages-1048576kB": "2"}, "", "node0/hugepages"),
        (MEMINFO, {}, "10 x", "node0/distance"),
        (MEMINFO, {}, "10 99999999", "node0/distance"),
    ],
)
def test_what_is_no_number_of_a_machine_is_refused_by_name(
    meminfo: str, pages: dict[str, str], distances: str, field: str
) -> None:
    with pytest.raises(Malformed) as refused:
        zone_of(0, meminfo, pages, distances, "node0")
    assert refused.value.file == field


@given(st.text(max_size=200), st.text(max_size=20), st.text(max_size=20))
def test_no_text_of_a_zone_raises_anything_else(meminfo: str, pages: str, distances: str) -> None:
    try:
        zone_of(0, meminfo, {"hugepages-2048kB": pages}, distances, "node0")
        memory_total(meminfo, "m")
    except Malformed:
        pass


def test_what_cpus_they_are() -> None:
    cores = [ReportedCore(socket=0, core=0, zone=0, cpus="0-1")]
    text = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) 8480+\n"
    cpu = cpu_of(text, cores, smt="0\n", no_turbo="0\n", l3_mask="7fff\n")
    assert (cpu.model, cpu.vendor, cpu.hyper_threads, cpu.turbo) == (
        "Intel(R) Xeon(R) 8480+",
        "GenuineIntel",
        False,
        True,
    )
    assert cpu.l3_mask == "7fff"
    cpu = cpu_of("", cores, smt="", no_turbo="", l3_mask="no mask")
    assert (cpu.model, cpu.hyper_threads, cpu.turbo, cpu.l3_mask) == ("", True, False, "")


LAYOUT = Cpus(cores_of([Processor(cpu, cpu // 2, 0, 0) for cpu in range(8)]), ()).layout
STATE = Checkpoint("static", {"u2": {"a": frozenset({4}), "b": frozenset({5})}, "u1": {"a": frozenset({2, 3})}})


def test_kubelets_policies_and_pins() -> None:
    config = KubeletConfig(
        cpu_manager_policy="static",
        cpu_manager_policy_options={"full-pcpus-only": "true"},
        reserved_system_cpus="0-1",
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
    )
    told, problems = kubelet_of(config, STATE, LAYOUT)
    assert problems == ()
    assert (told.cpu_manager, told.reserved_cpus, told.topology_manager, told.topology_scope) == (
        "static",
        "0-1",
        "restricted",
        "pod",
    )
    assert told.cpu_manager_options == {"full-pcpus-only": "true"}
    assert told.pinned == [PinnedCpus(uid="u1", cpus="2-3"), PinnedCpus(uid="u2", cpus="4-5")]


def test_a_number_of_reserved_cpus_is_the_ones_that_kubelet_takes() -> None:
    amounts = {"cpu_manager_policy": "static", "kube_reserved": {"cpu": 1_500}, "system_reserved": {"cpu": 1_000}}
    assert kubelet_of(KubeletConfig(**amounts), None, LAYOUT)[0].reserved_cpus == "0-2"
    huge = KubeletConfig(**amounts | {"kube_reserved": {"cpu": 10**15}})
    assert kubelet_of(huge, None, LAYOUT)[0].reserved_cpus == "0-7"
    none = KubeletConfig(**amounts | {"cpu_manager_policy": "none"})
    assert kubelet_of(none, None, LAYOUT)[0].reserved_cpus == ""


def test_without_a_configuration_the_checkpoint_says_the_policy() -> None:
    told, _ = kubelet_of(None, STATE, LAYOUT)
    assert (told.cpu_manager, [pin.uid for pin in told.pinned]) == ("static", ["u1", "u2"])
    assert kubelet_of(None, STATE._replace(policy="none"), LAYOUT)[0].pinned == []


def test_absurd_words_of_kubelet_are_named_and_cut() -> None:
    told, problems = kubelet_of(KubeletConfig(reserved_system_cpus="0-99999999"), None, LAYOUT)
    assert told.reserved_cpus == ""
    assert [problem.field for problem in problems] == ["kubeletconfig.reservedSystemCPUs"]
    many = Checkpoint("static", {f"u{number:05}": {"a": frozenset({1})} for number in range(PINNED_MAX + 1)})
    told, problems = kubelet_of(None, many, LAYOUT)
    assert len(told.pinned) == PINNED_MAX
    assert [problem.field for problem in problems] == ["cpu_manager_state.entries"]
