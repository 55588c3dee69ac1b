"""slo-manager's reconciler and its views over one small cluster, for tests of what nodes lend."""

import json

from msgspec.structs import replace

from berth.bus.port import Entry
from berth.contracts.codec import encode
from berth.contracts.command import ApplyObject, OfferNode
from berth.contracts.metrics import NodeMetrics, PodUsage, Usage
from berth.contracts.names import CPU, LABEL_QOS, MEMORY
from berth.contracts.slo import NodeOffer
from berth.contracts.state import ConfigMap, Node, NodeMetric, Pod, PodTemplate, Synced
from berth.contracts.subjects import named_key, namespaced_key, synced_key
from berth.runtime import Moment
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.reconciler import Reconciler
from berth.slo_manager.views import PodView, Pressures, Reports, SloView, StateView

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
