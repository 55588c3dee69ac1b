"""What limits capacity, as the API shows it: nodes, devices, quota groups. And the writer's Lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.contracts import names
from berth.invariants.facts import amounts_of
from berth.invariants.observer.capacity import Capacity, Group, Limit
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.fitness import Fitness
from berth.invariants.observer.gang_watch import GangWatch
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.observer.withdrawals import Withdrawals
from berth.invariants.things import WHOLE
from berth.rules.quota_of_pod import QuotaClaim, parse_namespaces

LEASE: Final = "cluster-writer"


class Limits:
    """Writes what objects say into the limits of capacity."""

    def __init__(
        self,
        verdicts: Verdicts,
        capacity: Capacity,
        decided: Decided,
        gangs: GangWatch,
        fitness: Fitness,
        withdrawals: Withdrawals,
    ) -> None:
        self._gangs = gangs
        self._fitness = fitness
        self._withdrawals = withdrawals
        self._verdicts = verdicts
        self._capacity = capacity
        self._decided = decided
        self._lease_epoch = 0

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node."""
        self._fitness.see_node(data, deleted)
        self._withdrawals.see_node(data, deleted)
        name = data["metadata"]["name"]
        if deleted:
            self._capacity.nodes.pop(name, None)
            return
        offered = amounts_of((data.get("status") or {}).get("allocatable"))
        limit = self._capacity.nodes.get(name)
        if limit is None:
            self._capacity.nodes[name] = Limit(offered)
        else:
            limit.change(offered, self._capacity.sight)

    def see_device(self, data: Mapping[str, Any], deleted: bool) -> None:
        """The devices of a node. What differs between cards counts with the most that a minor ever had."""
        self._fitness.see_device(data, deleted)
        node = data["metadata"]["name"]
        for each in () if deleted else (data.get("spec") or {}).get("devices") or ():
            for name, amount in amounts_of(each.get("resources")).items():
                if amount and name not in WHOLE:
                    minor = (node, each.get("type", ""), str(each.get("minor", 0)), name)
                    self._capacity.reported[minor] = max(amount, self._capacity.reported.get(minor, 0))

    def see_quota(self, data: Mapping[str, Any], deleted: bool) -> None:
        """An ElasticQuota."""
        self._quota(data, deleted)
        self._capacity.quotas_changed()

    def _quota(self, data: Mapping[str, Any], deleted: bool) -> None:
        meta = data["metadata"]
        name = meta["name"]
        if deleted:
            self._capacity.groups.pop(name, None)
            self._capacity.claims.drop(name, meta.get("namespace", ""))
            self._capacity.regroup()
            return
        namespaces = parse_namespaces(meta.get("annotations") or {})[0]
        self._capacity.claims.put(QuotaClaim(name, meta.get("namespace", ""), namespaces))
        spec = data.get("spec") or {}
        parent = (meta.get("labels") or {}).get(names.LABEL_QUOTA_PARENT, "")
        most, non_preemptible = amounts_of(spec.get("max")), amounts_of(spec.get("min"))
        known = self._capacity.groups.get(name)
        if known is None or known.parent != parent:
            since_s = self._capacity.sight.now_s if known is None else known.since_s
            self._capacity.groups[name] = Group(parent, Limit(most), Limit(non_preemptible), since_s)
            self._capacity.regroup()
            if known is not None:
                for above in self._capacity.line_of(parent):
                    self._capacity.groups[above].most.begins(self._capacity.sight.now_s)
        else:
            known.most.change(most, self._capacity.sight)
            known.non_preemptible.change(non_preemptible, self._capacity.sight)

    def see_lease(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A Lease: the writer's says the epoch, and the newest plan that anybody may have acted on."""
        meta = data["metadata"]
        if meta.get("name") != LEASE or deleted:
            return
        notes = meta.get("annotations") or {}
        text = notes.get(names.ANNOTATION_EPOCH, "")
        epoch = int(text) if text.isdecimal() and len(text) < 16 else 0
        self._verdicts.judged("I12")
        if epoch < self._lease_epoch:
            text = f"the Lease's epoch goes back from {self._lease_epoch} to {epoch}"
            self._verdicts.add("I12", "lease", text)
        self._lease_epoch = self._decided.lease_epoch = max(epoch, self._lease_epoch)
        begun = self._decided.acted_on(notes.get(names.ANNOTATION_PLAN, ""))
        self._gangs.excuse_started(gang for group in sorted(begun) for gang in group.split(","))
