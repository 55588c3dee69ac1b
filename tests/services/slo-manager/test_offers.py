"""What nodes lend: from what the buckets show to SLO and to the status of nodes."""

import json

import pytest
from msgspec.structs import replace

from berth.bus.port import Entry
from berth.contracts.codec import encode
from berth.contracts.command import ApplyObject, OfferNode
from berth.contracts.metrics import NodeMetrics, PodUsage, Usage
from berth.contracts.names import (
    ANNOTATION_ORIGIN_ALLOCATABLE,
    ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    LABEL_QOS,
    MEMORY,
    MID_CPU,
    MID_MEMORY,
)
from berth.contracts.slo import NodeOffer
from berth.contracts.state import ConfigMap, Node, NodeMetric, NodeResourceTopology, Pod, PodTemplate, Synced
from berth.contracts.subjects import named_key, namespaced_key, synced_key
from berth.rules.times import text_of
from berth.runtime import Moment
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.reconciler import Reconciler
from berth.slo_manager.views import OFFER, PodView, Pressures, Reports, SloView, StateView

MAP = ("berth-system", "slo-controller-config")
CONFIG = namespaced_key("configmap", *MAP)
GI = 2**30
SIZE = {CPU: 100_000, MEMORY: 400 * GI}
START_S = 1_000_000.0


