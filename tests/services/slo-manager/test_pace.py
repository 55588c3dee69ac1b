"""A large cluster: what is written at once, what a restart writes, what a workload gives however often it restarts."""

import json
from itertools import pairwise

from berth.bus.port import Entry
from berth.contracts import names, state
from berth.contracts.codec import encode
from berth.contracts.command import AnnotateNode, ApplyObject, EvictPod, OfferNode
from berth.contracts.kube import OwnerReference
from berth.contracts.metrics import NodeMetrics, PodUsage, Usage
from berth.contracts.node_pressure import EvictionAsk, NodePressure
from berth.contracts.subjects import named_key, namespaced_key, node_pod_key, synced_key
from berth.runtime import Moment
from berth.slo_manager.core.evicting.rates import PERIOD_S
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.reconciler import Reconciler
from berth.slo_manager.views import PodView, Pressures, Reports, SloView, StateView

MAP = ("berth-system", "slo-controller-config")
CONFIG = namespaced_key("configmap", *MAP)
GI = 2**30
SIZE = {names.CPU: 100_000, names.MEMORY: 400 * GI}


class Cluster:
    """The buckets, and a process that decides by them; `restart` makes another one that reads them anew."""

    def __init__(self, **config) -> None:
        self.buckets: dict[tuple[str, str], tuple[bytes, float]] = {}
        self.now_s = 1_000_000.0
        self.restart()
        data = {key.replace("_", "-"): json.dumps(value) for key, value in config.items()}
        self.put("view", CONFIG, state.ConfigMap(namespace=MAP[0], name=MAP[1], version=1, data=data))
        for kind in ("nodes", CONFIG, "nodeslos"):
            self.put("view", synced_key(kind), state.Synced(kind=kind, version=1, complete=True))
        self.put("pods", synced_key("pods"), state.Synced(kind="pods", version=1, complete=True))

    def restart(self) -> None:
        self.marked: dict[str, None] = {}
        mark, mark_all = self.marked.setdefault, lambda: None
        self.view, self.pods = StateView(MAP, mark, mark_all), PodView(mark, mark_all)
        self.reports, self.pressures, self.published = Reports(mark, mark_all), Pressures(mark), SloView(mark)
        self.sinks = {
            "view": self.view,
            "pods": self.pods,
            "reports": self.reports.agents,
            "objects": self.reports.objects,
            "pressures": self.pressures,
            "published": self.published,
        }
        for (sink, key), (value, stored_s) in self.buckets.items():
            self.sinks[sink].apply(Entry(key, value, False, 1, 0, False, None, stored_s))
        for each in self.sinks.values():
            each.end(1)
        self.reconciler = Reconciler(
            self.view,
            self.pods,
            self.reports,
            self.pressures,
            self.published,
            config_map=MAP,
            sync_objects=True,
            sync_nodes=True,
            sync_offers=True,
            mirror_metrics=True,
            evictions_per_hour=2,
            rules=Rules(),
        )
        self.reconciler.begin()
        self.marked.update(dict.fromkeys(self.reconciler.names()))

    def put(self, sink, key, message) -> None:
        if message is None:
            self.buckets.pop((sink, key), None)
        else:
            self.buckets[sink, key] = encode(message), self.now_s
        value = b"" if message is None else encode(message)
        self.sinks[sink].apply(Entry(key, value, message is None, 1, 0, False, None, self.now_s))

    def node(self, name) -> None:
        self.put("view", named_key("node", name), state.Node(name=name, uid=name, version=1, **sizes()))

    def pod(self, node, name, workload) -> None:
        template = state.PodTemplate(labels={names.LABEL_QOS: "BE"}, priority=5_500)
        owner = OwnerReference(api_version="batch/v1", kind="Job", name=workload, uid=workload, controller=True)
        pod = state.Pod(
            namespace="d", name=name, uid=name, version=1, node=node, phase="Running", template=template, owners=[owner]
        )
        self.put("pods", namespaced_key("pod", "d", name), pod)

    def report(self, name, *uids) -> None:
        usage = Usage(cpu_milli=7_000, memory_bytes=20 * GI)
        pods = [PodUsage(uid=uid, qos="besteffort", usage=Usage(cpu_milli=100)) for uid in uids]
        message = NodeMetrics(
            node=name,
            measured_at=1.0,
            interval_s=10.0,
            memory_total_bytes=400 * GI,
            node_usage=usage,
            system_usage=usage,
            pods=pods,
        )
        self.put("reports", named_key("node", name), message)

    def ask(self, node, uid, number) -> None:
        ask = EvictionAsk(
            uid=uid,
            number=number,
            need=str(number),
            feature="BEMemoryEvict",
            accumulator="podUsed",
            release={"memory": GI},
            counts={"memory": GI},
        )
        self.put("pressures", f"pressure.{node}", NodePressure(node=node, at=1.0, asks=[ask]))

    def turn(self, after_s=1.0) -> list[object]:
        """A tick, and what follows; asked for is done, and shown. Answers with what was asked for."""
        self.now_s += after_s
        at, sent = Moment(self.now_s, self.now_s), []
        self.marked.update(dict.fromkeys(self.reconciler.due(at)))
        while self.marked:
            name = next(iter(self.marked))
            del self.marked[name]
            outcome = self.reconciler.reconcile(name, at)
            for write in outcome.writes:
                self.published.wrote(write.key, write.message)
                self.put("published", write.key, write.message)
                self.writes += 1
            for command in outcome.commands:
                sent.append(command.message)
                self.carry_out(command.message)
        return sent

    writes = 0

    def carry_out(self, message) -> None:
        if isinstance(message, OfferNode):
            lent = {name: amount(text) for name, text in message.resources.items() if text is not None}
            shown = {field: {**size, **lent} for field, size in sizes().items()}
            node = state.Node(name=message.name, uid=message.name, version=2, annotations=message.annotations, **shown)
            self.put("view", named_key("node", message.name), node)
        elif isinstance(message, ApplyObject) and message.api.endswith("nodeslos"):
            shown_object = state.NodeSLO(
                name=message.name, uid="o", version=1, revision=message.revision, owner_uid=message.name
            )
            self.put("view", named_key("nodeslo", message.name), shown_object)


