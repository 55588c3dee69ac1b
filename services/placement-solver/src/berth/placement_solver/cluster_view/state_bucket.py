"""STATE: the objects of the cluster, each taken in by its kind."""

from __future__ import annotations

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.state import (
    ConfigMap,
    ElasticQuota,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    Reservation,
    Synced,
)
from berth.placement_solver.cluster_view.inventory_bucket import InventoryBucket
from berth.placement_solver.cluster_view.load_buckets import LoadBuckets
from berth.placement_solver.cluster_view.waiting import WaitingRules
from berth.placement_solver.core.pod_selectors import KINDS as SELECTING_KINDS
from berth.placement_solver.core.prices.workload import has_left
from berth.placement_solver.core.state_keys import namespaced, tombstone_version
from berth.placement_solver.core.volumes import KINDS as STORAGE_KINDS
from berth.rules.preemption import compile_budget
from berth.rules.queueing.events import NODE
from berth.transaction.claims import Name


class StateBucket(WaitingRules, InventoryBucket, LoadBuckets):
    """What cluster-watcher shows, and how far it has been read."""

    def reset_state(self) -> None:
        """STATE starts over. Nodes disappear until they are read again; decisions go on holding their capacity."""
        self.book.reset_state()
        self.loose = set(self.book.ledger.decisions)
        self.inventories.reset_state()
        self.topologies.reset_state()
        self._state_began_anew = True
        for name in self.nodes.names:
            self.nodes.see_node(name, None)
            self._see_images(name, None)
        self.loads.renew(self.nodes.names)
        for waiting in list(self.queue.waiting):
            self.queue.drop(waiting)
        self.gangs.reset()
        self.pod_groups.clear()
        self.namespaces.clear()
        self.budgets.clear()
        self.facts.peers.reset()
        self.awaited.reset_state()
        self.volumes.reset()
        self.eviction_inputs.reset()
        self.leavers.forget_pods()
        self.take_overs.running.reset()
        self.placeholders.reset()
        self.growths.asking.clear()
        self.selectors.reset()
        self.changed_gangs.clear()
        self.configuration.reset()
        self.facts.npu_templates.reset()

    def end_of_state(self) -> None:
        """The end of STATE was reached."""
        was_complete, was_unread = self.volumes.is_complete, bool(self.eviction_inputs.unread)
        knew_fellows = self.selectors.is_complete
        for tracker in self._trackers.values():
            tracker.end()
        self.configuration.look()
        self._see_templates(self.facts.npu_templates.end())
        if self.volumes.is_complete and not was_complete:
            self.capacity_came_back = True  # pods with claims have waited for it
        if was_unread and not self.eviction_inputs.unread:
            self.capacity_came_back = True  # whom it may help that others leave
        self.fellows_changed |= self.selectors.is_complete and not knew_fellows
        self._settle()
        if self._state_began_anew:  # what was shown of a node before may be gone
            self._state_began_anew = False
            for name in self.nodes.names:
                self._count_devices(name)
                self._count_cores(name)
        self._look_at_unread()

    def read_state(self, key: str, value: bytes, *, deleted: bool, gap: bool, trace: str | None) -> None:
        """Take in one message of STATE. Raises InvalidMessage for a malformed one."""
        self.moment += 1
        if gap:
            for tracker in self._trackers.values():
                tracker.gap()
        kind, _, rest = key.partition(".")
        if kind == "pod":
            self._read_pod(rest, value, deleted, trace)
        elif kind == "node":
            self._read_node(subjects.unescape(rest), value, deleted)
        elif kind == "device":
            self._read_device(subjects.unescape(rest), value, deleted)
        elif kind == "noderesourcetopology":
            self._read_report(subjects.unescape(rest), value, deleted)
        elif kind == "reservation":
            self._read_reservation(subjects.unescape(rest), value, deleted, trace)
        elif kind == "namespace":
            self._read_namespace(subjects.unescape(rest), value, deleted)
        elif kind == "podgroup":
            self._read_pod_group(rest, value, deleted)
        elif kind == "elasticquota":
            self._read_elastic_quota(rest, value, deleted)
        elif kind == "poddisruptionbudget":
            self._read_budget(rest, value, deleted)
        elif kind == "configmap":
            self.configuration.read_config_map(key, value, deleted)
            name, found = namespaced(rest), None if deleted else decode(value, ConfigMap)
            self._see_templates(self.facts.npu_templates.see(name, None if found is None else found.data))
        elif kind in STORAGE_KINDS:
            self.volumes.read(kind, rest, value, deleted=deleted)
        elif kind in SELECTING_KINDS:
            self.fellows_changed |= self.selectors.read(kind, rest, value, deleted=deleted)
        elif kind == "synced" and not deleted:
            marker = decode(value, Synced)
            if marker.kind in self._trackers:
                knew_fellows = self.selectors.is_complete
                self._trackers[marker.kind].marked(marker.version, marker.complete)
                self.fellows_changed |= self.selectors.is_complete and not knew_fellows
                self.configuration.look()
                self._settle()
                self._look_at_unread()

    def _read_pod(self, rest: str, value: bytes, deleted: bool, trace: str | None) -> None:
        name = namespaced(rest)
        tracker = self.book.complete["pods"]
        self._leaving = self.book.pods.get(name)
        pod = None
        if deleted:
            tracker.seen(tombstone_version(value))
        else:
            pod = decode(value, Pod)
            tracker.seen(pod.version)
            if trace and not pod.node:
                self._traces[name] = trace
        beneficiaries = self.beneficiaries.of(name, self.book)
        had_node = self._place_of(name) != ""
        self.book.see_pod(name, pod)
        if had_node and has_left(self._leaving, pod):
            self.prices.workload.left()
        self.happenings.relabelled(self._leaving, pod)
        if any(each is not None and self.is_ours(each) for each in (self._leaving, pod)):
            among = max(len(self.book.pods) - len(self.queue.waiting), 0)
            self.stays.see(self._leaving, pod, self.payers.of, self.now_ms / 1000, among)
        self._leaving = None
        self._see_pod(name)
        for each in sorted(beneficiaries | self.beneficiaries.of(name, self.book)):
            self._judge_beneficiary(each)
        self._traces.pop(name, None)

    def _read_reservation(self, name: str, value: bytes, deleted: bool, trace: str | None) -> None:
        key = ("", name)
        tracker = self.book.complete["reservations"]
        if deleted:
            reservation = None
            tracker.seen(tombstone_version(value))
        else:
            reservation = decode(value, Reservation)
            tracker.seen(reservation.version)
        self.book.see_reservation(key, reservation)
        self.growths.see(key, reservation)
        if self.awaited.capacity.see(name, reservation):
            self.capacity_came_back = True
        self._judge(key)
        waiting = self.queue.waiting.get(key)
        if waiting is not None and waiting.is_overtaken and not waiting.ready:
            self.queue.rest_until(waiting, self.now)

    def _see_pod(self, name: Name) -> None:
        """The pod of a name has been read into the book."""
        pod = self._pod(name)
        self.facts.see_pod(name, pod)
        self.leavers.see_pod(name, pod)
        self.take_overs.running.see(name, pod)
        if self.placeholders.see(name, pod):
            self.capacity_came_back = True
        self._judge(name)

    def _judge_beneficiary(self, name: Name) -> None:
        """One of those who leave for it has moved: what may be planned for it may be another thing now."""
        self._judge(name)
        waiting = self.queue.waiting.get(name)
        if waiting is not None and not waiting.ready:
            self.queue.rest_until(waiting, self.now)

    def _read_budget(self, rest: str, value: bytes, deleted: bool) -> None:
        budget = None if deleted else compile_budget(decode(value, PodDisruptionBudget))
        if budget is None:
            self.budgets.pop(namespaced(rest), None)
        else:
            self.budgets[namespaced(rest)] = budget

    def _read_namespace(self, name: str, value: bytes, deleted: bool) -> None:
        labels = None if deleted else decode(value, Namespace).labels
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        peers = self.facts.peers
        before = peers.relabelled
        peers.see_namespace(name, labels)
        if peers.relabelled != before:
            self.capacity_came_back = True

    def _read_node(self, name: str, value: bytes, deleted: bool) -> None:
        node = None if deleted else decode(value, Node)
        before = self.nodes.states[self.nodes.row(name)]
        self.nodes.see_node(name, node)
        self.happenings.changed(NODE, before, self.nodes.state(name))
        self._see_images(name, node)
        self._eased(self.loads.renew((name,)))

    def _see_images(self, name: str, node: Node | None) -> None:
        alive = node is not None and not node.deleting
        row = self.nodes.rows.get(name)
        if row is not None:
            self.facts.images.see(row, node.images if node is not None and alive else None)

    def _read_elastic_quota(self, rest: str, value: bytes, deleted: bool) -> None:
        """Only which there are: QUOTA says what they allow."""
        namespace, name = namespaced(rest)
        if deleted:
            self.awaited.elastic_quotas.forget(namespace, name)
            self.awaited.elastic_quotas.complete.seen(tombstone_version(value))
        else:
            self.awaited.elastic_quotas.see(namespace, name, self.now)
            self.awaited.elastic_quotas.complete.seen(decode(value, ElasticQuota).version)
        self._look_at_unread(is_news=True)

    def _read_pod_group(self, rest: str, value: bytes, deleted: bool) -> None:
        namespace, name = namespaced(rest)
        group = None if deleted else decode(value, PodGroup)
        known = self.gangs.gangs.get(f"{namespace}/{name}")
        before = known.config if known else None
        gang_id = self.gangs.see_group(namespace, name, group)
        self.changed_gangs.add(gang_id)
        if group is None:
            self.pod_groups.pop(gang_id, None)
        else:
            self.pod_groups[gang_id] = group
        gang = self.gangs.gangs.get(gang_id)
        if gang is None:
            return
        for member in sorted(gang.children):
            if gang.config != before and member in self.queue.waiting:
                self.queue.waiting[member].tries = 0  # it was refused as a member of another gang, as it were
            self._judge(member)
        if not gang.children:
            self._wake_group(self.gangs.group_of(gang_id))
