"""What the messages of STATE mean for quotas: a group's spec, a pod's claim.

The structs here are partial views of `berth.contracts.state`: they name only the fields that quotas depend on, so that
a pod costs a few microseconds to read however large it is.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.contracts.quota import QuotaRules
from berth.quota_manager.core.book import Claim, ClassKey
from berth.quota_manager.core.group import GroupSpec
from berth.resources.amounts import Amounts, parse_amounts
from berth.resources.quantity import AMOUNT_MAX
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.quota_of_pod import parse_namespaces
from berth.rules.quota_payer import charged, group_in, pays_for, uncharged
from berth.rules.records.registry import QUOTA

LABEL_FORCE_UPDATE: Final = names.QUOTA_PREFIX + "allow-force-update"
_FINISHED: Final = frozenset(("Succeeded", "Failed"))


class PodLabels(msgspec.Struct, frozen=True):
    """The labels of a pod that quotas read."""

    quota: str = msgspec.field(name=names.LABEL_QUOTA_NAME, default="")
    preemptible: str = msgspec.field(name=names.LABEL_QUOTA_PREEMPTIBLE, default="")


class PodNotes(msgspec.Struct, frozen=True):
    """The annotations of a pod that quotas read: which group paid at the bind, as `tree/group`, and what it was
    charged beyond the request."""

    paid: str = msgspec.field(name=names.ANNOTATION_QUOTA, default="")
    surcharge: str = msgspec.field(name=names.ANNOTATION_QUOTA_SURCHARGE, default="")


class PodTemplate(msgspec.Struct, frozen=True):
    """The part of a pod that says what it asks for."""

    requests: Amounts = {}
    overhead: Amounts = {}
    labels: PodLabels = PodLabels()
    annotations: PodNotes = PodNotes()


class PodView(msgspec.Struct, frozen=True, tag_field="type", tag="pod.seen.v1"):
    """A pod as far as quotas care."""

    namespace: str
    template: PodTemplate = PodTemplate()
    node: str = ""
    phase: str = ""
    deleting: bool = False


class NodeView(msgspec.Struct, frozen=True, tag_field="type", tag="node.seen.v1"):
    """A node as far as quotas care."""

    name: str
    allocatable: Amounts = {}
    labels: dict[str, str] = {}
    ready: bool = False
    unschedulable: bool = False


def read_pod(pod: PodView, rules: QuotaRules | None = None) -> tuple[ClassKey, Claim] | None:
    """The class and claim of a pod; None when it counts for nothing. One that is bound is charged as its bind says."""
    rules = rules or QuotaRules()
    if pod.phase in _FINISHED or not pays_for(rules, is_deleting=pod.deleting):
        return None
    notes = pod.template.annotations
    surcharge = _surcharge(notes.surcharge) if pod.node and notes.surcharge else {}
    asked = charged(pod.template.requests, uncharged(rules, pod.template.overhead), surcharge)
    labels = pod.template.labels
    amounts = tuple((name, min(amount, AMOUNT_MAX)) for name, amount in sorted(asked.items()) if amount > 0)
    paid = group_in(notes.paid) if pod.node else ""
    key = ClassKey(labels.quota, "" if labels.quota else pod.namespace, "" if paid == labels.quota else paid)
    return key, Claim(amounts, bool(pod.node), labels.preemptible == "false")


def _surcharge(text: str) -> Amounts:
    return QUOTA.read_surcharge({names.ANNOTATION_QUOTA_SURCHARGE: text})


def read_quota(quota: state.ElasticQuota) -> GroupSpec:
    """The spec of an ElasticQuota, with what could not be read in its `problems`."""
    labels, annotations = quota.labels, quota.annotations
    problems = [(problem.field, problem.message) for problem in quota.problems]
    namespaces, problem = parse_namespaces(annotations)
    if problem is not None:
        problems.append((problem.field, problem.message))
    return GroupSpec(
        name=quota.name,
        namespace=quota.namespace,
        parent=labels.get(names.LABEL_QUOTA_PARENT, ""),
        is_parent=labels.get(names.LABEL_QUOTA_IS_PARENT) == "true",
        tree=labels.get(names.LABEL_QUOTA_TREE, ""),
        is_root=labels.get(names.LABEL_QUOTA_IS_ROOT) == "true",
        ignores_default_tree=labels.get(names.LABEL_QUOTA_IGNORE_DEFAULT_TREE) == "true",
        is_forced=labels.get(LABEL_FORCE_UPDATE) == "true",
        min=quota.min,
        max=_ceiling(quota),
        weight=_resource_list(annotations, names.ANNOTATION_QUOTA_WEIGHT, problems),
        lends=labels.get(names.LABEL_QUOTA_LENDS) != "false",
        guarantees=labels.get(names.LABEL_QUOTA_GUARANTEE, annotations.get(names.LABEL_QUOTA_GUARANTEE)) == "true",
        keeps_min=labels.get(names.LABEL_QUOTA_FIXED_MIN, annotations.get(names.LABEL_QUOTA_FIXED_MIN)) == "true",
        namespaces=namespaces,
        total=_resource_list(annotations, names.ANNOTATION_QUOTA_TOTAL, problems),
        problems=tuple(problems),
    )


def read_amounts(annotations: Mapping[str, str], name: str) -> Amounts | Problem | None:
    """A resource list kept as JSON in an annotation; None when it is absent, a Problem when any part is unreadable."""
    mapping = read_annotation(annotations, name, dict[str, str | int | float])
    if mapping is None or isinstance(mapping, Problem):
        return mapping
    amounts, problems = parse_amounts(mapping, annotation_field(name))
    if problems:
        field, message = problems[0]
        return Problem(field=field, message=message)
    return amounts


def _resource_list(annotations: Mapping[str, str], name: str, problems: list[tuple[str, str]]) -> Amounts | None:
    amounts = read_amounts(annotations, name)
    if isinstance(amounts, Problem):
        problems.append((amounts.field, f"{amounts.message}; the annotation is ignored"))
        return None
    return amounts


def _ceiling(quota: state.ElasticQuota) -> Amounts:
    """The max, where a limit that could not be read is 0 instead of no limit at all.

    A resource that the max does not name is free, so an unreadable entry must not simply be missing. One beyond 64 bits
    is readable in spirit: as much as can be said.
    """
    ceiling = dict(quota.max)
    for problem in quota.problems:
        prefix, _, rest = problem.field.partition("[")
        if prefix == "spec.max" and rest.endswith("]"):
            ceiling.setdefault(rest[:-1], AMOUNT_MAX if "too large" in problem.message else 0)
    return ceiling
