"""Reference cases of what nodes lend."""

import json
from decimal import Decimal

import pytest
from msgspec import convert

from berth.contracts.names import (
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    MEMORY,
    MID_CPU,
    MID_MEMORY,
)
from berth.contracts.state import Node, Pod, PodTemplate
from berth.resources.amounts import add_into, parse_amounts
from berth.rules.cpus.node_reservation import read_node_reservation, trimmed
from berth.rules.cpus.qos import ContainerSize, kube_qos_class
from berth.rules.load_aware.node_metric import read_node_metric
from berth.rules.node_strategies.colocation import DEFAULT, Colocation
from berth.rules.node_strategies.config import COLOCATION, read_config
from berth.rules.node_strategies.shapes import check
from berth.slo_manager.core.offers.age import is_stale
from berth.slo_manager.core.offers.batch import batch_offer
from berth.slo_manager.core.offers.difference import differs
from berth.slo_manager.core.offers.facts import Facts, facts_of, holder_of
from berth.slo_manager.core.offers.mid import mid_offer
from berth.slo_manager.core.offers.origin import shown_values
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.core.offers.strategy import strategy_of
from berth.slo_manager.core.offers.sums import Sum
from berth.slo_manager.core.offers.zones import split, zone_offers
from berth.slo_manager.core.render import chosen
from berth.testing.vectors import cases


def amounts(given) -> dict[str, int]:
    found, problems = parse_amounts(given, "given")
    assert not problems
    return found


def node_of(given) -> Node:
    annotations = given.get("annotations", {})
    return Node(
        name=given.get("name", "n"),
        uid="u",
        version=1,
        labels=given.get("labels", {}),
        annotations=annotations,
        capacity=amounts(given.get("capacity", {})),
        allocatable=trimmed(amounts(given.get("allocatable", {})), read_node_reservation(annotations)[0]),
    )


def pod_of(given, at: int) -> Pod:
    sizes = [
        ContainerSize(amounts(each.get("requests", {})), amounts(each.get("limits", {})))
        for each in given["containers"]
    ]
    requests: dict[str, int] = {}
    for each in sizes:
        add_into(requests, each.requests)
    template = PodTemplate(
        requests=requests,
        kube_qos=kube_qos_class(sizes),
        priority=given.get("priority") or 0,
        labels=given.get("labels", {}),
        annotations=given.get("annotations", {}),
    )
    return Pod(
        namespace=given["namespace"],
        name=given["name"],
        uid=f"u{at}",
        version=1,
        template=template,
        node="n",
        phase=given["phase"],
    )


def facts(given) -> Facts:
    told = given["nodeMetric"]
    usage = {name: {"resources": told[name]} for name in ("nodeUsage", "systemUsage") if name in told}
    reclaimable = told.get("prodReclaimable")
    status = {
        "updateTime": "2025-01-01T00:00:00Z",
        "nodeMetric": usage,
        "podsMetric": [
            {**each, "podUsage": {"resources": each["usage"]}, "priority": each.get("priority", "")}
            for each in told.get("podsMetric", [])
        ],
        "hostApplicationMetric": [
            {**each, "usage": {"resources": each["usage"]}} for each in told.get("hostApplications", [])
        ],
        "prodReclaimableMetric": None if reclaimable is None else {"resource": {"resources": reclaimable}},
    }
    metric, problems = read_node_metric(status, 1e10)
    assert metric is not None
    assert not problems
    holders = [holder_of(pod_of(each, at)) for at, each in enumerate(given["pods"])]
    zones = {
        int(each["name"].removeprefix("node-")): amounts(each["allocatable"]) for each in given.get("numaZones", [])
    }
    return facts_of(
        node_of(given["node"]), metric, by_uid=False, holders=[each for each in holders if each], zones=zones
    )


def strategy(given) -> Colocation:
    return convert({**DEFAULT, **given["strategy"]}, Colocation)


def is_exact(found: dict[str, Sum]) -> bool:
    return all(each.amount == sum(each.terms.values()) and each.amount >= 0 for each in found.values())


@pytest.mark.parametrize("case", cases("overcommit/batch_allocatable"))
def test_batch(case):
    known = facts(case["given"])
    found = batch_offer(known, strategy(case["given"]), Rules(forgets_unmeasured=True))
    assert is_exact(found)
    assert found[BATCH_CPU].amount == case["expect"]["batchCpuMilli"]
    assert found[BATCH_MEMORY].amount == case["expect"]["batchMemoryBytes"]
    zones = zone_offers(known, strategy(case["given"]))
    assert {
        f"node-{zone}": {"batchCpuMilli": each[BATCH_CPU], "batchMemoryBytes": each[BATCH_MEMORY]}
        for zone, each in zones.items()
    } == case["expect"].get("zones", {})


