"""Quotas as the rules of admission ask about them: the objects, what they claim, and which pods belong to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, add_into, parse_amounts, subtract_from
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.quota_admission.quota import KnownQuotas, Quota
from berth.rules.quota_of_pod import QuotaClaim, QuotaMap, parse_namespaces

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


class _Class(NamedTuple):
    label: str
    namespace: str


class PodBook:
    """How many pods there are of each label and namespace, and what they ask for. A change costs one look-up."""

    def __init__(self, quota_map: QuotaMap) -> None:
        self._quota_map = quota_map
        self._pods: dict[str, tuple[_Class, Amounts]] = {}
        self._counts: Counter[_Class] = Counter()
        self._asked: dict[_Class, Amounts] = {}

    def put(self, key: str, pod: PodView) -> None:
        """A pod is there; one that has finished counts for nothing."""
        self.remove(key)
        if pod.phase in _FINISHED:
            return
        of, amounts = _Class(pod.template.labels.quota, pod.namespace), dict(pod.template.requests)
        self._pods[key] = of, amounts
        self._counts[of] += 1
        add_into(self._asked.setdefault(of, {}), amounts)

    def remove(self, key: str) -> None:
        """A pod is gone."""
        known = self._pods.pop(key, None)
        if known is None:
            return
        of, amounts = known
        self._counts[of] -= 1
        if self._counts[of]:
            subtract_from(self._asked[of], amounts)
        else:
            del self._counts[of], self._asked[of]

    def count(self, quota: str) -> int:
        """How many pods belong to a quota."""
        return sum(self._counts[each] for each in self._of(quota))

    def booked(self, quota: str) -> Amounts:
        """What the pods of a quota ask for together."""
        total: Amounts = {}
        for each in self._of(quota):
            add_into(total, self._asked[each])
        return total

    def _of(self, quota: str) -> Iterable[_Class]:
        group_of = self._quota_map.group_of
        return [each for each in self._counts if group_of(each.label, each.namespace) == quota]


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
