"""Quotas as the rules of admission ask about them: the objects, what they claim, and which pods belong to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, add_into, parse_amounts, subtract_from
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.quota_admission.quota import KnownQuotas, Quota
from berth.rules.quota_of_pod import DEFAULT_GROUP, QuotaClaim, QuotaMap, parse_namespaces

LABEL_FORCE_UPDATE: Final = names.QUOTA_PREFIX + "allow-force-update"
_FINISHED: Final = frozenset(("Succeeded", "Failed"))


class PodLabels(msgspec.Struct, frozen=True):
    """The label of a pod that names its quota."""

    quota: str = msgspec.field(name=names.LABEL_QUOTA_NAME, default="")


class PodTemplate(msgspec.Struct, frozen=True):
    """The part of a pod that says what it asks for."""

    requests: Amounts = {}
    labels: PodLabels = PodLabels()


class PodView(msgspec.Struct, frozen=True, tag_field="type", tag="pod.seen.v1"):
    """A pod as far as quotas care: a few fields of a message that may be large."""

    namespace: str
    template: PodTemplate = PodTemplate()
    phase: str = ""


class _Tally:
    """Pods together: how many, and what they ask for."""

    __slots__ = ("amounts", "count")

    def __init__(self) -> None:
        self.count = 0
        self.amounts: Amounts = {}


class _Held(NamedTuple):
    """Where a pod is counted: by its label, or if it has none by its namespace."""

    label: str
    namespace: str
    amounts: Amounts


class PodBook:
    """How many pods there are of each quota, and what they ask for.

    A change costs one look-up, a question as many as a quota has namespaces; but for the default group, which has
    whatever no other one has, and nobody asks about when a pod is created.
    """

    def __init__(self, quota_map: QuotaMap) -> None:
        self._quota_map = quota_map
        self._pods: dict[str, _Held] = {}
        self._labelled: dict[str, _Tally] = {}
        self._unlabelled: dict[str, _Tally] = {}

    def put(self, key: str, pod: PodView) -> None:
        """A pod is there; one that has finished counts for nothing."""
        self.remove(key)
        if pod.phase in _FINISHED:
            return
        held = self._pods[key] = _Held(pod.template.labels.quota, pod.namespace, dict(pod.template.requests))
        tallies, by = self._place(held)
        tally = tallies.setdefault(by, _Tally())
        tally.count += 1
        add_into(tally.amounts, held.amounts)

    def remove(self, key: str) -> None:
        """A pod is gone."""
        held = self._pods.pop(key, None)
        if held is None:
            return
        tallies, by = self._place(held)
        tally = tallies[by]
        tally.count -= 1
        if tally.count:
            subtract_from(tally.amounts, held.amounts)
        else:
            del tallies[by]

    def count(self, quota: str) -> int:
        """How many pods belong to a quota."""
        return sum(tally.count for tally in self._of(quota))

    def booked(self, quota: str) -> Amounts:
        """What the pods of a quota ask for together."""
        total: Amounts = {}
        for tally in self._of(quota):
            add_into(total, tally.amounts)
        return total

    def _place(self, held: _Held) -> tuple[dict[str, _Tally], str]:
        return (self._labelled, held.label) if held.label else (self._unlabelled, held.namespace)

    def _of(self, quota: str) -> Iterator[_Tally]:
        known = self._quota_map
        if quota not in known:
            return
        if quota == DEFAULT_GROUP:
            yield from (tally for label, tally in self._labelled.items() if known.group_of(label, "") == quota)
            yield from (tally for name, tally in self._unlabelled.items() if known.group_of("", name) == quota)
            return
        if quota in self._labelled:
            yield self._labelled[quota]
        for namespace in known.served_by(quota):
            if namespace in self._unlabelled:
                yield self._unlabelled[namespace]


class QuotaBook:
    """All ElasticQuotas. Of several of one name the rules see the first by namespace, and that there are others."""

    def __init__(self, *, uses_default: bool) -> None:
        self.known = KnownQuotas()
        self.map = QuotaMap(uses_default=uses_default)
        self.limits: dict[str, Amounts] = {}
        """The annotation `admission` of those that have one, by name."""
        self.namesakes: frozenset[str] = frozenset()
        self._objects: dict[str, dict[str, state.ElasticQuota]] = {}

    def put(self, quota: state.ElasticQuota) -> None:
        """A quota is there, or says something else."""
        self._objects.setdefault(quota.name, {})[quota.namespace] = quota
        namespaces, _ = parse_namespaces(quota.annotations)
        self.map.put(QuotaClaim(name=quota.name, namespace=quota.namespace, namespaces=namespaces))
        self._settle(quota.name)

    def remove(self, namespace: str, name: str) -> None:
        """A quota is gone."""
        objects = self._objects.get(name, {})
        if objects.pop(namespace, None) is not None:
            self.map.drop(name, namespace)
            self._settle(name)

    def _settle(self, name: str) -> None:
        objects = self._objects.get(name, {})
        self.namesakes = self.namesakes | {name} if len(objects) > 1 else self.namesakes - {name}
        self.limits.pop(name, None)
        if not objects:
            self._objects.pop(name, None)
            self.known.remove(name)
            return
        quota = objects[min(objects)]
        self.known.put(read_quota(quota))
        if names.ANNOTATION_QUOTA_ADMISSION in quota.annotations:
            self.limits[name] = _amounts(quota, names.ANNOTATION_QUOTA_ADMISSION) or {}


def read_quota(quota: state.ElasticQuota) -> Quota:
    """An ElasticQuota as admission looks at it."""
    labels, annotations = quota.labels, quota.annotations
    namespaces, _ = parse_namespaces(annotations)
    strict = read_annotation(annotations, names.ANNOTATION_QUOTA_STRICT_KEYS, list[str])
    return Quota(
        name=quota.name,
        namespace=quota.namespace,
        parent=labels.get(names.LABEL_QUOTA_PARENT, ""),
        is_parent=labels.get(names.LABEL_QUOTA_IS_PARENT) == "true",
        is_root=labels.get(names.LABEL_QUOTA_IS_ROOT) == "true",
        tree=labels.get(names.LABEL_QUOTA_TREE, ""),
        is_forced=labels.get(LABEL_FORCE_UPDATE) == "true",
        min=quota.min,
        max=quota.max,
        weight=_amounts(quota, names.ANNOTATION_QUOTA_WEIGHT),
        guaranteed=_amounts(quota, names.ANNOTATION_QUOTA_GUARANTEED) or {},
        namespaces=namespaces,
        used=quota.used,
        strict_keys=tuple(strict) if isinstance(strict, list) else (),
    )


def _amounts(quota: state.ElasticQuota, name: str) -> Amounts | None:
    """A resource list in an annotation; None where there is none, or none that can be read."""
    mapping = read_annotation(quota.annotations, name, dict[str, str | int | float])
    if mapping is None or isinstance(mapping, Problem):
        return None
    amounts, problems = parse_amounts(mapping, annotation_field(name))
    return None if problems else amounts
