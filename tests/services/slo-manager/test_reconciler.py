"""What the buckets show in, what has to be written and asked for out."""

import json
from itertools import pairwise
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import encode
from berth.contracts.command import AnnotateNode, ApplyObject
from berth.contracts.event import ObjectRefused
from berth.contracts.names import ANNOTATION_AMPLIFICATION_RATIO, ANNOTATION_CPU_NORMALIZATION_RATIO
from berth.contracts.slo import NodeSLO
from berth.contracts.state import ConfigMap, Node, Synced
from berth.contracts.subjects import named_key, namespaced_key, synced_key
from berth.runtime import Moment, Outcome
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.reconciler import API, Reconciler
from berth.slo_manager.views import PodView, Pressures, Reports, SloView, StateView

MAP = ("berth-system", "slo-controller-config")
CONFIG = namespaced_key("configmap", *MAP)


def entry(key: str, value: bytes = b"", *, deleted: bool = False) -> Entry:
    return Entry(key=key, value=value, deleted=deleted, sequence=1, pending=0, gap=False, traceparent=None)


class Decision(NamedTuple):
    """What an outcome comes to for one node."""

    strategy: NodeSLO | None = None
    withdraw: bool = False
    apply: ApplyObject | None = None


class Bench:
    """A reconciler with its views, fed by hand."""

    def __init__(self, *, sync_objects: bool = True, sync_nodes: bool = True) -> None:
        self.sync_nodes = sync_nodes
        self.marked: list[str] = []
        self.refused: list[ObjectRefused] = []
        self.view = StateView(MAP, self.marked.append, lambda: self.marked.append("all"))
        self.pods = PodView(self.marked.append, lambda: self.marked.append("all"))
        self.reports = Reports(self.marked.append, lambda: self.marked.append("all"))
        self.pressures = Pressures(self.marked.append)
        self.published = SloView(self.marked.append)
        self.begin(sync_objects=sync_objects)

    def begin(self, *, sync_objects: bool) -> None:
        self.reconciler = Reconciler(
            self.view,
            self.pods,
            self.reports,
            self.pressures,
            self.published,
            config_map=MAP,
            sync_objects=sync_objects,
            sync_nodes=self.sync_nodes,
            sync_offers=True,
            mirror_metrics=False,
            evictions_per_hour=20,
            rules=Rules(),
        )

    def node(self, name="n", *, uid="u", **labels) -> None:
        node = Node(name=name, uid=uid, version=1, labels=labels)
        self.view.apply(entry(named_key("node", name), encode(node)))

    def config(self, **strategy) -> None:
        data = {"resource-threshold-config": json.dumps({"clusterStrategy": strategy})}
        self.texts(data)

    def texts(self, data) -> None:
        self.view.apply(entry(CONFIG, encode(ConfigMap(namespace=MAP[0], name=MAP[1], version=1, data=data))))

    def complete(self, *, nodes=True, config=True) -> None:
        for kind, complete in (("nodes", nodes), (CONFIG, config)):
            self.view.apply(entry(synced_key(kind), encode(Synced(kind=kind, version=1, complete=complete))))
        self.view.end(1)

    def reconcile(self, name="n", now_ms=5) -> Outcome:
        outcome = self.reconciler.reconcile(name, Moment(now_ms / 1000, 0.0))
        self.refused += [event.message for event in outcome.events]
        for write in outcome.writes:  # as the harness does
            self.published.wrote(write.key, write.message)
        return outcome

    def decide(self, name="n", now_ms=5) -> Decision:
        if not self.reconciler.is_ready:
            return Decision()
        outcome = self.reconcile(name, now_ms)
        (written,) = [write.message for write in outcome.writes] or [None]
        (apply,) = [command.message for command in outcome.commands] or [None]
        return Decision(written, bool(outcome.writes) and written is None, apply)


