"""What SLO is to say of a node's offers, and what the node is to show of them.

An amount that falls is published at once. One that rises waits for two reports, and for more than a hundredth of
itself, so that a fleet does not write with every breath. Nothing is lent on a report that is too old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.contracts.slo import NodeOffer, Offer, ZoneOffer
from berth.contracts.state import Node
from berth.resources.amounts import Amounts
from berth.resources.quantity import AMOUNT_MAX
from berth.rules.load_aware.metric import Metric
from berth.rules.node_strategies.colocation import Colocation
from berth.rules.node_strategies.config import COLOCATION, Config
from berth.slo_manager.core.offers.age import is_stale
from berth.slo_manager.core.offers.facts import RESOURCES, Holder, facts_of
from berth.slo_manager.core.offers.origin import NORMALIZATION, THIRD_PARTIES, shown_values, shown_zones
from berth.slo_manager.core.offers.registry import KINDS
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.core.offers.settling import Settling
from berth.slo_manager.core.offers.strategy import strategy_of
from berth.slo_manager.core.offers.sums import Sum
from berth.slo_manager.core.offers.third_parties import TAKEN, revisions_of
from berth.slo_manager.core.offers.zones import zone_offers
from berth.slo_manager.core.render import PROBLEMS_MAX, chosen

RISE_MIN: Final = 0.01
AGENT: Final = "agent"
KOORDLET: Final = "koordlet"
OFF: Final = "switched off"
NOT_CONFIGURED: Final = "not configured"
WAITING: Final = "waiting"
"""The term of what waits for a second report."""


class Seen(NamedTuple):
    """What is seen of a node. `annotations`: as they are to be; `metric` None: it does not report; `zones_shown`: what
    its topology shows that its NUMA nodes lend."""

    node: Node
    annotations: Mapping[str, str]
    metric: Metric | None
    is_agents: bool
    holders: Iterable[Holder]
    zones: Mapping[int, Amounts]
    zones_shown: Mapping[int, Amounts]


class Decided(NamedTuple):
    """What SLO is to say (None: nothing of this node), and by which strategy the node's status is written."""

    offer: NodeOffer | None
    strategy: Colocation
    degrades_at: float


NOTHING: Final = Decided(None, Colocation(), float("inf"))


