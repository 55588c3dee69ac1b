"""CPUs and NUMA nodes as topology objects show them: which CPUs may be given out (I23b), how much there is (I25).

A CPU that is taken offline, or is kept from pods, counts once everybody can have seen that. Who has it keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from berth.contracts import kube
from berth.contracts.grants import CPU, granted
from berth.contracts.ledger import Decision, Grant
from berth.invariants.layouts import NOWHERE, Layout, layout_of
from berth.invariants.observer.calm import NEVER
from berth.invariants.observer.capacity import Capacity, Limit
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.verdicts import Verdicts


class Cores:
    """Since when CPUs may not be given out, and a judgement of those that are."""

    def __init__(self, verdicts: Verdicts, capacity: Capacity) -> None:
        self._verdicts = verdicts
        self._capacity = capacity
        self._objects: dict[str, kube.NodeResourceTopology] = {}
        self._notes: dict[str, Mapping[str, str]] = {}
        self._kept_since_s: dict[str, dict[int, float]] = {}
        """By node and CPU; NEVER: pods may have it."""

    def see_topology(self, data: Mapping[str, Any], deleted: bool) -> None:
        """The topology object of a node."""
        seen = msgspec.convert(data, kube.NodeResourceTopology)
        node = seen.metadata.name
        if deleted:
            self._objects.pop(node, None)
        else:
            self._objects[node] = seen
        self._changed(node)

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node says how many times its cpu it shows."""
        name = data["metadata"]["name"]
        notes = {} if deleted else data["metadata"].get("annotations") or {}
        if notes != self._notes.get(name, {}):
            self._notes[name] = notes
            if name in self._objects:
                self._changed(name)

    def decided(self, decision: Decision) -> None:
        """CPUs were given out."""
        text = f"{decision.namespace}/{decision.name}"
        self._judge(text, decision.plan, decision.node, granted(decision.allocation), Reader.INVENTORY)

    def bound(self, pod: Watched) -> None:
        """A pod has got its node, and CPUs there."""
        self._judge(pod.text, pod.plan, pod.node, pod.devices, Reader.WRITER)

    def _judge(self, text: str, plan: str, node: str, grants: Iterable[Grant], reader: Reader) -> None:
        sight, verb = self._capacity.sight, "is bound to" if reader is Reader.WRITER else "is decided for"
        kept_since_s = self._kept_since_s.get(node, {})
        for grant in grants:
            if grant.kind != CPU:
                continue
            since_s = kept_since_s.get(grant.minor, -NEVER)
            if since_s != NEVER and not sight.has_seen(reader, since_s):
                self._verdicts.excused("I23b", sight.excuse(since_s))
                continue
            self._verdicts.judged("I23b")
            if since_s != NEVER:
                evidence = f"{text}: {verb} CPU {grant.id} of {node}, which pods may not have"
                self._verdicts.add("I23b", f"{text}, plan {plan}, {verb} CPU {grant.id}", evidence)

    def _changed(self, node: str) -> None:
        seen, sight = self._objects.get(node), self._capacity.sight
        layout = layout_of(seen, self._notes.get(node, {})) if seen is not None else NOWHERE
        kept = self._kept_since_s.setdefault(node, {})
        for cpu in kept.keys() - layout.cpus:
            kept[cpu] = min(kept[cpu], sight.now_s)
        kept.update(dict.fromkeys(layout.cpus, NEVER))
        limit = self._capacity.numa_nodes.setdefault(node, Limit({}))
        limit.change(_amounts(layout), sight)
        self._capacity.numa_nodes_changed(node)


def _amounts(layout: Layout) -> dict[str, int]:
    return {f"{zone}/{name}": amount for (zone, name), amount in layout.zones.items()}