def test_nothing_is_decided_before_all_is_known():
    bench = Bench()
    bench.node()
    assert bench.decide().strategy is None
    assert bench.view.missing == "reading the state of the cluster"
    bench.complete(config=False)
    assert bench.decide().strategy is None
    assert "ConfigMap" in bench.view.missing
    bench.complete(nodes=False)
    assert bench.decide().strategy is None
    assert "nodes" in bench.view.missing
    bench.marked.clear()
    bench.complete()
    assert bench.marked == ["all"]
    assert bench.view.missing == "complete"
    assert bench.decide().strategy.node == "n"


def test_a_strategy_is_published_and_its_object_asked_for_once():
    bench = Bench()
    bench.node()
    bench.config(enable=True)
    bench.complete()
    outcome = bench.decide()
    assert outcome.strategy.cpu_suppress.enabled
    assert (outcome.apply.api, outcome.apply.name, outcome.apply.revision) == (API, "n", 5)
    assert outcome.apply.spec == outcome.strategy.spec
    assert (outcome.apply.owner.kind, outcome.apply.owner.name, outcome.apply.owner.uid) == ("Node", "n", "u")
    again = bench.decide()
    assert (again.strategy, again.apply, again.withdraw) == (None, None, False)


def test_a_later_request_has_the_higher_revision_though_the_clock_went_back():
    bench = Bench()
    bench.node()
    bench.config(enable=True)
    bench.complete()
    assert bench.decide(now_ms=1_000).strategy.revision == 1_000
    bench.config(enable=False)
    outcome = bench.decide(now_ms=400)
    assert outcome.strategy.revision == outcome.apply.revision == 1_001
    bench.node(pool="other")
    assert bench.decide(now_ms=2_000).apply is None
    assert bench.published.messages["n"].revision == 1_001, "of the last request"
    bench.config(enable=True)
    assert bench.decide(now_ms=3_000).apply.revision == 3_000


def test_what_only_people_read_asks_for_no_object():
    bench = Bench()
    bench.node()
    bench.texts({})
    bench.complete()
    bench.decide()
    strategies = [{"name": name, "nodeSelector": {}} for name in "ab"]
    bench.texts({"system-config": json.dumps({"nodeStrategies": strategies})})
    outcome = bench.decide()
    assert outcome.strategy.problems
    assert outcome.apply is None


def test_a_node_that_was_made_anew_gets_its_object_again():
    bench = Bench()
    bench.node()
    bench.texts({})
    bench.complete()
    bench.decide()
    bench.node(uid="v")
    assert bench.decide().apply.owner.uid == "v"


def test_without_a_config_map_no_object_is_made_or_touched():
    bench = Bench()
    bench.node()
    bench.complete()
    outcome = bench.decide()
    assert outcome.strategy == NodeSLO(node="n", uid="u", configured=False, spec=outcome.strategy.spec)
    assert outcome.apply is None
    bench.node(uid="v", pool="other")
    outcome = bench.decide()
    assert (outcome.strategy.uid, outcome.apply) == ("v", None)


def test_a_config_map_that_comes_and_goes_is_shown_and_taken_back():
    bench = Bench()
    bench.node()
    bench.complete()
    defaults = bench.decide().strategy.spec
    bench.texts({})
    assert bench.decide().apply.spec == defaults, "what is in force is shown, even if it is the same"
    bench.config(enable=True)
    assert bench.decide().apply.spec != defaults
    bench.view.apply(entry(CONFIG, deleted=True))
    assert bench.decide().apply.spec == defaults
    assert bench.decide().strategy is None


def test_objects_may_be_left_to_others():
    bench = Bench(sync_objects=False)
    bench.node()
    bench.texts({})
    bench.complete()
    outcome = bench.decide()
    assert outcome.strategy is not None
    assert outcome.apply is None