@pytest.mark.parametrize("case", cases("overcommit/mid_allocatable"))
def test_mid(case):
    given = case["given"]
    found = mid_offer(facts(given), strategy(given), Rules(mid_formula=given["formula"]))
    assert is_exact(found)
    assert found[MID_CPU].amount == case["expect"]["midCpuMilli"]
    assert found[MID_MEMORY].amount == case["expect"]["midMemoryBytes"]


@pytest.mark.parametrize("case", cases("overcommit/degrade"))
def test_age(case):
    given, now_s = case["given"], 1_000_000.0
    seconds = (given["nodeMetricStatus"] or {}).get("updatedSecondsAgo")
    arrived_s = None if seconds is None else now_s - seconds
    assert is_stale(arrived_s, now_s, given["degradeTimeMinutes"]) == case["expect"]["degrade"]


@pytest.mark.parametrize("case", cases("overcommit/need_sync"))
def test_difference(case):
    given = case["given"]
    old, new = amounts(given["old"]), amounts(given["new"])
    assert differs(old, new, given["resource"], given["threshold"]) == case["expect"]["needSync"]


def share_text(name: str, part: int) -> str:
    """In the notation of the cases: a plain number, or thousandths of one."""
    return str(part // 1000) if part % 1000 == 0 else f"{part}m"


@pytest.mark.parametrize("case", cases("overcommit/numa_split"))
def test_split(case):
    given = case["given"]
    zones = range(given["numaNum"])
    for what in ("request", "usage"):
        whole = amounts(given[what])
        parts = {
            name: split(whole[name] * (1 if name == CPU else 1000), given["allocatedNuma"], zones)
            for name in (CPU, MEMORY)
        }
        found = [{name: share_text(name, parts[name][zone]) for name in (CPU, MEMORY)} for zone in zones]
        assert found == case["expect"][what]


@pytest.mark.parametrize("case", cases("overcommit/third_party_allocation"))
def test_third_parties(case):
    given, expect = case["given"], case["expect"]
    annotations = {
        ANNOTATION_THIRD_PARTY_ALLOCATIONS: json.dumps({"allocations": given.get("thirdPartyAllocations", [])})
    }
    if "cpuNormalizationRatio" in given:
        annotations[ANNOTATION_CPU_NORMALIZATION_RATIO] = given["cpuNormalizationRatio"]
    calculated = given["calculated"]
    sums = (
        {}
        if calculated is None
        else {
            BATCH_CPU: Sum({"calculated": calculated["batchCpuMilli"]}),
            BATCH_MEMORY: Sum({"calculated": calculated["batchMemoryBytes"]}),
        }
    )
    found = shown_values(sums, annotations, {})
    assert found.resources.get(BATCH_CPU) == expect["nodeBatchCpuMilli"]
    assert found.resources.get(BATCH_MEMORY) == expect["nodeBatchMemoryBytes"]
    assert found.origin == {BATCH_CPU: expect["originBatchCpuMilli"], BATCH_MEMORY: expect["originBatchMemoryBytes"]}


@pytest.mark.parametrize("case", cases("overcommit/colocation_strategy_merge"))
def test_strategy_of_a_node(case):
    given = case["given"]
    config = read_config({"colocation-config": json.dumps(given["config"])}, {})
    assert config.unusable == ()
    node = node_of(given["node"])
    base = chosen(COLOCATION, config.sections[COLOCATION], node.labels, {}, [])
    assert strategy_of(base, node, as_reference=True).value == {**DEFAULT, **case["expect"]["strategy"]}


@pytest.mark.parametrize("case", cases("overcommit/colocation_strategy_validity"))
def test_ranges_of_a_strategy(case):
    assert (check(case["given"]["strategy"], Colocation, "") is None) == case["expect"]["valid"]


def test_ratios_are_decimal_numbers():
    node = Node(name="n", uid="u", version=1, labels={"node.koordinator.sh/cpu-reclaim-ratio": "0.29"})
    assert strategy_of(DEFAULT, node).value["cpuReclaimThresholdPercent"] == int(Decimal("0.29") * 100)
    assert strategy_of(DEFAULT, node, as_reference=True).value["cpuReclaimThresholdPercent"] == 28
