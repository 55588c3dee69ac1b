"""What nodes lend: from what the buckets show to SLO and to the status of nodes."""

import json

import pytest
from tests.services.worlds.lending import GI, SIZE, Bench

from berth.contracts.codec import encode
from berth.contracts.command import ApplyObject
from berth.contracts.names import (
    ANNOTATION_ORIGIN_ALLOCATABLE,
    ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    MEMORY,
    MID_CPU,
    MID_MEMORY,
)
from berth.contracts.state import NodeMetric
from berth.contracts.subjects import named_key
from berth.rules.times import text_of
from berth.slo_manager.views import OFFER


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.node()
    bench.config()
    return bench


def test_what_pods_and_the_system_leave_is_lent(bench):
    bench.pod("p", cpu=40_000)
    offer = bench.settle(system=7_000, p=20_000)
    assert offer.offers[BATCH_CPU].amount == 33_000
    assert offer.offers[BATCH_CPU].terms == {"capacity": 100_000, "margin": -40_000, "system": -7_000, "pods": -20_000}
    assert (offer.reporter, offer.reason, offer.reported_at) == ("agent", "", bench.now_s - 60)
    assert offer.offers.keys() == {BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY}


def test_a_pod_that_nobody_has_measured_may_use_what_it_asks_for(bench):
    bench.settle(system=7_000)
    bench.pod("new", cpu=40_000, memory=GI)
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 13_000
    bench.pod("batch", qos="BE", cpu=40_000)
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 13_000, "who lives on what is lent makes it no less"


def test_it_falls_at_once_and_rises_after_two_reports(bench):
    bench.settle(system=20_000)
    assert bench.amounts()[BATCH_CPU] == 40_000
    bench.report(system=30_000)
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 30_000
    first = bench.offer().revision
    bench.report(system=5_000)
    bench.turn()
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 30_000, "one report, however often it is looked at"
    assert bench.offer().revision == first
    bench.turn(after_s=30)
    bench.report(system=10_000)
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 50_000
    assert bench.offer().revision > first


def test_reports_age_by_their_arrival(bench):
    bench.lend(system=7_000)
    bench.turn(after_s=15 * 60 - 62)
    assert bench.amounts()
    bench.turn(after_s=70)
    assert (bench.amounts(), bench.offer().reason) == ({}, "the report is too old")
    sent = bench.turn()[0]
    assert BATCH_CPU not in bench.shown["n"].allocatable
    assert set(sent.resources.values()) == {None}
    assert json.loads(sent.annotations[ANNOTATION_ORIGIN_ALLOCATABLE]) == {
        "resources": {BATCH_CPU: "0", BATCH_MEMORY: "0"}
    }


def test_a_koordlet_counts_where_our_agent_is_not(bench):
    for minute in range(2):
        bench.koordlet(updated=f"2025-01-01T00:0{minute}:00Z")
        bench.turn()
    assert (bench.amounts()[BATCH_CPU], bench.offer().reporter) == (53_000, "koordlet")
    bench.koordlet(updated="2025-01-01T00:01:00Z", system="1")
    bench.turn(after_s=16 * 60)
    assert bench.amounts() == {}, "the same report, written again, is as old as it was"
    bench.report(system=10_000)
    bench.koordlet(updated="2025-01-01T00:02:00Z")
    bench.turn()
    assert bench.offer().reporter == "agent"


def test_nodes_are_written_in_one_patch_and_not_again(bench):
    bench.lend(system=7_000)
    assert [each.resources[BATCH_CPU] for each in bench.sent] == ["53k"]
    assert bench.sent[0].annotations.keys() == {ANNOTATION_ORIGIN_ALLOCATABLE}
    assert bench.offer().written[BATCH_CPU] == 53_000
    bench.report(system=7_500)
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 52_500
    assert [*bench.turn(), *bench.turn()] == [], "less than a tenth"
    bench.turn(after_s=301)
    assert [each.resources[BATCH_CPU] for each in bench.turn()] == ["52500"], "the last write is old enough"


def test_a_kubelet_that_registers_anew_is_put_right(bench):
    bench.lend(system=7_000)
    zero = dict.fromkeys((BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY), 0)
    bench.node(allocatable=SIZE | zero, capacity=SIZE | zero)
    bench.turn()
    assert len(bench.turn()) == 1


