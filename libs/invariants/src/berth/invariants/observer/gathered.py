"""Gangs in the network: members that must lie in one domain are decided, and bound, into one (I33).

A node's labels, the layers or what a PodGroup asks for count once everybody can have seen that they changed. Who is
bound stays where it is, whatever its node says afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from berth.contracts.base import Problem
from berth.contracts.ledger import Decision, GangDomain
from berth.contracts.state import NetworkLayer
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.gang_config import GangConfig
from berth.rules.network_topology.domain import lies_in, shown
from berth.rules.network_topology.layers import ROOT, layers_of, names_of
from berth.rules.network_topology.spec import GatherSpec, must_gather_layer, read_spec

Texts = Mapping[str, str]
NO_TEXTS: Final[Texts] = {}
PLANS_MAX: Final = 10_000
DEFAULT: Final = "default"


class Gathered:
    """What nodes, the network and PodGroups say, and until when they said otherwise."""

    def __init__(
        self,
        verdicts: Verdicts,
        sight: Sight,
        seen: Callable[[tuple[str, str]], Watched | None],
        group_of: Callable[[str], GangConfig | None],
    ) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._seen = seen
        self._group_of = group_of
        self._nodes: dict[str, Texts] = {}
        self._former: dict[str, list[tuple[float, Texts]]] = {}
        self._layers: tuple[str, ...] | None = None
        self._layers_since_s = 0.0
        self._asked: dict[str, tuple[GatherSpec | None, float]] = {}
        self._domains: dict[tuple[str, str], GangDomain] = {}

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node's labels."""
        name = data["metadata"]["name"]
        labels = NO_TEXTS if deleted else data["metadata"].get("labels") or NO_TEXTS
        before = self._nodes.get(name, NO_TEXTS)
        if labels == before:
            return
        former = [each for each in self._former.get(name, ()) if not self._sight.have_all_seen(each[0])]
        self._former[name] = [*former, (self._sight.now_s, before)]
        self._nodes[name] = labels

    def see_topology(self, data: Mapping[str, Any], deleted: bool) -> None:
        """The layers. A list that is no chain leaves those before it."""
        if data["metadata"]["name"] != DEFAULT:
            return
        listed = [] if deleted else (data.get("spec") or {}).get("networkTopologySpec") or []
        layers = layers_of(
            NetworkLayer(
                name=each.get("topologyLayer", ""),
                parent=each.get("parentTopologyLayer", ""),
                label_keys=each.get("labelKey") or [],
            )
            for each in listed
        )
        if isinstance(layers, Problem) and not deleted:
            return
        self._layers = None if isinstance(layers, Problem) else names_of(layers)
        self._layers_since_s = self._sight.now_s

    def see_group(self, data: Mapping[str, Any], deleted: bool) -> None:
        """What a PodGroup asks for."""
        meta = data["metadata"]
        gang = f"{meta['namespace']}/{meta['name']}"
        asked = None if deleted else read_spec(meta.get("annotations") or NO_TEXTS)
        if gang not in self._asked or self._asked[gang][0] != asked or deleted:
            self._asked[gang] = (asked, self._sight.now_s)

    def decided(self, decision: Decision) -> None:
        """A member was decided."""
        pod = self._seen((decision.namespace, decision.name))
        if decision.gang is None or pod is None:
            return
        domain, layer = decision.gang.domain, self._must(pod)
        if domain is None:
            if layer is not None and decision.gang.size > 1:
                self._judge(pod, decision, "", f"is decided for {decision.node} without a domain of {layer}")
            return
        name = f"is decided for {decision.node}"
        first = self._domains.setdefault((decision.plan, pod.gang), domain)
        if len(self._domains) > PLANS_MAX:
            del self._domains[next(iter(self._domains))]
        if first.path != domain.path:
            self._verdicts.add("I33", self._subject(pod, decision), f"{pod.text} {name} in {shown(domain)}, others not")
        self._judge(pod, decision, decision.node, f"{name}, which is not in {shown(domain)}", domain)

    def bound(self, pod: Watched, decision: Decision) -> None:
        """A member was bound."""
        domain = decision.gang.domain if decision.gang is not None else None
        if domain is not None:
            self._judge(pod, decision, pod.node, f"is bound to {pod.node}, which is not in {shown(domain)}", domain)

    def _must(self, pod: Watched) -> str | None:
        """The layer that the pod's gang must not leave; None where there is none."""
        config = self._group_of(pod.gang) or pod.gang_config
        asked = config.network if config is not None else None
        if asked is None or asked.problem is not None or self._layers is None:
            return None
        layer = must_gather_layer(asked.rules, self._layers)
        return None if layer == ROOT or layer not in self._layers else layer

    def _judge(self, pod: Watched, decision: Decision, node: str, text: str, domain: GangDomain | None = None) -> None:
        """Say that something is wrong, unless it was right as far as somebody can have seen."""
        if domain is not None and lies_in(domain, node, self._nodes.get(node, NO_TEXTS)):
            self._verdicts.judged("I33")
            return
        since_s = [self._layers_since_s, self._asked.get(pod.gang, (None, float("-inf")))[1]] if domain is None else []
        for until_s, labels in self._former.get(node, ()):
            if domain is not None and lies_in(domain, node, labels):
                since_s.append(until_s)
        for at_s in since_s:
            if not all(self._sight.has_seen(each, at_s) for each in Reader):
                self._verdicts.excused("I33", self._sight.excuse(at_s))
                return
        self._verdicts.judged("I33")
        self._verdicts.add("I33", self._subject(pod, decision), f"{pod.text} {text}")

    def _subject(self, pod: Watched, decision: Decision) -> str:
        return f"{'/'.join(pod.name)}, plan {decision.plan}"