def test_objects_are_asked_for_once_they_are_ours_to_keep():
    bench = Bench(sync_objects=False)
    bench.node()
    bench.config(enable=True)
    bench.complete()
    assert bench.decide().apply is None
    bench.begin(sync_objects=True)
    assert bench.decide().apply is not None
    assert bench.decide().apply is None


def test_a_deleted_node_loses_its_strategy():
    bench = Bench()
    bench.node()
    bench.complete()
    bench.decide()
    bench.view.apply(entry("node.n", deleted=True))
    assert bench.decide().withdraw
    assert not bench.decide().withdraw


def test_the_config_map_is_read_once_and_its_problems_are_announced_once():
    bench = Bench()
    bench.node()
    bench.complete()
    bench.texts({"cpu-burst-config": "{"})
    bench.reconcile()
    (refused,) = bench.refused
    assert [problem.field for problem in refused.problems] == ["data[cpu-burst-config]"]
    bench.reconcile()
    assert len(bench.refused) == 1
    bench.view.apply(entry(CONFIG, deleted=True))
    bench.reconcile()
    assert len(bench.refused) == 1
    assert bench.reconciler.config.problems == ()


def test_a_lost_state_switches_nothing_off():
    bench = Bench()
    bench.node()
    bench.config(enable=True)
    bench.complete()
    bench.decide()
    bench.view.reset()
    bench.view.end(1)
    bench.node()
    assert bench.decide().strategy is None
    bench.complete()
    bench.config(enable=True)
    assert bench.decide().strategy is None, "it says the same as before"


def test_messages_that_cannot_be_read_are_counted_and_leave_what_was_known():
    bench = Bench()
    bench.node()
    bench.config(enable=True)
    bench.complete()
    for key in ("node.n", CONFIG, synced_key("nodes"), "node.=", "node.a.b"):
        bench.view.apply(entry(key, b"{"))
    assert bench.view.unreadable == 5
    assert bench.decide().strategy.cpu_suppress.enabled


def test_what_the_bucket_shows_otherwise_is_put_right():
    bench = Bench()
    bench.node()
    bench.complete()
    ours = bench.decide().strategy
    bench.marked.clear()
    bench.published.apply(entry("node.n", encode(ours)))
    assert bench.marked == []
    bench.published.apply(entry("node.n", encode(NodeSLO(node="n"))))
    assert bench.marked == ["n"]
    again = bench.decide()
    assert again.strategy == replace(ours, revision=again.apply.revision)
    bench.published.apply(entry("node.n", b"{"))
    assert bench.decide().strategy == ours
    bench.published.apply(entry("node.gone", b"{"))
    assert bench.decide("gone").withdraw


class Asked(Bench):
    """One node whose strategy was published, and its object asked for, at second 0."""

    def __init__(self) -> None:
        super().__init__()
        self.node()
        self.config(enable=True)
        self.complete()
        self.objects_known()
        self.first = self.decide().apply

    def objects_known(self, version=1) -> None:
        marker = Synced(kind="nodeslos", version=version, complete=True)
        self.view.apply(entry(synced_key("nodeslos"), encode(marker)))

    def shows(self, revision, *, owner="u") -> None:
        shown = state.NodeSLO(name="n", uid="o", version=2, revision=revision, owner_uid=owner)
        self.view.apply(entry(named_key("nodeslo", "n"), encode(shown)))

    def at(self, second) -> list[ApplyObject]:
        """What is asked for when nothing but time has passed."""
        at = Moment(1000.0 + second, float(second))
        outcomes = [self.reconciler.reconcile(name, at) for name in self.reconciler.due(at)]
        return [command.message for outcome in outcomes for command in outcome.commands]


def test_an_object_that_is_not_shown_is_asked_for_again_as_it_was():
    bench = Asked()
    assert bench.at(59) == []
    assert bench.reconciler.to_be_written == 1
    assert bench.at(60) == [bench.first]
    assert bench.at(179) == []
    assert bench.at(180) == [bench.first]
    bench.shows(bench.first.revision)
    assert bench.at(420) == []
    assert bench.reconciler.to_be_written == 0


