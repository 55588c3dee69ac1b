"""What NUMA nodes lend: what SLO says of it, and what their topology is to show, and when."""

import json

import pytest
from tests.services.worlds.lending import GI, Bench

from berth.contracts.codec import encode
from berth.contracts.names import (
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    MEMORY,
)
from berth.contracts.state import NodeResourceTopology
from berth.contracts.subjects import named_key
from berth.slo_manager.reconciler import OBJECTS_PER_S


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.node()
    bench.config()
    shows(bench)
    return bench


def shows(bench: Bench, *lent: int, name: str = "n", zones: int = 2) -> None:
    """The topology, and what it shows that its NUMA nodes lend."""
    entries = []
    for zone in range(zones):
        resources = [{"name": CPU, "allocatable": "50"}, {"name": MEMORY, "allocatable": "200Gi"}]
        if lent:
            amounts = {BATCH_CPU: str(lent[zone]), BATCH_MEMORY: "120Gi"}
            resources += [{"name": each, "allocatable": text} for each, text in amounts.items()]
        entries.append({"name": f"node-{zone}", "type": "Node", "resources": resources})
    topology = NodeResourceTopology(name=name, version=1, zones=entries)
    bench.view.apply(bench.entry(named_key("noderesourcetopology", name), encode(topology)))


def lent(bench: Bench) -> list[int]:
    return [each.amounts[BATCH_CPU] for each in bench.offer().zones]


def written(bench: Bench, name: str = "n") -> list[int] | None:
    zones = bench.offer(name).zones_written
    return None if zones is None else [each.amounts[BATCH_CPU] for each in zones]


def settled(bench: Bench, **report: int) -> list[int] | None:
    bench.settle(**report)
    bench.turn()
    bench.turn()
    return written(bench)


def test_zones_share_what_belongs_to_none(bench: Bench) -> None:
    bench.settle(system=7_000)
    assert lent(bench) == [26_500, 26_500]


def test_the_topology_is_to_show_it_when_it_is_its_turn(bench: Bench) -> None:
    assert settled(bench, system=7_000) == [26_500, 26_500]
    (zone, _) = bench.offer().zones_written or ()
    assert zone.amounts.keys() == {BATCH_CPU, BATCH_MEMORY}
    assert zone.amounts[BATCH_MEMORY] == 120 * GI
    at_s = bench.offer().zones_written_at
    shows(bench, 26_500, 26_500)
    bench.turn()
    assert bench.offer().zones_written_at == at_s, "it shows what it was asked to show"


def test_a_small_change_is_written_when_the_last_one_is_old(bench: Bench) -> None:
    settled(bench, system=7_000)
    at_s = bench.offer().zones_written_at
    bench.report(system=9_000)
    bench.turn()
    bench.turn()
    assert (lent(bench), written(bench)) == ([25_500, 25_500], [26_500, 26_500])
    bench.turn(after_s=300.0)
    bench.turn()
    assert written(bench) == [25_500, 25_500]
    assert bench.offer().zones_written_at > at_s + 300


def test_a_large_one_at_once(bench: Bench) -> None:
    settled(bench, system=7_000)
    bench.report(system=27_000)
    bench.turn()
    bench.turn()
    assert written(bench) == [16_500, 16_500]


@pytest.mark.parametrize("how", ["off", "silence"])
def test_what_is_not_lent_any_more_is_shown_as_nothing(bench: Bench, how: str) -> None:
    settled(bench, system=7_000)
    if how == "off":
        bench.config(enable=False)
    bench.turn(after_s=1_000.0 if how == "silence" else 1.0)
    bench.turn()
    assert (bench.offer().zones, written(bench)) == ([], [0, 0])


def test_without_the_key_it_shows_nothing_of_ours(bench: Bench) -> None:
    settled(bench, system=7_000)
    shows(bench, 26_500, 26_500)
    bench.no_config()
    bench.turn()
    assert bench.offer().zones_written
    seen = []
    for _ in range(4):
        bench.turn()
        offer = bench.published.offers.messages.get("n")
        seen.append(None if offer is None else offer.zones_written)
    assert seen[-1] is None
    assert [] in seen, "it is said before the offer goes"


def test_who_writes_no_nodes_says_nothing_of_topologies() -> None:
    bench = Bench(sync_offers=False)
    bench.node()
    bench.config()
    shows(bench)
    assert settled(bench, system=7_000) is None
    assert lent(bench) == [26_500, 26_500]


def test_who_ceases_to_write_nodes_leaves_topologies_as_they_are(bench: Bench) -> None:
    settled(bench, system=7_000)
    bench.begin(sync_offers=False)
    bench.turn()
    assert written(bench) is None


def test_after_a_loss_of_the_bus_what_the_topology_shows_counts(bench: Bench) -> None:
    settled(bench, system=7_000)
    shows(bench, 26_500, 26_500)
    bench.published.reset()
    bench.begin()
    bench.report(system=7_000)
    bench.turn()
    bench.turn()
    assert lent(bench) == [26_500, 26_500], "what is lent is not withdrawn until a second report"
    assert written(bench) is None, "it stays as it is"
    for _ in range(2):
        bench.report(system=6_000)
        bench.turn()
    bench.turn()
    assert written(bench) == [27_000, 27_000]


def test_a_restart_writes_nothing_that_is_unchanged(bench: Bench) -> None:
    settled(bench, system=7_000)
    shows(bench, 26_500, 26_500)
    before = bench.offer()
    bench.begin()
    settled(bench, system=7_000)
    assert (bench.offer().zones_written, bench.offer().zones_written_at) == ([*before.zones], before.zones_written_at)


def test_a_zone_that_is_new_or_gone_is_a_large_change(bench: Bench) -> None:
    settled(bench, system=7_000)
    shows(bench, zones=1)
    bench.turn()
    bench.turn()
    assert len(bench.offer().zones_written or ()) == 1


def test_amounts_of_zones_are_in_the_unit_of_the_nodes(bench: Bench) -> None:
    taken = {"allocations": [{"name": "yarn", "priority": "koord-batch", "resources": {BATCH_CPU: "10001"}}]}
    bench.node(
        annotations={
            ANNOTATION_CPU_NORMALIZATION_RATIO: "1.10",
            ANNOTATION_THIRD_PARTY_ALLOCATIONS: json.dumps(taken),
        }
    )
    bench.reconciler._sync_nodes = False
    bench.settle(system=7_000)
    assert bench.amounts()[BATCH_CPU] == 58_300 - 10_001
    assert lent(bench) == [29_150 - 5_001] * 2, "what third parties have lies in no zone in particular"


def test_so_many_a_second_in_the_cluster_falls_first() -> None:
    bench = Bench()
    bench.config()
    names = [f"n{number:02}" for number in range(40)]
    for name in names:
        bench.node(name)
        shows(bench, *((50_000, 50_000) if name > "n19" else ()), name=name)
    for _ in range(2):
        for name in names:
            bench.report(name, system=7_000)
        bench.turn(after_s=60.0)
    came: list[set[str]] = []
    while len(came) < 6 and any(written(bench, name) is None for name in names):
        before = {name for name in names if written(bench, name) is not None}
        bench.turn()
        came.append({name for name in names if written(bench, name) is not None} - before)
    assert all(len(each) <= OBJECTS_PER_S for each in came)
    assert all(name > "n19" for name in came[0]), "ten of them have had their turn before"
    assert all(written(bench, name) == [26_500, 26_500] for name in names)
