"""From what the buckets show to what has to be published, sent and announced. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.contracts.command import AnnotateNode, ApplyObject, EvictPod, OfferNode
from berth.contracts.event import ObjectRefused
from berth.contracts.kube import OwnerReference
from berth.contracts.node_audit import LendingAnswer
from berth.contracts.slo import NodeOffer, NodeSLO
from berth.contracts.state import Node
from berth.contracts.subjects import command_subject, event_subject, named_key, node_pod_key
from berth.rules.node_evictions.thresholds import read_thresholds
from berth.rules.node_strategies.colocation import Colocation
from berth.rules.node_strategies.config import COLOCATION, Config, read_config
from berth.runtime import Command, Event, Moment, Outcome, Write
from berth.slo_manager.core.annotation_requests import AnnotationRequests
from berth.slo_manager.core.answering import lending_answer
from berth.slo_manager.core.evicting.deciding import Evicting
from berth.slo_manager.core.evicting.deciding import Seen as SeenOfPods
from berth.slo_manager.core.mirror import Mirror, spec_of, status_of
from berth.slo_manager.core.object_requests import ObjectRequests
from berth.slo_manager.core.offers.deciding import Deciding, Seen
from berth.slo_manager.core.offers.lacking import Lacking, lacking
from berth.slo_manager.core.offers.requests import OfferRequests
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.core.offers.zone_writes import zones_lacking
from berth.slo_manager.core.ratios import Ratios, ratios_of
from berth.slo_manager.core.render import PROBLEMS_MAX, render
from berth.slo_manager.core.turns import Budget, Turns
from berth.slo_manager.settings import SERVICE
from berth.slo_manager.views import NODE, OFFER, PodView, Pressures, Reports, SloView, StateView

API: Final = "slo.koordinator.sh/v1alpha1/nodeslos"
METRICS_API: Final = "slo.koordinator.sh/v1alpha1/nodemetrics"
ZONES: Final = "zones"
OBJECTS_PER_S: Final = 10.0
"""Writes of objects, and of annotations of nodes, in the whole cluster, with those that device-inventory makes of what
NUMA nodes lend; what nodes lend is counted by itself."""


class Reconciler:
    """Decides about one node at a time."""

    def __init__(
        self,
        view: StateView,
        pods: PodView,
        reports: Reports,
        pressures: Pressures,
        published: SloView,
        *,
        config_map: tuple[str, str],
        sync_objects: bool,
        sync_nodes: bool,
        sync_offers: bool,
        mirror_metrics: bool,
        evictions_per_hour: int,
        rules: Rules,
    ) -> None:
        self.view = view
        self.pods = pods
        self.reports = reports
        self.pressures = pressures
        self.published = published
        self.config = Config({})
        self._config_map = config_map
        self._sync_objects = sync_objects
        self._sync_nodes = sync_nodes
        self._sync_offers = sync_offers
        budget = Budget(OBJECTS_PER_S, at_first=OBJECTS_PER_S)
        self._turns: Turns[tuple[str, str]] = Turns(budget)
        self._mirror = Mirror(budget) if mirror_metrics else None
        self._read: dict[str, str] | None = None
        self._announced: Sequence[Problem] = ()
        self._objects = ObjectRequests(self._turns)
        self._annotations = AnnotationRequests(self._turns)
        self._deciding = Deciding(rules)
        self._offers = OfferRequests()
        self._evicting = Evicting(evictions_per_hour)
        self._degrades_at: dict[str, float] = {}

    @property
    def is_ready(self) -> bool:
        """Nothing is decided before the view proves what is not there."""
        return self.view.is_complete

    @property
    def missing(self) -> str:
        """What the view still lacks, for people."""
        return self.view.missing

    @property
    def facts(self) -> dict[str, str | int | float]:
        """For the question for the status."""
        strategies = self.published.messages.values()
        return {
            "nodes": len(strategies),
            "nodes that hold best-effort pods": sum(each.cpu_suppress.enabled for each in strategies),
            "config map": "/".join(self._config_map) + ("" if self.view.texts is not None else " (none)"),
            "objects to be written": self.to_be_written,
            "nodes to be annotated": self.to_be_annotated,
            "nodes that lend": self.lending,
            "nodes to show offers": self.offers_to_be_written,
            "pods to be evicted": self.evictions_open,
            "problems": len(self.config.problems),
            "nodes with problems": len(self.published.faulty),
            "unusable keys": ", ".join(self.config.unusable) or "none",
            "unreadable messages": self.unreadable,
            "view": self.view.missing,
        }

    @property
    def to_be_written(self) -> int:
        """How many objects were asked for and are not shown yet."""
        return self._objects.open

    @property
    def to_be_annotated(self) -> int:
        """How many nodes were asked to be annotated and do not show it yet."""
        return self._annotations.open

    @property
    def lending(self) -> int:
        """How many nodes lend anything."""
        return len(self.published.offers.lending)

    @property
    def offers_to_be_written(self) -> int:
        """How many nodes wait for their turn to show what they lend."""
        return self._offers.waiting

    @property
    def evictions_open(self) -> int:
        """How many pods were asked to leave for their node's sake and are there."""
        return self._evicting.open

    @property
    def unreadable(self) -> int:
        """How many messages could not be read since the start."""
        of_agents = self.reports.unreadable + self.pressures.unreadable
        return self.view.unreadable + self.pods.unreadable + of_agents

    def names(self) -> list[str]:
        """Every node that may need something."""
        published = self.published
        known = {*published.keys.values(), *published.offers.keys.values(), *published.pods.keys.values()}
        return sorted(self.view.nodes.keys() | known)

    def due(self, at: Moment) -> list[str]:
        """Nodes of which something was asked for a while ago, whose report grows too old, or whose turn it is."""
        self._objects.look(at.monotonic)
        annotated = self._annotations.due(at.monotonic)
        objects = [name for _, name in self._turns.come(at.monotonic)]
        degraded = [name for name, degrades_at in self._degrades_at.items() if at.now > degrades_at]
        turns = self._offers.turns(at.monotonic)
        if self._mirror is not None and self.reports.is_complete:
            agents, made = self.reports.agents.metrics, self.reports.objects.made
            arrived = {name: metric.updated_s or 0.0 for name, metric in agents.items() if name in self.view.nodes}
            turns += self._mirror.turns(arrived, made, at.monotonic)
        evicting = self._evicting.due(at.monotonic, at.now)
        return list(dict.fromkeys((*objects, *annotated, *degraded, *turns, *evicting)))

    def begin(self) -> None:
        """Another replica was active meanwhile: what it read of keys that cannot be used now is in SLO alone."""
        self.config, self._read = Config({}), None
        self._turns.clear()
        self._objects.clear()
        self._annotations.clear()
        self._deciding.clear()
        self._offers.clear()
        self._evicting.clear()
        self._degrades_at.clear()

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """Bring SLO, the NodeSLO object and the node in line with the strategies and with what the node uses.

        What is asked for goes first: who dies in between asks again, since nothing was published yet.
        """
        events = self._refusals(at)
        node = self.view.nodes.get(name)
        if node is None:
            return Outcome(self._forget(name), events=events)
        published = self.published.messages.get(name)
        before_of_node = published.annotations if published is not None and published.uid == node.uid else {}
        ratios = (
            ratios_of(node, self.view.cpu_info.get(name), self.config, before_of_node) if self._sync_nodes else None
        )
        writes, commands = self._strategy(node, ratios, published, at)
        writes_of_offer, commands_of_offer = self._offer(node, ratios, at)
        writes_of_pods, commands_of_pods = self._of_pods(node, published, at)
        writes += [*writes_of_offer, *writes_of_pods]
        commands += [*commands_of_offer, *commands_of_pods, *self._mirrored(node, at)]
        return Outcome(writes, commands, events, commands_first=bool(writes))

    def answer(self, name: str, at: Moment) -> LendingAnswer:
        """What people are told of a node."""
        node = self.view.nodes.get(name)
        if node is None:
            return LendingAnswer(name=name, outcome="unknown", at=at.now)
        published = self.published
        strategy, offer = published.messages.get(name), published.offers.messages.get(name)
        seen, newest = self._seen(node, node.annotations), None
        if self.is_ready and self.pods.is_complete and self.reports.is_complete:
            config = read_config(self.view.texts or {}, self.config.sections)
            newest = self._deciding.newest(seen, config, offer, at.ms)
        reported_s = None if seen.metric is None else seen.metric.updated_s
        return lending_answer(
            node,
            strategy=strategy,
            offer=offer,
            newest=newest,
            reported_s=reported_s,
            entries=published.pods.of(name).values(),
            now_s=at.now,
        )

    def _seen(self, node: Node, annotations: Mapping[str, str]) -> Seen:
        """What is seen of a node whose annotations are to be these."""
        metric, is_agents = self.reports.of(node.name)
        zones, shown = (each.get(node.name, {}) for each in (self.view.zones, self.view.zones_shown))
        return Seen(node, annotations, metric, is_agents, self.pods.of(node.name), zones, shown)

    def _forget(self, name: str) -> list[Write]:
        """The node is gone."""
        self._objects.forget(name)
        self._annotations.forget(name)
        self._deciding.forget(name)
        self._offers.forget(name)
        self._turns.forget((ZONES, name))
        self._evicting.forget(name)
        self._degrades_at.pop(name, None)
        keys = (named_key(NODE, name), self.published.keys), (named_key(OFFER, name), self.published.offers.keys)
        of_pods = [node_pod_key(name, uid) for uid in self.published.pods.of(name)]
        return [Write(key, None) for key in (*(key for key, known in keys if key in known), *of_pods)]

    def _strategy(
        self, node: Node, ratios: Ratios | None, published: NodeSLO | None, at: Moment
    ) -> tuple[list[Write], list[Command]]:
        """The strategy, its object and the annotations.

        A request for the object is numbered by the clock, but above the one before it as long as SLO shows which that
        was, whatever clocks do. It is sent in its turn. One that the object does not show after a while is sent again
        as it was.
        """
        before = published.revision if published is not None else 0
        wanted = replace(render(node, self.config, published), configured=self.view.texts is not None, revision=before)
        commands = []
        if ratios is not None:
            wanted = _with(wanted, ratios)
            commands = self._annotate(node, ratios, at)
        if self._sync_objects and _shows_otherwise(published, wanted):
            wanted = replace(wanted, revision=max(at.ms, before + 1))
            if self._objects.is_new(node.name, at.monotonic):
                commands.append(_object(node, wanted))
        elif wanted == published:
            return [], [*commands, *self._again(node, wanted, at)]
        return [Write(named_key(NODE, node.name), wanted)], commands

    def _offer(self, node: Node, ratios: Ratios | None, at: Moment) -> tuple[list[Write], list[Command]]:
        """What the node lends, and its status when it is its turn."""
        if not (self.pods.is_complete and self.reports.is_complete):
            return [], []
        name, key = node.name, named_key(OFFER, node.name)
        published = self.published.offers.messages.get(name)
        changed = {} if ratios is None else ratios.wanted
        annotations = {**node.annotations, **{each: text for each, text in changed.items() if text is not None}}
        decided = self._deciding.decide(self._seen(node, annotations), self.config, published, at.ms)
        self._degrades_at[name] = decided.degrades_at
        offer, commands = decided.offer, list[Command]()
        if offer is None:
            self._offers.forget(name)
            self._turns.forget((ZONES, name))
            return [Write(key, None)] if key in self.published.offers.keys else [], []
        if self._sync_offers:
            offer = self._with_zones(node, offer, decided.strategy, at)
            found = lacking(node, offer, decided.strategy, at.now)
            if self._offers.may_send(name, node.uid, found, at.monotonic) and found is not None:
                offer = replace(offer, written=dict(found.written), written_at=at.now)
                commands.append(_shown(node, found, at))
        elif offer.zones_written is not None:
            offer = replace(offer, zones_written=None)
        return [] if offer == published else [Write(key, offer)], commands

    def _with_zones(self, node: Node, offer: NodeOffer, strategy: Colocation, at: Moment) -> NodeOffer:
        """With what the node's topology is to show of its NUMA nodes, when that is worth a write and it is its turn."""
        shown = self.view.zones_shown.get(node.name, {})
        found = zones_lacking(offer, shown, node.capacity, strategy, at.now)
        if found is None:
            self._turns.forget((ZONES, node.name))
        elif self._turns.takes((ZONES, node.name)):
            return replace(offer, zones_written=found.zones, zones_written_at=at.now)
        else:
            self._turns.wait((ZONES, node.name), found.rank)
        return offer

    def _of_pods(self, node: Node, published: NodeSLO | None, at: Moment) -> tuple[list[Write], list[Command]]:
        """What the node's agent has to know of pods, and who leaves for the node's sake.

        A request goes out when its grant stands in SLO, so that of two replicas that take each other for gone one alone
        evicts.
        """
        if not (self.pods.is_complete and self.reports.is_complete):
            return [], []
        has_agent = node.name in self.reports.agents.metrics
        pressure, stored_s = self.pressures.of(node.name)
        thresholds = read_thresholds({} if published is None or published.uid != node.uid else published.spec)
        entries = self.published.pods
        seen = SeenOfPods(
            node.name,
            self.pods.tenants(node.name) if has_agent else {},
            entries.of(node.name),
            entries.standing(node.name),
            pressure,
            stored_s,
            None if isinstance(thresholds, Problem) else thresholds,
        )
        wanted = self._evicting.decide(seen, entries.granted, monotonic=at.monotonic, now_s=at.now, now_ms=at.ms)
        writes = [Write(node_pod_key(node.name, uid), entry) for uid, entry in wanted.entries.items()]
        return writes, [_eviction(each, at) for each in wanted.commands]

    def _mirrored(self, node: Node, at: Moment) -> list[Command]:
        """The request for the node's NodeMetric, when it is its turn."""
        if self._mirror is None or not self._mirror.takes(node.name, at.monotonic):
            return []
        metric = self.reports.agents.metrics.get(node.name)
        if metric is None:
            return []
        section = self.config.sections.get(COLOCATION)
        strategy = Colocation() if section is None else msgspec.convert(section.cluster, Colocation)
        return [_metric(node, spec_of(strategy), status_of(metric, self.pods.of(node.name)), at)]

    def _annotate(self, node: Node, ratios: Ratios, at: Moment) -> list[Command]:
        """Ask for the annotations that the node does not show, if it is time."""
        annotations = self._annotations.of(node.name, node.uid, ratios, at.monotonic)
        if not annotations:
            return []
        annotate = AnnotateNode(name=node.name, uid=node.uid, annotations=dict(annotations))
        subject = command_subject("annotate", "nodes", node.name)
        return [Command(subject, annotate, id=f"{SERVICE}.{node.uid}.{at.ms}")]

    def _again(self, node: Node, strategy: NodeSLO, at: Moment) -> list[Command]:
        """The request for the node's object once more, if the object does not show it in time."""
        shown = self.view.objects.get(node.name)
        is_shown = shown is not None and shown.revision >= strategy.revision and shown.owner_uid == node.uid
        if is_shown or not strategy.revision or not self._sync_objects:
            self._objects.forget(node.name)
            return []
        if not self.view.shows_objects and not self._objects.waits(node.name):
            self._objects.forget(node.name)
            return []
        return [_object(node, strategy, f".{at.ms}")] if self._objects.again(node.name, at.monotonic) else []

    def _refusals(self, at: Moment) -> list[Event]:
        """Read the ConfigMap if it changed. What is wrong with it is announced when that is news."""
        texts = self.view.texts or {}
        if texts != self._read:
            self._read = texts
            self.config = read_config(texts, self.config.sections)
        problems = list(self.config.problems)
        if problems == list(self._announced):
            return []
        self._announced = problems
        if not problems:
            return []
        namespace, name = self._config_map
        return [
            Event(
                event_subject("object", "refused", "configmaps", namespace, name),
                ObjectRefused(kind="ConfigMap", namespace=namespace, name=name, problems=problems[:100]),
                id=f"{SERVICE}.{name}.{at.ms}",
                level="warning",
                text="ConfigMap of strategies has problems",
                fields={
                    "namespace": namespace,
                    "name": name,
                    "problems": [f"{problem.field}: {problem.message}" for problem in problems[:5]],
                },
            )
        ]