@pytest.mark.parametrize("shown", [{"revision": 1}, {"revision": 5, "owner": "former"}])
def test_an_older_object_or_that_of_a_former_node_is_not_it(shown):
    bench = Asked()
    bench.shows(**shown)
    assert bench.at(60) == [bench.first]


def test_it_is_asked_for_less_and_less_often():
    bench = Asked()
    asked = [second for second in range(6 * 3600) if bench.at(second)]
    pauses = [after - before for before, after in zip([0, *asked], asked, strict=False)]
    assert pauses == [60, 120, 240, 480, 960, *[1800] * 10]


def test_objects_that_are_known_later_are_looked_at_then():
    bench = Bench()
    bench.node()
    bench.config(enable=True)
    bench.complete()
    bench.marked.clear()
    marker = Synced(kind="nodeslos", version=1, complete=True)
    bench.view.apply(entry(synced_key("nodeslos"), encode(marker)))
    assert bench.marked == ["all"]


def test_an_object_that_is_deleted_is_written_again():
    bench = Asked()
    bench.shows(bench.first.revision)
    assert bench.at(60) == []
    bench.view.apply(entry(named_key("nodeslo", "n"), deleted=True))
    bench.reconcile(now_ms=70_000)
    assert bench.reconciler.to_be_written == 1


def test_where_the_kind_is_not_installed_nothing_is_asked_for_again():
    bench = Asked()
    bench.objects_known(version=0)
    assert bench.at(60) == []
    assert bench.reconciler.to_be_written == 0


def test_another_replica_asks_again_as_well():
    bench = Asked()
    bench.begin(sync_objects=True)
    bench.reconcile(now_ms=5)
    assert bench.at(60) == [bench.first]


def test_a_node_that_is_gone_is_not_asked_for():
    bench = Asked()
    bench.view.apply(entry(named_key("node", "n"), deleted=True))
    assert bench.at(60) == []
    assert bench.reconciler.to_be_written == 0


class Ratios(Bench):
    """One node of a known kind, whose strategy normalises its cpu by 1.2."""

    def __init__(self, *, sync_nodes: bool = True) -> None:
        super().__init__(sync_objects=False, sync_nodes=sync_nodes)
        self.shown()
        self.cpus("A")
        self.normalise(1.2)
        self.complete()

    def shown(self, uid="u", **texts) -> None:
        names = {"cpu": ANNOTATION_CPU_NORMALIZATION_RATIO, "amplified": ANNOTATION_AMPLIFICATION_RATIO}
        annotations = {names[name]: text for name, text in texts.items()}
        node = Node(name="n", uid=uid, version=1, annotations=annotations)
        self.view.apply(entry(named_key("node", "n"), encode(node)))

    def shows(self, command: AnnotateNode) -> None:
        """The node shows what was asked for."""
        annotations = {name: text for name, text in command.annotations.items() if text is not None}
        node = Node(name="n", uid=command.uid, version=1, annotations=annotations)
        self.view.apply(entry(named_key("node", "n"), encode(node)))

    def cpus(self, model) -> None:
        annotations = {"node.koordinator.sh/cpu-basic-info": json.dumps({"cpuModel": model})}
        topology = state.NodeResourceTopology(name="n", version=1, annotations=annotations)
        self.view.apply(entry(named_key("noderesourcetopology", "n"), encode(topology)))

    def normalise(self, ratio) -> None:
        document = {"enable": True, "ratioModel": {"A": {"baseRatio": ratio}}}
        self.texts({"cpu-normalization-config": json.dumps(document)})

    def at(self, second) -> list[AnnotateNode]:
        """What is asked for when the node is looked at."""
        outcome = self.reconciler.reconcile("n", Moment(1000.0 + second, float(second)))
        for write in outcome.writes:
            self.published.wrote(write.key, write.message)
        return [command.message for command in outcome.commands]

    def due(self, second) -> bool:
        return self.reconciler.due(Moment(1000.0 + second, float(second))) == ["n"]