class Bench:
    """A reconciler with its views, fed by hand; a clock of its own."""

    def __init__(self, *, sync_offers: bool = True, mirrors: bool = False) -> None:
        self.mirrors = mirrors
        self.mirrored: list[ApplyObject] = []
        self.now_s = START_S
        self.marked: list[str] = []
        self.view = StateView(MAP, self.marked.append, lambda: None)
        self.pods = PodView(self.marked.append, lambda: None)
        self.reports = Reports(self.marked.append, lambda: None)
        self.pressures = Pressures(self.marked.append)
        self.published = SloView(self.marked.append)
        self.shown: dict[str, Node] = {}
        self.sent: list[OfferNode] = []
        self.begin(sync_offers=sync_offers)
        for kind in ("nodes", CONFIG):
            self.view.apply(self.entry(synced_key(kind), encode(Synced(kind=kind, version=1, complete=True))))
        self.pods.apply(self.entry(synced_key("pods"), encode(Synced(kind="pods", version=1, complete=True))))
        for each in (self.view, self.pods, self.reports.agents, self.reports.objects):
            each.end(1)

    def begin(self, *, sync_offers: bool = True) -> None:
        self.reconciler = Reconciler(
            self.view,
            self.pods,
            self.reports,
            self.pressures,
            self.published,
            config_map=MAP,
            sync_objects=False,
            sync_nodes=True,
            sync_offers=sync_offers,
            mirror_metrics=self.mirrors,
            evictions_per_hour=20,
            rules=Rules(),
        )

    def entry(self, key: str, value: bytes = b"", *, deleted: bool = False) -> Entry:
        return Entry(key, value, deleted, 1, 0, False, None, self.now_s)

    def config(self, **strategy) -> None:
        data = {"colocation-config": json.dumps({"enable": True, **strategy})}
        self.view.apply(self.entry(CONFIG, encode(ConfigMap(namespace=MAP[0], name=MAP[1], version=1, data=data))))

    def no_config(self) -> None:
        self.view.apply(self.entry(CONFIG, encode(ConfigMap(namespace=MAP[0], name=MAP[1], version=1))))

    def node(self, name="n", **given) -> None:
        node = self.shown.get(name) or Node(name=name, uid="u", version=1, allocatable=SIZE, capacity=SIZE)
        self.shown[name] = node = replace(node, **given)
        self.view.apply(self.entry(named_key("node", name), encode(node)))

    def pod(self, name="p", *, node="n", phase="Running", qos="LS", deleted=False, **requests) -> None:
        template = PodTemplate(requests=requests, labels={LABEL_QOS: qos})
        pod = Pod(namespace="d", name=name, uid=name, version=1, template=template, node=node, phase=phase)
        self.pods.apply(self.entry(namespaced_key("pod", "d", name), encode(pod), deleted=deleted))

    def report(self, name="n", *, system=7_000, memory=20 * GI, qos="burstable", **pods) -> None:
        message = NodeMetrics(
            node=name,
            measured_at=1.0,  # no clock of a node counts
            interval_s=10.0,
            memory_total_bytes=400 * GI,
            node_usage=Usage(cpu_milli=system + sum(pods.values()), memory_bytes=memory),
            system_usage=Usage(cpu_milli=system, memory_bytes=memory),
            pods=[PodUsage(uid=uid, qos=qos, usage=Usage(cpu_milli=milli)) for uid, milli in pods.items()],
        )
        self.reports.agents.apply(self.entry(named_key("node", name), encode(message)))

    def koordlet(self, name="n", *, system="7", updated="2025-01-01T00:00:00Z") -> None:
        usage = {"resources": {"cpu": system, "memory": "20Gi"}}
        status = {"updateTime": updated, "nodeMetric": {"nodeUsage": usage, "systemUsage": usage}}
        metric = NodeMetric(name=name, version=1, status=status)
        self.reports.objects.apply(self.entry(named_key("nodemetric", name), encode(metric)))

    def turn(self, *names: str, after_s=1.0) -> list[OfferNode]:
        """A tick and all that follows; the API server does what it is asked to."""
        self.now_s += after_s
        due = self.reconciler.due(self.at)
        sent = []
        for name in dict.fromkeys((*(names or self.shown), *due)):
            outcome = self.reconciler.reconcile(name, self.at)
            for write in outcome.writes:
                self.published.wrote(write.key, write.message)
            sent += [each.message for each in outcome.commands if isinstance(each.message, OfferNode)]
            self.mirrored += [each.message for each in outcome.commands if isinstance(each.message, ApplyObject)]
        for each in sent:
            self.carry_out(each)
        self.sent += sent
        return sent

    def carry_out(self, command: OfferNode) -> None:
        node = self.shown[command.name]
        after = {
            field: {
                **{name: amount for name, amount in getattr(node, field).items() if name not in command.resources},
                **{name: amount_of(name, text) for name, text in command.resources.items() if text is not None},
            }
            for field in ("allocatable", "capacity")
        }
        notes = {**node.annotations, **{name: text or "" for name, text in command.annotations.items()}}
        self.node(command.name, **after, annotations=notes)

    def settle(self, **report) -> NodeOffer:
        """Two reports that say the same."""
        for _ in range(2):
            self.report(**report)
            self.turn(after_s=60.0)
        return self.offer()

    def lend(self, **report) -> NodeOffer:
        """The same, shown by the node."""
        self.settle(**report)
        self.turn()
        self.turn()
        return self.offer()

    @property
    def at(self) -> Moment:
        return Moment(self.now_s, self.now_s)

    def offer(self, name="n") -> NodeOffer:
        found = self.published.offers.messages[name]
        for each in found.offers.values():
            assert each.amount == sum(each.terms.values())
            assert each.amount >= 0
        return found

    def amounts(self, name="n") -> dict[str, int]:
        return {resource: each.amount for resource, each in self.offer(name).offers.items()}


def amount_of(name: str, text: str) -> int:
    scale = {"Gi": GI, "Mi": 2**20, "Ki": 2**10, "k": 1000, "M": 10**6}
    return next((int(text.removesuffix(end)) * size for end, size in scale.items() if text.endswith(end)), None) or int(
        text
    )


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


def test_zones_share_what_belongs_to_none(bench):
    resources = [{"name": CPU, "allocatable": "50"}, {"name": MEMORY, "allocatable": "200Gi"}]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)]
    topology = NodeResourceTopology(name="n", version=1, zones=zones)
    bench.view.apply(bench.entry(named_key("noderesourcetopology", "n"), encode(topology)))
    offer = bench.settle(system=7_000)
    assert [each.amounts[BATCH_CPU] for each in offer.zones] == [26_500, 26_500]


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
