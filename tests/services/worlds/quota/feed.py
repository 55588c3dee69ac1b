"""Writes of cluster-watcher, as a reconciler sees them."""

from __future__ import annotations

from typing import Any

from berth.bus.port import Entry
from berth.contracts import names, state
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.kube import LabelSelector
from berth.contracts.subjects import named_key, namespaced_key, pod_key, synced_key
from berth.quota_manager.core.engine import Rules
from berth.quota_manager.reconciler import Reconciler


class Feed:
    """Writes of cluster-watcher, as a reconciler sees them."""

    def __init__(self, rules: Rules | None = None, **options: Any) -> None:
        self.news = 0
        self.sequence = 0
        self.reconciler = Reconciler(rules or Rules(), on_news=self._count, **options)

    def _count(self) -> None:
        self.news += 1

    def put(self, key: str, message: Message) -> None:
        self.raw(key, encode(message))

    def raw(self, key: str, value: bytes, *, deleted: bool = False) -> None:
        self.sequence += 1
        self.reconciler.view.apply(Entry(key, value, deleted, self.sequence, 0, False, None))

    def delete(self, key: str) -> None:
        self.raw(key, b"", deleted=True)

    def pod(
        self,
        name: str,
        *,
        quota: str = "",
        cpu: int = 1000,
        node: str = "",
        namespace: str = "ns",
        phase: str = "",
        **labels: str,
    ) -> None:
        labels = {names.LABEL_QUOTA_NAME: quota} | labels if quota else labels
        template = state.PodTemplate(requests={"cpu": cpu}, labels=labels)
        whole = state.Pod(
            namespace=namespace, name=name, uid=name, version=1, template=template, node=node, phase=phase
        )
        self.put(pod_key(namespace, name), whole)

    def node(self, name: str, cpu: int = 10_000, **fields: Any) -> None:
        node = state.Node(name=name, uid=name, version=1, allocatable={"cpu": cpu}, **fields)
        self.put(named_key("node", name), node)

    def quota(
        self,
        name: str,
        *,
        cpu: int = 8000,
        minimum: int = 0,
        annotations: dict[str, str] | None = None,
        used: dict[str, int] | None = None,
        namespace: str = "ns",
        **labels: str,
    ) -> None:
        full = {names.QUOTA_PREFIX + label.replace("_", "-"): value for label, value in labels.items()}
        quota = state.ElasticQuota(
            namespace=namespace,
            name=name,
            uid=f"uid-{name}",
            version=1,
            labels=full,
            annotations=annotations or {},
            min={"cpu": minimum},
            max={"cpu": cpu},
            used=used or {},
        )
        self.put(namespaced_key("elasticquota", namespace, name), quota)

    def profile(self, name: str, pool: str, *, namespace: str = "ns", uid: str = "u", **fields: Any) -> None:
        """A profile of the nodes labelled `pool`."""
        selector = LabelSelector(match_labels={"pool": pool})
        whole = {"quota_name": f"{name}-root", "selector": selector, "version": 1} | fields
        self.put(
            namespaced_key("elasticquotaprofile", namespace, name),
            state.ElasticQuotaProfile(namespace=namespace, name=name, uid=uid, **whole),
        )

    def complete(self, *kinds: str) -> None:
        for kind in kinds or ("pods", "nodes", "elasticquotas", "elasticquotaprofiles"):
            self.put(synced_key(kind), state.Synced(kind=kind, version=1, complete=True))
        self.reconciler.view.end(self.sequence)
