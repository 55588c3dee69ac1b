"""Reference cases of NUMA nodes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from berth.contracts.base import Problem
from berth.contracts.names import CPU
from berth.resources.amounts import Amounts, add_into, parse_amounts
from berth.resources.quantity import parse_milli
from berth.rules.amplification import amplify
from berth.rules.cpus.available import available_cpus
from berth.rules.cpus.cpuset import format_cpuset, read_cpuset
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.numa.align import align
from berth.rules.numa.amplified_cpu import INSUFFICIENT, amplified_use, lacking_cpu
from berth.rules.numa.charges import (
    Held,
    amplified_capacity,
    charge,
    cpus_by_zone,
    total_charges,
    zone_available,
    zone_use,
)
from berth.rules.numa.exclusive import may_hold
from berth.rules.numa.hints import Hint, zone_hints
from berth.rules.numa.merge import merge
from berth.rules.numa.policy import NO_MATCH, REQUIRED, pair_policy
from berth.rules.numa.scores import allocation_score, shown_request, zones_score
from berth.rules.numa.split import NodeZones, ZoneRequest, allocate
from berth.testing.vectors import cases

Case = dict[str, Any]


def amounts(of: Mapping[str, str]) -> Amounts:
    read, problems = parse_amounts(of, "case")
    assert not problems
    return read


def by_zone(of: Mapping[str, Mapping[str, str]]) -> dict[int, Amounts]:
    return {int(zone): amounts(each) for zone, each in of.items()}


def cpus(text: str) -> frozenset[int]:
    found = read_cpuset(text, "case")
    assert not isinstance(found, Problem)
    return found


def layout_of(given: Case) -> CpuLayout:
    of = given["topology"]
    zones = of["numaPerSocket"]
    places = itertools.product(
        range(of["sockets"]), range(zones), range(of["coresPerNuma"]), range(threads := of["cpusPerCore"])
    )
    return CpuLayout(
        Cpu(cpu, cpu // threads, socket, socket * zones + zone) for cpu, (socket, zone, _, _) in enumerate(places)
    )


def node_of(given: Case) -> NodeZones:
    layout = layout_of(given)
    ratio = given.get("amplification", {}).get(CPU, 1.0)
    capacity = by_zone(given["numa"])
    allocated = given.get("allocated", {"cpus": "", "numa": {}})
    held = cpus(allocated["cpus"])
    charges = total_charges([charge(Held({}, held, by_zone(allocated["numa"])), capacity, layout)])
    use = zone_use(charges, cpus_by_zone(held, layout), ratio=ratio)
    return NodeZones(amplified_capacity(capacity, ratio), use, ratio, layout, available_cpus(layout, [held]))


def request_of(given: Case) -> ZoneRequest:
    return ZoneRequest(
        amounts(given["requests"]),
        given["numCPUs"] if given["cpuBind"] else 0,
        given["requiredBindPolicy"] or "",
        required=given["requiredBindPolicy"] is not None,
        strategy=given.get("numaStrategy", ""),
    )


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_policy_matrix"))
def test_policy_matrix(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    pair = pair_policy(given["pod"], given["node"])
    assert pair.reason == ("" if expect["allowed"] else NO_MATCH)
    assert (None if pair.reason else pair.policy) == expect["effective"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_available"))
def test_available(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    use = zone_use(
        by_zone(given["allocated"]),
        {int(zone): count for zone, count in given["cpusetCpusByNuma"].items()},
        ratio=given["cpuRatio"],
        reusable=by_zone(given["reusable"]),
    )
    assert use == by_zone(expect["allocated"])
    assert zone_available(by_zone(given["numaAmplified"]), use) == by_zone(expect["available"])


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_allocate"))
def test_allocate(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    found = allocate(node_of(given), request_of(given), given["hintNuma"])
    assert found.fits != expect.get("error", False)
    if found.fits:
        assert {share.zone: share.amounts for share in found.zones} == by_zone(expect["numa"])
        assert format_cpuset(found.cpus) == expect["cpus"]
    else:
        assert found.zones == ()
        assert not found.cpus


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_hint_generate"))
def test_hints(case: Case) -> None:
    given = case["given"]
    found = zone_hints(node_of(given), request_of(given), policy=given["policy"])
    shown = {
        name: [{"numa": list(hint.zones or ()), "preferred": hint.preferred} for hint in hints]
        for name, hints in found.hints.items()
    }
    assert shown == case["expect"]["hints"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_hint_merge"))
def test_merge(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    providers = [{name: hints_of(hints) for name, hints in each.items()} for each in given["providers"]]
    found = merge(given["numaNodes"], providers, given["policy"], exclusive=given["exclusive"])
    assert (None if found.zones is None else list(found.zones)) == expect["numa"]
    assert (found.preferred, found.unsatisfied) == (expect["preferred"], expect["unsatisfied"])
    assert found.admitted == expect["admit"]
    assert list(found.reasons) == expect.get("reasons", [])


def hints_of(given: list[Case] | None) -> list[Hint] | None:
    if given is None:
        return None
    return [
        Hint(None if hint["numa"] is None else tuple(hint["numa"]), hint["preferred"], hint.get("score", 0))
        for hint in given
    ]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_exclusive"))
def test_exclusive(case: Case) -> None:
    given = case["given"]
    ok = given["exclusive"] != REQUIRED or may_hold(tuple(given["numa"]), dict(enumerate(given["status"])))
    assert ok == case["expect"]["ok"]
    hint = Hint(tuple(given["numa"]))
    merged = merge(
        range(len(given["status"])),
        [{CPU: [hint]}],
        "Restricted",
        exclusive=given["exclusive"],
        status=dict(enumerate(given["status"])),
    )
    assert merged.preferred == case["expect"]["ok"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/numa_score"))
def test_score(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    pod = amounts(given["pod"]["requests"])
    scores, chosen = {}, {}
    for node in given["nodes"]:
        if not node["policy"]:
            used: Amounts = {}
            for each in node["pods"]:
                add_into(used, amounts(each["requests"]))
            scores[node["name"]] = allocation_score(
                given["strategy"],
                given["weights"],
                capacity=amounts(node["allocatable"]),
                requested=used,
                request=pod,
            )
            continue
        capacity = by_zone(node["numa"])
        pods = [
            Held(amounts(each["requests"]), zones={each["numa"]: amounts(each["requests"])}) for each in node["pods"]
        ]
        there = NodeZones(capacity, zone_use(total_charges(charge(each, capacity) for each in pods), {}))
        placed = align(
            there,
            ZoneRequest(pod),
            policy=node["policy"],
            strategy=given["numaStrategy"],
            weights=given["weights"],
        )
        assert placed.zones is not None
        chosen[node["name"]] = list(placed.zones)
        if "strategy" in given:
            scores[node["name"]] = zones_score(
                given["strategy"], given["weights"], placed.zones, capacity=there.capacity, use=there.use, request=pod
            )
    assert {name: chosen[name] for name in expect.get("numa", {})} == expect.get("numa", {})
    assert scores == expect.get("scores", {})


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplified_cpu_filter"))
def test_amplified_filter(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    bound = [parse_milli(pod["cpu"]) for pod in given["pods"] if pod["cpuBind"] and given["topologyReported"]]
    lacking = lacking_cpu(
        parse_milli(given["pod"]["cpu"]),
        allocatable_milli=amplify(parse_milli(given["rawCpu"]), given["cpuRatio"]),
        requested_milli=sum(parse_milli(pod["cpu"]) for pod in given["pods"]),
        own_cpus=sum(bound) // 1000,
        ratio=given["cpuRatio"],
        own_milli=parse_milli(given["pod"]["cpu"]) if given["pod"]["cpuBind"] else 0,
    )
    assert (lacking == 0) == expect["fits"]
    assert expect.get("reason", INSUFFICIENT) == INSUFFICIENT


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplified_cpu_score"))
def test_amplified_score(case: Case) -> None:
    given = case["given"]
    pod = amounts(given["pod"]["requests"])
    scores = {}
    for node in given["nodes"]:
        ratio = node["cpuRatio"]
        used: Amounts = {}
        for each in node["pods"]:
            add_into(used, amounts(each["requests"]))
        own = sum(amounts(each["requests"])[CPU] for each in node["pods"] if each["cpuBind"]) // 1000
        scores[node["name"]] = allocation_score(
            given["strategy"],
            given["weights"],
            capacity=amplified_capacity({0: amounts(node["rawAllocatable"])}, ratio)[0],
            requested=used | {CPU: amplified_use(used.get(CPU, 0), own, ratio)},
            request=shown_request(pod, own_cpus=pod[CPU] // 1000 if given["pod"]["cpuBind"] else 0, ratio=ratio),
        )
    assert scores == case["expect"]["scores"]
