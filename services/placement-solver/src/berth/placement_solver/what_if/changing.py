"""A view in which what is supposed has happened: written as the messages of the buckets would say it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from berth.contracts import names, subjects
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod
from berth.contracts.what_if import WhatIfQuestion
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.what_if.checking import names_of
from berth.rules.records.binds import names_of_records
from berth.transaction.book import FINISHED_PHASES
from berth.transaction.claims import Name

ARRIVAL_S: Final = 0.0005
"""Pods come one after the other, as an API server shows them."""
_OWN: Final = (names.ANNOTATION_PLAN, names.ANNOTATION_ATTEMPT, names.ANNOTATION_NOMINATED, names.ANNOTATION_LET_GO)


class Supposed:
    """Writes into a view that belongs to nobody else, after everything that it has read."""

    def __init__(self, cluster: ClusterView) -> None:
        self.cluster = cluster
        self.moved: list[Name] = []
        """Pods that wait anew, for their node is gone."""
        trackers = cluster.book.complete.values()
        epoch = cluster.book.ledger.epoch
        self._version = max(epoch.pods_version, epoch.reservations_version, *(each.version for each in trackers))
        self._version = max(self._version, *(pod.version for pod in cluster.book.pods.values()), 0)
        self._uids = 0

    def change(self, question: WhatIfQuestion) -> list[Name]:
        """All that the question says; the pods that it supposes."""
        cluster = self.cluster
        for group in question.groups:
            cluster.read_quota(subjects.quota_key(group.tree, group.name), encode(group), False)
        for node in question.without_nodes:
            self._take_node(node)
        for gang in question.gangs:
            self._write(
                subjects.namespaced_key("podgroup", gang.namespace, gang.name),
                replace(gang, version=self._next(), uid=self._uid()),
            )
        asked: list[Name] = []
        for each in question.pods:
            for name in names_of(each.pod.name, each.count):
                asked.append((each.pod.namespace, name))
                self._come(replace(each.pod, name=name), question.profile)
        cluster.end_of_state()
        return asked

    def _come(self, pod: Pod, profile: str = "") -> None:
        """A pod that waits for a node, as it is shown when it has been made."""
        template = replace(pod.template, scheduler=profile) if profile else pod.template
        self.cluster.now += ARRIVAL_S
        waits = as_waiting(replace(pod, uid=self._uid(), version=self._next(), template=template))
        self._write(subjects.pod_key(pod.namespace, pod.name), waits)

    def _take_node(self, node: str) -> None:
        """The node is gone, and with it what was decided or nominated there; its pods are made anew."""
        cluster = self.cluster
        book = cluster.book
        there = {claim.name for claim in book.claims_on(node) if claim.name[0]}
        decided = {each.name for each in book.nominations.on(node)} | {
            name for name in there if (held := book.ledger.decisions.get(name)) and held.decision.node == node
        }
        pods = [pod for name in sorted(there) if (pod := book.pods.get(name)) is not None and pod.node == node]
        self.delete(subjects.named_key("node", node))
        self.forget(sorted(decided))
        for pod in pods:
            self.leave((pod.namespace, pod.name))
        for pod in pods:
            if _is_made_anew(pod):
                self.moved.append((pod.namespace, pod.name))
                self._come(unplaced(pod))

    def bind(self, decision: Decision) -> None:
        """What is decided for a pod is shown as bound."""
        name = (decision.namespace, decision.name)
        pod = self.cluster.book.pods.get(name)
        if pod is None or pod.uid != decision.uid or pod.node:
            return
        self._write(subjects.pod_key(*name), replace(as_bound(pod, decision), version=self._next()))

    def leave(self, name: Name) -> None:
        """A pod is gone."""
        self.delete(subjects.pod_key(*name))

    def delete(self, key: str) -> None:
        """An object is gone."""
        self.cluster.read_state(key, str(self._next()).encode(), deleted=True, gap=False, trace=None)

    def forget(self, decided: Iterable[Name]) -> None:
        """Decisions are taken back."""
        ledger = self.cluster.book.ledger
        for name in decided:
            if name in ledger.decisions:
                self.cluster.read_ledger(
                    subjects.decision_key(ledger.epoch.epoch, *name), b"", True, ledger.sequence + 1
                )

    def _write(self, key: str, message: Message) -> None:
        self.cluster.read_state(key, encode(message), deleted=False, gap=False, trace=None)

    def _next(self) -> int:
        self._version += 1
        return self._version

    def _uid(self) -> str:
        self._uids += 1
        return f"what-if-{self._uids}"


def as_waiting(pod: Pod) -> Pod:
    """A pod as it is shown when it has been made: it waits for a node."""
    return replace(
        pod,
        node="",
        phase="Pending",
        deleting=False,
        attempt=0,
        plan="",
        unschedulable="",
        scheduled="",
        started="",
        initialized="",
        deletes_at="",
        disruption="",
        nominated="",
        ready=False,
    )


def unplaced(pod: Pod) -> Pod:
    """A pod without what was written about its place."""
    return replace(pod, template=replace(pod.template, annotations=_as_made(pod)))


def as_bound(pod: Pod, decision: Decision) -> Pod:
    """A pod as it is shown when what was decided for it has been carried out."""
    return replace(
        pod,
        node=decision.node,
        plan=decision.plan,
        phase="Running",
        nominated="",
        template=replace(pod.template, annotations={**pod.template.annotations, **decision.annotations}),
    )


def _is_made_anew(pod: Pod) -> bool:
    """Whether whoever made the pod would make another one like it for a node elsewhere."""
    is_of_node = pod.mirror or any(owner.controller and owner.kind == "DaemonSet" for owner in pod.owners)
    return not (is_of_node or pod.deleting or pod.phase in FINISHED_PHASES)


def _as_made(pod: Pod) -> dict[str, str]:
    """Its annotations without what was written about its place."""
    written = {*names_of_records(), *_OWN}
    return {name: text for name, text in pod.template.annotations.items() if name not in written}