def test_ratios_are_asked_for_once_and_remembered():
    bench = Ratios()
    (asked,) = bench.at(0)
    assert (asked.name, asked.uid) == ("n", "u")
    assert asked.annotations == {
        ANNOTATION_CPU_NORMALIZATION_RATIO: "1.20",
        ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.20}',
    }
    assert bench.published.messages["n"].annotations == asked.annotations
    assert bench.reconciler.to_be_annotated == 1
    assert bench.at(1) == []
    bench.shows(asked)
    assert bench.at(2) == []
    assert bench.reconciler.to_be_annotated == 0
    assert bench.due(60)
    assert bench.at(60) == []
    assert not bench.due(61), "the request is forgotten"


def test_what_is_not_shown_is_asked_for_less_and_less_often():
    bench = Ratios()
    asked = [second for second in range(6 * 3600) if bench.at(second)]
    pauses = [after - before for before, after in pairwise(asked)]
    assert pauses == [60, 120, 240, 480, 960, *[1800] * 10]


def test_two_managers_never_write_at_each_others_pace():
    bench = Ratios()
    written = []
    for second in range(6 * 3600):
        asked = bench.at(second)
        written += [second] * len(asked)
        for each in asked:
            bench.shows(each)
            assert bench.at(second) == []
            bench.shown(cpu="2.00", amplified='{"cpu":2.00}')  # the other one has its way at once
    assert len(written) < 20


def test_another_decision_is_asked_for_at_once():
    bench = Ratios()
    bench.shows(*bench.at(0))
    bench.normalise(1.5)
    (asked,) = bench.at(1)
    assert asked.annotations[ANNOTATION_CPU_NORMALIZATION_RATIO] == "1.50"
    bench.shows(asked)
    bench.shown(uid="v")
    (anew,) = bench.at(2)
    assert (anew.uid, anew.annotations) == ("v", asked.annotations)


def test_other_cpus_are_looked_at_and_other_news_of_them_is_not():
    bench = Ratios()
    bench.shows(*bench.at(0))
    bench.marked.clear()
    bench.cpus("A")
    assert bench.marked == []
    bench.cpus("B")
    assert bench.marked == ["n"]
    assert bench.at(1) == []
    (problem,) = bench.published.messages["n"].problems
    assert problem.field == "data[cpu-normalization-config].ratioModel"
    assert bench.reconciler.facts["nodes with problems"] == 1
    bench.view.apply(entry(named_key("noderesourcetopology", "n"), deleted=True))
    assert bench.at(2) == []
    bench.cpus("A")
    assert bench.at(3) == []
    assert bench.published.messages["n"].problems == []


def test_what_we_wrote_goes_with_the_key_also_after_a_restart():
    bench = Ratios()
    (asked,) = bench.at(0)
    bench.shows(asked)
    bench.at(1)
    bench.texts({})
    bench.reconciler.begin()
    (gone,) = bench.at(2)
    assert gone.annotations == dict.fromkeys(asked.annotations)
    bench.shows(gone)
    assert bench.at(3) == []
    assert bench.published.messages["n"].annotations == {}
    bench.shown(cpu="3.00", amplified='{"cpu":3.00}')
    assert bench.at(4) == [], "it is of another manager"


def test_ratios_may_be_left_to_others():
    bench = Ratios(sync_nodes=False)
    assert bench.at(0) == []
    assert bench.published.messages["n"].annotations == {}


def test_a_topology_that_cannot_be_read_leaves_what_was_known():
    bench = Ratios()
    bench.view.apply(entry(named_key("noderesourcetopology", "n"), b"{"))
    assert bench.view.unreadable == 1
    assert len(bench.at(0)) == 1
