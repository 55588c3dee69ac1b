"""spec.topologySpreadConstraints: which of them can be honoured. One that cannot is left out and named."""

from __future__ import annotations

from typing import Final

from berth.contracts.kube import TopologySpreadConstraint
from berth.rules.reading.findings import Found
from berth.rules.reading.pod_affinity import check_label_keys, check_selector, check_topology_key

CONSTRAINTS_MAX: Final = 64
COUNT_MAX: Final = 2**31 - 1
HARD: Final = "DoNotSchedule"
POLICIES: Final = ("", "Honor", "Ignore")


def topology_spread_of(
    constraints: list[TopologySpreadConstraint], path: str, found: Found
) -> list[TopologySpreadConstraint]:
    """Those that can be honoured; `path` is where they stand."""
    if len(constraints) > CONSTRAINTS_MAX:
        found.append((path, f"has {len(constraints)} entries, at most {CONSTRAINTS_MAX} are accepted"))
        return []
    return [each for position, each in enumerate(constraints) if _is_sound(each, f"{path}[{position}]", found)]


def _is_sound(each: TopologySpreadConstraint, path: str, found: Found) -> bool:
    known = len(found)
    check_topology_key(each.topology_key, f"{path}.topologyKey", found)
    if not 1 <= each.max_skew <= COUNT_MAX:
        found.append((f"{path}.maxSkew", f"{each.max_skew} is not between 1 and {COUNT_MAX}"))
    if each.when_unsatisfiable not in (HARD, "ScheduleAnyway"):
        message = f"{each.when_unsatisfiable[:80]!r} is none of {HARD}, ScheduleAnyway"
        found.append((f"{path}.whenUnsatisfiable", message))
    if each.min_domains is not None:
        if not 1 <= each.min_domains <= COUNT_MAX:
            found.append((f"{path}.minDomains", f"{each.min_domains} is not between 1 and {COUNT_MAX}"))
        elif each.when_unsatisfiable != HARD:
            found.append((f"{path}.minDomains", f"may be given only where whenUnsatisfiable is {HARD}"))
    for field, policy in (
        ("nodeAffinityPolicy", each.node_affinity_policy),
        ("nodeTaintsPolicy", each.node_taints_policy),
    ):
        if policy not in POLICIES:
            found.append((f"{path}.{field}", f"{policy[:80]!r} is none of Honor, Ignore"))
    check_selector(each.label_selector, f"{path}.labelSelector", found)
    check_label_keys(each.match_label_keys, f"{path}.matchLabelKeys", found)
    return len(found) == known