class Deciding:
    """Decides about one node at a time; keeps what their amounts came to by the last two reports."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._settling: dict[str, tuple[str, Settling]] = {}

    def clear(self) -> None:
        """What was seen is not known any more."""
        self._settling.clear()

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._settling.pop(name, None)

    def decide(self, seen: Seen, config: Config, published: NodeOffer | None, now_ms: int) -> Decided:
        """Decide about a node.

        Args:
            seen: what is seen of it.
            config: the strategies.
            published: what SLO says of it; None: nothing.
            now_ms: unix time.
        """
        before = published if published is not None and published.uid == seen.node.uid else None
        found = self._decided(seen, config, before, now_ms)
        return found if found.offer is None else found._replace(offer=_revised(found.offer, before, now_ms))

    def newest(self, seen: Seen, config: Config, published: NodeOffer | None, now_ms: int) -> NodeOffer | None:
        """What the newest report alone comes to, with every term; nothing is remembered of it."""
        before = published if published is not None and published.uid == seen.node.uid else None
        return Deciding(self._rules)._decided(seen, config, before, now_ms).offer

    def _decided(self, seen: Seen, config: Config, before: NodeOffer | None, now_ms: int) -> Decided:
        node = seen.node
        section = config.sections.get(COLOCATION)
        if section is None:
            return self._kept(seen, before, now_ms)
        if COLOCATION not in config.given:
            return self._withdrawn(node, before)
        names: dict[str, str] = {}
        problems: list[Problem] = []
        base = chosen(COLOCATION, section, node.labels, names, problems)
        said = strategy_of(base, node)
        strategy = msgspec.convert(said.value, Colocation)
        problems += said.problems
        label = names.get(COLOCATION, "")
        if not (strategy.enable and section.cluster.get("enable")):
            return self._refused(node, before, OFF, strategy, label, problems)
        if any(node.capacity.get(name, 0) <= 0 for name in RESOURCES):
            return self._refused(node, before, "the node shows no capacity", strategy, label, problems)
        arrived_s = None if seen.metric is None else seen.metric.updated_s
        if seen.metric is None or arrived_s is None:
            return self._refused(node, before, "the node does not report", strategy, label, problems)
        if is_stale(arrived_s, now_ms / 1000, strategy.degrade_time_minutes):
            return self._refused(node, before, "the report is too old", strategy, label, problems)
        if any(name not in (seen.metric.node_usage or seen.metric.system_usage) for name in RESOURCES):
            return self._refused(node, before, "the report does not say what is used", strategy, label, problems)
        return self._lent(seen, seen.metric, before, strategy, label, problems)

    def _kept(self, seen: Seen, before: NodeOffer | None, now_ms: int) -> Decided:
        """The key never could be read since the start: what was lent stays lent for as long as the node reports."""
        arrived_s = None if seen.metric is None else seen.metric.updated_s
        default = Colocation()
        if before is None or not before.offers:
            return Decided(before, default, float("inf"))
        if is_stale(arrived_s, now_ms / 1000, default.degrade_time_minutes):
            return self._refused(seen.node, before, "the report is too old", default, before.strategy, [])
        return Decided(before, default, (arrived_s or 0.0) + 60 * default.degrade_time_minutes)

    def _lent(
        self,
        seen: Seen,
        metric: Metric,
        before: NodeOffer | None,
        strategy: Colocation,
        label: str,
        problems: list[Problem],
    ) -> Decided:
        node = seen.node
        facts = facts_of(node, metric, by_uid=seen.is_agents, holders=seen.holders, zones=seen.zones)
        sums: dict[str, Sum] = {}
        for kind in KINDS:
            sums |= kind(facts, strategy, self._rules)
        values = shown_values(self._settled(node, metric, sums, before), seen.annotations, _taken(before))
        arrived_s = metric.updated_s or 0.0
        offer = NodeOffer(
            node=node.name,
            uid=node.uid,
            offers={name: _offer(each) for name, each in values.sums.items()},
            zones=self._zones(
                seen, shown_zones(zone_offers(facts, strategy), seen.annotations, values.taken), before, metric
            ),
            origin=values.origin,
            taken=values.taken,
            strategy=label,
            reporter=AGENT if seen.is_agents else KOORDLET,
            reported_at=arrived_s,
            problems=[*problems, *values.problems][:PROBLEMS_MAX],
            parties=revisions_of(seen.annotations),
        )
        degrades_at = arrived_s + 60 * strategy.degrade_time_minutes
        return Decided(offer, strategy, degrades_at)

    def _settled(self, node: Node, metric: Metric, sums: Mapping[str, Sum], before: NodeOffer | None) -> dict[str, Sum]:
        """What is offered of each sum: all that has fallen, and what two reports agree on of what rises."""
        settling = self._of(node)
        found = {}
        for name, whole in sums.items():
            amount = min(whole.amount, AMOUNT_MAX)
            # Where SLO was lost, or another manager saw to it before, what the node shows is what is lent.
            shown = node.allocatable.get(name, 0) if before is None else _settled_before(before, name)
            settled = settling.settled(name, metric.updated_s, amount, shown)
            if shown < settled < shown * (1 + RISE_MIN):
                settled = shown
            found[name] = whole.plus(WAITING, settled - whole.amount)
        return found

    def _zones(
        self, seen: Seen, zones: Mapping[int, Amounts], before: NodeOffer | None, metric: Metric
    ) -> list[ZoneOffer]:
        settling = self._of(seen.node)
        shown = seen.zones_shown if before is None else {each.zone: each.amounts for each in before.zones}
        found = []
        for zone, amounts in zones.items():
            settled = {}
            for name, amount in amounts.items():
                old = shown.get(zone, {}).get(name, 0)
                new = settling.settled((zone, name), metric.updated_s, min(amount, AMOUNT_MAX), old)
                settled[name] = old if old < new < old * (1 + RISE_MIN) else new
            found.append(ZoneOffer(zone=zone, amounts=settled))
        return found

    def _of(self, node: Node) -> Settling:
        uid, settling = self._settling.get(node.name, ("", Settling()))
        if uid != node.uid:
            settling = Settling()
        self._settling[node.name] = node.uid, settling
        return settling

    def _refused(
        self,
        node: Node,
        before: NodeOffer | None,
        reason: str,
        strategy: Colocation,
        label: str,
        problems: list[Problem],
    ) -> Decided:
        """Nothing is lent; what comes after it begins anew."""
        self.forget(node.name)
        offer = NodeOffer(
            node=node.name,
            uid=node.uid,
            origin=dict.fromkeys(TAKEN, 0),
            taken=_taken(before),
            reason=reason,
            strategy=label,
            problems=problems[:PROBLEMS_MAX],
        )
        return Decided(offer, strategy, float("inf"))

    def _withdrawn(self, node: Node, before: NodeOffer | None) -> Decided:
        """Nobody asks for offers: what we wrote goes from the node, then what we said of it. What the node shows beside
        that is another's."""
        self.forget(node.name)
        if before is None or not (before.zones_written or _shows(node, before)):
            return NOTHING
        return self._refused(node, before, NOT_CONFIGURED, Colocation(), "", [])


def _shows(node: Node, before: NodeOffer) -> bool:
    return any(node.allocatable.get(name) == amount for name, amount in before.written.items())


def _taken(before: NodeOffer | None) -> Amounts:
    return {} if before is None else before.taken


def _offer(total: Sum) -> Offer:
    return Offer(amount=total.amount, terms=dict(total.terms), inputs=dict(total.inputs))


def _settled_before(before: NodeOffer, name: str) -> int:
    """What was offered before cpu was normalised and third parties took theirs."""
    offer = before.offers.get(name)
    if offer is None:
        return 0
    return offer.amount - offer.terms.get(NORMALIZATION, 0) - offer.terms.get(THIRD_PARTIES, 0)


def _revised(offer: NodeOffer, before: NodeOffer | None, now_ms: int) -> NodeOffer:
    """The offer with a revision of its own if it is another one than before, else as it was: terms alone are no
    news."""
    if before is None:
        return replace(offer, revision=now_ms)
    offer = replace(
        offer,
        written=before.written,
        written_at=before.written_at,
        zones_written=before.zones_written,
        zones_written_at=before.zones_written_at,
    )
    if _amounts(offer) != _amounts(before):
        return replace(offer, revision=max(now_ms, before.revision + 1))
    said = (offer.reason, offer.strategy, offer.reporter, offer.problems, offer.taken, offer.parties)
    if said == (before.reason, before.strategy, before.reporter, before.problems, before.taken, before.parties):
        return before
    return replace(offer, revision=before.revision)


def _amounts(offer: NodeOffer) -> object:
    return {name: each.amount for name, each in offer.offers.items()}, offer.zones, offer.origin
