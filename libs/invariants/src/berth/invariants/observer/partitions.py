"""Partitions: whole cards go together as their node's table has them, where it gives out no others or a pod asks (I26).

A table or policy that changed counts once everybody can have seen that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from berth.contracts import names
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.devices.partitions import NO_RULES, PartitionRules, partition_rules

Texts = Mapping[str, str]
NO_TEXTS: Texts = {}


class Partitions:
    """What nodes say of their partitions, and until when they said otherwise."""

    def __init__(self, verdicts: Verdicts, sight: Sight, seen: Callable[[tuple[str, str]], Watched | None]) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._seen = seen
        self._nodes: dict[str, Texts] = {}
        self._devices: dict[str, tuple[Texts, Texts]] = {}
        self._rules: dict[str, PartitionRules] = {}
        self._former: dict[str, list[tuple[float, PartitionRules]]] = {}

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node's labels."""
        meta = data["metadata"]
        labels = NO_TEXTS if deleted else meta.get("labels") or NO_TEXTS
        if labels != self._nodes.get(meta["name"], NO_TEXTS):
            self._nodes[meta["name"]] = labels
            self._changed(meta["name"])

    def see_device(self, data: Mapping[str, Any], deleted: bool) -> None:
        """Labels and annotations of a node's Device."""
        meta = data["metadata"]
        notes = meta.get("annotations") or NO_TEXTS
        table = {name: notes[name] for name in (names.ANNOTATION_GPU_PARTITIONS,) if name in notes}
        said = (NO_TEXTS, NO_TEXTS) if deleted else (meta.get("labels") or NO_TEXTS, table)
        if said != self._devices.get(meta["name"], (NO_TEXTS, NO_TEXTS)):
            self._devices[meta["name"]] = said
            self._changed(meta["name"])

    def decided(self, decision: Decision) -> None:
        """Cards were given out."""
        cards = [grant for grant in granted(decision.allocation) if grant.kind == "gpu"]
        if not cards or any(grant.amounts.get(names.GPU_MEMORY_RATIO, 0) < 100 for grant in cards):
            return
        pod = self._seen((decision.namespace, decision.name))
        asks = pod is not None and names.ANNOTATION_GPU_PARTITION_SPEC in pod.annotations
        rules, minors = self._rules.get(decision.node, NO_RULES), frozenset(grant.minor for grant in cards)
        if not rules.honors and not asks:
            return
        if not _is_partition(minors, rules):
            for reader in (Reader.SOLVER, Reader.INVENTORY):
                for until_s, former in self._former.get(decision.node, ()):
                    allowed = (not former.honors and not asks) or _is_partition(minors, former)
                    if allowed and not self._sight.has_seen(reader, until_s):
                        self._verdicts.excused("I26", self._sight.excuse(until_s))
                        return
            name = f"{decision.namespace}/{decision.name}"
            text = f"{name}: is decided for cards {sorted(minors)} of {decision.node}, which are none of its partitions"
            self._verdicts.add("I26", f"{name}, plan {decision.plan}", text)
        self._verdicts.judged("I26")

    def _changed(self, node: str) -> None:
        now = partition_rules(self._nodes.get(node, NO_TEXTS), *self._devices.get(node, (NO_TEXTS, NO_TEXTS)))
        before = self._rules.get(node, NO_RULES)
        if now == before:
            return
        former = [each for each in self._former.get(node, ()) if not self._sight.have_all_seen(each[0])]
        self._former[node] = [*former, (self._sight.now_s, before)]
        self._rules[node] = now


def _is_partition(minors: frozenset[int], rules: PartitionRules) -> bool:
    return any(minors == frozenset(each.minors) for each in (rules.table or {}).get(len(minors), ()))