def test_a_restart_writes_nothing_unchanged(bench):
    bench.lend(system=7_000)
    before, bench.sent = bench.offer(), []
    bench.begin()
    bench.report(system=7_000)
    for _ in range(3):
        bench.turn()
    assert bench.sent == []
    assert bench.offer() == before


def test_a_lost_bucket_takes_nothing_from_nodes(bench):
    bench.lend(system=7_000)
    bench.sent = []
    bench.published.reset()
    bench.begin()
    bench.report(system=8_000)
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 52_000, "no more than the node shows, nor than the newest report allows"
    assert {each.resources[BATCH_CPU] for _ in range(3) for each in bench.turn()} <= {"52k"}


def test_a_report_that_leaves_the_system_out_lends_no_more_for_it(bench):
    usage = {"resources": {"cpu": "30", "memory": "20Gi"}}
    for minute in range(2):
        pods = [{"namespace": "d", "name": "gone", "priority": "koord-batch", "podUsage": {"resources": {"cpu": "10"}}}]
        status = {"updateTime": f"2025-01-01T00:0{minute}:00Z", "nodeMetric": {"nodeUsage": usage}, "podsMetric": pods}
        metric = NodeMetric(name="n", version=1, status=status)
        bench.reports.objects.apply(bench.entry(named_key("nodemetric", "n"), encode(metric)))
        bench.turn()
    assert bench.amounts()[BATCH_CPU] == 40_000
    status = {"updateTime": "2025-01-01T00:03:00Z", "nodeMetric": {}}
    bench.reports.objects.apply(
        bench.entry(named_key("nodemetric", "n"), encode(NodeMetric(name="n", version=1, status=status)))
    )
    bench.turn()
    assert bench.offer().reason == "the report does not say what is used"


def test_falls_go_first_then_the_largest():
    bench = Bench()
    bench.config()
    names = [f"n{at:02}" for at in range(40)]
    for at, name in enumerate(names):
        bench.node(name)
        shown = SIZE | {BATCH_CPU: 90_000 if at == 39 else 0, BATCH_MEMORY: 0, MID_CPU: 0, MID_MEMORY: 0}
        bench.node(name, allocatable=shown, capacity=shown)
    for _ in range(2):
        for at, name in enumerate(names):
            bench.report(name, system=1_000 * at, memory=140 * GI)
        for name in names:
            bench.turn(name, after_s=0.001)
    sent = bench.turn(after_s=0.5)
    assert 2 <= len(sent) <= 10
    assert {each.name for each in sent} == {"n39", *names[: len(sent) - 1]}
    more = [len(bench.turn()) for _ in range(5)]
    assert max(more) <= 10
    assert sum(more) + len(sent) >= 40


def test_third_parties_take_theirs_first(bench):
    taken = {"allocations": [{"name": "yarn", "priority": "koord-batch", "resources": {BATCH_CPU: "10k"}}]}
    bench.node(annotations={ANNOTATION_THIRD_PARTY_ALLOCATIONS: json.dumps(taken)})
    offer = bench.settle(system=7_000)
    assert (offer.origin[BATCH_CPU], bench.amounts()[BATCH_CPU]) == (53_000, 43_000)
    bench.node(annotations={ANNOTATION_THIRD_PARTY_ALLOCATIONS: "{"})
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 43_000, "a word that cannot be read gives nothing back"
    assert bench.offer().problems[0].field == f"metadata.annotations[{ANNOTATION_THIRD_PARTY_ALLOCATIONS}]"


@pytest.mark.parametrize("how", ["cluster", "annotation"])
def test_switched_off_nothing_is_lent(bench, how):
    bench.lend(system=7_000)
    if how == "cluster":
        bench.config(enable=False)
    else:
        off = {"node.koordinator.sh/colocation-strategy": '{"enable":false}'}
        bench.node(annotations={**bench.shown["n"].annotations, **off})
    bench.turn()
    assert (bench.amounts(), bench.offer().reason) == ({}, "switched off")
    bench.turn()
    assert BATCH_CPU not in bench.shown["n"].allocatable


def test_without_the_key_ours_goes_and_anothers_stays(bench):
    bench.lend(system=7_000)
    bench.no_config()
    bench.turn()
    bench.turn()
    bench.turn()
    assert BATCH_CPU not in bench.shown["n"].allocatable
    assert bench.published.offers.messages == {}
    others = SIZE | {BATCH_CPU: 5}
    bench.node(allocatable=others, capacity=others)
    assert [bench.turn() for _ in range(3)] == [[], [], []]