def sizes():
    return {"allocatable": SIZE, "capacity": SIZE}


def amount(text) -> int:
    ends = {"Gi": GI, "Mi": 2**20, "Ki": 2**10, "k": 1000}
    found = next((end for end in ends if text.endswith(end)), "")
    return int(text.removesuffix(found)) * ends.get(found, 1)


def count(sent, kind) -> int:
    return sum(isinstance(each, kind) for each in sent)


def large(nodes=60) -> Cluster:
    cluster = Cluster(
        colocation_config={"enable": True},
        cpu_normalization_config={"enable": True, "defaultRatio": 1.0},
        resource_amplification_config={"enable": True, "resourceAmplificationRatio": {"cpu": 1.5}},
        resource_threshold_config={"clusterStrategy": {"enable": True, "memoryEvictThresholdPercent": 70}},
    )
    for number in range(nodes):
        cluster.node(f"n{number}")
    return cluster


def test_what_changes_everywhere_is_written_bit_by_bit():
    cluster = large()
    sent = [cluster.turn()]
    for _ in range(2):
        for number in range(60):
            cluster.report(f"n{number}")
        sent.append(cluster.turn())
    sent += [cluster.turn() for _ in range(30)]
    asked = [len(each) for each in sent]
    assert max(asked) <= 20
    assert max(map(sum, pairwise(asked))) <= 40
    everything = [each for some in sent for each in some]
    assert {each.name for each in everything if isinstance(each, OfferNode)} == {f"n{number}" for number in range(60)}
    assert count(everything, OfferNode) == 60
    objects = [each for each in everything if isinstance(each, ApplyObject) and each.api.endswith("nodeslos")]
    assert len(objects) == 60
    assert count(everything, AnnotateNode) >= 60


def test_mirrors_have_what_is_left():
    cluster = large(25)
    for number in range(25):
        cluster.report(f"n{number}")
    sent = [[each for each in cluster.turn() if isinstance(each, (ApplyObject, AnnotateNode))] for _ in range(20)]
    assert max(map(len, sent)) <= 20
    assert sum(map(len, sent[1:])) <= 10 * 20
    applied = [each for some in sent for each in some if isinstance(each, ApplyObject)]
    everywhere = {f"n{number}" for number in range(25)}
    assert {each.name for each in applied if each.api.endswith("nodeslos")} == everywhere
    assert {each.name for each in applied if each.api.endswith("nodemetrics")} == everywhere


def test_a_restart_writes_nothing_that_is_unchanged():
    cluster = large(12)
    cluster.pod("n0", "p", "w")
    for _ in range(3):
        for number in range(12):
            cluster.report(f"n{number}", "p")
        for _ in range(20):
            cluster.turn()
    shown = {key: value for key, value in cluster.buckets.items() if key[0] == "published"}
    assert len(shown) == 12 * 2 + 1
    cluster.restart()
    cluster.writes = 0
    sent = [each for _ in range(20) for each in cluster.turn()]
    assert cluster.writes == 0
    assert {key: value for key, value in cluster.buckets.items() if key[0] == "published"} == shown
    assert count(sent, OfferNode) == 0
    assert not [each for each in sent if isinstance(each, ApplyObject) and each.api.endswith("nodeslos")]


def test_objects_that_were_not_sent_before_a_restart_are_sent_after_it():
    cluster = large(30)
    assert len([each for each in cluster.turn() if isinstance(each, ApplyObject)]) < 30
    cluster.restart()
    cluster.turn()
    sent = [cluster.turn(after_s) for after_s in (61.0, *[1.0] * 20)]
    assert max(map(len, sent)) <= 20
    assert len({key for sink, key in cluster.buckets if sink == "view" and key.startswith("nodeslo.")}) == 30


def test_a_workload_gives_its_rate_however_often_the_service_restarts():
    cluster = large(4)
    for number in range(4):
        cluster.pod(f"n{number}", f"p{number}", "w")
        cluster.report(f"n{number}", f"p{number}")
    cluster.turn()
    evicted, answers = [], []
    for number in range(4):
        cluster.ask(f"n{number}", f"p{number}", number + 1)
        evicted += [each.uid for each in cluster.turn() if isinstance(each, EvictPod)]
        answers.append(cluster.published.pods.of(f"n{number}")[f"p{number}"].eviction.state)
        if answers[-1] == "granted":
            cluster.put("pods", namespaced_key("pod", "d", f"p{number}"), None)
            cluster.turn()
        cluster.restart()
        cluster.turn()
    assert evicted == ["p0", "p1"]
    assert answers == ["granted", "granted", "refused", "refused"]
    reason = cluster.published.get(node_pod_key("n2", "p2")).eviction.reason
    assert reason == "2 pods of Job/d/w were evicted within an hour"
    # An hour later it may give again.
    cluster.turn(PERIOD_S)
    cluster.ask("n3", "p3", 9)
    assert [each.uid for each in cluster.turn() if isinstance(each, EvictPod)] == ["p3"]
