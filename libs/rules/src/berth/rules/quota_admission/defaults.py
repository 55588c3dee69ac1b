"""What the creation of an ElasticQuota fills in."""

from __future__ import annotations

from dataclasses import replace

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.bounded_json import annotation_field
from berth.rules.quota_admission.quota import PARENT, KnownQuotas, Quota, Refusal
from berth.rules.quota_of_pod import ROOT_GROUP


def with_defaults(quota: Quota, known: KnownQuotas) -> Quota | Refusal:
    """The quota as it is to be stored, or why nothing can be filled in. The root is left as it is.

    The parent is the root unless one is named; the tree is the parent's; the weights are the max, resource by resource.
    """
    if quota.name == ROOT_GROUP:
        return quota
    tree = quota.tree
    if not tree and not quota.is_below_root:
        above = known.get(quota.above)
        if above is None:
            return Refusal("parentNotFound", PARENT, f"quota {quota.above!r} does not exist")
        tree = above.tree
    weight = quota.weight
    if isinstance(weight, Problem):
        return Refusal("badSharedWeight", annotation_field(names.ANNOTATION_QUOTA_WEIGHT), weight.message)
    if weight:
        weight = {key: weight.get(key, limit) for key, limit in quota.max.items()}
    else:
        weight = dict(quota.max)
    return replace(quota, parent=quota.above, tree=tree, weight=weight)
