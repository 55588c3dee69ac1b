"""ElasticQuotas as they are written: what their creation fills in, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, format_amounts, parse_amounts
from berth.rules.admission.draft import mapping_in, texts_in
from berth.rules.admission.pod_quota import switches
from berth.rules.admission.seam import DELETE, UPDATE, Case
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.quota_admission.defaults import with_defaults
from berth.rules.quota_admission.quota import Quota, Refusal
from berth.rules.quota_admission.requests import creation_refusals, deletion_refusals, update_refusals
from berth.rules.quota_of_pod import parse_namespaces

FORCE: Final = names.QUOTA_PREFIX + "allow-force-update"
_LABELS: Final = ("metadata", "labels")
_WEIGHT: Final = ("metadata", "annotations", names.ANNOTATION_QUOTA_WEIGHT)


def read_quota(
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    *,
    least: Amounts,
    most: Amounts,
    used: Amounts,
) -> tuple[Quota, list[Problem]]:
    """An ElasticQuota as admission looks at it, and annotations that cannot be read: they count as absent.

    Args:
        name: its name.
        namespace: where it is.
        labels: its labels.
        annotations: its annotations.
        least: `spec.min`.
        most: `spec.max`.
        used: `status.used`.
    """
    problems: list[Problem] = []
    namespaces, problem = parse_namespaces(annotations)
    if problem is not None:
        problems.append(problem)
    strict = read_annotation(annotations, names.ANNOTATION_QUOTA_STRICT_KEYS, list[str])
    if isinstance(strict, Problem):
        problems.append(strict)
        strict = None
    guaranteed = _amounts(annotations, names.ANNOTATION_QUOTA_GUARANTEED)
    if isinstance(guaranteed, Problem):
        problems.append(guaranteed)
        guaranteed = None
    quota = Quota(
        name=name,
        namespace=namespace,
        parent=labels.get(names.LABEL_QUOTA_PARENT, ""),
        is_parent=labels.get(names.LABEL_QUOTA_IS_PARENT) == "true",
        is_root=labels.get(names.LABEL_QUOTA_IS_ROOT) == "true",
        tree=labels.get(names.LABEL_QUOTA_TREE, ""),
        is_forced=labels.get(FORCE) == "true",
        min=least,
        max=most,
        weight=_amounts(annotations, names.ANNOTATION_QUOTA_WEIGHT),
        guaranteed=guaranteed or {},
        namespaces=namespaces,
        used=used,
        strict_keys=tuple(strict or ()),
    )
    return quota, problems


def defaulting(case: Case) -> None:
    """The rule of creation: parent, tree and weights."""
    quota = _written(case, case.draft.now)
    if quota is None:
        return
    filled = with_defaults(quota, case.views.quotas)
    if isinstance(filled, Refusal):
        case.refuse(*filled)
        return
    if filled is quota:  # the root
        return
    case.draft.put((*_LABELS, names.LABEL_QUOTA_PARENT), filled.parent)
    if filled.tree:
        case.draft.put((*_LABELS, names.LABEL_QUOTA_TREE), filled.tree)
    if isinstance(filled.weight, dict) and filled.weight != quota.weight:
        case.draft.put(_WEIGHT, msgspec.json.encode(format_amounts(filled.weight)).decode())


def validating(case: Case) -> None:
    """The rule of creation, change and deletion. The tree is what was seen of it, and is never changed here."""
    views, request = case.views, case.request
    if request.operation == DELETE:
        for refusal in deletion_refusals(request.name, views.quotas, bound_pods=views.bound_pods(request.name)):
            case.refuse(*refusal)
        return
    quota = _written(case, case.draft.now)
    if quota is None:
        return
    if isinstance(quota.weight, Problem):
        case.refuse("badSharedWeight", annotation_field(names.ANNOTATION_QUOTA_WEIGHT), quota.weight.message)
    chosen = switches(case.gates)
    if request.operation == UPDATE:
        if mapping_in(case.draft.now, "metadata").get("deletionTimestamp"):
            return  # its finalizers may go, whatever it says
        bound = views.bound_pods(quota.name)
        for refusal in update_refusals(quota, views.quotas, bound_pods=bound, switches=chosen):
            case.refuse(*refusal)
        return
    for refusal in creation_refusals(quota, views.quotas, chosen):
        case.refuse(*refusal)


def _written(case: Case, item: Mapping[str, Any]) -> Quota | None:
    """The quota of the request; None, and refused, where an amount is none."""
    amounts: list[Amounts] = []
    for path in (("spec", "min"), ("spec", "max"), ("status", "used")):
        read, unread = parse_amounts(mapping_in(item, *path), ".".join(path), allow_negative=True)
        for field, message in unread:
            case.refuse("badQuantity", field, message)
        amounts.append(read)
    if case.refusals:
        return None
    quota, problems = read_quota(
        case.request.name or str(mapping_in(item, "metadata").get("name", "")),
        case.request.namespace,
        texts_in(item, "metadata", "labels"),
        texts_in(item, "metadata", "annotations"),
        least=amounts[0],
        most=amounts[1],
        used=amounts[2],
    )
    for problem in problems:
        case.note(problem)
    return quota


def _amounts(annotations: Mapping[str, str], name: str) -> Amounts | Problem | None:
    written = read_annotation(annotations, name, dict[str, str | int | float])
    if written is None or isinstance(written, Problem):
        return written
    amounts, unread = parse_amounts(written, annotation_field(name), allow_negative=True)
    for field, message in unread:
        return Problem(field=field, message=message)
    return amounts