def _metric(node: Node, spec: dict[str, Any], status: dict[str, Any], at: Moment) -> Command:
    """Have the node's NodeMetric show what its agent reports; it goes with its node."""
    owner = OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid)
    apply = ApplyObject(api=METRICS_API, name=node.name, spec=spec, status=status, owner=owner, revision=at.ms)
    subject = command_subject("apply", "nodemetrics", node.name)
    return Command(subject, apply, id=f"{SERVICE}.metric.{node.uid}.{at.ms}", may_drop=True)


def _with(strategy: NodeSLO, ratios: Ratios) -> NodeSLO:
    """The strategy with what is to be remembered, and said, of the node's annotations."""
    return replace(
        strategy,
        annotations=dict(ratios.record),
        strategies={**strategy.strategies, **ratios.strategies},
        problems=[*strategy.problems, *ratios.problems][:PROBLEMS_MAX],
    )


def _eviction(evict: EvictPod, at: Moment) -> Command:
    """Have a pod evicted."""
    subject = command_subject("evict", "pods", evict.namespace, evict.name)
    return Command(subject, evict, id=f"{SERVICE}.evict.{evict.uid}.{at.ms}")


def _shown(node: Node, found: Lacking, at: Moment) -> Command:
    """Have the node show what it lends."""
    offer = OfferNode(
        name=node.name, uid=node.uid, resources=dict(found.resources), annotations=dict(found.annotations)
    )
    return Command(command_subject("offer", "nodes", node.name), offer, id=f"{SERVICE}.offer.{node.uid}.{at.ms}")


def _shows_otherwise(published: NodeSLO | None, wanted: NodeSLO) -> bool:
    """Whether the node's object has to be written.

    Where nobody has configured us an object may be that of another manager, and ours would only repeat the defaults.
    What we showed under a ConfigMap that is gone is brought to the defaults once. What was published while objects were
    not ours to keep has no revision, and its object is still to be written.
    """
    if published is None:
        return wanted.configured
    shown, due = ((each.uid, each.configured, each.spec) for each in (published, wanted))
    was_asked = bool(published.revision) or not wanted.configured
    return (published.configured or wanted.configured) and (shown != due or not was_asked)


def _object(node: Node, strategy: NodeSLO, again: str = "") -> Command:
    """Ask for the node's object; it goes with its node. `again`: what sets a repetition apart."""
    owner = OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid)
    apply = ApplyObject(api=API, name=node.name, spec=strategy.spec, owner=owner, revision=strategy.revision)
    subject = command_subject("apply", "nodeslos", node.name)
    return Command(subject, apply, id=f"{SERVICE}.{node.name}.{apply.revision}{again}")