def test_another_writers_resources_stay_when_writing_is_off():
    bench = Bench(sync_offers=False)
    bench.node()
    bench.config()
    bench.settle(system=7_000)
    assert bench.amounts()[BATCH_CPU] == 53_000
    assert bench.sent == []


def test_a_strategy_out_of_range_on_a_node_counts_for_nothing(bench):
    bench.node(annotations={"node.koordinator.sh/colocation-strategy": '{"cpuReclaimThresholdPercent":-5}'})
    offer = bench.settle(system=7_000)
    assert bench.amounts()[BATCH_CPU] == 53_000
    assert [each.field for each in offer.problems] == [
        "metadata.annotations[node.koordinator.sh/colocation-strategy].cpuReclaimThresholdPercent"
    ]


def test_a_node_that_goes_takes_its_offer_along(bench):
    bench.settle(system=7_000)
    bench.view.apply(bench.entry(named_key("node", "n"), deleted=True))
    bench.turn()
    assert named_key(OFFER, "n") not in bench.published.offers.keys


def shown_by(bench: Bench, command: ApplyObject) -> None:
    metric = NodeMetric(name=command.name, version=1, status=command.status)
    bench.reports.objects.apply(bench.entry(named_key("nodemetric", command.name), encode(metric)))


def test_reports_are_mirrored_a_minute_behind_and_not_sooner():
    bench = Bench(mirrors=True)
    bench.node()
    bench.config()
    bench.pod("p", cpu=1_000)
    bench.report(p=500)
    bench.turn()
    bench.turn()
    (made,) = bench.mirrored
    assert (made.api, made.owner.uid) == ("slo.koordinator.sh/v1alpha1/nodemetrics", "u")
    assert made.status["nodeMetric"]["nodeUsage"]["resources"] == {CPU: "7500m", MEMORY: "20Gi"}
    assert made.status["podsMetric"] == [
        {
            "namespace": "d",
            "name": "p",
            "podUsage": {"resources": {CPU: "500m", MEMORY: "0"}},
            "priority": "koord-prod",
        }
    ]
    shown_by(bench, made)
    bench.report(p=600)
    bench.turn(after_s=30)
    bench.turn()
    assert len(bench.mirrored) == 1
    bench.turn(after_s=40)
    bench.report(p=700)
    bench.turn()
    bench.turn()
    assert len(bench.mirrored) == 2
    assert bench.offer().reporter == "agent", "the mirror is no report"


def test_mirroring_takes_its_turns():
    bench = Bench(mirrors=True)
    for number in range(30):
        bench.node(f"n{number}")
        bench.report(f"n{number}")
    for _ in range(2):
        bench.turn()
    assert 0 < len(bench.mirrored) <= 20
    for _ in range(3):
        bench.turn()
    assert sorted(each.name for each in bench.mirrored) == sorted(bench.shown)


def test_a_koordlets_object_is_not_written_while_it_reports():
    bench = Bench(mirrors=True)
    bench.node()
    bench.report()
    bench.koordlet(updated=text_of(bench.now_s))
    for _ in range(3):
        bench.turn()
    assert bench.mirrored == []


def test_people_are_told_what_waits_for_a_second_report(bench):
    bench.pod("p", cpu=40_000)
    bench.lend(system=7_000, p=20_000)
    bench.report(system=7_000, p=5_000)
    bench.turn()
    answer = bench.reconciler.answer("n", bench.at)
    assert answer.offer == bench.offer()
    assert answer.newest[BATCH_CPU].terms == {
        "capacity": 100_000,
        "margin": -40_000,
        "system": -7_000,
        "pods": -5_000,
        "waiting": -15_000,
    }
    assert answer.shown[BATCH_CPU] == answer.offer.offers[BATCH_CPU].amount == 33_000
    # To ask changes nothing: the second report is the one after the first.
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 33_000
    bench.report(system=7_000, p=5_000)
    bench.turn()
    assert bench.amounts()[BATCH_CPU] == 48_000


def test_people_are_told_why_nothing_is_lent(bench):
    bench.turn()
    answer = bench.reconciler.answer("n", bench.at)
    assert (answer.offer.reason, answer.newest, answer.reported_at) == ("the node does not report", {}, 0.0)
    assert bench.reconciler.answer("stranger", bench.at).outcome == "unknown"
