"""spec.affinity.podAffinity and podAntiAffinity: which terms can be honoured.

A term that no API server would accept is left out and named, so that a mistake never widens what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from berth.contracts.kube import Affinity, LabelSelector, PodAffinity, PodAffinityTerm
from berth.rules.reading.findings import NAME_LENGTH_MAX, Found
from berth.rules.selectors import compile_selector, is_label_key

TERMS_MAX: Final = 256
NAMESPACES_MAX: Final = 1024
LABEL_KEYS_MAX: Final = 64
WEIGHT_MAX: Final = 100

T = TypeVar("T")


def affinity_of(affinity: Affinity, path: str, found: Found) -> Affinity:
    """The affinity with those terms on pods that can be honoured; `path` is where it stands. Terms on nodes are left
    as they are: whoever evaluates them names what is wrong with them."""
    if affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        return affinity
    return msgspec.structs.replace(
        affinity,
        pod_affinity=_checked(affinity.pod_affinity, f"{path}.podAffinity", found),
        pod_anti_affinity=_checked(affinity.pod_anti_affinity, f"{path}.podAntiAffinity", found),
    )


def _checked(affinity: PodAffinity | None, path: str, found: Found) -> PodAffinity | None:
    if affinity is None:
        return None
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    field = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    kept = [
        term
        for position, term in enumerate(_bounded(required, field, found))
        if _is_term(term, f"{field}[{position}]", found)
    ]
    field = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    weighted = [
        each
        for position, each in enumerate(_bounded(preferred, field, found))
        if _is_weight(each.weight, f"{field}[{position}].weight", found)
        and _is_term(each.pod_affinity_term, f"{field}[{position}].podAffinityTerm", found)
    ]
    if not kept and not weighted:
        return None
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=kept or None,
        preferred_during_scheduling_ignored_during_execution=weighted or None,
    )


def _bounded(terms: list[T] | None, field: str, found: Found) -> list[T]:
    if terms is None or len(terms) <= TERMS_MAX:
        return terms or []
    found.append((field, f"has {len(terms)} terms, at most {TERMS_MAX} are accepted"))
    return []


def _is_weight(weight: int, field: str, found: Found) -> bool:
    if 1 <= weight <= WEIGHT_MAX:
        return True
    found.append((field, f"{weight} is not between 1 and {WEIGHT_MAX}"))
    return False


def _is_term(term: PodAffinityTerm, path: str, found: Found) -> bool:
    known = len(found)
    check_topology_key(term.topology_key, f"{path}.topologyKey", found)
    check_selector(term.label_selector, f"{path}.labelSelector", found)
    check_selector(term.namespace_selector, f"{path}.namespaceSelector", found)
    check_label_keys(term.match_label_keys, f"{path}.matchLabelKeys", found)
    check_label_keys(term.mismatch_label_keys, f"{path}.mismatchLabelKeys", found)
    namespaces = term.namespaces or ()
    if len(namespaces) > NAMESPACES_MAX:
        found.append((f"{path}.namespaces", f"has {len(namespaces)} entries, at most {NAMESPACES_MAX} are accepted"))
    elif any(not 0 < len(each) <= NAME_LENGTH_MAX for each in namespaces):
        found.append((f"{path}.namespaces", f"has a name that is empty or longer than {NAME_LENGTH_MAX} characters"))
    return len(found) == known


def check_topology_key(key: str, field: str, found: Found) -> None:
    """The label by which nodes form domains has to be one."""
    if not key:
        found.append((field, "is missing"))
    elif not is_label_key(key):
        found.append((field, f"{key[:80]!r} is no label key"))


def check_selector(selector: LabelSelector | None, field: str, found: Found) -> None:
    """Every expression of the selector can be evaluated."""
    if selector is not None:
        found += [(problem.field, problem.message) for problem in compile_selector(selector, field).problems]


def check_label_keys(keys: Sequence[str] | None, field: str, found: Found) -> None:
    """Keys that the API server has merged into the selector already."""
    if keys is None:
        return
    if len(keys) > LABEL_KEYS_MAX:
        found.append((field, f"has {len(keys)} entries, at most {LABEL_KEYS_MAX} are accepted"))
    elif not all(is_label_key(key) for key in keys):
        found.append((field, "has an entry that is no label key"))
