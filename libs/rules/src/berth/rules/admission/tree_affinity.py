"""Pods of a quota tree go to the nodes of that tree: its selector joins the pod's required node affinity."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import LABEL_QUOTA_NAME
from berth.rules.admission.draft import Draft, list_in, mapping_in
from berth.rules.admission.seam import Case
from berth.rules.quota_trees import Profile, profile_of_tree

_TERMS: Final = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def restrict(draft: Draft, profile: Profile) -> bool:
    """Adds what the tree asks of nodes to each required term, or makes one; says whether anything was missing."""
    wanted = [msgspec.to_builtins(each) for each in profile.requirements]
    wanted = [{name: value for name, value in each.items() if value is not None} for each in wanted]
    if not wanted:
        return False
    before = list_in(draft.now, *_TERMS)
    after: list[Any] = []
    for term in before or ({},):
        held = list_in(term, "matchExpressions")
        missing = [each for each in wanted if each not in held]
        after.append({**mapping_in(term), "matchExpressions": [*held, *missing]} if missing else term)
    if list(before) == after:
        return False
    draft.put(_TERMS, after)
    return True


def run(case: Case) -> None:
    """The rule. A pod of no tree is left alone."""
    views = case.views
    quota = views.quota_map.group_of(case.draft.labels.get(LABEL_QUOTA_NAME, ""), case.request.namespace)
    known = views.quotas.get(quota) if quota is not None else None
    profile = profile_of_tree(known.tree if known is not None else "", views.tree_profiles)
    if profile is None:
        return
    if profile.selector.problems:
        case.note(Problem(field="spec.affinity", message=f"the selector of tree {profile.tree!r} cannot be used"))
    elif restrict(case.draft, profile):
        case.counts["sent to tree"] += 1
