"""What admission goes by, as STATE shows it: profiles, priority classes, namespaces, quotas, pods of quotas, nodes.

A sink only records and marks. What stands in `reviewed` is read by the rules at every request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from berth.admission_webhook.core.quotas import PodBook, PodView, QuotaBook
from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import namespaced_key, parts, synced_key
from berth.rules.admission.gates import CONFIG_MAP_VALIDATING, NO_DEFAULT_QUOTA, NODE_VALIDATING, Gates
from berth.rules.admission.node_selectors import Named, NodeSelectors
from berth.rules.admission.profiles import read_profile
from berth.rules.admission.required_labels import NAME as REQUIRED_LABELS
from berth.rules.admission.required_labels import NAMESPACE as REQUIRED_LABELS_NAMESPACE
from berth.rules.admission.required_labels import RequiredLabels, read_required_labels
from berth.rules.admission.seal import Seal
from berth.rules.admission.views import Views
from berth.rules.node_strategies.config import KEY_OF, Section, read_config
from berth.rules.quota_trees import read_profile as read_tree_profile
from berth.vendors.registry import REGISTRY

REQUIRED: Final = ("clustercolocationprofiles", "priorityclasses", "namespaces", "elasticquotas")
_MARKERS: Final = frozenset(synced_key(kind) for kind in REQUIRED)
_REQUIRED_LABELS: Final = namespaced_key("configmap", REQUIRED_LABELS_NAMESPACE, REQUIRED_LABELS)
_KINDS: Final = (
    "clustercolocationprofile",
    "priorityclass",
    "namespace",
    "elasticquota",
    "elasticquotaprofile",
    "pod",
)


class ClusterView:
    """STATE for the rules, and the profiles as they stand."""

    def __init__(self, gates: Gates, mark: Callable[[], None], strategies: tuple[str, str]) -> None:
        """`mark`: called when profiles change. `strategies`: namespace and name of their ConfigMap."""
        self.profiles: dict[str, state.ClusterColocationProfile] = {}
        self.problems: dict[str, Problem] = {}
        """Why a profile cannot be used, by name."""
        self.unreadable = 0
        self.seal = Seal()
        self._gates = gates
        self._mark = mark
        self._complete: set[str] = set()
        self._is_at_end = False
        self._reads_nodes = NODE_VALIDATING in gates or CONFIG_MAP_VALIDATING in gates
        self._strategies_key = namespaced_key("configmap", *strategies)
        self._begin()

    def _begin(self) -> None:
        self._priority_classes: dict[str, state.PriorityClass] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._strategies: Mapping[str, Section] = {}
        self._tree_profiles: dict[str, state.ElasticQuotaProfile] = {}
        self._quotas = QuotaBook(uses_default=NO_DEFAULT_QUOTA not in self._gates)
        self._pods = PodBook(self._quotas.map)
        self.reviewed = Views(
            priority_classes=self._priority_classes,
            namespaces=self._namespaces,
            seal=self.seal,
            kept_whole=frozenset(name for vendor in REGISTRY for name in vendor.keeps_whole),
            quotas=self._quotas.known,
            quota_map=self._quotas.map,
            quota_limits=self._quotas.limits,
            booked=self._pods.booked,
            bound_pods=self._pods.count,
            nodes=self._nodes.items,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """What of STATE is read."""
        nodes = ("node.>", self._strategies_key) if self._reads_nodes else ()
        return (*(f"{kind}.>" for kind in _KINDS), *nodes, _REQUIRED_LABELS, *sorted(_MARKERS))

    @property
    def is_complete(self) -> bool:
        """Whether what is not here does not exist."""
        return self._is_at_end and self._complete >= _MARKERS

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        if not self._is_at_end:
            return "reading the state of the cluster"
        lacking = sorted(marker.removeprefix("synced.") for marker in _MARKERS - self._complete)
        return f"waiting for {', '.join(lacking)}" if lacking else "complete"

    def seal_with(self, keys: tuple[bytes, ...]) -> None:
        """These replicas seal."""
        self.seal = self.reviewed.seal = Seal(keys)

    def reset(self) -> None:
        """The bucket begins anew."""
        self.profiles.clear()
        self.problems.clear()
        self._complete.clear()
        self._is_at_end = False
        self._begin()

    def apply(self, entry: Entry) -> None:
        """One message of STATE. One that cannot be read leaves what was known."""
        try:
            if entry.key in _MARKERS:
                is_complete = not entry.deleted and decode(entry.value, state.Synced).complete
                (self._complete.add if is_complete else self._complete.discard)(entry.key)
            elif entry.key == _REQUIRED_LABELS:
                self._require_labels({} if entry.deleted else decode(entry.value, state.ConfigMap).data)
            elif entry.key == self._strategies_key:
                self._select_nodes({} if entry.deleted else decode(entry.value, state.ConfigMap).data)
            else:
                self._apply(entry, entry.key.partition(".")[0])
        except (InvalidMessage, ValueError):
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self._is_at_end:
            self._is_at_end = True
            self._mark()

    def _apply(self, entry: Entry, kind: str) -> None:
        if kind == "pod":
            if entry.deleted:
                self._pods.remove(entry.key)
            else:
                self._pods.put(entry.key, decode(entry.value, PodView))
            return
        *_, namespace, name = parts(entry.key)
        if kind == "clustercolocationprofile":
            self._profile(name, None if entry.deleted else decode(entry.value, state.ClusterColocationProfile))
        elif kind == "elasticquota":
            if entry.deleted:
                self._quotas.remove(namespace, name)
            else:
                self._quotas.put(decode(entry.value, state.ElasticQuota))
            self.reviewed.quota_namesakes = self._quotas.namesakes
        elif kind == "elasticquotaprofile":
            if entry.deleted:
                self._tree_profiles.pop(entry.key, None)
            else:
                self._tree_profiles[entry.key] = decode(entry.value, state.ElasticQuotaProfile)
            self.reviewed.tree_profiles = [read_tree_profile(each) for each in self._tree_profiles.values()]
        elif entry.deleted:
            self._forget(kind, name)
        elif kind == "priorityclass":
            self._priority_classes[name] = decode(entry.value, state.PriorityClass)
        elif kind == "namespace":
            self._namespaces[name] = decode(entry.value, state.Namespace).labels
        elif kind == "node":
            self._nodes[name] = decode(entry.value, state.Node).labels

    def _forget(self, kind: str, name: str) -> None:
        if kind == "priorityclass":
            self._priority_classes.pop(name, None)
        elif kind == "namespace":
            self._namespaces.pop(name, None)
        elif kind == "node":
            self._nodes.pop(name, None)

    def _profile(self, name: str, profile: state.ClusterColocationProfile | None) -> None:
        self.problems.pop(name, None)
        self.profiles.pop(name, None)
        self.reviewed.profiles.remove(name)
        if profile is not None:
            self.profiles[name] = profile
            read = read_profile(name, profile.annotations, profile.spec)
            if profile.problems or isinstance(read, Problem):
                self.problems[name] = profile.problems[0] if profile.problems else read  # type: ignore[assignment]
            else:
                self.reviewed.profiles.put(read)
        self._mark()

    def _select_nodes(self, data: Mapping[str, str]) -> None:
        """What is of no use leaves what was in force, as for who carries strategies out."""
        found = read_config(data, self._strategies)
        self._strategies = found.sections
        self.reviewed.node_selectors = NodeSelectors(
            {
                KEY_OF[name]: [Named(each.name, each.selector) for each in section.nodes if each.selector is not None]
                for name, section in found.sections.items()
            }
        )

    def _require_labels(self, data: Mapping[str, str]) -> None:
        found, problem = read_required_labels(data)
        self.reviewed.required_labels = found if problem is None else RequiredLabels()
